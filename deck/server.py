"""The control socket: accepts, identifies the peer, reads one command, answers, closes.

Owns the listening socket and its removal. Invariant: one exchange takes at most 5 s, a silent or
hostile peer costs nobody else anything, and a command that has been accepted is carried to its
end even if its sender goes away. Rules of who may do what are `deck.callers`; the work is done by
the dispatcher given in, the session.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from deck.callers import Peer, peer_of
from deck.protocol import EXCHANGE_SECONDS, Command, Framer, ProtocolError, error, parse
from deck.sessions import bind

Dispatch = Callable[[Command, Peer], Awaitable[bytes]]

READ_BYTES: Final = 65536
#: Callers that have connected and not been seen yet; what is beyond is told to come again.
BACKLOG: Final = 512
#: Callers that have not sent a whole command yet. Past it the oldest of them is sent away, so that
#: nobody can take all descriptors, or 1 MiB of memory for each, by saying nothing.
MAX_UNHEARD: Final = 128
#: After the ack, a pause this long means that the peer has sent all it had: longer than a busy
#: machine keeps a peer from its core.
REST_SECONDS: Final = 0.3
#: struct ucred: pid, uid, gid.
_UCRED: Final = struct.Struct("3i")


class _Crowded(Exception):
    """Somebody who has said nothing yet makes room."""


class ControlServer:
    """The server of one session. Used from one event loop."""

    def __init__(self, path: Path, dispatch: Dispatch) -> None:
        self._path = path
        self._dispatch = dispatch
        self._server: asyncio.Server | None = None
        self._inode = 0
        #: Of the socket: a number may be given to the next file that is made.
        self._made_at = 0
        self._work: set[asyncio.Task[bytes]] = set()
        #: Exchanges whose command has not arrived, oldest first; True once it is sent away.
        self._unheard: dict[asyncio.Task[Any], bool] = {}

    async def start(self) -> None:
        """Bind and listen. Raises SessionError."""
        listener = bind(self._path)
        found = self._path.lstat()
        self._inode, self._made_at = found.st_ino, found.st_ctime_ns
        self._server = await asyncio.start_unix_server(self._serve, sock=listener, backlog=BACKLOG)

    async def restore(self) -> bool:
        """Listen anew if the socket's file has been removed or replaced; True when it had been.

        Cleaners of temporary directories remove what is old; nobody could reach the session then.
        Whoever put another socket there would hear what is meant for the session, a person's
        decisions too, and answer in its name.
        """
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            found = None
        if found is not None:
            ours = (found.st_ino, found.st_ctime_ns) == (self._inode, self._made_at)
            if ours or not stat.S_ISSOCK(found.st_mode):
                return False
            self._path.unlink(missing_ok=True)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._server is not None:
            self._server.close()
        await self.start()
        return True

    async def close(self) -> None:
        """Stop listening, let running commands answer, remove the socket if it is still ours."""
        if self._server is not None:
            self._server.close()
        if self._work:
            await asyncio.wait(self._work, timeout=1.0)
        self.unlink()

    def unlink(self) -> None:
        """Remove the socket unless another deck has put its own in place."""
        with contextlib.suppress(OSError):
            if self._path.lstat().st_ino == self._inode:
                self._path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(EXCHANGE_SECONDS):
                ack = await self._exchange(reader, writer)
                if ack:
                    writer.write(ack)
                    await writer.drain()
        except TimeoutError:
            writer.write(error("The exchange took longer than 5 s and was broken off."))
        except _Crowded:
            writer.write(error("Too many callers are connected and say nothing; try again."))
        except (ConnectionError, OSError):
            return
        finally:
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        peer = _peer(writer)
        if isinstance(peer, str):
            return error(peer)
        try:
            raw = await self._hear(reader)
            if not raw:
                return b""
            command = parse(raw)
        except ProtocolError as refusal:
            writer.write(error(str(refusal)))
            await writer.drain()
            await _take_the_rest(reader)
            return b""
        work = asyncio.ensure_future(self._answer(command, peer))
        self._work.add(work)
        work.add_done_callback(self._work.discard)
        return await asyncio.shield(work)

    async def _hear(self, reader: asyncio.StreamReader) -> bytes:
        """Return the bytes of one command. Raises _Crowded for the one that has to make room."""
        mine = asyncio.current_task()
        assert mine is not None
        self._unheard[mine] = False
        staying = [task for task, sent_away in self._unheard.items() if not sent_away]
        if len(staying) > MAX_UNHEARD:
            self._unheard[staying[0]] = True
            staying[0].cancel()
        try:
            return await _read_command(reader)
        except asyncio.CancelledError:
            if not self._unheard[mine]:
                raise
            mine.uncancel()
            raise _Crowded from None
        finally:
            del self._unheard[mine]

    async def _answer(self, command: Command, peer: Peer) -> bytes:
        try:
            return await self._dispatch(command, peer)
        except Exception as fault:
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"the command {command.verb} failed", "exception": fault}
            )
            return error(f"The deck failed on this {command.verb}; see .choragos/logs/server.log.")


async def _read_command(reader: asyncio.StreamReader) -> bytes:
    """Return the bytes of one object, b"" when the peer closes without sending any."""
    framer, anything = Framer(), False
    while True:
        data = await reader.read(READ_BYTES)
        if not data:
            if anything:
                raise ProtocolError("The connection ended in the middle of the command.")
            return b""
        anything = True
        raw = framer.feed(data)
        if raw is not None:
            return raw


async def _take_the_rest(reader: asyncio.StreamReader) -> None:
    """Read and drop what a peer is still sending, or it would fail to write and never see why it
    was refused. A peer that sends nothing is not waited for."""
    with contextlib.suppress(TimeoutError):
        while not reader.at_eof():
            async with asyncio.timeout(REST_SECONDS):
                await reader.read(READ_BYTES)


def _peer(writer: asyncio.StreamWriter) -> Peer | str:
    """Return the facts about the other end, or why it is not served."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return Peer(pid=0, ancestors=(), mark="", traceable=False)
    connection = writer.get_extra_info("socket")
    credentials = connection.getsockopt(socket.SOL_SOCKET, option, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(credentials)
    if uid not in (os.getuid(), 0):
        return f"This session belongs to user {os.getuid()}; user {uid} is not served."
    return peer_of(pid)
