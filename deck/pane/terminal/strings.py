"""String sequences: what OSC and DCS bodies mean. APC, PM and SOS mean nothing here.

Rules: titles and links are bounded; the clipboard (OSC 52) is neither read nor written; colors are
told, never changed; a question that is not understood gets the form's own "no". Called by `screen`.
"""

from __future__ import annotations

from typing import Final

from deck.pane.status import plain
from deck.pane.terminal.grid import Grid
from deck.pane.terminal.replies import BACKGROUND_REPLY, FOREGROUND_REPLY
from deck.pane.terminal.reports import Reports

TITLE_LIMIT: Final = 256
LINK_LIMIT: Final = 2048


def act(g: Grid, reports: Reports, kind: str, body: str) -> str | None:
    """Act on a complete string; returns the answer it asks for, if any."""
    if kind == "P":
        return _device_control(body)
    if kind != "]":
        return None
    number, _, rest = body.partition(";")
    if number in ("0", "1", "2"):
        _title(g, number, plain(rest, TITLE_LIMIT))
    elif number == "8":
        target = rest.partition(";")[2]
        g.set_style(g.style._replace(link=target if len(target) <= LINK_LIMIT else ""))
    elif number in ("10", "11") and rest == "?":
        color = FOREGROUND_REPLY if number == "10" else BACKGROUND_REPLY
        return f"\x1b]{number};{color}\x1b\\"
    elif number in ("9", "777", "99"):
        reports.notify(rest)
    elif number == "7501":
        return reports.program_status(rest)
    return None


def _device_control(body: str) -> str | None:
    """DECRQSS and XTGETTCAP: asked for something that is not offered."""
    if body.startswith("$q"):
        return "\x1bP0$r\x1b\\"
    return "\x1bP0+r\x1b\\" if body.startswith("+q") else None


def _title(g: Grid, number: str, text: str) -> None:
    if number != "1":
        g.title = text
    if number != "2":
        g.icon_name = text
