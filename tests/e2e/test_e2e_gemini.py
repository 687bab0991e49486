"""Gemini CLI, pinned, headless, through the gateway to a scripted provider: what only it does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gemini_provider
import pytest
from aiohttp import web
from e2e_servers import clean_env
from gateway_harness import Gateway, Provider, Seen, leaks, running

from deck.demo.canaries import demo_canaries

pytestmark = pytest.mark.client

VALUE = {c.name: c.value for c in demo_canaries()}
ALL = list(VALUE.values())
SETTINGS = {
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"enableAutoUpdate": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
}
TICKET = (
    f"Customer: {VALUE['e-mail']}, {VALUE['phone']}, card {VALUE['card']}, {VALUE['IBAN']}.\n"
    f"DATABASE_PASSWORD={VALUE['database password']}\n"
)


@dataclass
class Gemini:
    program: Path
    home: Path
    gateway: Gateway
    provider: Provider

    @property
    def work(self) -> Path:
        return self.home / "work"

    def ask(self, prompt: str, *options: str, role: str = "gemini") -> str:
        """Run one headless turn; return a line with the exit code, and all it printed."""
        settings = self.home / ".gemini" / "settings.json"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text(json.dumps(SETTINGS))
        temp = self.home / "tmp"
        temp.mkdir(exist_ok=True)
        done = subprocess.run(
            [self.program, "--prompt", prompt, *options],
            cwd=self.work,
            env=clean_env(
                self.home,
                GOOGLE_GEMINI_BASE_URL=f"{self.gateway.url}/agent/{role}",
                GEMINI_API_KEY="offline-key",
                GEMINI_CLI_TRUST_WORKSPACE="true",
                TMPDIR=str(temp),
            ),
            stdin=subprocess.DEVNULL,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return f"exit {done.returncode}\n{done.stdout}{done.stderr}"

    def targets(self) -> list[str]:
        """The calls the provider saw, by verb."""
        return [seen.target.rpartition(":")[2] for seen in self.provider.seen]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Provider]]:
    provider = Provider(gemini_provider.answer_by_rule)
    provider.start()
    home = tmp_path_factory.mktemp("gateway") / "home"
    with running(home, provider.url, google_base_url=provider.url) as gateway:
        yield gateway, provider
    provider.stop()


@pytest.fixture
def agent(gemini: Path, client_home: Path, parts: tuple[Gateway, Provider]) -> Iterator[Gemini]:
    gateway, provider = parts
    provider.seen.clear()
    provider.script = gemini_provider.answer_by_rule
    yield Gemini(gemini, client_home, gateway, provider)
    assert leaks(ALL, provider.seen) == []


def test_an_answer_with_blank_lines_between_is_printed_with_the_originals(agent: Gemini) -> None:
    (agent.work / "GEMINI.md").write_text(f"The team's notes.\n{TICKET}")

    async def slowly(request: web.Request, seen: Seen) -> web.StreamResponse:
        if "alt=sse" not in seen.target:
            return await gemini_provider.answer_by_rule(request, seen)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        (part,) = gemini_provider.plan(seen.document)
        for piece in gemini_provider.pieces(part):
            data = json.dumps(gemini_provider.chunk(piece))
            await response.write(f"\n\ndata: {data}\n\n\n\n".encode())
        data = json.dumps(gemini_provider.chunk({"text": "."}, finish="STOP"))
        await response.write(f"data: {data}\n\n".encode())
        return response

    agent.provider.script = slowly
    said = agent.ask(f"Say again: {VALUE['e-mail']} and {VALUE['phone']}.")
    assert said.startswith("exit 0"), said
    assert f"Say again: {VALUE['e-mail']} and {VALUE['phone']}." in said
    assert "generateContent" in agent.targets(), "the side request that judges the prompt"
    bodies = b"".join(seen.body for seen in agent.provider.seen)
    assert b"The team's notes." in bodies, "GEMINI.md was part of the prompt"
