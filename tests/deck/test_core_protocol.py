"""The control socket's language, tested without a socket."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck.protocol import (
    MAX_COMMAND_BYTES,
    Command,
    Framer,
    ProtocolError,
    Target,
    TargetState,
    Verb,
    delegate_ack,
    encode_command,
    error,
    ok,
    ok_rows,
    one_line,
    parse,
    parse_ack,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def framed(data: bytes, cuts: list[int]) -> bytes | None:
    framer, at = Framer(), 0
    for cut in [*sorted(min(c, len(data)) for c in cuts), len(data)]:
        done = framer.feed(data[at:cut])
        at = cut
        if done is not None:
            return done
    return None


@given(st.dictionaries(st.text(), json_values, max_size=5), st.lists(st.integers(0, 400)))
def test_an_object_is_found_wherever_the_stream_is_cut(
    document: dict[str, object], cuts: list[int]
) -> None:
    data = json.dumps(document).encode()
    assert framed(b" \n" + data + b"\ntrailing", cuts) == b" \n" + data


def byte_by_byte(data: bytes) -> bytes | None:
    """What the simplest reader takes for the object; raises ProtocolError where it sees none."""
    depth, in_string, escaped = 0, False, False
    for place, byte in enumerate(data):
        if escaped:
            escaped = False
        elif in_string:
            escaped, in_string = byte == 0x5C, byte != 0x22
        elif depth == 0 and byte not in b"{ \t\r\n":
            raise ProtocolError("no object")
        elif byte == 0x22:
            in_string = True
        elif byte in b"{[":
            depth += 1
        elif byte in b"}]":
            depth -= 1
            if depth == 0:
                return data[: place + 1]
    return None


@given(st.text('{}[]"\\ a', max_size=60), st.lists(st.integers(0, 60)))
def test_an_object_ends_where_a_reader_of_single_bytes_ends_it(text: str, cuts: list[int]) -> None:
    found: list[bytes | str | None] = []
    for reader in (byte_by_byte, lambda data: framed(data, cuts)):
        try:
            found.append(reader(text.encode()))
        except ProtocolError:
            found.append("refused")
    assert found[0] == found[1]


@given(st.binary(max_size=400), st.lists(st.integers(0, 400)))
def test_any_bytes_give_a_command_or_a_protocol_error(data: bytes, cuts: list[int]) -> None:
    with contextlib.suppress(ProtocolError):
        raw = framed(data, cuts)
        if raw is not None:
            parse(raw)


@given(json_values)
def test_any_json_value_gives_a_command_or_a_protocol_error(value: object) -> None:
    fields = {"cmd": "delegate", "to": value, "task": value, "done": value, "id": value}
    with contextlib.suppress(ProtocolError):
        parse(json.dumps(fields).encode())


@given(
    st.builds(
        Command,
        verb=st.sampled_from(Verb),
        to=st.lists(st.from_regex(r"[a-z]{1,9}", fullmatch=True), max_size=4).map(tuple),
        task=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
        done=st.booleans(),
    )
)
def test_what_is_encoded_is_what_is_parsed(command: Command) -> None:
    assert parse(encode_command(command)) == command


@pytest.mark.parametrize(
    "line",
    [
        '{"cmd":"delegate","to":["coder"],"task":"x","brief":""}\n',
        '{"Cmd":"delegate","TO":["coder"],"Task":"x","later":{"any":[1]}}',
        '{"cmd":"delegate","to":["coder"],"task":"x","report":null,"done":null}',
        '{"cmd":"ping","cmd":"delegate","to":["coder"],"task":"x"}',
    ],
)
def test_the_objects_existing_clients_send_are_read_as_their_decks_read_them(line: str) -> None:
    assert parse(line.encode()) == Command(Verb.DELEGATE, to=("coder",), task="x")


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b'{"cmd":"fly"}', "Unknown command 'fly'"),
        (b"{}", "Unknown command ''"),
        (b'{"cmd":"ping"', "not valid JSON"),
        (b'{"cmd":"ping",}', "not valid JSON"),
        (b'{"cmd":"delegate","to":"coder"}', "'to' must be a list"),
        (b'{"cmd":"delegate","to":[1]}', "'to' must be a list"),
        (b'{"cmd":"work-done","done":"yes"}', "'done' must be true or false"),
        (b'{"cmd":"work-done","task":7}', "'task' must be a string"),
        (b'{"cmd":"ping","id":NaN}', "NaN is not a JSON value"),
        (json.dumps({"cmd": "delegate", "to": ["a"] * 1001}).encode(), "at most 1000"),
        (json.dumps({"cmd": "work-done", "report": "x" * 5000}).encode(), "longer than 4096"),
        (json.dumps({"cmd": "delegate", "to": ["x" * 300]}).encode(), "longer than 256"),
    ],
)
def test_a_wrong_command_is_answered_with_what_is_wrong(raw: bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says):
        parse(raw)


@pytest.mark.parametrize("raw", [b"[]", b"ping", b'"x"', b"\x00{", b"\xff{}"])
def test_what_does_not_start_an_object_is_refused_at_once(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        Framer().feed(raw)


def test_depth_and_length_are_limited() -> None:
    with pytest.raises(ProtocolError, match="nests deeper"):
        Framer().feed(b'{"a":' + b"[" * 100_000)
    framer = Framer()
    assert framer.feed(b'{"a":"' + b"x" * (MAX_COMMAND_BYTES - 6)) is None
    with pytest.raises(ProtocolError, match="at most"):
        framer.feed(b"x")


def test_broken_unicode_is_replaced_and_nul_never_passes() -> None:
    command = parse(b'{"cmd":"work-done","task":"a\xff\\ud800b\\u0000c","id":" T1 "}')
    assert command.task == "a\ufffd\ufffdb\ufffdc"
    assert command.id == "T1"


def test_an_ack_begins_as_existing_clients_expect() -> None:
    line = delegate_ack((Target("coder", "T1", TargetState.QUEUED),))
    assert line.startswith(b'{"status":"ok"')
    assert line.endswith(b"\n")
    assert parse_ack(line)["targets"] == [
        {"to": "coder", "id": "T1", "state": "queued", "reason": ""}
    ]
    assert ok() == b'{"status":"ok"}\n'
    assert parse_ack(error("no")) == {"status": "error", "reason": "no"}


@given(st.binary(max_size=100))
def test_any_ack_can_be_read(data: bytes) -> None:
    assert isinstance(parse_ack(data), dict)


@given(st.text())
def test_what_is_typed_is_one_printable_line(text: str) -> None:
    line = one_line(text)
    assert len(line) <= 400
    assert all(c.isprintable() for c in line)


@given(st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=5) | st.integers())))
def test_rows_written_one_by_one_are_the_same_ack(rows: list[dict[str, object]]) -> None:
    assert ok_rows("gates", iter(rows)) == ok(gates=rows)
