"""The board of a world's deck, asked for again and again while a test waits.

Owns one question to the deck's socket, which is what `choragos board --json` asks: a program for
each look would take a core from the agents that are waited for. Called by the tests of teams.
"""

from __future__ import annotations

from typing import Any

from deck.demo.world import World
from deck.protocol import Command, Verb
from deck.sessions import exchange, paths_for


def board(world: World) -> dict[str, Any]:
    """Return the deck's status."""
    return exchange(paths_for(str(world.repo), world.env).socket, Command(Verb.STATUS))


def role(world: World, name: str = "coder") -> dict[str, Any]:
    """Return a role's row."""
    return next(row for row in board(world)["roles"] if row["name"] == name)


def task(world: World, name: str) -> dict[str, Any]:
    """Return a task's row."""
    return next(row for row in board(world)["tasks"] if row["id"] == name)


def usage(world: World, name: str = "coder") -> dict[str, Any]:
    """Return the tokens of a role that were counted so far; a count is at most a second old."""
    return next(row for row in board(world)["usage"] if row["role"] == name)
