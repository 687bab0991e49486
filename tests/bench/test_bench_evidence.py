"""What keeping evidence costs: sealing and writing a payload beside writing it plainly."""

from __future__ import annotations

import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bench_table import Row, show

from shared.evidence.erase import erase
from shared.evidence.keys import Group, KeyStore
from shared.evidence.retention import Retention
from shared.evidence.sealing import Label
from shared.evidence.store import EvidenceStore
from shared.evidence.stores import stores_in
from shared.keyfile import KeySource
from shared.ledger import Ledger, load_commitment_key
from shared.ledger.storage import Disk

ROUNDS = 150
SIZES = {"20 kB": 20_000, "1 MiB": 1 << 20}


def median_ms(times: list[float]) -> float:
    return statistics.median(times) * 1000


@pytest.mark.bench
@pytest.mark.parametrize("size", SIZES)
def test_keeping_beside_plain_writing(tmp_path: Path, size: str) -> None:
    keys = KeyStore(tmp_path / "dek.db", KeySource(tmp_path / "evidence.key"))
    keys.open()
    (tmp_path / "plain").mkdir()
    (tmp_path / "log").mkdir()
    store = EvidenceStore(tmp_path / "log", keys)
    group, disk = Group("a" * 64, "", 1, Retention()), Disk()
    data = os.urandom(SIZES[size])

    def keep(number: int) -> float:
        began = time.perf_counter()
        store.keep(data, group, Label(f"call_{number}", "request", "application/json"), 0)
        return time.perf_counter() - began

    def write(number: int) -> float:
        began = time.perf_counter()
        disk.replace(tmp_path / "plain" / str(number), data)
        return time.perf_counter() - began

    for number in range(20):
        keep(-number - 1)
    plain, kept = [], []
    for number in range(ROUNDS):
        plain.append(write(number))
        kept.append(keep(number))
    began = time.perf_counter()
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(keep, range(10_000, 10_000 + ROUNDS)))
    rate = ROUNDS / (time.perf_counter() - began)
    keys.close()
    show(
        f"keeping a payload of {size}, durable",
        [
            Row("plain write, rename and sync, p50", median_ms(plain), "ms"),
            Row("sealed and kept, p50", median_ms(kept), "ms"),
            Row("sealed beside plain", median_ms(kept) / median_ms(plain), "x", 2.0),
            Row("four threads", rate, "/s"),
        ],
    )


@pytest.mark.bench
def test_an_erasure_among_many_keys(tmp_path: Path) -> None:
    key = load_commitment_key(tmp_path / "keys")
    stores = stores_in(tmp_path / "log", tmp_path / "keys", key)
    stores.keys.open()
    with Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin="bench.test") as ledger:
        for number in range(1_000):
            group = Group(stores.subject_c(f"s{number}"), "", 1, Retention())
            label = Label(f"call_{number}", "request", "text/plain")
            entry = stores.store.keep(b"x" * 500, group, label, 0)
            ledger.append("journal", {"id": f"call_{number}", "evidence": [entry]})
        request = {"subject": "s7", "basis": "b", "operator": "o", "request": "R"}
        began = time.perf_counter()
        assert erase(ledger, stores, request)["keys"] == 1
        took = time.perf_counter() - began
    stores.close()
    show("one subject of 1,000 erased, all other keys wrapped anew", [Row("time", took, "s", 5.0)])
