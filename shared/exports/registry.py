"""The formats by name, and what every one of them is given.

Owns `FORMATS`: to add one, write a module with `ABOUT`, `SUFFIX` and `render`, and a line here.
Modules are imported when they are asked for. `Selection` is the stream of a log's wanted records;
a format asks it for records, or for lines with the checkpoints that cover them. Called by
`writing` and `sphragis export`.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Protocol, cast

from shared.ledger.checkpoint import is_checkpoint_line
from shared.ledger.directory import read_log_json
from shared.ledger.errors import LedgerError
from shared.ledger.merkle import leaf_hash
from shared.ledger.reading import Item, Place, blocks, check_log, items_of, parse_item
from shared.ledger.segment import list_segments
from shared.ledger.selecting import Filter, Selector

#: Name of a format → its module. `tlog-tiles` writes a directory and is not among them.
FORMATS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "jsonl": "shared.exports.native",
        "nine-field": "shared.exports.nine_field",
        "ocsf": "shared.exports.ocsf",
        "cef": "shared.exports.cef",
        "otlp": "shared.exports.otlp",
    }
)
#: The one format that is a directory of files.
TILES: Final = "tlog-tiles"


class ExportRefused(LedgerError):
    """An export that was not made; the sentence says why and what to do."""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What an export says about the log it is from. `log_id` is the leaf of record 0, or empty
    when that record was pruned; `program` wrote the log."""

    origin: str
    log_id: str
    vkey: str
    program: str


class Selection:
    """The wanted records of a log, once, in order; counts what went through."""

    def __init__(self, directory: Path, wanted: Filter) -> None:
        self._directory = directory
        self._wanted = wanted
        self.count = 0
        self.first: int | None = None
        self.last: int | None = None

    def items(self, only: str = "") -> Iterator[Item]:
        """Yield the wanted records, or those of one kind. Raises LedgerCorrupt or LedgerError."""
        selector = Selector(self._wanted)
        for block in blocks(self._directory, wanted=self._wanted):
            for item in items_of(block, selector):
                if not only or item.record.get("type") == only:
                    self._count(item)
                    yield item

    def lines(self) -> Iterator[bytes]:
        """Yield the exact lines of the wanted records and, behind each batch that has any, its
        checkpoint line. Without a filter this is every committed byte of the log."""
        selector = Selector(self._wanted)
        for block in blocks(self._directory, wanted=self._wanted):
            wanted = set(map(id, selector.candidates(block.lines)))
            fresh = False
            for line in block.lines:
                if is_checkpoint_line(line):
                    if fresh:
                        yield line
                    fresh = False
                elif id(line) in wanted:
                    item = parse_item(line, block.after.segment)
                    if selector.selects(item.record):
                        self._count(item)
                        fresh = True
                        yield line

    def _count(self, item: Item) -> None:
        self.count += 1
        self.first = item.seq if self.first is None else self.first
        self.last = item.seq


Rendered = Iterator[bytes]


class Format(Protocol):
    """What a format module has."""

    ABOUT: str
    SUFFIX: str
    render: Callable[[LogFacts, Selection], Rendered]


def find_format(name: str) -> Format:
    """Return the module of a format. Raises ExportRefused with the names there are."""
    module = FORMATS.get(name)
    if module is None:
        near = difflib.get_close_matches(name, [*FORMATS, TILES], 1)
        hint = (
            f"the nearest is {near[0]}." if near else f"there are {', '.join([*FORMATS, TILES])}."
        )
        raise ExportRefused(f"There is no format {name[:40]!a}; {hint}")
    return cast(Format, importlib.import_module(module))


def facts_of(directory: Path) -> LogFacts:
    """Return what the log in `directory` says about itself.

    Raises NotFound, or LedgerCorrupt when its identity cannot be read.
    """
    identity = read_log_json(check_log(directory))
    origin, vkeys = str(identity["origin"]), identity["vkeys"]
    program = "choragos" if origin.startswith("choragos") else "sphragis"
    return LogFacts(origin, _log_id(directory), str(vkeys[-1]) if vkeys else "", program)


def _log_id(directory: Path) -> str:
    segments = list_segments(directory)
    if not segments or int(segments[0].stem):
        return ""
    for block in blocks(directory, Place()):
        return leaf_hash(block.lines[0]).hex()
    return ""
