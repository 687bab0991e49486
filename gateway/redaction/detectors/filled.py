"""Passwords that tests and scripts type into a field: `fill("#password", "…")`,
`getByLabel("Password").fill("…")`, `fill_in "Password", with: "…"`.

The field is named as for a person, so only what looks chosen or generated counts. Invariant: pure
and linear; behind every word for a password a bounded stretch is read. Called by `SecretRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.base import Source, part_of, set_of
from gateway.redaction.detectors.values import dense, is_chosen, is_expression, is_random
from gateway.redaction.spans import Span

_FIELDS: Final = (
    "password", "passwd", "passphrase", "passcode", "pwd", "passwort", "mot de passe", "contraseña",
    "api key", "apikey", "api_key", "api-key",
)  # fmt: skip
_TYPED: Final = (
    "fill(", "type(", "send_keys(", "sendkeys(", "setvalue(", "set_value(", "with:",
    "sequentially(", "fill_in", "typetext(", "addvalue(", ".set(",
    "fillfield(", "fill in", "fills in", "filled in",
)  # fmt: skip
#: What every text holds in which anything is found here.
TRIGGERS: Final = _TYPED
_PART: Final = part_of(_TYPED)
_NAMES: Final = set_of(_FIELDS)
_VALUE: Final = r"(?P<quote>[\"'`])(?P<value>[^\"'`\n]{6,128})(?P=quote)"
#: From the field's name to what is typed: the rest of its selector and the call.
_BEHIND: Final = re.compile(
    r"[\w\-]{0,20}[\"'\]/i ]{0,4}[\"'`/]?(?:,[ ]?\{[^{}\n]{0,60}\})?(?:[ ]?\})?\)?\)?(?:"
    r",\s{0,8}(?:with:[ ]{0,2})?|[ ](?:field[ ])?with[ ]|"
    r"\s{0,12}\.(?:\w{1,24}\(\)\s{0,12}\.){0,3}"
    r"(?:fill|type|send_keys|sendKeys|setValue|set_value|addValue|typeText|"
    r"press_?[sS]equentially|set)\()"
    rf"(?:secret\()?{_VALUE}"
)
_CALLED: Final = re.compile(
    r"(?:\b(?:fill|fills in|filled in|fillField|type|send_keys|sendKeys|setValue|set_value|"
    r"fill_in|typeText|input|locator|press_?[sS]equentially|get\w{0,30}|find_?[eE]lement\w{0,30})|"
    r"\$)[ (][^\n]{0,100}\Z"
)
_REACH: Final = 120


def filled(source: Source) -> Iterator[Span]:
    """Yield what is typed into fields for passwords."""
    if not source.may_hold_words(_PART):
        return
    text = source.text
    for _, at, end in source.found(_NAMES):
        match = _BEHIND.match(text, end)
        if match is None or not _CALLED.search(text, max(0, at - _REACH), at):
            continue
        value = match["value"]
        if is_expression(value) or not (is_chosen(value) or dense(value) or is_random(value)):
            continue
        yield Span(*match.span("value"), "SECRET", 0.75, "filled")
