"""A ledger on disk, as a stranger meets it: its records read as JSON, and one byte changed.

Owns the little that the demo knows of the files; it proves nothing by itself, the verifier does.
Only a copy is ever changed. Called by the story.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_records(ledger: Path) -> Iterator[dict[str, Any]]:
    """Read the records of a ledger; checkpoint lines, which are not records, are passed over."""
    for segment in sorted((ledger / "segments").glob("*.jsonl")):
        for line in segment.read_bytes().splitlines():
            document = json.loads(line)
            if "seq" in document:
                yield document


def change_one_byte(ledger: Path) -> tuple[int, str]:
    """Change one digit of a record's time, in the middle of the log; return (seq, what)."""
    segment = sorted((ledger / "segments").glob("*.jsonl"))[0]
    lines = segment.read_bytes().split(b"\n")
    numbered = [i for i, line in enumerate(lines) if line and "seq" in json.loads(line)]
    index = numbered[len(numbered) // 2]
    line = lines[index]
    seq: int = json.loads(line)["seq"]
    at = line.index(b'"ts":') + len(b'"ts":') + 8
    changed = line[:at] + (b"1" if line[at : at + 1] == b"0" else b"0") + line[at + 1 :]
    lines[index] = changed
    segment.chmod(0o600)
    segment.write_bytes(b"\n".join(lines))
    return seq, f"one digit of the time in record {seq}"
