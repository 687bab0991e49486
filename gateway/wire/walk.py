"""Scan by default: walks free-form data and strings so that nothing reaches a provider unread.

Invariant: every string, every object key and every long number is shown to the redactor; JSON
inside a string is read as JSON (escapes undone, keys giving context) and stays valid JSON, and the
same string is then also read as plain text, so the detour can hide nothing; a word of base64 that
is a text is opened, read and closed again, and so are hexadecimal digits, the pairs of a form and
texts spelled out in a list. A string in which nothing was found keeps its bytes; in
one where something was, only the changed literals differ. Redacted keys of one object stay
distinct. Pure; called by the format modules.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, Final, cast
from urllib.parse import quote, unquote

from gateway.wire.base import PartMemory, TextRedactor, ValueRedactor, offers
from gateway.wire.encoded import SHORTEST_BASE64, forms_read, spelled_in, words_read
from gateway.wire.nesting import JsonPrefix, escaped, plainly_spelled
from gateway.wire.strictjson import Number, Pairs, loads_pairs

#: JSON nested in strings is followed to this total depth; beyond, it is read as plain text. Each
#: level of strings doubles the backslashes, so real data ends long before.
MAX_NESTING: Final = 160

#: A number shorter than this is not personal data by itself (no telephone, id or card is).
MIN_NUMBER: Final = 6

#: A name says something about a short value; a longer one is a document, scanned as text.
LONGEST_VALUE: Final = 2048

#: Members under these names belong to what the enclosing object's own key says:
#: `{"api_key": {"default": "..."}}` in a schema, `{"password": {"value": "..."}}` in an answer.
_INHERITING: Final = frozenset(("default", "const", "example", "examples", "value", "values"))

#: A list or a map under such a name hands it down, with a member's own name behind the sign:
#: `{"tokens": {"a": "..."}}` is read as `tokens[].a`.
_HANDING: Final = re.compile(
    r"(?:secret|token|passw(?:or)?d|passwort|passphrase|passcode|pwd|credential|"
    r"(?:api|access|auth|private|signing|encryption|secret|ssh|service|webhook|license)[_-]?key)s?\Z",
    re.IGNORECASE,
)
_HANDED: Final = "[]."
_LONGEST_HANDED: Final = 64

#: `{"name": "DB_PASSWORD", "value": "..."}`: environment lists, headers, form fields.
_NAME_MEMBERS: Final = ("name", "key", "Name", "Key", "variable", "header", "field")
_VALUE_MEMBERS: Final = frozenset(("value", "Value", "val"))

#: Keys whose value is a secret whatever it looks like. Used only for engines without `value`.
_NAMES_A_SECRET: Final = re.compile(
    r"pass(?:wd|word|phrase|code)?\b|pwd|secret|token|credential|api[_-]?key|access[_-]?key|"
    r"private[_-]?key|auth|cookie|session|bearer",
    re.IGNORECASE,
)

_LITERAL: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[0-9.eE+\-]*')
#: A line that may be JSON by itself. The literal line end in front keeps the search fast.
_JSON_LINE: Final = re.compile(r"\n([ \t]*[{\[][^\r\n]*[}\]])(?=[ \t]*\r?$)", re.MULTILINE)
#: `["x-api-key", "…"]`: a row of names and values, where the value is no word.
_ROW_NAME: Final = re.compile(r"[A-Za-z][\w.\-]{1,63}", re.ASCII)
_ROW_VALUE: Final = re.compile(r"(?=[^\d]*\d)[^\r\n]{6,4096}")
#: A number that is short for a longer one.
_EXPONENT: Final = re.compile(r"-?(\d{1,24})(?:\.(\d{1,24}))?(?:[eE]\+?(\d{1,2}))?")
#: `user_4539…`, `gpt-5_4539…`: a key, an id or a model, and a number behind it.
_NUMBERED: Final = re.compile(r"([\w.:/\-]*[A-Za-z0-9]_{1,2})(\d[\d\-]{10,24})", re.ASCII)
_LONGEST_NUMBERED: Final = 80
#: A text as long is remembered when nothing was encoded in it.
_WORTH_REMEMBERING: Final = 512
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_URL_DELIMITER: Final = re.compile(r"([/?#&=;:@,]+)")


class Scanner:
    """Shows everything to one redactor. One per request."""

    def __init__(self, redactor: TextRedactor) -> None:
        self._text = redactor.text
        self._value = (
            cast(ValueRedactor, redactor).value
            if offers(redactor, ValueRedactor)
            else self._value_as_text
        )
        self._memory = cast(PartMemory, redactor) if offers(redactor, PartMemory) else None
        self._keys: dict[str, str] = {}

    def string(self, text: str, key: str | None = None, depth: int = 0) -> str:
        """Return `text` redacted; `key` is the name it was found under, if that says anything."""
        if len(text) < 2:
            return text if key is None else self._plain(text, key)
        if depth < MAX_NESTING:
            text = self._nested(text, key, depth)
        text = self._numbered(self._plain(text, key))
        # Last, so that a value known as a whole by its key is not taken apart before.
        if len(text) < SHORTEST_BASE64 or depth >= MAX_NESTING:
            return text
        return self._opening(text, depth)

    def free(self, value: Any, key: str | None = None, depth: int = 0) -> Any:
        """Return free-form data redacted: values, keys and numbers. Unchanged parts are shared."""
        if isinstance(value, str):
            return self.string(value, key, depth)
        if isinstance(value, dict):
            return self._object(value, key, depth)
        if isinstance(value, list):
            if spelled := self._respelled(value, key, depth):
                return spelled
            keys = element_keys(value, key)
            items = [
                self.free(item, name, depth + 1) for item, name in zip(value, keys, strict=True)
            ]
            return same_or_new(value, items)
        if isinstance(value, bool) or value is None:
            return value
        lexeme = value.text if isinstance(value, Number) else str(value)
        redacted = self.edit_number(lexeme, key)
        return value if redacted == lexeme else redacted

    def key(self, key: str) -> str:
        """Return an object key redacted; a key may be a JSON text like any other string."""
        known = self._keys.get(key)
        if known is None:
            known = self._keys[key] = self.string(key)
        return known

    def url(self, url: str) -> str:
        """Return a URL redacted, also where a value is percent-encoded."""
        scanned = self.string(url)
        if "%" not in scanned and "=" not in scanned:
            return scanned
        parts = _URL_DELIMITER.split(scanned)
        for number in range(0, len(parts), 2):
            name = parts[number - 2] if number >= 2 and parts[number - 1] == "=" else None
            parts[number] = self._url_part(parts[number], name)
        return "".join(parts)

    def edit_key(self, key: str) -> str:
        """Return a key of a JSON text redacted."""
        return self._whole(key, self.key)

    def edit_string(self, text: str, key: str | None, depth: int) -> str:
        """Return a string of a JSON text redacted, JSON inside it included."""
        return self._whole(text, lambda whole: self.string(whole, key, depth))

    def edit_number(self, lexeme: str, key: str | None) -> str:
        """Return the redacted text of a number, or the same lexeme."""
        if len(lexeme) < MIN_NUMBER:
            return lexeme
        redacted = self._plain(lexeme, key)
        if redacted == lexeme and not lexeme.isdigit() and (whole := _written_out(lexeme)):
            said = self._plain(whole, key)
            return lexeme if said == whole else said
        return redacted

    def spelled(self, items: list[Any], key: str | None, depth: int) -> tuple[str, str] | None:
        """Return the text that a list spells in characters or bytes, and the same redacted, when
        there is something in it."""
        text = spelled_in(items)
        scanned = None if text is None else self.string(text, key, depth + 1)
        return None if text is None or scanned is None or scanned == text else (text, scanned)

    def _numbered(self, text: str) -> str:
        """Read the number of a word that ends in one: in a text it would be the name of a thing."""
        if len(text) > _LONGEST_NUMBERED or not text[-1:].isdigit():
            return text
        found = _NUMBERED.fullmatch(text)
        return text if found is None else found[1] + self._plain(found[2], None)

    def _respelled(self, items: list[Any], key: str | None, depth: int) -> list[Any] | None:
        found = self.spelled(items, key, depth)
        if found is None:
            return None
        return [found[1]] if isinstance(items[0], str) else list(found[1].encode())

    def _object(self, value: dict[str, Any], key: str | None, depth: int) -> dict[str, Any]:
        names = member_keys(value.items(), key)
        members = [
            (self.key(name), self.free(member, context, depth + 1))
            for (name, member), context in zip(value.items(), names, strict=True)
        ]
        if all(
            new is old and new_key == old_key
            for (new_key, new), (old_key, old) in zip(members, value.items(), strict=True)
        ):
            return value
        return dict(distinct_keys(value, members))

    def _plain(self, text: str, key: str | None) -> str:
        if key is None or len(text) > LONGEST_VALUE:
            return self._text(text)
        return self._value(key, text)

    def _value_as_text(self, key: str, value: str) -> str:
        if _NAMES_A_SECRET.search(key):
            prefix = f"{key}: "
            line = self._text(prefix + value)
            if line.startswith(prefix):
                value = line[len(prefix) :]
        return self._text(value)

    def _nested(self, text: str, key: str | None, depth: int) -> str:
        """Read JSON and forms within a text; a long one in which nothing was found is remembered,
        for its key and depth, because both say how it is read."""
        memory = self._memory if len(text) >= _WORTH_REMEMBERING else None
        if memory is None:
            return self._nested_here(text, key, depth)
        mark = memory.mark(f"nested {depth}", text, key)
        if memory.is_clean(mark):
            return text
        before = memory.touched
        edited = self._nested_here(text, key, depth)
        if edited == text and memory.touched == before:
            memory.remember_clean(mark)
        return edited

    def _nested_here(self, text: str, key: str | None, depth: int) -> str:
        edited = edit_json(text, self, key, depth)
        if edited is not None:
            return edited
        text = forms_read(text, lambda value, name: self.string(value, name, depth + 1))
        if "\n" not in text or '"' not in text:
            return text

        def line(found: re.Match[str]) -> str:
            edited = edit_json(found.group(1), self, key, depth)
            return found.group() if edited is None else f"\n{edited}"

        lines = f"\n{text}"
        edited_lines = _JSON_LINE.sub(line, lines)
        return text if edited_lines == lines else edited_lines[1:]

    def _opening(self, text: str, depth: int) -> str:
        """Read what is written in base64 and hexadecimal within a text; a long one in which there
        was nothing is remembered, because it is sent again on every turn."""
        memory = self._memory if len(text) >= _WORTH_REMEMBERING else None
        if memory is not None:
            mark = memory.mark("encoded", text)
            if memory.is_clean(mark):
                return text
            before = memory.touched
        opened = words_read(text, lambda word: self.string(word, None, depth + 1))
        if memory is not None and opened == text and memory.touched == before:
            memory.remember_clean(mark)
        return opened

    def _whole(self, text: str, scan: Callable[[str], str]) -> str:
        """Scan text that may hold lone surrogates, which only JSON inside a string can bring."""
        if not _SURROGATE.search(text):
            return scan(text)
        readable = _SURROGATE.sub("\ufffd", text)
        scanned = scan(readable)
        return text if scanned == readable else scanned

    def _url_part(self, part: str, name: str | None) -> str:
        decoded = unquote(part, errors="replace")
        scanned = self._plain(decoded, name)
        if scanned == decoded:
            return part
        return quote(scanned, safe="[]!*'(),+") if decoded != part else scanned


def restore_string(text: str, restore: Callable[[str], str], *, must_be_json: bool = False) -> str:
    """Return `text` restored; where it is a JSON text, it stays one whatever the originals hold.

    must_be_json: it is one by contract (tool arguments), whatever it opens with. In JSON an
    original is escaped once per string literal around it, and nothing else changes, so a whole
    answer and a streamed one read the same.
    """
    restored = restore(text)
    if restored == text and "\\u00" not in text:
        return text
    is_json = must_be_json or text.lstrip()[:1] in ("{", "[")
    if is_json and (plain := plainly_spelled(text)) != text:
        restored = restore_string(plain, restore, must_be_json=must_be_json)
        return text if restored == plain else restored
    # A quoted phrase is prose here, not a JSON string: escaping it would show backslashes.
    if restored == text or not is_json:
        return restored
    place = JsonPrefix(must_be_json=must_be_json)
    head, *rest = text.split("[")
    place.feed(head)
    parts = [restore(head)]
    for part in rest:
        depth = place.depth
        place.feed("[" + part)
        inside, bracket, after = part.partition("]")
        token = f"[{inside}{bracket}"
        original = restore(token)
        parts += (token if original == token else escaped(original, depth), restore(after))
    return "".join(parts)


def restore_free(value: Any, restore: Callable[[str], str]) -> Any:
    """Return free-form data (tool input) restored, keys included."""
    if isinstance(value, str):
        return restore_string(value, restore)
    if isinstance(value, list):
        return [restore_free(item, restore) for item in value]
    if isinstance(value, dict):
        members = [(restore_string(k, restore), restore_free(v, restore)) for k, v in value.items()]
        return dict(distinct_keys(value, members))
    return value


def restore_names(value: dict[str, Any], restore: Callable[[str], str]) -> dict[str, Any]:
    """Return an object of an answer with its names restored: only data has others than the words
    of an API, and asking of each of those would cost more than all the rest."""
    if all(map(str.isidentifier, value)):
        return value
    members = [(restore_string(name, restore), member) for name, member in value.items()]
    return dict(distinct_keys(value, members))


def edit_json(text: str, scanner: Scanner, key: str | None, depth: int) -> str | None:
    """Edit the leaves of a JSON object or array given as text.

    Returns None when `text` is not JSON, `text` itself when no leaf changed; otherwise a text in
    which the changed literals are replaced and every other character is as it was.
    """
    if not _may_be_json(text):
        return None
    try:
        document = loads_pairs(text)
    except (ValueError, RecursionError):
        return None
    edits: list[str | None] = []
    try:
        _collect(document, scanner, key, depth + 1, edits)
    except _TooDeep:
        return None
    if not any(edit is not None for edit in edits):
        return text
    return "".join(_splice(text, edits))


def member_keys(members: Iterable[tuple[str, Any]], inherited: str | None) -> list[str | None]:
    """Return, for each member of an object, the name that says what its value is."""
    pairs = list(members)
    named: str | None = None
    if any(name in _VALUE_MEMBERS for name, _ in pairs):
        named = next(
            (value for name, value in pairs if name in _NAME_MEMBERS and isinstance(value, str)),
            None,
        )
    contexts: list[str | None] = []
    for name, _ in pairs:
        if named is not None and name in _VALUE_MEMBERS:
            contexts.append(named)
        elif inherited is not None and name in _INHERITING:
            contexts.append(inherited)
        else:
            contexts.append(_handed_down(inherited, name))
    return contexts


def _handed_down(inherited: str | None, name: str) -> str:
    """A member's name, behind the telling name of the list or map that holds it."""
    head = (inherited or "").partition(_HANDED)[0][-_LONGEST_HANDED:]
    if not head or _HANDING.search(head) is None or _HANDING.search(name) is not None:
        return name
    return f"{head}{_HANDED}{name}"


def element_keys(items: list[Any], inherited: str | None) -> list[str | None]:
    """Return, for each element, its context: the array's own, the option before it in argv, or the
    name beside it in a row of two."""
    if len(items) == 2 and _is_row(items):
        return [inherited, items[0]]
    contexts: list[str | None] = []
    before: Any = None
    for item in items:
        is_option = isinstance(before, str) and before.startswith("-") and len(before) < 40
        contexts.append(before.lstrip("-") or inherited if is_option else inherited)
        before = item
    return contexts


def _is_row(items: list[Any]) -> bool:
    name, value = items
    return (
        isinstance(name, str)
        and isinstance(value, str)
        and _ROW_NAME.fullmatch(name) is not None
        and _ROW_VALUE.fullmatch(value) is not None
    )


def same_or_new(old: list[Any], new: list[Any]) -> list[Any]:
    """Return the old list when every element is the very same: nothing was found in it."""
    return old if all(a is b for a, b in zip(new, old, strict=True)) else new


def distinct_keys(
    original: Iterable[str], members: list[tuple[str, Any]]
) -> Iterator[tuple[str, Any]]:
    """Yield the members with keys made unique where editing made two of them equal."""
    untouched = {new for old, (new, _) in zip(original, members, strict=True) if old == new}
    seen: set[str] = set()
    for old, (new, value) in zip(original, members, strict=True):
        name, count = new, 1
        while name in seen or (name != old and name in untouched):
            count += 1
            name = f"{new}_{count}"
        seen.add(name)
        yield name, value


def _written_out(lexeme: str) -> str | None:
    """Return the digits of a whole number written with a point or an exponent, or None."""
    found = _EXPONENT.fullmatch(lexeme)
    if found is None:
        return None
    try:
        number = Decimal(lexeme)
        whole = number.to_integral_value()
    except InvalidOperation:
        return None
    return f"{abs(whole):f}" if whole == number else None


class _TooDeep(Exception):
    pass


def _may_be_json(text: str) -> bool:
    head = text.lstrip(" \t\r\n")[:1] if text[:1].isspace() else text[:1]
    if head not in ("{", "[", '"'):
        return False
    if head == '"' and "\\" not in text:
        return False
    return text.rstrip(" \t\r\n")[-1:] in ("}", "]", '"')


def _edited_keys(names: list[str], scanner: Scanner) -> list[str]:
    edited = [scanner.edit_key(name) for name in names]
    if len(set(names)) < len(names):
        return edited  # equal keys were equal before; whoever wrote them meant it
    return [name for name, _ in distinct_keys(names, [(name, None) for name in edited])]


def _collect(
    node: Any, scanner: Scanner, key: str | None, depth: int, edits: list[str | None]
) -> None:
    """Append, for every key, string and number in document order, its new literal or None."""
    if depth > MAX_NESTING:
        raise _TooDeep
    if isinstance(node, str):
        edited = scanner.edit_string(node, key, depth)
        edits.append(None if edited == node else edited)
    elif isinstance(node, Pairs):
        names = [name for name, _ in node]
        contexts = member_keys(node, key)
        for (name, value), new, context in zip(
            node, _edited_keys(names, scanner), contexts, strict=True
        ):
            edits.append(None if new == name else new)
            _collect(value, scanner, context, depth + 1, edits)
    elif isinstance(node, list):
        if (spelled := scanner.spelled(node, key, depth)) is not None:
            # Every leaf keeps its place: the first says it all.
            edits += [spelled[1], *[""] * (len(node) - 1)]
            return
        for item, context in zip(node, element_keys(node, key), strict=True):
            _collect(item, scanner, context, depth + 1, edits)
    elif not isinstance(node, bool) and node is not None:
        lexeme = node.text if isinstance(node, Number) else str(node)
        edited = scanner.edit_number(lexeme, key)
        edits.append(None if edited == lexeme else edited)


def _splice(text: str, edits: list[str | None]) -> Iterator[str]:
    position = 0
    for literal, edit in zip(_LITERAL.finditer(text), edits, strict=True):
        if edit is not None:
            yield text[position : literal.start()]
            yield json.dumps(edit, ensure_ascii="\\u" in literal.group())
            position = literal.end()
    yield text[position:]
