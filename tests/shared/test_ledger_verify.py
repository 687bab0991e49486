"""The verifier: each way to tamper gives the finding that names the right record."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quick_disk import QuickDisk

from shared.ledger import Ledger, LedgerFailed, Verdict, verify_path
from shared.ledger.batch import BATCH_LIMIT
from shared.ledger.checkpoint import Checkpoint, Signer, checkpoint_line, load_signer
from shared.ledger.log import _Entry
from shared.ledger.merkle import Frontier, leaf_hash
from shared.ledger.record import encode
from shared.ledger.segment import list_segments, seal_path
from shared.ledger.storage import Disk
from shared.ledger.verdict import MAX_FINDINGS

ORIGIN = "audit.example.org/test"
#: Batch sizes after the first record, so that there are batches of one and of several.
SHAPE = (4, 6, 1, 2, 1, 5)


def write_log(home: Path, shape: tuple[int, ...] = SHAPE) -> Path:
    """Write a log whose batches have known sizes; return its directory."""
    with Ledger.open(home / "log", keys=home / "keys", origin=ORIGIN, disk=QuickDisk()) as ledger:
        for count in shape:
            ledger._commit([_Entry("journal", {"ext": {"n": n}}) for n in range(count)])
    return home / "log"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log written once, for the tests to copy."""
    home = tmp_path_factory.mktemp("template")
    write_log(home)
    return home


@pytest.fixture
def log(tmp_path: Path, template: Path) -> Path:
    return copy_log(template, tmp_path)


def copy_log(template: Path, home: Path) -> Path:
    for part in ("log", "keys"):
        shutil.copytree(template / part, home / part)
    return home / "log"


def lines_of(log: Path) -> list[bytes]:
    return list_segments(log)[0].read_bytes().splitlines(keepends=True)


def put(log: Path, lines: list[bytes]) -> None:
    list_segments(log)[0].write_bytes(b"".join(lines))


def at_record(lines: list[bytes], seq: int) -> int:
    """Return the index of the line of record `seq`."""
    return next(i for i, line in enumerate(lines) if b'"seq":%d,' % seq in line)


def findings(verdict: Verdict) -> list[tuple[str, int | None]]:
    return [(finding.code, finding.seq) for finding in verdict.findings]


def resign(lines: list[bytes], signer: Signer, renumber: Callable[[int], int] = int) -> list[bytes]:
    """Rewrite links and checkpoints from the start, as someone with a key could."""
    frontier, prev, out = Frontier(), "0" * 64, []
    for line in lines:
        value = json.loads(line)
        if "cp" in value:
            text = Checkpoint(ORIGIN, frontier.size, frontier.root()).text()
            out.append(checkpoint_line(signer.sign(text)) + b"\n")
            continue
        value["prev"] = prev
        body = encode(value)
        prev = leaf_hash(body).hex()
        frontier.append(bytes.fromhex(prev))
        out.append(body + b"\n")
    return out


def test_a_log_as_it_was_written_is_ok(log: Path) -> None:
    verdict = verify_path(log)
    assert (verdict.status, verdict.exit_code, verdict.records) == ("ok", 0, 20)
    assert verdict.findings == verdict.notes == ()
    assert verdict.origin == ORIGIN
    assert verdict.root
    plain = json.loads(json.dumps(verdict.as_json()))
    assert plain["status"] == "ok"
    assert plain["records"] == 20


def test_a_copy_and_a_single_file_are_ok_too(log: Path, tmp_path: Path) -> None:
    vkey = json.loads((log / "log.json").read_text())["vkeys"][0]
    copy = tmp_path / "copy"
    shutil.copytree(log, copy)
    single = tmp_path / "anything.jsonl"
    shutil.copy(list_segments(log)[0], single)
    for path in (copy, copy / "segments", list_segments(copy)[0], single):
        for key in (None, vkey):
            assert verify_path(path, vkey=key).exit_code == 0, path


def test_progress_runs_from_nothing_to_everything(log: Path) -> None:
    seen: list[tuple[int, int]] = []
    verify_path(log, progress=lambda done, total: seen.append((done, total)))
    size = list_segments(log)[0].stat().st_size
    assert seen[-1] == (size, size)
    assert seen == sorted(seen)


# -- changed bytes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seq", range(20))
def test_a_changed_field_names_its_record(log: Path, seq: int) -> None:
    lines = lines_of(log)
    index = at_record(lines, seq)
    lines[index] = lines[index].replace(b'"mono":', b'"mono":1')
    put(log, lines)
    verdict = verify_path(log)
    assert verdict.exit_code == 1
    assert findings(verdict) == [("record_changed", seq)]
    assert f"Record {seq} was changed" in verdict.findings[0].sentence


@pytest.mark.parametrize("seq", range(20))
def test_a_changed_link_names_its_record_not_the_one_before(log: Path, seq: int) -> None:
    lines = lines_of(log)
    record = json.loads(lines[at_record(lines, seq)])
    lines[at_record(lines, seq)] = encode(record | {"prev": "e" * 64}) + b"\n"
    put(log, lines)
    assert findings(verify_path(log)) == [("record_changed", seq)]


@pytest.mark.parametrize("seq", range(20))
def test_a_changed_number_names_its_record(log: Path, seq: int) -> None:
    lines = lines_of(log)
    record = json.loads(lines[at_record(lines, seq)])
    lines[at_record(lines, seq)] = encode(record | {"seq": seq + 3}) + b"\n"
    put(log, lines)
    assert findings(verify_path(log)) == [("record_changed", seq)]


@pytest.mark.parametrize("pair", [(2, 3), (3, 9), (4, 5), (10, 11), (18, 19), (0, 19)])
def test_two_changed_records_are_both_named(log: Path, pair: tuple[int, int]) -> None:
    lines = lines_of(log)
    for seq in pair:
        index = at_record(lines, seq)
        lines[index] = lines[index].replace(b'"mono":', b'"mono":1')
    put(log, lines)
    found = findings(verify_path(log))
    assert ("record_changed", pair[1]) in found
    assert {code for code, _ in found} == {"record_changed"}
    assert found[0][1] == pair[0] or pair == (18, 19)


def test_an_added_field_is_found(log: Path) -> None:
    lines = lines_of(log)
    record = json.loads(lines[at_record(lines, 7)])
    lines[at_record(lines, 7)] = encode(record | {"note": "x"}) + b"\n"
    put(log, lines)
    assert findings(verify_path(log)) == [("record_changed", 7)]


def test_a_changed_checkpoint_names_the_record_before_it(log: Path) -> None:
    lines = lines_of(log)
    index = at_record(lines, 4) + 1
    assert lines[index].startswith(b'{"cp":')
    for change in (
        lambda line: line[:-20] + (b"A" if line[-20:-19] != b"A" else b"B") + line[-19:],
        lambda line: line.replace(b"\\n5\\n", b"\\n6\\n"),
        lambda line: line.replace(b"example", b"exbmple"),
        lambda line: line.replace(b'"cp"', b'"cq"'),
        lambda line: line.replace(b'{"cp"', b'{ "cp"'),
    ):
        changed = list(lines)
        changed[index] = change(lines[index])
        assert changed[index] != lines[index]
        put(log, changed)
        verdict = verify_path(log)
        assert verdict.exit_code == 1
        assert [seq for _, seq in findings(verdict)] == [4]
        assert verdict.findings[0].code.startswith("checkpoint_")


# -- lines added, removed, moved -------------------------------------------------------------------


@pytest.mark.parametrize("seq", range(20))
def test_a_removed_record_is_named(log: Path, seq: int) -> None:
    lines = lines_of(log)
    del lines[at_record(lines, seq)]
    put(log, lines)
    verdict = verify_path(log)
    assert verdict.exit_code == 1
    assert ("record_missing", seq) in findings(verdict)
    assert {code for code, _ in findings(verdict)} <= {"record_missing", "log_json_changed"}


def test_a_removed_batch_is_named(log: Path) -> None:
    lines = lines_of(log)
    del lines[at_record(lines, 5) : at_record(lines, 10) + 2]
    put(log, lines)
    verdict = verify_path(log)
    assert verdict.exit_code == 1
    assert findings(verdict)[0] == ("record_missing", 5)
    assert "5 to 10" in verdict.findings[0].sentence


@pytest.mark.parametrize("seq", [1, 3, 6, 9, 12, 17])
def test_swapped_records_are_named(log: Path, seq: int) -> None:
    lines = lines_of(log)
    index = at_record(lines, seq)
    lines[index], lines[index + 1] = lines[index + 1], lines[index]
    put(log, lines)
    verdict = verify_path(log)
    assert verdict.exit_code == 1
    assert findings(verdict) == [("record_out_of_order", seq)]


def test_a_repeated_record_is_named(log: Path) -> None:
    lines = lines_of(log)
    index = at_record(lines, 7)
    lines.insert(index, lines[index])
    put(log, lines)
    verdict = verify_path(log)
    assert verdict.exit_code == 1
    assert findings(verdict) == [("record_out_of_order", 7)]


def test_an_inserted_record_is_named(log: Path) -> None:
    lines = lines_of(log)
    index = at_record(lines, 7)
    forged = json.loads(lines[index]) | {"task": "forged"}
    lines.insert(index, encode(forged) + b"\n")
    put(log, lines)
    verdict = verify_path(log)
    assert verdict.exit_code == 1
    assert 7 in {seq for _, seq in findings(verdict)}


@pytest.mark.parametrize("seq", [0, 4, 10, 11])
def test_a_removed_checkpoint_changes_no_record_and_is_no_loss_of_proof(
    log: Path, seq: int
) -> None:
    lines = lines_of(log)
    del lines[at_record(lines, seq) + 1]
    put(log, lines)
    # The next checkpoint signs the same records: nothing that was recorded can be doubted.
    assert verify_path(log).exit_code == 0


def test_moved_and_repeated_checkpoints_are_found(log: Path) -> None:
    lines = lines_of(log)
    old = lines[at_record(lines, 4) + 1]
    lines.insert(at_record(lines, 7), old)
    put(log, lines)
    verdict = verify_path(log)
    assert verdict.exit_code == 1
    assert findings(verdict) == [("checkpoint_out_of_order", 6)]


@pytest.mark.parametrize("seq", range(20))
def test_a_line_break_inside_a_record_is_named(log: Path, seq: int) -> None:
    lines = lines_of(log)
    index = at_record(lines, seq)
    for at in (1, 40, len(lines[index]) - 2):
        changed = list(lines)
        changed[index] = lines[index][:at] + b"\n" + lines[index][at:]
        put(log, changed)
        verdict = verify_path(log)
        assert verdict.exit_code == 1
        assert findings(verdict) == [("line_break_added", seq)]


@pytest.mark.parametrize("index", range(27))
def test_a_removed_line_break_is_named(log: Path, index: int) -> None:
    lines = lines_of(log)
    assert len(lines) == 27
    lines[index] = lines[index][:-1]
    put(log, lines)
    verdict = verify_path(log)
    assert verdict.exit_code == 1
    assert [code for code, _ in findings(verdict)] == ["line_break_removed"]


@pytest.mark.parametrize("index", range(28))
def test_an_empty_line_is_found(log: Path, index: int) -> None:
    lines = lines_of(log)
    lines.insert(index, b"\n")
    put(log, lines)
    verdict = verify_path(log)
    assert verdict.exit_code == 1
    assert [code for code, _ in findings(verdict)] == ["line_break_added"]


@pytest.mark.parametrize("index", range(27))
def test_carriage_returns_and_spaces_at_a_line_end_are_found(log: Path, index: int) -> None:
    for extra in (b"\r\n", b" \n", b"\0\n"):
        lines = lines_of(log)
        original = list(lines)
        lines[index] = lines[index][:-1] + extra
        put(log, lines)
        assert verify_path(log).exit_code == 1
        put(log, original)


# -- rewriting -------------------------------------------------------------------------------------


def test_a_full_rewrite_without_the_key_is_found(log: Path) -> None:
    lines = lines_of(log)
    lines[at_record(lines, 9)] = lines[at_record(lines, 9)].replace(b'"n":4', b'"n":5')
    put(log, resign(lines, Signer(ORIGIN, bytes(32))))
    verdict = verify_path(log)
    assert verdict.exit_code == 1
    assert {"checkpoint_signature"} <= {code for code, _ in findings(verdict)}


def test_a_rewrite_that_keeps_the_old_checkpoints_is_found(log: Path) -> None:
    lines = lines_of(log)
    lines[at_record(lines, 9)] = lines[at_record(lines, 9)].replace(b'"n":4', b'"n":5')
    forged = resign(lines, Signer(ORIGIN, bytes(32)))
    for index, line in enumerate(lines):
        if line.startswith(b'{"cp"'):
            forged[index] = line
    put(log, forged)
    verdict = verify_path(log)
    assert verdict.exit_code == 1
    assert findings(verdict)[0] == ("tree_mismatch", 5)


def test_another_history_signed_with_the_key_does_not_fit_head(log: Path) -> None:
    signer = load_signer(log.parent / "keys", ORIGIN, create=False)
    lines = lines_of(log)
    lines[at_record(lines, 9)] = lines[at_record(lines, 9)].replace(b'"n":4', b'"n":5')
    put(log, resign(lines, signer))
    verdict = verify_path(log)
    assert verdict.exit_code == 1
    assert findings(verdict) == [("head_mismatch", 19)]


def test_a_full_rewrite_with_a_new_identity_is_found_only_by_a_key_kept_outside(log: Path) -> None:
    vkey = json.loads((log / "log.json").read_text())["vkeys"][0]
    thief = Signer(ORIGIN, bytes(32))
    identity = json.loads((log / "log.json").read_text()) | {"vkeys": [thief.key.vkey()]}
    (log / "log.json").write_text(json.dumps(identity))
    lines = lines_of(log)
    lines[0] = encode(json.loads(lines[0]) | {"ext": identity}) + b"\n"
    forged = resign(lines, thief)
    put(log, forged)
    (log / "HEAD").write_text(json.loads(forged[-1])["cp"])
    assert verify_path(log).exit_code == 0
    assert verify_path(log, vkey=vkey).exit_code == 1


def test_a_wrong_number_under_a_good_signature_is_found(log: Path) -> None:
    signer = load_signer(log.parent / "keys", ORIGIN, create=False)
    (log / "HEAD").unlink()
    lines = lines_of(log)
    lines[at_record(lines, 9)] = lines[at_record(lines, 9)].replace(b'"seq":9', b'"seq":8')
    put(log, resign(lines, signer))
    assert verify_path(log).exit_code == 1


# -- missing parts ---------------------------------------------------------------------------------


def test_a_tail_cut_at_a_checkpoint_is_shown_by_head(log: Path) -> None:
    lines = lines_of(log)
    put(log, lines[: at_record(lines, 13) + 2])
    verdict = verify_path(log)
    assert verdict.exit_code == 1
    assert findings(verdict)[0][0] == "records_removed"
    assert "20 records were published, the log has 14" in verdict.findings[0].sentence


def test_records_without_a_checkpoint_after_them_are_incomplete(log: Path) -> None:
    (log / "HEAD").unlink()
    lines = lines_of(log)
    put(log, lines[:-1])
    verdict = verify_path(log)
    assert verdict.exit_code == 2
    assert findings(verdict) == [("head_missing", None), ("unsigned_tail", 15)]
    put(log, [*lines[:-2], lines[-2][:50]])
    assert verify_path(log).exit_code == 2


def test_head_vouches_for_records_whose_checkpoint_is_gone(log: Path) -> None:
    put(log, lines_of(log)[:-1])
    verdict = verify_path(log)
    assert verdict.exit_code == 2
    assert findings(verdict) == [("checkpoint_missing", 19)]
    lines = lines_of(log)
    lines[at_record(lines, 17)] = lines[at_record(lines, 17)].replace(b'"n":2', b'"n":3')
    put(log, lines)
    assert findings(verify_path(log)) == [("record_changed", 17)]


def test_missing_files_are_incomplete(log: Path) -> None:
    segment = list_segments(log)[0]
    content, head = segment.read_bytes(), (log / "HEAD").read_bytes()
    (log / "HEAD").unlink()
    assert findings(verify_path(log)) == [("head_missing", None)]
    assert verify_path(log).exit_code == 2
    segment.write_bytes(b"")
    assert verify_path(log).exit_code == 2
    segment.unlink()
    assert findings(verify_path(log)) == [("head_missing", None), ("empty", None)]
    segment.write_bytes(content)
    (log / "HEAD").write_bytes(head)
    (log / "log.json").unlink()
    assert findings(verify_path(log)) == [("log_json_missing", None)]
    assert verify_path(log).exit_code == 2


def test_a_changed_identity_is_found(log: Path) -> None:
    identity = json.loads((log / "log.json").read_text())
    other = Signer(ORIGIN, bytes(32)).key.vkey()
    for changed in (
        identity | {"vkeys": [other]},
        identity | {"vkeys": []},
        identity | {"origin": "else"},
        identity | {"created": 1},
        {},
        [],
        None,
    ):
        (log / "log.json").write_text(json.dumps(changed))
        verdict = verify_path(log)
        assert verdict.exit_code == 1
        assert {code for code, _ in findings(verdict)} == {"log_json_changed"}


def test_a_key_from_outside_decides(log: Path) -> None:
    other = Signer(ORIGIN, bytes(32)).key.vkey()
    verdict = verify_path(log, vkey=other)
    assert verdict.exit_code == 1
    assert findings(verdict) == [("key_unknown", None)]


def test_a_changed_head_is_found(log: Path) -> None:
    head = (log / "HEAD").read_bytes()
    for at in range(len(head)):
        changed = bytearray(head)
        changed[at] ^= 1
        (log / "HEAD").write_bytes(changed)
        assert verify_path(log).exit_code == 1


@pytest.mark.parametrize("vkey", ["", "x", "a+b+c"])
def test_a_bad_key_is_a_usage_error(log: Path, vkey: str) -> None:
    assert verify_path(log, vkey=vkey).exit_code == 3


def test_what_is_not_a_ledger_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("hello")
    (tmp_path / "bytes").write_bytes(bytes(range(256)))
    for name in ("none", "empty", "file", "bytes"):
        verdict = verify_path(tmp_path / name)
        assert (verdict.status, verdict.exit_code) == ("usage", 3)
        assert str(tmp_path / name) in verdict.findings[0].sentence


# -- segments --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("long")
    with Ledger.open(
        home / "log", keys=home / "keys", origin=ORIGIN, segment_bytes=2000, disk=QuickDisk()
    ) as ledger:
        for n in range(20):
            ledger.append("journal", {"ext": {"n": n}}).result(10)
    return home


@pytest.fixture
def long_log(tmp_path: Path, long_template: Path) -> Path:
    log = copy_log(long_template, tmp_path)
    for path in (log / "segments").iterdir():
        path.chmod(0o600)
    assert len(list_segments(log)) > 3
    return log


def test_a_missing_segment_is_incomplete_and_the_rest_is_still_checked(long_log: Path) -> None:
    segments = list_segments(long_log)
    segments[1].unlink()
    verdict = verify_path(long_log)
    assert verdict.exit_code == 2
    assert findings(verdict) == [("segment_missing", int(segments[1].stem))]
    content = segments[2].read_bytes()
    segments[2].write_bytes(content.replace(b'"n":', b'"m":', 1))
    changed = json.loads(content.splitlines()[2 if b'"n"' not in content.splitlines()[0] else 0])
    verdict = verify_path(long_log)
    assert verdict.exit_code == 1
    assert ("record_changed", changed["seq"]) in findings(verdict)


def test_a_missing_first_or_last_segment_is_found(long_log: Path) -> None:
    segments = list_segments(long_log)
    content = segments[0].read_bytes()
    segments[0].unlink()
    assert verify_path(long_log).exit_code == 2
    segments[0].write_bytes(content)
    segments[-1].unlink()
    assert verify_path(long_log).exit_code != 0


def test_a_single_sealed_segment_is_checked_from_the_seal_before_it(long_log: Path) -> None:
    path = list_segments(long_log)[1]
    verdict = verify_path(path)
    assert verdict.exit_code == 2
    assert [code for code, _ in findings(verdict)] == ["starts_later"]
    data = path.read_bytes()
    path.write_bytes(data.replace(b'"n":', b'"m":', 1))
    assert verify_path(path).exit_code == 1


def test_a_changed_byte_anywhere_in_a_seal_is_found(long_log: Path) -> None:
    seal = seal_path(list_segments(long_log)[1])
    data = seal.read_bytes()
    for at in range(0, len(data), 5):
        changed = bytearray(data)
        changed[at] ^= 1
        seal.write_bytes(changed)
        verdict = verify_path(long_log)
        assert verdict.exit_code == 1, at
        assert {code for code, _ in findings(verdict)} == {"seal_changed"}


def test_a_removed_checkpoint_in_a_sealed_segment_is_found_by_the_seal(long_log: Path) -> None:
    path = list_segments(long_log)[1]
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[1]
    path.write_bytes(b"".join(lines))
    assert findings(verify_path(long_log)) == [("segment_changed", None)]


def test_a_missing_seal_is_incomplete(long_log: Path) -> None:
    seal_path(list_segments(long_log)[1]).unlink()
    verdict = verify_path(long_log)
    assert verdict.exit_code == 2
    assert findings(verdict) == [("seal_missing", None)]


# -- what the records say --------------------------------------------------------------------------


def test_an_unanswered_request_is_a_note_while_the_log_is_open_and_a_finding_after(
    tmp_path: Path,
) -> None:
    with Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin=ORIGIN) as ledger:
        ledger.append("request", {}).result(10)
        verdict = verify_path(tmp_path / "log")
        assert verdict.exit_code == 0
        assert [(note.code, note.seq) for note in verdict.notes] == [("request_unanswered", 1)]
    verdict = verify_path(tmp_path / "log")
    assert verdict.exit_code == 2
    assert findings(verdict) == [("request_unanswered", 1)]


def test_a_large_log_with_helpers_gives_the_same_answers(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shared.ledger.verify.HELPED_BYTES", 0)
    assert verify_path(log).exit_code == 0
    lines = lines_of(log)
    index = at_record(lines, 4) + 1
    change = b"A" if lines[index][-20:-19] != b"A" else b"B"
    lines[index] = lines[index][:-20] + change + lines[index][-19:]
    put(log, lines)
    assert findings(verify_path(log)) == [("checkpoint_signature", 4)]
    lines[at_record(lines, 9)] = lines[at_record(lines, 9)].replace(b'"n":4', b'"n":5')
    put(log, lines)
    assert findings(verify_path(log)) == [("checkpoint_signature", 4), ("record_changed", 9)]


@pytest.mark.parametrize("ref", [None, 1, 2, 3, 99])
def test_an_outcome_without_its_request_is_a_finding(tmp_path: Path, ref: int | None) -> None:
    with Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin=ORIGIN) as ledger:
        ledger.append("journal", {}).result(10)
        ledger.append("outcome", {"ref": ref}).result(10)
    verdict = verify_path(tmp_path / "log")
    assert findings(verdict) == [("outcome_unpaired", 2)]
    assert verdict.exit_code == 1


def test_a_clock_that_goes_back_without_a_record_of_it_is_a_finding(tmp_path: Path) -> None:
    log = write_log(tmp_path)
    signer = load_signer(tmp_path / "keys", ORIGIN, create=False)
    (log / "HEAD").unlink()
    lines = lines_of(log)
    record = json.loads(lines[at_record(lines, 7)])
    lines[at_record(lines, 7)] = encode(record | {"ts": record["ts"] - 10_000_000}) + b"\n"
    put(log, resign(lines, signer))
    assert findings(verify_path(log)) == [("head_missing", None), ("clock_decreased", 7)]


# -- anything at all -------------------------------------------------------------------------------


def test_a_log_being_written_verifies_at_any_moment(tmp_path: Path) -> None:
    with Ledger.open(
        tmp_path / "log", keys=tmp_path / "keys", origin=ORIGIN, segment_bytes=20_000
    ) as ledger:
        futures = []
        for _ in range(40):
            futures += [ledger.append("journal", {}) for _ in range(20)]
            verdict = verify_path(tmp_path / "log")
            assert verdict.exit_code == 0, verdict
        for future in futures:
            future.result(10)


def test_a_line_that_is_just_being_written_is_a_note(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin=ORIGIN) as ledger:
        ledger.append("journal", {}).result(10)
        segment = list_segments(tmp_path / "log")[0]
        size = segment.stat().st_size
        with segment.open("ab") as file:
            file.write(b'{"boot":"')
        verdict = verify_path(tmp_path / "log")
        assert (verdict.exit_code, [note.code for note in verdict.notes]) == (0, ["torn_tail"])
        copy = tmp_path / "copy"
        shutil.copytree(tmp_path / "log", copy)
        with segment.open("r+b") as file:
            file.truncate(size)
    verdict = verify_path(copy)
    assert (verdict.exit_code, findings(verdict)) == (2, [("torn_tail", 2)])


def test_many_findings_are_counted_not_kept(tmp_path: Path) -> None:
    log = write_log(tmp_path, (1,) * (MAX_FINDINGS + 50))
    put(log, [line.replace(b'"}', b'A"}') if b'"cp"' in line else line for line in lines_of(log)])
    verdict = verify_path(log)
    assert len(verdict.findings) <= MAX_FINDINGS + 1
    assert verdict.more > 0
    assert verdict.exit_code == 1


def test_a_log_without_any_checkpoint_is_read_in_flat_memory(tmp_path: Path) -> None:
    log = write_log(tmp_path, (BATCH_LIMIT,) * 10)
    put(log, [line for line in lines_of(log) if not line.startswith(b'{"cp"')])
    verdict = verify_path(log)
    assert verdict.records == 10 * BATCH_LIMIT + 1
    assert verdict.exit_code in (1, 2)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_it_never_raises_on_arbitrary_bytes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    log = tmp_path_factory.mktemp("any") / "log"
    (log / "segments").mkdir(parents=True)
    pieces = st.one_of(
        st.binary(max_size=60),
        st.sampled_from(
            [b"\n", b'{"cp":"', b'"}', b'{"v":1,"seq":0,"prev":"', b"\xe2\x80\x94 ", b"["]
        ),
    )
    content = st.lists(pieces, max_size=12).map(b"".join)
    (log / "segments" / f"{data.draw(st.sampled_from([0, 7])):020d}.jsonl").write_bytes(
        data.draw(content)
    )
    for name in data.draw(st.sets(st.sampled_from(["log.json", "HEAD", "LOCK"]))):
        (log / name).write_bytes(data.draw(content))
    verdict = verify_path(log)
    assert verdict.exit_code in (1, 2)
    assert all(finding.sentence.endswith((".", "?")) for finding in verdict.findings)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    edits=st.lists(
        st.tuples(st.sampled_from("dsrc"), st.integers(0, 10_000), st.integers(0, 10_000)),
        min_size=1,
        max_size=5,
    )
)
def test_any_mix_of_edits_is_noticed_and_nothing_raises(
    tmp_path_factory: pytest.TempPathFactory,
    template: Path,
    edits: list[tuple[str, int, int]],
) -> None:
    log = copy_log(template, tmp_path_factory.mktemp("edit"))
    lines = lines_of(log)
    changed = list(lines)
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
    put(log, changed)
    verdict = verify_path(log)
    records = [line for line in lines if not line.startswith(b'{"cp"')]
    if [line for line in changed if not line.startswith(b'{"cp"')] != records:
        assert verdict.exit_code != 0, edits


def test_a_failed_log_still_verifies(tmp_path: Path) -> None:
    class Breaking(Disk):
        broken = False

        def write(self, fd: int, data: bytes) -> None:
            if self.broken:
                raise OSError(5, "Input/output error")
            super().write(fd, data)

    disk = Breaking()
    with Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin=ORIGIN, disk=disk) as ledger:
        ledger.append("journal", {}).result(10)
        disk.broken = True
        with pytest.raises(LedgerFailed, match="Input/output error"):
            ledger.append("journal", {}).result(10)
    assert verify_path(tmp_path / "log").records == 2
    assert verify_path(tmp_path / "log").exit_code == 0
