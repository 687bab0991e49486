"""The command line's own rules: how switches are read and how failures look."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck.cli.verbs import with_plain_flags
from shared import __version__


@pytest.mark.parametrize(
    ("given_arguments", "plain"),
    [
        (["serve", "--sphragis=false"], ["serve", "--no-sphragis"]),
        (["serve", "--sphragis=true", "--detach=1"], ["serve", "--sphragis", "--detach"]),
        (["serve", "--sphragis", "--detach=F"], ["serve", "--sphragis"]),
        (["work-done", "--done=true", "--task=true"], ["work-done", "--done", "--task=true"]),
        (["x", "--", "--done=true"], ["x", "--", "--done=true"]),
        (["delegate", "--task", "--sphragis=maybe"], ["delegate", "--task", "--sphragis=maybe"]),
    ],
)
def test_switches_may_be_written_as_existing_scripts_write_them(
    given_arguments: list[str], plain: list[str]
) -> None:
    assert with_plain_flags(given_arguments) == plain


@given(st.lists(st.text().filter(lambda text: "=" not in text)))
def test_what_is_no_switch_is_left_alone(arguments: list[str]) -> None:
    assert with_plain_flags(arguments) == arguments


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["--version"], 0, f"choragos {__version__}\n"),
        (["version"], 0, f"choragos {__version__}\n"),
        (["fly"], 1, "error: "),
        (["serve", "--fly"], 1, "error: "),
        (["serve", "--sphragis=maybe"], 1, "error: Option '--sphragis' takes no value but true or"),
        (["serve", "--config", "nowhere.toml", "--no-sphragis"], 1, "error: "),
        (["delegate", "--to", "coder", "--task", "x"], 1, "error: no session"),
        (["work-done", "--task", "x"], 1, "error: no session"),
        (["board"], 1, "error: no session"),
        (["kill"], 1, "error: no session"),
        (["ls"], 0, "no running sessions\n"),
    ],
)
def test_a_failure_is_one_sentence_on_stderr_and_exit_1(
    tmp_path: Path, arguments: list[str], status: int, says: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "deck.cli", *arguments],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status
    assert (done.stderr if status else done.stdout).startswith(says)
    assert "Traceback" not in done.stderr
    assert done.stdout == "" or status == 0


def test_a_runtime_directory_that_is_not_ours_alone_is_refused(tmp_path: Path) -> None:
    import os

    (tmp_path / f"choragos-{os.getuid()}").write_text("not a directory")
    done = subprocess.run(
        [sys.executable, "-m", "deck.cli", "ls"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize(
    "arguments",
    [
        "serve",
        "serve --detach",
        "init",
        "init --auto",
        "doctor",
        "delegate --to coder --task x",
        "work-done --task x",
        "again T1",
        "board",
        "status",
        "gates",
        "approve G1",
        "show G1",
        "approver list",
        "approver add anna",
        "approver remove anna",
        "kill",
        "report",
        "checkpoints",
        "checkpoints prune",
        "rollback T1",
    ],
)
def test_every_verb_says_so_in_a_directory_that_is_gone(tmp_path: Path, arguments: str) -> None:
    (tmp_path / "gone").mkdir()
    done = subprocess.run(
        ["sh", "-c", f'rmdir ../gone && exec "$0" -m deck.cli {arguments}', sys.executable],
        cwd=tmp_path / "gone",
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", ["ls", "--help", "version", "doctor"])
def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path, arguments: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m deck.cli {arguments} | true', sys.executable],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_detached_deck_loads_no_command_line_and_no_face() -> None:
    """Each deck stays in memory for days: what only a person's terminal needs is not in it."""
    code = "import sys, deck.host; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )  # fmt: skip
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"typer", "rich", "pydantic", "pygments", "presidio_analyzer", "aiohttp"}
    assert "deck.cli" not in done.stdout.split()
    assert "httpx" in loaded
