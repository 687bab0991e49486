"""The approvers that a team file names: their names, their keys, and whether there are enough.

Owns the form of both, and what keeps a team from being run with them. Invariant: whatever is wrong
with an approver keeps the team from starting; nobody is dropped silently, for a team would then
run with fewer than it asked for. Pure and light: every verb that reads the team file loads it.
`deck.team_reader` checks with it, `deck.approvals` verifies with the keys, `approver add` writes
them.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Final

#: Who is recorded where the deck itself ends a gate.
DECK_NAME: Final = "choragos"
KEY_PREFIX: Final = "ed25519:"
_KEY_BYTES: Final = 32
#: Fits the wire's field, a file's name and a line of a terminal.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
#: Names that records use for others.
_TAKEN: Final = frozenset({"operator", "unknown", DECK_NAME})


class BadApprover(ValueError):
    """A name or a key that no approver can have; the text says which and why."""


def check_name(name: str) -> str:
    """Return an approver's name. Raises BadApprover."""
    if not _NAME.fullmatch(name):
        raise BadApprover(
            "cannot be a name: it has 1 to 64 letters, digits, dots, hyphens or underscores and "
            "begins with a letter or a digit"
        )
    if name in _TAKEN:
        raise BadApprover("is a name that records use for others; take another")
    return name


def public_text(public: bytes) -> str:
    """Return a public key as the team file holds it: `ed25519:` and base64 of its 32 bytes."""
    return KEY_PREFIX + base64.b64encode(public).decode()


def public_key(text: str) -> bytes:
    """Return the 32 bytes of a key of the team file. Raises BadApprover."""
    advice = 'must be "ed25519:" and base64 of 32 bytes, as `choragos approver add` writes it'
    try:
        public = base64.b64decode(text.removeprefix(KEY_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise BadApprover(advice) from None
    if not text.startswith(KEY_PREFIX) or len(public) != _KEY_BYTES or public_text(public) != text:
        raise BadApprover(advice)
    return public


def problem(approvers: Mapping[str, str], wanted: Iterable[int], roles: Iterable[str]) -> str:
    """Return what keeps a team from being run with these approvers, as a sentence without its
    end, or ""."""
    for name, key in approvers.items():
        try:
            check_name(name)
            public_key(key)
        except BadApprover as bad:
            return f'approvers."{name[:64]}" {bad}'
    owners: dict[str, str] = {}
    for name, key in approvers.items():
        other = owners.setdefault(key, name)
        if other != name:
            return f"approvers: {other} and {name} have the same key, and a person counts once"
    for name in approvers:
        if name in set(roles):
            return f"approvers.{name} is the name of a role too; an approver is a person"
    most = max(wanted, default=1)
    if most > 1 and most > len(approvers):
        have = f"only {len(approvers)}" if approvers else "none"
        return (
            f"{most} approvals are asked for, and [approvers] names {have}; add approvers with "
            "`choragos approver add NAME`, or ask for fewer"
        )
    return ""
