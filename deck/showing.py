"""The verb `show`: one gate or one task, whole, for a person who has to decide.

Owns what is told of each and how much. Invariants: what is shown of an entry gate are the very
bytes that its digest is compared with; files are read for operators only, for a role may be kept
from reading them by its wall; reading changes nothing; however large and odd what agents left is,
the session's loop goes on turning: it is read, decoded and written out in threads, in slices where
one call would keep the other threads waiting. Texts are as agents wrote them: whoever draws them
makes them harmless. `deck.session` dispatches here.
"""

from __future__ import annotations

import asyncio
import codecs
from dataclasses import dataclass, field
from typing import Any, Final

from deck import callers, view
from deck.board import Gate, Report, Task
from deck.callers import Caller, Kind
from deck.desk import Desk
from deck.entries import Decision, GateKind, TaskState
from deck.gatekeeper import Gatekeeper
from deck.gates import KIND_WORDS, BriefUnreadable, digest_of, read_brief
from deck.protocol import Command, Verb, error, ok

#: Of all texts of one answer together: well within an ack, however it is escaped.
MAX_SHOWN_CHARS: Final = 2_000_000
#: Bytes decoded in one call: the decoder lets no other thread run meanwhile, and takes up to 1 ms
#: for so many that are no text.
_SLICE: Final = 1 << 16


@dataclass(slots=True)
class _Pages:
    """The texts of one answer, and the room that is left for more."""

    desk: Desk
    for_operator: bool
    parts: list[dict[str, Any]] = field(default_factory=list)
    _room: int = MAX_SHOWN_CHARS

    def text(self, title: str, text: str, path: str = "") -> None:
        """Add a text, as much of it as there is room for."""
        self._add(title, text[: self._room], path, cut=len(text) > self._room)

    def _add(self, title: str, text: str, path: str, *, cut: bool) -> None:
        self._room -= len(text)
        self.parts.append({"title": title, "text": text, "path": path, "cut": cut})

    async def stored(self, title: str, reference: str) -> None:
        """Add a text of the store, if there is one."""
        if not reference:
            return
        if not self._room:
            self._add(title, "", "", cut=True)
            return
        gone = "(this text was changed or removed since it was recorded)"
        text = await asyncio.to_thread(self.desk.texts.get, reference)
        self.text(title, gone if text is None else text)

    async def file(self, title: str, path: str) -> None:
        """Add a file, if there is one; where there is no room left, it is not even read."""
        if path and self.for_operator and not self._room:
            self._add(title, "", path, cut=True)
            return
        await self.body(title, path)

    async def body(self, title: str, path: str) -> bytes | None:
        """Add a file, if there is one, and return its bytes; None when it is not read."""
        if not path:
            return b""
        if not self.for_operator:
            self.text(title, "(only an operator is shown files; read it at its path)", path)
            return None
        try:
            body = await asyncio.to_thread(read_brief, path)
        except BriefUnreadable as gone:
            self.text(title, f"({gone})", path)
            return None
        text, cut = await asyncio.to_thread(_beginning, body, self._room)
        self._add(title, text, path, cut=cut)
        return body


def _beginning(body: bytes, room: int) -> tuple[str, bool]:
    """Return at most `room` characters of a file, and whether it has more. Blocks."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces: list[str] = []
    at = length = 0
    while at < len(body) and length <= room:
        piece = decoder.decode(body[at : at + _SLICE], at + _SLICE >= len(body))
        pieces.append(piece)
        at, length = at + _SLICE, length + len(piece)
    text = "".join(pieces)
    return text[:room], length > room


def _is_part(body: bytes, text: str) -> bool:
    """Whether a file is part of a text. Blocks."""
    if len(body) > 4 * len(text):  # no character takes more bytes
        return False
    return _beginning(body, len(body))[0] in text


async def show(desk: Desk, keeper: Gatekeeper, command: Command, caller: Caller) -> bytes:
    """Answer with everything there is about the gate or task of that id."""
    pages = _Pages(desk, caller.kind is Kind.OPERATOR)
    wanted = command.id.upper()
    if gate := desk.state.gates.get(wanted):
        return await _gate(pages, keeper, gate, caller)
    if task := desk.state.tasks.get(wanted):
        return await _task(pages, task)
    return error(
        f"There is no gate or task {command.id[:20]!r}; see `choragos gates --all` and "
        "`choragos board`."
    )


async def _gate(pages: _Pages, keeper: Gatekeeper, gate: Gate, caller: Caller) -> bytes:
    desk = pages.desk
    row = view.gate_row(desk, gate)
    task = desk.state.tasks.get(gate.task)
    if gate.kind is GateKind.ENTRY and task is not None:
        text = await asyncio.to_thread(desk.texts.get, task.text_ref)
        await pages.stored("task", task.text_ref)
        body = await pages.body("brief", task.brief)
        if body is not None and text is not None and gate.decision is Decision.OPEN:
            now = await asyncio.to_thread(digest_of, desk.texts, text, task.brief, body)
            same = now == gate.digest
            row["changed"] = "" if same else "its brief was changed since the gate opened"
    else:
        await pages.stored("what is decided", gate.shown)
        body = await pages.body("file", gate.path)
        if pages.for_operator:
            # A role could keep git and every thread at work with it; it gets what is known.
            misfit = await keeper.misfit(gate, body if gate.path else None)
            row["changed"] = misfit or row["changed"]
        shown = await asyncio.to_thread(desk.texts.get, gate.shown)
        again = await asyncio.to_thread(_is_part, body or b"", shown or "")
        if body and again:
            # A diff that was just shown need not be shown again.
            pages.parts.pop()
    approve = Command(Verb.APPROVE, id=gate.id)
    return await asyncio.to_thread(
        ok,
        gate=row,
        run=desk.state.run,
        signers=list(keeper.panel.approvers),
        objection=callers.objection(caller, approve, desk.state, desk.start_name) or "",
        parts=pages.parts,
    )


async def _task(pages: _Pages, task: Task) -> bytes:
    desk = pages.desk
    reports = [r for r in desk.state.reports.values() if r.task == task.id]
    await pages.stored("task", task.text_ref)
    await pages.file("brief", task.brief)
    if task.state is TaskState.LOST:
        await pages.stored("last screen", task.screen_ref)
    for report in reversed(reports):
        await pages.stored(f"report {report.id}", report.text_ref)
        await pages.file(f"report {report.id}", report.path)
    row = view.task_row(desk, task)
    row.pop("screen", None)
    history = _history(desk, task, reports)
    return await asyncio.to_thread(ok, task=row, history=history, parts=pages.parts)


def _history(desk: Desk, task: Task, reports: list[Report]) -> list[dict[str, Any]]:
    """What became of a task, oldest first; `at` is 0 where the board keeps no time."""
    told: list[tuple[int, str]] = [(task.at, f"given to {task.role} by {task.sender}")]
    for gate in desk.state.gates.values():
        if gate.task == task.id:
            told += _gate_history(gate)
    if task.delivered_at:
        tries = f", attempt {task.tries}" if task.tries > 1 else ""
        told.append((task.delivered_at, f"handed to {task.role}{tries}"))
    for report in reports:
        why = f": {report.reason}" if report.reason else ""
        told.append((report.at, f"{report.id} from {report.role}, {report.state}{why}"))
    if loop := desk.state.loops.get(task.id):
        why = f": {loop.reason}" if loop.reason else ""
        told.append((0, f"judged by {loop.judge}, round {loop.round}, {loop.state}{why}"))
    if landing := desk.state.landings.get(task.id):
        why = f": {landing.reason}" if landing.reason else ""
        told.append((0, f"merge {landing.state}{why}"))
    if task.closed_at:
        told.append((task.closed_at, str(task.state)))
    timed = sorted(line for line in told if line[0])
    return [{"at": at, "said": said} for at, said in [*timed, *(x for x in told if not x[0])]]


def _gate_history(gate: Gate) -> list[tuple[int, str]]:
    why = f": {gate.why}" if gate.why else ""
    told = [(gate.at, f"{gate.id} opened ({KIND_WORDS[gate.kind]}){why}")]
    for count, given in enumerate(gate.approvals, 1):
        reason = f": {given.reason}" if given.reason else ""
        of = f" ({count} of {gate.needed})" if gate.needed > 1 else ""
        told.append((given.at, f"{gate.id} approved by {given.approver}{of}{reason}"))
    if gate.decision in ("rejected", "void"):
        reason = f": {gate.reason}" if gate.reason else ""
        told.append((0, f"{gate.id} {gate.decision} by {gate.approver}{reason}"))
    return told
