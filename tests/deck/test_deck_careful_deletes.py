"""The deck deletes what is its own and nothing else: above all nothing of a repository's own files,
whatever an agent has put in the way."""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path

import pytest
from git_tools import git

import deck
from deck.checkpoints import Checkpoint, Checkpoints, GitError, delivery_subject
from deck.restore import _STAGE
from deck.rollback_plan import Overlap, Scope

pytestmark = pytest.mark.usefixtures("own_git_settings")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    top.mkdir()
    git(top, "init", "-q")
    (top / "kept.txt").write_text("kept\n")
    (top / "docs").mkdir()
    (top / "docs" / "a.txt").write_text("a\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "first")
    return top


def delivered(top: Path) -> Checkpoint:
    return Checkpoints(top).create("T1", delivery_subject("T1", "coder", "do it"))


def undone(top: Path, scope: Scope) -> None:
    store = Checkpoints(top)
    store.rollback(store.plan_rollback(store.find("T1"), scope, Overlap.OVERWRITE))


def files_of(place: Path) -> dict[str, bytes]:
    """Every file below a directory but for what a checkpoint itself adds."""
    return {
        str(path.relative_to(place)): path.read_bytes()
        for path in place.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def kept(before: dict[str, bytes], after: dict[str, bytes]) -> bool:
    """Whether everything that was there is there; refs, logs and the lock of an undo may be new."""
    return all(after.get(name) == body for name, body in before.items())


@pytest.mark.parametrize("scope", list(Scope))
def test_what_lies_in_the_place_of_an_undos_own_directory_leads_it_nowhere(
    top: Path, scope: Scope, tmp_path: Path
) -> None:
    delivered(top)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("of the user\n")
    private = top / ".git" / "choragos"
    private.mkdir(exist_ok=True)
    for name, target in (("a", top / ".git" / "objects"), ("b", elsewhere), ("c", top)):
        (private / f"{_STAGE}{name}").symlink_to(target)
    inner = private / f"{_STAGE}d"
    inner.mkdir()
    (inner / "objects").symlink_to(top / ".git" / "objects")
    (inner / "elsewhere").symlink_to(elsewhere)
    (top / "kept.txt").write_text("changed\n")
    before = files_of(top / ".git" / "objects")
    undone(top, scope)
    assert kept(before, files_of(top / ".git" / "objects"))
    assert (elsewhere / "file").read_text() == "of the user\n"
    assert (top / "kept.txt").read_text() == "kept\n"
    git(top, "fsck", "--full")


@pytest.mark.parametrize("path", [".git", ".GIT", "..", "docs/.git"])
@pytest.mark.parametrize("scope", list(Scope))
def test_a_forged_checkpoint_reaches_no_file_of_git_and_none_outside(
    top: Path, path: str, scope: Scope, tmp_path: Path
) -> None:
    """An agent can write objects and refs: a tree may name what no index would take."""
    (tmp_path / "config").write_text("of the user\n")
    found = delivered(top)
    blob = _object(top, "blob", b"[core]\n\tfsmonitor = evil\n")
    tree = _object(top, "tree", b"100644 config\0" + bytes.fromhex(blob))
    for part in reversed(path.split("/")):
        tree = _object(top, "tree", b"40000 " + part.encode() + b"\0" + bytes.fromhex(tree))
    raw = subprocess.run(
        ["git", "cat-file", "commit", found.ref], cwd=top, capture_output=True, check=True
    ).stdout
    commit = _object(top, "commit", re.sub(rb"^tree \w+", b"tree " + tree.encode(), raw))
    git(top, "update-ref", found.ref, commit)
    before = files_of(top / ".git")
    ours = {name: body for name, body in before.items() if name in ("config", "HEAD", "index")}
    with contextlib.suppress(GitError):
        undone(top, scope)
    after = files_of(top / ".git")
    assert {name: after.get(name) for name in ours} == ours
    objects = {name: body for name, body in before.items() if name.startswith("objects/")}
    assert kept(objects, after)
    assert (tmp_path / "config").read_text() == "of the user\n"
    assert not (top / "docs" / ".git").exists()


def _object(top: Path, kind: str, body: bytes) -> str:
    made = subprocess.run(
        ["git", "hash-object", "-t", kind, "-w", "--stdin", "--literally"],
        cwd=top,
        input=body,
        capture_output=True,
        check=True,
    )
    return made.stdout.decode().strip()


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("has_commit", [True, False])
def test_a_repository_that_a_task_made_keeps_all_of_its_own_files(
    top: Path, scope: Scope, has_commit: bool
) -> None:
    delivered(top)
    inner = top / "vendor" / "library"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    (inner / "code.c").write_text("int x;\n")
    if has_commit:
        git(inner, "add", "-A")
        git(inner, "commit", "-qm", "inner")
    (top / "kept.txt").write_text("changed\n")
    before = files_of(inner / ".git")
    undone(top, scope)
    assert files_of(inner / ".git") == before
    assert (top / "kept.txt").read_text() == "kept\n"


def test_whole_trees_are_removed_in_two_places_only() -> None:
    """Where an undo keeps its own files meanwhile, and the world that the demo made for itself."""
    sources = Path(deck.__file__).parent
    found = {
        str(path.relative_to(sources)): len(re.findall(r"rmtree|removedirs|rm -rf?\b", text))
        for path in sources.rglob("*.py")
        if (text := path.read_text()) and re.search(r"rmtree|removedirs|rm -rf?\b", text)
    }
    assert set(found) == {"restore.py", "demo/world.py"}
    forced = re.compile(r"""run\(\s*["'](?:clean|gc)["']|worktree.{0,20}remove.{0,20}force""")
    assert [p.name for p in sources.rglob("*.py") if forced.search(p.read_text())] == []
