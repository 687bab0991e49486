"""Restoring a streamed answer: what all formats share, whatever their frames look like.

Owns the runs of text that arrive in pieces (a token may be split anywhere), their end, and the
frames around them. A format subclasses `DeltaStream` and says, for one frame's document, which
strings are pieces of which run and which runs it ends; every other string of the frame is restored
whole. Invariants: only whole frames leave; text still held leaves, as a legal frame, before the
frame that ends its run; nothing here fakes a completion. Pure; one object per answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gateway.wire.base import RestorerFactory, StreamRestorer, Usage, WireRefused
from gateway.wire.nesting import JsonPrefix, PlainSpelling, escaped, rest_of_escape
from gateway.wire.sse import SseEvent, SseParser, serialise
from gateway.wire.strictjson import read_answer, write_answer
from gateway.wire.walk import restore_free, restore_string

#: Longest error type word kept for records.
MAX_WORD: Final = 48

#: Where a string stands in a document: member names and list indexes.
Path = tuple[str | int, ...]


class Run:
    """The text of one block, choice or argument on its way through a restorer.

    Pieces are fed up to each bracket separately: a token begins at the last bracket seen, so its
    place in the JSON is known when its original is asked for.
    """

    def __init__(self, restorers: RestorerFactory, *, must_be_json: bool) -> None:
        self._place = JsonPrefix(must_be_json=must_be_json)
        self._spelling = PlainSpelling() if must_be_json else None
        #: Whether a backslash at the end of a piece went out: most escapes need no change.
        self._is_begun = False
        self._escapes = 0
        self._restorer: StreamRestorer = restorers(self._encode)

    def feed(self, piece: str) -> str:
        """Return what can be sent of the run so far."""
        if self._spelling is None:
            return self._restored(piece)
        shown = self._continued(self._restored(self._spelling.feed(piece)))
        is_free = not (self._is_begun or self._restorer.held)
        if self._spelling.held == "\\" and is_free:
            self._is_begun = True
            return shown + "\\"
        return shown

    def _continued(self, text: str) -> str:
        """Return what follows on a backslash that went out before."""
        if not self._is_begun or not text:
            return text
        self._is_begun = False
        return rest_of_escape(text)

    def _restored(self, piece: str) -> str:
        out: list[str] = []
        head, bracket, rest = piece.partition("[")
        if head:
            self._place.feed(head)
            out.append(self._restorer.feed(head))
        if bracket and self._is_prose() and not self._restorer.held:
            self._escapes = 0
            return "".join([*out, self._restorer.feed(bracket + rest)])
        for part in rest.split("[") if bracket else ():
            self._escapes = self._place.depth
            segment = "[" + part
            out.append(self._restorer.feed(segment))
            self._place.feed(segment)
        if self._spelling is not None and self._restorer.held == "\\":
            # The end of a JSON escape, never Markdown's before a bracket: no need to wait.
            out.append(self._restorer.flush())
        return "".join(out)

    def _is_prose(self) -> bool:
        """Whether the text turned out to be no JSON, so that no place in it needs escapes."""
        return self._place.broken and self._place.depth == 0

    @property
    def held(self) -> bool:
        """Whether text waits for the next piece."""
        cut = "" if self._spelling is None else self._spelling.held
        return self._restorer.held != "" or cut != ("\\" if self._is_begun else "")

    def flush(self) -> str:
        """Return what is still held."""
        cut = "" if self._spelling is None else self._restored(self._spelling.flush())
        return self._continued(cut + self._restorer.flush())

    def _encode(self, original: str) -> str:
        return escaped(original, self._escapes)


class Frame(Protocol):
    """One frame of a stream. `document` is None when it holds no JSON document."""

    @property
    def document(self) -> Any:
        """What `strictjson.loads` returns for the frame's payload, or None."""
        ...

    @property
    def raw(self) -> bytes:
        """The frame's bytes; those of all frames together are the stream."""
        ...

    @property
    def plain(self) -> str | None:
        """The payload of a frame without a document, where that is readable text."""
        ...

    def rewritten(self, document: Any) -> bytes:
        """Return the frame's bytes with another document in it."""
        ...

    def retold(self, text: str) -> bytes:
        """Return the frame's bytes with another `plain` text in it."""
        ...


class Framing(Protocol):
    """Cuts bytes in any chunking into frames, and writes new ones. Keeps one unfinished frame."""

    def feed(self, data: bytes, /) -> Sequence[Frame]:
        """Return the frames that `data` completes. Raises WireRefused when one is too large."""
        ...

    def close(self) -> Sequence[Frame]:
        """Return the frame the end of the stream completes, if its document is whole."""
        ...

    def write(self, document: Any) -> bytes:
        """Return a new frame."""
        ...


@dataclass(frozen=True, slots=True)
class SseFrame:
    """An event; its payload is its data."""

    event: SseEvent
    document: Any

    @property
    def raw(self) -> bytes:
        """The event's bytes."""
        return self.event.raw

    @property
    def plain(self) -> str | None:
        """The event's data, when that is no document."""
        return self.event.data if self.document is None else None

    def rewritten(self, document: Any) -> bytes:
        """Return the event with another document as its data."""
        return self.event.with_data(write_answer(document).decode())

    def retold(self, text: str) -> bytes:
        """Return the event with another text as its data."""
        return self.event.with_data(text)


class SseFraming:
    """Server-sent events. `name` tells the event name of a frame we write."""

    def __init__(self, name: Callable[[Any], str] = lambda _document: "") -> None:
        self._parser = SseParser()
        self._name = name

    def feed(self, data: bytes) -> Sequence[Frame]:
        """Return the events that `data` completes."""
        return [SseFrame(event, _payload(event)) for event in self._parser.feed(data)]

    def close(self) -> Sequence[Frame]:
        """Return a last event without its blank line, if its data is a whole document."""
        frames: list[Frame] = []
        for event in self._parser.close():
            document = _payload(event)
            if not event.raw.strip():
                frames.append(SseFrame(event, None))
            elif document is not None or event.data == "[DONE]":
                raw = serialise(event.event, event.data or "", event.id)
                frames.append(SseFrame(SseEvent(event.event, event.data, event.id, raw), document))
        return frames

    def write(self, document: Any) -> bytes:
        """Return a new event."""
        return serialise(self._name(document), write_answer(document).decode())


def _payload(event: SseEvent) -> Any:
    if event.data is None:
        return None
    try:
        return read_answer(event.data.encode())
    except WireRefused:
        return None


@dataclass(frozen=True, slots=True)
class Piece:
    """The string at `path` continues the run `key`. json: the run is a JSON text (tool arguments);
    last: the run ends with this piece."""

    path: Path
    key: Hashable
    json: bool = False
    last: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What a format sees in a frame: pieces, the runs that ended before it (None: all of them),
    and places that must not be touched (signed or encrypted text, thinking)."""

    pieces: Sequence[Piece] = ()
    ends: Sequence[Hashable] | None = ()
    untouched: Sequence[Path] = ()


class DeltaStream(ABC):
    """Provider bytes in, client bytes out. See `base.StreamTransformer`."""

    def __init__(self, restorers: RestorerFactory, framing: Framing) -> None:
        self.usage = Usage()
        self.stop_reason: str | None = None
        self.model: str | None = None
        self.complete = False
        self.error: str | None = None
        self._restorers = restorers
        self._framing = framing
        self._runs: dict[Hashable, tuple[Run, Any]] = {}

    @abstractmethod
    def find(self, document: Any) -> Found:
        """Look at one frame: note usage, stop reason, model, end and errors; say what is in it."""

    @abstractmethod
    def held(self, key: Hashable, template: Any, text: str) -> Any:
        """Return a document that carries `text` as one more piece of the run `key`; `template` is
        the last document that held one."""

    def unread(self, frame: Frame) -> bytes:
        """Return the bytes of a frame without a document: a comment, an end marker, plain text."""
        text = frame.plain
        restored = text if text is None else restore_string(text, self._restore)
        return frame.raw if restored is None or restored == text else frame.retold(restored)

    def is_bare(self, document: Any) -> bool:
        """Tell whether a frame whose pieces are all held back says nothing else, so that it need
        not be sent at all."""
        return False

    def restored(self, document: Any) -> Any:
        """Return a document with every string in it restored whole."""
        return restore_free(document, self._restore)

    def feed(self, data: bytes) -> bytes:
        """Take any chunk; return whole frames only. Raises WireRefused on an oversized frame."""
        return b"".join([self._frame(frame) for frame in self._framing.feed(data)])

    def close(self) -> bytes:
        """Return what is held. A frame cut off by the end is dropped: it cannot be restored."""
        out = [self._frame(frame) for frame in self._framing.close()]
        return b"".join([*out, self.flush(None)])

    def flush(self, keys: Iterable[Hashable] | None) -> bytes:
        """End runs (None: all) and return the frames with what they still held."""
        frames: list[bytes] = []
        for key in list(self._runs if keys is None else keys):
            run, template = self._runs.pop(key, (None, None))
            if run is not None and (text := run.flush()):
                frames.append(self._framing.write(self.held(key, template, text)))
        return b"".join(frames)

    def _frame(self, frame: Frame) -> bytes:
        document = frame.document
        if document is None:
            return self.unread(frame)
        found = self.find(document)
        before = self.flush(found.ends)
        texts: list[tuple[Path, Any]] = []
        is_silent = bool(found.pieces)
        for piece in found.pieces:
            text = at(document, piece.path)
            shown = self._feed(piece, document, text)
            is_silent = is_silent and bool(text) and not shown
            texts.append((piece.path, shown))
        if is_silent and self.is_bare(document):
            return before
        texts += [(path, at(document, path)) for path in found.untouched]
        changed = document
        for path, _ in texts:
            changed = put(changed, path, None)
        changed = self.restored(changed)
        for path, text in texts:
            changed = put(changed, path, text)
        return before + (frame.raw if changed == document else frame.rewritten(changed))

    def _feed(self, piece: Piece, document: Any, text: str) -> str:
        run, _ = self._runs.get(piece.key) or (
            Run(self._restorers, must_be_json=piece.json),
            None,
        )
        shown = run.feed(text)
        if piece.last:
            self._runs.pop(piece.key, None)
            return shown + run.flush()
        self._runs[piece.key] = run, document
        return shown

    def _restore(self, text: str) -> str:
        restorer = self._restorers(str)
        return restorer.feed(text) + restorer.flush()


def at(document: Any, path: Path) -> Any:
    """Return what stands at `path`."""
    for step in path:
        document = document[step]
    return document


def put(document: Any, path: Path, value: Any) -> Any:
    """Return the document with `value` at `path`; only what lies on the way is copied."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    copy = document.copy()
    copy[step] = put(document[step], rest, value)
    return copy
