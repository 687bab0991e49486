"""What a wire format is, and the one base of the formats whose bodies are JSON.

Owns the way from the bytes of a request body to the bytes that are forwarded, and from the bytes of
a whole answer to the bytes the client gets; a format module says where text lives between the two.
Invariant: what comes out was written anew from what was read. Bodies that are no JSON (uploads,
empty ones) override `redact_body`. Pure; called by the scanning workers and the pipeline.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Final

from gateway.wire.base import (
    OpaqueAction,
    RestorerFactory,
    StreamTransformer,
    TextRedactor,
    Usage,
    Vouched,
    WireRefused,
    WireReport,
    ignore_signed,
    nothing_vouched,
    unchanged,
)
from gateway.wire.errors import Family, error_body
from gateway.wire.prefixes import SHORTEST, Known
from gateway.wire.schema import Reading, SchemaWalk
from gateway.wire.strictjson import dumps, glance, loads, read_answer, write_answer
from gateway.wire.walk import restore_free

JSON: Final = "application/json"
EVENT_STREAM: Final = "text/event-stream"
#: In `answer_types`: the answer may be of any media type.
ANYTHING: Final = "*"


@dataclass(frozen=True, slots=True)
class RedactedBody:
    """What is forwarded. `media_type` is sent as Content-Type, with the parameters it needs."""

    body: bytes = field(repr=False)
    media_type: str = JSON
    model: str = ""
    stream: bool = False


@dataclass(frozen=True, slots=True)
class WholeAnswer:
    """What the client gets of an answer that is not streamed, and what the record needs of it."""

    body: bytes = field(repr=False)
    usage: Usage = field(default_factory=Usage)
    stop_reason: str | None = None
    model: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One line of the route table: a call of a provider's API that a format can read.

    method and template: `POST /v1/models/{model}:generateContent`; a `{name}` stands for one path
    segment, or for the part of one before a verb, and its value is read like text. query: the keys
    that may be forwarded, each with the regular expression its whole value must match (as sent);
    a key whose expression is `FREE` may have any value that holds nothing to protect. bare: the
    path is taken without its first segment (`/v1`) too, as some clients send it.
    """

    method: str = "POST"
    template: str
    provider: str
    query: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    bare: bool = False


#: A query value that may be anything: it is read, and refused when it holds something.
FREE: Final = ".*"


class WireFormat(ABC):
    """One provider format; see the members. Documents are what `strictjson.loads` returns."""

    #: Whose error shape this is.
    family: Family
    #: Media types a request body may be declared as; empty when there is no body.
    request_types: ClassVar[frozenset[str]] = frozenset((JSON,))
    #: Media types of a whole answer that can be restored.
    answer_types: ClassVar[frozenset[str]] = frozenset((JSON,))
    #: Media types of an answer that is a stream of events.
    stream_types: ClassVar[frozenset[str]] = frozenset((EVENT_STREAM,))
    #: Bytes that may be sent between two events while the gateway holds a stream; may be empty.
    keep_alive: ClassVar[bytes] = b""

    def __init__(self, name: str, calls: tuple[Call, ...] = ()) -> None:
        #: Registry name, e.g. `anthropic.messages`, and the calls that are read with this format.
        self.name = name
        self.calls = calls

    @abstractmethod
    def redact_body(
        self, body: bytes, content_type: str, reading: Reading, params: Mapping[str, str]
    ) -> RedactedBody:
        """Return the body redacted. `content_type` is the header as sent; `params` are the values
        of the route's `{name}` segments, already read. Raises WireRefused."""

    @abstractmethod
    def restore_body(
        self,
        data: bytes,
        media_type: str,
        restore: Callable[[str], str],
        signed: Callable[[str, str], None] = ignore_signed,
    ) -> WholeAnswer:
        """Return a whole answer (or error body) with `restore` applied to its text; `signed` is
        told of each text under a signature. Raises WireRefused."""

    @abstractmethod
    def new_stream(
        self,
        restorers: RestorerFactory,
        signed: Callable[[str, str], None] = ignore_signed,
        media_type: str = EVENT_STREAM,
    ) -> StreamTransformer:
        """Return the transformer of one answer streamed as `media_type`. It calls
        `signed(text, signature)` for each text under a signature before the bytes that end it are
        returned."""

    def error_body(self, status: int, kind: str, message: str, request_id: str = "") -> bytes:
        """Return an error body in the provider's own shape."""
        return error_body(self.family, status, kind, message, request_id)


class JsonFormat(WireFormat):
    """A format whose request and whole answer are one JSON document each."""

    #: The walk over a request.
    walk: ClassVar[type[SchemaWalk]]
    #: Whether `restore_response` changes more of an answer than the tokens in it.
    rewrites: ClassVar[bool] = False

    def redact_body(
        self, body: bytes, content_type: str, reading: Reading, params: Mapping[str, str]
    ) -> RedactedBody:
        """Read the document strictly, walk it, write it anew. Raises WireRefused."""
        walk = self.walk(reading)
        known = _known(walk, reading, body)
        document = _redacted(walk, body) if known is None else _redacted_known(walk, known)
        model = self.model_of(document) or params.get("model", "")
        return RedactedBody(dumps(document), JSON, model, self.wants_stream(document))

    def redact_request(
        self,
        document: Any,
        redactor: TextRedactor,
        *,
        opaque: OpaqueAction = OpaqueAction.PASS,
        report: WireReport | None = None,
        vouched: Vouched = nothing_vouched,
    ) -> Any:
        """Return a request's document redacted; signed text that is not `vouched` for is text like
        any other. Raises WireRefused."""
        reading = Reading(redactor, opaque, report or WireReport(), vouched)
        return self.walk(reading).document(document)

    def restore_body(
        self,
        data: bytes,
        media_type: str,
        restore: Callable[[str], str],
        signed: Callable[[str, str], None] = ignore_signed,
    ) -> WholeAnswer:
        """Read the document, restore it, write it anew where it changed. Raises WireRefused."""
        same = restore is unchanged and not self.rewrites
        document = glance(data) if same else read_answer(data)
        for text, signature in self.signed_texts(document):
            signed(text, signature)
        restored = document if same else self.restore_response(document, restore)
        return WholeAnswer(
            data if same or restored == document else write_answer(restored),
            self.usage_of(document),
            self.stop_reason_of(document),
            self.model_of(document),
        )

    def model_of(self, document: Any) -> str:
        """Return the model a request asks for (redacted document) or an answer names, or an empty
        string."""
        model = document.get("model") if isinstance(document, dict) else None
        return model if isinstance(model, str) else ""

    def wants_stream(self, document: Any) -> bool:
        """Tell whether a request asks for a streamed answer."""
        return isinstance(document, dict) and document.get("stream") is True

    def usage_of(self, document: Any) -> Usage:
        """Return the token counts of a whole answer."""
        return Usage()

    def stop_reason_of(self, document: Any) -> str | None:
        """Return the stop reason of a whole answer."""
        return None

    def signed_texts(self, document: Any) -> Iterator[tuple[str, str]]:
        """Yield the readable texts a whole answer holds under a signature, with the signature."""
        return iter(())

    def restore_response(self, document: Any, restore: Callable[[str], str]) -> Any:
        """Return a whole answer with `restore` applied to its text."""
        return restore_free(document, restore)

    def new_stream(
        self,
        restorers: RestorerFactory,
        signed: Callable[[str, str], None] = ignore_signed,
        media_type: str = EVENT_STREAM,
    ) -> StreamTransformer:
        """Refuse: formats that can stream override this. Raises WireRefused."""
        raise WireRefused("stream", "The provider streamed an answer to a call that has none.")


def _known(walk: SchemaWalk, reading: Reading, body: bytes) -> Known | None:
    mark = walk.mark() if reading.prefixes is not None and len(body) >= SHORTEST else None
    return None if mark is None or reading.prefixes is None else Known(reading.prefixes, body, mark)


def _redacted(walk: SchemaWalk, body: bytes) -> Any:
    return walk.document(loads(body))


def _redacted_known(walk: SchemaWalk, known: Known) -> Any:
    """The same for a body of which the beginning may have been read before."""
    reduced = known.reduced()
    try:
        document = loads(reduced)
    except WireRefused:
        if not known.left_out:
            raise
        # Where something is wrong is told of the body as it was sent.
        known.forget()
        reduced = known.reduced()
        document = loads(reduced)
    if known.left_out:
        walk.found = known.found_in(document)
    walked = walk.document(document)
    known.learn(document, reduced, walk.KNOWN_LISTS, walk.clean)
    return known.completed(walked)


class BodilessFormat(JsonFormat):
    """Calls that send nothing but their path and query; the answer is one JSON document.

    An empty JSON object counts as nothing: some clients send one with a `POST` or `DELETE`.
    """

    request_types = frozenset()

    def redact_body(
        self, body: bytes, content_type: str, reading: Reading, params: Mapping[str, str]
    ) -> RedactedBody:
        """Return an empty body. Raises WireRefused for any other."""
        if body.strip() not in (b"", b"{}"):
            raise WireRefused(
                "unexpected_body", "This call has no body, so nobody would scan one; send none."
            )
        return RedactedBody(b"", JSON, params.get("model", ""))
