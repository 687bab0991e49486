"""The session: one team, one directory, one journal. The deck's core; it knows no face.

Owns the life of a run: start, recovery after a crash, what happens each second, stop; and which
part answers which verb. Invariants: a directory has one deck; a crashed run goes on with the same
board and never with more rights than before; whatever was started here is ended here. Run by
`deck.host`; faces read `status()`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

from deck import callers, processes, showing, view
from deck.board import Entry, GateKind, Op, ReportState, State, Task, TaskState
from deck.briefing import Briefing
from deck.budgets import Budgets
from deck.callers import Caller, Peer
from deck.config import Config, TimeoutAction, load_config
from deck.desk import Desk, deck_pid
from deck.durations import format_duration
from deck.gatekeeper import Gatekeeper
from deck.handoffs import Handoffs
from deck.journal import JournalFailed
from deck.merging import Merging
from deck.metering import Metering
from deck.neighbors import record_neighbors
from deck.notes import noted
from deck.operating import Operating
from deck.pane.process import adopt_orphans
from deck.pane.status import PaneState, Status
from deck.proposals import Proposals
from deck.protocol import Command, Target, TargetState, Verb, delegate_ack, error, ok, one_line
from deck.recall import Ask, Recall
from deck.recorded import config_text
from deck.reloading import Reloading
from deck.review import Review
from deck.roster import find_program
from deck.routing import refuse_unrouted
from deck.screens import Screens
from deck.seats import Seat
from deck.server import ControlServer
from deck.session_file import SessionFile
from deck.sessions import SessionError, SessionPaths, claim, write_sidecar
from deck.settling import RESULT_GATES
from deck.snapshots import Snapshots
from deck.stamping import Stamping
from deck.supervision import overdue
from deck.team import Team
from deck.usage import Baseline
from deck.wall.wall import Wall
from deck.work import Work
from shared import __version__

TICK_SECONDS: Final = 1.0
USAGE_SECONDS: Final = 30.0
#: Shared by all panes at the end (contracts/deck.md section 1.6).
STOP_GRACE_SECONDS: Final = 5.0
CARE_EVERY_TICKS: Final = 5

_STARTS_WORK: Final = frozenset(
    {
        Verb.DELEGATE,
        Verb.APPROVE,
        Verb.AGAIN,
        Verb.RELOAD,
        Verb.ROSTER_ADD,
        Verb.RESUME,
        Verb.RESTART,
        Verb.ANSWER,
    }
)
#: They change a team that has to be there.
_NEEDS_A_TEAM: Final = frozenset(
    {Verb.RELOAD, Verb.ROSTER_ADD, Verb.RESTART, Verb.ANSWER, Verb.ENFORCE}
)

Handler = Callable[[Command, Caller], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Options:
    """How a session is run. `gateway_flag` is an explicit --sphragis or --no-sphragis."""

    config: Config
    paths: SessionPaths
    gateway_flag: bool | None = None
    resume: bool = False
    mode: str = "server"
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    #: Asks at the terminal whether to go on with what the last session left; None: do not ask.
    ask: Ask | None = None


class Session:
    """One running team. Everything runs on one event loop."""

    def __init__(self, options: Options) -> None:
        self.phase = "starting"
        self._options = options
        self._config = _with_flag(options.config, options.gateway_flag)
        self._stopped = asyncio.Event()
        self._server = ControlServer(options.paths.socket, self.dispatch)
        self._lock = -1
        self._parts: _Parts | None = None
        self._wall: Wall | None = None
        self._gateway_was_up: bool | None = None
        #: Who asked for the end; empty for a signal or a failure.
        self._stopped_by = ""
        #: Whether this run is on record, so that its end belongs there, too.
        self._on_record = False
        self._ticks = 0

    @property
    def _desk(self) -> Desk:
        return self._open_parts.desk

    @property
    def _open_parts(self) -> _Parts:
        assert self._parts is not None, "the session has not been started"
        return self._parts

    # -- life -----------------------------------------------------------------------------------

    async def start(self) -> None:
        """Bring the team up; returns when work can be handed out.

        Raises SessionError, NotOnPath, JournalFailed, LedgerError, PaneError or OSError with the
        sentence for the user; what had been started is then ended by `stop`.
        """
        options = self._options
        for role in self._config.roles:
            find_program(role, options.environ)
        self._lock = claim(options.paths)
        adopt_orphans()
        desk = await asyncio.to_thread(Desk.open, self._config, options.paths, options.environ)
        self._parts = _Parts.of(desk, self._end_for, self._read_config)
        resumed = await self._begin_run()
        self._make_team()
        await self._server.start()
        write_sidecar(options.paths)
        self._log_start(resumed)
        await self._start_gateway(resumed)
        await self._open_parts.snapshots.start()
        await self._open_parts.merging.prepare(self._config)
        await self._enclose()
        await self._open_parts.stamping.start()
        await self._open_parts.briefing.brief_team(resumed=resumed)
        await self._open_parts.work.reopen_gates()
        for seat in desk.seats.values():
            await seat.start()
        self._restore_queues()
        await self._open_parts.review.resume()
        await self._open_parts.merging.resume()
        await self._open_parts.budgets.resume()
        self._open_parts.session_file.start()
        desk.job(self._open_parts.screens.keep_for_ever())
        self.phase = "running"
        desk.job(self._tick_for_ever())
        desk.job(self._usage_for_ever())
        desk.job(record_neighbors(desk))
        desk.events.write("INFO", "server ready", socket=str(options.paths.socket))

    async def run(self) -> None:
        """Return when the session has been asked to stop."""
        await self._stopped.wait()

    def request_stop(self) -> None:
        """Ask the session to end; `run` then returns."""
        self._stopped.set()

    def _read_config(self) -> Config:
        """Read the team file again, as the command line has it. Blocks. Raises ConfigError."""
        path = self._desk.config.path
        return _with_flag(load_config(path, self._desk.directory), self._options.gateway_flag)

    def _end_for(self, sender: str) -> None:
        self._stopped_by = sender
        self.request_stop()

    @property
    def notices(self) -> tuple[str, ...]:
        """What the person who started it is told: what was lost, how to go on."""
        return tuple(self._parts.desk.notices) if self._parts is not None else ()

    @property
    def farewell(self) -> str:
        """What the person is told at the end; empty when it is nothing special."""
        return self._parts.desk.farewell if self._parts is not None else ""

    async def stop(self) -> None:
        """End agents, gateway (if ours), socket and journal, in that order. Safe after a failed
        or partial start."""
        self.phase = "stopping"
        try:
            if self._parts is not None:
                await self._end_run(self._parts)
        finally:
            if self._wall is not None:
                await self._wall.close()
            if self._lock >= 0:
                await self._server.close()
                self._options.paths.sidecar.unlink(missing_ok=True)
            if self._parts is not None:
                await asyncio.to_thread(self._parts.desk.close)
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    async def _end_run(self, parts: _Parts) -> None:
        """Each part is ended whatever happens to the ones before it."""
        desk = parts.desk
        desk.events.write("INFO", "deck stopping")
        for seat in desk.seats.values():
            seat.stopping = True
        parts.stamping.closed = True
        async with AsyncExitStack() as ends:
            # Last in, first out.
            ends.callback(parts.merging.close)
            ends.push_async_callback(self._end_gateway, desk)
            if self._gateway_was_up and desk.gateway.child is None:
                ends.push_async_callback(parts.stamping.leave)
            ends.push_async_callback(self._end_seats, desk)
            if self._gateway_was_up:
                ends.push_async_callback(parts.metering.take)
            await desk.cancel_jobs()
        await asyncio.to_thread(processes.reap_inherited, ())
        if self._on_record:
            desk.note(
                Entry(Op.SESSION_STOPPED, desk.now(), run=desk.state.run, sender=self._stopped_by)
            )
            await parts.session_file.write()

    async def _end_seats(self, desk: Desk) -> None:
        stops = (seat.stop(STOP_GRACE_SECONDS) for seat in desk.seats.values())
        for result in await asyncio.gather(*stops, return_exceptions=True):
            if isinstance(result, BaseException):
                desk.events.write("ERROR", "role not stopped", err=str(result))

    async def _end_gateway(self, desk: Desk) -> None:
        was_ours = desk.gateway.child is not None
        await desk.gateway.stop()
        if was_ours:
            desk.note(Entry(Op.GATEWAY_STOPPED, desk.now()))

    async def _begin_run(self) -> bool:
        """Begin a new run or go on with the last one; True when it goes on.

        A run that did not end is always gone on with: its orphans are ended first, then what was
        in a pane's hands is lost, in plain sight.
        """
        desk, before = self._desk, self._desk.state
        recall = Recall(desk, self._open_parts.screens)
        goes_on = await recall.decide(wanted=self._options.resume, ask=self._options.ask)
        resumed = bool(before.run) and goes_on
        if before.running:
            await self._end_orphans(before)
        desk.gateway.adopt(before.gateway)
        self._on_record = True
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
        desk = self._desk
        digest = await asyncio.to_thread(desk.journal.keep, config_text(self._config))
        await desk.record(
            Entry(
                Op.CONFIG_SET,
                desk.now(),
                path=str(self._config.path or ""),
                ref=desk.texts.commit(self._config.source),
                digest=digest,
            )
        )
        if self._options.gateway_flag is not None:
            state = "on" if self._options.gateway_flag else "off"
            await self._record_enforcement(state, "the command line says so", "operator")

    async def _record_enforcement(self, state: str, why: str, sender: str = "") -> None:
        desk = self._desk
        await desk.record(
            Entry(Op.ENFORCEMENT_CHANGED, desk.now(), sender=sender, state=state, reason=why)
        )

    async def _end_orphans(self, before: State) -> None:
        ended = await asyncio.to_thread(
            processes.end_leftovers, self._options.paths.id, list(before.children.values())
        )
        if ended:
            pids = ",".join(map(str, ended))
            self._desk.events.write("WARN", "orphans ended", pids=pids)

    async def _enclose(self) -> None:
        """Keep what the team file promises about ways past the gateway, or refuse to start."""
        desk = self._desk
        refuse_unrouted(self._config, desk.environ, enforced=desk.gateway.enforced)
        assert self._wall is not None
        await self._wall.start()
        for role in self._wall.roles:
            desk.events.write("INFO", "wall proved", role=role.name)

    def _make_team(self) -> None:
        desk, parts = self._desk, self._open_parts
        self._wall = parts.merging.wall = Wall(
            desk.config,
            desk.paths,
            desk.environ,
            desk.gateway,
            self.dispatch,
            place=parts.merging.place,
        )
        team = Team(
            desk=desk,
            wall=self._wall,
            merging=parts.merging,
            stamping=parts.stamping,
            before_delivery=self._before_delivery,
            on_status=self._pane_status,
        )
        team.fill()
        parts.reloading.team = team

    def _log_start(self, resumed: bool) -> None:
        desk = self._desk
        desk.events.write(
            "INFO",
            "deck starting",
            roles=len(desk.seats),
            sphragis=desk.gateway.enforced,
            dir=desk.paths.directory,
            pid=deck_pid(),
            version=__version__,
            mode=self._options.mode,
            os=os.uname().sysname.lower(),
        )
        for warning in self._config.warnings:
            desk.events.write("WARN", "config", warning=warning)
        if resumed:
            lost = sum(task.state is TaskState.LOST for task in desk.state.tasks.values())
            desk.events.write("INFO", "session resumed", lost=lost)

    async def _start_gateway(self, resumed: bool) -> None:
        """Attach to the gateway or start it, and begin to count its tokens.

        What an attached gateway had counted before is not ours; one that comes up later, or that
        we started, counts for us from its zero.
        """
        desk = self._desk
        if desk.gateway.enforced:
            readiness = await desk.gateway.ensure(
                lambda child: desk.note(
                    Entry(Op.GATEWAY_STARTED, desk.now(), pid=child.pid, born=child.born)
                )
            )
            self._gateway_was_up = readiness.ready
            if not desk.gateway.enforced:
                desk.events.write("WARN", "sphragis auto-off", reason=readiness.reason)
                await self._record_enforcement("off", one_line(readiness.reason))
            elif readiness.ready:
                desk.events.write("INFO", "gateway ready", addr=desk.gateway.url)
            else:
                desk.events.write("ERROR", "gateway start failed", reason=readiness.reason)
        attached = self._gateway_was_up and (desk.gateway.child is None or resumed)
        baseline = Baseline.ATTACHED if attached else Baseline.STARTED
        await self._open_parts.metering.start(baseline, desk.state.usage if resumed else "")

    def _restore_queues(self) -> None:
        """Put back on their way the tasks and reports that an earlier run still owed."""
        desk, work = self._desk, self._open_parts.work
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

    # -- commands -------------------------------------------------------------------------------

    async def dispatch(self, command: Command, peer: Peer) -> bytes:
        """Carry out one command from the control socket and return its ack."""
        caller = self._identify(command, peer)
        objection = callers.objection(caller, command, self._desk.state, self._desk.start_name)
        try:
            if objection is not None:
                return await self._deny(command, caller, objection)
            if self.phase == "stopping" and command.verb in _STARTS_WORK:
                return error("The session is stopping; nothing is handed out any more.")
            if self.phase == "starting" and command.verb in _NEEDS_A_TEAM:
                return error("The session is still starting; try again in a moment.")
            handler = self._handler(command.verb)
            if handler is None:
                return error(f"{command.verb} is not supported yet; restart the session instead.")
            return await handler(command, caller)
        except JournalFailed as failure:
            return error(str(failure))
        except OSError as failure:
            return error(f"The deck cannot write to {self._desk.state_dir}: {failure.strerror}.")

    def _handler(self, verb: Verb) -> Handler | None:
        parts = self._open_parts
        work = parts.work
        handlers: dict[Verb, Handler] = {
            Verb.PING: self._ping,
            Verb.STATUS: self._status,
            Verb.GATES: self._gates,
            Verb.SHOW: self._show,
            Verb.DELEGATE: work.delegate,
            Verb.WORK_DONE: work.work_done,
            Verb.APPROVE: parts.gatekeeper.decide,
            Verb.REJECT: parts.gatekeeper.decide,
            Verb.AGAIN: work.again,
            Verb.RELOAD: parts.reloading.reload,
            Verb.ROSTER_ADD: parts.proposals.propose,
            Verb.HANDOFF: parts.handoffs.handoff,
            Verb.PAUSE: parts.operating.pause,
            Verb.RESUME: parts.operating.resume,
            Verb.RESTART: parts.operating.restart,
            Verb.ANSWER: parts.operating.answer,
            Verb.ENFORCE: parts.operating.enforce,
            Verb.SHUTDOWN: self._shutdown,
            Verb.NOTE: self._note,
        }
        return handlers.get(verb)

    def _identify(self, command: Command, peer: Peer) -> Caller:
        seats = self._desk.seats.values()
        return callers.identify(
            peer,
            # A pid that is free again may be anybody's.
            panes={s.pane.pid: s.name for s in seats if s.pane and s.pane.pid and s.alive},
            deck_pid=deck_pid(),
            session=self._options.paths.id,
            token_role=next((s.name for s in seats if s.credential.matches(command.token)), None),
        )

    async def _deny(self, command: Command, caller: Caller, reason: str) -> bytes:
        await self._desk.record(
            Entry(
                Op.DENIED,
                self._desk.now(),
                role=one_line(", ".join(command.to)),
                sender=caller.name,
                state=command.verb,
                reason=reason,
                task=command.id,
            )
        )
        self._desk.events.write(
            "WARN", "command refused", cmd=command.verb, **{"from": caller.name}, reason=reason
        )
        if command.verb is Verb.DELEGATE:
            return delegate_ack(
                tuple(Target(name, "", TargetState.REFUSED, reason) for name in command.to)
            )
        return error(reason)

    async def _ping(self, command: Command, caller: Caller) -> bytes:
        return ok(phase=self.phase)

    async def _status(self, command: Command, caller: Caller) -> bytes:
        await self._open_parts.metering.refresh()
        return ok(**self.status())

    async def _gates(self, command: Command, caller: Caller) -> bytes:
        return ok(gates=view.gates(self._desk))

    async def _show(self, command: Command, caller: Caller) -> bytes:
        return await showing.show(self._desk, self._open_parts.gatekeeper, command, caller)

    async def _note(self, command: Command, caller: Caller) -> bytes:
        """Put on record what the command line is about to do, or has done."""
        entry = noted(command.task, command.id, command.reason, self._desk.now(), caller.name)
        if entry is None:
            return error("A note is of a rollback or of pruned checkpoints.")
        await self._desk.record(entry)
        return ok()

    async def _shutdown(self, command: Command, caller: Caller) -> bytes:
        self._desk.events.write("INFO", "client requested shutdown", **{"from": caller.name})
        self._stopped_by = caller.name
        # After the ack is on its way.
        asyncio.get_running_loop().call_later(0.05, self.request_stop)
        return ok(pid=deck_pid())

    def status(self) -> dict[str, Any]:
        """Return the whole session as plain values, for the `status` verb and for faces."""
        return view.status(self._desk, self._open_parts.metering, self.phase)

    # -- what goes on meanwhile -----------------------------------------------------------------

    async def _before_delivery(self, task: Task) -> None:
        parts = self._open_parts
        await parts.merging.before(task)
        await asyncio.gather(
            parts.snapshots.before(task),
            parts.metering.begin(task),
            parts.review.begin(task),
            parts.work.refresh(task),
        )

    async def _tick_for_ever(self) -> None:
        desk = self._desk
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._ticks += 1
            if desk.gateway.enforced:
                await desk.gateway.probe()
                self._note_health()
                if desk.gateway.reap():
                    desk.note(Entry(Op.GATEWAY_STOPPED, desk.now()))
                self._open_parts.stamping.tick()
            for task in list(overdue(desk.state, desk.config.role, desk.now())):
                await self._time_out(task)
            await self._open_parts.gatekeeper.tick()
            await self._open_parts.review.tick()
            if self._ticks % CARE_EVERY_TICKS == 0:
                await asyncio.to_thread(processes.reap_inherited, self._own_children())
                await self._stay_reachable()

    async def _stay_reachable(self) -> None:
        """Bring back a control socket that was cleaned away; end with a project that is gone."""
        desk = self._desk
        if os.stat(".").st_nlink == 0:
            desk.events.write("ERROR", "project directory removed")
            self.request_stop()
            return
        try:
            if await self._server.restore():
                write_sidecar(desk.paths)
                desk.events.write("WARN", "control socket restored", socket=str(desk.paths.socket))
            if self._wall is not None:
                await self._wall.restore()
        except (SessionError, OSError) as failure:
            desk.events.write("ERROR", "control socket lost", err=str(failure))

    def _note_health(self) -> None:
        last = self._desk.gateway.last
        if last.ready == self._gateway_was_up:
            return
        self._gateway_was_up = last.ready
        if last.ready:
            self._open_parts.stamping.again()
        self._desk.events.write(
            "INFO" if last.ready else "WARN",
            "gateway health changed",
            up=last.ready,
            reason=last.reason or None,
        )

    def _own_children(self) -> list[int]:
        seats, gateway = self._desk.seats.values(), self._desk.gateway.child
        pids = [seat.pane.pid for seat in seats if seat.pane and seat.pane.pid]
        return [*pids, gateway.pid] if gateway else pids

    async def _time_out(self, task: Task) -> None:
        desk, seat = self._desk, self._desk.seats[task.role]
        limit = format_duration(seat.role.timeout or 0)
        action = seat.role.timeout_action
        await desk.move(task, TaskState.TIMED_OUT, f"no report within {limit}")
        desk.events.write(
            "WARN", "delegate timeout", id=task.id, to=task.role, after=limit, action=action
        )
        desk.hook("on_timeout", desk.config.ui.on_timeout, task.role, desk.label(task))
        desk.notify(f"{task.id} for {task.role} has had no report for {limit}.")
        if action is TimeoutAction.RESTART:
            desk.job(seat.end_for_timeout(STOP_GRACE_SECONDS))

    async def _usage_for_ever(self) -> None:
        while True:
            await asyncio.sleep(USAGE_SECONDS)
            await self._open_parts.metering.take()

    def _pane_status(self, seat: Seat, status: Status) -> None:
        desk = self._desk
        if status.state is PaneState.BLOCKED:
            question = one_line(status.question)
            desk.events.write("WARN", "waiting for input", role=seat.name, question=question)
            desk.hook("on_input", desk.config.ui.on_input, seat.name, "")
        elif status.state is PaneState.WORKING and status.source.is_fact:
            for task in list(desk.state.in_flight(seat.name)):
                if task.state is TaskState.SUBMITTED:
                    desk.note(desk.moved(task, TaskState.PICKED_UP))


@dataclass(frozen=True, slots=True)
class _Parts:
    """What exists once the journal is open."""

    desk: Desk
    snapshots: Snapshots
    metering: Metering
    stamping: Stamping
    gatekeeper: Gatekeeper
    merging: Merging
    review: Review
    work: Work
    operating: Operating
    budgets: Budgets
    reloading: Reloading
    proposals: Proposals
    handoffs: Handoffs
    briefing: Briefing
    screens: Screens
    session_file: SessionFile

    @classmethod
    def of(cls, desk: Desk, stop: Callable[[str], None], read: Callable[[], Config]) -> _Parts:
        snapshots, metering, keeper = Snapshots(desk), Metering(desk), Gatekeeper(desk)
        merging = Merging(desk, keeper, snapshots)
        review = Review(desk, keeper, merging)
        work = Work(desk, snapshots, metering, keeper, review, merging)
        keeper.serve(GateKind.ENTRY, work.rules())
        for kind in RESULT_GATES:
            keeper.serve(kind, review.rules())
        keeper.serve(GateKind.MERGE, merging.rules())
        stamping, briefing = Stamping(desk), Briefing(desk)
        operating = Operating(desk, metering, stamping)
        reloading = Reloading(desk, keeper, merging, stamping, briefing, read)
        proposals = Proposals(desk, keeper, reloading)
        keeper.serve(GateKind.ROSTER, proposals.rules())
        return cls(
            desk=desk,
            snapshots=snapshots,
            metering=metering,
            stamping=stamping,
            gatekeeper=keeper,
            merging=merging,
            review=review,
            work=work,
            operating=operating,
            budgets=Budgets(desk, metering, operating),
            reloading=reloading,
            proposals=proposals,
            handoffs=Handoffs(desk, stop),
            briefing=briefing,
            screens=Screens(desk),
            session_file=SessionFile(desk),
        )


def _with_flag(config: Config, flag: bool | None) -> Config:
    """An explicit --sphragis or --no-sphragis counts as written in the file."""
    if flag is None:
        return config
    return replace(config, sphragis=replace(config.sphragis, enabled=flag))
