"""Following the lines of a log and naming the first record that does not fit.

Owns the judgement on lines: bytes, numbers, links, tree, checkpoints; what records say is judged
by `rules`, which keys sign by `key_chain`. The fast path takes a whole batch that is as it should
be; anything else goes line by line through the slow path, which decides whether a record, a
checkpoint or a line break was touched. A changed record shows in the link of the one behind it
and in the signed root; `_settle_batch` finds the smallest set of changes that explains both.
Raises nothing on any input. Called by `inspection`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from shared.ledger.batch import follow
from shared.ledger.checkpoint import (
    Checkpoint,
    checkpoints_in,
    is_checkpoint_line,
    parse_checkpoint,
    parse_checkpoint_line,
    split_note,
)
from shared.ledger.errors import NoteRefused
from shared.ledger.key_chain import KeyChain, open_by_all
from shared.ledger.merkle import Frontier, leaf_hash
from shared.ledger.record import LineRefused, parse
from shared.ledger.rules import Rules
from shared.ledger.segment import Position
from shared.ledger.signature_helper import may_hold_fraction
from shared.ledger.verdict import Findings, Status

#: Keep the records since the last good checkpoint for a diagnosis, up to this many: a batch has
#: at most 1,024 records, so several lost checkpoints in a row can be bridged.
MAX_PENDING: Final = 8192
#: Two ways to read each doubtful record; 2^6 trees are built in well under a second.
MAX_DOUBTS: Final = 6
_GLUED: Final = re.compile(rb'\}.?(?=\{")', re.DOTALL)
_PREV: Final = re.compile(rb'"prev":"([0-9a-f]{64})"')
_LIKE_CHECKPOINT: Final = re.compile(
    rb'^.?\{?"?cp"|^\{"..":"|\xe2\x80\x94 [^ ]+ [A-Za-z0-9+/]{80}', re.S
)


@dataclass(slots=True)
class _Item:
    """A record since the last good checkpoint: its number, the leaf its bytes give (None when
    there are no good bytes), the leaf it names for the record before it, and what it says."""

    seq: int
    leaf: bytes | None
    prev: str | None
    record: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What the log has at a size that someone asks about: its root, and the times of the record
    before and of the one behind (None when not known)."""

    root: bytes
    before: int | None = None
    after: int | None = None


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A signed checkpoint that does not fit; judged once the next record's link is known."""

    signed: Checkpoint


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
        self._given_to = chain.at(0)
        self._give_away = give_away
        self.records = 0
        self.signed: Checkpoint | None = None
        self.note = ""
        #: What the last record says if it is a `seal`: the key of the next segment.
        self.next_seal_key: object = None
        self.seen: dict[int, Seen] = {}
        self._watch: list[int] = []
        self.resume(position)

    def watch(self, sizes: Iterable[int]) -> None:
        """Remember what the log has at `sizes`."""
        self._watch = sorted(sizes, reverse=True)

    @property
    def lost_records(self) -> bool:
        """Whether records before are missing or cannot be believed."""
        return self.rules.partial

    def resume(self, position: Position) -> None:
        """Go on from a signed position (a seal), whatever was lost before it."""
        self.expected = position.size
        self._base: Frontier | None = position.frontier.copy()
        self._frontier: Frontier | None = position.frontier.copy()
        self.tip: str | None = position.tip
        self.rules.ts = position.ts
        self.rules.open = set(position.open_requests)
        self._items: list[_Item] = []
        self._doubt = False
        self._waiting: _Waiting | None = None
        self._junk: list[bytes] = []
        self._group: list[bytes] = []

    def resume_blind(self, first: int) -> None:
        """Go on at record `first` without knowing the tree or the link before it."""
        self.resume(Position())
        self.rules.partial = True
        self.expected, self.tip = first, None
        self._base = self._frontier = None

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
        if self._doubt or self._junk or self._waiting or self._items or not group:
            return False
        if self._frontier is None or self.tip is None:
            return False
        batch = follow(group, Position(self._frontier, self.tip, self.rules.ts))
        if batch is None or "key_rotate" in batch.types:
            return False
        if self._give_away is None and may_hold_fraction(b"".join(group)):
            return False
        expected = Checkpoint(self.origin, batch.frontier.size, batch.frontier.root())
        try:
            note = parse_checkpoint_line(cp_line)
        except NoteRefused:
            return False
        if not note.startswith(expected.text() + "\n"):
            return False
        if not self._is_given_away(note, expected) and not self._is_signed(note, expected.size):
            return False
        if self._is_watched(expected.size):
            self._see(self._base, list(map(leaf_hash, group)), batch.records)
        self.rules.batch(batch.records, batch.types)
        self.expected, self.tip = expected.size, batch.tip
        self._frontier = batch.frontier
        self.records += len(group)
        self._accept(expected, note, batch.records[-1])
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
            if is_checkpoint_line(body) and self._readable(body):
                self._line(body)
                last = max(self.expected - 1, 0)
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
        self._judge_waiting(prev)
        leaf = leaf_hash(body)
        if seq != self.expected:
            if prev == self.tip:
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
                self._missing(self.expected, seq, prev)
        if self.tip is not None and prev != self.tip:
            self._doubt = True
        if record["type"] == "key_rotate" and not self.chain.rotate(record):
            self.findings.add(
                "key_rotation_bad",
                seq,
                f"Record {seq} names a new key, but the key before it did not sign that.",
            )
        self._push(_Item(seq, leaf, prev, record))
        self.records += 1

    def _push(self, item: _Item) -> None:
        self._items.append(item)
        self.expected = item.seq + 1
        self.tip = item.leaf.hex() if item.leaf is not None else None
        if item.leaf is None:
            self._doubt = True
        elif self._frontier is not None:
            self._frontier.append(item.leaf)
        if len(self._items) > MAX_PENDING:
            self._report_links(self._items, None)
            self._lose_tree()

    def _out_of_order(self, seq: int) -> None:
        self.findings.drop("record_missing", seq)
        self.findings.add(
            "record_out_of_order",
            seq,
            f"A record with number {seq} stands behind record {self.expected - 1}: it was moved "
            "or inserted.",
        )

    def _missing(self, first: int, end: int, next_prev: str | None) -> None:
        """Records first..end-1 are not there; the last one's leaf is known from its successor."""
        span = f"Record {first} is" if end - first == 1 else f"Records {first} to {end - 1} are"
        self.findings.add("record_missing", first, f"{span} missing.")
        if end - first > MAX_DOUBTS:
            self._report_links(self._items, None)
            self._lose_tree()
            self.expected, self.tip = end, next_prev
            return
        for seq in range(first, end):
            self._push(_Item(seq, None, None))

    def _look_at_all(self, items: Sequence[_Item]) -> None:
        """Judge what records say once their bytes are beyond doubt."""
        for item in items:
            if item.record is None:
                self.rules.partial = True
            else:
                self.rules.look(item.record)

    # -- lines that cannot be read -------------------------------------------------------------

    def _settle_junk(self, next_seq: int | None) -> None:
        """Decide what unreadable lines were, knowing which record number comes next."""
        junk, self._junk = self._junk, []
        if self._mend_line_breaks(junk):
            return
        gap = 0 if next_seq is None else next_seq - self.expected
        like = [body for body in junk if _LIKE_CHECKPOINT.search(body)]
        if next_seq is None:
            gap = 0 if len(like) == len(junk) else 1
        if gap < 1 or (len(junk) > gap and like):
            self.findings.add(
                "checkpoint_unreadable",
                max(self.expected - 1, 0),
                f"The checkpoint line after record {max(self.expected - 1, 0)} was changed: it "
                "cannot be read.",
            )
        if gap < 1:
            return
        bodies = [body for body in junk if body not in like] or junk
        if gap > max(len(bodies), 1):
            self._missing(self.expected, self.expected + gap - len(bodies), None)
        for index in range(min(gap, len(bodies))):
            seq = self.expected
            self.findings.add(
                "record_changed",
                seq,
                f"Record {seq} was changed: its line cannot be read as a record any more.",
            )
            match = _PREV.search(bodies[index])
            self._push(_Item(seq, None, match[1].decode() if match else None))

    def _mend_line_breaks(self, junk: list[bytes]) -> bool:
        """Recognize a line break that was added or removed; take the mended lines."""
        joined = b"".join(junk)
        if not joined or (len(junk) > 1 and self._fits(joined)):
            self._line_break_added(in_checkpoint=is_checkpoint_line(joined))
            if joined:
                self._line(joined)
            return True
        if len(junk) != 1:
            return False
        for match in itertools.islice(_GLUED.finditer(joined), 64):
            left, right = joined[: match.start() + 1], joined[match.end() :]
            if self._fits(left) and self._readable(right):
                self.findings.add(
                    "line_break_removed",
                    self.expected,
                    f"The line break at record {self.expected} was changed or removed.",
                )
                self._line(left)
                self._line(right)
                return True
        return False

    def _line_break_added(self, *, in_checkpoint: bool) -> None:
        if in_checkpoint:
            seq = max(self.expected - 1, 0)
            sentence = f"A line break was added in the checkpoint after record {seq}."
        else:
            seq, sentence = self.expected, f"A line break was added at record {self.expected}."
        self.findings.add("line_break_added", seq, sentence)

    def _fits(self, body: bytes) -> bool:
        """Tell whether a line is a checkpoint or the very record that is expected next."""
        if is_checkpoint_line(body):
            return self._readable(body)
        try:
            return bool(parse(body)["seq"] == self.expected)
        except LineRefused:
            return False

    def _readable(self, body: bytes) -> bool:
        try:
            if is_checkpoint_line(body):
                parse_checkpoint_line(body)
            else:
                parse(body)
        except (LineRefused, NoteRefused):
            return False
        return True

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
        last = max(self.expected - 1, 0)
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
        self._judge_waiting(None)
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
                self._missing(self.expected, signed.size, None)
            self._match(signed, note)

    def _bad_signature(self, signed: Checkpoint, last: int) -> None:
        if self._junk:
            self._settle_junk(signed.size if signed.size - self.expected in (0, 1) else None)
            last = max(self.expected - 1, 0)
        self.findings.add(
            "checkpoint_signature",
            last,
            f"The signature of the checkpoint after record {last} is not by the log's key for "
            "this text: the checkpoint was changed, or the log was signed by someone else.",
        )

    def _match(self, signed: Checkpoint, note: str) -> None:
        """Compare a signed checkpoint with the records before it."""
        frontier = self._frontier
        if frontier is not None and not self._doubt and frontier.root() == signed.root:
            self._good_checkpoint(signed, note)
            return
        self.note, self.signed = note, signed
        self._see_signed(signed)
        if self._base is None:
            self._report_links(self._items, None)
            self._items, self._doubt = self._items[-1:], False
            return
        self._waiting = _Waiting(signed)

    def _good_checkpoint(self, signed: Checkpoint, note: str) -> None:
        items = self._items
        if self._is_watched(signed.size):
            self._see(self._base, [item.leaf for item in items], [item.record for item in items])
        self._look_at_all(items)
        last = items[-1].record if items else None
        items.clear()
        self._accept(signed, note, last)

    def _accept(self, signed: Checkpoint, note: str, last: Mapping[str, Any] | None) -> None:
        """A good checkpoint is the ground for what follows. `last` is the record before it."""
        self.signed, self.note = signed, note
        self._see_signed(signed)
        if last is not None:
            ext = last.get("ext") if last["type"] == "seal" else None
            self.next_seal_key = ext.get("next_key") if type(ext) is dict else None
        assert self._frontier is not None
        self._base = self._frontier.copy()

    # -- what someone asks about ---------------------------------------------------------------

    def _is_watched(self, size: int) -> bool:
        """Tell whether a size between the last good checkpoint and `size` is asked about."""
        watch, base = self._watch, self._base
        start = base.size if base is not None else 0
        while watch and watch[-1] < start:
            watch.pop()
        return bool(watch) and watch[-1] <= size

    def _see(
        self,
        base: Frontier | None,
        leaves: Sequence[bytes | None],
        records: Sequence[Mapping[str, Any] | None],
    ) -> None:
        """Note roots and times at the sizes asked about, from `base` over `leaves`."""
        for size in reversed(self._watch) if base is not None else ():
            assert base is not None
            at = size - base.size
            part = leaves[:at]
            if at > len(leaves) or None in part:
                break
            frontier, old = base.copy(), self.seen.get(size)
            frontier.extend([leaf for leaf in part if leaf is not None])
            before = records[at - 1] if at else None
            after = records[at] if at < len(records) else None
            self.seen[size] = Seen(
                frontier.root(),
                before["ts"] if before is not None else (old.before if old else None),
                after["ts"] if after is not None else None,
            )

    def _see_signed(self, signed: Checkpoint) -> None:
        """A signed root counts even where the records before it do not give it."""
        if signed.size in self._watch:
            self.seen.setdefault(signed.size, Seen(signed.root))

    # -- which record was it -------------------------------------------------------------------

    def _judge_waiting(self, next_prev: str | None) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None or self._base is None:
            return
        self._settle_batch(self._items, self._base, waiting.signed.root, next_prev)

    def _settle_batch(
        self, items: list[_Item], base: Frontier, root: bytes, next_prev: str | None
    ) -> None:
        """Find the fewest changed records that explain the links and the signed root."""
        claims = _claims(items, next_prev)
        choices = _choices(items, claims)
        doubtful = [index for index, options in enumerate(choices) if len(options) != 1]
        solution = None
        if len(doubtful) <= MAX_DOUBTS and all(choices):
            solution = _solve(choices, doubtful, base, root)
        if solution is None:
            self._report_unsolved(items, claims, next_prev)
            self._lose_tree()
            return
        for item, leaf in zip(items, solution, strict=True):
            if item.leaf != leaf:
                item.record = None
                if not self.findings.has(item.seq):
                    self._changed(item.seq)
        self._look_at_all(items)
        frontier = base.copy()
        frontier.extend(solution)
        self._base, self._frontier = frontier, frontier.copy()
        self.tip = solution[-1].hex() if solution else self.tip
        self._items, self._doubt = [], False

    def _report_unsolved(
        self, items: list[_Item], claims: Sequence[str | None], next_prev: str | None
    ) -> None:
        known = any(self.findings.has(item.seq) for item in items)
        self.rules.partial = True
        if items and next_prev is None:
            # Nothing behind the last record names it. Had only an earlier one changed, its
            # successor's link would have given the signed root; so the last one changed.
            last = items.pop()
            known = True
            if last.leaf is not None:
                self._changed(last.seq)
            if (
                len(items)
                and items[-1].leaf is not None
                and claims[len(items) - 1] != items[-1].leaf.hex()
            ):
                items[-1].leaf = None
        known = self._report_links(items, next_prev) or known
        if not known:
            first = items[0].seq if items else self.expected
            self.findings.add(
                "tree_mismatch",
                first,
                f"The records from {first} to {self.expected - 1} are not the ones that the "
                "checkpoint after them signs: they were rewritten.",
            )

    def _report_links(self, items: Sequence[_Item], next_prev: str | None) -> bool:
        """Name each record that its successor's link contradicts; tell whether there was one."""
        found = False
        for item, claim in zip(items, _claims(items, next_prev), strict=True):
            if item.leaf is not None and claim is not None and claim != item.leaf.hex():
                self._changed(item.seq)
                found = True
        return found

    def _changed(self, seq: int) -> None:
        self.findings.add(
            "record_changed",
            seq,
            f"Record {seq} was changed: its bytes no longer give the hash that the log signed.",
        )

    def _lose_tree(self) -> None:
        """Go on with links and signatures only, until the next seal."""
        if self._base is not None:
            self.findings.note(
                "tree_lost",
                self.expected,
                f"From record {self.expected} to the end of this segment the tree could not be "
                "recomputed; links and signatures were checked.",
            )
        self._base = self._frontier = None
        self._items, self._doubt = self._items[-1:], False

    # -- the end -------------------------------------------------------------------------------

    def finish(self, head: Checkpoint | None = None, head_note: str = "") -> None:
        """Judge what is still open at the end of a file. `head` may sign the end, too."""
        self._flush()
        if self._junk:
            self._settle_junk(None)
        self._judge_waiting(None)
        if not self._items or self._base is None:
            return
        if head is None or head.size != self.expected:
            self._report_links(self._items, None)
            self._look_at_all(self._items)
            return
        frontier = self._frontier
        if frontier is not None and not self._doubt and frontier.root() == head.root:
            self._good_checkpoint(head, head_note)
            if not self.findings.has(self.expected - 1):
                self.findings.add(
                    "checkpoint_missing",
                    self.expected - 1,
                    f"The checkpoint after record {self.expected - 1} is missing; HEAD still has "
                    "it, and the records fit it.",
                    Status.INCOMPLETE,
                )
        else:
            self.signed, self.note = head, head_note
            self._settle_batch(self._items, self._base, head.root, None)

    @property
    def unsigned(self) -> int:
        """How many records at the end no good checkpoint covers."""
        return self.expected - (self.signed.size if self.signed else 0)

    @property
    def unanswered(self) -> list[int]:
        """The requests that have no outcome, in order."""
        return sorted(self.rules.open)

    def root(self) -> bytes | None:
        """Return the root over everything read, when it could be computed."""
        return self._frontier.root() if self._frontier is not None else None


def _claims(items: Sequence[_Item], next_prev: str | None) -> list[str | None]:
    """Return, for each item, the leaf that its successor names for it."""
    return [item.prev for item in items[1:]] + ([next_prev] if items else [])


def _choices(items: Sequence[_Item], claims: Sequence[str | None]) -> list[list[bytes]]:
    """Return, for each item, the leaves it may have had: by its bytes, by its successor."""
    choices = []
    for item, claim in zip(items, claims, strict=True):
        options = [] if item.leaf is None else [item.leaf]
        if claim is not None and re.fullmatch(r"[0-9a-f]{64}", claim):
            claimed = bytes.fromhex(claim)
            if claimed not in options:
                options.append(claimed)
        choices.append(options)
    return choices


def _solve(
    choices: Sequence[list[bytes]], doubtful: Sequence[int], base: Frontier, root: bytes
) -> list[bytes] | None:
    """Return the leaves that give the signed root, preferring those the stored bytes give."""
    picks = sorted(itertools.product((0, 1), repeat=len(doubtful)), key=sum)
    for pick in picks:
        leaves = [options[0] for options in choices]
        for index, chosen in zip(doubtful, pick, strict=True):
            leaves[index] = choices[index][chosen]
        frontier = base.copy()
        frontier.extend(leaves)
        if frontier.root() == root:
            return leaves
    return None
