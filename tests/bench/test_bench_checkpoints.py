"""What a checkpoint costs in a large repository, beside git's own `add -A` in the same run."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from deck.checkpoints import Checkpoints

FOLDERS, FILES = 500, 100
ROUNDS = 5


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    top = tmp_path_factory.mktemp("large")
    for folder in range(FOLDERS):
        (top / f"d{folder}").mkdir()
        for file in range(FILES):
            (top / f"d{folder}" / f"f{file}").write_text(f"{folder} {file}\n")
    who = ["-c", "user.name=u", "-c", "user.email=u@example.org"]
    for command in (["init", "-q"], ["add", "-A"], [*who, "commit", "-qm", "all"]):
        subprocess.run(["git", *command], cwd=top, check=True)
    yield top
    shutil.rmtree(top)  # not left for later runs to clear away


def medians(works: Sequence[Callable[[], object]]) -> list[float]:
    """Return the median seconds of each, taken in turn so that a busy machine hits all alike."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(ROUNDS + 1):
        for work, seconds in zip(works, taken, strict=True):
            begun = time.perf_counter()
            work()
            seconds.append(time.perf_counter() - begun)
    return [statistics.median(seconds[1:]) for seconds in taken]


@pytest.mark.bench
def test_an_unchanged_tree_costs_about_what_git_add_does(large: Path, tmp_path: Path) -> None:
    store = Checkpoints(large)

    def add() -> None:
        index = tmp_path / "index"
        shutil.copy2(large / ".git" / "index", index)
        subprocess.run(
            ["git", "add", "-A"],
            cwd=large,
            check=True,
            env={**os.environ, "GIT_INDEX_FILE": str(index)},
        )

    target = store.create("T1", "T1 -> coder: bench")
    peer, ours, plan = medians(
        [
            add,
            lambda: store.create("T2", "T2 -> coder: bench"),
            lambda: store.plan_rollback(target),
        ]
    )
    table = Table(title=f"{FOLDERS * FILES:,} unchanged files, median of {ROUNDS}")
    for heading in ("what", "ms", "ratio to git add -A (bar: 2)"):
        table.add_column(heading, justify="right")
    for name, seconds in (("git add -A", peer), ("checkpoint", ours), ("plan of an undo", plan)):
        table.add_row(name, f"{seconds * 1000:.0f}", f"{seconds / peer:.2f}")
    Console().print(table)
    # A neighbor's disk moves the ratio by a third between runs; beyond this it is not noise.
    assert ours <= 3 * peer
