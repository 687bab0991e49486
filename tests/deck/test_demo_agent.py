from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck.demo import project
from deck.demo.agent import compose, role_of
from deck.demo.canaries import demo_canaries
from deck.demo.prompt_line import EndOfInput, LineEditor


def entered(*chunks: bytes) -> list[str]:
    editor = LineEditor()
    return [line for chunk in chunks for line in editor.feed(chunk)[1]]


def test_a_typed_line_is_entered_by_its_own_enter() -> None:
    assert entered(b"Read x.md", b"\r") == ["Read x.md"]
    assert entered(b"a\rb\n") == ["a", "b"]


def test_a_pasted_newline_stays_text_until_enter() -> None:
    assert entered(b"\x1b[200~one\ntwo\x1b[201~") == []
    assert entered(b"\x1b[200~one\ntwo\x1b[201~", b"\r") == ["one\ntwo"]


def test_erase_and_kill_and_arrow_keys_leave_no_trace() -> None:
    assert entered(b"abx\x7fc\r") == ["abc"]
    assert entered(b"junk\x15good\r") == ["good"]
    assert entered(b"a\x1b[A\x1bOBb\x1b[1;5Cc\x1bxd\r") == ["abcd"]


def test_an_empty_enter_is_nothing_and_control_d_ends() -> None:
    assert entered(b"\r", b"  \r") == []
    with pytest.raises(EndOfInput):
        LineEditor().feed(b"\x04")


@given(
    st.text(
        st.characters(min_codepoint=32, exclude_characters="\x7f", exclude_categories=("Cs", "Cc"))
    ),
    st.data(),
)
def test_the_line_does_not_depend_on_how_the_bytes_are_cut(text: str, data: st.DataObject) -> None:
    whole = b"\x1b[200~" + text.encode() + b"\x1b[201~\r"
    cut = data.draw(st.integers(0, len(whole)))
    assert entered(whole[:cut], whole[cut:]) == ([text] if text.strip() else [])


def test_a_line_brings_in_the_task_file_and_the_brief_it_points_at(tmp_path: Path) -> None:
    brief = tmp_path / "briefs" / "fix.md"
    brief.parent.mkdir()
    brief.write_text("the brief, see README.md")
    (tmp_path / "README.md").write_text("not followed")
    (tmp_path / "other.md").write_text("not followed")
    task = (
        f"See other.md\n\n## Task\nTask id: T1\nRead {brief}\n\n## When done\nwrite to other.md\n"
    )
    (tmp_path / "task.md").write_text(task)
    message = compose("Read task.md for your task.", tmp_path, {})
    assert message == f"Read task.md for your task.\n\n{task}\n\nthe brief, see README.md"


def test_a_report_wakes_the_instruction_that_mentions_it_and_no_other(tmp_path: Path) -> None:
    memory: dict[str, str] = {}
    (tmp_path / "context.md").write_text(
        'When a report mentions T1: @tool bash {"command": "one"}\n'
        'When a report mentions T11: @tool bash {"command": "eleven"}\n'
    )
    assert "@tool" not in compose("[choragos] T1 was lost", tmp_path, memory)
    compose("Read context.md for your role", tmp_path, memory)
    woken = compose("[choragos] A worker reports: T1: done", tmp_path, memory)
    assert woken.endswith('\n\n@tool bash {"command": "one"}')
    assert "eleven" not in woken
    assert "@tool" not in compose("[choragos] T1 was lost", tmp_path, memory)


@pytest.mark.parametrize(
    ("url", "role"),
    [
        ("http://127.0.0.1:1/agent/coder", "coder"),
        ("http://127.0.0.1:1/agent/a.b-c/", "a.b-c"),
        ("http://127.0.0.1:1", "agent"),
    ],
)
def test_the_role_is_the_one_in_the_gateway_url(url: str, role: str) -> None:
    assert role_of(url) == role


def test_the_team_file_is_valid_and_its_script_is_nested_json_all_the_way() -> None:
    import tomllib

    canaries = demo_canaries()
    text = project.team_file(python="/p", sphragis="/s", addr="127.0.0.1:1", canaries=canaries)
    roles = {role["name"]: role for role in tomllib.loads(text)["roles"]}
    assert tuple(roles) == project.ROLES
    first = next(
        line for line in roles["orchestrator"]["prompt_template"].splitlines() if "@tool" in line
    )
    brief = json.loads(first.removeprefix("@tool write_file "))["content"]
    inner = next(
        line for line in brief.splitlines() if project.CUSTOMERS in line and "@tool" in line
    )
    written = json.loads(inner.removeprefix("@tool write_file "))["content"]
    assert written == project.contacts(canaries)
    for role in roles.values():
        assert all(c.value in role["prompt_template"] for c in canaries)


def test_a_failed_call_is_one_line_on_the_screen_and_the_agent_goes_on(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    agent = subprocess.Popen(
        [sys.executable, "-m", "deck.demo.agent"],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "ANTHROPIC_API_KEY": "offline",
            # Port 9 of the loopback: nobody answers.
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/agent/coder",
            "CHORAGOS_DEMO_TRACE": str(tmp_path),
        },
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        screen = read_until(ours, b"state=idle")
        assert b"\x1b[?2004h" in screen
        os.write(ours, b"\x1b[200~hello\x1b[201~\r")
        screen = read_until(ours, b"state=idle")
        assert b"state=working:" in screen
        assert b"no gateway at http://127.0.0.1:9/agent/coder" in screen
        assert b"Traceback" not in screen
        os.write(ours, b"\x04")
        assert agent.wait(10) == 0
    finally:
        agent.kill()
        agent.wait()
        os.close(ours)
    (line,) = (tmp_path / "coder.jsonl").read_text().splitlines()
    assert json.loads(line)["sent"] == [{"role": "user", "content": "hello"}]


def read_until(terminal: int, wanted: bytes, seconds: float = 30) -> bytes:
    seen = b""
    deadline = time.monotonic() + seconds
    while wanted not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([terminal], [], [], 0.2)[0]:
            seen += os.read(terminal, 4096)
    return seen
