"""What records say about each other: two phases, gates, policies, texts, times.

Pure. Sees only records whose bytes are beyond doubt, in order, and adds findings. Where records
before are lost or pruned (`partial`), what only they could show is not held against the log.
Invariant: `batch` finds exactly what `look` finds record by record; it is only faster when there
is nothing but requests and outcomes under known policies. Called by `tail`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from shared.ledger.plain import counted, piece
from shared.ledger.selecting import at
from shared.ledger.verdict import Findings

_PLAIN: Final = frozenset({"request", "outcome"})
#: A silence is longer than this many heartbeat intervals.
SILENT_INTERVALS: Final = 3
_NOTHING: Final[Mapping[str, Any]] = {}


class Rules:
    """Follows the records of one log."""

    def __init__(self, findings: Findings) -> None:
        """Start in front of record 0."""
        self.findings = findings
        self.partial = False
        #: Whether `open` is all that was open before: a seal says it, also of pruned records.
        self.open_known = True
        self.ts = 0
        self.open: set[int] = set()
        #: Each kept text that a record names by its digest, and the first record that does.
        self.texts: dict[str, int] = {}
        #: What `erase` records say about pruned segments.
        self.pruned: list[Mapping[str, Any]] = []
        #: Ranges (kept, committed] of sizes that an accepted loss explains.
        self.losses: list[tuple[int, int]] = []
        #: The key of the segment being read, when a repair had to make another one.
        self.segment_key: object = None
        self._kind = ""
        self._running = False
        self._every = 0
        self._policies: set[str] = set()
        self._gates: dict[tuple[str, str], tuple[object, str]] = {}

    def batch(self, records: Sequence[Mapping[str, Any]], types: Set[str]) -> None:
        """Judge the records of a batch, which have these types."""
        done = 0
        if types <= _PLAIN and not self._every and records[0]["seq"]:
            done = self._take_plain(records)
        for record in records[done:]:
            self.look(record)

    def _take_plain(self, records: Sequence[Mapping[str, Any]]) -> int:
        """Take requests and outcomes up to the first of which more is to be judged; return how
        many these are."""
        waiting, agreed = self.open, None
        for number, record in enumerate(records):
            policy = record.get("policy")
            if policy is not None and policy != agreed:
                digest = policy.get("digest") if type(policy) is dict else None
                if type(digest) is not str or digest not in self._policies:
                    return number
                agreed = policy
            if "gate" in record:
                return number
            if record["type"] == "request":
                waiting.add(record["seq"])
            else:
                ref = record.get("ref")
                if type(ref) is not int or ref not in waiting:
                    return number
                waiting.remove(ref)
            self.ts, self._kind = record["ts"], record["type"]
        return len(records)

    def look(self, record: Mapping[str, Any]) -> None:
        """Judge one record."""
        kind, seq, ts = record["type"], record["seq"], record["ts"]
        ext, action = _part(record, "ext"), _part(record, "action")
        is_genesis = kind == "genesis" and (seq > 0 or ext is record.get("ext"))
        self._genesis(seq, is_genesis=is_genesis)
        self._time(kind, seq, ts)
        self._program(kind, seq)
        self._pair(record)
        if kind == "heartbeat":
            every = ext.get("every_us")
            self._every = every if type(every) is int else 0
        elif kind == "recover":
            kept, committed = ext.get("lost_from"), ext.get("committed")
            if type(kept) is int and type(committed) is int:
                self.losses.append((kept, committed))
                self.segment_key = ext.get("segment_key", self.segment_key)
            if ext.get("accepted_loss") is True:
                self.findings.note("loss_accepted", seq, _loss(record))
        elif kind == "erase" and action.get("kind") == "prune":
            self.pruned.append(ext)
        self._policy(kind, seq, _part(record, "policy"), ext)
        gate = _part(record, "gate")
        if gate:
            name = (str(record.get("run")), str(gate.get("id")))
            self._gate(kind, seq, name, gate.get("state"), action.get("args_c"))
        self.ts, self._kind = ts, kind

    def _genesis(self, seq: int, *, is_genesis: bool) -> None:
        if is_genesis is not (seq == 0):
            sentence = f"Record {seq} is {'a' if seq else 'no'} genesis: record 0 is, no other."
            self.findings.add("log_json_changed", seq, sentence)

    def _time(self, kind: str, seq: int, ts: int) -> None:
        if ts < self.ts and kind != "clock_step":
            self.findings.add(
                "clock_decreased",
                seq,
                f"The time of record {seq} is before that of the record it follows, and no "
                "clock_step record explains it.",
            )
        silence = ts - self.ts
        explained = self._kind == "stop" or kind in ("start", "recover")
        if self._every and silence > SILENT_INTERVALS * self._every and not explained:
            self.findings.note(
                "silence",
                seq,
                f"Nothing was recorded for {silence // 1_000_000} s before record {seq}, although "
                f"a heartbeat was due every {self._every // 1_000_000} s.",
            )

    def _program(self, kind: str, seq: int) -> None:
        if kind == "start":
            if self._running:
                self.findings.note(
                    "unclean_stop",
                    seq,
                    f"Record {seq} is a start, and no stop was recorded before it: the program "
                    "was killed or the machine went down.",
                )
            self._running = True
        elif kind == "stop":
            self._running = False

    def _pair(self, record: Mapping[str, Any]) -> None:
        if record["type"] == "request":
            self.open.add(record["seq"])
        elif record["type"] == "outcome":
            ref = record.get("ref")
            if type(ref) is int and ref in self.open:
                self.open.discard(ref)
            elif self.open_known:
                seq = record["seq"]
                self.findings.add(
                    "outcome_unpaired",
                    seq,
                    f"Record {seq} is the outcome of a request that is not open in this log.",
                )

    def _policy(
        self, kind: str, seq: int, policy: Mapping[str, Any], ext: Mapping[str, Any]
    ) -> None:
        if kind == "policy_set":
            self._policies.add(str(policy.get("digest")))
        elif self._is_unknown(policy, policy.get("digest")):
            sentence = f"Record {seq} was decided under a policy that no record before it sets."
            self.findings.add("policy_unknown", seq, sentence)
        named = {"policy_set": policy, "config_set": ext}.get(kind, _NOTHING).get("digest")
        if type(named) is str:
            self.texts.setdefault(named, seq)

    def _is_unknown(self, policy: Mapping[str, Any], digest: object) -> bool:
        decided = bool(policy.get("decision") and digest)
        return decided and str(digest) not in self._policies and not self.partial

    def _gate(
        self, kind: str, seq: int, name: tuple[str, str], state: object, shown: object
    ) -> None:
        if kind == "gate_open":
            self._gates[name] = (shown, "")
            return
        approved = state == "approved"
        if name not in self._gates:
            if (kind == "gate_decision" or approved) and not self.partial:
                self.findings.add(
                    "gate_unopened", seq, f"Record {seq} is about a gate that was never opened."
                )
            return
        opened, decided = self._gates[name]
        if kind == "gate_decision":
            if decided:
                sentence = f"Record {seq} decides a gate that was decided before; one decides once."
                self.findings.add("gate_decided_twice", seq, sentence)
            elif approved and shown and shown != opened:
                sentence = f"Record {seq} approves something else than its gate was opened for."
                self.findings.add("gate_changed", seq, sentence)
            self._gates[name] = (opened, decided or str(state or "decided"))
        elif (kind == "request" or approved) and decided != "approved":
            self.findings.add(
                "gate_not_approved",
                seq,
                f"Record {seq} acts behind a gate that was not approved before it.",
            )


def _loss(record: Mapping[str, Any]) -> str:
    """Say what an accepted loss took, by whose decision and why; what a person wrote is cut to a
    length and made harmless."""
    kept, committed = at(record, "ext", "lost_from"), at(record, "ext", "committed")
    known = type(kept) is int and type(committed) is int and committed >= kept
    lost = counted(committed - kept, "record") if known else "an unknown number of records"
    who = piece(record, "ext", "operator") or "someone unnamed"
    why = piece(record, "ext", "reason") or "no reason was given"
    place = f" from record {kept} on" if known and committed > kept else ""
    return f"A loss of {lost}{place} was accepted by {who} ({why}), says record {record['seq']}."


def _part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = record.get(name)
    return value if type(value) is dict else _NOTHING
