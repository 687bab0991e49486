"""How `sphragis log` shows records: rows for people, rows for pipes, JSON lines for programs.

Owns columns, colors and the text of `log show` and `log stats`. Invariants: everything from a
record passes `shared.ledger.plain`; output goes out block by block, so a million records take no
more memory than a few. Decides nothing about records. Called by `gateway.verbs.reading`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson

from gateway import screen
from shared.ledger.meaning import MEANING, leftovers, under, who
from shared.ledger.plain import harmless, piece
from shared.ledger.reading import Found, Item
from shared.ledger.selecting import role_of, task_of, text_at
from shared.ledger.stats import Files, Stats, Tally
from shared.ledger.words import decision, describe, milliseconds, moment, redacted, tokens
from shared.screen import folded, width

if TYPE_CHECKING:
    from rich.console import Console

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
#: Rows drawn at once: a screen or two; column widths are fixed, so blocks line up.
_BLOCK: Final = 200
#: Name, width and whether numbers stand right; the words take the rest.
_COLUMNS: Final = (
    ("seq", 7, True),
    ("time", 19, False),
    ("kind", 13, False),
    ("role", 10, False),
    ("task", 5, False),
    ("decision", 8, False),
    ("tokens", 10, True),
    ("ms", 6, True),
)
_STYLES: Final = {
    "deny": "red",
    "gap": "bold red",
    "recover": "bold red",
    "clock_step": "yellow",
    "gate_open": "yellow",
    "gate_decision": "yellow",
    "policy_set": "cyan",
    "config_set": "cyan",
    "key_rotate": "magenta",
    "erase": "magenta",
    "hold": "magenta",
    "export": "magenta",
    "anchor": "blue",
    "seal": "blue",
    "genesis": "blue",
    "heartbeat": "dim",
    "journal": "",
}
#: Below this width the words have no column of their own and stand under the others.
_NARROW: Final = 110
_INDENT: Final = 9


def cells_of(item: Item) -> tuple[str, ...]:
    """Return a record's columns, the words last."""
    record = item.record
    return (
        str(item.seq),
        moment(record),
        harmless(text_at(record, "type"), 13),
        harmless(role_of(record), 20),
        harmless(task_of(record), 12),
        decision(record),
        tokens(record),
        milliseconds(record),
        describe(record),
    )


def print_json(items: Iterable[Item]) -> None:
    """Print one line per record: the leaf hash, then the record exactly as it is stored."""
    out = sys.stdout
    for item in items:
        out.write(json_line(item))
    out.flush()


def json_line(item: Item) -> str:
    """Return `{"leaf":…,"record":…}` with the stored bytes as they are."""
    return f'{{"leaf":"{item.leaf}","record":{item.line.decode()}}}\n'


def print_rows(items: Iterable[Item]) -> None:
    """Print records as rows: a table on a terminal, aligned plain text elsewhere."""
    if not sys.stdout.isatty():
        for item in items:
            sys.stdout.write(plain_row(item))
        sys.stdout.flush()
        return
    draw_rows(screen.console(), items, header=True)


def draw_rows(console: Console, items: Iterable[Item], *, header: bool) -> bool:
    """Draw rows of a table, block by block; return whether a header is still owed."""
    rows = iter(items)
    if console.width < _NARROW:
        for item in rows:
            _draw_stacked(console, item)
        return False
    while block := list(islice(rows, _BLOCK)):
        console.print(_table(block, header=header))
        header = False
    return header


def _draw_stacked(console: Console, item: Item) -> None:
    """Draw a record for a narrow screen: what is short on one line, the words below it."""
    from rich.padding import Padding
    from rich.text import Text

    seq, when, kind, role, task, decided, spent, took, words = cells_of(item)
    style = row_style(item)
    figures = (f"{spent} tokens" if spent else "", f"{took} ms" if took else "")
    more = "  ".join(filter(None, (role, task, decided, *figures)))
    line = f"{seq.rjust(_INDENT - 2)}  {when}  {kind}"
    if len(line) + 2 + len(more) <= console.width:
        line, more = f"{line}  {more}".rstrip(), ""
    console.print(Text(line, f"bold {style}".strip()), no_wrap=True, overflow="ellipsis", crop=True)
    told = "  ".join(filter(None, (more, words)))
    console.print(Padding(Text(told, style), (0, 0, 0, _INDENT)))


def plain_row(item: Item) -> str:
    """Return one record as a line of aligned columns without tabs."""
    *narrow, words = cells_of(item)
    parts = [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, (_, width, right) in zip(narrow, _COLUMNS, strict=True)
    ]
    return f"{'  '.join(parts)}  {words}\n"


def _table(items: Iterable[Item], *, header: bool) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=header, padding=(0, 1), expand=True, header_style="bold")
    for name, size, right in _COLUMNS:
        table.add_column(
            name,
            width=size,
            justify="right" if right else "left",
            no_wrap=True,
            overflow="ellipsis",
        )
    table.add_column("what happened", ratio=1, overflow="fold")
    for item in items:
        *narrow, words = cells_of(item)
        style = row_style(item)
        table.add_row(*(Text(cell, style) for cell in narrow), Text(words, style))
    return table


def row_style(item: Item) -> str:
    """Return the color of a row: by kind, and red for what failed or was refused."""
    kind = text_at(item.record, "type")
    failed = kind == "outcome" and text_at(item.record, "outcome", "status") != "ok"
    return "yellow" if failed else _STYLES.get(kind, "")


# -- one record ------------------------------------------------------------------------------------


def explain(found: Found, partner: Item | None, directory: str) -> Iterator[tuple[str, str]]:
    """Yield (heading, text) of everything about one record; `partner` is the outcome of a
    request, or the request of an outcome."""
    item, record = found.item, found.item.record
    kind = text_at(record, "type")
    yield "record", f"{item.seq}, written {moment(record)} ({_zone()})"
    yield "what", describe(record)
    if kind in MEANING:
        yield "meaning", MEANING[kind]
    yield "who", who(record)
    if task_of(record):
        yield "task", harmless(task_of(record), 80)
    target = piece(record, "action", "target")
    if target:
        yield "where to", target
    policy = under(record)
    if policy:
        yield "policy", policy + _kept_text(record, directory)
    if kind == "request":
        yield "redacted", redacted(record) or "nothing was found that had to be replaced"
    yield from _ending(kind, record, partner)
    yield from _payloads(record, directory)
    rest = "\n".join(f"{name} = {value}" for name, value in leftovers(record))
    if rest:
        yield "also says", rest
    yield from _proof(found, directory)


def _kept_text(record: Mapping[str, Any], directory: str) -> str:
    """Say where the policy's text is, if it is kept beside the log."""
    digest = text_at(record, "policy", "digest")
    if not _DIGEST.fullmatch(digest):
        return ""
    path = Path(directory) / "texts" / digest
    return f"\nits text is in {path}" if path.is_file() else ""


def _payloads(record: Mapping[str, Any], directory: str) -> Iterator[tuple[str, str]]:
    """Say what became of the payloads that were kept for a record."""
    if not record.get("evidence"):
        return
    from shared.evidence.errors import EvidenceError
    from shared.evidence.showing import fates

    try:
        said = fates(Path(directory), dict(record))
    except EvidenceError as wrong:
        said = [str(wrong)]
    yield "evidence", "\n".join(harmless(sentence, 300) for sentence in said)


def _ending(
    kind: str, record: Mapping[str, Any], partner: Item | None
) -> Iterator[tuple[str, str]]:
    if kind == "request":
        if partner is None:
            yield "how it ended", "not recorded yet: the call is open, or the program was cut off"
            return
        end = partner.record
        took = milliseconds(end)
        text = f"record {partner.seq}: {describe(end)}"
        if took:
            text += f"; {took} ms"
        if tokens(end):
            text += f"; tokens {tokens(end)} (in/out)"
        yield "how it ended", text
    elif kind == "outcome" and partner is not None:
        yield "began as", f"record {partner.seq}: {describe(partner.record)}"
        yield "redacted", redacted(partner.record) or "nothing was found that had to be replaced"
    elif kind == "deny":
        yield "how it ended", "it was refused; no byte of it was sent to a provider"


def _proof(found: Found, directory: str) -> Iterator[tuple[str, str]]:
    item, note = found.item, found.checkpoint.split("\n")
    yield "leaf", f"{item.leaf}\n(SHA-256 of a zero byte and the stored line)"
    if len(note) > 2 and note[1].isdigit():
        yield (
            "checkpoint",
            f"of {harmless(note[0], 200)}: {note[1]} records under the root "
            f"{harmless(note[2], 80)}, signed when this record was written",
        )
    state = "sealed, it never changes again" if found.is_sealed else "still being written"
    yield "file", f"{found.segment.name} ({state})"
    yield (
        "to prove it",
        f"sphragis verify {directory}\nsphragis proof --ledger {directory} --seq {item.seq} "
        "-o proof.zip   (this record alone, for somebody else)",
    )


def _zone() -> str:
    import time

    return time.strftime("%Z")


def print_explained(pairs: Iterable[tuple[str, str]]) -> None:
    """Print headings and texts in two columns."""
    rows = list(pairs)
    if sys.stdout.isatty():
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
        table.add_column(style="bold", no_wrap=True, justify="right")
        table.add_column(overflow="fold")
        for heading, text in rows:
            table.add_row(Text(heading), Text(text))
        screen.console().print(table)
        return
    for heading, text in rows:
        for index, line in enumerate(text.split("\n")):
            print(f"{heading if not index else '':>12}  {line}")


# -- figures ---------------------------------------------------------------------------------------


def print_stats(stats: Stats, files: Files, directory: str) -> None:
    """Print the figures of a log for people."""
    span = "none" if stats.first is None else f"{stats.first} to {stats.last}"
    print(folded(f"{directory}: {stats.records:,} records ({span}), {_size(files.bytes)}", 10))
    pruned = f", pruned to record {files.pruned_to}" if files.pruned_to else ""
    outside = (
        f"{files.cosignatures} cosigned, {files.stamps} time-stamped, {files.timestamps} in "
        "OpenTimestamps"
    )
    anchors = ", ".join(f"{count} {harmless(kind, 30)}" for kind, count in stats.anchors.items())
    for heading, text in (
        ("segments", f"{files.segments} ({files.sealed} sealed){pruned}"),
        ("head", f"{files.head_size:,} records published; {outside}"),
        ("anchors", anchors),
        ("open", _open(stats)),
        ("kinds", _counts(stats.kinds)),
    ):
        if text:
            print(folded(f"{heading:<9} {text}", 10))
    for title, tallies in (("role", stats.roles), ("day", stats.days)):
        if tallies:
            print()
            _print_tallies(title, tallies)


def _open(stats: Stats) -> str:
    requests, gates = len(stats.open), len(stats.gates_open)
    return f"{requests} request(s) without an outcome, {gates} gate(s) undecided"


def _counts(counts: Mapping[str, int]) -> str:
    pairs = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{count:,} {harmless(name, 40)}" for name, count in pairs) or "none"


def _print_tallies(title: str, tallies: Mapping[str, Tally]) -> None:
    """Print a table of figures, as narrow as they are; the words stand beside it, or below each
    row where the screen ends before them."""
    rows: list[tuple[str, ...]] = [(title, *_FIGURES)]
    rows += [_figures(name, tallies[name]) for name in sorted(tallies)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    beside = sum(widths) + 2 * len(widths)
    columns = width()
    fits = columns is None or columns - beside >= _BESIDE
    lines = [
        "  ".join(
            [cells[0].ljust(widths[0])]
            + [cell.rjust(size) for cell, size in zip(cells[1:], widths[1:], strict=True)]
        )
        for cells in rows
    ]
    print(f"{lines[0]}  why refused; what was redacted" if fits else lines[0])
    for name, line in zip(sorted(tallies), lines[1:], strict=True):
        tally = tallies[name]
        why = [_counts(counts) for counts in (tally.refusals, tally.redactions) if counts]
        if fits:
            print(folded(f"{line}  {'; '.join(why)}".rstrip(), beside))
            continue
        print(line)
        if why:
            print(folded(f"  {'; '.join(why)}", 2))


_FIGURES: Final = ("calls", "refused", "redacted", "tokens in", "out", "p50 ms", "p95 ms")
#: Columns beside the figures from which on words fit there.
_BESIDE: Final = 32


def _figures(name: str, tally: Tally) -> tuple[str, ...]:
    return (
        harmless(name, 30) or "(no role)",
        f"{tally.calls:,}",
        f"{tally.refusals.total():,}",
        f"{tally.redactions.total():,}",
        f"{tally.tokens_in:,}",
        f"{tally.tokens_out:,}",
        _ms(tally.percentile(0.5)),
        _ms(tally.percentile(0.95)),
    )


def _ms(microseconds: int | None) -> str:
    return "" if microseconds is None else f"{microseconds / 1000:,.0f}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} GiB"


def as_json(value: Mapping[str, Any]) -> str:
    """Return an object as indented JSON."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
