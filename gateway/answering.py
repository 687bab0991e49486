"""The way back: a provider's answer, whole or streamed, with a role's own values in it again.

Owns reading, restoring and watching an answer; knows nothing of the client's connection.
Invariants: only tokens of the given mapping come back; text of an answer that is not JSON and not
an event stream is dropped; what the provider reported (usage, model, stop reason) is in the
`Outcome` when the answer has ended, however it ended. Called by `gateway.pipeline`.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Final

from gateway.audit import Outcome
from gateway.redaction.restore import StreamRestorer, restore_text
from gateway.redaction.stand_ins import Shapes
from gateway.upstream import Answer, UpstreamFailed
from gateway.wire import WireFormat, WireRefused
from gateway.wire.base import ignore_signed, unchanged
from gateway.wire.body import ANYTHING, EVENT_STREAM, JSON

#: Whole answers above this many bytes are restored in a thread; below, a thread costs more than
#: the work (about 1 ms at 100 MB/s).
OFF_LOOP: Final = 64 << 10
#: What a stream is declared as by servers that do not care.
_UNDECLARED: Final = frozenset(("application/octet-stream", "text/plain"))
#: What a JSON document begins with.
_JSON_OPENS: Final = (b"{", b"[")
#: Seconds a stream may go without a byte to the client while text is held back for a token.
HOLD_PING: Final = 10.0


#: The bracket and the first letter of a token, as bytes of JSON or of text.
_TOKEN_BEGINS: Final = re.compile(rb"\[[A-Z\\]|\\u005[bB]")


class Restoring:
    """Puts one scope's originals back and counts them in `outcome`."""

    def __init__(
        self,
        originals: Mapping[str, str],
        outcome: Outcome,
        signed: Callable[[str, str], None] = ignore_signed,
        *,
        owns: Callable[[str], bool] = lambda _: True,
        shapes: Shapes | None = None,
    ) -> None:
        """`owns` tells whether the scope introduced a token, given back or not; `shapes` recognizes
        the stand-ins the policy uses."""
        self._originals = originals
        self._owns = owns
        self._shapes = shapes
        self.outcome = outcome
        #: Told each signed text of the answer before the client has the whole of it.
        self.signed = signed

    def text(self, text: str) -> str:
        """Restore a whole string."""
        return restore_text(text, self._look_up, self._shapes)

    def may_be_in(self, data: bytes) -> bool:
        """Whether the bytes of an answer may hold something to restore, escaped or not."""
        return self._shapes is not None or _TOKEN_BEGINS.search(data) is not None

    def stream(self, encode: Callable[[str], str]) -> StreamRestorer:
        """Return the restorer of one run of streamed text."""

        def look_up(token: str) -> str | None:
            original = self._look_up(token)
            return None if original is None else encode(original)

        return StreamRestorer(look_up, self._shapes)

    def _look_up(self, token: str) -> str | None:
        original = self._originals.get(token)
        if original is not None:
            self.outcome.restored += 1
        elif token.startswith("[") and not self._owns(token):
            self.outcome.foreign += 1
        return original


async def whole(answer: Answer, format_: WireFormat, restoring: Restoring) -> bytes:
    """Return the restored body of an answer; an error may be JSON whatever it is declared as, or
    be told in an event.

    Raises UpstreamFailed.
    """
    readable = answer.media_type in format_.answer_types or ANYTHING in format_.answer_types
    data = await answer.whole()
    restoring.outcome.saw(data)
    if not data:
        return data
    is_json = data.lstrip()[:1] in _JSON_OPENS
    is_events = answer.media_type == EVENT_STREAM and not is_json
    if not readable and not is_events and not (answer.status >= 400 and is_json):
        raise _unreadable(answer)
    try:
        if is_events:
            stream = format_.new_stream(restoring.stream, restoring.signed, answer.media_type)
            return stream.feed(data) + stream.close()
        if len(data) > OFF_LOOP:
            return await asyncio.to_thread(_restore, format_, answer.media_type, data, restoring)
        return _restore(format_, answer.media_type, data, restoring)
    except WireRefused as wrong:
        if answer.status >= 400:
            raise _unreadable(answer) from wrong
        raise UpstreamFailed(
            wrong.code, "The provider's answer is not one that the gateway can read."
        ) from wrong


def stream_type(answer: Answer, format_: WireFormat, *, asked: bool) -> str | None:
    """Return the media type as which an answer is a stream, or None when it is a whole one.

    Some providers stream without being asked, and some do not say that they stream. Only JSON can
    be both, a stream and not.
    """
    media = answer.media_type
    if answer.status >= 400:
        return None
    if media == EVENT_STREAM:
        return media
    if media in format_.stream_types:
        return media if asked or media != JSON else None
    if asked and media in _UNDECLARED and format_.stream_types:
        return min(format_.stream_types - {JSON, EVENT_STREAM}, default=EVENT_STREAM)
    return None


async def streamed(
    answer: Answer, format_: WireFormat, restoring: Restoring, media_type: str
) -> AsyncGenerator[bytes, None]:
    """Yield what the client gets of a stream, nothing before the provider's first byte.

    The next chunk is asked for only after the last piece was taken, so a slow client slows the
    provider down instead of filling our memory. Ends without an error only when the provider
    finished or said itself that it failed. Raises UpstreamFailed.
    """
    outcome = restoring.outcome
    try:
        transformer = format_.new_stream(restoring.stream, restoring.signed, media_type)
    except WireRefused as wrong:
        raise _no_stream(wrong) from wrong
    spoke = time.monotonic()
    try:
        while chunk := await answer.chunk():
            outcome.saw(chunk)
            out = transformer.feed(chunk)
            now = time.monotonic()
            if not out and now - spoke > HOLD_PING:
                out = format_.keep_alive
            if out:
                yield out
                spoke = now
        if out := transformer.close():
            yield out
    except WireRefused as wrong:
        raise _no_stream(wrong) from wrong
    finally:
        outcome.usage, outcome.model = transformer.usage, transformer.model
        outcome.stop = transformer.stop_reason
        if transformer.error is not None:
            outcome.status, outcome.cause = "provider_error", transformer.error
    if not transformer.complete and transformer.error is None:
        raise UpstreamFailed("no_end", "The provider ended its answer before it was complete.")


def _restore(format_: WireFormat, media_type: str, data: bytes, restoring: Restoring) -> bytes:
    restore = restoring.text if restoring.may_be_in(data) else unchanged
    answer = format_.restore_body(data, media_type, restore, restoring.signed)
    outcome = restoring.outcome
    outcome.usage, outcome.stop, outcome.model = answer.usage, answer.stop_reason, answer.model
    return answer.body


def _no_stream(wrong: WireRefused) -> UpstreamFailed:
    return UpstreamFailed(wrong.code, "The provider's stream is not one that the gateway can read.")


def _unreadable(answer: Answer) -> UpstreamFailed:
    """Often a proxy's page: its text is dropped; what its status and headers say is kept."""
    failed = answer.status >= 400
    return UpstreamFailed(
        "media_type",
        f"The provider's address answered {answer.status} with something this call never "
        "has; is the base URL right?",
        answer.status if failed else 502,
        answer.headers if failed else None,
    )
