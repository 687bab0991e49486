"""A gateway whose settings differ from the defaults: a managed key, no restoring, a strict policy,
a provider below a path; and one whose provider is not there."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from gateway_harness import Gateway, Provider, Seen, answer_by_rule, leaks, running

CANARY = "mode.probe@leak-canary.org"
STRICT = """
id = "strict"
version = "7"
opaque = "refuse"
[kinds]
EMAIL = { action = "token", restore = true }
CARD = { action = "refuse" }
PHONE = { action = "mask" }
"""


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


@pytest.fixture(scope="module")
def gateway(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("modes")
    (folder / "strict.toml").write_text(STRICT)
    with running(
        folder / "home",
        "http://127.0.0.1:1",
        upstream_base_url=provider.url + "/team/x/",
        upstream_api_key="sk-managed-0123456789",
        auto_reveal="no",
        policy_file=str(folder / "strict.toml"),
        max_calls="2",
    ) as started:
        yield started


async def post(
    gateway: Gateway, content: Any, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, Any], Any]:
    document = {
        "model": "m",
        "max_tokens": 1,
        "messages": [{"role": "user", "content": content}],
    }
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{gateway.url}/agent/coder/v1/messages", json=document, headers=headers
        ) as answer,
    ):
        return answer.status, await answer.json(), answer.headers


async def test_the_managed_key_replaces_whatever_the_client_sent(
    gateway: Gateway, provider: Provider
) -> None:
    status, _, _ = await post(
        gateway, "hi", {"x-api-key": "client-key", "authorization": "Bearer client-token"}
    )
    assert status == 200
    seen = provider.seen[0]
    assert seen.header("x-api-key") == ["sk-managed-0123456789"]
    assert seen.header("authorization") == []
    assert b"client-" not in seen.everything
    assert seen.target == "/team/x/v1/messages"
    assert 'upstream="override"' in gateway.get("/metrics")[1].decode()


async def test_a_web_page_cannot_spend_the_managed_key(
    gateway: Gateway, provider: Provider
) -> None:
    status, document, _ = await post(gateway, "hi", {"host": "rebound.example"})
    assert status == 403
    assert "localhost" in document["error"]["message"]
    assert provider.seen == []


async def test_without_auto_reveal_tokens_stay(gateway: Gateway, provider: Provider) -> None:
    status, document, _ = await post(gateway, f"write to {CANARY}")
    assert status == 200
    text = document["content"][0]["text"]
    assert re.fullmatch(r"You said: write to \[EMAIL_[a-z0-9]+\]", text)
    assert leaks([CANARY], provider.seen) == []


async def test_a_kind_the_policy_refuses_stops_the_call_and_is_not_echoed(
    gateway: Gateway, provider: Provider
) -> None:
    card = "4242 4242 4242 4242"
    status, document, headers = await post(gateway, f"pay with {card}")
    assert status == 403
    assert "CARD" in document["error"]["message"]
    assert card not in json.dumps(document)
    assert headers["x-should-retry"] == "false"
    assert provider.seen == []
    again, _, _ = await post(gateway, f"pay with {card}")
    assert again == 403
    denied = [record for record in gateway.records() if record["type"] == "deny"]
    assert denied[-1]["policy"]["id"] == "strict"
    assert denied[-1]["policy"]["rules"] == ["policy_refused"]


async def test_bytes_nobody_can_read_are_refused_by_policy(
    gateway: Gateway, provider: Provider
) -> None:
    data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(200))).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    status, _, _ = await post(gateway, [{"type": "image", "source": source}])
    assert status == 403
    assert provider.seen == []


async def test_more_calls_than_allowed_are_told_to_come_back(
    gateway: Gateway, provider: Provider
) -> None:
    release = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def wait(request: web.Request, seen: Seen) -> web.StreamResponse:
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(release.wait(), loop))
        return await answer_by_rule(request, seen)

    provider.script = wait
    first = [asyncio.ensure_future(post(gateway, "x")) for _ in range(2)]
    while len(provider.seen) < 2:
        await asyncio.sleep(0.02)
    status, document, headers = await post(gateway, "one too many")
    assert status == 503
    assert document["error"]["type"] == "overloaded_error"
    assert headers["retry-after"] == "1"
    assert "x-should-retry" not in headers
    release.set()
    assert [result[0] for result in await asyncio.gather(*first)] == [200, 200]


def test_the_policy_and_settings_in_force_are_recorded_without_the_key(gateway: Gateway) -> None:
    records = gateway.records()
    policy = next(record for record in records if record["type"] == "policy_set")["policy"]
    assert (policy["id"], policy["version"]) == ("strict", "7")
    assert len(policy["digest"]) == 64
    settings = next(record for record in records if record["type"] == "config_set")["ext"]
    assert "anthropic" in settings["settings"]["managed_keys"]
    everything = b"".join(p.read_bytes() for p in gateway.home.rglob("*") if p.is_file())
    assert b"sk-managed" not in everything
    assert b"sk-managed" not in gateway.log.read_bytes()


async def test_a_provider_that_is_not_there_is_told_as_such(tmp_path: Path) -> None:
    with running(tmp_path / "home", "http://127.0.0.1:1") as gateway:
        status, document, headers = await post(gateway, "hi")
        assert status == 502
        assert "127.0.0.1:1 cannot be reached" in document["error"]["message"]
        seq = int(headers["x-audit-receipt"].split(";")[1])
        outcome = gateway.outcome_of(seq)["outcome"]
        assert (outcome["status"], outcome["cause"]) == ("upstream_error", "connect")
        metrics = gateway.get("/metrics")[1].decode()
        assert "sphragis_upstream_errors_total 1.0" in metrics
