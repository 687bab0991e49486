"""OpenAI Responses streams: every `response.*` event restored, none added, none renumbered.

Invariants: the client gets the provider's events with the provider's own `sequence_number`, so a
broken stream can be resumed with `starting_after`; text of one content part, argument or command is
one run; the `*.done` events and the final response hold the very text their deltas add up to (but
for a letter of an original that deltas may spell as an escape);
what a model thought and what is encrypted passes byte for byte.
An event whose text ends in what may be the beginning of a token waits for the next event: then it
is known whether its run goes on, and what is left of a run that ended goes out with its last event.
Source: the published API reference and the types of the official SDK (3.57), Nov 2026.
Pure state; one object per answer; made by `openai_responses`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Any, Final

from gateway.wire.base import RestorerFactory, words
from gateway.wire.openai_schema import error_word, usage_from
from gateway.wire.stream import (
    MAX_WORD,
    DeltaStream,
    Found,
    Frame,
    Path,
    Piece,
    Run,
    SseFraming,
    at,
    put,
)

#: Objects that pass as they are: thoughts, and what the provider encrypted.
_KEPT_TYPES: Final = words(
    """
    reasoning summary_text reasoning_text compaction compaction_summary context_compaction
    encrypted_content
    """
)
#: Members that pass as they are: encrypted values, bytes, and the tokens a text was made of.
_KEPT: Final = words(
    """
    encrypted_content encrypted_function_args fingerprint logprobs partial_image_b64 obfuscation
    """
)
#: Members that are JSON texts when they are strings.
_JSON: Final = frozenset(("arguments",))

#: Events after which nothing follows.
_ENDS: Final = words(
    "response.completed response.incomplete response.failed response.cancelled error"
)
#: Events whose pieces are JSON texts, and events with pieces of sound.
_JSON_DELTAS: Final = words("response.function_call_arguments response.mcp_call_arguments")
_SOUND: Final = words("response.audio response.output_audio")
#: Parts, items and commands that begin with text of the run that follows: the event, where the
#: text is, and the run.
_BEGINNINGS: Final = (
    ("response.content_part.added", ("part", "text"), "response.output_text"),
    ("response.content_part.added", ("part", "refusal"), "response.refusal"),
    ("response.output_item.added", ("item", "arguments"), "response.function_call_arguments"),
    ("response.output_item.added", ("item", "input"), "response.custom_tool_call_input"),
    ("response.output_item.added", ("item", "code"), "response.code_interpreter_call_code"),
    ("response.shell_call_command.added", ("command",), "response.shell_call_command"),
)
_REASONING: Final = "response.reasoning"
_DELTA: Final = ".delta"

Restore = Callable[[str], str]


def restore_node(value: Any, text: Restore, json: Restore) -> Any:
    """Return any part of an answer restored, keys included: `text` restores a string, `json` one
    that is a JSON text."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [restore_node(item, text, json) for item in value]
    if not isinstance(value, dict) or _is_kept(value):
        return value
    restored: dict[str, Any] = {}
    for name, member in value.items():
        if name in _KEPT:
            restored[name] = member
        elif name in _JSON and isinstance(member, str):
            restored[name] = json(member)
        else:
            # The API's own names hold nothing; asking of each costs more than all the rest.
            key = name if name.isidentifier() else text(name)
            restored[key] = restore_node(member, text, json)
    return restored


def _is_kept(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    return isinstance(kind, str) and (
        kind in _KEPT_TYPES or kind.startswith(_REASONING) or kind == "response.audio.delta"
    )


def stop_reason_of(response: Any) -> str | None:
    """Return why a response is incomplete, or else its status."""
    if not isinstance(response, dict):
        return None
    details = response.get("incomplete_details")
    reason = details.get("reason") if isinstance(details, dict) else None
    found = reason if isinstance(reason, str) else response.get("status")
    return found[:MAX_WORD] if isinstance(found, str) else None


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An event that waits for the next one, and the pieces of it whose runs may go on."""

    frame: Frame
    document: Any
    pieces: tuple[Piece, ...]


class ResponsesStream(DeltaStream):
    """One streamed response."""

    def __init__(self, restorers: RestorerFactory) -> None:
        super().__init__(restorers, SseFraming(lambda document: str(document["type"])))
        self._waiting: _Waiting | None = None
        self._number: Any = None

    def find(self, document: Any) -> Found:
        """See the base class."""
        kind = document.get("type") if isinstance(document, dict) else None
        if not isinstance(kind, str):
            return Found()
        self._watch(kind, document)
        if kind in _ENDS:
            return Found(ends=None)
        return Found(_pieces(kind, document), self._ended(kind, document))

    def restored(self, document: Any) -> Any:
        """See the base class."""
        return restore_node(document, self._text, self._json)

    def held(self, key: Hashable, template: Any, text: str) -> Any:
        """See the base class. Needed only when another event stood between the last piece of a
        run and its end; it has the number of that event, because the next one is the provider's."""
        name = str(key[0] if isinstance(key, tuple) else key)
        kind, _, member = name.partition("/")
        kept = ("item_id", "output_index", "content_index", "command_index")
        document = {"type": kind + _DELTA, **{n: template[n] for n in kept if n in template}}
        document["delta"] = {member: text} if member else text
        if kind == "response.output_text":
            document["logprobs"] = []
        return document if self._number is None else {**document, "sequence_number": self._number}

    def close(self) -> bytes:
        """See the base class."""
        out = [self._frame(frame) for frame in self._framing.close()]
        return b"".join([*out, self._release(None), self.flush(None)])

    def _frame(self, frame: Frame) -> bytes:
        document = frame.document
        if document is None:
            return self.unread(frame)
        if not isinstance(document, dict):
            return _written(frame, self.restored(document))
        found = self.find(document)
        out = self._release(found.ends) + self.flush(found.ends)
        self._number = document.get("sequence_number", self._number)
        shown = [(p.path, self._feed(p, document, at(document, p.path))) for p in found.pieces]
        changed = document
        if not _is_delta(document):
            for path, _ in shown:
                changed = put(changed, path, None)
            changed = self.restored(changed)
        for path, text in shown:
            changed = put(changed, path, text)
        going_on = tuple(piece for piece in found.pieces if self._runs[piece.key][0].held)
        if going_on:
            self._waiting = _Waiting(frame, changed, going_on)
            return out
        return out + _written(frame, changed)

    def _release(self, ends: Collection[Hashable] | None) -> bytes:
        """Return the event that waits, with all that is left of the runs that ended after it."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return b""
        document = waiting.document
        for piece in waiting.pieces:
            if ends is None or piece.key in ends:
                run, _ = self._runs.pop(piece.key)
                document = put(document, piece.path, at(document, piece.path) + run.flush())
        return _written(waiting.frame, document)

    def _watch(self, kind: str, document: dict[str, Any]) -> None:
        """Remember what the record of the call needs."""
        response = document.get("response")
        if isinstance(response, dict):
            self.usage = self.usage.at_least(usage_from(response.get("usage")))
            model = response.get("model")
            self.model = model if isinstance(model, str) else self.model
        if kind == "error":
            self.error = error_word({**document, "type": "error"}) or "error"
            code = document.get("code")
            if self.error == "error" and isinstance(code, str) and code:
                self.error = code[:MAX_WORD]
        elif kind in _ENDS:
            self.complete = True
            self.stop_reason = stop_reason_of(response)
            if kind == "response.failed":
                self.error = error_word(response) or "error"

    def _ended(self, kind: str, document: dict[str, Any]) -> list[Hashable]:
        """Return the keys of the open runs that end with this event."""
        name, _, state = kind.rpartition(".")
        if state not in ("done", "completed", "failed", "incomplete") or not self._runs:
            return []
        item, part = _place(document)
        ended: list[Hashable] = []
        for key in self._runs:
            assert isinstance(key, tuple)
            run, run_item, run_part = key
            if run_item != item:
                continue
            same_part = run_part == part and name in (run.partition("/")[0], _PART)
            if same_part or name == _ITEM:
                ended.append(key)
        return ended

    def _text(self, text: str) -> str:
        """Restore a whole string as its pieces would have been."""
        return self._whole(text, must_be_json=False)

    def _json(self, text: str) -> str:
        return self._whole(text, must_be_json=True)

    def _whole(self, text: str, *, must_be_json: bool) -> str:
        if "[" not in text and "\\u00" not in text:
            return self._restore(text)  # no token, so nothing needs its place in the JSON known
        run = Run(self._restorers, must_be_json=must_be_json)
        return run.feed(text) + run.flush()


_PART: Final = "response.content_part"
_ITEM: Final = "response.output_item"


def _is_delta(document: dict[str, Any]) -> bool:
    """Tell whether an event holds nothing but pieces, ids and numbers."""
    return str(document.get("type")).endswith(_DELTA) and isinstance(document.get("delta"), str)


def _written(frame: Frame, document: Any) -> bytes:
    return frame.raw if document == frame.document else frame.rewritten(document)


def _place(document: dict[str, Any]) -> tuple[int | str | None, int | None]:
    """Return the item an event belongs to, and which part or command of it."""
    item = document.get("output_index", document.get("item_id"))
    part = document.get("content_index", document.get("command_index"))
    return (
        item if isinstance(item, int | str) else None,
        part if isinstance(part, int) else None,
    )


def _pieces(kind: str, document: dict[str, Any]) -> list[Piece]:
    """Return the pieces of runs in an event that is no end."""
    place = _place(document)
    if kind.endswith(_DELTA):
        name, delta = kind.removesuffix(_DELTA), document.get("delta")
        if kind.startswith(_REASONING) or name in _SOUND:
            return []
        if isinstance(delta, str):
            return [Piece(("delta",), (name, *place), json=name in _JSON_DELTAS)]
        if isinstance(delta, dict):
            return [
                Piece(("delta", member), (f"{name}/{member}", *place))
                for member, text in delta.items()
                if isinstance(text, str)
            ]
        return []
    found: list[Piece] = []
    for event, path, name in _BEGINNINGS:
        if kind == event and _begins(document, path):
            run = name
            if name in _JSON_DELTAS and document["item"].get("type") == "mcp_call":
                run = "response.mcp_call_arguments"
            found.append(Piece(path, (run, *place), json=run in _JSON_DELTAS))
    return found


def _begins(document: dict[str, Any], path: Path) -> bool:
    """Tell whether there is text at `path` that deltas may go on with."""
    holder = document
    for step in path[:-1]:
        inner = holder.get(str(step))
        if not isinstance(inner, dict) or _is_kept(inner):
            return False
        holder = inner
    text = holder.get(str(path[-1]))
    return isinstance(text, str) and text != ""
