"""Git in a repository that an agent has prepared: output without end, an index that is none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deck import gitrepo, program_output
from deck.gitrepo import GitError, GitRepo, Hooks


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", "-b", "main", str(tmp_path)], check=True)
    (tmp_path / "a.txt").write_text("a\n")
    identity = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    subprocess.run(["git", "-C", str(tmp_path), "add", "-A"], check=True)
    subprocess.run(["git", "-C", str(tmp_path), *identity, "commit", "-qm", "a"], check=True)
    return tmp_path


def hook(repository: Path, script: str) -> None:
    path = repository / ".git" / "hooks" / "pre-commit"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def commit(repository: Path, seconds: float) -> subprocess.CompletedProcess[bytes]:
    hooks = Hooks(dict(os.environ), seconds=seconds)
    return GitRepo(repository).attempt("commit", "--allow-empty", "-q", "-m", "b", hooks=hooks)


def test_of_a_hook_that_says_much_the_beginning_and_the_end_are_kept(repository: Path) -> None:
    hook(repository, "echo first; head -c 100000000 /dev/zero; echo; echo 'no, because'; exit 1")
    done = commit(repository, 60)
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert said.startswith(b"first\n")
    assert said.endswith(b"no, because\n")
    assert len(said) < 5 << 20


def test_a_hook_that_says_without_end_ends_with_its_time(repository: Path) -> None:
    hook(repository, "exec yes")
    begun = time.monotonic()
    with pytest.raises(GitError, match="did not finish within 1 seconds"):
        commit(repository, 1)
    assert time.monotonic() - begun < 30


def test_what_is_too_much_to_be_kept_whole_is_an_error(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "a.txt").write_text("line\n" * 100_000)
    repo = GitRepo(repository)
    monkeypatch.setattr(gitrepo, "MAX_OUTPUT_BYTES", 1 << 18)
    with pytest.raises(GitError, match="git diff told of more than"):
        repo.run("diff")


def plant_pipe(place: Path) -> None:
    os.mkfifo(place)


def plant_device(place: Path) -> None:
    place.symlink_to("/dev/zero")


def plant_hole(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(1 << 42)


@pytest.mark.parametrize("plant", [plant_pipe, plant_device, plant_hole])
def test_an_index_that_is_none_is_not_copied(repository: Path, plant: object) -> None:
    repo = GitRepo(repository)
    index = repository / ".git" / "index"
    index.unlink()
    assert callable(plant)
    plant(index)
    begun = time.monotonic()
    with pytest.raises(GitError, match="is no index"):
        repo.write_workspace_tree()
    assert time.monotonic() - begun < 30


# -- the conversation itself --------------------------------------------------------------------


def program(code: str) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe)


@pytest.mark.parametrize("size", [0, 1, 65_536, 3_000_000])
def test_a_program_gets_all_its_input_while_it_answers(size: int) -> None:
    code = "import sys\nwhile d := sys.stdin.buffer.read1(999): sys.stdout.buffer.write(d)"
    whole, ends = program_output.Whole(1 << 30), program_output.Ends(100)
    with program(code) as process:
        out, err = program_output.converse(process, b"x" * size, 60, whole, ends)
    assert (out, err, process.returncode) == (b"x" * size, b"", 0)


def test_a_program_that_reads_none_of_its_input_is_heard_all_the_same() -> None:
    whole, ends = program_output.Whole(1 << 20), program_output.Ends(100)
    with program("print('said')") as process:
        out, _ = program_output.converse(process, b"x" * 3_000_000, 60, whole, ends)
    assert out == b"said\n"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(1, 50))
def test_the_ends_are_kept_however_it_is_said(parts: list[bytes], limit: int) -> None:
    ends, said = program_output.Ends(limit), b"".join(parts)
    for part in parts:
        ends.take(part)
    kept = ends.said()
    if b"[...]" in kept and b"[...]" not in said:
        assert kept.startswith(said[:limit])
        assert kept.endswith(said[-limit:])
        longest = max(map(len, parts))
        assert len(kept) <= 2 * limit + longest + len("\n[...]\n")
    else:
        assert kept == said or b"[...]" in said
