"""The verbs for the vault and its keys: `sphragis vault stats|erase|rotate`, and `doctor`.

Invariants: no original is ever printed; values to erase are read from a file or standard input,
never from the command line, which others can see and shells remember; `doctor` only looks; what
changes the vault is recorded in the ledger, if there is one. All of them work beside a running
gateway. Wiring only: what happens is in `redaction.vault_store`. Called by `gateway.cli`.
"""

from __future__ import annotations

import contextlib
import json
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from gateway.errors import GatewayError
from shared.paths import expanded
from shared.screen import folded

if TYPE_CHECKING:
    from gateway.redaction.owed import Debt
    from gateway.redaction.policy import Policy
    from gateway.redaction.vault_store import Store
    from gateway.settings import Settings
    from shared.keyfile import KeySource

#: Longest text of values to erase, in characters.
_MAX_VALUES: Final = 4 << 20

verbs = typer.Typer(
    name="vault",
    help="Look into the vault, erase from it, change its key.",
    rich_markup_mode=None,
)
Config = Annotated[Path | None, typer.Option(help="Settings file (TOML, or flat YAML).")]


@verbs.command()
def stats(
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count what the vault holds, by kind; never what it is."""
    with _opened(config) as (store, settings):
        found = store.stats()
    told: dict[str, Any] = {
        "vault": str(settings.vault_file),
        "bytes": found.size,
        "owners": found.owners,
        "tokens": dict(found.entries),
        "originals": dict(found.originals),
        "oldest": _date(found.oldest),
    }
    if as_json:
        print(json.dumps(told))
        return
    print(f"{told['vault']}: {found.size} bytes, {found.owners} owner(s), oldest {told['oldest']}")
    for kind in sorted(found.entries):
        print(
            f"  {kind or 'other':<16} {found.entries[kind]:>8} token(s) "
            f"{found.originals.get(kind, 0):>8} original(s)"
        )


@verbs.command()
def erase(
    token: Annotated[str | None, typer.Option(help="One token, brackets included.")] = None,
    role: Annotated[
        str | None, typer.Option(help="A role, with all its sessions; `-` for calls without one.")
    ] = None,
    values_from: Annotated[
        Path | None,
        typer.Option(help="A file with one value a line, exactly as written; `-` reads the input."),
    ] = None,
    config: Config = None,
) -> None:
    """Erase a token, values, or all that a role introduced. A value that is sent again is stored
    again."""
    from gateway.redaction.vault import epoch_file, tell_others

    values = _values(values_from)
    if token is None and role is None and not values:
        raise GatewayError("Name what to erase: --token, --role or --values-from.")
    owner = None if role is None else "bare" if role == "-" else f"role/{role}"
    what = [name for name, given in (("token", token), ("role", role), ("values", values)) if given]
    debt = _due(config, "erase", "+".join(what))
    with _opened(config) as (store, settings):
        count = store.erase(owner=owner, token=token, values=values, debt=debt)
        tell_others(epoch_file(settings.vault_file))
    _record(config, debt, count)
    print(f"Erased {count} entr{'y' if count == 1 else 'ies'}.")


@verbs.command()
def rotate(
    new_key_file: Annotated[
        Path | None,
        typer.Option(
            help="Where the key comes from a variable or a command: the file of the new key, "
            "made if it is not there."
        ),
    ] = None,
    config: Config = None,
) -> None:
    """Seal the whole vault anew with a new key. Backups of the vault need the key of their time."""
    from shared.keyfile import KeyFileError, KeyPlace, read_or_make_key

    keys = _keys(_settings(config))
    try:
        new = None if new_key_file is None else read_or_make_key(expanded(new_key_file))
    except KeyFileError as wrong:
        raise GatewayError(str(wrong)) from wrong
    if new is not None and keys.place is KeyPlace.FILE:
        raise GatewayError(
            f"The vault's key is in {keys.file}, where the new one will be; leave --new-key-file."
        )
    debt = _due(config, "vault_key", "")
    with _opened(config) as (store, _):
        count = store.rotate(new, debt=debt)
    _record(config, debt, count)
    print(f"Sealed {count} original(s) anew.")
    if keys.place is not KeyPlace.FILE:
        print(
            f"Give the gateway the key in {new_key_file} from {keys.described()} from now on, and "
            "start it again."
        )


def doctor(config: Config = None) -> None:
    """Tell which policy and keys are in force.

    Exit code 1 if there is something to take care of.
    """
    from gateway.app import load_gateway_policy
    from gateway.redaction.policy import PolicyError

    settings = _settings(config)
    try:
        policy = load_gateway_policy(settings)
    except PolicyError as wrong:
        raise GatewayError(str(wrong)) from wrong
    source = settings.policy_file or "built in"
    lines = [
        ("policy", f"{policy.id} {policy.version} ({source}), digest {policy.digest[:16]}"),
        ("scope", f"tokens by {policy.scope}, restored to the role that sent the value"),
        ("token key", _token_key_line(settings)),
        *_vault_lines(settings, policy),
        ("evidence", _evidence_line(settings, policy)),
    ]
    troubles = list(_troubles(settings, policy))
    for name, text in lines:
        print(folded(f"{name:<10} {text}", 11))
    for trouble in troubles:
        print(folded(f"warning: {trouble}", 9))
    raise typer.Exit(1 if troubles else 0)


def _token_key_line(settings: Settings) -> str:
    line = f"{settings.token_key_file} ({_file_facts(settings.token_key_file)})"
    if settings.vault_path is not None and settings.token_keyfile is None:
        line += "; gateways that share the vault need the same token_keyfile for the same tokens"
    return line


def _vault_lines(settings: Settings, policy: Policy) -> Iterator[tuple[str, str]]:
    from gateway.redaction.policy import VaultMode
    from shared.keyfile import KeyPlace

    if policy.vault is VaultMode.OFF:
        yield (
            "vault",
            "off: tokens are stable, but nothing is ever restored; files and commands that agents "
            "write hold tokens instead of values",
        )
        return
    size = f"{settings.vault_file.stat().st_size} bytes" if settings.vault_file.exists() else "new"
    yield "vault", f"{settings.vault_file} ({size})"
    keys = _keys(settings)
    if keys.place is not KeyPlace.FILE:
        yield "vault key", f"from {keys.described()}"
        return
    yield "vault key", f"{keys.file} ({_file_facts(keys.file)})"
    yield (
        "care",
        "who has the key file and the vault can read every original; back them up apart, and "
        "lose the key, and nothing can be restored",
    )


def _evidence_line(settings: Settings, policy: Policy) -> str:
    from gateway.erasing import stores_of

    rules = policy.evidence
    if not rules.is_on:
        return "off: no payload is kept"
    keys = stores_of(settings, policy, b"").keys
    until = f", at least {rules.retention.days} days" if rules.retention.name else ""
    return (
        f"{rules.keep}, redacted, erased by {rules.subject}{until}; keys in {keys.path}, wrapped "
        f"by the key from {keys.described}"
    )


def _troubles(settings: Settings, policy: Policy) -> Iterator[str]:
    from gateway.redaction.policy import VaultMode
    from shared.keyfile import KeyPlace

    files = [settings.token_key_file]
    if policy.vault is VaultMode.ON:
        keys = _keys(settings)
        if keys.place is KeyPlace.FILE:
            files.append(keys.file)
            if settings.vault_file.exists() and not keys.file.exists():
                yield f"The key file {keys.file} is missing: the vault cannot be read; put it back."
            if keys.next_file.exists():
                yield f"A change of keys was cut short ({keys.next_file}); the next start ends it."
        files.append(settings.vault_file)
    for path in files:
        if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077:
            yield f"{path} is open to other users; run `chmod 600` on it."


def _file_facts(path: Path) -> str:
    try:
        info = path.stat()
    except OSError:
        return "made at the first start"
    days = max(0, int((time.time() - info.st_mtime) // 86_400))
    return f"mode {stat.S_IMODE(info.st_mode):04o}, {days} day(s) old"


def _due(config: Path | None, change: str, what: str) -> Debt | None:
    """Return the record that a change will need, which the vault notes together with the change.
    Raises GatewayError."""
    from gateway.vault_changes import due
    from gateway.verbs.erasing import login_name
    from shared.ledger import LedgerError

    try:
        return due(_settings(config), change, what, login_name())
    except LedgerError as wrong:
        raise GatewayError(str(wrong)) from wrong


def _record(config: Path | None, debt: Debt | None, count: int) -> None:
    """Have the ledger say that the vault was changed. Raises GatewayError: what was done stays
    done, and the vault holds the note of it until it is recorded."""
    from gateway.erasing import ask_or_do

    if debt is None:
        return
    try:
        ask_or_do(config, "vault-changed", {})
    except GatewayError as wrong:
        raise GatewayError(
            f"The vault was changed ({count} entries), but the ledger does not say so yet: {wrong} "
            "The next start of the gateway, or the next change, records it."
        ) from wrong


@contextlib.contextmanager
def _opened(config: Path | None) -> Iterator[tuple[Store, Settings]]:
    """The vault of the settings, which must exist. Raises GatewayError."""
    from gateway.redaction.vault_database import VaultError
    from gateway.redaction.vault_store import Store

    settings = _settings(config)
    if not settings.vault_file.exists():
        raise GatewayError(
            f"There is no vault at {settings.vault_file}; check SPHRAGIS_HOME and vault_path."
        )
    store = Store(settings.vault_file, _keys(settings))
    try:
        store.open()
        try:
            yield store, settings
        finally:
            store.close()
    except VaultError as wrong:
        raise GatewayError(str(wrong)) from wrong


def _settings(config: Path | None) -> Settings:
    from gateway.settings import load_settings

    return load_settings(config)[0]


def _keys(settings: Settings) -> KeySource:
    import os

    from shared.keyfile import KEY_VARIABLE, KeySource

    return KeySource(
        settings.vault_key_file,
        os.environ.get(KEY_VARIABLE),
        tuple(settings.vault_key_command),
    )


def _values(source: Path | None) -> list[str]:
    if source is None:
        return []
    try:
        if str(source) == "-":
            text = sys.stdin.read(_MAX_VALUES)
        else:
            with expanded(source).open(encoding="utf-8", newline="") as file:
                text = file.read(_MAX_VALUES)
    except (OSError, UnicodeDecodeError) as wrong:
        reason = wrong.strerror if isinstance(wrong, OSError) else "it is not UTF-8"
        raise GatewayError(f"The values in {source} cannot be read: {reason}.") from None
    return [line.removesuffix("\r") for line in text.split("\n") if line.strip()]


def _date(seconds: int | None) -> str | None:
    return None if seconds is None else time.strftime("%Y-%m-%d", time.gmtime(seconds))
