"""kill -9 in the middle of work: the ledgers stay whole, nothing is lost silently, work goes on."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator

import anthropic
import pytest

from deck.demo import evidence, project
from deck.demo import world as worlds
from deck.demo.canaries import sightings
from deck.demo.world import World


@pytest.fixture
def world() -> Iterator[World]:
    made = worlds.create()
    yield made
    leftovers = made.end()
    assert leftovers == []


def tasks(world: World) -> dict[str, dict]:
    return {t["id"]: t for t in json.loads(world.must("choragos", "board", "--json").out)["tasks"]}


def records(world: World) -> list[dict]:
    found = []
    for segment in sorted((world.gateway_home / "ledger" / "segments").glob("*.jsonl")):
        for line in segment.read_bytes().splitlines():
            document = json.loads(line)
            if "seq" in document:
                found.append(document)
    return found


def verify(world: World, directory) -> None:
    world.must("sphragis", "verify", str(directory))


def test_a_gateway_killed_in_mid_call_loses_no_record_and_work_goes_on(world: World) -> None:
    world.start_gateway()
    long = " ".join(f"word{n}" for n in range(20000))
    started = threading.Event()
    failure: list[Exception] = []

    def call() -> None:
        with anthropic.Anthropic(
            base_url=f"http://{world.addr}/agent/coder", api_key="offline", max_retries=0
        ) as client:
            message = {"role": "user", "content": f"{world.canaries[0].value} {long}"}
            try:
                with client.messages.stream(
                    model=project.MODEL, max_tokens=9, messages=[message]
                ) as stream:
                    for _ in stream.text_stream:
                        started.set()
            except Exception as error:
                failure.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    assert started.wait(30)
    world.stop_gateway(signal.SIGKILL)
    caller.join(30)
    assert failure, "the cut stream was reported as a whole answer"

    world.start_gateway()
    verify(world, world.gateway_home / "ledger")
    found = records(world)
    intents = {r["seq"] for r in found if r["type"] == "request"}
    outcomes = {r["ref"]: r for r in found if r["type"] == "outcome"}
    assert intents
    assert set(outcomes) >= intents
    assert outcomes[max(intents)]["outcome"]["status"] == "unknown"

    with anthropic.Anthropic(
        base_url=f"http://{world.addr}/agent/coder", api_key="offline", max_retries=0
    ) as client:
        answer = client.messages.create(
            model=project.MODEL,
            max_tokens=9,
            messages=[{"role": "user", "content": world.canaries[0].value}],
        )
    assert world.canaries[0].value in answer.content[0].text
    sent = [r.document()["messages"][-1]["content"] for r in evidence.read_received(world.record)]
    assert sent[0].split()[0] == sent[-1], "the same value is the same token after the crash"
    assert sightings(world.record.read_bytes(), world.canaries) == []


def test_a_team_whose_gateway_is_killed_is_refused_work_and_then_goes_on(world: World) -> None:
    world.start_gateway()
    world.start_deck()
    world.wait(lambda: evidence.read_calls(world.trace, "coder"), "the coder at work", 60)
    world.stop_gateway(signal.SIGKILL)
    refused = world.run("choragos", "delegate", "--to", "reviewer", "--task", "hello")
    assert refused.code == 1
    assert "gateway" in refused.said
    world.start_gateway()
    taken = world.wait(
        lambda: (
            ran
            if (
                ran := world.run(
                    "choragos",
                    "delegate",
                    "--to",
                    "reviewer",
                    "--brief",
                    project.BRIEF_REVIEW,
                    "--task",
                    "Review",
                )
            ).code
            == 0
            else None
        ),
        "a delegation to be taken",
        20,
    )
    assert "reviewer" in taken.said
    world.wait(lambda: world.has_event("msg=work-done", "from=reviewer"), "the review", 60)
    verify(world, world.gateway_home / "ledger")
    assert sightings(world.record.read_bytes(), world.canaries) == []


def test_a_killed_deck_leaves_no_agent_and_a_restart_shows_the_same_board(world: World) -> None:
    world.start_gateway()
    world.start_deck()
    world.wait(lambda: world.has_event("msg=work-done", "id=T1 "), "T1 reported", 60)
    board = json.loads(world.must("choragos", "board", "--json").out)
    before = {task["id"]: task for task in board["tasks"]}
    assert before["T1"]["state"] == "reported"
    os.kill(board["pid"], signal.SIGKILL)
    world.wait(
        lambda: not [c for c in world.living().values() if "deck.demo.agent" in c],
        "the agents of a killed deck to end",
        20,
    )
    down = world.run("choragos", "board", "--json")
    assert down.code == 1
    assert "Traceback" not in down.said

    world.start_deck()
    after = tasks(world)
    assert set(before) <= set(after)
    assert after["T1"]["state"] == "reported"
    assert all(
        row["state"] in {"reported", "lost", "queued"} or row["id"] not in before
        for row in after.values()
    )
    verify(world, world.repo / ".choragos" / "ledger")
