"""The vault's verbs and the doctor: what they say, and what they refuse."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest

from gateway.cli import run
from gateway.redaction.vault import Vault
from gateway.settings import load_settings

TOKEN, OTHER = "[EMAIL_0123abcd]", "[PHONE_0123abcd]"
VALUE = "jane@corp.example"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPHRAGIS_HOME", str(tmp_path))
    monkeypatch.delenv("SPHRAGIS_VAULT_KEY", raising=False)
    return tmp_path


def fill(home: Path, environ: dict[str, str] | None = None) -> None:
    async def put() -> None:
        vault = Vault(home / "vault.db", home / "keys" / "vault.key", environ=environ or {})
        vault.open()
        await vault.put("role/a", {TOKEN: VALUE}, {TOKEN: "0" * 32, OTHER: "1" * 32})
        await vault.put("bare", {TOKEN: VALUE}, {TOKEN: "0" * 32})
        vault.close()

    asyncio.run(put())


def held(home: Path, environ: dict[str, str] | None = None) -> dict[str, dict[str, str]]:
    async def load() -> dict[str, dict[str, str]]:
        vault = Vault(home / "vault.db", home / "keys" / "vault.key", environ=environ or {})
        vault.open()
        try:
            return {owner: dict(await vault.load(owner)) for owner in ("role/a", "bare")}
        finally:
            vault.close()

    return asyncio.run(load())


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(arguments) == 1
    said = capsys.readouterr().err.strip()
    assert said.startswith("error: ")
    assert said.endswith(".")
    assert VALUE not in said
    return said


def test_figures_name_kinds_and_no_value(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(home)
    assert run(["vault", "stats", "--json"]) == 0
    printed = capsys.readouterr().out
    told = json.loads(printed)
    assert told["tokens"] == {"EMAIL": 2, "PHONE": 1}
    assert told["originals"] == {"EMAIL": 2}
    assert told["owners"] == 2
    assert run(["vault", "stats"]) == 0
    assert VALUE not in printed + capsys.readouterr().out


def test_erasing_takes_a_token_values_from_a_file_or_a_role(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(home)
    assert run(["vault", "erase", "--role", "-"]) == 0
    assert held(home) == {"role/a": {TOKEN: VALUE}, "bare": {}}
    assert run(["vault", "erase", "--token", OTHER]) == 0
    (home / "values").write_bytes(b"no such value\r\n" + VALUE.encode() + b"\r\n")
    assert run(["vault", "erase", "--values-from", str(home / "values")]) == 0
    assert "Erased 1 entry." in capsys.readouterr().out
    assert held(home) == {"role/a": {}, "bare": {}}


def test_what_cannot_be_done_is_said_in_one_sentence(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "no vault" in refused(capsys, "vault", "stats")
    assert not (home / "vault.db").exists()
    fill(home)
    assert "Name what to erase" in refused(capsys, "vault", "erase")
    assert "cannot be read" in refused(capsys, "vault", "erase", "--values-from", "/no/such/file")
    new = str(home / "new.key")
    assert "leave --new-key-file" in refused(capsys, "vault", "rotate", "--new-key-file", new)
    (home / "keys" / "vault.key").write_bytes(base64.b64encode(b"x" * 32))
    assert "does not belong" in refused(capsys, "vault", "stats")


def test_a_key_from_the_environment_is_changed_for_one_in_a_file(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = base64.b64encode(b"o" * 32).decode()
    fill(home, {"SPHRAGIS_VAULT_KEY": old})
    monkeypatch.setenv("SPHRAGIS_VAULT_KEY", old)
    assert "--new-key-file" in refused(capsys, "vault", "rotate")
    assert run(["vault", "rotate", "--new-key-file", str(home / "new.key")]) == 0
    assert old not in capsys.readouterr().out
    assert "does not belong" in refused(capsys, "vault", "stats")
    new = (home / "new.key").read_text().strip()
    assert held(home, {"SPHRAGIS_VAULT_KEY": new})["role/a"] == {TOKEN: VALUE}


def test_the_doctor_looks_and_changes_nothing(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["doctor"]) == 0
    assert "made at the first start" in capsys.readouterr().out
    assert list(home.iterdir()) == []
    fill(home)
    assert run(["doctor"]) == 0
    told = capsys.readouterr().out
    assert f"{home / 'keys' / 'vault.key'} (mode 0600, 0 day(s) old)" in told
    assert "can read every original" in told
    (home / "keys" / "vault.key").chmod(0o644)
    assert run(["doctor"]) == 1
    assert "chmod 600" in capsys.readouterr().out
    (home / "keys" / "vault.key").rename(home / "elsewhere")
    assert run(["doctor"]) == 1
    assert "missing" in capsys.readouterr().out
    policy = home / "off.toml"
    policy.write_text('id = "off"\nversion = "1"\nvault = "off"\n')
    monkeypatch.setenv("SPHRAGIS_POLICY_FILE", str(policy))
    assert run(["doctor"]) == 0
    assert "nothing is ever restored" in capsys.readouterr().out


def test_the_doctor_names_the_key_of_tokens_and_what_gateways_must_share(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["doctor"]) == 0
    told = capsys.readouterr().out
    assert f"token key  {home / 'keys' / 'token.key'} (made at the first start)" in told
    assert "need the same token_keyfile" not in told
    monkeypatch.setenv("SPHRAGIS_VAULT_PATH", str(home / "shared.db"))
    assert run(["doctor"]) == 0
    assert "need the same token_keyfile" in capsys.readouterr().out
    shared = home / "shared.key"
    shared.write_bytes(b"k" * 32)
    shared.chmod(0o644)
    monkeypatch.setenv("SPHRAGIS_TOKEN_KEYFILE", str(shared))
    assert run(["doctor"]) == 1
    told = capsys.readouterr().out
    assert f"warning: {shared} is open to other users" in told
    assert "need the same token_keyfile" not in told


def test_a_key_command_is_a_list_or_a_text_that_no_shell_reads(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "sphragis.toml").write_text('vault_key_command = ["pass", "show", "a b"]\n')
    assert load_settings()[0].vault_key_command == ["pass", "show", "a b"]
    monkeypatch.setenv("SPHRAGIS_VAULT_KEY_COMMAND", "pass show 'a b' $HOME")
    assert load_settings()[0].vault_key_command == ["pass", "show", "a b", "$HOME"]
