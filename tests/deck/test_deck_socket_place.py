"""The place of the control socket: whoever puts another there does not speak for the session."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from deck.callers import Peer
from deck.protocol import Command, Verb, ok
from deck.server import ControlServer
from deck.sessions import exchange


async def answer(command: Command, peer: Peer) -> bytes:
    return ok(who="the deck")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[tuple[ControlServer, Path]]:
    short = tmp_path / "s"
    server = ControlServer(short, answer)
    await server.start()
    yield server, short
    await server.close()


async def who(path: Path) -> object:
    found = await asyncio.to_thread(exchange, path, Command(Verb.PING))
    return found["who"]


@pytest.mark.parametrize("how", ["renamed", "removed"])
async def test_a_socket_put_in_its_place_is_replaced(
    server: tuple[ControlServer, Path], how: str
) -> None:
    deck, path = server
    assert await deck.restore() is False
    if how == "renamed":
        path.rename(path.with_name("hidden"))
    else:
        # Its number is free again, and may be the impostor's.
        path.unlink()
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(os.fspath(path))
        impostor.listen()
        assert await deck.restore() is True
    assert await who(path) == "the deck"
    assert await deck.restore() is False


async def test_a_socket_that_was_removed_comes_back(server: tuple[ControlServer, Path]) -> None:
    deck, path = server
    path.unlink()
    assert await deck.restore() is True
    assert await who(path) == "the deck"


async def test_a_file_in_its_place_is_left_alone(server: tuple[ControlServer, Path]) -> None:
    deck, path = server
    path.unlink()
    path.write_text("somebody's")
    assert await deck.restore() is False
    assert path.read_text() == "somebody's"


async def test_a_link_in_its_place_is_no_way_to_remove_a_file(
    server: tuple[ControlServer, Path], tmp_path: Path
) -> None:
    deck, path = server
    path.unlink()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(os.fspath(tmp_path / "other"))
        path.symlink_to(tmp_path / "other")
        await deck.restore()
        assert (tmp_path / "other").exists()
