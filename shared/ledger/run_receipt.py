"""The run receipt of a session: one signed page that says what the log holds about it.

Owns the text (`<origin>/run-receipt`, then one line of canonical JSON, signed by the log's key)
and how it is counted and checked. Invariant: everything in it follows from the records below
`size`, so anyone with the log counts it again; whoever keeps one sees a record that was added to
or taken from the session, and a log with fewer records than `size` or another `root`. Called by
the programs' `receipt` and `verify` commands.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from shared.ledger.checkpoint import Signer, VerifierKey, open_note, split_note
from shared.ledger.errors import LedgerError, NoteRefused
from shared.ledger.keys import KeyRing
from shared.ledger.lookup import Archive, outcomes_of
from shared.ledger.proofs import Prover, subtree_root
from shared.ledger.record import is_canonical
from shared.ledger.storage import Disk
from shared.ledger.tiles import TreeReader
from shared.ledger.verdict import Finding, Status

SUFFIX: Final = "/run-receipt"


class NoSuchRun(LedgerError):
    """The log holds no record of the session."""


@dataclass(frozen=True, slots=True)
class RunReceipt:
    """What the first `size` records say about the session `run`.

    `first` and `last` are its first and last record; `counts` by record type. `totals` has
    `tokens` by role, model and direction, and `redactions` by kind. `open` are requests without
    outcome and gates without decision, by number. `root` is hex; `made` is in microseconds UTC.
    """

    run: str
    first: int
    last: int
    counts: Mapping[str, int]
    totals: Mapping[str, Any]
    open: tuple[int, ...]
    size: int
    root: str
    made: int

    def text(self, origin: str) -> str:
        """Return the text that is signed."""
        value = {name: getattr(self, name) for name in _FIELDS}
        line = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
        return f"{origin}{SUFFIX}\n{line}\n"


_FIELDS: Final[Mapping[str, type]] = {
    "run": str,
    "first": int,
    "last": int,
    "counts": dict,
    "totals": dict,
    "open": list,
    "size": int,
    "root": str,
    "made": int,
}


# -- counting --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Tally:
    """Counts records one by one, in the order of their numbers."""

    first: int = -1
    last: int = -1
    counts: Counter[str] = field(default_factory=Counter)
    tokens: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)
    redactions: Counter[str] = field(default_factory=Counter)
    #: Role and model of each request that has no outcome yet.
    waiting: dict[int, tuple[str, str]] = field(default_factory=dict)
    gates: dict[str, int] = field(default_factory=dict)

    def take(self, seq: int, record: Mapping[str, Any]) -> None:
        kind = record["type"]
        self.first = seq if self.first < 0 else self.first
        self.last = max(self.last, seq)
        self.counts[kind] += 1
        if kind == "request":
            self._request(seq, record)
        elif kind == "outcome":
            self._outcome(record)
        elif kind == "gate_open":
            self.gates[_text(record, "gate", "id")] = seq
        elif kind == "gate_decision":
            self.gates.pop(_text(record, "gate", "id"), None)

    def _request(self, seq: int, record: Mapping[str, Any]) -> None:
        self.waiting[seq] = _text(record, "actor", "role"), _text(record, "model", "name")
        self.redactions.update(_numbers(_part(record, "ext").get("redactions")))

    def _outcome(self, record: Mapping[str, Any]) -> None:
        role, asked = self.waiting.pop(_reference(record), ("", ""))
        usage = _numbers(_part(record, "outcome").get("usage"))
        if usage:
            model = _text(record, "model", "name") or asked
            by_model = self.tokens.setdefault(role, {})
            by_model.setdefault(model, Counter()).update(usage)


def _reference(record: Mapping[str, Any]) -> int:
    ref = record.get("ref")
    return ref if type(ref) is int else -1


def _part(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def _text(record: Mapping[str, Any], name: str, key: str) -> str:
    value = _part(record, name).get(key)
    return value if isinstance(value, str) else ""


def _numbers(value: Any) -> dict[str, int]:
    pairs = value.items() if isinstance(value, dict) else ()
    return {key: number for key, number in pairs if type(number) is int}


def _records_of(archive: Archive, run: str, size: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the records of a session, then the outcomes of its requests that do not name it: the
    log itself writes those after a restart."""
    asked: set[int] = set()
    pattern = re.escape(orjson.dumps({"run": run})[1:-1])
    for seq, record, _ in archive.search(pattern, end=size):
        if record.get("run") != run:
            continue
        if record["type"] == "request":
            asked.add(seq)
        elif record["type"] == "outcome":
            asked.discard(_reference(record))
        yield seq, record
    for seq, record, _ in outcomes_of(archive, asked, size):
        yield seq, record


def count_run(
    records: Iterable[tuple[int, Mapping[str, Any]]], run: str, *, size: int, root: str, made: int
) -> RunReceipt:
    """Return the receipt over (number, record) pairs. Raises NoSuchRun when there are none."""
    tally = _Tally()
    for seq, record in records:
        tally.take(seq, record)
    if tally.first < 0:
        raise NoSuchRun(
            f"The log holds no record of the session {run}; `sphragis log` shows what there is."
        )
    tokens = {
        role: {model: dict(counts) for model, counts in models.items()}
        for role, models in tally.tokens.items()
    }
    return RunReceipt(
        run=run,
        first=tally.first,
        last=tally.last,
        counts=dict(tally.counts),
        totals={"redactions": dict(tally.redactions), "tokens": tokens},
        open=tuple(sorted([*tally.waiting, *tally.gates.values()])),
        size=size,
        root=root,
        made=made,
    )


def make_run_receipt(prover: Prover, run: str, signer: Signer, *, made: int) -> str:
    """Return the signed receipt of session `run` under the newest checkpoint; `made` is now, in
    microseconds UTC. Raises NoSuchRun or LedgerError."""
    point = prover.check(prover.newest())
    records = _records_of(prover.archive, run, point.size)
    receipt = count_run(records, run, size=point.size, root=point.root.hex(), made=made)
    return signer.sign(receipt.text(prover.origin))


def signer_for(prover: Prover, keys: Path) -> Signer:
    """Return the log's signer from the directory of its keys. Raises LedgerError."""
    return KeyRing(keys, prover.origin, Disk()).signers()[0]


# -- checking --------------------------------------------------------------------------------------


def open_run_receipt(note: str, keys: Sequence[VerifierKey]) -> tuple[str, RunReceipt]:
    """Return (origin, receipt) of a signed receipt. Raises NoteRefused when it is malformed or
    signed by none of `keys`."""
    text = open_note(note, keys)
    lines = text.split("\n")
    try:
        value = orjson.loads(lines[1])
        good = (
            len(lines) == 3
            and lines[0].endswith(SUFFIX)
            and set(value) == set(_FIELDS)
            and is_canonical(value, lines[1].encode())
            and all(type(value[name]) is kind for name, kind in _FIELDS.items())
            and all(type(seq) is int for seq in value["open"])
        )
    except (ValueError, IndexError, TypeError, RecursionError):
        good = False
    origin = lines[0].removesuffix(SUFFIX)
    if not good or all(key.name != origin for key in keys):
        raise NoteRefused("The text is not a run receipt of this log.")
    return origin, RunReceipt(**{**value, "open": tuple(value["open"])})


def is_run_receipt(note: str) -> bool:
    """Tell whether a note claims to be a run receipt."""
    try:
        return split_note(note)[0].partition("\n")[0].endswith(SUFFIX)
    except NoteRefused:
        return False


def check_run_receipt(receipt: RunReceipt, prover: Prover) -> list[Finding]:
    """Return what does not fit between a receipt and its log: `rolled_back` (the log is shorter),
    `receipt_mismatch` (another history, or other records of the session), both tampering, and
    `receipt_unchecked` (incomplete: the records were pruned). Raises LedgerError when the log
    cannot be read."""
    run = f"the session {receipt.run}"
    if prover.check(prover.newest()).size < receipt.size:
        sentence = f"The run receipt of {run} is for {receipt.size} records; the log has fewer."
        return [Finding("rolled_back", None, sentence)]
    if receipt.first < prover.archive.first:
        sentence = f"Records of {run} were pruned, so its run receipt cannot be counted again."
        return [Finding("receipt_unchecked", receipt.first, sentence, Status.INCOMPLETE)]
    tree = TreeReader(prover.archive, use_tiles=False)
    if subtree_root(0, receipt.size, tree.node).hex() != receipt.root:
        sentence = f"The run receipt of {run} is for another history than this log has."
        return [Finding("receipt_mismatch", None, sentence)]
    records = _records_of(prover.archive, receipt.run, receipt.size)
    return compare(receipt, records)


def recount(directory: Path, note: str, keys: Sequence[VerifierKey]) -> list[Finding]:
    """Return what does not fit between the log in `directory` and `note`, if that is a run receipt
    by one of `keys`; what else is wrong with the note or the log is not said here."""
    if is_run_receipt(note):
        with contextlib.suppress(LedgerError):
            _, receipt = open_run_receipt(note, keys)
            with Prover(directory) as prover:
                return check_run_receipt(receipt, prover)
    return []


def compare(receipt: RunReceipt, records: Iterable[tuple[int, Mapping[str, Any]]]) -> list[Finding]:
    """Return a `receipt_mismatch` when the records of the session are not those it counted."""
    try:
        again = count_run(
            records, receipt.run, size=receipt.size, root=receipt.root, made=receipt.made
        )
    except NoSuchRun:
        again = None
    if again == receipt:
        return []
    sentence = f"The records of the session {receipt.run} are not those its run receipt counts."
    return [Finding("receipt_mismatch", None, sentence)]
