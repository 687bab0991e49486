"""Passwords in what people write to each other, in the languages of the regions we know:
`Passwort: …`, `mot de passe : …`.

Invariant: pure and linear. Called by `SecretRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.base import Source, occurrences
from gateway.redaction.detectors.values import (
    CODE,
    OPEN_VALUE,
    SHORTEST,
    SPOKEN_MAX,
    Judge,
    is_chosen,
    is_random,
    spoken_word,
)
from gateway.redaction.spans import Span

#: Words for a password where people of the regions we know write to each other.
_PASSWORD_WORDS: Final = (
    "passwort", "kennwort", "mot de passe", "contraseña", "contrasena", "hasło", "haslo", "κωδικός",
    "κωδικό πρόσβασης", "wachtwoord", "lösenord", "salasana", "adgangskode", "passord", "heslo",
    "jelszó", "senha", "palavra-passe", "пароль", "parola", "lozinka", "geslo", "parool",
)  # fmt: skip
_WORD_GLUE: Final = re.compile(
    r"[ \t]{0,2}(?:(?:is|ist|est|es|è|je|to|είναι|on|är|er|jest|lautet)[ \t]|[:=])[ \t]{0,3}[\"'`]?"
)


def spoken(source: Source, judge: Judge) -> Iterator[Span]:
    """`Passwort: …`, `mot de passe : …` in what people write to each other."""
    for at, word in occurrences(source.folded, _PASSWORD_WORDS):
        glue = _WORD_GLUE.match(source.text, at + len(word))
        if glue is None or source.text[max(0, at - 1) : at].isalnum():
            continue
        value = OPEN_VALUE.match(source.text, glue.end(), glue.end() + SPOKEN_MAX)
        if value is None:
            continue
        written = spoken_word(value.group())
        if (
            len(written) > SHORTEST
            and not judge.is_placeholder("", written)
            and CODE.match(written) is None
            and (is_chosen(written) or is_random(written))
        ):
            end = value.start() + len(written)
            yield Span(value.start(), end, "SECRET", 0.75, "spoken")
