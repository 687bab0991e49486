"""kill -9 at each step of an erasure and of a pruning: run again, it completes, recorded once."""

from __future__ import annotations

import base64
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shared.evidence.erase import erase, resume
from shared.evidence.errors import EvidenceError
from shared.evidence.keys import Group
from shared.evidence.prune import finish, is_prune, prune
from shared.evidence.retention import Retention
from shared.evidence.sealing import DataKey, Label
from shared.evidence.stores import OtherMemory, Stores, stores_in
from shared.ledger import Ledger, Status, load_commitment_key, verify_path
from shared.ledger.segment import list_segments

ORIGIN = "evidence.test"
TEXT = b"what nobody may find afterwards"
#: What the other memory still knows, one name a line.
OTHER = "other"

SCRIPT = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[5])
import test_evidence_kill as t
folder, what, step = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
steps = []
def progress(name):
    steps.append(name)
    if len(steps) == step:
        os.kill(os.getpid(), signal.SIGKILL)
t.run(folder, what, progress)
Path(sys.argv[4]).write_text("\\n".join(steps))
"""


def stores(folder: Path) -> Stores:
    def forget(owners: list[str]) -> int:
        path = folder / OTHER
        known = path.read_text().split() if path.exists() else []
        path.write_text("\n".join(name for name in known if name not in owners))
        return len(set(known) & set(owners))

    other = OtherMemory(lambda subject, _: [f"role/{subject}"], forget)
    key = load_commitment_key(folder / "keys")
    return stores_in(folder / "log", folder / "keys", key, other=other)


def ledger(folder: Path, **options: Any) -> Ledger:
    return Ledger.open(folder / "log", keys=folder / "keys", origin=ORIGIN, **options)


def run(folder: Path, what: str, progress: Any) -> dict[str, Any]:
    made = stores(folder)
    with ledger(folder) as log:
        try:
            if what == "erase":
                request = {"subject": "s0", "basis": "b", "operator": "o", "request": "R"}
                return erase(log, made, request, progress=progress)
            request = {"before": "2999-01-01", "basis": "b", "operator": "o"}
            return prune(log, made, request, progress=progress)
        finally:
            made.close()


def run_until(folder: Path, what: str, step: int, told: Path) -> int:
    """Do it in a process that kills itself at `step` (0: never); return its exit code."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            SCRIPT,
            str(folder),
            what,
            str(step),
            str(told),
            str(Path(__file__).parent),
        ],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with evidence of two subjects, in a few sealed segments."""
    folder = tmp_path_factory.mktemp("kept")
    made = stores(folder)
    made.keys.open()
    with ledger(folder, segment_bytes=3_000) as log:
        for number in range(12):
            subject = f"s{number % 2}"
            group = Group(made.subject_c(subject), "", 20_000 + number // 6, Retention())
            name = f"call_{number}"
            data = TEXT + b" %d" % number
            entry = made.store.keep(data, group, Label(name, "request", "text/plain"), 0)
            receipt = log.append("request", {"id": name, "evidence": [entry]}).result()
            log.append("outcome", {"ref": receipt.seq, "outcome": {"status": "ok"}}).result()
    made.close()
    (folder / OTHER).write_text("role/s0\nrole/s1")
    return folder


def data_keys(folder: Path) -> dict[str, list[tuple[DataKey, bytes]]]:
    made = stores(folder)
    made.keys.open()
    db = sqlite3.connect(folder / "keys" / "dek.db")
    wrapped = dict(db.execute("SELECT keyid, wrapped FROM deks").fetchall())
    db.close()
    found: dict[str, list[tuple[DataKey, bytes]]] = {}
    for item in made.keys.all():
        key = made.keys.key(item.keyid)
        assert key is not None
        found.setdefault(item.subject_c, []).append((key, wrapped[item.keyid]))
    made.close()
    return found


def grep(folder: Path, needle: bytes) -> list[Path]:
    forms = (needle, needle.hex().encode(), base64.b64encode(needle))
    return [
        path
        for path in folder.rglob("*")
        if path.is_file() and any(form in path.read_bytes() for form in forms)
    ]


def prove_erased(folder: Path, gone: list[tuple[DataKey, bytes]]) -> None:
    """The keys of s0 are nowhere on the volume, those of s1 still open; one record says so."""
    for key, wrapped in gone:
        for secret in (key.key, key.salt, wrapped):
            assert grep(folder, secret) == []
    assert grep(folder, TEXT) == []
    assert sorted(p.name for p in (folder / "keys").glob("evidence.key*")) == ["evidence.key"]
    assert not list((folder / "keys").glob("dek.db-*"))
    assert (folder / OTHER).read_text() == "role/s1"
    made = stores(folder)
    made.keys.open()
    with ledger(folder) as log:
        records = list(log.records())
        erasures = [record for record in records if record["type"] == "erase"]
        assert len(erasures) == 1
        assert sorted(erasures[0]["ext"]["keys"]) == sorted(key.keyid for key, _ in gone)
        assert len(erasures[0]["ext"]["records"]) == 6
        readable = [
            made.store.read(record, record["evidence"][0])
            for record in records
            if "evidence" in record
        ]
    made.close()
    assert readable == [None if n % 2 == 0 else TEXT + b" %d" % n for n in range(12)]
    assert len(list((folder / "log" / "evidence").rglob("*"))) >= 6
    assert verify_path(folder / "log").status is Status.OK


def test_an_erasure_that_is_killed_at_any_step_completes_when_it_is_run_again(
    kept: Path, tmp_path: Path
) -> None:
    gone = data_keys(kept)[stores(kept).subject_c("s0")]
    assert len(gone) == 2
    whole = tmp_path / "whole"
    shutil.copytree(kept, whole)
    told = tmp_path / "steps"
    assert run_until(whole, "erase", 0, told) == 0
    prove_erased(whole, gone)
    steps = told.read_text().split("\n")
    assert {"planned", "other_forgotten", "new_kek", "in_transaction", "committed"} <= set(steps)
    assert {"old_aside", "new_in_place", "old_destroyed", "swept", "recorded"} <= set(steps)
    for step, name in enumerate(steps, 1):
        folder = tmp_path / f"{step}-{name}"
        shutil.copytree(kept, folder)
        assert run_until(folder, "erase", step, told) == -signal.SIGKILL, name
        answer = run(folder, "erase", lambda _: None)
        assert answer["keys"] == 2, name
        prove_erased(folder, gone)


def test_the_next_start_ends_an_erasure_by_itself(kept: Path, tmp_path: Path) -> None:
    gone = data_keys(kept)[stores(kept).subject_c("s0")]
    for step in (1, 4, 6, 9):
        folder = tmp_path / str(step)
        shutil.copytree(kept, folder)
        assert run_until(folder, "erase", step, tmp_path / "steps") == -signal.SIGKILL
        made = stores(folder)
        with ledger(folder) as log:
            assert resume(log, made) == ["R"]
            assert resume(log, made) == []
        made.close()
        prove_erased(folder, gone)


def test_a_pruning_that_is_killed_at_any_step_completes_when_it_is_run_again(
    kept: Path, tmp_path: Path
) -> None:
    base = tmp_path / "base"
    shutil.copytree(kept, base)
    with pytest.raises(EvidenceError, match="evidence that is kept"):
        run(base, "prune", lambda _: None)
    for subject in ("s0", "s1"):
        made = stores(base)
        with ledger(base) as log:
            request = {"subject": subject, "basis": "b", "operator": "o", "request": subject}
            erase(log, made, request)
        made.close()
    before = len(list_segments(base / "log"))
    assert before > 3
    told = tmp_path / "steps"
    whole = tmp_path / "whole"
    shutil.copytree(base, whole)
    assert run_until(whole, "prune", 0, told) == 0
    steps = told.read_text().split("\n")
    assert steps[:2] == ["marked", "recorded"]
    for step, name in enumerate(steps, 1):
        folder = tmp_path / f"{step}-{name}"
        shutil.copytree(base, folder)
        assert run_until(folder, "prune", step, told) == -signal.SIGKILL
        if name == "marked":
            assert finish(folder / "log") == 0, "what was never recorded removes nothing"
            assert len(list_segments(folder / "log")) == before
            assert run(folder, "prune", lambda _: None)["segments"] > 0
        elif step % 2:
            answer = run(folder, "prune", lambda _: None)
            assert answer["segments"] == 0, "nothing new is old enough"
        else:
            finish(folder / "log")
        left = list_segments(folder / "log")
        assert len(left) < before
        with ledger(folder) as log:
            records = list(log.records())
        prunes = [r for r in records if is_prune(r)]
        assert len(prunes) == 1
        assert records[0]["seq"] == prunes[0]["ext"]["last_kept_first"]
        assert prunes[0]["ext"]["first"] == 0
        verdict = verify_path(folder / "log")
        assert verdict.status is Status.OK, verdict.findings
        assert "pruned" in {note.code for note in verdict.notes}
