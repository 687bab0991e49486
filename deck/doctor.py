"""The doctor: will this team run here, and is it covered; each failure with what fixes it.

Owns the checks. A check is a pure function from facts (`deck.facts`) to findings. Only a FAIL makes
the command fail. Findings name variables and programs, never the values of variables. To add a
check: one function and one line in CHECKS. `choragos doctor` calls it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from deck.agents import adapter_for
from deck.budgets import uncountable
from deck.config import GatewayMode, Role
from deck.facts import Facts, GatewayState, WorktreePlan
from deck.gateway import BAD_ADDRESS
from deck.roster import unenforced
from deck.routing import bypasses
from deck.sessions import SOCKET_ENV

#: The limit existing decks check; the kernel's own is 108 bytes on Linux, 104 on macOS.
SOCKET_PATH_MAX: Final = 100
#: CLIs known to take `--model` (contracts/deck.md section 1.15).
_TAKE_MODEL: Final = ("claude", "agy", "codex")


class Level(StrEnum):
    """How bad a finding is."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's report."""

    level: Level
    name: str
    message: str

    def line(self) -> str:
        """Return the finding as existing decks print it."""
        return self.spread(14)

    def spread(self, names: int) -> str:
        """Return the finding with `names` columns for its name."""
        return f"{self.level:<4}  {self.name:<{names}} {self.message}"


def diagnose(facts: Facts) -> list[Finding]:
    """Return every finding, in the order of CHECKS."""
    return [finding for check in CHECKS for finding in check(facts)]


def check_config(facts: Facts) -> list[Finding]:
    """The team file loads; its warnings; what it asks for that is not enforced yet."""
    config = facts.config
    if config is None:
        return [Finding(Level.FAIL, "config", facts.config_problem)]
    if config.path is None:
        found = [_ok("config", "no .choragos.toml here: the built-in team (`choragos init`)")]
    else:
        found = [_ok("config", f"{config.path}: {len(config.roles)} role(s)")]
    found += [_warn("config", warning) for warning in config.warnings]
    found += [_warn("config", sentence) for sentence in unenforced(config)]
    found += [_warn("config", sentence) for sentence in uncountable(config)]
    starts = [role.name for role in config.roles if role.start]
    if not starts:
        found.append(
            _warn("config", f"no role has start = true; {config.start_role.name} gets the reports "
                            "but no start brief: set it on the orchestrator")
        )  # fmt: skip
    if len(starts) > 1:
        found.append(
            _warn("config", f"start = true on {', '.join(starts)}; only {starts[0]} counts: "
                            "remove the others")
        )  # fmt: skip
    if any(not role.name for role in config.roles):
        found.append(_warn("config", "a role has no name; nothing can be delegated to it"))
    return found


def check_commands(facts: Facts) -> list[Finding]:
    """Each role's command is on PATH."""
    found = []
    for role in _roles(facts):
        place = facts.programs.get(role.command)
        if not role.command:
            found.append(_fail(_of(role), "has no command; add command = to its [[roles]] table"))
        elif place is None:
            found.append(
                _fail(_of(role), f"{role.command} is not on PATH; install it or correct command")
            )
        else:
            found.append(_ok(_of(role), place))
    return found


def check_models(facts: Facts) -> list[Finding]:
    """A model is passed only to a CLI known to take it."""
    return [
        _warn(
            _of(role),
            f"its model is passed as {role.model_flag}, which {_program(role)} may not take; "
            'check, and set model_flag ("" = do not pass it)',
        )
        for role in _roles(facts)
        if role.model and role.model_flag == "--model" and _program(role) not in _TAKE_MODEL
    ]


def check_judges(facts: Facts) -> list[Finding]:
    """A judge that is the same program and model as the role it judges shares its blind spots."""
    found = []
    for role in _roles(facts):
        judge = facts.config.role(role.judge) if facts.config and role.judge else None
        if judge is not None and (judge.command, judge.model) == (role.command, role.model):
            found.append(
                _warn(_of(role), f"its judge {judge.name} runs the same command and model; "
                                 "choose another model")
            )  # fmt: skip
    return found


def check_ownership(facts: Facts) -> list[Finding]:
    """No prompt names a file that another role owns."""
    return [
        _warn(
            _of(role),
            f"its prompt names {path}, which {owner.name} owns; if it should only read it, say so",
        )
        for owner in _roles(facts)
        for path in owner.owns_files
        for role in _roles(facts)
        if role is not owner and path in role.prompt_template
    ]


def check_worktrees(facts: Facts) -> list[Finding]:
    """Roles with a worktree can have it; where it is and how their work lands."""
    found = []
    for role in _roles(facts):
        plan = facts.worktrees.get(role.name, WorktreePlan(problem=facts.repository_problem))
        if not role.worktree:
            continue
        if plan.problem:
            found.append(_fail(_of(role), f"its worktree cannot be used: {plan.problem}"))
        else:
            found.append(
                _ok(_of(role), f"worktree {plan.place} on branch {plan.branch} ({plan.does}), "
                               f"merge = {role.merge}")
            )  # fmt: skip
    return found


def check_socket(facts: Facts) -> list[Finding]:
    """The control socket can be made."""
    if facts.socket_problem:
        return [_fail("socket", facts.socket_problem)]
    length = len(os.fsencode(facts.socket))
    if length > SOCKET_PATH_MAX:
        return [
            _fail("socket", f"its path has {length} bytes, {SOCKET_PATH_MAX} are possible; set "
                            f"XDG_RUNTIME_DIR or {SOCKET_ENV} to a shorter path")
        ]  # fmt: skip
    return [_ok("socket", facts.socket)]


def check_terminal(facts: Facts) -> list[Finding]:
    """The terminal can draw."""
    if facts.term in ("", "dumb"):
        shown = facts.term or "empty"
        return [
            _fail("terminal", f"TERM is {shown}; set it, for example: export TERM=xterm-256color")
        ]
    return [_ok("terminal", f"TERM={facts.term}")]


def check_gateway(facts: Facts) -> list[Finding]:
    """The gateway runs, or will be started, or its absence is known to be meant."""
    if facts.config is None:
        return []
    sphragis = facts.config.sphragis
    if sphragis.mode is GatewayMode.OFF:
        return [_warn("gateway", "disabled: prompts go to the providers unscanned and unrecorded")]
    if facts.gateway is GatewayState.READY:
        return [_ok("gateway", f"ready at {sphragis.addr}"), *_fail_open(facts)]
    required = sphragis.mode is GatewayMode.REQUIRED
    if facts.gateway is GatewayState.FOREIGN:
        return [
            _fail("gateway", f"something else than a gateway holds {sphragis.addr}; stop it, "
                             "or set addr in [sphragis]")
        ]  # fmt: skip
    if facts.gateway is GatewayState.BAD_ADDRESS:
        return [_fail("gateway", BAD_ADDRESS)]
    if facts.gateway is GatewayState.NOT_READY:
        level = Level.FAIL if required else Level.WARN
        return [
            Finding(level, "gateway", f"at {sphragis.addr} it is not ready: "
                                      f"{facts.gateway_reason}; `sphragis status` says more")
        ]  # fmt: skip
    place = facts.programs.get(sphragis.command)
    if place is not None:
        return [_ok("gateway", f"{place}: started with the session"), *_fail_open(facts)]
    if required:
        return [
            _fail("gateway", f"{sphragis.command} is not on PATH and nothing answers at "
                             f"{sphragis.addr}; install it or correct command in [sphragis]")
        ]  # fmt: skip
    return [
        _warn("gateway", f"{sphragis.command} is not on PATH: the team runs without it, unscanned; "
                         "install it, and set enabled = true in [sphragis] to insist")
    ]  # fmt: skip


def check_identity(facts: Facts) -> list[Finding]:
    """What answers as the gateway is this user's."""
    holder = facts.gateway_holder
    if facts.config is None or facts.gateway not in (GatewayState.READY, GatewayState.NOT_READY):
        return []
    addr = facts.config.sphragis.addr
    if holder is not None and holder.uid not in (facts.uid, 0):
        return [
            _fail("gateway", f"what listens at {addr} belongs to user {holder.user}, who can read "
                             "every prompt; start your own on another addr in [sphragis]")
        ]  # fmt: skip
    if holder is not None and holder.uid != facts.uid:
        return [
            _warn("gateway", f"what listens at {addr} belongs to {holder.user}, not to you; make "
                             "sure it is the gateway you mean, in its container perhaps")
        ]  # fmt: skip
    if facts.gateway_is_homes is False:
        return [
            _warn("gateway", f"what listens at {addr} is not the gateway of your home, so tasks "
                             "are not told to it; set SPHRAGIS_HOME to that gateway's home")
        ]  # fmt: skip
    return []


def check_routing(facts: Facts) -> list[Finding]:
    """Nothing leads an agent past the gateway; a role that requires so fails if something does."""
    if facts.config is None:
        return []
    off = facts.config.sphragis.mode is GatewayMode.OFF
    found = []
    for role in facts.config.roles:
        if off and role.require_routing:
            found.append(
                _fail(_of(role), "require_routing = true, but the gateway is off; set enabled = "
                                 "true in [sphragis], or take require_routing out")
            )  # fmt: skip
        if off or role.wall:
            continue
        level = Level.FAIL if role.require_routing else Level.WARN
        found += [
            Finding(level, _of(role), sentence)
            for sentence in bypasses(role, facts.variables.get(role.name, frozenset()))
        ]
        found += [
            _warn(_of(role), f"{sentence} (wall = true keeps it in)")
            for sentence in adapter_for(role.command).beside
        ]
    return found


def check_first_run(facts: Facts) -> list[Finding]:
    """No client would meet the first task with a dialog."""
    found = []
    for role in _roles(facts):
        program, said = _program(role), facts.dialogs.get(role.name)
        plan = facts.worktrees.get(role.name)
        where = f"in its worktree {plan.place}" if plan is not None and plan.place else "here"
        if said and not role.has_own_home:
            found.append(
                _warn(_of(role), f"at its first start {program} {' and '.join(said)}, and tasks "
                                 f"would wait; run `{program}` {where} once and answer")
            )  # fmt: skip
        elif said:
            found.append(_warn(_of(role), f"{program} {' and '.join(said)}"))
    return found


def check_walls(facts: Facts) -> list[Finding]:
    """Each wall holds: the doctor has tried to get past it."""
    found = []
    answers = facts.gateway in (GatewayState.READY, GatewayState.NOT_READY)
    reached = "the gateway is reached" if answers else "the way to the gateway is open"
    for role in _roles(facts):
        wrong = facts.walls.get(role.name)
        if wrong:
            found.append(_fail(_of(role), f"wall = true cannot be enforced: {'; '.join(wrong)}"))
        elif role.wall and wrong is not None:
            found.append(_ok(_of(role), f"wall: tried from inside, {reached} and nothing else is"))
    return found


def check_checkpoints(facts: Facts) -> list[Finding]:
    """Deliveries can be undone."""
    if facts.config is not None and not facts.config.checkpoints.enabled:
        return [_ok("checkpoints", "disabled in [checkpoints]; `rollback` has nothing to go to")]
    if facts.repository_problem:
        return [_warn("checkpoints", facts.repository_problem)]
    return [_ok("checkpoints", f"git repository {facts.repository}")]


CHECKS: Final[tuple[Callable[[Facts], list[Finding]], ...]] = (
    check_config,
    check_commands,
    check_models,
    check_judges,
    check_ownership,
    check_worktrees,
    check_socket,
    check_terminal,
    check_gateway,
    check_identity,
    check_routing,
    check_first_run,
    check_walls,
    check_checkpoints,
)


def _fail_open(facts: Facts) -> list[Finding]:
    if facts.config is None or facts.config.sphragis.fail_closed:
        return []
    return [_warn("gateway", "fail_closed = false: work goes on unscanned while it is down")]


def _roles(facts: Facts) -> tuple[Role, ...]:
    return facts.config.roles if facts.config is not None else ()


def _program(role: Role) -> str:
    return os.path.basename(role.command)


def _of(role: Role) -> str:
    return f"role {role.name}"


def _ok(name: str, message: str) -> Finding:
    return Finding(Level.OK, name, message)


def _warn(name: str, message: str) -> Finding:
    return Finding(Level.WARN, name, message)


def _fail(name: str, message: str) -> Finding:
    return Finding(Level.FAIL, name, message)
