"""Where a log stands: settled up to its last good checkpoint, and the records that wait behind it.

Owns the tree, the link and the number that come next, and what becomes of records: a checkpoint
that their bytes give settles them; where it does not, `diagnosis` tells which of them changed.
Invariants: what records say is judged (by `rules`) once their bytes are beyond doubt, in order; a
checkpoint that does not fit is judged only once the next record's link is known; where the tree
cannot be followed, links and signatures still are. Pure; raises nothing. Called by `walk`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from shared.ledger.batch import Batch
from shared.ledger.checkpoint import Checkpoint
from shared.ledger.diagnosis import MAX_DOUBTS, Item, contradicted, explain
from shared.ledger.merkle import Frontier, leaf_hash
from shared.ledger.rules import Rules
from shared.ledger.segment import Position
from shared.ledger.verdict import Findings, Status
from shared.ledger.watch import Watch

#: Keep the records since the last good checkpoint for a diagnosis, up to this many: a batch has
#: at most 1,024 records, so several lost checkpoints in a row can be bridged.
MAX_PENDING: Final = 8192


class Tail:
    """The end of one log as far as it was followed."""

    def __init__(self, findings: Findings, rules: Rules, position: Position) -> None:
        self._findings = findings
        self._rules = rules
        self.watch = Watch()
        #: The last signed checkpoint, and its note.
        self.signed: Checkpoint | None = None
        self.note = ""
        #: What the last record says if it is a `seal`: the key of the next segment.
        self.next_seal_key: object = None
        self.resume(position)

    def resume(self, position: Position) -> None:
        """Go on from a signed position (a seal), whatever was lost before it."""
        #: The number of the record that comes next, and the leaf it must name, if that is known.
        self.expected = position.size
        self.tip: str | None = position.tip
        #: The tree of the last good checkpoint, and that over all records; None once it is lost.
        self._base: Frontier | None = position.frontier.copy()
        self._frontier: Frontier | None = position.frontier.copy()
        self._items: list[Item] = []
        self._doubt = False
        #: A signed checkpoint that does not fit; judged once the next record's link is known.
        self._waiting: Checkpoint | None = None
        self._rules.ts = position.ts
        self._rules.open = set(position.open_requests)
        self._rules.open_known = True

    def resume_blind(self, first: int) -> None:
        """Go on at record `first` without knowing the tree or the link before it."""
        self.resume(Position())
        self._lose_records()
        self.expected, self.tip = first, None
        self._base = self._frontier = None

    # -- records -------------------------------------------------------------------------------

    def position(self) -> Position | None:
        """Return where a batch may follow the fast way, or None while anything is open."""
        if self._doubt or self._waiting or self._items:
            return None
        if self._frontier is None or self.tip is None:
            return None
        return Position(self._frontier, self.tip, self._rules.ts)

    def take(self, batch: Batch, lines: Sequence[bytes], signed: Checkpoint, note: str) -> None:
        """Take a batch that follows `position` and that the checkpoint behind it signs."""
        if self.watch.wants(self._base, signed.size):
            self.watch.see(self._base, list(map(leaf_hash, lines)), batch.records)
        self._rules.batch(batch.records, batch.types)
        self.expected, self.tip = signed.size, batch.tip
        self._frontier = batch.frontier
        self._accept(signed, note, batch.records[-1])

    def push(self, item: Item) -> None:
        """Take one record, good or not."""
        if item.leaf is None or (self.tip is not None and item.prev != self.tip):
            self._doubt = True
        self._items.append(item)
        self.expected = item.seq + 1
        self.tip = item.leaf.hex() if item.leaf is not None else None
        if item.leaf is not None and self._frontier is not None:
            self._frontier.append(item.leaf)
        if len(self._items) > MAX_PENDING:
            self._report_links(self._items, None)
            self._lose_tree()

    def missing(self, first: int, end: int, next_prev: str | None) -> None:
        """Records first..end-1 are not there; the last one's leaf is known from its successor."""
        span = f"Record {first} is" if end - first == 1 else f"Records {first} to {end - 1} are"
        self._findings.add("record_missing", first, f"{span} missing.")
        if end - first > MAX_DOUBTS:
            self._report_links(self._items, None)
            self._lose_tree()
            self.expected, self.tip = end, next_prev
            return
        for seq in range(first, end):
            self.push(Item(seq, None, None))

    def _lose_records(self) -> None:
        """From here on, what only records before could show is not known."""
        self._rules.partial, self._rules.open_known = True, False

    def _look_at_all(self, items: Sequence[Item]) -> None:
        """Judge what records say once their bytes are beyond doubt."""
        for item in items:
            if item.record is None:
                self._lose_records()
            else:
                self._rules.look(item.record)

    # -- checkpoints ---------------------------------------------------------------------------

    def match(self, signed: Checkpoint, note: str) -> None:
        """Compare a signed checkpoint with the records before it."""
        if self._gives(signed.root):
            self._good_checkpoint(signed, note)
            return
        self.note, self.signed = note, signed
        self.watch.see_signed(signed)
        if self._base is None:
            self._report_links(self._items, None)
            self._items, self._doubt = self._items[-1:], False
            return
        self._waiting = signed

    def _gives(self, root: bytes) -> bool:
        frontier = self._frontier
        return frontier is not None and not self._doubt and frontier.root() == root

    def _good_checkpoint(self, signed: Checkpoint, note: str) -> None:
        items = self._items
        if self.watch.wants(self._base, signed.size):
            leaves = [item.leaf for item in items]
            self.watch.see(self._base, leaves, [item.record for item in items])
        self._look_at_all(items)
        last = items[-1].record if items else None
        items.clear()
        self._accept(signed, note, last)

    def _accept(self, signed: Checkpoint, note: str, last: Mapping[str, Any] | None) -> None:
        """A good checkpoint is the ground for what follows. `last` is the record before it."""
        self.signed, self.note = signed, note
        self.watch.see_signed(signed)
        if last is not None:
            ext = last.get("ext") if last["type"] == "seal" else None
            self.next_seal_key = ext.get("next_key") if type(ext) is dict else None
        assert self._frontier is not None
        self._base = self._frontier.copy()

    # -- which record was it -------------------------------------------------------------------

    def judge_waiting(self, next_prev: str | None) -> None:
        """Judge a checkpoint that did not fit; `next_prev` is the link of the record behind it,
        None where there is none."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None and self._base is not None:
            self._settle(self._base, waiting.root, next_prev)

    def _settle(self, base: Frontier, root: bytes, next_prev: str | None) -> None:
        """Find the fewest changed records that explain the links and the signed root."""
        items = self._items
        solution = explain(items, next_prev, base, root)
        if solution is None:
            self._report_unsolved(items, next_prev)
            self._lose_tree()
            return
        for item, leaf in zip(items, solution, strict=True):
            if item.leaf != leaf:
                item.record = None
                if not self._findings.has(item.seq):
                    self._changed(item.seq)
        if self._doubt and items and not any(map(self._findings.has, self._numbers())):
            links = [items[0].prev, *[leaf.hex() for leaf in solution[:-1]]]
            wrong = [item for item, link in zip(items, links, strict=True) if item.prev != link]
            self._changed((wrong or items)[0].seq)  # it was signed with a link to nothing
        self._look_at_all(items)
        frontier = base.copy()
        frontier.extend(solution)
        self._base, self._frontier = frontier, frontier.copy()
        self.tip = solution[-1].hex() if solution else self.tip
        self._items, self._doubt = [], False

    def _report_unsolved(self, items: list[Item], next_prev: str | None) -> None:
        known = any(self._findings.has(item.seq) for item in items)
        self._lose_records()
        if items and next_prev is None:
            # Nothing behind the last record names it. Had only an earlier one changed, its
            # successor's link would have given the signed root; so the last one changed.
            last = items.pop()
            known = True
            if last.leaf is not None:
                self._changed(last.seq)
            # Of the one before it, only that changed record spoke.
            if items and items[-1].leaf is not None and last.prev != items[-1].leaf.hex():
                items[-1].leaf = None
        known = self._report_links(items, next_prev) or known
        if not known:
            first = items[0].seq if items else self.expected
            self._findings.add(
                "tree_mismatch",
                first,
                f"The records from {first} to {self.expected - 1} are not the ones that the "
                "checkpoint after them signs: they were rewritten.",
            )

    def _report_links(self, items: Sequence[Item], next_prev: str | None) -> bool:
        """Name each record that its successor's link contradicts; tell whether there was one."""
        found = list(contradicted(items, next_prev))
        for seq in found:
            self._changed(seq)
        return bool(found)

    def _numbers(self) -> list[int]:
        return [item.seq for item in self._items]

    def _changed(self, seq: int) -> None:
        self._findings.add(
            "record_changed",
            seq,
            f"Record {seq} was changed: its bytes no longer give the hash that the log signed.",
        )

    def _lose_tree(self) -> None:
        """Go on with links and signatures only, until the next seal."""
        if self._base is not None:
            self._findings.note(
                "tree_lost",
                self.expected,
                f"From record {self.expected} to the end of this segment the tree could not be "
                "recomputed; links and signatures were checked.",
            )
        self._base = self._frontier = None
        self._items, self._doubt = self._items[-1:], False

    # -- the end -------------------------------------------------------------------------------

    def finish(self, head: Checkpoint | None, head_note: str) -> None:
        """Judge what is still open at the end of a file. `head` may sign the end, too."""
        self.judge_waiting(None)
        if not self._items or self._base is None:
            return
        if head is None or head.size != self.expected:
            known = self._report_links(self._items, None)
            if self._doubt and not known and not any(map(self._findings.has, self._numbers())):
                self._changed(self._items[0].seq)  # its link is not what was signed before it
            if self.watch.wants(self._base, self.expected):  # what is held may sign these
                leaves = [item.leaf for item in self._items]
                self.watch.see(self._base, leaves, [item.record for item in self._items])
            self._look_at_all(self._items)
            return
        if not self._gives(head.root):
            self.signed, self.note = head, head_note
            self._settle(self._base, head.root, None)
            return
        self._good_checkpoint(head, head_note)
        last = self.expected - 1
        if not self._findings.has(last):
            self._findings.add(
                "checkpoint_missing",
                last,
                f"The checkpoint after record {last} is missing; HEAD still has it, and the "
                "records fit it.",
                Status.INCOMPLETE,
            )

    @property
    def unsigned(self) -> int:
        """How many records at the end no good checkpoint covers."""
        return self.expected - (self.signed.size if self.signed else 0)

    def root(self) -> bytes | None:
        """Return the root over everything read, when it could be computed."""
        return self._frontier.root() if self._frontier is not None else None
