"""What the coverage matrix is made of: one sample request for each call, with its text marked.

A module beside this one offers `SAMPLES` for a wire format. In a sample every place where a text
of a user, a model or a tool can stand holds `MARK`: in strings, in object keys, in JSON inside
strings, in path and query. Each mark is one position of the matrix. Values only; read by `matrix`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

#: Stands where a canary will be planted; the other marks of the same request become a plain word.
MARK: Final = "⟪mark⟫"

#: A tool's schema: every place where one can hold a text.
TOOL_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "title": MARK,
    "description": MARK,
    "properties": {
        "to": {
            "type": "string",
            "description": MARK,
            "default": MARK,
            "examples": [MARK],
            "const": MARK,
            "pattern": MARK,
            "$comment": MARK,
        },
        "kind": {"enum": ["plain", MARK], "x-vendor": {"note": MARK}},
        MARK: {"anyOf": [{"const": MARK}, {"type": "array", "items": {"default": MARK}}]},
    },
    "required": [MARK],
    "$defs": {MARK: {"description": MARK}},
    "additionalProperties": {"description": MARK},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One request that a client of this API could send.

    wire: the format's registry name; path: with its query, without `/agent/<role>`; body: a JSON
    document, or bytes for a body of another `media_type`; headers: those that matter beside it.
    """

    wire: str
    path: str
    body: Any
    method: str = "POST"
    media_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
