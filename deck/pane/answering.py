"""Answers to the question a pane shows: a text and Enter, or single keys for a menu.

Owns the names of the keys and the rule for Enter. Invariants: nothing is written into a pane that
asks nothing; Enter is a write of its own and goes out only while the very question stands that the
text was written for, because the next dialog would take it for a yes. Called by `deck.operating`;
the bytes are a person's, so they follow the rules of `Pane.type_bytes`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from deck.pane.keys import (
    ENTER,
    ENTER_DELAY_SECONDS,
    PASTE_END,
    PASTE_START,
    sanitize,
)
from deck.pane.status import PaneState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deck.pane.pane import Pane

#: After the last key the pane is looked at again, to say what came of it.
REACT_SECONDS: Final = 0.4
MAX_ANSWER_CHARS: Final = 4000
MAX_KEYS: Final = 64

_KEYS: Final[Mapping[str, bytes]] = MappingProxyType(
    {
        "enter": ENTER,
        "esc": b"\x1b",
        "tab": b"\t",
        "shift+tab": b"\x1b[Z",
        "space": b" ",
        "backspace": b"\x7f",
        "ctrl+c": b"\x03",
    }
)
#: They have another form while the program asks for application cursor keys.
_CURSOR: Final[Mapping[str, bytes]] = MappingProxyType(
    {"up": b"A", "down": b"B", "right": b"C", "left": b"D", "home": b"H", "end": b"F"}
)


class NoAnswer(Exception):
    """The answer cannot be typed; the text says why."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of an answer: whether Enter went out, and the pane's state a moment later."""

    entered: bool
    state: PaneState


def key_bytes(name: str, *, application: bool) -> bytes:
    """Return what a key sends; `application` for application cursor keys. Raises NoAnswer."""
    low = name.lower()
    if low in _CURSOR:
        return (b"\x1bO" if application else b"\x1b[") + _CURSOR[low]
    if low in _KEYS:
        return _KEYS[low]
    if len(name) == 1 and name.isprintable():
        return name.encode()
    known = ", ".join([*_CURSOR, *_KEYS])
    raise NoAnswer(f"{name[:20]!r} is no key; use one character, or one of {known}")


def check(pane: Pane, text: str, keys: Sequence[str]) -> None:
    """Raise NoAnswer unless this can be an answer to what a pane asks now."""
    if pane.state is not PaneState.BLOCKED:
        raise NoAnswer(f"{pane.spec.name} is {pane.state} and asks nothing; nothing was typed")
    line = sanitize(text)
    if not line and not keys:
        raise NoAnswer("an answer is a text or keys; it was empty")
    if len(line) > MAX_ANSWER_CHARS or len(keys) > MAX_KEYS:
        raise NoAnswer(
            f"an answer has at most {MAX_ANSWER_CHARS} characters or {MAX_KEYS} keys; put a longer "
            "text into a file and name the file"
        )
    for key in keys:
        key_bytes(key, application=False)


async def answer(pane: Pane, text: str, keys: Sequence[str]) -> Answered:
    """Type an answer into a pane that asks something. Raises NoAnswer or PaneError."""
    check(pane, text, keys)
    line, entered = sanitize(text), False
    if line:
        entered = await _type_line(pane, line)
    presses = [key_bytes(key, application=pane.screen.application_cursor) for key in keys]
    for press in presses:
        pane.type_bytes(press)
        # Several in one read would look like a paste, or like one unknown key.
        await asyncio.sleep(ENTER_DELAY_SECONDS / 2)
    await asyncio.sleep(REACT_SECONDS)
    return Answered(entered or ENTER in presses, pane.state)


async def _type_line(pane: Pane, line: str) -> bool:
    """Type a text and then Enter; False where the question went away with the text alone."""
    before = pane.status.question
    data = line.encode("utf-8", "replace")
    pasted = pane.screen.bracketed_paste and len(line) > 1
    pane.type_bytes(PASTE_START + data + PASTE_END if pasted else data)
    await asyncio.sleep(ENTER_DELAY_SECONDS)
    status = pane.status
    echoed = line in status.question
    if status.state is not PaneState.BLOCKED or not (status.question == before or echoed):
        return False
    pane.type_bytes(ENTER)
    return True
