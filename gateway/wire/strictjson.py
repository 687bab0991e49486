"""Strict JSON: bytes to a Python structure and back, without losing or guessing anything.

Two parsers that read the same bytes differently are a leak, so everything on which parsers differ
is refused: duplicate keys, invalid UTF-8, lone surrogates, a byte order mark, NaN and Infinity,
trailing bytes, nesting beyond a limit. What is accepted survives exactly in value: key order,
integers of any size and the spelling of every other number (`Number`). Output is compact UTF-8.
Answers are read first strictly and else as a client would (`read_answer`): they are passed on, not
judged, and a provider's odd number must not cost the client the whole answer.
Called by the scanning workers for requests and by the formats for answers and stream events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NoReturn

import orjson

from gateway.wire.base import Location, WireRefused

#: Nesting accepted in a body. The deepest real request seen (nested tool schemas) is below 30; the
#: bound keeps recursive walkers far from Python's recursion limit and orjson's 254.
MAX_DEPTH: Final = 128

#: Longest integer text read as an `int`; longer ones keep their text (orjson writes 64 bits).
_INT_DIGITS: Final = 18

_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


#: Made once: `dict | list` in a loop over a whole conversation takes longer than the test.
_NESTING: Final = (dict, list)
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
#: Flaws that do not keep a client from reading an answer.
_HARMLESS: Final = frozenset(
    ("duplicate_key", "lone_surrogate", "not_a_number", "byte_order_mark", "invalid_utf8")
)


class Number:
    """A JSON number kept as it was written: `1.0`, `1e0`, `-0`, or an integer beyond 64 bits."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return f"Number({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and other.text == self.text

    def __hash__(self) -> int:
        return hash((Number, self.text))


class Pairs(list[tuple[str, Any]]):
    """An object as its members in order, duplicates included (`loads_pairs`)."""


class _DuplicateKey(Exception):
    pass


class _Flawed(list[tuple[str, Any]]):
    """An object with a duplicate key, kept while looking for its place."""


def loads(data: bytes, *, max_depth: int = MAX_DEPTH) -> Any:
    """Return the structure of a JSON text (RFC 8259). Raises WireRefused with the place."""
    text = _text(data)
    try:
        document = _parse(text, _unique)
    except _DuplicateKey:
        raise _duplicate(text) from None
    # So many brackets must open for it to be nested so deeply.
    if data.count(b"{") + data.count(b"[") > max_depth:
        check_depth(document, max_depth)
    if _SURROGATE_ESCAPE.search(text):
        _refuse_surrogates(document, Location())
    return document


def read_answer(data: bytes) -> Any:
    """Return the structure of a JSON text from a provider. Raises WireRefused when it is none.

    What only a strict reader minds is kept: NaN and Infinity, half surrogate pairs, a byte order
    mark. Of a key that occurs twice the last value counts, as for every common parser.
    """
    try:
        return loads(data)
    except WireRefused as refused:
        if refused.code not in _HARMLESS:
            raise
    text = data.removeprefix(_BYTE_ORDER_MARK).decode("utf-8", "replace")
    try:
        document = json.loads(text, parse_int=_integer, parse_float=Number, parse_constant=Number)
    except (ValueError, RecursionError):
        raise WireRefused("invalid_json", "The answer is not valid JSON.") from None
    check_depth(document, MAX_DEPTH)
    return document


def glance(data: bytes) -> Any:
    """Return what `read_answer` does of an answer that is only looked at, never written: its
    numbers beyond 64 bits and with a fraction are Python's. Raises WireRefused."""
    if data.count(b"[") + data.count(b"{") > MAX_DEPTH:  # it may be nested too deeply
        return read_answer(data)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return read_answer(data)


def write_answer(document: Any) -> bytes:
    """Return what `dumps` would, for a document that `read_answer` returned."""
    try:
        return dumps(document)
    except WireRefused:
        return dumps(_with_halves(document))


def loads_object(data: bytes, *, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Return the structure of a request body, which must be one JSON object."""
    document = loads(data, max_depth=max_depth)
    if not isinstance(document, dict):
        raise WireRefused(
            "not_an_object",
            "The body is JSON but not an object; send one JSON object as the API describes.",
        )
    return document


def loads_pairs(text: str) -> Any:
    """Parse JSON found inside a string, objects as `Pairs`. Raises ValueError or RecursionError.

    Text is not a message: duplicates and lone surrogates are somebody's data here, and are kept.
    """
    return _read(text, Pairs)


def dumps(document: Any) -> bytes:
    """Return compact UTF-8 JSON with the order, numbers and strings of the structure.

    Raises WireRefused when a string cannot be written as UTF-8.
    """
    try:
        return orjson.dumps(document, default=_default)
    except (TypeError, ValueError, RecursionError) as error:
        raise WireRefused(
            "not_serialisable", "The scanned structure cannot be written as JSON."
        ) from error


def escape(text: str) -> str:
    """Return `text` as it stands inside a JSON string literal, without the quotes."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def check_depth(document: Any, limit: int) -> None:
    """Refuse a structure nested deeper than `limit`; iterative, so any depth is safe to test."""
    level = [document] if isinstance(document, _NESTING) else []
    depth = 0
    while level:
        depth += 1
        if depth > limit:
            raise _too_deep(limit)
        below: list[Any] = []
        for node in level:
            values = node.values() if isinstance(node, dict) else node
            below += [value for value in values if isinstance(value, _NESTING)]
        level = below


def _text(data: bytes) -> str:
    if data.startswith((_BYTE_ORDER_MARK, b"\xff\xfe", b"\xfe\xff")):
        raise WireRefused(
            "byte_order_mark", "The body begins with a byte order mark; send plain UTF-8 JSON."
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireRefused(
            "invalid_utf8",
            f"The body is not valid UTF-8 at byte {error.start}; send UTF-8 JSON.",
        ) from None


def _parse(text: str, hook: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    try:
        return _read(text, hook)
    except json.JSONDecodeError as error:
        code = "trailing_bytes" if error.msg == "Extra data" else "invalid_json"
        what = "has more text after its end" if code == "trailing_bytes" else "is not valid JSON"
        raise WireRefused(
            code,
            f"The body {what} at line {error.lineno}, column {error.colno}; "
            "send exactly one JSON object.",
        ) from None
    except RecursionError:
        raise _too_deep(MAX_DEPTH) from None


def _read(text: str, hook: Callable[[list[tuple[str, Any]]], Any]) -> Any:
    return _decoder(hook).decode(text)


@cache
def _decoder(hook: Callable[[list[tuple[str, Any]]], Any]) -> json.JSONDecoder:
    """`json.loads` makes one for every text, which costs a small one more than reading it."""
    return json.JSONDecoder(
        object_pairs_hook=hook,
        parse_int=_integer,
        parse_float=Number,
        parse_constant=_constant,
    )


def _integer(text: str) -> int | Number:
    return int(text) if len(text) <= _INT_DIGITS and text != "-0" else Number(text)


def _constant(name: str) -> NoReturn:
    raise WireRefused(
        "not_a_number",
        f"The body holds {name}, which is not JSON; send a number, a string or null.",
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise _DuplicateKey
    return document


def _keep_flaw(pairs: list[tuple[str, Any]]) -> Any:
    document = dict(pairs)
    return document if len(document) == len(pairs) else _Flawed(pairs)


def _duplicate(text: str) -> WireRefused:
    place = _find_flaw(_parse(text, _keep_flaw), Location())
    return WireRefused(
        "duplicate_key",
        f"A key occurs twice in the object at {place}; parsers disagree on which value counts. "
        "Send each key once.",
        str(place),
    )


def _find_flaw(node: Any, place: Location) -> Location | None:
    if isinstance(node, _Flawed):
        return place
    for step, value in _members(node, place):
        found = _find_flaw(value, step)
        if found is not None:
            return found
    return None


def _refuse_surrogates(node: Any, place: Location) -> None:
    if isinstance(node, str):
        if _SURROGATE.search(node):
            raise WireRefused(
                "lone_surrogate",
                f"The string at {place} holds half of a surrogate pair, which is not text; "
                "send whole characters.",
                str(place),
            )
        return
    if isinstance(node, dict) and any(_SURROGATE.search(key) for key in node):
        raise WireRefused(
            "lone_surrogate",
            f"A key of the object at {place} holds half of a surrogate pair, which is not text; "
            "send whole characters.",
            str(place),
        )
    for step, value in _members(node, place):
        _refuse_surrogates(value, step)


def _with_halves(node: Any) -> Any:
    """Return a structure whose strings with half a surrogate pair are written as escapes."""
    if isinstance(node, str):
        return orjson.Fragment(json.dumps(node)) if _SURROGATE.search(node) else node
    if isinstance(node, list):
        return [_with_halves(item) for item in node]
    if isinstance(node, dict):
        return {_SURROGATE.sub("\ufffd", k): _with_halves(v) for k, v in node.items()}
    return node


def _members(node: Any, place: Location) -> list[tuple[Location, Any]]:
    if isinstance(node, dict):
        return [(place.key(k, n), v) for n, (k, v) in enumerate(node.items())]
    if isinstance(node, list):
        return [(place.index(n), v) for n, v in enumerate(node)]
    return []


def _too_deep(limit: int) -> WireRefused:
    return WireRefused(
        "too_deep", f"The body nests deeper than {limit} levels; send a flatter structure."
    )


def _default(value: Any) -> Any:
    if isinstance(value, Number):
        return orjson.Fragment(value.text.encode("ascii"))
    raise TypeError
