"""Where a line stands on a screen, and that it has left the agent's input."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from deck.pane.sight import Sight, View, squeeze
from deck.pane.status import PaneState

LINE = "Read .choragos/worker-task-coder.md for your task."


def test_an_enter_that_became_a_line_break_is_no_submission() -> None:
    broken = View(
        rows=("welcome", f" > {LINE}", "   ", "footer"),
        cursor=(2, 3),
        state=PaneState.IDLE,
        certain=True,
        bracketed_paste=True,
        person_typing=False,
        facts=0,
    )
    typed = replace(broken, rows=("welcome", f" > {LINE}", "footer"), cursor=(1, 3 + len(LINE)))
    sent = replace(broken, rows=(f" > {LINE}", "working", " > "), cursor=(2, 3))
    before = Sight(LINE, typed)
    assert before.at_cursor
    assert not Sight(LINE, broken).left_since(before)
    assert Sight(LINE, sent).left_since(before)
    # A line reader's cursor goes to the next row as well, and there it is one.
    reader = replace(broken, line_limit=4095, rows=(LINE, ""), cursor=(1, 0))
    assert Sight(LINE, reader).left_since(before)


@given(st.text(alphabet="abc def.│|─", min_size=1), st.integers(3, 30))
def test_a_wrapped_and_boxed_text_squeezes_to_the_same(text: str, width: int) -> None:
    rows = [text[i : i + width] for i in range(0, len(text), width)]
    assert "".join(squeeze(f"│ {row:<{width}} │") for row in rows) == squeeze(text)
