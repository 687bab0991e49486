"""The log's own lines, byte for byte, with the checkpoint behind each batch.

The one format that is evidence: whole, it is what `sphragis verify` reads; filtered, each record's
leaf is the SHA-256 of a zero byte and its line, and the checkpoint that covers it follows. Nothing
is added to a line, because that would change its leaf. Called by `registry`.
"""

from __future__ import annotations

from typing import Final

from shared.exports.registry import LogFacts, Rendered, Selection

ABOUT: Final = "the exact lines with their checkpoints; `sphragis verify` reads them"
SUFFIX: Final = ".jsonl"


def render(log: LogFacts, selection: Selection) -> Rendered:
    """Yield the lines of the wanted records, each with its newline."""
    for line in selection.lines():
        yield line + b"\n"
