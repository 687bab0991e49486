"""The facts of this machine that the doctor's checks are about.

Owns the looking: files, PATH, environment, sockets, git, and a try of each wall. Rules: nothing is
changed and nothing stays running; what cannot be seen is a fact too, never an exception; of a
variable only its name is taken, never its value. `choragos doctor` calls `collect`, `deck.doctor`
judges what it returns.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from deck.branches import branch_of, clashes
from deck.checkpoints import Checkpoints, GitError
from deck.config import Config, ConfigError, GatewayMode, Role
from deck.firstrun import dialogs, missing_login
from deck.gateway import Gateway
from deck.homes import role_home
from deck.listeners import Holder, holder_of, process_behind
from deck.programs import find_own
from deck.roster import filtered
from deck.sessions import SessionError, paths_for
from deck.team_reader import load_config
from deck.wall.wall import Wall
from deck.worktrees import Origin, Worktrees
from shared.paths import session_id
from shared.telemetry import SCRAPE_LIMIT_BYTES

_PROBE_SECONDS: Final = 1.0
#: What the start of a session does about a worktree.
_DOES: Final = {
    Origin.MADE: "made at the start",
    Origin.REMADE: "made again at the start",
    Origin.REUSED: "taken as it is",
}


class GatewayState(StrEnum):
    """What answers at the gateway's address."""

    NOTHING = "nothing"
    FOREIGN = "foreign"
    BAD_ADDRESS = "bad address"
    NOT_READY = "not ready"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class WorktreePlan:
    """A role's worktree: where it works, on which branch, what the start does there; a problem
    keeps the session from starting."""

    place: str = ""
    branch: str = ""
    does: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the checks look at. `programs` maps a command to its full path where it has one."""

    config: Config | None
    config_problem: str = ""
    directory: str = ""
    programs: Mapping[str, str] = field(default_factory=dict)
    socket: str = ""
    socket_problem: str = ""
    term: str = ""
    gateway: GatewayState = GatewayState.NOTHING
    gateway_reason: str = ""
    repository: str = ""
    repository_problem: str = ""
    #: By role, the names (never the values) of the variables it would see.
    variables: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: Who listens at the gateway's address, and whether the control socket of this user's gateway
    #: is the same process's; None where that cannot be seen.
    gateway_holder: Holder | None = None
    gateway_is_homes: bool | None = None
    #: By role, the dialogs its client would open before it takes work.
    dialogs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: By walled role, what is wrong with its wall; empty when it was proved.
    walls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: By role with a worktree: what the start would do, and what is in the way.
    worktrees: Mapping[str, WorktreePlan] = field(default_factory=dict)
    uid: int = 0


def collect(config_path: Path | None, cwd: Path, environ: Mapping[str, str]) -> Facts:
    """Gather the facts for the team of `config_path` (or the default) in `cwd`. Never raises."""
    config, config_problem = None, ""
    try:
        config = load_config(config_path, cwd)
    except ConfigError as failure:
        config_problem = str(failure)
    socket, socket_problem = _socket(str(cwd), environ)
    state, reason = (GatewayState.NOTHING, "")
    if config is not None and config.sphragis.mode is not GatewayMode.OFF:
        state, reason = _gateway(config)
    repository, repository_problem = _repository(cwd)
    holder, is_homes = None, None
    if config is not None and state in (GatewayState.READY, GatewayState.NOT_READY):
        holder, is_homes = _identity(config, environ)
    roles = config.roles if config is not None else ()
    plans = _worktrees(roles, cwd)
    commands = {role.command for role in roles}
    path = environ.get("PATH")
    programs = {command: shutil.which(command, path=path) for command in commands if command}
    if config is not None:
        programs[config.sphragis.command] = find_own(config.sphragis.command, environ)
    return Facts(
        config=config,
        config_problem=config_problem,
        directory=str(cwd),
        programs={command: place for command, place in programs.items() if place is not None},
        socket=socket,
        socket_problem=socket_problem,
        term=environ.get("TERM", ""),
        gateway=state,
        gateway_reason=reason,
        repository=repository,
        repository_problem=repository_problem,
        variables={role.name: frozenset(filtered(environ, role)) for role in roles},
        gateway_holder=holder,
        gateway_is_homes=is_homes,
        dialogs={
            role.name: _dialogs(role, plans.get(role.name, WorktreePlan()).place, cwd, environ)
            for role in roles
        },
        worktrees=plans,
        walls=_walls(config, cwd, environ, state) if config is not None else {},
        uid=os.getuid(),
    )


def _worktrees(roles: Sequence[Role], cwd: Path) -> dict[str, WorktreePlan]:
    names = [role.name for role in roles if role.worktree]
    if not names:
        return {}
    if clash := clashes(names):
        return {name: WorktreePlan(problem=clash) for name in names}
    try:
        trees = Worktrees(cwd)
    except GitError as problem:
        return {name: WorktreePlan(problem=str(problem)) for name in names}
    return {name: _worktree(trees, name) for name in names}


def _worktree(trees: Worktrees, role: str) -> WorktreePlan:
    place, branch = str(trees.cwd(role)), branch_of(role)
    try:
        return WorktreePlan(place, branch, _DOES[trees.look(role)])
    except GitError as problem:
        return WorktreePlan(place, branch, problem=str(problem))


def _dialogs(role: Role, place: str, cwd: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    env = filtered(environ, role)
    if role.has_own_home:
        own = role_home(environ, session_id(str(cwd)), role.name)
        missing = missing_login(role.command, own, env)
        return (missing,) if missing else ()
    home = Path(env.get("HOME") or Path.home())
    return tuple(dialogs(role.command, home, place or str(cwd), env))


def _identity(config: Config, environ: Mapping[str, str]) -> tuple[Holder | None, bool | None]:
    """Return who holds the gateway's port, and whether the gateway of this home is the same."""
    gateway = Gateway(config.sphragis, log=Path(os.devnull), environ=environ)
    holder = holder_of(int(gateway.port))
    if holder is None or not holder.pid:
        return holder, None
    behind = process_behind(gateway.control_socket)
    # An older gateway has no control socket; then there is nothing to compare.
    return holder, behind == holder.pid if behind else None


def _walls(
    config: Config, cwd: Path, environ: Mapping[str, str], state: GatewayState
) -> dict[str, tuple[str, ...]]:
    """Prove each wall, with the gateway behind it where there is one."""
    walled = [role for role in config.roles if role.wall]
    if not walled:
        return {}
    gateway = Gateway(config.sphragis, log=Path(os.devnull), environ=environ)
    try:
        paths = paths_for(str(cwd), environ)
    except SessionError as problem:
        return {role.name: (str(problem),) for role in walled}

    async def refuse(*_: object) -> bytes:
        return b""

    async def prove() -> dict[str, tuple[str, ...]]:
        # A door of its own: a session may be running here.
        wall = Wall(config, paths, environ, gateway, refuse, door=f"doctor-{os.getpid()}")
        try:
            absent = find_own(config.sphragis.command, environ) is None
            if (
                config.sphragis.mode is GatewayMode.SOFT
                and state is GatewayState.NOTHING
                and absent
            ):
                # As at the start of a session: without a gateway there is no way out to leave open.
                gateway.enforced = False
            if objection := wall.objection():
                return {role.name: (objection,) for role in walled}
            await wall.open()
            answers = state in (GatewayState.READY, GatewayState.NOT_READY)
            return {
                role.name: tuple(await wall.prove(role, must_answer=answers)) for role in walled
            }
        except (SessionError, OSError) as problem:
            return {role.name: (str(problem),) for role in walled}
        finally:
            await wall.close()
            await gateway.stop()

    return asyncio.run(prove())


def _socket(directory: str, environ: Mapping[str, str]) -> tuple[str, str]:
    try:
        path = paths_for(directory, environ).socket
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except SessionError as problem:
        return "", str(problem)
    except OSError as failure:
        return "", (
            f"its directory cannot be written ({failure.strerror}); set XDG_RUNTIME_DIR to a "
            "directory of yours"
        )
    return str(path), ""


def _gateway(config: Config) -> tuple[GatewayState, str]:
    """Ask the gateway's address whether it is ready and whether it is a gateway at all."""
    gateway = Gateway(config.sphragis, log=Path(os.devnull))
    if gateway.bad_address:
        return GatewayState.BAD_ADDRESS, ""

    async def probe() -> tuple[bool, str, bool]:
        found = await gateway.probe()
        held = await gateway.listens()
        await gateway.stop()  # closes its client; it started nothing
        return found.ready, found.reason, held

    ready, reason, held = asyncio.run(probe())
    status, body = _get(gateway.host, gateway.port, "/readyz")
    if status == 0:
        return (GatewayState.FOREIGN if held else GatewayState.NOTHING), reason
    if not (_says_ready(body) or b"sphragis_" in _get(gateway.host, gateway.port, "/metrics")[1]):
        return GatewayState.FOREIGN, ""
    return (GatewayState.READY, "") if ready else (GatewayState.NOT_READY, reason)


def _says_ready(body: bytes) -> bool:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, dict) and "ready" in answer


def _get(host: str, port: str, path: str) -> tuple[int, bytes]:
    """Return status and body of a GET, status 0 when nothing answers."""
    try:
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=_PROBE_SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read(SCRAPE_LIMIT_BYTES)
        finally:
            connection.close()
    except (OSError, ValueError, http.client.HTTPException):
        return 0, b""


def _repository(cwd: Path) -> tuple[str, str]:
    try:
        return str(Checkpoints(cwd).repo.top), ""
    except GitError as failure:
        return "", str(failure)
