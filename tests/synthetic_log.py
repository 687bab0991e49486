"""Logs for tests that need many records, or exactly these: written at once, without a writer.

The files are those of `shared.ledger`: records, a signed checkpoint after each batch, HEAD and
log.json; sealed segments when asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from shared.ledger.checkpoint import Checkpoint, Signer, checkpoint_line
from shared.ledger.merkle import Frontier, leaf_hash
from shared.ledger.record import NO_PREV, VERSION, encode
from shared.ledger.segment import (
    HEAD,
    LOG_JSON,
    NO_SEAL,
    SCHEMA,
    Seal,
    seal_digest,
    seal_path,
    segment_path,
)

ORIGIN = "audit.example.org/synthetic"
SIGNER = Signer(ORIGIN, bytes(range(32)))
T0 = 1_764_433_568_000_000


class SyntheticLog:
    """Appends batches to the files of a log."""

    def __init__(self, directory: Path, signer: Signer = SIGNER) -> None:
        self.directory, self.signer = directory, signer
        self.frontier, self.tip = Frontier(), NO_PREV
        self.notes: dict[int, str] = {}
        self.leaves: list[bytes] = []
        self.lines: list[bytes] = []
        self._first, self._previous = 0, NO_SEAL
        segment_path(directory, 0).parent.mkdir(parents=True)
        self.identity = {
            "created": T0,
            "origin": signer.key.name,
            "schema": SCHEMA,
            "segment_key": signer.key.vkey(),
            "vkeys": [signer.key.vkey()],
        }
        (directory / LOG_JSON).write_bytes(encode(self.identity) + b"\n")
        self.add([{"type": "genesis", "ext": self.identity}])

    @property
    def note(self) -> str:
        return self.notes[self.frontier.size]

    def add(self, records: Iterable[Mapping[str, Any]]) -> str:
        """Write one batch and its checkpoint; return the note."""
        lines = []
        for fields in records:
            seq = self.frontier.size
            record = {"v": VERSION, "seq": seq, "prev": self.tip, "ts": T0 + seq, "mono": seq}
            line = encode({**record, "boot": "b", "type": "journal", **fields})
            leaf = leaf_hash(line)
            self.tip = leaf.hex()
            self.frontier.append(leaf)
            self.leaves.append(leaf)
            self.lines.append(line)
            lines.append(line)
        size = self.frontier.size
        text = Checkpoint(self.signer.key.name, size, self.frontier.root()).text()
        note = self.notes[size] = self.signer.sign(text)
        with segment_path(self.directory, self._first).open("ab") as file:
            file.write(b"\n".join([*lines, checkpoint_line(note), b""]))
        (self.directory / HEAD).write_text(note)
        return note

    def fill(self, count: int, *, batch: int = 64) -> None:
        """Add `count` records that are nobody's."""
        for start in range(0, count, batch):
            self.add({"task": "none"} for _ in range(min(batch, count - start)))

    def seal(self) -> None:
        """End the segment: the seal says all that a pruned log still needs."""
        path = segment_path(self.directory, self._first)
        seal = Seal(
            origin=self.signer.key.name,
            first=self._first,
            size=self.frontier.size,
            root=self.frontier.root(),
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
            previous=self._previous,
            tip=self.tip,
            ts=T0 + self.frontier.size - 1,
            frontier=self.frontier.peaks(),
            open_requests=(),
        )
        note = self.signer.sign(seal.text())
        seal_path(path).write_text(note)
        self._first, self._previous = self.frontier.size, seal_digest(note)


def task_records(task: str, count: int, *, first: int, digest: str) -> Iterator[dict[str, Any]]:
    """Yield requests and their outcomes in turn, as a gateway writes them from number `first`."""
    policy = {"id": "default", "version": "1", "digest": digest, "decision": "allow"}
    for number in range(count // 2):
        call = {"id": f"call-{first}-{number}", "task": task, "run": f"run-{task}"}
        yield {
            **call,
            "type": "request",
            "actor": {"role": "coder", "key": "ab" * 8},
            "action": {"kind": "model_call", "name": "anthropic", "args_c": "cd" * 32},
            "policy": policy,
            "model": {"provider": "anthropic", "name": "model-1"},
            "ext": {"bytes": 1200, "redactions": {"EMAIL": 2}, "secret": f"<{task}>"},
        }
        yield {
            **call,
            "type": "outcome",
            "ref": first + 2 * number,
            "outcome": {
                "status": "ok",
                "http": 200,
                "usage": {"input_tokens": 10, "output_tokens": 5},
            },
            "model": {"provider": "anthropic", "name": "model-1"},
        }


def files_of(directory: Path) -> Sequence[str]:
    """Return the names of all files below a directory."""
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file())


def plain(line: bytes) -> dict[str, Any]:
    """Return a record as a reader sees it."""
    value: dict[str, Any] = orjson.loads(line)
    return value
