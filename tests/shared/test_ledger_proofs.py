"""Proofs: the same as the naive functions give, in the published file format, never a wrong one."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_log import SIGNER, SyntheticLog

from shared.ledger.checkpoint import Signer, parse_vkey
from shared.ledger.errors import LedgerError, NoteRefused
from shared.ledger.merkle import (
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)
from shared.ledger.proofs import (
    ConsistencyProof,
    NodeSource,
    ProofRefused,
    Prover,
    TlogProof,
    consistency_path,
    inclusion_path,
    parse_tlog_proof,
    subtree_root,
)
from shared.ledger.segment import segment_path
from shared.ledger.tiles import rebuild

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "ledger"
VECTORS = DATA / "merkle" / "testdata"
TESSERA = DATA / "tessera_log" / "testdata" / "log"
TESSERA_KEY = "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx"
LEAVES = [leaf_hash(b"%d" % number) for number in range(600)]
needs_vectors = pytest.mark.skipif(not VECTORS.is_dir(), reason="the published vectors are absent")
needs_tessera = pytest.mark.skipif(not TESSERA.is_dir(), reason="the published log is not here")


def naive(leaves: list[bytes]) -> NodeSource:
    return lambda level, index: root_of(leaves[index << level : (index + 1) << level])


@given(size=st.integers(1, 600), data=st.data())
@settings(max_examples=150, deadline=None)
def test_paths_from_single_hashes_are_the_naive_proofs(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    old = data.draw(st.integers(0, size))
    leaves = LEAVES[:size]
    assert inclusion_path(index, size, naive(leaves)) == inclusion_proof(leaves, index)
    assert consistency_path(old, size, naive(leaves)) == consistency_proof(leaves, old)
    assert subtree_root(0, size, naive(leaves)) == root_of(leaves)


def test_there_is_no_path_to_what_is_not_in_the_tree() -> None:
    for index, size in ((-1, 3), (3, 3), (0, 0)):
        with pytest.raises(IndexError):
            inclusion_path(index, size, naive(LEAVES))
    for old, size in ((-1, 3), (4, 3)):
        with pytest.raises(IndexError):
            consistency_path(old, size, naive(LEAVES))


@needs_vectors
def test_every_published_inclusion_vector_goes_through_the_proof_file() -> None:
    files = sorted((VECTORS / "inclusion").rglob("*.json"))
    assert len(files) == 98
    for file in files:
        vector = json.loads(file.read_text())
        path = tuple(base64.b64decode(node) for node in vector["proof"] or [])
        proof = TlogProof(vector["leafIdx"], path, "note")
        good = verify_inclusion(
            base64.b64decode(vector["leafHash"] or ""),
            vector["leafIdx"],
            vector["treeSize"],
            path,
            base64.b64decode(vector["root"] or ""),
        )
        assert good is not vector["wantErr"], file.name
        try:
            assert parse_tlog_proof(proof.text()) == proof or vector["wantErr"]
        except ProofRefused:
            assert vector["wantErr"], file.name


@needs_vectors
def test_every_published_consistency_vector_is_judged_as_published() -> None:
    files = sorted((VECTORS / "consistency").rglob("*.json"))
    assert len(files) == 98
    for file in files:
        vector = json.loads(file.read_text())
        good = verify_consistency(
            vector["size1"],
            vector["size2"],
            base64.b64decode(vector["root1"] or ""),
            base64.b64decode(vector["root2"] or ""),
            [base64.b64decode(node) for node in vector["proof"] or []],
        )
        assert good is not vector["wantErr"], file.name


@needs_tessera
def test_proofs_between_all_checkpoints_of_a_published_log_hold() -> None:
    tile = (TESSERA / "tile" / "0" / "000.p" / "15").read_bytes()
    leaves = [tile[at : at + 32] for at in range(0, len(tile), 32)]
    raw, entries = (TESSERA / "tile" / "entries" / "000.p" / "15").read_bytes(), []
    while raw:
        length = int.from_bytes(raw[:2], "big")
        entries.append(raw[2 : 2 + length])
        raw = raw[2 + length :]
    notes = [(TESSERA / f"checkpoint.{size}").read_text() for size in range(16)]
    key = parse_vkey(TESSERA_KEY)
    for size in range(16):
        for old in range(size + 1):
            path = tuple(consistency_path(old, size, naive(leaves)))
            assert ConsistencyProof(notes[old], notes[size], path).holds()
            if old < size:
                wrong = (*path[:-1], bytes(32)) if path else (bytes(32),)
                assert not ConsistencyProof(notes[old], notes[size], wrong).holds()
        for index in range(size):
            text = TlogProof(
                index, tuple(inclusion_path(index, size, naive(leaves))), notes[size]
            ).text()
            proof = parse_tlog_proof(text)
            assert proof.verify(entries[index], [key]).size == size
            with pytest.raises(ProofRefused):
                proof.verify(entries[index] + b"x", [key])


PATH = (bytes(32), bytes(range(32)))
NOTE = SIGNER.sign("origin\n3\nroot\n")


def test_the_proof_file_is_as_published() -> None:
    text = TlogProof(73894, PATH, NOTE, extra=b"more").text()
    assert text.split("\n")[:6] == [
        "c2sp.org/tlog-proof@v1",
        "extra bW9yZQ==",
        "index 73894",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
        "",
    ]
    assert text.endswith("\n\n" + NOTE)
    assert parse_tlog_proof(text) == TlogProof(73894, PATH, NOTE, b"more")
    assert parse_tlog_proof(TlogProof(0, (), NOTE).text()) == TlogProof(0, (), NOTE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tlog-proof@v1", "tlog-proof@v2"),
        ("index 7", "index 07"),
        ("index 7", "index +7"),
        ("index 7", "index  7"),
        ("index 7", "Index 7"),
        ("index 7\n", ""),
        ("index 7", "index 7\nindex 7"),
        ("index 7", "extra \nindex 7"),
        ("index 7", "index 7\nextra bW9yZQ=="),
        ("AAECAwQF", "AAECAw F"),
        ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "AAEC"),
        ("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", ""),
        ("\n\n", "\n"),
        ("\n", "\r\n"),
        ("Hh8=", "Hh8= "),
        ("Hh8=", "Hh8"),
        ("Hh8=", "Hh9="),
    ],
)
def test_any_other_spelling_of_a_proof_is_refused(old: str, new: str) -> None:
    text = TlogProof(7, PATH, "other\n").text()
    assert old in text
    changed = text.replace(old, new)
    try:
        assert parse_tlog_proof(changed).path != PATH
    except ProofRefused:
        return


@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
def test_reading_a_proof_refuses_and_never_breaks(text: str) -> None:
    for start in ("", "c2sp.org/tlog-proof@v1\n", "c2sp.org/tlog-proof@v1\nindex 1\n"):
        try:
            proof = parse_tlog_proof(start + text)
        except ProofRefused:
            continue
        assert proof.text() == start + text


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> SyntheticLog:
    log = SyntheticLog(tmp_path_factory.mktemp("proofs") / "log")
    log.fill(700, batch=37)
    log.seal()
    log.fill(600, batch=41)
    rebuild(log.directory)
    return log


def test_a_record_is_proved_under_every_checkpoint_that_covers_it(log: SyntheticLog) -> None:
    with Prover(log.directory) as prover:
        for size, note in log.notes.items():
            for seq in {0, size // 2, size - 1}:
                proof = parse_tlog_proof(prover.inclusion(seq, note).text())
                assert proof.verify(log.lines[seq], prover.keys).size == size
            with pytest.raises(ProofRefused, match="not among"):
                prover.inclusion(size, note)


def test_growth_is_proved_between_any_two_checkpoints(log: SyntheticLog) -> None:
    sizes = sorted(log.notes)[::4]
    with Prover(log.directory) as prover:
        for old in sizes:
            for new in sizes:
                if old <= new:
                    assert prover.consistency(log.notes[old], log.notes[new]).holds()
                else:
                    with pytest.raises(ProofRefused, match="records were removed"):
                        prover.consistency(log.notes[old], log.notes[new])


def test_another_history_is_told_apart(log: SyntheticLog, tmp_path: Path) -> None:
    fork = SyntheticLog(tmp_path / "fork")
    fork.fill(300, batch=37)
    fork.add([{"task": "another"}])
    with Prover(log.directory) as prover, pytest.raises(ProofRefused, match="one history"):
        prover.consistency(fork.note, log.note)


def test_a_checkpoint_by_somebody_else_is_refused(log: SyntheticLog) -> None:
    with Prover(log.directory) as prover:
        for signer in (Signer(SIGNER.key.name, bytes(32)), Signer("other.example", bytes(32))):
            note = signer.sign(log.note.partition("\n\n")[0] + "\n")
            with pytest.raises(NoteRefused):
                prover.inclusion(0, note)
        with pytest.raises(NoteRefused, match="is of"):
            prover.check(SIGNER.sign(f"other\n1\n{base64.b64encode(bytes(32)).decode()}\n"))


def test_no_proof_leaves_a_damaged_log(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    log.fill(400)
    path = segment_path(log.directory, 0)
    path.write_bytes(path.read_bytes().replace(b'"none"', b'"some"', 1))
    with Prover(log.directory) as prover, pytest.raises(ProofRefused, match="no proof"):
        prover.inclusion(1, log.note)
    path.write_bytes(path.read_bytes().replace(b'"seq":200,', b'"seq":201,', 1))
    with Prover(log.directory) as prover, pytest.raises(LedgerError):
        prover.inclusion(200, log.note)


def test_a_proof_needs_no_tiles(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    log.fill(300)
    with Prover(log.directory) as prover:
        assert prover.newest() == log.note
        prover.inclusion(299, log.note)
        assert not (log.directory / "tile").exists()
        assert not prover.tiles_wrong


def test_the_consistency_file_names_the_old_size_and_ends_with_the_new_note(
    log: SyntheticLog,
) -> None:
    sizes = sorted(log.notes)
    with Prover(log.directory) as prover:
        proof: Any = prover.consistency(log.notes[sizes[3]], log.note)
    assert proof.text().startswith(f"old {sizes[3]}\n")
    assert proof.text().endswith("\n\n" + log.note)
