"""Bytes that are not HTTP, and headers that are not text: refused in shape, recorded, survived."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest
from gateway_harness import Gateway, Provider, running

MAIL = "zora.strange@leak-canary.org"
BODY = json.dumps(
    {"model": "claude-x", "max_tokens": 8, "messages": [{"role": "user", "content": MAIL}]}
).encode()


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[Provider]:
    provider = Provider()
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture
def provider(shared_provider: Provider) -> Provider:
    shared_provider.seen.clear()
    return shared_provider


@pytest.fixture(scope="module")
def gateway(
    shared_provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    home = tmp_path_factory.mktemp("strange") / "home"
    with running(home, shared_provider.url) as started:
        yield started


async def send(gateway: Gateway, raw: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send bytes, half-close, return status, headers and body of the last answer."""
    host, port = gateway.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(raw)
    await writer.drain()
    answer = await asyncio.wait_for(reader.read(), 20)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    if head.endswith(b"100 Continue"):
        head, _, body = body.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    return int(first.split()[1]), headers, body


def request(
    *headers: bytes,
    line: bytes = b"POST /agent/coder/v1/messages HTTP/1.1",
    body: bytes = BODY,
    measured: bool = True,
    host: bytes = b"Host: localhost",
) -> bytes:
    lines = [line, host, b"Content-Type: application/json", b"Connection: close", *headers]
    if measured:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(filter(None, lines)) + b"\r\n\r\n" + body


def last(gateway: Gateway, kind: str) -> dict[str, Any]:
    return [record for record in gateway.records() if record["type"] == kind][-1]


CHUNKED = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
NOT_HTTP = {
    "two lengths": request(b"Content-Length: 5"),
    "length and chunks": request(b"Transfer-Encoding: chunked", body=CHUNKED),
    "unknown framing": request(b"Transfer-Encoding: xchunked", measured=False),
    "framing twice": request(
        b"Transfer-Encoding: chunked, chunked", body=CHUNKED, measured=False
    ),
    "no length": request(measured=False).replace(b"Connection: close\r\n", b""),
    "negative length": request(b"Content-Length: -1", measured=False),
    "signed length": request(b"Content-Length: +%d" % len(BODY), measured=False),
    "space before colon": request(b"X-A : b"),
    "folded header": request(b"X-A: b\r\n c"),
    "nul in a header": request(b"User-Agent: a\0" + MAIL.encode()),
    "bare cr in a header": request(b"X-A: a\r" + MAIL.encode()),
    "no host": request(host=b""),
    "two hosts": request(b"Host: other"),
    "two content types": request(b"Content-Type: text/plain"),
    "long target": request(line=b"POST /agent/%s/v1/messages HTTP/1.1" % (b"a" * 20_000)),
    "long header": request(b"User-Agent: " + MAIL.encode() * 400),
    "many headers": request(*(b"x-%d: a" % number for number in range(500))),
    "unknown method": request(line=b"FOO /v1/messages HTTP/1.1"),
    "small letters": request(line=b"post /v1/messages HTTP/1.1"),
    "unknown version": request(line=b"POST /v1/messages HTTP/9.9"),
    "letters beyond ASCII": request(line="POST /agent/ä/v1/messages HTTP/1.1".encode()),
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + MAIL.encode() + b"\r\n\r\n",
}  # fmt: skip


@pytest.mark.parametrize("raw", NOT_HTTP.values(), ids=NOT_HTTP)
async def test_what_is_not_http_is_refused_in_shape_recorded_and_not_quoted(
    gateway: Gateway, provider: Provider, raw: bytes
) -> None:
    status, headers, answer = await send(gateway, raw)
    assert status == 400
    assert headers["x-should-retry"] == "false"
    document = json.loads(answer)
    assert document["type"] == "error"
    assert document["error"]["type"] == "invalid_request_error"
    assert document["error"]["message"].endswith(".")
    assert b"leak-canary" not in answer
    assert b"a" * 30 not in answer
    deny = last(gateway, "deny")
    assert deny["policy"]["rules"] == ["http_syntax"]
    assert headers["x-audit-receipt"].split(";")[1] == str(deny["seq"])
    assert provider.seen == []


@pytest.mark.parametrize(
    "line",
    [
        b"OPTIONS * HTTP/1.1",
        b"CONNECT api.anthropic.com:443 HTTP/1.1",
        b"POST http://elsewhere.example/v1/messages HTTP/1.1",
        b"POST https://api.anthropic.com/v1/messages HTTP/1.1",
    ],
)
async def test_a_target_that_is_no_path_is_refused_in_shape_and_recorded(
    gateway: Gateway, provider: Provider, line: bytes
) -> None:
    status, _, answer = await send(gateway, request(line=line))
    assert (status, json.loads(answer)["type"]) == (403, "error")
    assert last(gateway, "deny")["policy"]["rules"] == ["path_encoding"]
    assert provider.seen == []


@pytest.mark.parametrize("value", [b"caf\xe9", "café".encode(), b"\xff\xfe", "\u2028".encode()])
async def test_a_header_that_is_not_ascii_is_left_out_and_stops_nobody(
    gateway: Gateway, provider: Provider, value: bytes
) -> None:
    for _ in range(2):
        status, _, answer = await send(gateway, request(b"User-Agent: " + value))
        assert status == 200, answer
    assert all(seen.header("user-agent")[0].startswith("sphragis/") for seen in provider.seen)
    assert last(gateway, "request")["ext"]["headers_left_out"] == ["user-agent"]


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (b"anthropic-beta: caf\xe9", "header_value"),
        (b"anthropic-beta: a-2025-01-01\r\nanthropic-beta: " + MAIL.encode(), "header_value"),
        (b"x-api-key: caf\xe9", "credential_bytes"),
        (b"Authorization: Bearer caf\xe9", "credential_bytes"),
        (b"Expect: 200-" + MAIL.encode(), "expectation"),
    ],
)
async def test_a_header_that_matters_and_cannot_be_passed_on_refuses_the_call(
    gateway: Gateway, provider: Provider, header: bytes, code: str
) -> None:
    status, _, answer = await send(gateway, request(header))
    assert (status, json.loads(answer)["type"]) == (403, "error")
    assert b"leak-canary" not in answer
    assert last(gateway, "deny")["policy"]["rules"] == [code]
    assert provider.seen == []


@pytest.mark.parametrize("value", [b"536-22-8734", b"leak-canary", b"gzip, leak-canary, br"])
async def test_an_encoding_of_the_clients_own_making_is_not_quoted(
    gateway: Gateway, provider: Provider, value: bytes
) -> None:
    status, _, answer = await send(gateway, request(b"Content-Encoding: " + value))
    assert status == 403
    assert b"leak-canary" not in answer
    assert b"536-22" not in answer
    assert provider.seen == []


async def test_no_file_of_the_gateway_holds_a_value_of_a_request(
    gateway: Gateway, provider: Provider
) -> None:
    png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    for value in (MAIL, "81.2.69.142", "536-22-8734"):
        source = {"type": "base64", "media_type": value, "data": png}
        blocks = [
            {"type": "image", "source": source},
            {"type": "document", "source": {"type": "file", "file_id": value}},
            {"type": value, "text": "x"},
        ]
        for block in blocks:
            message = {"role": "user", "content": [block], value: value}
            document = {"model": f"claude-{value}", "messages": [message], value: [value]}
            header = f"User-Agent: {value}\r\nX-App: {value}\r\nX-Stainless-Os: {value}".encode()
            await send(gateway, request(header, body=json.dumps(document).encode()))
        kept = (
            b"".join(path.read_bytes() for path in [*gateway.home.rglob("*.jsonl"), gateway.log])
            + gateway.get("/metrics")[1]
            + gateway.get("/ui/state")[1]
        )
        assert value.encode() not in kept


async def test_a_transfer_encoding_nobody_undoes_is_refused(
    gateway: Gateway, provider: Provider
) -> None:
    packed = gzip.compress(BODY)
    for body in (CHUNKED, b"%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed)):
        raw = request(b"Transfer-Encoding: gzip, chunked", body=body, measured=False)
        status, _, answer = await send(gateway, raw)
        assert (status, json.loads(answer)["type"]) == (403, "error")
        assert last(gateway, "deny")["policy"]["rules"] == ["transfer_encoding"]
    assert provider.seen == []


async def test_a_header_sent_twice_reaches_the_provider_as_one_list(
    gateway: Gateway, provider: Provider
) -> None:
    headers = b"anthropic-beta: a-2025-01-01\r\nanthropic-beta: b-2025-02-02"
    status, _, _ = await send(gateway, request(headers))
    assert status == 200
    assert provider.seen[0].header("anthropic-beta") == ["a-2025-01-01, b-2025-02-02"]


async def test_encodings_named_in_two_headers_are_all_undone(
    gateway: Gateway, provider: Provider
) -> None:
    twice = gzip.compress(gzip.compress(BODY))
    header = b"Content-Encoding: gzip\r\nContent-Encoding: gzip"
    status, _, answer = await send(gateway, request(header, body=twice))
    assert status == 200, answer
    assert provider.seen[0].document["messages"][0]["content"].startswith("[EMAIL_")


async def test_a_client_that_waits_for_a_go_ahead_gets_it(
    gateway: Gateway, provider: Provider
) -> None:
    status, _, _ = await send(gateway, request(b"Expect: 100-Continue"))
    assert status == 200
    assert len(provider.seen) == 1


def test_nothing_strange_was_an_error_of_the_gateway(gateway: Gateway) -> None:
    log = gateway.log.read_text()
    assert [word for word in ("internal error", "Traceback", "leak-canary") if word in log] == []
