"""The team of a session: a seat for each role, also for one that joins later.

Owns how a seat is made: its surroundings, its brief's file, what it asks and tells. Invariants: a
name has one seat for the whole session, so that ids and late reports keep their meaning when a
role leaves and comes back; names that differ only in what file names cannot hold do not share a
brief. `deck.session` makes the team, `deck.reloading` changes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from deck import briefs
from deck.board import Task
from deck.config import Role
from deck.desk import Desk
from deck.merging import Merging
from deck.pane.status import Status
from deck.roster import Surroundings
from deck.seats import Seat
from deck.stamping import Stamping
from deck.wall.wall import Wall


@dataclass(slots=True)
class Team:
    """The seats of one session."""

    desk: Desk
    wall: Wall
    merging: Merging
    stamping: Stamping
    before_delivery: Callable[[Task], Awaitable[None]]
    on_status: Callable[[Seat, Status], None]

    def fill(self) -> None:
        """Make the seats of the team file, before anything runs: in the order in which the roles
        came to a session that goes on, new ones behind them (contracts/deck.md section 1.13)."""
        order = {name: place for place, name in enumerate(self.desk.state.roster)}
        roles = sorted(self.desk.config.roles, key=lambda role: order.get(role.name, len(order)))
        for role in roles:
            # A second role of the same name could never be addressed.
            if role.name not in self.desk.seats:
                self.seat(role)

    def seat(self, role: Role) -> Seat:
        """Make the seat of a role that has none, or take back the one it had."""
        desk = self.desk
        seat = desk.seats.get(role.name)
        if seat is not None:
            seat.role, seat.removed, seat.restarting, seat.restarts = role, False, True, 0
            return seat
        seat = desk.seats[role.name] = Seat(
            role=role,
            desk=desk,
            around=self._around(),
            boot_file=self._free_boot_file(role),
            is_start=role.name == desk.start_name,
            stamp=self.stamping.before,
            stamped=self.stamping.after,
            before_delivery=self.before_delivery,
            on_status=self.on_status,
            place=self.merging.place,
        )
        return seat

    def _around(self) -> Surroundings:
        desk = self.desk
        return Surroundings(
            session=desk.paths.id,
            socket=str(desk.paths.socket),
            environ=desk.environ,
            gateway=desk.gateway,
            wall=self.wall,
            directory=desk.directory,
            place=self.merging.place,
        )

    def _free_boot_file(self, role: Role) -> str:
        """Without `start = true` anywhere the first role leads but gets no leader's brief."""
        if role.start and role.name == self.desk.start_name:
            return briefs.ORCHESTRATOR_FILE
        taken = {seat.boot_file for seat in self.desk.seats.values()}
        wanted, number = briefs.brief_name(role.name), 1
        while wanted in taken:
            number += 1
            wanted = briefs.brief_name(role.name, number)
        return wanted
