"""The writing end of a log: batches, segments, seals and keys, one durable step after another.

Owns the active segment's file and the position in the log. Guarantees: the position moves only
once what it names is durable; NoSpace means that nothing moved and the step may be tried again;
any other error leaves the object unusable, and the next start recovers from the files. The
order of the steps of a rotation is the order in which `recovery` can pick them up. Called by
`log`: by `open`, then by the writer thread only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from shared.ledger.checkpoint import Checkpoint, Signer, VerifierKey, checkpoint_line, sign_all
from shared.ledger.directory import boot_id, read_log_json, write_log_json
from shared.ledger.disk_space import NoSpace, full_disk_is_no_failure
from shared.ledger.entry import Entry, Receipt
from shared.ledger.errors import LedgerError
from shared.ledger.keys import KeyRing
from shared.ledger.record import VERSION, RecordType, encode
from shared.ledger.recovery import Recovered
from shared.ledger.segment import Seal, seal_digest, seal_path, segment_path
from shared.ledger.storage import Disk, is_full

#: What the text of a key rotation adds to the origin.
KEY_ROTATE_SUFFIX: Final = "/key-rotate"
#: A sealed segment and its seal are for reading only (contracts/ledger.md section 2.4).
SEALED_MODE: Final = 0o440


class SegmentWriter:
    """Where the log stands, and the only code that moves it."""

    def __init__(
        self,
        directory: Path,
        keys: KeyRing,
        signers: Sequence[Signer],
        at: Recovered,
        *,
        disk: Disk,
        clock: Callable[[], tuple[int, int]],
        durable: Callable[[int, bytes], None],
    ) -> None:
        """`signers` are the log keys at hand; `durable` is called after each batch with (number of
        its first record, its leaves). Raises LedgerError when a key in force is missing."""
        self.at = at
        self.signers = tuple(_signer_for(key, signers, keys) for key in at.keys)
        self.origin = self.signers[0].key.name
        self._directory = directory
        self._keys = keys
        self._disk = disk
        self._clock = clock
        self._durable = durable
        self._boot = boot_id()
        self._fd = -1
        # The key that will seal the active segment, and the one after it once that is made.
        self._sealer: Signer | None = None
        self._next_sealer: Signer | None = None

    # -- at a start ----------------------------------------------------------------------------

    def begin(self, segment_key: Signer | None = None) -> None:
        """Make the files follow the log after a stop or a crash at any point, and open the active
        segment. `segment_key` is given after a loss that took the old one. Raises LedgerError or
        OSError."""
        at, size = self.at, self.at.position.size
        self._sealer = segment_key or self._keys.load_segment(at.first, at.segment_key)
        if self.must_seal:
            self._next_sealer = self._keys.load_segment(size, at.next_key)
        self._keys.settle(at.keys)
        self._keys.retire_segments(at.first, *([size] if self.must_seal else []))
        self._write_chain()
        self._close_before(at.first)
        self._fd = self._open_segment(at.first)
        if self.must_seal:
            self.finish_seal()

    def _close_before(self, first: int) -> None:
        """Make the last sealed segment read-only, if a crash came between its seal and that."""
        folder = segment_path(self._directory, first).parent
        sealed = sorted(folder.glob("*.seal"))[-1:] if folder.is_dir() else []
        for path in (path.with_suffix(".jsonl") for path in sealed):
            if path.exists() and path.stat().st_mode & 0o777 != SEALED_MODE:
                self._disk.chmod(path, SEALED_MODE)

    def _write_chain(self) -> None:
        """Let log.json name every log key that the records name."""
        identity = read_log_json(self._directory)
        if identity["vkeys"] != list(self.at.chain):
            identity["vkeys"] = list(self.at.chain)
            write_log_json(self._directory, identity, self._disk)

    def close(self) -> None:
        """Close the segment's file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    # -- batches -------------------------------------------------------------------------------

    def commit(
        self,
        entries: Sequence[Entry],
        now: tuple[int, int] | None = None,
        signers: Sequence[Signer] | None = None,
    ) -> list[Receipt]:
        """Write the entries and their checkpoint, make them durable, return their receipts.

        `now` is the clock's answer, when the caller had to look; `signers` sign the checkpoint.
        Raises NoSpace when the disk is full and the segment is as it was.
        """
        at, position = self.at, self.at.position
        ts, mono = now or self._clock()
        stepped: Sequence[Entry] = entries
        if ts < position.ts:
            # Order is `seq`, never time; the true value stays and this record explains it.
            step = {"from": position.ts, "mono": mono, "to": ts}
            stepped = [Entry(RecordType.CLOCK_STEP, {"ext": step}), *entries]
        first, tip, boot = position.size, position.tip, self._boot
        lines: list[bytes] = []
        leaves: list[bytes] = []
        links: list[str] = []
        for seq, entry in enumerate(stepped, first):
            record = entry.fields
            record["v"] = VERSION
            record["seq"] = seq
            record["prev"] = tip
            record["ts"] = ts
            record["mono"] = mono
            record["boot"] = boot
            record["type"] = entry.type
            line = encode(record)
            leaf = sha256(b"\x00" + line).digest()
            tip = leaf.hex()
            lines.append(line)
            leaves.append(leaf)
            links.append(tip)
        frontier = position.frontier.copy()
        frontier.extend(leaves)
        size, root = frontier.size, frontier.root()
        note = sign_all(Checkpoint(self.origin, size, root).text(), signers or self.signers)
        lines.append(checkpoint_line(note))
        data = b"\n".join(lines) + b"\n"
        self._write(data)
        position.frontier, position.tip, position.ts = frontier, tip, ts
        for seq, entry in enumerate(stepped, first):
            position.note_pairing(seq, entry.type, entry.fields.get("ref"))
        at.digest.update(data)
        at.offset += len(data)
        at.note = note
        at.last_type = stepped[-1].type
        at.first_ts = at.first_ts or ts
        self._durable(first, b"".join(leaves))
        hex_root, skipped = root.hex(), len(stepped) - len(entries)
        return [
            Receipt(seq, link, size, hex_root, note)
            for seq, link in enumerate(links[skipped:], first + skipped)
        ]

    def _write(self, data: bytes) -> None:
        try:
            self._disk.write(self._fd, data)
        except OSError as error:
            # Cut the unfinished batch off; if that fails too, the next start finds a torn end.
            try:
                self._disk.truncate(self._fd, self.at.offset)
            except OSError:
                raise error from None
            if is_full(error):
                raise NoSpace from error
            raise
        self._disk.settle(self._fd)

    def _next_seq(self, now: tuple[int, int]) -> int:
        """Return which number a record that is written at `now` gets."""
        return self.at.position.size + (now[0] < self.at.position.ts)

    # -- segments ------------------------------------------------------------------------------

    @property
    def must_seal(self) -> bool:
        """Whether the active segment has its last record: nothing may follow but its seal."""
        return self.at.last_type == RecordType.SEAL

    @property
    def age_us(self) -> int:
        """How long the active segment has been going on, in microseconds."""
        since = self.at.first_ts or self.at.position.ts
        return self._clock()[0] - since if since else 0

    def rotate(self) -> None:
        """End the active segment and begin the next one. Raises NoSpace or OSError."""
        now = self._clock()
        with full_disk_is_no_failure():
            following = self._keys.make_segment(self._next_seq(now) + 1)
        ext = {
            "first": self.at.first,
            "next_key": following.key.vkey(),
            "previous": self.at.previous_seal,
        }
        self.commit([Entry(RecordType.SEAL, {"ext": ext})], now)
        self.at.next_key = following.key.vkey()
        self._next_sealer = following
        self.finish_seal()

    def finish_seal(self) -> None:
        """Sign the finished segment, destroy what could sign it again, begin the next one. Each
        step may be done twice. Raises NoSpace or OSError."""
        at, position = self.at, self.at.position
        if self._sealer is None or self._next_sealer is None:
            raise LedgerError("The keys of the segment are not there.")  # a fault of this program
        path = segment_path(self._directory, at.first)
        seal = Seal(
            origin=self.origin,
            first=at.first,
            size=position.size,
            root=position.frontier.root(),
            sha256=at.digest.hexdigest(),
            previous=at.previous_seal,
            tip=position.tip,
            ts=position.ts,
            frontier=position.frontier.peaks(),
            open_requests=tuple(sorted(position.open_requests)),
        )
        note = sign_all(seal.text(), (*self.signers, self._sealer))
        last = self.signers[-1]
        with full_disk_is_no_failure():
            self._disk.replace(seal_path(path), note.encode(), mode=SEALED_MODE)
            self._disk.chmod(path, SEALED_MODE)
            self._keys.retire_segments(position.size)
            self._write_chain()
            self._keys.settle([last.key])
            fd = self._open_segment(position.size)
        self.close()
        self._fd = fd
        self.signers = (last,)
        self._sealer, self._next_sealer = self._next_sealer, None
        self.at = Recovered(
            first=position.size,
            position=position,
            note=at.note,
            previous_seal=seal_digest(note),
            keys=(last.key,),
            chain=at.chain,
            segment_key=at.next_key,
        )

    def _open_segment(self, first: int) -> int:
        path = segment_path(self._directory, first)
        if not path.parent.is_dir():
            path.parent.mkdir(mode=0o700)
            self._disk.sync_directory(self._directory)
        fd = self._disk.open_append(path)
        try:
            self._disk.sync_directory(path.parent)
        except OSError:
            os.close(fd)
            raise
        return fd

    # -- the log key ---------------------------------------------------------------------------

    def rotate_key(self) -> str:
        """Change to a new log key and return its vkey; the old one signs beside it until the
        segment ends. Raises NoSpace or OSError."""
        if len(self.signers) > 1:
            self.rotate()  # one change for each segment: the old key's time ends here
        old, now = self.signers[0], self._clock()
        seq = self._next_seq(now)
        with full_disk_is_no_failure():
            new = self._keys.make_next()
        vkey = new.key.vkey()
        note = sign_all(f"{self.origin}{KEY_ROTATE_SUFFIX}\n{seq}\n{vkey}\n", (old, new))
        ext = {"new": vkey, "note": note, "old": old.key.vkey()}
        self.commit([Entry(RecordType.KEY_ROTATE, {"ext": ext})], now, (old, new))
        self.signers = (old, new)
        self.at.keys, self.at.chain = (old.key, new.key), (*self.at.chain, vkey)
        try:
            self._write_chain()
        except OSError as error:
            if not is_full(error):  # the seal of this segment or the next start will write it
                raise
        return vkey


def _signer_for(key: VerifierKey, signers: Sequence[Signer], keys: KeyRing) -> Signer:
    for signer in signers:
        if signer.key == key:
            return signer
    raise LedgerError(
        f"The key in {keys.directory} is not the one that signed the end of the ledger; restore "
        "the ledger's own keys from a backup."
    )
