"""A role's worktree against real git: made, kept, committed; and never repaired by force."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from git_tools import git

from deck.branches import branch_of, clashes, last_lines
from deck.gitrepo import GitError, Hooks
from deck.worktrees import CommitRefused, Origin, WorktreeError, Worktrees

pytestmark = pytest.mark.usefixtures("own_git_settings")

ODD_NAMES = ["with space", "tab\there", 'quo"te', "new\nline", "ünï-😀", "-dash", ":(top)x", "a*b"]


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    (top / "sub").mkdir(parents=True)
    git(top, "init", "-q")
    (top / "kept.txt").write_text("kept\n")
    (top / "sub" / "inner.txt").write_text("inner\n")
    (top / ".gitignore").write_text("*.log\n.choragos\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "first")
    return top


@pytest.fixture
def trees(top: Path) -> Iterator[Worktrees]:
    trees = Worktrees(top)
    yield trees
    trees.close()


def hooks(seconds: float = 60) -> Hooks:
    environ = {name: os.environ[name] for name in ("PATH", *_GIT) if name in os.environ}
    return Hooks(environ, seconds=seconds)


_GIT = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")


def hook(top: Path, name: str, body: str) -> None:
    place = top / ".git" / "hooks" / name
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/sh\n{body}\n")
    place.chmod(0o755)


def advance(top: Path, name: str = "more.txt", text: str = "more\n") -> str:
    (top / name).write_text(text)
    git(top, "add", "-A")
    git(top, "commit", "-qm", name)
    return git(top, "rev-parse", "HEAD").strip()


# -- what a start needs -------------------------------------------------------------------------


def test_without_git_a_repository_or_a_commit_one_sentence_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WorktreeError, match="run `git init` there and commit"):
        Worktrees(tmp_path)
    git(tmp_path, "init", "-q")
    with pytest.raises(WorktreeError, match="needs a commit to start from"):
        Worktrees(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WorktreeError, match="git, which is not on PATH"):
        Worktrees(tmp_path)


def test_roles_that_would_share_a_worktree_are_named() -> None:
    assert clashes(["coder", "tester"]) == ""
    assert "'a b' and 'a-b'" in clashes(["a b", "a-b"])
    assert "worktree coder" in clashes(["Coder", "coder"])


# -- making -------------------------------------------------------------------------------------


def test_a_worktree_is_a_whole_checkout_of_the_present_commit_on_its_own_branch(
    top: Path, trees: Worktrees
) -> None:
    assert trees.look("coder") is Origin.MADE
    made = trees.make("coder")
    assert made.origin is Origin.MADE
    assert made.top == made.cwd == top / ".choragos" / "worktrees" / "coder"
    assert (made.top / "sub" / "inner.txt").read_text() == "inner\n"
    assert git(made.top, "status", "--porcelain") == ""
    assert git(made.top, "symbolic-ref", "HEAD") == "refs/heads/choragos/coder\n"
    assert made.head == git(top, "rev-parse", "HEAD").strip()
    assert git(top, "status", "--porcelain") == ""
    assert trees.kept() == ["coder"]


def test_a_deck_in_a_subdirectory_puts_the_role_into_the_same_one(top: Path) -> None:
    trees = Worktrees(top / "sub")
    made = trees.make("coder")
    assert made.top == top / "sub" / ".choragos" / "worktrees" / "coder"
    assert made.cwd == made.top / "sub"
    assert (made.cwd / "inner.txt").exists()
    trees.close()


def test_a_directory_in_no_commit_is_made_in_the_worktree(top: Path) -> None:
    (top / "fresh").mkdir()
    trees = Worktrees(top / "fresh")
    assert trees.make("coder").cwd.is_dir()
    trees.close()


def test_a_role_with_a_difficult_name_gets_a_branch(top: Path, trees: Worktrees) -> None:
    made = trees.make("Röle / ..")
    assert made.branch == branch_of("Röle / ..") == "choragos/R-le-----"
    assert made.top.name == "R-le-----"


def test_the_callers_git_variables_do_not_mislead(
    top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fresh worktree that shows every file as deleted has another index than its own."""
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    trees = Worktrees(top)
    made = trees.make("coder")
    trees.close()
    monkeypatch.undo()
    assert git(made.top, "status", "--porcelain") == ""


def test_a_live_checkout_is_taken_as_it_is(top: Path, trees: Worktrees) -> None:
    made = trees.make("coder")
    (made.top / "kept.txt").write_text("half done")
    (made.top / "new file").write_text("untracked")
    head = advance(top)
    again = trees.make("coder")
    assert again.origin is Origin.REUSED
    assert (made.top / "kept.txt").read_text() == "half done"
    assert (made.top / "new file").exists()
    assert again.head != head
    assert trees.standing("coder").behind == 1
    assert trees.standing("coder").uncommitted == 2


def test_a_clean_and_merged_branch_moves_forward(top: Path, trees: Worktrees) -> None:
    made = trees.make("coder")
    head = advance(top)
    assert trees.make("coder").head == head
    assert (made.top / "more.txt").exists()


def test_a_branch_with_work_of_its_own_does_not_move(top: Path, trees: Worktrees) -> None:
    made = trees.make("coder")
    own = advance(made.top, "own.txt")
    advance(top)
    assert trees.make("coder").head == own
    standing = trees.standing("coder")
    assert (standing.ahead, standing.behind, standing.uncommitted) == (1, 1, 0)


def test_moving_forward_never_overwrites_an_ignored_file(top: Path, trees: Worktrees) -> None:
    made = trees.make("coder")
    (made.top / "private.log").write_text("mine")
    (top / "private.log").write_text("theirs")
    git(top, "add", "-f", "private.log")
    git(top, "commit", "-qm", "log")
    again = trees.make("coder")
    assert (made.top / "private.log").read_text() == "mine"
    assert again.head == made.head
    assert "private.log" in again.note


def test_a_deleted_checkout_is_made_again_with_the_work_of_its_branch(
    top: Path, trees: Worktrees
) -> None:
    made = trees.make("coder")
    advance(made.top, "own.txt")
    other = trees.make("tester").top
    trees.close()
    shutil.rmtree(made.top)
    shutil.rmtree(other)
    assert trees.look("coder") is Origin.REMADE
    again = trees.make("coder")
    assert again.origin is Origin.REMADE
    assert (again.top / "own.txt").exists()
    # The other one, deleted as well, is not this role's to prune.
    assert (top / ".git" / "worktrees" / "tester").is_dir()


def test_a_deleted_checkout_whose_branch_is_merged_begins_at_the_present_commit(
    top: Path, trees: Worktrees
) -> None:
    made = trees.make("coder")
    trees.close()
    shutil.rmtree(made.top)
    made.top.mkdir()
    head = advance(top)
    assert trees.make("coder").head == head


def test_a_checkout_cut_off_while_it_was_made_is_set_aside_and_made_whole(top: Path) -> None:
    (top / ".gitattributes").write_text("slow.txt filter=slow\n")
    advance(top, "slow.txt")
    git(top, "config", "filter.slow.smudge", "sleep 60")
    trees = Worktrees(top)
    place = trees.place("coder")
    command = ["git", "worktree", "add", "-q", "-b", "choragos/coder", str(place)]
    making = subprocess.Popen(command, cwd=top, start_new_session=True)
    while not (place / "sub" / "inner.txt").exists() and not (place / "kept.txt").exists():
        time.sleep(0.01)
    os.killpg(making.pid, signal.SIGKILL)
    making.wait()
    assert "D  kept.txt" in git(place, "status", "--porcelain")
    git(top, "config", "--unset", "filter.slow.smudge")
    made = trees.make("coder")
    assert made.origin is Origin.REMADE
    assert git(place, "status", "--porcelain") == ""
    (aside,) = place.parent.glob("coder.cut-off-*")
    assert str(aside) in made.note
    assert (aside / "kept.txt").exists()
    assert trees.kept() == ["coder"]
    trees.close()


def test_a_checkout_without_an_index_is_not_committed_as_all_deleted(
    top: Path, trees: Worktrees
) -> None:
    made = trees.make("coder")
    (top / ".git" / "worktrees" / "coder" / "index").unlink()
    with pytest.raises(WorktreeError, match="has lost its index"):
        trees.commit("coder", "choragos: T1 x", hooks())
    git(made.top, "reset", "-q")
    assert not trees.commit("coder", "choragos: T1 x", hooks()).is_new


def test_submodules_pointers_and_odd_names_come_along(top: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    advance(library, "lib.txt")
    git(top, "submodule", "--quiet", "add", str(library), "lib")
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    (top / "big.bin").write_text(pointer)
    for name in ODD_NAMES:
        (top / name).write_text(name)
    advance(top)
    trees = Worktrees(top)
    made = trees.make("coder")
    assert {name for name in ODD_NAMES if (made.top / name).read_text() == name} == set(ODD_NAMES)
    assert (made.top / "big.bin").read_text() == pointer
    assert list((made.top / "lib").iterdir()) == []
    for name in ODD_NAMES:
        (made.top / name).write_text("changed")
    assert trees.standing("coder").uncommitted == len(ODD_NAMES)
    assert trees.commit("coder", "choragos: T1 odd", hooks()).is_new
    changed = git(made.top, "diff", "--name-only", "-z", "HEAD~1").split("\0")[:-1]
    assert sorted(changed) == sorted(ODD_NAMES)
    trees.close()


# -- what is not as it was left -----------------------------------------------------------------


def test_a_checkout_on_another_branch_is_explained_and_left(top: Path, trees: Worktrees) -> None:
    made = trees.make("coder")
    git(made.top, "switch", "-qc", "elsewhere")
    for use in (trees.make, trees.look, lambda role: trees.commit(role, "x", hooks())):
        with pytest.raises(WorktreeError, match="on elsewhere, not on choragos/coder"):
            use("coder")
    git(made.top, "checkout", "-q", "--detach")
    with pytest.raises(WorktreeError, match="on no branch"):
        trees.make("coder")
    assert git(made.top, "branch", "--show-current") == ""


def test_a_branch_checked_out_elsewhere_is_not_taken(top: Path, tmp_path: Path) -> None:
    git(top, "worktree", "add", "-q", "-b", "choragos/coder", str(tmp_path / "else where"))
    with pytest.raises(WorktreeError, match=r"is checked out at .*else where"):
        Worktrees(top).make("coder")


def test_another_deck_that_holds_it_is_named(top: Path, trees: Worktrees) -> None:
    trees.make("coder")
    second = Worktrees(top)
    with pytest.raises(WorktreeError, match=f"in use by another deck .pid {os.getpid()} in "):
        second.make("coder")
    trees.close()
    assert second.make("coder").origin is Origin.REUSED
    second.close()


def test_the_checkout_of_a_copied_project_is_not_used(
    top: Path, trees: Worktrees, tmp_path: Path
) -> None:
    trees.make("coder")
    shutil.copytree(top, tmp_path / "copy", symlinks=True)
    with pytest.raises(WorktreeError, match="belongs to another repository"):
        Worktrees(tmp_path / "copy").make("coder")


def test_the_checkout_of_a_moved_project_can_be_repaired_by_its_user(
    top: Path, trees: Worktrees, tmp_path: Path
) -> None:
    trees.make("coder")
    trees.close()
    moved = top.rename(tmp_path / "moved")
    with pytest.raises(WorktreeError, match="run `git worktree repair"):
        Worktrees(moved).make("coder")
    git(moved, "worktree", "repair", str(moved / ".choragos/worktrees/coder"))
    assert Worktrees(moved).look("coder") is Origin.REUSED


@pytest.mark.parametrize("kind", ["files", "link", "file", "repository"])
def test_what_is_in_its_place_is_left_there(top: Path, tmp_path: Path, kind: str) -> None:
    trees = Worktrees(top)
    place = trees.place("coder")
    place.parent.mkdir(parents=True)
    if kind == "link":
        place.symlink_to(tmp_path)
    elif kind == "file":
        place.write_text("mine")
    else:
        place.mkdir()
        (place / "mine").write_text("mine")
    if kind == "repository":
        git(place, "init", "-q")
    before = sorted(str(path) for path in place.parent.rglob("*"))
    with pytest.raises(WorktreeError):
        trees.make("coder")
    assert sorted(str(path) for path in place.parent.rglob("*")) == before


def test_a_deleted_checkout_that_is_locked_in_git_stays_registered(
    top: Path, trees: Worktrees
) -> None:
    made = trees.make("coder")
    git(top, "worktree", "lock", str(made.top))
    trees.close()
    shutil.rmtree(made.top)
    with pytest.raises(WorktreeError, match="locked in git"):
        trees.make("coder")


def test_a_branch_in_the_way_of_the_branches_is_told(top: Path, trees: Worktrees) -> None:
    git(top, "branch", "choragos")
    with pytest.raises(GitError, match="choragos"):
        trees.make("coder")


# -- committing ---------------------------------------------------------------------------------


def test_everything_becomes_one_commit_by_the_deck(top: Path, trees: Worktrees) -> None:
    made = trees.make("coder")
    git(top, "config", "commit.gpgSign", "true")
    git(top, "config", "commit.template", "/nowhere")
    (made.top / "kept.txt").write_text("changed\n")
    (made.top / "new.txt").write_text("new\n")
    (made.top / "sub" / "inner.txt").unlink()
    (made.top / "quiet.log").write_text("ignored")
    (made.top / ".choragos").mkdir()
    (made.top / ".choragos" / "handoff.md").write_text("the deck's")
    done = trees.commit("coder", "choragos: T1 did it", hooks())
    assert done.is_new
    shown = git(made.top, "log", "-1", "--format=%an|%ae|%cn|%ce|%s", done.head)
    assert shown == "choragos|choragos@localhost|choragos|choragos@localhost|choragos: T1 did it\n"
    listed = git(made.top, "diff", "--name-status", f"{made.head}..{done.head}").split()
    assert listed == ["M", "kept.txt", "A", "new.txt", "D", "sub/inner.txt"]
    again = trees.commit("coder", "choragos: T1 again", hooks())
    assert (again.is_new, again.head) == (False, done.head)
    assert git(top, "log", "--format=%s") == "first\n"


def test_a_hook_that_fails_leaves_the_work_uncommitted_and_is_quoted(
    top: Path, trees: Worktrees
) -> None:
    made = trees.make("coder")
    hook(top, "pre-commit", "echo checking\necho 'lint: line 3 is bad' >&2\nexit 1")
    (made.top / "kept.txt").write_text("bad")
    with pytest.raises(CommitRefused, match=r"checking \| lint: line 3 is bad"):
        trees.commit("coder", "choragos: T1 x", hooks())
    assert (made.top / "kept.txt").read_text() == "bad"
    assert git(made.top, "rev-parse", "HEAD").strip() == made.head
    hook(top, "pre-commit", "exit 0")
    assert trees.commit("coder", "choragos: T1 x", hooks()).is_new


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("exit 3", "git commit, or a hook of it, said nothing and ended with 1"),
        ("printf '\\n \\n'; exit 1", "said nothing and ended with 1"),
        (
            "seq 4000; echo 'unit: test_a failed, see https://ci/42' >&2; exit 1",
            "see https://ci/42",
        ),
        ("kill -9 $$", "the work is uncommitted"),
    ],
)
def test_why_a_check_failed_is_told_however_much_or_little_it_said(
    top: Path, trees: Worktrees, script: str, told: str
) -> None:
    made = trees.make("coder")
    hook(top, "pre-commit", script)
    (made.top / "kept.txt").write_text("bad")
    with pytest.raises(CommitRefused) as refused:
        trees.commit("coder", "choragos: T1 x", hooks())
    assert told in str(refused.value)
    assert len(str(refused.value)) < 2_000


def test_a_hook_sees_only_what_the_role_sees(
    top: Path, trees: Worktrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_DECK", "s")
    made = trees.make("coder")
    hook(top, "pre-commit", "env > env.txt; git add env.txt")
    (made.top / "kept.txt").write_text("x")
    trees.commit("coder", "choragos: T1 x", hooks())
    assert "SECRET_OF_THE_DECK" not in (made.top / "env.txt").read_text()


def test_a_hook_runs_where_the_role_is_enclosed(top: Path, trees: Worktrees) -> None:
    made = trees.make("coder")
    hook(top, "pre-commit", 'test -n "$INSIDE"')
    (made.top / "kept.txt").write_text("x")

    def enclose(command: object, environ: object) -> tuple[list[str], dict[str, str]]:
        assert isinstance(command, list)
        assert isinstance(environ, dict)
        return ["env", "INSIDE=1", *command], environ

    assert trees.commit("coder", "choragos: T1 x", Hooks(hooks().environ, enclose)).is_new


def test_a_hook_that_hangs_ends_with_the_time_limit(top: Path, trees: Worktrees) -> None:
    made = trees.make("coder")
    hook(top, "pre-commit", "sleep 600")
    (made.top / "kept.txt").write_text("x")
    with pytest.raises(GitError, match="did not finish within"):
        trees.commit("coder", "choragos: T1 x", hooks(seconds=0.3))
    hook(top, "pre-commit", "exit 0")
    assert trees.commit("coder", "choragos: T1 x", hooks()).is_new


def test_conflict_markers_are_never_committed(top: Path, trees: Worktrees) -> None:
    made = trees.make("coder")
    advance(made.top, "kept.txt", "mine\n")
    advance(top, "kept.txt", "theirs\n")
    with pytest.raises(subprocess.CalledProcessError):
        git(made.top, "merge", "main")
    with pytest.raises(WorktreeError, match=r"conflicts in kept\.txt"):
        trees.commit("coder", "choragos: T1 x", hooks())


def test_no_program_of_a_repository_in_the_checkout_is_run(
    top: Path, trees: Worktrees, tmp_path: Path
) -> None:
    made = trees.make("coder")
    inner = made.top / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    advance(inner, "x.txt")
    git(made.top, "add", "inner")
    program = tmp_path / "evil"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    program.chmod(0o755)
    git(inner, "config", "core.fsmonitor", str(program))
    git(inner, "config", "filter.evil.clean", str(program))
    (inner / ".gitattributes").write_text("* filter=evil\n")
    (inner / "x.txt").write_text("changed")
    (made.top / "kept.txt").write_text("changed")
    assert trees.commit("coder", "choragos: T1 x", hooks()).is_new
    trees.freshen("coder")
    trees.standing("coder")
    assert not (tmp_path / "ran").exists()
    assert "160000" in git(made.top, "ls-tree", "HEAD", "inner")


def test_files_the_role_told_git_to_overlook_are_committed(top: Path, trees: Worktrees) -> None:
    made = trees.make("coder")
    git(made.top, "update-index", "--assume-unchanged", "kept.txt")
    (made.top / "kept.txt").write_text("hidden")
    trees.commit("coder", "choragos: T1 x", hooks())
    assert git(made.top, "show", "HEAD:kept.txt") == "hidden"
    assert git(made.top, "status", "--porcelain") == ""


def test_a_sparse_checkout_commits_what_is_there_and_deletes_nothing(
    top: Path, trees: Worktrees
) -> None:
    made = trees.make("coder")
    git(made.top, "sparse-checkout", "set", "--no-cone", "/kept.txt")
    assert not (made.top / "sub" / "inner.txt").exists()
    (made.top / "kept.txt").write_text("changed")
    trees.commit("coder", "choragos: T1 x", hooks())
    assert git(made.top, "diff", "--name-status", "HEAD^", "HEAD") == "M\tkept.txt\n"
    assert git(made.top, "status", "--porcelain") == ""


def test_what_a_hook_says_is_kept_to_one_line() -> None:
    said = last_lines(b"one\n\ntwo\x1b[31m\n" + b"x" * 2000)
    assert len(said) == 600
    assert said.isprintable()
    assert last_lines(b"a\nb") == "a | b"


def test_what_is_on_the_branch_can_be_asked(top: Path, trees: Worktrees) -> None:
    made = trees.make("coder")
    first = advance(made.top, "own.txt")
    assert trees.holds("coder", first)
    git(made.top, "reset", "-q", "--hard", "HEAD~1")
    assert not trees.holds("coder", first)
