"""pi, pinned, headless, on each API it speaks: originals in its files, tokens at its provider."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from e2e_servers import clean_env
from gateway_harness import Gateway, Provider, Seen, answer_by_rule, leaks, running
from openai_provider import answer_openai
from responses_provider import answer_responses

from deck.demo.canaries import demo_canaries

pytestmark = [pytest.mark.client, pytest.mark.xdist_group("clients")]

CANARIES = demo_canaries()
PERSONAL = [c.value for c in CANARIES if not c.secret]
EVERY = [c.value for c in CANARIES]
#: A password is one by its name only.
NAMES = {"database password": "DATABASE_PASSWORD=", "API key": "PAYMENTS_API_KEY="}
LINES = [NAMES.get(c.name, "") + c.value for c in CANARIES]


@dataclass(frozen=True)
class Api:
    """How pi calls an API, and which calls the gateway then forwards."""

    name: str
    base: str
    path: str


APIS = {
    "chat": Api("openai-completions", "/v1", "/v1/chat/completions"),
    "anthropic": Api("anthropic-messages", "", "/v1/messages"),
    "responses": Api("openai-responses", "/v1", "/v1/responses"),
}


async def answer(request: web.Request, seen: Seen) -> web.StreamResponse:
    """Speak the API that is asked for."""
    if "/v1/messages" in seen.target:
        return await answer_by_rule(request, seen)
    if "/v1/responses" in seen.target:
        return await answer_responses(request, seen)
    return await answer_openai(request, seen)


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[Provider]:
    started = Provider(answer)
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def gateway(
    shared_provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    url = shared_provider.url
    home = tmp_path_factory.mktemp("pi") / "home"
    with running(home, url, openai_base_url=url) as started:
        yield started


@pytest.fixture
def provider(shared_provider: Provider) -> Iterator[Provider]:
    """The provider; whatever it received in a test held no canary."""
    shared_provider.seen.clear()
    yield shared_provider
    assert leaks(EVERY, shared_provider.seen) == []


def ask(
    program: Path, home: Path, url: str, api: str, prompt: str
) -> subprocess.CompletedProcess[str]:
    model: dict[str, Any] = {"id": "test-model", "contextWindow": 128000, "maxTokens": 4000}
    models = {"gw": {"baseUrl": url, "api": api, "apiKey": "offline-key", "models": [model]}}
    folder = home / ".pi" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "models.json").write_text(json.dumps({"providers": models}))
    return subprocess.run(
        [program, "-p", "--model", "gw/test-model", prompt],
        cwd=home / "work",
        env=clean_env(home, PI_OFFLINE="1"),
        stdin=subprocess.DEVNULL,
        check=False,
        capture_output=True,
        text=True,
        timeout=90,
    )


@pytest.mark.parametrize("name", APIS)
def test_pi_writes_the_originals_and_the_provider_never_sees_them(
    pi: Path, client_home: Path, gateway: Gateway, provider: Provider, name: str
) -> None:
    api = APIS[name]
    content = "\n".join(['He said "hi" \\ and left.', *LINES])
    call = json.dumps({"path": "contact.txt", "content": content}, ensure_ascii=False)
    prompt = f"Save this.\n@tool write {call}"
    done = ask(pi, client_home, f"{gateway.url}/agent/pi{api.base}", api.name, prompt)
    assert done.returncode == 0, done.stdout + done.stderr
    written = (client_home / "work" / "contact.txt").read_text()
    for value in PERSONAL:
        assert value in written
    assert written.startswith('He said "hi" \\ and left.\n')
    assert [seen.target for seen in provider.seen] == [api.path, api.path]
    turns = "input" if name == "responses" else "messages"
    first, second = (seen.document[turns] for seen in provider.seen)
    assert len(first) < len(second)
    assert gateway.records(), "every call is recorded"


@pytest.mark.parametrize("name", APIS)
def test_pi_shows_the_originals_in_a_plain_answer(
    pi: Path, client_home: Path, gateway: Gateway, provider: Provider, name: str
) -> None:
    api = APIS[name]
    prompt = "Write to\n" + "\n".join(LINES)
    done = ask(pi, client_home, f"{gateway.url}/agent/pi{api.base}", api.name, prompt)
    assert done.returncode == 0, done.stdout + done.stderr
    for value in PERSONAL:
        assert value in done.stdout
    assert len(provider.seen) == 1


@pytest.mark.parametrize("name", APIS)
def test_pi_shows_its_user_why_a_call_is_refused(
    pi: Path, client_home: Path, gateway: Gateway, provider: Provider, name: str
) -> None:
    url = f"{gateway.url}/agent/pi/v9"
    before = len(gateway.records())
    done = ask(pi, client_home, url, APIS[name].name, f"Write to {PERSONAL[0]}")
    assert done.returncode != 0
    assert "it has no scanner for this call" in done.stdout + done.stderr
    assert provider.seen == []
    assert len(gateway.records()) == before + 1, "one try, one record"
