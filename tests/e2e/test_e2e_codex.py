"""Codex, pinned, headless: its commands run with originals, the provider sees only tokens."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e_servers import clean_env
from gateway_harness import Gateway, Provider, leaks, running
from responses_provider import SEAL, answer_responses

from deck.demo.canaries import demo_canaries

pytestmark = pytest.mark.client

CANARIES = demo_canaries()
VALUE = {c.name: c.value for c in CANARIES}
PERSONAL = [c.value for c in CANARIES if not c.secret]
EVERY = [c.value for c in CANARIES]

#: What a project's notes look like: the people in clear, secrets in lines that name them.
NOTES = [
    *PERSONAL,
    f"DATABASE_PASSWORD={VALUE['database password']} # rotate it",
    f"PAYMENTS_API_KEY={VALUE['API key']} # and this",
]

#: Nothing but the gateway is called (contracts/clients.md section 2).
QUIET = """
[analytics]
enabled = false

[features]
plugins = false
apps = false
"""
HEAD = 'model = "gpt-test"\ncheck_for_update_on_startup = false\n'
BY_PROVIDER = f"""{HEAD}model_provider = "gw"

[model_providers.gw]
name = "gw"
base_url = "URL/v1"
env_key = "GW_KEY"
wire_api = "responses"
request_max_retries = 1
stream_max_retries = 0
{QUIET}"""
BY_BASE_URL = f'{HEAD}openai_base_url = "URL/v1"\n{QUIET}'


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[Provider]:
    started = Provider(answer_responses)
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def gateway(
    shared_provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    url = shared_provider.url
    with running(tmp_path_factory.mktemp("codex") / "home", url, openai_base_url=url) as started:
        yield started


@pytest.fixture
def provider(shared_provider: Provider) -> Iterator[Provider]:
    """The provider; whatever it received in a test held no canary."""
    shared_provider.seen.clear()
    yield shared_provider
    assert leaks(EVERY, shared_provider.seen) == []


def ask(
    program: Path, home: Path, url: str, prompt: str, *, config: str = BY_PROVIDER, place: str = ""
) -> subprocess.CompletedProcess[str]:
    (home / ".codex").mkdir(exist_ok=True)
    (home / ".codex" / "config.toml").write_text(config.replace("URL", url))
    cwd = home / "work" / place
    cwd.mkdir(exist_ok=True)
    return subprocess.run(
        [program, "exec", "--skip-git-repo-check", "-s", "danger-full-access", prompt],
        cwd=cwd,
        env=clean_env(home, GW_KEY="offline-key", CODEX_API_KEY="offline-key"),
        stdin=subprocess.DEVNULL,
        check=False,
        capture_output=True,
        text=True,
        timeout=90,
    )


def save(values: list[str]) -> str:
    """A prompt that makes Codex write the values into a file and show the file."""
    text = "\n".join(['He said "hi" \\ and left.', *values])
    command = f"cat > contact.txt <<'END'\n{text}\nEND\ncat contact.txt"
    return f"Save this.\n@tool exec_command {json.dumps({'cmd': command}, ensure_ascii=False)}"


def items(document: Any, kind: str) -> list[dict[str, Any]]:
    return [item for item in document["input"] if item.get("type") == kind]


@pytest.mark.parametrize("config", [BY_BASE_URL], ids=["base url"])
def test_codex_writes_the_originals_and_the_provider_never_sees_them(
    codex: Path, client_home: Path, gateway: Gateway, provider: Provider, config: str
) -> None:
    before = len(gateway.records())
    done = ask(codex, client_home, f"{gateway.url}/agent/codex", save(NOTES), config=config)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    written = (client_home / "work" / "contact.txt").read_text()
    for value in PERSONAL:
        assert value in written
        assert value in done.stdout, "the result that was repeated is not restored"
    assert written.startswith('He said "hi" \\ and left.\n')
    calls = [seen for seen in provider.seen if seen.method == "POST"]
    assert [(seen.method, seen.target) for seen in provider.seen] == [("POST", "/v1/responses")] * 2
    second = calls[1].document
    (call,), (output,) = items(second, "function_call"), items(second, "function_call_output")
    assert "[EMAIL_" in call["arguments"]
    assert "[EMAIL_" in json.dumps(output["output"])
    (reasoning,) = items(second, "reasoning")
    assert reasoning["encrypted_content"] == SEAL
    assert "[EMAIL_" in reasoning["summary"][0]["text"]
    # Asked by its base URL alone, Codex first tries a WebSocket, is told 426 and posts.
    refused = [r["policy"]["rules"] for r in gateway.records()[before:] if r["type"] == "deny"]
    assert refused == ([["upgrade"]] if config is BY_BASE_URL else [])


def test_a_folder_that_is_called_like_a_person_is_no_leak(
    codex: Path, client_home: Path, gateway: Gateway, provider: Provider
) -> None:
    """Codex names its folder in the prompt, in its metadata and in a header."""
    place = VALUE["e-mail"]
    git = client_home / "work" / place
    git.mkdir()
    subprocess.run(["git", "init", "-q", git], check=True)
    subprocess.run(
        ["git", "-C", git, "-c", "user.name=x", "-c", f"user.email={place}", "commit", "-q",
         "--allow-empty", "-m", f"for {place}"], check=True
    )  # fmt: skip
    done = ask(codex, client_home, f"{gateway.url}/agent/codex", "Say hi.", place=place)
    assert done.returncode == 0, done.stdout + done.stderr
    (seen,) = provider.seen
    assert "[EMAIL_" in json.dumps(seen.document["client_metadata"])
    assert seen.header("x-codex-turn-metadata") == [], "a header that cannot be rewritten is kept"
    assert seen.header("session-id") != []


def test_codex_says_which_metadata_headers_it_may_send(
    codex: Path, client_home: Path, gateway: Gateway, provider: Provider
) -> None:
    done = ask(codex, client_home, f"{gateway.url}/agent/codex", "Say hi.")
    assert done.returncode == 0, done.stdout + done.stderr
    (seen,) = provider.seen
    assert json.loads(seen.header("x-codex-turn-metadata")[0])["session_id"]
    assert seen.header("originator") == ["codex_exec"]
    assert seen.header("authorization") == ["Bearer offline-key"]


def test_codex_shows_its_user_why_a_call_is_refused_and_nothing_leaves(
    codex: Path, client_home: Path, gateway: Gateway, provider: Provider
) -> None:
    prompt = "Write to " + ", ".join(EVERY)
    done = ask(codex, client_home, f"{gateway.url}/agent/codex/v9", prompt)
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert "403" in said, said
    assert "it has no scanner for this call" in said, said
    assert provider.seen == []
