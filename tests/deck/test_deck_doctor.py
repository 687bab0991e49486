"""The doctor: each check as a pure function of facts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from deck import doctor
from deck.config import CheckpointsConfig, Config, Role, SphragisConfig
from deck.doctor import (
    Finding,
    Level,
    bypasses,
    diagnose,
)
from deck.facts import Facts, GatewayState
from deck.listeners import Holder

LEAD = Role(name="lead", command="claude", start=True)
TEAM = Config(
    roles=(LEAD, Role(name="coder", command="sh")),
    sphragis=SphragisConfig(enabled=True),
    path=Path("/w/.choragos.toml"),
)
WELL = Facts(
    config=TEAM,
    directory="/w",
    programs={"claude": "/bin/claude", "sh": "/bin/sh", "sphragis": "/bin/sphragis"},
    socket="/run/choragos-0/0.sock",
    term="xterm-256color",
    gateway=GatewayState.READY,
    repository="/w",
)


def lines(facts: Facts) -> list[str]:
    return [finding.line() for finding in diagnose(facts)]


def team(*roles: Role, **changes: object) -> Config:
    return replace(TEAM, roles=(LEAD, *roles), **changes)  # type: ignore[arg-type]


def only(facts: Facts, level: Level) -> Finding:
    found = [finding for finding in diagnose(facts) if finding.level is level]
    assert len(found) == 1, [finding.line() for finding in found]
    return found[0]


def test_a_healthy_team_is_all_ok_line_by_line() -> None:
    assert lines(WELL) == [
        "OK    config         /w/.choragos.toml: 2 role(s)",
        "OK    role lead      /bin/claude",
        "OK    role coder     /bin/sh",
        "OK    socket         /run/choragos-0/0.sock",
        "OK    terminal       TERM=xterm-256color",
        "OK    gateway        ready at 127.0.0.1:8787",
        "OK    checkpoints    git repository /w",
    ]


def test_a_file_that_does_not_load_is_a_failure_and_its_warnings_are_warnings() -> None:
    broken = replace(WELL, config=None, config_problem="x.toml: bad; fix it.")
    assert only(broken, Level.FAIL).line() == "FAIL  config         x.toml: bad; fix it."
    warned = replace(WELL, config=replace(TEAM, warnings=("x.toml: unknown key y; remove it",)))
    assert only(warned, Level.WARN).message == "x.toml: unknown key y; remove it"


@pytest.mark.parametrize(
    ("roles", "says"),
    [
        ((Role(name="a", command="sh"),), "no role has start = true"),
        ((LEAD, Role(name="b", command="sh", start=True)), "only lead counts"),
        ((LEAD, Role(name="b", command="sh"), Role(name="b", command="sh")), "two roles are named"),
        ((LEAD, Role(name="x", command="sh", judge="")), ""),
    ],
)
def test_an_odd_roster_is_a_warning(roles: tuple[Role, ...], says: str) -> None:
    facts = replace(WELL, config=replace(TEAM, roles=roles))
    if says:
        assert says in only(facts, Level.WARN).message
    else:
        assert all(finding.level is Level.OK for finding in diagnose(facts))


def test_a_command_that_is_missing_or_not_on_path_fails_with_the_fix() -> None:
    facts = replace(WELL, config=team(Role(name="a", command="codexx"), Role(name="b")))
    assert [f.line() for f in diagnose(facts) if f.level is Level.FAIL] == [
        "FAIL  role a         codexx is not on PATH; install it or correct command",
        "FAIL  role b         has no command; add command = to its [[roles]] table",
    ]


def test_a_model_for_an_unknown_program_is_a_warning() -> None:
    facts = replace(WELL, config=team(Role(name="a", command="sh", model="m")))
    assert "model_flag" in only(facts, Level.WARN).message
    for role in (
        Role(name="a", command="sh", model="m", model_flag="-m"),
        Role(name="a", command="sh", model="m", model_flag=""),
        Role(name="a", command="claude", model="m"),
    ):
        assert not doctor.check_models(replace(WELL, config=team(role)))


def test_a_judge_like_the_judged_is_a_warning() -> None:
    coder = Role(name="coder", command="claude", model="m", judge="twin")
    facts = replace(WELL, config=team(coder, Role(name="twin", command="claude", model="m")))
    assert len(doctor.check_judges(facts)) == 1
    other = replace(WELL, config=team(coder, Role(name="twin", command="agy", model="m")))
    assert not doctor.check_judges(other)


def test_a_prompt_that_names_another_roles_file_is_a_warning() -> None:
    owner = Role(name="docs", command="sh", owns_files=("README.md",))
    writer = Role(name="coder", command="sh", prompt_template="Update README.md too.")
    found = doctor.check_ownership(replace(WELL, config=team(owner, writer)))
    assert [(finding.level, finding.name) for finding in found] == [(Level.WARN, "role coder")]


def test_a_socket_path_that_is_too_long_or_a_directory_that_cannot_be_written_fails() -> None:
    assert not [f for f in doctor.check_socket(replace(WELL, socket="x" * 100)) if f.level != "OK"]
    long = only(replace(WELL, socket="é" * 51), Level.FAIL)
    assert "102 bytes" in long.message
    assert "XDG_RUNTIME_DIR" in long.message
    assert only(replace(WELL, socket_problem="no"), Level.FAIL).message == "no"


@pytest.mark.parametrize("term", ["", "dumb"])
def test_a_terminal_that_cannot_draw_fails(term: str) -> None:
    assert "export TERM=" in only(replace(WELL, term=term), Level.FAIL).message


@pytest.mark.parametrize(
    ("enabled", "state", "on_path", "level"),
    [
        (False, GatewayState.NOTHING, True, Level.WARN),
        (None, GatewayState.READY, False, Level.OK),
        (None, GatewayState.NOTHING, True, Level.OK),
        (None, GatewayState.NOTHING, False, Level.WARN),
        (None, GatewayState.NOT_READY, True, Level.WARN),
        (None, GatewayState.FOREIGN, True, Level.FAIL),
        (True, GatewayState.READY, False, Level.OK),
        (True, GatewayState.NOTHING, True, Level.OK),
        (True, GatewayState.NOTHING, False, Level.FAIL),
        (True, GatewayState.NOT_READY, True, Level.FAIL),
        (True, GatewayState.FOREIGN, True, Level.FAIL),
    ],
)
def test_the_gateway_check_follows_how_much_the_team_depends_on_it(
    enabled: bool | None, state: GatewayState, on_path: bool, level: Level
) -> None:
    config = replace(TEAM, sphragis=SphragisConfig(enabled=enabled))
    programs = dict(WELL.programs) if on_path else {"claude": "/c", "sh": "/s"}
    facts = replace(WELL, config=config, gateway=state, programs=programs)
    assert [finding.level for finding in doctor.check_gateway(facts)] == [level]


def test_failing_open_is_a_warning() -> None:
    config = replace(TEAM, sphragis=SphragisConfig(enabled=True, fail_closed=False))
    assert "fail_closed = false" in only(replace(WELL, config=config), Level.WARN).message


def test_checkpoints_off_is_fine_and_no_repository_is_a_warning() -> None:
    off = replace(TEAM, checkpoints=CheckpointsConfig(enabled=False))
    assert all(f.level is Level.OK for f in diagnose(replace(WELL, config=off)))
    facts = replace(WELL, repository="", repository_problem="not a repository; run git init.")
    assert only(facts, Level.WARN).name == "checkpoints"
    tree = replace(facts, config=team(Role(name="coder", command="sh", worktree=True)))
    assert only(tree, Level.FAIL).name == "role coder"


@pytest.mark.parametrize(
    ("role", "variables", "says"),
    [
        (LEAD, {"ANTHROPIC_API_KEY"}, "ANTHROPIC_API_KEY"),
        (LEAD, {"CLAUDE_CODE_USE_BEDROCK"}, "past the gateway"),
        (Role(name="a", command="/x/opencode"), set(), "opencode.json"),
        (Role(name="a", command="pi"), set(), "models.json"),
        (Role(name="a b", command="sh"), set(), "part of a URL"),
    ],
)
def test_each_way_past_the_gateway_is_named(role: Role, variables: set[str], says: str) -> None:
    found = bypasses(role, frozenset(variables))
    assert len(found) == 1
    assert says in found[0]


def test_what_is_routed_is_not_warned_about() -> None:
    assert bypasses(LEAD, frozenset({"PATH", "HOME"})) == []
    assert bypasses(Role("q", "qwen"), frozenset()) == []
    assert bypasses(Role("a", "aider"), frozenset()) == []
    assert bypasses(Role("c", "codex"), frozenset()) == []
    assert bypasses(Role("g", "gemini"), frozenset()) == []


@pytest.mark.parametrize(
    ("holder", "same", "level", "says"),
    [
        (Holder(1000, 5), True, None, ""),
        (Holder(1000, 5), None, None, ""),
        (None, None, None, ""),
        (Holder(1000, 5), False, Level.WARN, "SPHRAGIS_HOME"),
        (Holder(1001), None, Level.FAIL, "can read every prompt"),
        (Holder(0), None, Level.WARN, "container"),
    ],
)
def test_a_gateway_that_is_not_mine_is_told(
    holder: Holder | None, same: bool | None, level: Level | None, says: str
) -> None:
    facts = replace(WELL, gateway_holder=holder, gateway_is_homes=same, uid=1000)
    if level is None:
        assert not doctor.check_identity(facts)
    else:
        assert says in only(facts, level).message


def test_a_required_route_with_a_way_past_it_fails_and_a_wall_settles_it() -> None:
    seen = {"coder": frozenset({"OPENAI_API_KEY"})}
    coder = Role(name="coder", command="sh")
    for role, level in (
        (coder, Level.WARN),
        (replace(coder, require_routing=True), Level.FAIL),
    ):
        facts = replace(WELL, config=team(role), variables=seen)
        assert "OPENAI_API_KEY" in only(facts, level).message
    walled = replace(coder, require_routing=True, wall=True)
    facts = replace(WELL, config=team(walled), variables=seen)
    assert all(finding.level is Level.OK for finding in diagnose(facts))


def test_a_required_route_without_a_gateway_fails() -> None:
    off = team(Role(name="coder", command="sh", require_routing=True))
    off = replace(off, sphragis=SphragisConfig(enabled=False))
    assert "require_routing" in only(replace(WELL, config=off), Level.FAIL).message


def test_a_dialog_that_would_wait_is_told_with_what_to_do() -> None:
    facts = replace(WELL, dialogs={"lead": ("asks for theme and login", "asks to trust")})
    assert "asks for theme and login and asks to trust" in only(facts, Level.WARN).message
    assert "run `claude` here once" in only(facts, Level.WARN).message


def test_a_wall_is_proved_or_a_failure() -> None:
    config = team(Role(name="coder", command="sh", wall=True))
    holds = replace(WELL, config=config, walls={"coder": ()})
    assert "the gateway is reached and nothing else is" in "\n".join(lines(holds))
    hole = replace(holds, walls={"coder": ("/k can be seen from inside",)})
    assert "/k can be seen" in only(hole, Level.FAIL).message
    unknown = replace(holds, gateway=GatewayState.NOTHING)
    assert "the way to the gateway is open" in "\n".join(lines(unknown))
