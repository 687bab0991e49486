"""What a person or an agent is told by the command line, in real sessions, word for word."""

import json
import os
import signal
import stat
import subprocess
import sys

import pytest
from deck_harness import DeckRig, agent_role

from deck.cli.serve import _detach, _wait_until_running
from deck.events import parse_event
from deck.protocol import Verb


def test_a_decided_gate_says_who_why_and_that_it_is_over(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("rel", approve=True))
    rig.serve()
    brief = rig.dir / "brief.md"
    brief.write_text("one\n")
    for _ in range(2):
        rig.delegate("rel", "ship it", brief=str(brief))
    assert rig.cli("approve", "G1", "--reason", "looked at it").returncode == 0
    brief.write_text("two\n")
    changed = "error: G2 is void: its brief was changed since the gate opened\n"
    # Said the same however often somebody tries.
    assert [rig.cli("approve", "G2").stderr for _ in range(2)] == [changed, changed]
    first, second = rig.cli("gates", "--all").stdout.splitlines()
    assert first.endswith("approved by operator: looked at it")
    assert second.endswith("void by operator: its brief was changed since the gate opened")
    again = rig.cli("reject", "G1")
    assert again.stderr == "error: G1 was approved already; a gate is decided once.\n"


def test_work_for_a_paused_role_is_in_the_event_log(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"), agent_role("rel", approve=True))
    rig.serve()
    rig.wait_idle("coder", "rel")
    for role in ("coder", "rel"):
        rig.send(Verb.PAUSE, id=role)
        assert rig.delegate(role, "later")["state"] != "refused"
    lines = [line for line in rig.events().splitlines() if "delegate to paused role" in line]
    assert [line.split(" id=")[1] for line in lines] == ["T1 to=coder", "T2 to=rel"]
    assert all(" level=WARN " in line for line in lines)


def test_a_reload_that_was_refused_is_not_said_to_be_requested(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"))
    rig.serve()
    (rig.dir / ".choragos.toml").write_text("[[roles]\n")
    done = rig.cli("reload")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: Nothing was changed: ")
    assert 'msg="reload: ' in rig.events()


def test_reports_that_nobody_was_there_to_read_are_brought_to_the_next_reader(
    rig: DeckRig,
) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    rig.serve()
    rig.wait_idle("orchestrator", "coder")
    os.kill(rig.role("orchestrator")["pid"], signal.SIGKILL)
    rig.wait(lambda: rig.role("orchestrator")["state"] == "exited")
    for number in range(3):
        rig.send(Verb.WORK_DONE, task=f"part {number}")
    assert [report["state"] for report in rig.status()["reports"]] == ["kept"] * 3
    rig.cli("restart", "orchestrator")
    rig.wait(lambda: len(brought(rig)) == 3)
    assert brought(rig) == [f"A worker reports: part {number}" for number in range(3)]
    rig.wait(lambda: {report["state"] for report in rig.status()["reports"]} == {"delivered"})
    # The brief of the new process came first.
    assert "orchestrator-context.md" in rig.seen("orchestrator")[-4]


def brought(rig: DeckRig) -> list[str]:
    return [line for line in rig.seen("orchestrator") if line.startswith("A worker reports")]


def test_what_a_role_shows_is_in_its_log_when_the_deck_is_killed(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    rig.serve()
    log = rig.state_dir / "logs" / "coder.log"
    rig.wait(lambda: log.exists() and "fake coder" in log.read_text())
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    os.kill(rig.pid(), signal.SIGKILL)
    rig.wait(lambda: not rig.marked())
    assert log.read_text().count("=== coder ") == 1
    # The next one writes behind it.
    rig.serve("--no-sphragis", "--resume")
    rig.wait(lambda: log.read_text().count("=== coder ") == 2)
    rig.cli("kill")
    assert log.read_text().count("=== coder ") == 2


def test_a_role_may_bear_the_name_of_a_log(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("events"), agent_role("crash"))
    rig.serve()
    rig.wait_idle("events", "crash")
    rig.cli("kill")
    logs = rig.state_dir / "logs"
    assert not (logs / "crash.log").exists()
    assert all(line.startswith("time=") for line in rig.events().splitlines())
    assert "fake events" in (logs / "role-events.log").read_text()
    assert json.loads(rig.cli("report", "--json").stdout)["roles"]


def test_roles_keep_their_order_over_a_resume_and_new_ones_come_last(rig: DeckRig) -> None:
    roles = [agent_role(name) for name in ("orchestrator", "b", "c")]
    rig.team(*roles)
    rig.serve()
    rig.cli("kill")
    # The file may have them in any order; the first one starts.
    rig.team(roles[0], agent_role("new"), roles[2], roles[1])
    rig.serve("--no-sphragis", "--resume")
    order = ["orchestrator", "b", "c", "new"]
    assert [role["name"] for role in rig.status()["roles"]] == order
    kept = json.loads((rig.state_dir / "session.json").read_text())["roster"]
    assert [role["name"] for role in kept] == order
    rig.cli("kill")
    # A session that begins afresh takes the file's.
    rig.serve()
    names = [role["name"] for role in rig.status()["roles"]]
    assert names == ["orchestrator", "new", "c", "b"]


def test_why_there_are_no_checkpoints_is_in_the_event_log(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), tail="[checkpoints]\nenabled = false\n")
    rig.serve()
    (line,) = [line for line in rig.events().splitlines() if "checkpoints disabled" in line]
    assert line.endswith('reason="the team file says enabled = false in [checkpoints]"')


@pytest.mark.parametrize("words", [("ls",), ("kill",), ("gates",), ("serve", "--no-sphragis")])
def test_a_socket_path_that_no_system_takes_is_said_in_words(
    rig: DeckRig, words: tuple[str, ...]
) -> None:
    rig.team(agent_role("orchestrator"))
    done = rig.cli(*words, CHORAGOS_SOCK=f"/tmp/{'x' * 120}.sock")
    if words == ("ls",):
        assert done.stdout == "no running sessions\n"
        return
    assert done.returncode == 1
    assert "CHORAGOS_SOCK to a shorter path" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("group", ["roster", "approver"])
def test_a_group_without_a_verb_shows_its_help(rig: DeckRig, group: str) -> None:
    done = rig.cli(group)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{group} [OPTIONS] COMMAND" in done.stdout


def test_a_role_without_a_command_is_told_so(rig: DeckRig) -> None:
    (rig.dir / ".choragos.toml").write_text('[[roles]]\nname = "lead"\nstart = true\n')
    done = rig.cli("serve", "--detach", "--no-sphragis")
    assert done.returncode == 1
    assert done.stderr == "error: role lead has no command; add command = to its [[roles]] table.\n"


@pytest.mark.parametrize("way", [("--detach",), ()])
@pytest.mark.parametrize("place", [".choragos", ".choragos/logs", ".choragos/ledger"])
def test_files_where_the_deck_keeps_its_own_are_said_in_words(
    rig: DeckRig, way: tuple[str, ...], place: str
) -> None:
    rig.team(agent_role("orchestrator"))
    (rig.dir / place).parent.mkdir(exist_ok=True)
    (rig.dir / place).write_text("in the way\n")
    done = rig.cli("serve", *way, "--no-sphragis")
    assert done.returncode == 1
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert str(rig.dir / place) in said
    assert "Traceback" not in done.stderr
    assert (rig.dir / place).read_text() == "in the way\n"


def test_the_first_line_of_a_run_says_what_runs_and_where(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    rig.serve()
    first = parse_event(rig.events().splitlines()[0])
    assert (first.level, first.msg) == ("INFO", "deck starting")
    assert list(first.fields) == [
        "roles", "sphragis", "dir", "pid", "version", "mode", "os", "go", "python",
    ]  # fmt: skip
    assert (first.fields["roles"], first.fields["sphragis"]) == ("2", "false")
    assert (first.fields["mode"], first.fields["pid"]) == ("server", str(rig.pid()))


def test_a_session_that_dies_without_a_word_is_told_with_its_log(
    rig: DeckRig, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        _detach(rig.paths, ["-c", "raise SystemExit(5)"])
    log = rig.state_dir / "logs" / "server.log"
    assert capsys.readouterr().err == (
        f"error: the session ended at once (exit 5); what it said is in {log}\n"
    )


def test_who_forgets_the_team_file_of_the_last_session_is_told_its_name(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"))
    other = rig.dir / "night.toml"
    (rig.dir / ".choragos.toml").rename(other)
    rig.serve("--no-sphragis", "--config", "night.toml")
    rig.cli("kill")
    # The built-in team, whose programs are not here, is not what was meant.
    forgot = rig.cli("serve", "--resume", "--no-sphragis", PATH="/usr/bin:/bin")
    assert (forgot.returncode, forgot.stdout) == (1, "")
    assert forgot.stderr == (
        f"error: The last session ran with {other}, and this is the built-in team; resume with "
        f"`choragos serve --resume --config {other}`, or start afresh without --resume.\n"
    )
    missing = rig.cli("serve", "--no-sphragis", PATH="/usr/bin:/bin")
    assert missing.stderr.startswith("error: role orchestrator: the command 'claude' is not on")


def test_of_decks_started_at_once_only_one_is_said_to_have_started(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"))
    command = [sys.executable, "-m", "deck.cli", "serve", "--detach", "--no-sphragis"]
    tries = [
        subprocess.Popen(
            command, cwd=rig.dir, env=rig.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(3)
    ]
    ends = [(one.communicate(timeout=120), one.returncode) for one in tries]
    assert sorted(status for _, status in ends) == [0, 1, 1]
    for (said, wrong), status in ends:
        if status == 0:
            assert f"pid {rig.pid()} " in said.decode()
        else:
            assert (said, wrong.count(b"\n")) == (b"", 1)
            assert wrong.startswith(b"error: a session already runs for this directory")


def test_a_session_that_answers_is_not_taken_for_another_one_that_was_started(
    rig: DeckRig,
) -> None:
    rig.team(agent_role("orchestrator"))
    rig.serve()
    late = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5); exit(1)"])
    assert _wait_until_running(rig.paths, late) == "the session ended at once (exit 1)"


def test_a_start_that_was_refused_is_no_run_and_does_not_end_the_last_one(rig: DeckRig) -> None:
    rig.team(agent_role("orchestrator"))
    resume = ("serve", "--detach", "--resume", "--no-sphragis")
    assert "There is no earlier session here" in rig.cli(*resume).stderr
    # Neither is it one whose socket could not be made.
    assert rig.cli(*resume[:2], "--no-sphragis", CHORAGOS_SOCK="/nowhere/x.sock").returncode == 1
    none = rig.cli("report")
    assert (none.returncode, none.stdout) == (1, "")
    assert none.stderr.endswith("there are no events to report on yet\n")
    rig.serve()
    rig.cli("kill")
    before = rig.events()
    assert 'msg="deck stopping"' in before
    (rig.dir / ".choragos.toml").rename(rig.dir / "other.toml")
    refused = rig.cli(*resume, "--config", "other.toml")
    assert refused.stderr.startswith("error: The last session ran with ")
    assert rig.events() == before


def test_who_reports_while_the_start_role_is_gone_is_told_that_the_report_is_kept(
    rig: DeckRig,
) -> None:
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    rig.serve()
    rig.wait_idle("orchestrator")
    os.kill(rig.role("orchestrator")["pid"], signal.SIGKILL)
    rig.wait(lambda: rig.role("orchestrator")["state"] == "exited")
    done = rig.cli("work-done", "--task", "the parser")
    assert (done.returncode, done.stdout) == (0, "reported to orchestrator\n")
    assert done.stderr == (
        "the report is kept, but not passed on: orchestrator has exited; it gets the report once "
        "it runs again\n"
    )
    assert rig.send(Verb.WORK_DONE, task="more")["state"] == "kept"
    assert rig.cli("restart", "orchestrator").returncode == 0
    rig.wait(lambda: "A worker reports: the parser" in rig.seen("orchestrator"))
