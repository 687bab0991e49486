"""What the deck writes of its own faults: each in full, and never without end."""

from __future__ import annotations

from pathlib import Path

from deck.host import LOGS, Faults
from deck.sessions import paths_for


def fails(number: int) -> None:
    raise RuntimeError(f"call {number}")


def fails_elsewhere() -> None:
    raise KeyError("x")


def caught(number: int) -> Exception:
    try:
        fails(number)
    except RuntimeError as fault:
        return fault
    raise AssertionError


def test_a_fault_that_comes_each_second_for_a_day_is_told_in_full_once_and_counted(
    tmp_path: Path,
) -> None:
    faults = Faults(paths_for(str(tmp_path), {"XDG_RUNTIME_DIR": str(tmp_path)}))
    for second in range(86_400):
        faults.note({"message": "a step of the second failed", "exception": caught(second)})
    text = (tmp_path / LOGS / "crash.log").read_text()
    assert text.count("Traceback") == 1
    assert "RuntimeError: call 0" in text
    assert "as above: 10000 times by now" in text
    assert len(text.splitlines()) < 40
    try:
        fails_elsewhere()
    except KeyError as fault:
        faults.note({"message": "a step of the second failed", "exception": fault})
    faults.note({"message": "a task was never awaited"})
    text = (tmp_path / LOGS / "crash.log").read_text()
    assert text.count("Traceback") == 2
    assert "KeyError: 'x'" in text
    assert "a task was never awaited" in text
