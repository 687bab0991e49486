"""The keys of a terminal as bytes, and text made fit to be typed.

Owns what every client was measured to take: how a line is submitted, pasted and cleared. Invariant:
what `sanitize` returns is one line without control characters, so it can neither submit itself nor
end a paste early. Used by `typing`, `answering` and `human_line`.
"""

from __future__ import annotations

import re
from typing import Final

# Contract 1.6; measured: every client submits with it, two need at least 20 ms.
ENTER_DELAY_SECONDS: Final = 0.2
# To the end of the line, then kill it: two keys that every composer and line reader measured takes.
# A write of its own for each, because some take several bytes in one read for a paste.
CLEARING: Final = (b"\x05", b"\x15")
PASTE_START: Final = b"\x1b[200~"
PASTE_END: Final = b"\x1b[201~"
ENTER: Final = b"\r"


def sanitize(line: str) -> str:
    """One line without control characters: breaks and tabs become spaces, the rest is dropped.

    Paste brackets inside the text would end the paste early; without ESC they cannot.
    """
    spaced = re.sub(r"[\r\n\t\v\f\x85\u2028\u2029]+", " ", line)
    return "".join(c for c in spaced if c.isprintable() or c in "\u200d\ufe0f").strip()
