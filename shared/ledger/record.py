"""One record: its fields, its exact bytes, and the strict reading of them.

Owns the line format (contracts/ledger.md section 2.1). Invariant: `encode` gives the one
canonical form (RFC 8785 for our records: sorted ASCII keys, no floats, integers below 2^53), and
`parse` accepts nothing else, so a line that parses is the line that was written. The leaf of the
tree is the hash of these bytes; nobody re-serializes to hash. Pure. Called by `log`, `recovery`,
`verify`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Any, Final

import orjson

from shared.ledger.errors import RecordRefused

#: Version of the record format; a reader refuses any other.
VERSION: Final = 1
#: Longest record line in bytes. C2SP tlog-tiles gives an entry a 16-bit length; 60 KiB keeps clear.
MAX_LINE: Final = 60 * 1024
#: `prev` of the first record.
NO_PREV: Final = "0" * 64
#: Integers stay exact in every JSON reader below this (RFC 8785 section 3.1, I-JSON).
INT_LIMIT: Final = 1 << 53
#: Deeper nesting than this is nobody's record, and orjson itself stops at 254.
MAX_DEPTH: Final = 32


class RecordType(StrEnum):
    """The kinds of records. JOURNAL carries a change of deck state that no other kind names."""

    GENESIS = "genesis"
    START = "start"
    STOP = "stop"
    REQUEST = "request"
    OUTCOME = "outcome"
    DENY = "deny"
    GATE_OPEN = "gate_open"
    GATE_DECISION = "gate_decision"
    DELEGATE = "delegate"
    REVOKE = "revoke"
    POLICY_SET = "policy_set"
    CONFIG_SET = "config_set"
    KEY_ROTATE = "key_rotate"
    SEAL = "seal"
    ANCHOR = "anchor"
    ERASE = "erase"
    HOLD = "hold"
    EXPORT = "export"
    RECOVER = "recover"
    CLOCK_STEP = "clock_step"
    HEARTBEAT = "heartbeat"
    GAP = "gap"
    JOURNAL = "journal"


#: Kinds that only the log itself may write: they state facts about the log.
OWN_TYPES: Final = frozenset(
    {
        RecordType.GENESIS,
        RecordType.SEAL,
        RecordType.RECOVER,
        RecordType.CLOCK_STEP,
        RecordType.KEY_ROTATE,
    }
)

#: Fields that the writer assigns.
WRITER_FIELDS: Final = frozenset({"v", "seq", "prev", "ts", "mono", "boot", "type"})

#: Fields that the caller may give, and the type of each.
CALLER_FIELDS: Final[Mapping[str, type]] = {
    "id": str,
    "ref": int,
    "task": str,
    "run": str,
    "tenant": str,
    "actor": dict,
    "obo": list,
    "action": dict,
    "policy": dict,
    "gate": dict,
    "evidence": list,
    "model": dict,
    "outcome": dict,
    "retention": dict,
    "ext": dict,
}

_CANONICAL: Final = orjson.OPT_SORT_KEYS | orjson.OPT_STRICT_INTEGER
#: The longest that the writer's own fields can be: numbers of 16 digits, names and punctuation.
_OWN_BYTES: Final = 320

_KIND_NAMES: Final = {str: "text", int: "a whole number", dict: "an object", list: "a list"}
#: The names of all kinds.
TYPE_NAMES: Final = frozenset(kind.value for kind in RecordType)
#: A number with a fraction or an exponent, outside of a string or (seldom) inside one.
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_MAYBE_FLOAT: Final = re.compile(rb"[:,\[]-?[0-9]+[.eE]")


class LineRefused(ValueError):
    """A stored line that is not a record; the text says why, without quoting the line."""


def copy_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checked deep copy of what a caller wants recorded; None means absent.

    The copy is what will be written: later changes to the original have no effect. Raises
    RecordRefused naming the field when something has no exact place in a record.
    """
    copy: dict[str, Any] = {}
    for name, value in fields.items():
        if value is None:
            continue
        kind = CALLER_FIELDS.get(name)
        if kind is None:
            raise RecordRefused(_unknown_field(name))
        copied = _copy_value(value, name, 0)
        if type(copied) is not kind:
            raise RecordRefused(
                f'The record field "{name}" must be {_KIND_NAMES[kind]}, '
                f"not {type(value).__name__}; nothing was recorded."
            )
        copy[name] = copied
    try:
        size = len(orjson.dumps(copy, option=_CANONICAL)) + _OWN_BYTES
    except (TypeError, ValueError) as error:  # text that is not Unicode: a lone surrogate
        raise RecordRefused(
            "The record holds text that is not valid Unicode; replace it before recording."
        ) from error
    if size > MAX_LINE:
        raise RecordRefused(
            f"The record takes {size} bytes, the limit is {MAX_LINE}; keep a commitment to large "
            "content in the record and the content elsewhere."
        )
    return copy


def _unknown_field(name: object) -> str:
    if name in WRITER_FIELDS:
        return f'The record field "{name}" is set by the ledger; leave it out.'
    shown = name if isinstance(name, str) and name.isidentifier() and len(name) < 40 else "?"
    return f'A record has no field "{shown}"; put it under "ext".'


def _copy_value(value: Any, where: str, depth: int) -> Any:
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return value
    if kind is int:
        if -INT_LIMIT < value < INT_LIMIT:
            return value
        raise RecordRefused(
            f'The number in the record field "{where}" is 2^53 or more; record it as text.'
        )
    if depth >= MAX_DEPTH:
        raise RecordRefused(f'The record field "{where}" is nested too deeply; flatten it.')
    if kind is dict or isinstance(value, Mapping):  # the first test is fast and nearly always true
        return {
            (key if type(key) is str and key.isascii() else _checked_key(key, where)): (
                item if type(item) is str else _copy_value(item, where, depth + 1)
            )
            for key, item in value.items()
        }
    if kind is list or kind is tuple:
        return [_copy_value(item, where, depth + 1) for item in value]
    if isinstance(value, Enum) or (isinstance(value, (str, int)) and kind is not bool):
        plain = (
            value.value
            if isinstance(value, Enum)
            else (str.__str__(value) if isinstance(value, str) else int(value))
        )
        return _copy_value(plain, where, depth + 1)
    if kind is float:
        raise RecordRefused(
            f'The record field "{where}" holds a fractional number; record a whole number '
            "in a smaller unit, or text."
        )
    raise RecordRefused(
        f'The record field "{where}" holds a {kind.__name__}, which a record cannot hold; '
        "use text, whole numbers, true, false, lists and objects."
    )


def _checked_key(key: object, where: str) -> str:
    if isinstance(key, StrEnum) and key.value.isascii():
        return key.value
    raise RecordRefused(f'A name inside the record field "{where}" is not plain ASCII; rename it.')


def encode(record: Mapping[str, Any]) -> bytes:
    """Return the canonical line of a complete record, without the newline."""
    return orjson.dumps(record, option=_CANONICAL)


def parse(line: bytes) -> dict[str, Any]:
    """Return the record of a stored line (without newline).

    Raises LineRefused when the line is anything but the canonical form of a version 1 record:
    not UTF-8, duplicate keys, other key order or spacing, floats, integers of 2^53 or more.
    """
    try:
        record = orjson.loads(line)
    except (ValueError, RecursionError) as error:
        raise LineRefused("it is not JSON") from error
    if type(record) is not dict:
        raise LineRefused("it is not a JSON object")
    if record.get("v") != VERSION or type(record["v"]) is not int:
        raise LineRefused("its version is not known to this program")
    if not is_canonical(record, line):
        raise LineRefused("its bytes are not in the canonical form")
    problem = shape_problem(record)
    if problem:
        raise LineRefused(problem)
    return record


def is_canonical(value: object, line: bytes) -> bool:
    """Tell whether `line` is exactly how `value`, parsed from it, is written.

    A duplicate key, another order or spacing changes the bytes, an integer of 2^53 or more does
    not serialize; only floats need a look of their own.
    """
    try:
        if orjson.dumps(value, option=_CANONICAL) != line:
            return False
    except (TypeError, ValueError):
        return False
    return _MAYBE_FLOAT.search(line) is None or not _has_float(value)


def _has_float(value: object) -> bool:
    if type(value) is dict:
        return any(map(_has_float, value.values()))
    if type(value) is list:
        return any(map(_has_float, value))
    return type(value) is float


def shape_problem(record: Mapping[str, Any]) -> str:
    """Return what is wrong with the fields the log itself relies on, or an empty string."""
    for name in ("seq", "ts"):
        value = record.get(name)
        if type(value) is not int or value < 0:
            return f'its field "{name}" is missing or not a number'
    prev = record.get("prev")
    if type(prev) is not str or not _HASH.fullmatch(prev):
        return 'its field "prev" is missing or not a hash'
    kind = record.get("type")
    if type(kind) is not str or kind not in TYPE_NAMES:
        return "its type is not known to this program"
    return ""
