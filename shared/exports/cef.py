"""ArcSight Common Event Format, one line per record, for syslog pipelines.

Owns the mapping and the two escapings of CEF: in the header a backslash and a pipe, in a value a
backslash, an equals sign and line breaks. Invariant: a line holds no raw control character, so no
record can begin a second line or a field of its own. Called by `registry`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from shared import __version__
from shared.exports.registry import LogFacts, Rendered, Selection
from shared.ledger.plain import harmless
from shared.ledger.reading import Item
from shared.ledger.selecting import (
    at,
    codes_of,
    decision_of,
    redactions_of,
    role_of,
    task_of,
    text_at,
    tokens_of,
)
from shared.ledger.words import describe

ABOUT: Final = "ArcSight Common Event Format lines"
SUFFIX: Final = ".cef"
VENDOR: Final = "Choragos"

#: CEF severity 0-10 by what happened; everything else is 1.
_SEVERITY: Final = {
    "deny": 5,
    "gate_open": 3,
    "gate_decision": 3,
    "policy_set": 4,
    "config_set": 4,
    "key_rotate": 5,
    "erase": 5,
    "hold": 4,
    "export": 4,
    "recover": 8,
    "gap": 8,
    "clock_step": 6,
}
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def render(log: LogFacts, selection: Selection) -> Rendered:
    """Yield one line for each record."""
    for item in selection.items():
        yield line_of(log, item).encode("utf-8", "replace") + b"\n"


def line_of(log: LogFacts, item: Item) -> str:
    """Return the CEF line of one record."""
    record = item.record
    kind = text_at(record, "type")
    severity = _SEVERITY.get(kind, 1)
    if text_at(record, "outcome", "status") not in ("", "ok", "refused"):
        severity = max(severity, 4)
    header = (VENDOR, log.program, __version__, kind or "record", describe(record)[:512])
    start = "|".join(["CEF:0", *map(in_header, header), str(severity)])
    return f"{start}|{' '.join(f'{key}={in_value(value)}' for key, value in _pairs(log, item))}"


def _pairs(log: LogFacts, item: Item) -> Iterator[tuple[str, Any]]:
    record = item.record
    read, written = tokens_of(record)
    took = at(record, "outcome", "dur_us")
    pairs: tuple[tuple[str, Any], ...] = (
        ("rt", record["ts"] // 1000),
        ("externalId", item.seq),
        ("suser", role_of(record)),
        ("act", decision_of(record) or text_at(record, "outcome", "status")),
        ("outcome", text_at(record, "outcome", "status")),
        ("reason", ",".join(sorted(codes_of(record)))),
        ("request", text_at(record, "action", "target")),
        ("app", text_at(record, "action", "name")),
        ("destinationServiceName", text_at(record, "model", "provider")),
        ("cs1Label", "leaf"),
        ("cs1", item.leaf),
        ("cs2Label", "task"),
        ("cs2", task_of(record)),
        ("cs3Label", "session"),
        ("cs3", text_at(record, "run")),
        ("cs4Label", "model"),
        ("cs4", text_at(record, "model", "name")),
        ("cs5Label", "policyDigest"),
        ("cs5", text_at(record, "policy", "digest")),
        ("cs6Label", "log"),
        ("cs6", log.origin),
        ("cn1Label", "redactions"),
        ("cn1", sum(redactions_of(record).values()) or ""),
        ("cn2Label", "tokens"),
        ("cn2", read + written or ""),
        ("cn3Label", "durationMs"),
        ("cn3", took // 1000 if type(took) is int else ""),
        ("msg", describe(record)),
    )
    filled = {key for key, value in pairs if value != ""}
    for key, value in pairs:
        # A label stands only before a value.
        if value != "" and (not key.endswith("Label") or key.removesuffix("Label") in filled):
            yield key, value


def in_header(text: str) -> str:
    """Escape a header field."""
    return _CONTROL.sub(" ", text.replace("\\", "\\\\").replace("|", "\\|"))


def in_value(value: object) -> str:
    """Escape an extension value: line breaks stay readable, other controls become visible."""
    text = str(value).replace("\\", "\\\\").replace("=", "\\=")
    text = text.replace("\r", "\\r").replace("\n", "\\n")
    return _CONTROL.sub(lambda match: "\\" + harmless(match[0]), text)
