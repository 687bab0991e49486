"""Holds: what must not be deleted while somebody needs it, whatever else was asked.

Owns the meaning of `hold` records; the ledger itself is the only place where holds are kept.
Invariant: a hold counts from the record that places it until its end or the record that releases
it. `active` is pure; `hold` is the operation that writes the records. Called by `erase`, `prune`,
and the gateway's verbs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from shared.evidence.errors import EvidenceError
from shared.evidence.records import HOLD, records
from shared.evidence.requests import optional_text, required_text, time_of

if TYPE_CHECKING:
    from shared.evidence.stores import Stores
    from shared.ledger import Ledger

_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")


@dataclass(frozen=True, slots=True)
class Hold:
    """One hold. Without subject and session it covers everything; `until` in microseconds since
    1970, 0 is until it is released; `seq` is the record that placed it."""

    id: str
    subject_c: str
    session_c: str
    reason: str
    until: int
    seq: int

    def is_active(self, now: int) -> bool:
        """Tell whether it has not ended by itself at `now`."""
        return self.until == 0 or now < self.until

    def covers(self, subject_c: str, session_c: str) -> bool:
        """Tell whether evidence of this subject and session is meant."""
        return (not self.subject_c or self.subject_c == subject_c) and (
            not self.session_c or self.session_c == session_c
        )


def fold(records: Iterable[Mapping[str, Any]]) -> dict[str, Hold]:
    """Return the holds that were placed and not released, by id, from records in order; those that
    ended by themselves are among them. What is no hold record of ours is passed over."""
    holds: dict[str, Hold] = {}
    for record in records:
        if record.get("type") != "hold":
            continue
        ext = record.get("ext")
        if not isinstance(ext, Mapping) or not isinstance(ext.get("id"), str):
            continue
        if ext.get("state") == "released":
            holds.pop(ext["id"], None)
            continue
        scope = ext.get("scope")
        scope = scope if isinstance(scope, Mapping) else {}
        until = ext.get("until")
        holds[ext["id"]] = Hold(
            ext["id"],
            str(scope.get("subject_c", "")),
            str(scope.get("session", "")),
            str(ext.get("reason", "")),
            until if type(until) is int else 0,
            record["seq"],
        )
    return holds


def active(records: Iterable[Mapping[str, Any]], now: int) -> list[Hold]:
    """Return the holds in force at `now` (microseconds since 1970)."""
    return [hold for hold in fold(records).values() if hold.is_active(now)]


def hold(ledger: Ledger, stores: Stores, request: Mapping[str, Any]) -> dict[str, Any]:
    """Place or release a hold: `do` is `place` or `release`.

    `place` needs `id`, `reason`, `operator` and one of `subject`, `session` or `all` (true), and
    takes `until` (a date); `release` needs `id`, `reason` and `operator`. Raises EvidenceError.
    """
    do = required_text(request, "do")
    known = fold(records(ledger.directory, HOLD))
    name = required_text(request, "id")
    if not _ID.fullmatch(name):
        raise EvidenceError(
            "The id of a hold is 1 to 64 letters, digits, dots, colons or dashes; choose another."
        )
    if do == "release":
        return _release(ledger, known, name, request)
    if do != "place":
        raise EvidenceError("A hold can be placed or released.")
    if name in known:
        raise EvidenceError(f"The hold {name} is there already; release it, or choose another id.")
    until = time_of(request, "until")
    if until is not None and until <= stores.now():
        raise EvidenceError("--until is over already, so nothing would be held; name a later date.")
    ext = {
        "id": name,
        "state": "placed",
        "scope": _scope(stores, request),
        "reason": required_text(request, "reason"),
        "until": until or 0,
        "operator": required_text(request, "operator"),
    }
    return _record(ledger, ext)


def _release(
    ledger: Ledger, known: Mapping[str, Hold], name: str, request: Mapping[str, Any]
) -> dict[str, Any]:
    if name not in known:
        raise EvidenceError(f"There is no hold {name}; `sphragis hold list` shows which there are.")
    ext = {
        "id": name,
        "state": "released",
        "scope": _scope_of(known[name]),
        "reason": required_text(request, "reason"),
        "until": 0,
        "operator": required_text(request, "operator"),
    }
    return _record(ledger, ext)


def _record(ledger: Ledger, ext: dict[str, Any]) -> dict[str, Any]:
    fields = {"actor": {"role": "operator"}, "action": {"kind": "hold"}, "ext": ext}
    receipt = ledger.append("hold", fields).result()
    return {"id": ext["id"], "state": ext["state"], "seq": receipt.seq}


def _scope(stores: Stores, request: Mapping[str, Any]) -> dict[str, Any]:
    subject, session = optional_text(request, "subject"), optional_text(request, "session")
    everything = request.get("all") is True
    if everything == bool(subject or session):
        raise EvidenceError("Name what the hold covers: a subject, a session, or all.")
    scope: dict[str, Any] = {"all": True} if everything else {}
    if subject:
        scope["subject_c"] = stores.subject_c(subject)
    if session:
        scope["session"] = stores.session_c(session)
    return scope


def _scope_of(known: Hold) -> dict[str, Any]:
    scope: dict[str, Any] = {}
    if known.subject_c:
        scope["subject_c"] = known.subject_c
    if known.session_c:
        scope["session"] = known.session_c
    return scope or {"all": True}


def shown(found: Iterable[Mapping[str, Any]], now: int) -> list[dict[str, Any]]:
    """Return the holds of these records that were not released, as values for people and
    programs; those that ended by themselves are marked."""
    return [
        {
            "id": item.id,
            "state": "placed" if item.is_active(now) else "ended",
            "scope": _scope_of(item),
            "reason": item.reason,
            "until": item.until,
            "seq": item.seq,
        }
        for item in fold(found).values()
    ]
