"""Settings of the gateway: where they come from, what they mean, what is refused.

Order: command line, then environment (`SPHRAGIS_*`), then the file, then defaults. The file is
the one named by `--config` or `SPHRAGIS_CONFIG`, else `$SPHRAGIS_HOME/sphragis.toml`, else
`$SPHRAGIS_HOME/sphragis.yaml` (flat keys, as existing gateways write it).

Invariant: nothing a person wrote is dropped in silence. A key nobody knows, a value that does not
parse, a named file that is not there or a protection that this version does not have stop the
start with one sentence; what is merely without effect becomes a warning. Values never appear in
the sentences, because they may be secrets. Called by `gateway.app` and `gateway.cli`.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import SplitResult, urlsplit

import yaml
from pydantic import BeforeValidator, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from gateway.credentials import PROVIDERS
from gateway.errors import GatewayError
from gateway.unix_path import CONTROL_SOCKET

DEFAULT_LISTEN: Final = "127.0.0.1:8787"
_LOOPBACK: Final = "127.0.0.1"
_PREFIX: Final = "SPHRAGIS_"
#: Variables of this program that are not settings.
_OTHER_VARIABLES: Final = frozenset(
    {"SPHRAGIS_CONFIG", "SPHRAGIS_VAULT_KEY", "SPHRAGIS_EVIDENCE_KEY", "SPHRAGIS_NO_COLOR"}
)
#: What Kubernetes sets in every container beside a service that is called `sphragis`.
_SERVICE_LINK: Final = re.compile(
    r"SPHRAGIS_SERVICE_(?:HOST|PORT(?:_\w+)?)|SPHRAGIS_PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?"
)
_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_FALSE: Final = frozenset({"false", "0", "no", "off"})


class SettingsError(GatewayError):
    """A setting is wrong; the sentence names the key and the place it was written."""


def _parse_flag(value: object) -> object:
    """Accept the spellings of contracts/gateway.md section 1, and nothing that only looks like
    one: a flag that silently reads as false is a protection that silently is off."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError("write true or false")


def _expand(value: object) -> object:
    return Path(os.path.expanduser(str(value))) if isinstance(value, str | Path) else value


def _split_list(value: object) -> object:
    if isinstance(value, str):
        return [item.strip() for item in value.split(",") if item.strip()]
    return value


def _split_command(value: object) -> object:
    """A command in one text is split as a shell would, without one."""
    return shlex.split(value) if isinstance(value, str) else value


Flag = Annotated[bool, BeforeValidator(_parse_flag)]
UserPath = Annotated[Path, BeforeValidator(_expand)]
CommandLine = Annotated[list[str], NoDecode, BeforeValidator(_split_command)]
TextList = Annotated[list[str], NoDecode, BeforeValidator(_split_list)]


class Settings(BaseSettings):
    """All settings, validated. Field names are the keys of the file; the environment name is
    `SPHRAGIS_` and the key in capitals."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True
    )

    home: UserPath = Field(default_factory=lambda: Path.home() / ".sphragis")
    listen_addr: str = DEFAULT_LISTEN
    listen_all: Flag = False
    anthropic_base_url: str = "https://api.anthropic.com"
    openai_base_url: str = "https://api.openai.com"
    google_base_url: str = "https://generativelanguage.googleapis.com"
    ollama_base_url: str = "http://127.0.0.1:11434"
    azure_base_url: str | None = None
    bedrock_base_url: str | None = None
    vertex_base_url: str | None = None
    upstream_base_url: str | None = None
    upstream_api_key: SecretStr | None = None
    anthropic_api_key: SecretStr | None = None
    openai_api_key: SecretStr | None = None
    google_api_key: SecretStr | None = None
    azure_api_key: SecretStr | None = None
    bedrock_api_key: SecretStr | None = None
    #: Whether a call that would spend one of these keys must show a key of the gateway's own: one
    #: of the file, or the one a deck made for the role (contracts/gateway.md section 3.6).
    require_client_key: Flag = False
    client_keys_file: UserPath | None = None
    policy_file: UserPath | None = None
    audit_log_path: UserPath | None = None
    vault_path: UserPath | None = None
    vault_keyfile: UserPath | None = None
    #: Gateways that share a vault share this too: tokens are made with it.
    token_keyfile: UserPath | None = None
    #: Program and arguments that print the vault's key; no shell reads them.
    vault_key_command: CommandLine = []
    #: The same two for the key that wraps the keys of kept evidence.
    evidence_keyfile: UserPath | None = None
    evidence_key_command: CommandLine = []
    auto_reveal: Flag = True
    #: Processes that scan. Two keep `/metrics` and the ledger responsive on two cores.
    scan_workers: int = Field(
        default_factory=lambda: min(4, max(1, os.cpu_count() or 1)), ge=1, le=256
    )
    #: Megabytes (MiB) of one request body (contracts/gateway.md section 3.2).
    body_limit_mib: int = Field(default=64, ge=1, le=1024)
    #: Calls in work at once; more are told to come back.
    max_calls: int = Field(default=512, ge=1)
    #: Seconds to reach the provider.
    connect_timeout: float = Field(default=15.0, gt=0, allow_inf_nan=False)
    #: Seconds between two reads from the provider. Long thinking without a byte was seen to last
    #: minutes; official clients wait 600 s.
    read_timeout: float = Field(default=600.0, gt=0, allow_inf_nan=False)
    #: Free MiB below which no call is taken, so that the ledger can always finish its records.
    disk_low_water_mib: int = Field(default=64, ge=0)
    #: MiB of disk the ledger holds back for its last words on a full disk; 0 for none
    #: (contracts/ledger.md section 2.5).
    audit_reserve_mib: int = Field(default=64, ge=0, le=1024)

    #: One term a line, replaced wherever it stands; adds to the policy's own terms.
    custom_terms_file: UserPath | None = None

    # How the ledger's head leaves the machine (contracts/ledger.md section 2.8). The receipt in
    # every answer is always on; each of these works beside the others.
    #: Witnesses that cosign each head: the URL, a space, and the witness's vkey.
    witnesses: TextList = []
    #: An RFC 3161 authority that stamps the head hourly and after each seal: its URL, or a program
    #: that reads a request on its standard input and prints the response.
    tsa_url: str | None = None
    tsa_command: CommandLine = []
    #: PEM certificates that its stamps must lead to; without them the chain is not checked.
    tsa_ca_file: UserPath | None = None
    #: OpenTimestamps by the program `ots`, hourly; `ots_calendars` are asked in place of its own.
    ots: Flag = False
    ots_calendars: TextList = []
    #: A program that gets each head (a signed note) on its standard input.
    head_command: CommandLine = []
    #: A file that gets a line for each head: origin, size, root in base64, Unix seconds.
    head_file: UserPath | None = None
    #: A file that always is the newest head, a signed note.
    head_note_file: UserPath | None = None
    #: A syslog that gets an RFC 5424 message for each head: unix:/dev/log or udp:HOST:PORT.
    head_syslog: str | None = None
    #: Seconds between two heads that go to witnesses and copies.
    head_seconds: float = Field(default=10.0, ge=0.1, le=86400, allow_inf_nan=False)
    #: Let the ledgers of this machine (gateways and decks of one user) record each other's heads.
    neighbors: Flag = True

    # Accepted for existing configurations; see `_refuse_missing_protection` and `warnings_of`.
    route_autodetect: Flag = True
    ner_url: str | None = None
    ner_builtin: Flag = False
    eu_pack: Flag = False

    @field_validator(
        "anthropic_base_url",
        "openai_base_url",
        "google_base_url",
        "ollama_base_url",
        "azure_base_url",
        "bedrock_base_url",
        "vertex_base_url",
        "upstream_base_url",
        "tsa_url",
    )
    @classmethod
    def _check_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        plain = value.isascii() and value.isprintable() and " " not in value
        if not plain or parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("write a URL such as https://api.example.com")
        if not _has_valid_port(parts):
            raise ValueError("write a port from 1 to 65535, or none")
        if parts.query or parts.fragment or parts.username or parts.password:
            raise ValueError("write only scheme, host and path")
        return value.rstrip("/")

    @field_validator("witnesses")
    @classmethod
    def _check_witnesses(cls, value: list[str]) -> list[str]:
        if value:
            from shared.anchors.client import parse_target
            from shared.ledger import NoteRefused

            try:
                names = [parse_target(text).name for text in value]
            except NoteRefused:
                raise ValueError("write each witness as its URL, a space and its vkey") from None
            if len(set(names)) < len(names):
                raise ValueError("name each witness once")
        return value

    @field_validator("head_syslog")
    @classmethod
    def _check_syslog(cls, value: str | None) -> str | None:
        if value is not None:
            from shared.anchors.copies import parse_syslog

            parse_syslog(value)
        return value

    @property
    def listen(self) -> tuple[str, int]:
        """Host and port to listen on. Raises SettingsError."""
        host, port = parse_listen_addr(self.listen_addr, listen_all=self.listen_all)
        if not _is_loopback(host):
            raise SettingsError(
                f"listen_addr {host}:{port} can be reached from other machines, which needs "
                f"client keys, and this version has none; use {_LOOPBACK}:{port} and leave "
                "listen_all off."
            )
        return host, port

    @property
    def ledger_dir(self) -> Path:
        """The ledger's directory. A file name of the old log format loses its suffix, because
        the ledger is a directory and the old file must stay as it is."""
        if self.audit_log_path is None:
            return self.home / "ledger"
        if self.audit_log_path.suffix == ".jsonl":
            return self.audit_log_path.with_suffix("")
        return self.audit_log_path

    @property
    def keys_dir(self) -> Path:
        """The directory of every key this gateway makes for itself."""
        return self.home / "keys"

    @property
    def control_socket(self) -> Path:
        """Where decks and operators speak to the running gateway."""
        return self.home / CONTROL_SOCKET

    @property
    def stamps_file(self) -> Path:
        """Which tasks roles work on, for the next start."""
        return self.home / "stamps.json"

    @property
    def vault_file(self) -> Path:
        """The vault's database."""
        return self.vault_path or self.home / "vault.db"

    @property
    def vault_key_file(self) -> Path:
        """The file of the key that seals the vault."""
        return self.vault_keyfile or self.keys_dir / "vault.key"

    @property
    def token_key_file(self) -> Path:
        """The file of the key that tokens are made with."""
        return self.token_keyfile or self.keys_dir / "token.key"

    @property
    def pid_file(self) -> Path:
        """Where the running gateway leaves its identity for `stop` and `status`."""
        return self.home / "sphragis.pid"

    def upstream_for(self, provider: str) -> str | None:
        """Return the base URL of a provider (see `credentials.PROVIDERS`), or None if it is not
        known."""
        if self.upstream_base_url is not None:
            return self.upstream_base_url
        url: str | None = getattr(self, f"{provider}_base_url")
        return url

    def key_for(self, provider: str) -> str | None:
        """Return the key this gateway itself holds for a provider, or None.

        `upstream_api_key` belongs to `upstream_base_url`; without that, to the one provider whose
        keys look like it.
        """
        own: SecretStr | None = getattr(self, f"{provider}_api_key", None)
        shared = self.upstream_api_key
        if own is None and shared is not None:
            owner = _owner_of(shared.get_secret_value())
            own = shared if self.upstream_base_url is not None or owner == provider else None
        return own.get_secret_value() if own is not None else None

    @property
    def managed(self) -> tuple[str, ...]:
        """The providers whose key this gateway itself holds."""
        return tuple(name for name in PROVIDERS if self.key_for(name) is not None)

    @property
    def holds_keys(self) -> bool:
        """Whether a client of this gateway can spend a key it does not have."""
        return bool(self.managed)


def _owner_of(key: str) -> str:
    if key.startswith("AIza"):
        return "google"
    return "openai" if key.startswith("sk-") and not key.startswith("sk-ant-") else "anthropic"


def load_settings(config: Path | None = None, **overrides: Any) -> tuple[Settings, list[str]]:
    """Read the settings of this process; return them with sentences worth a warning.

    `config` is the file named on the command line; `overrides` are options given there (None =
    not given). Raises SettingsError.
    """
    path = _config_path(config)
    written = _read_file(path) if path is not None else {}
    given: dict[str, Any] = {key: value for key, value in overrides.items() if value is not None}

    class Sourced(Settings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            file_settings = InitSettingsSource(settings_cls, init_kwargs=written)
            return init_settings, env_settings, file_settings

    _refuse_unknown_variables(os.environ)
    try:
        settings = Sourced(**given)
    except ValidationError as wrong:
        raise SettingsError(_sentence(wrong, path)) from None
    _refuse_missing_protection(settings)
    return settings, warnings_of(settings)


def parse_listen_addr(text: str, *, listen_all: bool = False) -> tuple[str, int]:
    """Split `HOST:PORT`, `[IPV6]:PORT` or `:PORT` (this machine only, unless `listen_all`).

    Raises SettingsError.
    """
    host, colon, digits = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not (digits.isascii() and digits.isdigit()) or int(digits) > 65535:
        raise SettingsError(
            f"listen_addr must be HOST:PORT with a port from 0 to 65535, such as {DEFAULT_LISTEN}."
        )
    if not host:
        host = "0.0.0.0" if listen_all else _LOOPBACK  # noqa: S104 - refused below without keys
    return host, int(digits)


def warnings_of(settings: Settings) -> list[str]:
    """Say what was written and has no effect."""
    notes: list[str] = []
    if "eu_pack" in settings.model_fields_set and not settings.eu_pack:
        notes.append("eu_pack has no effect: its rules always run; a policy can allow a kind.")
    if settings.ots_calendars and not settings.ots:
        notes.append("ots_calendars has no effect: set ots to true to stamp heads there.")
    if settings.tsa_ca_file is not None and not (settings.tsa_url or settings.tsa_command):
        notes.append("tsa_ca_file has no effect: no authority is named by tsa_url.")
    if "route_autodetect" in settings.model_fields_set:
        notes.append("route_autodetect has no effect: the path alone decides the provider.")
    if settings.audit_log_path is not None and settings.audit_log_path.suffix == ".jsonl":
        notes.append(
            f"audit_log_path names a file; the ledger is kept in the directory "
            f"{settings.ledger_dir}."
        )
    return notes


def _refuse_unknown_variables(environ: Mapping[str, str]) -> None:
    """Stop for a variable that means nothing here: it may be a protection with a typing error."""
    known = {f"{_PREFIX}{name.upper()}" for name in Settings.model_fields} | _OTHER_VARIABLES
    for name in sorted(environ):
        written = name.upper()
        if not written.startswith(_PREFIX) or written in known or _is_service_link(name, environ):
            continue
        # What differs is behind the prefix; without anything there, nothing is near.
        meant = known if written != _PREFIX else ()
        near = difflib.get_close_matches(written, meant, n=1, cutoff=0.85)
        hint = f"perhaps {near[0]} is meant." if near else "remove it or correct its spelling."
        raise SettingsError(f"Unknown variable {name[:64]!r} in the environment: {hint}")


def _is_service_link(name: str, environ: Mapping[str, str]) -> bool:
    if name == f"{_PREFIX}PORT":
        return environ[name].startswith(("tcp://", "udp://", "sctp://"))
    return _SERVICE_LINK.fullmatch(name) is not None


def _config_path(config: Path | None) -> Path | None:
    named = config or os.environ.get(f"{_PREFIX}CONFIG") or None
    if named is not None:
        path = Path(os.path.expanduser(named))
        if not path.is_file():
            source = "--config" if config is not None else "SPHRAGIS_CONFIG"
            raise SettingsError(f"The file {path} that {source} names is not there; correct it.")
        return path
    home = Path(os.path.expanduser(os.environ.get(f"{_PREFIX}HOME") or "~/.sphragis"))
    return next(
        (p for p in (home / "sphragis.toml", home / "sphragis.yaml") if p.is_file()),
        None,
    )


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
        if path.suffix == ".toml":
            parsed: object = tomllib.loads(text)
        else:
            parsed = yaml.load(text, _StrictLoader)
    except (OSError, UnicodeDecodeError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) else "it is not UTF-8"
        raise SettingsError(f"The file {path} cannot be read: {reason}.") from None
    except tomllib.TOMLDecodeError as wrong:
        raise SettingsError(f"The file {path} is not TOML: {_where(str(wrong))}.") from None
    except yaml.MarkedYAMLError as wrong:
        line = f" in line {wrong.problem_mark.line + 1}" if wrong.problem_mark else ""
        raise SettingsError(f"The file {path} is not YAML{line}: {wrong.problem}.") from None
    except yaml.YAMLError:
        raise SettingsError(f"The file {path} is not YAML.") from None
    except (RecursionError, ValueError):
        # Thousands of brackets or digits, a date that there is not: syntax, and yet no value.
        raise SettingsError(
            f"The file {path} holds a number, a date or a nesting that cannot be; correct it."
        ) from None
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise SettingsError(f"The file {path} must hold one `key: value` a line.")
    for key in parsed:
        if key not in Settings.model_fields or key == "home":
            raise SettingsError(f"Unknown key {str(key)[:64]!r} in {path}; remove or correct it.")
    return {key: value for key, value in parsed.items() if value is not None}


class _StrictLoader(yaml.SafeLoader):
    """YAML in which a key written twice is an error instead of the last one winning."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str):
                if key in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"the key {key[:64]!r} is written twice",
                        problem_mark=key_node.start_mark,
                    )
                seen.add(key)
        return super().construct_mapping(node, deep)


def _where(message: str) -> str:
    """Keep the position of a TOML error; its text may quote the value."""
    at = message.rfind("(at ")
    return message[at + 1 : -1] if at >= 0 else "check its syntax"


def _sentence(wrong: ValidationError, path: Path | None) -> str:
    first = wrong.errors(include_url=False, include_input=False, include_context=False)[0]
    key = str(first["loc"][0]) if first["loc"] else "settings"
    variable = f"{_PREFIX}{key.upper()}"
    if os.environ.get(variable):
        place = f"the variable {variable}"
    else:
        place = f"{key} in {path}" if path is not None else key
    reason = first["msg"].removeprefix("Value error, ")
    return f"The value of {place} cannot be used: {reason[:1].lower()}{reason[1:]}."


def _refuse_missing_protection(settings: Settings) -> None:
    """Stop where going on would leave text unprotected that the owner believes protected."""
    absent = {
        "ner_url": settings.ner_url is not None,
        "ner_builtin": settings.ner_builtin,
    }
    for key, wanted in absent.items():
        if wanted:
            raise SettingsError(
                f"{key} asks for a detector that this gateway does not have; remove the key, and "
                "have a model find names by the table [ner] of the policy file."
            )


def _has_valid_port(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
