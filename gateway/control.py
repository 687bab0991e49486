"""The control socket: what decks and operators tell a running gateway, over HTTP on a unix socket.

Owns `<home>/control.sock` (0600), its routes, and who may use which. Invariants: the kernel names
the caller (SO_PEERCRED), never the caller itself; a stamp for a session comes only from the process
that first stamped it or, once that is gone, its successor; a process of a deck's team is no
operator; every change is recorded with uid, pid and program before it happens, every refused
attempt as `deny`. Started by `gateway.app`; `gateway.control_client` and the deck speak to it.

What this prevents: an agent in a pane of a deck, its children and detached grandchildren (the deck
inherits them) cannot stamp, seal, rotate, erase or export, whatever environment they show. What it
cannot prevent: programs of one user can trace, signal and write the files of each other, so an
agent that gets another program of that user (a job scheduler, a login session, a debugger) to act
for it is taken for that program. Separate users, or a deck whose wall keeps agents from the home
directory, prevent that; the record with the program's name is what remains without them. A
caller in another pid namespace (a container) cannot be traced and is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
from aiohttp import web

from gateway import peers
from gateway.audit import Audit, AuditUnavailable
from gateway.errors import GatewayError
from gateway.listening import StartError
from gateway.logs import say, where
from gateway.peers import Peer
from gateway.stamps import Change, StampRefused
from gateway.stamps_file import read_stamps, write_stamps
from gateway.unix_path import reachable
from shared import __version__
from shared.ledger import LedgerError

if TYPE_CHECKING:
    from gateway.app import Gateway

#: Requests are names and numbers; an erasure may name many keys.
MAX_BODY: Final = 1 << 20
#: Seconds between two looks at which decks live.
SWEEP_SECONDS: Final = 2.0
#: A connection that sends nothing does not stay (seconds).
IDLE_SECONDS: Final = 15.0

#: One operator operation: it gets the gateway and the request (with `by`, who asks) and returns
#: the answer, or raises a GatewayError or LedgerError with the sentence for the user.
Operation = Callable[["Gateway", dict[str, Any]], "dict[str, Any] | Awaitable[dict[str, Any]]"]


class Answer(Exception):
    """A request that is not carried out: status, a code for programs, a sentence for people."""

    def __init__(self, status: int, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.code = code


class Control:
    """The control socket of one gateway, open from `start` to `stop`."""

    def __init__(
        self, gateway: Gateway, audit: Audit, address: str, operations: Mapping[str, Operation]
    ) -> None:
        self._gateway = gateway
        self._audit = audit
        self._address = address
        self._operations = {**OWN_OPERATIONS, **operations}
        self._stamps = gateway.stamps
        self._path = gateway.settings.control_socket
        self._file = gateway.settings.stamps_file
        self._saving = asyncio.Lock()
        self._inode = 0
        self._runner: web.AppRunner | None = None
        self._sweeper: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. Raises StartError when another gateway does, or the path is taken."""
        if not hasattr(socket, "SO_PEERCRED"):
            say("warning: no control socket: this system does not name the caller of one")
            return
        self._stamps.load(await asyncio.to_thread(read_stamps, self._file))
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            keepalive_timeout=IDLE_SECONDS,
            shutdown_timeout=1.0,
        )
        await self._runner.setup()
        await self._listen(self._runner)
        self._sweeper = asyncio.ensure_future(self._sweep(self._runner))

    async def _listen(self, runner: web.AppRunner) -> None:
        try:
            with reachable(self._path) as path:
                _clear(self._path, path)
                # The directory is closed to others, so there is no moment for them before chmod.
                await web.UnixSite(runner, path).start()
                self._path.chmod(0o600)
                self._inode = self._path.lstat().st_ino
        except OSError as wrong:
            raise StartError(
                f"The control socket {self._path} cannot be made ({wrong.strerror}); check the "
                "directory, or set SPHRAGIS_HOME to another place."
            ) from wrong

    async def stop(self) -> None:
        """Stop listening and remove the socket if it is still ours."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._runner is not None:
            await self._runner.cleanup()
        with contextlib.suppress(OSError):
            if self._inode and self._path.lstat().st_ino == self._inode:
                self._path.unlink()

    async def _sweep(self, runner: web.AppRunner) -> None:
        """Look which decks live, and bring back a socket that was cleaned away."""
        told = ""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self._stamps.sweep()
            if self._path.exists():
                continue
            try:
                await self._listen(runner)
                say(f"the control socket {self._path} was gone and is there again")
            except StartError as wrong:
                if str(wrong) != told:
                    say(f"warning: {wrong}")
                told = str(wrong)

    # -- one request -----------------------------------------------------------------------------

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            answer = await self._answer(request)
        except Answer as no:
            return _json(no.status, {"error": {"code": no.code, "message": str(no)}})
        except AuditUnavailable as wrong:
            return _json(503, {"error": {"code": "audit_unavailable", "message": str(wrong)}})
        except (GatewayError, LedgerError) as wrong:
            return _json(409, {"error": {"code": "failed", "message": str(wrong)}})
        except (web.HTTPRequestEntityTooLarge, web.HTTPBadRequest):
            too_large = f"A request has at most {MAX_BODY} bytes."
            return _json(413, {"error": {"code": "too_large", "message": too_large}})
        except Exception as error:
            say(f"internal error on the control socket: {where(error)}")
            failed = "The gateway failed on this request; see its log."
            return _json(500, {"error": {"code": "internal", "message": failed}})
        return _json(200, answer)

    async def _answer(self, request: web.Request) -> dict[str, Any]:
        peer = await self._peer(request)
        name = request.path.removeprefix("/v1/")
        if why := peers.stranger(peer):
            raise Answer(403, "stranger", why)
        if name == "status" and request.method in ("GET", "POST"):
            return self._status()
        if request.method != "POST":
            raise Answer(405, "method", "Ask with POST; only /v1/status is read with GET.")
        body = _object(await request.read())
        if name == "checkpoint":
            return self._checkpoint()
        if name == "stamp":
            return await self._stamp(peer, body)
        if name not in self._operations or not request.path.startswith("/v1/"):
            known = ", ".join(sorted(["status", "checkpoint", "stamp", *self._operations]))
            raise Answer(404, "unknown", f"There is no such operation; there are {known}.")
        return await self._operate(peer, name, body)

    async def _peer(self, request: web.Request) -> Peer:
        transport = request.transport
        connection = transport.get_extra_info("socket") if transport is not None else None
        if connection is None:
            raise ConnectionResetError
        try:
            # In a thread: it reads a file of each ancestor.
            return await asyncio.to_thread(peers.peer_of, connection)
        except OSError as gone:
            raise ConnectionResetError from gone

    def _status(self) -> dict[str, Any]:
        reasons = self._gateway.readiness.reasons()
        ledger = self._gateway.ledger
        return {
            "version": __version__,
            "pid": os.getpid(),
            "address": self._address,
            "ready": not reasons,
            "reasons": reasons,
            "origin": ledger.origin if ledger is not None else "",
            "size": ledger.size if ledger is not None else 0,
            "sessions": self._stamps.shown(),
            "operations": sorted(self._operations),
        }

    def _checkpoint(self) -> dict[str, Any]:
        ledger = self._gateway.ledger
        if ledger is None:
            raise Answer(503, "starting", "The ledger is being opened; ask again.")
        return {"checkpoint": ledger.checkpoint, "vkey": ledger.vkey, "size": ledger.size}

    # -- stamps ----------------------------------------------------------------------------------

    async def _stamp(self, peer: Peer, body: Mapping[str, Any]) -> dict[str, Any]:
        """Let a role work on a task; `task` "" is none, null takes the role out of the session."""
        session, role, task = body.get("session"), body.get("role"), body.get("task")
        key = body.get("key", "")
        if (
            not isinstance(session, str)
            or not isinstance(role, str)
            or not isinstance(key, str)
            or (task is not None and not isinstance(task, str))
        ):
            raise Answer(400, "shape", "A stamp is {session, role, task, key?}, all of them texts.")
        self._check_address(body.get("address"))
        if why := peers.bound(peer, self._is_other_deck(peer)):
            await self._audit.refused(peer.as_ext(), "stamp", "inside_team")
            raise Answer(403, "inside_team", why)
        before = self._stamps.task_of(session, role)
        try:
            change = self._put(peer, session, role, task, key)
        except StampRefused as no:
            await self._audit.refused(peer.as_ext(), "stamp", "stamp_refused")
            raise Answer(403, "stamp_refused", str(no)) from no
        if change is not Change.NOTHING:
            try:
                # Queued in this same step: no call with the new task can be recorded before it.
                await self._audit.stamped(peer.as_ext(), session, role, task or "", change)
            except AuditUnavailable:
                self._put(peer, session, role, before)
                raise
            await self._save()
        managed = list(self._gateway.settings.managed)
        return {"session": session, "role": role, "task": task, "managed": managed}

    def _put(self, peer: Peer, session: str, role: str, task: str | None, key: str = "") -> Change:
        if task is None:
            return self._stamps.leave(peer.process, session, role)
        return self._stamps.put(peer.process, session, role, task, key)

    def _check_address(self, address: object) -> None:
        """A deck may talk to another gateway than the one whose home it found."""
        if address is None:
            return
        port = address.rpartition(":")[2] if isinstance(address, str) else ""
        if port != self._address.rpartition(":")[2]:
            raise Answer(
                409,
                "wrong_gateway",
                f"This gateway listens on {self._address}; set SPHRAGIS_HOME to the home of the "
                "gateway that your agents use.",
            )

    def _is_other_deck(self, peer: Peer) -> Callable[[peers.Process], bool]:
        """A deck may have another deck above it only if it stamps here itself already."""
        if self._stamps.is_deck(peer.process):
            return lambda _: False
        return self._stamps.is_deck

    async def _save(self) -> None:
        """Let a gateway that is started again know the stamps; they need not survive a power
        cut, which ends the decks too."""
        async with self._saving:
            await asyncio.to_thread(write_stamps, self._file, orjson.dumps(self._stamps.dump()))

    # -- operators -------------------------------------------------------------------------------

    async def _operate(self, peer: Peer, name: str, body: dict[str, Any]) -> dict[str, Any]:
        by = peer.as_ext()
        if why := peers.bound(peer, self._is_other_deck(peer)):
            await self._audit.refused(by, name, "inside_team")
            raise Answer(403, "inside_team", why)
        asked = await self._audit.operation(by, name)
        try:
            # What the caller says of itself does not count.
            answer = self._operations[name](self._gateway, {**body, "by": by})
            answer = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            told = isinstance(error, GatewayError | LedgerError | Answer)
            wrong = str(error) if told else "the operation failed"
            with contextlib.suppress(AuditUnavailable):
                await self._audit.operated(by, name, asked, wrong)
            raise
        await self._audit.operated(by, name, asked, "")
        return answer


# -- the gateway's own operations ------------------------------------------------------------------


async def _seal(gateway: Gateway, _: dict[str, Any]) -> dict[str, Any]:
    """End the present segment now."""
    ledger = gateway.ledger
    if ledger is None:
        raise Answer(503, "starting", "The ledger is being opened; ask again.")
    await _finished(ledger.seal_now)
    return {"size": ledger.size, "checkpoint": ledger.checkpoint}


async def _rotate_key(gateway: Gateway, _: dict[str, Any]) -> dict[str, Any]:
    """Let a new key sign the log from now on."""
    ledger = gateway.ledger
    if ledger is None:
        raise Answer(503, "starting", "The ledger is being opened; ask again.")
    await _finished(ledger.rotate_key)
    return {"vkey": ledger.vkey, "size": ledger.size}


async def _finished(work: Callable[[], Any]) -> None:
    """Run what blocks on the disk in a thread, and wait for a future it may return."""
    result = await asyncio.to_thread(work)
    if hasattr(result, "add_done_callback"):
        await asyncio.wrap_future(result)


OWN_OPERATIONS: Final[Mapping[str, Operation]] = {"seal": _seal, "rotate-key": _rotate_key}


# -- bytes and files -------------------------------------------------------------------------------


def _object(data: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(data) if data else {}
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Answer(400, "shape", "A request is one JSON object.")
    return body


def _json(status: int, body: Mapping[str, Any]) -> web.Response:
    return web.Response(
        status=status, body=orjson.dumps(body) + b"\n", content_type="application/json"
    )


def _clear(path: Path, short: str) -> None:
    """Remove what a gateway that died left; refuse to take a living one's place."""
    try:
        info = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(info.st_mode):
        raise StartError(f"{path} exists and is not a socket; move it away.")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(short)
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError:
            pass  # something is there and does not answer: not ours to remove
    raise StartError(
        f"Another program answers on {path}; stop that gateway, or set SPHRAGIS_HOME to another "
        "place."
    )
