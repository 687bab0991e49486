"""A witness that is killed in the middle of its work never cosigns two histories.

A real process is killed with SIGKILL again and again while two branches of one log ask it for
cosignatures from several threads; whatever it answered before, between and after is collected.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from anchor_fakes import ORIGIN, PaperLog

from shared.anchors.cosignature import (
    CosignerKey,
    load_cosigner,
    parse_cosigner_vkey,
    verify_cosignatures,
)
from shared.anchors.witness import format_request
from shared.anchors.witness_store import WitnessStore

KILLS = 8
LOG, FORK = PaperLog(), PaperLog(salt="other ")


class Killable:
    """The witness's process; its port stays the same over its lives."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.port, self.vkey = directory, 0, ""
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "gateway.cli", "witness", "serve"),
                *("--dir", self.directory, "--name", "w.example.org"),
                *("--log", LOG.signer.key.vkey(), "--listen", f"127.0.0.1:{self.port}"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.vkey = self.process.stdout.readline().strip()
        line = self.process.stderr.readline().strip()
        assert self.vkey, line + self.process.stderr.read()
        self.port = int(line.rpartition(":")[2])

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=30)


class Client(threading.Thread):
    """Grows one branch as far as the witness lets it, and remembers every cosignature."""

    def __init__(self, url: str, key: CosignerKey, log: PaperLog, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.url, self.key, self.log, self.stop = url, key, log, stop
        self.cosigned: list[tuple[int, bytes]] = []
        self.refused = 0

    def run(self) -> None:
        known = 3
        with httpx.Client(timeout=5) as client:
            while not self.stop.is_set():
                new = known + 1
                body = format_request(known, self.log.proof(known, new), self.log.note(new))
                try:
                    answer = client.post(self.url, content=body)
                except httpx.HTTPError:
                    time.sleep(0.01)
                    continue
                if answer.status_code == 200:
                    known = new
                    assert verify_cosignatures(self.log.note(new) + answer.text, [self.key])
                    self.cosigned.append((new, self.log.root(new)))
                elif answer.status_code == 409:
                    known = int(answer.text)
                else:
                    self.refused += 1
                    time.sleep(0.005)


def test_a_witness_killed_under_load_never_cosigns_two_histories(tmp_path: Path) -> None:
    witness = Killable(tmp_path / "w")
    url = f"http://127.0.0.1:{witness.port}/add-checkpoint"
    key = parse_cosigner_vkey(witness.vkey)
    first = httpx.post(url, content=format_request(0, [], LOG.note(3)))
    assert first.status_code == 200
    stop = threading.Event()
    clients = [Client(url, key, log, stop) for log in (LOG, FORK, LOG, FORK)]
    for client in clients:
        client.start()
    for number in range(KILLS):
        time.sleep(0.05 + 0.03 * (number % 4))
        witness.kill()
        witness.start()
    time.sleep(0.3)
    stop.set()
    for client in clients:
        client.join(30)
    witness.kill()

    roots: dict[int, set[bytes]] = {}
    for client in clients:
        for size, root in client.cosigned:
            roots.setdefault(size, set()).add(root)
    assert roots, "nothing was cosigned: the test shows nothing"
    assert all(len(found) == 1 for found in roots.values())
    branches = {client.log.salt for client in clients if client.cosigned}
    assert len(branches) == 1
    assert sum(client.refused for client in clients if client.log.salt not in branches) > 0
    # Nothing that was answered is forgotten.
    log = next(client.log for client in clients if client.cosigned)
    store = WitnessStore(tmp_path / "w", {ORIGIN: [LOG.signer.key]})
    kept = store.get(ORIGIN)
    assert kept is not None
    assert kept.size >= max(roots)
    assert kept.root == log.root(kept.size)
    store.close()
    assert load_cosigner(tmp_path / "w").key == key


@pytest.mark.parametrize("call", ["write", "fdatasync", "rename", "fsync"])
def test_a_witness_killed_at_any_system_call_of_a_store_forgets_nothing(
    tmp_path: Path, call: str
) -> None:
    """The store is killed inside its own process at each call of one kind; what a reader then
    finds is the old note or the new one, whole, and the new one if `put` had returned."""
    script = f"""
import os, sys
sys.path[:0] = {[str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]!r}
from anchor_fakes import PaperLog, ORIGIN
from pathlib import Path
from shared.anchors.witness_store import WitnessStore
from shared.ledger.checkpoint import Checkpoint
log = PaperLog()
store = WitnessStore(Path(sys.argv[1]), {{ORIGIN: [log.signer.key]}})
left = [int(sys.argv[2])]
real = os.{call}
def dying(*args, **more):
    left[0] -= 1
    if left[0] < 0:
        os._exit(9)
    return real(*args, **more)
os.{call} = dying
import shared.ledger.storage as storage
if "{call}" == "fdatasync":
    storage._fdatasync = dying
for size in range(1, 6):
    store.put(Checkpoint(ORIGIN, size, log.root(size)), log.note(size))
    sys.stdout.write(f"{{size}}\\n"); sys.stdout.flush()
"""
    for at in (0, 1, 2, 3, 4, 7, 10):
        place = tmp_path / f"{call}-{at}"
        done = subprocess.run(
            [sys.executable, "-c", script, place, str(at)],
            check=False,
            capture_output=True,
            text=True,
        )
        answered = max(map(int, done.stdout.split()), default=0)
        assert done.returncode in {0, 9}, done.stderr
        store = WitnessStore(place, {ORIGIN: [LOG.signer.key]})
        kept = store.get(ORIGIN)
        size = kept.size if kept is not None else 0
        store.close()
        assert size in {answered, answered + 1}
        assert kept is None or kept.root == LOG.root(size)
