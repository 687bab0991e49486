"""What an operator gets wrong, whatever the verb: one sentence, the right code, nothing else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from gateway_harness import sphragis_forked
from reading_logs import sample

BIN = Path(sys.executable).parent / "sphragis"
EMAIL = "erika.mustermann@example.org"


def environment(home: Path, **more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPHRAGIS_")}
    return {**clean, "SPHRAGIS_HOME": str(home), "TZ": "UTC", **more}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    sample(folder / "ledger")
    (folder / "ledger-keys").rename(folder / "keys")
    (tmp_path / "notes.md").write_text(f"Mail: {EMAIL}\n")
    return folder


def shell(line: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell in which `sphragis` is ours."""
    return subprocess.run(
        ["bash", "-c", line.replace("sphragis", str(BIN))],
        cwd=home.parent,
        env=environment(home, **more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def one_sentence(result: subprocess.CompletedProcess[str], code: int) -> str:
    [line] = result.stderr.splitlines()
    assert result.returncode == code, result
    assert re.fullmatch(r"error: .*\.", line), line
    assert line.isprintable()
    assert "program itself" not in line
    return line


#: A verb, with {} for the path that cannot be used, and its code for that.
PATHS = (
    ("doctor --config={}", 1),
    ("serve --config={}", 1),
    ("verify {}", 3),
    ("scan {}", 3),
    ("scan --config={} notes.md", 3),
    ("redact {}", 1),
    ("redact notes.md -o {}", 1),
    ("vault stats --config={}", 1),
    ("vault rotate --new-key-file={}", 1),
    ("repair {}", 1),
    ("key show {}", 1),
    ("key rotate {}", 1),
    ("log --ledger={}", 1),
    ("log --deck={}", 1),
    ("export -F jsonl -o {}", 1),
    ("proof --seq 1 -o {}", 1),
    ("proof --consistency={}", 1),
    ("witness key --dir={}", 1),
)


@pytest.mark.parametrize(("line", "code"), PATHS, ids=[line for line, _ in PATHS])
def test_a_path_at_which_the_system_will_not_even_look_is_named(
    home: Path, line: str, code: int
) -> None:
    path = f"{home.parent}/{'x' * 300}/file"
    arguments = [part.replace("{}", path) for part in line.split()]
    arguments = [part.replace("notes.md", str(home.parent / "notes.md")) for part in arguments]
    told = one_sentence(sphragis_forked(*arguments, env=environment(home)), code)
    assert "x" * 60 in told


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("log --ledger={}", 1),
        ("log --deck={}", 1),
        ("export -F jsonl -o {}", 1),
        ("redact - -o {}", 1),
        ("scan --policy={} notes.md", 3),
        ("vault erase --values-from={}", 1),
        ("vault rotate --new-key-file={}", 1),
        ("erase --basis b --request r --expired --new-key-file={}", 1),
        ("doctor --config={}", 1),
    ],
)
def test_the_home_of_a_user_that_nobody_is_holds_nothing(home: Path, line: str, code: int) -> None:
    arguments = line.replace("{}", "~nobody-is-called-so/file").split()
    one_sentence(sphragis_forked(*arguments, env=environment(home)), code)


@pytest.mark.parametrize("text", ["a = " + "[" * 3000, "version = " + "9" * 6000])
def test_a_policy_that_no_parser_can_take_is_named(home: Path, text: str) -> None:
    policy = home.parent / "policy.toml"
    policy.write_text(text)
    notes = str(home.parent / "notes.md")
    result = sphragis_forked("scan", f"--policy={policy}", notes, env=environment(home))
    assert str(policy) in one_sentence(result, 3)


def test_a_verb_written_wrongly_is_answered_with_its_like(home: Path) -> None:
    result = sphragis_forked("scn", env=environment(home))
    assert "Did you mean 'scan'? Run" in one_sentence(result, 1)


def test_each_verb_is_summed_up_whole_in_80_columns(home: Path) -> None:
    told = sphragis_forked("--help", env=environment(home, COLUMNS="80"))
    assert "..." not in told.stdout.replace("[ARGS]...", "")


def test_a_command_with_an_open_quotation_is_refused(home: Path) -> None:
    told = one_sentence(
        sphragis_forked("anchor", "--tsa-command=stamp 'it", env=environment(home)), 1
    )
    assert "--tsa-command" in told


def test_what_a_terminal_would_obey_is_not_echoed(home: Path) -> None:
    for arguments in (["verify", "\x1b[31mgone"], ["key", "show", "\x1b]0;title\x07"], ["\x1b[2J"]):
        code = 3 if arguments[0] == "verify" else 1
        told = one_sentence(sphragis_forked(*arguments, env=environment(home)), code)
        assert "\\x1b" in told


@pytest.mark.parametrize(
    "line",
    [
        "version >&-",
        "log >/dev/full",
        "log show 1 >&-",
        "log stats >/dev/full",
        "log --json >/dev/full",
        "redact --mask notes.md >&-",
        "redact --mask notes.md >/dev/full",
        "export -F jsonl >/dev/full",
        "export -F jsonl >&-",
        "coverage --routes >/dev/full",
    ],
)
def test_output_that_cannot_be_written_is_a_failure_that_says_so(home: Path, line: str) -> None:
    assert "The output cannot be written" in one_sentence(shell(f"sphragis {line}", home), 1)


def test_a_reader_that_has_enough_is_no_failure_to_tell(home: Path) -> None:
    result = shell("sphragis log --json -n 0 | true", home)
    assert (result.returncode, result.stderr) == (0, "")
    result = shell("sphragis version | true", home)
    assert (result.returncode, result.stderr) == (0, "")


def test_what_belongs_on_a_closed_standard_error_stays_out_of_the_output(home: Path) -> None:
    result = shell("sphragis redact --mask notes.md 2>&-", home)
    assert (result.returncode, result.stdout) == (0, "Mail: [EMAIL]\n")


def test_a_closed_standard_input_is_an_empty_one(home: Path) -> None:
    result = shell("sphragis scan <&-", home)
    assert (result.returncode, result.stderr.startswith("Nothing found")) == (0, True)
    result = shell("sphragis redact --mask <&-", home)
    assert (result.returncode, result.stdout) == (0, "")


def test_an_output_that_knows_no_other_letters_gets_what_it_can_show(home: Path) -> None:
    plain = {"PYTHONIOENCODING": "ascii"}
    result = shell("sphragis scan notes.md", home, **plain)
    assert (result.returncode, "e??????? (28)" in result.stdout) == (1, True)
    result = shell("sphragis key show", home, **plain)
    assert (result.returncode, result.stderr) == (0, "")
    result = shell("sphragis log show 3", home, **plain)
    assert (result.returncode, result.stderr) == (0, "")


def test_json_is_utf8_whatever_the_output_is_said_to_be(home: Path) -> None:
    plain = {"PYTHONIOENCODING": "ascii"}
    (home.parent / "Größe.md").write_text(f"{EMAIL}\n")
    result = shell("sphragis scan --json Größe.md", home, **plain)
    assert json.loads(result.stdout)["file"] == "Größe.md"
    whole = shell("sphragis log --json", home).stdout
    assert shell("sphragis log --json", home, **plain).stdout == whole


@pytest.mark.parametrize(
    "line", ["vault erase --token=$'\\xff'", "proof --task=$'\\xff'", "proof --session=$'\\xff'"]
)
def test_an_argument_that_is_no_text_is_refused(home: Path, line: str) -> None:
    shell("sphragis redact notes.md", home)
    assert "UTF-8" in one_sentence(shell(f"sphragis {line}", home), 1)


@pytest.mark.parametrize("patience", ["-5", "nan", "inf", "1e300"])
def test_stop_waits_for_a_time_that_there_is(home: Path, patience: str) -> None:
    (home / "sphragis.pid").write_text("left as it is")
    told = one_sentence(sphragis_forked("stop", f"--patience={patience}", env=environment(home)), 1)
    assert "--patience" in told


# -- what --output names ---------------------------------------------------------------------------


def test_redacting_through_a_link_leaves_no_original_behind_it(home: Path) -> None:
    link, notes = home.parent / "link.md", home.parent / "notes.md"
    link.symlink_to("notes.md")
    result = sphragis_forked("redact", "--mask", str(link), "-o", str(link), env=environment(home))
    assert result.returncode == 0, result
    assert link.is_symlink()
    assert notes.read_text() == "Mail: [EMAIL]\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["redact", "--mask", "notes.md"],
        ["export", "-F", "jsonl"],
        ["proof", "--seq", "1"],
    ],
)
def test_a_pipe_that_is_named_as_output_is_written_to_and_not_replaced(
    home: Path, arguments: list[str]
) -> None:
    pipe, line = home.parent / "pipe", " ".join(["sphragis", *arguments, "-o", "pipe"])
    os.mkfifo(pipe)
    result = shell(f"cat pipe > got & {line}; code=$?; wait; exit $code", home)
    assert result.returncode == 0, result
    assert pipe.is_fifo()
    assert (home.parent / "got").stat().st_size > 0


def test_a_folder_that_is_named_as_output_is_named_in_the_sentence(home: Path) -> None:
    for arguments in (
        ["redact", "--mask", str(home.parent / "notes.md"), "-o", "/"],
        ["export", "-F", "jsonl", "-o", str(home)],
        ["proof", "--seq", "1", "-o", "."],
    ):
        told = one_sentence(sphragis_forked(*arguments, env=environment(home)), 1)
        assert "Is a directory" in told
