"""Private keys whose lines stand between other text: what `grep -n`, `cat -A`, logs, tables and
blame put before and behind every line; and lines out of the middle of a key, without its armor.

Invariant: pure and linear; behind an armor line every line is read once, a bounded way. Lines alone
count only where nothing but a number, a path or a sign stands beside them, and where they are no
text, no picture and no archive in base64. Called by `keys`.
"""

from __future__ import annotations

import binascii
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

#: A line break as text holds it: real, or written as an escape in source code and JSON.
BREAK: Final = r"(?:(?:\\+r)?(?:\\+n|\r?\n|\r)|<br ?/?>(?:\r?\n)?)"
_ANY_BREAK: Final = re.compile(BREAK)
_ARMOR: Final = re.compile(
    r"-----(?P<side>BEGIN|END)[ +](?:[A-Z0-9]{1,12}[ +]){0,4}(?:KEY|CERTIFICATE)(?:[ +]BLOCK)?-----"
)
_RUN: Final = re.compile(r"[A-Za-z0-9+/]{4,}={0,2}")
_HEX: Final = re.compile(r"[0-9a-f]+|[0-9A-F]+")
#: A key is armored in lines of 64 to 76 characters; a short key's only line may have fewer.
_WIDE: Final = 40
_REACH: Final = 40_000
_LINES_MOST: Final = 400
#: Lines of something else that may stand between two of a key's, or before the first.
_STRANGERS_MOST: Final = 8
_CLOSING_MOST: Final = 8


@dataclass(frozen=True, slots=True)
class Behind:
    """What follows an armor line: the runs of base64, and where the key ends when all up to its
    END is the key's."""

    runs: list[tuple[int, int]]
    end: int | None


def behind(text: str, at: int) -> Behind:
    """Return the key material in the lines behind the armor line that ends at `at`."""
    limit = min(len(text), at + _REACH)
    armor = _ARMOR.search(text, at, limit)
    closed = armor is not None and armor["side"] == "END"
    if armor is not None:
        limit = armor.start()
    runs: list[tuple[int, int]] = []
    column, lines, strangers = 0, 0, 0
    for first, last in _lines(text, at, limit):
        lines += 1
        run = _widest(text, first, last)
        if run is not None and (not runs or run[0] - first <= column + 24):
            runs.append(run)
            column, strangers = run[0] - first, 0
            continue
        if runs and strangers <= 1:
            short = _at_column(text, first, last, column)
            if short is not None:
                runs.append(short)
        strangers += 1
        if strangers > _STRANGERS_MOST and not closed:
            break
    if closed and armor is not None and runs and len(runs) * 3 >= lines - _CLOSING_MOST:
        return Behind(runs, armor.end())
    return Behind(runs, None)


def before(text: str, end: int, floor: int) -> list[tuple[int, int]]:
    """Return the key material in the lines before the END that begins at `end`, whose BEGIN was
    cut off."""
    floor = max(floor, end - _REACH // 2)
    head = _ANY_BREAK.search(text, floor, end)
    lines = [(floor, head.start() if head else end), *_lines(text, floor, end)]
    runs: list[tuple[int, int]] = []
    strangers = 0
    for first, last in reversed(lines[-_LINES_MOST - 1 : -1]):
        run = _widest(text, first, last)
        if run is None and not runs and last - first < _REACH:
            short = next(iter(sorted(_RUN.finditer(text, first, last), key=_size)[-1:]), None)
            if short is not None and _is_solid(short.group()):
                run = short.span()
        if run is None:
            strangers += 1
            if strangers > 1:
                break
            continue
        strangers = 0
        runs.append(run)
    wide = any(last - first >= _WIDE for first, last in runs)
    return runs if wide else []


def _size(found: re.Match[str]) -> int:
    return found.end() - found.start()


def _lines(text: str, at: int, limit: int) -> Iterator[tuple[int, int]]:
    """The lines of a stretch of text that begin in it."""
    first = None
    for count, found in enumerate(_ANY_BREAK.finditer(text, at, limit)):
        if first is not None:
            yield first, found.start()
        first = found.end()
        if count >= _LINES_MOST:
            return
    if first is not None:
        yield first, limit


def _widest(text: str, first: int, last: int) -> tuple[int, int] | None:
    """The longest run of base64 of a line, when it is as long as a key's lines are."""
    best: tuple[int, int] | None = None
    for run in _RUN.finditer(text, first, min(last, first + 4000)):
        size = run.end() - run.start()
        if size >= _WIDE and (best is None or size > best[1] - best[0]) and _is_mixed(run.group()):
            best = run.span()
    return best


def _at_column(text: str, first: int, last: int, column: int) -> tuple[int, int] | None:
    """The short last line of a key: where the others began, or one character further on."""
    for start in (first + column, first + column + 1):
        run = _RUN.match(text, start, last)
        if run is not None and text[start - 1 : start] != run.group()[0] and _is_solid(run.group()):
            return run.span()
    return None


def _is_mixed(run: str) -> bool:
    """Drawn from all of the alphabet: no checksum, no path, no row of one character."""
    return (
        _HEX.fullmatch(run) is None
        and any(c.isupper() for c in run)
        and any(c.islower() for c in run)
        and any(c.isdigit() or c in "+/=" for c in run)
        and len(set(run)) >= 12
        and run.count("/") * 8 < len(run) + 8
    )


def _is_solid(run: str) -> bool:
    return len(run) >= 24 or any(c.isdigit() or c in "+/=" for c in run)


#: Of lines alone.
SHORTEST_LINE: Final = 64
#: As wide as tools write the lines of a key; one more where a patch put its sign before them.
_WIDTHS: Final = frozenset((64, 70, 76))
_LINE: Final = re.compile(r"[A-Za-z0-9+/](?<![A-Za-z0-9+/=_-].)[A-Za-z0-9+/]{63,76}+(?![\w=+/-])")
#: What may stand before and behind such a line: its number, its file's name and number, a sign, the
#: time and the name of whoever wrote it to a log; no quotation marks, within which programs hold
#: pictures.
_BEFORE: Final = re.compile(
    r"[^\n\"'`=<{]{0,120}(?<![\w=+/-])|[ \t>|*#+-]{0,12}|[\w./~-]{1,120}[:-](?:\d{1,6}[:-])?"
)
_AFTER: Final = re.compile(r"[ \t]{0,8}[$|]?[ \t]{0,4}(?=\r?\n|\r|\Z)")
_END_NEAR: Final = re.compile(
    r"[^\n]{0,200}\n(?:[^\n]{0,200}\n)?[^\n]{0,160}-----END [A-Z ]{0,24}PRIV"
)
_NEXT: Final = re.compile(r"\r?\n[^\n]{0,200}")
_FEWEST_LINES: Final = 3
#: A line's own line of facts may stand between, as `git blame --porcelain` prints it.
_LINES_BETWEEN: Final = 2
_BLOCK_MOST: Final = 130
_BEFORE_MOST: Final = 160
#: The first characters of pictures, archives, documents, programs and fonts in base64.
_FILES: Final = (
    "iVBOR", "/9j/", "R0lGOD", "UEsDB", "H4sI", "JVBER", "f0VMR", "AAAB", "d09G", "T2dn", "SUkq",
    "UklGR", "Qk0", "TVqQ", "TVpQ", "QlpoO", "/Td6W", "KLUv", "PHN2Z", "AAEAA", "SUQz", "N3q8r",
)  # fmt: skip
_MAIL: Final = re.compile(r"Content-Transfer-Encoding|Content-Type|data:|base64|CERTIFICATE|PUBLIC")


def middles(text: str) -> Iterator[tuple[int, int]]:
    """Yield the lines of private keys that stand without any armor: three or more in a row."""
    if len(text) < _FEWEST_LINES * 65:
        return
    block: list[tuple[int, int]] = []
    for found in _LINE.finditer(text):
        run = _as_wide(text, found.start(), found.end())
        if run is None:
            continue
        if block and not _follows(text, block[-1], run):
            yield from _of_a_key(text, block)
            block = []
        block.append(run)
    yield from _of_a_key(text, block)


def _as_wide(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The run, when it is as wide as a key's lines; the sign of a patch is no part of it."""
    if text[start] == "+" and end - start - 1 in _WIDTHS:
        start += 1
    return (start, end) if end - start in _WIDTHS else None


def _is_bare(text: str, start: int, end: int) -> bool:
    """Whether nothing stands beside the run but what tools put there."""
    if _AFTER.match(text, end) is None:
        return False
    floor = max(0, start - _BEFORE_MOST)
    line = text.rfind("\n", floor, start) + 1
    if not line and floor:
        return False
    return _BEFORE.fullmatch(text, line, start) is not None


def _follows(text: str, last: tuple[int, int], run: tuple[int, int]) -> bool:
    return (
        run[0] - last[1] <= _BEFORE_MOST + 12
        and run[1] - run[0] == last[1] - last[0]
        and 1 <= text.count("\n", last[1], run[0]) <= _LINES_BETWEEN
    )


def _of_a_key(text: str, block: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    if not _FEWEST_LINES <= len(block) <= _BLOCK_MOST:
        return
    closed = _END_NEAR.match(text, block[-1][1]) is not None
    if not closed and not all(_is_bare(text, a, b) for a, b in block):
        return
    first = text[block[0][0] : block[0][1]]
    if first.startswith(_FILES) or _MAIL.search(text, max(0, block[0][0] - 240), block[0][0]):
        return
    rest = _NEXT.match(text, _behind_sign(text, block[-1][1]))
    if rest is not None:
        column = block[-1][0] - text.rfind("\n", 0, block[-1][0]) - 1
        begin = rest.start() + len(rest.group()) - len(rest.group().lstrip("\r\n"))
        short = _at_column(text, begin, rest.end(), column)
        if _MAIL.search(text, rest.start(), min(len(text), rest.end() + 200)):
            return
    else:
        short = None
    heads = 0
    while heads < _HEADS_MOST and not _is_drawn(text[block[heads][0] : block[heads][1]]):
        if not text.startswith(_KEY_HEADS, block[0][0]):
            return
        heads += 1
    drawn = sum(_is_drawn(text[a:b]) for a, b in block[heads:])
    if drawn < _FEWEST_LINES - heads or drawn * 8 < (len(block) - heads) * 7:
        return
    yield from block
    if short is not None and (closed or _AFTER.match(text, short[1])):
        yield short


def _behind_sign(text: str, end: int) -> int:
    after = _AFTER.match(text, end)
    return after.end() if after is not None else end


def _is_drawn(run: str) -> bool:
    """Bytes as a cipher leaves them: no text of any script, no table, no padding."""
    if not _is_mixed(run) or max(Counter(run).values()) > _COMMONEST:
        return False
    raw = binascii.a2b_base64(run + "=" * (-len(run) % 4))
    readable = len(raw.decode("utf-8", "ignore").encode())
    return readable * 4 < len(raw) * 3 and len(set(run)) >= _KINDS_LEAST


#: Of the 64 characters a line of 64 drawn ones holds forty; none of them ten times.
#: The first lines of a key say what it is, in bytes that are not drawn.
_KEY_HEADS: Final = ("MI", "b3Blbn")
_HEADS_MOST: Final = 2
_KINDS_LEAST: Final = 24
_COMMONEST: Final = 10
