"""The seats of the team: each role with its environment, its command line and its pane.

Owns what a role's process is given. Invariant: a role's environment holds the routing variables
and the control socket whatever its filters say, and nothing that its filters keep out
(contracts/deck.md section 1.1). `deck.session` creates the seats and drives the panes.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from deck.agents import Seating, adapter_for
from deck.config import Config, Role, argv
from deck.gateway import Gateway
from deck.homes import role_home
from deck.processes import SEAT_MARK
from deck.programs import with_deck_program
from deck.sessions import SOCKET_ENV
from deck.wall.wall import Wall
from shared.paths import is_path_safe_role

#: What passes `env_allow` in any case.
BASELINE: Final = (
    "PATH",
    "HOME",
    "TERM",
    "COLORTERM",
    "USER",
    "LOGNAME",
    "SHELL",
    "PWD",
    "TMPDIR",
    "LANG",
    "LC_*",
    "XDG_*",
)

ROLE_ENV: Final = "CHORAGOS_ROLE"
TOKEN_ENV: Final = "CHORAGOS_ROLE_TOKEN"  # noqa: S105 - the name of a variable


class NotOnPath(Exception):
    """A role's program cannot be found; the text names role and program."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What every seat of a session shares."""

    session: str
    socket: str
    environ: Mapping[str, str]
    gateway: Gateway
    wall: Wall | None = None
    directory: Path = Path()
    #: Where a role works, or None for `directory`.
    place: Callable[[Role], Path | None] = lambda _: None


@dataclass(slots=True)
class Credential:
    """The secret that ties a process to its role where its ancestry cannot be seen."""

    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)

    def matches(self, shown: str) -> bool:
        """Compare in constant time."""
        return bool(shown) and secrets.compare_digest(self.token.encode(), shown.encode())


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Tell whether a variable matches: exact, or a trailing-`*` prefix; a bare `*` matches
    nothing."""
    return any(
        name.startswith(pattern[:-1])
        if pattern.endswith("*") and pattern != "*"
        else name == pattern
        for pattern in patterns
    )


#: Settings of the gateway that are keys (gateway/settings.py).
GATEWAY_SECRETS: Final = re.compile(r"SPHRAGIS_\w*_KEY", re.IGNORECASE)
#: Where a role's programs would find a provider's own key.
PROVIDER_KEYS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        "openai": ("OPENAI_API_KEY", "CODEX_API_KEY"),
        "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "azure": ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
        "bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
    }
)


def filtered(environ: Mapping[str, str], role: Role) -> dict[str, str]:
    """Return what a role may see of the deck's environment: deny first, then allow if set.

    The gateway's own secrets are in the deck's environment when the deck starts the gateway; no
    role sees them, whatever its lists say.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not matches(name, role.env_deny) and not GATEWAY_SECRETS.fullmatch(name)
    }
    if not role.env_allow:
        return kept
    allowed = (*BASELINE, *role.env_allow)
    return {name: value for name, value in kept.items() if matches(name, allowed)}


def seating(role: Role, around: Surroundings) -> Seating:
    """Return what the role's adapter is told of its seat."""
    gateway = around.gateway
    return Seating(
        project=around.place(role) or around.directory,
        home=role_home(around.environ, around.session, role.name),
        own=role.has_own_home,
        url=gateway.role_url(role.name) if gateway.enforced else None,
        environ=_with_role_keys(filtered(around.environ, role), role, gateway),
        args=role.args,
    )


def _with_role_keys(environ: dict[str, str], role: Role, gateway: Gateway) -> dict[str, str]:
    """Return the environment with the role's own key for each provider whose key the gateway
    holds: the provider's is then nothing a role needs to see (contracts/gateway.md section 3.6)."""
    if not gateway.enforced or not is_path_safe_role(role.name):
        return environ
    held = {name for provider in gateway.managed for name in PROVIDER_KEYS.get(provider, ())}
    kept = {name: value for name, value in environ.items() if name not in held}
    for name, provider in adapter_for(role.command).key_env.items():
        if provider in gateway.managed:
            kept[name] = gateway.role_key(role.name)
    return kept


def environment(role: Role, credential: Credential, around: Surroundings) -> dict[str, str]:
    """Return the environment of a role's process."""
    adapter, seat = adapter_for(role.command), seating(role, around)
    environ = dict(seat.environ)
    # A deck started inside another deck's pane must not pass on that pane's identity.
    for name in [name for name in environ if name.startswith("CHORAGOS_PANE")]:
        del environ[name]
    environ.setdefault("TERM", "xterm-256color")
    if environ["TERM"] in ("", "dumb"):
        environ["TERM"] = "xterm-256color"
    if "PATH" in environ:
        environ["PATH"] = with_deck_program(environ["PATH"])
    if "PWD" in environ:
        # The deck's own may be stale: whoever started it need not have been in the project.
        environ["PWD"] = str(around.place(role) or around.directory)
    environ[SOCKET_ENV] = around.socket
    environ[ROLE_ENV] = role.name
    environ[TOKEN_ENV] = credential.token
    environ[SEAT_MARK] = f"{around.session}:{role.name}"
    if seat.own:
        for name, below in adapter.home_env.items():
            environ[name] = str(seat.home / below)
        for name, value in adapter.own_env.items():
            environ.setdefault(name, value)
    if seat.url is not None:
        for name in role.base_url_env:
            environ[name] = seat.url
        for name, path in adapter.url_env.items():
            environ[name] = seat.url + path
        environ.update(adapter.routing(seat))
        for name, value in adapter.quiet.items():
            environ.setdefault(name, value)
    return environ


def command_line(role: Role, around: Surroundings) -> list[str]:
    """Return a role's argv: program by full path, its adapter's options, args, model, then what
    routing needs, which must have the last word.

    Raises NotOnPath.
    """
    program = find_program(role, around.environ)
    adapter, seat = adapter_for(role.command), seating(role, around)
    line = [program, *adapter.options(seat), *argv(role)[1:]]
    if seat.url is not None:
        line += adapter.arguments(seat)
    return line


def find_program(role: Role, environ: Mapping[str, str]) -> str:
    """Return the full path of a role's program. Raises NotOnPath."""
    if not role.command:
        raise NotOnPath(f"role {role.name} has no command; add command = to its [[roles]] table.")
    program = shutil.which(role.command, path=environ.get("PATH"))
    if program is None:
        raise NotOnPath(
            f"role {role.name}: the command {role.command!r} is not on PATH; install it or "
            "correct `command` in the team file."
        )
    return program


def unenforced(config: Config) -> tuple[str, ...]:
    """Return a sentence for each setting that is accepted for compatibility and does nothing, so
    that nobody relies on it."""
    said, names = [], set[str]()
    for role in config.roles:
        if role.name in names:
            said.append(
                f"two roles are named {role.name!r}; the second one is not started: give each its "
                "own name"
            )
        names.add(role.name)
    return tuple(said)
