"""A record in full, for a person who does not know the format: what its kind is for, who acted,
under which policy, and every field that no sentence covers.

Owns `MEANING`. Invariant: whatever the fields hold, nothing raises and the text is harmless.
Pure. Called by `sphragis log show`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from shared.ledger.plain import PIECE, Record, given, harmless, join, piece
from shared.ledger.selecting import at, role_of

#: What each kind of record is for, for `log show`.
MEANING: Final[Mapping[str, str]] = {
    "genesis": "The first record: it names the log and its keys.",
    "start": "A program opened this log and began to work.",
    "stop": "The program ended in order.",
    "request": "An agent asked a model. This was on disk before a byte left for the provider.",
    "outcome": "How a call ended. It names the request it belongs to.",
    "deny": "Something was refused; nothing was sent on.",
    "gate_open": "Work waits until a person decides.",
    "gate_decision": "A person decided about work that waited.",
    "delegate": "Work was given to a role.",
    "revoke": "Something that was granted was taken back.",
    "policy_set": "From here on, decisions are made under this policy.",
    "config_set": "From here on, these settings are in force.",
    "key_rotate": "The log's signing key was replaced.",
    "seal": "The last record of a segment file; the file never changes again.",
    "anchor": "Proof that this log, or a neighboring one, existed as it was at that moment.",
    "erase": "Kept evidence was made unreadable, or old segments were removed, on purpose.",
    "hold": "An order to keep evidence was placed or lifted.",
    "export": "Records were copied out of a log in another format.",
    "recover": "The log was repaired when it was opened.",
    "clock_step": "The machine's clock went back; order is by number, never by time.",
    "heartbeat": "Sign of life: silence between heartbeats would need an explanation.",
    "gap": "Something could not be recorded for a while.",
    "journal": "A change in a deck's state, or what somebody asked of a running gateway.",
}


def who(record: Record) -> str:
    """Return who acted, in words."""
    role = harmless(role_of(record), PIECE)
    agent, key = piece(record, "actor", "agent"), piece(record, "actor", "key")
    words = join(given("role", role), f"through {agent}" if agent else "")
    words = words or "nobody named: the program itself, or a caller without a role"
    return words + (f", with the credential whose keyed fingerprint is {key}" if key else "")


def under(record: Record) -> str:
    """Return under which policy something was decided, in words, or an empty text."""
    if not isinstance(record.get("policy"), Mapping):
        return ""
    name = join(piece(record, "policy", "id"), piece(record, "policy", "version")) or "a policy"
    digest = piece(record, "policy", "digest")
    verdict = piece(record, "policy", "decision")
    rules = at(record, "policy", "rules")
    because = (
        ", ".join(harmless(rule, 60) for rule in rules[:10]) if isinstance(rules, list) else ""
    )
    return join(
        name,
        f"said {verdict}" if verdict and verdict != "set" else "",
        given("because of", because),
        f"(digest {digest})" if digest else "",
    )


def leftovers(record: Record) -> list[tuple[str, str]]:
    """Return the fields of `ext` and others that no sentence covers, as (name, value)."""
    rows: list[tuple[str, str]] = []
    for name in ("id", "run", "tenant", "obo", "gate", "evidence", "retention", "ext"):
        _flatten(name, record.get(name), rows)
    return rows


def _flatten(name: str, value: object, rows: list[tuple[str, str]]) -> None:
    if len(rows) >= _MOST_ROWS:
        return
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            _flatten(f"{name}.{key}", inner, rows)
    elif isinstance(value, list) and value and not all(type(inner) is str for inner in value):
        for index, inner in enumerate(value):
            _flatten(f"{name}[{index}]", inner, rows)
    elif isinstance(value, list):
        rows.append(
            (harmless(name, PIECE), ", ".join(harmless(inner, 200) for inner in value[:20]))
        )
    elif value not in (None, "", {}):
        rows.append((harmless(name, PIECE), harmless(value, 2000)))


_MOST_ROWS: Final = 200
