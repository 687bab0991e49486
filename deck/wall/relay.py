"""The way out of the wall: a socket whose every connection goes to the gateway and nowhere else.

Owns one listening Unix socket (0600, in a directory only its user can enter). Invariant: the far
end is the gateway's address, fixed when it is made; nothing a client sends can change it. A
gateway that does not answer ends the connection, as it would end a direct one. Used from one event
loop; `deck.wall.wall` and the proof start and close it.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final

from deck.sessions import bind
from deck.wall.inside import join

#: An agent holds a handful of connections; whoever opens more waits.
MAX_CONNECTIONS: Final = 256


class Relay:
    """Carries bytes between the wall's socket and the gateway at `host`:`port`."""

    def __init__(self, path: Path, host: str, port: int) -> None:
        self.path = path
        self._target = (host.strip("[]"), port)
        self._server: asyncio.Server | None = None
        self._free = asyncio.Semaphore(MAX_CONNECTIONS)
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Bind and listen. Raises SessionError."""
        self.path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, sock=bind(self.path))

    async def restore(self) -> None:
        """Listen anew if the socket's file has been removed by a cleaner."""
        if not self.path.exists():
            if self._server is not None:
                self._server.close()
            await self.start()

    async def close(self) -> None:
        """Stop listening and end what is open."""
        if self._server is not None:
            self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        with contextlib.suppress(OSError):
            self.path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            async with self._free:
                await self._carry(reader, writer)
        except asyncio.CancelledError:
            # The session ends; asyncio would report the cancellation of a handler as a fault.
            return
        finally:
            writer.close()
            self._open.discard(task)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        await join((reader, writer), far)
