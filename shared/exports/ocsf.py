"""OCSF 1.9 events: class 6003 `api_activity` with the profiles ai_operation and record_integrity.

Owns the mapping, written from the published schema. The attestation speaks about the record that
the event was made from, which the event carries whole in `raw_data`: its fingerprint is the leaf
hash (SHA-256 over a zero byte and those bytes), `prev_event` the leaf of the record before it in
the log, exported or not, `chain_uid` the log. What the schema has no place for is in `unmapped`.
Called by `registry`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import orjson

from shared import __version__
from shared.exports.registry import LogFacts, Rendered, Selection
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

ABOUT: Final = "OCSF 1.9 api_activity events with ai_operation and record_integrity"
SUFFIX: Final = ".ocsf.jsonl"
SCHEMA: Final = "1.9.0"
CLASS_UID: Final = 6003
CATEGORY_UID: Final = 6

_CREATE, _READ, _UPDATE, _DELETE, _OTHER = 1, 2, 3, 4, 99
_ACTIVITY: Final = {
    "request": (_CREATE, "Create"),
    "outcome": (_CREATE, "Create"),
    "deny": (_CREATE, "Create"),
    "delegate": (_CREATE, "Create"),
    "export": (_READ, "Read"),
    "policy_set": (_UPDATE, "Update"),
    "config_set": (_UPDATE, "Update"),
    "key_rotate": (_UPDATE, "Update"),
    "hold": (_UPDATE, "Update"),
    "gate_decision": (_UPDATE, "Update"),
    "revoke": (_DELETE, "Delete"),
    "erase": (_DELETE, "Delete"),
}
_INFORMATIONAL, _LOW, _MEDIUM, _HIGH = (
    (1, "Informational"),
    (2, "Low"),
    (3, "Medium"),
    (4, "High"),
)
_SEVERITY: Final = {
    "deny": _MEDIUM,
    "erase": _MEDIUM,
    "key_rotate": _MEDIUM,
    "clock_step": _MEDIUM,
    "recover": _HIGH,
    "gap": _HIGH,
}
#: Algorithm of a leaf: no number of the schema's own names it.
_LEAF_ALGORITHM: Final = {"algorithm": "RFC 6962 leaf hash (SHA-256)", "algorithm_id": 99}


def render(log: LogFacts, selection: Selection) -> Rendered:
    """Yield one event a line."""
    for item in selection.items():
        yield orjson.dumps(event_of(log, item)) + b"\n"


def event_of(log: LogFacts, item: Item) -> dict[str, Any]:
    """Return the event of one record."""
    record = item.record
    kind = text_at(record, "type")
    activity, activity_name = _ACTIVITY.get(kind, (_OTHER, kind or "Other"))
    severity, severity_name = _severity(record, kind)
    event: dict[str, Any] = {
        "activity_id": activity,
        "activity_name": activity_name,
        "category_name": "Application Activity",
        "category_uid": CATEGORY_UID,
        "class_name": "API Activity",
        "class_uid": CLASS_UID,
        "type_name": f"API Activity: {activity_name}",
        "type_uid": CLASS_UID * 100 + activity,
        "severity": severity_name,
        "severity_id": severity,
        "time": record["ts"] // 1000,
        "message": describe(record),
        "metadata": _metadata(log, item),
        "actor": _actor(log, record),
        "api": _api(record, kind),
        "src_endpoint": _source(log, record),
        "attestation": _attestation(log, item),
        "raw_data": item.line.decode(),
        "raw_data_hash": {
            "algorithm": "SHA-256",
            "algorithm_id": 3,
            "value": hashlib.sha256(item.line).hexdigest(),
        },
        "unmapped": _unmapped(item),
    }
    event |= _status(record, kind)
    event |= _ai_operation(log, record)
    took = at(record, "outcome", "dur_us")
    if type(took) is int:
        event["duration"] = took // 1000
    provider = text_at(record, "model", "provider")
    if provider:
        event["dst_endpoint"] = {"svc_name": provider}
    return event


def _severity(record: Mapping[str, Any], kind: str) -> tuple[int, str]:
    if kind == "outcome" and text_at(record, "outcome", "status") != "ok":
        return _LOW
    return _SEVERITY.get(kind, _INFORMATIONAL)


def _metadata(log: LogFacts, item: Item) -> dict[str, Any]:
    record = item.record
    metadata: dict[str, Any] = {
        "event_code": text_at(record, "type"),
        "log_name": log.origin,
        "log_provider": log.program,
        "log_version": str(record.get("v", "")),
        "original_time": str(record["ts"]),
        "product": {"name": log.program, "vendor_name": "Choragos", "version": __version__},
        "profiles": ["ai_operation", "record_integrity"],
        "sequence": item.seq,
        "uid": uid_of(log, item.seq),
        "version": SCHEMA,
    }
    ref = record.get("ref")
    own = item.seq if text_at(record, "type") == "request" else ref
    if type(own) is int:
        metadata["correlation_uid"] = uid_of(log, own)
    tenant = text_at(record, "tenant")
    if tenant:
        metadata["tenant_uid"] = tenant
    return metadata


def uid_of(log: LogFacts, seq: int) -> str:
    """Return the identifier of the event of record `seq`."""
    return f"{log.origin}:{seq}"


def _actor(log: LogFacts, record: Mapping[str, Any]) -> dict[str, Any]:
    user = {"name": role_of(record) or log.program, "type": "System", "type_id": 3}
    key = text_at(record, "actor", "key")
    if key:
        user["uid"] = key
    actor: dict[str, Any] = {"user": user}
    run = text_at(record, "run")
    if run:
        actor["session"] = {"uid": run}
    return actor


def _source(log: LogFacts, record: Mapping[str, Any]) -> dict[str, Any]:
    role = role_of(record)
    return {
        "name": role or log.program,
        "svc_name": text_at(record, "actor", "agent") or log.program,
    }


def _api(record: Mapping[str, Any], kind: str) -> dict[str, Any]:
    api: dict[str, Any] = {
        "operation": text_at(record, "action", "target")
        or text_at(record, "action", "name")
        or kind
    }
    call, http = text_at(record, "id"), at(record, "outcome", "http")
    if call:
        api["request"] = {"uid": call}
    if type(http) is int and http:
        api["response"] = {"code": http}
        cause = text_at(record, "outcome", "cause")
        if cause:
            api["response"]["error"] = cause
    name = text_at(record, "action", "name")
    if name:
        api["service"] = {"name": name}
    return api


def _status(record: Mapping[str, Any], kind: str) -> dict[str, Any]:
    codes = ", ".join(sorted(codes_of(record)))
    if kind == "deny":
        found: dict[str, Any] = {"status": "Failure", "status_id": 2}
    elif kind == "outcome":
        status = text_at(record, "outcome", "status")
        number = 1 if status == "ok" else 0 if status in ("", "unknown") else 2
        found = {"status": ("Unknown", "Success", "Failure")[number], "status_id": number}
        found["status_code"] = status or "unknown"
    else:
        return {}
    if codes:
        found["status_detail"] = codes
    return found


def _ai_operation(log: LogFacts, record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of the profile; an agent carries its model."""
    part: dict[str, Any] = {}
    provider, name = text_at(record, "model", "provider"), text_at(record, "model", "name")
    model = {"ai_provider": provider, "name": name} if provider and name else None
    role = role_of(record)
    if role:
        agent: dict[str, Any] = {"name": role, "uid": f"{log.origin}/{role}"}
        run = text_at(record, "run")
        if run:
            agent["instance_uid"] = run
        if model:
            agent["ai_model"] = model
        part["ai_agent"] = agent
    elif model:
        part["ai_model"] = model
    read, written = tokens_of(record)
    if read or written:
        part["message_context"] = {
            "ai_role_id": 2,
            "completion_tokens": written,
            "prompt_tokens": read,
            "service": {"name": provider or log.program},
            "total_tokens": read + written,
        }
    stop = text_at(record, "outcome", "stop")
    if stop:
        part |= {"stop_reason": stop, "stop_reason_id": 99}
    task = task_of(record)
    if task:
        part["delegation"] = {"issuer_uid": log.origin, "uid": task}
    return part


def _attestation(log: LogFacts, item: Item) -> dict[str, Any]:
    attestation: dict[str, Any] = {
        "authority_uid": log.vkey or log.origin,
        "chain_uid": log.log_id or log.origin,
        "fingerprint": {**_LEAF_ALGORITHM, "value": item.leaf},
        "uid": item.leaf,
    }
    previous = text_at(item.record, "prev")
    if item.seq > 0 and previous:
        attestation["prev_event"] = {
            "fingerprint": {**_LEAF_ALGORITHM, "value": previous},
            "uid": uid_of(log, item.seq - 1),
        }
    return attestation


def _unmapped(item: Item) -> dict[str, Any]:
    """Return what the schema has no place for, under our own names."""
    record = item.record
    fields: tuple[tuple[str, Any], ...] = (
        ("decision", decision_of(record)),
        ("policy_digest", text_at(record, "policy", "digest")),
        ("policy_id", text_at(record, "policy", "id")),
        ("policy_version", text_at(record, "policy", "version")),
        ("redactions", redactions_of(record)),
        ("task", task_of(record)),
        ("gate", text_at(record, "gate", "id")),
        ("operation", text_at(record, "ext", "op")),
    )
    more = {name: value for name, value in fields if value}
    return {"ledger_leaf": item.leaf, "ledger_seq": item.seq} | more
