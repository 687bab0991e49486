"""`sphragis scan`, `redact` and `reveal` as people and scripts run them."""

from __future__ import annotations

import io
import json
import os
import pty
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from gateway.chunks import LONGEST, Chunk, chunks
from gateway.cli import run
from gateway.inspecting import finds_of, masked
from gateway.redaction.policy_file import load_policy
from gateway.redaction.spans import Span

BIN = Path(sys.executable).parent / "sphragis"

SAMPLE = (
    "Write to maria.lopez@corp.example\n"
    "tel +44 20 7946 0958, card 4242 4242 4242 4242\r\n"
    "DB_PASSWORD=hunter2xyz!!\n"
    "nothing in this line\n"
)
VALUES = ("maria.lopez@corp.example", "+44 20 7946 0958", "4242 4242 4242 4242", "hunter2xyz!!")
KEY = "-----BEGIN PRIVATE KEY-----\n" + "MIIBVgIBADANBgkq\n" * 40 + "-----END PRIVATE KEY-----\n"


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: bytes
    stderr: bytes


def environment(home: Path, **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPHRAGIS_")}
    return {**clean, "SPHRAGIS_HOME": str(home), **more}


def program(*arguments: str, home: Path, given: bytes = b"", **more: str) -> Done:
    """Run the program itself."""
    done = subprocess.run(
        [str(BIN), *arguments],
        capture_output=True,
        input=given,
        timeout=120,
        check=False,
        env=environment(home, **more),
    )
    return Done(done.returncode, done.stdout, done.stderr)


def sphragis(*arguments: str, home: Path, given: bytes = b"", **more: str) -> Done:
    """Run a command line in this process, which is a second faster."""
    texts = [io.TextIOWrapper(io.BytesIO(data), "utf-8") for data in (given, b"", b"")]
    stdin, stdout, stderr = texts
    with (
        mock.patch.dict(os.environ, environment(home, **more), clear=True),
        mock.patch.multiple(sys, stdin=stdin, stdout=stdout, stderr=stderr),
    ):
        code = run(arguments)
    for text in texts[1:]:
        text.flush()
    return Done(code, stdout.buffer.getvalue(), stderr.buffer.getvalue())  # type: ignore[attr-defined]


def one_sentence(done: Done, code: int) -> str:
    assert done.returncode == code, done
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("error: ")
    assert line.endswith(".")
    return line


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "notes.txt"
    path.write_bytes(SAMPLE.encode())
    return path


# -- cutting long texts ---------------------------------------------------------------------------


def find_ats(text: str) -> list[Span]:
    """A stand-in for the rules: everything between < and > is a find, key blocks too."""
    spans, at = [], 0
    while (start := text.find("<", at)) >= 0 and (end := text.find(">", start)) >= 0:
        spans.append(Span(start, end + 1, "TERM", 1.0, "t"))
        at = end + 1
    return spans


def whole(parts: list[Chunk]) -> tuple[str, list[tuple[int, int]]]:
    text, found = "", []
    for part in parts:
        found += [(len(text) + s.start, len(text) + s.end) for s in part.spans]
        text += part.text
    return text, found


@pytest.mark.parametrize("seed", range(12))
def test_a_text_in_parts_gives_what_the_whole_text_gives(seed: int) -> None:
    chance = random.Random(seed)
    words = ["word", "<a>", "<a longer\nfind over lines>", "\n", "\n\n", "x" * 30, "é\udc80"]
    text = "".join(chance.choice(words) + chance.choice([" ", "", "\n"]) for _ in range(600))
    pieces: list[str] = []
    at = 0
    while at < len(text):
        step = chance.randint(1, 90)
        pieces.append(text[at : at + step])
        at += step
    parts = list(chunks(pieces, find_ats, size=200, margin=60))
    assert len(parts) > 3
    assert whole(parts) == (text, [(s.start, s.end) for s in find_ats(text)])
    at = 0
    for part in parts:
        line = text.count("\n", 0, at) + 1
        column = at - text.rfind("\n", 0, at)
        assert (part.line, part.column) == (line, column)
        at += len(part.text)


def test_a_key_block_is_never_cut() -> None:
    text = "line of text\n" * 20 + KEY + "more text\n" * 40
    pieces = [text[at : at + 50] for at in range(0, len(text), 50)]
    for part in chunks(pieces, find_ats, size=300, margin=40):
        assert part.text.count("-----BEGIN") == part.text.count("-----END")


def test_a_text_without_a_place_to_cut_is_held_only_so_long() -> None:
    asked: list[int] = []

    def find(text: str) -> list[Span]:
        asked.append(len(text))
        return []

    assert "".join(c.text for c in chunks(["x" * 4096] * 64, find, size=8192, margin=64))
    assert max(asked) < LONGEST
    assert len(asked) < 12


def test_lines_and_columns_count_from_one_in_characters() -> None:
    text = "é <a>\n\n  <b\nc> <d>\n"
    finds = list(finds_of(Chunk(text, find_ats(text), 1, 1), load_policy()))
    places = [(f.line, f.column, f.end_line, f.end_column) for f in finds]
    assert places == [(1, 3, 1, 6), (3, 3, 4, 3), (4, 4, 4, 7)]
    assert finds[2].before == "[TERM] "
    later = list(finds_of(Chunk("<a>", find_ats("<a>"), 7, 5), load_policy()))
    assert [(f.line, f.column) for f in later] == [(7, 5)]


def test_a_shadow_shows_no_more_than_a_first_character_and_of_secrets_none() -> None:
    def shadow(kind: str, value: str) -> str:
        (found,) = finds_of(Chunk(value, [Span(0, len(value), kind, 1, "t")], 1, 1), load_policy())
        return masked(found)

    assert shadow("EMAIL", "jane@corp.example") == "j••••••• (17)"
    assert shadow("SECRET", "hunter2xyz") == "•••••••• (10)"
    assert shadow("SSN", "12345") == "••••• (5)"


# -- scan -----------------------------------------------------------------------------------------


def test_scan_says_where_and_why_and_shows_no_value(home: Path, sample: Path) -> None:
    done = program("scan", str(sample), home=home)
    assert done.returncode == 1
    lines = done.stdout.decode().splitlines()
    assert [line.split(" ")[:2] for line in lines] == [
        [f"{sample}:1:10:", "EMAIL"],
        [f"{sample}:2:5:", "PHONE"],
        [f"{sample}:2:28:", "CARD"],
        [f"{sample}:3:13:", "SECRET"],
    ]
    assert not any(value in done.stdout.decode() for value in VALUES)
    assert "4 found" in done.stderr.decode()
    assert not home.exists()  # a look changes nothing


def test_scan_prints_the_values_only_when_asked(home: Path, sample: Path) -> None:
    shown = sphragis("scan", "--show", str(sample), home=home).stdout.decode()
    assert all(value in shown for value in VALUES)


def test_scan_speaks_json_one_object_a_line(home: Path, sample: Path) -> None:
    done = sphragis("scan", "--json", "-", home=home, given=SAMPLE.encode())
    assert (done.returncode, done.stderr) == (1, b"")
    finds = [json.loads(line) for line in done.stdout.splitlines()]
    assert [f["kind"] for f in finds] == ["EMAIL", "PHONE", "CARD", "SECRET"]
    first = finds[0]
    assert (first["line"], first["column"], first["end_column"]) == (1, 10, 34)
    assert first["action"] == "token"
    assert 0 < first["score"] <= 1
    assert first["rule"]
    assert "value" not in first
    shown = sphragis("scan", "--json", "--show", str(sample), home=home)
    assert [json.loads(line)["value"] for line in shown.stdout.splitlines()] == list(VALUES)


def test_scan_exits_0_where_there_is_nothing(home: Path, tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text("def f() -> None:\n    return None\n")
    done = sphragis("scan", str(tmp_path / "clean.py"), home=home)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"Nothing found in 1 file" in done.stderr
    assert sphragis("scan", home=home).returncode == 0  # standard input, empty


@pytest.mark.parametrize("arguments", [["gone.txt"], ["--nope"], ["--policy", "gone.toml", "."]])
def test_scan_called_wrongly_exits_3(home: Path, arguments: list[str]) -> None:
    one_sentence(sphragis("scan", *arguments, home=home), 3)


def test_scan_walks_folders_without_version_control_and_links(home: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in ("b/one.txt", ".git/two.txt", "a/.env", "c/three.txt"):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(f"mail {name[0]}x@corp.example\n")
    (tree / "c" / "bin").write_bytes(b"\x7fELF\0\0 zz@corp.example")
    (tree / "loop").symlink_to(tree)
    done = sphragis("scan", str(tree), home=home)
    files = [line.partition(":")[0] for line in done.stdout.decode().splitlines()]
    assert files == [str(tree / name) for name in ("a/.env", "b/one.txt", "c/three.txt")]
    assert b"1 not text" in done.stderr
    named = sphragis("scan", str(tree / "c" / "bin"), home=home)
    assert (named.returncode, named.stdout) == (0, b"")
    assert b"skipped, binary." in named.stderr


def test_many_files_are_shared_by_processes_and_stay_in_order(home: Path, tmp_path: Path) -> None:
    filler = "def function(argument):\n    return argument\n" * 12_000
    for number in range(9):
        (tmp_path / f"f{number}.py").write_text(f"{filler}\n# mail {number}x@corp.example\n")
    done = program("scan", *(str(tmp_path / f"f{n}.py") for n in range(9)), home=home)
    assert done.returncode == 1
    names = [Path(line.partition(":")[0]).name for line in done.stdout.decode().splitlines()]
    assert names == [f"f{number}.py" for number in range(9)]


def test_scan_reads_what_windows_writes_and_survives_what_is_no_text(
    home: Path, tmp_path: Path
) -> None:
    (tmp_path / "w.txt").write_text(SAMPLE, encoding="utf-16")
    (tmp_path / "l.txt").write_bytes(SAMPLE.encode() + b"caf\xe9 zz@corp.example\n")
    done = sphragis("scan", str(tmp_path / "w.txt"), str(tmp_path / "l.txt"), home=home)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 9


def test_scan_follows_the_policy_it_is_given(home: Path, sample: Path, tmp_path: Path) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text(
        'id = "p"\nversion = "1"\n[kinds]\nEMAIL = { action = "mask" }\n'
        'PHONE = { action = "allow" }\nCARD = { action = "token", threshold = 1.0 }\n'
    )
    done = sphragis("scan", "--json", "--policy", str(policy), str(sample), home=home)
    finds = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(f["kind"], f["action"]) for f in finds] == [("EMAIL", "mask"), ("SECRET", "token")]
    own = sphragis("scan", str(sample), home=home, SPHRAGIS_POLICY_FILE=str(policy))
    assert len(own.stdout.splitlines()) == 2


def on_a_terminal(*arguments: str, home: Path, **more: str) -> str:
    """Run the program on a terminal of 100 columns; return what it drew."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [str(BIN), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=environment(home, TERM="xterm-256color", COLUMNS="100", **more),
    )
    os.close(theirs)
    drawn = b""
    while True:
        try:
            block = os.read(ours, 65536)
        except OSError:
            break
        if not block:
            break
        drawn += block
    os.close(ours)
    process.wait(60)
    return drawn.decode()


def test_on_a_terminal_scan_draws_in_color_and_obeys_no_color(home: Path, sample: Path) -> None:
    drawn = on_a_terminal("scan", str(sample), home=home)
    assert "\x1b[" in drawn
    assert "EMAIL" in drawn
    assert not any(value in drawn for value in VALUES)
    plain = on_a_terminal("scan", str(sample), home=home, SPHRAGIS_NO_COLOR="1")
    assert "\x1b[3" not in plain.replace("\x1b[3m", "")


def test_a_file_cannot_make_the_terminal_obey(home: Path, tmp_path: Path) -> None:
    evil = tmp_path / "evil.txt"
    evil.write_text("\x1b]0;owned\x07 mail a@corp.example \x1b[2J\u202e done\n")
    drawn = on_a_terminal("scan", "--show", str(evil), home=home)
    assert "\x1b]0" not in drawn
    assert "\x1b[2J" not in drawn
    assert "\u202e" not in drawn


# -- redact and reveal ----------------------------------------------------------------------------


def test_what_redact_replaces_reveal_restores_exactly(home: Path, sample: Path) -> None:
    text = SAMPLE.encode() + KEY.encode() + b"caf\xe9 \xff\xfe raw bytes, \x1b[0m and \r alone\n"
    sample.write_bytes(text)
    redacted = program("redact", str(sample), home=home)
    assert redacted.returncode == 0
    assert not any(value.encode() in redacted.stdout for value in VALUES)
    assert b"MIIBVgIBADANBgkq" not in redacted.stdout
    assert b"5 replaced" in redacted.stderr
    revealed = program("reveal", home=home, given=redacted.stdout)
    assert revealed.stdout == text
    again = program("redact", "-", home=home, given=text)
    assert again.stdout == redacted.stdout  # stable tokens
    for part in (home, home / "vault.db", home / "keys", home / "keys" / "vault.key"):
        assert part.stat().st_mode & 0o077 == 0


def test_only_the_role_that_replaced_may_restore_or_an_operator_for_all(
    home: Path, sample: Path
) -> None:
    redacted = sphragis("redact", "--role", "coder", str(sample), home=home).stdout
    for role in ([], ["--role", "tester"]):
        assert sphragis("reveal", *role, home=home, given=redacted).stdout == redacted
    for role in (["--role", "coder"], ["--all-roles"]):
        assert sphragis("reveal", *role, home=home, given=redacted).stdout == SAMPLE.encode()
    one_sentence(sphragis("reveal", "--role", "a", "--all-roles", home=home), 1)
    one_sentence(sphragis("redact", "--role", "../a", home=home), 1)


def test_a_mask_is_for_good_and_touches_no_vault(home: Path) -> None:
    done = sphragis("redact", "--mask", home=home, given=SAMPLE.encode())
    assert done.stdout.decode().splitlines()[0] == "Write to [EMAIL]"
    assert b"[SECRET]" in done.stdout
    assert not home.exists()


def test_a_file_may_be_rewritten_in_its_place(home: Path, sample: Path) -> None:
    assert sphragis("redact", "-o", str(sample), str(sample), home=home).stdout == b""
    assert b"[EMAIL_" in sample.read_bytes()
    assert sphragis("reveal", "-o", str(sample), str(sample), home=home).returncode == 0
    assert sample.read_bytes() == SAMPLE.encode()
    assert [path.name for path in sample.parent.glob(".*")] == []


def test_a_policy_that_refuses_or_keeps_nothing_is_one_sentence(
    home: Path, sample: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "p.toml"
    policy.write_text('id = "p"\nversion = "1"\n[kinds]\nEMAIL = { action = "refuse" }\n')
    out = tmp_path / "out.txt"
    done = sphragis("redact", "-o", str(out), "--policy", str(policy), str(sample), home=home)
    assert "kind EMAIL" in one_sentence(done, 1)
    assert not out.exists()
    policy.write_text('id = "p"\nversion = "1"\nvault = "off"\n')
    assert "vault" in one_sentence(sphragis("reveal", "--policy", str(policy), home=home), 1)


def test_without_the_key_nothing_is_revealed(home: Path, sample: Path) -> None:
    redacted = sphragis("redact", str(sample), home=home).stdout
    key = home / "keys" / "vault.key"
    key.rename(key.with_name("elsewhere"))
    assert "key" in one_sentence(sphragis("reveal", home=home, given=redacted), 1)
    assert "no vault" in one_sentence(sphragis("reveal", home=home.parent / "other"), 1)


@pytest.mark.parametrize("what", ["gone.txt", "."])
def test_a_source_that_cannot_be_read_is_one_sentence(home: Path, what: str) -> None:
    one_sentence(sphragis("redact", what, home=home), 1)


def test_binary_is_not_copied_unread(home: Path) -> None:
    done = sphragis("redact", home=home, given=b"\0\1\2 a@corp.example")
    assert "not UTF-8 text" in one_sentence(done, 1)
    assert done.stdout == b""


@pytest.fixture(scope="module")
def long_text() -> bytes:
    line = "2026-03-01T10:11:12Z INFO login ok user=jane{n}@corp.example from the office\n"
    return "".join(
        line.format(n=n) if n % 50 == 0 else "plain words and numbers 17 of a log line\n"
        for n in range(20_000)
    ).encode()


def test_a_pipe_of_any_length_comes_back_whole(home: Path, long_text: bytes) -> None:
    redacted = program("redact", home=home, given=long_text).stdout
    assert b"@corp.example" not in redacted
    assert redacted.count(b"[EMAIL_") == 400
    assert program("reveal", home=home, given=redacted).stdout == long_text


def test_a_reader_that_has_enough_is_no_error(home: Path, long_text: bytes, tmp_path: Path) -> None:
    big = tmp_path / "big.log"
    big.write_bytes(long_text)
    done = subprocess.run(
        f"'{BIN}' scan '{big}' | head -1; '{BIN}' redact --mask '{big}' | head -1",
        shell=True,
        capture_output=True,
        check=False,
        env={**os.environ, "SPHRAGIS_HOME": str(home)},
    )
    assert len(done.stdout.splitlines()) == 2
    assert b"Traceback" not in done.stderr
    assert b"error" not in done.stderr
