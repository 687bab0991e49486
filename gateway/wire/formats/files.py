"""Uploaded files and batches of calls: OpenAI's Files and Batches, Anthropic's Files.

Invariants: a file is read as what it is, whatever it is called: lines of JSON are read line by line
(the lines of a batch by the format of the call each one holds), other text as text, and bytes
nobody can read follow the policy. Parts of an upload in pieces are not taken: a value could be cut
in two. Sources: the published API references, Nov 2026. Called through the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from gateway import wire
from gateway.wire.base import Location, WireRefused, ignore_signed, words
from gateway.wire.body import (
    ANYTHING,
    FREE,
    BodilessFormat,
    Call,
    JsonFormat,
    RedactedBody,
    WholeAnswer,
    WireFormat,
)
from gateway.wire.errors import Family
from gateway.wire.multipart import FORM, Part, read_form, write_form
from gateway.wire.schema import Reading, Schema, SchemaWalk, as_text
from gateway.wire.strictjson import dumps, loads, read_answer, write_answer
from gateway.wire.walk import restore_free, restore_string

#: Fields of a form that hold words of the API.
_PURPOSES: Final = words(
    """
    assistants batch fine-tune vision user_data evals assistants_output batch_output
    fine-tune-results
    """
)
_ANCHORS: Final = frozenset(("created_at",))
_FIELDS: Final = words(
    """
    input_file_id endpoint completion_window metadata output_expires_after anchor seconds
    """
)
_SCHEMA: Final = Schema(
    name="openai.batches",
    fields=_FIELDS,
    free=frozenset(("metadata",)),
    tags=frozenset(("endpoint", "completion_window", "anchor")),
    tag_words=words(
        """
        /v1/responses /v1/chat/completions /v1/embeddings /v1/completions /v1/moderations 24h
        created_at
        """
    ),
)


class BatchWalk(SchemaWalk):
    """A request to run a batch, whose file was uploaded before; also any other small document."""

    SCHEMA = _SCHEMA


class Batches(JsonFormat):
    """`POST /v1/batches`."""

    family = Family.OPENAI
    walk = BatchWalk


class Upload(WireFormat):
    """A form with one file and a few words about it."""

    request_types = frozenset((FORM,))

    def __init__(self, name: str, family: Family, calls: tuple[Call, ...]) -> None:
        super().__init__(name, calls)
        self.family = family

    def redact_body(
        self, body: bytes, content_type: str, reading: Reading, params: Mapping[str, str]
    ) -> RedactedBody:
        """Read every part, write the form anew. Raises WireRefused."""
        walk = BatchWalk(reading)
        parts = [
            self._part(part, walk, reading, Location().key("file" if part.filename else "name"))
            for part in read_form(body, content_type)
        ]
        redacted, media_type = write_form(parts)
        return RedactedBody(redacted, media_type)

    def _part(self, part: Part, walk: SchemaWalk, reading: Reading, place: Location) -> Part:
        media = _media(part.media_type)
        name = walk.scan.string(part.name)
        filename = None if part.filename is None else walk.scan.string(part.filename)
        if part.filename is None:
            return replace(part, name=name, data=self._field(part, walk), media_type=media)
        decoded = as_text(part.data, media)
        if decoded is None:
            walk.opaque(media or "application/octet-stream", place)
            data = part.data
        else:
            data = _lines(part.data, reading) or _text(part.data, walk, media)
        return Part(name, data, filename, media)

    @staticmethod
    def _field(part: Part, walk: SchemaWalk) -> bytes:
        try:
            text = part.data.decode()
        except UnicodeDecodeError:
            raise WireRefused(
                "multipart", "A field of the form is not UTF-8 text; send it as a file."
            ) from None
        structural = text in _PURPOSES if part.name == "purpose" else text in _ANCHORS
        return part.data if structural else walk.scan.string(text, part.name).encode()

    def restore_body(
        self,
        data: bytes,
        media_type: str,
        restore: Callable[[str], str],
        signed: Callable[[str, str], None] = ignore_signed,
    ) -> WholeAnswer:
        """Restore the description of the file."""
        return WholeAnswer(write_answer(restore_free(read_answer(data), restore)))

    def new_stream(self, *_args: Any, **_named: Any) -> Any:
        """Refuse: no answer to an upload is a stream."""
        raise WireRefused("stream", "The provider streamed an answer to an upload.")


class Stored(BodilessFormat):
    """Calls without a body about files, batches and what came of them."""

    answer_types = frozenset((ANYTHING,))

    def __init__(self, name: str, family: Family, calls: tuple[Call, ...]) -> None:
        super().__init__(name, calls)
        self.family = family

    def restore_body(
        self,
        data: bytes,
        media_type: str,
        restore: Callable[[str], str],
        signed: Callable[[str, str], None] = ignore_signed,
    ) -> WholeAnswer:
        """Restore a document, lines of documents, or a text; other bytes are the client's own."""
        decoded = as_text(data, media_type)
        if decoded is None:
            return WholeAnswer(data)
        text, encoding = decoded
        return WholeAnswer(restore_lines(text, restore).encode(encoding, "replace"))


def restore_lines(text: str, restore: Callable[[str], str]) -> str:
    """Return text restored: a JSON document, or lines some of which may be one, stay valid."""
    if _document(text) is not None:
        return _restored_line(text, restore)
    return "\n".join(_restored_line(line, restore) for line in text.split("\n"))


def _restored_line(text: str, restore: Callable[[str], str]) -> str:
    """Return a text restored. The answer in a line of a batch's output is restored by the format
    of its call, which leaves a model's thoughts alone; all else keeps its spelling."""
    document = _document(text) if '"response"' in text else None
    if not isinstance(document, dict):
        return restore_string(text, restore)
    response = document.get("response")
    body = response.get("body") if isinstance(response, dict) else None
    kind = body.get("object") if isinstance(body, dict) else None
    format_ = wire.get(_ANSWERS[kind]) if isinstance(kind, str) and kind in _ANSWERS else None
    if not isinstance(response, dict) or not isinstance(format_, JsonFormat):
        return restore_string(text, restore)
    rest = restore_free({**document, "response": {**response, "body": None}}, restore)
    rest["response"]["body"] = format_.restore_response(body, restore)
    return text if rest == document else write_answer(rest).decode() + text[len(text.rstrip()) :]


def _document(text: str) -> Any:
    """Return the JSON object or list a text is, or None."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return read_answer(text.encode())
    except WireRefused:
        return None


def _media(declared: str) -> str:
    """Return the media type alone; one that nobody knows is not repeated."""
    media = declared.partition(";")[0].strip().lower()
    plain = media.replace("/", "").replace("-", "").replace(".", "").replace("+", "")
    known = media.partition("/")[0] in {"text", "application", "image", "audio", "video"}
    return media if known and plain.isalnum() and len(media) <= 60 else ""


def _text(data: bytes, walk: SchemaWalk, media: str) -> bytes:
    scanned = walk.readable(data, media)
    assert scanned is not None
    return scanned


def _lines(data: bytes, reading: Reading) -> bytes | None:
    """Return a file of JSON lines redacted line by line, or None when it is not one.

    Raises WireRefused when a line of a batch cannot be read.
    """
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    if not _are_objects(lines):
        return None
    walk = BatchWalk(reading)
    return b"\n".join([_line(line, walk, reading) if line.strip() else line for line in lines])


def _are_objects(lines: list[bytes]) -> bool:
    full = [line for line in lines if line.strip()]
    return bool(full) and all(line.lstrip()[:1] == b"{" for line in full)


def _line(line: bytes, walk: SchemaWalk, reading: Reading) -> bytes:
    document = loads(line)
    format_ = _format_of(document)
    if format_ is None:
        scanned = walk.scan.free(document)
    else:
        body = document["body"]
        rest = walk.scan.free({k: v for k, v in document.items() if k not in ("body", "url")})
        members = iter(rest.items())
        scanned = {}
        for name in document:
            if name == "body":
                scanned[name] = format_.walk(reading).document(body)
            elif name == "url":
                scanned[name] = document[name]
            else:
                key, value = next(members)
                scanned[key] = value
    return line if scanned == document else dumps(scanned)


def _format_of(document: Any) -> JsonFormat | None:
    """Return the format of the call a line of a batch holds, if it holds one we know."""
    if not isinstance(document, dict) or not isinstance(document.get("body"), dict):
        return None
    url = document.get("url")
    for format_ in wire.all_formats().values():
        if isinstance(format_, JsonFormat) and any(
            call.template == url and call.provider == "openai" for call in format_.calls
        ):
            return format_
    return None


#: Formats of the answers in a batch's output, by what these call themselves.
_ANSWERS: Final = {
    "chat.completion": "openai.chat",
    "response": "openai.responses",
    "text_completion": "openai.completions",
}

_PAGES: Final = {
    "limit": r"\d{1,5}",
    "after": FREE,
    "before": FREE,
    "order": "asc|desc",
    "purpose": r"[a-z_\-]{1,40}",
}
_ANTHROPIC_PAGES: Final = {
    "limit": r"\d{1,5}",
    "after_id": FREE,
    "before_id": FREE,
    "beta": "true|false|1|0",
}


def _call(method: str, template: str, query: Mapping[str, str] | None = None) -> Call:
    return Call(method=method, template=template, provider="openai", query=query or {}, bare=True)


def _anthropic(method: str, template: str) -> Call:
    return Call(method=method, template=template, provider="anthropic", query=_ANTHROPIC_PAGES)


FORMATS: Final[tuple[WireFormat, ...]] = (
    Upload("openai.upload", Family.OPENAI, (_call("POST", "/v1/files"),)),
    Upload("anthropic.upload", Family.ANTHROPIC, (_anthropic("POST", "/v1/files"),)),
    Batches("openai.batches", (_call("POST", "/v1/batches"),)),
    Stored(
        "openai.stored",
        Family.OPENAI,
        (
            _call("GET", "/v1/files", _PAGES),
            _call("GET", "/v1/files/{file}"),
            _call("DELETE", "/v1/files/{file}"),
            _call("GET", "/v1/files/{file}/content"),
            _call("GET", "/v1/batches", _PAGES),
            _call("GET", "/v1/batches/{batch}"),
            _call("POST", "/v1/batches/{batch}/cancel"),
        ),
    ),
    Stored(
        "anthropic.stored",
        Family.ANTHROPIC,
        (
            _anthropic("GET", "/v1/files"),
            _anthropic("GET", "/v1/files/{file}"),
            _anthropic("DELETE", "/v1/files/{file}"),
            _anthropic("GET", "/v1/files/{file}/content"),
        ),
    ),
)
