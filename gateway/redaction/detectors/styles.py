"""How an assignment is written, and so where its value ends: at the end of its line (.env, YAML,
INI), of its word, or of its expression.

Invariant: pure and linear; looks a bounded way back and never before the text's line. Called by
`assignments`.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.redaction.detectors.base import HIDDEN
from gateway.redaction.detectors.values import (
    ESCAPED_END,
    JUDGED,
    SCHEME,
    dense,
    is_code,
    is_random,
)

#: Words before a name by which a shell or a tool sets a variable.
_SETTING: Final = frozenset(["set", "export", "env", "setx", "echo", "arg", "config:set", "secret"])
_GLUED_OPTION: Final = re.compile(r"--?[A-Za-z][\w-]{0,30}=?|[\"'(]*Environment=|putenv\(")
#: Before a name: a connection string, a query, a row of `key=value` fields.
_CONNECTION: Final = re.compile(
    r"\b(?:server|data source|host(?:name)?|user ?(?:id|name)?|uid|database|initial catalog|"
    r"dbname|databasename|endpoint|account ?name|driver|port|provider|sharedaccesskeyname)[ ]?="
    r"[^;\n]{0,80};",
    re.IGNORECASE,
)
#: `key=value` before a name, with a blank between, as logs and psql write rows of them.
_ROW_FIELD: Final = re.compile(r"[\"']?[\w.\-]{1,40}=[^\s,(){}\[\]]{1,80}")
FIELD_REACH: Final = 180
_ROW_REACH: Final = 60
#: In a query; elsewhere the sign may be part of a password.
_NEXT_PARAMETER: Final = re.compile(r"&(?=(?:amp;)?[\w.%\-\[\]]{1,60}=|\Z)")
_QUERY: Final = re.compile(r"[?&][\w.%\-\[\]]{1,60}=\Z")
_NEXT_FIELD: Final = re.compile(r",(?=[\w.\-]{1,40}[=:])")
_OPENERS: Final = re.compile(r"[(\[{]")
_ENV_LINE: Final = re.compile(r"[ \t>#+-]{0,20}(?:(?:export|set|ENV|ARG) )?")
#: Before a line, as tools that show files and what they found in them print it.
_LINE_NUMBER: Final = re.compile(
    r"\A(?:[ \t]{0,8}\d{1,6}(?:→|\t|: |\|)|[\w./\-]{1,100}[:-]\d{1,6}[:-](?:\d{1,4}:)?)"
)
_BLANK: Final = re.compile(r"[ \t]")
#: What no password of several words holds: an address, an option, the next assignment or command.
_BEYOND: Final = re.compile(
    rf"[{HIDDEN}]|://|(?<!\S)(?:--?[A-Za-z]|[A-Za-z_][\w.]{{1,60}}[=:]|&&|\|\|?(?!\S)|[\"'(`])|;(?:\s|\Z)"
)
#: Words that join a value and a sentence.
_JOINING: Final = frozenset(
    ["the", "is", "are", "a", "an", "was", "to", "of", "for", "and", "or", "but", "if", "in", "on",
     "at", "as", "it", "this", "that", "then", "than", "with", "from", "by", "not", "please", "so",
     "when", "because", "before", "after", "which", "you", "we", "i", "he", "they", "have", "has",
     "works", "worked", "does", "der", "die", "das", "ist", "und", "oder", "für", "mit", "auf",
     "bitte", "et", "le", "la", "les", "est", "pour", "avec", "dans", "el", "los", "y", "es",
     "para", "con", "en", "un", "una"]
)  # fmt: skip
_COMMENT: Final = re.compile(
    r"\s+(?:#|//|;(?=\s))|;(?=[ \t]{1,4}(?:export\b|[A-Za-z_]\w{0,40}=))|[ \t]&&[ \t]"
)


def _is_set_by_a_tool(near: str) -> bool:
    """`-e NAME=`, `--env 'NAME=`, `-DNAME=`, `fly secrets set NAME=`: only text can follow."""
    if near[-1:] in ("'", '"'):
        near = near[:-1]
    words = near.split()
    if not words:
        return False
    if near[-1] not in " \t":
        return _GLUED_OPTION.fullmatch(words[-1]) is not None
    if words[-1].lower() in _SETTING or _GLUED_OPTION.fullmatch(words[-1]):
        return True
    return _ROW_FIELD.fullmatch(words[-1]) is not None


def read(match: re.Match[str], style: str, *, whole: bool) -> str:
    """The value at the beginning of what stands there; empty when it is a call or an index."""
    value = match.group()
    if style == "line":
        value = _COMMENT.split(value, maxsplit=1)[0].rstrip()
        if _BLANK.search(value) and not _scheme_only(value):
            value = _first_or_all(value, whole=whole)
        value = value.partition(HIDDEN)[0]
        value = value.rstrip(",;\\")
    elif style == "open":
        if match.string[match.start() - 1] == "=" and _QUERY.search(
            match.string, max(0, match.start() - 80), match.start()
        ):
            value = value.partition("#")[0]
        value = _NEXT_FIELD.split(value, maxsplit=1)[0].rstrip(",\\")
        value = value if _OPENERS.search(value) else value.rstrip(")]}")
    elif match.string[match.end() : match.end() + 1] in ("(", "[", "{") or (
        is_code(value) and not is_random(value)
    ):
        return ""
    return _NEXT_PARAMETER.split(value, maxsplit=1)[0].removesuffix("&amp").rstrip(".:")


def _lead(text: str, start: int) -> str:
    """What stands before a name on its line, of the text that the line is part of."""
    line = text.rfind("\n", max(0, start - FIELD_REACH), start) + 1
    whole = text[max(line, start - FIELD_REACH) : start]
    if line or start < FIELD_REACH:
        whole = _LINE_NUMBER.sub("", whole, count=1)
    if "\\" in whole:  # lines inside a string
        whole = whole[_last_escaped(whole) :]
    return whole


def style_of(text: str, name: str, start: int, at: int, op: str) -> str:
    """How the assignment is written: `line` where the value reaches to the end of its line (.env,
    YAML, INI), `open` where only text can stand (options, queries, connection strings), `word`
    and `code` where an expression may."""
    if op == " ":
        return "open"
    if op == "|" and text[start - 2 : start] in ("| ", "|", "|`"):
        return "word"  # a row of a table
    whole = _lead(text, start)
    glued = text[at - 1 : at] not in " \t"
    near = whole[-_ROW_REACH:]
    if op == "=" and glued and not _ENV_LINE.fullmatch(near):
        if text[start : start + 1] == "-" or near.endswith(("?", "&", "&amp;")):
            return "open"
        if _is_set_by_a_tool(near):
            return "open"
        if near.rstrip().endswith((";", '"', "'")) and _CONNECTION.search(whole):
            return "open"
    if near.endswith("${"):  # a variable's default
        return "word"
    before = near.strip()
    if text[start : start + 1] == "-" or before.endswith(("-", "?", "&", "--")):
        return "word"
    lead = before.removeprefix("export").removeprefix("set").removeprefix("ENV").removeprefix("ARG")
    if lead.strip(" \t-+>#$%\"'\\") == "" and op in ("=", ":"):
        if op == "=" and (glued or name.isupper()):
            return "line"
        if op == ":" and not glued:
            return "line"
        return "word" if op == "=" and not glued else "code"
    if op == "=" and glued and name.isupper():
        return "word"
    return "code"


#: Where such a text itself ends.
_STRING_END: Final = re.compile(r"\\{0,15}\"|['`](?=[\s,;)\]}+]|\Z)")


def escaped_end(text: str, start: int, at: int, style: str) -> int:
    """Where a value at `at` must end at the latest, without quotes: at an escaped line end, and for
    a line inside a string (its name is at `start`) where the string does."""
    limit = min(len(text), at + JUDGED + 1)
    line = text.find("\n", at, limit)
    limit = limit if line < 0 else line
    found = ESCAPED_END.search(text, at, limit)
    limit = found.start() if found else limit
    if style == "line" and _last_escaped(
        text[max(0, start - FIELD_REACH) : start].rpartition("\n")[2]
    ):
        found = _STRING_END.search(text, at, limit)
        limit = found.start() if found else limit
    return limit


def _last_escaped(line: str) -> int:
    """Behind the last escaped line end or tab of `line`; 0 when there is none."""
    return max(line.rfind("\\n"), line.rfind("\\r"), line.rfind("\\t"), -2) + 2


def _first_or_all(value: str, *, whole: bool) -> str:
    """Of several words without quotes: all in a `.env` file unless a sentence or a command goes on
    behind the first (`KEY=hunter2 and then restart`), else the first if it can be one."""
    if value[0].isspace():
        return value if whole and not is_code(value) else ""
    first, rest = value.split(maxsplit=1)
    if first[0] == HIDDEN:
        return first
    numbered = any(c.isdigit() for c in first)
    if whole and not is_code(value):
        return first if _goes_on(first, rest, numbered=numbered) else value
    return first if numbered else ""


def _goes_on(first: str, rest: str, *, numbered: bool) -> bool:
    """Whether what follows an unquoted value is no part of it."""
    if _BEYOND.search(rest):
        return True
    words = rest.split()
    if any(any(c.isdigit() for c in word) for word in words[:2]):
        return False
    said = sum(word.strip(".,:;!?()").lower() in _JOINING for word in words)
    if not numbered:
        return said > 1 or (said == 1 and words[-1][-1] in ".!?")
    return said > 0 or words[-1][-1] in ".!?)" or dense(first)


def _scheme_only(value: str) -> bool:
    scheme = SCHEME.match(value)
    return scheme is not None and " " not in value[scheme.end() :]
