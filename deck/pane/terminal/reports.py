"""What a program tells its terminal besides characters: bells, messages, its own status.

Owns the reading of OSC 7501 (program status) and the bounds on what is kept. Invariants: every text
here comes from the program, so it is bounded and free of control characters; a report without a
known state is no report. Called by every engine; read by `pane`.
"""

from __future__ import annotations

import base64
import binascii
from collections import deque
from typing import Final

from deck.pane.status import Signal, plain
from deck.pane.terminal.replies import STATUS_PROBE

_STATES: Final = frozenset(("idle", "working", "done", "blocked", "error", "clear"))


class Reports:
    """The latest signal, and bells and messages for the listener to take."""

    __slots__ = ("bells", "notifications", "signal", "signal_count")

    def __init__(self) -> None:
        self.bells = 0
        self.signal: Signal | None = None
        self.signal_count = 0
        # OSC 9, 777 and 99 texts, cleaned, newest last: for the listener to take and clear.
        self.notifications: deque[str] = deque(maxlen=16)

    def notify(self, text: str) -> None:
        """Keep a message; a progress bar (OSC 9;4) is none."""
        if not text.startswith("4;"):
            self.notifications.append(plain(text))

    def program_status(self, rest: str) -> str | None:
        """Take the body of an OSC 7501; returns the answer if it is the probe."""
        if rest == "?":
            return STATUS_PROBE
        signal = parse_program_status(rest)
        if signal is not None:
            self.signal_count += 1
            self.signal = None if signal.state == "clear" else signal
        return None


def parse_program_status(rest: str) -> Signal | None:
    """The body of an OSC 7501 report, or None if it reports no state.

    The message is untrusted text of the agent: it is bounded and stripped of control characters.
    """
    fields: dict[str, str] = {}
    for part in rest.replace(";", ":").split(":"):
        key, equals, value = part.partition("=")
        if equals:
            fields.setdefault(key, value)
    state = fields.get("state", "")
    if not state:
        head = rest.partition(":")[0]
        state = head if "=" not in head else ""
    if state not in _STATES:
        return None
    encoded = fields.get("msg") or fields.get("title") or ""
    return Signal(
        state, plain(fields.get("kind", ""), 32), plain(fields.get("app", ""), 32), _text(encoded)
    )


def _text(encoded: str) -> str:
    """Base64 with or without its padding as clean text; nothing if it is not base64."""
    try:
        raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        return ""
    return plain(raw.decode("utf-8", "replace"))
