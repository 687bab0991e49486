"""Judges in a real session: agents in panes, verdicts in files, a deck that is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from deck_harness import AGENT, DeckRig, agent_role

from deck.events import parse_events
from shared.ledger import verify_path

#: Writes the next line of `verdicts` where its task says, and reports as it was told to.
JUDGE = AGENT.replace(
    '        if "report" in habits:\n',
    '        if "write" in habits:\n'
    "            number = sum('T1.md' in line for line in open(f'seen-{role}.txt'))\n"
    "            open(f'made-{number}', 'w').write('x')\n"
    '        if "judge" in habits:\n'
    "            text = open(task[1]).read()\n"
    "            verdicts = open('verdicts').read().splitlines()\n"
    "            open('verdicts', 'w').write('\\n'.join(verdicts[1:]))\n"
    "            path = re.search(r'^Write your verdict to this file: (.*)$', text, re.M)[1]\n"
    "            open(path, 'w').write(verdicts[0] + '\\nDetails.\\n')\n"
    "            import shlex\n"
    "            line = re.search(r'^    choragos (.*)$', text, re.M)[1]\n"
    "            done = choragos(*shlex.split(line))\n"
    "            note(f'rc={done.returncode} {done.stderr.strip()}')\n"
    '        if "report" in habits:\n',
)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[DeckRig]:
    assert JUDGE != AGENT
    rig = DeckRig(tmp_path)
    (rig.dir / "agent.py").write_text(JUDGE)
    yield rig
    rig.close()


def team(rig: DeckRig, *judge_habits: str, coder: tuple[str, ...] = ("report",)) -> None:
    rig.team(
        agent_role("orchestrator"),
        agent_role("coder", *coder, judge="critic", judge_rounds=2),
        agent_role("critic", *judge_habits),
    )


def test_work_is_sent_back_once_and_then_accepted(rig: DeckRig) -> None:
    rig.git()
    (rig.dir / ".gitignore").write_text("seen-*.txt\nverdicts\n")
    team(rig, "judge", coder=("write", "report"))
    (rig.dir / "verdicts").write_text("VERDICT: 3/10\nVERDICT: 9/10\n")
    rig.serve()
    rig.wait_idle("coder", "critic")
    assert rig.delegate("coder", "write a parser")["state"] == "queued"
    rig.wait_task("T1", "reported", seconds=60)
    rig.wait(lambda: rig.seen("orchestrator").count("A worker reports: coder did T1") == 1)
    assert sum("T1.md" in line for line in rig.seen("coder")) == 2
    status = rig.status()
    assert {t["id"]: (t["role"], t["state"]) for t in status["tasks"]} == {
        "T1": ("coder", "reported"), "T2": ("critic", "reported"), "T3": ("critic", "reported"),
    }  # fmt: skip
    assert status["tasks"][0]["review"] == {"state": "accepted", "judge": "critic", "round": 2}
    # Its undo takes back both rounds: one beginning, and an end for each round.
    listing = ["git", "for-each-ref", "--format=%(refname)", "refs/choragos"]
    rig.wait(lambda: rig.events().count("task=T3") == 2)
    refs = subprocess.run(listing, cwd=rig.dir, capture_output=True, text=True, check=True).stdout
    assert len(re.findall(r"-T1\n", refs)) == 1
    assert len(re.findall(r"-T1-done\n", refs)) == 2
    assert (rig.dir / "made-1").exists()
    assert (rig.dir / "made-2").exists()
    undone = rig.cli("rollback", "T1", "--yes")
    assert undone.returncode == 0, undone.stderr
    assert not (rig.dir / "made-1").exists()
    assert not (rig.dir / "made-2").exists()
    shown = json.loads(rig.cli("report", "--json").stdout)
    rows = {row["role"]: (row["tasks"], row["done"]) for row in shown["roles"]}
    assert rows["coder"] == rows["critic"] == (2, 2)
    assert shown["open_tasks"] == 0
    rig.cli("kill")
    assert verify_path(rig.state_dir / "ledger").exit_code == 0


def test_a_judge_that_exits_leaves_it_to_a_person_and_nobody_reports_in_its_place(
    rig: DeckRig,
) -> None:
    team(rig, "busy", coder=())
    rig.serve()
    rig.wait_idle("coder", "critic")
    rig.delegate("coder", "!work-done|--id|T1|--task|first")
    rig.wait_task("T2", "picked-up")
    assert rig.task("T1")["reason"] == "judged by critic, round 1"
    rig.delegate("coder", "!work-done|--id|T2|--task|ten of ten")
    rig.wait(lambda: any("T2 was given to critic" in line for line in rig.seen("coder")))
    assert rig.task("T2")["state"] == "picked-up"
    os.kill(rig.role("critic")["pid"], signal.SIGKILL)
    gate = rig.wait(lambda: rig.status()["gates"])[0]
    assert (gate["kind"], gate["task"], gate["state"]) == ("judge", "T1", "open")
    assert "critic has exited" in gate["why"]
    assert rig.task("T2")["state"] == "refused"
    assert rig.cli("approve", gate["id"], "--reason", "I looked").returncode == 0
    rig.wait(lambda: "A worker reports: first" in rig.seen("orchestrator"))
    assert rig.task("T1")["state"] == "reported"


def test_a_deck_killed_while_a_judge_works_accepts_nothing_by_itself(rig: DeckRig) -> None:
    team(rig, "busy")
    rig.serve()
    rig.wait_idle("coder", "critic")
    rig.delegate("coder", "x")
    rig.wait_task("T2", "picked-up")
    os.kill(rig.pid(), signal.SIGKILL)
    rig.wait(lambda: not _alive(rig))
    rig.serve("--no-sphragis", "--resume")
    gate = rig.wait(lambda: rig.status()["gates"])[0]
    assert "the deck stopped while critic judged it" in gate["why"]
    assert {t["id"]: t["state"] for t in rig.status()["tasks"]} == {
        "T1": "in-review", "T2": "refused",
    }  # fmt: skip
    late = rig.cli("work-done", "--id", "T1", "--task", "accept me")
    assert (late.returncode, late.stdout) == (0, "reported to orchestrator\n")
    assert "kept, but not passed on: T1 was in-review already" in late.stderr
    assert rig.cli("reject", gate["id"], "--reason", "do it again").returncode == 0
    rig.wait(lambda: any("was not accepted: G1" in s for s in rig.seen("orchestrator")))
    assert rig.task("T1")["state"] == "refused"
    assert not any("A worker reports" in line for line in rig.seen("orchestrator"))


def _alive(rig: DeckRig) -> bool:
    try:
        os.kill(rig.pid(), 0)
    except OSError:
        return False
    state = Path(f"/proc/{rig.pid()}/stat").read_text().rsplit(")", 1)[1].split()[0]
    return state != "Z"


def test_a_changed_file_of_another_role_waits_for_a_person(rig: DeckRig) -> None:
    (rig.dir / "SPEC").write_text("the spec\n")
    code = "open('SPEC', 'a').write('mine')"
    rig.team(
        agent_role("orchestrator"),
        agent_role("coder", "report"),
        agent_role("writer", owns_files=["SPEC"]),
    )
    agent = JUDGE.replace(
        '        if "report" in habits:\n', f'        {code}\n        if "report" in habits:\n'
    )
    (rig.dir / "agent.py").write_text(agent)
    rig.serve()
    rig.wait_idle("coder", "writer")
    rig.delegate("coder", "x")
    gate = rig.wait(lambda: rig.status()["gates"])[0]
    assert (gate["kind"], gate["state"]) == ("ownership", "open")
    assert "SPEC belongs to writer, was changed" in gate["why"]
    assert "Do not change these files" in (rig.state_dir / "tasks" / "T1.md").read_text()
    (rig.dir / "SPEC").write_text("something else\n")
    void = rig.cli("approve", gate["id"])
    assert void.returncode == 1
    assert rig.task("T1")["state"] == "refused"
    events = parse_events(rig.state_dir / "logs" / "events.log")
    assert [e.fields["verdict"] for e in events if e.msg == "ownership"] == ["violation", "gate"]


def test_a_branch_is_merged_only_after_its_judge_read_it_where_it_is(rig: DeckRig) -> None:
    home = f"import os\nHOME = {str(rig.dir)!r}\n"
    agent = home + JUDGE.replace("'verdicts'", "HOME + '/verdicts'").replace(
        'f"seen-{role}.txt"', 'HOME + f"/seen-{role}.txt"'
    ).replace("f'seen-{role}.txt'", "HOME + f'/seen-{role}.txt'")
    (rig.dir / "agent.py").write_text(agent)
    (rig.dir / ".gitignore").write_text("seen-*.txt\nverdicts\n.choragos\n.choragos.toml\n")
    for command in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "first")):
        git(rig, *command)
    (rig.dir / "verdicts").write_text("VERDICT: 3/10\nVERDICT: 9/10\n")
    worker = {"judge": "critic", "worktree": True, "merge": "auto"}
    rig.team(
        agent_role("orchestrator"),
        agent_role("coder", "write", "report", **worker),
        agent_role("critic", "judge", worktree=True),
    )
    rig.serve()
    rig.wait_idle("coder", "critic")
    rig.delegate("coder", "write a parser")
    rig.wait(lambda: rig.task("T1").get("merge", {}).get("state") == "merged", 60)
    text = (rig.state_dir / "tasks" / "T2.md").read_text()
    assert f"The work is in {rig.state_dir}/worktrees/coder." in text
    assert f"this file: {rig.state_dir}/judge-verdict-T1-r1.md\n" in text
    subjects = git(rig, "log", "--format=%s", "--first-parent").splitlines()
    assert subjects == ["choragos: merge coder (T1)", "first"]
    made = git(rig, "log", "--format=%s", "HEAD^2").splitlines()
    assert [line.split()[:2] for line in made[:2]] == [["choragos:", "T1"], ["choragos:", "T1"]]
    assert (rig.dir / "made-1").exists()
    assert (rig.dir / "made-2").exists()


def git(rig: DeckRig, *arguments: str) -> str:
    line = ["git", "-c", "user.name=u", "-c", "user.email=u@example.org", *arguments]
    return subprocess.run(line, cwd=rig.dir, capture_output=True, text=True, check=True).stdout
