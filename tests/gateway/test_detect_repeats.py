"""What stands beside a word is found again wherever it repeats, and costs little then."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator

import pytest

from gateway.redaction.detectors.base import Rule, Source
from gateway.redaction.detectors.engine import RULES
from gateway.redaction.detectors.repeats import Repeats, repeats_of
from gateway.redaction.policy_file import load_policy
from gateway.redaction.spans import Span

WORD = "pw"


def _reads(text: str, repeats: Repeats | None) -> list[Span]:
    """A reader that finds the digits behind each word, and goes on behind them."""
    found: list[Span] = []
    done, at = 0, text.find(WORD)
    while at >= 0:
        if at >= done and repeats is not None:
            done, again = repeats.skip(at)
            found += again
        if at >= done:
            end = at + len(WORD)
            while text[end : end + 1].isdigit() and end - at < 12:
                end += 1
            if end > at + len(WORD):
                span = Span(at, end, "SECRET", 0.5, "test")
                found.append(span)
                done = end
                if repeats is not None:
                    repeats.found.append(span)
        at = text.find(WORD, at + 1)
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_reader_finds_the_same_with_and_without(seed: int) -> None:
    chance = random.Random(seed)
    pieces = [WORD, WORD + "1", WORD + "12 ", " ", "x", "7", WORD + WORD, "abc ", "\n"]
    text = ""
    for _ in range(chance.randint(1, 6)):
        unit = "".join(chance.choice(pieces) for _ in range(chance.randint(1, 9)))
        text += unit * chance.randint(1, 400)
    whole = text * chance.randint(1, 3)
    assert _reads(whole, Repeats(whole, back=8, ahead=32)) == _reads(whole, None)


def test_the_end_of_a_text_and_a_change_in_it_are_read() -> None:
    text = "pw1 " * 400 + "pw22 " + "pw1 " * 400 + "pw333"
    found = _reads(text, Repeats(text, back=8, ahead=32))
    assert len(found) == 802
    assert [text[span.start : span.end] for span in found][400] == "pw22"
    assert found[-1].end == len(text)


def test_short_texts_and_those_with_few_words_are_read_word_by_word() -> None:
    assert repeats_of("pw " * 100, 100, back=8, ahead=32) is None
    assert repeats_of("x" * 100_000, 100, back=8, ahead=32) is None
    assert repeats_of("pw " * 10_000, 10_000, back=8, ahead=32) is not None


#: What a rule once read again at every place.
UNITS = ("idnumber<<<", "parola=", "pw, ", "pw? ", "pw ", "cookie=", 'name="', "medicalrec.1",
         "адрес,")  # fmt: skip


@pytest.fixture(scope="module")
def rules() -> list[Rule]:
    policy = load_policy()
    return [kind(policy) for kind in RULES]


@pytest.fixture
def untraced() -> Iterator[None]:
    """Measure without the coverage tracer."""
    tracer = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(tracer)


def _seconds(rule: Rule, text: str) -> float:
    best = 10.0
    for _ in range(3):
        started = time.process_time()
        for _span in rule.spans(Source(text)):
            pass
        best = min(best, time.process_time() - started)
    return best


@pytest.mark.usefixtures("untraced")
@pytest.mark.parametrize("unit", UNITS)
def test_a_text_that_repeats_costs_in_proportion_at_most(unit: str, rules: list[Rule]) -> None:
    small, large = (unit * (size // len(unit)) for size in (12_000, 96_000))
    for rule in rules:
        if _seconds(rule, small) > 0.002:
            assert any(_seconds(rule, large) / _seconds(rule, small) < 16 for _ in range(5)), rule


@pytest.mark.parametrize(
    "line",
    ["password: Mk7tundra!x\n", "pw hunter2z!Q, ", "admin / calvin27 ", "密码是Mk7tundra! ",
     "my otp is 482913, ", 'first_name: "Maria", ', "dob: 1.1.1980\n",
     "ghp_16C7e42F292c6912E7710c838347Ae178B4a "],
)  # fmt: skip
def test_a_value_is_found_each_time_its_line_repeats(line: str, rules: list[Rule]) -> None:
    def found(text: str) -> set[tuple[int, int]]:
        return {(span.start, span.end) for rule in rules for span in rule.spans(Source(text))}

    some, many = found(line * 20), found(line * 2000)
    assert some
    size = len(line)
    # Far from both ends every line holds what the tenth of a few does.
    tenth = {(a - 10 * size, b - 10 * size) for a, b in some if 10 * size <= a < 11 * size}
    for number in (700, 1200, 1999 - 20):
        at = number * size
        assert {(a - at, b - at) for a, b in many if at <= a < at + size} == tenth
