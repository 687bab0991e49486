"""Role logs: what is written while a process runs and when it has ended."""

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck.transcripts import CORE_LOGS, Transcript, file_name


def sections(path: Path) -> list[list[str]]:
    """The rows of each section, without its heading."""
    found: list[list[str]] = []
    for line in path.read_text().splitlines():
        if line.startswith("=== "):
            found.append([])
        else:
            found[-1].append(line)
    return found


def test_a_running_process_has_one_section_and_the_next_one_its_own(tmp_path: Path) -> None:
    log = Transcript(tmp_path, "coder")
    path = tmp_path / "coder.log"
    log.write(["a", "a long second row"], "at", ended=False)
    assert sections(path) == [["a", "a long second row"]]
    log.write(["a"], "at", ended=False)
    assert sections(path) == [["a"]]
    log.write(["a", "b", "c"], "ended", ended=True)
    log.write(["new"], "at", ended=False)
    assert sections(path) == [["a", "b", "c"], ["new"]]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_an_earlier_deck_left_stays(tmp_path: Path) -> None:
    Transcript(tmp_path, "coder").write(["before the crash"], "at", ended=False)
    Transcript(tmp_path, "coder").write(["after it"], "ended", ended=True)
    assert sections(tmp_path / "coder.log") == [["before the crash"], ["after it"]]


def test_a_log_that_was_emptied_or_removed_meanwhile_begins_anew(tmp_path: Path) -> None:
    log = Transcript(tmp_path, "coder")
    path = tmp_path / "coder.log"
    log.write(["x" * 100], "ended", ended=True)
    log.write(["y"], "at", ended=False)
    path.write_text("")
    log.write(["z"], "at", ended=False)
    assert sections(path) == [["z"]]
    path.unlink()
    log.write(["again"], "at", ended=False)
    assert sections(path) == [["again"]]


def test_a_pipe_in_the_place_of_a_log_holds_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "coder.log")
    with pytest.raises(OSError, match="No such device"):
        Transcript(tmp_path, "coder").write(["x"], "at", ended=False)
    reader = os.open(tmp_path / "coder.log", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(OSError, match="no regular file"):
        Transcript(tmp_path, "coder").write(["x"], "at", ended=False)
    os.close(reader)


def test_a_link_in_the_place_of_a_log_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("mine\n")
    (tmp_path / "coder.log").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic links"):
        Transcript(tmp_path, "coder").write(["x"], "at", ended=False)
    assert (tmp_path / "target").read_text() == "mine\n"


@given(st.text(max_size=20) | st.sampled_from(["events", "server", "crash", "Events", "CRASH"]))
def test_no_role_writes_into_a_log_of_the_decks_own(role: str) -> None:
    assert file_name(role).lower() not in CORE_LOGS
    assert "/" not in file_name(role)
