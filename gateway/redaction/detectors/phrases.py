"""Secrets made of plain words: the phrase behind `passphrase:`, and the 12 to 24 words a wallet is
restored from behind `seed phrase`, `mnemonic` and `recovery phrase`; and what a shell hands to a
program that asks for a password (`<<<`).

Invariant: pure and linear; every word for a phrase is read behind once, a bounded way. Called by
`SecretRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from ahocorasick_rs import AhoCorasick

from gateway.redaction.detectors.base import Source, occurrences, part_of
from gateway.redaction.detectors.values import PLACEHOLDER, dense, is_chosen
from gateway.redaction.spans import Span

_SEEDS: Final = (
    "mnemonic", "seed phrase", "seed_phrase", "seedphrase", "seed-phrase", "recovery phrase",
    "recovery_phrase", "recovery words", "seed words", "seed_words", "backup phrase", "bip39",
    "bip-39", "secret phrase", "wallet phrase",
)  # fmt: skip
_PHRASES: Final = ("passphrase", "pass phrase", "pass_phrase", "pass-phrase")
_HERE: Final = "<<<"
#: What every text holds in which anything is found here.
TRIGGERS: Final = (*_SEEDS, *_PHRASES, _HERE)
_PART: Final = part_of(TRIGGERS)
_SEARCH: Final = AhoCorasick((*_SEEDS, *_PHRASES))

_GLUE: Final = re.compile(
    r"(?:[ _\-]?(?:words?|phrase|is|was))?[\"'`]?[*_]{0,2}[ \t]{0,3}(?:\([^()\n]{1,24}\))?"
    r"[ \t]{0,2}(?::=|=>|[:=]|[ ]is:?|(?<=[ ]is):?|(?<=[ ]was):?)[*_]{0,2}[ \t]{0,3}"
    r"(?:\r?\n[ \t]{0,12})?[\"'`]?"
)
_WORDS: Final = re.compile(
    r"[a-z]{3,10}+(?:(?:[ ]{1,2}|-|[ ]?\r?\n[ \t]{0,12})[a-z]{3,10}+){3,24}+(?![\w(])"
)
_SEED_WORDS: Final = re.compile(
    r"(?:\d{1,2}[.)][ ]?)?[a-z]{3,8}+"
    r"(?:[\s,]{1,4}+(?:\d{1,2}[.)][ ]?)?[a-z]{3,8}+(?![\w(])){11,23}+"
)
_WORD: Final = re.compile(r"[a-z]{3,}")
#: Words of sentences about a phrase, which no generator of phrases draws.
_SAYING: Final = frozenset(
    ["the", "and", "are", "was", "for", "not", "with", "that", "this", "from", "your", "you",
     "used", "must", "has", "have", "will", "can", "should", "when", "which", "its", "but", "were",
     "been", "into", "than",
     "then",
     "they",
     "their", "what", "does", "may", "could", "would",
     "per",
     "via",
     "string", "optional", "required", "password", "passphrase", "encrypted", "default", "none",
     "null", "enter", "please", "set", "empty", "before", "after", "without", "leave"]
)  # fmt: skip
#: The list wallets draw from has a few of them, so that one is no sentence.
_SEED_SAYINGS_MOST: Final = 1
_HERE_VALUE: Final = re.compile(
    r"[ \t]{0,2}(?:(?P<quote>[\"'])(?P<quoted>[^\"'\n]{4,128})(?P=quote)|"
    r"(?P<bare>[^\s\"'$<>|;&]{6,128}))"
)
_ASKING: Final = re.compile(
    r"pass|pwd|secret|token|stdin|login|sudo -S|\bsu\b|kinit|cryptsetup|openssl|gpg|smbclient|"
    r"credential",
    re.IGNORECASE,
)
#: How much before a here-string says what it is for.
_REACH: Final = 160
_MOST_SEEN: Final = 4096

#: A phrase in the middle of a sentence, up to its end.
_SPOKEN_WORDS: Final = re.compile(
    r"[a-z]{3,10}+(?:[ ][a-z]{3,10}+){3,7}+(?=[.!;,\"'`”]|\s*(?:\Z|\n))"
)


def drawn_words(text: str, at: int) -> tuple[str, ...]:
    """The words at `at`, one blank apart, if they may be a phrase: no sentence goes on so."""
    match = _SPOKEN_WORDS.match(text, at)
    said = tuple(match.group().split(" ")) if match is not None else ()
    if len(set(said)) * 2 <= len(said) or any(word in _SAYING for word in said):
        return ()
    return said


def phrases_in(source: Source) -> Iterator[Span]:
    """Look behind every word for a phrase, and behind every here-string."""
    if not source.may_hold_words(_PART):
        return
    text, folded = source.text, source.folded
    for index, _, end in _SEARCH.find_matches_as_indexes(folded):
        span = _phrase(text, end, seed=index < len(_SEEDS))
        if span is not None:
            yield Span(*span, "SECRET", 0.8, "phrase")
    yield from _here_strings(text)


def _here_strings(text: str) -> Iterator[Span]:
    asking: dict[str, bool] = {}  # lines repeat
    for at, literal in occurrences(text, (_HERE,)):
        value = _HERE_VALUE.match(text, at + len(literal))
        if value is None:
            continue
        floor = max(text.rfind("\n", max(0, at - _REACH), at) + 1, at - _REACH)
        before = text[max(0, floor - 1) : at]
        if before not in asking:
            if len(asking) > _MOST_SEEN:
                asking.clear()
            asking[before] = _ASKING.search(text, max(0, floor), at) is not None
        if not asking[before]:
            continue
        part = "quoted" if value["quote"] else "bare"
        written = value[part].rpartition(":")[2]
        if PLACEHOLDER.match(written) is None and (dense(written) or is_chosen(written)):
            yield Span(value.end(part) - len(written), value.end(part), "SECRET", 0.8, "here")


def _phrase(text: str, at: int, *, seed: bool) -> tuple[int, int] | None:
    glue = _GLUE.match(text, at)
    if glue is None:
        return None
    words = (_SEED_WORDS if seed else _WORDS).match(text, glue.end())
    if words is None:
        return None
    said = _WORD.findall(words.group())
    sayings = sum(word in _SAYING for word in said)
    if sayings > (_SEED_SAYINGS_MOST if seed else 0) or len(set(said)) * 2 <= len(said):
        return None
    return words.span()
