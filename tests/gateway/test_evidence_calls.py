"""Evidence through a real gateway: kept sealed, shown to an operator, erased, and nothing left."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import io
import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from aiohttp import web
from gateway_harness import (
    Gateway,
    Provider,
    Seen,
    answer_by_rule,
    begin_stream,
    encodings,
    running,
)

from gateway.cli import run
from gateway.offline import message_events, plan_answer
from shared.evidence.keys import KeyStore
from shared.evidence.sealing import DataKey
from shared.keyfile import KeySource
from shared.ledger import Status, verify_path

SECRET = "jane.roe@corp.example"
MARK = "quicksilver pangolin"

POLICY = """
id = "test"
version = "1"
opaque = "pass"
[kinds]
EMAIL = {{ action = "token", restore = true }}
[evidence]
{evidence}
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    provider = Provider()
    provider.start()
    yield provider
    provider.stop()


def policy_file(folder: Path, evidence: str) -> str:
    path = folder / "policy.toml"
    path.write_text(POLICY.format(evidence=evidence))
    return str(path)


def call(gateway: Gateway, text: str, *, stream: bool = False, path: str = "/agent/ops") -> int:
    body = {
        "model": "claude-test",
        "max_tokens": 50,
        "stream": stream,
        "messages": [{"role": "user", "content": text}],
    }
    request = urllib.request.Request(
        f"{gateway.url}{path}/v1/messages",
        json.dumps(body).encode(),
        {"content-type": "application/json", "x-api-key": "k", "x-claude-code-session-id": "s1"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as refused:
        refused.read()
        return refused.code


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: bytes
    stderr: bytes


def sphragis(gateway: Gateway, *arguments: str) -> Done:
    """Run one command line as the operator of this gateway."""
    streams = [io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2)]
    with (
        mock.patch.dict(os.environ, gateway._environment, clear=True),
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
    ):
        code = run(arguments)
    out, err = (stream.buffer.getvalue() for stream in streams)  # type: ignore[attr-defined]
    return Done(code, out, err)


def said(done: Done) -> Any:
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def secrets_of(home: Path) -> list[tuple[DataKey, bytes]]:
    """Every data key with its salt, as only this test takes them out, and its wrapped form."""
    import sqlite3

    keys = KeyStore(home / "keys" / "dek.db", KeySource(home / "keys" / "evidence.key"))
    keys.open()
    db = sqlite3.connect(home / "keys" / "dek.db")
    wrapped = dict(db.execute("SELECT keyid, wrapped FROM deks").fetchall())
    db.close()
    found = []
    for item in keys.all():
        key = keys.key(item.keyid)
        assert key is not None
        found.append((key, wrapped[item.keyid]))
    keys.close()
    return found


def volume(home: Path) -> bytes:
    return b"\n".join(p.read_bytes() for p in sorted(home.rglob("*")) if p.is_file())


def forms(secret: bytes) -> list[bytes]:
    return [secret, secret.hex().encode(), base64.b64encode(secret)]


def evidence_of(gateway: Gateway, kind: str) -> list[dict[str, Any]]:
    return [r for r in gateway.records() if r["type"] == kind and "evidence" in r]


def test_without_the_policys_word_nothing_is_kept(provider: Provider, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with running(home, provider.url) as gateway:
        assert call(gateway, MARK) == 200
        request = next(r for r in gateway.records() if r["type"] == "request")
        gateway.outcome_of(request["seq"])
    assert "evidence" not in request
    assert not (home / "ledger" / "evidence").exists()
    assert not (home / "keys" / "dek.db").exists()
    assert not (home / "keys" / "evidence.key").exists()
    assert MARK.encode() not in volume(home)


def test_kept_shown_and_erased_beside_a_running_gateway(provider: Provider, tmp_path: Path) -> None:
    home = tmp_path / "home"
    policy = policy_file(tmp_path, 'keep = "both"')
    with running(home, provider.url, policy_file=policy) as gateway:
        assert call(gateway, f"{MARK} {SECRET}") == 200
        assert call(gateway, f"{MARK} again", stream=True) == 200
        assert call(gateway, "somebody else", path="/agent/other") == 200
        requests = evidence_of(gateway, "request")
        assert len(requests) == 3
        outcome = gateway.outcome_of(requests[0]["seq"])
        streamed = gateway.outcome_of(requests[1]["seq"])
        gateway.outcome_of(requests[2]["seq"])
        entry = requests[0]["evidence"][0]
        assert set(entry) == {"c", "mac", "bytes", "keyid", "media", "redactions"}
        assert entry["redactions"] == 1
        assert streamed["evidence"][0]["media"] == "text/event-stream"
        assert outcome["evidence"][0]["keyid"] == entry["keyid"]

        shown = sphragis(gateway, "evidence", "show", "--seq", str(requests[0]["seq"]), "--json")
        item = said(shown)
        kept = base64.b64decode(item["data"])
        assert kept == provider.seen[-3].body, "what was forwarded is what was kept"
        assert MARK.encode() in kept
        assert SECRET.encode() not in kept
        came_back = said(
            sphragis(gateway, "evidence", "show", "--seq", str(outcome["seq"]), "--json")
        )
        as_received = base64.b64decode(came_back["data"])
        assert b"[EMAIL_" in as_received
        assert SECRET.encode() not in as_received
        export = [r for r in gateway.records() if r["type"] == "export"][-1]
        assert export["ext"]["records"] == [outcome["seq"]]
        assert export["action"]["kind"] == "evidence_show"

        before = secrets_of(home)
        assert len(before) == 2
        answer = said(
            sphragis(
                gateway,
                "erase",
                "--subject",
                "ops",
                "--basis",
                "asked",
                "--request",
                "R1",
                "--json",
            )
        )
        assert (answer["keys"], answer["files"], answer["other"]) == (1, 4, 1)
        gone = sphragis(gateway, "evidence", "show", "--seq", str(requests[0]["seq"]), "--json")
        assert said(gone)["state"] == f"erased by {answer['seqs'][0]}"
        told = sphragis(gateway, "log", "show", str(requests[0]["seq"])).stdout
        assert f"erased by record {answer['seqs'][0]}." in " ".join(told.decode().split())
        left = said(
            sphragis(gateway, "evidence", "show", "--seq", str(requests[2]["seq"]), "--json")
        )
        assert b"somebody else" in base64.b64decode(left["data"])
        assert call(gateway, "after") == 200
        again = said(
            sphragis(
                gateway,
                "erase",
                "--subject",
                "ops",
                "--basis",
                "asked",
                "--request",
                "R1",
                "--json",
            )
        )
        assert again["already"]
        assert again["seqs"] == answer["seqs"]
        check = sphragis(gateway, "evidence", "check")
        assert check.returncode == 0, check.stderr
        erase = next(r for r in gateway.records() if r["seq"] == answer["seqs"][0])
        assert erase["ext"]["keys"] == [entry["keyid"]]
        assert erase["ext"]["kek"]["old"] != erase["ext"]["kek"]["new"]
        assert set(erase["ext"]["records"]) == {
            requests[0]["seq"],
            requests[1]["seq"],
            outcome["seq"],
            streamed["seq"],
        }
    (old, wrapped_old), (other, _) = sorted(before, key=lambda x: x[0].keyid != entry["keyid"])
    everything = volume(home)
    for secret in (old.key, old.salt, wrapped_old, MARK.encode(), SECRET.encode()):
        for form in forms(secret):
            assert form not in everything
    for form in encodings(MARK):
        assert form not in everything
    assert other.keyid in {key.keyid for key, _ in secrets_of(home)}
    assert not list((home / "keys").glob("dek.db-*"))
    assert sorted(p.name for p in (home / "keys").glob("evidence.key*")) == ["evidence.key"]
    verdict = verify_path(home / "ledger")
    assert verdict.status is Status.OK, verdict.findings


def test_a_payload_that_cannot_be_kept_stops_the_call(provider: Provider, tmp_path: Path) -> None:
    home = tmp_path / "home"
    policy = policy_file(tmp_path, 'keep = "request"')
    with running(home, provider.url, policy_file=policy) as gateway:
        (home / "ledger" / "evidence").write_text("in the way")
        seen = len(provider.seen)
        assert call(gateway, MARK) == 503
        assert len(provider.seen) == seen
        (home / "ledger" / "evidence").unlink()
        assert call(gateway, MARK) == 200
        denied = [r for r in gateway.records() if r["type"] == "deny"]
        assert denied[-1]["policy"]["rules"] == ["evidence_unavailable"]


def test_what_is_too_large_or_of_another_kind_is_named_and_not_kept(
    provider: Provider, tmp_path: Path
) -> None:
    policy = policy_file(
        tmp_path, 'keep = "both"\nmax_bytes = 400\nmedia = ["application/json"]\nrequired = false'
    )
    with running(tmp_path / "home", provider.url, policy_file=policy) as gateway:
        assert call(gateway, "short", stream=True) == 200
        assert call(gateway, "long " * 200) == 200
        first, second = [r for r in gateway.records() if r["type"] == "request"]
        assert "evidence" in first
        assert second["ext"]["evidence_left_out"] == "size"
        outcome = gateway.outcome_of(first["seq"])
        assert "evidence" not in outcome
        assert outcome["ext"]["evidence_left_out"] in {"media", "size"}


def test_an_operator_works_on_the_closed_ledger_and_holds_come_first(
    provider: Provider, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    policy = policy_file(
        tmp_path,
        'keep = "request"\nsubject = "header:x-user"\nretention = { class = "ai-act", days = 200 }',
    )
    gateway = Gateway(home, provider.url, policy_file=policy)
    gateway.start()
    try:
        assert call(gateway, MARK) == 200
    finally:
        gateway.stop()
    request = next(r for r in gateway.records() if r["type"] == "request")
    assert request["retention"]["class"] == "ai-act"
    assert request["retention"]["until"] > request["ts"] + 199 * 86_400_000_000
    erase = ("erase", "--subject", "ops", "--basis", "asked", "--request", "R2")
    refused = sphragis(gateway, *erase)
    assert refused.returncode == 1
    assert b'the retention class "ai-act" forbids it until' in refused.stderr
    assert f"record {request['seq']}".encode() in refused.stderr
    denied = [r for r in gateway.records() if r["type"] == "deny"][-1]
    assert denied["action"]["kind"] == "erase"
    place = ("hold", "place", "case-7", "--reason", "a claim", "--all")
    assert sphragis(gateway, *place).returncode == 0
    refused = sphragis(gateway, *erase)
    assert b'the hold "case-7" forbids it until it is released' in refused.stderr
    assert said(sphragis(gateway, "hold", "list", "--json"))[0]["id"] == "case-7"
    assert b"case-7" in sphragis(gateway, *erase, "--dry-run").stdout
    assert sphragis(gateway, "hold", "release", "case-7", "--reason", "over").returncode == 0
    assert said(sphragis(gateway, "hold", "list", "--json")) == []
    shown = sphragis(gateway, "evidence", "show", "--seq", str(request["seq"]))
    assert MARK.encode() in shown.stdout
    stats = said(sphragis(gateway, "evidence", "stats", "--json"))
    assert stats["keys"] == {"ai-act": 1}
    assert verify_path(home / "ledger").status is Status.OK


def test_a_changed_or_lost_file_is_found(provider: Provider, tmp_path: Path) -> None:
    home = tmp_path / "home"
    policy = policy_file(tmp_path, 'keep = "request"\nsubject = "session"')
    with running(home, provider.url, policy_file=policy) as gateway:
        assert call(gateway, MARK) == 200
        assert call(gateway, "second") == 200
    first, second = sorted((home / "ledger" / "evidence").rglob("*.bin"))
    assert sphragis(gateway, "evidence", "check").returncode == 0
    second.unlink()
    missing = sphragis(gateway, "evidence", "check")
    assert missing.returncode == 2
    assert b"is missing" in missing.stderr
    os.chmod(first, 0o600)
    first.write_bytes(first.read_bytes()[:-1] + b"\0")
    changed = sphragis(gateway, "evidence", "check", "--json")
    assert changed.returncode == 1
    assert json.loads(changed.stdout)["states"] == {"missing": 1, "changed": 1}
    assert sphragis(gateway, "evidence", "show", "--seq", "0").returncode == 3


def test_no_record_ever_names_what_is_not_there(provider: Provider, tmp_path: Path) -> None:
    """kill -9 under load: the payload is durable before the record, so a check finds all."""
    home = tmp_path / "home"
    policy = policy_file(tmp_path, 'keep = "both"')
    gateway = Gateway(home, provider.url, policy_file=policy)
    for number in range(2):
        gateway.start()
        ended = threading.Event()

        def work(ended: threading.Event = ended) -> None:
            while not ended.is_set():
                with contextlib.suppress(OSError, http.client.HTTPException):
                    call(gateway, MARK, stream=True)

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        time.sleep(0.7 + 0.3 * number)
        gateway.kill()
        ended.set()
        for worker in workers:
            worker.join()
    assert len(evidence_of(gateway, "request")) > 10
    assert sphragis(gateway, "evidence", "check").returncode == 0
    with running(home, provider.url, policy_file=policy) as again:
        assert call(again, MARK) == 200
        request = evidence_of(again, "request")[-1]
        again.outcome_of(request["seq"])
        states = said(sphragis(again, "evidence", "check", "--json"))["states"]
        assert set(states) == {"ok"}


def test_an_answer_that_is_broken_off_is_kept_as_far_as_it_came(
    provider: Provider, tmp_path: Path
) -> None:
    async def endless(request: web.Request, seen: Seen) -> web.StreamResponse:
        response = await begin_stream(request)
        for event in message_events(plan_answer(seen.document), "msg_1"):
            await response.write(event)
            await asyncio.sleep(0.05)
        await asyncio.sleep(60)
        return response

    home = tmp_path / "home"
    policy = policy_file(tmp_path, 'keep = "both"')
    with running(home, provider.url, policy_file=policy) as gateway:
        provider.script = endless
        try:
            caller = threading.Thread(target=_quietly, args=(gateway, "count to ten"))
            caller.start()
            time.sleep(1.0)
            gateway.stop()
            caller.join()
        finally:
            provider.script = answer_by_rule
        request = evidence_of(gateway, "request")[0]
        outcome = gateway.outcome_of(request["seq"])
    assert outcome["outcome"]["status"] in {"stopped", "client_abort", "cut"}
    assert outcome["evidence"][0]["bytes"] == outcome["ext"]["bytes"] > 0
    stop = next(r for r in gateway.records() if r["type"] == "stop")
    assert stop["seq"] > outcome["seq"]
    assert sphragis(gateway, "evidence", "check").returncode == 0


def _quietly(gateway: Gateway, text: str) -> None:
    with contextlib.suppress(OSError, http.client.HTTPException):
        call(gateway, text, stream=True)


def test_the_vaults_verbs_leave_a_record_too(provider: Provider, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with running(home, provider.url) as gateway:
        assert call(gateway, f"mail {SECRET}") == 200
        assert sphragis(gateway, "vault", "rotate").returncode == 0
        assert sphragis(gateway, "vault", "erase", "--role", "ops").returncode == 0
        rotated = next(
            r for r in gateway.records() if r.get("ext", {}).get("change") == "vault_key"
        )
        assert rotated["type"] == "config_set"
    assert sphragis(gateway, "vault", "erase", "--role", "ops").returncode == 0
    erased = [r for r in gateway.records() if r["type"] == "erase"]
    assert [r["ext"]["count"] for r in erased] == [1, 0]
    assert all(r["ext"]["what"] == "role" for r in erased)
    assert verify_path(home / "ledger").status is Status.OK
