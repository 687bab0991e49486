"""Answers in any content encoding, whole and streamed, through a real gateway."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import brotli
import httpx
import pytest
import zstandard
from aiohttp import web
from gateway_harness import Gateway, Provider, Script, Seen, running
from test_answers_errors import CALLS, MAIL, TOKEN, ask

WHOLE: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=3),
    "zstd": zstandard.compress,
    "gzip, zstd": lambda data: zstandard.compress(gzip.compress(data)),
}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider()
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def gateway(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("packed") / "home"
    with running(home, provider.url, upstream_base_url=provider.url) as started:
        yield started


def packing(pack: Callable[[bytes], bytes], encoding: str, text: str, status: int = 200) -> Script:
    """A provider whose packed answer is `text` with the client's token at each `@`."""

    async def script(_: web.Request, seen: Seen) -> web.StreamResponse:
        found = TOKEN.search(seen.body.decode())
        assert found is not None
        data = pack(text.replace("@", found.group()).encode())
        headers = {"content-encoding": encoding, "content-type": "application/json"}
        return web.Response(body=data, status=status, headers={**headers, "retry-after": "7"})

    return script


@pytest.mark.parametrize("status", [200, 429])
@pytest.mark.parametrize("encoding", WHOLE)
@pytest.mark.parametrize("call", ["anthropic", "chat", "ollama"])
def test_a_packed_answer_is_read_and_given_plain(
    gateway: Gateway, provider: Provider, call: str, encoding: str, status: int
) -> None:
    document: dict[str, Any] = {"content": [{"type": "text", "text": "@"}], "error": {"text": "@"}}
    provider.script = packing(WHOLE[encoding], encoding, json.dumps(document), status)
    answer = ask(gateway, call)
    assert answer.status_code == status
    assert "content-encoding" not in answer.headers
    assert json.dumps(document).replace("@", MAIL) == json.dumps(answer.json())


@pytest.mark.parametrize("encoding", WHOLE)
def test_a_packed_answer_that_breaks_off_or_is_not_packed_is_no_answer(
    gateway: Gateway, provider: Provider, encoding: str
) -> None:
    for pack in (lambda data: WHOLE[encoding](data)[:-1], lambda data: data):
        provider.script = packing(pack, encoding, json.dumps({"content": []}))
        answer = ask(gateway, "anthropic")
        assert answer.status_code == 502
        assert "decoded" in answer.json()["error"]["message"]


def test_an_error_that_cannot_be_unpacked_keeps_its_status(
    gateway: Gateway, provider: Provider
) -> None:
    provider.script = packing(lambda data: data, "zstd", "{}", 503)
    answer = ask(gateway, "anthropic")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "7")


@pytest.mark.parametrize("encoding", WHOLE)
def test_an_answer_that_grows_beyond_bounds_is_given_up(
    gateway: Gateway, provider: Provider, encoding: str
) -> None:
    provider.script = packing(lambda _: WHOLE[encoding](b" " * (129 << 20)), encoding, "")
    answer = ask(gateway, "anthropic")
    assert answer.status_code == 502
    assert "larger than" in answer.json()["error"]["message"]


def flushing(encoding: str) -> Callable[[bytes], bytes]:
    if encoding == "zstd":
        zstd = zstandard.ZstdCompressor().compressobj()
        return lambda data: zstd.compress(data) + zstd.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    if encoding == "br":
        br = brotli.Compressor()
        return lambda data: br.process(data) + br.flush()
    zipper = zlib.compressobj(wbits=zlib.MAX_WBITS + (16 if encoding == "gzip" else 0))
    return lambda data: zipper.compress(data) + zipper.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_a_packed_stream_comes_event_by_event(
    gateway: Gateway, provider: Provider, encoding: str
) -> None:
    """The provider flushes each event and says the next only when the client has the one before."""
    got = asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def script(request: web.Request, seen: Seen) -> web.StreamResponse:
        loops.append(asyncio.get_running_loop())
        found = TOKEN.search(seen.body.decode())
        assert found is not None
        head = {"content-type": "text/event-stream", "content-encoding": encoding}
        response = web.StreamResponse(headers=head)
        await response.prepare(request)
        pack = flushing(encoding)
        event = {"type": "response.output_text.delta", "output_index": 0, "delta": "@"}
        for number in range(3):
            data = json.dumps({**event, "delta": f"{number} {found.group()}, "})
            packed = pack(f"data: {data}\n\n".encode())
            await response.write(packed[:5])
            await response.write(packed[5:])
            await asyncio.wait_for(got.wait(), 20)
            got.clear()
        done = {"type": "response.completed", "response": {}}
        await response.write(pack(f"data: {json.dumps(done)}\n\n".encode()))
        return response

    provider.script = script
    path, body, headers = CALLS["responses"]
    texts = []
    with httpx.stream(
        "POST", f"{gateway.url}{path}", json=body, headers=headers, timeout=30
    ) as answer:
        assert "content-encoding" not in answer.headers
        for line in answer.iter_lines():
            if line.startswith("data: "):
                texts.append(json.loads(line[6:]).get("delta"))
                loops[0].call_soon_threadsafe(got.set)
    assert texts == [f"{number} {MAIL}, " for number in range(3)] + [None]
