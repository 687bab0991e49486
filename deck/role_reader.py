"""Reading the `[[roles]]` of a team file.

Owns what happens to a bad value of a role: it is a warning and the default stands, unless somebody
relies on it: files that two roles own, or that cannot be owned, and approvals that nobody could
give are errors. Invariants: the start role works in the project itself and in one piece, so what
does not go with that is taken from it; a role is never without a way to the gateway because of a
misspelled variable. Called by `deck.team_reader`.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from deck.briefs import STATE_DIR
from deck.config import (
    DEFAULT_BASE_URL_ENV,
    BudgetAction,
    ConfigError,
    Home,
    Merge,
    Restart,
    Role,
    TimeoutAction,
)
from deck.durations import BadDuration, parse_duration
from deck.toml_table import Table

_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Promises:
    """What the file promises for every role that does not say otherwise."""

    wall: bool
    wall_read: tuple[str, ...]
    require_routing: bool


def read_roles(top: Table, defaults: Promises) -> tuple[Role, ...]:
    """Return the roles of a team file, in its order, with its `defaults` where one says nothing.

    Raises ConfigError when there are none, and for what is promised and cannot be kept.
    """
    raw = top.tables("roles")
    if not raw:
        raise ConfigError(
            f"{top.path}: roles is empty; add at least one [[roles]] table with a name and "
            "a command."
        )
    names = [value.get("name", "") for value in raw]
    starts = [value.get("start") is True for value in raw]
    first_start = starts.index(True) if True in starts else 0
    roles = tuple(
        _role(
            top.of(value, f'roles."{names[i]}"' if names[i] else f"roles[{i}]"),
            names=names,
            leads=i == first_start,
            defaults=defaults,
        )
        for i, value in enumerate(raw)
    )
    _check_owners(top, roles)
    return roles


def _role(table: Table, *, names: list[Any], leads: bool, defaults: Promises) -> Role:
    name = table.string("name", "")
    fresh, worktree = table.boolean("fresh", False), table.boolean("worktree", False)
    if leads and fresh:
        table.warn("fresh", "is not possible for the start role; ignored")
    if leads and worktree:
        table.warn("worktree", "is not possible for the start role; ignored")
    merge = table.choice("merge", Merge.MANUAL)
    if merge is not Merge.MANUAL and (leads or not worktree):
        table.warn("merge", "does nothing without worktree = true; ignored")
        merge = Merge.MANUAL
    judge_pass, judge_rounds = _judge_limits(table)
    role = Role(
        name=name,
        command=table.string("command", ""),
        args=table.strings("args"),
        model=table.string("model", ""),
        model_flag=table.string("model_flag", "--model"),
        prompt_template=table.string("prompt_template", ""),
        start=table.boolean("start", False),
        input_prompts=table.strings("input_prompts"),
        chrome_markers=table.strings("chrome_markers"),
        env_allow=table.strings("env_allow"),
        env_deny=table.strings("env_deny"),
        base_url_env=_base_url_env(table),
        restart=table.choice("restart", Restart.NEVER),
        restart_retries=_retries(table),
        approve=table.boolean("approve", False),
        approvals=read_approvals(table),
        timeout=_timeout(table),
        timeout_action=table.choice("timeout_action", TimeoutAction.NOTIFY),
        judge=_judge(table, name, names),
        judge_pass=judge_pass,
        judge_rounds=judge_rounds,
        fresh=fresh and not leads,
        budget=_budget(table),
        budget_action=table.choice("budget_action", BudgetAction.NOTIFY),
        owns_files=_owned(table),
        worktree=worktree and not leads,
        merge=merge,
        wall=table.boolean("wall", defaults.wall),
        wall_read=(*defaults.wall_read, *table.strings("wall_read")),
        require_routing=table.boolean("require_routing", defaults.require_routing),
        home=table.choice("home", Home.USER),
    )
    table.finish()
    return role


def _timeout(table: Table) -> float | None:
    text = table.string("timeout", "")
    if not text:
        return None
    try:
        seconds = parse_duration(text)
    except BadDuration as failure:
        table.warn("timeout", f"{failure}; the role runs without a timeout")
        return None
    if seconds <= 0:
        table.warn("timeout", "must be more than zero; the role runs without a timeout")
        return None
    return seconds


def _budget(table: Table) -> Decimal | None:
    text = table.string("budget", "")
    if not text:
        return None
    try:
        return _usd(text)
    except ValueError:
        table.warn("budget", 'must be US dollars above zero, like "5.00"; the role has no budget')
        return None


def _base_url_env(table: Table) -> tuple[str, ...]:
    names = table.strings("base_url_env", DEFAULT_BASE_URL_ENV)
    good = tuple(name for name in names if _ENV_NAME.fullmatch(name))
    if len(good) < len(names):
        table.warn(
            "base_url_env",
            "holds a name that no environment variable can have; that name is ignored",
        )
    # Without any name the agent would talk to its provider directly.
    return good or DEFAULT_BASE_URL_ENV


def _judge(table: Table, name: str, names: list[Any]) -> str:
    judge = table.string("judge", "")
    if judge and judge == name:
        table.warn("judge", "names the role itself; the role runs without a judge")
        return ""
    if judge and judge not in names:
        table.warn("judge", "names no role of this team; the role runs without a judge")
        return ""
    return judge


def _judge_limits(table: Table) -> tuple[int, int]:
    score, rounds = table.integer("judge_pass", 7), table.integer("judge_rounds", 3)
    if not 1 <= score <= 10:
        table.warn("judge_pass", "must be between 1 and 10; using 7")
        score = 7
    if rounds < 0:
        table.warn("judge_rounds", "must not be negative; using 3")
        rounds = 3
    # Existing decks read 0 as "not set".
    return score, rounds or 3


def _retries(table: Table) -> int:
    wanted = table.integer("restart_retries", 3)
    if wanted < 0:
        table.warn("restart_retries", "must not be negative; using 3")
        return 3
    return wanted


def _owned(table: Table) -> tuple[str, ...]:
    return tuple(_owned_path(table, entry) for entry in table.strings("owns_files"))


def _check_owners(top: Table, roles: tuple[Role, ...]) -> None:
    owners: dict[str, int] = {}
    for index, role in enumerate(roles):
        for entry in role.owns_files:
            other = owners.setdefault(entry, index)
            if other != index:
                raise ConfigError(
                    f'{top.path}: roles."{role.name}".owns_files claims {entry}, which '
                    f'roles."{roles[other].name}" owns already; let one role own it.'
                )


def _usd(text: str) -> Decimal:
    """Return an amount of US dollars above zero, written like `5`, `5.00` or `$5.00`.

    Raises ValueError for anything else.
    """
    try:
        amount = Decimal(text.strip().removeprefix("$"))
    except InvalidOperation:
        raise ValueError("not an amount") from None
    if not amount.is_finite() or amount <= 0:
        raise ValueError("not above zero")
    return amount


def _owned_path(table: Table, entry: str) -> str:
    """Return an owned path in normal form, or raise why it cannot be owned."""
    if not entry.strip():
        raise table.error("owns_files", "holds an empty entry; name a file of the project")
    if entry.startswith("/") or entry == "~" or entry.startswith("~/"):
        raise table.error(
            "owns_files", f"holds the absolute path {entry}; write it relative to the project"
        )
    normal = posixpath.normpath(entry)
    if normal in (".", "..") or normal.startswith("../"):
        raise table.error(
            "owns_files", f"holds {entry}, which is outside the project; name a file inside it"
        )
    if normal.split("/")[0] == STATE_DIR:
        raise table.error(
            "owns_files", f"holds {entry}, which belongs to the deck; name a file of the project"
        )
    return normal


def read_approvals(table: Table) -> int:
    """Return how many people have to approve, for a role or for all. Raises ConfigError below 1."""
    wanted = table.integer("approvals", 1)
    if wanted < 1:
        raise table.error("approvals", "must be at least 1")
    return wanted
