"""Reading the team file: `.choragos.toml` in, a `Config` plus warnings out.

Owns what happens to a bad value. Rules: only what the deck cannot run with is an error (one
sentence naming file, key, problem and fix); a bad optional value is a warning and the default
stands; an unknown key is a warning with the nearest known key, and the children of an unknown
table are not reported again. Values other than role names and key names are not repeated in
messages: arguments and hooks may hold secrets. Called at start, by reload, by `doctor` and by
every verb that needs the team.
"""

from __future__ import annotations

import difflib
import os
import posixpath
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from deck.approvers import problem
from deck.config import (
    DEFAULT_BASE_URL_ENV,
    BudgetAction,
    CheckpointsConfig,
    Config,
    ConfigError,
    Engine,
    GatesConfig,
    Home,
    KeysConfig,
    Merge,
    Price,
    Restart,
    Role,
    RosterConfig,
    SphragisConfig,
    ThemeConfig,
    TimeoutAction,
    UiConfig,
    Viewer,
    builtin_config,
)
from deck.durations import BadDuration, parse_duration
from deck.plain_files import read_plain

CONFIG_NAME: Final = ".choragos.toml"
STATE_DIR: Final = ".choragos"
#: A team file has some kilobytes.
MAX_BYTES: Final = 4 << 20

_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEX_COLOR: Final = re.compile(r"#[0-9A-Fa-f]{6}")


def load_config(path: Path | None, cwd: Path) -> Config:
    """Return the team of `path`, or of `.choragos.toml` in `cwd`, or the built-in team.

    A `path` that was asked for must exist; the default file may be missing. Raises ConfigError.
    """
    wanted = cwd / (path if path is not None else CONFIG_NAME)
    try:
        data = read_plain(wanted, MAX_BYTES)
    except FileNotFoundError:
        if path is None:
            return builtin_config()
        raise ConfigError(
            f"{wanted}: there is no such file; create it with `choragos init` or correct --config."
        ) from None
    except OSError as failure:
        raise ConfigError(
            f"{wanted}: cannot be read ({failure.strerror}); make it a file that you can read."
        ) from None
    return parse_config(data, wanted)


def parse_config(data: bytes, path: Path) -> Config:
    """Return the team written in `data`; `path` is only named in messages and kept.

    Raises ConfigError for TOML that does not parse, a value of the wrong type, no role at all,
    and an `owns_files` entry that cannot be honored.
    """
    try:
        # A byte order mark is what some editors leave; TOML readers in use accept it.
        text = data.decode("utf-8-sig")
        document = tomllib.loads(text, parse_float=Decimal)
    except UnicodeDecodeError as failure:
        raise ConfigError(
            f"{path}: byte {failure.start} is not UTF-8; save the file as UTF-8."
        ) from None
    except tomllib.TOMLDecodeError as failure:
        raise ConfigError(f"{path}: {failure}; correct the TOML there.") from None
    except (RecursionError, InvalidOperation):
        raise ConfigError(
            f"{path}: nested too deeply or a number out of range; simplify the file."
        ) from None
    return _Reader(path, data).config(document)


_T = TypeVar("_T")
_E = TypeVar("_E", bound=StrEnum)


class _Table:
    """One TOML table being read: typed access that remembers which keys were asked for."""

    def __init__(self, reader: _Reader, values: Mapping[str, Any], where: str) -> None:
        self._reader = reader
        self._values = values
        self._where = where
        self._known: set[str] = set()

    def string(self, key: str, default: str) -> str:
        return self._typed(key, default, lambda value: isinstance(value, str), "a string")

    def boolean(self, key: str, default: bool) -> bool:
        return self._typed(key, default, lambda value: isinstance(value, bool), "true or false")

    def maybe_boolean(self, key: str) -> bool | None:
        return self.boolean(key, default=False) if self._has(key) else None

    def integer(self, key: str, default: int) -> int:
        return self._typed(
            key,
            default,
            lambda value: isinstance(value, int) and not isinstance(value, bool),
            "a whole number",
        )

    def number(self, key: str) -> Decimal:
        value = self._typed(
            key,
            Decimal(0),
            lambda value: isinstance(value, int | Decimal) and not isinstance(value, bool),
            "a number",
        )
        return Decimal(value)

    def strings(self, key: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
        value = self._typed(
            key,
            list(default),
            lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
            'a list of strings, like ["a", "b"]',
        )
        return tuple(value)

    def choice(self, key: str, default: _E) -> _E:
        text = self.string(key, default.value)
        try:
            return type(default)(text)
        except ValueError:
            allowed = " or ".join(f'"{item}"' for item in type(default) if item)
            self.warn(key, f"must be {allowed}; using {_shown(default)}")
            return default

    def table(self, key: str) -> _Table:
        where = f"{self._where}.{key}" if self._where else key
        value: Mapping[str, Any] = self._typed(
            key, {}, lambda value: isinstance(value, dict), f"a table, written as [{where}]"
        )
        return _Table(self._reader, value, where)

    def tables(self, key: str) -> list[Mapping[str, Any]]:
        return self._typed(
            key,
            [],
            lambda value: isinstance(value, list) and all(isinstance(item, dict) for item in value),
            f"a list of tables, each starting with [[{key}]]",
        )

    def names(self) -> Iterable[str]:
        return self._values.keys()

    def warn(self, key: str, problem: str) -> None:
        self._reader.warn(f"{self._label(key)} {problem}")

    def error(self, key: str, problem: str) -> ConfigError:
        return ConfigError(f"{self._reader.path}: {self._label(key)} {problem}.")

    def finish(self) -> None:
        """Warn about each key that nobody asked for."""
        for key in self._values:
            if key not in self._known:
                near = difflib.get_close_matches(key, sorted(self._known), n=1, cutoff=0.6)
                hint = f"; did you mean {near[0]}?" if near else "; remove it"
                self._reader.warn(f"unknown key {self._label(key)}{hint}")

    def _has(self, key: str) -> bool:
        self._known.add(key)
        return key in self._values

    def _typed(self, key: str, default: _T, fits: Callable[[Any], bool], wanted: str) -> _T:
        if not self._has(key):
            return default
        value = self._values[key]
        if not fits(value):
            raise self.error(key, f"must be {wanted}")
        typed: _T = value
        return typed

    def _label(self, key: str) -> str:
        return f"{self._where}.{key}" if self._where else key


@dataclass(frozen=True, slots=True)
class _Promises:
    """What the file promises for every role that does not say otherwise."""

    wall: bool
    wall_read: tuple[str, ...]
    require_routing: bool


class _Reader:
    """Turns one parsed document into a Config, collecting warnings on the way."""

    def __init__(self, path: Path, source: bytes) -> None:
        self.path = path
        self.source = source
        self.warnings: list[str] = []

    def warn(self, sentence: str) -> None:
        self.warnings.append(f"{self.path.name}: {sentence}")

    def config(self, document: Mapping[str, Any]) -> Config:
        top = _Table(self, document, "")
        sphragis_table = top.table("sphragis")
        defaults = _Promises(
            wall=top.boolean("wall", False),
            wall_read=top.strings("wall_read"),
            require_routing=sphragis_table.boolean("require_routing", False),
        )
        roles = self._roles(top, defaults)
        sphragis = self._sphragis(sphragis_table)
        checkpoints = self._checkpoints(top.table("checkpoints"))
        pricing = self._pricing(top.table("pricing"))
        roster = self._roster(top.table("roster"))
        gates = self._gates(top.table("gates"))
        approvers = self._approvers(top, gates, roles)
        keys = self._keys(top.table("keys"))
        ui = self._ui(top.table("ui"))
        top.finish()
        return Config(
            roles=roles,
            source=self.source,
            sphragis=sphragis,
            checkpoints=checkpoints,
            pricing=pricing,
            roster=roster,
            gates=gates,
            approvers=approvers,
            keys=keys,
            ui=ui,
            path=Path(os.path.abspath(self.path)),
            warnings=tuple(self.warnings),
        )

    def _roles(self, top: _Table, defaults: _Promises) -> tuple[Role, ...]:
        raw = top.tables("roles")
        if not raw:
            raise ConfigError(
                f"{self.path}: roles is empty; add at least one [[roles]] table with a name and "
                "a command."
            )
        names = [value.get("name", "") for value in raw]
        starts = [value.get("start") is True for value in raw]
        first_start = starts.index(True) if True in starts else 0
        roles = tuple(
            self._role(
                _Table(self, value, f'roles."{names[i]}"' if names[i] else f"roles[{i}]"),
                names=names,
                leads=i == first_start,
                defaults=defaults,
            )
            for i, value in enumerate(raw)
        )
        self._check_owners(roles)
        return roles

    def _role(self, table: _Table, *, names: list[Any], leads: bool, defaults: _Promises) -> Role:
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
        judge_pass, judge_rounds = self._judge_limits(table)
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
            base_url_env=self._base_url_env(table),
            restart=table.choice("restart", Restart.NEVER),
            restart_retries=table.integer("restart_retries", 3),
            approve=table.boolean("approve", False),
            approvals=self._approvals(table),
            timeout=self._timeout(table),
            timeout_action=table.choice("timeout_action", TimeoutAction.NOTIFY),
            judge=self._judge(table, name, names),
            judge_pass=judge_pass,
            judge_rounds=judge_rounds,
            fresh=fresh and not leads,
            budget=self._budget(table),
            budget_action=table.choice("budget_action", BudgetAction.NOTIFY),
            owns_files=self._owned(table),
            worktree=worktree and not leads,
            merge=merge,
            wall=table.boolean("wall", defaults.wall),
            wall_read=(*defaults.wall_read, *table.strings("wall_read")),
            require_routing=table.boolean("require_routing", defaults.require_routing),
            home=table.choice("home", Home.USER),
        )
        table.finish()
        return role

    def _timeout(self, table: _Table) -> float | None:
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

    def _budget(self, table: _Table) -> Decimal | None:
        text = table.string("budget", "")
        if not text:
            return None
        try:
            amount = parse_usd(text)
        except ValueError:
            table.warn(
                "budget", 'must be US dollars above zero, like "5.00"; the role has no budget'
            )
            return None
        return amount

    def _base_url_env(self, table: _Table) -> tuple[str, ...]:
        names = table.strings("base_url_env", DEFAULT_BASE_URL_ENV)
        good = tuple(name for name in names if _ENV_NAME.fullmatch(name))
        if len(good) < len(names):
            table.warn(
                "base_url_env",
                "holds a name that no environment variable can have; that name is ignored",
            )
        # Without any name the agent would talk to its provider directly.
        return good or DEFAULT_BASE_URL_ENV

    def _judge(self, table: _Table, name: str, names: list[Any]) -> str:
        judge = table.string("judge", "")
        if judge and judge == name:
            table.warn("judge", "names the role itself; the role runs without a judge")
            return ""
        if judge and judge not in names:
            table.warn("judge", "names no role of this team; the role runs without a judge")
            return ""
        return judge

    def _judge_limits(self, table: _Table) -> tuple[int, int]:
        score, rounds = table.integer("judge_pass", 7), table.integer("judge_rounds", 3)
        if not 1 <= score <= 10:
            table.warn("judge_pass", "must be between 1 and 10; using 7")
            score = 7
        if rounds < 0:
            table.warn("judge_rounds", "must not be negative; using 3")
            rounds = 3
        # Existing decks read 0 as "not set".
        return score, rounds or 3

    def _owned(self, table: _Table) -> tuple[str, ...]:
        return tuple(_owned_path(table, entry) for entry in table.strings("owns_files"))

    def _check_owners(self, roles: tuple[Role, ...]) -> None:
        owners: dict[str, int] = {}
        for index, role in enumerate(roles):
            for entry in role.owns_files:
                other = owners.setdefault(entry, index)
                if other != index:
                    raise ConfigError(
                        f'{self.path}: roles."{role.name}".owns_files claims {entry}, which '
                        f'roles."{roles[other].name}" owns already; let one role own it.'
                    )

    def _sphragis(self, table: _Table) -> SphragisConfig:
        found = SphragisConfig(
            enabled=table.maybe_boolean("enabled"),
            addr=table.string("addr", "") or SphragisConfig().addr,
            command=table.string("command", "") or SphragisConfig().command,
            fail_closed=table.boolean("fail_closed", True),
        )
        table.finish()
        return found

    def _checkpoints(self, table: _Table) -> CheckpointsConfig:
        keep = table.integer("keep", 20)
        if keep < 1:
            table.warn("keep", "must be at least 1; using 20")
            keep = 20
        found = CheckpointsConfig(enabled=table.boolean("enabled", True), keep=keep)
        table.finish()
        return found

    def _pricing(self, table: _Table) -> dict[str, Price]:
        prices: dict[str, Price] = {}
        for prefix in table.names():
            row = table.table(prefix)
            amounts = {
                direction: row.number(direction)
                for direction in ("input", "output", "cache_read", "cache_creation")
            }
            for direction, amount in amounts.items():
                if not amount.is_finite() or amount < 0:
                    row.warn(direction, "must be a price of zero or more; using 0")
                    amounts[direction] = Decimal(0)
            row.finish()
            prices[prefix] = Price(**amounts)
        return prices

    def _roster(self, table: _Table) -> RosterConfig:
        found = RosterConfig(
            propose=table.boolean("propose", True), approve=table.boolean("approve", True)
        )
        table.finish()
        return found

    def _gates(self, table: _Table) -> GatesConfig:
        """What is promised about gates and cannot be kept is an error, never dropped."""
        text, expire = table.string("expire", ""), None
        if text:
            try:
                expire = parse_duration(text)
            except BadDuration as failure:
                raise table.error("expire", str(failure)) from None
            if expire <= 0:
                raise table.error("expire", "must be more than zero; leave it out for no limit")
        found = GatesConfig(expire=expire, approvals=self._approvals(table))
        table.finish()
        return found

    def _approvals(self, table: _Table) -> int:
        wanted = table.integer("approvals", 1)
        if wanted < 1:
            raise table.error("approvals", "must be at least 1")
        return wanted

    def _approvers(
        self, top: _Table, gates: GatesConfig, roles: tuple[Role, ...]
    ) -> dict[str, str]:
        table = top.table("approvers")
        found = {name: table.string(name, "") for name in table.names()}
        if not found and "approvers" in top.names():
            raise top.error(
                "approvers",
                "names nobody; add somebody with `choragos approver add NAME`, or remove the "
                "table for decisions without signatures",
            )
        wanted = [gates.approvals, *(role.approvals for role in roles)]
        if why := problem(found, wanted, (role.name for role in roles)):
            raise ConfigError(f"{self.path}: {why}.")
        return found

    def _keys(self, table: _Table) -> KeysConfig:
        defaults = KeysConfig()
        found = {
            name: normalize_key(table.string(name, "")) or getattr(defaults, name)
            for name in KeysConfig.__dataclass_fields__
        }
        table.finish()
        return KeysConfig(**found)

    def _ui(self, table: _Table) -> UiConfig:
        found = UiConfig(
            auto_focus=table.boolean("auto_focus", True),
            sidebar=table.boolean("sidebar", True),
            bell=table.boolean("bell", True),
            mouse=table.boolean("mouse", True),
            on_gate=table.string("on_gate", ""),
            on_input=table.string("on_input", ""),
            on_timeout=table.string("on_timeout", ""),
            on_budget=table.string("on_budget", ""),
            viewer=table.choice("viewer", Viewer.PAGER),
            engine=self._engine(table),
            theme=self._theme(table.table("theme")),
        )
        table.finish()
        return found

    def _engine(self, table: _Table) -> Engine:
        wanted = table.choice("engine", Engine.PYTE)
        if wanted is Engine.PYTE:
            return wanted
        from deck.pane.terminal.engine import EngineKind, missing  # only for a team that asks

        if problem := missing(EngineKind(wanted)):
            table.warn("engine", problem)
            return Engine.PYTE
        return wanted

    def _theme(self, table: _Table) -> ThemeConfig:
        found: dict[str, str] = {}
        for name in ThemeConfig.__dataclass_fields__:
            color = table.string(name, "")
            if not color:
                continue
            if _is_color(color):
                found[name] = color
            else:
                table.warn(name, "must be an ANSI color 0-255 or #rrggbb; using the default")
        table.finish()
        return ThemeConfig(**found)


def parse_usd(text: str) -> Decimal:
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


def normalize_key(text: str) -> str:
    """Return a key as the keymap compares it: no `prefix+` lead, `minus` as `-`, names of more
    than one character in lower case (contracts/deck.md section 1.14)."""
    bare = text.strip()
    if bare.lower().startswith("prefix+"):
        bare = bare[len("prefix+") :]
    if bare.lower() == "minus":
        return "-"
    return bare.lower() if len(bare) > 1 else bare


def _owned_path(table: _Table, entry: str) -> str:
    """Return an owned path in normal form, or raise why it cannot be owned."""
    if not entry.strip():
        raise table.error("owns_files", "holds an empty entry; name a file of the project")
    if entry.startswith(("/", "~")):
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


def _is_color(text: str) -> bool:
    if _HEX_COLOR.fullmatch(text):
        return True
    return text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= 255


def _shown(value: StrEnum) -> str:
    return f'"{value}"' if value else "none"
