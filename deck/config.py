"""The team: what `.choragos.toml` says, typed and frozen, and the team that runs without one.

Owns the keys and their defaults. The keys `wall` and `require_routing` are promises: what cannot
keep them is refused at the start, never ignored. Pure data; `deck.team_reader` makes it of a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Final

DEFAULT_BASE_URL_ENV: Final = ("ANTHROPIC_BASE_URL",)


class ConfigError(Exception):
    """The team cannot be run; the message is the one sentence the user reads."""


class Restart(StrEnum):
    """What happens when a role's process ends badly."""

    NEVER = ""
    ON_FAILURE = "on-failure"


class TimeoutAction(StrEnum):
    """What a task that outlives its role's `timeout` causes."""

    NOTIFY = "notify"
    RESTART = "restart"


class BudgetAction(StrEnum):
    """What a role that outspends its `budget` causes."""

    NOTIFY = "notify"
    PAUSE = "pause"


class Merge(StrEnum):
    """How the work of a worktree role lands in the main tree."""

    MANUAL = "manual"
    GATE = "gate"
    AUTO = "auto"


class Viewer(StrEnum):
    """Where briefs and reports are opened."""

    PAGER = "pager"
    EDITOR = "editor"


class Engine(StrEnum):
    """Which terminal engine reads the agents' output."""

    PYTE = "pyte"
    #: Faster; needs the optional dependency `ghostty`.
    GHOSTTY = "ghostty"


class Home(StrEnum):
    """Where a role's program keeps its settings and its login."""

    USER = "user"
    #: In a directory of the deck's, one for each role; it starts without a login of the user's.
    OWN = "own"


class GatewayMode(Enum):
    """How strictly the team depends on the gateway."""

    OFF = "off"
    #: Not configured: used when it is there, off with a warning when it is not.
    SOFT = "soft"
    #: `enabled = true` was written: no gateway, no work.
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class Role:
    """One seat of the team. `timeout` is in seconds, `budget` in US dollars; None: no limit."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    model: str = ""
    model_flag: str = "--model"
    prompt_template: str = ""
    start: bool = False
    input_prompts: tuple[str, ...] = ()
    chrome_markers: tuple[str, ...] = ()
    env_allow: tuple[str, ...] = ()
    env_deny: tuple[str, ...] = ()
    base_url_env: tuple[str, ...] = DEFAULT_BASE_URL_ENV
    restart: Restart = Restart.NEVER
    restart_retries: int = 3
    approve: bool = False
    #: How many approvals its gates need; only what is above `[gates] approvals` counts.
    approvals: int = 1
    timeout: float | None = None
    timeout_action: TimeoutAction = TimeoutAction.NOTIFY
    judge: str = ""
    judge_pass: int = 7
    judge_rounds: int = 3
    fresh: bool = False
    budget: Decimal | None = None
    budget_action: BudgetAction = BudgetAction.NOTIFY
    owns_files: tuple[str, ...] = ()
    worktree: bool = False
    merge: Merge = Merge.MANUAL
    #: Its process reaches the gateway and nothing else (contracts/deck.md section 2.12).
    wall: bool = False
    #: What a walled role may read besides: paths from the project, or from `~/`.
    wall_read: tuple[str, ...] = ()
    #: A known way past the gateway keeps the team from starting (section 2.11).
    require_routing: bool = False
    home: Home = Home.USER

    @property
    def has_own_home(self) -> bool:
        """Whether its program has a home of its own: what it asks for, and what a wall implies."""
        return self.wall or self.home is Home.OWN


@dataclass(frozen=True, slots=True)
class SphragisConfig:
    """`[sphragis]`: where the gateway is and how much depends on it. None = never set."""

    enabled: bool | None = None
    addr: str = "127.0.0.1:8787"
    command: str = "sphragis"
    fail_closed: bool = True

    @property
    def mode(self) -> GatewayMode:
        """The dependence that `enabled` stands for."""
        if self.enabled is None:
            return GatewayMode.SOFT
        return GatewayMode.REQUIRED if self.enabled else GatewayMode.OFF


@dataclass(frozen=True, slots=True)
class CheckpointsConfig:
    """`[checkpoints]`: whether deliveries are preceded by a snapshot, and how many are kept."""

    enabled: bool = True
    keep: int = 20


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens, by direction; a direction left out costs nothing."""

    input: Decimal = Decimal(0)
    output: Decimal = Decimal(0)
    cache_read: Decimal = Decimal(0)
    cache_creation: Decimal = Decimal(0)


@dataclass(frozen=True, slots=True)
class RosterConfig:
    """`[roster]`: whether roles may be proposed at run time, and whether a person approves."""

    propose: bool = True
    approve: bool = True


@dataclass(frozen=True, slots=True)
class GatesConfig:
    """`[gates]`: how long a gate stays open (seconds; None: for ever), and how many people have
    to approve."""

    expire: float | None = None
    approvals: int = 1


@dataclass(frozen=True, slots=True)
class KeysConfig:
    """`[keys]`: the prefix chord and one key per action (contracts/deck.md section 1.14)."""

    prefix: str = "ctrl+b"
    split_vertical: str = "v"
    split_horizontal: str = "-"
    close_pane: str = "x"
    focus_pane_left: str = "h"
    focus_pane_down: str = "j"
    focus_pane_up: str = "k"
    focus_pane_right: str = "l"
    cycle_pane_next: str = "tab"
    cycle_pane_previous: str = "shift+tab"
    zoom: str = "z"
    resize_mode: str = "r"
    toggle_sidebar: str = "b"
    restart_role: str = "R"
    pause_role: str = "p"
    reload: str = "C"
    detach: str = "d"
    broadcast: str = "a"
    task_board: str = "t"
    search: str = "/"
    handoff: str = "H"
    help: str = "?"


@dataclass(frozen=True, slots=True)
class ThemeConfig:
    """`[ui.theme]`: colors, each an ANSI index 0-255 or `#rrggbb`."""

    accent: str = "45"
    working: str = "42"
    waiting: str = "214"
    scroll: str = "213"
    idle: str = "244"
    dim: str = "240"


@dataclass(frozen=True, slots=True)
class UiConfig:
    """`[ui]`: what the terminal deck does, and the shell hooks run on events."""

    auto_focus: bool = True
    sidebar: bool = True
    bell: bool = True
    mouse: bool = True
    on_gate: str = ""
    on_input: str = ""
    on_timeout: str = ""
    on_budget: str = ""
    viewer: Viewer = Viewer.PAGER
    engine: Engine = Engine.PYTE
    theme: ThemeConfig = ThemeConfig()


@dataclass(frozen=True, slots=True)
class Config:
    """A team that can be run. `path` is None for the built-in team."""

    roles: tuple[Role, ...]
    sphragis: SphragisConfig = SphragisConfig()
    checkpoints: CheckpointsConfig = CheckpointsConfig()
    pricing: Mapping[str, Price] = field(default_factory=dict)
    roster: RosterConfig = RosterConfig()
    gates: GatesConfig = GatesConfig()
    #: `[approvers]`: name to public key. With any, every decision on a gate is signed.
    approvers: Mapping[str, str] = field(default_factory=dict)
    keys: KeysConfig = KeysConfig()
    ui: UiConfig = UiConfig()
    path: Path | None = None
    warnings: tuple[str, ...] = ()
    #: The bytes of the file all of this was read from.
    source: bytes = field(default=b"", repr=False, compare=False)

    @property
    def start_index(self) -> int:
        """Index of the role that gets the work: the first with `start = true`, else the first."""
        return next((i for i, role in enumerate(self.roles) if role.start), 0)

    @property
    def start_role(self) -> Role:
        """The role at `start_index`; without any `start = true` it gets no start brief."""
        return self.roles[self.start_index]

    def role(self, name: str) -> Role | None:
        """Return the first role of that name, or None."""
        return next((role for role in self.roles if role.name == name), None)


def argv(role: Role) -> tuple[str, ...]:
    """Return the command line of a role: command, args, then the model flag and model if both
    are set (contracts/deck.md section 1.4)."""
    model = (role.model_flag, role.model) if role.model and role.model_flag else ()
    return (role.command, *role.args, *model)


def builtin_config() -> Config:
    """Return the team that runs where there is no file: five roles, gateway soft."""
    return Config(roles=_BUILTIN_ROLES)


_BUILTIN_ROLES: Final = (
    Role(
        name="orchestrator",
        command="claude",
        model="opus",
        start=True,
        prompt_template=(
            "You lead the team. Break the goal into tasks, hand each to the role that fits, "
            "and judge the reports. Do not do the work yourself."
        ),
    ),
    Role(
        name="coder",
        command="claude",
        model="opus",
        prompt_template="You change the code. Run the tests of what you touched before you report.",
    ),
    Role(
        name="reviewer",
        command="agy",
        model="Gemini 3.1 Pro (High)",
        prompt_template="You read changes made by others and report defects. You change nothing.",
    ),
    Role(
        name="auditor",
        command="claude",
        model="sonnet",
        prompt_template=(
            "You look for injection, leaked secrets, unsafe defaults and risky dependencies. "
            "You report findings and change nothing."
        ),
    ),
    Role(
        name="release",
        command="claude",
        model="haiku",
        prompt_template=(
            "You prepare releases: changelog, version, tag. You publish nothing without a "
            "clear instruction."
        ),
    ),
)
