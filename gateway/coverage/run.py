"""Sending the matrix through a gateway to a provider that records, and telling what came of it.

Owns the recording provider and, where no running gateway is named, a gateway of its own in an empty
home, with the policy of this installation. Talks to loopback only. Called by `sphragis coverage`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
from aiohttp import web
from yarl import URL

from gateway.coverage.canaries import leaked
from gateway.coverage.matrix import (
    BAD,
    ENCODINGS,
    Outcome,
    Position,
    Request,
    applies,
    clean,
    planted,
    positions,
    samples,
)
from gateway.coverage.sample import Sample
from gateway.errors import GatewayError
from gateway.settings import Settings, parse_listen_addr

#: The encoding of a cell in which nothing was planted.
CLEAN: Final = "clean"
#: Requests under way at once: enough to keep the scanners busy.
_AT_ONCE: Final = 8
#: Seconds to wait for a gateway of our own.
_START: Final = 60.0


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the matrix; `sentence` is what the gateway said when it refused."""

    wire: str
    place: str
    encoding: str
    outcome: Outcome
    sentence: str = ""


@dataclass(slots=True)
class Report:
    """What came of all cells."""

    cells: list[Cell] = field(default_factory=list)

    @property
    def bad(self) -> list[Cell]:
        """Cells that an installation must not have."""
        return [cell for cell in self.cells if cell.outcome in BAD]

    @property
    def places(self) -> int:
        """Number of different positions."""
        return len({(cell.wire, cell.place) for cell in self.cells if cell.encoding != CLEAN})


class Recorder:
    """A provider that takes everything, answers nothing of interest, and remembers what it got."""

    def __init__(self) -> None:
        self._received: dict[str, bytes] = {}
        self._bodies: dict[str, bytes] = {}

    def received(self, name: str) -> bytes | None:
        """Return all bytes of the request `name` (request line, headers, body), or None."""
        return self._received.get(name)

    def body(self, name: str) -> bytes:
        """Return its body."""
        return self._bodies[name]

    async def handle(self, request: web.Request) -> web.Response:
        """Take one request."""
        body = await request.read()
        name = request.headers.get("x-app", "")
        head = [f"{request.method} {request.raw_path}".encode()]
        head += [b"%s: %s" % pair for pair in request.raw_headers]
        self._received[name] = b"\n".join([*head, body])
        self._bodies[name] = body
        return web.json_response({})

    @asynccontextmanager
    async def serving(self, listen: str) -> AsyncIterator[str]:
        """Listen while the block runs; yields the address."""
        host, port = parse_listen_addr(listen)
        app = web.Application(client_max_size=256 << 20)
        app.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, host, port).start()
            except OSError as wrong:
                raise GatewayError(
                    f"The recording provider cannot listen on {listen} ({wrong.strerror}); "
                    "name another address with --provider-listen."
                ) from wrong
            bound = runner.addresses[0]
            yield f"http://{bound[0]}:{bound[1]}"
        finally:
            await runner.cleanup()


async def run_matrix(
    url: str | None, listen: str, settings: Settings, chosen: Iterable[Sample] | None = None
) -> Report:
    """Run every cell of the `chosen` samples (None: all); `url` is a running gateway, or None for
    one of our own. Raises GatewayError when the gateway cannot be tested."""
    recorder = Recorder()
    async with AsyncExitStack() as stack:
        provider = await stack.enter_async_context(recorder.serving(listen))
        if url is None:
            url = await stack.enter_async_context(_own_gateway(provider, settings))
        session = await stack.enter_async_context(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_AT_ONCE), auto_decompress=True
            )
        )
        sender = _Sender(session, url.rstrip("/"), recorder)
        await _check_reached(sender, url, provider)
        return await _run(sender, samples() if chosen is None else chosen)


class _Sender:
    """Sends requests, each under a name that the provider gets to see."""

    def __init__(self, session: aiohttp.ClientSession, url: str, recorder: Recorder) -> None:
        self._session = session
        self._url = url
        self._recorder = recorder
        self._count = 0
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def send(self, request: Request) -> tuple[bytes | None, bytes, int, str]:
        """Return what arrived (None if nothing did), its body, the status and the error text."""
        self._count += 1
        name = f"cell {self._count}"
        headers = {"authorization": "Bearer coverage", **request.headers}
        headers.setdefault("x-app", name)
        name = headers["x-app"]
        target = URL(f"{self._url}/agent/coverage{request.path}", encoded=True)
        async with (
            self._room,
            self._session.request(
                request.method,
                target,
                headers=headers,
                data=request.body or None,
                skip_auto_headers=("content-type",),
                allow_redirects=False,
            ) as answer,
        ):
            text = await _read(answer)
        received = self._recorder.received(name)
        body = self._recorder.body(name) if received is not None else b""
        return received, body, answer.status, _sentence(text)


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    """Return the answer; one that the gateway broke off says nothing about the request."""
    try:
        return await answer.read()
    except aiohttp.ClientPayloadError:
        return b""


async def _check_reached(sender: _Sender, url: str, provider: str) -> None:
    request = Request(
        "POST",
        "/v1/messages",
        {"content-type": "application/json"},
        b'{"model":"claude-coverage","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}',
    )
    try:
        received, _, status, sentence = await sender.send(request)
    except (ValueError, aiohttp.NonHttpUrlClientError) as wrong:
        raise GatewayError(
            f"{url!r} is no address of a gateway; give one like http://127.0.0.1:8787."
        ) from wrong
    except aiohttp.ClientError as wrong:
        raise GatewayError(
            f"The gateway at {url} cannot be reached ({type(wrong).__name__}); is it running?"
        ) from wrong
    if received is None:
        raise GatewayError(
            f"The gateway at {url} does not forward to the recording provider (it answered "
            f"{status}: {sentence or 'nothing'}); start it with SPHRAGIS_UPSTREAM_BASE_URL="
            f"{provider} for this test, and give the same address here with --provider-listen."
        )


async def _run(sender: _Sender, chosen: Iterable[Sample]) -> Report:
    cells: list[Coroutine[Any, Any, list[Cell]]] = []
    for sample in chosen:
        cells.append(_clean_cell(sender, sample))
        places = positions(sample)
        for encoding in ENCODINGS:
            meant = [position for position in places if applies(position, encoding)]
            cells += _cells(sender, meant, encoding)
    return Report([cell for found in await asyncio.gather(*cells) for cell in found])


def _cells(
    sender: _Sender, meant: list[Position], encoding: str
) -> Iterator[Coroutine[Any, Any, list[Cell]]]:
    """One request for each position as it is written plainly; of the other encodings one for all
    positions of a sample, each with its own canary."""
    if encoding == "plain":
        for position in meant:
            yield _some_cells(sender, [position], encoding)
    elif meant:
        yield _some_cells(sender, meant, encoding)


async def _some_cells(sender: _Sender, chosen: list[Position], encoding: str) -> list[Cell]:
    request = planted(chosen, encoding)
    received, _, _, sentence = await sender.send(request)
    if received is None and len(chosen) > 1:
        # One of them was refused: which one, only single requests can tell.
        alone = [_some_cells(sender, [position], encoding) for position in chosen]
        return [cell for found in await asyncio.gather(*alone) for cell in found]
    cells: list[Cell] = []
    for position in chosen:
        wire, place = position.sample.wire, position.place
        if received is None:
            cells.append(Cell(wire, place, encoding, Outcome.REFUSED, sentence))
        else:
            is_there = leaked(request.planted[position.number], received)
            outcome = Outcome.LEAKED if is_there else Outcome.REDACTED
            cells.append(Cell(wire, place, encoding, outcome))
    return cells


async def _clean_cell(sender: _Sender, sample: Sample) -> list[Cell]:
    request = clean(sample)
    received, body, _, sentence = await sender.send(request)
    outcome = Outcome.REDACTED
    if received is None:
        outcome = Outcome.BLOCKED
    elif request.expected is not None and _ordered(body) != _ordered(request.body):
        outcome, sentence = Outcome.ALTERED, "the body arrived changed"
    else:
        sentence = ""
    where = f"{sample.method} {sample.path.partition('?')[0]}"
    return [Cell(sample.wire, where, CLEAN, outcome, sentence)]


def _ordered(body: bytes) -> Any:
    """Return a document in which the order of members counts."""
    try:
        return json.loads(body, object_pairs_hook=lambda pairs: ("object", pairs))
    except ValueError:
        return body


def _sentence(answer: bytes) -> str:
    """Return the gateway's sentence from an error body of any family."""
    try:
        document = json.loads(answer)
    except ValueError:
        return ""
    error = document.get("error", document) if isinstance(document, dict) else document
    message = error.get("message", "") if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""


@asynccontextmanager
async def _own_gateway(provider: str, settings: Settings) -> AsyncIterator[str]:
    """Start a gateway that forwards to `provider`, with this installation's policy."""
    with tempfile.TemporaryDirectory(prefix="sphragis-coverage-") as home:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SPHRAGIS_")}
        environment |= {
            "SPHRAGIS_HOME": home,
            "SPHRAGIS_LISTEN_ADDR": "127.0.0.1:0",
            "SPHRAGIS_UPSTREAM_BASE_URL": provider,
        }
        if settings.policy_file is not None:
            environment["SPHRAGIS_POLICY_FILE"] = str(settings.policy_file.absolute())
        if settings.custom_terms_file is not None:
            environment["SPHRAGIS_CUSTOM_TERMS_FILE"] = str(settings.custom_terms_file.absolute())
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "gateway.cli",
            "serve",
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield await _address(Path(home), process)
        finally:
            if process.returncode is None:
                process.terminate()
            await process.communicate()


async def _address(home: Path, process: asyncio.subprocess.Process) -> str:
    deadline = asyncio.get_running_loop().time() + _START
    while asyncio.get_running_loop().time() < deadline:
        if process.returncode is not None:
            _, said = await process.communicate()
            last = said.decode(errors="replace").strip().rpartition("\n")[2]
            raise GatewayError(f"The gateway for this test did not start: {last}")
        address = await asyncio.to_thread(_read_address, home)
        if address and await _is_ready(address):
            return address
        await asyncio.sleep(0.05)
    raise GatewayError("The gateway for this test did not become ready; try again.")


def _read_address(home: Path) -> str:
    try:
        return "http://" + (home / "sphragis.pid").read_text().splitlines()[2]
    except (OSError, IndexError):
        return ""


async def _is_ready(address: str) -> bool:
    try:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{address}/readyz") as answer,
        ):
            return answer.status == 200
    except aiohttp.ClientError:
        return False
