"""How many columns a character takes, and which characters share a cell. Pure.

Owns the one rule the whole deck follows, terminal and pages alike: two views that disagree by one
column draw everything behind it in the wrong place. Called by `writing`, `history` and whoever
draws cells.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from wcwidth import wcwidth

ZWJ: Final = "\u200d"
VS16: Final = "\ufe0f"
# No real cluster is longer; a flood of combining marks stays bounded.
CLUSTER_LIMIT: Final = 32

# Runs that are certainly one column a character: Latin, Greek, Cyrillic, punctuation, arrows, box
# drawing, blocks, braille. Soft hyphen and everything with emoji presentation are left out.
SINGLE = re.compile(
    "[ -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e"
    "\u2190-\u2199\u2200-\u22ff\u2500-\u259f\u25a0-\u25fc\u2800-\u28ff]+"
)


@lru_cache(maxsize=8192)
def char_width(c: str) -> int:
    """Columns of one character: 0 joins the one before it, 2 is wide."""
    if "\U0001f1e6" <= c <= "\U0001f1ff":
        return 2  # a flag letter; the second of a pair joins the first
    return max(0, wcwidth(c))


def is_emoji_modifier(c: str) -> bool:
    return "\U0001f3fb" <= c <= "\U0001f3ff"


def is_flag_letter(c: str) -> bool:
    return "\U0001f1e6" <= c <= "\U0001f1ff"


def joins(cluster: str, c: str) -> bool:
    """Whether `c` continues the cluster before it instead of taking a cell of its own.

    One rule for the whole deck (terminal and pages): zero-width characters, what follows a joiner
    after an emoji, skin tones after a wide character, and the second letter of a flag.
    """
    if char_width(c) == 0:
        return True
    if cluster.endswith(ZWJ) and len(cluster) > 1:
        return char_width(c) == 2 or c in "\u2640\u2642\u2695\u2696\u2708\u2764\u2620\u26a7"
    if is_emoji_modifier(c):
        return char_width(cluster[0]) == 2 or VS16 in cluster
    return is_flag_letter(c) and len(cluster) == 1 and is_flag_letter(cluster)


def cluster_width(cluster: str) -> int:
    """Columns of a cluster: its first character's, two once an emoji selector widens it."""
    width = char_width(cluster[0])
    if width == 1 and VS16 in cluster[1:2]:
        return 2
    return width


def clusters(text: str) -> list[str]:
    """Text cut into what takes a cell (or two) each."""
    if text.isascii():
        return list(text)
    found: list[str] = []
    for c in text:
        if found and joins(found[-1], c) and len(found[-1]) < CLUSTER_LIMIT:
            found[-1] += c
        else:
            found.append(c)
    return found


def takes_emoji_selector(c: str) -> bool:
    """Whether an emoji selector makes this character two columns wide."""
    return c >= "\u203c" and not "\u2500" <= c <= "\u259f"
