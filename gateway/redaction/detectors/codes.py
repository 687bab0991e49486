"""Numbers that open something: PINs, the codes of doors, alarms and locks, the combinations of
safes, told aloud or written down.

Only digits behind the word and a verb or a sign count, and only such words as mean nothing else
(`PIN` in capitals, `my pin`, `door code`). Invariant: pure and linear; behind every word a bounded
stretch is read. Called by `SecretRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.base import Source, leftmost_longest, set_of
from gateway.redaction.spans import Span

_PINS: Final = (
    "pin is", "pin was", "pin for", "pin to the", "pin of", "pin code", "pin-code", "pincode",
    "pin number", "pin ist", "pin est", "pin es", "pin lautet", "pin to", "pin är", "pin er",
    "pin on", "pin jest", "pin:", "pin =", "pin is:", "pin è",
)  # fmt: skip
_CODES: Final = (
    "alarm code", "door code", "gate code", "entry code", "lock code", "luggage code",
    "garage code", "keypad code", "unlock code", "safe code", "lockbox code", "locker code",
    "entrance code", "elevator code", "building code", "padlock code", "disarm code",
    "duress code", "bike lock", "türcode", "tür-code", "alarmcode", "alarm-code", "zahlencode",
    "zahlenkombination", "geheimzahl", "code de la porte", "code de l'alarme", "code du portail",
    "code de l’alarme", "digicode", "code pin", "code confidentiel", "código de la alarma",
    "código de la puerta", "código pin", "codice allarme", "codice della porta", "codice pin",
    "código do alarme", "código da porta", "deurcode", "alarmkode", "kod do drzwi",
    "kod do alarmu", "portkod", "dørkode", "larmkod", "ovikoodi", "kód dveří", "kód alarmu",
)  # fmt: skip
_COMBINATIONS: Final = ("combination is", "combination:", "combination to the", "combination for",
                        "combo is", "combo for", "combo to the")  # fmt: skip
#: What every text holds in which anything is found here.
TRIGGERS: Final = (*_PINS, *_CODES, *_COMBINATIONS)
_WORDS: Final = set_of(TRIGGERS)

_VERB: Final = (
    r"(?:[ ](?:is|was|will be|remains|ist|lautet|war|est|es|è|é|to|jest|är|er|on|je)"
    r"(?:[ ](?:now|still|jetzt|noch|maintenant|ahora|ora|nu|teraz))?:?|[ ]?[:=])[ ]{1,3}"
)
_OF: Final = (
    r"(?:[ ](?:for|to|of|at|on|für|zu|de|du|del|della|dello|da|do|der|til|till|av|voor)[ ]"
    r"[\w '’.-]{1,30}?)?"
)
_NUMBER: Final = (
    r"[\"'`*]{0,2}(?P<value>[#*]?\d{4,8}[#*]?|\d{1,2}(?:[-–][ ]?\d{1,2}){2,3}|"
    r"\d{2} \d{2}(?: \d{2}){0,2})"
    r"(?![\w%€$£]|[.,:/-]\w)"
)
_GLUE: Final = re.compile(rf"{_OF}{_VERB}{_NUMBER}")
#: Behind a word that holds the verb or the beginning of what it is for.
_OPEN: Final = re.compile(rf"[ ](?:[\w '’.-]{{1,30}}?{_VERB})?{_NUMBER}")
#: Whose PIN it is, where the word is not in capitals.
_WHOSE: Final = re.compile(
    r"\b(?:my|your|his|her|our|their|the|sim|card|door|gate|bank|atm|phone|parent|alarm|new|old|"
    r"mein|meine|dein|deine|die|der|mon|ma|le|mi|tu|el|il|mio|min|din|mijn|je|moj|mój|twój)[ ]\Z",
    re.IGNORECASE,
)
_WHOSE_REACH: Final = 12
_CODE_OF: Final = re.compile(r"pin[- ]?(?:code|number)", re.IGNORECASE)
_SHORT: Final = 4


def codes(source: Source) -> Iterator[Span]:
    """Yield the numbers behind every word for a PIN, a code or a combination."""
    text = source.text
    for index, at, end in leftmost_longest(source.found(_WORDS)):
        before = text[at - 1 : at]
        if before.isalnum() or before in ("_", "-", "$", ".", "/") or text[end : end + 1] == "_":
            continue
        pin = index < len(_PINS)
        match = _OPEN.match(text, end) or _GLUE.match(text, end)
        if match is None:
            continue
        # In India the number of a town is called so, and has six digits.
        sure = _CODE_OF.match(text, at) is not None and len(match["value"]) <= _SHORT
        if not pin or sure or text.startswith("PIN", at) or _is_whose(text, at):
            yield Span(*match.span("value"), "SECRET", 0.6, "pin")


def _is_whose(text: str, at: int) -> bool:
    return _WHOSE.search(text, max(0, at - _WHOSE_REACH), at) is not None
