"""kill -9 at each step of a change of the vault: the change has its one record after the next
start, or it did not happen."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from gateway_harness import Gateway, Provider

from gateway.app import load_gateway_policy
from gateway.cli import run
from gateway.erasing import finish_interrupted, stores_of
from gateway.redaction.owed import Debt
from gateway.redaction.vault import Vault
from gateway.redaction.vault_store import Store
from gateway.settings import load_settings
from gateway.vault_changes import settle
from shared.keyfile import KeySource
from shared.ledger import Ledger, Status, load_commitment_key, verify_path

ORIGIN = "sphragis/vault-kill"
VERIFIER = Path(__file__).resolve().parents[2] / "shared" / "ledger" / "ledger_verify.py"
TOKENS = {f"[EMAIL_{number:08x}]": f"jane{number}@corp.example" for number in range(20)}
#: Kills of each change, beside those around each commit of the vault.
KILLS = 24
#: Where the steps are counted: the begin and the end of each function in these.
STEPS = (
    "/gateway/vault_cli.py",
    "/gateway/vault_changes.py",
    "/gateway/erasing.py",
    "/gateway/redaction/owed.py",
    "/gateway/redaction/vault_database.py",
    "/gateway/redaction/vault_entries.py",
    "/gateway/redaction/vault_keys.py",
    "/gateway/redaction/vault_seal.py",
    "/gateway/redaction/vault_store.py",
    "/shared/keyfile.py",
    "/shared/evidence/erase.py",
    "/shared/evidence/keys.py",
    "/shared/ledger/log.py",
    "/shared/ledger/scribe.py",
    "/shared/ledger/writer.py",
    "/shared/ledger/storage.py",
)
COMMIT = "/sqlalchemy/engine/default.py"

Work = Callable[[Path], object]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPHRAGIS_VAULT_KEY", raising=False)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a vault of two roles and a ledger."""
    home = tmp_path_factory.mktemp("base")

    async def fill() -> None:
        vault = Vault(home / "vault.db", home / "keys" / "vault.key", environ={})
        vault.open()
        for number, owner in enumerate(("role/a", "role/b")):
            await vault.put(owner, TOKENS, dict.fromkeys(TOKENS, f"{number:032x}"), scope=owner)
        vault.close()

    asyncio.run(fill())
    with Ledger.open(home / "ledger", keys=home / "keys", origin=ORIGIN) as ledger:
        ledger.append("journal", {"ext": {}}).result()
    return home


def command(*arguments: str) -> Work:
    def work(home: Path) -> int:
        os.environ["SPHRAGIS_HOME"] = str(home)
        return run(arguments)

    return work


def expire(home: Path) -> None:
    """What a gateway does where the policy lets values expire."""
    with Ledger.open(home / "ledger", keys=home / "keys", origin=ORIGIN) as ledger:
        later = Store(
            home / "vault.db", KeySource(home / "keys" / "vault.key"), clock=lambda: 1 << 32
        )
        later.open()
        later.expire({}, 60, lambda: Debt(ORIGIN, ledger.size, "expire", "lifetime", "sphragis"))
        later.close()
        settle(ledger, home / "vault.db")


#: Each change, with what its record says.
CHANGES: dict[str, tuple[Work, str, int]] = {
    "role": (command("vault", "erase", "--role", "a"), "erase", 20),
    "token": (command("vault", "erase", "--token", next(iter(TOKENS))), "erase", 2),
    "rotate": (command("vault", "rotate"), "vault_key", 40),
    "expire": (expire, "expire", 40),
    "subject": (
        command("erase", "--subject", "a", "--basis", "asked", "--request", "R"),
        "erase",
        20,
    ),
}


def counting(reached: Callable[[str], None]) -> None:
    """Have `reached` called with each step of this process from now on."""

    def look(frame: FrameType, what: str, _: object) -> None:
        if what not in ("call", "return"):
            return
        code = frame.f_code
        if code.co_filename.endswith(STEPS) or (
            code.co_filename.endswith(COMMIT) and code.co_name == "do_commit"
        ):
            reached(f"{what} {code.co_name}")

    threading.setprofile(look)
    sys.setprofile(look)


def forked(work: Callable[[], object]) -> int:
    """Do it in a child; return how that ended."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            work()
        except BaseException:
            os._exit(70)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def steps_of(work: Work, home: Path, told: Path) -> list[str]:
    found: list[str] = []

    def all_of_it() -> None:
        counting(found.append)
        work(home)
        sys.setprofile(None)
        threading.setprofile(None)
        told.write_text("\n".join(found))

    assert forked(all_of_it) == 0
    return told.read_text().split("\n")


def killed_at(work: Work, home: Path, step: int) -> int:
    count = 0

    def reached(_: str) -> None:
        nonlocal count
        count += 1
        if count == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def until_then() -> None:
        counting(reached)
        work(home)

    return forked(until_then)


def picked(steps: list[str]) -> Iterator[int]:
    """Those around each commit, and some between, first and last."""
    commits = {n for n, name in enumerate(steps, 1) if name.endswith(" do_commit")}
    spread = {1 + (len(steps) - 1) * part // KILLS for part in range(KILLS + 1)}
    yield from sorted(commits | spread)


def content(home: Path) -> set[tuple[Any, ...]]:
    with sqlite3.connect(home / "vault.db") as database:
        rows = set(database.execute("SELECT owner, token, sealed FROM entries"))
    database.close()
    return rows


def started(home: Path) -> list[dict[str, Any]]:
    """What the start of a gateway does; return the records about the vault."""
    os.environ["SPHRAGIS_HOME"] = str(home)
    settings, _ = load_settings()
    stores = stores_of(
        settings, load_gateway_policy(settings), load_commitment_key(settings.keys_dir)
    )
    with Ledger.open(
        settings.ledger_dir, keys=settings.keys_dir, origin=ORIGIN, close_open_requests=True
    ) as ledger:
        told = finish_interrupted(ledger, stores, keeps=True)
        assert not [line for line in told if line.startswith("warning")], told
        stores.close()
        return [r for r in ledger.records() if r.get("action", {}).get("kind") == "vault"]


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_is_killed_at_any_step_is_recorded_once_or_did_not_happen(
    base: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPHRAGIS_HOME", "")
    work, change, count = CHANGES[name]
    before = content(base)
    # Once here, so that the children only fork: what they need is imported by then.
    warm = tmp_path / "warm"
    shutil.copytree(base, warm)
    work(warm)
    whole = tmp_path / "whole"
    shutil.copytree(base, whole)
    steps = steps_of(work, whole, tmp_path / "steps")
    assert "return do_commit" in steps
    [record] = started(whole)
    assert (record["ext"]["change"], record["ext"]["count"]) == (change, count)
    unchanged = recorded = 0
    for step in picked(steps):
        home = tmp_path / f"{step}"
        shutil.copytree(base, home)
        assert killed_at(work, home, step) in (-signal.SIGKILL, 0)
        found = started(home)
        happened = content(home) != before
        assert len(found) == int(happened), (step, steps[step - 1])
        assert all(r["ext"]["count"] == count for r in found)
        assert started(home) == found, "a second start records nothing twice"
        unchanged += not happened
        recorded += happened
        assert verify_path(home / "ledger").status is Status.OK
        shutil.rmtree(home)
    assert unchanged
    assert recorded
    for home in (warm, whole):
        assert verify_path(home / "ledger").status is Status.OK
        alone = subprocess.run(
            [sys.executable, str(VERIFIER), str(home / "ledger")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert alone.returncode in (0, 2), alone.stdout
        assert "key_missing" in alone.stdout or alone.returncode == 0


def test_a_note_for_another_ledger_stays(base: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(base, home)
    store = Store(home / "vault.db", KeySource(home / "keys" / "vault.key"))
    store.open()
    assert store.erase(owner="role/a", debt=Debt("another/log", 0, "erase", "role", "op")) == 20
    store.close()
    with Ledger.open(home / "ledger", keys=home / "keys", origin=ORIGIN) as ledger:
        assert settle(ledger, home / "vault.db") == []
    with Ledger.open(tmp_path / "other", keys=tmp_path / "other-keys", origin="another/log") as it:
        [seq] = settle(it, home / "vault.db")
        assert settle(it, home / "vault.db") == []
        ext = next(r["ext"] for r in it.records() if r["seq"] == seq)
    assert (ext["what"], ext["operator"], ext["count"]) == ("role", "op", 20)


def test_a_change_that_cannot_be_recorded_now_says_so_and_is_recorded_at_the_next_start(
    base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    shutil.copytree(base, home)
    monkeypatch.setenv("SPHRAGIS_HOME", str(home))
    with Ledger.open(home / "ledger", keys=home / "keys", origin=ORIGIN):
        assert run(["vault", "erase", "--role", "a"]) == 1
    said = capsys.readouterr().err
    assert "The vault was changed (20 entries), but the ledger does not say so yet" in said
    [record] = started(home)
    assert (record["type"], record["ext"]["count"]) == ("erase", 20)


@pytest.fixture
def provider() -> Iterator[Provider]:
    provider = Provider()
    provider.start()
    yield provider
    provider.stop()


def call(gateway: Gateway, text: str) -> None:
    body = {
        "model": "claude-test",
        "max_tokens": 50,
        "messages": [{"role": "user", "content": text}],
    }
    request = urllib.request.Request(
        f"{gateway.url}/agent/ops/v1/messages",
        json.dumps(body).encode(),
        {"content-type": "application/json", "x-api-key": "k"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        answer.read()


def test_what_expires_in_a_gateway_is_recorded_whether_it_is_killed_then_or_not(
    provider: Provider, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('id = "short"\nversion = "test.1"\nttl = "1h"\n')
    home = tmp_path / "home"
    gateway = Gateway(home, provider.url, policy_file=str(policy))

    def expired() -> list[int]:
        return [
            r["ext"]["count"]
            for r in gateway.records()
            if r.get("ext", {}).get("change") == "expire"
        ]

    def age() -> None:
        with sqlite3.connect(home / "vault.db") as database:
            database.execute("UPDATE entries SET created = created - 7200")
        database.close()

    gateway.start()
    call(gateway, "mail jane@leak-canary.org and joe@leak-canary.org")
    gateway.kill()
    age()
    gateway.start()
    call(gateway, "hello")
    deadline = time.monotonic() + 20
    while not expired() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert expired() == [2]
    call(gateway, "mail jim@leak-canary.org")
    gateway.kill()
    age()
    gateway.start()
    call(gateway, "hello")  # it expires before this is answered
    gateway.kill()
    assert not [row for row in content(home) if row[0].startswith("role/")]
    gateway.start()
    assert expired() == [2, 1]
    assert gateway.stop() == 0
    assert expired() == [2, 1]
    assert verify_path(home / "ledger").status is Status.OK
