"""The control socket under hostile bytes and manners: one honest ack or none, never a crash.

A few hundred cases in the suite; SOCKET_FUZZ_CASES=20000 for more, SOCKET_FUZZ_SEED for others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import socket
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

import pytest
from deck_harness import DeckRig, agent_role

from deck.protocol import Command, Verb

CASES = int(os.environ.get("SOCKET_FUZZ_CASES", "600"))
SEED = int(os.environ.get("SOCKET_FUZZ_SEED", "5"))
#: Connections at once.
TOGETHER = 48
#: Resident size afterwards beside that after the first cases; reports and texts come and go.
MEMORY_RATIO = 1.2

#: An operator may end the session; the fuzz must not.
_ENDING = (Verb.SHUTDOWN, Verb.HANDOFF)
VERBS = [verb for verb in Verb if verb not in _ENDING]
FIELDS = [field.name for field in fields(Command) if field.name != "verb"]
ODD: list[object] = [
    None, True, False, 0, 1, -1, 2**63, 2**200, 1.5, -0.0, "", " ", "x", "T1", "G1", "coder",
    "\ud800", "a\0b", "\x1b[2J\r\n", "é" * 300, "x" * 5000, [], ["coder"], [1], [None], [[]],
    ["coder", 5], ["x" * 300], ["coder"] * 1001, {}, {"a": 1}, {"a": {"b": []}}, "../../etc/passwd",
    "/dev/zero", "2026-01-01", "9" * 300,
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """Bytes and manners. `whole`: the bytes hold an object from start to end."""

    kind: str
    data: bytes
    pieces: int = 1
    close_side: bool = True
    leave: bool = False


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeckRig]:
    rig = DeckRig(tmp_path_factory.mktemp("fuzz"))
    rig.team(agent_role("orchestrator"), agent_role("coder"), agent_role("signed", approve=True))
    rig.serve()
    rig.wait_idle("orchestrator", "coder", "signed")
    yield rig
    rig.close()


def test_whatever_arrives_gets_one_honest_ack_or_none(rig: DeckRig) -> None:
    chance = random.Random(SEED)
    pid = rig.pid()
    asyncio.run(storm(rig.paths.socket, [case(chance) for _ in range(TOGETHER * 4)]))
    warm, open_before = resident(pid), settled_descriptors(pid)
    done = 0
    kinds: Counter[str] = Counter()
    while done < CASES:
        cases = [case(chance) for _ in range(min(TOGETHER * 4, CASES - done))]
        kinds.update(asyncio.run(storm(rig.paths.socket, cases)))
        done += len(cases)
    end = resident(pid)
    print(f"\nseed {SEED}: {done} cases, {dict(kinds)}\nwarm {warm} KiB, end {end} KiB")
    assert rig.pid() == pid
    assert rig.status()["journal"]["failure"] is None
    assert settled_descriptors(pid) <= open_before
    assert end <= warm * MEMORY_RATIO
    assert not (rig.state_dir / "logs" / "crash.log").exists()
    assert rig.delegate("coder", "after the storm")["state"] == "queued"


def test_a_wrong_type_in_any_field_is_refused_by_name_or_taken_as_absent(rig: DeckRig) -> None:
    cases = [
        Case(name, json.dumps({"cmd": "gates", name: odd}).encode())
        for name in FIELDS
        for odd in (3, -1, 1.5, True, "x", [1], {"a": 1}, [[]], 2**70)
    ]
    acks = asyncio.run(answers(rig.paths.socket, cases))
    told = {
        (one.kind, reason)
        for one, ack in zip(cases, acks, strict=True)
        if (reason := json.loads(ack).get("reason"))
    }
    # Each field has a type, and its refusal says which field was meant.
    assert {name for name, _ in told} == set(FIELDS)
    assert all(repr(name) in reason for name, reason in told)


def test_those_who_dribble_and_those_who_hang_cost_nobody_else_anything(rig: DeckRig) -> None:
    pid = rig.pid()
    open_before = settled_descriptors(pid)
    slowest = asyncio.run(beside_the_slow(rig.paths.socket))
    # The slow are given up after 5 s; nobody else waited for them.
    assert slowest < 2.5
    assert settled_descriptors(pid) <= open_before


# -- cases ----------------------------------------------------------------------------------------


def case(chance: random.Random) -> Case:
    """One case: mostly small and fast, seldom huge."""
    makers = (noise, mutated, cut, wrong_types, deep, odd_json, huge)
    kind, data = chance.choices(makers, (15, 25, 15, 30, 5, 9, 1))[0](chance)
    leave = chance.random() < 0.08
    return Case(kind, data, chance.choice((1, 1, 1, 2, 5)), chance.random() < 0.9, leave)


def valid(chance: random.Random) -> dict[str, object]:
    """A command as a client sends it."""
    return {
        "cmd": str(chance.choice(VERBS)),
        "to": ["coder"],
        "task": "fuzz",
        "id": chance.choice(("T1", "G1", "")),
        "reason": "why",
        "role_args": ["-x"],
        "signed_at": 5,
        "sig": "AAAA",
        "reads_ack": True,
    }


def noise(chance: random.Random) -> tuple[str, bytes]:
    return "noise", chance.randbytes(chance.randint(1, 300))


def mutated(chance: random.Random) -> tuple[str, bytes]:
    data = bytearray(json.dumps(valid(chance)).encode())
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(len(data))
        if chance.random() < 0.5:
            data[place] = chance.randrange(256)
        elif chance.random() < 0.5:
            del data[place]
        else:
            data[place:place] = data[: chance.randrange(20)]
    return "mutated", bytes(data)


def cut(chance: random.Random) -> tuple[str, bytes]:
    data = json.dumps(valid(chance)).encode()
    return "cut", data[: chance.randrange(1, len(data))]


def wrong_types(chance: random.Random) -> tuple[str, bytes]:
    command = valid(chance)
    for name in chance.sample(FIELDS, chance.randint(1, 4)):
        command[chance.choice((name, name.upper()))] = chance.choice(ODD)
    return "wrong types", json.dumps(command).encode()


def deep(chance: random.Random) -> tuple[str, bytes]:
    opening = chance.choice((b"[", b'{"a":', b'{"to":[', b'{"a":"\\"[', b'[{"'))
    return "deep", b'{"cmd":"ping","x":' + opening * chance.choice((20, 40, 5000))


def odd_json(chance: random.Random) -> tuple[str, bytes]:
    return "odd", chance.choice(
        (
            b'{"cmd":"ping"}{"cmd":"ping"}',
            b'\xef\xbb\xbf{"cmd":"ping"}',
            b'{"cmd":"ping","cmd":5}',
            b'{"CMD":"ping","x":NaN}',
            b'{"cmd":"ping","signed_at":1e999}',
            b'{"cmd":"ping","signed_at":Infinity}',
            b'{"cmd":"ping","x":' + b"9" * 5000 + b"}",
            b'{"cmd":"ping","x":"\xff\xfe\xc0"}',
            b'{"cmd":"ping","x":"\\ud800"}',
            b"  \n\t ",
            b'{"cmd":"ping",}',
            b"{}",
            b"[]",
            b"\0",
        )
    )


def huge(chance: random.Random) -> tuple[str, bytes]:
    size = chance.choice((1 << 16, (1 << 20) - 60, 1 << 20, 3 << 20))
    name = chance.choice(FIELDS)
    return "huge", b'{"cmd":"gates","' + name.encode() + b'":"' + b"x" * size + b'"}'


# -- sending --------------------------------------------------------------------------------------


async def storm(path: Path, cases: list[Case]) -> Counter[str]:
    """Send all of them, many at once, and hold each answer to the rules."""
    kinds: Counter[str] = Counter()
    for one, ack in zip(cases, await answers(path, cases), strict=True):
        kinds[one.kind] += 1
        if one.leave or not one.close_side:
            continue
        assert ack.count(b"\n") == 1, (one, ack)
        assert ack.endswith(b"\n"), (one, ack)
        document = json.loads(ack)
        assert document["status"] in ("ok", "error"), (one, ack)
        if document["status"] == "error":
            assert document["reason"], one
            assert "server.log" not in document["reason"], (one, ack)
    return kinds


async def answers(path: Path, cases: list[Case]) -> list[bytes]:
    gate = asyncio.Semaphore(TOGETHER)

    async def one(case: Case) -> bytes:
        async with gate:
            return await exchange(path, case)

    return await asyncio.gather(*(one(case) for case in cases))


async def connect(path: Path) -> socket.socket:
    """Connect; Linux refuses at once while too many others wait to be seen."""
    line = socket.socket(socket.AF_UNIX)
    line.setblocking(False)
    while True:
        try:
            line.connect(str(path))
            return line
        except BlockingIOError:
            await asyncio.sleep(0.01)


async def exchange(path: Path, case: Case) -> bytes:
    """Send a case in its pieces and return all that comes back, as a careful client does: one that
    cannot send the rest still reads why."""
    loop = asyncio.get_running_loop()
    with await connect(path) as line:
        size = len(case.data) // case.pieces + 1
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for start in range(0, len(case.data), size):
                await loop.sock_sendall(line, case.data[start : start + size])
                await asyncio.sleep(0)
        if case.leave or not case.close_side:
            return b""  # gone before the answer
        with contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_WR)
        answer = b""
        async with asyncio.timeout(30):
            with contextlib.suppress(ConnectionResetError):
                while data := await loop.sock_recv(line, 65536):
                    answer += data
        return answer


async def beside_the_slow(path: Path) -> float:
    """How long the slowest of the honest took, in seconds, beside hundreds of the slow."""
    slow = [await connect(path) for _ in range(300)]
    slowest = 0.0
    async with asyncio.TaskGroup() as group:
        dribble = group.create_task(_dribble(slow[::2]))
        for _ in range(60):
            begun = time.monotonic()
            ack = await exchange(path, Case("ping", b'{"cmd":"ping"}'))
            slowest = max(slowest, time.monotonic() - begun)
            assert json.loads(ack)["status"] == "ok"
        dribble.cancel()
    for line in slow:
        line.close()
    return slowest


async def _dribble(lines: list[socket.socket]) -> None:
    for byte in b'{"cmd":"ping","task":"' + b"x" * 10_000:
        for line in lines:
            with contextlib.suppress(OSError):
                line.send(bytes([byte]))
        await asyncio.sleep(0.05)


def resident(pid: int) -> int:
    """KiB that a process has in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4


def settled_descriptors(pid: int) -> int:
    """How many descriptors a process has once connections have been let go."""
    deadline, last = time.monotonic() + 8, 1 << 30
    while time.monotonic() < deadline:
        now = len(os.listdir(f"/proc/{pid}/fd"))
        if now >= last:
            return now
        last = now
        time.sleep(0.3)
    return last
