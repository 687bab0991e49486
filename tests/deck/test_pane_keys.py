"""What goes to a terminal as keys: text made fit to be typed, and a person's line as it grows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck.pane.human_line import HumanLine
from deck.pane.keys import sanitize


@given(st.text())
def test_a_line_is_one_line_of_printable_characters(text: str) -> None:
    line = sanitize(text)
    assert not any(c in line for c in "\r\n\t\x1b\x03\x7f\x9b")
    assert sanitize(line) == line


def test_a_paste_cannot_be_ended_from_inside() -> None:
    assert sanitize("a\x1b[201~\rrm -rf /\n") == "a[201~ rm -rf /"


@pytest.mark.parametrize(
    ("keys", "is_open"),
    [
        ([b"hel"], True),
        ([b"hel", b"\r"], False),
        ([b"hel", b"\x7f\x7f\x7f"], False),
        ([b"hel", b"\x15"], False),
        ([b"hel", b"\x1b"], False),
        ([b"\x1b[A"], False),
        ([b"\x1b[200~two\rlines\x1b[201~"], True),
        ([b"y\r"], False),
    ],
)
def test_a_persons_line_is_open_until_it_is_finished(keys: list[bytes], is_open: bool) -> None:
    human = HumanLine()
    for key in keys:
        human.feed(key, 10.0)
    assert human.open_at(11.0) is is_open
    assert not human.open_at(80.0)
    assert not human.left_at(11.0)
    assert human.left_at(80.0) is is_open


def test_escape_while_the_agent_works_may_put_its_prompt_back_into_the_input() -> None:
    human = HumanLine()
    human.feed(b"\x1b", 10.0, working=True)
    assert human.open_at(11.0)
    assert human.left_at(80.0)
    human.feed(b"\r", 81.0)
    assert not human.left_at(200.0)
