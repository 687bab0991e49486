"""What is wanted of the anchors, and how often.

Owns the periods, each with what set it, and the configuration that both programs fill in from
their own settings. Invariant: whatever is not asked for is off. Read by `schedule` and its jobs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from shared.anchors.client import WitnessTarget
    from shared.anchors.copies import Copy
    from shared.anchors.tsa import Authority

#: Seconds between two heads of a growing log that go to witnesses and copies. HEAD itself follows
#: every second; ten of them in one are as good against a rollback and ten times cheaper.
HEAD_SECONDS: Final = 10.0
#: Seconds between two time stamps (contracts/ledger.md section 2.8).
STAMP_SECONDS: Final = 3600.0
#: Seconds between two times that calendars are asked for the rest of pending proofs: a block comes
#: every ten minutes, a calendar's own transaction every few hours.
UPGRADE_SECONDS: Final = 3600.0
#: Seconds between two looks at the neighbors, and at whether a stamp is due.
LOOK_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class AnchorConfig:
    """What is wanted; everything is off by default. Times in seconds."""

    witnesses: tuple[WitnessTarget, ...] = ()
    authority: Authority | None = None
    ots: bool = False
    calendars: tuple[str, ...] = ()
    copies: tuple[Copy, ...] = ()
    #: The directory where the ledgers of this machine announce themselves.
    neighbors: Path | None = None
    head_seconds: float = HEAD_SECONDS
    stamp_seconds: float = STAMP_SECONDS
    upgrade_seconds: float = UPGRADE_SECONDS
    look_seconds: float = LOOK_SECONDS
