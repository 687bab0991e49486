"""Two gateways with homes of their own on one vault, as behind a balancer."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_harness import Gateway, Provider, running

BIN = Path(sys.executable).parent / "sphragis"
VALUE = "maria.lopez@corp.example"
TOKEN = re.compile(rb"\[EMAIL_\w+\]")


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider()
    provider.start()
    yield provider
    provider.stop()


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Settings of what the two share."""
    folder = tmp_path_factory.mktemp("shared")
    return {
        "vault_path": str(folder / "vault.db"),
        "vault_keyfile": str(folder / "keys" / "vault.key"),
        "token_keyfile": str(folder / "keys" / "token.key"),
    }


@pytest.fixture(scope="module")
def pair(
    provider: Provider, places: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Gateway, Gateway]]:
    homes = tmp_path_factory.mktemp("homes")
    with (
        running(homes / "one", provider.url, **places) as one,
        running(homes / "two", provider.url, **places) as two,
    ):
        yield one, two


def ask(gateway: Gateway, role: str, text: str) -> str:
    """The text of the answer, which quotes what the provider received."""
    body = {"model": "m-1", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(
        f"{gateway.url}/agent/{role}/v1/messages",
        json.dumps(body).encode(),
        {"content-type": "application/json", "anthropic-version": "2023-06-01"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return str(json.loads(answer.read())["content"][0]["text"])


def token_of(provider: Provider) -> str:
    """The token in the newest request the provider received."""
    assert VALUE.encode() not in provider.seen[-1].body
    (token,) = TOKEN.findall(provider.seen[-1].body)
    return str(token.decode())


def run(verb: str, text: str, home: Path, places: dict[str, str]) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPHRAGIS_")}
    own = {f"SPHRAGIS_{name.upper()}": value for name, value in places.items()}
    done = subprocess.run(
        [str(BIN), verb, "-", "--role", "coder"],
        input=text.encode(),
        capture_output=True,
        timeout=120,
        check=True,
        env={**clean, "SPHRAGIS_HOME": str(home), **own},
    )
    return done.stdout.decode()


def test_both_make_the_same_token_and_either_restores_it(
    pair: tuple[Gateway, Gateway], provider: Provider
) -> None:
    one, two = pair
    assert VALUE in ask(one, "coder", f"Write to {VALUE}.")
    token = token_of(provider)
    assert VALUE in ask(two, "coder", f"What about {token}?"), "one stored it, two restores it"
    assert VALUE in ask(two, "coder", f"Write to {VALUE}.")
    assert token_of(provider) == token
    assert VALUE in ask(one, "coder", f"And {token}?")
    assert VALUE not in ask(two, "reviewer", f"Tell me {token}."), "another role gets no value"
    for gateway in pair:
        assert not (gateway.home / "keys" / "token.key").exists()


def test_the_verbs_use_the_shared_keys_too(
    pair: tuple[Gateway, Gateway], provider: Provider, places: dict[str, str], tmp_path: Path
) -> None:
    ask(pair[0], "coder", f"Write to {VALUE}.")
    token = token_of(provider)
    assert run("redact", f"Write to {VALUE}.", tmp_path / "home", places) == f"Write to {token}."
    assert run("reveal", f"Write to {token}.", tmp_path / "other", places) == f"Write to {VALUE}."
