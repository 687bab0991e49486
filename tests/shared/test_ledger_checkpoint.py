"""Signed notes, keys and checkpoints: published vectors and every mangling refused."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.ledger.checkpoint import (
    MAX_SIGNATURES,
    Checkpoint,
    Signer,
    checkpoint_line,
    load_signer,
    open_note,
    parse_checkpoint,
    parse_checkpoint_line,
    parse_vkey,
)
from shared.ledger.commitment import commit, load_commitment_key
from shared.ledger.errors import LedgerError, NoteRefused

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "ledger"
TESSERA = DATA / "tessera_log" / "testdata" / "log"
TESSERA_KEY = "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx"

SIGNER = Signer("log.example.org/a", bytes(range(32)))
OTHER = Signer("log.example.org/a", bytes(range(1, 33)))
CHECKPOINT = Checkpoint("log.example.org/a", 7, bytes(range(32)))
NOTE = SIGNER.sign(CHECKPOINT.text())


def note_vectors() -> list[Any]:
    files = sorted((DATA / "note").glob("*.json"))
    if not files:
        return [pytest.param({}, marks=pytest.mark.skip("the published vectors are not here"))]
    return [vector for path in files for vector in json.loads(path.read_text())]


@pytest.mark.parametrize("vector", note_vectors())
def test_note_vector(vector: dict[str, Any]) -> None:
    key = parse_vkey(vector["vkey"])
    assert key.vkey() == vector["vkey"]
    try:
        open_note(vector["note"], [key])
        good = True
    except NoteRefused:
        good = False
    assert good is vector["ok"]


@pytest.mark.skipif(not TESSERA.is_dir(), reason="the published log is not here")
def test_the_checkpoints_of_a_published_log_open() -> None:
    for size in range(16):
        note = (TESSERA / f"checkpoint.{size}").read_text()
        assert parse_checkpoint(open_note(note, [parse_vkey(TESSERA_KEY)])).size == size


def test_a_signed_checkpoint_opens_to_what_was_signed() -> None:
    assert parse_checkpoint(open_note(NOTE, [SIGNER.key])) == CHECKPOINT


def test_another_key_of_the_same_name_does_not_open_it() -> None:
    with pytest.raises(NoteRefused, match="no signature by the expected key"):
        open_note(NOTE, [OTHER.key])


def test_unknown_signatures_are_ignored_and_a_false_one_is_not() -> None:
    extra = OTHER.sign(CHECKPOINT.text()).rpartition("\n\n")[2]
    assert open_note(NOTE + extra, [SIGNER.key]) == CHECKPOINT.text()
    forged = SIGNER.sign("other text\n").rpartition("\n\n")[2]
    with pytest.raises(NoteRefused):
        open_note(NOTE + forged, [SIGNER.key])


def test_too_many_signatures_are_refused() -> None:
    extra = OTHER.sign(CHECKPOINT.text()).rpartition("\n\n")[2]
    open_note(NOTE + extra * (MAX_SIGNATURES - 1), [SIGNER.key])
    with pytest.raises(NoteRefused):
        open_note(NOTE + extra * MAX_SIGNATURES, [SIGNER.key])


def test_every_changed_byte_of_a_checkpoint_line_is_refused() -> None:
    line = checkpoint_line(NOTE)
    for at in range(len(line)):
        for bit in range(8):
            changed = bytearray(line)
            changed[at] ^= 1 << bit
            with pytest.raises(NoteRefused):
                open_note(parse_checkpoint_line(bytes(changed)), [SIGNER.key])


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode()))
def test_arbitrary_bytes_are_never_a_checkpoint(line: bytes) -> None:
    with pytest.raises(NoteRefused):
        open_note(parse_checkpoint_line(line), [SIGNER.key])


@pytest.mark.parametrize(
    "text",
    [
        "log\n07\n" + CHECKPOINT.text().split("\n")[2] + "\n",
        "log\n-7\n" + CHECKPOINT.text().split("\n")[2] + "\n",
        CHECKPOINT.text() + "extension\n",
        CHECKPOINT.text().replace("=", ""),
        "\n7\nAAAA\n",
        "log\n7\nAAAA\n",
        "",
    ],
)
def test_a_text_that_is_not_a_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(NoteRefused):
        parse_checkpoint(text)


def test_every_mangled_vkey_is_refused() -> None:
    vkey = SIGNER.key.vkey()
    assert parse_vkey(vkey) == SIGNER.key
    mangled = {vkey[:at] + vkey[at + 1 :] for at in range(len(vkey))}
    mangled |= {vkey[:at] + "+" + vkey[at:] for at in range(len(vkey))}
    mangled |= {vkey.replace("+", " "), vkey.upper(), "", "++", vkey + "=", vkey + "A"}
    for text in mangled - {vkey}:
        with pytest.raises(NoteRefused):
            parse_vkey(text)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "a\u2003b", "\x00"])
def test_a_name_that_would_break_the_note_is_refused(name: str) -> None:
    with pytest.raises(NoteRefused):
        Signer(name, bytes(32))


def test_the_key_is_made_once_private_and_for_one_log(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    first = load_signer(keys, "a.example/log", create=True)
    assert load_signer(keys, "a.example/log", create=False).key == first.key
    assert stat.S_IMODE((keys / "ledger.key").stat().st_mode) == 0o600
    assert [path.name for path in keys.iterdir()] == ["ledger.key"]
    with pytest.raises(LedgerError, match="another log"):
        load_signer(keys, "b.example/log", create=False)
    (keys / "ledger.key").write_text("nonsense")
    with pytest.raises(LedgerError, match="not a ledger key"):
        load_signer(keys, "a.example/log", create=False)
    (keys / "ledger.key").unlink()
    with pytest.raises(LedgerError, match=r"missing.*restore"):
        load_signer(keys, "a.example/log", create=False)


def test_a_commitment_depends_on_the_key_and_hides_the_text(tmp_path: Path) -> None:
    key = load_commitment_key(tmp_path / "keys")
    assert key == load_commitment_key(tmp_path / "keys")
    assert stat.S_IMODE((tmp_path / "keys" / "commitment.key").stat().st_mode) == 0o600
    assert commit(key, b"alice") == commit(key, b"alice") != commit(bytes(32), b"alice")
    assert len(commit(key, b"")) == 64
    with pytest.raises(ValueError, match="32 bytes"):
        commit(b"", b"x")
    (tmp_path / "keys" / "commitment.key").write_text("nonsense")
    with pytest.raises(LedgerError, match="not a commitment key"):
        load_commitment_key(tmp_path / "keys")
