"""The walk over a request that follows an API's schema: the part all formats share.

Owns the rule "scan by default, structural by list": a format lists its field names, its tags, its
id shapes and its kinds of content blocks in a `Schema`, and every string that is not one of these
*and* looks like what belongs there is shown to the redactor. Invariants: an unknown member is
free-form data, an unknown block type is refused, base64 text is decoded, read and encoded again,
bytes nobody can read follow the policy; the same part gives the same bytes on every turn.
Subclassed by the format modules, which override what their API does differently. Pure.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, cast

from gateway.wire.base import (
    Location,
    OpaqueAction,
    OpaqueRedactor,
    PartMemory,
    TextRedactor,
    Vouched,
    WireRefused,
    WireReport,
    nothing_vouched,
    offers,
)
from gateway.wire.encoded import GZIP_MAGIC, wide_encoding
from gateway.wire.prefixes import Prefixes
from gateway.wire.strictjson import dumps
from gateway.wire.walk import Scanner, distinct_keys, same_or_new

#: Seals this long pass unread; in a shorter one a key or number could pose as one. Those of the
#: providers seen so far have 100 characters and more, and random ones hold nothing to find.
SHORTEST_SEAL: Final = 200
#: Shorter ones must also be written as no key is: whole groups of the plain alphabet.
_SHORTEST_PADDED: Final = 64
_PADDED: Final = re.compile(r"[A-Za-z0-9+/]*(?:=|[+/][A-Za-z0-9+/]*)={0,2}")
_HEXADECIMAL: Final = re.compile(r"[0-9a-fA-F]+")
#: So much of a seal tells whether it is a text.
_HEAD: Final = 256

#: Beginnings of the image, sound and document formats the APIs take.
_BINARY: Final = re.compile(
    rb"\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a|RIFF.{4}(?:WEBP|WAVE|AVI )|%PDF-\d|BM.{4}\0{4}|"
    rb"II\*\0|MM\0\*|.{4}ftyp|OggS|fLaC|ID3|\xff[\xfb\xf3\xf2\xf1\xf9]|\x1aE\xdf\xa3",
    re.DOTALL,
)

#: What a text with odd bytes in it has at least: bytes, and a share that is no control character.
_SHORTEST_TEXT: Final = 32
_TEXT_SHARE: Final = 0.98
_CONTROLS: Final = bytes({*range(32)} - set(b"\t\n\r\f\x1b"))
#: Media types whose bytes are text in some encoding.
_TEXT_MEDIA: Final = re.compile(
    r"^text/|json|xml|yaml|toml|csv|javascript|x-sh|sql|form-urlencoded"
)

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_\-\r\n]*+={0,2}+[\r\n]*+")
_NEVER: Final = re.compile(r"(?!)")
_NO_PREFIX: Final = re.compile("")


def is_blob(value: Any) -> bool:
    """Tell whether a value is a base64 text, as seals are; nothing readable hides in one."""
    return isinstance(value, str) and value != "" and _BASE64.fullmatch(value) is not None


def is_seal(value: Any) -> bool:
    """Tell whether a value is one that a provider signed or encrypted: base64 that is no text in
    disguise and so long that nobody's number or key could pose as one."""
    if not is_blob(value) or _HEXADECIMAL.fullmatch(value):
        return False
    size = len(value)
    padded = size % 4 == 0 and size >= _SHORTEST_PADDED and _PADDED.fullmatch(value) is not None
    return (padded or size >= SHORTEST_SEAL) and not _begins_as_text(value)


def _begins_as_text(value: str) -> bool:
    raw = _decoded(value[:_HEAD]) or b""
    text = raw[:-3].decode("utf-8", "replace")  # the last character may be cut
    return "\ufffd" not in text and all(c.isprintable() or c in "\t\r\n" for c in text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What a format knows of its API. Names are those of object members, at any depth.

    fields: the API's own names, which need no scan as keys; the value of any other name is
    free-form data. free: members that are free-form data although the API names them. parts:
    lists of messages, items or tools, remembered one by one. content: members that hold one
    content block or a list of them, whose `type` must be one of `block_types`. urls: addresses.
    ids with id_prefix and id_body: ids; one whose rest after the prefix has the shape of the body
    passes unread. seals: signed or encrypted values, passed unread when long base64. tags with
    tag_words and dated_tag: words out of a fixed set. models: names of models, like ids.
    telling: members whose very name says that the value is a secret.
    """

    name: str
    fields: frozenset[str]
    free: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    content: frozenset[str] = frozenset()
    block_types: frozenset[str] = frozenset()
    urls: frozenset[str] = frozenset()
    ids: frozenset[str] = frozenset()
    id_prefix: re.Pattern[str] = _NO_PREFIX
    id_body: re.Pattern[str] = _NEVER
    seals: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    tag_words: frozenset[str] = frozenset()
    dated_tag: re.Pattern[str] = _NEVER
    models: frozenset[str] = frozenset(("model",))
    model_prefix: re.Pattern[str] = _NO_PREFIX
    model_body: re.Pattern[str] = _NEVER
    telling: frozenset[str] = frozenset()


@dataclass(slots=True)
class Reading:
    """Whose eyes one request is read with: the redactor, and what policy and vault say of it."""

    redactor: TextRedactor
    opaque: OpaqueAction = OpaqueAction.PASS
    report: WireReport = field(default_factory=WireReport)
    vouched: Vouched = nothing_vouched
    #: How bodies began that were read before, where somebody remembers that.
    prefixes: Prefixes | None = None


class SchemaWalk:
    """One request on its way through a schema. Subclasses set `SCHEMA`; one object per request."""

    SCHEMA: ClassVar[Schema]
    #: The lists of a document's own members whose objects are read one by one with `part`, each
    #: without a look at the others: those of a body's known beginning may be left out.
    KNOWN_LISTS: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, reading: Reading) -> None:
        redactor = reading.redactor
        self.scan = Scanner(redactor)
        self.vouched = reading.vouched
        self.report = reading.report
        #: How often something was asked that is not the same on every turn.
        self.asked = 0
        self._opaque = reading.opaque
        self._memory = cast(PartMemory, redactor) if offers(redactor, PartMemory) else None
        self._note = (
            cast(OpaqueRedactor, redactor).opaque if offers(redactor, OpaqueRedactor) else None
        )
        self._fields = self.SCHEMA.fields
        #: Under which names parts are remembered, by the method that walks them.
        self._readers: dict[str, str] = {}
        #: Ids of the parts in which nothing was found, while the document they are of lives.
        self.clean: set[int] = set()
        #: Ids of parts in which something was found before: no use to look them up.
        self.found: set[int] = set()

    def mark(self) -> bytes | None:
        """Return the name under which the beginnings of bodies are remembered, if at all."""
        if self._memory is None or not self.KNOWN_LISTS:
            return None
        return self._memory.mark(f"{self.SCHEMA.name} {type(self).__name__} {self._opaque}", b"")

    def document(self, document: Any) -> Any:
        """Return the whole request redacted; the input is not changed. Raises WireRefused."""
        if not isinstance(document, dict):
            raise WireRefused(
                "not_an_object",
                "The body is JSON but not an object; send one JSON object as the API describes.",
            )
        return self.fields(document, Location())

    def fields(self, node: dict[str, Any], place: Location) -> dict[str, Any]:
        """Redact an object of the API's schema; unknown members are free-form data."""
        members: list[tuple[str, Any]] = []
        same, renamed = True, False
        for position, (name, value) in enumerate(node.items()):
            key = name if name in self._fields else self.scan.key(name)
            if isinstance(value, str):
                scanned: Any = self.string(name, value, place)
            elif value is None or isinstance(value, bool):
                scanned = value
            else:
                scanned = self.field(name, value, place.key(name, position))
            members.append((key, scanned))
            same = same and scanned is value
            renamed = renamed or key != name
        if renamed:
            return dict(distinct_keys(node, members))
        return node if same else dict(members)

    def field(self, name: str, value: Any, place: Location) -> Any:
        """Redact the value of a member that is an object, a list or a number."""
        schema = self.SCHEMA
        if name in schema.free:
            return self.scan.free(value)
        if name in schema.parts:
            return self.each(value, place, self.fields)
        if name in schema.content:
            return self.content(value, place)
        return self.value(name, value, place)

    def value(self, name: str, value: Any, place: Location) -> Any:
        """Redact an object or list of the schema; of what the schema does not know, everything."""
        if name and name not in self._fields:
            return self.scan.free(value, name)
        if isinstance(value, dict):
            return self.fields(value, place)
        if isinstance(value, list):
            return same_or_new(value, [self.item(name, v, place, n) for n, v in enumerate(value)])
        # A number: an API's own counts are small, anything longer is somebody's data.
        return self.scan.free(value)

    def item(self, name: str, item: Any, place: Location, number: int) -> Any:
        """Redact one element of the list under `name`."""
        if isinstance(item, str):
            return self.string(name, item, place)
        return self.value(name, item, place.index(number))

    def each(
        self, value: Any, place: Location, walk: Callable[[dict[str, Any], Location], Any]
    ) -> Any:
        """Redact a list of parts with `walk`; what is in it besides objects is read as it comes."""
        if not isinstance(value, list):
            return self.value("", value, place)
        items = [
            self.part(item, place.index(number), walk)
            if isinstance(item, dict)
            else item  # stands for a part that is known
            if type(item) is int and item == 0
            else self.item("", item, place, number)
            for number, item in enumerate(value)
        ]
        return same_or_new(value, items)

    def part(
        self,
        part: dict[str, Any],
        place: Location,
        walk: Callable[[dict[str, Any], Location], dict[str, Any]],
    ) -> dict[str, Any]:
        """Walk a message, tool or block, unless nothing was found in the very same one before.

        Not remembered: parts with something that was noted, or that depend on what is vouched for.
        """
        memory = self._memory
        if memory is None:
            return walk(part, place)
        if id(part) in self.found:
            # So is the only thing in it.
            content = part.get("content")
            if isinstance(content, list) and len(content) == 1:
                self.found.add(id(content[0]))
            return walk(part, place)
        written = dumps(part)
        reader = self._readers.get(walk.__name__)
        if reader is None:
            reader = f"{self.SCHEMA.name} {walk.__name__} {self._opaque}"
            self._readers[walk.__name__] = reader
        mark = memory.mark(reader, written)
        if memory.is_clean(mark):
            self.clean.add(id(part))
            return part
        before = memory.touched, self._noted()
        scanned = walk(part, place)
        if (memory.touched, self._noted()) == before and (
            scanned is part or dumps(scanned) == written
        ):
            memory.remember_clean(mark)
            self.clean.add(id(part))
        return scanned

    def _noted(self) -> tuple[int, int, int]:
        return self.asked, self.report.signed_parts, self.report.opaque_parts

    def content(self, value: Any, place: Location) -> Any:
        """Redact content: a list of blocks, one block, or strings among them."""
        if isinstance(value, dict):
            return self.block(value, place) if "type" in value else self.scan.free(value)
        return self.each(value, place, self.block)

    def block(self, block: dict[str, Any], place: Location) -> dict[str, Any]:
        """Redact a content block. Raises WireRefused for a type the schema does not know."""
        self.check_type(block, place)
        return self.fields(block, place)

    def check_type(self, block: dict[str, Any], place: Location) -> str:
        """Return the type of a block. Raises WireRefused: nobody knows where its text would be."""
        kind = block.get("type")
        if not isinstance(kind, str) or kind not in self.SCHEMA.block_types:
            raise WireRefused(
                "block_type",
                f"The content block at {place} has a type this gateway does not know, so its text "
                "cannot be scanned; remove the block or update the gateway.",
                str(place),
            )
        return kind

    def string(self, name: str, value: str, place: Location) -> str:
        """Redact the string under `name`."""
        schema = self.SCHEMA
        if name in schema.tags and (value in schema.tag_words or schema.dated_tag.fullmatch(value)):
            return value
        if name in schema.ids:
            return self.named(value, schema.id_prefix, schema.id_body)
        if name in schema.seals and is_blob(value):
            self.report.signed_parts += 1
            if is_seal(value):
                return value
        if name in schema.models:
            return self.named(value, schema.model_prefix, schema.model_body)
        if name in schema.urls:
            return self.url(value, place)
        return self.scan.string(
            value, name if name in schema.telling or name not in self._fields else None
        )

    def named(self, value: str, prefix: re.Pattern[str], known: re.Pattern[str]) -> str:
        """Redact an id or model: of a known shape it passes, else what follows its prefix is
        read, because letters before a number can hide it."""
        found = prefix.match(value)
        at = found.end() if found is not None else 0
        body = value[at:]
        if found is not None and known.fullmatch(body):
            return value
        return value[:at] + self.scan.string(body) if at else self.scan.string(value)

    def url(self, url: str, place: Location) -> str:
        """Redact an address; the text of a `data:` address is read decoded."""
        if url[:5].lower() != "data:":
            return self.scan.url(url)
        head, comma, data = url.partition(",")
        if not comma or not head.lower().endswith(";base64"):
            return self.scan.url(url)
        media = head[5:].split(";", 1)[0].lower()
        return self.scan.string(head) + comma + self.blob(data, media, place)

    def blob(self, data: str, media_type: str, place: Location) -> str:
        """Return base64 data: text decoded, scanned and encoded again; binary by policy."""
        media_type = media_type.lower()
        binary = media_type.startswith(("image/", "audio/", "video/")) or "pdf" in media_type
        if not (binary and is_blob(data) and _is_binary(data)):
            raw = _decoded(data)
            if raw is None:
                raise WireRefused(
                    "base64",
                    f"The data at {place} is not valid base64, so nobody can tell what it holds; "
                    "encode it again.",
                    str(place),
                )
            scanned = self.readable(raw, media_type)
            if scanned is not None and scanned is not raw:
                return base64.b64encode(scanned).decode()
            if len(data) < SHORTEST_SEAL or not is_blob(data) or raw.startswith(GZIP_MAGIC):
                # No file is that short, but a key may happen to be valid base64, and a lenient
                # reader takes words with spaces for it; a packed text is a word that is opened.
                data = self.scan.string(data)
            if scanned is not None:
                return data
        self.opaque(media_type or "application/octet-stream", place)
        return data

    def readable(self, raw: bytes, media_type: str) -> bytes | None:
        """Return the bytes of a text redacted (the same object when nothing was found), or None
        when they are not text."""
        decoded = as_text(raw, media_type)
        if decoded is None:
            return None
        text, encoding = decoded
        scanned = self.scan.string(text)
        return raw if scanned == text else scanned.encode(encoding, "replace")

    def opaque(self, media_type: str, place: Location) -> None:
        """Note bytes that nobody can read as text. Raises WireRefused when the policy says so."""
        if self._opaque is OpaqueAction.REFUSE:
            raise WireRefused(
                "opaque",
                f"The content at {place} is an image, a PDF or another file that cannot be read as "
                "text, and the policy refuses such content; send it as text or remove it.",
                str(place),
            )
        if self._note is not None:
            self._note(media_type)
        self.report.opaque_parts += 1


def _is_binary(data: str) -> bool:
    """Tell whether base64 data is a file of a known format, not a text that begins like one."""
    head = _decoded(data[:64]) or b""
    if not _BINARY.match(head):
        return False
    if not head.isascii():
        return True
    raw = _decoded(data) or b""
    return as_text(raw, "") is None or b"startxref" in raw


def as_text(raw: bytes, media_type: str) -> tuple[str, str] | None:
    """Return bytes as text with the encoding they are in, or None when they are not text."""
    wide = wide_encoding(raw)
    encodings = ["utf-8"] if wide is None else [wide, "utf-8"]
    is_text = _TEXT_MEDIA.search(media_type) is not None or _reads_as_text(raw)
    if is_text:
        # Latin-1 gives every byte a character and back.
        encodings.append("latin-1")
    for encoding in encodings:
        with contextlib.suppress(UnicodeDecodeError):
            text = raw.decode(encoding)
            if encoding != "utf-8" or "\0" not in text or is_text:
                return text, encoding
    return None


def _reads_as_text(raw: bytes) -> bool:
    """Tell whether bytes are a text with a few odd ones among them, which hide nothing from its
    reader. In random bytes every tenth is a control character."""
    if len(raw) < _SHORTEST_TEXT or _BINARY.match(raw):
        return False
    return len(raw.translate(None, _CONTROLS)) >= len(raw) * _TEXT_SHARE


def _decoded(data: str) -> bytes | None:
    """Return the bytes of a base64 text as a lenient provider would read them, or None."""
    compact = "".join(data.split()).translate({0x2D: "+", 0x5F: "/"}).rstrip("=")
    try:
        return base64.b64decode(compact + "=" * (-len(compact) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
