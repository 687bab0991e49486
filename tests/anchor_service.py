"""A witness on a socket of this machine, in a thread of the test process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from shared.anchors.client import WitnessTarget
from shared.anchors.cosignature import Cosigner
from shared.anchors.serving import start_witness
from shared.anchors.witness import Witness
from shared.anchors.witness_store import WitnessStore
from shared.ledger.checkpoint import VerifierKey
from shared.ledger.storage import Disk

KEY = Cosigner("witness.example.org", b"w" * 32)


class Service:
    """The witness; `keys` are the logs it knows."""

    def __init__(
        self,
        directory: Path,
        keys: Mapping[str, Sequence[VerifierKey]],
        *,
        disk: Disk | None = None,
        port: int = 0,
    ) -> None:
        self.store = WitnessStore(directory, keys, disk=disk)
        self.said: list[str] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        work = start_witness(Witness(KEY, keys, self.store), "127.0.0.1", port, self.said.append)
        self._runner, self.url = asyncio.run_coroutine_threadsafe(work, self._loop).result(10)
        self.client = httpx.Client(timeout=20)

    @property
    def target(self) -> WitnessTarget:
        return WitnessTarget(self.url, KEY.key)

    def post(self, body: bytes) -> httpx.Response:
        return self.client.post(f"{self.url}/add-checkpoint", content=body)

    def close(self) -> None:
        self.client.close()
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self.store.close()
