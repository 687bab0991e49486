"""The tree of a log on disk: C2SP tlog-tiles under `<log>/tile`, and hashes read from it.

Everything here is derived from the records and can be made again (`rebuild`), so nothing is
synced and nothing is believed: a tile that is absent or short is passed over, and every proof is
checked against the signed root before it leaves (`proofs`), from the records alone if need be.
Full tiles only, written by rename; the growing right edge above level 0 is in `tile/edge`, so
that a proof at a million records reads a handful of files. `TileWriter.add` is the ledger's
`on_leaves` callback: it runs beside the writer, never in it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from shared.ledger.checkpoint import Checkpoint, parse_checkpoint, split_note
from shared.ledger.errors import LedgerError, NoteRefused
from shared.ledger.lookup import Archive, RecordGone
from shared.ledger.merkle import HASH_BYTES, Frontier, leaf_hash, node_hash
from shared.ledger.segment import SEGMENTS, parse_seal

TILE: Final = "tile"
EDGE: Final = "edge"
#: Hashes in a full tile, and the levels of the tree that one tile spans (C2SP tlog-tiles).
WIDTH: Final = 256
HEIGHT: Final = 8
#: C2SP tlog-tiles gives an entry a 16-bit length.
MAX_ENTRY: Final = 0xFFFF
#: Stands for a hash that is not known because its records were pruned; no SHA-256 is all zeros.
_UNKNOWN: Final = bytes(HASH_BYTES)
#: 2^10 calls, one a second, are a quarter of an hour between two tries.
_MOST_FAILURES: Final = 10


def tile_path(level: int | str, index: int, width: int = WIDTH) -> str:
    """Return the path of a tile below the log: `tile/<level>/x001/234`, `.p/<width>` when it is
    partial. `level` is a number, or "entries" for a bundle of entries."""
    parts = [f"{index % 1000:03d}"]
    while index >= 1000:
        index //= 1000
        parts.insert(0, f"x{index % 1000:03d}")
    partial = "" if width == WIDTH else f".p/{width}"
    return f"{TILE}/{level}/{'/'.join(parts)}{partial}"


def fold(hashes: Sequence[bytes]) -> bytes:
    """Return the root over a power of two of hashes."""
    level = list(hashes)
    while len(level) > 1:
        level = [node_hash(a, b) for a, b in zip(level[::2], level[1::2], strict=True)]
    return level[0]


def _split(blob: bytes) -> list[bytes]:
    return [blob[at : at + HASH_BYTES] for at in range(0, len(blob), HASH_BYTES)]


def _replace(path: Path, data: bytes) -> None:
    """Write a file by rename. Not synced: what a power cut takes can be made again."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.rename(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


# -- the right edge --------------------------------------------------------------------------------


def _edge_bytes(size: int, rows: Sequence[Sequence[bytes]]) -> bytes:
    body = b"edge %d\n" % size + b"".join(b"".join(row) for row in rows[1:])
    return body + hashlib.sha256(body).digest()


def _read_edge(directory: Path) -> tuple[int, list[list[bytes]]]:
    """Return the size that the tiles on disk are for and the partial tile of each level; an
    unreadable edge means that there are none."""
    nothing: tuple[int, list[list[bytes]]] = 0, []
    try:
        data = (directory / TILE / EDGE).read_bytes()
    except OSError:
        return nothing
    body, digest = data[:-HASH_BYTES], data[-HASH_BYTES:]
    head, _, blob = body.partition(b"\n")
    if hashlib.sha256(body).digest() != digest or not head.startswith(b"edge "):
        return nothing
    try:
        size = int(head[5:])
    except ValueError:
        return nothing
    rows: list[list[bytes]] = [[]]
    for level in range(1, 8):
        count = (size >> HEIGHT * level) % WIDTH
        rows.append(_split(blob[: count * HASH_BYTES]))
        blob = blob[count * HASH_BYTES :]
    if size % WIDTH or blob or any(len(node) != HASH_BYTES for row in rows for node in row):
        return nothing
    return size, rows


# -- writing ---------------------------------------------------------------------------------------


class TileWriter:
    """Keeps the tiles of one log up with its records. `add` may come from any one thread."""

    def __init__(self, directory: Path) -> None:
        """Write under `<directory>/tile`; nothing is read or written before the first `add`."""
        self._directory = directory
        self._size = -1  # not known yet
        self._rows: list[list[bytes]] = []
        # Calls to pass over, and failures in a row: trying again costs reading the log again.
        self._pause = self._failures = 0

    def add(self, first: int, leaves: bytes) -> None:
        """Take the leaf hashes (32 bytes each) of the records from number `first` on.

        What is missing before `first` is read from the segments. A full or failing disk loses
        only time: the next call begins anew from what is there.
        """
        if self._pause > 0:
            self._pause -= 1
            return
        try:
            if self._size < 0:
                self._resume()
            if self._size < first:
                self._catch_up(first)
            self._take(_split(leaves)[max(0, self._size - first) :])
            self._failures = 0
        except (OSError, LedgerError, ValueError):
            self._size, self._failures = -1, min(self._failures + 1, _MOST_FAILURES)
            self._pause = (1 << self._failures) - 2

    def catch_up(self, size: int) -> None:
        """Bring the tiles up to `size` records from the segments. Raises LedgerError or OSError."""
        if self._size < 0:
            self._resume()
        self._catch_up(size)

    def restart(self) -> None:
        """Begin again at the first record that is kept; upper tiles of pruned records stay."""
        with Archive(self._directory) as archive:
            first = archive.first
        self._size = first - first % WIDTH
        self._rows = [[], *(self._kept_row(level) for level in range(1, 8))]
        straddling = self._directory / tile_path(0, first // WIDTH)
        known = _split(straddling.read_bytes()) if straddling.is_file() else []
        for offset in range(first % WIDTH):
            self._rows[0].append(known[offset] if offset < len(known) else _UNKNOWN)
        self._size = first

    def _kept_row(self, level: int) -> list[bytes]:
        """Return the hashes before the current size in the tile that it is in."""
        index, count = divmod(self._size >> HEIGHT * level, WIDTH)
        path = self._directory / tile_path(level, index)
        if path.is_file():
            row = _split(path.read_bytes())
        else:
            size, rows = _read_edge(self._directory)
            row = rows[level] if size >> HEIGHT * (level + 1) == index and rows else []
        row = [node for node in row if len(node) == HASH_BYTES][:count]
        return row + [_UNKNOWN] * (count - len(row))

    def _resume(self) -> None:
        """Go on where the tiles on disk end, if they are of this very history."""
        size, rows = _read_edge(self._directory)
        with Archive(self._directory) as archive:
            if size < archive.first or not rows or not self._is_ours(archive, size):
                self.restart()
            else:
                self._size, self._rows = size, rows

    def _is_ours(self, archive: Archive, size: int) -> bool:
        """Tell whether the last leaf in the tiles is the log's. A record names the hash of the one
        before it, so this one leaf stands for all; a repair that gave up records changes it."""
        if size <= archive.first:
            return True
        try:
            tile = (self._directory / tile_path(0, size // WIDTH - 1)).read_bytes()
            return tile[-HASH_BYTES:] == leaf_hash(archive.line(size - 1))
        except (OSError, RecordGone):
            return False

    def _catch_up(self, size: int) -> None:
        with Archive(self._directory) as archive:
            block: list[bytes] = []
            for line in archive.lines(self._size, size):
                block.append(leaf_hash(line))
                if len(block) == 64 * WIDTH:
                    self._take(block)
                    block = []
            self._take(block)

    def _take(self, leaves: Sequence[bytes]) -> None:
        before = self._size - self._size % WIDTH
        taken = 0
        while taken < len(leaves):
            some = leaves[taken : taken + WIDTH - len(self._rows[0])]
            self._rows[0] += some
            self._size += len(some)
            taken += len(some)
            if len(self._rows[0]) == WIDTH:
                self._carry(0)
        size = self._size - self._size % WIDTH
        if size != before:
            _replace(self._directory / TILE / EDGE, _edge_bytes(size, self._rows))

    def _carry(self, level: int) -> None:
        """Write the full tile of `level` and put its root into the level above."""
        row, self._rows[level] = self._rows[level], []
        known = _UNKNOWN not in row
        if known:
            index = (self._size >> HEIGHT * (level + 1)) - 1
            _replace(self._directory / tile_path(level, index), b"".join(row))
        self._rows[level + 1].append(fold(row) if known else _UNKNOWN)
        if len(self._rows[level + 1]) == WIDTH:
            self._carry(level + 1)


def rebuild(directory: Path) -> int:
    """Write all tiles of the log in `directory` anew from its segments; return how many records
    they are for. Safe beside a running writer, which writes the same bytes.

    Raises LedgerError or OSError.
    """
    with Archive(directory) as archive:
        size = checkpoint_of(archive.newest_note()).size
    writer = TileWriter(directory)
    writer.restart()
    writer.catch_up(size)
    return size


def checkpoint_of(note: str) -> Checkpoint:
    """Return the checkpoint in a note, unverified. Raises NoteRefused when it is none."""
    return parse_checkpoint(split_note(note)[0])


# -- reading ---------------------------------------------------------------------------------------


class TreeReader:
    """The hashes of one log's tree: from tiles, seals and segments, whichever has them.

    Nothing it returns is verified. Owned by one thread; keeps what it has read.
    """

    def __init__(self, archive: Archive, *, use_tiles: bool = True) -> None:
        """Read the tree of `archive`; without `use_tiles`, from records and seals alone."""
        self._archive = archive
        self._use_tiles = use_tiles
        self._nodes = _peaks_of(archive.directory, archive.first)
        self._tiles: dict[tuple[int, int], list[bytes]] = {}
        self._leaves: dict[int, list[bytes]] = {}
        self._edge = _read_edge(archive.directory) if use_tiles else (0, [])

    def node(self, level: int, index: int) -> bytes:
        """Return the root of the perfect subtree over the leaves from `index << level` on, as
        many as `1 << level`. Raises LedgerError when it can be had from nowhere."""
        known = self._nodes.get((level, index))
        if known is None:
            known = self._nodes[level, index] = self._find(level, index)
        return known

    def _find(self, level: int, index: int) -> bytes:
        row, begin, count = self._row(level, index)
        hashes = row[begin : begin + count]
        if len(hashes) == count and _UNKNOWN not in hashes:
            return fold(hashes)
        if level == 0:
            return self._leaf(index)
        return node_hash(self.node(level - 1, 2 * index), self.node(level - 1, 2 * index + 1))

    def _row(self, level: int, index: int) -> tuple[list[bytes], int, int]:
        """Return the tile that a node is folded from, and which of its hashes."""
        count = 1 << level % HEIGHT
        number, begin = divmod(index * count, WIDTH)
        return self._tile(level // HEIGHT, number), begin, count

    def _tile(self, level: int, number: int) -> list[bytes]:
        if not self._use_tiles:
            return []
        tile = self._tiles.get((level, number))
        if tile is None:
            tile = self._tiles[level, number] = self._read_tile(level, number)
        return tile

    def _read_tile(self, level: int, number: int) -> list[bytes]:
        size, rows = self._edge
        if rows and level and size >> HEIGHT * (level + 1) == number:
            return rows[level]
        try:
            data = (self._archive.directory / tile_path(level, number)).read_bytes()
        except OSError:
            return []
        return _split(data) if len(data) == WIDTH * HASH_BYTES else []

    def _leaf(self, index: int) -> bytes:
        block, offset = divmod(index, WIDTH)
        leaves = self._leaves.get(block)
        if leaves is None or offset >= len(leaves):
            first, end = block * WIDTH, (block + 1) * WIDTH
            begin = max(first, self._archive.first)
            if index < begin:
                self._archive.line(index)  # says that it was pruned
            leaves = [_UNKNOWN] * (begin - first)
            leaves += [leaf_hash(line) for line in self._archive.lines(begin, end)]
            self._leaves[block] = leaves
        if offset >= len(leaves):
            raise LedgerError(
                f"Record {index} is not in {self._archive.directory}; run `sphragis verify` on it."
            )
        return leaves[offset]


def _peaks_of(directory: Path, size: int) -> dict[tuple[int, int], bytes]:
    """Return the subtree roots that the seal before record `size` keeps of what was pruned."""
    if size == 0:
        return {}
    for path in sorted((directory / SEGMENTS).glob("*.seal")):
        try:
            seal = parse_seal(split_note(path.read_text("utf-8"))[0])
        except (OSError, UnicodeDecodeError, NoteRefused):
            continue
        if seal.size == size:
            return dict(zip(_peak_places(size), seal.frontier, strict=False))
    return {}


def _peak_places(size: int) -> Iterator[tuple[int, int]]:
    """Yield (level, index) of the perfect subtrees that a tree of `size` consists of."""
    for level in range(size.bit_length() - 1, -1, -1):
        if size >> level & 1:
            yield level, (size >> level) - 1


# -- the whole log as static files -----------------------------------------------------------------


def export_tlog(directory: Path, target: Path) -> Checkpoint:
    """Write the log in `directory` as C2SP static tiles into the new directory `target`: hash
    tiles and entry bundles, full and partial, and `checkpoint`. Return what it commits to.

    Raises LedgerError when `target` is not empty, the log is pruned or damaged (the tiles are
    checked against the signed root before `checkpoint` is written), or a disk refuses.
    """
    if target.exists() and any(target.iterdir()):
        raise LedgerError(f"{target} is not empty; name a new directory for the tiles.")
    try:
        with Archive(directory) as archive:
            note = archive.newest_note()
            checkpoint = checkpoint_of(note)
            frontier = Frontier()
            level: list[bytes] = []
            for number, entries in enumerate(_bundles(archive, checkpoint.size)):
                _write_entries(target, number, entries)
                hashes = [leaf_hash(entry) for entry in entries]
                frontier.extend(hashes)
                level += hashes
            if (frontier.size, frontier.root()) != (checkpoint.size, checkpoint.root):
                raise LedgerError(
                    f"The records in {directory} do not give the root that was signed; run "
                    "`sphragis verify` on the ledger."
                )
            _write_hashes(target, level)
            _replace(target / "checkpoint", note.encode())
    except OSError as error:
        raise LedgerError(
            f"The tiles cannot be written to {target} ({error.strerror}); check the disk."
        ) from error
    return checkpoint


def _bundles(archive: Archive, size: int) -> Iterator[list[bytes]]:
    entries: list[bytes] = []
    for line in archive.lines(0, size):
        entries.append(line)
        if len(entries) == WIDTH:
            yield entries
            entries = []
    if entries:
        yield entries


def _write_entries(target: Path, number: int, entries: Sequence[bytes]) -> None:
    if any(len(entry) > MAX_ENTRY for entry in entries):
        raise LedgerError("A record is longer than an entry of a tiled log can be.")
    data = b"".join(len(entry).to_bytes(2, "big") + entry for entry in entries)
    _replace(target / tile_path("entries", number, len(entries)), data)


def _write_hashes(target: Path, hashes: list[bytes]) -> None:
    level = 0
    while hashes:
        above = []
        for number, at in enumerate(range(0, len(hashes), WIDTH)):
            row = hashes[at : at + WIDTH]
            _replace(target / tile_path(level, number, len(row)), b"".join(row))
            if len(row) == WIDTH:
                above.append(fold(row))
        hashes, level = above, level + 1
