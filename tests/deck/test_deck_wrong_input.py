"""What an operator gets wrong at `choragos`: one sentence, and never a program that hangs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent / "choragos"


def shell(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell in which `choragos` is ours."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CHORAGOS_")}
    return subprocess.run(
        ["bash", "-c", line.replace("choragos", str(BIN))],
        cwd=cwd,
        env={**clean, "HOME": str(cwd)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def one_sentence(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 1, result
    [line] = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
    assert line.startswith("error: ")
    assert line.isprintable()
    return line


@pytest.mark.parametrize(
    "line",
    [
        "report /dev/zero",
        "approver remove alice --config=/dev/zero",
        "approver list --config=/dev/zero; exit 1",
    ],
)
def test_a_device_without_end_is_not_read(tmp_path: Path, line: str) -> None:
    result = shell(f"choragos {line}", tmp_path)
    assert result.returncode == 1, result
    assert "/dev/zero" in result.stderr + result.stdout


def test_a_team_file_that_is_no_text_is_named_with_the_byte(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_bytes(b'name = "\xe9"\n')
    told = one_sentence(shell("choragos approver remove alice --config=team.toml", tmp_path))
    assert "byte 8 is not UTF-8" in told


@pytest.mark.parametrize(
    "line",
    ["report $'\\x1b[31m'", "handoff --config=$'\\x1b[2J'"],
)
def test_what_a_terminal_would_obey_is_not_echoed(tmp_path: Path, line: str) -> None:
    assert "\\x1b" in one_sentence(shell(f"choragos {line}", tmp_path))


def test_a_missing_word_is_asked_for_in_one_line(tmp_path: Path) -> None:
    assert "bash, zsh, fish" in one_sentence(shell("choragos completion", tmp_path))


def test_what_belongs_on_a_closed_standard_error_stays_out_of_the_output(tmp_path: Path) -> None:
    result = shell("choragos report 2>&-", tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", "")


def test_an_answer_that_cannot_be_written_is_a_failure_unless_nobody_asked_for_it(
    tmp_path: Path,
) -> None:
    one_sentence(shell("choragos version >/dev/full", tmp_path))
    result = shell("choragos version >&-", tmp_path)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_doctor_lines_up_and_folds_between_words_on_a_terminal(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [BIN, "doctor"],
        cwd=tmp_path,
        env={**env, "HOME": str(tmp_path)},
        stdout=follower,
        stderr=subprocess.DEVNULL,
    )
    os.close(follower)
    written = b""
    with contextlib.suppress(OSError):  # the other end has gone
        while block := os.read(leader, 1 << 16):
            written += block
    process.wait(30)
    os.close(leader)
    lines = written.decode().splitlines()
    assert all(len(line) <= 80 or "/" in line for line in lines)  # a path is not broken
    # The built-in team has a role whose name is longer than the usual column.
    starts = {line.index("the command") for line in lines if "the command" in line[:40]}
    assert len(starts) <= 1
    assert any(line.startswith(" " * 20) for line in lines), lines
