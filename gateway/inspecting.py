"""`sphragis scan`: shows what would be found in files and pipes, where, and why.

Owns reading (any size, any encoding a text may have, folders), what a find looks like on paper,
and the two ways of printing. Decides nothing about values: the rules and the policy are those of
the gateway. Invariant: a value is printed only where `show` asks for it. Called by `gateway.cli`.
"""

from __future__ import annotations

import codecs
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final

import orjson

from gateway import screen
from gateway.chunks import Chunk, Find, chunks
from gateway.errors import GatewayError
from gateway.redaction.policy import Policy, PolicyError
from gateway.redaction.policy_file import load_policy, parse_policy, read_terms
from gateway.redaction.presidio import import_lightly
from gateway.redaction.spans import Span
from shared import streams

#: Exit codes, as those of search programs: nothing found, something found, called wrongly.
CLEAN, FOUND, USAGE = 0, 1, 3

STDIN: Final = "-"
#: Folders of version control, which hold packed copies of everything.
_SKIPPED: Final = frozenset({".git", ".hg", ".svn", ".jj"})
READ: Final = 1 << 18
#: Bytes in which a zero says that a file is no text, as git has it.
_SNIFFED: Final = 8000
#: Bytes of files from which on several processes share the work; below, starting them costs more.
_MANY: Final = 4 << 20
#: Stand for bytes that are no UTF-8.
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_SECRETS: Final = frozenset({"SECRET", "APIKEY", "JWT", "PRIVATEKEY"})
_COLORS: Final = {
    "NAME": "magenta",
    "ADDRESS": "magenta",
    "BIRTHDATE": "magenta",
    "TERM": "green",
    "EMAIL": "cyan",
    "PHONE": "cyan",
    "IP": "blue",
    "MAC": "blue",
}


class InspectError(GatewayError):
    """A file or an option cannot be used; the sentence says which and what to do."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One find: lines and columns count from 1, in characters. `before` and `after` are the rest
    of its line, with other finds in it replaced by their kinds."""

    line: int
    column: int
    end_line: int
    end_column: int
    span: Span
    action: str
    value: str = field(repr=False)
    before: str = field(default="", repr=False)
    after: str = field(default="", repr=False)


@dataclass(slots=True)
class Report:
    """What became of one file: its finds, its size in bytes, or why it was not read."""

    name: str
    finds: list[Hit] = field(default_factory=list)
    size: int = 0
    skipped: str = ""
    failed: str = ""


# -- the policy and its detector ------------------------------------------------------------------


def policy_for(policy: Path | None, config: Path | None) -> Policy:
    """Return the policy of the command line, else the gateway's own. Raises InspectError."""
    try:
        if policy is not None:
            return load_policy(policy)
        from gateway.settings import load_settings

        settings, _ = load_settings(config)
        found = load_policy(settings.policy_file)
        if settings.custom_terms_file is None:
            return found
        own = map(str.strip, read_terms(settings.custom_terms_file))
        terms = tuple(filter(None, dict.fromkeys([*found.terms, *own])))
        return parse_policy(
            found.text, source=f"'{found.id}'", directory=found.directory, terms=terms
        )
    except PolicyError as wrong:
        raise InspectError(str(wrong)) from wrong


def finder_for(policy: Policy) -> Find:
    """Build the rules of a policy; return what they find in a text. Raises InspectError."""
    import_lightly()
    from gateway.redaction.detectors.engine import Detector

    try:
        detector = Detector(policy)
    except PolicyError as wrong:
        raise InspectError(str(wrong)) from wrong
    # Bytes that are no text are characters to no rule.
    return lambda text: detector.find(_SURROGATES.sub("\ufffd", text))


# -- reading --------------------------------------------------------------------------------------


def text_of(stream: BinaryIO, head: bytes) -> Iterator[str]:
    """Yield the text of a stream of which `head` was read; bytes that are no UTF-8 survive as lone
    surrogates, so that writing them gives the same bytes."""
    encoding = "utf-8"
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    decoder = codecs.getincrementaldecoder(encoding)("surrogateescape")
    block = head
    while block:
        if text := decoder.decode(block):
            yield text
        block = stream.read(READ)
    if rest := decoder.decode(b"", final=True):
        yield rest


def is_binary(head: bytes) -> bool:
    """Whether a file that begins so is no text."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return False
    return b"\0" in head[:_SNIFFED]


def files_of(paths: Sequence[str]) -> Iterator[str]:
    """Yield the files at `paths`, folders walked in order of names; links to folders are not
    followed. Raises InspectError for a path at which there is nothing."""
    for path in paths:
        if path == STDIN or not os.path.isdir(path):
            if path != STDIN and not os.path.exists(path):
                raise InspectError(f"There is nothing at {path}; correct the path.")
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED)
            for name in sorted(names):
                file = os.path.join(folder, name)
                if os.path.isfile(file) and not os.path.islink(file):
                    yield file


def inspect(name: str, find: Find, policy: Policy) -> Report:
    """Read one file, or standard input for `-`."""
    report = Report("(standard input)" if name == STDIN else name)
    try:
        if name == STDIN:
            _read(sys.stdin.buffer, report, find, policy)
        else:
            with open(name, "rb") as stream:
                report.size = os.fstat(stream.fileno()).st_size
                _read(stream, report, find, policy)
    except OSError as error:
        report.failed = error.strerror or type(error).__name__
    except UnicodeDecodeError:
        report.skipped = "it is not text in the encoding it says"
    return report


def _read(stream: BinaryIO, report: Report, find: Find, policy: Policy) -> None:
    head = stream.read(READ)
    if is_binary(head):
        report.skipped = "binary"
        return
    for chunk in chunks(text_of(stream, head), find):
        report.finds += finds_of(chunk, policy)


def finds_of(chunk: Chunk, policy: Policy) -> Iterator[Hit]:
    """Yield the finds of a chunk, with their places and surroundings."""
    text, line, counted, line_start = chunk.text, chunk.line, 0, 0
    for number, span in enumerate(chunk.spans):
        newlines = text.count("\n", counted, span.start)
        if newlines:
            line += newlines
            line_start = text.rfind("\n", 0, span.start) + 1
        counted = span.start
        offset = chunk.column if line == chunk.line else 1
        inside = text.count("\n", span.start, span.end)
        last_start = text.rfind("\n", 0, span.end) + 1 if inside else line_start
        line_end = text.find("\n", span.end)
        line_end = len(text) if line_end < 0 else line_end
        near = chunk.spans[max(0, number - 40) : number + 41]
        from_here, to_here = max(line_start, span.start - 400), min(line_end, span.end + 400)
        yield Hit(
            line=line,
            column=span.start - line_start + offset,
            end_line=line + inside,
            end_column=span.end - last_start + (1 if inside else offset),
            span=span,
            action=str(policy.rule(span.kind).action),
            value=text[span.start : span.end],
            before=_masked(text, from_here, span.start, near),
            after=_masked(text, span.end, to_here, near),
        )


def _masked(text: str, start: int, end: int, near: Sequence[Span]) -> str:
    """The text from `start` to `end` with the finds `near` it replaced by their kinds."""
    parts: list[str] = []
    at = start
    for span in near:
        if span.end <= at or span.start >= end:
            continue
        parts += (text[at : max(at, span.start)], f"[{span.kind}]")
        at = span.end
    return "".join((*parts, text[at:end])) if at < end else "".join(parts)


# -- several files at once ------------------------------------------------------------------------

_find: Find | None = None
_policy: Policy | None = None


def _begin(policy: Path | None, config: Path | None) -> None:
    """Make a helping process ready."""
    global _find, _policy  # noqa: PLW0603 - what a process of the pool keeps between files
    _policy = policy_for(policy, config)
    _find = finder_for(_policy)


def _inspect_one(name: str) -> Report:
    assert _policy is not None
    assert _find is not None
    return inspect(name, _find, _policy)


def reports(names: Iterable[str], policy: Path | None, config: Path | None) -> Iterator[Report]:
    """Yield the report of each file, in order; large loads are shared by several processes."""
    listed = list(names)
    loaded = policy_for(policy, config)
    cores = min(os.cpu_count() or 1, 8, len(listed))
    if cores > 1 and STDIN not in listed and _total(listed) > _MANY and loaded.ner is None:
        with ProcessPoolExecutor(cores, initializer=_begin, initargs=(policy, config)) as pool:
            finder_for(loaded)  # one sentence here rather than a broken pool
            yield from pool.map(_inspect_one, listed, chunksize=4)
        return
    find = finder_for(loaded)
    for name in listed:
        yield inspect(name, find, loaded)


def _total(names: list[str]) -> int:
    total = 0
    for name in names:
        try:
            total += os.stat(name).st_size
        except OSError:
            continue
        if total > _MANY:
            break
    return total


# -- printing -------------------------------------------------------------------------------------


def scan_and_print(
    paths: Sequence[str],
    *,
    policy: Path | None,
    config: Path | None,
    as_json: bool,
    show: bool,
) -> int:
    """Scan files and folders, print what is found, return the exit code. Raises InspectError."""
    if not paths:
        if sys.stdin.isatty():
            raise InspectError("Name files or folders to scan, or `-` for standard input.")
        paths = (STDIN,)
    began = time.monotonic()
    tally = _Tally()
    printer: _Printer = _JsonPrinter(show) if as_json else _printer(show)
    for report in reports(files_of(paths), policy, config):
        tally.add(report)
        if report.failed:
            sentence = f"{report.name} cannot be read ({report.failed})."
            print(streams.failure_line(sentence), file=sys.stderr)
        elif report.skipped and (report.name in paths or paths == (STDIN,)):
            print(f"{_printable(report.name)}: skipped, {report.skipped}.", file=sys.stderr)
        if report.finds:
            printer.print(report)
    printer.end(tally, time.monotonic() - began)
    if tally.failed:
        return USAGE
    return FOUND if tally.finds else CLEAN


@dataclass(slots=True)
class _Tally:
    files: int = 0
    hit: int = 0
    skipped: int = 0
    failed: int = 0
    finds: int = 0
    size: int = 0
    kinds: Counter[str] = field(default_factory=Counter)

    def add(self, report: Report) -> None:
        self.files += 1
        self.hit += bool(report.finds)
        self.skipped += bool(report.skipped)
        self.failed += bool(report.failed)
        self.finds += len(report.finds)
        self.size += 0 if report.skipped else report.size
        self.kinds.update(find.span.kind for find in report.finds)

    def sentence(self, seconds: float) -> str:
        """What was read and found, in one line."""
        read = self.files - self.skipped - self.failed
        files = f"{read} file{'s' if read != 1 else ''}"
        size = f"{_megabytes(self.size)} in " if self.size else ""
        skipped = f", {self.skipped} not text" if self.skipped else ""
        cost = f"({size}{seconds:.1f} s{skipped})"
        if not self.finds:
            return f"Nothing found in {files} {cost}."
        where = files if self.hit == read else f"{self.hit} of {files}"
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.most_common())
        return f"{self.finds} found in {where}: {kinds} {cost}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 100_000 else f"{size / 1e3:.1f} KB"


class _Printer:
    """Lines for programs and logs: `file:line:column: KIND rule score value`."""

    def __init__(self, show: bool) -> None:
        self._show = show

    def print(self, report: Report) -> None:
        name = _printable(report.name)
        lines = [
            f"{name}:{f.line}:{f.column}: {f.span.kind} {f.span.rule} {f.span.score:.2f} "
            f"{_printable(f.value) if self._show else masked(f)}"
            for f in report.finds
        ]
        print("\n".join(lines))

    def end(self, tally: _Tally, seconds: float) -> None:
        print(tally.sentence(seconds), file=sys.stderr)


class _JsonPrinter(_Printer):
    """One JSON object a line."""

    def print(self, report: Report) -> None:
        for f in report.finds:
            told: dict[str, Any] = {
                "file": report.name,
                "line": f.line,
                "column": f.column,
                "end_line": f.end_line,
                "end_column": f.end_column,
                "kind": f.span.kind,
                "rule": f.span.rule,
                "score": round(f.span.score, 3),
                "action": f.action,
                "length": len(f.value),
            }
            if self._show:
                told["value"] = f.value
            try:
                sys.stdout.write(orjson.dumps(told).decode() + "\n")
            except TypeError:  # bytes that are no text
                told = {k: _printable(v) if isinstance(v, str) else v for k, v in told.items()}
                sys.stdout.write(orjson.dumps(told).decode() + "\n")

    def end(self, tally: _Tally, seconds: float) -> None:
        pass


class _TerminalPrinter(_Printer):
    """For people: files as headings, each find in its line, in color."""

    def __init__(self, show: bool) -> None:
        super().__init__(show)
        self._console = screen.console(soft_wrap=True)
        self._width = self._console.width

    def print(self, report: Report) -> None:
        from rich.text import Text

        places = [f"{f.line}:{f.column}" for f in report.finds]
        place = max(map(len, places))
        kind = max(len(f.span.kind) for f in report.finds)
        rule = max(len(f.span.rule) for f in report.finds)
        self._console.print(Text(_printable(report.name), style="bold underline"))
        room = self._width - place - kind - rule - 22
        told = room >= _ROOM  # else the score and the rule make room for the line
        if not told:
            room = max(_ROOM, self._width - place - kind - 14)
        for found, at in zip(report.finds, places, strict=True):
            line = Text("  ")
            line.append(at.rjust(place), style="dim")
            line.append(f"  {found.span.kind.ljust(kind)}", style=f"bold {_color(found)}")
            if told:
                line.append(f"  {found.span.score:.2f}  ", style="dim")
                line.append(found.span.rule.ljust(rule), style="italic")
            line.append(f"  {_ACTIONS.get(found.action, found.action):<6}  ", style="dim")
            line.append_text(self._excerpt(found, room))
            self._console.print(line, no_wrap=True, overflow="crop")
        self._console.print()

    def _excerpt(self, found: Hit, room: int) -> Any:
        from rich.text import Text

        value = _printable(found.value) if self._show else masked(found)
        value = _shortened(value, max(12, room - 8))
        left = max(0, (room - len(value)) // 2)
        before = _printable(found.before).lstrip()
        if len(before) > left:
            before = f"…{before[len(before) - left + 1 :]}" if left > 1 else ""
        after = _printable(found.after).rstrip()
        right = max(0, room - len(before) - len(value))
        if len(after) > right:
            after = f"{after[: right - 1]}…" if right > 1 else ""
        text = Text(before, style="default")
        text.append(value, style=f"reverse {_color(found)}")
        text.append(after)
        return text

    def end(self, tally: _Tally, seconds: float) -> None:
        style = "bold red" if tally.finds else "bold green"
        self._console.print(tally.sentence(seconds), style=style, soft_wrap=False)


#: Columns that show something of a line.
_ROOM: Final = 16
_ACTIONS: Final = {"stand_in": "stand", "refuse": "REFUSE"}


def _printer(show: bool) -> _Printer:
    return _TerminalPrinter(show) if sys.stdout.isatty() else _Printer(show)


def _color(found: Hit) -> str:
    return "red" if found.span.kind in _SECRETS else _COLORS.get(found.span.kind, "yellow")


def masked(found: Hit) -> str:
    """Return a value's shadow: its length, and of what is no secret the first character."""
    size = len(found.value)
    if found.span.kind in _SECRETS or size < 6:
        return f"{'•' * min(size, 8)} ({size})"
    return f"{_printable(found.value[0])}{'•' * min(size - 1, 7)} ({size})"


def _shortened(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _printable(text: str) -> str:
    """The text on one line, without anything a terminal would obey."""
    return "".join(c if c.isprintable() else _VISIBLE.get(c, "\ufffd") for c in text)


_VISIBLE: Final = {"\n": "⏎", "\t": " ", "\r": ""}
