"""What a record says in one line, for a person who does not know the format.

Owns the sentence of every kind of record; those of a deck's operations are in `deck_words`.
Invariant: any record gets words, whatever its fields hold, so nothing here raises, and stored
text is in them only as `plain` lets it through. Pure. Called by `sphragis log` and the exports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Final

from shared.ledger.deck_words import OPS, any_op, gate_decision, gate_open
from shared.ledger.plain import PIECE, Record, because, counted, given, harmless, join, piece
from shared.ledger.selecting import at, decision_of, redactions_of, text_at, tokens_of


def moment(record: Record, zone: tzinfo | None = None) -> str:
    """Return when a record was written: local time to the second, or in `zone`."""
    ts = record.get("ts")
    try:
        assert type(ts) is int
        when = datetime.fromtimestamp(ts // 1_000_000, UTC).astimezone(zone)
    except (AssertionError, ValueError, OverflowError, OSError):
        return "?"
    return f"{when:%Y-%m-%d %H:%M:%S}"


def milliseconds(record: Record) -> str:
    """Return how long a call took, or an empty text."""
    took = at(record, "outcome", "dur_us")
    return f"{took / 1000:.0f}" if type(took) is int else ""


def tokens(record: Record) -> str:
    """Return the tokens of a call as `in/out`, or an empty text."""
    read, written = tokens_of(record)
    return f"{read}/{written}" if read or written else ""


def decision(record: Record) -> str:
    """Return what was decided, or an empty text."""
    return harmless(decision_of(record), PIECE)


def describe(record: Record) -> str:
    """Return what happened in one line."""
    kind = record.get("type")
    words = _WORDS.get(kind) if type(kind) is str else None
    if at(record, "action", "kind") == "control":
        return _control(record)
    op = text_at(record, "ext", "op")
    if op and (at(record, "action", "kind") == "deck" or words is None or kind == "journal"):
        words = OPS.get(op, any_op)
    return (words or _anything)(record)


def redacted(record: Record) -> str:
    """Return what was replaced, by kind: `3 values replaced (2 EMAIL, 1 PHONE)`."""
    counts = redactions_of(record)
    if not counts:
        return ""
    kinds = ", ".join(
        f"{count} {harmless(kind, 40)}"
        for kind, count in sorted(counts.items(), key=lambda kv: -kv[1])
    )
    return f"{counted(sum(counts.values()), 'value')} replaced ({kinds})"


# -- what decks and operators told the gateway -----------------------------------------------------


def _control(record: Record) -> str:
    by = piece(record, "actor", "agent") or "a program"
    name, role = piece(record, "action", "name") or "?", piece(record, "action", "target")
    task, code = piece(record, "task"), piece(record, "ext", "code")
    if code:
        return f"refused {by} the operation {name} on the control socket ({code})"
    if name == "stamp":
        works = f"works on {task} from here on" if task else "works on no task from here on"
        return f"{role or 'a role'} {works}, says {by}"
    step = piece(record, "ext", "step") or "asked"
    return join(f"{by}: {name} {step}", because(piece(record, "ext", "reason")))


# -- the gateway's records -------------------------------------------------------------------------


def _request(record: Record) -> str:
    model = piece(record, "model", "name")
    what = f"call to {piece(record, 'model', 'provider') or 'a provider'}{given(', model', model)}"
    return f"{what}; {redacted(record) or 'nothing replaced'}"


def _outcome(record: Record) -> str:
    status = text_at(record, "outcome", "status")
    http = piece(record, "outcome", "http")
    known = {
        "ok": "answered",
        "provider_error": "the provider refused it",
        "client_abort": "the client went away before the end",
        "cut": "the answer was cut off",
        "upstream_error": "the provider could not be reached",
        "stopped": "stopped with the gateway",
        "failed": "failed",
        "unknown": "how it ended is not known",
    }
    words = known.get(status, harmless(status, PIECE) or "ended")
    restored = at(record, "ext", "restored")
    return join(
        f"end of {piece(record, 'ref') or '?'}: {words}"
        + (f" ({http})" if http not in ("", "0") else ""),
        because(piece(record, "outcome", "cause")),
        f"; {counted(restored, 'value')} put back" if type(restored) is int and restored else "",
    ).replace(" ;", ";")


def _deny(record: Record) -> str:
    rules = at(record, "policy", "rules")
    codes = ", ".join(harmless(rule, 40) for rule in rules[:5]) if isinstance(rules, list) else ""
    http = piece(record, "outcome", "http")
    action = (piece(record, "action", name) for name in ("target", "name", "kind"))
    what = next(filter(None, action), "a call")
    reasons = at(record, "ext", "reasons")
    forbidden = reasons if isinstance(reasons, list) else []
    return join(
        f"refused {what}",
        given("for", codes),
        given("because of", ", ".join(harmless(reason, 80) for reason in forbidden[:3])),
        f"(answered {http})" if http else "",
    )


def _program(record: Record) -> str:
    name = piece(record, "ext", "program") or "the program"
    return join(name, piece(record, "ext", "version"))


def _start(record: Record) -> str:
    return f"{_program(record)} started"


def _stop(record: Record) -> str:
    return join(f"{_program(record)} stopped", given("by", piece(record, "ext", "reason")))


def _policy_set(record: Record) -> str:
    policy = join(piece(record, "policy", "id"), piece(record, "policy", "version"))
    digest = piece(record, "policy", "digest")[:16]
    return f"policy {policy or '?'} in force{given(', digest', digest)}"


def _config_set(record: Record) -> str:
    if at(record, "action", "kind") == "vault":
        return join(
            "the vault was sealed anew with another key",
            given("by", piece(record, "ext", "operator")),
        )
    digest = piece(record, "ext", "digest")[:16]
    return f"settings in force{given(', digest', digest)}"


def _key_rotate(record: Record) -> str:
    return "the log's signing key was changed; old and new key both signed this"


def _seal(record: Record) -> str:
    return f"end of the segment that began at record {piece(record, 'ext', 'first') or '?'}"


_ALARMS: Final = {
    "fork": "another history than was seen before",
    "rolled_back": "fewer records than were seen before",
    "key_changed": "signed by a key that no record names",
    "gone": "not where it was",
}


def _anchor(record: Record) -> str:
    kinds = {
        "neighbor": "the head of a neighboring log was noted",
        "witness": "a witness cosigned",
        "rfc3161": "a time-stamp authority stamped",
        "ots": "OpenTimestamps took",
        "block": "OpenTimestamps has a whole proof of",
        "copy": "a copy was sent out of",
    }
    kind, alarm = text_at(record, "ext", "kind"), text_at(record, "ext", "alarm")
    if kind == "ots" and text_at(record, "ext", "state") == "complete":
        kind = "block"
    what = kinds.get(kind, f"anchor {harmless(kind, 40)}".rstrip())
    if alarm:
        whose = "a neighboring log" if kind == "neighbor" else "this log, said by its witness"
        what = f"ALARM {_ALARMS.get(alarm, harmless(alarm, 40))}: {whose}"
    at_size = "at size" if alarm or kind == "neighbor" else "the log at size"
    return join(
        what,
        given(at_size, piece(record, "ext", "size")),
        given("of", piece(record, "ext", "origin")),
    )


def counted_of(record: Record, noun: str) -> str:
    """Return `ext.count` with its noun."""
    count = at(record, "ext", "count")
    return counted(count, noun) if type(count) is int else f"{noun}s"


def _erase(record: Record) -> str:
    if at(record, "action", "kind") == "prune":
        return join(
            "old segments were pruned",
            given("up to record", piece(record, "ext", "size")),
            because(piece(record, "ext", "basis")),
        )
    if at(record, "action", "kind") == "vault":
        if at(record, "ext", "change") == "expire":
            return join(counted_of(record, "value"), "in the vault expired")
        return join(
            counted_of(record, "value"),
            "erased from the vault",
            given("by", piece(record, "ext", "operator")),
        )
    keys = at(record, "ext", "keys")
    count = counted(len(keys), "key") if isinstance(keys, list) else "keys"
    return join(
        f"{count} of kept evidence destroyed",
        given("by", piece(record, "ext", "operator")),
        because(piece(record, "ext", "basis")),
    )


def _hold(record: Record) -> str:
    state = piece(record, "ext", "state") or "changed"
    return join(
        f"hold {piece(record, 'ext', 'id')} {state}",
        because(piece(record, "ext", "reason")),
    )


def _export(record: Record) -> str:
    count = at(record, "ext", "count")
    what = counted(count, "record") if type(count) is int else "records"
    return join(
        f"{what} exported as {piece(record, 'ext', 'format') or '?'}",
        given("by", piece(record, "ext", "user")),
        given("to", piece(record, "ext", "to")),
    )


def _recover(record: Record) -> str:
    if at(record, "ext", "accepted_loss") is True:
        kept, committed = at(record, "ext", "lost_from"), at(record, "ext", "committed")
        known = type(kept) is int and type(committed) is int and committed > kept
        lost = counted(committed - kept, "record") if known else "records"
        return join(
            f"a loss of {lost} was accepted",
            given("from record", piece(record, "ext", "lost_from")),
            given("by", piece(record, "ext", "operator")),
            because(piece(record, "ext", "reason")),
        )
    return f"a torn end of {piece(record, 'ext', 'bytes') or '?'} bytes was moved to quarantine"


def _clock_step(record: Record) -> str:
    start, end = at(record, "ext", "from"), at(record, "ext", "to")
    if type(start) is int and type(end) is int:
        return f"the clock was set back by {(start - end) / 1_000_000:.3f} s"
    return "the clock was set back"


def _heartbeat(record: Record) -> str:
    return "the program is alive and nothing else happened"


def _gap(record: Record) -> str:
    return join(
        "records could not be written for a while",
        because(piece(record, "ext", "reason") or piece(record, "ext", "cause")),
    )


def _genesis(record: Record) -> str:
    return join("the log begins", given("as", piece(record, "ext", "origin")))


def _delegate(record: Record) -> str:
    role = piece(record, "action", "target") or piece(record, "ext", "role")
    return join(
        f"work given to {role or 'a role'}",
        given("as", piece(record, "task") or piece(record, "id")),
    )


def _revoke(record: Record) -> str:
    return join("what was granted was taken back", given("from", piece(record, "action", "target")))


def _anything(record: Record) -> str:
    name = join(
        piece(record, "action", "kind"),
        piece(record, "action", "name"),
        piece(record, "action", "target"),
    )
    ext = record.get("ext")
    names = (
        ", ".join(harmless(key, 30) for key in list(ext)[:6]) if isinstance(ext, Mapping) else ""
    )
    return name or given("a record of another kind:", piece(record, "type")) + (
        f" with {names}" if names else ""
    )


_WORDS: Final[Mapping[str, Callable[[Record], str]]] = {
    "genesis": _genesis,
    "start": _start,
    "stop": _stop,
    "request": _request,
    "outcome": _outcome,
    "deny": _deny,
    "gate_open": gate_open,
    "gate_decision": gate_decision,
    "delegate": _delegate,
    "revoke": _revoke,
    "policy_set": _policy_set,
    "config_set": _config_set,
    "key_rotate": _key_rotate,
    "seal": _seal,
    "anchor": _anchor,
    "erase": _erase,
    "hold": _hold,
    "export": _export,
    "recover": _recover,
    "clock_step": _clock_step,
    "heartbeat": _heartbeat,
    "gap": _gap,
    "journal": _anything,
}
