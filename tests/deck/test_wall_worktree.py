"""A walled role in a worktree: it works there, and cannot lead the deck's git anywhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deck_harness import DeckRig, FakeGateway, agent_role
from wall_tools import real_bwrap

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the wall is built on Linux")

#: An agent that does what its task says, line by line, in a shell, and keeps what came of it.
AGENT = """
import os, re, subprocess, sys
def say(text):
    sys.stdout.write(text); sys.stdout.flush()
def state(name):
    say(f"\\x1b]7501;state={name}:app=fake\\x07")
say("ready\\r\\n> ")
state("idle")
for line in sys.stdin:
    task = re.search(r"Read (\\S+/tasks/(T\\d+)\\.md)", line)
    if task:
        state("working")
        text = open(task[1]).read()
        for order in re.findall(r"^!(.*)$", text, re.M):
            done = subprocess.run(["sh", "-c", order], capture_output=True, text=True)
            with open(".said", "a") as file:
                file.write(f"{done.returncode} {done.stdout}{done.stderr}".strip() + "\\n")
        report = ["work-done", "--id", task[2], "--task", "done"]
        subprocess.run([sys.executable, "-m", "deck.cli", *report])
    say("> ")
    state("idle")
"""


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[DeckRig]:
    bwrap = real_bwrap()
    found = DeckRig(tmp_path)
    link = tmp_path / "bin"
    link.mkdir()
    (link / "bwrap").symlink_to(bwrap)
    found.env["PATH"] = f"{link}{os.pathsep}{found.env['PATH']}"
    yield found
    found.close()


def git(where: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=u", "-c", "user.email=u@example.org")
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=where, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_it_works_and_is_committed_behind_its_wall(rig: DeckRig, gateway: FakeGateway) -> None:
    (rig.dir / "agent.py").write_text(AGENT)
    (rig.dir / ".gitignore").write_text(".choragos\n.choragos.toml\n.said\n")
    git(rig.dir, "init", "-q")
    git(rig.dir, "add", "-A")
    git(rig.dir, "commit", "-qm", "first")
    hook = rig.dir / ".git" / "hooks" / "pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\necho "$HOME" > hook-home.txt\ngit add hook-home.txt\n')
    hook.chmod(0o755)
    rig.team(
        agent_role("lead"),
        agent_role("coder", wall=True, worktree=True, merge="auto"),
        agent_role("tester", worktree=True),
        tail=f'\n[sphragis]\nenabled = true\naddr = "{gateway.addr}"\n',
    )
    rig.serve("--sphragis")
    side = rig.state_dir / "worktrees" / "coder"
    entry = rig.dir / ".git" / "worktrees" / "coder"
    orders = (
        "pwd",
        "git status --porcelain",
        "git log -1 --format=%s",
        f"echo gitdir: /tmp > {side}/.git",
        f"echo /tmp > {entry}/commondir",
        f"touch {rig.state_dir}/worktrees/tester/x",
        "echo made > new.txt",
    )
    rig.delegate("coder", "\n".join(f"!{order}" for order in orders))
    rig.wait(lambda: rig.task("T1").get("merge", {}).get("state") in ("merged", "gated"))
    said = (side / ".said").read_text().splitlines()
    assert said[0] == f"0 {side}"
    assert [line[:1] for line in said[1:3]] == ["0", "0"]
    assert said[2] == "0 first"
    assert all(line[0] != "0" for line in said[3:6]), said
    assert rig.task("T1")["merge"]["state"] == "merged", rig.evidence()
    assert (rig.dir / "new.txt").read_text() == "made\n"
    home = (rig.dir / "hook-home.txt").read_text().strip()
    assert home != rig.env["HOME"]
    assert "/homes/" in home
