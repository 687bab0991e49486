"""The shape of an adapter: measured facts about one agent program, with almost no behavior.

What an adapter may compute is a pure function of its `Seating`; `deck.roster` and `deck.homes`
apply the result. Rule: what a person has configured (an argument, a variable) is never replaced by
quiet settings or first-run files; only routing has the last word, because a call past the gateway
cannot be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from deck.pane.status import NO_MARKS, Marks, Signal

NOTHING: Mapping[str, str] = MappingProxyType({})
#: Where most programs look for the key of a provider.
KEY_ENV: Mapping[str, str] = MappingProxyType(
    {"ANTHROPIC_API_KEY": "anthropic", "OPENAI_API_KEY": "openai", "GEMINI_API_KEY": "google"}
)


@dataclass(frozen=True, slots=True)
class Seating:
    """What an adapter is told of the seat that it equips.

    `url` is the role's gateway URL, None while the gateway is off. `home` is a directory of the
    deck's for this role alone. `own`: the program keeps its settings there, and not in the user's
    home. `environ` is what the role sees of the deck's environment, `args` the role's own.
    """

    project: Path
    home: Path
    own: bool = False
    url: str | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()


def no_arguments(seating: Seating) -> tuple[str, ...]:
    """Return the extra arguments of a program that is routed by its environment alone."""
    return ()


def nothing(seating: Seating) -> Mapping[str, str]:
    """Return the extra variables, or files, of a program that needs none."""
    return NOTHING


def no_meaning(line: str) -> Signal | None:
    """Return what a line of a program without hooks tells."""
    return None


@dataclass(frozen=True, slots=True)
class Adapter:
    """One agent program.

    - `measured`: the versions all of this was seen with (contracts/clients.md); another version
      still runs, by the rules for any program once its own marks have failed to show.
    - `options`: arguments a seat in a team needs in any case, before the role's own.
    - `hook_file`: the file below the role's home that its hooks append to; `hook`: what a line of
      it means.
    - `url_env`: variables the program reads for its base URL, each with what follows the role's
      URL there; `quiet`: settings that stop traffic which ignores the base URL; `routing`: further
      variables; `arguments`: what routing needs on the command line, after the role's own. These
      apply only while the gateway is on.
    - `key_env`: variables in which the program takes the key of a provider. Where the gateway
      holds that provider's key, the role's own key for the gateway is put there.
    - `home_env`: variables that move the program's settings to the role's own home, each with a
      path below it; `own_env`: what else a home of its own needs.
    - `first_run`: files, by path below the own home, which keep dialogs from opening at the first
      start; written only where there is none. `files`: files of the deck's below the role's home.
    - `marks`: how its screen shows that it is ready, works, or asks.
    - `overrides`: settings which, in a role's own arguments, decide where its calls go.
    - `past`: model calls that these settings do not reach, each as the rest of a sentence;
      `beside`: other traffic that goes past the gateway whatever is set.
    """

    name: str
    measured: tuple[str, ...] = ()
    options: Callable[[Seating], tuple[str, ...]] = no_arguments
    hook_file: str = ""
    hook: Callable[[str], Signal | None] = no_meaning
    url_env: Mapping[str, str] = field(default_factory=dict)
    quiet: Mapping[str, str] = field(default_factory=dict)
    routing: Callable[[Seating], Mapping[str, str]] = nothing
    arguments: Callable[[Seating], tuple[str, ...]] = no_arguments
    key_env: Mapping[str, str] = field(default_factory=lambda: KEY_ENV)
    home_env: Mapping[str, str] = field(default_factory=dict)
    own_env: Mapping[str, str] = field(default_factory=dict)
    first_run: Callable[[Seating], Mapping[str, str]] = nothing
    files: Callable[[Seating], Mapping[str, str]] = nothing
    marks: Marks = NO_MARKS
    overrides: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
