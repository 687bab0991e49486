"""What a log has at the sizes that someone asks about: its root there, and the times around it.

Owns the sizes and what was seen at each. Invariant: a root is remembered only where the records
before it give it, or a good checkpoint signs it. Pure. Filled in by `tail` while a log is followed;
asked by `inspection`, `claims` and `verify`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.ledger.checkpoint import Checkpoint
from shared.ledger.merkle import Frontier


@dataclass(frozen=True, slots=True)
class Seen:
    """What the log has at a size that someone asks about: its root, and the times of the record
    before and of the one behind (None when not known)."""

    root: bytes
    before: int | None = None
    after: int | None = None


class Watch:
    """The sizes asked about in one log."""

    def __init__(self) -> None:
        self.seen: dict[int, Seen] = {}
        #: Those that are still ahead, the largest first.
        self._sizes: list[int] = []

    def ask(self, sizes: Iterable[int]) -> None:
        """Remember what the log has at `sizes`."""
        self._sizes = sorted(sizes, reverse=True)

    def wants(self, base: Frontier | None, size: int) -> bool:
        """Tell whether a size between the last good checkpoint and `size` is asked about."""
        sizes = self._sizes
        start = base.size if base is not None else 0
        while sizes and sizes[-1] < start:
            sizes.pop()
        return bool(sizes) and sizes[-1] <= size

    def see(
        self,
        base: Frontier | None,
        leaves: Sequence[bytes | None],
        records: Sequence[Mapping[str, Any] | None],
    ) -> None:
        """Note roots and times at the sizes asked about, from `base` over `leaves`."""
        if base is None:
            return
        for size in reversed(self._sizes):
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

    def see_signed(self, signed: Checkpoint) -> None:
        """A signed root counts even where the records before it do not give it."""
        if signed.size in self._sizes:
            self.seen.setdefault(signed.size, Seen(signed.root))
