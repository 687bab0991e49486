"""What a verification says: findings with record numbers, and one status for the exit code.

Invariant: the status follows from the findings alone, so nothing can be found and yet pass.
Made by `verify`; printed by the programs' own commands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

#: A damaged log can have a finding per line; this many are kept, the rest are counted.
MAX_FINDINGS: Final = 200


class Status(StrEnum):
    """The answer, in the words of contracts/ledger.md section 2.10."""

    OK = "ok"
    TAMPERED = "tampered"
    INCOMPLETE = "incomplete"
    USAGE = "usage"

    @property
    def exit_code(self) -> int:
        """What a command exits with."""
        return _EXIT_CODES[self]


_EXIT_CODES: Final = {Status.OK: 0, Status.TAMPERED: 1, Status.INCOMPLETE: 2, Status.USAGE: 3}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `seq` is the number of the record it is about, if it is one;
    `means` is what it makes of the whole verdict."""

    code: str
    seq: int | None
    sentence: str
    means: Status = Status.TAMPERED


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a verification. `notes` are worth knowing and change nothing."""

    status: Status
    records: int = 0
    findings: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()
    more: int = 0
    origin: str = ""
    root: str = ""
    checkpoint: str = ""
    vkey: str = ""

    @property
    def exit_code(self) -> int:
        """0 ok, 1 tampered, 2 incomplete, 3 not a ledger."""
        return self.status.exit_code

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as plain values for JSON output."""
        return {
            "status": self.status.value,
            "records": self.records,
            "origin": self.origin,
            "root": self.root,
            "checkpoint": self.checkpoint,
            "vkey": self.vkey,
            "findings": [_plain(finding) for finding in self.findings],
            "findings_not_shown": self.more,
            "notes": [_plain(note) for note in self.notes],
        }


def _plain(finding: Finding) -> dict[str, Any]:
    return {"code": finding.code, "seq": finding.seq, "sentence": finding.sentence}


def status_of(findings: Iterable[Finding]) -> Status:
    """Return the status that findings amount to: any tampering outweighs any gap."""
    means = {finding.means for finding in findings}
    for status in (Status.USAGE, Status.TAMPERED, Status.INCOMPLETE):
        if status in means:
            return status
    return Status.OK


class Findings:
    """Collects findings in order, one per code and record, at most MAX_FINDINGS."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int | None], Finding] = {}
        self.notes: list[Finding] = []
        self.more = 0
        self._worst: set[Status] = set()

    def copy(self) -> Findings:
        """Return an independent copy."""
        other = Findings()
        other._found, other.notes = dict(self._found), list(self.notes)
        other.more, other._worst = self.more, set(self._worst)
        return other

    def add(
        self, code: str, seq: int | None, sentence: str, means: Status = Status.TAMPERED
    ) -> None:
        """Add a finding; the first about a record and code stays."""
        key = (code, seq)
        if key in self._found:
            return
        self._worst.add(means)
        if len(self._found) >= MAX_FINDINGS:
            self.more += 1
            return
        self._found[key] = Finding(code, seq, sentence, means)

    def note(self, code: str, seq: int | None, sentence: str) -> None:
        """Add something worth knowing that is not wrong."""
        self.notes.append(Finding(code, seq, sentence, Status.OK))

    def drop(self, code: str, seq: int) -> None:
        """Take back a finding that a better one replaces."""
        self._found.pop((code, seq), None)

    def has(self, seq: int) -> bool:
        """Tell whether something was found about record `seq`."""
        return any(found_seq == seq for _, found_seq in self._found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    def status(self) -> Status:
        """Return the status that everything found amounts to."""
        kept = status_of(self._found.values())
        if self.more and kept is not Status.TAMPERED and Status.TAMPERED in self._worst:
            return Status.TAMPERED
        return kept
