"""Hardware addresses: `3c:22:fb:1a:2b:3c`, `3C-22-FB-1A-2B-3C`, `3c22.fb1a.2b3c`.

Left alone: all zeros, broadcast, multicast and the ones RFC 7042 keeps for documentation; parts of
longer rows of pairs (fingerprints, dumps), of UUIDs and of words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar, Final

from gateway.redaction.detectors.base import Rule, Source, Triggers, occurrences, part_of
from gateway.redaction.spans import Span

_H: Final = "[0-9A-Fa-f]"
#: From the first sign on, so that `re` can skip to it; the pair before it is looked back at.
_PAIRS: Final = tuple(
    re.compile(rf"{sign}(?<={_H}{{2}}{sign}){_H}{{2}}(?:{sign}{_H}{{2}}){{4}}(?![:-]?\w)")
    for sign in ":-"
)
_DOTTED: Final = re.compile(rf"\.(?<={_H}{{4}}\.){_H}{{4}}\.{_H}{{4}}(?![.\-]?\w)")
#: Twelve digits in a row, behind the name of such an address.
_NAMES: Final = ("mac", "hwaddr", "bssid", "ether", "hardware")
_NAMED: Final = part_of(_NAMES)
_BARE: Final = re.compile(
    rf"[\w ]{{0,24}}?[\"'>]?[ ]{{0,3}}[:=]?[ ]{{0,3}}[\"']?(?<!\w)({_H}{{12}})(?!\w)"
)
_DOCUMENTATION: Final = ("00005e0053", "01005e9010")  # RFC 7042 section 2.1.2


class MacRule(Rule):
    """Finds hardware addresses."""

    KINDS: ClassVar = ("MAC",)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(literals=(":", "-", ".", *_NAMES))

    def spans(self, source: Source) -> Iterator[Span]:
        """Look around every sign that may join two pairs."""
        text = source.text
        for pattern in _PAIRS:
            for match in pattern.finditer(text):
                start = match.start() - 2
                if _is_free(text, start) and _is_someones(text[start : match.end()]):
                    yield Span(start, match.end(), "MAC", 0.85, "mac")
        for match in _DOTTED.finditer(text):
            start = match.start() - 4
            written = text[start : match.end()]
            # Three groups of digits alone are a version or an amount.
            if _is_free(text, start) and _LETTER.search(written) and _is_someones(written):
                yield Span(start, match.end(), "MAC", 0.8, "mac")
        if not source.may_hold_words(_NAMED):
            return
        for at, name in occurrences(source.folded, _NAMES):
            bare = _BARE.match(text, at + len(name))
            if bare is not None and _is_someones(bare.group(1)):
                yield Span(bare.start(1), bare.end(1), "MAC", 0.75, "mac")


_LETTER: Final = re.compile("[A-Fa-f]")


def _is_free(text: str, start: int) -> bool:
    """Not the rest of something longer. A label's colon may touch it: `ether:3c:22:…`."""
    if start <= 0:
        return start == 0
    before = text[start - 1]
    if before in ":-.":
        return (
            start < 2
            or not re.match(rf"{_H}|[:\-.]", text[start - 2])
            or bool(_LABEL.search(text, max(0, start - 8), start))
        )
    return not (before.isalnum() or before == "_")


_LABEL: Final = re.compile(r"(?:[g-zG-Z][\w]*|\w{3,}|[^\w:.\-]\w):\Z")


def _is_someones(written: str) -> bool:
    bare = written.replace(":", "").replace("-", "").replace(".", "").lower()
    if len(set(bare)) < 3 or bare.startswith(_DOCUMENTATION):
        return False
    return not int(bare[:2], 16) & 1  # the group bit: multicast and broadcast
