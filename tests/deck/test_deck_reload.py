"""A team that changes while it runs: reload with its guardrails, and roles that are proposed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from deck_harness import DeckRig, FakeGateway, agent_role
from hypothesis import given
from hypothesis import strategies as st

from deck.config import Config, Role, RosterConfig
from deck.convergence import PROCESS_KEYS, Plan, Skip, converge, objection
from deck.proposals import block_of, toml_string, with_block
from deck.protocol import Command, Verb
from deck.team_reader import parse_config
from shared.ledger import verify_path

LEADER = "orchestrator"
LEAD, CODER, TESTER = Role("lead", "sh", start=True), Role("coder", "sh"), Role("tester", "sh")


def team(*roles: Role, **keys: object) -> Config:
    return replace(Config(roles=roles), **keys)  # type: ignore[arg-type]


def plan(old: Config, new: Config, busy: str = "") -> Plan:
    return converge(old, new, lambda name: "T1 is submitted" if name == busy else "")


# -- rules --------------------------------------------------------------------------------------


def test_who_is_new_joins_and_who_is_gone_leaves() -> None:
    found = plan(team(LEAD, CODER), team(LEAD, TESTER))
    assert (found.added, found.removed) == (("tester",), ("coder",))
    assert [role.name for role in found.config.roles] == ["lead", "tester"]
    assert not found.respawned + found.changed + found.needs_restart


@pytest.mark.parametrize("key", PROCESS_KEYS)
def test_what_a_process_is_started_with_needs_a_new_one(key: str) -> None:
    present = getattr(CODER, key)
    other = {bool: True, str: "other", tuple: ("other",)}.get(type(present), "own")
    new = team(LEAD, replace(CODER, **{key: other}))
    assert plan(team(LEAD, CODER), new).respawned == ("coder",)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("approve", True),
        ("timeout", 5.0),
        ("budget", Decimal(5)),
        ("judge", "lead"),
        ("prompt_template", "x"),
        ("owns_files", ("a",)),
        ("input_prompts", ("a",)),
        ("fresh", True),
        ("restart_retries", 9),
    ],
)
def test_other_keys_swap_in_at_once(key: str, value: object) -> None:
    found = plan(team(LEAD, CODER), team(LEAD, replace(CODER, **{key: value})), busy="coder")
    assert (found.changed, found.respawned, found.skipped) == (("coder",), (), ())
    assert getattr(found.config.role("coder"), key) == value


def test_a_busy_role_keeps_what_its_process_was_started_with_and_takes_the_rest() -> None:
    wanted = replace(CODER, command="other", model="m", timeout=5.0)
    found = plan(team(LEAD, CODER), team(LEAD, wanted), busy="coder")
    assert found.skipped == (Skip("coder", "T1 is submitted"),)
    assert (found.respawned, found.changed) == ((), ("coder",))
    assert found.config.role("coder") == replace(CODER, timeout=5.0)
    # The next reload finds the difference again.
    later = plan(found.config, team(LEAD, wanted))
    assert later.respawned == ("coder",)
    assert later.config.role("coder") == wanted


def test_the_start_role_is_neither_removed_nor_made_another_one() -> None:
    found = plan(team(LEAD, CODER), team(replace(CODER, start=True), TESTER))
    assert found.config.start_role == LEAD
    assert (found.added, found.removed) == (("tester",), ())
    assert [role.start for role in found.config.roles] == [True, False, False]
    assert found.skipped[0].role == "lead"
    unnamed = plan(team(replace(LEAD, start=False), CODER), team(CODER, LEAD))
    assert unnamed.config.start_role.name == "lead"


def test_the_start_role_begins_anew_when_its_process_has_to() -> None:
    assert plan(team(LEAD), team(replace(LEAD, model="m"))).respawned == ("lead",)


def test_the_rest_of_the_file_waits_for_a_restart() -> None:
    new = team(LEAD, CODER, roster=RosterConfig(propose=False), approvers={"ann": "ed25519:x"})
    found = plan(team(LEAD, CODER), new)
    assert found.needs_restart == ("roster", "approvers")
    assert found.config.roster.propose
    assert not found.config.approvers


def test_a_file_is_taken_whole_or_not_at_all() -> None:
    old = team(LEAD, CODER, warnings=("x: unknown key a",))
    assert not objection(old, team(LEAD, warnings=("x: unknown key a",)))
    assert objection(old, team(LEAD, warnings=("x: bad timeout",))) == "x: bad timeout"
    assert "two roles are named 'coder'" in objection(old, team(LEAD, CODER, CODER))
    assert "no name" in objection(old, team(LEAD, Role("", "sh")))


@given(
    st.lists(st.sampled_from("abcdef"), unique=True, min_size=1),
    st.lists(st.sampled_from("abcdef"), unique=True, min_size=1),
    st.sets(st.sampled_from("abcdef")),
    st.sets(st.sampled_from("abcdef")),
)
def test_a_second_reload_of_the_same_file_finds_nothing_but_what_was_skipped(
    before: list[str], after: list[str], other: set[str], busy: set[str]
) -> None:
    old = team(*(Role(name, "sh", start=i == 0) for i, name in enumerate(before)))
    new = team(*(Role(n, "x" if n in other else "sh", start=i == 0) for i, n in enumerate(after)))
    found = converge(old, new, lambda name: "busy" if name in busy else "")
    again = converge(found.config, new, lambda _: "")
    assert found.config.start_role.name == before[0]
    assert not set(found.respawned) & busy
    assert (again.added, again.removed, again.changed) == ((), (), ())
    assert set(again.respawned) == {s.role for s in found.skipped if s.why == "busy"}


# -- the block of a proposal --------------------------------------------------------------------


@given(st.text(), st.lists(st.text()), st.text(), st.text())
def test_a_block_says_exactly_what_was_proposed(
    program: str, arguments: list[str], model: str, prompt: str
) -> None:
    command = Command(
        Verb.ROSTER_ADD,
        role_name="scout",
        role_command=program,
        role_args=tuple(arguments),
        role_model=model,
        role_prompt=prompt,
    )
    before = b'\xef\xbb\xbf[[roles]]\r\nname = "lead"\r\ncommand = "sh"\r\n[ui.theme]\r\ndim = "1"'
    after = with_block(before, block_of(command, "lead"))
    assert after.startswith(before)
    found = parse_config(after, Path("team.toml")).role("scout")
    assert found is not None
    plain = Role("scout", program, tuple(arguments), model, prompt_template=prompt)
    assert found == plain


@given(st.text())
def test_nothing_in_a_block_hides_from_its_reader(text: str) -> None:
    written = toml_string(text)
    assert tomllib.loads(f"x = {written}")["x"] == text
    assert all(char.isprintable() for char in written)


# -- reload -------------------------------------------------------------------------------------


def entries(rig: DeckRig, *ops: str) -> list[tuple[str, str]]:
    found = []
    for path in sorted((rig.state_dir / "ledger" / "segments").glob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            ext = json.loads(line).get("ext")
            if isinstance(ext, dict) and ext.get("op") in ops:
                found.append((str(ext["op"]), str(ext.get("role", ""))))
    return found


def reload(rig: DeckRig) -> dict[str, object]:
    done = rig.cli("reload", "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_a_role_joins_works_leaves_and_a_late_report_of_it_counts(rig: DeckRig) -> None:
    lead, coder = agent_role("orchestrator"), agent_role("coder")
    rig.team(lead, coder)
    rig.serve()
    rig.wait_idle("orchestrator", "coder")
    rig.team(lead, coder, agent_role("scout", "busy", approve=False))
    done = rig.cli("reload")
    assert done.stdout == (
        "reload requested; the outcome is in .choragos/logs/events.log\nadded: scout\n"
    )
    rig.wait(lambda: any("Team changed: +scout" in line for line in rig.seen("orchestrator")))
    assert "- scout:" in (rig.state_dir / "orchestrator-context.md").read_text()
    assert rig.delegate("scout", "one")["id"] == "T1"
    rig.wait_task("T1", "picked-up")
    assert rig.delegate("scout", "two")["id"] == "T2"
    pid = rig.role("scout")["pid"]

    rig.team(lead, coder)
    assert reload(rig)["removed"] == ["scout"]
    rig.wait(lambda: not Path(f"/proc/{pid}").exists())
    assert [rig.task(t)["state"] for t in ("T1", "T2")] == ["lost", "refused"]
    assert "scout was removed from the team" in rig.task("T1")["reason"]
    assert rig.role("scout")["state"] == "removed"
    refused = rig.delegate("scout", "three")
    assert (refused["state"], "was removed from the team" in refused["reason"]) == ("refused", True)
    assert rig.send(Verb.WORK_DONE, id="T1", task="found it")["resolved"]
    rig.wait(lambda: any("lost: T1; refused: T2" in s for s in rig.seen("orchestrator")))
    assert "- scout:" not in (rig.state_dir / "orchestrator-context.md").read_text()

    rig.team(lead, coder, agent_role("scout"))
    assert reload(rig)["added"] == ["scout"]
    assert rig.delegate("scout", "four")["id"] == "T3"
    rig.wait_task("T3", "submitted", "picked-up")
    log = rig.events()
    assert 'msg="reload applied" added=scout removed="" respawned=""' in log
    assert 'msg="role removed" role=scout refused=T2 lost=T1' in log
    kinds = entries(rig, "role-added", "role-removed", "reloaded")
    assert kinds == [
        ("role-added", "scout"), ("reloaded", ""), ("role-removed", "scout"), ("reloaded", ""),
        ("role-added", "scout"), ("reloaded", ""),
    ]  # fmt: skip


def test_what_changed_begins_anew_unless_it_is_busy(rig: DeckRig) -> None:
    lead, other = agent_role("orchestrator"), agent_role("tester")
    rig.team(lead, agent_role("coder", "busy"), other)
    rig.serve()
    rig.wait_idle("orchestrator", "coder", "tester")
    rig.delegate("coder", "x")
    rig.wait_task("T1", "picked-up")
    pids = {r["name"]: r["pid"] for r in rig.status()["roles"]}
    rig.team(lead, agent_role("coder", "report", timeout="9m"), agent_role("tester", "mute2"),
             tail='[ui.theme]\nidle = "3"\n')  # fmt: skip
    ack = reload(rig)
    assert ack["respawned"] == ["tester"]
    assert ack["changed"] == ["coder"]
    assert ack["needs_restart"] == ["ui"]
    (skipped,) = ack["skipped"]  # type: ignore[misc]
    assert (skipped["role"], "T1 is picked-up" in skipped["why"]) == ("coder", True)
    after = {r["name"]: r["pid"] for r in rig.status()["roles"]}
    assert {name for name in pids if pids[name] != after[name]} == {"tester"}
    (rig.dir / "rested").touch()
    rig.send(Verb.WORK_DONE, id="T1", task="done")
    rig.wait_idle("coder")
    assert reload(rig)["respawned"] == ["coder"]
    rig.delegate("coder", "y")
    rig.wait_task("T2", "reported")


def test_a_file_that_is_wrong_changes_nothing_and_says_why(rig: DeckRig) -> None:
    lead, coder = agent_role("orchestrator"), agent_role("coder")
    rig.team(lead, coder)
    rig.serve()
    before = rig.role("coder")["pid"]
    for roles, tail, says in (
        ([lead], "oops", "correct the TOML there"),
        ([lead, {"name": "new", "command": "no-such-agent"}], "", "is not on PATH"),
        ([lead, agent_role("new", tiemout="9m")], "", "did you mean timeout?"),
        ([lead, agent_role("new", worktree=True)], "", "git"),
        ([lead, agent_role("new", require_routing=True)], "", "require_routing = true, but"),
    ):
        rig.team(*roles, tail=tail)
        failed = rig.cli("reload")
        assert failed.returncode == 1
        assert failed.stderr.startswith("error: Nothing was changed: ")
        assert says in failed.stderr
    assert [r["name"] for r in rig.status()["roles"]] == ["orchestrator", "coder"]
    assert rig.role("coder")["pid"] == before
    assert rig.events().count('msg="reload: ') == 5


def test_the_start_role_begins_anew_with_a_recap(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder", approve=True))
    rig.serve()
    rig.wait(lambda: rig.seen("orchestrator"))
    rig.delegate("coder", "x")
    rig.team(agent_role("orchestrator", "mute2"), agent_role("coder"))
    (skipped,) = reload(rig)["skipped"]  # type: ignore[misc]
    assert (skipped["role"], "G1 waits" in skipped["why"]) == ("orchestrator", True)
    assert rig.cli("reject", "G1").returncode == 0
    assert reload(rig)["respawned"] == ["orchestrator"]
    rig.wait(lambda: sum("orchestrator-context.md" in s for s in rig.seen("orchestrator")) == 2)
    assert "## Where the session stands" in (rig.state_dir / "orchestrator-context.md").read_text()


def test_an_agent_gains_nothing_by_editing_the_team_file(rig: DeckRig) -> None:
    lead, coder = agent_role("orchestrator"), agent_role("coder", approve=True)
    rig.team(lead, coder, tail="[roster]\napprove = false\n")
    rig.serve()
    rig.wait_idle("orchestrator")
    rig.team(lead, {**coder, "approve": False}, tail="[roster]\napprove = false\n")
    edited = (rig.dir / ".choragos.toml").read_bytes()
    order(rig, "reload")
    rig.wait(lambda: any("Only an operator may use reload" in s for s in rig.seen("orchestrator")))
    order(rig, "roster|add|--name|scout|--command|sh")
    rig.wait(lambda: any("changed since it was loaded" in s for s in rig.seen("orchestrator")))
    assert (rig.dir / ".choragos.toml").read_bytes() == edited
    assert rig.delegate("coder", "x")["state"] == "gated"


def order(rig: DeckRig, line: str) -> None:
    assert rig.delegate("orchestrator", f"!{line}")["state"] == "queued"


def test_work_handed_out_while_a_role_begins_anew_reaches_the_new_process(rig: DeckRig) -> None:
    lead = agent_role("orchestrator")
    rig.team(lead, agent_role("coder", "stubborn"))
    rig.serve()
    rig.wait_idle("orchestrator", "coder")
    old = rig.role("coder")["pid"]
    rig.team(lead, agent_role("coder", "report"))
    command = [sys.executable, "-m", "deck.cli", "reload", "--json"]
    reloading = subprocess.Popen(command, cwd=rig.dir, env=rig.env, stdout=subprocess.PIPE)
    rig.wait(lambda: any("role-changed" in op for op, _ in entries(rig, "role-changed")))
    ids = [rig.delegate("coder", f"job {number}")["id"] for number in range(3)]
    out, _ = reloading.communicate(timeout=30)
    ack = json.loads(out)
    assert (ack["respawned"], ack["failed"]) == (["coder"], [])
    for task_id in ids:
        rig.wait_task(task_id, "reported")
    assert not Path(f"/proc/{old}").exists()


def test_a_crash_after_a_reload_goes_on_with_the_team_that_was_in_force(rig: DeckRig) -> None:
    lead = agent_role("orchestrator")
    rig.team(lead, agent_role("coder"), agent_role("tester"))
    rig.serve()
    rig.wait_idle("coder", "tester")
    rig.delegate("tester", "one")
    rig.wait_task("T1", "submitted", "picked-up")
    rig.team(lead, agent_role("coder"), agent_role("scout"))
    reload(rig)
    rig.wait_idle("scout")
    rig.delegate("scout", "two")
    rig.wait_task("T2", "submitted", "picked-up")
    assert rig.send(Verb.PAUSE, id="scout")["status"] == "ok"
    os.kill(rig.pid(), signal.SIGKILL)
    rig.serve("--no-sphragis")
    rig.wait_idle("scout")
    assert [rig.task(t)["state"] for t in ("T1", "T2")] == ["lost", "lost"]
    assert [r["name"] for r in rig.status()["roles"]][:2] == ["orchestrator", "coder"]
    assert rig.cli("again", "T2").returncode == 0
    rig.wait_task("T2", "submitted", "picked-up")
    assert "not running" in rig.cli("again", "T1").stderr
    assert rig.send(Verb.WORK_DONE, id="T1", task="late")["resolved"]
    assert rig.cli("kill").returncode == 0
    assert verify_path(rig.state_dir / "ledger").exit_code == 0


# -- proposals ----------------------------------------------------------------------------------


def test_a_proposed_role_joins_only_as_it_was_approved(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"), tail="# the end, without a newline")
    before = (rig.dir / ".choragos.toml").read_bytes()
    rig.serve()
    rig.wait_idle("orchestrator")
    program = str(agent_role("x")["command"])
    order(rig, f"roster|add|--name|scout|--command|{program}|--arg|agent.py|--arg|report"
               "|--prompt-template|You look.")  # fmt: skip
    gate = rig.wait(lambda: [g for g in rig.status()["gates"] if g["kind"] == "roster"])[0]
    assert (gate["role"], gate["state"]) == ("scout", "open")
    assert (rig.dir / ".choragos.toml").read_bytes() == before
    again = rig.cli("roster", "add", "--name", "scout", "--command", "sh")
    assert (again.returncode, "waits as G1" in again.stderr) == (1, True)
    shown = rig.cli("show", "G1").stdout
    assert 'prompt_template = "You look."' in shown
    assert rig.cli("approve", "G1").returncode == 0
    rig.wait(lambda: any("Team changed: +scout" in s for s in rig.seen("orchestrator")))
    after = (rig.dir / ".choragos.toml").read_bytes()
    assert after.startswith(before)
    assert b"\n# Proposed by orchestrator while the team ran.\n[[roles]]\n" in after
    rig.delegate("scout", "look")
    rig.wait_task("T2", "reported")
    assert 'msg="roster add applied" role=scout' in rig.events()
    assert reload(rig)["added"] == []


def test_a_proposal_is_refused_in_the_ack_the_log_and_the_pane(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    rig.serve()
    for name, program, says in (
        ("a b", "sh", "cannot be the name of a role"),
        ("operator", "sh", "cannot be the name of a role"),
        ("coder", "sh", "a role named coder already"),
        ("a", "no-such-agent", "is not on PATH"),
    ):
        refused = rig.cli("roster", "add", "--name", name, "--command", program)
        assert (refused.returncode, says in refused.stderr) == (1, True)
    assert rig.events().count('msg="roster add refused"') == 4
    assert len(entries(rig, "denied")) == 4
    rig.wait(lambda: any("[choragos] roster add of a refused" in s for s in rig.seen(LEADER)))


def test_a_team_file_may_allow_no_proposals(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), tail="[roster]\npropose = false\n")
    rig.serve()
    refused = rig.cli("roster", "add", "--name", "a", "--command", "sh")
    assert (refused.returncode, "propose = false" in refused.stderr) == (1, True)


def test_a_proposal_waits_for_the_gateway_and_workers_propose_nothing(
    rig: DeckRig, gateway: FakeGateway
) -> None:
    tail = f'[sphragis]\nenabled = true\naddr = "{gateway.addr}"\n[roster]\napprove = false\n'
    rig.team(agent_role("orchestrator"), agent_role("coder"), tail=tail)
    rig.serve("--sphragis")
    rig.wait_idle("coder")
    assert rig.delegate("coder", "!roster|add|--name|a|--command|sh")["state"] == "queued"
    rig.wait(lambda: any("Only orchestrator may use roster-add" in s for s in rig.seen("coder")))
    gateway.mode = "down"
    refused = rig.cli("roster", "add", "--name", "a", "--command", "sh")
    assert "the gateway is not ready: ledger not writable" in refused.stderr
    gateway.mode = "ready"
    program = str(agent_role("x")["command"])
    done = rig.cli("roster", "add", "--name", "a", "--command", program, "--arg", "agent.py")
    assert done.stdout == "roster add requested; the outcome lands in the orchestrator's pane\n"
    rig.wait_idle("a")


def test_the_built_in_team_has_no_file_to_add_to(rig: DeckRig) -> None:
    bin_dir = rig.dir / "bin"
    bin_dir.mkdir()
    for name in ("claude", "agy"):
        (bin_dir / name).write_text("#!/bin/sh\nexec cat\n")
        (bin_dir / name).chmod(0o755)
    rig.env["PATH"] = f"{bin_dir}:{rig.env['PATH']}"
    rig.serve()
    assert "the built-in team has no file" in rig.cli("reload").stderr
    added = rig.cli("roster", "add", "--name", "a", "--command", "sh")
    assert "the built-in team has no file" in added.stderr
