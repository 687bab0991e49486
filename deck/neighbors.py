"""The other ledgers of this machine, recorded in the deck's own, and the deck's in theirs.

Invariant: this is a background job that costs the deck nothing when it fails; what a neighbor did
is told in the event log and never stops work, because it is that neighbor's trouble. The rules are
in `shared.anchors`. Called by `deck.session`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from shared.anchors.config import AnchorConfig
from shared.anchors.neighbors import neighbors_dir
from shared.anchors.schedule import (
    AnchorStatus,
    look_once_more,
    run_anchors,
    send_last_heads,
)
from shared.paths import UnsafeDirectory

if TYPE_CHECKING:
    from deck.desk import Desk


class Neighbors:
    """The other ledgers, for one life of a deck."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._status = AnchorStatus()

    async def record(self) -> None:
        """Record the heads of the other ledgers until cancelled."""
        desk, loop = self._desk, asyncio.get_running_loop()

        def say(line: str) -> None:  # called from any thread
            loop.call_soon_threadsafe(_note, desk, line)

        try:
            place: Path = await asyncio.to_thread(neighbors_dir, desk.environ)
        except (OSError, UnsafeDirectory) as error:
            _note(desk, f"the other ledgers of this machine are not recorded: {error}")
            return
        config = AnchorConfig(neighbors=place)
        await run_anchors(desk.journal.ledger, config, self._status, say)

    async def look_once_more(self) -> None:
        """Record the heads that moved since, before the deck's last record; in bounded time."""
        await look_once_more(self._status, lambda line: _note(self._desk, line))

    async def send_last_head(self) -> None:
        """Tell the others the head that the journal was closed with; in bounded time. The event
        log is closed by then, and what fails is not told."""
        await send_last_heads(self._status, lambda _: None)


def _note(desk: Desk, line: str) -> None:
    desk.events.write("WARN", "neighbors", note=line)
