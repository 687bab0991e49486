"""Logs for the tests of reading and exports: one record of every kind, at times of our choosing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from shared.ledger import Ledger

#: 2026-11-29 12:00:00 UTC.
NOON: Final = 1_795_953_600_000_000
ORIGIN: Final = "sphragis/0123456789abcdef"
DIGEST: Final = "d1" * 32
POLICY: Final = {"id": "default", "version": "3", "digest": DIGEST}
RUN: Final = "20261129T120000Z-abcd"


def request(number: int, role: str = "coder", task: str = "T1", **more: Any) -> dict[str, Any]:
    """The fields of a request record."""
    return {
        "id": f"call-{number}",
        "run": RUN,
        "task": task,
        "actor": {"role": role, "key": "0123456789abcdef"},
        "action": {
            "kind": "model_call",
            "name": "anthropic.messages",
            "target": "POST /v1/messages",
            "args_c": f"{number:064x}",
        },
        "policy": {**POLICY, "decision": "allow"},
        "model": {"provider": "anthropic", "name": "claude-sonnet-5"},
        "ext": {"bytes": 1200 + number, "stream": True, "redactions": {"EMAIL": 2, "PHONE": 1}},
        **more,
    }


def outcome(ref: int, *, status: str = "ok", ms: int = 1234, **more: Any) -> dict[str, Any]:
    """The fields of the outcome of request `ref`."""
    usage = {"input": 1000, "output": 250, "cache_creation": 10, "cache_read": 5}
    return {
        "ref": ref,
        "outcome": {
            "status": status,
            "http": 200,
            "dur_us": ms * 1000,
            "usage": usage,
            "stop": "end_turn",
        },
        "ext": {"bytes": 5000, "restored": 3},
        **more,
    }


def op(name: str, **more: Any) -> dict[str, Any]:
    """The fields of a deck's record."""
    ext = {"op": name, "at": NOON, **more}
    fields: dict[str, Any] = {"action": {"kind": "deck", "name": name}, "ext": ext, "run": RUN}
    if "role" in more:
        fields["action"]["target"] = more["role"]
    return fields


#: One of each kind that a program writes; number 0 is the genesis record, so these are 1, 2, …
EVERY_KIND: Final[tuple[tuple[str, Mapping[str, Any]], ...]] = (
    ("start", {"ext": {"program": "sphragis", "version": "1.0.0"}}),
    ("config_set", {"ext": {"digest": "c0" * 32, "settings": {"listen": "127.0.0.1:8787"}}}),
    ("policy_set", {"policy": {**POLICY, "decision": "set", "engine": "sphragis"}}),
    ("request", request(4)),
    ("outcome", outcome(4)),
    (
        "deny",
        {
            "id": "call-6",
            "actor": {"role": "reviewer"},
            "action": {"kind": "model_call", "name": "", "target": "POST /v1/odd"},
            "policy": {**POLICY, "decision": "deny", "rules": ["unknown_route"]},
            "outcome": {"status": "refused", "http": 404},
        },
    ),
    (
        "delegate",
        {
            "task": "T2",
            "id": "T2",
            **op("task-added", id="T2", role="coder", sender="lead", state="gated"),
        },
    ),
    (
        "gate_open",
        {"task": "T2", "gate": {"id": "G1", "state": "open"}, **op("gate-opened", id="G1")},
    ),
    (
        "gate_decision",
        {
            "task": "T2",
            "gate": {"id": "G1", "state": "approved", "approver": "you"},
            **op("gate-decided", id="G1", reason="looks right"),
        },
    ),
    ("journal", {"task": "T2", **op("task-moved", id="T2", state="typed", reason="first try")}),
    ("revoke", {"action": {"kind": "grant", "name": "revoke", "target": "coder"}}),
    ("anchor", {"ext": {"kind": "rfc3161", "size": 9, "root": "ab" * 32, "origin": "tsa.example"}}),
    (
        "hold",
        {"ext": {"id": "H1", "state": "placed", "scope": {"session": RUN}, "reason": "lawsuit"}},
    ),
    ("erase", {"ext": {"keys": ["k1", "k2"], "basis": "request", "operator": "you"}}),
    ("export", {"ext": {"format": "cef", "count": 3, "to": "x.cef", "user": "you"}}),
    ("heartbeat", {"ext": {"every_us": 60_000_000}}),
    ("gap", {"ext": {"reason": "disk full"}}),
    ("request", request(18, role="reviewer", task="T3")),
    ("stop", {"ext": {"reason": "signal"}}),
)


def ticking(step_us: int = 1_000_000, start: int = NOON) -> Callable[[], tuple[int, int]]:
    """A clock that goes on by `step_us` each time it is read."""
    state = [start]

    def clock() -> tuple[int, int]:
        state[0] += step_us
        return state[0], state[0] - NOON + 1_000

    return clock


def open_log(directory: Path, **more: Any) -> Ledger:
    """Open a log beside its keys."""
    keys = directory.with_name(f"{directory.name}-keys")
    more = {"clock": ticking(), "origin": ORIGIN, **more}
    return Ledger.open(directory, keys=keys, **more)


def sample(directory: Path, **more: Any) -> Path:
    """Write one record of every kind, each in a batch of its own."""
    with open_log(directory, **more) as ledger:
        for kind, fields in EVERY_KIND:
            ledger.append(kind, fields).result()
    return directory
