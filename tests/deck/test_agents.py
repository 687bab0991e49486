"""What each agent program is given: routing, quiet settings, its own home, its first-run files."""

from __future__ import annotations

import json
import stat
import subprocess
import tempfile
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck.agents import Seating, adapter_for
from deck.agents.shell import NAMES
from deck.config import Home, Role, SphragisConfig
from deck.gateway import Gateway
from deck.homes import HomeError, equip, role_home
from deck.pane.hooks import HookFile
from deck.roster import (
    PROVIDER_KEYS,
    Credential,
    Surroundings,
    command_line,
    environment,
    seating,
)
from deck.wall.places import Places

URL = "http://127.0.0.1:9999/agent/coder"


def around(root: Path, *, on: bool = True, **environ: str) -> Surroundings:
    programs = root / "bin"
    programs.mkdir(exist_ok=True)
    for name in ("claude", "codex", "gemini", "opencode", "pi", "qwen", "aider"):
        (programs / name).touch(0o755)
    env = {"PATH": str(programs), "HOME": str(root), "XDG_STATE_HOME": str(root / "state")}
    gateway = Gateway(SphragisConfig(enabled=on, addr="127.0.0.1:9999"), log=Path("x"), environ=env)
    return Surroundings("s1", "/r/x.sock", {**env, **environ}, gateway, directory=root / 'pro"ject')


def given_to(role: Role, place: Surroundings) -> tuple[list[str], dict[str, str]]:
    return command_line(role, place), environment(role, Credential(), place)


@pytest.mark.parametrize(
    ("command", "name", "value"),
    [
        ("claude", "ANTHROPIC_BASE_URL", URL),
        ("gemini", "GOOGLE_GEMINI_BASE_URL", URL),
        ("/opt/x/agy", "GOOGLE_GEMINI_BASE_URL", URL),
        ("qwen", "OPENAI_BASE_URL", f"{URL}/v1"),
        ("aider", "OPENAI_API_BASE", f"{URL}/v1"),
        ("aider", "ANTHROPIC_API_BASE", URL),
    ],
)
def test_each_program_reads_its_base_url_where_it_looks_for_it(
    tmp_path: Path, command: str, name: str, value: str
) -> None:
    role = Role("coder", command=command)
    assert environment(role, Credential(), around(tmp_path))[name] == value
    assert name not in environment(role, Credential(), around(tmp_path, on=False))


def test_opencode_gets_its_base_urls_beside_what_the_user_has_set(tmp_path: Path) -> None:
    own = {"model": "x/y", "provider": {"anthropic": {"options": {"timeout": 5}}, "gw": {}}}
    place = around(tmp_path, OPENCODE_CONFIG_CONTENT=json.dumps(own))
    content = environment(Role("coder", "opencode"), Credential(), place)["OPENCODE_CONFIG_CONTENT"]
    found = json.loads(content)
    assert found["model"] == "x/y"
    assert found["provider"]["anthropic"] == {"options": {"timeout": 5, "baseURL": f"{URL}/v1"}}
    assert found["provider"]["google"]["options"]["baseURL"] == f"{URL}/v1beta"
    assert found["provider"]["gw"] == {}


@given(
    st.text() | st.sampled_from(["[]", "null", '{"provider": 3}', '{"provider": {"openai": []}}'])
)
def test_opencode_is_routed_whatever_its_variable_holds(content: str) -> None:
    seat = Seating(Path("/p"), Path("/h"), url=URL, environ={"OPENCODE_CONFIG_CONTENT": content})
    found = json.loads(adapter_for("opencode").routing(seat)["OPENCODE_CONFIG_CONTENT"])
    assert found["provider"]["openai"]["options"]["baseURL"] == f"{URL}/v1"


def test_pi_is_given_an_extension_that_names_the_gateway(tmp_path: Path) -> None:
    role, place = Role("coder", "pi"), around(tmp_path)
    equip(adapter_for("pi"), seating(role, place), place.environ)
    line, _ = given_to(role, place)
    file = Path(line[line.index("--extension") + 1])
    assert f'pi.registerProvider("anthropic", {{ baseUrl: "{URL}" }});' in file.read_text()
    assert "--extension" not in command_line(role, around(tmp_path, on=False))


def test_what_the_user_has_set_is_not_made_quiet_again(tmp_path: Path) -> None:
    place = around(tmp_path, DISABLE_AUTOUPDATER="0")
    assert environment(Role("coder", "claude"), Credential(), place)["DISABLE_AUTOUPDATER"] == "0"


def test_a_role_of_an_existing_team_keeps_the_users_home_and_its_arguments(tmp_path: Path) -> None:
    for command in ("claude", "gemini", "qwen", "aider", "opencode"):
        role, place = Role("coder", command, args=("--flag", "x")), around(tmp_path, on=False)
        equip(adapter_for(command), seating(role, place), place.environ)
        line, env = given_to(role, place)
        assert line[-2:] == ["--flag", "x"]
        assert line[1:-2] == list(adapter_for(command).options(seating(role, place)))
        moved = {name for name in env if name.endswith(("_HOME", "_DIR"))} - {"XDG_STATE_HOME"}
        assert not moved
    written = {path.name for path in (tmp_path / "state").rglob("*") if path.is_file()}
    assert written == {"claude-hooks.json", "claude-said"}


def test_codex_with_a_home_of_its_own_needs_no_sign_in_and_no_shared_server(tmp_path: Path) -> None:
    role = Role("coder", "codex", home=Home.OWN)
    place = around(tmp_path, OPENAI_API_KEY="sk-secret-value")
    equip(adapter_for("codex"), seating(role, place), place.environ)
    line, env = given_to(role, place)
    home = Path(env["CODEX_HOME"])
    assert home.parent == role_home(place.environ, "s1", "coder")
    assert "--no-daemon" in line
    assert 'model_provider="choragos"' in line
    provider = next(a for a in line if a.startswith("model_providers.choragos="))
    table = tomllib.loads(provider.partition("=")[0].replace(".", "_") + "=" +
                          provider.partition("=")[2])["model_providers_choragos"]  # fmt: skip
    assert table["base_url"] == f"{URL}/v1"
    assert table["env_key"] == "OPENAI_API_KEY"
    settings = tomllib.loads((home / "config.toml").read_text())
    assert settings["projects"][str(place.directory)] == {"trust_level": "trusted"}
    assert "sk-secret" not in (home / "config.toml").read_text() + "".join(line)
    # In the user's home it has the user's login, which decides.
    assert 'model_provider="choragos"' not in command_line(Role("coder", "codex"), place)


def test_two_roles_of_one_program_have_two_homes(tmp_path: Path) -> None:
    place = around(tmp_path)
    homes = {
        environment(Role(name, "codex", home=Home.OWN), Credential(), place)["CODEX_HOME"]
        for name in ("a b", "a-b", "a_b")
    }
    assert len(homes) == 3


@pytest.mark.parametrize("command", ["claude", "codex", "gemini", "qwen", "pi"])
def test_files_of_a_first_run_are_private_and_never_replace_what_the_program_wrote(
    tmp_path: Path, command: str
) -> None:
    role, place = Role("coder", command, home=Home.OWN), around(tmp_path, GEMINI_API_KEY="k")
    seat = seating(role, place)
    first = adapter_for(command).first_run(seat)
    for name in first:
        (seat.home / name).parent.mkdir(parents=True, exist_ok=True)
        (seat.home / name).write_text("mine")
        break
    equip(adapter_for(command), seat, place.environ)
    equip(adapter_for(command), seat, place.environ)
    for number, name in enumerate(first):
        assert ((seat.home / name).read_text() == "mine") is (number == 0)
    (tmp_path / "other").mkdir()
    fresh = Seating(seat.project, tmp_path / "state/choragos/homes/s1/new", True, URL, {})
    equip(adapter_for(command), fresh, place.environ)
    for path in fresh.home.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    written = {path.name for path in fresh.home.rglob("*") if path.is_file()}
    assert {Path(name).name for name in adapter_for(command).first_run(fresh)} <= written
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_claude_is_told_of_trust_theme_and_key_in_its_own_home(tmp_path: Path) -> None:
    role, key = Role("coder", "claude", home=Home.OWN), "sk-ant-0123456789-abcdefghijklmnopqrst"
    place = around(tmp_path, ANTHROPIC_API_KEY=key)
    equip(adapter_for("claude"), seating(role, place), place.environ)
    env = environment(role, Credential(), place)
    text = (Path(env["CLAUDE_CONFIG_DIR"]) / ".claude.json").read_text()
    settings = json.loads(text)
    assert settings["projects"][str(place.directory)]["hasTrustDialogAccepted"] is True
    assert settings["customApiKeyResponses"]["approved"] == ["abcdefghijklmnopqrst"]
    assert "sk-ant" not in text


@pytest.mark.parametrize("own", [["--settings", "x"], ["--settings=x"], ["-p"], ["--bare"]])
def test_claude_gets_no_hooks_where_the_user_gives_settings(tmp_path: Path, own: list[str]) -> None:
    line = command_line(Role("coder", "claude", args=tuple(own)), around(tmp_path))
    assert line[1:] == own


def test_the_hooks_of_claude_say_what_happens_in_the_roles_own_file(tmp_path: Path) -> None:
    role, place = Role("it's", "claude"), around(tmp_path)
    seat, adapter = seating(role, place), adapter_for("claude")
    equip(adapter, seat, place.environ)
    line = command_line(role, place)
    hooks = json.loads(Path(line[line.index("--settings") + 1]).read_text())["hooks"]
    said = HookFile(seat.home / adapter.hook_file, adapter.hook)
    assert said.news() == []
    note = {"message": 'Claude needs your permission to use "Bash"', "x": "y\n" * 9000}
    events = (("UserPromptSubmit", {}), ("Notification", note), ("Notification", {}), ("Stop", {}))
    for event, told in events:
        command = hooks[event][0]["hooks"][0]["command"]
        done = subprocess.run(
            ["sh", "-c", command], input=json.dumps(told).encode(), capture_output=True, check=True
        )
        assert done.stdout + done.stderr == b""
    assert [signal.state for signal in said.news()] == ["working", "blocked", "idle"]
    assert said.news() == []
    assert len((seat.home / adapter.hook_file).read_bytes()) < 5000


@given(st.binary(max_size=300))
def test_any_bytes_in_the_file_of_the_hooks_are_read_without_harm(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "said"
        file.write_bytes(data + b"\nprompt\n")
        hooks = HookFile(file, adapter_for("claude").hook)
        assert hooks.news()[-1].state == "working"
        file.unlink()
        file.symlink_to("/etc/passwd")
        assert hooks.news() == []


def test_a_home_that_was_replaced_by_a_link_is_refused(tmp_path: Path) -> None:
    role, place = Role("coder", "claude", home=Home.OWN), around(tmp_path)
    seat = seating(role, place)
    seat.home.parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    seat.home.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HomeError, match="not a directory"):
        equip(adapter_for("claude"), seat, place.environ)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_walled_role_has_the_same_home_as_its_wall(tmp_path: Path) -> None:
    place = around(tmp_path)
    places = Places(tmp_path / "p", "s1", tmp_path, tmp_path / "door", place.environ)
    for name in ("coder", "a b", "ü" * 70):
        assert seating(Role(name, "codex", wall=True), place).home == places.home(name)
        assert seating(Role(name, "codex", wall=True), place).own


def test_every_known_program_states_the_versions_it_was_measured_with() -> None:
    for command in ("claude", "codex", "gemini", "opencode", "pi", "qwen", "aider"):
        adapter = adapter_for(command)
        assert adapter.name == command
        assert adapter.measured
        assert adapter.marks.know_ready
    for shell in NAMES:
        assert adapter_for(f"/bin/{shell}").name == "shell"
        assert not adapter_for(shell).marks.know_ready
    assert adapter_for("claude-wrapper.sh").name == "plain"


@pytest.mark.parametrize(
    ("command", "variable", "provider"),
    [
        ("claude", "ANTHROPIC_AUTH_TOKEN", "anthropic"),
        ("codex", "CODEX_API_KEY", "openai"),
        ("gemini", "GEMINI_API_KEY", "google"),
        ("qwen", "OPENAI_API_KEY", "openai"),
        ("sh", "ANTHROPIC_API_KEY", "anthropic"),
    ],
)
def test_where_the_gateway_holds_a_key_the_role_gets_its_own_and_never_the_providers(
    tmp_path: Path, command: str, variable: str, provider: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sh").touch(0o755)
    keys = {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o", "GEMINI_API_KEY": "g"}
    place = around(tmp_path, **keys)
    before = environment(Role("coder", command=command), Credential(), place)
    assert before.items() >= keys.items()
    place.gateway.managed = frozenset({provider})
    env = environment(Role("coder", command=command), Credential(), place)
    key = place.gateway.role_key("coder")
    assert env[variable] == key != place.gateway.role_key("reviewer")
    assert keys[PROVIDER_KEYS[provider][0]] not in env.values()
    # No role without a place of its own in the URL can be told from another.
    assert environment(Role("a b", command=command), Credential(), place).items() >= keys.items()


def test_no_role_sees_a_key_of_the_gateways_own_settings(tmp_path: Path) -> None:
    names = ("SPHRAGIS_ANTHROPIC_API_KEY", "SPHRAGIS_UPSTREAM_API_KEY", "SPHRAGIS_VAULT_KEY")
    place = around(tmp_path, **dict.fromkeys(names, "x"), SPHRAGIS_HOME="/h")
    env = environment(
        Role("coder", command="claude", env_allow=("SPHRAGIS_*",)), Credential(), place
    )
    assert not env.keys() & set(names)
    assert env["SPHRAGIS_HOME"] == "/h"
