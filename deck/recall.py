"""What an earlier session left: whether to go on with it, and what becomes of it when we do.

Owns the rules of resuming (contracts/deck.md section 1.13). Invariants: a run that did not end is
always gone on with; one that ended only when that was asked for, and then only with the same team
file and without losing a role, unless it was handed over; what was in a pane's hands is lost in
plain sight, with the last screen it had, and one command offers it again; a role that is gone
keeps its place, and nothing waits for it any more. `deck.session` asks it when it begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deck.board import State
from deck.config import Config
from deck.desk import Desk
from deck.entries import Decision, Entry, GateKind, Op, ReportState, TaskState
from deck.handoffs import resume_command
from deck.moves import IN_FLIGHT, OPEN
from deck.recap import ids, told_state
from deck.screens import WITH_A_WORKER, Screens
from deck.session_file import SESSION_FILE, BadSessionFile, Snapshot, read_snapshot
from deck.sessions import SessionError
from deck.team_reader import CONFIG_NAME

#: Asks the person at the terminal; the sentence ends without a question mark.
Ask = Callable[[str], Awaitable[bool]]
_AFRESH: Final = "or start afresh without --resume"
_ANYHOW: Final = "or start without --resume: what roles that are gone had is then lost"
_THOUSAND: Final = 1000
#: Where the file of another deck goes that is not gone on with.
EARLIER_FILE: Final = "session-earlier.json"


@dataclass(slots=True)
class Recall:
    """The memory of one starting session."""

    desk: Desk
    screens: Screens
    #: The file of another deck that the board is taken from.
    _foreign: Snapshot | None = None
    #: Another deck's file is there, and this run begins afresh: it is moved out of the way.
    _aside: bool = False

    async def decide(self, *, wanted: bool, ask: Ask | None) -> bool:
        """Return whether this run goes on with what is there. Changes nothing.

        Raises SessionError when that was asked for and is not possible.
        """
        before = self.desk.state
        if before.running and not wanted:
            return True
        if not wanted:
            wanted = await self._offer(before, ask)
        if not wanted:
            return False
        if before.run:
            refusal = objection(before, self.desk.config)
        else:
            refusal = await self._look_for_foreign()
        if refusal:
            raise SessionError(refusal)
        return True

    async def _offer(self, before: State, ask: Ask | None) -> bool:
        """Tell of what is there to go on with, or ask; True when the answer is yes."""
        desk, said = self.desk, left_open(before)
        if not before.run:
            said = await self._left_by_another()
        if not said:
            return False
        if ask is not None and await ask(said):
            return True
        if self._aside:
            desk.notices.append(f"{said}; its file is kept as {desk.state_dir / EARLIER_FILE}")
        elif ask is None:
            how = resume_command(before.config, str(desk.directory / CONFIG_NAME))
            desk.notices.append(f"{said}; go on with it by `{how}`")
        return False

    async def _left_by_another(self) -> str:
        try:
            found = await asyncio.to_thread(read_snapshot, self.desk.state_dir)
        except BadSessionFile:
            return ""
        unfinished = [row.id for row in found.rows if not row.done] if found is not None else []
        self._aside = bool(unfinished)
        count = len(unfinished)
        return f"another deck left {count} unfinished task(s) ({ids(unfinished)})" if count else ""

    async def _look_for_foreign(self) -> str:
        try:
            found = await asyncio.to_thread(read_snapshot, self.desk.state_dir)
        except BadSessionFile as bad:
            return f"{bad}; start afresh without --resume."
        if found is None:
            return "There is no earlier session here to go on with; start one: choragos serve"
        self._foreign = found
        there = Path(self.desk.paths.directory, found.config) if found.config else None
        roster = dict.fromkeys(found.roles, False)
        state = State(config=str(there or ""), roster=roster)
        return objection(state, self.desk.config, handed_over=found.handed_over)

    async def settle(self, before: State, *, goes_on: bool) -> None:
        """Bring the board that is gone on with into a state that is true now, on record.

        `before` is the board as the last deck left it. Raises JournalFailed or OSError.
        """
        desk = self.desk
        if self._foreign is not None:
            await self._take_over(self._foreign)
        elif self._aside and not goes_on:
            file = desk.state_dir / SESSION_FILE
            await asyncio.to_thread(file.rename, desk.state_dir / EARLIER_FILE)
        if goes_on:
            why = "the deck crashed" if before.running else "the session was stopped"
            await self._lose_in_flight(why)
            await self._drop_roles()
            self._tell(before)
        await asyncio.to_thread(self.screens.clear)
        if self._foreign is not None:
            desk.events.write("INFO", "session imported", tasks=len(desk.state.tasks))

    async def _lose_in_flight(self, why: str) -> None:
        desk = self.desk
        references: dict[str, str] = {}
        for task in list(desk.state.tasks.values()):
            if task.state not in WITH_A_WORKER:
                continue
            if task.role not in references:
                references[task.role] = await asyncio.to_thread(self._screen, task.role)
            reason = f"{why} while {task.role} worked on it"
            await desk.move(task, TaskState.LOST, reason, references[task.role])

    def _screen(self, role: str) -> str:
        text = self.screens.left(role)
        return self.desk.texts.put(text) if text else ""

    async def _drop_roles(self) -> None:
        """Roles that the team file does not have any more keep their place and nothing else."""
        desk, names = self.desk, {role.name for role in self.desk.config.roles}
        for name, gone in list(desk.state.roster.items()):
            if gone or name in names:
                continue
            why = "not in the team file any more"
            await desk.record(Entry(Op.ROLE_REMOVED, desk.now(), role=name, reason=why))
            desk.events.write("INFO", "role removed", role=name)
        for gate in list(desk.state.gates.values()):
            task = desk.state.tasks.get(gate.task)
            if gate.decision is not Decision.OPEN or gate.kind is not GateKind.ENTRY:
                continue
            if task is not None and task.role not in names:
                await desk.record(
                    Entry(
                        Op.GATE_DECIDED,
                        desk.now(),
                        id=gate.id,
                        task=task.id,
                        state=Decision.VOID,
                        reason=f"there is no role {task.role} any more",
                        ref=gate.digest,
                    )
                )

    def _tell(self, before: State) -> None:
        desk = self.desk
        lost = lost_tasks(desk.state)
        if before.running:
            desk.notices.append("the last session crashed; this one goes on with its board")
        if lost:
            again = "choragos again --all"
            one = f" or `choragos again {lost[0]}`" if len(lost) > 1 else ""
            desk.notices.append(f"lost: {ids(lost)}; offer them again with `{again}`{one}")
        elif before.running:
            desk.notices.append("nothing was lost")

    # -- a board that another deck left ---------------------------------------------------------

    async def _take_over(self, found: Snapshot) -> None:
        """Put another deck's board on record: finished work as reported, the rest as lost, and
        what waited for a person as refused. Ids go on behind its last one."""
        desk = self.desk
        texts = {row.text for row in found.rows} | {gate.text for gate in found.waiting}
        references = {text: await asyncio.to_thread(desk.texts.put, text) for text in texts}
        durable = [
            desk.journal.record(entry) for entry in entries_of(found, references.__getitem__)
        ]
        await asyncio.gather(*durable)


def entries_of(found: Snapshot, reference: Callable[[str], str]) -> Iterator[Entry]:
    """Yield the entries that make another deck's board ours; `reference` names a kept text."""
    rows = {row.id: row for row in found.rows}
    for number in range(1, found.last_task + 1):
        row = rows.get(f"T{number}")
        if row is None:
            yield Entry(Op.TASK_ADDED, 1, id=f"T{number}", sender="choragos")
            why = "the earlier deck did not keep it"
            yield Entry(Op.TASK_MOVED, 1, id=f"T{number}", state=TaskState.REFUSED, reason=why)
            continue
        at, closed = row.at // _THOUSAND, max(row.done_at, row.at) // _THOUSAND
        yield Entry(
            Op.TASK_ADDED,
            at,
            id=row.id,
            role=row.role,
            sender="choragos",
            path=row.file,
            ref=reference(row.text),
        )
        state = TaskState.REPORTED if row.done else TaskState.LOST
        why = "" if row.done else f"the earlier deck was stopped while {row.role} worked on it"
        yield Entry(Op.TASK_MOVED, closed, id=row.id, role=row.role, state=state, reason=why)
    for number, gate in enumerate(found.waiting, 1):
        task, at = f"T{found.last_task + number}", gate.at // _THOUSAND
        text = reference(gate.text)
        yield Entry(
            Op.TASK_ADDED,
            at,
            id=task,
            role=gate.role,
            sender="choragos",
            path=gate.brief,
            ref=text,
            state=TaskState.GATED,
        )
        yield Entry(Op.GATE_OPENED, at, id=f"G{number}", task=task, ref=text)
        why = "it waited in an earlier deck; delegate it again"
        yield Entry(
            Op.GATE_DECIDED, at, id=f"G{number}", task=task, state=Decision.VOID, reason=why
        )


def objection(before: State, config: Config, *, handed_over: bool = False) -> str:
    """Return why a team cannot go on with a board, as a sentence; "" when it can. Pure."""
    wanted = str(config.path or "")
    otherwise = _ANYHOW if before.running else _AFRESH
    handoff = before.handoff
    expected = handoff.config if handoff is not None else before.config
    if wanted != expected:
        how = f"resume with `{resume_command(expected)}`"
        what = "was handed over to" if handoff is not None else "ran with"
        return (
            f"The last session {what} {expected or 'the built-in team'}, and this is "
            f"{wanted or 'the built-in team'}; {how}, {otherwise}."
        )
    if handoff is not None or handed_over:
        return ""
    names = {role.name for role in config.roles}
    dropped = [name for name, gone in before.roster.items() if not gone and name not in names]
    if dropped:
        which = ", ".join(repr(name) for name in dropped)
        return (
            f"The team file has no role {which}, which the last session had; put it back, "
            f"{otherwise}."
        )
    return ""


def lost_tasks(state: State) -> list[str]:
    """Return the ids of the lost tasks of a board, oldest first; not those that the deck made
    itself, nor what its judging takes to a person."""
    tasks = state.tasks.values()
    return [task.id for task in tasks if told_state(state, task) is TaskState.LOST]


def left_open(state: State) -> str:
    """Return what a session that was stopped left open, as the beginning of a sentence; "" when
    there is nothing."""
    if state.running:
        return ""
    unfinished = [
        task.id
        for task in state.tasks.values()
        if task.state in OPEN or task.state in IN_FLIGHT or task.state is TaskState.LOST
    ]
    untold = sum(
        report.state in (ReportState.QUEUED, ReportState.TYPED, ReportState.KEPT)
        for report in state.reports.values()
    )
    parts = [f"{len(unfinished)} unfinished task(s) ({ids(unfinished)})"] if unfinished else []
    parts += [f"{untold} report(s) that nobody has read"] if untold else []
    return f"the last session left {' and '.join(parts)}" if parts else ""
