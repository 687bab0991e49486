"""The frame of the project: what stands at the top, what the lock promises, one version."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import shared

ROOT = Path(__file__).resolve().parent.parent
LOCKS = sorted((ROOT / "deploy" / "requirements").glob("*.txt"))
TOP_LEVEL = {
    *("pyproject.toml", "README.md", "Makefile", "LICENSE"),
    *("gateway", "deck", "shared", "policies", "deploy", "tests"),
}


def tracked_files() -> list[str]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    out = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    return [name for name in out.split("\0") if name]


def test_the_top_level_holds_what_the_architecture_says_and_nothing_else() -> None:
    tops = {name.split("/")[0] for name in tracked_files()}
    assert {top for top in tops if not top.startswith(".")} <= TOP_LEVEL
    assert {top for top in tops if top.startswith(".")} <= {".ci", ".gitignore"}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_locked_package_is_pinned_with_hashes_and_no_host_is_named(lock: Path) -> None:
    text = lock.read_text()
    assert "://" not in text
    assert not re.search(r"^\s*--(index|extra-index|find-links|trusted)", text, re.M)
    entries = re.split(r"\n(?=[a-z0-9])", text.strip())
    assert len(entries) > 20
    for entry in entries:
        assert re.match(r"[a-z0-9][a-z0-9._-]*(\[[^\]]+\])?==\S+", entry), entry.splitlines()[0]
        assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_the_test_lock_agrees_with_the_run_lock() -> None:
    def pins(name: str) -> set[str]:
        text = (ROOT / "deploy" / "requirements" / name).read_text()
        return set(re.findall(r"^([a-z0-9][a-z0-9._-]*==\S+)", text, re.M))

    assert pins("run.txt") <= pins("test.txt")


def test_every_declared_dependency_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = set(re.findall(r"^([a-z0-9][a-z0-9._-]*)==", (LOCKS[0]).read_text(), re.M))
    for requirement in project["dependencies"]:
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        assert name is not None
        assert name.group().lower() in locked


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "shared/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+", shared.__version__)


def test_make_alone_lists_the_targets() -> None:
    out = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("install", "demo", "test", "bench"):
        assert re.search(rf"^\s*make {target}\s+\S", out, re.M)
