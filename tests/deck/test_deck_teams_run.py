"""Every team we ship or are handed, really started: the shared configs, the templates, and no file.

The programs are stand-ins that say they are ready; what they are given is read from the kernel.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from deck_harness import AGENT, DeckRig, FakeGateway

from deck.cli.init import TEMPLATES, _template
from deck.config import GatewayMode
from deck.roster import filtered
from deck.team_reader import CONFIG_NAME, load_config, parse_config

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "configs"
CONFIGS = sorted(SHARED.glob("*.toml"))
PAGES = [*TEMPLATES, *(f"auto/{key}" for key in ("go", "node", "rust", "python"))]
KEYS = {
    "ANTHROPIC_API_KEY": "a",
    "GEMINI_API_KEY": "g",
    "AWS_PROFILE": "w",
    "GCP_PROJECT": "p",
    "GITHUB_TOKEN": "t",
}


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[DeckRig]:
    found = DeckRig(tmp_path)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("claude", "agy"):
        program = tools / name
        # Whatever arguments a real client takes, this one takes too.
        program.write_text(f"#!/usr/bin/env python3\nimport sys; sys.argv[1:] = []\n{AGENT}")
        program.chmod(0o755)
    found.env["PATH"] = f"{tools}:{found.env['PATH']}"
    found.env.update(KEYS)
    yield found
    found.close()


def seen(rig: DeckRig, name: str) -> dict[str, str]:
    """The environment of a role's process."""
    raw = Path(f"/proc/{rig.role(name)['pid']}/environ").read_bytes()
    return dict(pair.decode().split("=", 1) for pair in raw.split(b"\0") if b"=" in pair)


def start(rig: DeckRig, text: str | None) -> None:
    if text is not None:
        (rig.dir / CONFIG_NAME).write_text(text)
    started = rig.serve("--no-sphragis")
    assert started.stderr == "warning: the team runs without a gateway, unscanned\n"
    for role in load_config(None, rig.dir).roles:
        rig.wait_idle(role.name)


def test_without_a_file_the_built_in_five_roles_run(rig: DeckRig) -> None:
    start(rig, None)
    names = [role["name"] for role in rig.status()["roles"]]
    assert names == ["orchestrator", "coder", "reviewer", "auditor", "release"]
    assert rig.delegate("coder", "anything")["state"] in ("queued", "delivered")
    rig.wait(lambda: any("tasks/T1.md" in line for line in rig.seen("coder")))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_shared_config_runs_and_its_filters_hold(rig: DeckRig, path: Path) -> None:
    text = path.read_text()
    start(rig, text)
    for role in load_config(None, rig.dir).roles:
        given = seen(rig, role.name)
        kept = filtered(KEYS, role)
        assert {name for name in KEYS if name in given} == set(kept), role.name
        if role.approve:
            assert rig.delegate(role.name, "ship it")["state"] == "gated"


def test_the_shared_regulated_team_hands_out_nothing_while_the_gateway_is_not_ready(
    rig: DeckRig,
) -> None:
    path = SHARED / "regulated.toml"
    if not path.exists():
        pytest.skip("the shared configs are not beside this checkout")
    gateway = FakeGateway()
    try:
        text = path.read_text().replace("127.0.0.1:8787", gateway.addr)
        (rig.dir / CONFIG_NAME).write_text(text)
        rig.serve("--sphragis")
        rig.wait_idle("coder")
        assert seen(rig, "coder")["ANTHROPIC_BASE_URL"].endswith("/agent/coder")
        gateway.mode = "down"
        rig.wait(lambda: not rig.status()["gateway"]["up"])
        assert rig.delegate("coder", "anything")["state"] == "refused"
    finally:
        gateway.close()


# -- templates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_every_line_a_template_leaves_out_can_be_put_in(name: str) -> None:
    text = _template(f"{name}.toml")
    put_in = re.sub(r"^# (?=\[|[a-z_]+ = )", "", text, flags=re.MULTILINE)
    config = parse_config(put_in.encode(), Path("/w") / CONFIG_NAME)
    assert config.warnings == ()
    assert len(config.roles) == len(tomllib.loads(text)["roles"])


@pytest.mark.parametrize("name", PAGES)
def test_a_template_has_one_leader_and_prompts_that_say_what_each_does(name: str) -> None:
    config = parse_config(_template(f"{name}.toml").encode(), Path("/w") / CONFIG_NAME)
    assert [role.name for role in config.roles if role.start] == ["orchestrator"]
    assert all(len(role.prompt_template) > 20 for role in config.roles)
    assert len({role.name for role in config.roles}) == len(config.roles)


def test_the_mixed_team_shows_each_role_its_own_vendors_key_only() -> None:
    config = parse_config(_template("mixed-team.toml").encode(), Path("/w") / CONFIG_NAME)
    for role in config.roles:
        kept = set(filtered(KEYS, role)) & {"ANTHROPIC_API_KEY", "GEMINI_API_KEY"}
        assert kept == {"GEMINI_API_KEY" if role.command == "agy" else "ANTHROPIC_API_KEY"}
        assert "GITHUB_TOKEN" not in filtered(KEYS, role)


def test_the_other_templates_mean_what_they_say() -> None:
    def team(name: str):  # type: ignore[no-untyped-def]
        return parse_config(_template(f"{name}.toml").encode(), Path("/w") / CONFIG_NAME)

    claude = team("claude-team")
    assert {role.command for role in claude.roles} == {"claude"}
    assert [role.name for role in claude.roles if role.approve] == ["release"]
    review = team("review")
    assert all("Findings only" in r.prompt_template for r in review.roles if not r.start)
    regulated = team("regulated")
    assert regulated.sphragis.mode is GatewayMode.REQUIRED
    assert all("AWS_PROFILE" not in filtered(KEYS, role) for role in regulated.roles)
    assert team("starter").sphragis.mode is GatewayMode.SOFT


def test_a_template_that_was_just_written_runs(rig: DeckRig) -> None:
    assert rig.cli("init", "--template", "claude-team").returncode == 0
    start(rig, None)
    assert len(rig.status()["roles"]) == 5
