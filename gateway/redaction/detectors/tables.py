"""Secrets in columns: below a head that is a secret's name, in CSV, Markdown, and the rows of an
INSERT.

Invariant: pure and linear (`labels.columns` reads every row once). Called by `SecretRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.base import Source, part_of
from gateway.redaction.detectors.labels import Label, Labels, Reach, Value, columns
from gateway.redaction.detectors.names import PASSWORD, is_secret_name
from gateway.redaction.detectors.values import Judge, dense, is_chosen
from gateway.redaction.spans import Span

_ANY: Final = re.compile(r"[^\n]+")


def _value(rule: str, words: tuple[str, ...]) -> Value:
    return Value("SECRET", rule, words, _ANY, lambda _: True, Reach.COLUMN)


_PASSWORDS: Final = _value(
    "password",
    ("password", "passwd", "pwd", "passphrase", "passcode", "passwort", "kennwort", "mot de passe",
     "mdp", "contraseña", "clave", "senha", "hasło", "wachtwoord", "lösenord", "salasana",
     "adgangskode", "heslo", "jelszó", "κωδικός", "пароль", "парола", "lozinka", "geslo", "db pass",
     "db password", "root password",
     "pgpassword", "login password", "user password", "temp password"),
)  # fmt: skip
_KEYS: Final = _value(
    "key",
    ("api key", "apikey", "secret", "secret key", "token", "api token", "access token",
     "access key", "auth token", "client secret", "secret access key", "refresh token",
     "private key", "api secret", "webhook secret", "session token", "license key", "credential",
     "credentials", "service account key", "hmac key", "consumer secret", "app secret",
     "signing secret", "signing key", "session secret", "jwt secret", "master key", "bot token",
     "deploy token", "private token", "encryption key", "account key", "auth key", "storage key",
     "subscription key", "secret value", "bearer token", "app password"),
)  # fmt: skip
_LABELS: Final = Labels((_PASSWORDS, _KEYS))
#: What every text holds in which anything is found here.
TRIGGERS: Final = _LABELS.names
_PART: Final = part_of(TRIGGERS)
#: A head holds names only: two at least, and not the items of a list in source code.
_HEAD_NAME: Final = r"[\"'`]?[^\W\d_][\w .\-/]{0,40}[\"'`]?"
_HEAD: Final = re.compile(
    rf"(?:(?P<sign>\|)[ ]?)?{_HEAD_NAME}(?:[ ]*[,;|\t][ ]*{_HEAD_NAME}){{1,60}}"
    r"[ ]*(?(sign)\|)[ ]*\r?"
)
_CELL_MORE: Final = 14
_CELL_SIGNS: Final = ",;|\t"
_CELL_SIGN: Final = re.compile(rf"[{_CELL_SIGNS}]")
_SINGLE: Final = re.compile(r"\S+")


def table_secrets(source: Source, judge: Judge) -> Iterator[Span]:
    """Yield what stands below the heads of columns."""
    if not source.may_hold_words(_PART):
        return
    text = source.text
    if "\n" not in text and "values" not in source.folded:
        return
    heads: dict[int, bool] = {}
    labels = [label for label in _LABELS.find(source) if _in_head(source, label, heads)]
    judged: dict[tuple[str, str], bool] = {}  # cells repeat
    for value, start, end in columns(text, labels):
        cell = text[start:end]
        known = (value.rule, cell)
        if known not in judged:
            judged[known] = _is_secret(cell, value, judge)
        if judged[known]:
            yield Span(start, end, "SECRET", 0.8, "column")


def _in_head(source: Source, label: Label, heads: dict[int, bool]) -> bool:
    """`heads`: which lines, by their beginnings, are heads of tables."""
    text = source.text
    start = text.rfind("\n", max(0, label.start - 300), label.start) + 1
    if source.folded.rfind("insert into", max(0, label.start - 300), label.start) >= 0:
        return True
    end = text.find("\n", label.end, label.end + 300)
    if start not in heads:
        heads[start] = end >= 0 and _HEAD.fullmatch(text, start, end) is not None
    if not heads[start]:
        return False
    left = max(text.rfind(sign, start, label.start) for sign in _CELL_SIGNS) + 1
    following = _CELL_SIGN.search(text, label.start, end)
    cell = (
        text[max(start, left) : label.start]
        + (text[label.start : following.start() if following else end])
    )
    return len(cell.strip(" \"'`\r")) <= label.end - label.start + _CELL_MORE


def _is_secret(cell: str, value: Value, judge: Judge) -> bool:
    name = value.words[0].replace(" ", "_")
    if not _SINGLE.fullmatch(cell) or not judge.is_secret(name, cell, quoted=True):
        return False
    if is_secret_name(cell) or cell.isdigit():
        return False
    if PASSWORD.search(name):
        return (
            is_chosen(cell) or dense(cell) or (cell.isalpha() and cell.islower() and len(cell) >= 6)
        )
    return dense(cell)
