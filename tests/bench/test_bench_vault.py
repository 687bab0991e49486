"""What the vault adds to a call whose values it knows, beside the scan of the same call."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy
from gateway.redaction.redactor import Redactor, SpanCache
from gateway.redaction.tokens import Tokenizer
from gateway.redaction.vault import Vault

pytestmark = pytest.mark.bench

#: Values in one conversation; the busiest of the recorded sessions has a tenth of it.
VALUES = 1_000


async def best(work: Callable[[], Awaitable[object]]) -> float:
    times = []
    for _ in range(7):
        began = time.process_time()
        await work()
        times.append(time.process_time() - began)
    return min(times)


async def test_a_call_with_known_values_costs_the_vault_next_to_nothing(tmp_path: Path) -> None:
    policy = load_policy()
    detector, cache = Detector(policy), SpanCache()
    texts = [f"row {i}: user{i}@corp.example asked for page {i}" for i in range(VALUES)]
    vault = Vault(tmp_path / "vault.db", tmp_path / "vault.key", environ={}, policy=policy)
    vault.open()

    async def scan() -> Redactor:
        redactor = Redactor(
            detector, Tokenizer(b"k" * 32, "r"), policy, scope="r", rules="1", cache=cache
        )
        for text in texts:
            redactor.text(text)
        return redactor

    async def keep() -> None:
        await vault.put("r", found.originals, found.marks, kinds=found.kinds)
        await vault.foreign("r", found.marks, scope="r", kinds=found.met)
        await vault.load("r")

    found = await scan()
    assert len(found.marks) == VALUES
    began = time.perf_counter()
    await keep()
    first = time.perf_counter() - began
    scanning, keeping = await best(scan), await best(keep)
    vault.close()
    table = Table("what", "ms", title=f"a call with {VALUES} values")
    table.add_row("stored the first time, durably", f"{first * 1000:.2f}")
    table.add_row("scan, all texts in the cache", f"{scanning * 1000:.3f}")
    table.add_row("vault: known, none of others, loaded", f"{keeping * 1000:.3f}")
    Console().print(table)
    assert keeping < scanning / 4
