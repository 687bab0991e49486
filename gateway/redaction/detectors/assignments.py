"""Secrets behind their names, in the syntax of any language, file or command line.

Invariant: pure and linear; every name is looked behind once, a bounded way. Called by
`SecretRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.arguments import is_option, is_plain_argument, is_variable
from gateway.redaction.detectors.base import HIDDEN, Source
from gateway.redaction.detectors.between import (
    BARE,
    CALL,
    CALLED,
    FALLBACK,
    FORM_FIELD,
    MAY_GO_ON,
    PAIR,
    glue_behind,
    inside_element,
    is_branch,
    is_entry,
)
from gateway.redaction.detectors.names import (
    NAME,
    NAME_MAX,
    PASSWORD,
    is_any_secret_name,
    name_start,
    places,
)
from gateway.redaction.detectors.quotations import AFTER_STRING, closes_within, closing, ends_string
from gateway.redaction.detectors.repeats import repeats_of
from gateway.redaction.detectors.styles import FIELD_REACH, escaped_end, read, style_of
from gateway.redaction.detectors.values import (
    GLANCE,
    JUDGED,
    OPEN_VALUE,
    PLACEHOLDER,
    SCHEME,
    SPOKEN_MAX,
    VALUE_MAX,
    Judge,
    is_chosen,
    is_generated,
    is_random,
    spoken_word,
)
from gateway.redaction.spans import Span

#: `${1:-value}`, `${DB:value}`: what is used where a variable is empty.
_EMPTY_VARIABLE: Final = re.compile(
    r"\$\{[\w.]{1,60}:?[-:](?P<value>[^\s\"'{}$?+-][^\s\"'{}$]{5,127})\}"
)
_CHECKSUM_OF: Final = "checksum/"
_USING: Final = re.compile(r"(?:\A|(?<=\.))(?:with|using)(?=[A-Z])")
#: `the password is …`, `password "…"`, in sentences.
_SPOKEN: Final = re.compile(
    r"[\"'`*]{0,2}[ \t]{1,3}"
    r"(?:(?:is|was|=|to|will be|set to|for [\w@.\-]{1,40} is)(?::|[ \t]){1,3})?"
    r"(?P<quote>[\"'`])?"
)
#: A value that was replaced before ends where its token does.
_UNQUOTED: Final = re.compile(rf"[^\s\"'`,;<>(){{}}\[\]|{HIDDEN}]{{1,4096}}")
#: An escape, or a quotation mark of a page's source: other rules read through them.
_NO_VALUE: Final = re.compile(r"\\|&(?:[a-z]{2,5}|#[xX]?\w{2,4});")
_REST_OF_LINE: Final = re.compile(r"[^\r\n]{1,4096}")
_STATEMENT: Final = re.compile(r"\b(?:create|alter|grant)\b", re.IGNORECASE)
#: Where a name and its value stand in a stretch of text, and the stretch: all that is judged.
_Window = tuple[int, int, str]
#: What was judged in a text so far: no secret, or the place of a name and what was found there.
_Seen = dict[_Window, tuple[int, Span] | None]
_MOST_SEEN: Final = 4096
#: A value that ends so far behind its name was judged by nothing outside of the stretch.
_SURELY_WITHIN: Final = JUDGED - 64
#: What is read between a name and its value, in nearly every text.
_GLUE_REACH: Final = 64
#: More than is ever read before and behind what may be a name.
_BACK: Final = 512
_AHEAD: Final = 2 * VALUE_MAX


class Assignments:
    """Finds values behind the names of secrets."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def spans(self, source: Source) -> Iterator[Span]:
        """Look behind every word for a secret."""
        text = source.text
        done = -1
        seen: _Seen = {}
        hints = sorted(places(source))
        repeats = repeats_of(text, len(hints), back=_BACK, ahead=_AHEAD)
        for at in hints:
            if at < done:
                continue
            if repeats is not None:
                done, again = repeats.skip(at)
                if again:
                    yield from again
                if at < done:
                    continue
            start = name_start(text, at)
            if text[start - 1 : start] == "\\" and text[start] in "nrt" and start + 1 < at + 1:
                start += 1  # an escaped line end touches the name
            name = NAME.match(text, start)
            if name is None:  # the end of a very long word
                continue
            done = max(name.end(), at + 1)
            written = name.group().rstrip(".-")
            named = _USING.sub("", written) if text.startswith("(", name.end()) else written
            if len(written) > NAME_MAX or not is_any_secret_name(named):
                continue
            if text.startswith(_CHECKSUM_OF, start - len(_CHECKSUM_OF)):
                continue
            span = self._value_once(text, named, start + len(written), start, seen)
            if span is not None:
                done = max(done, span.end)
                if repeats is not None:
                    repeats.found.append(span)
                yield span

    def _value_once(self, text: str, name: str, end: int, start: int, seen: _Seen) -> Span | None:
        """Lines repeat, and each is judged once."""
        if len(seen) > _MOST_SEEN:
            seen.clear()
        window = _window(text, start, end)
        if window in seen:
            known = seen[window]
            if known is None:
                return None
            at, span = known
            start, end = span.start - at + start, span.end - at + start
            return Span(start, end, span.kind, span.score, span.rule)
        span_here = self._value_after(text, name, end, start, seen)
        if span_here is not None and span_here.end - end <= _SURELY_WITHIN:
            seen[window] = start, span_here
        return span_here

    def _value_after(self, text: str, name: str, end: int, start: int, seen: _Seen) -> Span | None:
        """`seen`: what was judged before in this text."""
        pair = PAIR.match(text, end)
        is_field = not pair and text.startswith('name="', start - 6)
        form = FORM_FIELD.match(text, end) if is_field else None
        if form is not None:
            span = self._form_value(text, name, form)
            if span is None and form.end() - end <= _SURELY_WITHIN:
                seen[_window(text, start, end)] = None
            return span
        inside = None if pair else inside_element(text, end, start)
        if inside is not None:
            return self._element(text, name, inside)
        glue = pair or glue_behind(text, name, start, end)
        if glue is None or text.startswith(name, glue.end()) or is_branch(text, start, glue):
            _note_nothing(text, start, end, seen)
            return None
        groups = glue.groupdict()
        at = glue.end()
        quote = groups.get("quote")
        called = glue.re in CALLED
        if glue.re is CALL and not is_entry(text, start, glue.group()):
            return None
        if groups.get("arg") is not None:
            window = _window(text, start, end)
            if window in seen:
                return None
            if not is_option(text, start, name):
                span = self._spoken(text, name, end, start)
                if span is None:
                    seen[window] = None
                return span
        if quote:
            found = self._quoted_once(text, name, (start, at, end), quote, seen, chosen=called)
            if found and glue.re is BARE and not _is_surely(text[at : found.end], name):
                return None
            return found
        if glue.re is PAIR:
            start = glue.start("key")
        return self._unquoted_once(text, name, (start, at, end), groups.get("op") or " ", seen)

    def _form_value(self, text: str, name: str, form: re.Match[str]) -> Span | None:
        if not self._judge.is_secret(name, form["value"], quoted=True):
            return None
        return _trimmed(text, *form.span("value"), "form")

    def _behind_a_call(self, text: str, name: str, end: int) -> Span | None:
        """A text that is used where a variable is empty."""
        fallback = FALLBACK.match(text, end)
        if fallback is None:
            return None
        return self._quoted(text, name, fallback.end(), fallback["quote"], chosen=True)

    def _unquoted_once(
        self, text: str, name: str, where: tuple[int, int, int], op: str, seen: _Seen
    ) -> Span | None:
        """`where`: where the name starts, where the value does, and where the name ends."""
        start, at, end = where
        window = _window(text, start, at, 0)
        if window in seen:
            return None
        span = self._unquoted(text, name, start, at, op) or self._behind_a_call(text, name, end)
        if span is None:
            seen[window] = None
            if at - end <= _GLUE_REACH:  # the same stretch is within that of the name's end
                seen[_window(text, start, end)] = None
        return span

    def _quoted_once(
        self,
        text: str,
        name: str,
        where: tuple[int, int, int],
        quote: str,
        seen: _Seen,
        *,
        chosen: bool,
    ) -> Span | None:
        """`where`: as for `_unquoted_once`."""
        start, at, end = where
        found = self._quoted(text, name, at, quote, chosen=chosen)
        if found is None and closes_within(text, at, end + _SURELY_WITHIN, quote):
            seen[_window(text, start, end)] = None
        return found

    def _quoted(self, text: str, name: str, at: int, quote: str, *, chosen: bool) -> Span | None:
        close = closing(text, at, quote)
        if close is None:
            return None
        value = text[at:close]
        if value[:1] in AFTER_STRING and ends_string(text, at - len(quote), value, quote):
            return None  # `print("Password:", end=" ")`
        if quote == "`" and " " in value and text[at - 2 : at - 1] == "=":
            return None  # a command's output
        if not self._judge.is_secret(name, value, quoted=True):
            return None
        if chosen and not name.isupper() and not (is_chosen(value) or is_generated(value)):
            return None  # `input("password", "Password")`
        return _trimmed(text, at, close, "quoted")

    def _element(self, text: str, name: str, at: int) -> Span | None:
        """`<password>…</password>`"""
        if text.startswith("<![CDATA[", at):
            at += len("<![CDATA[")
            close = text.find("]]>", at, at + VALUE_MAX)
        else:
            close = text.find("<", at, at + VALUE_MAX)
            if not text.startswith("</", close):
                return None
        if close < 0 or "\n" in text[at:close]:
            return None
        if not self._judge.is_secret(name, text[at:close], quoted=True):
            return None
        return _trimmed(text, at, close, "element")

    def _spoken(self, text: str, name: str, end: int, start: int) -> Span | None:
        """`the password is x9!kk2`, `ROLE r PASSWORD 'x'`: only what no word looks like."""
        glue = _SPOKEN.match(text, end)
        if glue is None:
            return None
        at = glue.end()
        if name.lower() == "pass" and not glue.group().strip("\"'` \t"):
            return None  # a verb
        bare = not glue.group().strip("\"'` \t") and not glue["quote"]
        statement = False
        if glue["quote"]:
            close = closing(text, at, glue["quote"])
            if close is None or close - at > SPOKEN_MAX:
                return None
            value = text[at:close]
            statement = name.isupper() or (
                _STATEMENT.search(text, max(0, start - 80), start) is not None
            )
        else:
            word = OPEN_VALUE.match(text, at, at + SPOKEN_MAX)
            if word is None:
                return None
            value = spoken_word(word.group())
        if not self._judge.is_secret(name, value, quoted=True):
            return None
        if not statement:
            password = PASSWORD.search(name) is not None
            last = bare and _ENDS_LINE.match(text, at + len(value)) is not None
            surely = bare and not (last and any(c.isdigit() for c in value) and len(value) >= 8)
            if not (is_chosen(value, surely=surely) if password else is_generated(value)):
                return None
        return _trimmed(text, at, at + len(value), "spoken")

    def _if_empty(self, text: str, name: str, at: int) -> Span | None:
        """What stands for a variable that is not set."""
        default = _EMPTY_VARIABLE.match(text, at)
        if default is None or not self._judge.is_secret(name, default["value"], quoted=True):
            return None
        if not is_chosen(default["value"]):
            return None
        return _trimmed(text, *default.span("value"), "default")

    def _unquoted(self, text: str, name: str, start: int, at: int, op: str) -> Span | None:
        if text.startswith("://", start - 3) and start > 2:
            return None  # the user of an address: the password is another rule's business
        if text[at : at + 1] in ("\\", "&") and _NO_VALUE.match(text, at):
            return None
        if PLACEHOLDER.match(text, at, at + GLANCE):
            return self._if_empty(text, name, at)
        if text[start - 1 : start] == "$" and text[at - 1] == " " and op == "=":
            return None  # `$password = Read-Host`: where texts are always quoted
        style = style_of(text, name, start, at, op)
        default = text.startswith("${", start - 2) and start > 1
        if default and text[at] in "?+":
            return None  # `${NAME:?message}`
        glued = text[at - 1 : at] not in (" ", "\t")
        if style == "open" and text[at : at + 1] == "{":  # `Pwd={…}` of ODBC
            braced = text.find("}", at, at + SPOKEN_MAX)
            if braced > 0 and self._judge.is_secret(name, text[at + 1 : braced], quoted=True):
                return _trimmed(text, at + 1, braced, "unquoted")
            return None
        shape = {"line": _REST_OF_LINE, "open": OPEN_VALUE}.get(style, _UNQUOTED)
        stop = escaped_end(text, start, at, style)
        match = shape.match(text, at, min(stop, at + JUDGED))  # judged by its beginning
        if match is None:
            return None
        value = read(match, style, whole=name.isupper() and op == "=" and glued)
        if (
            op == " "
            and not name.isupper()
            and value.isalpha()
            and value.islower()
            and not is_random(value)
            and not is_plain_argument(text, start, name, value)
        ):
            return None  # `the --password option`
        after = (
            ""
            if default or at + len(value) == stop
            else text[at + len(value) : at + len(value) + 1]
        )
        if not value or (
            style != "open"
            and op != "|"
            and is_variable(name, value, after, glued=glued and op == "=")
        ):
            return None
        data = style == "open" or (style == "line" and op == "=" and glued and name.isupper())
        field = (
            op == "="
            and glued
            and text[start - 1 : start] in " \t{["
            and after in ("", *" \t\r\n}]")
        )
        strict = style == "code" and not (start and field)
        if not self._judge.is_secret(name, value, quoted=False, strict=strict, data=data):
            return None
        end = at + len(value)
        rest = None
        if len(value) >= JUDGED:
            rest = shape.match(text, end, escaped_end(text, start, end, style))
        return _trimmed(text, at, rest.end() if rest else end, "unquoted")


_ENDS_LINE: Final = re.compile(r"[ \t]{0,4}(?:\Z|[\r\n]|--?\w)")


def _is_surely(value: str, name: str) -> bool:
    """What a function is called with may also be a key's name, or a label."""
    if PASSWORD.search(name) is not None:
        return is_chosen(value) and not value.isalpha()
    return is_generated(value)


def _trimmed(text: str, start: int, end: int, rule: str) -> Span | None:
    """The span without blanks around it and without an authorization scheme before it."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    scheme = SCHEME.match(text, start, end)
    if scheme:
        start = scheme.end()
    return Span(start, end, "SECRET", 0.85, rule) if end > start else None


def _note_nothing(text: str, start: int, end: int, seen: _Seen) -> None:
    if not MAY_GO_ON.match(text, end):
        seen[_window(text, start, end)] = None


def _window(text: str, start: int, at: int, more: int = _GLUE_REACH) -> _Window:
    """`more`: what is read between, where `at` is the end of the name and not its value."""
    floor = max(0, start - FIELD_REACH)
    return start - floor, at - start, text[floor : at + JUDGED + 1 + more]
