"""The matrix: every sample, every place in it, every encoding; and what came of each.

Owns how a mark becomes a planted canary. Invariants: a canary is fresh for every cell, so that no
answer can come from a memory, and none stands in two places, so that a leak names its position.
Pure; the requests are sent by `run`.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import importlib
import json
import pkgutil
import re
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

import brotli
import zstandard

import gateway.coverage as package
from gateway.coverage.canaries import Canary, fresh, fresh_word
from gateway.coverage.sample import MARK, Sample

#: What stands at the marks in which nothing is planted.
PLAIN: Final = "word"
_BASE64: Final = re.compile(r"(?:data:[^,]*,)?([A-Za-z0-9+/]{16,}={0,2})")


class Outcome(StrEnum):
    """What came of one cell."""

    REDACTED = "redacted"
    REFUSED = "refused"
    LEAKED = "LEAKED"
    #: Nothing was planted and yet something else arrived.
    ALTERED = "ALTERED"
    #: Nothing was planted and nothing arrived.
    BLOCKED = "BLOCKED"


#: Outcomes that an installation must not have.
BAD: Final = frozenset((Outcome.LEAKED, Outcome.ALTERED, Outcome.BLOCKED))


@dataclass(frozen=True, slots=True)
class Request:
    """One request to send. planted: the values that must not arrive, by number of the position;
    expected: the document that must arrive when nothing is planted."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    planted: Mapping[int, tuple[str, ...]] = field(default_factory=dict, repr=False)
    expected: Any = field(default=None, repr=False)

    @property
    def values(self) -> tuple[str, ...]:
        """Everything that must not arrive."""
        return tuple(value for values in self.planted.values() for value in values)


@dataclass(frozen=True, slots=True)
class Position:
    """One mark of a sample. place: where it is, in words; number: its order in the sample."""

    sample: Sample
    number: int
    place: str

    @property
    def is_in_body(self) -> bool:
        """Whether text encodings apply: the mark stands in a JSON body."""
        return not self.place.startswith(("path", "query", "header")) and not isinstance(
            self.sample.body, bytes
        )


def samples() -> list[Sample]:
    """Return the samples of every module beside this one."""
    found: list[Sample] = []
    for module in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        offered = importlib.import_module(f"{package.__name__}.{module.name}")
        found += getattr(offered, "SAMPLES", ())
    return found


def positions(sample: Sample) -> list[Position]:
    """Return every mark of a sample, in order."""
    return [Position(sample, number, place) for number, place in enumerate(_places(sample))]


def clean(sample: Sample) -> Request:
    """Return the sample with nothing planted."""
    return _request(sample, _Planter(()))


# -- encodings ---------------------------------------------------------------------------------


def _escaped(body: bytes) -> bytes:
    """Write every letter of every string as an escape."""
    return _dump(json.loads(body), _all_escaped)


def _all_escaped(text: str) -> str:
    units = text.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[n : n + 4]}" for n in range(0, len(units), 4))


def _dump(node: Any, write: Callable[[str], str]) -> bytes:
    if isinstance(node, str):
        return f'"{write(node)}"'.encode()
    if isinstance(node, list):
        return b"[" + b",".join(_dump(item, write) for item in node) + b"]"
    if isinstance(node, dict):
        members = (_dump(k, write) + b":" + _dump(v, write) for k, v in node.items())
        return b"{" + b",".join(members) + b"}"
    return json.dumps(node).encode()


def _zstd(body: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(body)


#: How the bytes of a body are written: name, function, content encoding, JSON only.
BODY_ENCODINGS: Final[Mapping[str, tuple[Callable[[bytes], bytes], str, bool]]] = {
    "plain": (bytes, "", False),
    "escapes": (_escaped, "", True),
    "gzip": (gzip.compress, "gzip", False),
    "deflate": (zlib.compress, "deflate", False),
    "br": (brotli.compress, "br", False),
    "zstd": (_zstd, "zstd", False),
}
_AS_IS: Final = BODY_ENCODINGS["plain"]
#: How the planted text itself is written.
TEXT_ENCODINGS: Final[Mapping[str, Callable[[str], str]]] = {
    "json in string": lambda text: json.dumps({"note": text}),
    "json in json": lambda text: json.dumps({"log": json.dumps({"note": text})}),
    "percent": lambda text: "https://kestrel.example/?q=" + quote(text, safe=""),
}
ENCODINGS: Final = (*BODY_ENCODINGS, *TEXT_ENCODINGS)


def applies(position: Position, encoding: str) -> bool:
    """Tell whether an encoding has a meaning at a position."""
    if encoding in TEXT_ENCODINGS:
        return position.is_in_body and " key" not in position.place
    if encoding != "plain" and position.place.startswith(("path", "query", "header")):
        return False
    return position.is_in_body or not BODY_ENCODINGS[encoding][2]


def planted(chosen: Sequence[Position], encoding: str) -> Request:
    """Return a sample with a canary at each of the chosen positions of it, where the encoding
    `applies`."""
    numbers = [position.number for position in chosen]
    return _request(chosen[0].sample, _Planter(numbers, encoding))


# -- planting ----------------------------------------------------------------------------------


class _Planter:
    """Replaces marks one after another: those chosen by a canary, the others by a plain word."""

    def __init__(self, numbers: Collection[int], encoding: str = "plain") -> None:
        self.write_body, self.content_encoding, _ = BODY_ENCODINGS.get(encoding, _AS_IS)
        self.planted: dict[int, tuple[str, ...]] = {}
        self._numbers = frozenset(numbers)
        self._write_text = TEXT_ENCODINGS.get(encoding, str)
        self._at = 0

    def fill(self, text: str, *, word: bool = False) -> str:
        """Return a text with its marks replaced."""
        if MARK not in text:
            return text
        parts = text.split(MARK)
        out = [parts[0]]
        for part in parts[1:]:
            out += (self._next(word=word or (len(text) > len(MARK) and "/" in text)), part)
        return "".join(out)

    def _next(self, *, word: bool) -> str:
        number, self._at = self._at, self._at + 1
        if number not in self._numbers:
            return PLAIN
        canary: Canary = fresh_word() if word else fresh()
        self.planted[number] = canary.values
        return self._write_text(canary.text)


def _request(sample: Sample, planter: _Planter) -> Request:
    path, question, query = sample.path.partition("?")
    path = _filled_url(path, planter) + question + _filled_url(query, planter)
    headers = {name: planter.fill(value, word=True) for name, value in sample.headers.items()}
    write, expected = planter.write_body, None
    if sample.body is None:
        body = b""
    elif isinstance(sample.body, bytes):
        body = write(planter.fill(sample.body.decode()).encode())
    else:
        expected = _filled(sample.body, planter)
        body = write(json.dumps(expected).encode())
    if sample.body is not None:
        headers["content-type"] = sample.media_type
    if planter.content_encoding:
        headers["content-encoding"] = planter.content_encoding
    return Request(sample.method, path, headers, body, planter.planted, expected)


def _filled_url(text: str, planter: _Planter) -> str:
    return "".join(
        quote(planter.fill(part, word=True), safe="") if MARK in part else part
        for part in re.split(f"({re.escape(MARK)})", text)
    )


def _filled(node: Any, planter: _Planter) -> Any:
    if isinstance(node, str):
        inside = _base64_text(node)
        if inside is None:
            document = _json_text(node)
            if document is not None:
                return json.dumps(_filled(document, planter))
            return planter.fill(node)
        head, text = inside
        return head + base64.b64encode(planter.fill(text).encode()).decode()
    if isinstance(node, list):
        return [_filled(item, planter) for item in node]
    if isinstance(node, dict):
        return {planter.fill(k, word=True): _filled(v, planter) for k, v in node.items()}
    return node


def _json_text(text: str) -> Any:
    """Return the document of a JSON text that holds marks, or None."""
    if text[:1] not in ("{", "[") or MARK not in text:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


@lru_cache(maxsize=4096)
def _base64_text(text: str) -> tuple[str, str] | None:
    """Return what stands before a base64 text that holds marks, and the text, or None."""
    found = _BASE64.fullmatch(text)
    if found is None:
        return None
    try:
        decoded = base64.b64decode(found[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (text[: found.start(1)], decoded) if MARK in decoded else None


def _places(sample: Sample) -> Iterator[str]:
    """Name every mark in the order in which `_request` meets them."""
    path, _, query = sample.path.partition("?")
    yield from ["path"] * path.count(MARK)
    yield from ["query"] * query.count(MARK)
    for name, value in sample.headers.items():
        yield from [f"header {name}"] * value.count(MARK)
    if isinstance(sample.body, bytes):
        parts = sample.body.decode().split(MARK)
        for number in range(1, len(parts)):
            yield f"body part {number}"
    elif sample.body is not None:
        yield from _places_in(sample.body, "")


def _places_in(node: Any, where: str) -> Iterator[str]:
    if isinstance(node, str):
        inside = _base64_text(node)
        note = " base64" if inside else ""
        yield from [where.removeprefix(".") + note] * (inside[1] if inside else node).count(MARK)
    elif isinstance(node, list):
        for number, item in enumerate(node):
            yield from _places_in(item, f"{where}[{number}]")
    elif isinstance(node, dict):
        for name, value in node.items():
            shown = name.replace(MARK, "*")
            yield from [f"{where}.{shown} key".removeprefix(".")] * name.count(MARK)
            yield from _places_in(value, f"{where}.{shown}")
