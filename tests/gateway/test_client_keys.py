"""Keys of the gateway's own: who may spend a provider's key that the gateway holds.

This process plays the deck that makes a key for each role.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_harness import Gateway, Provider, Seen, running

from gateway.client_keys import ClientKeysUnusable, admits, digest, presented, read_keys
from gateway.control_client import ask
from gateway.peers import Process
from gateway.stamps import Change, StampRefused, Stamps

PROVIDER_KEY = "sk-ant-held-0123456789abcdef"
ROLE_KEY, SHARED_KEY = "choragos-0123456789abcdef", "office-0123456789abcdef"
DECK, OTHER = Process(10, "b/1"), Process(20, "b/2")


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider()
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def gateway(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("keys")
    keys = folder / "client.keys"
    keys.write_text(f"# for the build server\n{SHARED_KEY}\n")
    with running(
        folder / "home",
        provider.url,
        anthropic_api_key=PROVIDER_KEY,
        openai_base_url=provider.url,
        require_client_key="true",
        client_keys_file=str(keys),
    ) as gateway:
        body = {"session": "run-1", "role": "coder", "task": "", "key": digest(ROLE_KEY)}
        assert ask(gateway.home, "/v1/stamp", body)["managed"] == ["anthropic"]
        yield gateway


def lowered(seen: Seen) -> list[tuple[bytes, bytes]]:
    return [(name.lower(), value) for name, value in seen.headers]


def call(gateway: Gateway, role: str, path: str = "/v1/messages", **headers: str) -> int:
    document: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    request = urllib.request.Request(
        f"{gateway.url}/agent/{role}{path}",
        json.dumps({**document, "max_tokens": 1}).encode(),
        {"content-type": "application/json", **headers},
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        assert refused.headers["x-should-retry"] == "false"  # noqa: PT017 - part of the answer
        assert b"client_keys_file" in refused.read()  # noqa: PT017
        return refused.code


@pytest.mark.parametrize("header", ["x-api-key", "authorization"])
def test_the_key_of_a_role_is_spent_by_that_role_and_the_provider_sees_its_own(
    gateway: Gateway, provider: Provider, header: str
) -> None:
    value = f"Bearer {ROLE_KEY}" if header == "authorization" else ROLE_KEY
    assert call(gateway, "coder", **{header: value}) == 200
    seen = provider.seen[-1]
    assert (b"x-api-key", PROVIDER_KEY.encode()) in lowered(seen)
    assert ROLE_KEY.encode() not in seen.everything


def test_a_key_of_the_file_is_good_for_any_role(gateway: Gateway) -> None:
    assert call(gateway, "anybody", **{"x-api-key": SHARED_KEY}) == 200


@pytest.mark.parametrize(
    ("role", "headers"),
    [
        ("coder", {}),
        ("coder", {"x-api-key": "choragos-of-somebody-else"}),
        ("coder", {"x-api-key": PROVIDER_KEY}),
        ("coder", {"x-api-key": digest(ROLE_KEY)}),
        ("reviewer", {"x-api-key": ROLE_KEY}),
    ],
)
def test_nothing_else_spends_it_and_the_refusal_is_on_record(
    gateway: Gateway, provider: Provider, role: str, headers: dict[str, str]
) -> None:
    before = len(provider.seen)
    assert call(gateway, role, **headers) == 401
    assert len(provider.seen) == before
    assert gateway.records()[-1]["type"] == "deny"
    assert ROLE_KEY not in (gateway.home / "ledger").joinpath("log.json").read_text()


def test_a_provider_whose_key_it_does_not_hold_gets_the_clients_own(
    gateway: Gateway, provider: Provider
) -> None:
    document = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    request = urllib.request.Request(
        f"{gateway.url}/agent/coder/v1/chat/completions",
        json.dumps(document).encode(),
        {"content-type": "application/json", "authorization": "Bearer sk-own-key"},
    )
    with urllib.request.urlopen(request, timeout=20) as answer:
        assert answer.status == 200
    assert (b"authorization", b"Bearer sk-own-key") in lowered(provider.seen[-1])


def test_a_decks_keys_end_with_it_and_survive_a_start_of_the_gateway() -> None:
    dead: set[Process] = set()
    stamps = Stamps(lambda one: one not in dead)
    assert stamps.put(DECK, "r", "coder", "", digest("a")) is Change.NAMED
    assert stamps.put(DECK, "r", "coder", "", digest("b")) is Change.KEY
    assert stamps.put(DECK, "r", "coder", "") is Change.NOTHING
    assert stamps.keys_of("coder") == {digest("b")}
    again = Stamps(lambda one: one not in dead)
    again.load(stamps.dump())
    assert again.keys_of("coder") == {digest("b")}
    stamps.put(OTHER, "other", "coder", "", digest("c"))
    assert stamps.keys_of("coder") == {digest("b"), digest("c")}
    dead.add(DECK)
    stamps.sweep()
    assert stamps.keys_of("coder") == {digest("c")}
    stamps.leave(OTHER, "other", "coder")
    assert not stamps.keys_of("coder")


@pytest.mark.parametrize("key", ["plain", digest("x").upper(), digest("x")[:-1], "g" * 64])
def test_a_key_is_told_by_its_digest_only(key: str) -> None:
    with pytest.raises(StampRefused, match="SHA-256"):
        Stamps().put(DECK, "r", "coder", "", key)


def test_a_bearer_token_is_the_key_it_carries() -> None:
    assert presented("Bearer  abc") == presented("bearer abc") == presented("abc") == "abc"
    assert admits("Bearer abc", {digest("abc")}, ())
    assert not admits("", {digest("abc")}, ())


@pytest.mark.parametrize("text", ["tooshort", "with spaces, and long", "naïve-0123456789abc"])
def test_a_file_of_unfit_keys_is_refused_without_naming_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "keys"
    path.write_text(f"# mine\n\n{SHARED_KEY}\n{text}\n")
    with pytest.raises(ClientKeysUnusable, match="key 2") as refused:
        read_keys(path)
    assert text not in str(refused.value)
    with pytest.raises(ClientKeysUnusable, match="cannot be read"):
        read_keys(tmp_path / "absent")
    assert read_keys(None) == frozenset()
