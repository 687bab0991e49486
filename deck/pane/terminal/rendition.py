"""Select graphic rendition: parameters to a style, and a style back to parameters. Pure.

Owns the two spellings of extended colors (semicolons and colons). Invariant:
a style written out and read again is the same style. Called by `screen` and by whoever draws it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from deck.pane.terminal.cells import DEFAULT_COLOR, RGB, Attr, Style

MAX_PARAMS: Final = 32


def _color_codes(color: int, base: int) -> list[str]:
    if color < 0:
        return []
    if color & RGB:
        return [f"{base + 8};2;{color >> 16 & 255};{color >> 8 & 255};{color & 255}"]
    if color < 8 and base != 50:
        return [str(base + color)]
    if color < 16 and base != 50:
        return [str(base + 52 + color)]
    return [f"{base + 8};5;{color}"]


_ATTR_CODES: Final = (
    (Attr.BOLD, "1"), (Attr.DIM, "2"), (Attr.ITALIC, "3"), (Attr.BLINK, "5"),
    (Attr.REVERSE, "7"), (Attr.HIDDEN, "8"), (Attr.STRIKE, "9"), (Attr.OVERLINE, "53"),
)  # fmt: skip


@lru_cache(maxsize=4096)
def sgr(style: Style) -> str:
    """The SGR sequence that gives exactly this style, whatever was set before."""
    codes = ["0", *(code for flag, code in _ATTR_CODES if style.attrs & flag)]
    if style.underline:
        codes.append("4" if style.underline == 1 else f"4:{style.underline}")
    codes += _color_codes(style.fg, 30) + _color_codes(style.bg, 40)
    codes += _color_codes(style.underline_color, 50)
    return f"\x1b[{';'.join(codes)}m"


_SET: Final = {
    1: Attr.BOLD, 2: Attr.DIM, 3: Attr.ITALIC, 5: Attr.BLINK, 6: Attr.BLINK, 7: Attr.REVERSE,
    8: Attr.HIDDEN, 9: Attr.STRIKE, 53: Attr.OVERLINE,
}  # fmt: skip
_CLEAR: Final = {
    22: Attr.BOLD | Attr.DIM, 23: Attr.ITALIC, 25: Attr.BLINK, 27: Attr.REVERSE,
    28: Attr.HIDDEN, 29: Attr.STRIKE, 55: Attr.OVERLINE,
}  # fmt: skip
# Code -> which color it sets (38 text, 48 background, 58 underline) and to what.
_COLORS: Final = {
    **{30 + n: (38, n) for n in range(8)}, **{90 + n: (38, 8 + n) for n in range(8)},
    **{40 + n: (48, n) for n in range(8)}, **{100 + n: (48, 8 + n) for n in range(8)},
    39: (38, DEFAULT_COLOR), 49: (48, DEFAULT_COLOR), 59: (58, DEFAULT_COLOR),
}  # fmt: skip
_UNDERLINE: Final = {4: 1, 21: 2, 24: 0}


def apply_sgr(style: Style, body: str) -> Style:
    """The style after SGR parameters, semicolon and colon forms; unknown codes are ignored."""
    fg, bg, attrs, underline, line_color, link = style
    parts = body.split(";")[:MAX_PARAMS]
    index = 0
    while index < len(parts):
        part = parts[index]
        index += 1
        head, _, sub = part.partition(":")
        code = int(head or 0)
        if code == 0:
            fg, bg, attrs, underline, line_color = DEFAULT_COLOR, DEFAULT_COLOR, 0, 0, DEFAULT_COLOR
        elif code in (38, 48, 58):
            if sub:
                given = _colon_color(sub)
            else:
                given, index = _semicolon_color(parts, index)
            fg = fg if given is None or code != 38 else given
            bg = bg if given is None or code != 48 else given
            line_color = line_color if given is None or code != 58 else given
        elif code in _COLORS:
            plane, color = _COLORS[code]
            if plane == 38:
                fg = color
            elif plane == 48:
                bg = color
            else:
                line_color = color
        elif code in _UNDERLINE:
            underline = min(int(sub.split(":")[0] or 0), 5) if sub else _UNDERLINE[code]
        else:
            attrs = (attrs | int(_SET.get(code, 0))) & ~int(_CLEAR.get(code, 0))
    return Style(fg, bg, attrs, underline, line_color, link)


def _rgb(values: list[int]) -> int | None:
    if len(values) < 3 or max(values) > 255:
        return None
    return RGB | values[0] << 16 | values[1] << 8 | values[2]


def _semicolon_color(parts: list[str], index: int) -> tuple[int | None, int]:
    """The color after 38, 48 or 58, and where the parameters go on."""
    values = [int(p.partition(":")[0] or 0) for p in parts[index : index + 4]]
    if values[:1] == [2]:
        return _rgb(values[1:4]), index + 4
    if values[:1] == [5] and len(values) > 1:
        return (values[1] if values[1] < 256 else None), index + 2
    return None, index + 1


def _colon_color(sub: str) -> int | None:
    """38:2:r:g:b, 38:2::r:g:b (with a color space) or 38:5:n."""
    values = [int(v or 0) for v in sub.split(":")]
    if values[0] == 5 and len(values) > 1:
        return values[1] if values[1] < 256 else None
    if values[0] == 2:
        return _rgb(values[2:5] if len(values) >= 5 else values[1:4])
    return None
