"""aider, pinned, headless: it has no tools, its files stand in the text of the answer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from agents import ALL
from e2e_servers import clean_env
from every_provider import answer_every_api
from gateway_harness import Provider, leaks, running
from installs import install_aider

from deck.demo.canaries import demo_canaries

pytestmark = [
    pytest.mark.client,
    pytest.mark.skipif(not ALL, reason="only with CLIENTS=all (make clients)"),
]

VALUE = {c.name: c.value for c in demo_canaries()}
CODE = f"""\
contact = {{"email": "{VALUE["e-mail"]}", 'phone': '{VALUE["phone"]}'}}
card = "{VALUE["card"]}"  # paid from {VALUE["IBAN"]}
raw = r"C:\\Users\\{VALUE["e-mail"]}\\notes.txt"
"""
QUIET = [
    "--yes-always",
    "--no-git",
    "--no-check-update",
    "--analytics-disable",
    "--no-show-model-warnings",
    "--no-auto-lint",
    "--edit-format=whole",
]


def test_aider_writes_the_originals_and_the_provider_never_sees_them(
    client_home: Path, tmp_path: Path
) -> None:
    provider = Provider(answer_every_api)
    provider.start()
    prompt = f"Save it.\n\ncontact.py\n```\n{CODE}```\n"
    try:
        with running(tmp_path / "home", provider.url, openai_base_url=provider.url) as gateway:
            done = subprocess.run(
                [install_aider(), "--model", "openai/test", *QUIET, "--message", prompt],
                cwd=client_home / "work",
                env=clean_env(
                    client_home,
                    OPENAI_API_BASE=f"{gateway.url}/agent/aider/v1",
                    OPENAI_API_KEY="offline-key",
                    LITELLM_LOCAL_MODEL_COST_MAP="True",
                ),
                stdin=subprocess.DEVNULL,
                check=False,
                capture_output=True,
                text=True,
                timeout=180,
            )
    finally:
        provider.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    assert (client_home / "work" / "contact.py").read_text() == CODE
    assert [seen.target for seen in provider.seen] == ["/v1/chat/completions"]
    assert leaks(list(VALUE.values()), provider.seen) == []
