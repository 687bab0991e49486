"""What verbs look like on the terminals that people have: 80 columns, and a narrow one."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pyte
import pytest
from reading_logs import sample

BIN = Path(sys.executable).parent / "sphragis"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("screens") / "home"
    folder.mkdir()
    sample(folder / "ledger")
    (folder / "ledger-keys").rename(folder / "keys")
    (folder.parent / "notes.md").write_text(
        "Mail: erika.mustermann@example.org\nDB_PASSWORD=tide-Lantern-8842-quay\n"
    )
    return folder


def drawn(home: Path, columns: int, *arguments: str, **more: str) -> tuple[list[str], bytes]:
    """Run a verb on a terminal; return its lines as they stand there, and the bytes."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    ours = {k: v for k, v in os.environ.items() if not k.startswith("SPHRAGIS_")}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        ours.pop(name, None)
    ours |= {"SPHRAGIS_HOME": str(home), "TZ": "UTC", "TERM": "xterm-256color", **more}
    process = subprocess.Popen(
        [BIN, *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env=ours,
        cwd=home.parent,
    )
    os.close(follower)
    written = b""
    while True:
        try:
            block = os.read(leader, 1 << 16)
        except OSError:
            break
        if not block:
            break
        written += block
    process.wait(30)
    os.close(leader)
    screen = pyte.HistoryScreen(columns, 24, history=2000)
    pyte.ByteStream(screen).feed(written)
    above = ["".join(line[at].data for at in range(columns)) for line in screen.history.top]
    return [line.rstrip() for line in [*above, *screen.display] if line.strip()], written


@pytest.mark.parametrize("columns", [80, 60, 40])
def test_a_narrow_log_has_the_words_of_each_record_below_its_columns(
    home: Path, columns: int
) -> None:
    lines, _ = drawn(home, columns, "log", "-n", "0", COLUMNS=str(columns))
    heads = [at for at, line in enumerate(lines) if line[:9].strip().isdigit()]
    assert len(heads) > 3
    for head, following in zip(heads, [*heads[1:], len(lines)], strict=True):
        assert following - head >= 2
        words = lines[head + 1 : following]
        assert all(line.startswith(" " * 9) for line in words)
        assert len(words) <= (2 if columns == 80 else 5), words


def test_a_wide_log_is_a_table(home: Path) -> None:
    lines, _ = drawn(home, 140, "log", "-n", "3")
    assert lines[0].split()[:4] == ["seq", "time", "kind", "role"]
    assert sum(line[:9].strip().isdigit() for line in lines) == 3


@pytest.mark.parametrize("verb", [["log", "stats"], ["key", "show"]])
def test_sentences_and_tables_are_not_broken_at_80_columns(home: Path, verb: list[str]) -> None:
    lines, written = drawn(home, 80, *verb)
    sent = [line for line in written.decode().split("\r\n") if line and "vkey:" not in line]
    assert max(map(len, sent)) <= 80
    assert lines


def test_a_file_is_scanned_with_something_of_each_line_in_40_columns(home: Path) -> None:
    lines, _ = drawn(home, 40, "scan", "notes.md")
    assert "e•••" in lines[1]
    assert "•••" in lines[2]


@pytest.mark.parametrize("name", ["NO_COLOR", "SPHRAGIS_NO_COLOR"])
@pytest.mark.parametrize("verb", [["log"], ["log", "show", "1"], ["scan", "notes.md"]])
def test_colors_can_be_turned_off_everywhere(home: Path, verb: list[str], name: str) -> None:
    _, plain = drawn(home, 80, *verb, **{name: "1"})
    assert b"\x1b[3" not in plain.replace(b"\x1b[3m", b"")
