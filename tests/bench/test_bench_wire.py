"""What reading, walking and writing a body costs beside the standard library's JSON parser."""

from __future__ import annotations

import json
import timeit
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from gateway import wire
from gateway.redaction.restore import StreamRestorer
from gateway.wire.sse import serialise
from gateway.wire.strictjson import dumps, loads_object

pytestmark = pytest.mark.bench

FORMAT = wire.get("anthropic.messages")
CODE = "def f(x: int) -> dict[str, int]:\n    return {'a': x, \"b\": [1, 2]}  # é\n" * 100


class FindsNothing:
    """The walk alone, without an engine."""

    def text(self, s: str) -> str:
        return s

    def value(self, key: str, s: str) -> str:
        return s


def session(turns: int) -> bytes:
    """A coding session's request: tool calls and their results."""
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        call = {"type": "tool_use", "id": f"toolu_{turn:04}", "name": "Read"}
        call["input"] = {"file_path": f"/src/module_{turn}.py", "offset": turn, "ratio": 0.5}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn:04}", "content": CODE}
        messages.append({"role": "assistant", "content": [{"type": "text", "text": "Next."}, call]})
        messages.append({"role": "user", "content": [result]})
    return json.dumps({"model": "claude-x", "stream": True, "messages": messages}).encode()


def stream(pieces: int) -> bytes:
    deltas = (
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": json.dumps(f'{{"x{n}":[')[1:8]},
        }
        for n in range(pieces)
    )
    return b"".join(serialise("content_block_delta", json.dumps(delta)) for delta in deltas)


def best(work: Callable[[], object]) -> float:
    return min(timeit.repeat(work, number=1, repeat=9)) * 1000


def test_strict_reading_and_walking_stay_within_a_few_times_a_plain_parse() -> None:
    body = session(75)
    document = loads_object(body)
    events = stream(5000)
    peer = best(lambda: json.loads(body))
    rows = {
        "json.loads": peer,
        "strictjson.loads_object": best(lambda: loads_object(body)),
        "strictjson.dumps": best(lambda: dumps(document)),
        "walk of every string": best(lambda: FORMAT.redact_request(document, FindsNothing())),
    }
    table = Table(title=f"a body of {len(body) // 1000} KB, {len(events) // 1000} KB of events")
    for column in ("step", "ms", "times json.loads"):
        table.add_column(column)
    for name, took in rows.items():
        table.add_row(name, f"{took:.2f}", f"{took / peer:.1f}")
    transform = best(lambda: FORMAT.new_stream(lambda _: StreamRestorer({})).feed(events))
    lines = [line[6:] for line in events.splitlines() if line.startswith(b"data: ")]
    parse = best(lambda: [json.loads(line) for line in lines])
    table.add_row(
        "5000 events restored", f"{transform:.2f}", f"{transform / parse:.1f} (per event)"
    )
    Console().print(table)
    assert rows["strictjson.loads_object"] < 12 * peer
    assert rows["walk of every string"] < 25 * peer
    assert transform < 40 * parse
