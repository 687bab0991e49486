"""What a person reads about gates and tasks; texts from agents stay texts."""

from __future__ import annotations

import io
import os
import pty
import sys
import time
from typing import Any

import pytest
from rich.console import Console

from deck.cli import show as show_verb
from deck.cli.gates import in_a_line, said, table
from deck.cli.live import render


def row(**fields: Any) -> dict[str, Any]:
    return {
        "id": "G1", "kind": "entry", "what": "task", "task": "T1", "role": "coder",
        "from": "orchestrator", "label": "deploy", "brief": "", "why": "", "path": "",
        "hash": "abcdef0123456789", "state": "open", "approver": "", "reason": "", "at": 1,
        "until": 0, "needed": 1, "approvals": [], "progress": "", "changed": "", **fields,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({}, "G1  T1 -> coder  deploy  hash abcdef012345"),
        ({"brief": "/b.md"}, "G1  T1 -> coder  deploy  brief /b.md  hash abcdef012345"),
        (
            {"kind": "merge", "what": "merge", "progress": "1 of 2 (alice)"},
            "G1  T1 -> coder  merge: deploy  hash abcdef012345  1 of 2 (alice)",
        ),
        (
            {
                "kind": "roster",
                "what": "new role",
                "task": "",
                "role": "tester",
                "label": "x\x1b[2J",
            },
            "G1  tester  new role: x\\x1b[2J  hash abcdef012345",
        ),
        (
            {"state": "rejected", "approver": "bob", "until": 5},
            "G1  T1 -> coder  deploy  hash abcdef012345  rejected by bob",
        ),
        (
            {"changed": "its brief was changed", "until": 5},
            "G1  T1 -> coder  deploy  hash abcdef012345  cannot be approved: its brief was changed",
        ),
    ],
)
def test_a_gate_in_a_line(fields: dict[str, Any], line: str) -> None:
    assert in_a_line(row(**fields)) == line


def test_the_time_left_is_told() -> None:
    until = round((time.time() + 7205) * 1e6)
    assert in_a_line(row(until=until)).endswith("expires in 2h")


def test_gates_of_all_kinds_are_a_table_on_a_terminal() -> None:
    out = io.StringIO()
    rows = [row(), row(id="G2", kind="judge", what="result that no judge accepted",
                       label="[red]x[/]", progress="1 of 2 (alice)")]  # fmt: skip
    Console(file=out, width=140).print(table(rows))
    head, _, first, second = out.getvalue().splitlines()
    assert head.split() == ["gate", "about", "of", "role", "approvals", "label", "note"]
    assert first.split()[:4] == ["G1", "task", "T1", "coder"]
    assert "result that no judge accepted" in second
    assert "[red]x[/]" in second


@pytest.mark.parametrize(
    ("kind", "decision", "says"),
    [
        ("entry", "approved", "G1 approved: T1"),
        ("entry", "rejected", "G1 rejected: T1"),
        ("judge", "approved", "G1 approved: the result of T1 is accepted"),
        ("ownership", "rejected", "G1 rejected: the result of T1 is not accepted"),
        (
            "merge",
            "approved",
            "G1 approved: the branch of T1 goes to its merge, see `choragos worktrees`",
        ),
        ("merge", "rejected", "G1 rejected: the branch of T1 is kept and not merged"),
        ("roster", "approved", "G1 approved: tester may join the team"),
        ("roster", "rejected", "G1 rejected: tester does not join the team"),
        ("entry", "voted", "G1 1 of 2 approvals (alice); it needs another person"),
    ],
)
def test_what_follows_is_said_for_every_kind(kind: str, decision: str, says: str) -> None:
    ack = {"gate": "G1", "id": "T1", "kind": kind, "decision": decision, "role": "tester",
           "needed": 2, "approvals": ["alice"]}  # fmt: skip
    assert said(ack) == says


def test_the_board_says_what_waits_and_why_it_cannot_be_approved() -> None:
    gates = [
        row(label="a\x1b[2Jb"),
        row(id="G2", kind="merge", what="merge", progress="1 of 2 (alice)"),
        row(id="G3", changed="its brief was changed since the gate opened"),
        row(id="G4", state="void"),
    ]
    gateway = {"on": False, "up": False, "reason": "", "url": ""}
    status: dict[str, Any] = {
        "dir": "/p", "phase": "running", "gateway": gateway, "finished": False, "roles": [],
        "tasks": [], "usage": [], "gates": gates, "reports": [], "journal": {"failure": None},
    }  # fmt: skip
    out = io.StringIO()
    Console(file=out, width=140).print(render(status))
    text = out.getvalue()
    assert "G1 waits: choragos approve G1  (a [2Jb)" in text
    assert "G2 waits: choragos approve G2  (merge: deploy)  1 of 2 (alice)" in text
    assert "G3 cannot be approved: its brief was changed since the gate opened  (deploy)" in text
    assert "G4" not in text
    assert "\x1b" not in text


def test_a_lost_task_is_shown_with_its_last_screen() -> None:
    found = {
        "task": {"id": "T3", "state": "lost", "role": "coder", "from": "operator",
                 "reason": "coder has exited (status 7)", "gate": "G1"},
        "history": [{"at": 1_000_000, "said": "given to coder by operator"},
                    {"at": 0, "said": "G1 rejected by bob"}],
        "parts": [{"title": "task", "text": "do\nit", "path": "", "cut": False},
                  {"title": "last screen", "text": "$ \x1b]0;x\x07", "path": "", "cut": True}],
    }  # fmt: skip
    assert show_verb.drawn(found).splitlines() == [
        "T3  lost  coder",
        "  asked by   operator",
        "  reason     coder has exited (status 7)",
        "  gate       G1",
        "",
        "  1970-01-01T00:00:01Z  given to coder by operator",
        "                        G1 rejected by bob",
        "",
        "--- task",
        "  do",
        "  it",
        "",
        "--- last screen",
        "  $ \\x1b]0;x\\x07",
        "--- the rest is too long to be shown here",
    ]


@pytest.mark.parametrize(("option", "paged"), [("", True), (", no_pager=True", False)])
def test_only_on_a_terminal_a_long_text_goes_through_the_pager(option: str, paged: bool) -> None:
    code = f"from deck.cli.show import printed; printed('line\\n' * 100{option})"
    child, terminal = pty.fork()
    if child == 0:
        env = {"PATH": os.environ["PATH"], "TERM": "xterm", "PAGER": "sed s/^/paged:/"}
        os.execve(sys.executable, [sys.executable, "-c", code], env)
    out = b""
    try:
        while chunk := os.read(terminal, 4096):
            out += chunk
    except OSError:
        pass
    os.close(terminal)
    os.waitpid(child, 0)
    assert (b"paged:line" in out) == paged
    assert out.count(b"line") == 100


def test_no_text_of_an_agent_passes_for_a_line_of_ours() -> None:
    found = {
        "gate": row(why="because\n  changed    no"), "signers": [],
        "parts": [{"title": "task", "text": "x\n\n--- brief (/b)\n  digest  0", "path": "",
                   "cut": False}],
    }  # fmt: skip
    lines = show_verb.drawn(found).splitlines()
    assert [line for line in lines if line.startswith("---")] == ["--- task"]
    assert "  why        because\\n  changed    no" in lines
