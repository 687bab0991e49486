"""How long a proof takes, beside the naive way over the same leaves in the same run.

The tree of a million records is built from made-up leaves: a proof reads tiles, not records, but
for the last few, which are real. Nothing here is asserted against a clock.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from bench_table import Row, show
from synthetic_log import ORIGIN, SIGNER, SyntheticLog, task_records

from shared.ledger.bundle import verify_bundle
from shared.ledger.bundle_make import Selection, make_bundle, write_bundle
from shared.ledger.checkpoint import Checkpoint, checkpoint_line
from shared.ledger.merkle import Frontier, inclusion_proof, leaf_hash, node_hash
from shared.ledger.proofs import Prover
from shared.ledger.record import encode
from shared.ledger.segment import LOG_JSON, SCHEMA, segment_path
from shared.ledger.texts import keep_text
from shared.ledger.tiles import TileWriter, rebuild

pytestmark = pytest.mark.bench

MILLION = 1_000_000
#: Records that are really there: all that no full tile holds.
REAL = MILLION % 256
PROOFS = 200
#: contracts/ledger.md section 4.
PROOF_BAR_MS = 20.0
BUNDLE_BAR_S = 1.0


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def made_up(seq: int) -> bytes:
    """Return the line of a record: any bytes, but for those that are really in the segment."""
    return encode({"seq": seq, "type": "journal"})


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[bytes], dict[int, str]]:
    directory = tmp_path_factory.mktemp("million") / "log"
    leaves = [leaf_hash(made_up(seq)) for seq in range(MILLION)]
    notes, frontier = {}, Frontier()
    for size in (1000, 123_457, 999_900, MILLION):
        frontier.extend(leaves[frontier.size : size])
        notes[size] = SIGNER.sign(Checkpoint(ORIGIN, size, frontier.root()).text())
    path = segment_path(directory, 0)
    path.parent.mkdir(parents=True)
    path.touch()
    TileWriter(directory).add(0, b"".join(leaves))
    path = path.rename(segment_path(directory, MILLION - REAL))
    lines = [made_up(seq) for seq in range(MILLION - REAL, MILLION)]
    path.write_bytes(b"\n".join([*lines, checkpoint_line(notes[MILLION]), b""]))
    vkey = SIGNER.key.vkey()
    identity = {"created": 0, "origin": ORIGIN, "schema": SCHEMA, "segment_key": vkey}
    (directory / LOG_JSON).write_bytes(encode({**identity, "vkeys": [vkey]}))
    return directory, leaves, notes


def test_proofs_at_a_million_records(
    million: tuple[Path, list[bytes], dict[int, str]],
) -> None:
    directory, leaves, notes = million
    note, chance = notes[MILLION], random.Random(1)

    def prove(seq: int) -> None:
        with Prover(directory) as prover:  # everything from the beginning, as a command does
            prover.inclusion(seq, note, made_up(seq)).text()
            assert not prover.tiles_wrong

    def grow(old: int) -> None:
        with Prover(directory) as prover:
            prover.consistency(notes[old], note).text()
            assert not prover.tiles_wrong

    gc.freeze()  # a million leaves in this process are no part of a proof
    seqs = [chance.randrange(MILLION) for _ in range(PROOFS)] + [0, MILLION - 1, MILLION - REAL]
    times = sorted(seconds(partial(prove, seq)) * 1000 for seq in seqs)
    growth = max(seconds(partial(grow, old)) * 1000 for old in notes if old < MILLION)
    naive = seconds(lambda: inclusion_proof(leaves, seqs[0])) * 1000
    with Prover(directory) as prover:
        kept = seconds(lambda: [prover.inclusion(seq, note, made_up(seq)) for seq in seqs])
    hashing = seconds(lambda: [node_hash(leaves[0], leaves[1]) for _ in range(256)]) * 1000
    beside = (
        f"{naive / times[len(times) // 2]:,.0f} times faster than the naive proof ({naive:,.0f} ms)"
    )
    show(
        "proofs at 1,000,000 records, verified, from opening the log to the file",
        [
            Row("inclusion, p50", times[len(times) // 2], "ms", PROOF_BAR_MS, beside=beside),
            Row("inclusion, p99", times[int(len(times) * 0.99)], "ms", PROOF_BAR_MS),
            Row("inclusion, log held open", kept / len(seqs) * 1000, "ms"),
            Row("consistency, slowest", growth, "ms", PROOF_BAR_MS),
            Row("one tile hashed", hashing, "ms"),
        ],
    )


def test_a_bundle_of_a_task_of_a_hundred_records(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    digest = keep_text(log.directory, b"[policy]\n")
    log.add([{"type": "policy_set", "policy": {"digest": digest}}])
    for block in range(50):
        log.add(task_records("T3", 2, first=log.frontier.size, digest=digest))
        for other in range(31):
            task = f"T{100 + block}-{other}"
            log.add(task_records(task, 64, first=log.frontier.size, digest=digest))
        log.seal() if block % 20 == 19 else None
    records = log.frontier.size
    path = tmp_path / "bundle.zip"

    def make() -> None:
        write_bundle(path, make_bundle([log.directory], Selection(tasks=("T3",))))

    without = seconds(make)
    tiles = seconds(lambda: rebuild(log.directory))
    best = min(seconds(make) for _ in range(3))
    verdict = verify_bundle(path, vkeys=[SIGNER.key.vkey()])
    assert not verdict.findings
    checking = seconds(lambda: verify_bundle(path, vkeys=[SIGNER.key.vkey()]))
    size = path.stat().st_size // 1024
    show(
        f"a bundle of a 100-record task in a log of {records:,} records",
        [
            Row("bundle", best, "s", BUNDLE_BAR_S, beside=f"{size} KiB"),
            Row("bundle without tiles", without, "s", beside="every record hashed"),
            Row("verification", checking, "s"),
            Row("tiles made anew", tiles, "s", beside=f"{records / tiles:,.0f} records/s"),
        ],
    )
