"""Merging a role's commit into the main tree against real git: what lands, what is refused."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from git_tools import git

from deck import merges
from deck.gitrepo import GitRepo
from deck.merges import MergeBusy, MergeRefused, MergeStuck

ODD_NAMES = ["with space", "tab\there", 'quo"te', "new\nline", "ünï-😀", "-dash"]


@pytest.fixture(autouse=True)
def _own_git_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    settings = tmp_path_factory.mktemp("git") / "config"
    settings.write_text(
        "[init]\n\tdefaultBranch = main\n[merge]\n\tff = only\n\tautostash = true\n"
        "[rerere]\n\tenabled = true\n[commit]\n\tgpgSign = true\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", str(settings))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        yield


class Pair:
    """A main tree and a role's checkout of it."""

    def __init__(self, base: Path) -> None:
        self.top, self.side = base / "main", base / "side"
        self.top.mkdir()
        git(self.top, "init", "-q")
        (self.top / "kept.txt").write_text("kept\n")
        (self.top / ".gitignore").write_text("*.log\n.choragos\n")
        self.save(self.top)
        git(self.top, "worktree", "add", "-q", "-b", "choragos/coder", str(self.side))
        self.repo = GitRepo(self.top)

    def save(self, where: Path, *names: str) -> str:
        for name in names:
            (where / name).parent.mkdir(exist_ok=True, parents=True)
            (where / name).write_text(f"by {where.name}\n")
        git(where, "add", "-A", "-f")
        git(where, "-c", "commit.gpgSign=false", "commit", "-qm", "x")
        return git(where, "rev-parse", "HEAD").strip()

    def merge(self, commit: str) -> str:
        return merges.merge(self.repo, commit, merges.subject("coder", "T1"))

    def refusal(self, commit: str) -> str:
        before = self.everything()
        with pytest.raises(MergeRefused) as refused:
            self.merge(commit)
        assert self.everything() == before
        return str(refused.value)

    def everything(self) -> tuple[object, ...]:
        files = {
            str(path.relative_to(self.top)): path.read_bytes()
            for path in sorted(self.top.rglob("*"))
            if path.is_file() and ".git" not in path.relative_to(self.top).parts
        }
        return (
            files,
            git(self.top, "rev-parse", "HEAD"),
            git(self.top, "stash", "list"),
            git(self.top, "status", "--porcelain", "-uno"),
        )


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


def test_a_commit_lands_as_a_merge_by_the_deck_whatever_the_users_settings(pair: Pair) -> None:
    (pair.top / "untracked.txt").write_text("mine")
    commit = pair.save(pair.side, "new.txt", "kept.txt", *ODD_NAMES)
    hook = pair.top / ".git" / "hooks" / "pre-merge-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    found = merges.change(pair.repo, commit)
    assert found is not None
    assert set(found.paths) == {"new.txt", "kept.txt", *ODD_NAMES}
    assert b"+by side" in found.text
    made = pair.merge(commit)
    shown = git(pair.top, "log", "-1", "--format=%an|%ce|%s|%P", made).strip()
    assert shown.startswith("choragos|choragos@localhost|choragos: merge coder (T1)|")
    assert shown.endswith(f" {commit}")
    assert (pair.top / "new.txt").read_text() == "by side\n"
    assert (pair.top / "untracked.txt").read_text() == "mine"
    assert merges.change(pair.repo, commit) is None
    pair.save(pair.top, "later.txt")
    assert merges.merge_of(pair.repo, commit, merges.subject("coder", "T1")) == made
    assert merges.merge_of(pair.repo, commit, merges.subject("coder", "T2")) == ""


def test_nothing_to_merge_is_seen(pair: Pair) -> None:
    head = git(pair.side, "rev-parse", "HEAD").strip()
    assert merges.change(pair.repo, head) is None
    git(pair.side, "-c", "commit.gpgSign=false", "commit", "-qm", "empty", "--allow-empty")
    assert merges.change(pair.repo, git(pair.side, "rev-parse", "HEAD").strip()) is None
    assert merges.merge_of(pair.repo, head, merges.subject("coder", "T1")) == ""


def test_a_diff_does_not_change_because_the_main_tree_moves_on(pair: Pair) -> None:
    commit = pair.save(pair.side, "new.txt")
    before = merges.change(pair.repo, commit)
    pair.save(pair.top, "other.txt")
    assert merges.change(pair.repo, commit) == before


def test_changes_in_the_main_tree_are_named_and_stay(pair: Pair) -> None:
    commit = pair.save(pair.side, "new.txt")
    (pair.top / "kept.txt").write_text("half done")
    assert "not committed: kept.txt" in pair.refusal(commit)
    git(pair.top, "add", "kept.txt")
    assert "not committed: kept.txt" in pair.refusal(commit)


def test_conflicts_are_named_and_taken_back(pair: Pair) -> None:
    commit = pair.save(pair.side, *ODD_NAMES)
    pair.save(pair.top, *ODD_NAMES)
    said = pair.refusal(commit)
    assert "it conflicts with the main tree in" in said
    assert said.isprintable()
    assert "and 1 more" in said
    assert not (pair.top / ".git" / "MERGE_HEAD").exists()


@pytest.mark.parametrize("name", ["new.txt", "private.log", "dir/deep.txt"])
def test_no_file_that_git_does_not_keep_is_overwritten(pair: Pair, name: str) -> None:
    commit = pair.save(pair.side, name)
    (pair.top / name).parent.mkdir(exist_ok=True)
    (pair.top / name).write_text("the user's")
    assert f"would be overwritten: {name}" in pair.refusal(commit)


def test_neither_is_one_in_the_way_of_a_directory_or_a_directory_in_the_way(pair: Pair) -> None:
    commit = pair.save(pair.side, "a.log/deep.txt", "b.log")
    (pair.top / "a.log").write_text("the user's")
    assert "a.log/deep.txt" in pair.refusal(commit)
    (pair.top / "a.log").unlink()
    (pair.top / "b.log").mkdir()
    (pair.top / "b.log" / "x").write_text("the user's")
    assert "b.log" in pair.refusal(commit)
    (pair.top / "b.log" / "x").unlink()
    assert pair.merge(commit)


def test_a_directory_of_tracked_files_may_become_a_file(pair: Pair) -> None:
    pair.save(pair.top, "d/one", "e")
    git(pair.side, "merge", "-q", "--ff-only", "main")
    for name in ("d/one", "e"):
        os.unlink(pair.side / name)
    os.rmdir(pair.side / "d")
    commit = pair.save(pair.side, "d", "e/one")
    assert pair.merge(commit)
    assert (pair.top / "d").read_text() == "by side\n"
    assert (pair.top / "e" / "one").exists()


@pytest.mark.parametrize("what", ["merge", "cherry-pick", "rebase", "bisect", "no branch"])
def test_a_main_tree_in_the_middle_of_something_is_left_alone(pair: Pair, what: str) -> None:
    git(pair.top, "branch", "other")
    first = pair.save(pair.top, "kept.txt")
    git(pair.top, "switch", "-q", "other")
    (pair.top / "kept.txt").write_text("another\n")
    git(pair.top, "add", "-A")
    git(pair.top, "-c", "commit.gpgSign=false", "commit", "-qm", "other")
    commit = pair.save(pair.side, "new.txt")
    begin = {
        "merge": ("merge", "--no-ff", "main"),
        "cherry-pick": ("cherry-pick", first),
        "rebase": ("rebase", "main"),
        "bisect": ("bisect", "start"),
        "no branch": ("checkout", "-q", "--detach"),
    }[what]
    try:
        git(pair.top, *begin)
    except subprocess.CalledProcessError:
        assert what in ("merge", "cherry-pick", "rebase")
    assert what in pair.refusal(commit)


def test_a_merge_that_was_interrupted_is_recognized_and_taken_back(pair: Pair) -> None:
    commit = pair.save(pair.side, "new.txt")
    assert merges.unfinished(pair.repo) is None
    title = merges.subject("coder", "T1")
    git(pair.top, "merge", "--no-ff", "--no-commit", "-m", title, commit)
    assert merges.unfinished(pair.repo) == (commit, title)
    merges.abort(pair.repo)
    assert merges.unfinished(pair.repo) is None
    assert not (pair.top / "new.txt").exists()


def test_one_that_cannot_be_taken_back_says_how_to_get_out(pair: Pair) -> None:
    commit = pair.save(pair.side, "new.txt")
    git(pair.top, "merge", "--no-ff", "--no-commit", commit)
    (pair.top / ".git" / "index.lock").touch()
    with pytest.raises(MergeStuck, match="run `git merge --abort` there"):
        merges.abort(pair.repo)


def test_another_git_at_work_or_done_with_it_is_worth_another_look(pair: Pair) -> None:
    commit = pair.save(pair.side, "new.txt")
    lock = pair.top / ".git" / "index.lock"
    lock.touch()
    (pair.top / "new.txt").touch()  # as if it was being written
    with pytest.raises(MergeBusy, match="another git is at work"):
        merges.merge(pair.repo, commit, "title")
    assert merges.unfinished(pair.repo) is None
    lock.unlink()
    (pair.top / "new.txt").unlink()
    merges.merge(pair.repo, commit, "title")
    with pytest.raises(MergeBusy, match="has just merged it"):
        merges.merge(pair.repo, commit, "title")


def test_a_branch_without_a_common_commit_is_refused(pair: Pair) -> None:
    git(pair.side, "checkout", "-q", "--orphan", "alone")
    commit = pair.save(pair.side, "new.txt")
    with pytest.raises(MergeRefused, match="no commit in common"):
        merges.change(pair.repo, commit)


def test_files_of_the_deck_in_a_commit_do_not_stop_merges(pair: Pair) -> None:
    (pair.top / ".choragos").mkdir()
    pair.save(pair.top, ".choragos/memory.md")
    (pair.top / ".choragos" / "memory.md").write_text("changed by the deck")
    assert pair.merge(pair.save(pair.side, "new.txt"))
    assert (pair.top / ".choragos" / "memory.md").read_text() == "changed by the deck"
