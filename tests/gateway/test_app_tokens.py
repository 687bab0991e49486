"""Whose values come back: roles, sessions and tokens of others, through a running gateway."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from gateway_harness import Gateway, Provider, answer_by_rule, leaks, running

CANARY = "token.probe@leak-canary.org"
SECRET = "DB_PASSWORD=Kestrel9321xq"
HEAD = 'id = "p"\nversion = "1"\n'
KINDS = """[kinds]
EMAIL = { action = "token", restore = true }
SECRET = { action = "token", restore = false }
IP = { action = "stand_in", restore = true }
PHONE = { action = "hash" }
"""
TOKEN = re.compile(r"\[[A-Z]+_[a-z0-9]{8}\]")


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider()
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture(autouse=True)
def fresh(provider: Provider) -> None:
    provider.seen.clear()
    provider.script = answer_by_rule


def gateway_with(policy: str, provider: Provider, folder: Path) -> Any:
    (folder / "policy.toml").write_text(HEAD + policy)
    return running(folder / "home", provider.url, policy_file=str(folder / "policy.toml"))


@pytest.fixture(scope="module")
def shared(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Everybody shares tokens, nobody values."""
    folder = tmp_path_factory.mktemp("shared")
    with gateway_with("scope = 'deployment'\n" + KINDS, provider, folder) as started:
        yield started


async def ask(
    gateway: Gateway, role: str, content: str, *, stream: bool = False, session: str = ""
) -> tuple[int, str]:
    """Send one prompt; return the status and the text of the answer (or the error)."""
    document = {
        "model": "m",
        "max_tokens": 1,
        "stream": stream,
        "messages": [{"role": "user", "content": content}],
    }
    named = {"x-claude-code-session-id": session} if session else {}
    url = f"{gateway.url}/agent/{role}/v1/messages"
    async with (
        aiohttp.ClientSession() as client,
        client.post(url, json=document, headers=named) as answer,
    ):
        body = await answer.text()
    if not stream or answer.status != 200:
        said = json.loads(body)
        return answer.status, (
            said["content"][0]["text"] if answer.status == 200 else said["error"]["message"]
        )
    lines = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: ")]
    return answer.status, "".join(e["delta"].get("text", "") for e in lines if "delta" in e)


def upstream_text(provider: Provider) -> str:
    text = provider.seen[-1].document["messages"][-1]["content"]
    assert isinstance(text, str)
    return text


def metric(gateway: Gateway, direction: str) -> float:
    name = f'sphragis_foreign_tokens_total{{direction="{direction}"}} '
    lines = gateway.get("/metrics")[1].decode().splitlines()
    return next((float(line[len(name) :]) for line in lines if line.startswith(name)), 0.0)


async def test_roles_share_a_token_and_each_gets_back_only_what_it_sent(
    shared: Gateway, provider: Provider
) -> None:
    status, said = await ask(shared, "one", f"mail {CANARY}")
    assert (status, said) == (200, f"You said: mail {CANARY}")
    (token,) = TOKEN.findall(upstream_text(provider))
    before = metric(shared, "request"), metric(shared, "response")
    for stream in (False, True):
        assert await ask(shared, "two", f"mail {token}", stream=stream) == (
            200,
            f"You said: mail {token}",
        )
        assert await ask(shared, "one", f"mail {token}", stream=stream) == (
            200,
            f"You said: mail {CANARY}",
        )
    assert (metric(shared, "request"), metric(shared, "response")) == (before[0] + 2, before[1] + 2)
    requests = [r for r in shared.records() if r["type"] == "request"]
    assert [r["ext"].get("foreign_tokens") for r in requests[-4:]] == [1, None, 1, None]
    outcome = shared.outcome_of(requests[-2]["seq"])
    assert outcome["ext"]["foreign_tokens"] == 1
    assert await ask(shared, "two", f"mail {CANARY}") == (200, f"You said: mail {CANARY}")
    assert upstream_text(provider) == f"mail {token}"
    assert await ask(shared, "two", f"mail {token}") == (200, f"You said: mail {CANARY}")
    assert leaks([CANARY], provider.seen) == []


async def test_a_token_of_a_secret_is_its_senders_own_although_it_never_comes_back(
    shared: Gateway, provider: Provider
) -> None:
    await ask(shared, "three", SECRET)
    (token,) = TOKEN.findall(upstream_text(provider))
    before = metric(shared, "request")
    assert await ask(shared, "three", f"again {token}") == (200, f"You said: again {token}")
    assert metric(shared, "request") == before
    await ask(shared, "four", f"again {token}")
    assert metric(shared, "request") == before + 1


async def test_stand_ins_go_out_and_originals_come_back(
    shared: Gateway, provider: Provider
) -> None:
    text = "ping 81.2.69.142, then 2a02:8109:9a40::17."
    for stream in (False, True):
        assert await ask(shared, "five", text, stream=stream) == (200, f"You said: {text}")
        sent = upstream_text(provider)
        assert "[" not in sent
        assert "81.2" not in sent
        # What was sent once is sent as it is, so that a cached prefix stays one.
        assert await ask(shared, "five", sent, stream=stream) == (200, f"You said: {text}")
        assert upstream_text(provider) == sent
    own = "ping 192.0.2.77."
    assert await ask(shared, "six", own) == (200, f"You said: {own}")
    assert upstream_text(provider) == own


@pytest.mark.parametrize("stream", [False, True])
async def test_what_tools_are_called_with_is_restored_too(
    shared: Gateway, provider: Provider, stream: bool
) -> None:
    inner = json.dumps({"to": CANARY, "hosts": ["81.2.69.142", "203.0.113.9"]})
    arguments = {"path": "C:\\new\\[a]", "text": f'say "81.2.69.142" to {CANARY}', "body": inner}
    document = {
        "model": "m",
        "max_tokens": 1,
        "stream": stream,
        "messages": [{"role": "user", "content": f"@tool Write {json.dumps(arguments)}"}],
    }
    url = f"{shared.url}/agent/tools/v1/messages"
    async with aiohttp.ClientSession() as client, client.post(url, json=document) as answer:
        body = await answer.text()
    if stream:
        lines = [json.loads(line[6:]) for line in body.splitlines() if line.startswith("data: ")]
        pieces = [e["delta"].get("partial_json", "") for e in lines if "delta" in e]
        assert json.loads("".join(pieces)) == arguments
    else:
        assert json.loads(body)["content"][0]["input"] == arguments
    assert leaks([CANARY, "81.2.69.142"], provider.seen) == []


async def test_a_hash_stays_in_what_comes_back(shared: Gateway, provider: Provider) -> None:
    status, said = await ask(shared, "seven", "call +44 161 715 1234 now")
    assert status == 200
    found = re.fullmatch(r"You said: (call \[PHONE#[a-z0-9]{12}\] now)", said)
    assert found
    assert await ask(shared, "eight", found[1]) == (200, said)
    assert upstream_text(provider) == found[1]


async def test_a_session_keeps_its_values_and_refuses_tokens_of_others(
    provider: Provider, tmp_path: Path
) -> None:
    policy = "scope = 'session'\nforeign_tokens = 'refuse'\n" + KINDS
    with gateway_with(policy, provider, tmp_path) as gateway:
        assert await ask(gateway, "r", f"mail {CANARY}", session="one") == (
            200,
            f"You said: mail {CANARY}",
        )
        (token,) = TOKEN.findall(upstream_text(provider))
        assert await ask(gateway, "r", f"mail {token}", session="one") == (
            200,
            f"You said: mail {CANARY}",
        )
        sent = len(provider.seen)
        for session in ("two", ""):
            status, said = await ask(gateway, "r", f"mail {token}", session=session)
            assert status == 403
            assert "token" in said
            status, said = await ask(gateway, "r", f"mail {token}", session=session)
            assert status == 403
        assert len(provider.seen) == sent
        denied = [r for r in gateway.records() if r["type"] == "deny"]
        assert denied[-1]["policy"]["rules"] == ["foreign_tokens"]
        await ask(gateway, "r", f"mail {CANARY}", session="two")
        (other,) = TOKEN.findall(upstream_text(provider))
        assert other != token


async def test_without_a_vault_tokens_are_stable_and_stay(
    provider: Provider, tmp_path: Path
) -> None:
    policy = "vault = 'off'\n[kinds]\nEMAIL = { action = 'token', restore = true }\n"
    texts = []
    for _ in range(2):  # the second one is another process
        with gateway_with(policy, provider, tmp_path) as gateway:
            status, said = await ask(gateway, "r", f"mail {CANARY}")
            assert status == 200
            assert said == f"You said: {upstream_text(provider)}"
            assert TOKEN.search(said)
            assert await ask(gateway, "r", said) == (200, f"You said: {said}")
            assert metric(gateway, "request") == metric(gateway, "response") == 0
            texts.append(said)
    assert texts[0] == texts[1]
    home = tmp_path / "home"
    assert not (home / "vault.db").exists()
    assert not (home / "keys" / "vault.key").exists()


async def test_the_verbs_erase_and_change_keys_under_a_running_gateway(
    provider: Provider, tmp_path: Path
) -> None:
    with gateway_with(KINDS, provider, tmp_path) as gateway:
        await ask(gateway, "r", f"mail {CANARY}")
        (token,) = TOKEN.findall(upstream_text(provider))
        known = (200, f"You said: {CANARY}")
        assert await ask(gateway, "r", token) == known
        done = sphragis(gateway, "vault", "rotate")
        assert "anew" in done
        assert await ask(gateway, "r", token) == known
        await ask(gateway, "r", "mail another.probe@leak-canary.org")
        report = json.loads(sphragis(gateway, "vault", "stats", "--json"))
        assert report["originals"] == {"EMAIL": 2}
        assert "canary" not in json.dumps(report)
        assert "Erased 1 entry" in sphragis(
            gateway, "vault", "erase", "--values-from", "-", given=CANARY + "\n"
        )
        assert await ask(gateway, "r", token) == (200, f"You said: {token}")
        assert "Erased 1 entry" in sphragis(gateway, "vault", "erase", "--role", "r")
        with closing(sqlite3.connect(gateway.home / "vault.db")) as database:
            assert database.execute("SELECT count(*) FROM entries").fetchone() == (0,)
        told = sphragis(gateway, "doctor")
        assert str(gateway.home / "keys" / "vault.key") in told
        assert "mode 0600" in told


def sphragis(gateway: Gateway, *arguments: str, given: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "gateway.cli", *arguments],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=gateway._environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
