"""The event stream of Chat Completions and of the older Completions: restored choice by choice.

Invariant: every choice's text, refusal, transcript and each tool call's arguments is a run of its
own, whatever order their pieces come in; text held for a possible token leaves as a chunk of the
same answer and choice before the chunk that finishes the choice; reasoning and log probabilities
are never touched; complete is what ended with `[DONE]`. Pure; one object per answer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final

from gateway.wire.base import RestorerFactory, words
from gateway.wire.openai_schema import SEALS, error_word, usage_from
from gateway.wire.schema import is_blob
from gateway.wire.stream import DeltaStream, Found, Frame, Path, Piece, SseFrame, SseFraming
from gateway.wire.walk import restore_free, restore_names, restore_string

#: What a model thought, as the servers of this API call it: a token in it stays a token, because
#: it goes back on the next turn as it came.
THINKING: Final = words(
    """
    reasoning_content reasoning reasoning_text thinking reasoning_details thinking_blocks
    """
)
#: Members of an answer that stay as they are. A log probability belongs to the very letters the
#: model wrote; the rest are ids and words of the API.
_UNTOUCHED: Final = (
    THINKING
    | SEALS
    | words(
        """
        logprobs id object role finish_reason system_fingerprint service_tier obfuscation embedding
        """
    )
)
_THOUGHT_TYPES: Final = frozenset(("thinking", "redacted_thinking"))
#: Data of a tool's or client's own making, in which keys may be tokens too.
_FREE: Final = frozenset(("arguments", "input", "metadata"))

#: Lists of a model's thoughts, each perhaps under a signature, with the member that holds its text.
SIGNED_LISTS: Final = {"reasoning_details": "text", "thinking_blocks": "thinking"}

#: What a chunk we write has in common with the chunks around it.
_COMMON: Final = ("id", "object", "created", "model", "system_fingerprint", "service_tier")
#: What a chunk, choice and delta that carry nothing but a piece of text may hold.
_BARE_CHUNK: Final = frozenset((*_COMMON, "choices", "obfuscation", "provider"))
_BARE_CHOICE: Final = frozenset(("index", "delta", "text"))
_BARE_DELTA: Final = frozenset(("content",))
#: Members of a delta that are words or names; any other string is a run of its own, whatever a
#: server calls it.
_NAMES: Final = _UNTOUCHED | words("role name type tool_call_id")


def restore_answer(value: Any, restore: Callable[[str], str]) -> Any:
    """Return any part of an answer restored: text, tool arguments, citations, errors."""
    if isinstance(value, str):
        return restore_string(value, restore)
    if isinstance(value, list):
        return [restore_answer(item, restore) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    if isinstance(kind, str) and kind in _THOUGHT_TYPES:
        return value
    members = {name: _restored_member(name, member, restore) for name, member in value.items()}
    return restore_names(members, restore)


def _restored_member(name: str, member: Any, restore: Callable[[str], str]) -> Any:
    if name in _UNTOUCHED or member is None or isinstance(member, int):
        return member
    return restore_free(member, restore) if name in _FREE else restore_answer(member, restore)


def signed_text(detail: Any, member: str) -> tuple[str, str] | None:
    """Return a thought's text (under `member`) and its signature, or None when it has not both."""
    if not isinstance(detail, dict):
        return None
    text, seal = detail.get(member), detail.get("signature")
    if not isinstance(text, str) or not text or not isinstance(seal, str) or not is_blob(seal):
        return None
    return text, seal


class OpenAiStream(DeltaStream):
    """Provider bytes in, client bytes out. See `base.StreamTransformer`."""

    def __init__(self, restorers: RestorerFactory, signed: Callable[[str, str], None]) -> None:
        super().__init__(restorers, SseFraming())
        self._signed = signed
        #: The thoughts so far, by choice, list and number.
        self._thoughts: dict[Hashable, str] = {}
        #: The id of the tool call that is under way at each index of each choice.
        self._call_ids: dict[Hashable, str] = {}

    def find(self, document: Any) -> Found:
        """Look at one chunk."""
        if not isinstance(document, dict):
            return Found()
        self._watch(document)
        pieces: list[Piece] = []
        ends: list[Hashable] = []
        for at, choice in _members(document.get("choices")):
            index = _number(choice, at)
            found = list(self._pieces(("choices", at), index, choice, ends))
            reason = choice.get("finish_reason")
            if isinstance(reason, str):
                self.stop_reason = self.stop_reason or reason
                found = _last(found)
                going_on = {piece.key for piece in found}
                ends += [key for key in self._runs if _of(key, index) and key not in going_on]
            pieces += found
        return Found(pieces, None if self.error is not None and not pieces else ends)

    def held(self, key: Hashable, template: Any, text: str) -> Any:
        """Return a chunk with `text` as the next piece of the run `key`."""
        assert isinstance(key, tuple)
        index, kind, number, _ = key
        chunk = {name: template[name] for name in _COMMON if name in template}
        choice: dict[str, Any] = {"index": index}
        if kind == "text":
            choice["text"] = text
        else:
            choice["delta"] = _delta(kind, number, text)
        if any("logprobs" in other for _, other in _members(template.get("choices"))):
            choice["logprobs"] = None
        return {**chunk, "choices": [{**choice, "finish_reason": None}]}

    def unread(self, frame: Frame) -> bytes:
        """End everything at the end marker; pass on comments."""
        is_end = isinstance(frame, SseFrame) and (frame.event.data or "").strip() == "[DONE]"
        if not is_end:
            return super().unread(frame)
        self.complete = True
        return self.flush(None) + frame.raw

    def is_bare(self, document: Any) -> bool:
        """Tell whether a chunk is one choice's piece and nothing else."""
        choices = document["choices"]
        if len(choices) != 1 or not _says_only(document, _BARE_CHUNK):
            return False
        delta = choices[0].get("delta")
        return _says_only(choices[0], _BARE_CHOICE) and (
            not isinstance(delta, dict) or _says_only(delta, _BARE_DELTA)
        )

    def restored(self, document: Any) -> Any:
        """Return a chunk with everything but thoughts restored whole."""
        return restore_answer(document, self._restore)

    def _watch(self, document: dict[str, Any]) -> None:
        """Note what the record of the call needs."""
        self._count(document.get("usage"))
        model = document.get("model")
        if isinstance(model, str) and model:
            self.model = model
        self.error = self.error or error_word(document)

    def _count(self, usage: Any) -> None:
        if usage:
            self.usage = self.usage.at_least(usage_from(usage))

    def _pieces(
        self, path: Path, index: int, choice: dict[str, Any], ends: list[Hashable]
    ) -> Iterator[Piece]:
        self._count(choice.get("usage"))
        if isinstance(choice.get("text"), str):
            yield Piece((*path, "text"), (index, "text", 0, ""))
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            return
        self._note_thoughts(index, delta)
        path = (*path, "delta")
        for name, text in delta.items():
            if isinstance(text, str) and name not in _NAMES:
                yield Piece((*path, name), (index, name, 0, ""))
        yield from _parts(path, index, delta.get("content"))
        audio = delta.get("audio")
        if isinstance(audio, dict) and isinstance(audio.get("transcript"), str):
            yield Piece((*path, "audio", "transcript"), (index, "transcript", 0, ""))
        call = delta.get("function_call")
        if isinstance(call, dict) and isinstance(call.get("arguments"), str):
            key = (index, "function_call", 0, "")
            yield Piece((*path, "function_call", "arguments"), key, json=True)
        for at, tool in _members(delta.get("tool_calls")):
            yield from self._tool_piece((*path, "tool_calls", at), index, at, tool, ends)

    def _tool_piece(
        self, path: Path, index: int, at: int, tool: dict[str, Any], ends: list[Hashable]
    ) -> Iterator[Piece]:
        number = _number(tool, at)
        slot, name = (index, number), tool.get("id")
        if isinstance(name, str) and name and self._call_ids.get(slot) != name:
            # Some servers number every call 0: another id is another call.
            ends += [key for key in self._runs if _of(key, index) and _slot(key) == number]
            self._call_ids[slot] = name
        identity = self._call_ids.get(slot, "")
        for kind, member in (("function", "arguments"), ("custom", "input")):
            call = tool.get(kind)
            if isinstance(call, dict) and isinstance(call.get(member), str):
                key = (index, kind, number, identity)
                yield Piece((*path, kind, member), key, json=kind == "function")

    def _note_thoughts(self, index: int, delta: dict[str, Any]) -> None:
        """Gather thoughts that come under a signature, to know them when they come back."""
        for name, member in SIGNED_LISTS.items():
            for at, detail in _members(delta.get(name)):
                key = (index, name, _number(detail, at))
                text = detail.get(member)
                so_far = self._thoughts.get(key, "") + (text if isinstance(text, str) else "")
                self._thoughts[key] = so_far
                found = signed_text({**detail, member: so_far}, member)
                if found is not None:
                    self._signed(*found)


def _members(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a list with their positions."""
    for at, member in enumerate(value if isinstance(value, list) else ()):
        if isinstance(member, dict):
            yield at, member


def _number(member: dict[str, Any], at: int) -> int:
    """Return the number a choice, call or thought has; where it has none, its position."""
    number = member.get("index")
    return number if isinstance(number, int) else at


def _parts(path: Path, index: int, content: Any) -> Iterator[Piece]:
    """Yield the texts of a delta whose content is a list of parts, as some servers send it."""
    for at, part in _members(content):
        if part.get("type") == "text" and isinstance(part.get("text"), str):
            yield Piece((*path, "content", at, "text"), (index, "content", 0, ""))


def _says_only(node: dict[str, Any], names: frozenset[str]) -> bool:
    return all(name in names or value is None for name, value in node.items())


def _last(pieces: list[Piece]) -> list[Piece]:
    """Return the pieces with the last one of each run marked as such."""
    final = {piece.key: number for number, piece in enumerate(pieces)}
    return [
        Piece(piece.path, piece.key, piece.json, last=final[piece.key] == number)
        for number, piece in enumerate(pieces)
    ]


def _of(key: Hashable, index: int) -> bool:
    return isinstance(key, tuple) and key[0] == index


def _slot(key: Hashable) -> Any:
    """Return the tool call's index of a run of tool input, or None."""
    return key[2] if isinstance(key, tuple) and key[1] in ("function", "custom") else None


def _delta(kind: str, number: int, text: str) -> Mapping[str, Any]:
    if kind == "function":
        return {"tool_calls": [{"index": number, "function": {"arguments": text}}]}
    if kind == "custom":
        return {"tool_calls": [{"index": number, "type": "custom", "custom": {"input": text}}]}
    if kind == "function_call":
        return {"function_call": {"arguments": text}}
    if kind == "transcript":
        return {"audio": {"transcript": text}}
    return {kind: text}
