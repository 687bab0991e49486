"""What every wire format has in common: the protocols, the values they exchange, the refusal.

Owns the border between a provider's format and the rest of the gateway (a format itself is a
`body.WireFormat`). Whatever a format does not understand it refuses with `WireRefused`.
Implemented by the format modules, called by the scanning workers and the pipeline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Protocol, runtime_checkable


def words(text: str) -> frozenset[str]:
    """Return the set of the words of a table written as text."""
    return frozenset(text.split())


#: Names of API fields that may be printed in a location. Any other key is a user's own text and
#: is shown by its position only, so that an error message or a log never repeats it.
PRINTABLE_KEYS: Final = words(
    """
    betas blocks body cache_control caller choice choices citations cited_text compaction
    configs container content contents context context_management custom_id data default definition
    description diagnostics document edits effort enum examples fallbacks file fileData file_data
    file_id format function functionCall functionDeclarations functionResponse generationConfig id
    inlineData inline_data input input_examples input_schema instructions inputs items max_tokens
    mcp_servers media_type
    message messages metadata model name output output_config params parameters parts prefill
    properties prompt required requests response role schema signature source state_changes stop
    stop_sequences stream system systemInstruction tabs text thinking thread title tool
    tool_calls tool_choice tool_use_id tool_references tools type url user user_id value
    audio bytes citationsContent converse guardContent image images invokeModel json options
    reasoningContent searchResult toolConfig toolResult toolSpec toolUse video
    arguments file_data functions image_url input_audio prediction refusal suffix
    """
)

#: Characters of a location that are kept; deeper ones end in an ellipsis.
_MAX_LOCATION: Final = 160


class WireRefused(Exception):
    """A body or event the gateway does not understand well enough to forward.

    `code` is a short stable word for metrics and records (`duplicate_key`, `block_type`, ...);
    `str()` is the sentence the user reads. Neither repeats any value of the body.
    """

    def __init__(self, code: str, sentence: str, location: str = "") -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.location = location

    def __reduce__(self) -> tuple[type[WireRefused], tuple[str, str, str]]:
        # Refusals cross the border between a worker process and the event loop.
        return (WireRefused, (self.code, self.sentence, self.location))


class OpaqueAction(StrEnum):
    """What to do with bytes that cannot be scanned: images, PDF files, uploaded file ids."""

    PASS = "pass"  # noqa: S105 - a policy word
    REFUSE = "refuse"


@dataclass(slots=True)
class WireReport:
    """What a request held beside scanned text, for the audit record.

    opaque_parts: images, PDF files and file ids forwarded unread.
    signed_parts: signed or encrypted provider fields forwarded byte for byte.
    """

    opaque_parts: int = 0
    signed_parts: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. `input` excludes cached tokens, as the metric's contract asks."""

    input: int = 0
    output: int = 0
    cache_creation: int = 0
    cache_read: int = 0

    def at_least(self, other: Usage) -> Usage:
        """Return the larger of each count: stream events repeat cumulative figures."""
        return Usage(
            max(self.input, other.input),
            max(self.output, other.output),
            max(self.cache_creation, other.cache_creation),
            max(self.cache_read, other.cache_read),
        )


#: Tells whether a text with this signature is one the provider handed out through this gateway.
Vouched = Callable[[str, str], bool]


def nothing_vouched(_text: str, _signature: str) -> bool:
    """Take all signed text for somebody's own, which is then scanned."""
    return False


def ignore_signed(_text: str, _signature: str) -> None:
    """Take no note of signed text."""


def unchanged(text: str) -> str:
    """Restore nothing: for an answer in which there cannot be a token."""
    return text


class TextRedactor(Protocol):
    """What a format needs of the redaction engine: plain text in, redacted text out.

    Redacting an already redacted text must return it unchanged. An engine may also offer what
    `ValueRedactor` and `OpaqueRedactor` describe.
    """

    def text(self, s: str, /) -> str:
        """Return `s` with every finding replaced by its token or mask."""
        ...


@runtime_checkable
class ValueRedactor(Protocol):
    """An engine that can use the name a value is stored under."""

    def value(self, key: str, s: str, /) -> str:
        """Return `s` redacted like `text`, and as what `key` says it is."""
        ...


@runtime_checkable
class OpaqueRedactor(Protocol):
    """An engine whose policy decides about bytes that cannot be read as text."""

    def opaque(self, media_type: str, /) -> None:
        """Note such bytes, or raise to refuse the call."""
        ...


@runtime_checkable
class PartMemory(Protocol):
    """An engine that remembers parts in which nothing was found: agents send them every turn."""

    @property
    def touched(self) -> int:
        """Return a number that grows with everything found or noted."""
        ...

    def mark(self, reader: str, part: bytes | str, name: str | None = None, /) -> bytes:
        """Return the name of a part, given as its exact bytes or text, under one way of reading
        it: `reader` says which, in our words, `name` is what the client calls the part."""
        ...

    def is_clean(self, mark: bytes, /) -> bool:
        """Tell whether the part was read before and nothing was found."""
        ...

    def remember_clean(self, mark: bytes, /) -> None:
        """Remember that nothing was found."""
        ...


_offers: dict[tuple[type, type], bool] = {}


def offers(engine: object, protocol: Any) -> bool:
    """Tell what `isinstance` would of one of the protocols above, asking once per class: each
    question takes 10 to 20 microseconds, a twentieth of a small call's scan."""
    pair = type(engine), protocol
    known = _offers.get(pair)
    if known is None:
        known = _offers[pair] = isinstance(engine, protocol)
    return known


class StreamRestorer(Protocol):
    """Restores tokens in one run of text that arrives in pieces; holds a possible token's start."""

    @property
    def held(self) -> str:
        """What waits for the next piece, or nothing."""
        ...

    def feed(self, piece: str, /) -> str:
        """Take the next piece and return what can be said for certain."""
        ...

    def flush(self) -> str:
        """Return what is still held; the run has ended."""
        ...


#: Called just before an original is put into the text: `encode(original)` is what is inserted.
Encode = Callable[[str], str]

#: Makes the restorer of one run of text. The restorer must call the given `encode` for each
#: original at the moment it meets the end of its token, in order, and insert what it returns.
RestorerFactory = Callable[[Encode], StreamRestorer]


class StreamTransformer(Protocol):
    """Restores one streamed answer and watches it: provider bytes in, client bytes out."""

    @property
    def usage(self) -> Usage:
        """Cumulative token counts seen so far."""
        ...

    @property
    def stop_reason(self) -> str | None:
        """The provider's stop reason, once seen."""
        ...

    @property
    def model(self) -> str | None:
        """The model id the provider returned."""
        ...

    @property
    def complete(self) -> bool:
        """True once the provider's own end marker was seen."""
        ...

    @property
    def error(self) -> str | None:
        """The type of an error event the provider sent inside the stream."""
        ...

    def feed(self, data: bytes, /) -> bytes:
        """Take any chunk; return only whole events, possibly none."""
        ...

    def close(self) -> bytes:
        """Return the text still held, as legal events. Nothing here fakes a completion."""
        ...


class Location:
    """A place in a document, printable without repeating the user's own keys.

    A chain of steps, rendered only when something is refused: walkers make one per member.
    """

    __slots__ = ("_parent", "_position", "_step")

    def __init__(
        self, parent: Location | None = None, step: str | None = None, position: int = 0
    ) -> None:
        self._parent = parent
        self._step = step
        self._position = position

    def key(self, name: str, position: int = 0) -> Location:
        """Step into a member; unknown names are shown by position."""
        return Location(self, name, position)

    def index(self, number: int) -> Location:
        """Step into an element."""
        return Location(self, None, number)

    def __str__(self) -> str:
        steps: list[str] = []
        at: Location | None = self
        while at is not None and at._parent is not None:
            steps.append(at._shown())
            at = at._parent
        text = "".join(reversed(steps)).removeprefix(".") or "the top level"
        return text if len(text) <= _MAX_LOCATION else text[: _MAX_LOCATION - 1] + "…"

    def _shown(self) -> str:
        if self._step is None:
            return f"[{self._position}]"
        known = self._step in PRINTABLE_KEYS
        return f".{self._step}" if known else f".(key {self._position + 1})"
