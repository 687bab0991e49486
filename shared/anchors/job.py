"""One way out, as `schedule` runs it: what is to be done, how it fares, what is recorded of it.

Owns the status that people see of each way out and the writing of `anchor` records. Invariant: a
channel is written by its own job and by the one that runs it, and read by anyone; a record is
durable when `record_anchor` returns. Used by `schedule` and by each module of jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from shared.anchors.errors import AnchorError
from shared.ledger import Ledger, RecordType

Say = Callable[[str], None]

#: Seconds that our own writer gets for an `anchor` record.
RECORD_TIMEOUT: Final = 30.0


@dataclass(slots=True)
class Channel:
    """One way out and how it fares. Written by its own job, read by anyone."""

    kind: str
    name: str
    size: int = 0
    at: int = 0
    failures: int = 0
    trouble: str = ""
    alarm: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return what the console shows: `at` is Unix seconds of the last success."""
        return {
            "kind": self.kind,
            "name": self.name,
            "size": self.size,
            "at": self.at,
            "failures": self.failures,
            "trouble": self.trouble,
            "alarm": self.alarm,
        }


class Job(Protocol):
    """One way out: `step` does what is due, blocking, and returns the size it brought out, or
    None when nothing was due."""

    channel: Channel
    period: float
    first_pause: float

    def step(self) -> int | None: ...

    def end(self) -> None: ...


def record_anchor(ledger: Ledger, ext: dict[str, object]) -> None:
    """Write an `anchor` record and wait until it is durable. Raises LedgerError, AnchorError."""
    try:
        ledger.append(RecordType.ANCHOR, {"ext": ext}).result(RECORD_TIMEOUT)
    except TimeoutError:
        raise AnchorError("The ledger's writer is busy; trying again.") from None
