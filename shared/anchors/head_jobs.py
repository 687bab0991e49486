"""Sending out the newest head: to a witness that cosigns it, or to a place that keeps a copy.

Owns when a head goes out (whenever it moved) and what the ledger is told of it: who witnesses the
log, once a run, and each history that a witness contradicts. Invariants: an older head never comes
to a copy after a newer one; a cosignature that came back is kept before the next head is sent.
Blocking; run by `schedule`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from shared.anchors.errors import Alarm, AnchorError
from shared.anchors.files import keep_checkpoint, published_head, thin_out
from shared.anchors.job import Channel, record_anchor
from shared.ledger import Ledger, LedgerError

if TYPE_CHECKING:
    from shared.anchors.client import WitnessTarget
    from shared.anchors.copies import Copy

#: How many cosignatures between two looks for files that are no longer needed.
THIN_EVERY: Final = 64


class WitnessJob:
    def __init__(self, ledger: Ledger, target: WitnessTarget, period: float) -> None:
        from shared.anchors.client import WitnessClient

        self.channel = Channel("witness", target.name)
        self.period = self.first_pause = period
        self._ledger = ledger
        self._client = WitnessClient(target, ledger.directory)
        self._count = 0

    def step(self) -> int | None:
        # The published head, not the newest checkpoint: HEAD then carries the cosignature.
        newest = partial(published_head, self._ledger.directory)
        if newest().size == self.channel.size:
            return None
        try:
            cosigned = self._client.submit(newest)
        except Alarm as alarm:
            self._raise_alarm(alarm)
            raise
        size = cosigned.head.size
        keep_checkpoint(self._ledger.directory, cosigned.head)
        self._ledger.add_cosignatures(size, [cosigned.cosignature.line])
        if not self._count:
            # Once a run: who witnesses this log. Each cosignature is in its own file.
            when = {"time": cosigned.cosignature.time}
            record_anchor(self._ledger, self._ext() | cosigned.head.ext() | when)
        self._count += 1
        if self._count % THIN_EVERY == 0:
            thin_out(self._ledger.directory)
        return size

    def _raise_alarm(self, alarm: Alarm) -> None:
        known, self.channel.alarm = self.channel.alarm, str(alarm)
        if not known:
            head = published_head(self._ledger.directory)
            with contextlib.suppress(LedgerError, AnchorError):
                record_anchor(self._ledger, self._ext() | head.ext() | {"alarm": alarm.code})

    def _ext(self) -> dict[str, object]:
        target = self._client.target
        return {"kind": "witness", "name": target.name, "vkey": target.key.vkey()}

    def end(self) -> None:
        pass


class CopyJob:
    def __init__(self, ledger: Ledger, copy: Copy, period: float) -> None:
        self.channel = Channel("copy", copy.name)
        self.period = self.first_pause = period
        self._ledger = ledger
        self._copy = copy
        #: One at a time, so that an older head never comes after a newer one.
        self._turn = threading.Lock()
        self._sent = 0

    def step(self) -> int | None:
        with self._turn:
            head = published_head(self._ledger.directory)
            if head.size == self._sent:
                return None
            self._copy.send(head)
            self._sent = head.size
            return head.size

    def last_head(self, seconds: float) -> None:
        """Copy the head that the closed ledger has, unless it went out before."""
        until = time.monotonic() + seconds
        if not self._turn.acquire(timeout=seconds):
            raise AnchorError("The copy of an earlier head has not ended.")
        try:
            head = published_head(self._ledger.directory)
            if head.size != self._sent:
                self._copy.send(head, max(until - time.monotonic(), 0.1))
                self._sent = head.size
        finally:
            self._turn.release()

    def end(self) -> None:
        pass
