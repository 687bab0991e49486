"""The other ledgers of this machine, recorded in the deck's own, and the deck's in theirs.

Invariant: this is a background job that costs the deck nothing when it fails; what a neighbor did
is told in the event log and never stops work, because it is that neighbor's trouble. The rules are
in `shared.anchors`. Called by `deck.session`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from shared.anchors.neighbors import neighbors_dir
from shared.anchors.schedule import AnchorConfig, AnchorStatus, run_anchors
from shared.paths import UnsafeDirectory

if TYPE_CHECKING:
    from deck.desk import Desk


async def record_neighbors(desk: Desk) -> None:
    """Record the heads of the other ledgers until cancelled."""
    loop = asyncio.get_running_loop()

    def say(line: str) -> None:  # called from any thread
        loop.call_soon_threadsafe(_note, desk, line)

    try:
        place: Path = await asyncio.to_thread(neighbors_dir, desk.environ)
    except (OSError, UnsafeDirectory) as error:
        _note(desk, f"the other ledgers of this machine are not recorded: {error}")
        return
    await run_anchors(desk.journal.ledger, AnchorConfig(neighbors=place), AnchorStatus(), say)


def _note(desk: Desk, line: str) -> None:
    desk.events.write("WARN", "neighbors", note=line)
