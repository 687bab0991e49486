"""The attack table: who can write to the disk does each attack on a real log, and both verifiers
(the package's and the single file) say what they find. Columns, as in FORMAT.md: B the log and its
public key; C a receipt or checkpoint held outside; D a witness's cosignature; E an RFC 3161 stamp;
F the key of each segment, gone once it is sealed. A dash is a test that nothing is found."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from quick_disk import QuickDisk

from shared.anchors.cosignature import Cosigner
from shared.ledger import Ledger, ledger_verify, verify_path
from shared.ledger.checkpoint import Checkpoint, Signer, checkpoint_line, load_signer
from shared.ledger.claims import Outside
from shared.ledger.merkle import Frontier, leaf_hash
from shared.ledger.record import encode
from shared.ledger.segment import Seal, list_segments, seal_digest, seal_path

ORIGIN = "audit.example.org/attacked"
HOUR_US = 3_600_000_000
#: What the single file calls the same thing as something else, as FORMAT.md lists.
COARSER = {
    code: coarser
    for coarser, codes in {
        "record_changed": "record_missing record_out_of_order line_break_added tree_mismatch "
        "checkpoint_unreadable checkpoint_out_of_order checkpoint_of_another_log",
        "torn_tail": "line_break_removed",
        "unsigned_tail": "checkpoint_missing",
        "seal_changed": "segment_changed seal_mismatch",
        "gate_not_approved": "gate_unopened gate_decided_twice gate_changed",
        "head_mismatch": "head_changed",
        "rolled_back": "records_removed",
        "wrongly_called": "bad_vkey bad_evidence no_such_path not_a_ledger not_a_bundle",
    }.items()
    for code in codes.split()
}


#: Damage to the lines of a segment: it says one of these.
LINES = {"record_changed", "checkpoint_signature", "key_rotation_bad", "torn_tail"}


# -- both verifiers --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Said:
    """What a verifier said."""

    code: int
    found: frozenset[str]
    notes: frozenset[str]


@dataclass(frozen=True)
class Held:
    """What an auditor holds outside of the log."""

    vkeys: tuple[str, ...] = ()
    log_id: str = ""
    priors: tuple[Path, ...] = ()
    receipts: tuple[str, ...] = ()
    cosignatures: tuple[Path, ...] = ()
    witnesses: tuple[str, ...] = ()
    stamps: tuple[Path, ...] = ()
    authority: Path | None = None


def by_package(path: Path, held: Held) -> Said:
    outside = Outside(
        held.priors,
        held.receipts,
        held.cosignatures,
        held.witnesses,
        held.stamps,
        held.authority,
    )
    verdict = verify_path(path, vkeys=held.vkeys, log_id=held.log_id, outside=outside)
    assert all(finding.sentence[-1] in ".?" for finding in verdict.findings)
    return Said(
        verdict.exit_code,
        frozenset(finding.code for finding in verdict.findings),
        frozenset(note.code for note in verdict.notes),
    )


def by_single_file(path: Path, held: Held) -> Said:
    command = [str(path), "--json", "--log-id", held.log_id, "--tsa-ca", str(held.authority or "")]
    options: dict[str, tuple[Any, ...]] = {
        "--vkey": held.vkeys,
        "--prior": held.priors,
        "--receipt": held.receipts,
        "--cosignature": held.cosignatures,
        "--witness": held.witnesses,
        "--tsr": held.stamps,
    }
    for name, values in options.items():
        for value in values:
            command += [name, str(value)]
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        code = ledger_verify.main(command)
    said = json.loads(output.getvalue())
    return Said(
        code,
        frozenset(finding["code"] for finding in said["findings"]),
        frozenset(note["code"] for note in said["notes"]),
    )


def verify(path: Path, held: Held | None = None) -> Said:
    """Ask both verifiers; they must agree, as FORMAT.md says how far."""
    first = by_package(path, held or Held())
    second = by_single_file(path, held or Held())
    assert second.code == first.code, (first, second)
    expected = {COARSER.get(code, code) for code in first.found}
    if expected & LINES and first.code == 1:
        expected |= LINES
    if first.code in (1, 3):  # it ends at the first thing that means as much
        assert second.found & expected, (first, second)
    if first.code in (0, 2) and "segment_missing" not in first.found:
        assert second.found == expected, (first, second)
    assert second.found <= expected | {"unsigned_tail"}, (first, second)
    return first


# -- a log, and what is held of it -----------------------------------------------------------------


def clock_at(offset_us: int = 0) -> Callable[[], tuple[int, int]]:
    return lambda: (time.time_ns() // 1000 + offset_us, time.monotonic_ns() // 1000)


def open_log(home: Path, offset_us: int = 0, segment_bytes: int = 6000) -> Ledger:
    return Ledger.open(
        home / "log",
        keys=home / "keys",
        origin=ORIGIN,
        disk=QuickDisk(),
        segment_bytes=segment_bytes,
        clock=clock_at(offset_us),
    )


def write(ledger: Ledger, calls: int) -> list[str]:
    """Record calls; return the receipts."""
    receipts = []
    for number in range(calls):
        request = ledger.append("request", {"task": "T1", "ext": {"n": number}}).result(10)
        fields = {"ref": request.seq, "outcome": {"status": "ok"}}
        receipts += [request.header(), ledger.append("outcome", fields).result(10).header()]
    return receipts


@dataclass
class Authority:
    """A time-stamp authority of our own, by `openssl ts`."""

    folder: Path
    certificate: Path = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir()
        self.certificate = self.folder / "tsa.crt"
        (self.folder / "serial").write_text("01\n")
        config = self.folder / "tsa.cnf"
        config.write_text(
            "[req]\ndistinguished_name=dn\nprompt=no\nx509_extensions=v3\n[dn]\nCN=Test TSA\n"
            "[v3]\nbasicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
            "extendedKeyUsage=critical,timeStamping\n[tsa]\ndefault_tsa=tsa1\n[tsa1]\n"
            f"serial={self.folder}/serial\ncrypto_device=builtin\nsigner_cert={self.folder}/tsa.crt\n"
            f"certs={self.folder}/tsa.crt\nsigner_key={self.folder}/tsa.key\nsigner_digest=sha256\n"
            "default_policy=1.2.3.4.1\ndigests=sha256\naccuracy=secs:1\nordering=yes\n"
            "tsa_name=yes\ness_cert_id_chain=no\ness_cert_id_alg=sha256\n"
        )
        self.run(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-days", "30", "-config", str(config), "-keyout", str(self.folder / "tsa.key")),
            *("-out", str(self.certificate)),
        )

    def run(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

    def stamp(self, checkpoint: Path) -> Path:
        query, reply = checkpoint.with_suffix(".tsq"), checkpoint.with_suffix(".tsr")
        common = ("-config", str(self.folder / "tsa.cnf"))
        self.run("ts", "-query", "-data", str(checkpoint), "-sha256", "-cert", "-out", str(query))
        self.run("ts", "-reply", "-queryfile", str(query), *common, "-out", str(reply))
        return reply


@dataclass(frozen=True)
class Stage:
    """A log in `home`, and for each column what was taken of it outside when it was whole."""

    home: Path
    columns: dict[str, Held]
    receipts: list[str]

    @property
    def log(self) -> Path:
        return self.home / "log"

    def signer(self) -> Signer:
        return load_signer(self.home / "keys", ORIGIN, create=False)


def take_evidence(
    ledger: Ledger, folder: Path, receipt: str, authority: Authority
) -> dict[str, Held]:
    """Take of an open log what each column holds."""
    folder.mkdir()
    vkeys = (ledger.vkey,)
    note = ledger.checkpoint
    prior = folder / f"{ledger.size}.checkpoint"
    prior.write_text(note)
    cosigner = Cosigner("witness.example.org/w", bytes(range(32)))
    cosigned = folder / "cosigned"
    text = note[: note.index("\n\n") + 1]
    cosigned.write_text(note + cosigner.cosign(text, int(time.time())) + "\n")
    first = (ledger.directory / "segments" / f"{0:020d}.jsonl").read_bytes().split(b"\n")[0]
    return {
        "B": Held(vkeys),
        "C": Held(vkeys, receipts=(receipt,), priors=(prior,)),
        "D": Held(vkeys, cosignatures=(cosigned,), witnesses=(cosigner.key.vkey(),)),
        "E": Held(vkeys, stamps=(authority.stamp(prior),), authority=authority.certificate),
        "F": Held(vkeys, log_id=leaf_hash(first).hex()),
    }


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    return Authority(tmp_path_factory.mktemp("authority") / "tsa")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Stage:
    home = tmp_path_factory.mktemp("template")
    with open_log(home) as ledger:
        receipts = write(ledger, 20)
        columns = take_evidence(ledger, home / "held", receipts[-1], authority)
    assert len(list_segments(home / "log")) >= 3
    return Stage(home, columns, receipts)


def copy_stage(stage: Stage, home: Path) -> Stage:
    for part in ("log", "keys"):
        shutil.copytree(stage.home / part, home / part)
    for path in (home / "log" / "segments").iterdir():
        path.chmod(0o600)
    return Stage(home, stage.columns, stage.receipts)


@pytest.fixture
def stage(tmp_path: Path, template: Stage) -> Stage:
    return copy_stage(template, tmp_path)


# -- the attacker's tools --------------------------------------------------------------------------


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def is_record(line: bytes) -> bool:
    return not line.startswith(b'{"cp"')


Edit = Callable[[dict[str, Any]], dict[str, Any]]


def rewrite(
    log: Path, edit: Edit, signer: Signer, seal_signers: dict[int, Signer] | None = None
) -> None:
    """Tell the whole history anew: every link, root, checkpoint, seal and HEAD, signed with
    `signer`; a seal whose segment key is not in `seal_signers` keeps the old line of that key."""
    frontier, prev, previous, note, waiting = Frontier(), "0" * 64, "0" * 64, "", set()
    for path in list_segments(log):
        out, first, record = [], frontier.size, {}
        for line in lines_of(path):
            if not is_record(line):
                note = signer.sign(Checkpoint(ORIGIN, frontier.size, frontier.root()).text())
                out.append(checkpoint_line(note) + b"\n")
                continue
            record = edit(json.loads(line)) | {"prev": prev}
            if record["type"] == "seal":
                record["ext"]["previous"] = previous
            waiting |= {record["seq"]} if record["type"] == "request" else set()
            waiting -= {record.get("ref")} if record["type"] == "outcome" else set()
            prev = leaf_hash(encode(record)).hex()
            frontier.append(bytes.fromhex(prev))
            out.append(encode(record) + b"\n")
        path.write_bytes(b"".join(out))
        if seal_path(path).exists():
            old = seal_path(path).read_text()
            seal = Seal(
                ORIGIN, first, frontier.size, frontier.root(),
                ledger_verify.sha256(b"".join(out)).hexdigest(), previous, prev, record["ts"],
                frontier.peaks(), tuple(sorted(waiting)),
            )  # fmt: skip
            line = old.splitlines(keepends=True)[-1]
            if seal_signers is not None:
                line = seal_signers[first].line(seal.text())
            sealed = signer.sign(seal.text()) + line
            seal_path(path).write_text(sealed)
            previous = seal_digest(sealed)
    (log / "HEAD").write_text(note)


def change_record(seq: int) -> Edit:
    def edit(record: dict[str, Any]) -> dict[str, Any]:
        return record | {"task": "T9"} if record["seq"] == seq else record

    return edit


def last_request(log: Path) -> int:
    """The last request of the segment that is not sealed."""
    records = [json.loads(line) for line in lines_of(list_segments(log)[-1]) if is_record(line)]
    return max(record["seq"] for record in records if record["type"] == "request")


def cut(log: Path, size: int) -> None:
    """Cut the log to a commit of the past, HEAD and all, as if it never went on."""
    note = ""
    for path in list_segments(log):
        kept = []
        for line in lines_of(path):
            if is_record(line) and json.loads(line)["seq"] >= size:
                break
            kept.append(line)
        if kept:
            note = json.loads(next(line for line in reversed(kept) if not is_record(line)))["cp"]
            path.write_bytes(b"".join(kept))
        else:
            path.unlink()
        last = json.loads(next(line for line in reversed(kept) if is_record(line))) if kept else {}
        if last.get("type") != "seal":
            seal_path(path).unlink(missing_ok=True)
    (log / "HEAD").write_text(note)


def edit_lines(log: Path, change: Callable[[list[bytes]], list[bytes]], segment: int = 0) -> None:
    path = list_segments(log)[segment]
    path.write_bytes(b"".join(change(lines_of(path))))


COLUMNS = list("BCDEF")


# -- the rows --------------------------------------------------------------------------------------


def test_a_whole_log_is_intact_in_every_column(stage: Stage) -> None:
    for column in COLUMNS:
        assert verify(stage.log, stage.columns[column]) == Said(0, frozenset(), frozenset())


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("segment", [0, -1])
def test_edit_a_known_field(stage: Stage, column: str, segment: int) -> None:
    edit_lines(
        stage.log,
        lambda lines: [line.replace(b'"n":', b'"n":1', 1) for line in lines],
        segment,
    )
    said = verify(stage.log, stage.columns[column])
    assert said.code == 1
    assert "record_changed" in said.found


@pytest.mark.parametrize("column", COLUMNS)
def test_add_a_field_or_move_text_between_fields(stage: Stage, column: str) -> None:
    original = list_segments(stage.log)[-1].read_bytes()
    for old, new in (
        (b'"task":"T1"', b'"task":"T1","tenant":"x"'),
        (b'"ext":{"n":', b'"ext":{"m":'),
    ):
        list_segments(stage.log)[-1].write_bytes(original.replace(old, new, 1))
        said = verify(stage.log, stage.columns[column])
        assert (said.code, said.found) == (1, {"record_changed"})


@pytest.mark.parametrize("column", COLUMNS)
def test_delete_or_reorder_in_the_middle(stage: Stage, column: str) -> None:
    path = list_segments(stage.log)[-1]
    lines = lines_of(path)
    path.write_bytes(b"".join(lines[:2] + lines[4:]))
    said = verify(stage.log, stage.columns[column])
    assert said.code == 1
    assert "record_missing" in said.found
    path.write_bytes(b"".join([lines[2], lines[3], lines[0], lines[1], *lines[4:]]))
    said = verify(stage.log, stage.columns[column])
    assert said.code == 1
    assert said.found & {"record_out_of_order", "record_missing"}


@pytest.mark.parametrize("column", COLUMNS)
def test_rewrite_all_and_hash_again_without_the_key(stage: Stage, column: str) -> None:
    rewrite(stage.log, change_record(5), Signer(ORIGIN, bytes(32)))
    said = verify(stage.log, stage.columns[column])
    assert said.code == 1
    assert {"checkpoint_signature", "seal_changed"} <= said.found


@pytest.mark.parametrize("column", COLUMNS)
def test_rewrite_all_with_a_new_identity(stage: Stage, column: str) -> None:
    thief, mine = Signer(ORIGIN, bytes(32)), {}
    identity = json.loads((stage.log / "log.json").read_text()) | {"vkeys": [thief.key.vkey()]}
    names = [int(path.stem) for path in list_segments(stage.log)]
    for number, first in enumerate(names):
        mine[first] = Signer(f"{ORIGIN}/seal", bytes([number]) * 32)
    identity["segment_key"] = mine[0].key.vkey()
    following = dict(itertools.pairwise(names))

    def edit(record: dict[str, Any]) -> dict[str, Any]:
        if record["type"] == "genesis":
            return change_record(5)(record | {"ext": identity})
        if record["type"] == "seal":
            key = mine[following[record["ext"]["first"]]].key.vkey()
            return record | {"ext": record["ext"] | {"next_key": key}}
        return change_record(5)(record)

    (stage.log / "log.json").write_text(json.dumps(identity))
    rewrite(stage.log, edit, thief, mine)
    said = verify(stage.log, stage.columns[column])
    assert said.code == 1
    assert "key_unknown" in said.found
    assert verify(stage.log).code == 0, "without anything from outside it is a log like any other"


TRUNCATED = {"C": "rolled_back", "D": "rolled_back", "E": "rolled_back"}


@pytest.mark.parametrize("column", COLUMNS)
def test_truncate_the_tail_to_an_earlier_commit(stage: Stage, column: str) -> None:
    size = int(list_segments(stage.log)[-1].stem) - 6
    cut(stage.log, size)
    said = verify(stage.log, stage.columns[column])
    if column in TRUNCATED:
        assert (said.code, said.found) == (1, {TRUNCATED[column]})
    else:  # dash: what is left is a whole log, only a shorter one
        assert said.found <= {"request_unanswered"}


def test_what_was_cut_after_the_last_receipt_or_stamp_is_not_seen(stage: Stage) -> None:
    with open_log(stage.home, segment_bytes=1 << 20) as ledger:
        write(ledger, 2)
    cut(stage.log, int(stage.receipts[-1].split(";")[2]))
    for column in COLUMNS:
        assert verify(stage.log, stage.columns[column]).code == 0


def test_a_cut_inside_a_sealed_segment_is_shown_by_its_seal(stage: Stage) -> None:
    path = list_segments(stage.log)[1]
    kept = lines_of(path)[:4]
    path.write_bytes(b"".join(kept))
    for later in list_segments(stage.log)[2:]:
        later.unlink()
        seal_path(later).unlink(missing_ok=True)
    (stage.log / "HEAD").write_text(json.loads(kept[3])["cp"])
    said = verify(stage.log, stage.columns["F"])
    assert said.code == 1
    assert "segment_changed" in said.found


@pytest.mark.parametrize("column", COLUMNS)
def test_roll_the_whole_directory_back(tmp_path: Path, authority: Authority, column: str) -> None:
    home = tmp_path / "rolled"
    home.mkdir()
    with open_log(home) as ledger:
        write(ledger, 6)
    shutil.copytree(home / "log", tmp_path / "backup")
    with open_log(home) as ledger:
        receipts = write(ledger, 6)
        columns = take_evidence(ledger, tmp_path / "held", receipts[-1], authority)
    said = verify(tmp_path / "backup", columns[column])
    expected = {"rolled_back"} if column in "CDE" else set()
    assert (said.code, said.found) == (int(bool(expected)), expected)


FORKED = {"C": {"receipt_mismatch", "prior_mismatch"}, "D": {"fork"}, "E": {"prior_mismatch"}}


@pytest.mark.parametrize("column", COLUMNS)
def test_a_cloned_machine_goes_on_twice(tmp_path: Path, authority: Authority, column: str) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    with open_log(one, segment_bytes=1 << 20) as ledger:
        write(ledger, 3)
    shutil.copytree(one, two)
    with open_log(one, segment_bytes=1 << 20) as ledger:
        receipts = write(ledger, 5)
        columns = take_evidence(ledger, tmp_path / "held", receipts[-1], authority)
    with open_log(two, segment_bytes=1 << 20) as ledger:
        write(ledger, 5)
    assert verify(one / "log", columns[column]).code == 0
    said = verify(two / "log", columns[column])
    assert said.found == FORKED.get(column, set())
    assert said.code == int(column in FORKED)


@pytest.mark.parametrize("column", COLUMNS)
def test_the_stolen_key_rewrites_the_active_segment(stage: Stage, column: str) -> None:
    active, victim = int(list_segments(stage.log)[-1].stem), last_request(stage.log)
    signer = stage.signer()
    keep = {path: path.read_bytes() for path in (stage.log / "segments").iterdir()}
    rewrite(stage.log, change_record(victim), signer)
    for path, data in keep.items():  # what was before it is told as it was
        if int(path.stem) != active:
            path.write_bytes(data)
    said = verify(stage.log, stage.columns[column])
    assert said.found == FORKED.get(column, set())
    assert said.code == int(column in FORKED)


@pytest.mark.parametrize("column", COLUMNS)
def test_the_stolen_key_rewrites_a_sealed_segment(stage: Stage, column: str) -> None:
    rewrite(stage.log, change_record(5), stage.signer())
    said = verify(stage.log, stage.columns[column])
    assert said.code == 1
    assert "seal_changed" in said.found, "the key of that segment is gone, nobody can sign again"
    assert FORKED.get(column, set()) <= said.found


def test_the_stolen_key_with_new_segment_keys_changes_the_log_id(stage: Stage) -> None:
    names = [int(path.stem) for path in list_segments(stage.log)]
    mine = {first: Signer(f"{ORIGIN}/seal", bytes([n]) * 32) for n, first in enumerate(names)}
    following = dict(itertools.pairwise(names))
    identity = json.loads((stage.log / "log.json").read_text())
    identity["segment_key"] = mine[0].key.vkey()

    def edit(record: dict[str, Any]) -> dict[str, Any]:
        if record["type"] == "genesis":
            return record | {"ext": identity}
        if record["type"] == "seal":
            key = mine[following[record["ext"]["first"]]].key.vkey()
            return record | {"ext": record["ext"] | {"next_key": key}}
        return change_record(5)(record)

    (stage.log / "log.json").write_text(json.dumps(identity))
    rewrite(stage.log, edit, stage.signer(), mine)
    assert verify(stage.log, stage.columns["B"]).code == 0
    said = verify(stage.log, stage.columns["F"])
    assert (said.code, said.found) == (1, {"log_id_mismatch"})


@pytest.mark.parametrize("column", COLUMNS)
def test_the_stolen_key_forges_the_future_and_nobody_sees(stage: Stage, column: str) -> None:
    with open_log(stage.home) as ledger:  # whoever has the keys can do what the gateway does
        write(ledger, 3)
    assert verify(stage.log, stage.columns[column]).code == 0


@pytest.mark.parametrize("column", COLUMNS)
def test_what_was_never_logged_is_not_seen(
    tmp_path: Path, authority: Authority, column: str
) -> None:
    with open_log(tmp_path) as ledger:
        receipts = write(ledger, 2)  # the third call went past the gateway
        columns = take_evidence(ledger, tmp_path / "held", receipts[-1], authority)
    assert verify(tmp_path / "log", columns[column]).code == 0


@pytest.mark.parametrize("hours", [-24, 24])
@pytest.mark.parametrize("column", COLUMNS)
def test_a_clock_that_was_set_wrong_all_along(
    tmp_path: Path, authority: Authority, column: str, hours: int
) -> None:
    with open_log(tmp_path, hours * HOUR_US) as ledger:
        receipts = write(ledger, 2)
        columns = take_evidence(ledger, tmp_path / "held", receipts[-1], authority)
        write(ledger, 2)
    said = verify(tmp_path / "log", columns[column])
    expected = {"time_contradicted"} if column in "DE" else set()
    assert (said.code, said.found) == (2 if expected else 0, expected)


def test_a_clock_that_is_set_back_shows_in_the_order(tmp_path: Path) -> None:
    with open_log(tmp_path) as ledger:
        write(ledger, 1)
    with open_log(tmp_path, -HOUR_US) as ledger:
        write(ledger, 1)
    assert verify(tmp_path / "log").code == 0
    records = [json.loads(line) for line in lines_of(list_segments(tmp_path / "log")[0])]
    assert "clock_step" in {record.get("type") for record in records}


@pytest.mark.parametrize("column", COLUMNS)
def test_delete_the_whole_log_and_begin_another(stage: Stage, column: str) -> None:
    shutil.rmtree(stage.log)
    assert verify(stage.log, stage.columns[column]).code == 3
    for key in (stage.home / "keys").glob("segment-*"):
        key.unlink()
    with open_log(stage.home) as ledger:
        write(ledger, 2)
    said = verify(stage.log, stage.columns[column])
    expected = {"F": {"log_id_mismatch"}, "B": set()}.get(column, {"rolled_back"})
    assert (said.code, said.found) == (int(bool(expected)), expected)
