"""Secrets behind their names, in the syntax of any language, file or command line.

Invariant: pure and linear; every name is looked behind once, a bounded way. Called by
`SecretRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gateway.redaction.detectors.base import HIDDEN, Source
from gateway.redaction.detectors.names import (
    NAME,
    NAME_MAX,
    PASSWORD,
    is_any_secret_name,
    is_secret_name,
    name_start,
    places,
)
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
    dense,
    is_chosen,
    is_dotted_words,
    is_generated,
    is_random,
    is_worded,
    spoken_word,
)
from gateway.redaction.spans import Span

#: What turns a text into a value of another type, and leaves it a text.
_WRAPPERS: Final = (
    r"(?:(?:\[\]byte|\[\]rune|String::from|CString::new|std::string|QString|QStringLiteral|TEXT|"
    r"_T|SecretStr|"
    r"SecretString|Secret|SecureString|Some|bytes|bytearray|str|string|new String|Buffer\.from|"
    r"Optional\.of|"
    r"(?:bytes|bytearray)\.fromhex|(?:binascii\.)?unhexlify|hex2bin|hex\.DecodeString|"
    r"Convert\.From(?:Base64|Hex)String|base64\.(?:Std|URL)Encoding\.DecodeString|"
    r"(?:base64\.)?b64decode|base64_decode|atob|btoa|quote|Secret\.fromString|Password|"
    r"SecretValue\.unsafePlainText)"
    r"\([ \t]{0,2}|N|L|@|ConvertTo-SecureString (?:-String )?|\(Some\()"
)
#: From the end of the name to its value. In Go, an error may stand beside the name.
_GLUE: Final = re.compile(
    r"(?P<close>\\{0,7}[\"'`]|[*_]{2}(?=[ \t]?[:=])|"
    r"\}(?=[ \t]*=[ \t]*[\"']))?\]?(?:, (?:_|err)(?= :?= ))?[ \t]{0,20}(?:"
    r"(?P<op>=>(?:\s{1,40}string\(\d{1,5}\))?|→|⇒|"
    r":=|:-|<<<(?![ \t]{0,2}[\"']?[\w.\-]{1,32}:)|"
    r"<-|={1,3}|!=|\?=|\?\?=|\|\|=|\|\||\?\?|->(?=[ \t]*[\"'])|:|\|)|"
    r"(?P<arg>[ \t]))"
    r"(?:(?<=:)(?:[*_]{2}|</(?:b|strong|code|em|dt|th)>)(?=[ \t]))?"
    r"[ \t]{0,20}(?:<(?:code|b|strong|kbd|em|tt|samp)>)?"
    r"(?:!!(?:str|binary)[ \t]{1,4}|&[\w-]{1,30}[ \t]{1,4}|"
    r"!(?:vault|encrypted|encrypt|sops|gpg|str|binary|plain|password)(?:/\w{1,20})?[ \t]{1,4}){0,2}"
    r"(?:\[={0,2}\[(?=[^\]\r\n]{1,256}\]={0,2}\]))?"
    r"(?:<<[-~]?[\"']?[A-Za-z_]\w{0,24}[\"']?[ \t]{0,4}\r?\n[ \t]{0,24})?"
    r"(?:[|>][+-]?\d?[ \t]{0,4}(?:\r?\n|(?:\\{1,7}r)?\\{1,7}n)[ \t]{1,20})?"
    rf"(?:{_WRAPPERS}(?=\\{{0,7}}[\"'`]))?"
    r"(?:\((?:[ \t]{0,4}\r?\n)?[ \t]{0,24}(?=[\"']))?"
    r"(?P<prefix>[rRbBuUfF]{1,2}(?=[\"']))?(?P<quote>\\{0,7}(?:\"\"\"|'''|[\"'`]))?"
)
#: The same with a type between: `name: str = "…"`, `name string = "…"`, `name { get; set; } = "…"`.
_TYPED: Final = re.compile(
    r"(?::[ \t]{0,4}[&\[A-Za-z_][\w\[\]., |&'<>]{0,40}|[ \t]{1,4}(?:[Aa]s )?[Ss]tring|\[\d{0,5}\]|"
    r"[ \t]{0,4}\{ ?get;[ a-z;]{0,20}\})[ \t]{0,4}:?=[ \t]{0,4}[bru]?(?P<quote>[\"'])"
)
#: `name: DB_PASSWORD` and `value: …` as a pair, as container and pipeline files write them.
_PAIR: Final = re.compile(
    r"[\"']?[,:]?[ \t]{0,8}(?:\{[ \t]{0,4})?"
    r"(?:\r?\n[ \t]{0,60}(?:(?:type|description|sensitive|nullable)[ \t]{0,12}=[^\r\n]{0,200}"
    r"\r?\n[ \t]{0,60}){0,4})?(?P<key>--(?:body|value)[ =]|[\"']?(?:value|default|"
    r"content)[\"']?[ \t]{0,12}(?P<op>[:=]))"
    r"[ \t]{0,8}(?P<quote>[\"'])?",
    re.IGNORECASE,
)
#: `define('NAME', 'value')`, `setdefault("NAME", "value")`, `("NAME", "value"),`
_CALL: Final = re.compile(
    r"(?P<close>\\{0,7}[\"'`])(?:[ \t]{0,4},[ \t]{0,24}|[ \t]to[ \t])(?P<quote>\\{0,7}[\"'`])"
)
#: `ENV.fetch("NAME") { "value" }`, `get("NAME") or "value"`
_DEFAULT: Final = re.compile(
    r"[\"'`]\)?\]?[ \t]{0,2}(?:\{|or|\|\||\?\?|\?:|:-)[ \t]{0,2}(?P<quote>[\"'`])"
)
#: `= environ.get("NAME") or "value"`, `: process.env.NAME ?? "value"`, `= getenv("NAME", "value")`
_FALLBACK: Final = re.compile(
    r"[\"'`]?\]?[ \t]{0,8}(?:=|:=?)[ \t]{0,8}"
    r"(?:[\w.:>$-]{1,60}(?:[(\[][\"'][\w.\-]{1,60}[\"'][)\]])?"
    r"[ \t]{0,2}(?:\bor\b|\|\||\?\?|\?:)[ \t]{0,2}|"
    r"[\w.:>-]{1,40}\([\"'][\w.\-]{1,60}[\"'],[ \t]{0,2})(?P<quote>[\"'`])"
)
#: `{name, "value"}`, `(name . "value")`; a comma between round brackets is between arguments.
_ATOM_PAIR: Final = re.compile(
    r"(?:,[ \t]{0,4}(?=\"[^\"\n]{1,256}\"\})|[ \t]\.[ \t]{1,4}(?=\"[^\"\n]{1,256}\"\)))"
    r"(?P<quote>\")"
)
#: `expect(name).toBe("value")`
_EXPECTED: Final = re.compile(
    r"\)\.(?:toBe|toEqual|toStrictEqual|isEqualTo|to\.equal|to\.eq|equals)\((?P<quote>[\"'`])"
)
#: A field of a form that was sent in parts.
_FORM_FIELD: Final = re.compile(
    r"\"(?:;[^\r\n]{0,80})?(?:\r?\nContent-[^\r\n]{1,100}){0,3}\r?\n\r?\n"
    r"(?P<value>[^\r\n]{1,256})"
)
#: `.password("value")`, `setPassword("value")`
_SETTER: Final = re.compile(r"\([ \t]{0,2}(?P<quote>[\"'`])")
#: `password("value")`, SQL's `= password('value')`, `password{"value"}`, `by lazy { "value" }`
_BARE: Final = re.compile(
    r"(?:[({][ \t]{0,2}|[: ]{0,3}(?:String )?by lazy \{[ \t]{0,2})"
    r"(?P<quote>\"|(?<=[ =]password\()'|(?<=[ =]PASSWORD\()')(?=[^\"'\n]{1,256}[\"'][ \t]{0,2}[)}])"
)
#: `set :name, "value"` of Ruby
_SYMBOL: Final = re.compile(r",[ \t]{1,4}(?P<quote>[\"'])")
#: `def name(): return "value"`, `String name() { return "value"; }`, `let(:name) { "value" }`
_RETURNED: Final = re.compile(
    r"(?:\([^()\n]{0,60}\)(?:[ ]?(?:->|:|=>)[ ]?\w{1,20})?[ ]?[:{]?\s{1,40}return |"
    r"\)[ ]\{ )b?(?P<quote>[\"'`])"
)
#: Behind a name, what may reach further than the stretch that is judged.
_MAY_GO_ON: Final = re.compile(
    r"[\"']?[,:]?[ \t]{0,8}(?:\{[ \t]{0,4})?\r?\n[ \t]{0,60}(?:type|desc|sens|null)"
    r"|\"(?:;|\r?\nContent)|[\"']?[ \t][\w:-]{1,30}=",
    re.IGNORECASE,
)
#: Where words of interfaces stand as often as secrets: the value must look like one.
_CALLED: Final = (
    _CALL, _DEFAULT, _EXPECTED, _SETTER, _BARE, _ATOM_PAIR, _SYMBOL, _RETURNED,
)  # fmt: skip
#: `${1:-value}`, `${DB:value}`: what is used where a variable is empty.
_EMPTY_VARIABLE: Final = re.compile(
    r"\$\{[\w.]{1,60}:?[-:](?P<value>[^\s\"'{}$?+-][^\s\"'{}$]{5,127})\}"
)
_CHECKSUM_OF: Final = "checksum/"
_USING: Final = re.compile(r"(?:\A|(?<=\.))(?:with|using)(?=[A-Z])")
_SETTING: Final = re.compile(r"(?:\A\.|\.(?=\w+\Z)|(?:\A|\.)(?:set|with|using|add)_?(?=[A-Z_\w]))")
#: `<entry key="NAME">value</entry>`
_NAMED_ELEMENT: Final = re.compile(
    r"[\"'](?:[ \t][\w:-]{1,30}=[\"'][^\"'<>]{0,60}[\"']){0,3}[ \t]{0,4}>"
    r"(?:\s{0,40}<(?:\w{1,10}:)?value>)?(?!\s*<)"
)
_ATTRIBUTES: Final = re.compile(
    r"(?:[ \t][\w:-]{1,30}=[\"'][^\"'<>]{0,80}[\"']){1,4}[ \t]{0,2}>(?!\s*<)"
)
_TAG: Final = re.compile(r"<(?:[\w-]{1,16}:)?\Z")
#: `<key>NAME</key><string>value</string>`, `<td>NAME</td><td>value</td>`
_NEXT_ELEMENT: Final = re.compile(
    r":?</(?:key|td|th|dt|b|strong|label|span|[\w-]{0,20}name)>\s{0,40}"
    r"<(?:string|td|dd|span|code|b|p|[\w-]{0,20}value|"
    r"data)"
    r"(?: [^<>]{0,80})?>(?!\s*<)"
)
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
_MACHINE_REACH: Final = 160
_SETTER_REACH: Final = 24
_SETTERS: Final = re.compile(
    r"(?:\b(?:env|arg|setenv|setx|set -[a-z]{1,3}|export|config set|configure set|secrets? set|"
    r"env add)|#define) {1,4}[\"']?\Z",
    re.IGNORECASE,
)
_STATEMENT: Final = re.compile(r"\b(?:create|alter|grant)\b", re.IGNORECASE)
_TYPE_NAME: Final = re.compile(r"[A-Z]\w{0,8}[a-z]{3}\w*[a-z]{2}")
_NAME_ONLY: Final = re.compile(r"[A-Za-z_$][A-Za-z_$.]*\d?", re.ASCII)
#: Where a name and its value stand in a stretch of text, and the stretch: all that is judged.
_Window = tuple[int, int, str]
#: What was judged in a text so far: no secret, or the place of a name and what was found there.
_Seen = dict[_Window, tuple[int, Span] | None]
_MOST_SEEN: Final = 4096
#: A value that ends so far behind its name was judged by nothing outside of the stretch.
_SURELY_WITHIN: Final = JUDGED - 64


class Assignments:
    """Finds values behind the names of secrets."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge

    def spans(self, source: Source) -> Iterator[Span]:
        """Look behind every word for a secret."""
        text = source.text
        done = -1
        seen: _Seen = {}
        for at in sorted(places(source)):
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
            return replace(span, start=span.start - at + start, end=span.end - at + start)
        span_here = self._value_after(text, name, end, start, seen)
        if span_here is not None and span_here.end - end <= _SURELY_WITHIN:
            seen[window] = start, span_here
        return span_here

    def _value_after(self, text: str, name: str, end: int, start: int, seen: _Seen) -> Span | None:
        """`seen`: what was judged before in this text."""
        pair = _PAIR.match(text, end)
        is_field = not pair and text.startswith('name="', start - 6)
        form = _FORM_FIELD.match(text, end) if is_field else None
        if form is not None:
            span = self._form_value(text, name, form)
            if span is None and form.end() - end <= _SURELY_WITHIN:
                seen[_window(text, start, end)] = None
            return span
        inside = None if pair else _inside_element(text, end, start)
        if inside is not None:
            return self._element(text, name, inside)
        glue = (
            pair
            or _TYPED.match(text, end)
            or _CALL.match(text, end)
            or _DEFAULT.match(text, end)
            or _EXPECTED.match(text, end)
            or _atom_pair(text, start, end)
            or _by_sign(text, start, end)
            or (_SETTER.match(text, end) if _SETTING.search(name) else _BARE.match(text, end))
            or _GLUE.match(text, end)
        )
        if glue is None or text.startswith(name, glue.end()) or _is_branch(text, start, glue):
            _note_nothing(text, start, end, seen)
            return None
        groups = glue.groupdict()
        at = glue.end()
        quote = groups.get("quote")
        called = glue.re in _CALLED
        if glue.re is _CALL and not _is_entry(text, start, glue.group()):
            return None
        if groups.get("arg") is not None:
            window = _window(text, start, end)
            if window in seen:
                return None
            if not _is_option(text, start, name):
                span = self._spoken(text, name, end, start)
                if span is None:
                    seen[window] = None
                return span
        if quote:
            found = self._quoted_once(text, name, (start, at, end), quote, seen, chosen=called)
            if found and glue.re is _BARE and not _is_surely(text[at : found.end], name):
                return None
            return found
        if glue.re is _PAIR:
            start = glue.start("key")
        return self._unquoted_once(text, name, (start, at, end), groups.get("op") or " ", seen)

    def _form_value(self, text: str, name: str, form: re.Match[str]) -> Span | None:
        if not self._judge.is_secret(name, form["value"], quoted=True):
            return None
        return _trimmed(text, *form.span("value"), "form")

    def _behind_a_call(self, text: str, name: str, end: int) -> Span | None:
        """A text that is used where a variable is empty."""
        fallback = _FALLBACK.match(text, end)
        if fallback is None:
            return None
        return self._quoted(text, name, fallback.end(), fallback["quote"], chosen=True)

    def _unquoted_once(
        self, text: str, name: str, where: tuple[int, int, int], op: str, seen: _Seen
    ) -> Span | None:
        """`where`: where the name starts, where the value does, and where the name ends."""
        start, at, end = where
        window = _window(text, start, at)
        if window in seen:
            return None
        span = self._unquoted(text, name, start, at, op) or self._behind_a_call(text, name, end)
        if span is None:
            seen[window] = None
            if text.find("\n", at, end + _SURELY_WITHIN) >= 0:  # no value goes on behind it
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
        if found is None and _closes_within(text, at, end + _SURELY_WITHIN, quote):
            seen[_window(text, start, end)] = None
        return found

    def _quoted(self, text: str, name: str, at: int, quote: str, *, chosen: bool) -> Span | None:
        close = _closing(text, at, quote)
        if close is None:
            return None
        value = text[at:close]
        if value[:1] in _AFTER_STRING and _ends_string(text, at - len(quote), value, quote):
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
            close = _closing(text, at, glue["quote"])
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
            and not _is_plain_argument(text, start, name, value)
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
            and _is_variable(name, value, after, glued=glued and op == "=")
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
#: What stands behind the name of an option in a sentence.
_NO_ARGUMENT: Final = frozenset(
    ["option", "options", "flag", "flags", "argument", "arguments", "parameter", "param", "value",
     "values", "switch", "setting", "is", "are", "was", "to", "or", "and", "if", "in", "for",
     "from", "with", "when", "which", "that", "the", "this", "string", "file", "path", "must",
     "can", "may", "will", "should", "instead", "then", "has", "as", "on", "of", "at", "by", "not",
     "stdin", "field", "name", "here", "only", "also", "password", "secret", "token", "prompt",
     "required", "optional", "default", "text", "your", "specifies", "sets", "takes"]
)  # fmt: skip


def _is_branch(text: str, start: int, glue: re.Match[str]) -> bool:
    """`visible ? "text" : "password"`: two values, and neither is the name of the other."""
    if ":" not in glue.group():
        return False
    return _TERNARY.search(text, max(0, start - 28), start) is not None


def _is_entry(text: str, start: int, glue: str) -> bool:
    """Whether two strings are the name and the value of an entry, and no items of a list."""
    if " to " in glue:
        return True
    before = text[max(0, start - 14) : start - 1].rstrip()
    return before[-1:] in ("(", "[", "{") or before.lower().endswith(('"string",', "'string',"))


def _atom_pair(text: str, start: int, end: int) -> re.Match[str] | None:
    return _ATOM_PAIR.match(text, end) if text[start - 1 : start] in ("{", "(") else None


def _by_sign(text: str, start: int, end: int) -> re.Match[str] | None:
    """What stands behind a name whose next sign says how it is used."""
    sign = text[end : end + 1]
    if sign in ("(", ")"):
        return _RETURNED.match(text, end)
    if sign == "," and text[start - 1 : start] == ":":
        return _SYMBOL.match(text, end)
    return None


def _is_surely(value: str, name: str) -> bool:
    """What a function is called with may also be a key's name, or a label."""
    if PASSWORD.search(name) is not None:
        return is_chosen(value) and not value.isalpha()
    return is_generated(value)


def _is_plain_argument(text: str, start: int, name: str, value: str) -> bool:
    """`--db-pass kestrel`, and the files of netrc, where any word is a password."""
    if len(value) < _ARGUMENT_LEAST or value in _NO_ARGUMENT or not PASSWORD.search(name):
        return False
    if text[start : start + 1] == "-" or text[max(0, start - 1) : start] == "-":
        return not text[max(0, start - 2) : start].startswith("`")
    return name.lower() in ("password", "passwd")  # `_is_option` saw a machine


_ARGUMENT_LEAST: Final = 6


def _is_option(text: str, start: int, name: str) -> bool:
    """`--password value`, `ENV TOKEN value`, `#define TOKEN "…"`: where a space assigns; and in
    netrc."""
    if text[start : start + 1] == "-" or text[max(0, start - 1) : start] == "-":
        return True
    if name.lower() in ("password", "passwd"):
        before = text[max(0, start - _MACHINE_REACH) : start]
        if "machine " in before or ("login " in before and "default" in before):
            return True
    return _SETTERS.search(text, max(0, start - _SETTER_REACH), start) is not None


def _inside_element(text: str, end: int, start: int) -> int | None:
    """Where the content begins of `<name>` or `<entry key="name">`, when the name stands there."""
    if text.startswith(">", end):
        return end + 1 if _TAG.search(text, max(0, start - 24), start) else None
    if text[max(0, start - 40) : start].rpartition("<")[1]:
        opened = _ATTRIBUTES.match(text, end)
        if opened is not None and _TAG.search(text, max(0, start - 24), start):
            return opened.end()
    element = _NAMED_ELEMENT.match(text, end) or _NEXT_ELEMENT.match(text, end)
    return element.end() if element else None


#: What follows a string in source code, and begins no password.
_AFTER_STRING: Final = frozenset(",)+")
_CODE_SIGN: Final = re.compile(r"[()=;{}]")
#: `x ? "password" : "text"`
_TERNARY: Final = re.compile(r"\?[ ]?[\"'][^\"'\n]{0,24}\Z")


def _ends_string(text: str, at: int, value: str, quote: str) -> bool:
    """Whether the quotation mark at `at` is the second of its line rather than the first."""
    floor = max(0, at - FIELD_REACH)
    line = text.rfind("\n", floor, at) + 1
    if floor and not line:  # a program without lines
        return text[at - 1 : at] == ":" or _CODE_SIGN.search(value) is not None
    return text.count(quote, line, at) % 2 == 1


def _closing(text: str, at: int, quote: str) -> int | None:
    """Where the quotation that began before `at` ends, on the same line for short quotes."""
    limit = at + VALUE_MAX
    position = at
    while True:
        found = text.find(quote, position, limit)
        if found < 0:
            return None
        if len(quote.lstrip("\\")) == 1 and "\n" in text[at:found]:
            return None
        backslashes = 0
        while found - backslashes > at and text[found - backslashes - 1] == "\\":
            backslashes += 1
        if quote == "'" and found > at and text.startswith("''", found):
            position = found + 2  # YAML and SQL double a quote within quotes
            continue
        if backslashes % 2 == 0 or quote[0] == "\\":
            return found
        position = found + 1


def _closes_within(text: str, at: int, limit: int, quote: str) -> bool:
    """Whether the first such mark surely ends the quotation, and stands before `limit`."""
    found = text.find(quote, at, limit)
    return found > at and text[found - 1] != "\\" and not text.startswith(quote, found + len(quote))


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


def _is_variable(name: str, value: str, after: str, *, glued: bool) -> bool:
    """`password = fallback`, `password=user_password,`, `KEY: Type`: a name of source code."""
    if after in (",", ")") and _TYPE_NAME.fullmatch(value) and not PASSWORD.search(name):
        return True
    if not _NAME_ONLY.fullmatch(value):
        return False
    if (
        _ends_line(after)
        and not is_secret_name(value)
        and (dense(value) or (PASSWORD.search(name) and _is_words_or_random(value)))
    ):
        return False
    if not glued:
        if name.isupper() and value.islower():
            return not _ends_line(after)  # `ROOT_PASSWORD: example_pw`
        return not value.islower() or "_" in value or not _ends_line(after)
    return not name.isupper() and (after in (",", ")") or is_secret_name(value))


def _is_words_or_random(value: str) -> bool:
    return is_worded(value) or is_dotted_words(value) or is_random(value)


def _ends_line(after: str) -> bool:
    return after in ("", "\r", "\n", " ", "#")


def _note_nothing(text: str, start: int, end: int, seen: _Seen) -> None:
    if not _MAY_GO_ON.match(text, end):
        seen[_window(text, start, end)] = None


def _window(text: str, start: int, at: int) -> _Window:
    floor = max(0, start - FIELD_REACH)
    return start - floor, at - start, text[floor : at + JUDGED + 1]
