"""Whether a word without quotes is handed over as a value: the argument of an option or of a
command that sets a variable; or stands for another value, as a variable of source code.

Invariant: pure; looks a bounded way back. Called by `assignments`.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.redaction.detectors.names import PASSWORD, is_secret_name
from gateway.redaction.detectors.values import dense, is_dotted_words, is_random, is_worded

_MACHINE_REACH: Final = 160
_SETTER_REACH: Final = 24
_SETTERS: Final = re.compile(
    r"(?:\b(?:env|arg|setenv|setx|set -[a-z]{1,3}|export|config set|configure set|secrets? set|"
    r"env add)|#define) {1,4}[\"']?\Z",
    re.IGNORECASE,
)
_TYPE_NAME: Final = re.compile(r"[A-Z]\w{0,8}[a-z]{3}\w*[a-z]{2}")
_NAME_ONLY: Final = re.compile(r"[A-Za-z_$][A-Za-z_$.]*\d?", re.ASCII)
#: What stands behind the name of an option in a sentence.
_NO_ARGUMENT: Final = frozenset(
    ["option", "options", "flag", "flags", "argument", "arguments", "parameter", "param", "value",
     "values", "switch", "setting", "is", "are", "was", "to", "or", "and", "if", "in", "for",
     "from", "with", "when", "which", "that", "the", "this", "string", "file", "path", "must",
     "can", "may", "will", "should", "instead", "then", "has", "as", "on", "of", "at", "by", "not",
     "stdin", "field", "name", "here", "only", "also", "password", "secret", "token", "prompt",
     "required", "optional", "default", "text", "your", "specifies", "sets", "takes"]
)  # fmt: skip


def is_plain_argument(text: str, start: int, name: str, value: str) -> bool:
    """`--db-pass kestrel`, and the files of netrc, where any word is a password."""
    if len(value) < _ARGUMENT_LEAST or value in _NO_ARGUMENT or not PASSWORD.search(name):
        return False
    if text[start : start + 1] == "-" or text[max(0, start - 1) : start] == "-":
        return not text[max(0, start - 2) : start].startswith("`")
    return name.lower() in ("password", "passwd")  # `is_option` saw a machine


_ARGUMENT_LEAST: Final = 6


def is_option(text: str, start: int, name: str) -> bool:
    """`--password value`, `ENV TOKEN value`, `#define TOKEN "…"`: where a space assigns; and in
    netrc."""
    if text[start : start + 1] == "-" or text[max(0, start - 1) : start] == "-":
        return True
    if name.lower() in ("password", "passwd"):
        before = text[max(0, start - _MACHINE_REACH) : start]
        if "machine " in before or ("login " in before and "default" in before):
            return True
    return _SETTERS.search(text, max(0, start - _SETTER_REACH), start) is not None


def is_variable(name: str, value: str, after: str, *, glued: bool) -> bool:
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
