"""Bundles: what belongs to a task and nothing else, checked offline, each change named."""

from __future__ import annotations

import hashlib
import random
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from synthetic_log import ORIGIN, SIGNER, SyntheticLog, task_records

from shared.ledger import Ledger, Status, ledger_verify
from shared.ledger.bundle import (
    MANIFEST,
    is_bundle,
    manifest_bytes,
    pack,
    record_name,
    unpack,
    verify_bundle,
)
from shared.ledger.bundle_make import (
    Made,
    NothingToProve,
    Selection,
    make_bundle,
    write_bundle,
)
from shared.ledger.checkpoint import Checkpoint, Signer
from shared.ledger.errors import LedgerError
from shared.ledger.proofs import Prover
from shared.ledger.run_receipt import make_run_receipt, signer_for
from shared.ledger.texts import keep_text

VKEY = SIGNER.key.vkey()
POLICY = b'[policy]\nid = "default"\n'
DIGEST = hashlib.sha256(POLICY).hexdigest()
OTHER_POLICY = b'[policy]\nid = "other"\n'
Members = dict[str, bytes]


def make_log(directory: Path, signer: Signer = SIGNER) -> SyntheticLog:
    """Three tasks side by side among records that are nobody's."""
    log = SyntheticLog(directory, signer)
    for text in (OTHER_POLICY, POLICY):
        digest = keep_text(directory, text)
        log.add([{"type": "policy_set", "policy": {"id": "default", "digest": digest}}])
    log.fill(60)
    log.add(task_records("T1", 10, first=log.frontier.size, digest=DIGEST))
    log.seal()
    log.add(task_records("T2", 10, first=log.frontier.size, digest=DIGEST))
    log.add(task_records("T3", 20, first=log.frontier.size, digest=DIGEST))
    log.fill(300)
    return log


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> SyntheticLog:
    return make_log(tmp_path_factory.mktemp("bundle") / "log")


@pytest.fixture(scope="module")
def made(log: SyntheticLog) -> Made:
    return make_bundle([log.directory], Selection(tasks=("T3",)), verifier=b"# verifier\n")


def members_of(data: bytes, tmp_path: Path) -> Members:
    path = tmp_path / "members.zip"
    path.write_bytes(data)
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def codes(data: bytes, tmp_path: Path, **options: Any) -> set[str]:
    path = tmp_path / "judged.zip"
    path.write_bytes(data)
    options.setdefault("vkeys", [VKEY])
    return {finding.code for finding in verify_bundle(path, **options).findings}


def listed_anew(members: Members) -> bytes:
    """Pack changed members with a manifest that lists them, as a careful forger would."""
    manifest = orjson.loads(members[MANIFEST])
    manifest["files"] = {
        name: hashlib.sha256(data).hexdigest() for name, data in members.items() if name != MANIFEST
    }
    return pack({**members, MANIFEST: manifest_bytes(manifest)})


def task_seqs(log: SyntheticLog, task: str) -> list[int]:
    return [seq for seq, line in enumerate(log.lines) if b'"task":"%s"' % task.encode() in line]


def test_a_bundle_of_a_task_verifies(log: SyntheticLog, made: Made, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    write_bundle(path, made)
    assert path.stat().st_mode & 0o777 == 0o600
    assert is_bundle(path)
    verdict = verify_bundle(path, vkeys=[VKEY])
    assert (verdict.status, verdict.findings, verdict.notes) == (Status.OK, (), ())
    assert verdict.records == made.records == 22  # the task, its policy_set, record 0
    assert (verdict.origin, verdict.checkpoint) == (ORIGIN, log.note)


def test_a_bundle_holds_the_exact_records_one_proof_each_and_the_policy(
    log: SyntheticLog, made: Made, tmp_path: Path
) -> None:
    members = members_of(made.data, tmp_path)
    seqs = task_seqs(log, "T3")
    for seq in seqs:
        assert members[record_name(0, seq, "json")] == log.lines[seq]
        assert members[record_name(0, seq, "tlog-proof")].startswith(b"c2sp.org/tlog-proof@v1\n")
    assert members[f"logs/0/texts/{DIGEST}"] == POLICY
    assert members["logs/0/checkpoint"].decode() == log.note
    why = orjson.loads(members[MANIFEST])["logs"][0]["records"]
    assert sorted(int(seq) for seq, reason in why.items() if reason == "selected") == seqs
    assert {why["0"], why["2"]} == {"identity", "policy"}
    assert b"What this cannot prove" in members["README.txt"]


def test_a_bundle_opens_no_other_record(log: SyntheticLog, made: Made) -> None:
    inside = {0, 2, *task_seqs(log, "T3")}
    assert b"<T3>" in made.data
    for stranger in (b"<T1>", b"<T2>", b"run-T1", b'"none"', OTHER_POLICY):
        assert stranger not in made.data
    for seq, line in enumerate(log.lines):
        assert (line in made.data) == (seq in inside)


def test_the_same_question_gives_the_same_bytes(log: SyntheticLog, made: Made) -> None:
    again = make_bundle([log.directory], Selection(tasks=("T3",)), verifier=b"# verifier\n")
    assert again.data == made.data


def test_the_other_half_of_a_call_comes_along(log: SyntheticLog, tmp_path: Path) -> None:
    seqs = task_seqs(log, "T2")
    for seq in seqs[:2]:
        made = make_bundle([log.directory], Selection(seqs=(seq,)))
        assert set(made.logs[0].why) == {0, 2, *seqs[:2]}
        assert codes(made.data, tmp_path) == set()


def test_a_session_is_found_too_and_a_log_without_it_is_left_out(
    log: SyntheticLog, tmp_path: Path
) -> None:
    empty = SyntheticLog(tmp_path / "empty", Signer("audit.example.org/deck", bytes(32)))
    question = Selection(sessions=("run-T1",))
    made = make_bundle([empty.directory, log.directory], question)
    assert [part.origin for part in made.logs] == [ORIGIN]
    assert codes(made.data, tmp_path) == set()


def test_two_logs_go_into_one_bundle(log: SyntheticLog, tmp_path: Path) -> None:
    deck = Signer("audit.example.org/deck", bytes(range(1, 33)))
    other = SyntheticLog(tmp_path / "deck", deck)
    other.add([{"type": "delegate", "task": "T3", "run": "run-T3"}])
    made = make_bundle([log.directory, other.directory], Selection(tasks=("T3",)))
    assert [part.origin for part in made.logs] == [ORIGIN, deck.key.name]
    both = [VKEY, deck.key.vkey()]
    assert codes(made.data, tmp_path, vkeys=both) == set()
    assert codes(made.data, tmp_path, vkeys=[VKEY]) == {"key_missing"}
    with pytest.raises(LedgerError, match="one ledger"):
        make_bundle([log.directory, other.directory], Selection(seqs=(1,)))


def test_nothing_to_prove_is_said(log: SyntheticLog) -> None:
    for question in (Selection(tasks=("T9",)), Selection(seqs=(10_000,))):
        with pytest.raises(NothingToProve, match="no record"):
            make_bundle([log.directory], question)


def test_what_only_looks_like_the_task_is_not_it(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    log.add([{"ext": {"task": "T3"}}, {"task": "T33"}, {"task": 'x"task":"T3"'}, {"task": "é"}])
    with pytest.raises(NothingToProve):
        make_bundle([log.directory], Selection(tasks=("T3",)))
    assert set(make_bundle([log.directory], Selection(tasks=("é",))).logs[0].why) == {0, 4}


def test_gates_come_with_their_other_half(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    for run in ("a", "b"):
        for kind in ("gate_open", "gate_decision"):
            log.add([{"type": kind, "run": run, "gate": {"id": "G1"}}])
    assert set(make_bundle([log.directory], Selection(seqs=(4,))).logs[0].why) == {0, 3, 4}
    assert set(make_bundle([log.directory], Selection(seqs=(1,))).logs[0].why) == {0, 1, 2}


def test_an_open_request_and_a_text_the_log_lacks_are_incomplete(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    log.add([{"type": "policy_set", "policy": {"digest": DIGEST}}])
    log.add([{"type": "request", "task": "T3", "policy": {"digest": DIGEST, "decision": "allow"}}])
    made = make_bundle([log.directory], Selection(tasks=("T3",)))
    assert made.logs[0].texts_missing == 1
    path = tmp_path / "bundle.zip"
    write_bundle(path, made)
    verdict = verify_bundle(path, vkeys=[VKEY])
    assert verdict.status is Status.INCOMPLETE
    assert {finding.code for finding in verdict.findings} == {"request_unanswered", "text_missing"}


def test_without_a_key_the_bundle_s_own_is_used_and_said(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    write_bundle(path, made)
    verdict = verify_bundle(path)
    assert verdict.status is Status.OK
    assert [note.code for note in verdict.notes] == ["key_from_bundle"]
    assert verify_bundle(path, vkeys=["nonsense"]).status is Status.USAGE
    stranger = Signer(ORIGIN, bytes(32)).key.vkey()
    assert codes(made.data, tmp_path, vkeys=[stranger]) == {"key_unknown"}


# -- keys that change ------------------------------------------------------------------------------


def rotate(log: SyntheticLog, new: Signer) -> None:
    old, seq = log.signer, log.frontier.size
    text = f"{ORIGIN}/key-rotate\n{seq}\n{new.key.vkey()}\n"
    note = old.sign(text) + new.sign(text).partition("\n\n")[2]
    vkeys = {"old": old.key.vkey(), "new": new.key.vkey()}
    log.add([{"type": "key_rotate", "ext": {**vkeys, "note": note}}])
    log.signer = new


def test_any_key_of_the_chain_is_accepted(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    signers = [SIGNER, Signer(ORIGIN, bytes(32)), Signer(ORIGIN, bytes([9]) * 32)]
    for new in signers[1:]:
        rotate(log, new)
    log.identity["vkeys"] = [signer.key.vkey() for signer in signers]
    (log.directory / "log.json").write_bytes(orjson.dumps(log.identity))
    log.add([{"task": "T3"}])
    made = make_bundle([log.directory], Selection(tasks=("T3",)))
    for signer in signers:
        assert codes(made.data, tmp_path, vkeys=[signer.key.vkey()]) == set()
    assert codes(made.data, tmp_path, vkeys=[]) == set()
    members = members_of(made.data, tmp_path)
    for kind in ("json", "tlog-proof"):
        del members[record_name(0, 1, kind)]
    assert "key_unknown" in codes(listed_anew(members), tmp_path, vkeys=[VKEY])


def test_a_key_rotated_by_the_ledger_itself_is_followed(tmp_path: Path) -> None:
    home, keys = tmp_path / "log", tmp_path / "keys"
    vkeys = []
    with Ledger.open(home, keys=keys, origin=ORIGIN) as ledger:
        for number in range(3):
            ledger.append("journal", {"task": f"T{number}"}).result()
            vkeys.append(ledger.vkey)
            ledger.rotate_key()
        ledger.append("journal", {"task": "T3"}).result()
        vkeys.append(ledger.vkey)
    assert len(set(vkeys)) == 4
    for task in ("T0", "T3"):
        made = make_bundle([home], Selection(tasks=(task,)))
        for vkey in [[], *([vkey] for vkey in vkeys)]:
            assert codes(made.data, tmp_path, vkeys=vkey) == set()
        stranger = Signer(ORIGIN, bytes(32)).key.vkey()
        assert codes(made.data, tmp_path, vkeys=[stranger]) == {"key_unknown"}
    with Prover(home) as prover:
        assert signer_for(prover, keys).key.vkey() in vkeys


# -- what was sent away ----------------------------------------------------------------------------


def anchored(tmp_path: Path, kinds: dict[str, bytes]) -> tuple[SyntheticLog, Made]:
    log = make_log(tmp_path / "log")
    size = max(task_seqs(log, "T3")) + 1
    folder = log.directory / "anchors"
    folder.mkdir()
    for at in (size, max(log.notes)):  # the earlier bounds the time better
        (folder / f"{at}.checkpoint").write_text(log.notes[at])
        for kind, data in kinds.items():
            (folder / f"{at}.{kind}").write_bytes(data)
    (folder / "3.checkpoint").write_text(log.notes[3])  # too early for these records
    (folder / "3.tsr").write_bytes(b"x")
    return log, make_bundle([log.directory], Selection(tasks=("T3",)))


def test_the_first_anchored_checkpoint_over_the_records_is_taken(tmp_path: Path) -> None:
    log = make_log(tmp_path / "first")
    size = max(task_seqs(log, "T3")) + 1
    stamp = b"stamp " + hashlib.sha256(log.notes[size].encode()).digest()
    _, made = anchored(tmp_path, {"tsr": stamp})
    assert made.logs[0].checkpoint.size == size
    assert made.logs[0].anchored
    assert codes(made.data, tmp_path) == set()
    members = members_of(made.data, tmp_path)
    name = f"logs/0/anchors/{size}.tsr"
    assert members[name] == stamp
    changed = listed_anew({**members, name: stamp[:-1]})
    assert codes(changed, tmp_path) == {"stamp_bad"}
    note = f"logs/0/anchors/{size}.checkpoint"
    for other in (log.notes[3].encode(), b"nonsense"):
        assert "anchor_changed" in codes(listed_anew({**members, note: other}), tmp_path)


def test_cosignatures_come_with_the_checkpoint_and_are_checked(tmp_path: Path) -> None:
    cosignature = pytest.importorskip("shared.anchors.cosignature")
    witness = cosignature.Cosigner("witness.example", bytes(range(32)))
    log = make_log(tmp_path / "first")
    size = max(task_seqs(log, "T3")) + 1
    text = log.notes[size].partition("\n\n")[0] + "\n"
    lines = witness.cosign(text, 1_764_433_568).encode().rstrip(b"\n") + b"\n"
    _, made = anchored(tmp_path, {"cosig": lines})
    vkey = witness.key.vkey()
    path = tmp_path / "bundle.zip"
    write_bundle(path, made)
    assert [note.code for note in verify_bundle(path, vkeys=[VKEY]).notes] == [
        "cosignatures_unchecked"
    ]
    verdict = verify_bundle(path, vkeys=[VKEY], witnesses=[vkey])
    assert (verdict.status, verdict.notes[0].code) == (Status.OK, "cosigned")
    members = members_of(made.data, tmp_path)
    bad = witness.cosign(text.replace(f"\n{size}\n", f"\n{size + 1}\n"), 5).encode()
    for name, data in members.items():
        if name.endswith((".tlog-proof", ".cosig")) or name == "logs/0/checkpoint":
            members[name] = data.replace(lines.strip(), bad.strip())
    assert codes(listed_anew(members), tmp_path, witnesses=[vkey]) == {"cosignature_bad"}


# -- changed bundles -------------------------------------------------------------------------------

FIRST = 83  # of the task's records: record 83 is a request, 84 its outcome


def flip(data: bytes, at: int | None = None) -> bytes:
    at = len(data) // 2 if at is None else at
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "name",
    [
        "README.txt",
        "ledger_verify.py",
        "logs/0/log.json",
        "logs/0/checkpoint",
        record_name(0, FIRST, "json"),
        record_name(0, FIRST, "tlog-proof"),
        f"logs/0/texts/{DIGEST}",
    ],
)
def test_any_change_of_a_file_is_named(name: str, made: Made, tmp_path: Path) -> None:
    members = members_of(made.data, tmp_path)
    changed = {**members, name: flip(members[name])}
    assert "file_changed" in codes(pack(changed), tmp_path)
    inside = made.data.index(members[name]) + len(members[name]) // 2
    assert "file_changed" in codes(flip(made.data, inside), tmp_path)  # the zip's own sum fails
    del changed[name]
    assert "file_missing" in codes(pack(changed), tmp_path)


def replaced(name: str, old: bytes, new: bytes) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        assert old in members[name]
        members[name] = members[name].replace(old, new)

    return change


def removed(*names: str) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        for name in names:
            del members[name]

    return change


def added(name: str, data: bytes = b"x") -> Callable[[Members], None]:
    return lambda members: members.update({name: data})


def record_moved(members: Members) -> None:
    members[record_name(0, 85, "json")] = members[record_name(0, FIRST, "json")]


def proof_moved(members: Members) -> None:
    members[record_name(0, 85, "tlog-proof")] = members[record_name(0, FIRST, "tlog-proof")]


def signed_by_another(members: Members) -> None:
    text = members["logs/0/checkpoint"].decode().partition("\n\n")[0] + "\n"
    members["logs/0/checkpoint"] = Signer(ORIGIN, bytes(32)).sign(text).encode()


def another_root(members: Members) -> None:
    lines = members["logs/0/checkpoint"].decode().split("\n")
    lines[2] = "A" + lines[2][1:] if lines[2][0] != "A" else "B" + lines[2][1:]
    members["logs/0/checkpoint"] = "\n".join(lines).encode()


def of_another_log(members: Members) -> None:
    other = Signer("audit.example.org/another", bytes(32))
    note = other.sign(Checkpoint(other.key.name, 400, bytes(32)).text())
    members["logs/0/checkpoint"] = note.encode()


REQUEST, OUTCOME = record_name(0, FIRST, "json"), record_name(0, FIRST + 1, "json")
PROOF = record_name(0, FIRST, "tlog-proof")


CHANGES: list[tuple[Callable[[Members], None], str]] = [
    (replaced(REQUEST, b"coder", b"tester"), "record_changed"),
    (replaced(REQUEST, b'"v":1}', b'"v":1} '), "record_changed"),
    (replaced(PROOF, b"=\n\naudit", b"=\n" + b"A" * 43 + b"=\n\naudit"), "record_changed"),
    (replaced(PROOF, b"index 83", b"index 84"), "proof_changed"),
    (replaced(PROOF, b"index 83", b"extra eA==\nindex 83"), "proof_changed"),
    (replaced(PROOF, b"\xe2\x80\x94 ", b"\xe2\x80\x94 x"), "proof_changed"),
    (replaced(PROOF, b"@v1", b"@v2"), "proof_changed"),
    (added(PROOF, b"\xff"), "proof_changed"),
    (record_moved, "record_changed"),
    (proof_moved, "proof_changed"),
    (removed(PROOF), "proof_missing"),
    (removed(REQUEST), "proof_missing"),
    (removed(REQUEST, PROOF), "outcome_unpaired"),
    (removed(OUTCOME, record_name(0, FIRST + 1, "tlog-proof")), "request_unanswered"),
    (removed(record_name(0, 2, "json"), record_name(0, 2, "tlog-proof")), "policy_unknown"),
    (signed_by_another, "key_unknown"),
    (another_root, "checkpoint_changed"),
    (of_another_log, "checkpoint_changed"),
    (removed("logs/0/checkpoint"), "checkpoint_changed"),
    (removed("logs/0/log.json"), "log_json_changed"),
    (replaced("logs/0/log.json", b"vkeys", b"vkeyz"), "log_json_changed"),
    (added(f"logs/0/texts/{DIGEST}", POLICY + b"\n"), "text_changed"),
    (removed(f"logs/0/texts/{DIGEST}"), "text_missing"),
    (added("logs/0/texts/" + "0" * 64), "text_changed"),
    (added("logs/0/anchors/3.tsr"), "anchor_changed"),
    (added("logs/1/log.json"), "log_json_changed"),
    (added("logs/0/extra"), "file_unlisted"),
    (added("../outside"), "file_unlisted"),
]


@pytest.mark.parametrize(("change", "code"), CHANGES)
def test_a_change_that_the_manifest_lists_is_named_too(
    change: Callable[[Members], None], code: str, made: Made, tmp_path: Path
) -> None:
    members = members_of(made.data, tmp_path)
    change(members)
    found = codes(listed_anew(members), tmp_path)
    assert code in found, found
    assert "file_changed" not in found


#: The single file sees these.
SHAPES: list[Callable[[Any], Any]] = [
    lambda manifest: manifest.update(bundle=2),
    lambda manifest: manifest.pop("selection"),
    lambda manifest: manifest.update(more=1),
    lambda manifest: manifest.update(files=[]),
    lambda manifest: manifest.update(texts="gone"),
]
#: It does not look at what the manifest says beside the files; nothing rests on it.
REASONS: list[Callable[[Any], Any]] = [
    lambda manifest: manifest["selection"].update(tasks=["T4"]),
    lambda manifest: manifest["selection"].update(tasks=[]),
    lambda manifest: manifest["logs"][0].update(size=1),
    lambda manifest: manifest["logs"][0].update(root="00" * 32),
    lambda manifest: manifest["logs"][0].update(origin="other"),
    lambda manifest: manifest["logs"][0]["records"].pop("83"),
    lambda manifest: manifest["logs"][0]["records"].update({"9": "because"}),
    lambda manifest: manifest["logs"][0]["records"].update({"83": "pair"}),
    lambda manifest: manifest["logs"][0]["records"].update({"2": "selected"}),
    lambda manifest: manifest["logs"][0]["records"].update({"9" * 5000: "selected"}),
    lambda manifest: manifest["logs"].append(dict(manifest["logs"][0])),
    lambda manifest: manifest.update(logs=[]),
]


@pytest.mark.parametrize("change", SHAPES + REASONS)
def test_a_changed_manifest_is_named(change: Any, made: Made, tmp_path: Path) -> None:
    members = members_of(made.data, tmp_path)
    manifest = orjson.loads(members[MANIFEST])
    change(manifest)
    found = codes(pack({**members, MANIFEST: manifest_bytes(manifest)}), tmp_path)
    assert "manifest_changed" in found
    spaced = orjson.dumps(orjson.loads(members[MANIFEST]), option=orjson.OPT_INDENT_2)
    assert codes(pack({**members, MANIFEST: spaced}), tmp_path) == {"manifest_changed"}


def test_a_member_that_is_there_twice_or_compressed_is_named(made: Made, tmp_path: Path) -> None:
    path = tmp_path / "twice.zip"
    path.write_bytes(made.data)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(REQUEST, b"{}")
    assert codes(path.read_bytes(), tmp_path) == {"file_unlisted"}
    members = members_of(made.data, tmp_path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    assert verify_bundle(path, vkeys=[VKEY]).status is not Status.OK


def test_no_flipped_bit_of_a_bundle_changes_what_is_believed(made: Made, tmp_path: Path) -> None:
    """A flip in the zip's own fields, such as the time of a member, changes nothing that counts."""
    path, chance = tmp_path / "flipped.zip", random.Random(7)
    members = members_of(made.data, tmp_path)
    silent = 0
    for _ in range(250):
        at = chance.randrange(len(made.data))
        changed = made.data[:at] + bytes([made.data[at] ^ 1 << chance.randrange(8)])
        path.write_bytes(changed + made.data[at + 1 :])
        if verify_bundle(path, vkeys=[VKEY]).status is Status.OK:
            silent += 1
            assert unpack(path).members == members
    assert silent < 100


def changed_bundles(members: Members) -> Iterator[bytes]:
    """The bundles of the tests above: changed, changed and listed anew, with another manifest."""
    for change, _ in [(lambda members: None, ""), *CHANGES]:
        changed = dict(members)
        change(changed)
        yield from (pack(changed), listed_anew(changed))
    for edit in SHAPES:
        manifest = orjson.loads(members[MANIFEST])
        edit(manifest)
        yield pack({**members, MANIFEST: manifest_bytes(manifest)})
    yield pack({**members, MANIFEST: orjson.dumps(orjson.loads(members[MANIFEST]))})
    for name in members:
        yield pack({**members, name: flip(members[name])})
        yield pack({other: data for other, data in members.items() if other != name})
    packed = pack(members)
    chance = random.Random(11)
    yield from (flip(packed, chance.randrange(len(packed))) for _ in range(60))


def test_a_bundle_without_texts_shows_no_term_and_says_why_it_is_incomplete(
    log: SyntheticLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = make_bundle([log.directory], Selection(tasks=("T3",)), with_texts=False)
    members = members_of(made.data, tmp_path)
    assert not any("/texts/" in name for name in members)
    assert POLICY not in made.data
    assert orjson.loads(members[MANIFEST])["texts"] == "left_out"
    assert b"left out on purpose" in members["README.txt"]
    path = tmp_path / "bundle.zip"
    write_bundle(path, made)
    verdict = verify_bundle(path, vkeys=[VKEY])
    assert verdict.status is Status.INCOMPLETE
    (finding,) = verdict.findings
    assert finding.code == "text_missing"
    assert "left out on purpose" in finding.sentence
    assert ledger_verify.main([str(path), "--json", "--vkey", VKEY]) == 2
    (said,) = orjson.loads(capsys.readouterr().out)["findings"]
    assert said["code"] == "text_missing"


def test_the_verifier_in_one_file_says_the_same(
    log: SyntheticLog, made: Made, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, stranger = tmp_path / "both.zip", Signer(ORIGIN, bytes(32)).key.vkey()
    bare = make_bundle([log.directory], Selection(tasks=("T3",)), with_texts=False).data
    changed = [bare, *changed_bundles(members_of(made.data, tmp_path))]
    for number, data in enumerate(changed):
        path.write_bytes(data)
        for keys in ([], [VKEY], [stranger]):
            options = [word for key in keys for word in ("--vkey", key)]
            code = ledger_verify.main([str(path), "--json", *options])
            said = capsys.readouterr().out
            verdict = verify_bundle(path, vkeys=keys)
            assert code == verdict.exit_code, (number, keys, said, verdict.findings)


def test_both_say_that_the_key_of_one_log_tells_nothing_about_another(tmp_path: Path) -> None:
    other = Signer("audit.example.org/other", bytes(32))
    logs = [make_log(tmp_path / "a"), make_log(tmp_path / "b", other)]
    path = tmp_path / "two.zip"
    write_bundle(path, make_bundle([log.directory for log in logs], Selection(tasks=("T3",))))
    for keys, code in (((VKEY,), 2), ((other.key.vkey(),), 2), ((VKEY, other.key.vkey()), 0)):
        assert verify_bundle(path, vkeys=keys).exit_code == code
        options = [word for key in keys for word in ("--vkey", key)]
        assert ledger_verify.main([str(path), *options]) == code


def test_a_policy_that_is_only_mentioned_need_not_be_known(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    log.add([{"type": "journal", "task": "T", "policy": {"digest": "ab" * 32}}])
    path = tmp_path / "mentioned.zip"
    write_bundle(path, make_bundle([log.directory], Selection(tasks=("T",))))
    assert verify_bundle(path, vkeys=[VKEY]).exit_code == 0
    assert ledger_verify.main([str(path), "--vkey", VKEY]) == 0


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"not a zip", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_bundle_is_called_that(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    path.write_bytes(data)
    assert verify_bundle(path).status is Status.USAGE
    assert verify_bundle(tmp_path / "none.zip").status is Status.USAGE


def test_a_run_receipt_shows_whether_a_session_is_whole(tmp_path: Path) -> None:
    log = make_log(tmp_path / "log")
    log.add([{"type": "request", "run": "run-T3"}])
    log.add([{"type": "outcome", "ref": log.frontier.size - 1}])  # as after a restart
    with Prover(log.directory) as prover:
        receipts = [make_run_receipt(prover, "run-T3", SIGNER, made=1)]
        others = [make_run_receipt(prover, "run-T2", SIGNER, made=1)]
    log.add([{"run": "run-T3"}])  # later than the receipt
    made = make_bundle([log.directory], Selection(sessions=("run-T3",)))
    assert codes(made.data, tmp_path, run_receipts=receipts) == set()
    assert codes(made.data, tmp_path, run_receipts=others) == {"receipt_mismatch"}
    assert codes(made.data, tmp_path, run_receipts=[log.note]) == {"receipt_mismatch"}
    members = members_of(made.data, tmp_path)
    for kind in ("json", "tlog-proof"):
        del members[record_name(0, FIRST + 1, kind)]
    assert "receipt_mismatch" in codes(listed_anew(members), tmp_path, run_receipts=receipts)


# -- beside a writer -------------------------------------------------------------------------------


def test_a_bundle_can_be_made_while_the_log_is_written(tmp_path: Path) -> None:
    home = tmp_path / "log"
    with Ledger.open(home, keys=tmp_path / "keys", origin=ORIGIN, segment_bytes=200_000) as ledger:
        for number in range(20):
            ledger.append("journal", {"task": "T3", "ext": {"n": number}}).result()
        enough = threading.Event()

        def write() -> None:
            while not enough.is_set():
                ledger.append("journal", {"task": "T4", "ext": {"filler": "x" * 500}}).result()

        thread = threading.Thread(target=write)
        thread.start()
        try:
            for _ in range(15):
                data = make_bundle([home], Selection(tasks=("T3",))).data
                assert codes(data, tmp_path, vkeys=[ledger.vkey]) == set()
        finally:
            enough.set()
            thread.join()
        assert ledger.failure is None


def test_a_bundle_of_a_hundred_records(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    digest = keep_text(log.directory, POLICY)
    log.add([{"type": "policy_set", "policy": {"digest": digest}}])
    for _ in range(10):
        log.fill(90)
        log.add(task_records("T3", 10, first=log.frontier.size, digest=digest))
    made = make_bundle([log.directory], Selection(tasks=("T3",)))
    assert list(made.logs[0].why.values()).count("selected") == 100
    assert codes(made.data, tmp_path) == set()
