"""Cosignatures: the bytes, the keys, and that nothing else passes for one."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest
from anchor_fakes import PaperLog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from shared.anchors.cosignature import (
    COSIGNATURE,
    Cosigner,
    cosigner_key,
    load_cosigner,
    parse_cosigner_vkey,
    verify_cosignatures,
)
from shared.ledger.checkpoint import open_note, parse_checkpoint, parse_vkey, split_note
from shared.ledger.errors import LedgerError, NoteRefused

LOG = PaperLog()
WITNESS = Cosigner("witness.example.org/w1", b"w" * 32)
TIME = 1_679_315_147

#: The example of the C2SP text; its key is not published, its form is.
PUBLISHED = (
    "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
    "\u2014 example.com/behind-the-sofa "
    "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
    "\u2014 witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dl"
    "rDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n"
)


def cosigned(size: int = 7, time: int = TIME) -> str:
    note = LOG.note(size)
    return note + WITNESS.cosign(split_note(note)[0], time) + "\n"


def test_the_signed_bytes_are_those_of_the_specification() -> None:
    note = cosigned()
    text, signatures = split_note(note)
    name, blob = signatures[-1]
    assert name == "witness.example.org/w1"
    assert len(blob) == 76
    assert blob[:4] == WITNESS.key.key_id
    assert int.from_bytes(blob[4:12], "big") == TIME
    message = b"cosignature/v1\ntime 1679315147\n" + text.encode()
    Ed25519PublicKey.from_public_bytes(WITNESS.key.public).verify(blob[12:], message)


def test_the_published_example_has_the_form_we_write() -> None:
    text, signatures = split_note(PUBLISHED)
    assert parse_checkpoint(text).size == 20852163
    name, blob = signatures[1]
    assert (name, len(blob)) == ("witness.example.com/w1", 76)
    assert int.from_bytes(blob[4:12], "big") == TIME


def test_a_cosignature_verifies_and_leaves_the_log_signature_valid() -> None:
    note = cosigned()
    [found] = verify_cosignatures(note, [WITNESS.key])
    assert (found.name, found.time) == ("witness.example.org/w1", TIME)
    assert note.endswith(found.line + "\n")
    assert open_note(note, [LOG.signer.key]) == split_note(note)[0]


def test_cosignatures_by_others_are_passed_over() -> None:
    stranger = cosigner_key("witness.example.org/w1", b"s" * 32)
    assert verify_cosignatures(cosigned(), [stranger]) == []


@pytest.mark.parametrize("position", [4, 11, 12, 40, 75])
def test_a_changed_byte_is_refused(position: int) -> None:
    text, signatures = split_note(cosigned())
    name, blob = signatures[-1]
    changed = blob[:position] + bytes([blob[position] ^ 1]) + blob[position + 1 :]
    line = f"\u2014 {name} {base64.b64encode(changed).decode()}\n"
    with pytest.raises(NoteRefused):
        verify_cosignatures(f"{text}\n{line}", [WITNESS.key])


@pytest.mark.parametrize("length", [5, 12, 68, 75, 77])
def test_another_length_is_refused(length: int) -> None:
    text, signatures = split_note(cosigned())
    name, blob = signatures[-1]
    changed = (blob + b"\0")[:length]
    line = f"\u2014 {name} {base64.b64encode(changed).decode()}\n"
    with pytest.raises(NoteRefused):
        verify_cosignatures(f"{text}\n{line}", [WITNESS.key])


def test_a_cosignature_of_another_checkpoint_is_refused() -> None:
    line = cosigned(7).splitlines()[-1]
    with pytest.raises(NoteRefused):
        verify_cosignatures(LOG.note(8) + line + "\n", [WITNESS.key])


def test_the_vkey_round_trips_and_is_of_its_own_type() -> None:
    vkey = WITNESS.key.vkey()
    assert parse_cosigner_vkey(vkey) == WITNESS.key
    assert base64.b64decode(vkey.rpartition("+")[2])[0] == COSIGNATURE
    with pytest.raises(NoteRefused):
        parse_vkey(vkey)
    with pytest.raises(NoteRefused):
        parse_cosigner_vkey(LOG.signer.key.vkey())


@given(st.text(max_size=80))
def test_no_text_makes_the_vkey_parser_fail_otherwise(text: str) -> None:
    with pytest.raises(NoteRefused):
        parse_cosigner_vkey(text)


@given(st.integers(0, 3), st.data())
def test_no_mangled_vkey_is_accepted(cut: int, data: st.DataObject) -> None:
    vkey = WITNESS.key.vkey()
    at = data.draw(st.integers(0, len(vkey) - 1))
    mangled = vkey[:at] + "xyz"[:cut] + vkey[at + 1 :]
    if mangled != vkey:
        with pytest.raises(NoteRefused):
            parse_cosigner_vkey(mangled)


def test_the_key_file_is_private_and_kept(tmp_path: Path) -> None:
    made = load_cosigner(tmp_path, "w.example.org")
    assert load_cosigner(tmp_path).key == made.key
    assert stat.S_IMODE((tmp_path / "witness.key").stat().st_mode) == 0o600
    with pytest.raises(LedgerError, match="leave the name out"):
        load_cosigner(tmp_path, "other.example.org")


def test_a_damaged_or_missing_key_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="no witness key"):
        load_cosigner(tmp_path)
    load_cosigner(tmp_path, "w.example.org")
    path = tmp_path / "witness.key"
    path.write_text(path.read_text().replace("w.example", "v.example"))
    with pytest.raises(LedgerError, match="damaged"):
        load_cosigner(tmp_path)
