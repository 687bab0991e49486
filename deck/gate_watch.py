"""The watch over open gates: what a person would be shown by now is something else.

Owns the looking, not the consequence: a gate that changed stays open, may become again what it
was, and is void only when somebody approves it (`deck.gatekeeper`). Rules: a file is read again
only when it may be another one (its inode, size or times changed); the board says what changed
for as long as it is so, the start role is told once. Called by `deck.gatekeeper` each second.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from deck.board import Gate
from deck.desk import Desk
from deck.entries import Decision, GateKind

#: What tells whether a file may hold something else than before: which file, its size, its times;
#: None: it is not there.
_Stamp = tuple[int, int, int, int, int] | None


@dataclass(slots=True)
class GateWatch:
    """The watch of one session; `change_of` says in words what is not as when a gate opened."""

    desk: Desk
    change_of: Callable[[Gate], Awaitable[str]]
    _stamps: dict[str, _Stamp] = field(default_factory=dict)
    _looking: set[str] = field(default_factory=set)
    _told: set[str] = field(default_factory=set)

    async def look(self, waiting: Sequence[Gate]) -> None:
        """Look again, in the background, at each open gate whose file may be another one."""
        paths = {gate.id: path for gate in waiting if (path := self._path(gate))}
        for gate_id in self._stamps.keys() - paths.keys():
            del self._stamps[gate_id]
        if not paths:
            return
        for gate_id, stamp in (await asyncio.to_thread(_stamps, paths)).items():
            known = gate_id in self._stamps and self._stamps[gate_id] == stamp
            if not known and gate_id not in self._looking:
                self._stamps[gate_id] = stamp
                self._looking.add(gate_id)
                self.desk.job(self._look(gate_id))

    def _path(self, gate: Gate) -> str:
        task = self.desk.state.tasks.get(gate.task)
        return gate.path or (task.brief if task and gate.kind is GateKind.ENTRY else "")

    async def _look(self, gate_id: str) -> None:
        desk = self.desk
        try:
            changed = await self.change_of(desk.state.gates[gate_id])
        finally:
            self._looking.discard(gate_id)
        gate = desk.state.gates[gate_id]
        if gate.decision is not Decision.OPEN:
            return
        if not changed:
            desk.changed_gates.pop(gate_id, None)
            return
        desk.changed_gates[gate_id] = changed
        if gate_id not in self._told:
            # A file that goes to and fro is not worth the start role's attention each time.
            self._told.add(gate_id)
            desk.events.write("WARN", "gate changed", gate=gate_id, reason=changed)
            desk.notify(f"{gate_id} for {gate.task or gate.role} cannot be approved now: {changed}")


def _stamps(paths: Mapping[str, str]) -> dict[str, _Stamp]:
    return {gate_id: _stamp(path) for gate_id, path in paths.items()}


def _stamp(path: str) -> _Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
