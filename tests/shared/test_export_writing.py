"""An export is recorded before it is let go, and it is sent with a bounded number of tries."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_logs import sample

from shared.exports import ExportRefused, facts_of
from shared.exports.delivery import HEADERS_VARIABLE, TRIES, check_endpoint, send, shown
from shared.exports.writing import (
    Source,
    Written,
    check_said,
    copy_to,
    record_fields,
    to_directory,
    to_file,
    to_stream,
)
from shared.ledger.record import copy_fields
from shared.ledger.selecting import Filter


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    directory = sample(tmp_path_factory.mktemp("writing") / "log")
    return Source("cef", facts_of(directory), directory, Filter(kinds=frozenset({"request"})))


def no_record(_: Written) -> int:
    raise ExportRefused("The ledger is full.")


def test_a_file_appears_whole_after_its_record(source: Source, tmp_path: Path) -> None:
    target = tmp_path / "out.cef"
    seen: list[Written] = []

    def record(written: Written) -> int:
        assert not target.exists()
        seen.append(written)
        return 20

    written, number = to_file(source, target, record)
    assert (seen, number) == ([written], 20)
    assert hashlib.sha256(target.read_bytes()).hexdigest() == written.sha256
    assert (written.count, written.first, written.last) == (2, 4, 18)
    assert written.bytes == target.stat().st_size
    assert target.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [target]


def test_what_cannot_be_recorded_is_not_written(source: Source, tmp_path: Path) -> None:
    target = tmp_path / "out.cef"
    target.write_text("before")
    with pytest.raises(ExportRefused, match="full"):
        to_file(source, target, no_record)
    assert target.read_text() == "before"
    assert list(tmp_path.iterdir()) == [target]
    out = io.BytesIO()
    with pytest.raises(ExportRefused, match="full"):
        to_stream(source, copy_to(out), no_record)
    assert out.getvalue() == b""
    tiles = tmp_path / "tiles"
    with pytest.raises(ExportRefused, match="full"):
        to_directory("tlog-tiles", tiles, lambda made: (made / "x").write_text("x"), no_record)
    assert list(tmp_path.iterdir()) == [target]


def test_a_stream_gets_exactly_what_was_recorded(source: Source) -> None:
    out, seen = io.BytesIO(), list[Written]()
    to_stream(source, copy_to(out), lambda written: seen.append(written) or 1)
    assert hashlib.sha256(out.getvalue()).hexdigest() == seen[0].sha256


def test_a_directory_is_recorded_under_its_listing(tmp_path: Path) -> None:
    def make(made: Path) -> int:
        (made / "a").mkdir()
        (made / "a" / "one").write_bytes(b"1")
        return 7

    written, _ = to_directory("tlog-tiles", tmp_path / "t", make, lambda _: 1)
    listing = f"{hashlib.sha256(b'1').hexdigest()}  a/one\n"
    assert written.sha256 == hashlib.sha256(listing.encode()).hexdigest()
    assert (written.count, written.first, written.last) == (7, 0, 6)
    with pytest.raises(ExportRefused, match="is there already"):
        to_directory("tlog-tiles", tmp_path / "t", make, lambda _: 1)


def test_a_place_that_cannot_be_written_is_a_sentence(source: Source, tmp_path: Path) -> None:
    with pytest.raises(ExportRefused, match=r"cannot be written to .*; check the directory"):
        to_file(source, tmp_path / "none" / "out", no_record)


def test_what_is_recorded_fits_a_record_and_says_all(source: Source) -> None:
    written = Written("cef", 2, 4, 18, 900, "ab" * 32)
    fields = record_fields(written.as_record(source, "out.cef"), {"uid": 7, "user": "you"})
    assert copy_fields(fields) == fields
    assert fields["ext"] == {
        "bytes": 900,
        "count": 2,
        "filter": {"kinds": ["request"]},
        "first": 4,
        "format": "cef",
        "last": 18,
        "origin": source.log.origin,
        "sha256": "ab" * 32,
        "to": "out.cef",
        "uid": 7,
        "user": "you",
    }


@given(
    st.dictionaries(
        st.sampled_from(
            ["bytes", "count", "format", "origin", "sha256", "to", "first", "uid", "x"]
        ),
        st.integers() | st.text(max_size=2000) | st.none(),
    )
)
def test_nothing_else_is_recorded_for_a_program_that_asks(ext: dict[str, Any]) -> None:
    try:
        said = check_said(ext)
    except ExportRefused as wrong:
        said, sentence = {}, str(wrong)
        assert sentence.endswith("use `sphragis export`.")
    assert "uid" not in said
    assert "x" not in said


# -- delivery --------------------------------------------------------------------------------------


def receiver(
    *answers: int | httpx.Response | Exception,
) -> tuple[httpx.MockTransport, list[httpx.Request]]:
    """A receiver that gives these answers in turn, and the last one for ever."""
    waiting, seen = list(answers), list[httpx.Request]()

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        now = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        if isinstance(now, Exception):
            raise now
        return httpx.Response(now, json={}) if isinstance(now, int) else now

    return httpx.MockTransport(answer), seen


def delivered(
    transport: httpx.MockTransport,
    body: bytes = b'{"a":1}\n{"b":2}\n',
    pause: Callable[[float], object] = lambda _: None,
) -> int:
    return send(io.BytesIO(body), "http://127.0.0.1:4318", transport=transport, pause=pause)


def test_each_line_is_one_request_to_the_logs_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HEADERS_VARIABLE, "authorization=Basic%20abc,broken")
    transport, seen = receiver(200)
    assert delivered(transport) == 0
    assert [str(request.url) for request in seen] == ["http://127.0.0.1:4318/v1/logs"] * 2
    assert [request.content for request in seen] == [b'{"a":1}', b'{"b":2}']
    assert seen[0].headers["content-type"] == "application/json"
    assert seen[0].headers["authorization"] == "Basic abc"


def test_busy_receivers_and_broken_connections_are_asked_again() -> None:
    pauses: list[float] = []
    busy = httpx.Response(429, headers={"retry-after": "3"})
    transport, seen = receiver(503, busy, httpx.ConnectError("no"), 200)
    assert delivered(transport, b"{}\n", pauses.append) == 0
    assert len(seen) == 4
    assert pauses == [0.5, 3.0, 2.0]


def test_the_number_of_tries_and_the_pauses_are_bounded() -> None:
    pauses: list[float] = []
    transport, seen = receiver(httpx.Response(503, headers={"retry-after": "86400"}))
    with pytest.raises(ExportRefused, match="answered 503 to request 1"):
        delivered(transport, pause=pauses.append)
    assert len(seen) == TRIES
    assert max(pauses) <= 30
    transport, seen = receiver(httpx.ConnectError("no"))
    with pytest.raises(ExportRefused, match=r"cannot be reached \(ConnectError\)"):
        delivered(transport)
    assert len(seen) == TRIES


def test_a_refusal_is_not_repeated() -> None:
    transport, seen = receiver(401)
    with pytest.raises(ExportRefused, match="answered 401"):
        delivered(transport)
    assert len(seen) == 1


def test_rejected_records_are_counted() -> None:
    body = orjson.dumps({"partialSuccess": {"rejectedLogRecords": "3"}})
    transport, _ = receiver(httpx.Response(200, content=body), 200)
    assert delivered(transport) == 3


@pytest.mark.parametrize(
    "endpoint", ["ftp://x", "127.0.0.1:4318", "", "http://", "http://x:port", "http://[x"]
)
def test_what_is_no_endpoint_is_refused(endpoint: str) -> None:
    with pytest.raises(ExportRefused, match="is not an http or https URL"):
        check_endpoint(endpoint)


def test_an_endpoint_is_shown_without_its_secrets() -> None:
    assert shown("https://me:secret@host:1/p?key=s#f") == "https://host:1/p"
    assert check_endpoint("https://host/custom?x=1") == "https://host/custom?x=1"
