"""What a face may know of a session: plain values for the `status` and `gates` verbs.

Owns the names of the fields, which are an interface: they are only added to. Reading changes
nothing. Texts come from agents and are one line, but not markup: faces show them as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from deck.approvals import progress
from deck.board import Gate, Task
from deck.branches import branch_of
from deck.config import GatewayMode
from deck.desk import Desk, deck_pid
from deck.entries import TaskState
from deck.gates import KIND_WORDS
from deck.metering import Metering
from deck.moves import IN_FLIGHT
from deck.pane.status import PaneState
from deck.protocol import one_line
from deck.seats import Seat

REPORTS_SHOWN: Final = 200


def read_ahead(desk: Desk) -> None:
    """Read what a status says of each text, so that no later one waits for the disk: agents may
    have left a mebibyte in each. Blocks; called in a thread at the start of a session."""
    state = desk.state
    gated = (state.tasks.get(gate.task) for gate in state.gate_rows())
    for task in (*state.rows(), *gated):
        desk.texts.line(task.text_ref if task else "")
    for report in list(state.reports.values())[-REPORTS_SHOWN:]:
        desk.texts.line(report.text_ref)


def status(desk: Desk, metering: Metering, phase: str) -> dict[str, Any]:
    """Return the whole session."""
    state, gateway = desk.state, desk.gateway
    return {
        "pid": deck_pid(),
        "dir": desk.paths.directory,
        "run": state.run,
        "phase": phase,
        "finished": state.finished,
        "roles": [_role(desk, seat) for seat in desk.seats.values()],
        "tasks": [task_row(desk, task) for task in state.rows()],
        "reports": _reports(desk),
        "gates": [gate_row(desk, gate) for gate in state.gate_rows()],
        "gateway": {
            "on": gateway.enforced,
            "wanted": gateway.config.mode is not GatewayMode.OFF,
            "up": gateway.enforced and gateway.last.ready,
            "reason": gateway.last.reason,
            "url": gateway.url,
            "fail_closed": gateway.fail_closed,
        },
        "usage": [_usage(desk, metering, seat) for seat in desk.seats.values()],
        "notices": list(desk.notices),
        "journal": {"records": desk.journal.size, "failure": desk.journal.failure},
    }


def gates(desk: Desk) -> Iterator[dict[str, Any]]:
    """Yield every gate of the run, oldest first. May be read in a thread."""
    for gate in desk.state.gates.values():
        yield gate_row(desk, gate)


def gate_row(desk: Desk, gate: Gate) -> dict[str, Any]:
    """Return one gate."""
    task = desk.state.tasks.get(gate.task)
    return {
        "id": gate.id,
        "kind": str(gate.kind),
        "task": gate.task,
        "role": gate.role or (task.role if task else ""),
        "from": task.sender if task else desk.start_name,
        "label": desk.label(task) if task else gate.why,
        "brief": task.brief if task else "",
        "why": gate.why,
        "path": gate.path,
        "hash": gate.digest,
        "state": str(gate.decision),
        "approver": gate.approver,
        "reason": gate.reason,
        "at": gate.at,
        "until": gate.until,
        "needed": gate.needed,
        "approvals": [given.approver for given in gate.approvals],
        "what": KIND_WORDS[gate.kind],
        "progress": progress(gate),
        "changed": desk.changed_gates.get(gate.id, ""),
    }


def _usage(desk: Desk, metering: Metering, seat: Seat) -> dict[str, Any]:
    row = metering.row(seat.name)
    if seat.role.budget is not None:
        row["budget_usd"] = float(seat.role.budget)
        row["exceeded"] = seat.name in desk.state.exceeded
    return row


def _role(desk: Desk, seat: Seat) -> dict[str, Any]:
    shown = seat.pane.status if seat.pane else None
    return {
        "name": seat.name,
        "state": _role_state(seat),
        "pid": (seat.pane.pid or 0) if seat.pane and seat.alive else 0,
        "question": one_line(shown.question) if shown else "",
        "evidence": f"{shown.source}: {one_line(shown.evidence)}" if shown else "",
        "seconds": round(seat.pane.state_age, 1) if seat.pane else 0.0,
        "start": seat.is_start,
        "waiting": seat.waiting,
        "held": seat.held,
        "restarts": seat.restarts,
        "routed": seat.routed,
        "exit": desk.state.exits.get(seat.name, ""),
    }


def _role_state(seat: Seat) -> str:
    if seat.removed:
        return "removed"
    return str(seat.pane.state if seat.pane is not None else PaneState.BOOTING)


def task_row(desk: Desk, task: Task) -> dict[str, Any]:
    """Return one task."""
    row: dict[str, Any] = {
        "id": task.id,
        "role": task.role,
        "from": task.sender,
        "state": str(task.state),
        "label": desk.label(task),
        "brief": task.brief,
        "reason": task.reason,
        "gate": task.gate,
        "at": task.at,
        "delivered_at": task.delivered_at,
        "closed_at": task.closed_at,
    }
    seat = desk.seats.get(task.role)
    if seat is not None and task.state is TaskState.QUEUED:
        row["reason"] = task.reason or seat.held or _hold(seat)
    if seat is not None and seat.pane is not None and task.state in IN_FLIGHT:
        row["question"] = one_line(seat.pane.status.question)
    if task.screen_ref:
        row["screen"] = desk.texts.get(task.screen_ref) or ""
    if task.judges:
        row["judges"] = task.judges
    if (loop := desk.state.loops.get(task.id)) is not None:
        row["review"] = {"state": str(loop.state), "judge": loop.judge, "round": loop.round}
    if (landing := desk.state.landings.get(task.id)) is not None:
        row["merge"] = {
            "state": str(landing.state),
            "branch": branch_of(landing.role),
            "commit": landing.commit,
            "reason": landing.reason,
        }
    return row


def _hold(seat: Seat) -> str:
    """Why a task behind another line waits."""
    state = seat.pane.status.state if seat.pane is not None else PaneState.BOOTING
    return "" if state is PaneState.IDLE else f"{seat.name} is {state}"


def _reports(desk: Desk) -> list[dict[str, Any]]:
    return [
        {
            "id": report.id,
            "task": report.task,
            "from": report.role,
            "state": str(report.state),
            "label": desk.texts.line(report.text_ref) or "",
            "report": report.path,
            "done": report.done,
            "reason": report.reason,
            "at": report.at,
        }
        for report in list(desk.state.reports.values())[-REPORTS_SHOWN:]
    ]
