"""Following the lines of a log and naming the first record that does not fit.

Owns the judgement on lines: bytes, numbers, line breaks, signatures. The fast path takes a whole
batch that is as it should be; anything else goes line by line through the slow path, which decides
whether a record, a checkpoint or a line break was touched. A changed record shows in the link of
the one behind it and in the signed root, which `tail` follows; what records say is judged by
`rules`, which keys sign by `key_chain`. Raises nothing on any input. Called by `inspection`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from shared.ledger.batch import follow
from shared.ledger.checkpoint import (
    Checkpoint,
    checkpoints_in,
    is_checkpoint_line,
    parse_checkpoint,
    parse_checkpoint_line,
    split_note,
)
from shared.ledger.diagnosis import Item
from shared.ledger.errors import NoteRefused
from shared.ledger.key_chain import KeyChain, open_by_all
from shared.ledger.mending import is_readable, looks_like_checkpoint, mend, named_leaf
from shared.ledger.merkle import leaf_hash
from shared.ledger.record import LineRefused, parse
from shared.ledger.rules import Rules
from shared.ledger.segment import Position
from shared.ledger.signature_helper import may_hold_fraction
from shared.ledger.tail import MAX_PENDING, Tail
from shared.ledger.verdict import Findings, Status


class Walker:
    """Follows one log from a known position. Feed lines in order, then call `finish`."""

    def __init__(
        self,
        chain: KeyChain,
        position: Position,
        findings: Findings,
        give_away: Callable[[bytes, bytes], bool] | None = None,
    ) -> None:
        """Start at `position`; `chain` has the keys of the log it names. `give_away` takes (text,
        signature) by the chain's first key for checking elsewhere, or answers False; where there
        is one, numbers with a fraction are looked for elsewhere, too."""
        self.findings = findings
        self.chain = chain
        self.origin = chain.origin
        self.rules = Rules(findings)
        self.tail = Tail(findings, self.rules, position)
        self.records = 0
        self._given_to = chain.at(0)
        self._give_away = give_away
        #: Lines that could not be read, until the next one tells what they were.
        self._junk: list[bytes] = []
        #: Lines since the last checkpoint line.
        self._group: list[bytes] = []

    @property
    def expected(self) -> int:
        """The number of the record that comes next: how many there are, as far as is known."""
        return self.tail.expected

    @property
    def lost_records(self) -> bool:
        """Whether records before are missing or cannot be believed."""
        return self.rules.partial

    @property
    def unanswered(self) -> list[int]:
        """The requests that have no outcome, in order."""
        return sorted(self.rules.open)

    @property
    def _last(self) -> int:
        """The number of the record read last, for findings about its checkpoint."""
        return max(self.expected - 1, 0)

    def resume(self, position: Position) -> None:
        """Go on from a signed position (a seal), whatever was lost before it."""
        self.tail.resume(position)
        self._forget_lines()

    def resume_blind(self, first: int) -> None:
        """Go on at record `first` without knowing the tree or the link before it."""
        self.tail.resume_blind(first)
        self._forget_lines()

    def _forget_lines(self) -> None:
        self._junk, self._group = [], []

    def finish(self, head: Checkpoint | None = None, head_note: str = "") -> None:
        """Judge what is still open at the end of a file. `head` may sign the end, too."""
        self._flush()
        if self._junk:
            self._settle_junk(None)
        self.tail.finish(head, head_note)

    # -- lines ---------------------------------------------------------------------------------

    def feed(self, lines: Sequence[bytes], unfinished: bytes = b"") -> None:
        """Take lines without their newlines, then bytes that no newline ends."""
        start = 0
        for index in checkpoints_in(lines):
            self._group += lines[start:index]
            if not self._take_batch(self._group, lines[index]):
                self._flush()
                self._line(lines[index])
            self._group.clear()
            start = index + 1
        self._group += lines[start:]
        if len(self._group) > MAX_PENDING or unfinished:
            self._flush()
        if unfinished:
            self._unfinished(unfinished)

    def _flush(self) -> None:
        group, self._group = self._group, []
        for body in group:
            self._line(body)

    def _take_batch(self, group: Sequence[bytes], cp_line: bytes) -> bool:
        """Take a batch that is entirely as it should be; change nothing otherwise."""
        position = self.tail.position()
        if position is None or self._junk or not group:
            return False
        batch = follow(group, position)
        if batch is None or "key_rotate" in batch.types:
            return False
        if self._give_away is None and may_hold_fraction(b"".join(group)):
            return False
        signed = Checkpoint(self.origin, batch.frontier.size, batch.frontier.root())
        try:
            note = parse_checkpoint_line(cp_line)
        except NoteRefused:
            return False
        if not note.startswith(signed.text() + "\n"):
            return False
        if not self._is_given_away(note, signed) and not self._is_signed(note, signed.size):
            return False
        self.tail.take(batch, group, signed, note)
        self.records += len(group)
        return True

    def _line(self, body: bytes) -> None:
        """Take one line the slow way."""
        if is_checkpoint_line(body):
            try:
                note = parse_checkpoint_line(body)
            except NoteRefused:
                self._unreadable(body)
                return
            self._checkpoint(note)
            return
        try:
            record = parse(body)
        except LineRefused:
            self._unreadable(body)
            return
        self._record(record, body)

    def _unreadable(self, body: bytes) -> None:
        if len(self._junk) < MAX_PENDING:  # more of them would say nothing more
            self._junk.append(body)

    def _unfinished(self, piece: bytes) -> None:
        """The last bytes of a file, without a newline."""
        for body in (piece, piece[:-1]):
            if is_checkpoint_line(body) and is_readable(body):
                self._line(body)
                last = self._last
                self.findings.add(
                    "line_break_removed",
                    last,
                    f"The line break after the checkpoint of record {last} was changed or removed.",
                )
                return
        self.findings.add(
            "torn_tail",
            self.expected,
            f"The file ends inside record {self.expected} or its checkpoint: the last line is "
            "not complete.",
            Status.INCOMPLETE,
        )

    # -- records -------------------------------------------------------------------------------

    def _record(self, record: dict[str, Any], body: bytes) -> None:
        seq, prev = record["seq"], record["prev"]
        if self._junk:
            self._settle_junk(seq)
        self.tail.judge_waiting(prev)
        leaf = leaf_hash(body)
        if seq != self.expected:
            if prev == self.tail.tip:
                self.findings.add(
                    "record_changed",
                    self.expected,
                    f"Record {self.expected} was changed: it gives another record number.",
                )
                seq = self.expected
            elif seq < self.expected:
                self._out_of_order(seq)
                return
            else:
                self.tail.missing(self.expected, seq, prev)
        if record["type"] == "key_rotate" and not self.chain.rotate(record):
            self.findings.add(
                "key_rotation_bad",
                seq,
                f"Record {seq} names a new key, but the key before it did not sign that.",
            )
        self.tail.push(Item(seq, leaf, prev, record))
        self.records += 1

    def _out_of_order(self, seq: int) -> None:
        self.findings.drop("record_missing", seq)
        self.findings.add(
            "record_out_of_order",
            seq,
            f"A record with number {seq} stands behind record {self.expected - 1}: it was moved "
            "or inserted.",
        )

    # -- lines that cannot be read -------------------------------------------------------------

    def _settle_junk(self, next_seq: int | None) -> None:
        """Decide what unreadable lines were, knowing which record number comes next."""
        junk, self._junk = self._junk, []
        mended = mend(junk, self.expected)
        if mended is not None:
            self.findings.add(mended.code, mended.seq, mended.sentence)
            for body in mended.lines:
                self._line(body)
            return
        gap = 0 if next_seq is None else next_seq - self.expected
        like = [body for body in junk if looks_like_checkpoint(body)]
        if next_seq is None:
            gap = 0 if len(like) == len(junk) else 1
        if gap < 1 or (len(junk) > gap and like):
            self.findings.add(
                "checkpoint_unreadable",
                self._last,
                f"The checkpoint line after record {self._last} was changed: it cannot be read.",
            )
        if gap >= 1:
            self._take_unreadable([body for body in junk if body not in like] or junk, gap)

    def _take_unreadable(self, bodies: Sequence[bytes], gap: int) -> None:
        """Take lines that were records, where `gap` of them are to be."""
        tail = self.tail
        if gap > max(len(bodies), 1):
            tail.missing(tail.expected, tail.expected + gap - len(bodies), None)
        for body in bodies[:gap]:
            self.findings.add(
                "record_changed",
                tail.expected,
                f"Record {tail.expected} was changed: its line cannot be read as a record any "
                "more.",
            )
            tail.push(Item(tail.expected, None, named_leaf(body)))

    # -- checkpoints ---------------------------------------------------------------------------

    def _is_signed(self, note: str, size: int) -> bool:
        try:
            open_by_all(note, self.chain.at(size))
        except NoteRefused:
            return False
        return True

    def _is_given_away(self, note: str, expected: Checkpoint) -> bool:
        """Let a helper check a signature that has the usual form."""
        keys = self.chain.at(expected.size)
        if self._give_away is None or keys != self._given_to:
            return False
        try:
            text, signatures = split_note(note)
        except NoteRefused:
            return False
        (name, blob), *others = signatures
        usual = not others and name == keys[0].name and blob[:4] == keys[0].key_id
        if not usual or len(blob) != 68 or text != expected.text():
            return False
        return self._give_away(text.encode(), blob[4:])

    def _checkpoint(self, note: str) -> None:
        last = self._last
        try:
            signed = parse_checkpoint(note[: note.find("\n\n") + 1])
        except NoteRefused:
            self.findings.add(
                "checkpoint_unreadable",
                last,
                f"The checkpoint after record {last} was changed: its text is not a checkpoint.",
            )
            return
        if not self._is_signed(note, signed.size):
            self._bad_signature(signed, last)
            return
        if self._junk:
            self._settle_junk(signed.size)
        self.tail.judge_waiting(None)
        if signed.origin != self.origin:
            self.findings.add(
                "checkpoint_of_another_log",
                last,
                f"The checkpoint after record {last} is of another log.",
            )
        elif signed.size < self.expected:
            self.findings.add(
                "checkpoint_out_of_order",
                last,
                f"The checkpoint after record {last} is for {signed.size} records: records or "
                "the checkpoint were inserted or moved.",
            )
        else:
            if signed.size > self.expected:
                self.tail.missing(self.expected, signed.size, None)
            self.tail.match(signed, note)

    def _bad_signature(self, signed: Checkpoint, last: int) -> None:
        if self._junk:
            self._settle_junk(signed.size if signed.size - self.expected in (0, 1) else None)
            last = self._last
        self.findings.add(
            "checkpoint_signature",
            last,
            f"The signature of the checkpoint after record {last} is not by the log's key for "
            "this text: the checkpoint was changed, or the log was signed by someone else.",
        )
