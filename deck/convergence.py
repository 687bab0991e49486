"""What a changed team file means for a running team: who joins, leaves, begins anew, or stays.

Owns the guardrails of a reload as rules (contracts/deck.md section 1.15). Invariants: the start
role is never removed nor another one made; a role with work or a gate keeps its process and what
that was started with; only roles converge, everything else waits for a restart of the session and
is said. The configuration in the result is what is then in force, nothing more. Pure:
`deck.reloading` asks, and carries it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final

from deck.config import Config, Merge, Role

#: What a process is started with: a change of it needs a new one.
PROCESS_KEYS: Final = (
    "command",
    "args",
    "model",
    "model_flag",
    "env_allow",
    "env_deny",
    "base_url_env",
    "wall",
    "wall_read",
    "home",
    "worktree",
)
#: Not a setting of the team, or not of the rest of the file.
_NOT_SECTIONS: Final = frozenset({"roles", "path", "warnings", "source"})


@dataclass(frozen=True, slots=True)
class Skip:
    """A change of a role that is not made, and why."""

    role: str
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What a reload does; `config` is in force after it."""

    config: Config
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    #: Their process is ended and started anew.
    respawned: tuple[str, ...] = ()
    #: They go on as they are, by other rules.
    changed: tuple[str, ...] = ()
    skipped: tuple[Skip, ...] = ()
    #: Sections of the file that only a restart takes up.
    needs_restart: tuple[str, ...] = ()


def objection(old: Config, new: Config) -> str:
    """Return why a file is not converged on at all, as a clause; "" when it can be.

    What was warned of when the team started is known; a new warning is a value that would be
    dropped, and a running team does not guess.
    """
    if fresh := [warning for warning in new.warnings if warning not in old.warnings]:
        return fresh[0]
    names = [role.name for role in new.roles]
    if "" in names:
        return "a role has no name; give it one"
    known = [role.name for role in old.roles]
    for name in names:
        if names.count(name) > max(1, known.count(name)):
            return f"two roles are named {name!r}; give each its own name"
    return ""


def converge(old: Config, new: Config, busy: Callable[[str], str]) -> Plan:
    """Return what has to happen for a running team to be that of a new file.

    `busy` says why a role's process may not be ended now, "" when it may.
    """
    before, after = _by_name(old), _by_name(new)
    start = old.start_role.name
    skipped: list[Skip] = []
    if new.start_role.name != start:
        skipped.append(Skip(start, "the start role stays until the session is started again"))
    removed = tuple(name for name in before if name not in after and name != start)
    roles, respawned, changed = [], [], []
    for name, role in before.items():
        if name in removed:
            continue
        wanted = _without_start(after.get(name, role), role)
        why = busy(name) if _differs(role, wanted) else ""
        kept = _with_process_of(role, wanted) if why else wanted
        roles.append(kept)
        if why:
            skipped.append(Skip(name, why))
        elif _differs(role, wanted):
            respawned.append(name)
        if kept != role and name not in respawned:
            changed.append(name)
    added = tuple(name for name in after if name not in before)
    roles += [replace(after[name], start=False) for name in added]
    return Plan(
        config=replace(old, roles=tuple(roles), warnings=new.warnings, source=new.source),
        added=added,
        removed=removed,
        respawned=tuple(respawned),
        changed=tuple(changed),
        skipped=tuple(skipped),
        needs_restart=_sections(old, new),
    )


def _by_name(config: Config) -> Mapping[str, Role]:
    """The first of each name, as the session starts them."""
    found: dict[str, Role] = {}
    for role in config.roles:
        found.setdefault(role.name, role)
    return found


def _without_start(wanted: Role, present: Role) -> Role:
    """Who leads is not for a reload; nor what a role that leads cannot be."""
    if not present.start:
        return replace(wanted, start=False)
    return replace(wanted, start=True, fresh=False, worktree=False, merge=Merge.MANUAL)


def _differs(present: Role, wanted: Role) -> bool:
    return any(getattr(present, key) != getattr(wanted, key) for key in PROCESS_KEYS)


def _with_process_of(present: Role, wanted: Role) -> Role:
    return replace(wanted, **{key: getattr(present, key) for key in PROCESS_KEYS})


def _sections(old: Config, new: Config) -> tuple[str, ...]:
    names = [one.name for one in fields(Config) if one.name not in _NOT_SECTIONS]
    return tuple(name for name in names if getattr(old, name) != getattr(new, name))
