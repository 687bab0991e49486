"""Forms with files (RFC 7578): bytes to parts, and parts to bytes.

Owns the strict reading of `multipart/form-data` and the writing of a new body from the parts.
Invariants: every byte of the old body is in a part or refused; headers that two programs could read
differently are refused; the new body has a boundary that stands in none of its parts. The parser
is python-multipart's. Pure; called by the upload formats.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from gateway.wire.base import WireRefused

FORM: Final = "multipart/form-data"

#: Transfer encodings that leave the bytes as they are.
_AS_IS: Final = frozenset((b"", b"binary", b"8bit", b"7bit"))
_HEADERS: Final = frozenset(
    (b"content-disposition", b"content-type", b"content-transfer-encoding", b"content-length")
)
_MAX_PARTS: Final = 1000


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a form. `filename` is None for a plain field; `media_type` may be empty."""

    name: str
    data: bytes = field(repr=False)
    filename: str | None = field(default=None, repr=False)
    media_type: str = ""


def read_form(body: bytes, content_type: str) -> list[Part]:
    """Return the parts of a form. Raises WireRefused with code `multipart`."""
    media, options = parse_options_header(content_type)
    boundary = options.get(b"boundary", b"")
    if media.decode("latin-1").lower() != FORM or not 0 < len(boundary) <= 70:
        raise _malformed("has no boundary")
    reader = _Reader(boundary)
    try:
        taken = reader.parser.write(body)
        reader.parser.finalize()
    except FormParserError:
        raise _malformed("is not framed as RFC 7578 asks") from None
    # What stands behind the last boundary would reach the provider unread.
    last = b"\r\n--%s--" % boundary
    _, _, behind = body.partition(last)
    if not reader.is_complete or taken != len(body) or behind.strip(b"\r\n"):
        raise _malformed("does not end with its last boundary")
    if not body.startswith(b"--" + boundary):
        raise _malformed("does not begin with its boundary")
    return reader.parts


def write_form(parts: Sequence[Part]) -> tuple[bytes, str]:
    """Return the body of a form and its Content-Type."""
    boundary = secrets.token_hex(16)
    while any(boundary.encode() in part.data for part in parts):
        boundary = secrets.token_hex(16)
    out: list[bytes] = []
    for part in parts:
        line = f'Content-Disposition: form-data; name="{_quoted(part.name)}"'
        if part.filename is not None:
            line += f'; filename="{_quoted(part.filename)}"'
        if part.media_type:
            line += f"\r\nContent-Type: {part.media_type}"
        out += (f"--{boundary}\r\n{line}\r\n\r\n".encode(), part.data, b"\r\n")
    out.append(f"--{boundary}--\r\n".encode())
    return b"".join(out), f"{FORM}; boundary={boundary}"


def _quoted(text: str) -> str:
    """Escape as browsers do (WHATWG HTML section 4.10.21.8)."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


class _Reader:
    """Gathers what the parser finds."""

    def __init__(self, boundary: bytes) -> None:
        self.parts: list[Part] = []
        self.is_complete = False
        self._name = bytearray()
        self._value = bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._data: list[bytes] = []
        callbacks: Any = {
            "on_part_begin": self._begin,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_part_data": self._part_data,
            "on_part_end": self._end,
            "on_end": self._complete,
        }
        self.parser = MultipartParser(boundary, callbacks)

    def _begin(self) -> None:
        if len(self.parts) >= _MAX_PARTS:
            raise _malformed(f"has more than {_MAX_PARTS} parts")
        self._headers, self._data = {}, []

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        name = bytes(self._name).lower()
        if name in self._headers or name not in _HEADERS:
            raise _malformed("has a part with a header that no such form needs")
        self._headers[name] = bytes(self._value)
        self._name, self._value = bytearray(), bytearray()

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        self._data.append(data[start:end])

    def _end(self) -> None:
        self.parts.append(_part(self._headers, b"".join(self._data)))

    def _complete(self) -> None:
        self.is_complete = True


def _part(headers: dict[bytes, bytes], data: bytes) -> Part:
    disposition = headers.get(b"content-disposition", b"")
    kind, options = parse_options_header(disposition)
    if kind != b"form-data" or b"name" not in options or b"*=" in disposition:
        raise _malformed("has a part without a plain name")
    if headers.get(b"content-transfer-encoding", b"").strip().lower() not in _AS_IS:
        raise _malformed("has a part in a transfer encoding; send the bytes as they are")
    try:
        filename = options.get(b"filename")
        return Part(
            options[b"name"].decode(),
            data,
            None if filename is None else filename.decode(),
            headers.get(b"content-type", b"").decode("ascii").strip(),
        )
    except UnicodeDecodeError:
        raise _malformed("has a part whose headers are not UTF-8") from None


def _malformed(what: str) -> WireRefused:
    return WireRefused(
        "multipart", f"The form {what}, so it cannot be read for certain; correct the client."
    )
