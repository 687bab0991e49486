"""What agents put in place of the deck's files: links, pipes, devices, files without end."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from deck import briefs, landing, ownership, plain_files
from deck.config import ConfigError
from deck.desk import Desk
from deck.events import EventLog
from deck.proposals import _bytes_of
from deck.screens import Screens
from deck.session_file import SESSION_FILE, BadSessionFile, SessionFile, read_snapshot
from deck.team_reader import load_config
from deck.texts import TextStore

#: Far more than any of these takes, far less than for ever.
SECONDS = 20.0


def in_time(work: Callable[[], Any]) -> Any:
    """Run something that must not hang; what it raised is raised here."""
    said: list[Any] = []

    def run() -> None:
        try:
            said.append((True, work()))
        except BaseException as fault:
            said.append((False, fault))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert said, "it hangs"
    fine, value = said[0]
    if not fine:
        raise value
    return value


def desk_of(project: Path) -> Desk:
    return cast(Desk, SimpleNamespace(state_dir=project / ".choragos", directory=project))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".choragos" / "logs").mkdir(parents=True)
    return tmp_path / "project"


def plant_link(place: Path, victim: Path) -> None:
    place.symlink_to(victim)


def plant_hard_link(place: Path, victim: Path) -> None:
    os.link(victim, place)


def plant_pipe(place: Path, victim: Path) -> None:
    os.mkfifo(place)


PLANTS = (plant_link, plant_hard_link, plant_pipe)


def _brief(project: Path) -> None:
    briefs.write(project / ".choragos", "builder-brief.md", "written by the deck\n")


def _diff(project: Path) -> None:
    landing._write(project / ".choragos" / "merge-builder.diff", b"written by the deck\n")


def _snapshot(project: Path) -> None:
    from deck.board import State

    desk = SimpleNamespace(
        state_dir=project / ".choragos", start_name="lead", texts=SimpleNamespace(get=lambda _: "")
    )
    SessionFile(cast(Desk, desk))._write(State())


WRITES = (
    (_brief, ".builder-brief.md.new", "builder-brief.md"),
    (_diff, ".merge-builder.diff.new", "merge-builder.diff"),
    (_snapshot, f"{SESSION_FILE}.tmp", SESSION_FILE),
)


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize(("write", "beside", "name"), WRITES)
def test_whatever_lies_beside_or_in_the_place_of_a_file_nothing_else_is_written_to(
    project: Path, plant: Any, write: Any, beside: str, name: str
) -> None:
    victim = project / "user.txt"
    victim.write_text("the user's own\n")
    for place in (beside, name):
        plant(project / ".choragos" / place, victim)
    in_time(lambda: write(project))
    assert victim.read_text() == "the user's own\n"
    written = project / ".choragos" / name
    assert written.is_file()
    assert not written.is_symlink()
    assert written.stat().st_nlink == 1


def test_screens_are_removed_from_their_own_directory_only(project: Path) -> None:
    documents = project / "documents"
    documents.mkdir()
    (documents / "thesis.txt").write_text("years of work")
    (project / ".choragos" / "screens").symlink_to(documents)
    Screens(desk_of(project)).clear()
    assert (documents / "thesis.txt").read_text() == "years of work"


def test_screens_are_not_stored_through_a_link(project: Path) -> None:
    from deck.screens import _store

    documents = project / "documents"
    documents.mkdir()
    (documents / "builder").write_text("the user's own")
    (project / ".choragos" / "screens").symlink_to(documents)
    with pytest.raises(Exception, match="not a directory"):
        _store(project / ".choragos" / "screens", {"builder": "screen"}, ["builder"])
    assert (documents / "builder").read_text() == "the user's own"


def test_a_screen_that_is_a_link_is_not_read(project: Path) -> None:
    secret = project / "secret"
    secret.write_text("a key")
    (project / ".choragos" / "screens").mkdir()
    (project / ".choragos" / "screens" / "builder").symlink_to(secret)
    assert Screens(desk_of(project)).left("builder") == ""


def test_a_screen_below_a_link_is_not_read(project: Path) -> None:
    elsewhere = project / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "builder").write_text("a key")
    (project / ".choragos" / "screens").symlink_to(elsewhere)
    assert Screens(desk_of(project)).left("builder") == ""


def test_a_screen_that_is_a_pipe_does_not_hold_up_a_start(project: Path) -> None:
    (project / ".choragos" / "screens").mkdir()
    os.mkfifo(project / ".choragos" / "screens" / "builder")
    assert in_time(lambda: Screens(desk_of(project)).left("builder")) == ""


def plant_device(place: Path, victim: Path) -> None:
    place.symlink_to("/dev/zero")


@pytest.mark.parametrize("plant", [plant_pipe, plant_device])
def test_team_files_that_are_none_are_refused_at_once(project: Path, plant: Any) -> None:
    plant(project / "team.toml", project)
    with pytest.raises(ConfigError, match="cannot be read"):
        in_time(lambda: load_config(project / "team.toml", project))
    assert in_time(lambda: _bytes_of(project / "team.toml")) == b""


def test_a_team_file_without_end_is_refused(project: Path) -> None:
    with (project / "team.toml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigError, match="larger than"):
        in_time(lambda: load_config(project / "team.toml", project))
    assert in_time(lambda: _bytes_of(project / "team.toml")) == b""


def test_a_session_file_that_is_a_pipe_is_said_to_be_none(project: Path) -> None:
    os.mkfifo(project / ".choragos" / SESSION_FILE)
    with pytest.raises(BadSessionFile, match="regular"):
        in_time(lambda: read_snapshot(project / ".choragos"))


@pytest.mark.parametrize("plant", PLANTS)
def test_a_text_that_was_replaced_is_gone_and_can_be_stored_again(
    project: Path, tmp_path: Path, plant: Any
) -> None:
    store = TextStore(project / ".choragos" / "texts", tmp_path / "keys")
    reference = store.put("a task")
    place = project / ".choragos" / "texts" / reference
    place.unlink()
    victim = project / "user.txt"
    victim.write_text("the user's own\n")
    plant(place, victim)
    later = TextStore(project / ".choragos" / "texts", tmp_path / "keys")
    assert in_time(lambda: later.get(reference)) is None
    assert in_time(lambda: later.put("a task")) == reference
    again = TextStore(project / ".choragos" / "texts", tmp_path / "keys")
    assert again.get(reference) == "a task"
    assert victim.read_text() == "the user's own\n"


def test_a_text_without_end_is_not_read(project: Path, tmp_path: Path) -> None:
    store = TextStore(project / ".choragos" / "texts", tmp_path / "keys")
    with (project / ".choragos" / "texts" / ("0" * 64)).open("wb") as file:
        file.truncate(1 << 40)
    assert in_time(lambda: store.get("0" * 64)) is None


def test_a_file_without_end_cannot_be_compared_and_holds_nothing_up(project: Path) -> None:
    with (project / "report.md").open("wb") as file:
        file.truncate(1 << 42)
    found = in_time(lambda: ownership.file_hash(str(project / "report.md")))
    assert found == ownership.UNREADABLE
    assert in_time(lambda: ownership.take(project, ["report.md"])) == {
        "report.md": ownership.UNREADABLE
    }


def test_an_event_log_that_is_a_pipe_is_refused_in_words(project: Path) -> None:
    path = project / ".choragos" / "logs" / "events.log"
    os.mkfifo(path)
    with pytest.raises(OSError, match="regular file"):
        in_time(lambda: EventLog(path))


def test_what_is_opened_to_be_added_to_is_a_file(project: Path) -> None:
    pipe, link = project / "pipe", project / "link"
    os.mkfifo(pipe)
    link.symlink_to(project / "elsewhere")
    with pytest.raises(OSError, match="regular file"):
        in_time(lambda: plain_files.open_to_add(pipe))
    with pytest.raises(OSError, match="symbolic links"):
        in_time(lambda: plain_files.open_to_add(link))
    assert not (project / "elsewhere").exists()


def test_a_hand_over_to_a_pipe_leaves_the_threads_to_others(project: Path) -> None:
    os.mkfifo(project / "next.toml")

    async def many() -> None:
        tries = [asyncio.to_thread(load_config, project / "next.toml", project) for _ in range(100)]
        for outcome in await asyncio.gather(*tries, return_exceptions=True):
            assert isinstance(outcome, ConfigError)

    in_time(lambda: asyncio.run(many()))
