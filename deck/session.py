"""The session: one team, one directory, one journal. The deck's core; it knows no face.

Owns the life of a run (start, crash recovery, stop) and what each verb does. Invariants: every
change of the board goes through `deck.journal` and is durable before its effect; a report is
never refused because the gateway is down, a delegation always is; every command has a known
author. `deck.cli.serve` runs it behind `deck.server`; faces read `status()`.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from deck import briefs, callers, gates, processes
from deck.board import (
    IN_FLIGHT,
    Decision,
    Entry,
    IllegalMove,
    Op,
    ReportState,
    State,
    Task,
    TaskState,
)
from deck.callers import Caller, Peer
from deck.checkpoints import Checkpoints, GitError, delivery_subject
from deck.config import Config, Role, TimeoutAction
from deck.events import EventLog
from deck.gateway import Gateway
from deck.hooks import run_hook
from deck.journal import Journal, JournalFailed
from deck.pane.process import adopt_orphans
from deck.pane.status import PaneState, Status
from deck.pricing import Tokens, cost_usd, round_cost
from deck.protocol import (
    Command,
    Target,
    TargetState,
    Verb,
    delegate_ack,
    error,
    ok,
    one_line,
)
from deck.roster import Surroundings, find_program
from deck.seats import Desk, NoticeLine, ReportLine, Seat, TaskLine
from deck.server import ControlServer
from deck.sessions import SessionPaths, claim, write_sidecar
from deck.supervision import overdue
from deck.texts import TextStore
from deck.usage import Baseline, UsageMeter
from shared import __version__
from shared.paths import state_dir

TICK_SECONDS: Final = 1.0
USAGE_SECONDS: Final = 30.0
#: Shared by all panes at the end (contracts/deck.md section 1.6).
STOP_GRACE_SECONDS: Final = 5.0
REAP_EVERY_TICKS: Final = 5
RECAP_IDS: Final = 10


@dataclass(frozen=True, slots=True)
class Options:
    """How a session is run. `gateway_flag` is an explicit --sphragis or --no-sphragis."""

    config: Config
    paths: SessionPaths
    gateway_flag: bool | None = None
    resume: bool = False
    mode: str = "server"
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


class Session:
    """One running team. Everything runs on one event loop."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.config = _with_flag(options.config, options.gateway_flag)
        self.directory = Path(options.paths.directory)
        self.state_dir = self.directory / briefs.STATE_DIR
        self.phase = "starting"
        self.seats: dict[str, Seat] = {}
        self.usage = UsageMeter(Baseline.STARTED)
        self._stopped = asyncio.Event()
        self._jobs: set[asyncio.Task[None]] = set()
        self._lock = -1
        self._gateway_up: bool | None = None
        self._ticks = 0
        self._checkpoints: Checkpoints | None = None
        self._run = f"{int(time.time())}-{os.getpid()}"
        self._resumed = False
        self._server = ControlServer(options.paths.socket, self.dispatch)
        self._handlers: dict[Verb, Callable[[Command, Caller], Awaitable[bytes]]] = {
            Verb.PING: self._ping,
            Verb.STATUS: self._status,
            Verb.DELEGATE: self._delegate,
            Verb.WORK_DONE: self._work_done,
            Verb.GATES: self._gates,
            Verb.APPROVE: self._decide,
            Verb.REJECT: self._decide,
            Verb.AGAIN: self._again,
            Verb.SHUTDOWN: self._shutdown,
        }

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Bring the team up; returns when work can be handed out.

        Raises SessionError, NotOnPath, JournalFailed, PaneError or OSError with the sentence for
        the user; what had been started is then stopped by `stop`.
        """
        for role in self.config.roles:
            find_program(role, self.options.environ)
        self._lock = claim(self.options.paths)
        adopt_orphans()
        await asyncio.to_thread(self._open)
        await self._recover()
        self._make_seats()
        await self._server.start()
        write_sidecar(self.options.paths)
        self._log_start()
        await self._start_gateway()
        await self._start_usage()
        await self._start_checkpoints()
        await self._write_briefs()
        for seat in self.seats.values():
            await seat.start()
        self._restore_queues()
        self.phase = "running"
        self._job(self._tick_for_ever())
        self._job(self._usage_for_ever())
        self.events.write("INFO", "server ready", socket=str(self.options.paths.socket))

    async def run(self) -> None:
        """Return when the session has been asked to stop."""
        await self._stopped.wait()

    def request_stop(self) -> None:
        """Ask the session to end; `run` then returns."""
        self._stopped.set()

    async def stop(self) -> None:
        """End agents, gateway (if ours), socket and journal, in that order. Safe after a failed
        or partial start."""
        self.phase = "stopping"
        try:
            if hasattr(self, "events"):
                self.events.write("INFO", "deck stopping")
                if self._gateway_up:
                    await self._take_usage()
            await _cancel(self._jobs)
            await asyncio.gather(
                *(seat.stop(STOP_GRACE_SECONDS) for seat in self.seats.values()),
                return_exceptions=True,
            )
            if hasattr(self, "gateway"):
                had_child = self.gateway.child is not None
                await self.gateway.stop()
                if had_child:
                    self._note(Entry(Op.GATEWAY_STOPPED, self._now()))
            if hasattr(self, "journal"):
                self._note(Entry(Op.SESSION_STOPPED, self._now(), run=self._run))
        finally:
            if self._lock >= 0:
                await self._server.close()
                self.options.paths.sidecar.unlink(missing_ok=True)
            if hasattr(self, "journal"):
                await asyncio.to_thread(self.journal.close)
            if hasattr(self, "events"):
                self.events.close()
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    def _open(self) -> None:
        """Open everything durable. Blocks."""
        self.state_dir.mkdir(mode=0o755, exist_ok=True)
        (self.state_dir / "tasks").mkdir(exist_ok=True)
        self.events = EventLog(self.state_dir / "logs" / "events.log")
        keys = state_dir("choragos", self.options.environ) / "keys" / self.options.paths.id
        keys.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.journal = Journal.open(
            self.state_dir / "ledger",
            keys=keys,
            origin=f"choragos.local/deck/{self.options.paths.id}",
        )
        self.texts = TextStore(self.state_dir / "texts", keys)
        self.gateway = Gateway(
            self.config.sphragis,
            log=self.state_dir / "logs" / "gateway.log",
            environ=self.options.environ,
        )

    async def _recover(self) -> None:
        """After a crash: end orphans, keep the board, and call what was in flight lost."""
        before = self.journal.state
        crashed = before.running
        self._resumed = bool(before.run) and (crashed or self.options.resume)
        if crashed:
            ended = await asyncio.to_thread(
                processes.end_leftovers, self.options.paths.id, list(before.children.values())
            )
            if ended:
                self.events.write("WARN", "orphans ended", pids=",".join(map(str, ended)))
        self.gateway.adopt(before.gateway)
        await self._record(
            Entry(
                Op.SESSION_STARTED,
                self._now(),
                run=before.run if self._resumed else self._run,
                state="resumed" if self._resumed else "fresh",
                pid=os.getpid(),
            )
        )
        for task in list(self.journal.state.in_flight()):
            why = "the deck crashed" if crashed else "the session was stopped"
            await self._move(task, TaskState.LOST, f"{why} while {task.role} worked on it")
        if self._resumed:
            self.events.write(
                "INFO",
                "session resumed",
                crashed=crashed,
                lost=sum(t.state is TaskState.LOST for t in self.journal.state.tasks.values()),
            )

    def _make_seats(self) -> None:
        around = Surroundings(
            session=self.options.paths.id,
            socket=str(self.options.paths.socket),
            environ=self.options.environ,
            gateway=self.gateway,
        )
        desk = Desk(
            journal=self.journal,
            events=self.events,
            gateway=self.gateway,
            texts=self.texts,
            around=around,
            directory=self.directory,
            state_dir=self.state_dir,
            clock=self._now,
            snapshot=self._snapshot_before,
            notify=self._notify,
            on_status=self._pane_status,
        )
        for role in self.config.roles:
            # A second role of the same name could never be addressed.
            if role.name not in self.seats:
                self.seats[role.name] = Seat(
                    role=role,
                    desk=desk,
                    boot_file=self._boot_file(role),
                    is_start=role.name == self.config.start_role.name,
                )

    def _log_start(self) -> None:
        for warning in self.config.warnings:
            self.events.write("WARN", "config", warning=warning)
        self.events.write(
            "INFO",
            "deck starting",
            roles=len(self.seats),
            sphragis=self.gateway.enforced,
            dir=str(self.directory),
            pid=os.getpid(),
            version=__version__,
            mode=self.options.mode,
            os=os.uname().sysname.lower(),
        )

    async def _start_gateway(self) -> None:
        if not self.gateway.enforced:
            return
        readiness = await self.gateway.ensure(
            lambda child: self._note(
                Entry(Op.GATEWAY_STARTED, self._now(), pid=child.pid, born=child.born)
            )
        )
        self._gateway_up = readiness.ready
        if not self.gateway.enforced:
            self.events.write("WARN", "sphragis auto-off", reason=readiness.reason)
        elif readiness.ready:
            self.events.write("INFO", "gateway ready", addr=self.gateway.url)
        else:
            self.events.write("ERROR", "gateway start failed", reason=readiness.reason)

    async def _start_usage(self) -> None:
        """What an attached gateway had counted before is not ours; one that comes up later, or
        that we started, counts for us from its zero."""
        attached = self._gateway_up and self.gateway.child is None
        self.usage = UsageMeter(Baseline.ATTACHED if attached else Baseline.STARTED)
        if self._resumed and self.journal.state.usage:
            self.usage.resume(json.loads(self.journal.state.usage))
        if attached:
            await self._take_usage()

    async def _start_checkpoints(self) -> None:
        if not self.config.checkpoints.enabled:
            return
        try:
            self._checkpoints = await asyncio.to_thread(
                Checkpoints, self.directory, self.config.checkpoints.keep
            )
            pruned = await asyncio.to_thread(self._checkpoints.prune)
        except (GitError, OSError) as failure:
            self._checkpoints = None
            self.events.write("WARN", "checkpoints disabled", reason=str(failure))
            return
        if pruned:
            self.events.write("INFO", "checkpoints pruned", count=pruned)

    async def _write_briefs(self) -> None:
        start = self.config.start_role
        workers = [seat.role for seat in self.seats.values() if seat.name != start.name]
        for seat in self.seats.values():
            if seat.boot_file == briefs.ORCHESTRATOR_FILE:
                text = briefs.orchestrator_context(seat.role, workers, self._recap())
            else:
                text = briefs.worker_brief(seat.role)
            await asyncio.to_thread(briefs.write, self.state_dir, seat.boot_file, text)

    def _boot_file(self, role: Role) -> str:
        """Without `start = true` anywhere the first role leads but gets no leader's brief."""
        leads = role.start and role.name == self.config.start_role.name
        return briefs.ORCHESTRATOR_FILE if leads else briefs.brief_name(role.name)

    def _recap(self) -> str:
        """Tell a resumed start role what is open; lost work must be handed out again."""
        state = self.journal.state
        if not self._resumed or not state.tasks:
            return ""
        by_state: dict[TaskState, list[str]] = {}
        for task in state.tasks.values():
            by_state.setdefault(task.state, []).append(task.id)
        lines = ["## Where the session stands"]
        lost, queued = by_state.get(TaskState.LOST, []), by_state.get(TaskState.QUEUED, [])
        if lost:
            lines.append(f"- lost, their workers are gone; delegate them again: {_ids(lost)}")
        if queued:
            lines.append(f"- queued, will be handed out: {_ids(queued)}")
        if gated := by_state.get(TaskState.GATED):
            lines.append(f"- waiting for an approval: {_ids(gated)}")
        lines.append(f"- reported: {len(by_state.get(TaskState.REPORTED, []))}")
        return "\n".join(lines)

    def _restore_queues(self) -> None:
        """Put back on their way the tasks and reports that a stopped or crashed run still owed."""
        state = self.journal.state
        for task in state.tasks.values():
            if task.state is TaskState.QUEUED:
                seat = self.seats.get(task.role)
                if seat is None:
                    self._note_move(task, TaskState.LOST, f"there is no role {task.role} any more")
                else:
                    seat.put(TaskLine(task.id, asyncio.ensure_future(self._prepare(task.id, None))))
        for report in state.reports.values():
            if report.state is not ReportState.DELIVERED:
                if report.state is not ReportState.QUEUED:
                    self._note(
                        Entry(Op.REPORT_MOVED, self._now(), id=report.id, state=ReportState.QUEUED)
                    )
                self._start_seat().put(self._report_line(report.id))

    # -- commands -----------------------------------------------------------------------------

    async def dispatch(self, command: Command, peer: Peer) -> bytes:
        """Carry out one command from the control socket and return its ack."""
        caller = self._identify(command, peer)
        objection = callers.objection(
            caller, command, self.journal.state, self.config.start_role.name
        )
        try:
            if objection is not None:
                return await self._deny(command, caller, objection)
            handler = self._handlers.get(command.verb)
            if handler is None:
                return error(f"{command.verb} is not supported yet; restart the session instead.")
            return await handler(command, caller)
        except JournalFailed as failure:
            return error(str(failure))
        except OSError as failure:
            return error(f"The deck cannot write to {self.state_dir}: {failure.strerror}.")

    def _identify(self, command: Command, peer: Peer) -> Caller:
        token_role = next(
            (seat.name for seat in self.seats.values() if seat.credential.matches(command.token)),
            None,
        )
        return callers.identify(
            peer,
            panes={s.pane.pid: s.name for s in self.seats.values() if s.pane and s.pane.pid},
            deck_pid=os.getpid(),
            session=self.options.paths.id,
            token_role=token_role,
        )

    async def _deny(self, command: Command, caller: Caller, reason: str) -> bytes:
        await self._record(
            Entry(
                Op.DENIED,
                self._now(),
                role=", ".join(command.to),
                sender=caller.name,
                state=command.verb,
                reason=reason,
                task=command.id,
            )
        )
        self.events.write(
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
        return ok(**self.status())

    async def _shutdown(self, command: Command, caller: Caller) -> bytes:
        self.events.write("INFO", "client requested shutdown", **{"from": caller.name})
        asyncio.get_running_loop().call_later(0.05, self.request_stop)
        return ok(pid=os.getpid())

    # -- delegate -----------------------------------------------------------------------------

    async def _delegate(self, command: Command, caller: Caller) -> bytes:
        if not command.to:
            return error("delegate needs at least one role in `to`.")
        if not command.task.strip() and not command.brief:
            return error("delegate needs a task or a brief.")
        refusal = await self._refusal_of_all(command)
        if refusal:
            targets = [await self._refuse(name, caller, command, refusal) for name in command.to]
            self._notify(f"delegation to {', '.join(command.to)} refused: {refusal}")
            return delegate_ack(tuple(targets))
        text_ref = await asyncio.to_thread(self.texts.put, command.task)
        brief = (
            str(briefs.attachment(command.brief, "brief", self.directory)) if command.brief else ""
        )
        digest = ""
        if any(s.role.approve for name in command.to if (s := self.seats.get(name))):
            digest = await asyncio.to_thread(gates.digest, self.texts, command.task, brief)
        # One synchronous pass: ids, order of the queues and order of the journal agree.
        accepted = [self._accept(name, caller, text_ref, brief, digest) for name in command.to]
        targets = [
            await one
            if isinstance(one, asyncio.Future)
            else await self._refuse(name, caller, command, one)
            for name, one in zip(command.to, accepted, strict=True)
        ]
        refused = [t for t in targets if t.state is TargetState.REFUSED]
        if refused and not command.reads_ack:
            self._notify("; ".join(f"delegation to {t.to} refused: {t.reason}" for t in refused))
        return delegate_ack(tuple(targets))

    async def _refusal_of_all(self, command: Command) -> str:
        """Why nothing of this command can be handed out, asked freshly; "" when it can."""
        if command.brief:
            try:
                briefs.attachment(command.brief, "brief", self.directory)
            except briefs.BadAttachment as bad:
                return str(bad)
        if self.gateway.fail_closed:
            readiness = await self.gateway.probe()
            self._note_health(readiness.ready, readiness.reason)
            if not readiness.ready:
                self.events.write(
                    "WARN",
                    "dispatch refused: gateway down",
                    cmd=command.verb,
                    to=",".join(command.to),
                    reason=readiness.reason,
                )
                return (
                    f"the gateway is not ready: {readiness.reason}. Nothing was handed out; "
                    "start the gateway, then delegate again"
                )
        return ""

    def _accept(
        self, name: str, caller: Caller, text_ref: str, brief: str, digest: str
    ) -> asyncio.Future[Target] | str:
        """Make a task for one target, or return why not. No await: see `_delegate`."""
        seat = self.seats.get(name)
        if seat is None:
            return f"there is no role {name[:64]!r}; the roles are {', '.join(self.seats)}"
        if not seat.available:
            return f"{name} has exited ({self.journal.state.exits.get(name, 'not restarted')})"
        task_id = self.journal.state.next_task_id()
        gated = seat.role.approve
        durable: asyncio.Future[Any] = self.journal.record(
            Entry(
                Op.TASK_ADDED,
                self._now(),
                id=task_id,
                role=name,
                sender=caller.name,
                state=TaskState.GATED if gated else TaskState.QUEUED,
                path=brief,
                ref=text_ref,
            )
        )
        if gated:
            gate_id = self.journal.state.next_gate_id()
            durable = self.journal.record(
                Entry(Op.GATE_OPENED, self._now(), id=gate_id, task=task_id, ref=digest)
            )
            return asyncio.ensure_future(self._gated(task_id, gate_id, durable))
        prepared = asyncio.ensure_future(self._prepare(task_id, durable))
        seat.put(TaskLine(task_id, prepared))
        return prepared

    async def _prepare(self, task_id: str, durable: asyncio.Future[Any] | None) -> Target:
        """Once the record is durable: the task file, the event line, the answer."""
        if durable is not None:
            await durable
        task = self.journal.state.tasks[task_id]
        role = self.seats[task.role].role
        assignment = briefs.Assignment(task.id, self._text(task), task.brief)
        text = briefs.task_file(role, assignment)
        try:
            for name in (briefs.task_name(task.id), briefs.latest_task_name(task.role)):
                await asyncio.to_thread(briefs.write, self.state_dir, name, text)
        except OSError as failure:
            reason = f"its task file cannot be written: {failure.strerror}"
            await self._move(task, TaskState.REFUSED, reason)
            return Target(task.role, task.id, TargetState.REFUSED, reason)
        self.events.write(
            "INFO",
            "delegate",
            id=task.id,
            **{"from": task.sender},
            to=task.role,
            task=self.label(task),
            brief=task.brief,
        )
        return Target(task.role, task.id, TargetState.QUEUED)

    async def _gated(self, task_id: str, gate_id: str, durable: asyncio.Future[Any]) -> Target:
        await durable
        task = self.journal.state.tasks[task_id]
        self.events.write(
            "INFO", "delegate gated", id=task_id, gate=gate_id, to=task.role, task=self.label(task)
        )
        self._hook("on_gate", self.config.ui.on_gate, task.role, self.label(task))
        reason = f"waits for an approval: choragos approve {gate_id}"
        return Target(task.role, task_id, TargetState.GATED, reason)

    async def _refuse(self, name: str, caller: Caller, command: Command, reason: str) -> Target:
        await self._record(
            Entry(
                Op.DENIED,
                self._now(),
                role=name,
                sender=caller.name,
                state=command.verb,
                reason=reason,
            )
        )
        self.events.write("WARN", "delegate target unavailable", to=name, reason=reason)
        return Target(name, "", TargetState.REFUSED, reason)

    # -- work-done ----------------------------------------------------------------------------

    async def _work_done(self, command: Command, caller: Caller) -> bytes:
        if not command.task.strip() and not command.report:
            return error("work-done needs a task or a report.")
        path, problem = self._report_path(command.report)
        text_ref = await asyncio.to_thread(self.texts.put, command.task)
        before = self.journal.state.tasks.get(command.id)
        start = self.config.start_role.name
        own = caller.role == start and (before is None or before.role == start)
        report_id = self.journal.state.next_report_id()
        durable = self.journal.record(
            Entry(
                Op.REPORT_ADDED,
                self._now(),
                id=report_id,
                task=command.id,
                role=caller.name,
                sender=caller.name,
                state=ReportState.DELIVERED if own else ReportState.QUEUED,
                path=path,
                ref=text_ref,
                done=command.done,
                reason=problem,
            )
        )
        after = self.journal.state.tasks.get(command.id)
        resolved = after is not before
        # In the queue before anything else can be: reports arrive in the order of their ids.
        if not own:
            self._bring(report_id, durable)
        await durable
        self.events.write(
            "INFO",
            "work-done",
            id=command.id,
            **{"from": caller.name},
            to=start,
            done=command.done,
            task=one_line(command.task),
            report=path,
        )
        if command.done and caller.name in (start, "operator"):
            await self._record(Entry(Op.FINISHED, self._now(), sender=caller.name))
        self._job(self._after_report(after if resolved else None))
        return ok(report=report_id, resolved=resolved)

    def _report_path(self, report: str) -> tuple[str, str]:
        """A report is never refused for its file; what is wrong with it is shown."""
        if not report:
            return "", ""
        try:
            return str(briefs.attachment(report, "report", self.directory)), ""
        except briefs.BadAttachment as bad:
            return report, str(bad)

    def _bring(self, report_id: str, durable: asyncio.Future[Any]) -> None:
        seat = self._start_seat()
        if seat.available:
            self._job(self._put_when_durable(seat, report_id, durable))
        else:
            self._note(
                Entry(
                    Op.REPORT_MOVED,
                    self._now(),
                    id=report_id,
                    state=ReportState.KEPT,
                    reason=f"{seat.name} has exited",
                )
            )

    async def _put_when_durable(
        self, seat: Seat, report_id: str, durable: asyncio.Future[Any]
    ) -> None:
        await asyncio.shield(durable)
        seat.put(self._report_line(report_id))

    def _report_line(self, report_id: str) -> ReportLine:
        report = self.journal.state.reports[report_id]
        text = one_line(self.texts.get(report.text_ref) or "")
        return ReportLine(report_id, briefs.report_line(text, report.path))

    async def _after_report(self, task: Task | None) -> None:
        if task is not None:
            subject = delivery_subject(task.id, task.role, "done")
            await self._snapshot(f"{task.id}-done", subject, task.id)
        await self._take_usage()
        used = self.usage.end_task(task.id) if task is not None else None
        if task is not None and used is not None and used.total.total:
            cost = cost_usd(self.config.pricing, used.by_model)
            self._log_tokens("task tokens", used.total, cost, id=task.id, to=task.role)

    # -- gates and second chances -------------------------------------------------------------

    async def _gates(self, command: Command, caller: Caller) -> bytes:
        return ok(gates=self._gate_rows())

    async def _decide(self, command: Command, caller: Caller) -> bytes:
        gate = self.journal.state.gates.get(command.id)
        if gate is None:
            return error(f"There is no gate {command.id[:20]!r}; see `choragos gates`.")
        if gate.decision is not Decision.OPEN:
            return error(f"{gate.id} was {gate.decision} already; a gate is decided once.")
        task = self.journal.state.tasks[gate.task]
        decision, why = Decision.REJECTED, command.reason
        if command.verb is Verb.APPROVE:
            decision, why = await self._verify(gate.digest, task, command.reason)
        try:
            durable = self.journal.record(
                Entry(
                    Op.GATE_DECIDED,
                    self._now(),
                    id=gate.id,
                    task=task.id,
                    state=decision,
                    sender=caller.name,
                    reason=why,
                )
            )
        except IllegalMove as race:
            return error(str(race))
        if decision is Decision.APPROVED:
            prepared = asyncio.ensure_future(self._prepare(task.id, durable))
            self.seats[task.role].put(TaskLine(task.id, prepared))
            await prepared
            waited = (self._now() - gate.at) // 1_000_000
            self.events.write("INFO", "delegate approved", id=task.id, waited=f"{waited}s")
            return ok(gate=gate.id, id=task.id, decision=str(decision))
        await durable
        self.events.write("INFO", "delegate rejected", id=task.id, to=task.role, reason=why)
        self._notify(f"{task.id} for {task.role} was {decision}; revise it. {why}".rstrip())
        if decision is Decision.VOID:
            return error(f"{gate.id} is void: {why}")
        return ok(gate=gate.id, id=task.id, decision=str(decision))

    async def _verify(self, digest: str, task: Task, reason: str) -> tuple[Decision, str]:
        text = self.texts.get(task.text_ref)
        if text is None:
            return Decision.VOID, "its text was changed or removed since the gate opened"
        try:
            present = await asyncio.to_thread(gates.digest, self.texts, text, task.brief)
        except gates.BriefUnreadable as gone:
            return Decision.VOID, str(gone)
        if present != digest:
            return Decision.VOID, "its brief was changed since the gate opened"
        return Decision.APPROVED, reason

    async def _again(self, command: Command, caller: Caller) -> bytes:
        task = self.journal.state.tasks.get(command.id)
        if task is None:
            return error(f"There is no task {command.id[:20]!r}; see `choragos board`.")
        seat = self.seats.get(task.role)
        if seat is None or not seat.available:
            return error(f"{task.role} is not running; {task.id} cannot be offered again.")
        refusal = await self._refusal_of_all(Command(Verb.DELEGATE, to=(task.role,)))
        if refusal:
            return error(refusal)
        if not await seat.offer_again(task.id, f"offered again by {caller.name}"):
            return error(
                f"{task.id} is {task.state}; only lost or timed-out tasks can be repeated."
            )
        return ok(id=task.id, state="queued")

    # -- what goes on meanwhile ---------------------------------------------------------------

    async def _tick_for_ever(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._ticks += 1
            if self.gateway.enforced:
                readiness = await self.gateway.probe()
                self._note_health(readiness.ready, readiness.reason)
                if self.gateway.reap():
                    self._note(Entry(Op.GATEWAY_STOPPED, self._now()))
            for task in list(overdue(self.journal.state, self.config.role, self._now())):
                await self._time_out(task)
            if self._ticks % REAP_EVERY_TICKS == 0:
                await asyncio.to_thread(processes.reap_inherited, self._own_children())

    def _own_children(self) -> list[int]:
        pids = [s.pane.pid for s in self.seats.values() if s.pane and s.pane.pid]
        return [*pids, self.gateway.child.pid] if self.gateway.child else pids

    async def _time_out(self, task: Task) -> None:
        role = self.seats[task.role].role
        limit = f"{role.timeout:g}s"
        await self._move(task, TaskState.TIMED_OUT, f"no report within {limit}")
        self.events.write(
            "WARN",
            "delegate timeout",
            id=task.id,
            to=task.role,
            after=limit,
            action=role.timeout_action,
        )
        self._hook("on_timeout", self.config.ui.on_timeout, task.role, self.label(task))
        self._notify(f"{task.id} for {task.role} has had no report for {limit}.")
        if role.timeout_action is TimeoutAction.RESTART:
            await self.seats[task.role].end_for_timeout(STOP_GRACE_SECONDS)

    async def _usage_for_ever(self) -> None:
        while True:
            await asyncio.sleep(USAGE_SECONDS)
            await self._take_usage()

    async def _take_usage(self) -> None:
        """Read the counters; a change is journaled and is one `tokens` line for each role."""
        if not self.gateway.enforced:
            return
        scrape = await self.gateway.scrape()
        if scrape is None:
            return
        before = {role: self.usage.total(role) for role in self.seats}
        self.usage.observe(scrape)
        changed = [role for role in self.seats if self.usage.total(role) != before[role]]
        if not changed:
            return
        self._note(Entry(Op.USAGE_TAKEN, self._now(), reason=json.dumps(self.usage.as_json())))
        for role in changed:
            cost = cost_usd(self.config.pricing, self.usage.by_model(role))
            self._log_tokens("tokens", self.usage.total(role), cost, role=role)

    def _log_tokens(self, msg: str, used: Tokens, cost: Decimal | None, **which: str) -> None:
        self.events.write(
            "INFO",
            msg,
            **which,
            **{"in": used.input, "out": used.output},
            cache_creation=used.cache_creation,
            cache_read=used.cache_read,
            cost=None if cost is None else round_cost(cost),
        )

    def _note_health(self, up: bool, reason: str) -> None:
        if up != self._gateway_up:
            self._gateway_up = up
            self.events.write(
                "INFO" if up else "WARN", "gateway health changed", up=up, reason=reason or None
            )

    def _pane_status(self, seat: Seat, status: Status) -> None:
        if status.state is PaneState.BLOCKED:
            self.events.write(
                "WARN", "waiting for input", role=seat.name, question=one_line(status.question)
            )
            self._hook("on_input", self.config.ui.on_input, seat.name, "")
        elif status.state is PaneState.WORKING and status.source.is_fact:
            for task in self.journal.state.in_flight(seat.name):
                if task.state is TaskState.SUBMITTED:
                    seat.note(task.id, TaskState.PICKED_UP)

    def _notify(self, text: str) -> None:
        seat = self._start_seat()
        if seat.available:
            seat.put(NoticeLine(one_line(text)))

    def _hook(self, name: str, command: str, role: str, task: str) -> None:
        if command:
            self._job(
                run_hook(
                    name,
                    command,
                    role=role,
                    task=task,
                    environ=self.options.environ,
                    events=self.events,
                )
            )

    # -- checkpoints --------------------------------------------------------------------------

    async def _snapshot_before(self, task: Task) -> None:
        subject = delivery_subject(task.id, task.role, self.label(task))
        await asyncio.gather(self._snapshot(task.id, subject, task.id), self._take_usage())
        self.usage.begin_task(task.id, task.role)

    async def _snapshot(self, name: str, subject: str, task_id: str) -> None:
        """Take a checkpoint; a failure warns and never blocks (contracts/deck.md section 1.11)."""
        if self._checkpoints is None:
            return
        begun = time.monotonic()
        try:
            made = await asyncio.to_thread(self._checkpoints.create, name, subject)
        except (GitError, OSError) as failure:
            self.events.write("WARN", "checkpoint failed", task=task_id, err=str(failure))
            return
        took = f"{(time.monotonic() - begun) * 1000:.0f}ms"
        self.events.write("INFO", "checkpoint", task=task_id, ref=made.ref, took=took)

    # -- what faces see -----------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """Return the whole session as plain values, for the `status` verb and for faces."""
        state = self.journal.state
        return {
            "pid": os.getpid(),
            "dir": str(self.directory),
            "run": state.run,
            "phase": self.phase,
            "finished": state.finished,
            "roles": [self._role_row(seat) for seat in self.seats.values()],
            "tasks": [self._task_row(task) for task in state.rows()],
            "reports": self._report_rows(state),
            "gates": self._gate_rows(),
            "gateway": {
                "on": self.gateway.enforced,
                "up": bool(self._gateway_up) and self.gateway.enforced,
                "reason": self.gateway.last.reason,
                "url": self.gateway.url,
                "fail_closed": self.gateway.fail_closed,
            },
            "usage": [self._usage_row(role) for role in self.seats],
            "journal": {"records": self.journal.size, "failure": self.journal.failure},
        }

    def _role_row(self, seat: Seat) -> dict[str, Any]:
        status = seat.pane.status if seat.pane else None
        exited = self.journal.state.exits.get(seat.name)
        return {
            "name": seat.name,
            "state": str(status.state) if status else "booting",
            "pid": (seat.pane.pid or 0) if seat.pane and seat.alive else 0,
            "question": status.question if status else "",
            "start": seat.is_start,
            "waiting": seat.waiting,
            "held": seat.held,
            "restarts": seat.restarts,
            "exit": exited or "",
        }

    def _task_row(self, task: Task) -> dict[str, Any]:
        row: dict[str, Any] = {
            "id": task.id,
            "role": task.role,
            "from": task.sender,
            "state": str(task.state),
            "label": self.label(task),
            "brief": task.brief,
            "reason": task.reason,
            "gate": task.gate,
            "at": task.at,
            "delivered_at": task.delivered_at,
            "closed_at": task.closed_at,
        }
        seat = self.seats.get(task.role)
        if task.state is TaskState.QUEUED and seat is not None and not row["reason"]:
            row["reason"] = seat.held
        if task.state in IN_FLIGHT and seat is not None and seat.pane is not None:
            row["question"] = seat.pane.status.question
        if task.screen_ref:
            row["screen"] = self.texts.get(task.screen_ref) or ""
        return row

    def _report_rows(self, state: State) -> list[dict[str, Any]]:
        return [
            {
                "id": report.id,
                "task": report.task,
                "from": report.role,
                "state": str(report.state),
                "label": one_line(self.texts.get(report.text_ref) or ""),
                "report": report.path,
                "done": report.done,
                "reason": report.reason,
                "at": report.at,
            }
            for report in list(state.reports.values())[-200:]
        ]

    def _usage_row(self, role: str) -> dict[str, Any]:
        used = self.usage.total(role)
        cost = cost_usd(self.config.pricing, self.usage.by_model(role))
        return {
            "role": role,
            "in": used.input,
            "out": used.output,
            "cache_creation": used.cache_creation,
            "cache_read": used.cache_read,
            "cost_usd": None if cost is None else float(round_cost(cost)),
        }

    def _gate_rows(self) -> list[dict[str, Any]]:
        rows = []
        for gate in self.journal.state.gates.values():
            task = self.journal.state.tasks[gate.task]
            rows.append(
                {
                    "id": gate.id,
                    "task": task.id,
                    "role": task.role,
                    "from": task.sender,
                    "label": self.label(task),
                    "brief": task.brief,
                    "hash": gate.digest,
                    "state": str(gate.decision),
                    "approver": gate.approver,
                    "reason": gate.reason,
                    "at": gate.at,
                }
            )
        return rows

    def label(self, task: Task) -> str:
        """Return a task in one line: its text, else the name of its brief."""
        text = self.texts.get(task.text_ref)
        if text is None:
            return "(the text of this task was changed or removed)"
        return one_line(text) or Path(task.brief).name

    def _text(self, task: Task) -> str:
        text = self.texts.get(task.text_ref)
        return "(the text of this task was lost; ask for it again)" if text is None else text

    # -- small things -------------------------------------------------------------------------

    def _start_seat(self) -> Seat:
        return self.seats[self.config.start_role.name]

    def _now(self) -> int:
        return time.time_ns() // 1000

    async def _record(self, entry: Entry) -> None:
        await self.journal.record(entry)

    async def _move(self, task: Task, state: TaskState, reason: str = "") -> None:
        await self._record(self._moved(task, state, reason))

    def _note_move(self, task: Task, state: TaskState, reason: str) -> None:
        self._note(self._moved(task, state, reason))

    def _moved(self, task: Task, state: TaskState, reason: str) -> Entry:
        return Entry(
            Op.TASK_MOVED, self._now(), id=task.id, role=task.role, state=state, reason=reason
        )

    def _note(self, entry: Entry) -> None:
        """Record what has already happened, without waiting for the disk."""
        try:
            future = self.journal.record(entry)
        except JournalFailed:
            return
        future.add_done_callback(lambda done: done.cancelled() or done.exception())

    def _job(self, work: Coroutine[Any, Any, None]) -> None:
        async def run() -> None:
            try:
                await work
            except JournalFailed as failure:
                self.events.write("ERROR", "journal failed", err=str(failure))

        job = asyncio.ensure_future(run())
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)


async def _cancel(jobs: set[asyncio.Task[None]]) -> None:
    running = list(jobs)
    for job in running:
        job.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _with_flag(config: Config, flag: bool | None) -> Config:
    """An explicit --sphragis or --no-sphragis counts as written in the file."""
    if flag is None:
        return config
    return replace(config, sphragis=replace(config.sphragis, enabled=flag))


def _ids(ids: list[str]) -> str:
    more = f" and {len(ids) - RECAP_IDS} more" if len(ids) > RECAP_IDS else ""
    return ", ".join(ids[:RECAP_IDS]) + more
