"""The wall of a session: its two sockets, its proof before any agent starts, each role's command.

Owns the door, a directory of two sockets that is all of the deck a walled role sees: one leads to
the gateway, the other takes a role's commands and never an operator's. Invariant: a role that asks
for the wall is started behind one that has been proved, or not at all. Called by `deck.session`
(life), `deck.seats` (command lines) and `deck.facts` (proof).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from deck.callers import Peer
from deck.config import Config, Role
from deck.gateway import Gateway
from deck.pane.errors import PaneStartError
from deck.protocol import Command
from deck.server import ControlServer
from deck.sessions import SessionPaths
from deck.wall import places as seen
from deck.wall.places import Places
from deck.wall.plan import Plan
from deck.wall.proof import Question, prove
from deck.wall.relay import Relay
from shared.paths import private_dir

BWRAP: Final = "bwrap"
#: Hosts that mean this machine; the forwarder can listen on no other.
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")

Dispatch = Callable[[Command, Peer], Awaitable[bytes]]


class WallError(PaneStartError):
    """A role's wall cannot be put up; the text says why and what to do."""


class Wall:
    """The wall around the roles of one session that ask for it. Used from one event loop."""

    def __init__(
        self,
        config: Config,
        paths: SessionPaths,
        environ: Mapping[str, str],
        gateway: Gateway,
        dispatch: Dispatch,
        *,
        door: str = "",
        place: Callable[[Role], Path | None] = lambda _: None,
    ) -> None:
        """`door` names the directory of its sockets, for a wall that is only proved; `place` says
        where a role works that does not work in the project itself."""
        self._place = place
        self.roles = tuple(role for role in config.roles if role.wall)
        runtime = paths.sidecar.parent
        self._places = Places(
            project=Path(paths.directory),
            session=paths.id,
            runtime=runtime,
            door=runtime / f"{door or paths.id}.wall",
            environ=environ,
            team_file=config.path,
        )
        self._operator = paths.socket
        self._gateway = gateway
        self._control = self._places.door / "role.sock"
        self._way_out = self._places.door / "gateway.sock"
        self._server = ControlServer(self._control, _never_an_operator(dispatch))
        self._relay: Relay | None = None

    def objection(self) -> str:
        """Return why no wall can be put up for this team, "" when it can be tried."""
        if not self.roles:
            return ""
        if not sys.platform.startswith("linux"):
            return "it works on Linux only; take wall = true out of the team file"
        if shutil.which(BWRAP, path=self._places.environ.get("PATH")) is None:
            return (
                f"it needs bubblewrap, and {BWRAP} is not on PATH; install the package "
                "bubblewrap, or take wall = true out of the team file"
            )
        if not self._gateway.enforced:
            return (
                "its only way out is the gateway, which is off for this team; set enabled = true "
                "in [sphragis] and start it, or take wall = true out of the team file"
            )
        if self._gateway.bad_address or self._gateway.host not in _LOOPBACK:
            return (
                "its forwarder needs the gateway at a loopback address; set addr in [sphragis] "
                "to one like 127.0.0.1:8787"
            )
        return ""

    async def start(self) -> None:
        """Open the door and prove each role's wall. Raises WallError or SessionError."""
        if not self.roles:
            return
        if objection := self.objection():
            raise WallError(_sentence(self.roles[0], objection))
        await self.open()
        for role in self.roles:
            if found := await self.prove(role, must_answer=False):
                raise WallError(_sentence(role, "; ".join(found)))

    async def admit(self, roles: Sequence[Role]) -> None:
        """Prove the wall of roles that join a running team, or begin anew in it. Raises WallError
        or SessionError."""
        joining = [role for role in roles if role.wall]
        if not joining:
            return
        before = self.roles
        names = {role.name for role in joining}
        self.roles = (*(role for role in before if role.name not in names), *joining)
        try:
            if objection := self.objection():
                raise WallError(_sentence(joining[0], objection))
            if self._relay is None:
                await self.open()
            for role in joining:
                if found := await self.prove(role, must_answer=False):
                    raise WallError(_sentence(role, "; ".join(found)))
        except BaseException:
            self.roles = before
            raise

    async def open(self) -> None:
        """Make the door and listen on both its sockets. Raises SessionError."""
        private_dir(self._places.door)
        self._relay = Relay(self._way_out, self._gateway.host, int(self._gateway.port))
        self._control.unlink(missing_ok=True)
        await self._server.start()
        await self._relay.start()

    async def prove(self, role: Role, *, must_answer: bool) -> list[str]:
        """Try to get past a role's wall; return what is wrong with it, [] when it holds."""
        try:
            return await asyncio.to_thread(self._prove, role, must_answer)
        except WallError as refusal:
            return [str(refusal)]

    def _prove(self, role: Role, must_answer: bool) -> list[str]:
        plan, env = self._plan(role, self._places.environ)
        own = self._places.home(role.name)
        question = Question(
            hidden=[
                *(
                    path
                    for secret in self._places.secrets
                    for path in _beside(secret, (own, self._places.door))
                ),
                self._operator,
            ],
            writable=[self._places.project, own],
            fixed=seen.fixed(self._places, ()),
            control=self._control,
            must_answer=must_answer,
        )
        return prove(plan, env, question)

    def enclose(
        self, role: Role, argv: Sequence[str], env: Mapping[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        """Return a role's command line and environment as they are behind its wall; both as they
        were for a role without one. Blocks. Raises WallError."""
        if not role.wall:
            return list(argv), dict(env)
        plan, inside = self._plan(role, env)
        return plan.command(argv), inside

    def _plan(self, role: Role, env: Mapping[str, str]) -> tuple[Plan, dict[str, str]]:
        bwrap = shutil.which(BWRAP, path=self._places.environ.get("PATH"))
        if bwrap is None:
            raise WallError(_sentence(role, f"{BWRAP} is not on PATH any more; install bubblewrap"))
        try:
            place = self._place(role)
            mounts = seen.mounts(
                self._places, role.name, role.command, env, role.wall_read, checkout=place
            )
        except seen.Unsafe as unsafe:
            raise WallError(_sentence(role, str(unsafe))) from None
        plan = Plan(
            bwrap=bwrap,
            python=os.path.realpath(sys.executable),
            directory=place or self._places.project,
            mounts=mounts,
            address=f"{self._gateway.host}:{self._gateway.port}",
            way_out=self._way_out,
        )
        return plan, seen.environment(env, self._places.home(role.name), self._control)

    async def restore(self) -> None:
        """Listen anew on what a cleaner of temporary directories has removed."""
        if self._relay is not None:
            await self._server.restore()
            await self._relay.restore()

    async def close(self) -> None:
        """Close the door. Safe when it was never opened."""
        if self._relay is None:
            return
        await self._relay.close()
        await self._server.close()
        with contextlib.suppress(OSError):
            self._places.door.rmdir()


def _never_an_operator(dispatch: Dispatch) -> Dispatch:
    async def dispatched(command: Command, peer: Peer) -> bytes:
        return await dispatch(command, replace(peer, seat_only=True))

    return dispatched


def _beside(place: Path, shown: Sequence[Path]) -> Iterator[Path]:
    """Yield `place`, or what is in it beside the way to places that are shown."""
    if not any(place in one.parents for one in shown):
        yield place
        return
    for child in place.iterdir():
        if child not in shown:
            yield from _beside(child, shown)


def _sentence(role: Role, problem: str) -> str:
    return f"role {role.name}: wall = true cannot be enforced: {problem}."
