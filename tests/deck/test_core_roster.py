"""What a role is given: environment, command line, files; and when it is started again."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck import briefs
from deck.config import Config, Restart, Role, SphragisConfig
from deck.entries import Entry, Op, TaskState
from deck.gateway import Gateway
from deck.programs import beside, find_own
from deck.replay import replay
from deck.roster import (
    Credential,
    NotOnPath,
    Surroundings,
    command_line,
    environment,
    filtered,
    find_program,
    matches,
    unenforced,
)
from deck.supervision import Exit, may_restart, overdue

ENVIRON = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/h",
    "LC_ALL": "C",
    "XDG_RUNTIME_DIR": "/r",
    "AWS_KEY": "a",
    "GITHUB_TOKEN": "g",
    "ANTHROPIC_API_KEY": "k",
    "TERM": "dumb",
}


def around(*, on: bool, environ: dict[str, str] = ENVIRON) -> Surroundings:
    config = SphragisConfig(enabled=on, addr="0.0.0.0:9999")
    return Surroundings("s1", "/r/x.sock", environ, Gateway(config, log=Path("x"), environ=environ))


@pytest.mark.parametrize(
    ("name", "pattern", "fits"),
    [
        ("AWS_KEY", "AWS_*", True),
        ("AWS", "AWS_*", False),
        ("AWS_KEY", "AWS_KEY", True),
        ("aws_key", "AWS_KEY", False),
        ("ANY", "*", False),
        ("A*", "A*", True),
    ],
)
def test_patterns_are_exact_or_end_in_a_star(name: str, pattern: str, fits: bool) -> None:
    assert matches(name, [pattern]) == fits


def test_deny_comes_first_and_allow_passes_only_what_it_names_and_the_baseline() -> None:
    role = Role("coder", env_deny=("AWS_*",))
    assert set(filtered(ENVIRON, role)) == set(ENVIRON) - {"AWS_KEY"}
    role = Role("coder", env_allow=("AWS_*", "GITHUB_TOKEN"), env_deny=("GITHUB_*",))
    assert set(filtered(ENVIRON, role)) == {
        "PATH", "HOME", "LC_ALL", "XDG_RUNTIME_DIR", "TERM", "AWS_KEY",
    }  # fmt: skip


def test_no_role_ever_sees_the_keys_of_the_gateway() -> None:
    keys = {"SPHRAGIS_UPSTREAM_API_KEY": "sk", "SPHRAGIS_VAULT_KEY": "k"}
    for role in (Role("coder"), Role("coder", env_allow=("SPHRAGIS_*", *keys))):
        assert not keys.keys() & filtered({**ENVIRON, **keys}, role).keys()
        given_to_it = environment(role, Credential(), around(on=True, environ={**ENVIRON, **keys}))
        assert not keys.keys() & given_to_it.keys()


@given(
    st.dictionaries(st.sampled_from([*ENVIRON, "CHORAGOS_SOCK", "ANTHROPIC_BASE_URL"]), st.text()),
    st.lists(st.sampled_from(["CHORAGOS_*", "ANTHROPIC_*", "*", "PATH"])),
    st.lists(st.sampled_from(["NONE", "PATH", "*"])),
)
def test_socket_and_routing_survive_every_filter(
    environ: dict[str, str], deny: list[str], allow: list[str]
) -> None:
    role = Role("coder", command="x", env_deny=tuple(deny), env_allow=tuple(allow))
    given_to_it = environment(role, Credential("t"), around(on=True, environ=environ))
    assert given_to_it["CHORAGOS_SOCK"] == "/r/x.sock"
    assert given_to_it["CHORAGOS_ROLE"] == "coder"
    assert given_to_it["CHORAGOS_SEAT"] == "s1:coder"
    assert given_to_it["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:9999/agent/coder"


def test_routing_follows_the_name_the_keys_and_the_program() -> None:
    role = Role("coder", command="/opt/bin/gemini", base_url_env=("OPENAI_BASE_URL", "X_URL"))
    environ = environment(role, Credential(), around(on=True))
    url = "http://127.0.0.1:9999/agent/coder"
    assert environ["OPENAI_BASE_URL"] == environ["X_URL"] == url
    assert environ["GOOGLE_GEMINI_BASE_URL"] == url
    assert "ANTHROPIC_BASE_URL" not in environ
    odd = environment(Role("a b/c", command="claude"), Credential(), around(on=True))
    assert odd["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:9999"
    assert odd["TERM"] == "xterm-256color"
    assert "ANTHROPIC_BASE_URL" not in environment(Role("c"), Credential(), around(on=False))


def test_a_program_that_ignores_its_variable_is_routed_on_its_command_line(tmp_path: Path) -> None:
    (tmp_path / "codex").write_text("#!/bin/sh\n")
    (tmp_path / "codex").chmod(0o755)
    role = Role("coder", command="codex", args=("-a",), model="m")
    environ = {**ENVIRON, "PATH": str(tmp_path)}
    line = command_line(role, around(on=True, environ=environ))
    plain = command_line(role, around(on=False, environ=environ))
    assert plain[:2] == [str(tmp_path / "codex"), "--no-daemon"]
    assert plain[-3:] == ["-a", "--model", "m"]
    assert line[: len(plain)] == plain
    assert 'openai_base_url="http://127.0.0.1:9999/agent/coder/v1"' in line[len(plain) :]


def test_an_agent_finds_the_decks_program_although_nothing_was_activated(tmp_path: Path) -> None:
    bare, ours = environment(Role("coder", "sh"), Credential(), around(on=False)), beside()
    assert bare["PATH"] == f"/usr/bin:/bin{os.pathsep}{ours}"
    own = tmp_path / "choragos"
    own.touch(0o755)
    with_it = around(on=False, environ={**ENVIRON, "PATH": str(tmp_path)})
    assert environment(Role("coder", "sh"), Credential(), with_it)["PATH"] == str(tmp_path)
    denied = Role("coder", "sh", env_deny=("PATH",))
    assert "PATH" not in environment(denied, Credential(), around(on=False))


def test_a_program_of_ours_is_found_on_path_first_and_beside_this_one_last(tmp_path: Path) -> None:
    assert find_own("sphragis", {"PATH": "/usr/bin"}) == os.path.join(beside(), "sphragis")
    other = tmp_path / "sphragis"
    other.touch(0o755)
    assert find_own("sphragis", {"PATH": str(tmp_path)}) == str(other)
    assert find_own("no-such-gateway", {"PATH": str(tmp_path)}) is None


def test_a_missing_program_is_named_with_its_role() -> None:
    with pytest.raises(NotOnPath, match="role coder: the command 'nope' is not on PATH"):
        find_program(Role("coder", command="nope"), ENVIRON)
    with pytest.raises(NotOnPath):
        find_program(Role("coder", command=""), ENVIRON)
    assert find_program(Role("coder", command=sys.executable), ENVIRON) == sys.executable


def test_a_credential_is_not_shown_and_an_empty_one_never_matches() -> None:
    credential = Credential()
    assert credential.token not in repr(credential)
    assert credential.matches(credential.token)
    assert not credential.matches("")
    assert not credential.matches("ü")


def test_settings_that_do_nothing_are_said() -> None:
    (said,) = unenforced(Config(roles=(Role("a"), Role("b", judge="a", fresh=True), Role("a"))))
    assert said.startswith("two roles are named 'a'")


# -- supervision --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ended", "restart", "attempts", "again"),
    [
        (Exit(code=1), Restart.ON_FAILURE, 0, True),
        (Exit(signal=9), Restart.ON_FAILURE, 2, True),
        (Exit(code=1), Restart.ON_FAILURE, 3, False),
        (Exit(code=0), Restart.ON_FAILURE, 0, False),
        (Exit(code=1), Restart.NEVER, 0, False),
        (Exit(code=0, timed_out=True), Restart.NEVER, 0, True),
        (Exit(code=0, timed_out=True), Restart.NEVER, 3, False),
    ],
)
def test_a_role_is_started_again_after_failures_only_and_not_for_ever(
    ended: Exit, restart: Restart, attempts: int, again: bool
) -> None:
    assert may_restart(Role("coder", restart=restart), ended, attempts) == again


def test_the_clock_of_a_time_limit_starts_at_delivery() -> None:
    role = Role("coder", timeout=10.0)
    state = replay(
        [
            Entry(Op.SESSION_STARTED, 1, run="r"),
            Entry(Op.TASK_ADDED, 2, id="T1", role="coder"),
            Entry(Op.TASK_ADDED, 3, id="T2", role="coder"),
            Entry(Op.TASK_MOVED, 5_000_000, id="T1", state=TaskState.TYPED),
        ]
    )
    assert not list(overdue(state, lambda _: role, 14_999_999))
    assert [task.id for task in overdue(state, lambda _: role, 15_000_000)] == ["T1"]
    assert not list(overdue(state, lambda _: replace(role, timeout=None), 10**12))
    assert not list(overdue(state, lambda _: None, 10**12))


# -- files --------------------------------------------------------------------------------------


@given(st.text(max_size=30) | st.text(min_size=200, max_size=400))
def test_a_role_name_is_made_safe_for_files(name: str) -> None:
    safe = briefs.safe_name(name)
    assert safe
    assert len(f".{briefs.latest_task_name(name)}.new") <= 255
    assert briefs.brief_name(name, 2) != briefs.brief_name(name)
    assert all(c.isascii() and (c.isalnum() or c in "_-") for c in safe)


def test_a_brief_comes_before_its_label_and_the_command_carries_the_id() -> None:
    role = Role("coder", prompt_template="You code.")
    text = briefs.task_file(role, briefs.Assignment("T7", "the label", "/p/brief.md"))
    assert text.startswith("You code.\n\n## Task\nTask id: T7\n\n")
    assert "/p/brief.md\n\nthe label\n\n## When done\n" in text
    assert "choragos work-done --id T7" in text
    assert not text.startswith("---")


def test_the_orchestrators_context_lists_the_team_in_the_contracts_order() -> None:
    workers = [Role("coder", prompt_template="Codes.\nWell."), Role("rel", approve=True)]
    standing = briefs.Standing(propose=False, recap="## Recap\nx")
    text = briefs.orchestrator_context(Role("o", prompt_template="Lead."), workers, standing)
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == [
        "## Available agents", "## Delegation protocol", "## Important", "## Recap",
    ]  # fmt: skip
    assert "- coder: Codes.\n- rel: no description (each task waits" in text
    assert "work-done --done" in text


def test_files_are_replaced_whole(tmp_path: Path) -> None:
    briefs.write(tmp_path, "tasks/T1.md", "one")
    briefs.write(tmp_path, "tasks/T1.md", "two \ud800")
    assert [p.name for p in (tmp_path / "tasks").iterdir()] == ["T1.md"]
    assert (tmp_path / "tasks" / "T1.md").read_text() == "two ?"


def test_an_attachment_is_an_existing_readable_file(tmp_path: Path) -> None:
    (tmp_path / "a b.md").write_text("x")
    assert briefs.attachment("a b.md", "brief", tmp_path) == tmp_path / "a b.md"
    with pytest.raises(briefs.BadAttachment, match="does not exist"):
        briefs.attachment("x" * 5000, "brief", tmp_path)
    with pytest.raises(briefs.BadAttachment, match="not a regular file"):
        briefs.attachment("/dev/null", "report", tmp_path)


def test_a_role_is_told_the_directory_it_runs_in_whatever_the_deck_was_told() -> None:
    told = {**ENVIRON, "PWD": "/somewhere/else"}
    plain = replace(around(on=False, environ=told), directory=Path("/w"))
    assert environment(Role("coder"), Credential(), plain)["PWD"] == "/w"
    apart = replace(plain, place=lambda _: Path("/w/.choragos/worktrees/coder"))
    assert environment(Role("coder"), Credential(), apart)["PWD"] == "/w/.choragos/worktrees/coder"
    assert "PWD" not in environment(Role("coder", env_deny=("PWD",)), Credential(), plain)
