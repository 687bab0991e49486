"""Our terminal beside libghostty-vt: the same visible text, but for a list of exceptions."""

import importlib.util
import os
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from terminal_screens import capture, captures, need_data

from deck.pane.terminal.engine import Engine, EngineKind, make_engine

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("pyghostty") is None, reason="pyghostty is not installed"
)

CASES = int(os.environ.get("TERMINAL_FUZZ_CASES", "300"))
EXCEPTIONS = tomllib.loads((Path(__file__).parent / "terminal_oracle_exceptions.toml").read_text())
# Characters without a width that only our terminal keeps; see the list.
KEPT_BY_US = re.compile("[\u200b\ufe0e]")


def both(columns: int, lines: int) -> tuple[Engine, Engine]:
    ours = make_engine(EngineKind.PYTE, columns, lines, 500)
    oracle = make_engine(EngineKind.GHOSTTY, columns, lines, 500)
    return ours, oracle


def text(engine: Engine) -> list[str]:
    return [KEPT_BY_US.sub("", row).rstrip() for row in engine.rows()]


def place(engine: Engine) -> tuple[int, int]:
    return engine.cursor.y, engine.cursor.x


@need_data
@pytest.mark.parametrize("name", captures())
def test_a_recorded_agent_looks_the_same_at_every_four_kilobytes(name: str) -> None:
    ours, oracle = both(120, 40)
    data = capture(name)
    for i in range(0, len(data), 4096):
        ours.feed(data[i : i + 4096])
        oracle.feed(data[i : i + 4096])
        assert text(ours) == text(oracle), f"at byte {i}"
        assert place(ours) == place(oracle), f"at byte {i}"
    assert [style for y in range(40) for style in ours.cells(y)[1]] == [
        style for y in range(40) for style in oracle.cells(y)[1]
    ]
    assert (ours.title, ours.alternate, ours.signal) == (
        oracle.title,
        oracle.alternate,
        oracle.signal,
    )
    assert len(ours.history) == len(oracle.history)


# Streams as programs write them; whole where the list of exceptions tells a part to stay whole.
WORDS = st.sampled_from(
    ["abc ", "hello world " * 3, "日本", "⚠️ w", "👍🏽", "é", "e\u0301", "─│┌", "x" * 45, "🇩🇪",
     "👨‍👩‍👧", "→✻●", "\u00a0", "\x1b(0lqk\x1b(B", "\x0e\x0f", "z\x1b[5b", "\x1b[4habc\x1b[4l",
     "\x1b[?7lplain text that is cut\x1b[?7h", "w" * 16]
)  # fmt: skip
CONTROLS = st.sampled_from(["\r\n", "\n", "\r", "\b", "\t", "\b\x1bM", "\x1bD", "\x1bE"])
COUNTED = st.builds("\x1b[{}{}".format, st.sampled_from(["", "1", "2", "3", "5", "9"]),
                    st.sampled_from("ABCDEFGILMPSTX@`ade"))  # fmt: skip
PLACED = st.builds("\x1b[{};{}{}".format, st.integers(1, 10), st.integers(1, 20),
                   st.sampled_from("Hf"))  # fmt: skip
ERASED = st.builds("\x1b[{}{}".format, st.sampled_from(["", "0", "1", "2"]), st.sampled_from("JK"))
STATES = st.sampled_from(
    ["\b\x1b7", "\x1b8", "\b\x1b[s", "\x1b[u", "\x1b[3;7r", "\x1b[r", "\b\x1b[?1049h",
     "\x1b[?1049l", "\x1b[?1047h", "\x1b[?1047l", "\x1b[41m", "\x1b[0m", "\x1b[38:2::1:2:3m",
     "\x1b[1;4:3m",
     "\x1b]0;t\x07", "\x1bP+q\x1b\\", "\x1b_Gx\x1b\\", "\x1b#8", "\x1bH", "\x1b[3g", "\x1b[>4;2m",
     "\x1b[?4m", "\x1b[<u", "\x1b[=1;1u", "\x1b[?2026h", "\x1b[?2026l", "\x1bc", "\x1b[D\x1b[Z",
     "\x1b[?6h\x1b[2;3Hx\x1b[?6l", "\x1b[3\x18", "\x1b[3\x1b[2;2H", "\x1b]0;a\x1b[1m"]
)  # fmt: skip
STREAM = st.lists(
    st.one_of(WORDS, WORDS, CONTROLS, COUNTED, PLACED, ERASED, STATES), max_size=40
).map("".join)


@settings(max_examples=CASES, deadline=None)
@given(STREAM)
def test_what_a_program_writes_looks_the_same(stream: str) -> None:
    ours, oracle = both(16, 8)
    ours.feed(stream.encode())
    oracle.feed(stream.encode())
    assert text(ours) == text(oracle)
    assert place(ours) == place(oracle)


@pytest.mark.parametrize(
    "exception", EXCEPTIONS["exception"], ids=lambda exception: exception["name"]
)
def test_each_listed_exception_is_still_one(exception: dict[str, str]) -> None:
    ours, oracle = both(16, 8)
    ours.feed(exception["bytes"].encode())
    oracle.feed(exception["bytes"].encode())
    assert (ours.rows(), place(ours)) != (oracle.rows(), place(oracle))
    assert exception["why"]
