"""The start of a session: begin a run or go on with the last one, on record before anything runs.

Owns these steps, not their order. Invariants: a run that did not end is gone on with; its orphans
are ended before anything new is started; the settings in force, and who changed enforcement, are
on record first. `deck.session` takes the steps.
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from dataclasses import dataclass

from deck import processes
from deck.board import State
from deck.desk import Desk, deck_pid
from deck.entries import Entry, Op, ReportState, TaskState
from deck.gate_rules import differences
from deck.parts import Parts
from deck.protocol import one_line
from deck.recall import Ask, Recall
from deck.recorded import config_text
from deck.usage import Baseline
from shared import __version__


@dataclass(slots=True)
class Starting:
    """The start of one session. `gateway_flag` is an explicit --sphragis or --no-sphragis."""

    parts: Parts
    gateway_flag: bool | None
    resume: bool
    mode: str
    ask: Ask | None = None
    #: Whether this run is on record, so that its end belongs there, too.
    on_record: bool = False
    #: Whether the event log says that it has started, so that it says the end, too.
    in_log: bool = False

    @property
    def _desk(self) -> Desk:
        return self.parts.desk

    async def begin(self) -> bool:
        """Begin a new run or go on with the last one; True when it goes on.

        A run that did not end is always gone on with: its orphans are ended first, then what was
        in a pane's hands is lost, in plain sight.
        """
        desk, before = self._desk, self._desk.state
        recall = Recall(desk, self.parts.screens)
        goes_on = await recall.decide(wanted=self.resume, ask=self.ask)
        resumed = bool(before.run) and goes_on
        if before.running:
            await self._end_orphans(before)
        desk.gateway.adopt(before.gateway)
        self.on_record = True
        await desk.record(
            Entry(
                Op.SESSION_STARTED,
                desk.now(),
                run=before.run if resumed else f"{int(time.time())}-{deck_pid()}",
                state="resumed" if resumed else "fresh",
                pid=deck_pid(),
            )
        )
        await self._record_setup()
        await recall.settle(before, goes_on=goes_on)
        return goes_on

    async def _record_setup(self) -> None:
        """Put on record the settings in force, by the digest of their text, and what the command
        line changed about enforcement."""
        desk, text = self._desk, config_text(self._desk.config)
        last = await asyncio.to_thread(desk.journal.kept, desk.state.settings)
        digest = await asyncio.to_thread(desk.journal.keep, text)
        if desk.state.settings and not last:
            desk.notices.append("the settings of the last start are gone; changes cannot be told")
        for change in differences(last, text):
            desk.notices.append(f"changed since the last start: {change}")
            desk.events.write("WARN", "gate rules changed", change=change)
        await desk.record(
            Entry(
                Op.CONFIG_SET,
                desk.now(),
                path=str(desk.config.path or ""),
                ref=desk.texts.commit(desk.config.source),
                digest=digest,
            )
        )
        if self.gateway_flag is not None:
            state = "on" if self.gateway_flag else "off"
            await self._record_enforcement(state, "the command line says so", "operator")

    async def _record_enforcement(self, state: str, why: str, sender: str = "") -> None:
        desk = self._desk
        await desk.record(
            Entry(Op.ENFORCEMENT_CHANGED, desk.now(), sender=sender, state=state, reason=why)
        )

    async def _end_orphans(self, before: State) -> None:
        ended = await asyncio.to_thread(
            processes.end_leftovers, self._desk.paths.id, list(before.children.values())
        )
        if ended:
            pids = ",".join(map(str, ended))
            self._desk.events.write("WARN", "orphans ended", pids=pids)

    def log(self, resumed: bool) -> None:
        """Write the lines that the report of a run begins with."""
        desk, self.in_log = self._desk, True
        desk.events.write(
            "INFO",
            "deck starting",
            roles=len(desk.seats),
            sphragis=desk.gateway.enforced,
            dir=desk.paths.directory,
            pid=deck_pid(),
            version=__version__,
            mode=self.mode,
            os=os.uname().sysname.lower(),
            # Readers of the existing line look for `go`; this program has none.
            go="",
            python=platform.python_version(),
        )
        for warning in desk.config.warnings:
            desk.events.write("WARN", "config", warning=warning)
        if resumed:
            lost = sum(task.state is TaskState.LOST for task in desk.state.tasks.values())
            desk.events.write("INFO", "session resumed", lost=lost)

    async def start_gateway(self, resumed: bool) -> bool | None:
        """Attach to the gateway or start it, and begin to count its tokens; return whether it is
        up, None for a team without one.

        What an attached gateway had counted before is not ours; one that comes up later, or that
        we started, counts for us from its zero.
        """
        desk, was_up = self._desk, None
        if desk.gateway.enforced:
            readiness = await desk.gateway.ensure(
                lambda child: desk.note(
                    Entry(Op.GATEWAY_STARTED, desk.now(), pid=child.pid, born=child.born)
                )
            )
            was_up = readiness.ready
            if not desk.gateway.enforced:
                desk.events.write("WARN", "sphragis auto-off", reason=readiness.reason)
                await self._record_enforcement("off", one_line(readiness.reason))
            elif readiness.ready:
                desk.events.write("INFO", "gateway ready", addr=desk.gateway.url)
            else:
                desk.events.write("ERROR", "gateway start failed", reason=readiness.reason)
        attached = was_up and (desk.gateway.child is None or resumed)
        baseline = Baseline.ATTACHED if attached else Baseline.STARTED
        await self.parts.metering.start(baseline, desk.state.usage if resumed else "")
        return was_up

    def restore_queues(self) -> None:
        """Put back on their way the tasks and reports that an earlier run still owed."""
        desk, work = self._desk, self.parts.work
        for task in list(desk.state.tasks.values()):
            if task.state is TaskState.QUEUED:
                seat = desk.seats.get(task.role)
                if seat is not None:
                    work.queue(seat, task.id)
                else:
                    reason = f"there is no role {task.role} any more"
                    desk.note(desk.moved(task, TaskState.LOST, reason))
        for report in list(desk.state.reports.values()):
            if report.state in (ReportState.DELIVERED, ReportState.HELD, ReportState.WITHHELD):
                continue
            if report.state is not ReportState.QUEUED:
                desk.note(
                    Entry(Op.REPORT_MOVED, desk.now(), id=report.id, state=ReportState.QUEUED)
                )
            work.bring(report.id)
