"""Proofs about a log that a stranger can check: this record is in it; it only ever grew.

Owns the audit paths of RFC 6962 computed from single tree hashes, and the C2SP tlog-proof file.
Invariant: a proof that `Prover` returns was verified against the checkpoint it is for; when the
tiles give a wrong one, it is made from the records instead. Called by `bundle` and the programs'
`proof` command.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from shared.ledger.checkpoint import (
    Checkpoint,
    VerifierKey,
    open_note,
    parse_checkpoint,
    parse_vkey,
)
from shared.ledger.directory import read_log_json
from shared.ledger.errors import LedgerError, NoteRefused
from shared.ledger.lookup import Archive
from shared.ledger.merkle import (
    EMPTY_ROOT,
    HASH_BYTES,
    leaf_hash,
    node_hash,
    verify_consistency,
    verify_inclusion,
)
from shared.ledger.tiles import TreeReader, checkpoint_of

HEADER: Final = "c2sp.org/tlog-proof@v1"
#: A tree of 2^63 leaves has no longer path.
MAX_PATH: Final = 63
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,15}")

#: Returns the root of the perfect subtree at (level, index).
NodeSource = Callable[[int, int], bytes]


class ProofRefused(LedgerError):
    """A proof that is malformed or does not show what it should."""


# -- paths -----------------------------------------------------------------------------------------


def subtree_root(begin: int, end: int, node: NodeSource) -> bytes:
    """Return the root over the leaves `begin` to `end - 1`, where `begin` is a multiple of the
    power of two at or above their number, as in every RFC 6962 split."""
    count = end - begin
    if count == 0:
        return EMPTY_ROOT
    level = count.bit_length() - 1
    if count == 1 << level:
        return node(level, begin >> level)
    middle = begin + (1 << level)
    return node_hash(node(level, begin >> level), subtree_root(middle, end, node))


def inclusion_path(index: int, size: int, node: NodeSource) -> list[bytes]:
    """Return the audit path of leaf `index` in the tree of `size` leaves, leaf's sibling first
    (RFC 6962 section 2.1.1). Raises IndexError when there is no such leaf."""
    if not 0 <= index < size:
        raise IndexError(f"the tree has {size} leaves, there is no leaf {index}")
    begin, end, path = 0, size, []
    while end - begin > 1:
        middle = begin + _split(end - begin)
        if index < middle:
            path.append(subtree_root(middle, end, node))
            end = middle
        else:
            path.append(subtree_root(begin, middle, node))
            begin = middle
    return path[::-1]


def consistency_path(old_size: int, size: int, node: NodeSource) -> list[bytes]:
    """Return the proof that the tree of `old_size` leaves is the beginning of the tree of `size`
    (RFC 6962 section 2.1.2). Raises IndexError when it cannot be."""
    if not 0 <= old_size <= size:
        raise IndexError(f"the tree has {size} leaves, it never had {old_size}")
    if old_size in (0, size):
        return []
    begin, end, path = 0, size, []
    while end != old_size:
        middle = begin + _split(end - begin)
        if old_size <= middle:
            path.append(subtree_root(middle, end, node))
            end = middle
        else:
            path.append(subtree_root(begin, middle, node))
            begin = middle
    if begin > 0:
        path.append(subtree_root(begin, end, node))
    return path[::-1]


def _split(count: int) -> int:
    return 1 << (count - 1).bit_length() - 1


# -- the file of an inclusion proof ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TlogProof:
    """A C2SP tlog-proof: the leaf `index` is in the tree of `note`. `extra` is authenticated by
    nothing; we write none."""

    index: int
    path: tuple[bytes, ...]
    note: str
    extra: bytes | None = None

    def text(self) -> str:
        """Return the file."""
        lines = [HEADER]
        if self.extra is not None:
            lines.append(f"extra {_b64(self.extra)}")
        lines.append(f"index {self.index}")
        lines += map(_b64, self.path)
        return "\n".join(lines) + "\n\n" + self.note

    def shows(self, leaf: bytes, checkpoint: Checkpoint) -> bool:
        """Tell whether the path leads from leaf hash `leaf` to the root of `checkpoint`."""
        return verify_inclusion(leaf, self.index, checkpoint.size, self.path, checkpoint.root)

    def verify(self, line: bytes, keys: Iterable[VerifierKey]) -> Checkpoint:
        """Return the checkpoint under which the record `line` is included. Raises NoteRefused
        when no key signed it, ProofRefused when the record is not in it."""
        checkpoint = parse_checkpoint(open_note(self.note, keys))
        if not self.shows(leaf_hash(line), checkpoint):
            raise ProofRefused(
                f"The proof does not show this record as number {self.index} of the "
                f"{checkpoint.size} records of {checkpoint.origin}."
            )
        return checkpoint


def parse_tlog_proof(text: str) -> TlogProof:
    """Return the proof in a tlog-proof file. Raises ProofRefused when anything in it is spelled
    otherwise than the format says; the note in it is not looked at."""
    head, gap, note = text.partition("\n\n")
    lines = head.split("\n")
    extra = None
    if len(lines) > 1 and lines[1].startswith("extra "):
        extra = _decode(lines.pop(1)[6:])
    index = lines[1].removeprefix("index ") if len(lines) > 1 else ""
    path = tuple(_decode(line) for line in lines[2:])
    good = lines[0] == HEADER and gap and lines[1:] and lines[1] == f"index {index}"
    if not good or not _NUMBER.fullmatch(index) or len(path) > MAX_PATH:
        raise ProofRefused("The text is not a tlog-proof.")
    if any(len(node) != HASH_BYTES for node in path):
        raise ProofRefused("The tlog-proof holds a hash that is not 32 bytes long.")
    return TlogProof(int(index), path, note, extra)


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        data = b""
    if not data or _b64(data) != text:
        raise ProofRefused("The proof holds a line that is not base64.")
    return data


# -- the file of a consistency proof ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConsistencyProof:
    """The tree of `old` is the beginning of the tree of `new`; both are signed notes."""

    old: str
    new: str
    path: tuple[bytes, ...]

    def holds(self) -> bool:
        """Tell whether the path shows it; the signatures are not looked at."""
        old, new = checkpoint_of(self.old), checkpoint_of(self.new)
        if old.origin != new.origin:
            return False
        if old.size == 0 and new.size > 0:  # RFC 6962: nothing to prove
            return not self.path and old.root == EMPTY_ROOT
        return verify_consistency(old.size, new.size, old.root, new.root, self.path)

    def text(self) -> str:
        """Return the proof as C2SP tlog-witness spells it: `old <size>`, one base64 hash a line,
        an empty line, the new checkpoint."""
        lines = [f"old {checkpoint_of(self.old).size}", *map(_b64, self.path)]
        return "\n".join(lines) + "\n\n" + self.new


# -- making proofs ---------------------------------------------------------------------------------


class Prover:
    """Makes proofs from the log in one directory, beside its writer if one runs."""

    def __init__(self, directory: Path) -> None:
        """Read log.json and see what records there are. Raises LedgerError."""
        self.identity = read_log_json(directory)
        self.origin: str = self.identity["origin"]
        self.keys = [parse_vkey(vkey) for vkey in self.identity["vkeys"]]
        self.archive = Archive(directory)
        self._trees = [TreeReader(self.archive), TreeReader(self.archive, use_tiles=False)]
        #: Whether a proof could not be made from the tiles although the records gave it.
        self.tiles_wrong = False

    def __enter__(self) -> Self:
        """Return the prover itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the files go."""
        self.archive.__exit__(kind, error, trace)

    def newest(self) -> str:
        """Return the newest checkpoint note. Raises LedgerError when none is by this log."""
        note = self.archive.newest_note()
        self.check(note)
        return note

    def check(self, note: str) -> Checkpoint:
        """Return the checkpoint of a note that this log signed. Raises NoteRefused otherwise."""
        checkpoint = parse_checkpoint(open_note(note, self.keys))
        if checkpoint.origin != self.origin:
            raise NoteRefused(f"The checkpoint is of {checkpoint.origin}, not of {self.origin}.")
        return checkpoint

    def inclusion(self, seq: int, note: str, line: bytes | None = None) -> TlogProof:
        """Return the verified proof that record `seq` is under the checkpoint `note`.

        `line` is the record's, looked up when absent. Raises LedgerError when there is no such
        record or no proof, which means that the log was damaged.
        """
        checkpoint = self.check(note)
        if seq >= checkpoint.size:
            raise ProofRefused(
                f"Record {seq} is not among the {checkpoint.size} records of the checkpoint."
            )
        leaf = leaf_hash(self.archive.line(seq) if line is None else line)
        for tree in self._trees:
            path = tuple(inclusion_path(seq, checkpoint.size, tree.node))
            proof = TlogProof(seq, path, note)
            if proof.shows(leaf, checkpoint):
                self.tiles_wrong |= tree is not self._trees[0]
                return proof
        raise self._damaged(f"record {seq}")

    def consistency(self, old: str, new: str) -> ConsistencyProof:
        """Return the verified proof that checkpoint `old` grew into `new`.

        Raises NoteRefused when one is not of this log, ProofRefused when the log does not
        contain one of them: it was rewritten, cut off, or there are two of it.
        """
        before, after = self.check(old), self.check(new)
        if before.size > after.size:
            raise ProofRefused(
                f"The older checkpoint is for {before.size} records, the newer one for only "
                f"{after.size}: records were removed, or the two were given in the wrong order."
            )
        for tree in self._trees:
            path = tuple(consistency_path(before.size, after.size, tree.node))
            proof = ConsistencyProof(old, new, path)
            if proof.holds():
                self.tiles_wrong |= tree is not self._trees[0]
                return proof
        raise ProofRefused(
            f"The checkpoints for {before.size} and {after.size} records do not belong to one "
            f"history of {self.origin}: the log was rewritten, or there are two of it."
        )

    def _damaged(self, what: str) -> ProofRefused:
        return ProofRefused(
            f"There is no proof for {what} in {self.archive.directory}: its records do not give "
            "the root that was signed; run `sphragis verify` on it."
        )
