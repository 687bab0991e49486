"""From a request line to a wire format: role, upstream path, or a refusal the client can show.

Owns the route table (contracts/gateway.md section 3.1), which is what the wire formats say they can
read. Invariant: only a path, method and query listed there is ever forwarded; the upstream path is
built from the table and values that are scanned, never copied from the request; anything else is
answered here, in the error shape of the family the path belongs to.
No text of a request path reaches a message, label or record, except words of the APIs themselves.
Pure; called by the app for every request that is not one of the gateway's own pages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, unquote_plus, unquote_to_bytes

from gateway import wire
from gateway.role_names import is_role_name
from gateway.wire.base import words
from gateway.wire.body import FREE, Call
from gateway.wire.errors import NO_RETRY, ErrorKind, Family, error_body

#: Headers that `match` looks at; others need not be passed.
HEADERS_USED: Final = frozenset(("upgrade", "anthropic-version", "x-goog-api-key", "x-api-key"))

#: The key of Google's APIs may stand in the query; it goes on in a header.
_QUERY_KEY: Final = "key"
_KEY_PROVIDERS: Final = frozenset(("google",))
#: What a path may hold of a value without an escape, beside letters and digits.
_PLAIN_IN_PATH: Final = ":@$!'()*,"

#: Words of the provider APIs: the only path text that is ever repeated.
_API_WORDS: Final = words(
    """
    v1 v1beta v1alpha v2 openai agent api messages count_tokens batches complete chat completions
    responses embeddings models moderations images generations edits audio speech transcriptions
    translations files uploads assistants threads runs conversations realtime input_items cancel
    compact deployments hello event_logging generate tags show embed results organizations
    fine_tuning vector_stores skills containers v1beta1 projects locations publishers google
    anthropic predict content parts complete results ps version tokenize model invoke converse
    invoke-with-response-stream converse-stream count-tokens pull push create copy delete blobs
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
_OLLAMA_CALLS: Final = words(
    "generate chat embed embeddings tags ps show version pull push create copy delete blobs"
)

_SUPPORTED: Final = (
    "`sphragis coverage --routes` lists the calls this gateway forwards, with or without an "
    "/agent/<role> prefix."
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
    """A call to forward. `path` and `query` are those at the provider; `role` may be empty.

    shown: the path in words of the API alone, safe to print, label and record; params: the values
    that stand in path and query, by name, which must be scanned; key: a credential that stood in
    the query and was taken out of it.
    """

    role: str
    family: Family
    provider: str
    wire: str
    method: str
    path: str = field(repr=False)
    shown: str = ""
    query: str = field(default="", repr=False)
    params: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    key: str = field(default="", repr=False)

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
    if raw_query or "upgrade" in headers:
        return _decide(method, raw_path, raw_query, headers)
    # Without a query only the names of the headers count, and clients use few paths.
    key = (method, raw_path, frozenset(headers))
    known = _known.get(key)
    if known is not None:
        return known
    found = _decide(method, raw_path, raw_query, headers)
    if isinstance(found, Route) and not found.params and len(_known) < _MOST_KNOWN:
        _known[key] = found
    return found


#: Routes without values by request line and header names; each role makes a few.
_known: Final[dict[tuple[str, str, frozenset[str]], Route]] = {}
_MOST_KNOWN: Final = 1000


def _decide(
    method: str, raw_path: str, raw_query: str, headers: Mapping[str, str]
) -> Route | LocalAnswer | Refusal:
    family = _family(raw_path, headers)
    role, rest = _split_role(raw_path)
    if role is None:
        return Refusal(
            RefusalCode.ROLE,
            404,
            ErrorKind.NOT_FOUND,
            family,
            "The role in the path is not valid: after /agent/ the gateway expects 1 to 64 letters, "
            "digits, dots, underscores or hyphens, and no key. Correct the base URL of the client.",
        )
    trick = _path_trick(rest)
    if trick:
        return Refusal(
            RefusalCode.PATH_ENCODING, 403, ErrorKind.REFUSED, family, f"{trick} {_SUPPORTED}", role
        )
    path = safe_path(rest)
    if _is_probe(method, rest):
        return LocalAnswer(role, path)
    try:
        return _route(method, rest, raw_query, headers, role)
    except _NotForwarded as no:
        return Refusal(
            no.code, no.status, no.kind, no.family or family, no.message, role, no.shown or path
        )


def safe_path(path: str) -> str:
    """Return a path in which everything but the words of the provider APIs is an ellipsis."""
    segments = path.split("?", 1)[0].strip("/").split("/")
    shown = [part if part in _API_WORDS else "…" for part in segments[:_MAX_SEGMENTS] if part]
    return "/" + "/".join([*shown, *(["…"] if len(segments) > _MAX_SEGMENTS else [])])


class _NotForwarded(Exception):
    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 403,
        kind: ErrorKind = ErrorKind.REFUSED,
        family: Family | None = None,
        shown: str = "",
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.status, self.kind = code, message, status, kind
        self.family, self.shown = family, shown


@dataclass(frozen=True, slots=True)
class _Entry:
    call: Call
    wire: str
    family: Family


@dataclass(slots=True)
class _Node:
    """One step of the table: literal segments, a value before a verb, a value alone."""

    literal: dict[str, _Node] = field(default_factory=dict)
    verbs: dict[str, tuple[str, _Node]] = field(default_factory=dict)
    value: tuple[str, _Node] | None = None
    entries: dict[str, list[_Entry]] = field(default_factory=dict)


@cache
def _table() -> _Node:
    root = _Node()
    for name, format_ in wire.all_formats().items():
        for call in format_.calls:
            entry = _Entry(call, name, format_.family)
            segments = call.template.strip("/").split("/")
            _add(root, segments, entry)
            if call.bare:
                _add(root, segments[1:], entry)
    return root


def _add(node: _Node, segments: list[str], entry: _Entry) -> None:
    for segment in segments:
        if not segment.startswith("{"):
            node = node.literal.setdefault(segment, _Node())
            continue
        name, _, verb = segment[1:].partition("}")
        if verb:
            known, node = node.verbs.setdefault(verb[1:], (name, _Node()))
            assert known == name, f"{entry.call.template} calls a segment by another name"
        else:
            node.value = node.value or (name, _Node())
            assert node.value[0] == name, f"{entry.call.template} calls a segment by another name"
            node = node.value[1]
    node.entries.setdefault(entry.call.method, []).append(entry)


def calls() -> list[tuple[str, str, str, str]]:
    """Return what is forwarded: method, template, provider and wire format, sorted."""
    return sorted(
        (call.method, call.template, call.provider, name)
        for name, format_ in wire.all_formats().items()
        for call in format_.calls
    )


def _route(method: str, rest: str, query: str, headers: Mapping[str, str], role: str) -> Route:
    if headers.get("upgrade", "").lower() == "websocket":
        raise _NotForwarded(
            RefusalCode.UPGRADE,
            "This gateway does not take WebSocket connections; use POST with server-sent events.",
            status=426,
            kind=ErrorKind.UPGRADE,
        )
    found = _walk(_table(), rest[1:].split("/"), {})
    if found is None and "%" in rest:
        raise _NotForwarded(
            RefusalCode.PATH_ENCODING,
            f"The path holds percent-encoding where no supported call needs it. {_SUPPORTED}",
        )
    if found is None:
        raise _NotForwarded(RefusalCode.PATH, _path_message(rest))
    node, params = found
    if method not in node.entries:
        allowed = " or ".join(sorted(node.entries))
        some = _choose(next(iter(node.entries.values())), headers, query)
        raise _NotForwarded(
            RefusalCode.METHOD,
            f"This method is not supported on {_shown(some.call)}; use {allowed}. {_SUPPORTED}",
            family=some.family,
            shown=_shown(some.call),
        )
    entry = _choose(node.entries[method], headers, query)
    kept, values, key = _query(entry, query)
    return Route(
        role=role,
        family=entry.family,
        provider=entry.call.provider,
        wire=entry.wire,
        method=method,
        path=_upstream_path(entry.call.template, params),
        shown=_shown(entry.call),
        query=kept,
        params=params | values,
        key=key,
    )


def _walk(
    node: _Node, segments: list[str], params: dict[str, str]
) -> tuple[_Node, dict[str, str]] | None:
    """Return the node at the end of a path, literal segments first, with the values on the way."""
    if not segments:
        return (node, params) if node.entries else None
    segment, rest = segments[0], segments[1:]
    if segment in node.literal:
        found = _walk(node.literal[segment], rest, params)
        if found is not None:
            return found
    before, _, verb = segment.rpartition(":")
    if before and verb in node.verbs:
        name, below = node.verbs[verb]
        value = _value(before)
        found = None if value is None else _walk(below, rest, {**params, name: value})
        if found is not None:
            return found
    if node.value is not None:
        name, below = node.value
        value = _value(segment)
        return None if value is None else _walk(below, rest, {**params, name: value})
    return None


def _value(segment: str) -> str | None:
    """Return a path segment decoded once, or None for one that two programs could read in two
    ways."""
    try:
        value = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        return None
    odd = "%" in value or "\\" in value or not value.isprintable()
    return None if odd or not value.strip("./") else value


def _upstream_path(template: str, params: Mapping[str, str]) -> str:
    def segment(part: str) -> str:
        if not part.startswith("{"):
            return part
        name, _, verb = part[1:].partition("}")
        return quote(params[name], safe=_PLAIN_IN_PATH) + verb

    return "/".join(segment(part) for part in template.split("/"))


def _shown(call: Call) -> str:
    """Return the path of a call with an ellipsis for each value; verbs are words of the API."""
    return re.sub(r"\{[^}]*\}", "…", call.template)


def _choose(entries: list[_Entry], headers: Mapping[str, str], query: str) -> _Entry:
    """Of the providers that have this call, take the one whose headers the client sends."""
    by_provider = {entry.call.provider: entry for entry in entries}
    if "x-goog-api-key" in headers or re.search(r"(?:^|&)key=", query):
        wanted = "google"
    elif "anthropic-version" in headers or "x-api-key" in headers:
        wanted = "anthropic"
    else:
        wanted = "openai"
    return by_provider.get(wanted, entries[0])


def _query(entry: _Entry, query: str) -> tuple[str, dict[str, str], str]:
    """Return the query to forward, the values in it that must be scanned, and a key in it."""
    kept: list[str] = []
    values: dict[str, str] = {}
    seen: set[str] = set()
    key = ""
    for item in query.split("&") if query else ():
        raw_name, _, raw = item.partition("=")
        name = unquote_plus(raw_name) if raw_name.upper().endswith("%5B%5D") else raw_name
        if name == _QUERY_KEY and entry.call.provider in _KEY_PROVIDERS and not key:
            key = unquote_plus(raw)
            continue
        pattern = entry.call.query.get(name)
        repeated = name in seen and not name.endswith("[]")
        if pattern is None or repeated or re.fullmatch(pattern, raw, re.ASCII) is None:
            raise _bad_query(entry)
        seen.add(name)
        if pattern == FREE:
            value = unquote_plus(raw, errors="replace")
            if not value.isprintable():
                raise _bad_query(entry)
            values[f"query value {len(values) + 1}"] = value
        kept.append(item)
    return "&".join(kept), values, key


def _bad_query(entry: _Entry) -> _NotForwarded:
    allowed = ", ".join(sorted(entry.call.query)) or "none"
    return _NotForwarded(
        RefusalCode.QUERY,
        f"The query string of {_shown(entry.call)} holds something this gateway does not forward; "
        f"only these keys are, each once and with a plain value: {allowed}.",
        family=entry.family,
        shown=_shown(entry.call),
    )


def _path_message(rest: str) -> str:
    hint = ""
    segments = rest.strip("/").split("/")
    if segments[:2] == ["v1", "v1"]:
        hint = " The path has /v1 twice: remove /v1 from the base URL of the client."
    return (
        f"The gateway refused {safe_path(rest)}: it has no scanner for this call, and forwards "
        f"only what it has scanned.{hint} {_SUPPORTED}"
    )


def _path_trick(path: str) -> str:
    """Return a sentence if two programs could read the path differently."""
    if not path.startswith("/"):
        return "The request target is not a path; send requests to the gateway's own address."
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
    return (role, f"/{rest}") if is_role_name(role) else (None, "")


def _is_probe(method: str, rest: str) -> bool:
    return method in ("GET", "HEAD") and rest.rstrip("/") in ("", "/api/hello")


def _family(path: str, headers: Mapping[str, str]) -> Family:
    """Guess whose client is asking, to answer in a shape it can show."""
    rest = re.sub(r"^/agent/[^/]*", "", path) if path.startswith("/") else ""
    segments = [part for part in rest.split("/") if part]
    head = next((part for part in segments if part not in ("v1", "v1beta", "v1alpha")), "")
    is_gemini = segments[:1] in (["v1beta"], ["v1alpha"]) or any(
        ":" in part for part in segments[-1:]
    )
    if segments[:1] == ["model"]:
        return Family.BEDROCK
    if head == "api" and segments[1:2] and segments[1] in _OLLAMA_CALLS:
        return Family.OLLAMA
    if is_gemini and head != "openai":
        return Family.GEMINI
    if "anthropic-version" in headers or head in _ANTHROPIC_HEADS:
        return Family.ANTHROPIC
    if "x-goog-api-key" in headers:
        return Family.GEMINI
    return Family.OPENAI if head in _OPENAI_HEADS else Family.ANTHROPIC
