"""The package's verifier and the single file agree: what records say, keys, files, and any bytes.

One table of cases runs through both. The single file names the first damage to the lines of a log
and looks no further; `verify` in test_ledger_attacks.py is how far the two may differ."""

from __future__ import annotations

import ast
import base64
import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
import tokenize
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_log import SyntheticLog
from test_ledger_attacks import (
    ORIGIN,
    Held,
    QuickDisk,
    by_package,
    by_single_file,
    edit_lines,
    is_record,
    lines_of,
    open_log,
    rewrite,
    verify,
    write,
)
from test_ledger_verify_after import Pruned

from shared.anchors.cosignature import Cosigner
from shared.ledger import Ledger, ledger_verify, verify_path
from shared.ledger.bundle import manifest_bytes, pack
from shared.ledger.bundle_make import Selection, make_bundle, write_bundle
from shared.ledger.checkpoint import Signer, load_signer
from shared.ledger.log import _Entry
from shared.ledger.merkle import Frontier
from shared.ledger.record import TYPE_NAMES, encode
from shared.ledger.repair import opened
from shared.ledger.segment import list_segments, seal_path
from shared.ledger.texts import keep_text

SINGLE = Path(ledger_verify.__file__)
DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "ledger"
MINUTE_US = 60_000_000
Records = list[tuple[str, dict[str, Any]]]


# -- the file itself -------------------------------------------------------------------------------


def test_the_single_file_needs_nothing_but_the_standard_library() -> None:
    tree = ast.parse(SINGLE.read_text(), feature_version=(3, 9))
    names = {
        (alias.name if isinstance(node, ast.Import) else node.module or "").split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert names - set(sys.stdlib_module_names) == {"cryptography"}
    assert not [line for line in SINGLE.read_text().split("\n") if len(line) > 100]


def test_the_single_file_can_be_read_in_an_hour() -> None:
    """At most 500 lines of code: what is not blank, a comment or a docstring."""
    source, code = SINGLE.read_text(), set[int]()
    nothing = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in (*nothing, tokenize.ENDMARKER):
            code |= {*range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(source)):
        has = isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef)
        if has and ast.get_docstring(node, clean=False) is not None:
            code -= {*range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}
    assert len(code) <= 500


def test_both_know_the_same_record_types() -> None:
    assert ledger_verify.TYPES == TYPE_NAMES


def test_it_runs_by_itself_with_the_exit_codes_of_the_format(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        write(ledger, 3)
        (tmp_path / "vkey").write_text(ledger.vkey)
    shutil.copy(SINGLE, tmp_path / "ledger_verify.py")

    def run(*arguments: str) -> int:
        command = [sys.executable, "-I", "-S", str(tmp_path / "ledger_verify.py"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        assert "Traceback" not in done.stderr
        return done.returncode

    assert run("log", "--vkey", (tmp_path / "vkey").read_text()) == 0
    assert run("nothing") == 3
    assert run("log", "--vkey", "x") == 3
    assert run() == 3
    (tmp_path / "log" / "HEAD").unlink()
    assert run("log") == 2
    edit_lines(tmp_path / "log", lambda lines: [line.replace(b"T1", b"T2") for line in lines])
    assert run("log") == 1


def test_a_call_that_lacks_something_is_no_verdict(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        ledger.append("journal", {"task": "t"}).result(10)
    log, bundle = str(tmp_path / "log"), str(tmp_path / "t.zip")
    write_bundle(Path(bundle), make_bundle([tmp_path / "log"], Selection(tasks=("t",))))
    for call in (
        [log, "--tsr", "x.tsr"],
        [log, "--cosignature", "x"],
        [log, "--witness", "w"],
        [log, "--log-id", "no hex"],
        [bundle, "--prior", "x"],
        [bundle, "--receipt", "a;1;2;b;c"],
        [bundle, "--log-id", "00" * 32],
    ):
        with pytest.raises(SystemExit) as stopped:
            ledger_verify.main(call)
        assert stopped.value.code == 3, call


def test_the_text_says_how_many_records_of_a_bundle_were_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_log(tmp_path) as ledger:
        ledger.append("journal", {"task": "t"}).result(10)
    bundle = tmp_path / "t.zip"
    write_bundle(bundle, make_bundle([tmp_path / "log"], Selection(tasks=("t",))))
    assert ledger_verify.main([str(bundle)]) == 0
    assert capsys.readouterr().out.startswith("ok: 2 records read")


# -- vectors ---------------------------------------------------------------------------------------


def vector_files(pattern: str) -> list[Path]:
    files = sorted(DATA.glob(pattern))
    if not files:
        pytest.skip("the published vectors are not here")
    return files


def test_every_published_inclusion_proof_is_judged_rightly() -> None:
    for path in vector_files("merkle/testdata/inclusion/**/*.json"):
        vector = json.loads(path.read_text())
        leaf, root, *proof = (
            base64.b64decode(text or "")
            for text in [vector["leafHash"], vector["root"], *(vector["proof"] or [])]
        )
        try:
            found = ledger_verify.root_from(leaf, vector["leafIdx"], vector["treeSize"], proof)
            good = found == root and len(leaf) == 32 and all(len(node) == 32 for node in proof)
        except ValueError:
            good = False
        assert good is not vector["wantErr"], path


@pytest.mark.parametrize("fast", [True, False])
def test_every_published_note_is_judged_rightly(
    fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fast:
        monkeypatch.setattr(ledger_verify, "FastKey", None)
    for path in vector_files("note/*.json"):
        for vector in json.loads(path.read_text()):
            keys = ledger_verify.vkeys_in([vector["vkey"]])
            assert bool(ledger_verify.signed_text(vector["note"], keys)) is vector["ok"]


def test_every_checkpoint_of_a_published_log_is_good() -> None:
    folder = DATA / "tessera_log" / "testdata" / "log"
    vkey = "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx"
    notes = [path for path in folder.rglob("checkpoint*") if path.is_file()]
    if not notes:
        pytest.skip("the published log is not here")
    tiles = sorted(folder.glob("tile/0/000.p/*"), key=lambda path: int(path.name))
    leaves = tiles[-1].read_bytes() if tiles else b""
    for path in notes:
        note = path.read_text()
        assert ledger_verify.signed_text(note, ledger_verify.vkeys_in([vkey]))
        _, size, root = ledger_verify.checkpoint_in(note)
        if 32 * size <= len(leaves):
            hashes = [leaves[32 * n : 32 * n + 32] for n in range(size)]
            assert ledger_verify.root_of(ledger_verify.grow(0, [], hashes)) == root


@settings(max_examples=40, deadline=None)
@given(seed=st.binary(min_size=32, max_size=32), text=st.binary(max_size=80), bit=st.integers(0))
def test_the_small_ed25519_agrees_with_the_large_one(seed: bytes, text: bytes, bit: int) -> None:
    signer = Signer(ORIGIN, seed)
    signature = signer._private.sign(text)
    assert ledger_verify.verifies(signer.key.public, text, signature)
    changed = bytearray(signature)
    changed[bit // 8 % 64] ^= 1 << bit % 8
    assert not ledger_verify.verifies(signer.key.public, text, bytes(changed))


@given(sizes=st.lists(st.integers(0, 40), max_size=8))
def test_the_small_tree_agrees_with_the_large_one(sizes: list[int]) -> None:
    frontier, peaks = Frontier(), []
    for size in sizes:
        leaves = [os.urandom(32) for _ in range(size)]
        peaks = ledger_verify.grow(frontier.size, peaks, leaves)
        frontier.extend(leaves)
        assert tuple(peaks) == frontier.peaks()
        assert ledger_verify.root_of(peaks) == frontier.root()


# -- what records say ------------------------------------------------------------------------------

REQUEST = ("request", {"policy": {"digest": "D", "decision": "allow"}})
OPEN = ("gate_open", {"run": "r", "gate": {"id": "G1"}, "action": {"args_c": "a"}})
TOLD: dict[str, tuple[Records, int, set[str], set[str]]] = {
    "an answered request under a known policy": (
        [("policy_set", {"policy": {"digest": "D"}}), REQUEST, ("outcome", {"ref": 2})],
        0,
        set(),
        set(),
    ),
    "a request without an outcome": ([("request", {})], 2, {"request_unanswered"}, set()),
    "an outcome of nothing": ([("outcome", {})], 1, {"outcome_unpaired"}, set()),
    "an outcome of another record": (
        [("journal", {}), ("outcome", {"ref": 1})],
        1,
        {"outcome_unpaired"},
        set(),
    ),
    "a second outcome": (
        [("request", {}), ("outcome", {"ref": 1}), ("outcome", {"ref": 1})],
        1,
        {"outcome_unpaired"},
        set(),
    ),
    "a decision under an unknown policy": (
        [REQUEST, ("outcome", {"ref": 1})],
        1,
        {"policy_unknown"},
        set(),
    ),
    "a refusal under an unknown policy": (
        [("deny", {"policy": {"digest": "E", "decision": "deny"}})],
        1,
        {"policy_unknown"},
        set(),
    ),
    "a gate opened and approved": (
        [
            OPEN,
            ("gate_decision", {"run": "r", "gate": {"id": "G1", "state": "approved"}}),
            ("journal", {"run": "r", "gate": {"id": "G1", "state": "approved"}}),
        ],
        0,
        set(),
        set(),
    ),
    "a gate that was never opened": (
        [("gate_decision", {"run": "r", "gate": {"id": "G1", "state": "approved"}})],
        1,
        {"gate_unopened"},
        set(),
    ),
    "a gate of another session": (
        [OPEN, ("gate_decision", {"run": "s", "gate": {"id": "G1", "state": "approved"}})],
        1,
        {"gate_unopened"},
        set(),
    ),
    "a gate decided twice": (
        [OPEN, *[("gate_decision", {"run": "r", "gate": {"id": "G1", "state": "rejected"}})] * 2],
        1,
        {"gate_decided_twice"},
        set(),
    ),
    "an approval of something else": (
        [
            OPEN,
            (
                "gate_decision",
                {"run": "r", "gate": {"id": "G1", "state": "approved"}, "action": {"args_c": "b"}},
            ),
        ],
        1,
        {"gate_changed"},
        set(),
    ),
    "an action before its gate is decided": (
        [OPEN, ("request", {"run": "r", "gate": {"id": "G1"}}), ("outcome", {"ref": 2})],
        1,
        {"gate_not_approved"},
        set(),
    ),
    "an action behind a rejected gate": (
        [
            OPEN,
            ("gate_decision", {"run": "r", "gate": {"id": "G1", "state": "rejected"}}),
            ("journal", {"run": "r", "gate": {"id": "G1", "state": "approved"}}),
        ],
        1,
        {"gate_not_approved"},
        set(),
    ),
    "a start without a stop": (
        [("start", {}), ("start", {}), ("stop", {}), ("start", {})],
        0,
        set(),
        {"unclean_stop"},
    ),
    "odd shapes where objects are expected": (
        [("journal", {"ext": {"every_us": True}}), ("recover", {}), ("erase", {"ext": {}})],
        0,
        set(),
        set(),
    ),
}


@pytest.mark.parametrize("case", TOLD)
def test_what_records_say(tmp_path: Path, case: str) -> None:
    records, code, found, notes = TOLD[case]
    with open_log(tmp_path) as ledger:
        text = keep_text(tmp_path / "log", b"the policy", disk=QuickDisk())
        for kind, fields in records:
            plain = json.loads(json.dumps(fields).replace('"D"', f'"{text}"'))
            ledger._commit([_Entry(kind, plain)])
    said = verify(tmp_path / "log")
    assert (said.code, said.found, said.notes) == (code, found, notes)


def test_kept_texts_are_compared(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        digest = keep_text(tmp_path / "log", b"policy", disk=QuickDisk())
        ledger.append("policy_set", {"policy": {"digest": digest}}).result(10)
        ledger.append("config_set", {"ext": {"digest": digest}}).result(10)
    assert verify(tmp_path / "log").code == 0
    text = tmp_path / "log" / "texts" / digest
    text.chmod(0o600)
    text.write_bytes(b"another policy")
    said = verify(tmp_path / "log")
    assert (said.code, said.found) == (1, {"text_changed"})
    text.unlink()
    said = verify(tmp_path / "log")
    assert (said.code, said.found) == (2, {"text_missing"})


def test_a_silence_between_heartbeats_is_a_note(tmp_path: Path) -> None:
    now = [2_000_000_000_000_000]
    with Ledger.open(
        tmp_path / "log",
        keys=tmp_path / "keys",
        origin=ORIGIN,
        disk=QuickDisk(),
        clock=lambda: (now[0], now[0] - 10**15),
    ) as ledger:
        for pause in (1, 3, 9):
            now[0] += pause * MINUTE_US
            ledger._commit([_Entry("heartbeat", {"ext": {"every_us": MINUTE_US}})])
        for kind in ("stop", "start"):
            now[0] += 30 * MINUTE_US * (kind == "start")
            ledger._commit([_Entry(kind, {})])
    said = verify(tmp_path / "log")
    assert (said.code, said.found, said.notes) == (0, set(), {"silence"})


# -- keys ------------------------------------------------------------------------------------------


def test_a_rotated_key_is_followed_from_any_key_of_the_chain(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        write(ledger, 4)
        vkeys = [ledger.vkey]
        for _ in range(2):
            ledger.rotate_key()
            write(ledger, 12)
            vkeys.append(ledger.vkey)
    for vkey in vkeys:
        assert verify(tmp_path / "log", Held((vkey,))).code == 0
    said = verify(tmp_path / "log", Held((Signer(ORIGIN, bytes(32)).key.vkey(),)))
    assert (said.code, said.found) == (1, {"key_unknown"})


@pytest.mark.parametrize("fast", [True, False])
def test_a_log_that_only_a_stranger_signed_is_refused_also_without_a_head(
    tmp_path: Path, fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fast:
        monkeypatch.setattr(ledger_verify, "FastKey", None)
    with open_log(tmp_path, segment_bytes=1 << 20) as ledger:
        write(ledger, 2)
    rewrite(tmp_path / "log", lambda record: record, Signer(ORIGIN, bytes(32)))
    assert "checkpoint_signature" in verify(tmp_path / "log").found
    (tmp_path / "log" / "HEAD").unlink()
    assert "checkpoint_signature" in verify(tmp_path / "log").found
    edit_lines(tmp_path / "log", lambda lines: [*map(unsigned, lines)])
    assert verify(tmp_path / "log").code == 1


def unsigned(line: bytes) -> bytes:
    """A checkpoint line whose note has no signature."""
    return line if is_record(line) else line[: line.index(b"\\n\\n") + 4] + b'"}\n'


def test_a_rotation_that_the_old_key_did_not_sign_is_refused(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_bytes=1 << 20) as ledger:
        write(ledger, 2)
        thief = Signer(ORIGIN, bytes(32))
        seq = ledger.size
        text = f"{ORIGIN}/key-rotate\n{seq}\n{thief.key.vkey()}\n"
        ext = {"old": ledger.vkey, "new": thief.key.vkey(), "note": thief.sign(text)}
        ledger._commit([_Entry("key_rotate", {"ext": ext})])
        write(ledger, 2)
    said = verify(tmp_path / "log")
    assert said.code == 1
    assert "key_rotation_bad" in said.found


def test_a_pruned_log_is_reached_from_every_key_it_ever_had(tmp_path: Path) -> None:
    pruned = Pruned(tmp_path, 2)
    priors = (tmp_path / "prior1", tmp_path / "prior0")
    bundle = tmp_path / "t.zip"
    write_bundle(bundle, make_bundle([pruned.log], Selection(tasks=("t",))))
    for vkey in pruned.vkeys:
        held = Held((vkey,), priors=priors, receipts=tuple(pruned.receipts))
        assert verify(pruned.log, held).code == 0
        assert by_single_file(pruned.log, held).notes == {"pruned", "not_comparable"}
        assert ledger_verify.main([str(bundle), "--vkey", vkey]) == 0
    stranger = Signer(pruned.vkeys[0].split("+")[0], bytes(32)).key.vkey()
    assert verify(pruned.log, Held((stranger,))).found == {"key_unknown"}


# -- files -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("agree")
    with open_log(home) as ledger:
        write(ledger, 16)
    return home


@pytest.fixture
def log(tmp_path: Path, template: Path) -> Path:
    for part in ("log", "keys"):
        shutil.copytree(template / part, tmp_path / part)
    for path in (tmp_path / "log" / "segments").iterdir():
        path.chmod(0o600)
    return tmp_path / "log"


def drop(name: str) -> Callable[[Path], object]:
    return lambda log: next(iter(sorted(log.glob(name)))).unlink()


def damage(name: str, old: bytes, new: bytes) -> Callable[[Path], object]:
    def change(log: Path) -> None:
        path = next(iter(sorted(log.glob(name))))
        data = path.read_bytes()
        assert old in data
        path.write_bytes(data.replace(old, new, 1))

    return change


def in_last(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[Path], object]:
    return lambda log: edit_lines(log, change, -1)


def swap_checkpoint(lines: list[bytes]) -> list[bytes]:
    marks = [index for index, line in enumerate(lines) if not is_record(line)]
    changed = list(lines)
    changed[marks[0]], changed[marks[1]] = lines[marks[1]], lines[marks[0]]
    return changed


DAMAGE: dict[str, tuple[Callable[[Path], object], int]] = {
    "nothing": (lambda log: None, 0),
    "no HEAD": (drop("HEAD"), 2),
    "no log.json": (drop("log.json"), 2),
    "no first segment": (drop("segments/*.jsonl"), 2),
    "no seal": (drop("segments/*.seal"), 2),
    "no segments": (lambda log: shutil.rmtree(log / "segments"), 2),
    "log.json of another log": (damage("log.json", b"attacked", b"elsewher"), 1),
    "log.json with another time": (damage("log.json", b'"created":', b'"created":1'), 1),
    "log.json of another schema": (damage("log.json", b'"schema":2', b'"schema":3'), 1),
    "log.json that is no JSON": (lambda log: (log / "log.json").write_text("{"), 1),
    "a HEAD for more": (damage("HEAD", b"\n3", b"\n93"), 1),
    "a HEAD that is no note": (lambda log: (log / "HEAD").write_text("HEAD"), 1),
    "a changed seal": (damage("segments/*.seal", b"ts 1", b"ts 2"), 1),
    "a seal without the segment's line": (
        lambda log: [
            path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
            for path in log.glob("segments/*.seal")
        ],
        1,
    ),
    "a seal of another segment": (
        lambda log: shutil.copy(
            sorted(log.glob("segments/*.seal"))[0], seal_path(list_segments(log)[1])
        ),
        1,
    ),
    "a record removed": (in_last(lambda lines: lines[1:]), 1),
    "a record twice": (in_last(lambda lines: [lines[0], *lines]), 1),
    "records swapped": (in_last(lambda lines: [lines[2], lines[1], lines[0], *lines[3:]]), 1),
    "a byte of a record": (
        in_last(lambda lines: [lines[0].replace(b'"boot":"', b'"boot":"x'), *lines[1:]]),
        1,
    ),
    "a space in a record": (
        in_last(lambda lines: [lines[0].replace(b":", b": ", 1), *lines[1:]]),
        1,
    ),
    "a name twice in a record": (
        in_last(lambda lines: [lines[0].replace(b'"v":1', b'"v":1,"v":1'), *lines[1:]]),
        1,
    ),
    "a type that is no text": (
        in_last(lambda lines: [re.sub(rb'"type":"[a-z]+"', b'"type":{}', lines[0]), *lines[1:]]),
        1,
    ),
    "another version": (
        in_last(lambda lines: [lines[0].replace(b'"v":1', b'"v":2'), *lines[1:]]),
        1,
    ),
    "bytes that are no text": (
        in_last(lambda lines: [lines[0].replace(b'"boot":"', b'"boot":"\xff'), *lines[1:]]),
        1,
    ),
    "the last record changed": (
        in_last(lambda lines: [*lines[:-2], lines[-2].replace(b'"mono":', b'"mono":1'), lines[-1]]),
        1,
    ),
    "a checkpoint removed": (in_last(lambda lines: [lines[0], *lines[2:]]), 0),
    "checkpoints swapped": (in_last(swap_checkpoint), 1),
    "a signature changed": (
        in_last(lambda lines: [lines[0], lines[1][:-9] + b"AAAA" + lines[1][-5:], *lines[2:]]),
        1,
    ),
    "the last checkpoint removed": (in_last(lambda lines: lines[:-1]), 2),
    "a line break added": (
        in_last(lambda lines: [lines[0][:9] + b"\n" + lines[0][9:], *lines[1:]]),
        1,
    ),
    "a line break removed": (in_last(lambda lines: [lines[0][:-1], *lines[1:]]), 1),
    "the last line break removed": (in_last(lambda lines: [*lines[:-1], lines[-1][:-1]]), 1),
    "a torn end": (
        lambda log: [(log / "HEAD").unlink(), in_last(lambda ls: [*ls[:-2], ls[-2][:20]])(log)],
        2,
    ),
    "an anchor of another history": (
        lambda log: [
            (log / "anchors").mkdir(exist_ok=True),
            (log / "anchors" / "3.checkpoint").write_text(
                load_signer(log.parent / "keys", ORIGIN, create=False).sign(
                    f"{ORIGIN}\n3\n{'A' * 43}=\n"
                )
            ),
        ],
        1,
    ),
    "an anchor that is no note": (
        lambda log: [
            (log / "anchors").mkdir(exist_ok=True),
            (log / "anchors" / "3.checkpoint").write_text(""),
        ],
        1,
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damage(log: Path, case: str) -> None:
    change, code = DAMAGE[case]
    change(log)
    assert verify(log).code == code


@pytest.mark.parametrize("name", ["HEAD", "log.json", "segments/*.seal"])
def test_a_directory_where_a_file_was_is_a_change_and_no_wrong_call(log: Path, name: str) -> None:
    path = sorted(log.glob(name))[0]
    path.unlink()
    path.mkdir()
    assert verify(log).code == 1


def test_a_directory_where_a_text_was_is_a_missing_text(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        digest = keep_text(tmp_path / "log", b"policy", disk=QuickDisk())
        ledger.append("policy_set", {"policy": {"digest": digest}}).result(10)
    (tmp_path / "log" / "texts" / digest).unlink()
    (tmp_path / "log" / "texts" / digest).mkdir()
    assert verify(tmp_path / "log").found == {"text_missing"}


@pytest.mark.parametrize("step", [1, 2, 333, 1000])
def test_where_the_work_is_divided_makes_no_difference(
    log: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_verify, "STEP", step)
    assert verify(log).code == 0
    path = list_segments(log)[-1]
    data, chance = path.read_bytes(), random.Random(step)
    for added in (b"\n", b"x" * 2000 + b"\n", b"~"):
        at = chance.choice([0, *[n + 1 for n, byte in enumerate(data[:-1]) if byte == 10]])
        path.write_bytes(data[:at] + added + data[at:])
        assert verify(log).code == 1
    path.write_bytes(data[: data.rindex(b"\n", 0, -1) + 1 + 20])
    assert verify(log).code == 2


def test_two_processors_give_the_same_answers(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_verify, "LARGE", 0)
    monkeypatch.setattr(ledger_verify, "STEP", 500)
    assert verify(log).code == 0
    in_last(lambda lines: [line.replace(b'"task":"T1"', b'"task":"T2"') for line in lines])(log)
    assert verify(log).code == 1
    list_segments(log)[0].unlink()
    assert verify(log).code in (1, 2)


SIGNED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "another version": lambda record: record | {"v": 2},
    "a type nobody knows": lambda record: record | {"type": "other"},
    "a time of the past": lambda record: record | {"ts": 5},
    "a fraction": lambda record: record | {"ext": {"n": 1.5}},
    "a fraction in a list": lambda record: record | {"ext": {"n": [2, 0.25]}},
    "an exponent": lambda record: record | {"ext": {"n": 1e22}},
    "a number of 2^53": lambda record: record | {"ext": {"n": 1 << 53}},
    "a nested number of 2^53": lambda record: record | {"ext": {"n": [{"m": -(1 << 53)}]}},
}
#: The single file leaves these to the package, as FORMAT.md says.
FORM = {"a number of 2^53", "a nested number of 2^53"}


@pytest.mark.parametrize("case", SIGNED)
def test_what_even_the_key_of_the_log_must_not_sign(
    tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_log(tmp_path, segment_bytes=1 << 20) as ledger:
        write(ledger, 4)
    edit = SIGNED[case]
    signer = load_signer(tmp_path / "keys", ORIGIN, create=False)

    def change(record: dict[str, Any]) -> dict[str, Any]:
        return edit(record) if record["seq"] == 3 else record

    def dumps(record: dict[str, Any]) -> bytes:
        return json.dumps(record, sort_keys=True, separators=(",", ":")).encode()

    import test_ledger_attacks

    whole = test_ledger_attacks.encode
    test_ledger_attacks.encode = dumps  # type: ignore[assignment]
    try:
        rewrite(tmp_path / "log", change, signer)
    finally:
        test_ledger_attacks.encode = whole
    if case not in FORM:
        assert by_single_file(tmp_path / "log", Held()).code == 1
    assert by_package(tmp_path / "log", Held()).code == 1
    monkeypatch.setattr("shared.ledger.verify.HELPED_BYTES", 0)
    assert by_package(tmp_path / "log", Held()).code == 1


# -- anything at all -------------------------------------------------------------------------------


def test_a_flipped_bit_before_the_last_commit_is_always_found(log: Path) -> None:
    path = list_segments(log)[-1]
    data, chance = path.read_bytes(), random.Random(7)
    end = data.rindex(b'{"cp"', 0, data.rindex(b'{"cp"')) if data.count(b'{"cp"') > 1 else len(data)
    end = data.index(b"\n", end)
    for _ in range(60):
        changed = bytearray(data)
        changed[chance.randrange(end)] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        assert verify(log).code == 1


def test_a_flipped_bit_in_the_last_commit_is_always_found_with_a_receipt(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_bytes=1 << 20) as ledger:
        receipt = write(ledger, 3)[-1]
    log = tmp_path / "log"
    (log / "HEAD").unlink()
    path = list_segments(log)[-1]
    data, chance = path.read_bytes(), random.Random(8)
    start = data.rindex(b"\n", 0, data.rindex(b'{"cp"') - 1)
    for _ in range(60):
        changed = bytearray(data)
        changed[chance.randrange(start, len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        assert verify(log, Held(receipts=(receipt,))).code == 1


pieces = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            b"\n",
            b'{"cp":"',
            b'"}',
            b'{"v":1,"seq":0,"prev":"',
            b"\xe2\x80\x94 ",
            b"[" * 2000,
            b"\n\n",
            b"1e9",
        ]
    ),
)
content = st.lists(pieces, max_size=12).map(b"".join)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_neither_raises_on_arbitrary_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    log = tmp_path_factory.mktemp("any") / "log"
    (log / "segments").mkdir(parents=True)
    (log / "anchors").mkdir()
    names = ["log.json", "HEAD", "LOCK", "anchors/3.checkpoint", f"segments/{0:020d}.seal"]
    names += [f"segments/{0:020d}.jsonl", f"segments/{7:020d}.jsonl"]
    for name in data.draw(st.sets(st.sampled_from(names), min_size=1)):
        (log / name).write_bytes(data.draw(content))
    # Of what was never a log, the findings may differ; that it is none may not.
    assert (by_single_file(log, Held()).code == 0) is (by_package(log, Held()).code == 0)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(content=content)
def test_neither_raises_on_a_file_of_any_bytes(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("file") / "bundle.zip"
    path.write_bytes(b"PK\x03\x04" + content)
    assert verify_path(path).exit_code == 3
    assert ledger_verify.main([str(path)]) == 3


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    edits=st.lists(
        st.tuples(st.sampled_from("dsrc"), st.integers(0, 10_000), st.integers(0, 10_000)),
        min_size=1,
        max_size=4,
    )
)
def test_any_mix_of_edits_gets_the_same_answer(
    tmp_path_factory: pytest.TempPathFactory, template: Path, edits: list[tuple[str, int, int]]
) -> None:
    log = tmp_path_factory.mktemp("edit") / "log"
    shutil.copytree(template / "log", log)
    path = list_segments(log)[0]
    path.chmod(0o600)
    seal_path(path).unlink()
    changed = lines_of(path)
    for kind, first, second in edits:
        a, b = first % len(changed), second % len(changed)
        if kind == "d" and len(changed) > 1:
            del changed[a]
        elif kind == "s":
            changed[a], changed[b] = changed[b], changed[a]
        elif kind == "r":
            changed.insert(a, changed[b])
        elif kind == "c":
            at = second % len(changed[a])
            changed[a] = changed[a][:at] + b"~" + changed[a][at + 1 :]
    path.write_bytes(b"".join(changed))
    first_said = verify_path(log).exit_code
    assert ledger_verify.main([str(log), "--json"]) == first_said


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(max_codepoint=127), max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(
    ext=st.dictionaries(st.text(st.characters(max_codepoint=127), max_size=8), plain, max_size=5)
)
def test_stored_bytes_are_the_canonical_json_of_rfc_8785(ext: dict[str, Any]) -> None:
    record = {"v": 1, "seq": 1, "prev": "0" * 64, "ts": 2, "type": "journal", "ext": ext}
    line = encode(record)
    assert line == rfc8785.dumps(record)
    assert ledger_verify.record_in(line) == record


def test_an_accepted_loss_explains_what_is_held_of_it(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_bytes=1 << 20) as ledger:
        write(ledger, 2)
        before = write(ledger, 1)
        write(ledger, 1)
        held = write(ledger, 1)
    log = tmp_path / "log"
    edit_lines(
        log,
        lambda lines: [*lines[:-6], lines[-6].replace(b'"boot":"', b'"boot":"x'), *lines[-5:]],
        -1,
    )
    with opened(log, tmp_path / "keys", disk=QuickDisk()) as repair:
        repair.accept_loss("a test", "me")
    assert verify(log, Held(receipts=(before[-1],))).found <= {"request_unanswered"}
    assert "loss_accepted" in by_single_file(log, Held()).notes
    said = verify(log, Held(receipts=(held[-1],)))
    assert "records_lost" in said.found
    assert said.code == 2


def test_a_segment_whose_key_was_lost_is_sealed_with_the_key_that_the_repair_names(
    tmp_path: Path,
) -> None:
    with open_log(tmp_path, segment_bytes=1 << 20) as ledger:
        write(ledger, 4)
    log = tmp_path / "log"
    edit_lines(log, lambda lines: [*lines[:-4], b"{}\n", *lines[-3:]], -1)
    for key in (tmp_path / "keys").glob("segment-*"):
        key.unlink()
    with opened(log, tmp_path / "keys", disk=QuickDisk()) as repair:
        repair.accept_loss("a test", "me")
    records = [json.loads(line) for path in list_segments(log) for line in lines_of(path)]
    assert any("segment_key" in record.get("ext", {}) for record in records[1:])
    with open_log(tmp_path, segment_bytes=1 << 20) as ledger:
        ledger.seal_now()
        write(ledger, 1)
    assert verify(log).found <= {"request_unanswered"}
    seal = seal_path(list_segments(log)[0])
    seal.chmod(0o600)
    seal.write_text("".join(seal.read_text().splitlines(keepends=True)[:-1]))
    assert "seal_changed" in verify(log).found


def test_a_pruned_log_is_whole_from_where_its_erase_record_says(tmp_path: Path) -> None:
    from shared.evidence.prune import prune
    from shared.evidence.stores import stores_in
    from shared.ledger.commitment import load_commitment_key

    with open_log(tmp_path, segment_bytes=1 << 20) as ledger:
        receipts = []
        for _ in range(3):
            receipts += write(ledger, 4)
            ledger.seal_now()
        key = load_commitment_key(tmp_path / "keys")
        stores = stores_in(tmp_path / "log", tmp_path / "keys", key)
        ask = {"operator": "o", "basis": "b", "before": "2999-01-01"}
        assert prune(ledger, stores, ask)["segments"] > 0
        receipts += write(ledger, 2)
    said = verify(tmp_path / "log", Held(receipts=(receipts[-1],)))
    assert (said.code, said.found, said.notes) == (0, set(), {"pruned"})
    said = verify(tmp_path / "log", Held(receipts=(receipts[0],)))
    assert (said.code, said.notes) == (0, {"pruned", "not_comparable"})
    list_segments(tmp_path / "log")[0].unlink()
    assert verify(tmp_path / "log").code == 2


# -- what only a close reader would try ------------------------------------------------------------


def test_a_record_without_number_and_link_is_none_where_a_piece_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_verify, "STEP", 1)
    log = SyntheticLog(tmp_path / "log")
    log.add([{"type": "request", "seq": -1, "prev": ""}])
    log.add([{"type": "outcome", "ref": 1}])
    assert verify(log.directory).code == 1


def test_a_version_that_only_equals_1_is_none(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    log.add([{}, {"v": True}, {}])
    assert verify(log.directory).code == 1


@pytest.mark.parametrize("prev", [str.upper, lambda tip: f"{tip[:-1]}é"], ids=("upper", "no-hex"))
def test_a_link_has_one_spelling(tmp_path: Path, prev: Callable[[str], str]) -> None:
    log = SyntheticLog(tmp_path / "log")
    log.add([{"prev": prev(log.tip)}, {}])
    log.fill(3)
    assert verify(log.directory).code == 1


@pytest.mark.parametrize("named", [True, False])
def test_the_key_that_record_0_names_signs_a_log_that_begins_with_it(
    tmp_path: Path, named: bool
) -> None:
    with open_log(tmp_path, segment_bytes=1 << 20) as ledger:
        write(ledger, 2)
    log, stranger = tmp_path / "log", Signer(ORIGIN, bytes(32))
    log_id = ledger_verify.sha256(b"\x00" + lines_of(list_segments(log)[0])[0][:-1]).hexdigest()
    assert verify(log, Held(log_id=log_id)).code == 0
    rewrite(log, lambda record: record, stranger)
    if named:
        about = json.loads((log / "log.json").read_text())
        about["vkeys"].append(stranger.key.vkey())
        (log / "log.json").write_text(json.dumps(about))
    assert verify(log, Held(log_id=log_id)).code == 1


@pytest.mark.parametrize(
    "edit",
    [
        lambda record: record | {"type": "journal"} if record["seq"] == 0 else record,
        lambda record: record | {"ext": {}} if record["seq"] == 0 else record,
        lambda record: record | {"ext": []} if record["seq"] == 0 else record,
        lambda record: record | {"type": "genesis"} if record["seq"] == 2 else record,
    ],
    ids=("none", "empty", "no-object", "later"),
)
def test_record_0_and_no_other_is_the_genesis(tmp_path: Path, edit: Any) -> None:
    with open_log(tmp_path, segment_bytes=1 << 20) as ledger:
        for _ in range(3):
            ledger.append("journal", {}).result(10)
    signer = load_signer(tmp_path / "keys", ORIGIN, create=False)
    rewrite(tmp_path / "log", edit, signer)
    assert "log_json_changed" in verify(tmp_path / "log").found


def rotated(log: SyntheticLog, new: Signer, name: str) -> dict[str, Any]:
    """A record that changes the key of `log`."""
    text = f"{name}/key-rotate\n{log.frontier.size}\n{new.key.vkey()}\n"
    note = log.signer.sign(text) + new.line(text)
    return {
        "type": "key_rotate",
        "ext": {"old": log.signer.key.vkey(), "new": new.key.vkey(), "note": note},
    }


def test_a_key_changed_behind_the_last_checkpoint_is_an_unsigned_tail(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    log.fill(3)
    head = log.note
    log.add([rotated(log, Signer(log.signer.key.name, bytes(32)), log.signer.key.name)])
    edit_lines(log.directory, lambda lines: lines[:-1])
    (log.directory / "HEAD").write_text(head)
    said = verify(log.directory)
    assert (said.code, said.found) == (2, {"unsigned_tail"})


def test_a_link_to_nothing_behind_the_last_checkpoint_is_seen(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    log.fill(3)
    head, tip = log.note, log.tip.encode()
    log.fill(1)
    edit_lines(log.directory, lambda lines: lines[:-1])
    (log.directory / "HEAD").write_text(head)
    assert verify(log.directory).code == 2
    wrong = tip[:-1] + (b"0" if tip[-1:] != b"0" else b"1")
    edit_lines(log.directory, lambda lines: [*lines[:-1], lines[-1].replace(tip, wrong)])
    assert verify(log.directory).code == 1


def test_a_seal_is_the_end_of_a_segment_without_a_last_checkpoint(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    log.fill(3)
    edit_lines(log.directory, lambda lines: lines[:-1])
    log.seal()
    log.fill(1)
    assert verify(log.directory).code == 0


@pytest.mark.parametrize("place", [0, 1])
def test_a_link_to_nothing_is_seen_even_if_it_is_signed(tmp_path: Path, place: int) -> None:
    log = SyntheticLog(tmp_path / "log")
    log.fill(3)
    log.add([*[{}] * place, {"prev": "ab" * 32}, {}])
    log.fill(3)
    assert verify(log.directory).code == 1


def test_a_new_key_has_the_name_of_the_log(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    record = rotated(log, Signer("other.example.org", bytes(32)), log.signer.key.name)
    told = {**record["ext"], "seq": log.frontier.size}
    assert ledger_verify.rotation(told, log.signer.key.name) == []
    log.add([record])
    said = verify(log.directory)
    assert (said.code, "key_rotation_bad" in said.found) == (1, True)


def test_a_key_that_was_retired_signs_no_head(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        write(ledger, 1)
        old = load_signer(tmp_path / "keys", ORIGIN, create=False)
        ledger.rotate_key()
        ledger.seal_now()
        write(ledger, 2)
    head = tmp_path / "log" / "HEAD"
    assert verify(tmp_path / "log").code == 0
    text = head.read_text()
    head.write_text(old.sign(text[: text.index("\n\n") + 1]))
    assert verify(tmp_path / "log").code == 1


def pruned_log(home: Path) -> SyntheticLog:
    """A log whose first segment was pruned."""
    log = SyntheticLog(home / "log")
    log.fill(3)
    log.seal()
    ext = {"size": log.frontier.size, "seal_sha256": log._previous}
    log.add([{"type": "erase", "action": {"kind": "prune"}, "ext": ext}])
    list_segments(log.directory)[0].unlink()
    return log


def test_an_outcome_in_a_pruned_log_has_a_request_that_its_seal_calls_open(tmp_path: Path) -> None:
    log = pruned_log(tmp_path)
    said = verify(log.directory)
    assert (said.code, said.notes) == (0, {"pruned"})
    log.add([{"type": "outcome", "ref": 1}])
    said = verify(log.directory)
    assert (said.code, said.found) == (1, {"outcome_unpaired"})


def test_an_old_head_of_what_was_pruned_cannot_be_compared(tmp_path: Path) -> None:
    log = pruned_log(tmp_path)
    (log.directory / "HEAD").write_text(log.notes[1])
    said = verify(log.directory)
    assert (said.code, said.found, said.notes) == (0, set(), {"pruned", "not_comparable"})


def test_a_receipt_shows_what_was_changed_behind_the_last_checkpoint(tmp_path: Path) -> None:
    with open_log(tmp_path, segment_bytes=1 << 20) as ledger:
        receipt = write(ledger, 2)[-1]
    log = tmp_path / "log"
    (log / "HEAD").unlink()
    edit_lines(log, lambda lines: lines[:-1])
    held = Held(receipts=(receipt,))
    assert verify(log, held).code == 2
    edit_lines(log, lambda lines: [*lines[:-1], lines[-1].replace(b'"ok"', b'"no"')])
    assert verify(log, held).code == 1


def test_a_decision_is_under_its_policy_whatever_it_is_about(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        texts = [keep_text(tmp_path / "log", text, disk=QuickDisk()) for text in (b"p", b"c")]
        for kind, fields in (
            ("policy_set", {"policy": {"digest": texts[0]}}),
            (
                "config_set",
                {"ext": {"digest": texts[1]}, "policy": {"digest": texts[0], "decision": "allow"}},
            ),
        ):
            ledger._commit([_Entry(kind, fields)])
        assert verify(tmp_path / "log").found <= {"unsigned_tail"}
        ledger._commit([_Entry("config_set", {"policy": {"digest": "E", "decision": "allow"}})])
    said = verify(tmp_path / "log")
    assert (said.code, said.found) == (1, {"policy_unknown"})


def test_every_cosignature_of_a_witness_counts(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        write(ledger, 2)
        note = ledger.checkpoint
    witness, now = Cosigner("w.test/w", bytes(range(32))), int(time.time())
    lines = [witness.cosign(note[: note.index("\n\n") + 1], now - ago) for ago in (0, 9000)]
    cosigned = tmp_path / "cosigned"
    held = Held(cosignatures=(cosigned,), witnesses=(witness.key.vkey(),))
    cosigned.write_text(f"{note}{lines[0]}\n")
    assert verify(tmp_path / "log", held).code == 0
    cosigned.write_text(f"{note}{lines[0]}\n{lines[1]}\n")
    assert verify(tmp_path / "log", held).found == {"time_contradicted"}
    at = lines[1].rindex(" ") + 30
    other = "B" if lines[1][at] != "B" else "C"
    cosigned.write_text(f"{note}{lines[0]}\n{lines[1][:at]}{other}{lines[1][at + 1 :]}\n")
    assert verify(tmp_path / "log", held).found == {"cosignature_bad"}


def test_a_segment_that_is_sealed_while_it_is_read_was_not_tampered_with(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = list_segments(log)[-1]
    whole = ledger_verify.entries

    def meanwhile(task: tuple[Path, int, int]) -> Any:
        if task[0] == path:
            seal_path(path).write_text("sealed")
        return whole(task)

    monkeypatch.setattr(ledger_verify, "entries", meanwhile)
    assert by_single_file(log, Held()).code == 0


def test_the_text_has_nothing_that_a_terminal_obeys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", "{}")
        archive.writestr("\x1b[2Jé", "")
    assert ledger_verify.main([str(path)]) == 1
    assert capsys.readouterr().out.replace("\n", "").isprintable()


def bundle_of(home: Path, change: Callable[[dict[str, bytes]], object]) -> tuple[Any, int]:
    """What both say about a bundle whose files were changed and listed anew."""
    with open_log(home) as ledger:
        request = ledger.append("request", {"task": "t"}).result(10)
        ledger.append("outcome", {"ref": request.seq, "task": "t"}).result(10)
    data = make_bundle([home / "log"], Selection(tasks=("t",))).data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    manifest = json.loads(files["manifest.json"])
    manifest["files"] = {
        name: ledger_verify.sha256(content).hexdigest()
        for name, content in files.items()
        if name != "manifest.json"
    }
    (home / "t.zip").write_bytes(pack({**files, "manifest.json": manifest_bytes(manifest)}))
    return verify_path(home / "t.zip"), ledger_verify.main([str(home / "t.zip")])


def test_a_bundle_that_begins_with_an_outcome_is_incomplete(tmp_path: Path) -> None:
    def change(files: dict[str, bytes]) -> None:
        for name in [name for name in files if "/records/" in name]:
            if int(name.split("/")[-1].split(".")[0]) < 2:
                del files[name]

    said, code = bundle_of(tmp_path, change)
    assert (said.exit_code, code) == (2, 2)


def test_a_proof_has_one_spelling(tmp_path: Path) -> None:
    def change(files: dict[str, bytes]) -> None:
        name = max(name for name in files if name.endswith("tlog-proof"))
        lines = files[name].split(b"\n")
        assert len(lines[2]) == 44
        lines[2] = lines[2][:4] + b"-" + lines[2][4:]
        files[name] = b"\n".join(lines)

    said, code = bundle_of(tmp_path, change)
    assert (said.exit_code, code) == (1, 1)


@pytest.mark.parametrize("vkeys", [[], [Signer("other.test", bytes(32)).key.vkey()]])
def test_a_bundle_without_a_key_of_its_log_is_no_proof(tmp_path: Path, vkeys: list[str]) -> None:
    def change(files: dict[str, bytes]) -> None:
        about = json.loads(files["logs/0/log.json"])
        files["logs/0/log.json"] = encode(about | {"vkeys": vkeys})

    said, code = bundle_of(tmp_path, change)
    assert (said.exit_code, code) == (1, 1)
