"""Every agent program on every API it speaks, through a real gateway: one table of proofs.

Each client does real work (writes, edits, reads and runs), in more than one turn, is refused and
meets a provider's error. The provider is scripted and sees only what the gateway forwarded; what
differs from client to client is in agents.py. CLIENTS=all adds those that are not in every run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from agents import AGENTS, ALL, Agent, Call
from aiohttp import web
from every_provider import answer_every_api
from gateway_harness import Gateway, Provider, Seen, begin_stream, leaks, running
from gemini_provider import SIGNATURE
from installs import install_client
from responses_provider import SEAL

from deck.demo.canaries import demo_canaries

ROOT = Path(__file__).resolve().parents[2]
CANARIES = demo_canaries()
VALUE = {c.name: c.value for c in CANARIES}
PERSONAL = [c.value for c in CANARIES if not c.secret]
SECRET = [c.value for c in CANARIES if c.secret]
EVERY = [c.value for c in CANARIES]
EMAIL, PHONE, CARD, IBAN = (VALUE[name] for name in ("e-mail", "phone", "card", "IBAN"))
OTHER = "ines.marchetti@orchard-lane.example.net"
ENV = (
    f"DATABASE_PASSWORD={VALUE['database password']}\n"
    f"PAYMENTS_API_KEY={VALUE['API key']}\nOWNER={EMAIL}\n"
)
#: Code in which a value stands between quotes, in a comment, in a path, beside escapes.
CODE = f"""\
contact = {{"email": "{EMAIL}", 'phone': '{PHONE}'}}
card = "{CARD}"  # paid from {IBAN}
path = "C:\\\\Users\\\\new\\\\table.txt"
raw = r"C:\\Users\\{EMAIL}\\notes.txt"
say = 'He said "hi"\\n\\tto {EMAIL}.'
"""
OLD, NEW = f'card = "{CARD}"  # paid from {IBAN}', f"card = None  # ask {OTHER}"
TEXT = {"type", "text"}
#: The beginning of a streamed answer in each API.
BEGUN = {
    "chat": b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"Half an"},"finish_reason":null}]}\n\n',
    "anthropic": b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_cut",'
    b'"type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,'
    b'"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
    b'"content_block":{"type":"text","text":""}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
    b'"delta":{"type":"text_delta","text":"Half an"}}\n\n',
    "responses": b'event: response.created\ndata: {"type":"response.created","sequence_number":0,'
    b'"response":{"id":"resp_cut","object":"response","created_at":1,"status":"in_progress",'
    b'"model":"m","output":[]}}\n\n',
    "gemini": b'data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Half an"}]}}],'
    b'"modelVersion":"m"}\r\n\r\n',
}
SEALS = {"responses": SEAL, "gemini": SIGNATURE}
TURNS = {"chat": "messages", "anthropic": "messages", "responses": "input", "gemini": "contents"}

pytestmark = pytest.mark.client


@pytest.fixture(scope="module")
def shared_provider() -> Iterator[Provider]:
    started = Provider(answer_every_api)
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="module")
def gateway(
    shared_provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    url = shared_provider.url
    home = tmp_path_factory.mktemp("matrix") / "home"
    with running(home, url, openai_base_url=url, google_base_url=url) as started:
        yield started


@pytest.fixture(scope="module")
def strict(
    shared_provider: Provider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """A gateway that refuses what holds a telephone number."""
    base = (ROOT / "policies" / "base.toml").read_text()
    policy = tmp_path_factory.mktemp("strict") / "strict.toml"
    policy.write_text(
        base.replace('PHONE = { action = "token"', 'PHONE = { action = "refuse"')
    )  # fmt: skip
    assert policy.read_text() != base
    url = shared_provider.url
    home = policy.parent / "home"
    with running(
        home, url, openai_base_url=url, google_base_url=url, policy_file=str(policy)
    ) as started:
        yield started


@pytest.fixture
def provider(shared_provider: Provider) -> Iterator[Provider]:
    """The provider; whatever it received in a test held no canary."""
    shared_provider.seen.clear()
    yield shared_provider
    shared_provider.script = answer_every_api
    assert leaks([*EVERY, OTHER], shared_provider.seen) == []


@pytest.fixture(
    params=[
        pytest.param(
            agent,
            id=agent.name,
            marks=pytest.mark.skipif(
                agent.optional and not ALL, reason="only with CLIENTS=all (make clients)"
            ),
        )
        for agent in AGENTS.values()
    ]
)
def agent(request: pytest.FixtureRequest) -> Agent:
    found: Agent = request.param
    return found


@pytest.fixture
def program(agent: Agent) -> Path:
    return install_client(agent.client)


def prompt_of(*calls: Call) -> str:
    lines = [f"@tool {name} {json.dumps(args, ensure_ascii=False)}" for name, args in calls]
    return "\n".join(["Do this.", *lines])


def url_of(gateway: Gateway, agent: Agent) -> str:
    return f"{gateway.url}/agent/{agent.name.replace(' ', '-')}"


def main_calls(agent: Agent, provider: Provider) -> list[dict[str, Any]]:
    """The documents of the calls of the conversation itself: those that bring tools."""
    documents = [seen.document for seen in provider.seen if seen.method == "POST"]
    return [document for document in documents if document.get("tools")]


def turns_of(agent: Agent, document: dict[str, Any]) -> list[str]:
    """The items of a conversation as they were forwarded, less what the client itself changes."""

    def stable(value: Any) -> Any:
        if isinstance(value, list):
            # Claude Code sends a text alone as a block while it marks it for the cache.
            kept = [stable(item) for item in value]
            alone = len(kept) == 1 and isinstance(kept[0], dict) and kept[0].keys() == TEXT
            return kept[0]["text"] if alone else kept
        if not isinstance(value, dict):
            return value
        return {key: stable(v) for key, v in value.items() if key not in agent.volatile}

    return [json.dumps(stable(item)) for item in document[TURNS[agent.api]]]


def assert_grows(agent: Agent, documents: list[dict[str, Any]]) -> None:
    """Each request begins with the bytes of the one before."""
    for before, after in pairwise(documents):
        first, second = turns_of(agent, before), turns_of(agent, after)
        assert second[: len(first)] == first
        assert len(second) > len(first)


def test_it_writes_edits_and_runs_with_the_originals_and_the_provider_sees_none(
    agent: Agent, program: Path, client_home: Path, gateway: Gateway, provider: Provider
) -> None:
    url, work = url_of(gateway, agent), client_home / "work"
    file = work / "contact.py"
    done = agent.ask(
        program,
        client_home,
        url,
        prompt_of(
            agent.tools.write(str(file), CODE),
            agent.tools.read(str(file)),
            agent.tools.edit(str(file), OLD, NEW),
            agent.tools.shell(f"cp {file} copy.py; printf '%s;%s' '{EMAIL}' '{PHONE}' > sh.txt"),
            agent.tools.read(str(file)),
        ),
    )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    expected = CODE.replace(OLD, NEW)
    assert file.read_text() == expected
    assert (work / "copy.py").read_text() == expected
    assert (work / "sh.txt").read_text() == f"{EMAIL};{PHONE}"
    for value in (EMAIL, PHONE, OTHER):
        assert value in done.stdout, "the last answer, which repeats the file, is not restored"
    assert len(main_calls(agent, provider)) == 6 + agent.by_file
    again = agent.ask(program, client_home, url, f"And call {PHONE} for {OTHER}.", on=True)
    assert again.returncode == 0, again.stdout + again.stderr
    assert f"And call {PHONE} for {OTHER}." in again.stdout
    calls = main_calls(agent, provider)
    assert len(calls) == 7 + 2 * agent.by_file
    assert_grows(agent, calls[:-1] if agent.retells else calls)
    seal = SEALS.get(agent.api, "")
    assert seal in json.dumps(calls[-2]), "what a provider has sealed comes back as it was"
    if agent.api != "gemini":
        assert all(call["stream"] is True for call in calls)


def test_a_secret_in_a_file_it_reads_never_comes_back_into_a_command(
    agent: Agent, program: Path, client_home: Path, gateway: Gateway, provider: Provider
) -> None:
    work = client_home / "work"
    (work / "settings.cfg").write_text(ENV)
    done = agent.ask(
        program,
        client_home,
        url_of(gateway, agent),
        prompt_of(
            agent.tools.read(str(work / "settings.cfg")),
            agent.tools.shell("printf '%s %s' '@@SECRET@@' '@@EMAIL@@' > known.txt"),
            agent.tools.write(str(work / "copy.cfg"), "PASSWORD=@@SECRET@@\nOWNER=@@EMAIL@@\n"),
        ),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    known, copy = (work / "known.txt").read_text(), (work / "copy.cfg").read_text()
    assert known.startswith("[SECRET_")
    assert known.endswith(f"] {EMAIL}")
    assert copy.startswith("PASSWORD=[SECRET_")
    assert copy.endswith(f"]\nOWNER={EMAIL}\n")
    assert len(main_calls(agent, provider)) == 4 + agent.by_file


def test_a_refusal_is_shown_and_nothing_leaves(
    agent: Agent, program: Path, client_home: Path, strict: Gateway, provider: Provider
) -> None:
    before = len(strict.records())
    done = agent.ask(program, client_home, url_of(strict, agent), f"Call {PHONE}.")
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert "PHONE" in said, said
    assert [seen.target for seen in provider.seen if seen.method == "POST"] == []
    denied = [r for r in strict.records()[before:] if r["type"] == "deny"]
    assert len(denied) == agent.refusals or (agent.side and 1 < len(denied) <= 3), len(denied)


def test_an_error_of_the_provider_is_shown_with_the_originals(
    agent: Agent, program: Path, client_home: Path, gateway: Gateway, provider: Provider
) -> None:
    async def fail(request: web.Request, seen: Seen) -> web.StreamResponse:
        token = seen.body.decode().partition("[PHONE_")[2].partition("]")[0]
        message = f"no luck with [PHONE_{token}]"
        error: dict[str, Any] = {"message": message, "type": "invalid_request_error"}
        if agent.api == "gemini":
            error = {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}
        document = {"type": "error", "error": error} if agent.api == "anthropic" else {
            "error": error
        }  # fmt: skip
        return web.json_response(document, status=400)

    provider.script = fail
    done = agent.ask(program, client_home, url_of(gateway, agent), f"Call {PHONE}.")
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert f"no luck with {PHONE}" in said, said
    posted = [seen for seen in provider.seen if seen.method == "POST"]
    assert len(posted) == agent.failures or (agent.side and 1 < len(posted) <= 3), len(posted)


def test_a_stream_that_breaks_off_is_not_taken_for_an_answer(
    agent: Agent, program: Path, client_home: Path, gateway: Gateway, provider: Provider
) -> None:
    """The client sees the break: it asks again or it says so; the ledger says so in any case."""
    broken: list[Seen] = []

    async def break_once(request: web.Request, seen: Seen) -> web.StreamResponse:
        if broken or b'"tools"' not in seen.body:
            return await answer_every_api(request, seen)
        broken.append(seen)
        response = await begin_stream(request)
        await response.write(BEGUN[agent.api])
        assert request.transport is not None
        request.transport.close()
        return response

    provider.script = break_once
    before = len(gateway.records())
    done = agent.ask(program, client_home, url_of(gateway, agent), f"Call {PHONE}.")
    said = done.stdout + done.stderr
    assert broken
    again = len(main_calls(agent, provider)) > 1
    assert again or done.returncode != 0, said
    assert not again or PHONE in done.stdout, said
    records = gateway.records()[before:]
    outcomes = [record["outcome"]["status"] for record in records if record["type"] == "outcome"]
    assert outcomes.count("cut") == 1, outcomes
