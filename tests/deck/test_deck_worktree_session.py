"""Whole sessions with worktrees: agents in their own checkouts, and what reaches the main tree."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from deck_harness import AGENT, DeckRig, agent_role

#: Does what lines of its task say: `+name=text` writes a file where the agent works.
WRITER = AGENT.replace(
    'open(f"seen-{role}.txt", "a")', 'open(os.path.join(HOME, f"seen-{role}.txt"), "a")'
).replace(
    'if "report" in habits:',
    """for name, text in re.findall(r"^\\+(.*?)=(.*)$", open(task[1]).read(), re.M):
            with open(name, "w") as file:
                file.write(text + "\\n")
        note(f"in {os.getcwd()} {os.environ.get('PWD', '')}")
        if "report" in habits:""",
)


class Rig(DeckRig):
    """A deck whose project is in git, with agents that write."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        (self.dir / "agent.py").write_text(f"HOME = {str(self.dir)!r}\n{WRITER}")
        (self.dir / ".gitignore").write_text("seen-*\n.choragos\n.choragos.toml\n")
        self.run("init", "-q", "-b", "main")
        self.run("add", "-A")
        self.run("commit", "-qm", "first")

    def run(self, *arguments: str) -> str:
        identity = ("-c", "user.name=u", "-c", "user.email=u@example.org")
        done = subprocess.run(
            ["git", *identity, *arguments],
            cwd=self.dir,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def coder(self, merge: str) -> dict[str, object]:
        return agent_role("coder", "report", worktree=True, merge=merge)

    def merge(self, task_id: str) -> str:
        return str(self.task(task_id).get("merge", {}).get("state", ""))


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(tmp_path)
    yield rig
    rig.close()


def test_accepted_work_is_merged_by_itself_and_can_be_undone(rig: Rig) -> None:
    rig.team(agent_role("orchestrator"), rig.coder("auto"))
    rig.serve()
    rig.delegate("coder", "x\n+a b.txt=by coder")
    rig.wait(lambda: rig.merge("T1") == "merged")
    assert (rig.dir / "a b.txt").read_text() == "by coder\n"
    side = rig.state_dir / "worktrees" / "coder"
    seen = rig.seen("coder")
    assert f"in {side} " in seen
    assert f"Read {rig.state_dir}/coder-brief.md for your role" in seen[0]
    assert f"Read {rig.state_dir}/tasks/T1.md for your task." in seen
    rig.wait(lambda: any("A worker reports" in line for line in rig.seen("orchestrator")))
    assert rig.run("log", "-1", "--format=%s").strip() == "choragos: merge coder (T1)"
    for name in ("worktree ready", "worktree commit", "merged"):
        assert name in rig.events()
    table = rig.cli("worktrees").stdout
    assert "coder" in table
    assert "choragos/coder" in table
    undone = rig.cli("rollback", "T1", "--yes")
    assert undone.returncode == 0, undone.stderr
    assert "git revert -m 1" in undone.stdout
    assert not (rig.dir / "a b.txt").exists()
    assert (side / "a b.txt").exists()


def test_a_merge_waits_for_a_person_who_sees_the_diff(rig: Rig) -> None:
    rig.team(agent_role("orchestrator"), rig.coder("gate"))
    rig.serve()
    rig.delegate("coder", "x\n+new.txt=by coder")
    rig.wait(lambda: rig.merge("T1") == "gated")
    row = rig.task("T1")["merge"]
    assert row["branch"] == "choragos/coder"
    assert row["reason"].startswith("waits for G1")
    shown = rig.cli("show", "G1", "--no-pager")
    assert shown.stdout.count("+by coder") == 1, shown.stderr
    assert not (rig.dir / "new.txt").exists()
    assert rig.cli("approve", "G1").returncode == 0
    rig.wait(lambda: rig.merge("T1") == "merged")
    assert (rig.dir / "new.txt").read_text() == "by coder\n"


def test_a_conflict_waits_and_a_killed_deck_asks_again(rig: Rig) -> None:
    rig.team(agent_role("orchestrator"), rig.coder("auto"))
    rig.serve()
    rig.wait_idle("coder")
    (rig.dir / "same.txt").write_text("by the user\n")
    rig.run("add", "same.txt")
    rig.run("commit", "-qm", "mine")
    (rig.dir / "agent.py").write_text((rig.dir / "agent.py").read_text() + "# half done\n")
    rig.delegate("coder", "x\n+other.txt=1")
    rig.wait(lambda: rig.merge("T1") == "gated")
    assert "not committed: agent.py" in rig.task("T1")["merge"]["reason"]
    os.kill(rig.pid(), signal.SIGKILL)
    rig.serve("--no-sphragis", "--resume")
    assert rig.merge("T1") == "gated"
    assert rig.cli("reject", "G1", "--reason", "later").returncode == 0
    rig.wait(lambda: rig.merge("T1") == "rejected")
    assert (rig.state_dir / "worktrees" / "coder" / "other.txt").exists()
    assert not (rig.dir / "other.txt").exists()


def test_a_deck_killed_while_it_merges_does_not_merge_twice(rig: Rig) -> None:
    """Git outlives the deck and goes on; the next deck waits for it and recognizes its merge."""
    (rig.dir / ".gitattributes").write_text("slow.txt filter=slow\n")
    rig.run("add", ".gitattributes")
    rig.run("commit", "-qm", "slow")
    rig.run("config", "filter.slow.smudge", "sleep 3; cat")
    rig.run("config", "filter.slow.clean", "cat")
    rig.team(agent_role("orchestrator"), rig.coder("auto"))
    rig.serve()
    rig.delegate("coder", "x\n+slow.txt=1")
    rig.wait((rig.dir / ".git" / "index.lock").exists)
    os.kill(rig.pid(), signal.SIGKILL)
    rig.serve("--no-sphragis", "--resume")
    rig.wait(lambda: rig.merge("T1") == "merged")
    assert rig.run("log", "--merges", "--format=%s").splitlines() == ["choragos: merge coder (T1)"]
    assert rig.run("status", "--porcelain") == ""


def test_without_a_commit_the_team_does_not_start(rig: Rig) -> None:
    rig.team(agent_role("orchestrator"), rig.coder("auto"))
    shutil.rmtree(rig.dir / ".git")
    rig.run("init", "-q")
    failed = rig.cli("serve", "--detach", "--no-sphragis")
    assert failed.returncode == 1
    assert "needs a commit to start from" in failed.stderr
    assert "needs a commit" in rig.cli("doctor").stdout
