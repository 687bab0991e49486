"""Error bodies in each provider family's own shape, so that every client shows our sentence.

Owns the mapping from the gateway's few kinds of trouble to the type words each family's SDK knows.
The message is written by us and holds no value of the request. A refusal by policy is always 403
with `x-should-retry: false`, the combination that real clients retry least.
Called by `routing`, the pipeline and the formats.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import orjson


class Family(StrEnum):
    """Whose native shape an error takes."""

    ANTHROPIC = "anthropic"
    OPENAI = "openai"
    GEMINI = "gemini"
    OLLAMA = "ollama"
    BEDROCK = "bedrock"


class ErrorKind(StrEnum):
    """What went wrong, in the gateway's own words."""

    REFUSED = "refused"
    INVALID = "invalid"
    UNAUTHENTICATED = "unauthenticated"
    NOT_FOUND = "not_found"
    TOO_LARGE = "too_large"
    RATE_LIMITED = "rate_limited"
    UPGRADE = "upgrade"
    UNAVAILABLE = "unavailable"
    UPSTREAM = "upstream"
    INTERNAL = "internal"


#: Sent with every refusal: the same request would be refused again.
NO_RETRY: Final[Mapping[str, str]] = {"x-should-retry": "false"}

_ANTHROPIC: Final[Mapping[str, str]] = {
    ErrorKind.REFUSED: "permission_error",
    ErrorKind.INVALID: "invalid_request_error",
    ErrorKind.UNAUTHENTICATED: "authentication_error",
    ErrorKind.NOT_FOUND: "not_found_error",
    ErrorKind.TOO_LARGE: "request_too_large",
    ErrorKind.RATE_LIMITED: "rate_limit_error",
    ErrorKind.UPGRADE: "invalid_request_error",
    ErrorKind.UNAVAILABLE: "overloaded_error",
}
_OPENAI: Final[Mapping[str, str]] = {
    ErrorKind.REFUSED: "permission_error",
    ErrorKind.INVALID: "invalid_request_error",
    ErrorKind.UNAUTHENTICATED: "authentication_error",
    ErrorKind.NOT_FOUND: "invalid_request_error",
    ErrorKind.TOO_LARGE: "invalid_request_error",
    ErrorKind.RATE_LIMITED: "rate_limit_error",
    ErrorKind.UPGRADE: "invalid_request_error",
}
#: google.rpc.Code names, by HTTP status.
_GEMINI: Final[Mapping[int, str]] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    426: "FAILED_PRECONDITION",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def error_document(
    family: str, status: int, kind: str, message: str, request_id: str = ""
) -> dict[str, Any]:
    """Return the error object of `family`; `kind` is an `ErrorKind` (others mean internal)."""
    if family == Family.OPENAI:
        return {
            "error": {
                "message": message,
                "type": _OPENAI.get(kind, "server_error"),
                "param": None,
                "code": f"gateway_{kind}",
            }
        }
    if family == Family.GEMINI:
        state = _GEMINI.get(status, "INTERNAL")
        return {"error": {"code": status, "message": message, "status": state}}
    if family == Family.OLLAMA:
        return {"error": message}
    if family == Family.BEDROCK:
        return {"message": message}
    document: dict[str, Any] = {
        "type": "error",
        "error": {"type": _ANTHROPIC.get(kind, "api_error"), "message": message},
    }
    if request_id:
        document["request_id"] = request_id
    return document


def error_body(family: str, status: int, kind: str, message: str, request_id: str = "") -> bytes:
    """Return `error_document` as JSON bytes; the media type is `application/json`."""
    return orjson.dumps(error_document(family, status, kind, message, request_id))
