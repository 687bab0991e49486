"""Codex, pinned, headless: its format is refused for now, clearly and before anything leaves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from e2e_servers import Server, clean_env

from deck.demo.canaries import demo_canaries

pytestmark = [pytest.mark.client, pytest.mark.xdist_group("clients")]

CANARIES = demo_canaries()
CONFIG = """\
model = "claude-offline-large"
model_provider = "gw"
check_for_update_on_startup = false

[model_providers.gw]
name = "gw"
base_url = "{url}/v1"
env_key = "GW_KEY"
wire_api = "responses"

[analytics]
enabled = false

[features]
plugins = false
apps = false
"""


def ask(program: Path, home: Path, server: Server, prompt: str) -> subprocess.CompletedProcess[str]:
    (home / ".codex").mkdir(exist_ok=True)
    (home / ".codex" / "config.toml").write_text(CONFIG.format(url=server.url("codex")))
    return subprocess.run(
        [program, "exec", "--skip-git-repo-check", prompt],
        cwd=home / "work",
        env=clean_env(home, GW_KEY="offline-key"),
        stdin=subprocess.DEVNULL,
        check=False,
        capture_output=True,
        text=True,
        timeout=90,
    )


def test_codex_shows_its_user_why_it_is_refused_and_nothing_leaves(
    codex: Path, client_home: Path, server: Server
) -> None:
    before = len(server.received())
    prompt = "Write to " + ", ".join(c.value for c in CANARIES)
    done = ask(codex, client_home, server, prompt)
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert "403" in said, said
    assert "/v1/responses" in said, said
    assert len(server.received()) == before, "a refused call reached the provider"
    server.assert_no_leak(CANARIES)
    assert server.verify()["status"] == "ok"
