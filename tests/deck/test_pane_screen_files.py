"""The terminal beside files: xterm's escape sequence files, gap probes, recordings of agents."""

import importlib.util

import pytest
from terminal_screens import (
    DATA,
    capture,
    captures,
    check_invariants,
    need_data,
    picture,
    screen_of,
)

from deck.pane.terminal.cells import PLAIN, RGB, Attr
from deck.pane.terminal.screen import Screen

_CUBE = (0, 95, 135, 175, 215, 255)
_SYSTEM = (
    "000000", "cd0000", "00cd00", "cdcd00", "0000ee", "cd00cd", "00cdcd", "e5e5e5",
    "7f7f7f", "ff0000", "00ff00", "ffff00", "5c5cff", "ff00ff", "00ffff", "ffffff",
)  # fmt: skip

FIXTURES = DATA / "xtermjs_escape_sequence_files"
# The fixtures' own project skips these five: they need what no multiplexer pane has.
SKIPPED = ("t0055", "t0084", "t0101", "t0103", "t0504")


def fixture_names() -> list[str]:
    names = sorted(p.stem for p in FIXTURES.glob("*.in")) if FIXTURES.is_dir() else []
    return [n for n in names if not n.startswith(SKIPPED)]


@need_data
@pytest.mark.parametrize("name", fixture_names())
def test_an_escape_sequence_file_gives_the_screen_that_xterm_gives(name: str) -> None:
    data = (FIXTURES / f"{name}.in").read_bytes().replace(b"\n", b"\r\n")
    wanted = (FIXTURES / f"{name}.text").read_text(encoding="utf-8").split("\n")[:25]
    wanted = [line.rstrip() for line in wanted] + [""] * (25 - len(wanted))
    assert screen_of(data, 80, 25).rows() == wanted


def probes() -> list[tuple[str, object, object]]:
    path = DATA / "probes_82.py"
    if not path.is_file():
        return []
    spec = importlib.util.spec_from_file_location("terminal_probes", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return list(module.P)


def color_hex(color: int) -> str:
    """A color as six hex digits, "default" for the terminal's own. Palette entries as in xterm."""
    if color < 0:
        return "default"
    if color & RGB:
        return f"{color & 0xFFFFFF:06x}"
    if color < 16:
        return _SYSTEM[color]
    if color >= 232:
        return f"{8 + (color - 232) * 10:02x}" * 3
    color -= 16
    return f"{_CUBE[color // 36]:02x}{_CUBE[color // 6 % 6]:02x}{_CUBE[color % 6]:02x}"


def probe_holds(screen: Screen, check: object) -> bool:
    first = screen.grid[0].styles[0]
    if callable(check):
        cursor = (screen.cursor.x, screen.cursor.y)
        return bool(check(screen.rows(), cursor, b"".join(screen.replies)))
    if check == "style_plain":
        return screen.rows()[0] == "X" and first._replace(underline_color=-1) == PLAIN
    if check == "dim":
        return bool(first.attrs & Attr.DIM)
    if check == "title":
        return screen.title == "T" and screen.icon_name == "T"
    if check == "bce":
        return screen.grid[0].styles[40].bg == 1
    assert isinstance(check, str)
    return screen.rows()[0] == "X" and color_hex(first.fg) == check[2:]


@need_data
@pytest.mark.parametrize(("name", "data", "check"), probes())
def test_a_known_weak_spot_of_terminal_engines_is_not_one_of_ours(
    name: str, data: object, check: object
) -> None:
    screen = Screen(80, 24, history=1000)
    for chunk in data if isinstance(data, list) else [data]:
        if isinstance(chunk, tuple):
            screen.resize(chunk[2], chunk[1])
        else:
            screen.feed(chunk)
    assert probe_holds(screen, check), (name, screen.rows()[:3], screen.replies)
    check_invariants(screen)


@need_data
@pytest.mark.parametrize("name", captures())
def test_a_recorded_agent_draws_the_same_however_its_bytes_are_split(name: str) -> None:
    data = capture(name)[:120_000]
    whole, pieces, odd = (Screen(120, 40, 2000) for _ in range(3))
    whole.feed(data)
    for i in range(0, len(data), 97):
        pieces.feed(data[i : i + 97])
    for i in range(0, len(data), 4095):
        odd.feed(data[i : i + 4095])
    assert picture(whole) == picture(odd) == picture(pieces)
    check_invariants(whole)


@need_data
def test_a_recorded_agent_leaves_no_escape_garbage_on_the_screen() -> None:
    assert captures()
    for name in captures():
        screen = Screen(120, 40, 2000)
        screen.feed(capture(name))
        text = "\n".join(screen.rows())
        assert "\x1b" not in text
        for garbage in ("+q4d73", "[?", "4;2m", "38:2"):
            assert garbage not in text, name
