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
_LINE_MOST: Final = 300
_INSERT: Final = "insert into"
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
    heads = _Heads(source)
    if not heads.stated and not any(sign in text for sign in _CELL_SIGNS):
        return
    labels = [label for label in _LABELS.find(source) if _in_head(source, label, heads)]
    judged: dict[tuple[str, str], bool] = {}  # cells repeat
    for value, start, end in columns(source, labels):
        cell = text[start:end]
        known = (value.rule, cell)
        if known not in judged:
            judged[known] = _is_secret(cell, value, judge)
        if judged[known]:
            yield Span(start, end, "SECRET", 0.8, "column")


class _Heads:
    """Which lines of one text are heads of tables, and which names in them are those of columns:
    lines repeat, and are known by their beginnings and by their texts."""

    def __init__(self, source: Source) -> None:
        #: Whether the rows of a statement may follow any names.
        self.stated = _INSERT in source.folded
        self.at: dict[int, bool] = {}
        self._lines: dict[str, bool] = {}
        self._names: dict[tuple[str, int, int], bool] = {}

    def is_head(self, line: str) -> bool:
        known = self._lines.get(line)
        if known is None:
            known = self._lines[line] = _HEAD.fullmatch(line) is not None
        return known

    def is_name(self, line: str, start: int, end: int) -> bool:
        """Whether the cell around the name at `start` to `end` holds little more."""
        key = line, start, end
        known = self._names.get(key)
        if known is None:
            left = max(line.rfind(sign, 0, start) for sign in _CELL_SIGNS) + 1
            following = _CELL_SIGN.search(line, start)
            cell = line[left : following.start() if following else len(line)]
            known = self._names[key] = len(cell.strip(" \"'`\r")) <= end - start + _CELL_MORE
        return known


def _in_head(source: Source, label: Label, heads: _Heads) -> bool:
    text = source.text
    start = text.rfind("\n", max(0, label.start - _LINE_MOST), label.start) + 1
    if heads.stated and (
        source.folded.rfind(_INSERT, max(0, label.start - _LINE_MOST), label.start) >= 0
    ):
        return True
    end = text.find("\n", label.end, label.end + _LINE_MOST)
    if start not in heads.at:
        heads.at[start] = end >= 0 and heads.is_head(text[start:end])
    if not heads.at[start]:
        return False
    floor = max(start, label.start - _LINE_MOST)  # a cell that begins before is no name's
    return heads.is_name(text[floor:end], label.start - floor, label.end - floor)


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
