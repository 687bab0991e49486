"""OpenTelemetry logs: ExportLogsServiceRequest in its JSON encoding, for a file or an endpoint.

Owns the mapping and that encoding's rules: 64-bit numbers are decimal text, enumerations are
numbers, names are lowerCamelCase. One line is one request of up to 512 records, so a file can be
replayed to an OTLP/HTTP endpoint line by line. Called by `registry` and `delivery`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

import orjson

from shared import __version__
from shared.exports.registry import LogFacts, Rendered, Selection
from shared.ledger.reading import Item
from shared.ledger.selecting import decision_of, role_of, task_of, text_at
from shared.ledger.words import describe

ABOUT: Final = "OpenTelemetry logs (OTLP/JSON); a file, or sent to --endpoint"
SUFFIX: Final = ".otlp.jsonl"
#: Records in one request: about 1 MiB, well under the 4 MiB that receivers commonly take.
PER_REQUEST: Final = 512
#: How deep a record's own objects may be nested as values; records have 32 at most.
_MAX_DEPTH: Final = 32

_INFO, _WARN, _ERROR = (9, "INFO"), (13, "WARN"), (17, "ERROR")
_SEVERITY: Final = {"deny": _WARN, "clock_step": _WARN, "recover": _ERROR, "gap": _ERROR}


def render(log: LogFacts, selection: Selection) -> Rendered:
    """Yield requests, one a line."""
    items = selection.items()
    while batch := list(islice(items, PER_REQUEST)):
        yield orjson.dumps(request_of(log, batch)) + b"\n"


def request_of(log: LogFacts, items: Iterable[Item]) -> dict[str, Any]:
    """Return one ExportLogsServiceRequest."""
    resource = {
        "service.name": log.program,
        "service.version": __version__,
        "service.instance.id": log.origin,
        "ledger.origin": log.origin,
        "ledger.log_id": log.log_id,
        "ledger.vkey": log.vkey,
    }
    scope = {"name": "shared.ledger", "version": __version__}
    logs = [log_record(item) for item in items]
    return {
        "resourceLogs": [
            {
                "resource": {"attributes": _attributes(resource)},
                "scopeLogs": [{"scope": scope, "logRecords": logs}],
            }
        ]
    }


def log_record(item: Item) -> dict[str, Any]:
    """Return one record as a LogRecord: its words as the body, its fields as attributes."""
    record = item.record
    kind = text_at(record, "type")
    number, name = _severity(record, kind)
    nanoseconds = str(max(record["ts"], 0) * 1000)
    known = {
        "ledger.seq": item.seq,
        "ledger.leaf": item.leaf,
        "ledger.type": kind,
        "gen_ai.provider.name": text_at(record, "model", "provider"),
        "gen_ai.request.model": text_at(record, "model", "name"),
        "session.id": text_at(record, "run"),
        "ledger.role": role_of(record),
        "ledger.task": task_of(record),
        "ledger.decision": decision_of(record),
    }
    attributes = _attributes({key: value for key, value in known.items() if value != ""})
    attributes.append({"key": "ledger.record", "value": any_value(record)})
    return {
        "timeUnixNano": nanoseconds,
        "observedTimeUnixNano": nanoseconds,
        "severityNumber": number,
        "severityText": name,
        "body": {"stringValue": describe(record)},
        "eventName": f"ledger.{kind}",
        "attributes": attributes,
    }


def _severity(record: Mapping[str, Any], kind: str) -> tuple[int, str]:
    if kind == "outcome" and text_at(record, "outcome", "status") != "ok":
        return _WARN
    return _SEVERITY.get(kind, _INFO)


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": any_value(value)} for key, value in values.items()]


def any_value(value: object, depth: int = 0) -> dict[str, Any]:
    """Return a value as OTLP's AnyValue; null is the empty value."""
    if value is None or depth > _MAX_DEPTH:
        return {}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, Mapping):
        pairs = [{"key": key, "value": any_value(item, depth + 1)} for key, item in value.items()]
        return {"kvlistValue": {"values": pairs}}
    if isinstance(value, (list, tuple)):
        return {"arrayValue": {"values": [any_value(item, depth + 1) for item in value]}}
    return {"stringValue": str(value)}
