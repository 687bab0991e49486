"""Tiles: the published layout, made while the log grows, never believed, rebuilt from records."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_log import SyntheticLog, files_of

from shared.ledger import Ledger
from shared.ledger.checkpoint import open_note, parse_checkpoint, parse_vkey
from shared.ledger.errors import LedgerError
from shared.ledger.lookup import Archive, RecordGone
from shared.ledger.merkle import leaf_hash, root_of
from shared.ledger.proofs import Prover, inclusion_path
from shared.ledger.segment import segment_path
from shared.ledger.tiles import (
    TileWriter,
    TreeReader,
    checkpoint_of,
    export_tlog,
    rebuild,
    tile_path,
)

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "ledger"
TESSERA = DATA / "tessera_log" / "testdata" / "log"
TESSERA_KEY = "example.com/log/testdata+33d7b496+AeHTu4Q3hEIMHNqc6fASMsq3rKNx280NI+oO5xCFkkSx"


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> SyntheticLog:
    """3,000 records in four sealed segments and an active one."""
    log = SyntheticLog(tmp_path_factory.mktemp("grown") / "log")
    for count in (299, 700, 401, 1111):
        log.fill(count, batch=50)
        log.seal()
    log.fill(3000 - log.frontier.size)
    return log


@pytest.fixture
def copy(grown: SyntheticLog, tmp_path: Path) -> Path:
    """A log of one's own to damage."""
    return Path(shutil.copytree(grown.directory, tmp_path / "log"))


@pytest.mark.parametrize(
    ("level", "index", "width", "path"),
    [
        (0, 0, 256, "tile/0/000"),
        (0, 1234067, 256, "tile/0/x001/x234/067"),
        (1, 1000, 7, "tile/1/x001/000.p/7"),
        ("entries", 999, 255, "tile/entries/999.p/255"),
    ],
)
def test_tiles_have_the_published_names(level: Any, index: int, width: int, path: str) -> None:
    assert tile_path(level, index, width) == path


@pytest.mark.skipif(not TESSERA.is_dir(), reason="the published log is not here")
def test_a_published_log_read_as_tiles_gives_its_signed_roots() -> None:
    keys = [parse_vkey(TESSERA_KEY)]
    for size in range(1, 16):
        tile = (TESSERA / tile_path(0, 0, size)).read_bytes()
        leaves = [tile[at : at + 32] for at in range(0, len(tile), 32)]
        note = (TESSERA / f"checkpoint.{size}").read_text()
        checkpoint = parse_checkpoint(open_note(note, keys))
        assert (checkpoint.size, checkpoint.root) == (size, root_of(leaves))


@given(steps=st.lists(st.integers(1, 700), min_size=1, max_size=8))
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_however_the_leaves_arrive_the_same_tiles_are_written(
    steps: list[int], grown: SyntheticLog, tmp_path_factory: pytest.TempPathFactory
) -> None:
    one, many = (
        Path(shutil.copytree(grown.directory, tmp_path_factory.mktemp(name) / "log"))
        for name in ("one", "many")
    )
    size = min(sum(steps), len(grown.leaves))
    TileWriter(one).add(0, b"".join(grown.leaves[:size]))
    writer, done = TileWriter(many), 0
    for number, step in enumerate(steps):
        if number % 3 == 2:
            writer = TileWriter(many)  # a restart
        end = min(done + step, size)
        skipped = (end - done) // 2 if number % 2 else 0  # what a crash did not hand over
        writer.add(done + skipped, b"".join(grown.leaves[done + skipped : end]))
        done = end
    assert files_of(one / "tile") == files_of(many / "tile") if (one / "tile").exists() else True
    for name in files_of(one):
        assert (one / name).read_bytes() == (many / name).read_bytes(), name


def test_a_full_tile_holds_the_hashes_the_format_says(grown: SyntheticLog, copy: Path) -> None:
    assert rebuild(copy) == 3000
    for index in range(3000 // 256):
        tile = (copy / tile_path(0, index)).read_bytes()
        assert tile == b"".join(grown.leaves[index * 256 : (index + 1) * 256])
    assert not (copy / tile_path(0, 11)).exists()  # the last one is not full


def test_every_node_of_the_tree_is_the_naive_root(grown: SyntheticLog, copy: Path) -> None:
    for with_tiles in (False, True):
        if with_tiles:
            rebuild(copy)
        with Archive(copy) as archive:
            tree = TreeReader(archive)
            for level in range(12):
                for index in range(3000 >> level):
                    expected = root_of(grown.leaves[index << level : (index + 1) << level])
                    assert tree.node(level, index) == expected


def damages() -> list[Any]:
    return [
        pytest.param(lambda data: data[:-1], id="short"),
        pytest.param(lambda data: b"", id="empty"),
        pytest.param(lambda data: data[:100] + b"\xff" + data[101:], id="wrong"),
        pytest.param(lambda data: bytes(len(data)), id="zeros"),
        pytest.param(lambda data: data + data, id="long"),
    ]


@pytest.mark.parametrize("damage", damages())
@pytest.mark.parametrize("name", ["tile/0/000", "tile/0/003", "tile/edge"])
def test_a_damaged_tile_is_never_believed_and_can_be_rebuilt(
    name: str, damage: Any, grown: SyntheticLog, copy: Path
) -> None:
    rebuild(copy)
    good = (copy / name).read_bytes()
    (copy / name).write_bytes(damage(good))
    with Prover(copy) as prover:
        for seq in (0, 5, 800, 2999):
            assert prover.inclusion(seq, grown.note).shows(
                leaf_hash(grown.lines[seq]), checkpoint_of(grown.note)
            )
    rebuild(copy)
    assert (copy / name).read_bytes() == good
    with Prover(copy) as prover:
        prover.inclusion(800, grown.note)
        assert not prover.tiles_wrong


def test_a_wrong_tile_is_told(grown: SyntheticLog, copy: Path) -> None:
    rebuild(copy)
    tile = copy / tile_path(0, 2)
    tile.write_bytes(bytes([1]) * 8192)
    with Prover(copy) as prover:
        prover.inclusion(513, grown.note)
        assert prover.tiles_wrong


def prune(directory: Path, segments: int) -> int:
    """Remove the oldest segments as retention does; return the first record kept."""
    paths = sorted((directory / "segments").glob("*.jsonl"))
    first = int(paths[segments].stem)
    for path in paths[:segments]:
        path.chmod(0o600)
        path.unlink()
    for index in range(first // 256):
        (directory / tile_path(0, index)).unlink(missing_ok=True)
    return first


@pytest.mark.parametrize("segments", [1, 2, 3, 4])
@pytest.mark.parametrize("tiled", ["tiles", "no tiles", "tiles lost later", "tiles rebuilt later"])
def test_proofs_of_kept_records_hold_in_a_pruned_log(
    segments: int, tiled: str, grown: SyntheticLog, copy: Path
) -> None:
    if tiled != "no tiles":
        rebuild(copy)
    first = prune(copy, segments)
    if tiled == "tiles lost later":
        shutil.rmtree(copy / "tile")
    if tiled == "tiles rebuilt later":
        rebuild(copy)
    with Prover(copy) as prover:
        for seq in {first, first + 1, 2700, 2999}:
            prover.inclusion(seq, grown.note)
        for old in {size for size in grown.notes if size >= first}:
            assert prover.consistency(grown.notes[old], grown.note).holds()
        with pytest.raises(RecordGone, match=r"pruned|no record"):
            prover.inclusion(first - 1, grown.note)
        assert not prover.tiles_wrong


def test_tiles_go_on_in_a_pruned_log(grown: SyntheticLog, copy: Path) -> None:
    TileWriter(copy).add(0, b"".join(grown.leaves[:2000]))
    first = prune(copy, 3)
    TileWriter(copy).add(2900, b"".join(grown.leaves[2900:]))
    assert (copy / tile_path(0, 10)).read_bytes() == b"".join(grown.leaves[2560:2816])
    with Prover(copy) as prover:
        prover.inclusion(first, grown.note)
        assert not prover.tiles_wrong


def test_a_full_disk_loses_tiles_and_nothing_else(
    grown: SyntheticLog, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = TileWriter(copy)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
        writer.add(0, b"".join(grown.leaves[:1000]))
    writer.add(1000, b"".join(grown.leaves[1000:]))
    assert (copy / tile_path(0, 0)).read_bytes() == b"".join(grown.leaves[:256])


def test_a_log_that_cannot_be_read_is_not_read_each_second(
    grown: SyntheticLog, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, tried = segment_path(copy, 0), 0
    path.write_bytes(path.read_bytes().replace(b'"seq":200,', b'"seq":201,', 1))

    class Counting(Archive):
        def __init__(self, directory: Path) -> None:
            nonlocal tried
            tried += 1
            super().__init__(directory)

    monkeypatch.setattr("shared.ledger.tiles.Archive", Counting)
    writer = TileWriter(copy)
    for _ in range(1000):
        writer.add(2999, grown.leaves[2999])
    assert tried < 40
    path.write_bytes(path.read_bytes().replace(b'"seq":201,', b'"seq":200,', 1))
    for _ in range(1100):
        writer.add(2999, grown.leaves[2999])
    assert (copy / tile_path(0, 10)).exists()


def test_an_open_ledger_hands_its_leaves_to_the_tiles(tmp_path: Path) -> None:
    home = tmp_path / "log"
    for _ in range(2):
        with Ledger.open(home, keys=tmp_path / "keys", origin="audit.example.org/t") as ledger:
            ledger.on_leaves(TileWriter(home).add)
            done = [ledger.append("journal", {"task": "T"}) for _ in range(300)]
            done[-1].result()
            size = ledger.size
    with Archive(home) as archive:
        leaves = [leaf_hash(line) for line in archive.lines(0, size)]
    assert (home / tile_path(0, 1)).read_bytes() == b"".join(leaves[256:512])


def test_tiles_of_records_that_were_given_up_are_written_anew(
    grown: SyntheticLog, copy: Path, tmp_path: Path
) -> None:
    other = SyntheticLog(tmp_path / "other")
    other.fill(299, batch=50)
    other.fill(400, batch=30)  # from here on another history
    rebuild(copy)
    shutil.copytree(copy / "tile", other.directory / "tile")
    writer = TileWriter(other.directory)
    writer.add(500, b"".join(other.leaves[500:501]))
    writer.add(600, b"".join(other.leaves[600:]))
    assert (other.directory / tile_path(0, 1)).read_bytes() == b"".join(other.leaves[256:512])
    with Prover(other.directory) as prover:
        prover.inclusion(520, other.note)
        assert not prover.tiles_wrong


def test_an_exported_log_is_what_the_format_says(grown: SyntheticLog, tmp_path: Path) -> None:
    target = tmp_path / "static"
    checkpoint = export_tlog(grown.directory, target)
    assert (checkpoint.size, (target / "checkpoint").read_text()) == (3000, grown.note)
    entries: list[bytes] = []
    for number, width in [(n, 256) for n in range(11)] + [(11, 184)]:
        raw = (target / tile_path("entries", number, width)).read_bytes()
        while raw:
            length = int.from_bytes(raw[:2], "big")
            entries.append(raw[2 : 2 + length])
            raw = raw[2 + length :]
    assert entries == grown.lines
    level1 = (target / tile_path(1, 0, 11)).read_bytes()
    assert level1 == b"".join(root_of(grown.leaves[n * 256 : n * 256 + 256]) for n in range(11))
    assert (target / tile_path(0, 11, 184)).stat().st_size == 184 * 32
    with pytest.raises(LedgerError, match="not empty"):
        export_tlog(grown.directory, target)


@pytest.mark.skipif(not TESSERA.is_dir(), reason="the published log is not here")
def test_an_export_has_the_files_of_a_published_log(tmp_path: Path) -> None:
    log = SyntheticLog(tmp_path / "log")
    log.fill(14)
    export_tlog(log.directory, tmp_path / "static")
    ours = files_of(tmp_path / "static")
    assert ours == ["checkpoint", "tile/0/000.p/15", "tile/entries/000.p/15"]
    assert all((TESSERA / name).is_file() for name in ours)


def test_a_changed_record_is_not_exported_under_the_signed_root(copy: Path, tmp_path: Path) -> None:
    path = segment_path(copy, 0)
    path.write_bytes(path.read_bytes().replace(b'"none"', b'"some"', 1))
    with pytest.raises(LedgerError, match="do not give the root"):
        export_tlog(copy, tmp_path / "static")
    assert not (tmp_path / "static" / "checkpoint").exists()


def test_records_are_found_by_number_and_by_word(grown: SyntheticLog) -> None:
    with Archive(grown.directory) as archive:
        for seq in (0, 1, 299, 300, 301, 1399, 2511, 2998, 2999):
            assert archive.line(seq) == grown.lines[seq]
        assert list(archive.lines(290, 1410)) == grown.lines[290:1410]
        with pytest.raises(RecordGone):
            archive.line(3000)
        found = [seq for seq, _, _ in archive.search(rb'"seq":[0-9]*7,', start=100, end=2000)]
        assert found == [seq for seq in range(100, 2000) if seq % 10 == 7]
        assert archive.newest_note() == grown.note
        assert inclusion_path(0, 1, TreeReader(archive).node) == []
