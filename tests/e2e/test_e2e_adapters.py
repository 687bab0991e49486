"""Every agent program in its own terminal, equipped by its adapter alone, with nothing of a user's.

A home of its own, no dialog, ready by its own marks, the line typed once and proved, and the call
at the gateway's address under the role's name: whatever of this a new version breaks is seen here.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from agents import ALL
from e2e_servers import clean_env
from every_provider import answer_every_api
from gateway_harness import Provider
from installs import install_aider, install_client

from deck.agents import adapter_for
from deck.config import Home, Role, SphragisConfig
from deck.gateway import Gateway
from deck.homes import equip
from deck.pane import OutcomeKind, Pane, PaneSpec, PaneState
from deck.pane.hooks import HookFile
from deck.pane.status import BOOT_KNOWN_MAX_SECONDS, Source
from deck.roster import Credential, Surroundings, command_line, environment, seating

pytestmark = pytest.mark.client

KEYS = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"), "offline-key-0123")


@dataclass(frozen=True)
class Case:
    """One program: its client in `installs`, its arguments, and whether every run has it."""

    client: str
    args: tuple[str, ...] = ()
    every_run: bool = False
    env: tuple[tuple[str, str], ...] = ()
    state_from: Source | None = None


CASES = {
    "claude": Case("claude", every_run=True, state_from=Source.SIGNAL),
    "claude-old": Case("claude-old", state_from=Source.TITLE),
    "codex": Case("codex", ("-m", "gpt-test"), every_run=True, state_from=Source.SIGNAL),
    "gemini": Case("gemini", every_run=True, state_from=Source.TITLE),
    "opencode": Case("opencode", ("--model", "anthropic/claude-sonnet-4-5")),
    "pi": Case("pi", ("--model", "anthropic/claude-sonnet-4-5"), every_run=True),
    "qwen": Case("qwen", env=(("OPENAI_MODEL", "test-model"),)),
    "aider": Case("aider", ("--model", "openai/test", "--no-git", "--no-show-model-warnings")),
}


@pytest.fixture
def provider() -> Iterator[Provider]:
    made = Provider(answer_every_api)
    made.start()
    yield made
    made.stop()


@pytest.mark.parametrize("name", list(CASES))
async def test_a_program_equipped_by_its_adapter_takes_a_line_and_calls_the_gateway(
    name: str, client_home: Path, provider: Provider
) -> None:
    case = CASES[name]
    if not (case.every_run or ALL):
        pytest.skip("only with CLIENTS=all (make clients)")
    program = install_aider() if name == "aider" else install_client(case.client)
    role = Role("coder", str(program), args=case.args, home=Home.OWN)
    environ = clean_env(client_home, **KEYS, **dict(case.env), IS_SANDBOX="1")
    gateway = Gateway(
        SphragisConfig(enabled=True, addr=urlsplit(provider.url).netloc),
        log=client_home / "log",
        environ=environ,
    )
    place = Surroundings("s1", "/none.sock", environ, gateway, directory=client_home / "work")
    adapter, seat = adapter_for(role.command), seating(role, place)
    equip(adapter, seat, environ)
    hooks = HookFile(seat.home / adapter.hook_file, adapter.hook) if adapter.hook_file else None
    spec = PaneSpec(
        "coder",
        tuple(command_line(role, place)),
        place.directory,
        environment(role, Credential(), place),
        marks=adapter.marks,
        hooks=hooks,
    )
    states: list[tuple[PaneState, Source]] = []
    pane = Pane(spec, on_status=lambda _, s: states.append((s.state, s.source)))
    await pane.start()
    try:
        started = asyncio.get_running_loop().time()
        line = pane.inject("say hi and nothing else")
        outcome = await asyncio.wait_for(line, BOOT_KNOWN_MAX_SECONDS + 20)
        took = asyncio.get_running_loop().time() - started
        shown = "\n".join(pane.rows())
        at_start = {state for state, _ in states}
        assert (outcome.kind, outcome.injections) == (OutcomeKind.DELIVERED, 1), shown
        assert took < BOOT_KNOWN_MAX_SECONDS, f"its marks did not show\n{shown}"
        for _ in range(200):
            if any(target.startswith("/agent/coder/") for target in targets(provider)):
                break
            await asyncio.sleep(0.1)
        assert all(target.startswith("/agent/coder") for target in targets(provider))
        shown = "\n".join(pane.rows())
        assert any(target.startswith("/agent/coder/v1") for target in targets(provider)), shown
        assert PaneState.BLOCKED not in at_start, states
        if adapter.hook_file:
            assert "prompt" in (seat.home / adapter.hook_file).read_text()
        if case.state_from is not None:
            assert case.state_from in {source for _, source in states}, states
    finally:
        proof = await pane.stop(2)
        shutil.rmtree(seat.home, ignore_errors=True)
    assert proof.survivors == ()
    settings = {path.name for path in client_home.iterdir()} - {"work", ".local", ".cache", "log"}
    assert not settings & {".claude", ".claude.json", ".codex", ".gemini", ".pi", ".qwen"}


def targets(provider: Provider) -> list[str]:
    return [seen.target for seen in provider.seen]
