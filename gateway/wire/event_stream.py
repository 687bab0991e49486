"""AWS event stream: the binary framing of streamed answers of Amazon Bedrock.

Owns the codec of a message: a prelude of total length, header length and CRC-32 of both; headers;
a payload; a CRC-32 over everything before it (all big-endian). Invariants: a message whose lengths
or checksums do not fit is refused, because nothing after it can be trusted; the raw bytes of all
messages are the stream, so one that needs no change is passed on untouched; one that is written
anew keeps its headers. Source: the event stream encoding of the Amazon Transcribe and SDK
documentation. Called by the stream transformers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

from gateway.wire.base import WireRefused
from gateway.wire.stream import Frame
from gateway.wire.strictjson import read_answer, write_answer

EVENT_STREAM_BINARY: Final = "application/vnd.amazon.eventstream"

#: Limits of the AWS SDKs: headers of 128 KiB, payloads of 24 MiB.
MAX_HEADERS: Final = 128 * 1024
MAX_PAYLOAD: Final = 24 * 1024 * 1024

_PRELUDE: Final = struct.Struct("!III")
_CRC: Final = struct.Struct("!I")
_STRING: Final = 7
#: Bytes of a header value by its type; None: two bytes of length come first.
_SIZES: Final[Mapping[int, int | None]] = {
    0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 6: None, _STRING: None, 8: 8, 9: 16
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class EventMessage:
    """One message. headers: those with text values; head: all headers as they were sent."""

    headers: Mapping[str, str]
    head: bytes
    payload: bytes
    raw: bytes

    @property
    def event(self) -> str:
        """The kind of event, or of exception."""
        return self.headers.get(":event-type") or self.headers.get(":exception-type", "")

    @property
    def failure(self) -> str:
        """What went wrong, for a message that says so; else empty."""
        kind = self.headers.get(":message-type")
        if kind == "exception":
            return self.headers.get(":exception-type") or "exception"
        return (self.headers.get(":error-code") or "error") if kind == "error" else ""


def encode(head: bytes, payload: bytes) -> bytes:
    """Return a message of encoded headers and a payload."""
    prelude = struct.pack("!II", len(head) + len(payload) + 16, len(head))
    body = prelude + _CRC.pack(crc32(prelude)) + head + payload
    return body + _CRC.pack(crc32(body))


def encode_headers(headers: Mapping[str, str]) -> bytes:
    """Return headers with text values encoded."""
    out: list[bytes] = []
    for name, value in headers.items():
        raw_name, raw = name.encode(), value.encode()
        out += (
            bytes((len(raw_name),)),
            raw_name,
            bytes((_STRING,)),
            len(raw).to_bytes(2, "big"),
            raw,
        )
    return b"".join(out)


class EventStreamParser:
    """Feed bytes, read messages. Keeps at most one unfinished message."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._broken: WireRefused | None = None

    def feed(self, data: bytes) -> list[EventMessage]:
        """Return the messages that `data` completes. Raises WireRefused for a broken one, once
        those before it were returned."""
        self.close()
        self._buffer += data
        messages: list[EventMessage] = []
        try:
            while (message := self._next()) is not None:
                messages.append(message)
        except WireRefused as broken:
            self._broken = broken
            if not messages:
                raise
        return messages

    def close(self) -> None:
        """Raise WireRefused if a message was broken."""
        if self._broken is not None:
            raise self._broken

    def _next(self) -> EventMessage | None:
        if len(self._buffer) < _PRELUDE.size:
            return None
        total, head_size, crc = _PRELUDE.unpack_from(self._buffer)
        payload_size = total - head_size - _PRELUDE.size - _CRC.size
        # The checksum first: lengths of a broken prelude would have us wait for ever.
        if crc != crc32(self._buffer[:8]):
            raise _broken("checksum of a message's beginning")
        if head_size > MAX_HEADERS or not 0 <= payload_size <= MAX_PAYLOAD:
            raise _broken("length of a message")
        if len(self._buffer) < total:
            return None
        raw = bytes(self._buffer[:total])
        del self._buffer[:total]
        if _CRC.unpack_from(raw, total - _CRC.size)[0] != crc32(raw[: -_CRC.size]):
            raise _broken("checksum of a message")
        head = raw[_PRELUDE.size : _PRELUDE.size + head_size]
        return EventMessage(_headers(head), head, raw[_PRELUDE.size + head_size : -4], raw)


def _headers(head: bytes) -> dict[str, str]:
    """Return the headers that are text; the others are only stepped over."""
    found: dict[str, str] = {}
    try:
        at = 0
        while at < len(head):
            name_end = at + 1 + head[at]
            name, kind, at = head[at + 1 : name_end].decode(), head[name_end], name_end + 1
            size = _SIZES[kind]
            if size is None:
                size = int.from_bytes(head[at : at + 2], "big")
                at += 2
            value, at = head[at : at + size], at + size
            if kind == _STRING:
                found[name] = value.decode()
        if at != len(head):
            raise IndexError
    except (IndexError, KeyError, UnicodeDecodeError):
        raise _broken("headers of a message") from None
    return found


def _broken(what: str) -> WireRefused:
    return WireRefused("event_stream", f"The provider's event stream is broken: the {what} is off.")


@dataclass(frozen=True, slots=True)
class EventFrame:
    """A message and the document in it: by default `{kind of event: payload}`."""

    message: EventMessage
    document: Any

    @property
    def raw(self) -> bytes:
        """The message's bytes."""
        return self.message.raw

    def rewritten(self, document: Any) -> bytes:
        """Return the message with another payload."""
        return encode(self.message.head, write_answer(next(iter(document.values()))))

    @property
    def plain(self) -> str | None:
        """The payload, when it is no document but text."""
        if self.document is not None or not self.message.payload:
            return None
        try:
            return self.message.payload.decode()
        except UnicodeDecodeError:
            return None

    def retold(self, text: str) -> bytes:
        """Return the message with another text as its payload."""
        return encode(self.message.head, text.encode())


class EventStreamFraming:
    """Messages whose payloads are JSON documents."""

    def __init__(self) -> None:
        self._parser = EventStreamParser()

    def feed(self, data: bytes) -> Sequence[Frame]:
        """Return the messages that `data` completes. Raises WireRefused for a broken one."""
        return [self.frame(message) for message in self._parser.feed(data)]

    def close(self) -> Sequence[Frame]:
        """Return nothing: an unfinished message has no checksum. Raises WireRefused if one was
        broken."""
        self._parser.close()
        return ()

    def frame(self, message: EventMessage) -> Frame:
        """Return the message with its document."""
        document = payload_of(message)
        named = message.event and document is not None
        return EventFrame(message, {message.event: document} if named else None)

    def write(self, document: Any) -> bytes:
        """Return a new message of a document `{kind of event: payload}`."""
        kind, payload = next(iter(document.items()))
        return encode(event_head(kind), write_answer(payload))


def payload_of(message: EventMessage) -> Any:
    """Return the document a message carries, or None when it carries none."""
    try:
        return read_answer(message.payload)
    except WireRefused:
        return None


def event_head(kind: str) -> bytes:
    """Return the headers of an event with a JSON payload."""
    return encode_headers(
        {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    )
