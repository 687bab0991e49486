"""What the doctor sees of this machine: who answers and listens, first runs, a wall, worktrees.

What cannot be seen is said, and stops nothing.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from wall_tools import real_bwrap

from deck import doctor
from deck.doctor import Level, check_gateway, check_socket, diagnose
from deck.facts import GatewayState, collect
from deck.firstrun import dialogs, missing_login
from deck.listeners import Holder, holder_of, process_behind


def test_the_bypass_check_sees_only_what_the_roles_filters_let_through(tmp_path: Path) -> None:
    (tmp_path / ".choragos.toml").write_text(
        '[[roles]]\nname = "lead"\ncommand = "sh"\nstart = true\n'
        '[[roles]]\nname = "coder"\ncommand = "sh"\nenv_deny = ["OPENAI_*"]\n'
        '[sphragis]\naddr = "127.0.0.1:1"\n'
    )
    environ = {
        "PATH": "/usr/bin:/bin",
        "TERM": "xterm",
        "XDG_RUNTIME_DIR": str(tmp_path),
        "OPENAI_API_KEY": "sk-secret-value",
    }
    facts = collect(None, tmp_path, environ)
    found = [finding.line() for finding in diagnose(facts)]
    assert sum("OPENAI_API_KEY" in line for line in found) == 1
    assert not any("sk-secret-value" in line for line in found)
    assert facts.gateway is GatewayState.NOTHING
    assert "git init" in facts.repository_problem
    assert facts.socket.startswith(str(tmp_path))


@contextmanager
def http_server(answers: dict[str, tuple[int, bytes]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = answers.get(self.path, (404, b"no"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("answers", "state"),
    [
        ({"/readyz": (200, json.dumps({"ready": True}).encode())}, GatewayState.READY),
        (
            {"/readyz": (503, json.dumps({"ready": False, "reasons": ["disk full"]}).encode())},
            GatewayState.NOT_READY,
        ),
        ({"/metrics": (200, b"# HELP sphragis_tokens_total x\n")}, GatewayState.READY),
        ({"/": (200, b"hello")}, GatewayState.FOREIGN),
    ],
)
def test_what_answers_at_the_address_is_recognized(
    tmp_path: Path, answers: dict[str, tuple[int, bytes]], state: GatewayState
) -> None:
    with http_server(answers) as address:
        (tmp_path / ".choragos.toml").write_text(
            f'[[roles]]\nname = "a"\ncommand = "sh"\n[sphragis]\naddr = "{address}"\n'
        )
        facts = collect(None, tmp_path, {"PATH": "/bin", "XDG_RUNTIME_DIR": str(tmp_path)})
    assert facts.gateway is state
    if state is GatewayState.NOT_READY:
        assert "disk full" in facts.gateway_reason


def test_an_address_that_is_none_or_is_held_by_a_silent_server_is_said(tmp_path: Path) -> None:
    def state(address: str) -> GatewayState:
        (tmp_path / ".choragos.toml").write_text(
            f'[[roles]]\nname = "a"\ncommand = "sh"\n[sphragis]\naddr = "{address}"\n'
        )
        facts = collect(None, tmp_path, {"PATH": "/bin", "XDG_RUNTIME_DIR": str(tmp_path)})
        (found,) = check_gateway(facts)
        assert found.level is Level.FAIL
        return facts.gateway

    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert state(f"127.0.0.1:{silent.getsockname()[1]}") is GatewayState.FOREIGN
    assert state("127.0.0.1:notaport") is GatewayState.BAD_ADDRESS


def test_a_runtime_directory_that_cannot_be_made_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    facts = collect(None, tmp_path, {"PATH": "/bin", "XDG_RUNTIME_DIR": str(tmp_path / "file")})
    (found,) = check_socket(facts)
    assert found.level is Level.FAIL
    assert "XDG_RUNTIME_DIR" in found.message


def test_a_gateway_installed_beside_the_deck_needs_no_path(tmp_path: Path) -> None:
    (tmp_path / ".choragos.toml").write_text(
        '[[roles]]\nname = "a"\ncommand = "sh"\n[sphragis]\naddr = "127.0.0.1:1"\n'
    )
    facts = collect(None, tmp_path, {"PATH": "/bin", "XDG_RUNTIME_DIR": str(tmp_path)})
    (found,) = check_gateway(facts)
    assert found.level is Level.OK
    assert "sphragis: started with the session" in found.message


def test_a_broken_team_file_still_lets_the_other_checks_run(tmp_path: Path) -> None:
    (tmp_path / ".choragos.toml").write_text("roles = 1")
    found = diagnose(collect(None, tmp_path, {"PATH": "/bin", "XDG_RUNTIME_DIR": str(tmp_path)}))
    assert [finding.name for finding in found] == ["config", "socket", "terminal", "checkpoints"]


# -- whose gateway, which dialogs, which walls ---------------------------------------------------


def test_the_files_of_a_client_say_which_dialogs_are_behind_it(tmp_path: Path) -> None:
    assert dialogs("/opt/claude", tmp_path, "/w", {}) == [
        "asks for theme and login",
        "asks whether it may trust this directory",
    ]
    settings = {
        "hasCompletedOnboarding": True,
        "projects": {"/w": {"hasTrustDialogAccepted": True}},
    }
    (tmp_path / ".claude.json").write_text(json.dumps(settings))
    assert dialogs("claude", tmp_path, "/w", {}) == []
    assert dialogs("claude", tmp_path, "/w", {"ANTHROPIC_API_KEY": "k"})
    assert len(dialogs("claude", tmp_path, "/other", {})) == 1
    (tmp_path / ".claude.json").write_text("[" * 9999)
    assert len(dialogs("claude", tmp_path, "/w", {})) == 2
    assert len(dialogs("codex", tmp_path, "/w", {})) == 2
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text('[projects."/w"]\ntrust_level = "trusted"\n')
    assert dialogs("codex", tmp_path, "/w", {"CODEX_API_KEY": "k"}) == []
    assert len(dialogs("gemini", tmp_path, "/w", {})) == 2
    assert dialogs("sh", tmp_path, "/w", {}) == []


def test_a_client_in_a_home_of_its_own_needs_a_login_there(tmp_path: Path) -> None:
    assert "ANTHROPIC_API_KEY" in missing_login("claude", tmp_path, {})
    assert missing_login("claude", tmp_path, {"ANTHROPIC_AUTH_TOKEN": "x"}) == ""
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "auth.json").touch()
    assert missing_login("codex", tmp_path, {}) == ""
    assert missing_login("sh", tmp_path, {}) == ""


@pytest.mark.skipif(sys.platform != "linux", reason="who listens is read from /proc")
def test_who_listens_is_known_by_the_kernels_word(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as port, socket.socket(socket.AF_UNIX) as control:
        assert holder_of(port.getsockname()[1]) == Holder(os.getuid(), os.getpid())
        control.bind(str(tmp_path / "c.sock"))
        control.listen()
        assert process_behind(tmp_path / "c.sock") == os.getpid()
        number = port.getsockname()[1]
    assert holder_of(number) is None
    assert process_behind(tmp_path / "none.sock") == 0
    assert Holder(os.getuid()).user
    assert Holder(4_000_000_000).user == "4000000000"


@pytest.mark.skipif(sys.platform != "linux", reason="the wall is built on Linux")
def test_the_doctor_proves_a_wall_by_trying_and_fails_without_bubblewrap(
    tmp_path: Path, short_dir: Path
) -> None:
    bwrap = real_bwrap()
    project, tools = tmp_path / "p", tmp_path / "bin"
    project.mkdir()
    tools.mkdir()
    environ = {
        "PATH": f"{tools}:/bin",
        "HOME": str(tmp_path / "home"),
        "XDG_RUNTIME_DIR": str(short_dir),
    }
    (tmp_path / "home").mkdir()
    answers = {"/readyz": (200, b'{"ready": true}')}
    with http_server(answers) as address:
        (project / ".choragos.toml").write_text(
            f'[[roles]]\nname = "a"\ncommand = "sh"\nwall = true\n'
            f'[sphragis]\nenabled = true\naddr = "{address}"\n'
        )
        (tools / "bwrap").symlink_to(bwrap)
        assert collect(None, project, environ).walls == {"a": ()}
        (tools / "bwrap").unlink()
        (tools / "bwrap").write_text("#!/bin/sh\nexit 1\n")
        (tools / "bwrap").chmod(0o755)
        (said,) = doctor.check_walls(collect(None, project, environ))
        assert said.level is Level.FAIL
    assert not list(short_dir.rglob("*.wall"))


def test_the_plan_for_each_worktree_is_told(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=u", "-c", "user.email=u@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True)

    text = '[[roles]]\nname = "lead"\ncommand = "sh"\nstart = true\n'
    text += '[[roles]]\nname = "a b"\ncommand = "sh"\nworktree = true\nmerge = "gate"\n'
    (tmp_path / ".choragos.toml").write_text(text)
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    git("init", "-q")
    (broken,) = doctor.check_worktrees(collect(None, tmp_path, environ))
    assert (broken.level, broken.name) == (Level.FAIL, "role a b")
    assert "needs a commit to start from" in broken.message
    git("add", "-A")
    git("commit", "-qm", "first")
    (plan,) = doctor.check_worktrees(collect(None, tmp_path, environ))
    place = tmp_path / ".choragos" / "worktrees" / "a-b"
    assert plan.line() == (
        f"OK    role a b       worktree {place} on branch choragos/a-b (made at the start), "
        "merge = gate"
    )
