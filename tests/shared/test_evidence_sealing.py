"""Payloads sealed and opened, their keys wrapped: nothing opens as something else."""

from __future__ import annotations

import base64
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.evidence.errors import EvidenceError
from shared.evidence.keys import Group, KeyStore
from shared.evidence.retention import Retention
from shared.evidence.sealing import (
    DataKey,
    Label,
    commitment,
    keyid_of,
    mac_of,
    seal,
    unseal,
)
from shared.evidence.store import EvidenceStore
from shared.keyfile import KeySource

KEY = DataKey("ab" * 16, b"k" * 32, b"s" * 32)
LABEL = Label("call_1", "request", "application/json")
GROUP = Group("a" * 64, "", 20_000, Retention())


@given(st.binary(max_size=300), st.text(max_size=20), st.text(max_size=20))
def test_a_payload_opens_as_itself_and_as_nothing_else(data: bytes, one: str, two: str) -> None:
    label = Label(one, "request", two)
    blob = seal(data, KEY, label)
    assert unseal(blob, KEY, label) == data
    assert keyid_of(blob) == KEY.keyid
    for other in (
        Label(one + two, "request", ""),
        Label("", "request", one + two),
        Label(one, "outcome", two),
    ):
        if other != label:
            with pytest.raises(EvidenceError):
                unseal(blob, KEY, other)


@given(st.data())
def test_a_changed_byte_is_seen(data: st.DataObject) -> None:
    blob = bytearray(seal(b"payload", KEY, LABEL))
    at = data.draw(st.integers(0, len(blob) - 1))
    blob[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(EvidenceError):
        unseal(bytes(blob), KEY, LABEL)
    assert commitment(bytes(blob)) != commitment(seal(b"payload", KEY, LABEL))


@given(st.binary(max_size=60))
def test_bytes_that_are_no_evidence_are_refused_in_a_sentence(blob: bytes) -> None:
    with pytest.raises(EvidenceError):
        unseal(blob, KEY, LABEL)
    keyid_of(blob)


def test_the_same_payload_commits_to_something_else_each_time() -> None:
    assert seal(b"x", KEY, LABEL) != seal(b"x", KEY, LABEL)
    assert mac_of(b"x", KEY.salt) != mac_of(b"x", b"t" * 32)
    assert "kkk" not in repr(KEY)


# -- keys ------------------------------------------------------------------------------------------


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[KeyStore]:
    made = KeyStore(tmp_path / "dek.db", KeySource(tmp_path / "evidence.key"))
    made.open()
    yield made
    made.close()


def test_each_subject_session_day_and_class_has_a_key_of_its_own(keys: KeyStore) -> None:
    groups = [
        GROUP,
        replace(GROUP, subject_c="b" * 64),
        replace(GROUP, session_c="c" * 64),
        replace(GROUP, day=20_001),
        replace(GROUP, retention=Retention("ai-act", 200)),
    ]
    made = [keys.key_for(group) for group in groups]
    assert len({key.keyid for key in made}) == len({key.key for key in made}) == 5
    assert len({key.salt for key in made}) == 5
    assert [keys.key_for(group) for group in groups] == made
    keys.close()
    keys.open()
    assert [keys.key_for(group) for group in groups] == made
    assert [item.keyid for item in keys.all() if item.retention] == [made[4].keyid]


def test_no_key_stands_in_the_file(keys: KeyStore, tmp_path: Path) -> None:
    key = keys.key_for(GROUP)
    data = (tmp_path / "dek.db").read_bytes()
    assert key.key not in data
    assert key.salt not in data
    assert (tmp_path / "dek.db").stat().st_mode & 0o077 == 0
    assert (tmp_path / "evidence.key").stat().st_mode & 0o077 == 0


def test_another_wrapping_key_is_refused_in_a_sentence(tmp_path: Path) -> None:
    one = KeyStore(tmp_path / "dek.db", KeySource(tmp_path / "evidence.key"))
    one.open()
    one.key_for(GROUP)
    one.close()
    (tmp_path / "evidence.key").write_bytes(base64.b64encode(secrets.token_bytes(32)))
    with pytest.raises(EvidenceError, match="does not belong to"):
        KeyStore(tmp_path / "dek.db", KeySource(tmp_path / "evidence.key")).open()
    (tmp_path / "evidence.key").unlink()
    with pytest.raises(EvidenceError, match="is missing but"):
        KeyStore(tmp_path / "dek.db", KeySource(tmp_path / "evidence.key")).open()


def test_a_wrapping_key_from_elsewhere_needs_a_file_for_the_next(tmp_path: Path) -> None:
    given_ = base64.b64encode(secrets.token_bytes(32)).decode()
    source = KeySource(tmp_path / "unused", given_, (), "SPHRAGIS_EVIDENCE_KEY")
    store = KeyStore(tmp_path / "dek.db", source)
    store.open()
    keep = store.key_for(GROUP)
    gone = store.key_for(replace(GROUP, day=1))
    store.begin("r", {})
    erasure = store.erasure("r")
    assert erasure is not None
    with pytest.raises(EvidenceError, match="the variable SPHRAGIS_EVIDENCE_KEY"):
        store.shred(erasure, [gone.keyid], None)
    store.shred(erasure, [gone.keyid], tmp_path / "next")
    assert store.key(gone.keyid) is None
    assert store.key(keep.keyid) == keep
    store.close()
    with pytest.raises(EvidenceError, match="does not belong"):
        KeyStore(tmp_path / "dek.db", source).open()
    following = KeySource(tmp_path / "unused", (tmp_path / "next").read_text())
    again = KeyStore(tmp_path / "dek.db", following)
    again.open()
    assert again.key(keep.keyid) == keep
    assert not (tmp_path / "unused").exists()
    again.close()


def test_a_damaged_database_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "dek.db").write_bytes(b"no database" * 200)
    (tmp_path / "evidence.key").write_bytes(base64.b64encode(b"k" * 32))
    with pytest.raises(EvidenceError, match="cannot be used"):
        KeyStore(tmp_path / "dek.db", KeySource(tmp_path / "evidence.key")).open()


# -- files -----------------------------------------------------------------------------------------


def test_many_threads_keep_at_once_and_whoever_is_alone_is_alone(
    keys: KeyStore, tmp_path: Path
) -> None:
    store = EvidenceStore(tmp_path, keys)
    entries: dict[int, dict[str, object]] = {}
    inside = threading.Event()

    def keep(number: int) -> None:
        label = Label(f"call_{number}", "request", "text/plain")
        entries[number] = store.keep(b"%d" % number, GROUP, label, number)

    threads = [threading.Thread(target=keep, args=(n,)) for n in range(8)]
    with store.alone():
        for thread in threads:
            thread.start()
        inside.wait(0.05)
        assert entries == {}
        assert not list(store.files())
    for thread in threads:
        thread.join()
    assert len(list(store.files())) == 8
    for number, entry in entries.items():
        record = {"id": f"call_{number}", "type": "request", "seq": number}
        assert store.read(record, entry) == b"%d" % number
        with pytest.raises(EvidenceError, match="altered"):
            store.read({**record, "id": "call_x"}, entry)
        with pytest.raises(EvidenceError, match="not the one it committed to"):
            store.read(record, {**entry, "mac": "0" * 64})
    assert store.sweep({"00" * 16}) == 0
    began = time.monotonic()
    assert store.sweep({keys.key_for(GROUP).keyid}) == 8
    assert time.monotonic() - began < 60
    with pytest.raises(EvidenceError, match="missing"):
        store.read({"id": "call_0", "type": "request", "seq": 0}, entries[0])


def test_a_name_that_is_no_commitment_reaches_no_file(keys: KeyStore, tmp_path: Path) -> None:
    store = EvidenceStore(tmp_path, keys)
    keyid = keys.key_for(GROUP).keyid
    for name in ("../../etc/passwd", "", "Z" * 64, "a" * 63):
        with pytest.raises(EvidenceError):
            store.read({"seq": 1}, {"c": name, "keyid": keyid})
