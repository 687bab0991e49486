"""Reading the team file: `.choragos.toml` in, a `Config` plus warnings out.

Owns what the file as a whole may say, and what happens to a bad value. Rules: only what the deck
cannot run with is an error (one sentence naming file, key, problem and fix); a bad optional value
is a warning and the default stands; the children of an unknown table are not reported again. Values
other than role names and key names are not repeated in messages: arguments and hooks may hold
secrets. The roles are read by `deck.role_reader`. Called at start, by reload, by `doctor` and by
every verb that needs the team.
"""

from __future__ import annotations

import ast
import os
import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final

from deck.addresses import is_address
from deck.approvers import problem
from deck.config import (
    CheckpointsConfig,
    Config,
    ConfigError,
    Engine,
    GatesConfig,
    KeysConfig,
    Price,
    Role,
    RosterConfig,
    SphragisConfig,
    ThemeConfig,
    UiConfig,
    Viewer,
    builtin_config,
)
from deck.durations import BadDuration, parse_duration
from deck.plain_files import read_plain
from deck.role_reader import Promises, read_approvals, read_roles
from deck.toml_table import Document, Table

CONFIG_NAME: Final = ".choragos.toml"
#: A team file has some kilobytes.
MAX_BYTES: Final = 4 << 20

#: A key as the TOML parser names it.
_NAME: Final = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_KEY_PATH: Final = re.compile(rf"\({_NAME}(?:, {_NAME})*,?\)")
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
        values = tomllib.loads(text, parse_float=Decimal)
    except UnicodeDecodeError as failure:
        raise ConfigError(
            f"{path}: byte {failure.start} is not UTF-8; save the file as UTF-8."
        ) from None
    except tomllib.TOMLDecodeError as failure:
        raise ConfigError(f"{path}: {_in_words(failure, text)}; correct the TOML there.") from None
    except (RecursionError, InvalidOperation):
        raise ConfigError(
            f"{path}: nested too deeply or a number out of range; simplify the file."
        ) from None
    return _config(Document(path), values, data)


def _in_words(failure: tomllib.TOMLDecodeError, text: str) -> str:
    """Return what the parser says of a text, without the parser's own notation."""
    last = len(text.splitlines())
    told = str(failure).replace("Cannot overwrite a value", "A key is set a second time")
    told = told.replace("(at end of document)", f"(at line {last}, the end of the file)")
    return _KEY_PATH.sub(lambda found: _dotted(found.group()), told)


def _dotted(path: str) -> str:
    """Return a key that the parser shows as a tuple as it stands in the file."""
    return ".".join(ast.literal_eval(path))


def _config(document: Document, values: Mapping[str, Any], data: bytes) -> Config:
    path, top = document.path, Table(document, values, "")
    sphragis_table = top.table("sphragis")
    defaults = Promises(
        wall=top.boolean("wall", False),
        wall_read=top.strings("wall_read"),
        require_routing=sphragis_table.boolean("require_routing", False),
    )
    roles = read_roles(top, defaults)
    sphragis = _sphragis(sphragis_table)
    checkpoints = _checkpoints(top.table("checkpoints"))
    pricing = _pricing(top.table("pricing"))
    roster = _roster(top.table("roster"))
    gates = _gates(top.table("gates"))
    approvers = _approvers(top, gates, roles)
    keys = _keys(top.table("keys"))
    ui = _ui(top.table("ui"))
    top.finish()
    return Config(
        roles=roles,
        source=data,
        sphragis=sphragis,
        checkpoints=checkpoints,
        pricing=pricing,
        roster=roster,
        gates=gates,
        approvers=approvers,
        keys=keys,
        ui=ui,
        path=Path(os.path.abspath(path)),
        warnings=tuple(document.warnings),
    )


def _sphragis(table: Table) -> SphragisConfig:
    found = SphragisConfig(
        enabled=table.maybe_boolean("enabled"),
        addr=table.string("addr", "") or SphragisConfig().addr,
        command=table.string("command", "") or SphragisConfig().command,
        fail_closed=table.boolean("fail_closed", True),
    )
    if not is_address(found.addr):
        table.warn(
            "addr",
            "must be a host and a port, like 127.0.0.1:8787; no gateway can be reached until then",
        )
    table.finish()
    return found


def _checkpoints(table: Table) -> CheckpointsConfig:
    keep = table.integer("keep", 20)
    if keep < 1:
        table.warn("keep", "must be at least 1; using 20")
        keep = 20
    found = CheckpointsConfig(enabled=table.boolean("enabled", True), keep=keep)
    table.finish()
    return found


def _pricing(table: Table) -> dict[str, Price]:
    prices: dict[str, Price] = {}
    for prefix in table.names():
        row = table.entry(prefix)
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


def _roster(table: Table) -> RosterConfig:
    found = RosterConfig(
        propose=table.boolean("propose", True), approve=table.boolean("approve", True)
    )
    table.finish()
    return found


def _gates(table: Table) -> GatesConfig:
    """What is promised about gates and cannot be kept is an error, never dropped."""
    text, expire = table.string("expire", ""), None
    if text:
        try:
            expire = parse_duration(text)
        except BadDuration as failure:
            raise table.error("expire", str(failure)) from None
        if expire <= 0:
            raise table.error("expire", "must be more than zero; leave it out for no limit")
    found = GatesConfig(expire=expire, approvals=read_approvals(table))
    table.finish()
    return found


def _approvers(top: Table, gates: GatesConfig, roles: tuple[Role, ...]) -> dict[str, str]:
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
        raise ConfigError(f"{top.path}: {why}.")
    return found


def _keys(table: Table) -> KeysConfig:
    defaults = KeysConfig()
    found = {
        name: normalize_key(table.string(name, "")) or getattr(defaults, name)
        for name in KeysConfig.__dataclass_fields__
    }
    table.finish()
    return KeysConfig(**found)


def _ui(table: Table) -> UiConfig:
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
        engine=_engine(table),
        theme=_theme(table.table("theme")),
    )
    table.finish()
    return found


def _engine(table: Table) -> Engine:
    wanted = table.choice("engine", Engine.PYTE)
    if wanted is Engine.PYTE:
        return wanted
    from deck.pane.terminal.engine import EngineKind, missing  # only for a team that asks

    if problem := missing(EngineKind(wanted)):
        table.warn("engine", problem)
        return Engine.PYTE
    return wanted


def _theme(table: Table) -> ThemeConfig:
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


def normalize_key(text: str) -> str:
    """Return a key as the keymap compares it: no `prefix+` lead, `minus` as `-`, names of more
    than one character in lower case (contracts/deck.md section 1.14)."""
    bare = text.strip()
    if bare.lower().startswith("prefix+"):
        bare = bare[len("prefix+") :]
    if bare.lower() == "minus":
        return "-"
    return bare.lower() if len(bare) > 1 else bare


def _is_color(text: str) -> bool:
    if _HEX_COLOR.fullmatch(text):
        return True
    return text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= 255
