"""Scanning texts of any length in bounded memory.

Pure. Owns where a long text is cut. Invariants: no find is cut (a chunk ends before it or behind
it), nor a key block that has begun and not ended; every chunk is read with the lines before it and
a margin behind it, so that a label and its value stay together; the chunks put together are the
text, character for character. A text up to `SIZE` characters is read as one. Called by `inspecting`
and `replacing`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from gateway.redaction.spans import Span

#: Characters read at once: half a second's work.
SIZE: Final = 1 << 19
#: Characters at the end of a chunk that are read again with the next: longer than any value but a
#: key block, for which the cut waits.
MARGIN: Final = 1 << 15
#: Characters given out already that are read once more, for labels and headings before a value.
LEAD: Final = 1 << 12
#: A text without any place to cut, or a key block that never ends, is cut after this many.
LONGEST: Final = 1 << 24
#: No key block is longer.
_LONGEST_BLOCK: Final = 1 << 16

Find = Callable[[str], list[Span]]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a text, what was found in it (offsets in the part), and the line and column (from
    1) at which it begins."""

    text: str
    spans: list[Span]
    line: int
    column: int


def chunks(
    pieces: Iterable[str], find: Find, *, size: int = SIZE, margin: int = MARGIN
) -> Iterator[Chunk]:
    """Yield the text that `pieces` make, in parts, with what `find` finds in them."""
    lead, position = "", (1, 1)
    pending: list[str] = []
    held, wanted = 0, size
    for piece in pieces:
        pending.append(piece)
        held += len(piece)
        if held < wanted:
            continue
        text = lead + "".join(pending)
        found = find(text)
        cut = _place(text, len(lead), found, margin)
        if cut <= len(lead):
            pending, wanted = [text[len(lead) :]], held * 2
            continue
        chunk = _part(text, len(lead), cut, found, position)
        yield chunk
        position = _behind(chunk)
        lead, pending, wanted = _lead(text, cut), [text[cut:]], size
        held = len(text) - cut
    text = lead + "".join(pending)
    if len(text) > len(lead):
        yield _part(text, len(lead), len(text), find(text), position)


def _part(text: str, start: int, end: int, found: list[Span], position: tuple[int, int]) -> Chunk:
    spans = [
        replace(span, start=max(span.start, start) - start, end=span.end - start)
        for span in found
        if start < span.end <= end
    ]
    return Chunk(text[start:end], spans, *position)


def _behind(chunk: Chunk) -> tuple[int, int]:
    newlines = chunk.text.count("\n")
    if newlines:
        return chunk.line + newlines, len(chunk.text) - chunk.text.rfind("\n")
    return chunk.line, chunk.column + len(chunk.text)


def _lead(text: str, cut: int) -> str:
    """The last lines before a cut."""
    start = text.rfind("\n", 0, max(0, cut - LEAD)) + 1
    return text[max(start, cut - 2 * LEAD) : cut]


def _place(text: str, start: int, found: list[Span], margin: int) -> int:
    """Return where to cut `text`, behind `start`; `start` itself when more must be read first."""
    end = max(start, len(text) - margin)
    block = _open_block(text, start)
    if block >= 0:
        end = min(end, block)
    cut = text.rfind("\n", start, end) + 1
    if cut <= start:
        cut = max(text.rfind(sign, start, end) for sign in " ,;>") + 1
    for span in reversed(found):
        if span.start < cut < span.end:
            cut = max(start, text.rfind("\n", start, span.start) + 1 or span.start)
    if cut <= start and len(text) - start > LONGEST:
        cut = max([end, *(span.end for span in found if span.start < end < span.end)])
    return cut


def _open_block(text: str, start: int) -> int:
    """Return where a key block begins that has not ended yet, or -1."""
    begin = text.rfind("-----BEGIN ", start)
    if begin < 0 or len(text) - begin > _LONGEST_BLOCK or text.find("-----END ", begin) >= 0:
        return -1
    return begin
