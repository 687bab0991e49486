"""Erasing what was kept of somebody: the keys go, the rest is wrapped anew, a record proves it.

Owns the order of an erasure. Each step is noted in dek.db before the next begins and can be done
twice, so a kill at any moment is mended by running the same request again, or by the next start,
and there is one record in the end. Order: plan, other memory (vault), keys, files, record. The
tree of the log is never touched: what a record committed to still proves, only its content is
gone. A hold or a retention class stops it before anything is changed. Called by the gateway's
control interface and verbs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, Final

from shared.evidence import holds, records
from shared.evidence.errors import EvidenceBlocked, EvidenceError
from shared.evidence.keys import Erasure
from shared.evidence.requests import flag, optional_text, required_text, time_of
from shared.evidence.retention import Blocked, Kept, date_of, decide, holding, sentence
from shared.evidence.stores import Stores
from shared.keyfile import KeyPlace
from shared.ledger import Ledger

Progress = Callable[[str], None]

#: Keys and record numbers in one record: a record line is 60 KiB at most.
KEYS_IN_RECORD: Final = 500
SEQS_IN_RECORD: Final = 2_000
#: States of an erasure before its first key is destroyed.
_NOTHING_GONE: Final = frozenset({"planned", "vaulted"})


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be erased: everything of a subject or a session, what was kept before a time
    (microseconds since 1970), or what nothing holds any more; several of them narrow it."""

    subject: str
    session: str
    before: int | None
    expired: bool

    def digest(self, stores: Stores) -> str:
        """Return what tells this wish from others without naming anybody."""
        parts = (
            stores.subject_c(self.subject) if self.subject else "",
            stores.session_c(self.session),
            self.before,
            self.expired,
        )
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def erase(
    ledger: Ledger,
    stores: Stores,
    request: Mapping[str, Any],
    *,
    progress: Progress = lambda _: None,
) -> dict[str, Any]:
    """Erase by `subject`, `session`, `before` (a date), `expired` (true); `basis`, `operator` and
    `request` (an id) are recorded. With `dry_run` nothing is changed. `new_key_file` is needed
    where the wrapping key is in no file. `progress` is told each step, for tests.

    The same request again goes on where it was cut short, or tells what it did. Raises
    EvidenceBlocked when a hold or a retention class forbids it, EvidenceError otherwise.
    """
    wish = _wish(request)
    basis, operator = required_text(request, "basis"), required_text(request, "operator")
    name = required_text(request, "request")
    if flag(request, "dry_run"):
        return _preview(stores, wish)
    stores.keys.open()
    known = stores.keys.erasure(name)
    if known is not None:
        if known.plan["wish"] != wish.digest(stores):
            raise EvidenceError(
                "A request with this id erased something else; give this one another id."
            )
        if known.state == "done":
            return {**_answer(known), "already": True}
    with stores.store.alone():
        if known is None:
            kept = _chosen(stores, wish)
            _check(ledger, stores, kept, name, operator)
            if kept:
                # Before anything is noted: what cannot be done must not stop the next start.
                stores.keys.check_new_key(_file(optional_text(request, "new_key_file")))
            plan = {
                "wish": wish.digest(stores),
                "keys": [item.keyid for item in kept],
                "subject_c": stores.subject_c(wish.subject) if wish.subject else "",
                "session_c": stores.session_c(wish.session),
                "before": wish.before or 0,
                "basis": basis,
                "operator": operator,
                "owners": stores.other.owners(wish.subject, wish.session),
                "new_key_file": optional_text(request, "new_key_file"),
                "from": ledger.size,
            }
            stores.keys.begin(name, plan)
            progress("planned")
        elif known.state in _NOTHING_GONE and known.plan["keys"]:
            # The first time may have failed for the lack of just this.
            file = optional_text(request, "new_key_file") or known.plan["new_key_file"]
            stores.keys.check_new_key(_file(file))
            _advance(stores, known, known.state, new_key_file=file)
        return _answer(_run(ledger, stores, name, progress))


def resume(ledger: Ledger, stores: Stores) -> list[str]:
    """End the erasures that were cut short; return their requests. One that a hold forbids by now,
    or that lacks a new wrapping key, and that has destroyed nothing yet stays as it is: whoever
    asked for it can ask again. Raises EvidenceError."""
    if not stores.keys.exists:
        return []
    stores.keys.open()
    ended = []
    with stores.store.alone():
        for erasure in stores.keys.unfinished():
            if erasure.state in _NOTHING_GONE:
                kept = _of_keys(stores, erasure.plan["keys"])
                if decide(kept, _holds(stores), stores.now()):
                    continue
                try:
                    if erasure.plan["keys"]:
                        stores.keys.check_new_key(_file(erasure.plan["new_key_file"]))
                except EvidenceError:
                    continue
            _run(ledger, stores, erasure.request, lambda _: None)
            ended.append(erasure.request)
    return ended


def _wish(request: Mapping[str, Any]) -> Wish:
    wish = Wish(
        optional_text(request, "subject"),
        optional_text(request, "session"),
        time_of(request, "before"),
        flag(request, "expired"),
    )
    if not (wish.subject or wish.session or wish.before is not None or wish.expired):
        raise EvidenceError("Name what to erase: --subject, --session, --before or --expired.")
    return wish


def _chosen(stores: Stores, wish: Wish) -> list[Kept]:
    """Return the groups that a wish means, with the records that name them."""
    subject_c = stores.subject_c(wish.subject) if wish.subject else ""
    session_c = stores.session_c(wish.session)
    if not stores.keys.exists:
        return []
    stores.keys.open()
    chosen = [
        item
        for item in stores.keys.all()
        if (not subject_c or item.subject_c == subject_c)
        and (not session_c or item.session_c == session_c)
        and (wish.before is None or item.created < wish.before)
    ]
    if wish.expired:
        known, now = _holds(stores), stores.now()
        ended = [item for item in chosen if item.retention and item.until <= now]
        chosen = [item for item in ended if holding(item, known, now) is None]
    return _with_records(stores, chosen)


def _of_keys(stores: Stores, keyids: Sequence[str]) -> list[Kept]:
    wanted = set(keyids)
    return [item for item in stores.keys.all() if item.keyid in wanted]


def _with_records(stores: Stores, kept: Sequence[Kept]) -> list[Kept]:
    if not kept:
        return []
    by_key = records.named(stores.ledger_dir)
    return [changed(item, records=by_key.get(item.keyid, ())) for item in kept]


def _holds(stores: Stores) -> list[holds.Hold]:
    return holds.active(records.records(stores.ledger_dir, records.HOLD), stores.now())


def _check(ledger: Ledger, stores: Stores, kept: Sequence[Kept], name: str, operator: str) -> None:
    """Raise EvidenceBlocked, with a record of the refusal, when something must stay."""
    blocked = decide(kept, _holds(stores), stores.now())
    if not blocked:
        return
    said = sentence(blocked, "The erasure")
    refuse(ledger, "erase", operator, blocked, request=name)
    raise EvidenceBlocked(said)


def refuse(
    ledger: Ledger, what: str, operator: str, blocked: Sequence[Blocked], request: str = ""
) -> None:
    """Record that something was asked for and must not be."""
    reasons = sorted({item.reason for item in blocked})[:20]
    seqs = sorted({seq for item in blocked for seq in item.records})
    ext: dict[str, Any] = {"operator": operator, "reasons": reasons, "records": _seqs(seqs)}
    if request:
        ext["request"] = request
    fields = {
        "actor": {"role": "operator"},
        "action": {"kind": what},
        "outcome": {"status": "refused"},
        "ext": ext,
    }
    ledger.append("deny", fields).result()


def _run(ledger: Ledger, stores: Stores, name: str, progress: Progress) -> Erasure:
    """Go on with an erasure from the step it came to."""
    erasure = _now(stores, name)
    if erasure.state == "planned":
        owners = erasure.plan["owners"]
        count = stores.other.forget(owners) if owners else 0
        progress("other_forgotten")
        erasure = _advance(stores, erasure, "vaulted", other=count)
    if erasure.state == "vaulted":
        keyids = erasure.plan["keys"]
        by_key = records.named(stores.ledger_dir) if keyids else {}
        seqs = sorted({seq for keyid in keyids for seq in by_key.get(keyid, ())})
        erasure = Erasure(name, erasure.state, {**erasure.plan, "records": seqs})
        if keyids:
            file = _file(erasure.plan["new_key_file"])
            stores.keys.shred(erasure, keyids, file, progress=progress)
            erasure = _now(stores, name)
        else:
            erasure = _advance(stores, erasure, "shredded")
    if erasure.state == "shredded":
        stores.keys.compact()
        progress("compacted")
        files = stores.store.sweep(set(erasure.plan["keys"]))
        progress("swept")
        erasure = _advance(stores, erasure, "swept", files=files)
    if erasure.state == "swept":
        stores.other.settle(ledger)
        progress("other_recorded")
        seqs = _record(ledger, stores, erasure, progress)
        erasure = _advance(stores, erasure, "done", recorded=seqs)
        progress("done")
    return erasure


def _file(name: str) -> Path | None:
    return Path(name) if name else None


def _now(stores: Stores, name: str) -> Erasure:
    erasure = stores.keys.erasure(name)
    if erasure is None:
        raise EvidenceError("The journal of this erasure is gone; restore dek.db from a backup.")
    return erasure


def _advance(stores: Stores, erasure: Erasure, state: str, **more: Any) -> Erasure:
    plan = {**erasure.plan, **more}
    stores.keys.advance(erasure.request, state, plan)
    return Erasure(erasure.request, state, plan)


def _record(ledger: Ledger, stores: Stores, erasure: Erasure, progress: Progress) -> list[int]:
    """Append the record (several, when there are very many keys), each exactly once."""
    plan = erasure.plan
    keys = plan["keys"]
    parts = [keys[at : at + KEYS_IN_RECORD] for at in range(0, len(keys), KEYS_IN_RECORD)] or [[]]
    there = {
        record["ext"]["part"]: record["seq"]
        for record in records.records(stores.ledger_dir, records.ERASE, start=plan["from"])
        if record["type"] == "erase" and record.get("ext", {}).get("request") == erasure.request
    }
    for number, part in enumerate(parts):
        if number in there:
            continue
        ext: dict[str, Any] = {
            "keys": part,
            "basis": plan["basis"],
            "operator": plan["operator"],
            "request": erasure.request,
            "part": number,
            "parts": len(parts),
        }
        if number == 0:
            ext |= {"records": _seqs(plan["records"]), "files": plan["files"]}
            ext["other"] = plan["other"]
        for key in ("subject_c", "session_c", "kek"):
            if plan.get(key):
                ext[key] = plan[key]
        fields = {"actor": {"role": "operator"}, "action": {"kind": "erase"}, "ext": ext}
        there[number] = ledger.append("erase", fields).result().seq
        progress("recorded")
    return [there[number] for number in range(len(parts))]


def _seqs(seqs: Sequence[int]) -> list[int] | dict[str, int]:
    """Return record numbers, or their count and bounds when there are too many for a record."""
    if len(seqs) <= SEQS_IN_RECORD:
        return list(seqs)
    return {"count": len(seqs), "first": seqs[0], "last": seqs[-1]}


def _answer(erasure: Erasure) -> dict[str, Any]:
    plan = erasure.plan
    return {
        "request": erasure.request,
        "seqs": plan["recorded"],
        "keys": len(plan["keys"]),
        "records": len(plan["records"]),
        "files": plan["files"],
        "other": plan["other"],
        "kek": plan.get("kek"),
        "new_key_file": plan["new_key_file"],
        "already": False,
    }


def _preview(stores: Stores, wish: Wish) -> dict[str, Any]:
    kept = _chosen(stores, wish)
    blocked = decide(kept, _holds(stores), stores.now())
    return {
        "dry_run": True,
        "keys": len(kept),
        "records": sorted({seq for item in kept for seq in item.records}),
        "other": len(stores.other.owners(wish.subject, wish.session)),
        "blocked": sentence(blocked, "The erasure") if blocked else "",
        "oldest": date_of(min(item.created for item in kept)) if kept else "",
        "needs_key_file": bool(kept) and stores.keys.place is not KeyPlace.FILE,
    }
