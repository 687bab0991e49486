"""The policy file: what happens to a value of each kind.

Owns the TOML format of `policies/*.toml`. Invariant: a key nobody reads is an error naming it, so a
typo can never switch a protection off; the digest covers every byte that decides (the file and
its terms). Loaded once at start by the settings, sent to the scanning workers as text.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import ipaddress
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from gateway.redaction.tokens import KIND

E = TypeVar("E", bound=StrEnum)


class Action(StrEnum):
    """What to do with a value: replace it by its token, hide it for good, refuse the call, let it
    be."""

    TOKEN = "token"  # noqa: S105 - a policy word
    MASK = "mask"
    REFUSE = "refuse"
    ALLOW = "allow"


class Opaque(StrEnum):
    """Bytes nobody can read as text (images, PDFs): refuse the call, or pass and record them."""

    PASS = "pass"  # noqa: S105 - a policy word
    REFUSE = "refuse"


class Answers(StrEnum):
    """New values in a provider's answer: left as they are."""

    PASS = "pass"  # noqa: S105 - a policy word


class PolicyError(Exception):
    """The policy cannot be used; the text says which key or file, and what to do."""


@dataclass(frozen=True, slots=True)
class KindRule:
    """`restore`: whether the one who introduced a value gets it back in answers."""

    action: Action
    restore: bool


#: A kind the file does not name (an operator's own recognizer): hidden, and not given back.
UNNAMED_KIND: Final = KindRule(Action.TOKEN, restore=False)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What is left alone although a rule would find it."""

    ip: frozenset[str] = frozenset()
    emails: frozenset[str] = frozenset()
    placeholders: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Policy:
    """One loaded policy; `text` is the file, `digest` its sha256 in hex (with the terms)."""

    id: str
    version: str
    digest: str
    text: str
    kinds: Mapping[str, KindRule]
    opaque: Opaque = Opaque.PASS
    answers: Answers = Answers.PASS
    allowed: Allowed = field(default_factory=Allowed)
    terms: tuple[str, ...] = ()
    recognizers: tuple[str, ...] = ()

    def rule(self, kind: str) -> KindRule:
        """Return what to do with `kind`; a kind the file does not name is hidden for good."""
        return self.kinds.get(kind, UNNAMED_KIND)


#: Classes of addresses `allow.ip` may name.
IP_CLASSES: Final = frozenset(
    {"loopback", "unspecified", "private", "link_local", "documentation", "multicast", "broadcast"}
)
_TOP: Final = frozenset(
    {"id", "version", "opaque", "answers", "kinds", "allow", "terms", "recognizers"}
)
_ALLOW: Final = frozenset({"ip", "emails", "placeholders", "values"})
_TERMS: Final = frozenset({"file", "list"})
_KIND_KEYS: Final = frozenset({"action", "restore"})

#: A terms file holds names and project words; more than this is a mistake, not a list.
_MAX_TERMS_BYTES: Final = 4 * 1024 * 1024


def load_policy(path: Path | None = None) -> Policy:
    """Read the policy at `path`, or the base policy. Raises PolicyError with one sentence."""
    if path is None:
        return parse_policy(_base_text(), source="policies/base.toml", directory=None)
    try:
        text = path.expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(
            f"The policy file {path} cannot be read ({_reason(error)}); "
            "correct the path or the file."
        ) from None
    return parse_policy(text, source=str(path), directory=path.expanduser().parent)


def parse_policy(
    text: str,
    *,
    source: str,
    directory: Path | None,
    terms: tuple[str, ...] | None = None,
) -> Policy:
    """Read a policy from its text. `directory` anchors `terms.file`; `terms` given by the caller
    (a worker that must see what its parent saw) replaces what the file names."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"The policy {source} is not valid TOML: {error}.") from None
    _known_keys(document, _TOP, source, "")
    if terms is None:
        terms = _terms(document.get("terms", {}), source, directory)
    digest = hashlib.sha256(text.encode())
    if terms:
        digest.update(b"\0" + "\n".join(terms).encode())
    return Policy(
        id=_text(document, "id", source),
        version=_text(document, "version", source),
        digest=digest.hexdigest(),
        text=text,
        kinds=MappingProxyType(_kinds(document.get("kinds", {}), source)),
        opaque=_choice(Opaque, document.get("opaque", "refuse"), "opaque", source),
        answers=_choice(Answers, document.get("answers", "pass"), "answers", source),
        allowed=_allowed(document.get("allow", {}), source),
        terms=terms,
        recognizers=_strings(document.get("recognizers", []), "recognizers", source),
    )


def _base_text() -> str:
    """The installed package carries the policies; a checkout has them at its top level."""
    packaged = importlib.resources.files("gateway") / "policies" / "base.toml"
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    checkout = Path(__file__).resolve().parents[2] / "policies" / "base.toml"
    try:
        return checkout.read_text(encoding="utf-8")
    except OSError:
        raise PolicyError(
            "The base policy is not part of this installation; reinstall the package, "
            "or name a policy file in the settings."
        ) from None


def _kinds(table: Any, source: str) -> dict[str, KindRule]:
    _is_table(table, "kinds", source)
    rules: dict[str, KindRule] = {}
    for kind, entry in table.items():
        where = f"kinds.{kind}"
        if not KIND.fullmatch(kind):
            raise PolicyError(
                f"The policy {source} names the kind '{kind}'; a kind is written in capital "
                "letters and underscores, at most 32 of them."
            )
        _is_table(entry, where, source)
        _known_keys(entry, _KIND_KEYS, source, where + ".")
        action = _choice(Action, entry.get("action", "token"), where + ".action", source)
        restore = entry.get("restore", False)
        if not isinstance(restore, bool):
            raise PolicyError(f"In the policy {source}, {where}.restore must be true or false.")
        rules[kind] = KindRule(action, restore)
    return rules


def _allowed(table: Any, source: str) -> Allowed:
    _is_table(table, "allow", source)
    _known_keys(table, _ALLOW, source, "allow.")
    ip = frozenset(_strings(table.get("ip", []), "allow.ip", source))
    for name in sorted(ip - IP_CLASSES):
        try:
            ipaddress.ip_network(name)
        except ValueError:
            raise PolicyError(
                f"In the policy {source}, allow.ip holds '{name}'; use an address, a network, or "
                f"one of {', '.join(sorted(IP_CLASSES))}."
            ) from None
    return Allowed(
        ip=ip,
        emails=frozenset(
            s.lower() for s in _strings(table.get("emails", []), "allow.emails", source)
        ),
        placeholders=frozenset(
            s.lower() for s in _strings(table.get("placeholders", []), "allow.placeholders", source)
        ),
        values=frozenset(_strings(table.get("values", []), "allow.values", source)),
    )


def _terms(table: Any, source: str, directory: Path | None) -> tuple[str, ...]:
    _is_table(table, "terms", source)
    _known_keys(table, _TERMS, source, "terms.")
    found = list(_strings(table.get("list", []), "terms.list", source))
    name = table.get("file")
    if name is not None:
        if not isinstance(name, str) or not name:
            raise PolicyError(f"In the policy {source}, terms.file must be a path.")
        found += read_terms((directory or Path()) / Path(name).expanduser())
    return tuple(dict.fromkeys(t for t in (term.strip() for term in found) if t))


def read_terms(path: Path) -> list[str]:
    """Read a terms file: one term a line, `#` starts a comment line. Raises PolicyError."""
    try:
        if path.stat().st_size > _MAX_TERMS_BYTES:
            raise PolicyError(f"The terms file {path} is larger than 4 MiB; shorten it.")
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(
            f"The terms file {path} cannot be read ({_reason(error)}); "
            "correct the path or the file."
        ) from None
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _reason(error: Exception) -> str:
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else "not UTF-8"


def _known_keys(table: Mapping[str, Any], known: frozenset[str], source: str, prefix: str) -> None:
    for key in table:
        if key not in known:
            raise PolicyError(
                f"The policy {source} has the unknown key '{prefix}{key}'; known here: "
                f"{', '.join(sorted(known))}."
            )


def _is_table(value: Any, where: str, source: str) -> None:
    if not isinstance(value, dict):
        raise PolicyError(f"In the policy {source}, {where} must be a table.")


def _text(document: Mapping[str, Any], key: str, source: str) -> str:
    value = document.get(key)
    if not isinstance(value, str) or not value.strip():
        raise PolicyError(f"The policy {source} needs '{key}', a text in quotes.")
    return value


def _strings(value: Any, where: str, source: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise PolicyError(f"In the policy {source}, {where} must be a list of texts.")
    return tuple(value)


def _choice(options: type[E], value: Any, where: str, source: str) -> E:
    try:
        return options(value)
    except ValueError:
        known = ", ".join(sorted(options))
        raise PolicyError(
            f"In the policy {source}, {where} is '{value}'; use one of {known}."
        ) from None
