"""The tree: published vectors, and every proof of small trees against the verification."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.ledger.merkle import (
    EMPTY_ROOT,
    Frontier,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    root_of,
    verify_consistency,
    verify_inclusion,
)

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "ledger"
VECTORS = DATA / "merkle" / "testdata"
TESSERA = DATA / "tessera_log" / "testdata" / "log"


def vectors(kind: str) -> list[Any]:
    files = sorted((VECTORS / kind).rglob("*.json"))
    if not files:
        return [pytest.param({}, marks=pytest.mark.skip("the published vectors are not here"))]
    return [
        pytest.param(json.loads(path.read_text()), id=str(path.relative_to(VECTORS / kind)))
        for path in files
    ]


def decode(text: str | None) -> bytes:
    return base64.b64decode(text or "")


@pytest.mark.parametrize("vector", vectors("inclusion"))
def test_inclusion_vector(vector: dict[str, Any]) -> None:
    good = verify_inclusion(
        decode(vector["leafHash"]),
        vector["leafIdx"],
        vector["treeSize"],
        [decode(node) for node in vector["proof"] or []],
        decode(vector["root"]),
    )
    assert good is not vector["wantErr"]


@pytest.mark.parametrize("vector", vectors("consistency"))
def test_consistency_vector(vector: dict[str, Any]) -> None:
    good = verify_consistency(
        vector["size1"],
        vector["size2"],
        decode(vector["root1"]),
        decode(vector["root2"]),
        [decode(node) for node in vector["proof"] or []],
    )
    assert good is not vector["wantErr"]


LEAVES = [leaf_hash(bytes([n])) for n in range(24)]


def test_every_inclusion_proof_of_small_trees_verifies_and_no_other_place_does() -> None:
    for size in range(1, len(LEAVES) + 1):
        leaves, root = LEAVES[:size], root_of(LEAVES[:size])
        for index in range(size):
            proof = inclusion_proof(leaves, index)
            for other in range(size):
                good = verify_inclusion(leaves[index], other, size, proof, root)
                assert good == (other == index)


def test_every_consistency_proof_of_small_trees_verifies_and_no_other_root_does() -> None:
    for new in range(1, len(LEAVES) + 1):
        new_root = root_of(LEAVES[:new])
        for old in range(1, new + 1):
            proof, old_root = consistency_proof(LEAVES[:new], old), root_of(LEAVES[:old])
            assert verify_consistency(old, new, old_root, new_root, proof)
            assert not verify_consistency(old, new, bytes(32), new_root, proof)
            assert not verify_consistency(old, new, old_root, bytes(32), proof)


def test_an_empty_tree_is_consistent_only_with_itself() -> None:
    assert verify_consistency(0, 0, EMPTY_ROOT, EMPTY_ROOT, [])
    assert not verify_consistency(0, 0, bytes(32), bytes(32), [])
    assert not verify_consistency(0, 3, EMPTY_ROOT, root_of(LEAVES[:3]), [])
    assert not verify_consistency(-1, -1, EMPTY_ROOT, EMPTY_ROOT, [])


def test_a_doubled_last_leaf_gives_another_root() -> None:
    assert root_of(LEAVES[:3]) != root_of([*LEAVES[:3], LEAVES[2]])


def test_leaves_and_nodes_are_told_apart() -> None:
    assert leaf_hash(LEAVES[0] + LEAVES[1]) != node_hash(LEAVES[0], LEAVES[1])


@given(st.lists(st.integers(0, 70), max_size=6))
def test_adding_in_batches_equals_adding_one_by_one(batches: list[int]) -> None:
    single, grouped, number = Frontier(), Frontier(), 0
    for count in batches:
        leaves = [leaf_hash(b"%d" % (number + n)) for n in range(count)]
        number += count
        for leaf in leaves:
            single.append(leaf)
        grouped.extend(leaves)
        assert (grouped.size, grouped.peaks()) == (single.size, single.peaks())
        assert grouped.root() == single.root()
        assert Frontier(grouped.size, grouped.peaks()).root() == single.root()


def test_a_frontier_that_does_not_fit_its_size_is_refused() -> None:
    for size, peaks in ((1, []), (3, [bytes(32)]), (1, [b"short"]), (-1, [])):
        with pytest.raises(ValueError, match=r"tree|root"):
            Frontier(size, peaks)


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=8), st.integers(-3, 40))
def test_verification_never_raises(proof: list[bytes], number: int) -> None:
    for size in (-1, 0, 1, 7, 2**60):
        verify_inclusion(bytes(32), number, size, proof, bytes(32))
        verify_consistency(number, size, bytes(32), bytes(32), proof)


@pytest.mark.skipif(not TESSERA.is_dir(), reason="the published log is not here")
def test_the_roots_of_a_published_log_come_out() -> None:
    entries: list[bytes] = []
    raw = (TESSERA / "tile" / "entries" / "000.p" / "15").read_bytes()
    while raw:
        length = int.from_bytes(raw[:2], "big")
        entries.append(raw[2 : 2 + length])
        raw = raw[2 + length :]
    for size in range(len(entries) + 1):
        lines = (TESSERA / f"checkpoint.{size}").read_text().split("\n")
        assert int(lines[1]) == size
        assert decode(lines[2]) == root_of([leaf_hash(entry) for entry in entries[:size]])
