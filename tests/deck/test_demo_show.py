from __future__ import annotations

import io

import pytest
from rich.console import Console

from deck.demo.show import Show

MAIL = "e.papadaki" + "@" + "harbour.example.com"
TOKEN = "[EMAIL_x7k2m9qd]"


def drawn(width: int = 120, *, color: bool = False) -> tuple[Show, io.StringIO]:
    out = io.StringIO()
    console = Console(
        file=out, width=width, force_terminal=color, color_system="standard" if color else None
    )
    return Show(console, originals=(MAIL,)), out


def test_originals_are_red_and_tokens_green_and_markup_stays_text() -> None:
    show, out = drawn(color=True)
    show.prose(f"to {MAIL} or {TOKEN} [bold]not markup[/bold]")
    assert f"\x1b[1;31m{MAIL}\x1b[0m" in out.getvalue()
    assert f"\x1b[1;32m{TOKEN}\x1b[0m" in out.getvalue()
    assert "[bold]not markup[/bold]" in out.getvalue()


@pytest.mark.parametrize(("width", "beside"), [(120, True), (80, False)])
def test_panels_stand_side_by_side_where_there_is_room(width: int, beside: bool) -> None:
    show, out = drawn(width)
    show.side_by_side("coder", [("sent", MAIL), ("received", TOKEN), ("got back", MAIL)])
    lines = out.getvalue().splitlines()
    assert any("sent" in line and "got back" in line for line in lines) is beside
    assert all(len(line) <= width for line in lines)
    assert TOKEN in out.getvalue()


def test_the_checklist_counts_what_held_and_what_did_not() -> None:
    show, out = drawn()
    show.statement("the first", holds=True)
    show.statement("the second", holds=False, detail="why")
    show.checklist()
    assert "✓ the first" in out.getvalue()
    assert "✗ the second  why" in out.getvalue()
    assert "1 of 2 statements held" in out.getvalue()


def test_a_long_output_is_cut_and_says_so() -> None:
    show, out = drawn()
    show.command("sphragis verify x", "\n".join(f"line {n}" for n in range(9)), 1, lines=3)
    assert "line 2" in out.getvalue()
    assert "line 3" not in out.getvalue()
    assert "… 6 more lines" in out.getvalue()
    assert "exit 1" in out.getvalue()


def test_a_command_to_copy_is_never_wrapped() -> None:
    show, out = drawn(40)
    line = "sh /tmp/" + "x" * 80 + "/end.sh"
    show.shell(line)
    assert line in out.getvalue()
