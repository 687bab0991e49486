"""The session: one team, one directory, one journal. The deck's core; it knows no face.

Owns the life of a run, the order of its start and of its end, and which part answers which verb.
Invariants: a directory has one deck; a crashed run goes on with the same board and never with more
rights than before; whatever was started here is ended here. The steps of a start are
`deck.starting`, what goes on meanwhile is `deck.caretaking`. Run by `deck.host`; faces read
`status()`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

from deck import callers, processes, showing, view
from deck.callers import Caller, Peer
from deck.caretaking import Caretaker
from deck.config import Config
from deck.desk import Desk, deck_pid
from deck.entries import Entry, Op
from deck.journal import JournalFailed
from deck.neighbors import Neighbors
from deck.notes import noted
from deck.parts import Parts
from deck.protocol import (
    Command,
    Target,
    TargetState,
    Verb,
    delegate_ack,
    error,
    ok,
    ok_rows,
    one_line,
)
from deck.recall import Ask
from deck.roster import find_program
from deck.routing import refuse_unrouted
from deck.server import ControlServer
from deck.sessions import SessionPaths, claim, write_sidecar
from deck.starting import Starting
from deck.team import Team
from deck.team_reader import load_config
from deck.wall.wall import Wall

#: Shared by all panes at the end (contracts/deck.md section 1.6).
STOP_GRACE_SECONDS: Final = 5.0

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
        self._parts: Parts | None = None
        self._wall: Wall | None = None
        self._starting: Starting | None = None
        self._caretaker: Caretaker | None = None
        self._neighbors: Neighbors | None = None
        #: Who asked for the end; empty for a signal or a failure.
        self._stopped_by = ""

    @property
    def _desk(self) -> Desk:
        return self._open_parts.desk

    @property
    def _open_parts(self) -> Parts:
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
        processes.adopt_orphans()
        desk = await asyncio.to_thread(Desk.open, self._config, options.paths, options.environ)
        self._parts = parts = Parts.of(desk, self._end_for, self._read_config)
        self._starting = starting = Starting(
            parts, options.gateway_flag, options.resume, options.mode, options.ask
        )
        resumed = await starting.begin()
        await asyncio.to_thread(view.read_ahead, desk)
        self._caretaker = caretaker = self._make_team(parts)
        await self._server.start()
        write_sidecar(options.paths)
        starting.log(resumed)
        caretaker.gateway_was_up = await starting.start_gateway(resumed)
        await parts.snapshots.start()
        await parts.merging.prepare(desk.config)
        await self._enclose(caretaker.wall)
        await parts.stamping.start()
        await parts.briefing.brief_team(resumed=resumed)
        await parts.work.reopen_gates()
        for seat in desk.seats.values():
            await seat.start()
        starting.restore_queues()
        await parts.review.resume()
        await parts.merging.resume()
        await parts.budgets.resume()
        parts.session_file.start()
        self.phase = "running"
        self._neighbors = Neighbors(desk)
        for work in (
            parts.screens.keep_for_ever(),
            caretaker.tick_for_ever(),
            caretaker.count_for_ever(),
            caretaker.transcribe_for_ever(),
            self._neighbors.record(),
        ):
            desk.job(work)
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
            if self._neighbors is not None:
                await self._neighbors.send_last_head()
            if self._lock >= 0:
                os.close(self._lock)
                self._lock = -1

    async def _end_run(self, parts: Parts) -> None:
        """Each part is ended whatever happens to the ones before it."""
        desk, caretaker = parts.desk, self._caretaker
        was_up = caretaker is not None and caretaker.gateway_was_up
        if self._starting is not None and self._starting.in_log:
            # The end of a start that was refused would be taken for that of the run before it.
            desk.events.write("INFO", "deck stopping")
        for seat in desk.seats.values():
            seat.stopping = True
        parts.stamping.closed = True
        async with AsyncExitStack() as ends:
            # Last in, first out.
            ends.callback(parts.merging.close)
            ends.push_async_callback(self._end_gateway, desk)
            if was_up and desk.gateway.child is None:
                ends.push_async_callback(parts.stamping.leave)
            ends.push_async_callback(self._end_seats, desk)
            ends.push_async_callback(parts.screens.keep_if_possible)
            if was_up:
                ends.push_async_callback(parts.metering.take)
            await desk.cancel_jobs()
        await asyncio.to_thread(processes.reap_inherited, ())
        if self._neighbors is not None:
            await self._neighbors.look_once_more()
        if self._starting is not None and self._starting.on_record:
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

    def _make_team(self, parts: Parts) -> Caretaker:
        desk = parts.desk
        place = parts.merging.place
        wall = Wall(desk.config, desk.paths, desk.environ, desk.gateway, self.dispatch, place=place)
        self._wall = parts.merging.wall = wall
        caretaker = Caretaker(parts, self._server, wall, self.request_stop)
        parts.reloading.team = team = Team(
            desk=desk,
            wall=wall,
            merging=parts.merging,
            stamping=parts.stamping,
            before_delivery=caretaker.before_delivery,
            on_status=caretaker.pane_status,
        )
        team.fill()
        return caretaker

    async def _enclose(self, wall: Wall) -> None:
        """Keep what the team file promises about ways past the gateway, or refuse to start."""
        desk = self._desk
        refuse_unrouted(desk.config, desk.environ, enforced=desk.gateway.enforced)
        await wall.start()
        for role in wall.roles:
            desk.events.write("INFO", "wall proved", role=role.name)

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
        return await asyncio.to_thread(ok_rows, "gates", view.gates(self._desk))

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


def _with_flag(config: Config, flag: bool | None) -> Config:
    """An explicit --sphragis or --no-sphragis counts as written in the file."""
    if flag is None:
        return config
    return replace(config, sphragis=replace(config.sphragis, enabled=flag))
