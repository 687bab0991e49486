"""Writing a log in other formats: one small module for each, found by name.

Owns the registry. A format module has `ABOUT` (one line), `SUFFIX` (file ending) and
`render(log, blocks)`, which turns committed lines into bytes piece by piece in constant memory.
Invariant: every exported item carries the record's number and leaf hash, so it points back to the
record that proves it; only `jsonl` is evidence by itself. Called by `sphragis export`.
"""

from shared.exports.registry import (
    FORMATS,
    ExportRefused,
    LogFacts,
    Rendered,
    Selection,
    facts_of,
    find_format,
)

__all__ = [
    "FORMATS",
    "ExportRefused",
    "LogFacts",
    "Rendered",
    "Selection",
    "facts_of",
    "find_format",
]
