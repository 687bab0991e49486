"""The nine-field format of existing gateways, with a chain that their `verify` accepts.

Owns the chain rules of that format (contracts/gateway.md section 1): numbers from 1, eight values
joined by newlines and hashed, the previous hash among them. Only forwarded calls have a line
there, so only `request` records do here. `payload_hash` holds our keyed commitment to the body,
because no plain hash of a call is ever stored. Further keys, which that verifier passes over, name
the record it is from. Called by `registry`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from shared.exports.registry import LogFacts, Rendered, Selection
from shared.ledger.reading import Item
from shared.ledger.selecting import redactions_of, role_of, task_of, text_at

ABOUT: Final = "one line per forwarded call, for the verifier of existing gateways"
SUFFIX: Final = ".jsonl"
GENESIS: Final = "0" * 64

_HASH: Final = re.compile(r"[0-9a-f]{64}")


def render(log: LogFacts, selection: Selection) -> Rendered:
    """Yield one line for each request record, numbered and chained anew."""
    previous = GENESIS
    for number, item in enumerate(selection.items("request"), start=1):
        line = entry(item, number, previous)
        previous = str(line["hash"])
        yield orjson.dumps(line) + b"\n"


def entry(item: Item, number: int, previous: str) -> dict[str, Any]:
    """Return the line of one request: the nine fields in their order, then where it is from."""
    record = item.record
    method, _, path = text_at(record, "action", "target").partition(" ")
    committed = text_at(record, "action", "args_c")
    fields: dict[str, Any] = {
        "seq": number,
        "time": rfc3339_nano(record["ts"]),
        "method": method or "POST",
        "path": path,
        "model": text_at(record, "model", "name"),
        "pii_redacted": {kind: max(n, 0) for kind, n in redactions_of(record).items()},
        "payload_hash": committed if _HASH.fullmatch(committed) else item.leaf,
        "prev_hash": previous,
    }
    fields["hash"] = entry_hash(fields)
    fields["ledger_seq"], fields["ledger_leaf"] = item.seq, item.leaf
    more = (
        ("agent", role_of(record)),
        ("task", task_of(record)),
        ("policy_digest", text_at(record, "policy", "digest")),
    )
    return fields | {name: value for name, value in more if value}


def entry_hash(fields: Mapping[str, Any]) -> str:
    """Return the hash of a line: SHA-256 over eight values joined by newlines."""
    counts = fields["pii_redacted"]
    digest = ",".join(f"{kind}={counts[kind]}" for kind in sorted(counts, key=str.encode))
    values = (
        str(fields["seq"]),
        fields["time"],
        fields["method"],
        fields["path"],
        fields["model"],
        fields["payload_hash"],
        digest,
        fields["prev_hash"],
    )
    return hashlib.sha256("\n".join(values).encode()).hexdigest()


def rfc3339_nano(microseconds: int) -> str:
    """Return a time as Go's RFC3339Nano writes it in UTC: no zeros at the end of the fraction."""
    seconds, fraction = divmod(microseconds, 1_000_000)
    try:
        whole = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):  # no year of four digits: not ours
        whole, fraction = datetime.fromtimestamp(0, UTC), 0
    digits = f".{fraction:06d}".rstrip("0").rstrip(".")
    return f"{whole:%Y-%m-%dT%H:%M:%S}{digits}Z"
