"""Checkpoints and undo against real git: what is kept, what is put back, what is never touched."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from git_tools import git
from hypothesis import given, settings
from hypothesis import strategies as st

from deck.checkpoints import (
    Checkpoint,
    CheckpointNotFound,
    Checkpoints,
    GitError,
    GitMissing,
    Kind,
    NotARepository,
    delivery_subject,
)
from deck.events import EventLog
from deck.restore import RollbackFailed
from deck.rollback import RollbackConflict, RollbackStale
from deck.rollback_plan import Overlap, Scope

pytestmark = pytest.mark.usefixtures("own_git_settings")

ODD_NAMES = ["with space", "tab\there", 'quo"te', "new\nline", "ünï-😀", "-dash", ":(top)x", "a*b"]


class Work:
    """A repository with a deck in it, and the state that no checkpoint may change."""

    def __init__(self, top: Path, deck: Path | None = None) -> None:
        self.top = top
        self.store = Checkpoints(deck or top)

    def write(self, path: str, text: str = "x\n") -> Path:
        place = self.top / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        return place

    def read(self, path: str) -> str | None:
        place = self.top / path
        return place.read_text() if place.exists() else None

    def deliver(self, task: str, role: str = "coder") -> Checkpoint:
        return self.store.create(task, delivery_subject(task, role, "do it"))

    def end(self, task: str) -> Checkpoint:
        return self.store.create(f"{task}-done", f"{task} done")

    def undo(
        self, name: str, scope: Scope = Scope.TASK, overlap: Overlap = Overlap.REFUSE
    ) -> tuple[int, int]:
        plan = self.store.plan_rollback(self.store.find(name), scope, overlap)
        outcome = self.store.rollback(plan)
        return outcome.restored, outcome.deleted

    def users(self) -> dict[str, object]:
        index = self.top / ".git" / "index"
        return {
            "index": index.read_bytes() if index.exists() else None,
            "index time": index.stat().st_mtime_ns if index.exists() else None,
            "HEAD": (self.top / ".git" / "HEAD").read_bytes(),
            "branches": git(self.top, "for-each-ref", "refs/heads", "refs/tags", "refs/stash"),
            "stash": git(self.top, "stash", "list"),
            "config": (self.top / ".git" / "config").read_bytes(),
        }


@pytest.fixture
def work(tmp_path: Path) -> Work:
    top = tmp_path / "project"
    top.mkdir()
    git(top, "init", "-q")
    (top / "kept.txt").write_text("kept\n")
    (top / ".gitignore").write_text("*.log\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "first")
    return Work(top)


def test_a_checkpoint_is_a_parentless_commit_by_the_deck(work: Work) -> None:
    made = work.deliver("T1")
    shown = git(work.top, "log", "-1", "--format=%an|%ae|%cn|%ce|%P|%B", made.commit)
    head = git(work.top, "rev-parse", "HEAD").strip()
    assert shown.startswith(
        "choragos|choragos@localhost|choragos|choragos@localhost||T1 -> coder: do it\n\n"
        f"head: {head}\n"
    )
    assert re.fullmatch(r"refs/choragos/checkpoints/\d+-T1", made.ref)
    assert work.store.find("T1") == made
    assert work.store.find(made.ref) == made
    assert work.store.find(made.ref.split("/")[-1]) == made
    assert (made.kind, made.role, made.task_id) == (Kind.DELIVERY, "coder", "T1")


def test_nothing_of_the_user_changes(work: Work) -> None:
    work.write("staged.txt", "staged")
    git(work.top, "add", "staged.txt")
    work.write("staged.txt", "and edited")
    work.write("stashed.txt", "s")
    git(work.top, "add", "stashed.txt")
    git(work.top, "stash", "-q", "--keep-index")
    git(work.top, "branch", "other")
    work.write("noise.log", "ignored")
    before = work.users()
    work.deliver("T1")
    work.write("kept.txt", "changed")
    work.write("new.txt")
    work.write("noise.log", "ignored, changed")
    work.end("T1")
    assert work.undo("T1") == (1, 1)
    assert work.users() == before
    assert work.read("noise.log") == "ignored, changed"
    assert work.read("kept.txt") == "kept\n"


def test_hooks_and_signing_stay_out_of_it(work: Work, tmp_path: Path) -> None:
    for hook in ("reference-transaction", "post-index-change", "post-checkout", "pre-commit"):
        script = work.top / ".git" / "hooks" / hook
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-{hook}\nexit 1\n")
        script.chmod(0o755)
    git(work.top, "config", "commit.gpgSign", "true")
    git(work.top, "config", "gpg.program", "/nonexistent")
    work.deliver("T1")
    work.write("kept.txt", "changed")
    work.end("T1")
    work.undo("T1")
    assert not list(tmp_path.glob("ran-*"))
    assert work.read("kept.txt") == "kept\n"


def test_a_callers_git_variables_do_not_lead_elsewhere(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "stray-index"))
    monkeypatch.setenv("GIT_LITERAL_PATHSPECS", "1")
    made = Checkpoints(work.top).create("T1", "T1 -> a: b")
    monkeypatch.delenv("GIT_DIR")
    assert made.ref in git(work.top, "for-each-ref", "--format=%(refname)")
    assert not (tmp_path / "stray-index").exists()


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_file_name_survives(work: Work, name: str) -> None:
    work.write(f"dir/{name}", "before")
    work.deliver("T1")
    work.write(f"dir/{name}", "after")
    work.write(f"added/{name}", "added")
    work.end("T1")
    assert work.undo("T1") == (1, 1)
    assert work.read(f"dir/{name}") == "before"
    assert not (work.top / "added").exists()


def test_a_file_name_that_is_not_utf8_survives(work: Work) -> None:
    raw = os.fsencode(work.top) + b"/caf\xe9"
    with open(raw, "wb") as file:
        file.write(b"before")
    work.deliver("T1")
    os.unlink(raw)
    work.end("T1")
    work.undo("T1")
    with open(raw, "rb") as file:
        assert file.read() == b"before"


def test_links_execute_bits_and_permissions_come_back(work: Work) -> None:
    script = work.write("run.sh", "#!/bin/sh\n")
    script.chmod(0o750)
    secret = work.write("private.txt", "one")
    secret.chmod(0o600)
    (work.top / "link").symlink_to("kept.txt")
    (work.top / "dangling").symlink_to("/nonexistent/place")
    work.deliver("T1")
    script.chmod(0o640)
    secret.write_text("two")
    (work.top / "link").unlink()
    (work.top / "link").write_text("a file now")
    (work.top / "dangling").unlink()
    (work.top / "dangling").symlink_to("elsewhere")
    work.end("T1")
    assert work.undo("T1") == (4, 0)
    assert script.stat().st_mode & 0o777 == 0o750
    assert secret.stat().st_mode & 0o777 == 0o600
    assert secret.read_text() == "one"
    assert (work.top / "link").readlink() == Path("kept.txt")
    assert (work.top / "dangling").readlink() == Path("/nonexistent/place")


def test_a_deleted_tree_comes_back_and_a_new_one_goes_with_its_directories(work: Work) -> None:
    work.write("old/deep/a")
    work.write("old/deep/b")
    (work.top / "was-empty").mkdir()
    work.deliver("T1")
    for name in ("a", "b"):
        (work.top / "old" / "deep" / name).unlink()
    (work.top / "old" / "deep").rmdir()
    (work.top / "old").rmdir()
    work.write("fresh/deep/c")
    (work.top / "fresh" / "hollow" / "more").mkdir(parents=True)
    work.write("was-empty/d")
    work.end("T1")
    assert work.undo("T1") == (2, 2)
    assert work.read("old/deep/b") == "x\n"
    assert not (work.top / "fresh").exists()
    assert (work.top / "was-empty").is_dir()


@pytest.mark.parametrize("tick", range(8))
def test_a_directory_made_right_before_a_snapshot_stays_and_one_made_right_after_it_goes(
    work: Work, tick: int
) -> None:
    def after_the_last_moment() -> int:
        # Each run begins at another part of the kernel's tick.
        time.sleep(tick / 1000)
        (work.top / "before").mkdir(exist_ok=True)
        return time.time_ns()

    work.store = Checkpoints(work.top, clock=after_the_last_moment)
    work.deliver("T1")
    work.write("before/a")
    work.write("after/a")
    work.end("T1")
    work.undo("T1")
    assert (work.top / "before").is_dir()
    assert not (work.top / "after").exists()


def test_files_and_directories_may_trade_places(work: Work) -> None:
    work.write("a", "file")
    work.write("b/inner", "in a directory")
    work.deliver("T1")
    (work.top / "a").unlink()
    work.write("a/now/directory", "x")
    (work.top / "b" / "inner").unlink()
    (work.top / "b").rmdir()
    (work.top / "b").symlink_to("/etc")
    work.end("T1")
    work.undo("T1")
    assert work.read("a") == "file"
    assert not (work.top / "b").is_symlink()
    assert work.read("b/inner") == "in a directory"


def test_an_ignored_file_in_the_way_is_left_and_said(work: Work) -> None:
    work.write("a", "file")
    work.write("data.txt", "before")
    work.deliver("T1")
    (work.top / "a").unlink()
    work.write("a/build.log", "ignored by git")
    work.write(".gitignore", "*.log\ndata.txt\n")
    work.write("data.txt", "changed and now ignored")
    work.end("T1")
    plan = work.store.plan_rollback(work.store.find("T1"))
    assert {finding.path for finding in plan.left_alone} == {"a", "data.txt"}
    work.store.rollback(plan)
    assert work.read("a/build.log") == "ignored by git"
    assert work.read("data.txt") == "changed and now ignored"
    assert work.read(".gitignore") == "*.log\n"


def test_submodules_and_nested_repositories_are_left_alone(work: Work, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    (library / "lib.c").write_text("int x;")
    git(library, "add", "-A")
    git(library, "commit", "-qm", "lib")
    git(work.top, "submodule", "--quiet", "add", str(library), "lib")
    git(work.top, "commit", "-qm", "with library")
    (work.top / "empty-nested").mkdir()
    git(work.top / "empty-nested", "init", "-q")
    work.write("empty-nested/file")
    work.deliver("T1")
    (work.top / "lib" / "lib.c").write_text("int y;")
    git(work.top / "lib", "commit", "-aqm", "moved")
    work.write("kept.txt", "changed")
    work.end("T1")
    plan = work.store.plan_rollback(work.store.find("T1"))
    assert [finding.path for finding in plan.left_alone] == ["lib"]
    work.store.rollback(plan)
    assert work.read("lib/lib.c") == "int y;"
    assert work.read("kept.txt") == "kept\n"
    assert work.read("empty-nested/file") == "x\n"


def test_a_deck_in_a_subdirectory_covers_the_repository_but_no_deck_files(
    work: Work, tmp_path: Path
) -> None:
    sub = work.top / "services" / "api"
    sub.mkdir(parents=True)
    deck = Work(work.top, sub)
    work.write("services/api/.choragos/tasks/T1.md", "task")
    work.write(".choragos/memory.md", "other deck")
    work.write("services/api/main.py", "old")
    work.write(".choragos.toml", "# team")
    git(work.top, "add", "-f", ".choragos/memory.md")
    made = deck.deliver("T1")
    names = git(work.top, "ls-tree", "-r", "--name-only", made.commit).split()
    assert names == [".choragos.toml", ".gitignore", "kept.txt", "services/api/main.py"]
    work.write("services/api/main.py", "new")
    work.write("kept.txt", "changed at the top")
    work.write("services/api/.choragos/tasks/T1.md", "task, later")
    deck.end("T1")
    assert deck.undo("T1") == (2, 0)
    assert work.read("kept.txt") == "kept\n"
    assert work.read("services/api/.choragos/tasks/T1.md") == "task, later"
    with pytest.raises(CheckpointNotFound, match="another directory"):
        work.store.find("T1")


def test_a_repository_without_a_commit_works(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    work = Work(tmp_path)
    empty = work.deliver("T1")
    assert empty.head is None
    work.write("made.txt")
    work.end("T1")
    assert work.undo("T1") == (0, 1)
    assert not (tmp_path / ".git" / "index").exists()


def test_without_a_repository_or_git_the_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotARepository, match="git init"):
        Checkpoints(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GitMissing, match="install git"):
        Checkpoints(tmp_path)


def test_a_linked_worktree_works(work: Work, tmp_path: Path) -> None:
    git(work.top, "worktree", "add", "-q", str(tmp_path / "second"))
    other = Checkpoints(tmp_path / "second")
    made = other.create("T1", "T1 -> a: b")
    (tmp_path / "second" / "kept.txt").write_text("changed")
    other.create("T1-done", "T1 done")
    other.rollback(other.plan_rollback(made))
    assert (tmp_path / "second" / "kept.txt").read_text() == "kept\n"


def test_files_git_was_told_not_to_look_at_are_covered(work: Work) -> None:
    for name in ("assumed", "skipped"):
        work.write(name, "before")
    git(work.top, "add", "-A")
    git(work.top, "commit", "-qm", "two")
    git(work.top, "update-index", "--assume-unchanged", "assumed")
    git(work.top, "update-index", "--skip-worktree", "skipped")
    before = work.users()
    work.deliver("T1")
    work.write("assumed", "after!")
    work.write("skipped", "after!")
    work.end("T1")
    assert work.undo("T1") == (2, 0)
    assert (work.read("assumed"), work.read("skipped")) == ("before", "before")
    assert work.users() == before


def test_a_sparse_checkout_stays_sparse(work: Work) -> None:
    work.write("in/a")
    work.write("out/b")
    git(work.top, "add", "-A")
    git(work.top, "commit", "-qm", "two")
    git(work.top, "sparse-checkout", "set", "in")
    made = work.deliver("T1")
    assert "out/b" in git(work.top, "ls-tree", "-r", "--name-only", made.commit)
    work.write("in/a", "changed")
    work.end("T1")
    work.undo("T1")
    assert work.read("in/a") == "x\n"
    assert not (work.top / "out").exists()


def test_filters_are_used_as_git_uses_them(work: Work) -> None:
    git(work.top, "config", "filter.upper.clean", "tr a-z A-Z")
    git(work.top, "config", "filter.upper.smudge", "tr A-Z a-z")
    work.write(".gitattributes", "*.big filter=upper\n")
    work.write("file.big", "content\n")
    made = work.deliver("T1")
    assert git(work.top, "show", f"{made.commit}:file.big") == "CONTENT\n"
    work.write("file.big", "other\n")
    work.write(".gitattributes", "")
    work.end("T1")
    work.undo("T1")
    assert work.read("file.big") == "content\n"


def test_a_file_in_conflict_in_the_index_is_stored_as_it_is(work: Work) -> None:
    git(work.top, "checkout", "-qb", "side")
    work.write("kept.txt", "side\n")
    git(work.top, "commit", "-qam", "side")
    git(work.top, "checkout", "-q", "main")
    work.write("kept.txt", "main\n")
    git(work.top, "commit", "-qam", "main")
    subprocess.run(["git", "merge", "side"], cwd=work.top, capture_output=True, check=False)
    before, marked = work.users(), work.read("kept.txt")
    work.deliver("T1")
    work.write("kept.txt", "resolved")
    work.end("T1")
    work.undo("T1")
    assert work.read("kept.txt") == marked
    assert work.users() == before


def test_checkpoints_of_one_second_do_not_overwrite_each_other(work: Work) -> None:
    stopped = Checkpoints(work.top, clock=lambda: 1_700_000_000_000_000_000)
    made = [stopped.create("T1", f"T1 -> coder: {n}") for n in range(4)]
    assert len({found.ref for found in made}) == 4
    assert stopped.find("T1") == made[-1]
    assert [found.subject[-1] for found in stopped.list()] == ["3", "2", "1", "0"]


def test_a_clock_set_back_does_not_hide_the_newest(work: Work) -> None:
    now = [2_000_000_000_000_000_000]
    store = Checkpoints(work.top, clock=lambda: now[0])
    store.create("T1", "T1 -> coder: old")
    now[0] -= 10**15
    assert store.find("T1") != store.create("T1", "T1 -> coder: new") == store.find("T1")


def test_foreign_refs_are_skipped_and_an_unknown_name_is_an_error(work: Work) -> None:
    git(work.top, "update-ref", "refs/choragos/checkpoints/mine", "HEAD")
    git(work.top, "update-ref", "refs/choragos/checkpoints/1700000000-T7", "HEAD")
    assert [found.name for found in work.store.list()] == ["T7"]
    with pytest.raises(CheckpointNotFound, match="choragos checkpoints"):
        work.store.find("T1")


@pytest.mark.parametrize("name", ["", "../x", "a b", "-x", "T1.lock", "x" * 200])
def test_a_name_that_cannot_be_a_ref_is_refused(work: Work, name: str) -> None:
    with pytest.raises(GitError, match="cannot name a checkpoint"):
        work.store.create(name, "s")


def test_a_label_of_many_lines_stays_in_the_subject(work: Work) -> None:
    made = work.store.create(
        "T1", delivery_subject("T1", "coder", "fix\nhead: 0\n\x00\x1b[31m" * 40)
    )
    assert "\n" not in made.subject
    assert made.subject.startswith("T1 -> coder: fix head: 0")
    assert len(made.subject) == 200
    assert made.head == git(work.top, "rev-parse", "HEAD").strip()


def test_undo_covers_only_what_the_task_changed(work: Work) -> None:
    work.write("mine.txt", "user's, untracked")
    work.deliver("T1")
    work.write("kept.txt", "by T1")
    work.write("t1.txt")
    work.end("T1")
    work.deliver("T2")
    work.write("t2.txt")
    work.end("T2")
    work.write("mine.txt", "user's, later")
    work.write("users-own.txt")
    assert work.undo("T1") == (1, 1)
    assert work.read("t2.txt") == "x\n"
    assert work.read("users-own.txt") == "x\n"
    assert work.read("mine.txt") == "user's, later"
    assert work.read("t1.txt") is None


def test_a_task_beside_others_undoes_what_it_changed_alone(work: Work) -> None:
    work.deliver("T1", "coder")
    work.write("t1.txt")
    work.deliver("T2", "writer")
    work.write("unclear.txt")
    work.end("T1")
    work.write("t2.txt")
    work.end("T2")
    plan = work.store.plan_rollback(work.store.find("T1"))
    assert [change.path for change in plan.changes] == ["t1.txt"]
    assert [(f.path, f.reason) for f in plan.left_alone] == [
        ("unclear.txt", "T1, T2 were at work together when it changed")
    ]
    assert "T2 worked at the same time" in plan.notes[0]
    work.store.rollback(plan)
    assert (work.read("t1.txt"), work.read("t2.txt")) == (None, "x\n")
    plan = work.store.plan_rollback(work.store.find("T2"))
    assert [change.path for change in plan.changes] == ["t2.txt"]
    assert work.undo("T1", overlap=Overlap.OVERWRITE) == (0, 1)
    assert work.read("unclear.txt") is None


def test_what_changed_while_two_were_at_work_is_nobodys_by_elimination(work: Work) -> None:
    work.deliver("T1", "coder")
    work.deliver("T2", "writer")
    work.write("t1.txt")
    work.end("T1")
    work.write("t2.txt")
    work.end("T2")
    plan = work.store.plan_rollback(work.store.find("T1"))
    assert not plan.changes
    assert [finding.path for finding in plan.left_alone] == ["t1.txt"]
    assert work.undo("T2") == (0, 1)
    assert (work.read("t1.txt"), work.read("t2.txt")) == ("x\n", None)


def test_a_file_a_task_changed_alone_and_then_beside_another_is_in_doubt(work: Work) -> None:
    work.deliver("T1", "coder")
    work.write("kept.txt", "by T1")
    work.deliver("T2", "writer")
    work.write("kept.txt", "by T1, and then by T2?")
    work.end("T1")
    plan = work.store.plan_rollback(work.store.find("T1"))
    assert not plan.changes
    assert [finding.path for finding in plan.left_alone] == ["kept.txt"]


def test_what_was_written_about_tasks_is_told_but_decides_nothing(work: Work) -> None:
    log = EventLog(work.top / ".choragos" / "logs" / "events.log")
    work.write(".choragos/tasks/T1.md", "Fix the parser in src/parser.py")
    work.write(".choragos/tasks/T2.md", "Write the manual")
    work.deliver("T1", "coder")
    work.deliver("T2", "writer")
    work.write("src/parser.py")
    work.write("docs/manual.md")
    log.write("INFO", "work-done", id="T2", task="wrote manual.md (see parser.pyc)", report="")
    work.end("T1")
    work.end("T2")
    plan = work.store.plan_rollback(work.store.find("T1"))
    assert not plan.changes
    assert [(f.path, f.reason.partition("; ")[2]) for f in plan.left_alone] == [
        ("docs/manual.md", "named in the texts of T2"),
        ("src/parser.py", "named in the texts of T1"),
    ]


def test_snapshots_from_several_threads_keep_their_order(work: Work) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda n: work.deliver(f"T{n}"), range(8)))
    assert len({found.at for found in made}) == 8
    assert sorted(found.name for found in work.store.list()) == [f"T{n}" for n in range(8)]


def test_a_later_change_to_the_same_file_is_a_conflict(work: Work) -> None:
    work.deliver("T1")
    work.write("kept.txt", "by T1")
    work.write("only-t1.txt")
    work.end("T1")
    work.deliver("T2", "reviewer")
    work.write("kept.txt", "by T2")
    work.end("T2")
    plan = work.store.plan_rollback(work.store.find("T1"))
    assert [(f.path, f.reason) for f in plan.conflicts] == [("kept.txt", "changed later by T2")]
    refs = git(work.top, "for-each-ref")
    with pytest.raises(RollbackConflict, match=r"kept\.txt changed again after T1"):
        work.store.rollback(plan)
    assert work.read("only-t1.txt") == "x\n"
    assert git(work.top, "for-each-ref") == refs
    work.undo("T1", overlap=Overlap.OVERWRITE)
    assert work.read("kept.txt") == "kept\n"


def test_an_undo_can_be_undone_and_done_again(work: Work) -> None:
    work.deliver("T1")
    work.write("kept.txt", "by T1")
    work.write("new/t1.txt")
    work.end("T1")
    work.undo("T1")
    work.write("users.txt", "since the undo")
    assert work.undo("pre-rollback-T1") == (2, 0)
    assert work.read("kept.txt") == "by T1"
    assert work.read("new/t1.txt") == "x\n"
    assert work.read("users.txt") == "since the undo"
    assert work.undo("pre-rollback-T1") == (1, 1)
    assert work.read("kept.txt") == "kept\n"


def test_an_undo_during_another_task_is_not_that_tasks_work(work: Work) -> None:
    work.deliver("T1")
    work.write("kept.txt", "by T1")
    work.end("T1")
    work.deliver("T2", "reviewer")
    work.write("t2.txt")
    work.undo("T1")
    work.end("T2")
    assert work.undo("T2") == (0, 1)
    assert work.read("kept.txt") == "kept\n"


def test_a_task_that_never_reported_can_be_undone_and_that_is_said(work: Work) -> None:
    work.deliver("T1")
    work.write("kept.txt", "half done")
    plan = work.store.plan_rollback(work.store.find("T1"))
    assert "T1 has not reported" in plan.notes[0]
    work.store.rollback(plan)
    assert work.read("kept.txt") == "kept\n"


def test_a_task_without_an_end_ends_when_its_role_is_given_the_next(work: Work) -> None:
    work.deliver("T1")
    work.write("t1.txt")
    work.deliver("T2")
    work.write("t2.txt")
    work.end("T2")
    assert work.undo("T1") == (0, 1)
    assert work.read("t2.txt") == "x\n"


SHAPES = st.sampled_from(["absent", "file", "other file", "program", "link", "directory"])
PATHS = ["a", "b", "a/x", "a/y z", "b/x", "b/x/deep"]


def shape(top: Path, path: str, kind: str) -> None:
    """Make `path` what `kind` says, over whatever is there or in the way."""
    place = top / path
    for parent in reversed(place.relative_to(top).parents[:-1]):
        if (top / parent).is_symlink() or (top / parent).is_file():
            (top / parent).unlink()
        (top / parent).mkdir(exist_ok=True)
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.is_dir():
        shutil.rmtree(place)
    match kind:
        case "file" | "other file" | "program":
            place.write_text(kind)
            place.chmod(0o755 if kind == "program" else 0o644)
        case "link":
            place.symlink_to("/etc")
        case "directory":
            place.mkdir()


def contents(top: Path) -> dict[str, object]:
    """Return every file and link with what git would keep of it."""
    return {
        str(place.relative_to(top)): (
            os.readlink(place)
            if place.is_symlink()
            else (place.read_bytes(), os.stat(place).st_mode)
        )
        for folder, _, files in os.walk(top)
        for place in [Path(folder, name) for name in (*files, *_links(folder))]
        if ".git" not in place.parts
    }


def _links(folder: str) -> list[str]:
    return [n for n in os.listdir(folder) if os.path.islink(os.path.join(folder, n))]


@settings(max_examples=15, deadline=None)
@given(
    before=st.lists(st.tuples(st.sampled_from(PATHS), SHAPES), max_size=6),
    task=st.lists(st.tuples(st.sampled_from(PATHS), SHAPES), max_size=6),
)
def test_undo_and_its_undo_are_exact_whatever_the_task_did(
    before: list[tuple[str, str]], task: list[tuple[str, str]]
) -> None:
    with tempfile.TemporaryDirectory() as place:
        top = Path(place)
        git(top, "init", "-q")
        work = Work(top)
        for path, kind in before:
            shape(top, path, kind)
        was = contents(top)
        work.deliver("T1")
        for path, kind in task:
            shape(top, path, kind)
        became = contents(top)
        work.end("T1")
        work.undo("T1")
        assert contents(top) == was
        if was != became:
            work.undo("pre-rollback-T1")
        assert contents(top) == became


def test_undoing_twice_has_nothing_to_do(work: Work) -> None:
    work.deliver("T1")
    work.write("kept.txt", "by T1")
    work.end("T1")
    work.undo("T1")
    plan = work.store.plan_rollback(work.store.find("T1"))
    assert (plan.changes, plan.conflicts, plan.resumes) == ((), (), None)
    refs = git(work.top, "for-each-ref")
    assert work.store.rollback(plan).undo is None
    assert git(work.top, "for-each-ref") == refs


def test_whole_makes_the_workspace_what_it_was(work: Work) -> None:
    work.deliver("T1")
    work.write("t1.txt")
    work.end("T1")
    work.write("kept.txt", "later")
    work.write("later.txt")
    work.write("noise.log")
    plan = work.store.plan_rollback(work.store.find("T1"), Scope.WHOLE)
    assert [finding.path for finding in plan.left_alone] == ["later.txt"]
    assert [change.path for change in plan.changes] == ["kept.txt", "t1.txt"]
    assert work.undo("T1", Scope.WHOLE, Overlap.OVERWRITE) == (1, 2)
    assert work.read("noise.log") == "x\n"
    assert work.undo("pre-rollback-T1") == (3, 0)
    assert work.read("later.txt") == "x\n"


def test_a_commit_by_the_worker_is_noted_and_stays(work: Work) -> None:
    work.deliver("T1")
    work.write("kept.txt", "by T1")
    git(work.top, "commit", "-qam", "worker's commit")
    head = git(work.top, "rev-parse", "HEAD")
    work.end("T1")
    plan = work.store.plan_rollback(work.store.find("T1"))
    assert "HEAD moved" in plan.notes[0]
    work.store.rollback(plan)
    assert work.read("kept.txt") == "kept\n"
    assert git(work.top, "rev-parse", "HEAD") == head


def test_a_change_while_the_user_decides_stops_the_undo(work: Work) -> None:
    work.deliver("T1")
    work.write("kept.txt", "by T1")
    work.end("T1")
    plan = work.store.plan_rollback(work.store.find("T1"))
    work.write("kept.txt", "someone is quick")
    with pytest.raises(RollbackStale, match="run it again"):
        work.store.rollback(plan)
    assert work.read("kept.txt") == "someone is quick"


def test_an_undo_whose_content_cannot_be_made_changes_nothing(work: Work) -> None:
    git(work.top, "config", "filter.broken.clean", "cat")
    git(work.top, "config", "filter.broken.smudge", "false")
    git(work.top, "config", "filter.broken.required", "true")
    work.write(".gitattributes", "*.big filter=broken\n")
    work.write("file.big", "one")
    work.deliver("T1")
    work.write("file.big", "two")
    work.write("t1.txt")
    work.end("T1")
    was, refs = contents(work.top), git(work.top, "for-each-ref")
    with pytest.raises(RollbackFailed, match="every file is as it was"):
        work.undo("T1")
    assert contents(work.top) == was
    assert git(work.top, "for-each-ref") == refs


def test_pruning_keeps_the_newest_and_undos_have_their_own_budget(work: Work) -> None:
    work.deliver("T0")
    work.write("kept.txt", "by T0")
    work.end("T0")
    work.undo("T0")
    for number in range(1, 6):
        work.deliver(f"T{number}")
        work.end(f"T{number}")
    git(work.top, "update-ref", "refs/choragos/checkpoints/foreign", "HEAD")
    assert work.store.prune(2) == 8
    names = [found.name for found in work.store.list()]
    assert names == [
        "T5-done", "T5", "T4-done", "T4", "pre-rollback-T0-done", "pre-rollback-T0"
    ]  # fmt: skip
    assert work.store.prune(2) == 0
    assert "refs/choragos/checkpoints/foreign" in git(work.top, "for-each-ref")
    assert work.undo("pre-rollback-T0") == (1, 0)
    assert work.read("kept.txt") == "by T0"


def test_keeping_none_removes_every_checkpoint(work: Work) -> None:
    work.deliver("T1")
    work.end("T1")
    assert work.store.prune(0) == 2
    assert work.store.list() == ()
