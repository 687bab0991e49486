"""What runs inside the wall: the forwarder beside the agent, and the attempts that prove the wall.

Owns the loopback address the agent expects of the gateway: listened on before the agent starts, so
its first call finds it, and joined to the one socket that leads out. Runs as a file of its own,
under `python -I -S` and the standard library only: nothing else of the deck need be visible in
there. Invariant: the forwarder knows one way, the socket it was given. `deck.wall.plan` writes its
command line, `deck.wall.proof` asks for the attempts.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Iterable, Sequence
from typing import Final, NoReturn

#: Bytes moved at a time.
CHUNK: Final = 65536
ATTEMPT_SECONDS: Final = 2.0
#: How a shell says that a command cannot be run.
CANNOT_RUN: Final = 126
#: Ignored by the process that holds the wall, so that an agent gets the grace a stop gives it.
_RESTORED: Final = (signal.SIGTERM, signal.SIGHUP)


def listen(host: str, port: int) -> list[socket.socket]:
    """Return listeners on the loopback address or addresses of `host`. Raises OSError."""
    wanted = {"localhost": ("127.0.0.1", "::1")}.get(host, (host.strip("[]"),))
    found: list[socket.socket] = []
    for address in wanted:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(256)
        except OSError:
            listener.close()
            # A machine without IPv6 has no ::1; its agents use the other one.
            if family is socket.AF_INET6 and found:
                continue
            raise
        found.append(listener)
    return found


def forward(listeners: Iterable[socket.socket], way_out: str) -> NoReturn:
    """Join each connection to a new one on the socket `way_out`, for ever."""
    import asyncio

    async def serve() -> None:
        async def joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                far_reader, far_writer = await asyncio.open_unix_connection(way_out)
            except OSError:
                # As if nobody listened: the agent retries as it would without the wall.
                writer.transport.abort()
                return
            await join((reader, writer), (far_reader, far_writer))

        servers = [await asyncio.start_server(joined, sock=one) for one in listeners]
        await asyncio.gather(*(server.serve_forever() for server in servers))

    asyncio.run(serve())
    raise SystemExit(1)


async def join(one: tuple, other: tuple) -> None:  # type: ignore[type-arg]
    """Carry bytes between two stream pairs until both sides have ended. Never raises OSError."""
    import asyncio

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(CHUNK):
                writer.write(data)
                await writer.drain()
            # The end of one direction is passed on; the other may still have much to say.
            writer.write_eof()
        except OSError:
            for end in (one[1], other[1]):
                end.transport.abort()

    try:
        await asyncio.gather(carry(one[0], other[1]), carry(other[0], one[1]))
    finally:
        for end in (one[1], other[1]):
            end.close()


def start_forwarder(address: str, way_out: str) -> None:
    """Listen on `address` and leave a process behind that forwards. Raises OSError."""
    host, _, port = address.rpartition(":")
    listeners = listen(host, int(port))
    agent = os.getpid()
    if os.fork():
        for listener in listeners:
            listener.close()
        return
    # Not part of the agent's terminal: neither Ctrl-C nor its end concerns it. It ends with the
    # agent, also where no process namespace sees to that.
    os.setsid()
    _end_with(agent)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    try:
        forward(listeners, way_out)
    finally:
        os._exit(1)


def _end_with(parent: int) -> None:
    import ctypes
    import signal

    set_parent_death_signal = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>
    ctypes.CDLL(None).prctl(set_parent_death_signal, int(signal.SIGKILL))
    if os.getppid() != parent:  # it was gone before it could be watched
        os._exit(1)


def prove(asked: dict[str, object]) -> dict[str, object]:
    """Try what must fail and what must work; return what was found, by the name of the question."""
    hidden = [str(path) for path in _listed(asked, "hidden")]
    return {
        "reached": [name for name in _listed(asked, "others") if _reaches(str(name))],
        "seen": [path for path in hidden if _shows(path)],
        "interfaces": _interfaces(),
        "gateway": _answer(str(asked["gateway"])),
        "control": _connects(socket.AF_UNIX, str(asked["control"])),
        "unwritable": [path for path in _listed(asked, "writable") if not _writable(str(path))],
        "changeable": [path for path in _listed(asked, "fixed") if _writable(str(path))],
        "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
    }


def _listed(asked: dict[str, object], key: str) -> list[object]:
    value = asked.get(key)
    return value if isinstance(value, list) else []


def _reaches(name: str) -> bool:
    """Whether a connection to `host:port`, or to an abstract socket `@name`, can be made."""
    if name.startswith("@"):
        return _connects(socket.AF_UNIX, "\0" + name[1:])
    host, _, port = name.rpartition(":")
    return _connects(socket.AF_INET, (host, int(port)))


def _connects(family: int, address: object) -> bool:
    with socket.socket(family) as attempt:
        attempt.settimeout(ATTEMPT_SECONDS)
        try:
            attempt.connect(address)  # type: ignore[arg-type]
        except OSError:
            return False
        return True


def _shows(path: str) -> bool:
    """Whether there is anything to see: a file or socket, or a directory with something in it."""
    if os.path.isdir(path):
        try:
            return bool(os.listdir(path))
        except OSError:
            return False
    return os.path.lexists(path) and not _is_null(path)


def _is_null(path: str) -> bool:
    try:
        found = os.stat(path)
    except OSError:
        return True
    return found.st_rdev == os.stat(os.devnull).st_rdev


def _interfaces() -> list[str]:
    return [name for _, name in socket.if_nameindex()]


def _answer(address: str) -> str:
    """Return the first line of what the gateway's address answers, "-" for a mere connection, ""
    when there is none."""
    host, _, port = address.rpartition(":")
    try:
        name = "127.0.0.1" if host == "localhost" else host.strip("[]")
        with socket.create_connection((name, int(port)), ATTEMPT_SECONDS) as asking:
            asking.settimeout(ATTEMPT_SECONDS)
            asking.sendall(b"GET /readyz HTTP/1.0\r\nHost: gateway\r\n\r\n")
            line = asking.recv(CHUNK).split(b"\r\n", 1)[0]
            return line.decode("latin-1") or "-"
    except ConnectionResetError:
        return "-"
    except OSError:
        return ""


def _writable(path: str) -> bool:
    return os.access(path, os.W_OK)


def main(line: Sequence[str]) -> int:
    """`--listen HOST:PORT --via SOCKET -- COMMAND …`, or `--prove JSON`."""
    if line[:1] == ["--prove"]:
        print(json.dumps(prove(json.loads(line[1]))), flush=True)
        return 0
    given = dict(zip(line[0:4:2], line[1:4:2], strict=True))
    command = list(line[5:])
    try:
        start_forwarder(given["--listen"], given["--via"])
        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)
    except OSError as failure:
        what = f"{command[0]} cannot be started behind the wall: {failure.strerror}"
        print(f"choragos: {what}", file=sys.stderr, flush=True)
    return CANNOT_RUN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
