"""The vault on a real disk: durable, sealed, scoped, and clear about what is wrong."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.redaction import vault as vault_module
from gateway.redaction.policy_file import parse_policy
from gateway.redaction.vault import TokenTaken, Vault, VaultError
from gateway.redaction.vault_store import Store
from shared import keyfile
from shared.keyfile import KeyFileError, KeySource, read_or_make_key

TOKEN, OTHER = "[EMAIL_0123abcd]", "[EMAIL_0123abce]"
VALUE = "jane@corp.example"


def vault_in(directory: Path, environ: dict[str, str] | None = None, **more: Any) -> Vault:
    path, key = directory / "vault.db", directory / "vault.key"
    vault = Vault(path, key, environ=environ or {}, **more)
    vault.open()
    return vault


def marks(*tokens: str, of: str = "") -> dict[str, str]:
    """Marks as a tokenizer would make them: one per value."""
    return {t: hashlib.sha256(f"{t}{of}".encode()).hexdigest()[:32] for t in tokens}


async def put(vault: Vault, owner: str, originals: dict[str, str], **more: Any) -> None:
    """Store originals, each with the mark of its value."""
    marked = {t: hashlib.sha256(v.encode()).hexdigest()[:32] for t, v in originals.items()}
    await vault.put(owner, originals, marked, **more)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_what_was_put_is_there_after_opening_again(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    await put(vault, "builder", {TOKEN: VALUE, OTHER: "zweite «Zeile»\n"})
    assert dict(vault.view("builder")) == {TOKEN: VALUE, OTHER: "zweite «Zeile»\n"}
    vault.close()
    again = vault_in(tmp_path)
    assert dict(again.view("builder")) == {}
    assert dict(await again.load("builder")) == {TOKEN: VALUE, OTHER: "zweite «Zeile»\n"}
    assert await again.lookup("builder", [TOKEN, "[EMAIL_zzzzzzzz]"]) == {TOKEN: VALUE}
    again.close()


async def test_a_scope_sees_nothing_of_another(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    await put(vault, "builder", {TOKEN: VALUE})
    assert dict(await vault.load("judge")) == {}
    assert await vault.lookup("judge", [TOKEN]) == {}
    vault.close()


async def test_files_are_private_and_hold_no_value_in_clear(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    await put(vault, "builder", {TOKEN: VALUE})
    files = [p for p in tmp_path.iterdir() if p.is_file()]
    assert {p.name for p in files} >= {"vault.db", "vault.key"}
    for path in files:
        assert mode(path) == 0o600, path.name
        assert VALUE.encode() not in path.read_bytes()
    vault.close()


async def test_a_token_never_changes_its_original(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    await put(vault, "builder", {TOKEN: VALUE})
    with pytest.raises(TokenTaken) as taken:
        await put(vault, "builder", {TOKEN: "someone@else.example", OTHER: "new"})
    assert taken.value.owners == {TOKEN: hashlib.sha256(VALUE.encode()).hexdigest()[:32]}
    assert VALUE not in str(taken.value)
    assert await vault.lookup("builder", [TOKEN, OTHER]) == {TOKEN: VALUE}
    await put(vault, "judge", {TOKEN: "someone@else.example"})
    vault.close()


async def test_two_gateways_share_one_vault(tmp_path: Path) -> None:
    one, two = vault_in(tmp_path), vault_in(tmp_path)
    tokens = {f"[EMAIL_{i:08d}]": f"v{i}" for i in range(40)}
    await asyncio.gather(
        *(put(vault, "r", {t: v}) for t, v in tokens.items() for vault in (one, two))
    )
    assert dict(await one.load("r")) == tokens
    assert dict(await two.load("r")) == tokens
    one.close()
    two.close()


def test_a_put_that_returned_survives_a_kill(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path\n"
        "from gateway.redaction.vault import Vault\n"
        "d = Path(sys.argv[1]); v = Vault(d / 'vault.db', d / 'vault.key', environ={}); v.open()\n"
        "async def main():\n"
        "    i = 0\n"
        "    while True:\n"
        "        t = f'[EMAIL_{i:08d}]'\n"
        "        await v.put('r', {t: f'v{i}'}, {t: '%032x' % i})\n"
        "        print(i, flush=True); i += 1\n"
        "asyncio.run(main())\n"
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    for line in writer.stdout:
        if int(line) >= 20:
            break
    os.kill(writer.pid, signal.SIGKILL)
    last = max(int(line) for line in [line, *writer.stdout.read().split()])
    writer.wait()
    writer.stdout.close()

    async def read() -> dict[str, str]:
        vault = vault_in(tmp_path)
        try:
            return dict(await vault.load("r"))
        finally:
            vault.close()

    stored = asyncio.run(read())
    assert {f"[EMAIL_{i:08d}]" for i in range(last + 1)} <= stored.keys()


def test_the_wrong_key_is_said_in_one_sentence(tmp_path: Path) -> None:
    vault_in(tmp_path).close()
    (tmp_path / "vault.key").write_bytes(base64.b64encode(b"x" * 32))
    with pytest.raises(VaultError, match=r"does not belong to the vault .*\.$"):
        vault_in(tmp_path)


def test_a_missing_key_is_not_replaced_under_an_existing_vault(tmp_path: Path) -> None:
    vault_in(tmp_path).close()
    (tmp_path / "vault.key").unlink()
    with pytest.raises(VaultError, match="is missing"):
        vault_in(tmp_path)
    assert not (tmp_path / "vault.key").exists()


def test_another_kind_of_file_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "vault.db").write_bytes(b"not a database at all, but long enough to be one" * 20)
    with pytest.raises(VaultError, match="not an SQLite file"):
        vault_in(tmp_path)


def test_a_damaged_database_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "vault.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises(VaultError, match="vault"):
        vault_in(tmp_path, {"SPHRAGIS_VAULT_KEY": base64.b64encode(b"k" * 32).decode()})


async def test_an_entry_moved_to_another_scope_does_not_open(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    await put(vault, "builder", {TOKEN: VALUE})
    vault.close()
    with sqlite3.connect(tmp_path / "vault.db") as database:
        database.execute("UPDATE entries SET owner = 'judge'")
    database.close()
    again = vault_in(tmp_path)
    with pytest.raises(VaultError, match="altered"):
        await again.load("judge")
    again.close()


async def test_the_key_of_the_environment_wins(tmp_path: Path) -> None:
    environ = {"SPHRAGIS_VAULT_KEY": base64.b64encode(b"e" * 32).decode()}
    vault = vault_in(tmp_path, environ)
    await put(vault, "r", {TOKEN: VALUE})
    vault.close()
    assert not (tmp_path / "vault.key").exists()
    with pytest.raises(VaultError, match="32 bytes in base64"):
        vault_in(tmp_path, {"SPHRAGIS_VAULT_KEY": "short"})


@pytest.mark.parametrize(
    "content", [b"r" * 32, base64.b64encode(b"r" * 32), base64.b64encode(b"r" * 32) + b"\n"]
)
def test_existing_key_files_are_read_raw_or_in_base64_and_closed_to_others(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "k"
    path.write_bytes(content)
    path.chmod(0o644)
    assert read_or_make_key(path) == b"r" * 32
    assert mode(path) == 0o600


def test_a_new_key_is_random_private_and_kept(tmp_path: Path) -> None:
    first = read_or_make_key(tmp_path / "keys" / "a")
    assert first == read_or_make_key(tmp_path / "keys" / "a")
    assert first != read_or_make_key(tmp_path / "keys" / "b")
    assert mode(tmp_path / "keys" / "a") == 0o600
    assert sorted(p.name for p in (tmp_path / "keys").iterdir()) == ["a", "b"]
    (tmp_path / "bad").write_text("nonsense")
    with pytest.raises(KeyFileError, match="bad"):
        read_or_make_key(tmp_path / "bad")


async def test_a_closed_vault_refuses(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    vault.close()
    vault.close()
    with pytest.raises(VaultError, match="not open"):
        await put(vault, "r", {TOKEN: VALUE})


# -- owners, scopes, time --------------------------------------------------------------------------

EMAILS_FOR_AN_HOUR = parse_policy(
    'id = "p"\nversion = "1"\nttl = "1h"\n[kinds]\n'
    'EMAIL = { action = "token", restore = true }\n'
    'PHONE = { action = "token", restore = true, ttl = "1m" }\n'
    'SECRET = { action = "token", restore = false }\n',
    source="p",
    directory=None,
)
PHONE, SECRET = "[PHONE_0123abcd]", "[SECRET_0123abcd]"


class Clock:
    """Seconds since 1970 that pass when told to."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


async def test_a_token_that_is_not_given_back_is_known_all_the_same(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    await vault.put("builder", {TOKEN: VALUE}, marks(TOKEN, SECRET))
    vault.close()
    again = vault_in(tmp_path)
    view = await again.load("builder")
    assert dict(view) == {TOKEN: VALUE}
    assert view.owns(SECRET)
    assert not view.owns(OTHER)
    assert not (await again.load("judge")).owns(SECRET)
    found = await again.foreign("builder", [TOKEN, SECRET, OTHER], scope="builder", kinds={})
    assert found == {OTHER}
    found = await again.foreign("judge", [TOKEN, SECRET], scope="judge", kinds={})
    assert found == {TOKEN, SECRET}
    again.close()


async def test_one_token_for_all_comes_back_only_to_who_introduced_the_value(
    tmp_path: Path,
) -> None:
    vault = vault_in(tmp_path)
    for owner in ("role/a", "role/b"):
        await vault.put(owner, {TOKEN: VALUE}, marks(TOKEN), scope="deployment")
    assert dict(await vault.load("role/a")) == {TOKEN: VALUE}
    assert dict(await vault.load("role/b")) == {TOKEN: VALUE}
    assert dict(await vault.load("role/c")) == {}
    with pytest.raises(TokenTaken):
        await vault.put("role/c", {TOKEN: "x"}, marks(TOKEN, of="x"), scope="deployment")
    assert vault.contested("deployment") == marks(TOKEN)
    await vault.put("role/c", {TOKEN: "x"}, marks(TOKEN, of="x"), scope="role/c")
    vault.close()


async def test_what_the_policy_no_longer_gives_back_is_not_given_back(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    await put(vault, "r", {TOKEN: VALUE, SECRET: "hunter2"})
    vault.close()
    clock = Clock()
    clock.now = time.time()
    strict = vault_in(tmp_path, policy=EMAILS_FOR_AN_HOUR, clock=clock)
    view = await strict.load("r")
    assert dict(view) == {TOKEN: VALUE}
    assert view.owns(SECRET)
    strict.close()


async def test_a_value_may_be_given_back_later(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    await vault.put("r", {}, marks(TOKEN))
    assert dict(await vault.load("r")) == {}
    await vault.put("r", {TOKEN: VALUE}, marks(TOKEN))
    vault.close()
    again = vault_in(tmp_path)
    assert dict(await again.load("r")) == {TOKEN: VALUE}
    again.close()


async def test_what_has_outlived_its_time_is_not_given_back_and_deleted(tmp_path: Path) -> None:
    clock = Clock()
    vault = vault_in(tmp_path, policy=EMAILS_FOR_AN_HOUR, clock=clock)
    both = {TOKEN: VALUE, PHONE: "+49 30 901820"}
    await put(vault, "r", both)
    view = await vault.load("r")
    assert dict(view) == both
    clock.now += 61
    assert dict(view) == {TOKEN: VALUE}
    assert not view.owns(PHONE)
    clock.now += 700
    await vault.load("r")
    assert rows_in(tmp_path) == {TOKEN}
    await put(vault, "r", both)
    assert dict(await vault.load("r")) == both
    clock.now += 3600
    assert dict(view) == {}
    vault.close()
    again = vault_in(tmp_path, policy=EMAILS_FOR_AN_HOUR, clock=clock)
    assert dict(await again.load("r")) == {}
    assert rows_in(tmp_path) == set()
    again.close()


def rows_in(directory: Path) -> set[str]:
    with contextlib.closing(sqlite3.connect(directory / "vault.db")) as database:
        return {row[0] for row in database.execute("SELECT token FROM entries")}


# -- erasure ---------------------------------------------------------------------------------------


async def test_a_token_a_value_or_an_owner_is_erased(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    for owner in ("role/a", "role/a/session/1", "role/ab", "role/b"):
        await put(vault, owner, {TOKEN: VALUE, OTHER: "other"})
    assert await vault.erase(owner="role/a") == 4
    assert dict(await vault.load("role/a")) == {}
    assert dict(await vault.load("role/ab")) == {TOKEN: VALUE, OTHER: "other"}
    assert await vault.erase(token=TOKEN, owner="role/b") == 1
    assert dict(await vault.load("role/b")) == {OTHER: "other"}
    assert await vault.erase(values=[VALUE, "never seen"]) == 1
    assert dict(await vault.load("role/ab")) == {OTHER: "other"}
    assert await vault.erase(values=["never seen"]) == 0
    await put(vault, "role/ab", {TOKEN: VALUE})
    assert dict(await vault.load("role/ab")) == {TOKEN: VALUE, OTHER: "other"}
    vault.close()


async def test_a_role_is_erased_with_its_sessions_and_no_role_of_other_capitals(
    tmp_path: Path,
) -> None:
    vault = vault_in(tmp_path)
    for owner in ("role/Dev", "role/Dev/session/1", "role/dev", "role/dev/session/1"):
        await put(vault, owner, {TOKEN: VALUE})
    assert await vault.erase(owner="role/Dev") == 2
    assert dict(await vault.load("role/Dev/session/1")) == {}
    assert dict(await vault.load("role/dev/session/1")) == {TOKEN: VALUE}
    vault.close()


async def test_what_one_gateway_erases_the_other_forgets(tmp_path: Path) -> None:
    one, two = vault_in(tmp_path), vault_in(tmp_path)
    await put(one, "r", {TOKEN: VALUE})
    assert dict(await two.load("r")) == {TOKEN: VALUE}
    await one.erase(token=TOKEN)
    assert dict(await two.load("r")) == {}
    one.close()
    two.close()


async def test_erased_bytes_are_gone_from_the_files(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    await put(vault, "r", {f"[EMAIL_{i:08d}]": f"v{i}" for i in range(50)})
    with contextlib.closing(sqlite3.connect(tmp_path / "vault.db")) as database:
        sealed = database.execute("SELECT sealed FROM entries").fetchone()[0]
    assert any(sealed in p.read_bytes() for p in tmp_path.iterdir())
    assert await vault.erase(owner="r") == 50
    assert not any(sealed in p.read_bytes() for p in tmp_path.iterdir())
    vault.close()


# -- change of keys --------------------------------------------------------------------------------


def store_in(directory: Path, given: bytes | None = None) -> Store:
    text = None if given is None else base64.b64encode(given).decode()
    store = Store(directory / "vault.db", KeySource(directory / "vault.key", text))
    store.open()
    return store


async def test_a_new_key_opens_everything_and_the_old_one_nothing(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    await put(vault, "r", {TOKEN: VALUE})
    old = (tmp_path / "vault.key").read_bytes()
    store = store_in(tmp_path)
    assert store.rotate() == 1
    store.close()
    assert (tmp_path / "vault.key").read_bytes() != old
    assert not (tmp_path / "vault.key.next").exists()
    assert mode(tmp_path / "vault.key") == 0o600
    # The gateway that runs meanwhile follows.
    await put(vault, "r", {OTHER: "other"})
    assert await vault.lookup("r", [TOKEN, OTHER]) == {TOKEN: VALUE, OTHER: "other"}
    vault.close()
    again = vault_in(tmp_path)
    assert dict(await again.load("r")) == {TOKEN: VALUE, OTHER: "other"}
    again.close()
    (tmp_path / "vault.key").write_bytes(old)
    with pytest.raises(VaultError, match="does not belong"):
        vault_in(tmp_path)


async def test_a_key_from_the_environment_is_changed_for_a_named_one(tmp_path: Path) -> None:
    old, new = b"o" * 32, b"n" * 32
    environ = {"SPHRAGIS_VAULT_KEY": base64.b64encode(old).decode()}
    vault = vault_in(tmp_path, environ)
    await put(vault, "r", {TOKEN: VALUE})
    store = store_in(tmp_path, old)
    with pytest.raises(VaultError, match="--new-key-file"):
        store.rotate()
    assert store.rotate(new) == 1
    store.close()
    with pytest.raises(VaultError, match="does not belong"):
        await put(vault, "r", {OTHER: "other"})
    vault.close()
    environ = {"SPHRAGIS_VAULT_KEY": base64.b64encode(new).decode()}
    again = vault_in(tmp_path, environ)
    assert dict(await again.load("r")) == {TOKEN: VALUE}
    again.close()


async def test_a_change_cut_short_before_the_key_file_is_ended_by_the_next_start(
    tmp_path: Path,
) -> None:
    vault = vault_in(tmp_path)
    await put(vault, "r", {TOKEN: VALUE})
    vault.close()
    old = (tmp_path / "vault.key").read_bytes()
    store = store_in(tmp_path)
    store.rotate()
    store.close()
    os.replace(tmp_path / "vault.key", tmp_path / "vault.key.next")
    (tmp_path / "vault.key").write_bytes(old)
    again = vault_in(tmp_path)
    assert dict(await again.load("r")) == {TOKEN: VALUE}
    assert not (tmp_path / "vault.key.next").exists()
    again.close()
    # And a next key that never came into use does no harm.
    (tmp_path / "vault.key.next").write_bytes(base64.b64encode(b"u" * 32))
    once_more = vault_in(tmp_path)
    assert dict(await once_more.load("r")) == {TOKEN: VALUE}
    once_more.close()
    store = store_in(tmp_path)
    assert store.rotate() == 1
    store.close()


async def test_a_next_key_that_is_none_keeps_nobody_from_the_vault_and_is_not_thrown_away(
    tmp_path: Path,
) -> None:
    vault = vault_in(tmp_path)
    await put(vault, "r", {TOKEN: VALUE})
    vault.close()
    after = tmp_path / "vault.key.next"
    after.write_text("not a key")
    again = vault_in(tmp_path)
    assert dict(await again.load("r")) == {TOKEN: VALUE}
    again.close()
    store = store_in(tmp_path)
    with pytest.raises(VaultError, match=r"vault\.key\.next does not hold a key"):
        store.rotate()
    assert after.read_text() == "not a key"
    after.unlink()
    assert store.rotate() == 1
    store.close()


ROTATING = (
    "import sys; from pathlib import Path\n"
    "from shared.keyfile import KeySource\n"
    "from gateway.redaction.vault_store import Store\n"
    "d = Path(sys.argv[1]); s = Store(d / 'vault.db', KeySource(d / 'vault.key')); s.open()\n"
    "print('ready', flush=True)\n"
    "while True:\n"
    "    s.rotate(); print('done', flush=True)\n"
)


async def test_a_kill_at_any_moment_of_a_change_leaves_a_readable_vault(tmp_path: Path) -> None:
    originals = {f"[EMAIL_{i:08d}]": f"v{i}" for i in range(1500)}
    vault = vault_in(tmp_path)
    await put(vault, "r", originals)
    vault.close()
    wait = random.Random(3)
    for _ in range(8):
        rotating = subprocess.Popen(
            [sys.executable, "-c", ROTATING, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert rotating.stdout is not None
        assert rotating.stdout.readline() == "ready\n"
        time.sleep(wait.uniform(0, 0.12))  # somewhere within the change
        os.kill(rotating.pid, signal.SIGKILL)
        rotating.wait()
        rotating.stdout.close()
        again = vault_in(tmp_path)
        assert dict(await again.load("r")) == originals
        again.close()


async def test_a_gateway_writes_on_while_another_program_changes_the_key(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    rotating = subprocess.Popen(
        [sys.executable, "-c", ROTATING, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert rotating.stdout is not None
    assert rotating.stdout.readline() == "ready\n"
    stored = {}
    for i in range(60):
        stored[f"[EMAIL_{i:08d}]"] = f"v{i}"
        await put(vault, "r", {f"[EMAIL_{i:08d}]": f"v{i}"})
        if i % 20 == 0:
            assert await asyncio.to_thread(rotating.stdout.readline) == "done\n"
    os.kill(rotating.pid, signal.SIGKILL)
    rotating.wait()
    rotating.stdout.close()
    vault.close()
    again = vault_in(tmp_path)
    assert dict(await again.load("r")) == stored
    again.close()


def test_two_programs_write_at_once(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys; from pathlib import Path\n"
        "from gateway.redaction.vault import Vault\n"
        "d, name = Path(sys.argv[1]), sys.argv[2]\n"
        "v = Vault(d / 'vault.db', d / 'vault.key', environ={}); v.open()\n"
        "async def main():\n"
        "    for i in range(40):\n"
        "        for owner in ('shared', name):\n"
        "            t = f'[EMAIL_{i:08d}]'\n"
        "            await v.put(owner, {t: f'v{i}'}, {t: '%032x' % i}, scope='all')\n"
        "asyncio.run(main()); v.close()\n"
    )
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path), name], stderr=subprocess.PIPE
        )
        for name in ("a", "b")
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors.decode()

    async def read() -> list[dict[str, str]]:
        vault = vault_in(tmp_path)
        try:
            return [dict(await vault.load(owner)) for owner in ("shared", "a", "b")]
        finally:
            vault.close()

    expected = {f"[EMAIL_{i:08d}]": f"v{i}" for i in range(40)}
    assert asyncio.run(read()) == [expected] * 3


# -- where the key comes from ----------------------------------------------------------------------


async def test_the_key_may_come_from_a_command(tmp_path: Path) -> None:
    text = base64.b64encode(b"c" * 32).decode()
    vault = vault_in(tmp_path, key_command=["printf", "%s\n", text])
    await put(vault, "r", {TOKEN: VALUE})
    vault.close()
    assert not (tmp_path / "vault.key").exists()
    again = vault_in(tmp_path, {"SPHRAGIS_VAULT_KEY": text}, key_command=["false"])
    assert dict(await again.load("r")) == {TOKEN: VALUE}
    again.close()


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["false"], "ended with code 1"),
        (["/no/such/program"], "cannot be run"),
        (["echo", "c2VjcmV0IHBhcnQ="], "32 bytes in base64"),
        (["sh", "-c", "echo c2VjcmV0 >&2; exit 3"], "ended with code 3"),
    ],
)
def test_a_key_command_that_fails_says_so_without_its_output(
    tmp_path: Path, command: list[str], said: str
) -> None:
    with pytest.raises(VaultError, match=said) as wrong:
        vault_in(tmp_path, key_command=command)
    assert str(wrong.value).endswith(".")
    assert "c2VjcmV0" not in str(wrong.value)


def test_a_key_command_that_never_ends_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyfile, "COMMAND_SECONDS", 0.1)
    with pytest.raises(VaultError, match="gave no key within"):
        vault_in(tmp_path, key_command=["sleep", "60"])


# -- off, and old files ----------------------------------------------------------------------------


async def test_a_vault_that_is_off_keeps_nothing_and_knows_nobody(tmp_path: Path) -> None:
    off = parse_policy('id = "p"\nversion = "1"\nvault = "off"\n', source="p", directory=None)
    vault = vault_in(tmp_path, policy=off)
    assert vault.is_open
    await vault.put("r", {TOKEN: VALUE}, marks(TOKEN))
    view = await vault.load("r")
    assert dict(view) == {}
    assert view.owns(OTHER)
    assert await vault.foreign("r", [OTHER], scope="r", kinds={}) == set()
    assert await vault.vouched("r") == []
    vault.vouch("r", "0" * 32)
    assert await vault.vouched("r") == ["0" * 32]
    assert await vault.erase(owner="r") == 0
    vault.close()
    assert list(tmp_path.iterdir()) == []


async def test_a_vault_of_the_first_version_is_taken_over(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    await put(vault, "builder", {TOKEN: VALUE})
    vault.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "vault.db")) as database, database:
        database.execute(
            "CREATE TABLE originals (scope VARCHAR(128), token VARCHAR(64), sealed BLOB,"
            " created BIGINT, PRIMARY KEY (scope, token))"
        )
        database.execute("INSERT INTO originals SELECT owner, token, sealed, created FROM entries")
        database.execute("DELETE FROM entries")
    again = vault_in(tmp_path)
    assert dict(await again.load("builder")) == {TOKEN: VALUE}
    await put(again, "builder", {TOKEN: VALUE, OTHER: "other"})
    again.close()
    once_more = vault_in(tmp_path)
    assert dict(await once_more.load("builder")) == {TOKEN: VALUE, OTHER: "other"}
    once_more.close()


async def test_memory_is_bounded_by_owners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_module, "MAX_OWNERS", 3)
    vault = vault_in(tmp_path)
    for i in range(10):
        await put(vault, f"role/{i}", {TOKEN: f"v{i}"})
    first = await vault.load("role/0")
    for i in range(10):
        assert dict(await vault.load(f"role/{i}")) == {TOKEN: f"v{i}"}
    assert dict(first) == {TOKEN: "v0"}
    assert len(vault._owners) == 3
    vault.close()


async def test_calls_stored_together_are_told_apart(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    await put(vault, "role/z", {OTHER: "z"}, scope="all")
    calls = [
        put(vault, f"role/{i}", {TOKEN: VALUE if i % 2 else "x", f"[EMAIL_{i:08d}]": f"v{i}"},
            scope="all")
        for i in range(20)
    ]  # fmt: skip
    calls.append(put(vault, "role/y", {OTHER: "y"}, scope="all"))
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    # The first one made the token stand for its value; half of the others have another value.
    assert [type(o) for o in outcomes] == [type(None), TokenTaken] * 10 + [TokenTaken]
    vault.close()
    again = vault_in(tmp_path)
    assert dict(await again.load("role/0")) == {TOKEN: "x", "[EMAIL_00000000]": "v0"}
    assert dict(await again.load("role/18")) == {TOKEN: "x", "[EMAIL_00000018]": "v18"}
    assert dict(await again.load("role/1")) == dict(await again.load("role/y")) == {}
    again.close()


async def test_a_caller_that_goes_away_leaves_the_others_stored(tmp_path: Path) -> None:
    vault = vault_in(tmp_path)
    gone = asyncio.ensure_future(put(vault, "r", {TOKEN: VALUE}))
    stays = asyncio.ensure_future(put(vault, "r", {OTHER: "other"}))
    await asyncio.sleep(0)
    gone.cancel()
    await stays
    vault.close()
    again = vault_in(tmp_path)
    assert (await again.load("r"))[OTHER] == "other"
    again.close()
