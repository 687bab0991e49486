"""From a request line to a wire format: role, upstream path, or a refusal the client can show.

Owns the route table (contracts/gateway.md section 3.1). Invariant: only a path, method and query
listed here is ever forwarded, and the upstream path is built from the table, never copied from the
request; anything else is answered here, in the error shape of the family the path belongs to.
No text of a request path reaches a message, label or record, except words of the APIs themselves.
Pure; called by the app for every request that is not one of the gateway's own pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gateway.wire.base import words
from gateway.wire.errors import NO_RETRY, ErrorKind, Family, error_body
from shared.paths import is_path_safe_role

#: Headers that `match` looks at; others need not be passed.
HEADERS_USED: Final = frozenset(("upgrade", "anthropic-version", "x-goog-api-key"))

#: (upstream path, wire format) by the path after the role, without a leading `/v1`.
_FORWARDED: Final[Mapping[str, tuple[str, str]]] = {
    "messages": ("/v1/messages", "anthropic.messages"),
    "messages/count_tokens": ("/v1/messages/count_tokens", "anthropic.count_tokens"),
}

#: Query keys that may be forwarded, and their values.
_QUERY: Final[Mapping[str, re.Pattern[str]]] = {"beta": re.compile(r"true|false|1|0")}

#: Words of the provider APIs: the only path text that is ever repeated.
_API_WORDS: Final = words(
    """
    v1 v1beta v1alpha v2 openai agent api messages count_tokens batches complete chat completions
    responses embeddings models moderations images generations edits audio speech transcriptions
    translations files uploads assistants threads runs conversations realtime input_items cancel
    compact deployments hello event_logging generate tags show embed results organizations
    fine_tuning vector_stores skills containers
    """
)
_MAX_SEGMENTS: Final = 8

_OPENAI_HEADS: Final = words(
    """
    responses chat completions embeddings models moderations images audio files uploads assistants
    threads conversations realtime openai deployments fine_tuning vector_stores batches engines
    """
)
_ANTHROPIC_HEADS: Final = words("messages complete skills organizations")

_SUPPORTED: Final = (
    "This gateway forwards POST /v1/messages and POST /v1/messages/count_tokens (Anthropic "
    "Messages), with or without an /agent/<role> prefix."
)


class RefusalCode:
    """Why a request was refused: stable words for metrics and records."""

    ROLE: Final = "role"
    PATH: Final = "path"
    PATH_ENCODING: Final = "path_encoding"
    METHOD: Final = "method"
    QUERY: Final = "query"
    UPGRADE: Final = "upgrade"


@dataclass(frozen=True, slots=True)
class Route:
    """A call to forward. `target` is path and query at the provider; `role` may be empty."""

    role: str
    family: Family
    wire: str
    method: str
    path: str
    query: str

    @property
    def target(self) -> str:
        """The request target at the provider."""
        return f"{self.path}?{self.query}" if self.query else self.path


@dataclass(frozen=True, slots=True)
class LocalAnswer:
    """A connectivity probe, answered here with 200 and no credential."""

    role: str
    path: str
    status: int = 200
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is not forwarded. `path` is safe to print, label and record."""

    code: str
    status: int
    kind: str
    family: Family
    message: str
    role: str = ""
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=lambda: NO_RETRY)

    def body(self, request_id: str = "") -> bytes:
        """Return the JSON error body in the family's own shape."""
        return error_body(self.family, self.status, self.kind, self.message, request_id)


def match(
    method: str,
    raw_path: str,
    raw_query: str = "",
    headers: Mapping[str, str] = MappingProxyType({}),
) -> Route | LocalAnswer | Refusal:
    """Decide what a request line is.

    `raw_path` is the path exactly as sent, percent-encoding included; `raw_query` the text after
    `?`; `headers` at least those of HEADERS_USED that are present, with lower-case names.
    """
    family = _family(raw_path, headers)
    role, rest = _split_role(raw_path)
    if role is None:
        return Refusal(
            RefusalCode.ROLE,
            404,
            ErrorKind.NOT_FOUND,
            family,
            "The role in the path is not valid: after /agent/ the gateway expects 1 to 64 letters, "
            "digits, dots, underscores or hyphens. Correct the base URL of the client.",
        )
    trick = _path_trick(rest)
    if trick:
        return Refusal(
            RefusalCode.PATH_ENCODING, 403, ErrorKind.REFUSED, family, f"{trick} {_SUPPORTED}", role
        )
    path = safe_path(rest)
    if _is_probe(method, rest):
        return LocalAnswer(role, path)
    refusal = _refuse_call(method, rest, raw_query, headers, family)
    if refusal is not None:
        code, status, kind, message = refusal
        return Refusal(code, status, kind, family, message, role, path)
    upstream, wire = _FORWARDED[_call(rest)]
    return Route(role, Family.ANTHROPIC, wire, method, upstream, raw_query)


def safe_path(path: str) -> str:
    """Return a path in which everything but the words of the provider APIs is an ellipsis."""
    segments = path.split("?", 1)[0].strip("/").split("/")
    shown = [part if part in _API_WORDS else "…" for part in segments[:_MAX_SEGMENTS] if part]
    return "/" + "/".join([*shown, *(["…"] if len(segments) > _MAX_SEGMENTS else [])])


def _refuse_call(
    method: str, rest: str, query: str, headers: Mapping[str, str], family: Family
) -> tuple[str, int, ErrorKind, str] | None:
    call = _call(rest)
    if headers.get("upgrade", "").lower() == "websocket" and call == "responses":
        return (
            RefusalCode.UPGRADE,
            426,
            ErrorKind.UPGRADE,
            "This gateway does not take WebSocket connections; use POST with server-sent events.",
        )
    if call not in _FORWARDED:
        return (RefusalCode.PATH, 403, ErrorKind.REFUSED, _path_message(rest, family))
    if method != "POST":
        return (
            RefusalCode.METHOD,
            403,
            ErrorKind.REFUSED,
            f"This method is not supported on {safe_path(rest)}; use POST. {_SUPPORTED}",
        )
    if not _query_allowed(query):
        allowed = ", ".join(_QUERY)
        return (
            RefusalCode.QUERY,
            403,
            ErrorKind.REFUSED,
            f"The query string of {safe_path(rest)} holds something this gateway does not forward; "
            f"only these keys are, each once and with a plain value: {allowed}.",
        )
    return None


def _path_message(rest: str, family: Family) -> str:
    hint = ""
    if _call(rest).startswith("v1/"):
        hint = " The path has /v1 twice: remove /v1 from the base URL of the client."
    elif family is Family.OPENAI:
        hint = " OpenAI-style calls are not forwarded by this version."
    elif family is Family.GEMINI:
        hint = " Gemini calls are not forwarded by this version."
    return (
        f"The gateway refused {safe_path(rest)}: it has no scanner for this call, and forwards "
        f"only what it has scanned.{hint} {_SUPPORTED}"
    )


def _path_trick(path: str) -> str:
    """Return a sentence if two programs could read the path differently."""
    if not path.startswith("/"):
        return "The request target is not a path; send requests to the gateway's own address."
    if "%" in path:
        return "The path holds percent-encoding, which no supported call needs."
    if not path.isascii() or not path.isprintable() or "\\" in path or " " in path or ";" in path:
        return "The path holds characters that no supported call needs."
    if "//" in path:
        return "The path holds an empty segment (//); remove the extra slash from the base URL."
    if any(part and not part.strip(".") for part in path.split("/")):
        return "The path holds a dot segment, which could point elsewhere."
    return ""


def _split_role(path: str) -> tuple[str | None, str]:
    """Return role (empty without a prefix, None if it is not valid) and the rest of the path."""
    if path != "/agent" and not path.startswith("/agent/"):
        return "", path
    role, _, rest = path[len("/agent/") :].partition("/")
    # A role of dots alone would be a dot segment to every other program on the way.
    valid = is_path_safe_role(role) and role.strip(".") != ""
    return (role, f"/{rest}") if valid else (None, "")


def _is_probe(method: str, rest: str) -> bool:
    return method in ("GET", "HEAD") and rest.rstrip("/") in ("", "/api/hello")


def _call(rest: str) -> str:
    """Return the path without its leading slash and one optional `/v1`."""
    return rest.removeprefix("/").removeprefix("v1/")


def _query_allowed(query: str) -> bool:
    if not query:
        return True
    seen: set[str] = set()
    for item in query.split("&"):
        key, _, value = item.partition("=")
        allowed = _QUERY.get(key)
        if allowed is None or key in seen or not allowed.fullmatch(value):
            return False
        seen.add(key)
    return True


def _family(path: str, headers: Mapping[str, str]) -> Family:
    """Guess whose client is asking, to answer in a shape it can show."""
    rest = re.sub(r"^/agent/[^/]*", "", path) if path.startswith("/") else ""
    segments = [part for part in rest.split("/") if part]
    head = next((part for part in segments if part not in ("v1", "v1beta", "v1alpha")), "")
    is_gemini = segments[:1] in (["v1beta"], ["v1alpha"]) or any(
        ":" in part for part in segments[-1:]
    )
    if is_gemini and head != "openai":
        return Family.GEMINI
    if "anthropic-version" in headers or head in _ANTHROPIC_HEADS:
        return Family.ANTHROPIC
    if "x-goog-api-key" in headers:
        return Family.GEMINI
    return Family.OPENAI if head in _OPENAI_HEADS else Family.ANTHROPIC
