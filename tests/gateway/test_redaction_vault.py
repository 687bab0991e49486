"""The vault on a real disk: durable, sealed, scoped, and clear about what is wrong."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.redaction.keyfile import KeyFileError, read_or_make_key
from gateway.redaction.vault import TokenTaken, Vault, VaultError

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
        "        await v.put('r', {f'[EMAIL_{i:08d}]': f'v{i}'}, {f'[EMAIL_{i:08d}]': '%032x' % i}); print(i, flush=True); i += 1\n"
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
