"""Undo where it hurts: killed, out of space, two at once, hostile repositories, odd set-ups."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from git_tools import git
from hypothesis import given, settings
from hypothesis import strategies as st

from deck import gitrepo
from deck.checkpoints import (
    Checkpoint,
    CheckpointNotFound,
    Checkpoints,
    GitError,
    delivery_subject,
)
from deck.gitrepo import GitRepo
from deck.restore import RollbackBusy, RollbackFailed, turn
from deck.rollback import RollbackConflict, RollbackStale
from deck.rollback_plan import Overlap, RollbackInterrupted, Scope

pytestmark = pytest.mark.usefixtures("own_git_settings")

PROJECT = Path(__file__).resolve().parents[2]


def repository(top: Path, *options: str) -> Checkpoints:
    top.mkdir(parents=True, exist_ok=True)
    git(top, "init", "-q", *options)
    (top / "kept.txt").write_text("kept\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "first")
    return Checkpoints(top)


@pytest.fixture
def store(tmp_path: Path) -> Checkpoints:
    return repository(tmp_path / "project")


def deliver(store: Checkpoints, task: str, role: str = "coder") -> Checkpoint:
    return store.create(task, delivery_subject(task, role, "do it"))


def end(store: Checkpoints, task: str) -> None:
    store.create(f"{task}-done", f"{task} done")


def undo(store: Checkpoints, name: str, overlap: Overlap = Overlap.REFUSE) -> tuple[int, int]:
    plan = store.plan_rollback(store.find(name), Scope.TASK, overlap)
    outcome = store.rollback(plan)
    return outcome.restored, outcome.deleted


def contents(top: Path) -> dict[str, object]:
    """Return every file, link and directory with what an undo must keep of it."""
    found: dict[str, object] = {}
    for folder, names, files in os.walk(top):
        names[:] = [name for name in names if name != ".git"]
        for name in (*files, *names):
            place = Path(folder, name)
            mode = place.lstat().st_mode
            found[str(place.relative_to(top))] = (
                os.readlink(place)
                if place.is_symlink()
                else (place.read_bytes() if place.is_file() else None, mode)
            )
    return found


def leftovers(store: Checkpoints) -> list[str]:
    return sorted(place.name for place in store.repo.private.iterdir() if place.is_dir())


# -- killed, refused, out of space --------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
from deck.checkpoints import Checkpoints
from deck import restore
store = Checkpoints(Path.cwd())
plan = store.plan_rollback(store.find(sys.argv[1]))
left = int(sys.argv[2])
real = os.rename
def rename(*arguments, **options):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    return real(*arguments, **options)
restore.os.rename = rename
store.rollback(plan)
"""


def killed_rollback(store: Checkpoints, name: str, moves: int) -> None:
    """Undo in a process of its own that is killed before its `moves`-th rename."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, name, str(moves)],
        cwd=store.directory,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def task_with_everything(store: Checkpoints) -> tuple[dict[str, object], dict[str, object]]:
    """Let T1 change a file, make one, delete one, and trade a file for a directory."""
    top = store.repo.top
    (top / "gone.txt").write_text("was here\n")
    (top / "trade").write_text("a file\n")
    before = contents(top)
    deliver(store, "T1")
    (top / "kept.txt").write_text("by T1\n")
    (top / "gone.txt").unlink()
    (top / "new").mkdir()
    (top / "new" / "t1.txt").write_text("x\n")
    (top / "trade").unlink()
    (top / "trade").mkdir()
    (top / "trade" / "inner").write_text("x\n")
    after = contents(top)
    end(store, "T1")
    return before, after


@pytest.mark.parametrize("moves", range(5))
@pytest.mark.parametrize("way", ["finish", "take back"])
def test_an_undo_killed_at_any_move_is_finished_or_taken_back_by_one_command(
    store: Checkpoints, moves: int, way: str
) -> None:
    before, after = task_with_everything(store)
    killed_rollback(store, "T1", moves)
    (store.repo.top / "users.txt").write_text("since")
    deliver(store, "T2", "writer")
    with pytest.raises(RollbackInterrupted, match=r"`choragos rollback T1`.*`.*pre-rollback-T1`"):
        store.plan_rollback(store.find("T2"))
    undo(store, "T1" if way == "finish" else "pre-rollback-T1")
    assert (store.repo.top / "users.txt").read_text() == "since"
    (store.repo.top / "users.txt").unlink()
    now = contents(store.repo.top)
    assert now == (before if way == "finish" else after)
    assert leftovers(store) == []
    # And then all is as after any undo.
    if way == "finish":
        undo(store, "pre-rollback-T1")
        assert contents(store.repo.top) == after
    else:
        undo(store, "T1")
        assert contents(store.repo.top) == before


def test_what_others_wrote_between_a_kill_and_its_repair_is_left_alone(store: Checkpoints) -> None:
    task_with_everything(store)
    killed_rollback(store, "T1", 4)
    (store.repo.top / "kept.txt").write_text("the user's, meanwhile\n")
    plan = store.plan_rollback(store.find("T1"))
    assert [finding.path for finding in plan.left_alone] == ["kept.txt"]
    store.rollback(plan)
    assert (store.repo.top / "kept.txt").read_text() == "the user's, meanwhile\n"


def test_of_two_undos_at_once_one_is_refused(store: Checkpoints) -> None:
    deliver(store, "T1")
    (store.repo.top / "kept.txt").write_text("by T1")
    end(store, "T1")
    plan = store.plan_rollback(store.find("T1"))
    with turn(GitRepo(store.directory)):
        with pytest.raises(RollbackBusy, match="another rollback is under way"):
            store.rollback(plan)
        with pytest.raises(RollbackBusy):
            store.plan_rollback(store.find("T1"))
    assert (store.repo.top / "kept.txt").read_text() == "by T1"
    store.rollback(plan)
    with pytest.raises(RollbackStale):
        Checkpoints(store.directory).rollback(plan)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(disk)], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("a small disk cannot be mounted here")
    try:
        store = repository(disk / "project")
        top = store.repo.top
        for number in range(3):
            (top / f"big{number}").write_bytes(os.urandom(1 << 20))
        deliver(store, "T1")
        for number in range(3):
            (top / f"big{number}").write_text("small now")
        end(store, "T1")
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(shutil.disk_usage(disk).free - (3 << 19)))
        was, refs = contents(top), git(top, "for-each-ref")
        with pytest.raises(RollbackFailed, match="every file is as it was"):
            undo(store, "T1")
        assert contents(top) == was
        assert git(top, "for-each-ref") == refs
        ballast.unlink()
        assert undo(store, "T1") == (3, 0)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_directory_that_cannot_be_written_puts_everything_back(store: Checkpoints) -> None:
    top = store.repo.top
    for name in ("a", "locked/b", "z"):
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_text("before")
    deliver(store, "T1")
    for name in ("a", "locked/b", "z"):
        (top / name).write_text("after")
    (top / "extra").write_text("by T1")
    end(store, "T1")
    was, refs = contents(top), git(top, "for-each-ref")
    plan = store.plan_rollback(store.find("T1"))
    done = subprocess.run(["chattr", "+i", str(top / "locked")], check=False, capture_output=True)
    if done.returncode != 0:
        (top / "locked").chmod(0o500)
        if os.geteuid() == 0:
            pytest.skip("neither attributes nor permissions bind root here")
    try:
        with pytest.raises(RollbackFailed, match="every file is as it was"):
            store.rollback(plan)
    finally:
        subprocess.run(["chattr", "-i", str(top / "locked")], check=False, capture_output=True)
        (top / "locked").chmod(0o755)
    assert contents(top) == was
    assert git(top, "for-each-ref") == refs
    assert leftovers(store) == []


# -- programs that must not run, or not for ever ------------------------------------------------


def hostile(place: Path, marker: Path) -> None:
    """Give a repository settings that name programs."""
    script = place / ".git" / "run-me"
    script.write_text(f"#!/bin/sh\ntouch '{marker}'\ncat\n")
    script.chmod(0o755)
    for key in ("filter.x.clean", "filter.x.smudge", "core.fsmonitor", "core.sshCommand"):
        git(place, "config", key, str(script))
    (place / ".gitattributes").write_text("* filter=x\n")


def test_no_program_of_a_repository_inside_the_repository_runs(
    store: Checkpoints, tmp_path: Path
) -> None:
    top, marker = store.repo.top, tmp_path / "ran"
    library = repository(tmp_path / "library").repo.top
    git(top, "submodule", "--quiet", "add", str(library), "lib")
    repository(top / "tracked")
    git(top, "add", "tracked")
    git(top, "commit", "-qm", "with repositories")
    repository(top / "untracked")
    (top / "lib" / ".git").unlink()
    shutil.move(top / ".git" / "modules" / "lib", top / "lib" / ".git")
    git(top, "config", "--file", "lib/.git/config", "--unset", "core.worktree")
    for name in ("lib", "tracked", "untracked"):
        hostile(top / name, marker)
        (top / name / "kept.txt").write_text("changed\n")
    made = deliver(store, "T1")
    assert git(top, "ls-tree", made.commit, "lib", "tracked", "untracked").count("commit") == 3
    (top / "kept.txt").write_text("by T1")
    end(store, "T1")
    assert undo(store, "T1") == (1, 0)
    assert not marker.exists()


def test_fsmonitor_and_unusual_index_settings_do_not_matter(
    store: Checkpoints, tmp_path: Path
) -> None:
    top = store.repo.top
    script = tmp_path / "monitor"
    script.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\nexit 1\n")
    script.chmod(0o755)
    for key, value in (
        ("core.splitIndex", "true"),
        ("core.untrackedCache", "true"),
        ("index.version", "4"),
        ("feature.manyFiles", "true"),
    ):
        git(top, "config", key, value)
    (top / "second.txt").write_text("two\n")
    git(top, "add", "-A")
    git(top, "update-index", "--split-index")
    git(top, "config", "core.fsmonitor", str(script))
    before = (top / ".git" / "index").read_bytes()
    deliver(store, "T1")
    (top / "second.txt").write_text("by T1\n")
    end(store, "T1")
    assert undo(store, "T1") == (1, 0)
    assert (top / "second.txt").read_text() == "two\n"
    assert (top / ".git" / "index").read_bytes() == before
    assert not (tmp_path / "ran").exists()


def test_a_filter_that_hangs_ends_with_the_time_limit_and_so_do_its_children(
    store: Checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = store.repo.top
    monkeypatch.setattr(gitrepo, "TIMEOUT_SECONDS", 2)
    git(top, "config", "filter.slow.clean", f"sh -c 'echo $$ > {tmp_path}/pid; exec sleep 600'")
    (top / ".gitattributes").write_text("*.slow filter=slow\n")
    (top / "a.slow").write_text("x")
    with pytest.raises(GitError, match="did not finish within 2 seconds"):
        deliver(store, "T1")
    pid = int((tmp_path / "pid").read_text())
    limit = time.monotonic() + 10
    while _runs(pid) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not _runs(pid)
    assert git(top, "for-each-ref", "refs/choragos") == ""


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] != "Z"
    except OSError:
        return False


def test_nothing_is_fetched_for_a_partial_clone(tmp_path: Path) -> None:
    origin = repository(tmp_path / "origin").repo.top
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", origin.as_uri(), "part")
    part = tmp_path / "part"
    git(part, "config", "remote.origin.uploadpack", f"touch '{tmp_path}/asked'; false")
    (part / "mine.txt").write_text("x\n")
    store = Checkpoints(part)
    deliver(store, "T1")
    (part / "mine.txt").write_text("by T1\n")
    end(store, "T1")
    assert undo(store, "T1") == (1, 0)
    assert not (tmp_path / "asked").exists()


# -- odd repositories ---------------------------------------------------------------------------


def test_an_index_lock_of_the_user_is_not_in_the_way(store: Checkpoints) -> None:
    top = store.repo.top
    (top / ".git" / "index.lock").write_text("")
    deliver(store, "T1")
    (top / "kept.txt").write_text("by T1")
    end(store, "T1")
    assert undo(store, "T1") == (1, 0)
    assert (top / ".git" / "index.lock").read_text() == ""


def test_git_used_at_the_same_time_disturbs_neither(store: Checkpoints) -> None:
    top = store.repo.top
    script = "for i in $(seq 30); do echo $i > busy$i; git add -A; git commit -qm $i; done"
    who = {f"GIT_{w}_{k}": "u" for w in ("AUTHOR", "COMMITTER") for k in ("NAME", "EMAIL")}
    with subprocess.Popen(["sh", "-ec", script], cwd=top, env={**os.environ, **who}) as user:
        number = 0
        while user.poll() is None and number < 60:
            number += 1
            deliver(store, f"T{number}")
        assert user.wait(60) == 0
    assert git(top, "rev-list", "--count", "HEAD").strip() == "31"
    assert git(top, "status", "--porcelain") == ""
    git(top, "fsck", "--strict")


def test_a_sha256_repository_works(tmp_path: Path) -> None:
    store = repository(tmp_path / "project", "--object-format=sha256")
    before, after = task_with_everything(store)
    assert len(store.find("T1").commit) == 64
    undo(store, "T1")
    assert contents(store.repo.top) == before
    undo(store, "pre-rollback-T1")
    assert contents(store.repo.top) == after


def test_line_ends_are_put_back_as_git_writes_them(tmp_path: Path) -> None:
    store = repository(tmp_path / "project")
    git(store.repo.top, "config", "core.autocrlf", "true")
    place = store.repo.top / "windows.txt"
    place.write_bytes(b"one\r\ntwo\r\n")
    deliver(store, "T1")
    place.write_bytes(b"other\r\n")
    end(store, "T1")
    undo(store, "T1")
    assert place.read_bytes() == b"one\r\ntwo\r\n"


def test_large_file_pointers_without_their_program_are_files_like_others(
    store: Checkpoints,
) -> None:
    top = store.repo.top
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 9\n"
    (top / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\n")
    (top / "model.bin").write_text(pointer)
    deliver(store, "T1")
    (top / "model.bin").write_text("replaced")
    end(store, "T1")
    assert undo(store, "T1") == (1, 0)
    assert (top / "model.bin").read_text() == pointer


@pytest.mark.parametrize("name", ["-top", "new\nline ", "qu\"o'te", "ünï 😀", os.fsdecode(b"\xff")])
def test_a_repository_may_have_any_name(tmp_path: Path, name: str) -> None:
    store = repository(tmp_path / name)
    before, _ = task_with_everything(store)
    undo(store, "T1")
    assert contents(store.repo.top) == before


def test_links_that_lead_outside_are_replaced_and_never_followed(
    store: Checkpoints, tmp_path: Path
) -> None:
    top, outside = store.repo.top, tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("not ours")
    (outside / "hollow").mkdir()
    for name in ("a", "b", "c"):
        (top / name).mkdir()
        (top / name / "x").write_text("ours")
    (top / "link").symlink_to(outside)
    deliver(store, "T1")
    for name in ("a", "b"):
        shutil.rmtree(top / name)
    (top / "a").symlink_to(outside)
    (top / "b").symlink_to(tmp_path / "nowhere")
    (top / "link").unlink()
    (top / "link").mkdir()
    (top / "link" / "x").write_text("a directory now")
    end(store, "T1")
    undo(store, "T1")
    assert [(top / name / "x").read_text() for name in ("a", "b", "c")] == ["ours"] * 3
    assert (top / "link").readlink() == outside
    assert (outside / "x").read_text() == "not ours"
    assert (outside / "hollow").is_dir()
    assert not (tmp_path / "nowhere").exists()


def test_a_link_that_takes_a_directorys_place_too_late_stops_the_undo(
    store: Checkpoints, tmp_path: Path
) -> None:
    top, outside = store.repo.top, tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("not ours")
    (top / "a").mkdir()
    (top / "a" / "x").write_text("before")
    deliver(store, "T1")
    (top / "a" / "x").write_text("by T1")
    end(store, "T1")
    plan = store.plan_rollback(store.find("T1"))
    shutil.rmtree(top / "a")
    (top / "a").symlink_to(outside)
    with pytest.raises(RollbackStale):
        store.rollback(plan)
    assert (outside / "x").read_text() == "not ours"


def test_a_deck_in_a_worktree_or_a_submodule_keeps_to_it(
    store: Checkpoints, tmp_path: Path
) -> None:
    top = store.repo.top
    library = repository(tmp_path / "library").repo.top
    git(top, "submodule", "--quiet", "add", str(library), "lib")
    git(top, "worktree", "add", "-q", str(tmp_path / "second"))
    for place in (top / "lib", tmp_path / "second"):
        inner = Checkpoints(place)
        deliver(inner, "T1")
        (place / "kept.txt").write_text("by T1")
        end(inner, "T1")
        with turn(store.repo):  # the turn is that of one working tree
            assert undo(inner, "T1") == (1, 0)
        assert (place / "kept.txt").read_text() == "kept\n"


def test_git_directory_on_another_file_system(store: Checkpoints, tmp_path: Path) -> None:
    if not os.path.isdir("/dev/shm") or os.stat("/dev/shm").st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("there is no second file system to write to")
    top = tmp_path / "apart"
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        top.mkdir()
        git(top, "init", "-q", "--separate-git-dir", f"{other}/git")
        store = Checkpoints(top)
        before, _ = task_with_everything(store) if (top / "kept.txt").write_text("k") else ({}, {})
        undo(store, "T1")
        assert contents(top) == before
        assert not (top / ".choragos").exists()


# -- whose work, and how long it is kept --------------------------------------------------------


def test_an_undo_of_the_last_hour_is_not_pruned_by_newer_ones(tmp_path: Path) -> None:
    now = [1_800_000_000_000_000_000]
    repository(tmp_path / "project")
    store = Checkpoints(tmp_path / "project", keep=1, clock=lambda: now[0])
    for number in range(1, 5):
        deliver(store, f"T{number}")
        (store.repo.top / "kept.txt").write_text(f"by T{number}")
        end(store, f"T{number}")
        undo(store, f"T{number}")
    store.prune()
    assert {f.name for f in store.list() if f.name.startswith("pre") and "done" not in f.name} == {
        f"pre-rollback-T{number}" for number in range(1, 5)
    }
    now[0] += 3601 * 1_000_000_000
    deliver(store, "T5")
    store.prune()
    assert [f.name for f in store.list() if f.name.startswith("pre-")] == [
        "pre-rollback-T4-done",
        "pre-rollback-T4",
    ]


def test_a_lost_task_does_not_claim_what_came_after_it(store: Checkpoints) -> None:
    top = store.repo.top
    deliver(store, "T1", "coder")
    (top / "t1.txt").write_text("x")
    store.create("T2", delivery_subject("T2", "writer", "x"), lost=[("T1", "coder")])
    (top / "t2.txt").write_text("x")
    end(store, "T2")
    assert undo(store, "T2") == (0, 1)
    plan = store.plan_rollback(store.find("T1"))
    assert "until its loss was noticed" in plan.notes[0]
    assert [change.path for change in plan.changes] == ["t1.txt"]


def test_what_a_crash_left_open_ends_at_the_next_start(store: Checkpoints) -> None:
    deliver(store, "T1", "coder")
    deliver(store, "T2", "writer")
    end(store, "T2")
    deliver(store, "T3", "writer")
    (store.repo.top / "both.txt").write_text("x")
    assert store.end_lost() == 2
    assert store.end_lost() == 0
    deliver(store, "T4", "coder")
    (store.repo.top / "t4.txt").write_text("x")
    end(store, "T4")
    assert undo(store, "T4") == (0, 1)
    plan = store.plan_rollback(store.find("T3"))
    assert [finding.path for finding in plan.left_alone] == ["both.txt"]


FILES = ["a", "b", "c/d", "c/e"]
ACTS = st.lists(
    st.tuples(st.sampled_from(FILES), st.sampled_from(["write", "write", "delete"])),
    min_size=1,
    max_size=3,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("task"), ACTS),
        st.tuples(st.just("pair"), st.tuples(ACTS, ACTS, ACTS, ACTS, st.integers(0, 2))),
        st.tuples(st.just("user"), st.sampled_from([*FILES, "u"])),
        st.tuples(st.just("undo"), st.integers(0, 2)),
        st.tuples(st.just("undo"), st.integers(0, 2)),
        st.tuples(st.just("redo"), st.integers(0, 2)),
    ),
    min_size=4,
    max_size=9,
)
Acts = list[tuple[str, str]]


class History:
    """A workspace and a model beside it: which files each task touched."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.store = repository(top)
        self.serial = 0
        self.tasks = 0
        self.undone: list[str] = []
        self.touched: dict[str, set[str]] = {}

    def begin(self, role: str) -> str:
        self.tasks += 1
        task = f"T{self.tasks}"
        deliver(self.store, task, role)
        self.touched[task] = set()
        return task

    def act(self, task: str, acts: Acts) -> None:
        for path, action in acts:
            self.serial += 1
            was = contents(self.top)
            place = self.top / path
            if action == "delete":
                place.unlink(missing_ok=True)
            else:
                place.parent.mkdir(exist_ok=True)
                place.write_text(f"{task} {self.serial}")
            changed = _changed(was, contents(self.top))
            self.touched.setdefault(task, set()).update(changed)

    def pair(self, first: Acts, both: Acts, other: Acts, last: Acts, undone: int) -> None:
        """Two tasks of two roles, for a while side by side; an undo in between."""
        one = self.begin("coder")
        self.act(one, first)
        two = self.begin("writer")
        self.act(one, both)
        self.undo(self.some_task(undone))
        self.act(two, other)
        end(self.store, one)
        self.act(two, last)
        end(self.store, two)

    def some_task(self, back: int) -> str:
        """Return one of the latest tasks, 0 being the last."""
        return f"T{max(1, self.tasks - back)}"

    def undo(self, name: str) -> None:
        """Undo, and check that nothing changed but what the task had touched and written."""
        task = name.removeprefix("pre-rollback-")
        was = contents(self.top)
        try:
            undo(self.store, name)
        except (RollbackConflict, CheckpointNotFound):
            assert contents(self.top) == was
            return
        now = contents(self.top)
        if was != now and name == task:
            self.undone.append(name)
        for path in _changed(was, now):
            assert path in self.touched[task], (path, task)
            # A file says who wrote it. An undo replaces only what its task wrote.
            authors = {_author(was.get(path))} | (
                {_author(now.get(path))} if task != name else set()
            )
            assert authors & {task, None}, (path, name, authors)


@settings(max_examples=15, deadline=None)
@given(steps=STEPS)
def test_no_sequence_of_tasks_undos_and_redos_changes_what_others_wrote(
    steps: list[tuple[str, Any]],
) -> None:
    with tempfile.TemporaryDirectory() as place:
        history = History(Path(place))
        for kind, what in steps:
            match kind:
                case "task":
                    task = history.begin("coder")
                    history.act(task, what)
                    end(history.store, task)
                case "pair":
                    history.pair(*what)
                case "user":
                    history.act("user", [(what, "write")])
                case "undo":
                    history.undo(history.some_task(what))
                case "redo":
                    for task in history.undone[-1 - what :][:1]:
                        history.undo(f"pre-rollback-{task}")


def _author(found: object) -> str | None:
    """Return who wrote a file, None where there is none."""
    data = found[0] if isinstance(found, tuple) else None
    return data.decode().split()[0] if isinstance(data, bytes) else None


def _changed(was: dict[str, object], now: dict[str, object]) -> set[str]:
    paths = {path for path in (*was, *now) if was.get(path) != now.get(path)}
    return {path for path in paths if path != "c"}
