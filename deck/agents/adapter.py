"""The shape of an adapter: facts about one agent program, no behavior of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


def no_arguments(base_url: str) -> tuple[str, ...]:
    """Return the extra arguments of a program that is routed by its environment alone."""
    return ()


@dataclass(frozen=True, slots=True)
class Adapter:
    """`url_env` are the variables the program itself reads for its base URL; `quiet` are settings
    that stop traffic which ignores the base URL; `arguments` are what routing needs on the command
    line, given the role's gateway URL. These apply only while the gateway is on; `options`, which a
    seat in a team needs in any case, stand in front of the role's own arguments."""

    name: str
    url_env: tuple[str, ...] = ()
    quiet: Mapping[str, str] = field(default_factory=dict)
    arguments: Callable[[str], tuple[str, ...]] = no_arguments
    options: tuple[str, ...] = ()
