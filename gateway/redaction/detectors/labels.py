"""Where a text names what stands beside it: `PESEL: …`, `"dateOfBirth": …`, a column called `bsn`.

Owns the search for such names (one pass for all of them, whatever joins their words: `tax id`,
`tax_id`, `taxId`, `tax-id`), and the three places a value may be: close behind its name, right
behind it, or in the rows below a column's head. Invariant: pure and linear; every stretch of text
is read at most once for each kind of value. Called by `labeled` with the values it knows.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Final

from ahocorasick_rs import AhoCorasick, Implementation, MatchKind

from gateway.redaction.detectors.base import HIDDEN, Source, leftmost_longest, set_of


def words(text: str) -> tuple[str, ...]:
    """Names as lists hold them: `a|b c|d`."""
    return tuple(name for name in text.split("|") if name)


class Reach(Enum):
    """How far from its name a value may stand."""

    NEAR = 1  # within a few words: its check digits tell it from other numbers
    NEXT = 2  # only filler between: nothing but the name tells what it is
    COLUMN = 3  # only below the head of a column: in prose another rule knows better


@dataclass(frozen=True, slots=True)
class Value:
    """A kind of value that counts where a text names it. `words` are its names in lower case (the
    words of a name apart by blanks); `loud` ones count only in capitals or as the name of a field,
    being also words of a language or of a program."""

    kind: str
    rule: str
    words: tuple[str, ...]
    form: re.Pattern[str]
    is_valid: Callable[[str], bool]
    reach: Reach = Reach.NEAR
    loud: tuple[str, ...] = ()
    score: float = 0.9
    #: Whether every value of this form holds a digit, which is found faster than the form.
    digits: bool = False


@dataclass(frozen=True, slots=True)
class Label:
    """A name found in a text, and the values it may be the name of."""

    start: int
    end: int
    values: tuple[Value, ...]


#: How far behind its name a value with check digits may stand, and before it, in characters.
_REACH: Final = 64
_BEFORE: Final = 28
#: What may stand between a name and its value without saying anything.
_FILLER: Final = (
    r"(?:\([A-Za-z]{2,12}\)|</?[\w:.-]{1,24}(?:[ ][\w:.-]{1,24}=\"[^\"<>\n]{0,40}\"){0,3}>"
    r"|[ ](?!value=|content=)[\w:.-]{1,24}=\"[^\"<>\n]{0,40}\"(?=[ />])|"
    r"[\s\"'`´’“”„«»‘→⇒:=#<>|*_~()\[{\\/,.°º–—-]|"
    r"\b(?:no|nos|nr|nrs|num|number|numbers|numero|número|numéro|nummer|numer|numeris|"
    r"des|du|del|della|do|da|patienten|patients|paciente|paziente|kunden|client|cliente|pacjenta|"
    r"customer|klant|klienta|osoby|person|persona|personne|pasajero|passager|applicant|employee|"
    r"guest|seria|serie|série|holder|szám|číslo|is|are|was|of|on|the|this|my|your|his|her|their|"
    r"for|as|patient|"
    r"id|code|value|val|"
    r"text|string|str|date|data|new|datetime|file|record|expected|but|got|found|from|have|has|hat|"
    r"ha|tiene|porte|heeft|har|ma|document|sex|gender|we|longer|should|must|be|je|now|old|"
    r"previous|current|e\.g|i\.e|μου|ist|lautet|war|am|den|der|die|das|est|le|la|il|es|el|"
    r"è|é|jest|to|er|är|on|ble|blev|a|o|z|van|in|op|eq|like|and|varchar|char|not|null|default|"
    r"στις|στη|στην|τις|au|dne|dnia|dniu|w|em|op|mm|dd|yyyy|yy|[dmy]{2,4}|datetime|"
    r"αριθμός|αρ|είναι|cislo|št|br|nº|n°)\b|n[°º]|№|\bn\.|\b[A-Za-z]{1,16}(?:\.[a-z]{2,15})?\(|"
    r"&quot;"
    r"|&#34;)"
)
_GAP: Final = re.compile(rf"{_FILLER}{{0,24}}", re.IGNORECASE)
_FURTHEST: Final = 48

#: What may be joined to a name and leave it a name (`pesel_no`, `Passnummer`, `IDs`).
_TAIL: Final = re.compile(
    r"(?:s|es|en|et|a|u|ie|i|em|nummer|number|numero|nr|num|no|id|code|kod|szám)?(?![^\W\d_])"
)
_FIELD_SIGN: Final = re.compile(r"[\"'`]?\s{0,3}(?:[:=>|,;\t)]|\Z)|[_\d]|[\"'][ ]value=")


class Labels:
    """All names of `values`, found in one pass."""

    def __init__(self, values: Iterable[Value]) -> None:
        self._values: dict[str, list[tuple[Value, bool]]] = {}
        for value in values:
            for names, loud in ((value.words, False), (value.loud, True)):
                for name in names:
                    for written in _joined(name):
                        self._values.setdefault(written, []).append((value, loud))
        #: As written in lower case, each way their words may be joined.
        self.names = names = tuple(self._values)
        self._known = [
            (
                tuple(value for value, _ in self._values[name]),
                tuple(value for value, loud in self._values[name] if not loud),
            )
            for name in names
        ]
        #: Whether another name may begin within one that turned out to be none.
        self._joined = [not name.isalnum() for name in names]
        self._set = set_of(names)
        #: For the few looks within a name: slower, and a tenth of the memory.
        self._search = AhoCorasick(
            names,
            matchkind=MatchKind.LeftmostLongest,
            implementation=Implementation.ContiguousNFA,
        )

    def find(self, source: Source) -> Iterator[Label]:
        """Yield the names in the text, from left to right."""
        text, folded = source.text, source.folded
        tagged: bool | None = None
        for index, start, end in leftmost_longest(source.found(self._set)):
            # Most are parts of other words, as the character before tells.
            if (start and text[start - 1].isalpha() and _goes_on(text, start)) or not _is_whole(
                text, folded, start, end
            ):
                if self._joined[index]:
                    yield from self._within(text, folded, start, end)
                continue
            if tagged is None:
                tagged = "</" in text
            if tagged and _ends_element(text, start):
                continue
            label = self._label(text, index, start, end)
            if label is not None:
                yield label

    def _label(self, text: str, index: int, start: int, end: int) -> Label | None:
        values, quiet = self._known[index]
        if len(quiet) < len(values) and not _is_loud(text, start, end):
            values = quiet
        return Label(start, end, values) if values else None

    def _within(self, text: str, folded: str, start: int, end: int) -> Iterator[Label]:
        """`r č` in `her číslo pasu` is no name, and must not hide the one that begins in it."""
        first = start + 1
        for index, at, to in self._search.find_matches_as_indexes(folded[first : end + _NAME_MOST]):
            if first + at >= end:
                return
            if _is_whole(text, folded, first + at, first + to) and not _ends_element(
                text, first + at
            ):
                label = self._label(text, index, first + at, first + to)
                if label is not None:
                    yield label


_NAME_MOST: Final = 48


def _ends_element(text: str, start: int) -> bool:
    """`</passport>` is behind its value; what follows is another's."""
    opening = text.rfind("</", max(0, start - _TAG_MOST), start)
    return opening >= 0 and text.find(">", opening, start) < 0


_TAG_MOST: Final = 26


def _joined(name: str) -> set[str]:
    if not name[0].isalnum():  # `(b. `: signs are written one way
        return {name}
    return {name.replace(" ", sign) for sign in (" ", "_", "-", "", ".")} | {
        name.replace(" ", "  ")
    }


def _is_whole(text: str, folded: str, start: int, end: int) -> bool:
    """A word of its own, however it is joined to others: `user_pesel`, `peselNo`, `userPesel`."""
    if start and _goes_on(text, start):
        return False
    following = text[end : end + 1]
    if not following.isalpha() or not text[end - 1].isalnum():
        return True
    if following.isupper() and text[end - 1].islower():
        return True
    return _TAIL.match(folded, end) is not None


def _goes_on(text: str, start: int) -> bool:
    """Whether what begins there is part of a word that began before."""
    before = text[start - 1]
    return before.isalpha() and not (text[start].isupper() and before.islower())


def _is_loud(text: str, start: int, end: int) -> bool:
    if _QUOTED_FIELD.match(text, end) and (start == 0 or text[start - 1] in " \n\t{(,"):
        return True
    return text[start:end].isupper() or (
        _FIELD_SIGN.match(text, end) is not None
        and (start == 0 or not (text[start - 1].isalnum() or text[start - 1] in " ."))
    )


#: `, sin="…"`, and what a line of its own begins with.
_QUOTED_FIELD: Final = re.compile(
    r"[\"']?[ ]?(?:=>|[:=])[ ]?(?:[\"']|\d{3}[ \-]\d{3}[ \-]\d{3}(?!\d))"
)


_DIGIT: Final = re.compile(r"\d")


def near(text: str, labels: Sequence[Label], value: Value) -> Iterator[tuple[int, int]]:
    """Yield values with check digits close to one of their names `labels` (in order). Names close
    to each other make one stretch of text, which is read once."""
    starts, ends = [label.start for label in labels], [label.end for label in labels]
    read = index = 0
    while index < len(labels):
        at = max(read, starts[index] - _BEFORE)
        limit = ends[index] + _REACH
        index += 1
        while index < len(labels) and starts[index] - _BEFORE <= limit:
            limit = ends[index] + _REACH
            index += 1
        if value.digits and _DIGIT.search(text, at, limit + _REACH) is None:
            read = limit
            continue
        listed = 0  # a list of them: the next one may stand this far
        while (found := value.form.search(text, at, limit + _REACH)) is not None:
            at = found.end()
            if found.start() > limit:
                break
            after = bisect_right(ends, found.start())
            if (
                found.start() <= listed
                or (after and found.start() - ends[after - 1] <= _REACH)
                or (after < len(starts) and _is_beside(text, found.end(), starts[after]))
            ) and value.is_valid(found.group()):
                yield found.span()
                listed = found.end() + _REACH // 2
                limit = max(limit, listed)
        read = at


def _is_beside(text: str, end: int, start: int) -> bool:
    """`44051401359 (PESEL)`: between a value and the name behind it, signs and little else."""
    if not 0 <= start - end <= _BEFORE:
        return False
    between = text[end:start]
    return "\n" not in between and _BESIDE.fullmatch(between) is not None


_BESIDE: Final = re.compile(
    r"[\s\"'`()\[\]{},:;–—-]{0,6}(?:(?:is|as|the|my|is the|is my|est|ist|als)[ \t]{1,2}){0,3}[\s\"'"
    r"(\[]{0,3}"
)


def value_starts(text: str, label: Label, known: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Where the value right behind a name may begin: behind filler, or with the last word of it.
    `known` remembers within one text, where lines repeat."""
    window = text[label.end - 1 : label.end + _FURTHEST + _LONGEST_TAIL]
    starts = known.get(window)
    if starts is None:
        starts = known[window] = tuple(
            start - label.end for start in _value_starts(text, label.end)
        )
    return tuple(start + label.end for start in starts)


_LONGEST_TAIL: Final = 8


def _value_starts(text: str, at: int) -> tuple[int, ...]:
    tail = _TAIL.match(text, at)
    # One character more than may be: filler that goes on is known to be too long.
    gap = _GAP.match(text, tail.end() if tail and tail.group() else at, at + _FURTHEST + 1)
    if gap is None or gap.end() - at > _FURTHEST or HIDDEN in gap.group():
        return ()
    end = gap.end()
    word = _WORD_END.search(text, at, end)
    return (word.start(), end) if word is not None else (end,)


#: Filler that touches the value may be its own beginning: the `A-` of `A-0048291`.
_WORD_END: Final = re.compile(r"[^\s\"'`´:=#>|,(){}\[\]~*]+\Z")


def following(text: str, starts: tuple[int, ...], value: Value) -> Iterator[tuple[int, int]]:
    """Yield the value that begins at one of `starts`."""
    for start in starts:
        match = value.form.match(text, start)
        if match is not None and value.is_valid(match.group()):
            yield match.span()
            return


#: Heads and rows of tables: no longer than this, or it is no table.
_LINE_MOST: Final = 2000
_ROWS_MOST: Final = 20_000
_MOST_ROWS: Final = 4096
_HEAD_CELL: Final = 48
#: How much longer than a name the head of its column may be.
_HEAD_MORE: Final = 16
_RULER: Final = re.compile(r"[\s|+:\-=>]*")
_CELLS: Final = {
    sign: re.compile(
        rf"[ ]*(?:\"([^\"\n]*)\"|'([^'\n]*)'|`([^`\n]*)`|([^{re.escape(sign)}\n]*?))[ ]*"
        rf"(?:{re.escape(sign)}|(?=[\n\r])|\Z)"
    )
    for sign in ",;|\t"
}
_VALUES: Final = re.compile(
    r"\)\s{0,8}(?:OUTPUT[^()]{0,80})?VALUES?[\s>]{0,8}(?=\()", re.IGNORECASE
)
_TUPLE: Final = re.compile(  # a string may hold parentheses
    r"[\s>]{0,8},?[\s>]{0,8}\(((?:'(?:[^'\n]|''){0,1000}+'|\"[^\"\n]{0,1000}+\"|[^()'\"\n]{1,400}+){1,200}+)\)"
)


#: The names of columns as a dump of PostgreSQL has them, with tabs between the values below; and as
#: a test has them, with tuples below.
_COPIED: Final = re.compile(r"\)\s{1,8}FROM\s{1,8}stdin;?[^\n]{0,40}\n", re.IGNORECASE)
_PARAMETERS: Final = re.compile(r"[\"'\])],?[\s>]{0,8}(?:\[|\(|argvalues=\[)[\s>]{0,12}(?=\()")
#: What a text holds in which one of the three occurs: far faster to find.
_OPENINGS: Final = re.compile(r"[\[(][\s>]{0,12}\(")


def columns(source: Source, labels: list[Label]) -> Iterator[tuple[Value, int, int]]:
    """Yield what stands below the head of each column that has a name of `labels`."""
    if not labels:
        return
    text = source.text
    done = 0
    index = 0
    lists = _lists(source)
    while index < len(labels):
        label = labels[index]
        if label.start < done:  # a row of a table that was read
            index += 1
            continue
        start = text.rfind("\n", 0, label.start) + 1
        end = text.find("\n", label.end)
        end = len(text) if end < 0 else end
        same = [label]
        index += 1
        while index < len(labels) and labels[index].start < end:
            same.append(labels[index])
            index += 1
        if start < done or end - start > _LINE_MOST:
            continue
        nearest = bisect_left(lists, same[-1].end)
        if nearest < len(lists) and lists[nearest] < end + _LIST_REACH:
            tables = _tables(text, start, end, same)
        elif _may_be_head(text, start, end):
            tables = _table(text, start, end, same)
        else:
            continue
        for rows, heads in tables:
            for row in rows:
                done = max(done, row[-1][1])
                for column, value in heads:
                    if column < len(row):
                        yield value, *row[column]


def _lists(source: Source) -> list[int]:
    """Where lists of values follow the names of their columns, in order."""
    known: list[int] | None = source.noted.get(_LISTS)
    if known is None:
        text, folded = source.text, source.folded
        # Each for itself: together they are twice as slow.
        forms = (
            _VALUES if "value" in folded and _may_hold_values(source) else None,
            _COPIED if "stdin" in folded else None,
            _PARAMETERS if _may_hold_parameters(source) else None,
        )
        known = sorted(found.start() for form in forms if form for found in form.finditer(text))
        source.noted[_LISTS] = known
    return known


def _may_hold_values(source: Source) -> bool:
    """Whether `_VALUES` can find anything."""
    dense = source.dense
    if dense is None:
        return True
    dense = dense.lower()
    return b")values(" in dense or b")value(" in dense or b")output" in dense


def _may_hold_parameters(source: Source) -> bool:
    """Whether `_PARAMETERS` can find anything: a bracket that opens right behind another one, and
    what must stand before the two."""
    dense = source.dense
    if dense is None:
        return _OPENINGS.search(source.text) is not None
    for pair in (b"((", b"[("):
        at = dense.find(pair)
        while at >= 0:
            before = dense[max(0, at - 1) : at]
            if before == b",":
                before = dense[max(0, at - 2) : at - 1]
            if before in _CLOSERS or dense.endswith(b"argvalues=", 0, at):
                return True
            at = dense.find(pair, at + 1)
    return False


_CLOSERS: Final = frozenset((b'"', b"'", b"]", b")"))
#: Under which a text's lists are noted: several kinds of names ask for them.
_LISTS: Final = "lists"


def _may_be_head(text: str, start: int, end: int) -> bool:
    """Whether what stands in this line and the next can be a table's first two; says yes where
    quotes make that hard to tell. Most lines with a name in them are none."""
    line = text[start:end]
    sign = next((s for s in "\t|;," if s in line), None)
    if sign is None or end >= len(text):
        return False
    if '"' in line or "'" in line or "`" in line:
        return True
    cells = line.rstrip("\r").split(sign)
    if any(len(cell.strip(" ")) > _HEAD_CELL for cell in cells):
        return False
    below = text.find("\n", end + 1)
    below = len(text) if below < 0 else below
    return (
        text.count(sign, end + 1, below) + 3 > len(cells)
        or _RULER.fullmatch(text, end + 1, below) is not None
    )


Cells = list[tuple[int, int]]
_Tables = Iterator[tuple[Iterator[Cells], list[tuple[int, Value]]]]
#: How far behind the names of columns the rows of a statement may begin.
_LIST_REACH: Final = 200


def _tables(text: str, start: int, end: int, labels: list[Label]) -> _Tables:
    limit = min(len(text), end + _LIST_REACH)
    closing = _VALUES.search(text, labels[-1].end, limit)
    if closing is not None:
        opening = text.rfind("(", start, labels[0].start)
        if opening >= 0 and ")" not in text[labels[0].end : closing.start()]:
            heads = _heads(_split(text, opening + 1, closing.start(), ","), labels, text)
            if heads:
                yield _tuples(text, closing.end()), heads
        return
    copied = _COPIED.search(text, labels[-1].end, limit)
    listed = _PARAMETERS.search(text, labels[-1].end, limit)
    listed = None if listed is not None and "\n" in text[end : listed.start()] else listed
    for found in (copied, listed):
        opening = -1 if found is None else text.rfind("(", start, labels[0].start)
        if found is None or opening < 0 or ")" in text[labels[0].end : found.start()]:
            continue
        cells = _split(text, opening + 1, found.start() + (found is listed), ",")
        heads = _heads(cells, labels, text)
        if heads and found is copied:
            yield _rows(text, found.end(), "\t", len(cells)), heads
        elif heads:
            yield _tuples(text, found.end()), heads
        return
    yield from _table(text, start, end, labels)


def _table(text: str, start: int, end: int, labels: list[Label]) -> _Tables:
    """A line of names and the rows below it."""
    sign = next((s for s in "\t|;," if s in text[start:end]), None)
    if sign is None or end >= len(text):
        return
    cells = _split(text, start, end, sign)
    if len(cells) < 2 or any(last - first > _HEAD_CELL for first, last in cells):
        return
    heads = _heads(cells, labels, text)
    if heads:
        yield _rows(text, end + 1, sign, len(cells)), heads


def _heads(cells: Cells, labels: list[Label], text: str) -> list[tuple[int, Value]]:
    """Which columns have a name that is one of `labels`, or little more."""
    heads: list[tuple[int, Value]] = []
    starts = [first for first, _ in cells]
    for label in labels:
        number = bisect_right(starts, label.start) - 1
        if number < 0:
            continue
        first, last = cells[number]
        if (
            label.end <= last
            and last - first <= label.end - label.start + _HEAD_MORE
            and ":" not in text[first:last]
            and "=" not in text[first:last]
        ):
            heads += [(number, value) for value in label.values]
    return heads[:32]


def _split(text: str, start: int, end: int, sign: str) -> Cells:
    cells: Cells = []
    at = start
    pattern = _CELLS[sign]
    while at <= end:
        match = pattern.match(text, at, end)
        if match is None:
            break
        cells.append(match.span(match.lastindex or 0))
        if match.end() >= end and text[match.end() - 1 : match.end()] != sign:
            break
        at = match.end() if match.end() > at else at + 1
    return cells


def _rows(text: str, at: int, sign: str, width: int) -> Iterator[Cells]:
    known: dict[str, Cells | None] = {}  # rows repeat
    for _ in range(_ROWS_MOST):
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        if end - at > _LINE_MOST:
            return
        line = text[at:end]
        if line not in known:
            if len(known) > _MOST_ROWS:
                known.clear()
            ruled = end > at and _RULER.fullmatch(line) is not None
            known[line] = None if ruled else _split(line, 0, len(line), sign)
        cells = known[line]
        if cells is not None:
            if abs(len(cells) - width) > 1 or end == at:
                return
            yield [(first + at, last + at) for first, last in cells]
        if end >= len(text):
            return
        at = end + 1


def _tuples(text: str, at: int) -> Iterator[Cells]:
    for match in islice(_following_tuples(text, at), _ROWS_MOST):
        yield _split(text, match.start(1), match.end(1), ",")


def _following_tuples(text: str, at: int) -> Iterator[re.Match[str]]:
    while (match := _TUPLE.match(text, at)) is not None:
        yield match
        at = match.end()
