"""The RFC 6962 Merkle tree: hashes, the growing edge, and proofs with their verification.

Pure: bytes in, bytes or bool out. Invariant: a `Frontier` holds one hash per set bit of its
size, so memory stays flat however long the log grows. A verification answers False, never
raises, whatever it is given. Called by `log`, `recovery`, `verify`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

HASH_BYTES: Final = 32
_sha256 = hashlib.sha256

#: The root of the tree without leaves is the hash of the empty string (RFC 6962 section 2.1).
EMPTY_ROOT: Final = _sha256(b"").digest()


def leaf_hash(line: bytes) -> bytes:
    """Return the leaf hash of a stored line without its newline: SHA-256(00 || line)."""
    return _sha256(b"\x00" + line).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of an inner node: SHA-256(01 || left || right)."""
    return _sha256(b"\x01" + left + right).digest()


#: Below this, going through all levels of the tree takes longer than leaf by leaf (measured).
_FEW: Final = 10


class Frontier:
    """The right edge of a growing tree: the roots of its perfect subtrees, largest first."""

    __slots__ = ("_peaks", "size")

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        """Resume at `size` leaves; `peaks` are the subtree roots that `peaks()` returned.

        Raises ValueError when the number or length of the peaks does not fit the size.
        """
        self.size = size
        self._peaks = list(peaks)
        if size < 0 or len(self._peaks) != size.bit_count():
            raise ValueError("the number of subtree roots does not fit the size of the tree")
        if any(len(peak) != HASH_BYTES for peak in self._peaks):
            raise ValueError("a subtree root is not 32 bytes long")

    def append(self, leaf: bytes) -> None:
        """Add one leaf hash on the right."""
        size = self.size
        while size & 1:
            leaf = _sha256(b"\x01" + self._peaks.pop() + leaf).digest()
            size >>= 1
        self._peaks.append(leaf)
        self.size += 1

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Add leaf hashes in order; many of them level by level, at half the cost of one at a
        time."""
        if len(leaves) < _FEW:
            for leaf in leaves:
                self.append(leaf)
            return
        peaks, level, bits = self._peaks, list(leaves), self.size
        self.size += len(level)
        grown: list[bytes] = []
        while level:  # where none are left, the larger subtrees stay as they are
            if bits & 1:
                level.insert(0, peaks.pop())
            if len(level) & 1:
                grown.append(level.pop())
            level = [
                _sha256(b"\x01" + left + right).digest()
                for left, right in zip(level[::2], level[1::2], strict=True)
            ]
            bits >>= 1
        peaks.extend(reversed(grown))

    def root(self) -> bytes:
        """Return the root over all leaves so far."""
        if not self._peaks:
            return EMPTY_ROOT
        root = self._peaks[-1]
        for peak in self._peaks[-2::-1]:
            root = _sha256(b"\x01" + peak + root).digest()
        return root

    def peaks(self) -> tuple[bytes, ...]:
        """Return the subtree roots, largest first: enough to resume."""
        return tuple(self._peaks)

    def copy(self) -> Frontier:
        """Return an independent frontier of the same tree."""
        other = Frontier.__new__(Frontier)
        other.size, other._peaks = self.size, self._peaks.copy()
        return other


def root_of(leaves: Sequence[bytes]) -> bytes:
    """Return the root over leaf hashes."""
    frontier = Frontier()
    frontier.extend(leaves)
    return frontier.root()


def _split(size: int) -> int:
    """Return the largest power of two below `size` (size > 1)."""
    return 1 << ((size - 1).bit_length() - 1)


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Return the audit path of leaf `index` in the tree over `leaves` (RFC 6962 section 2.1.1).

    Raises IndexError when there is no such leaf.
    """
    size = len(leaves)
    if not 0 <= index < size:
        raise IndexError(f"the tree has {size} leaves, there is no leaf {index}")
    if size == 1:
        return []
    middle = _split(size)
    if index < middle:
        return [*inclusion_proof(leaves[:middle], index), root_of(leaves[middle:])]
    return [*inclusion_proof(leaves[middle:], index - middle), root_of(leaves[:middle])]


def consistency_proof(leaves: Sequence[bytes], old_size: int) -> list[bytes]:
    """Return the proof that the tree over the first `old_size` leaves grew into this one
    (RFC 6962 section 2.1.2).

    Raises IndexError when `old_size` is not between 0 and the number of leaves.
    """
    size = len(leaves)
    if not 0 <= old_size <= size:
        raise IndexError(f"the tree has {size} leaves, it never had {old_size}")
    if old_size in (0, size):
        return []
    return _subproof(leaves, old_size, complete=True)


def _subproof(leaves: Sequence[bytes], old_size: int, *, complete: bool) -> list[bytes]:
    size = len(leaves)
    if old_size == size:
        return [] if complete else [root_of(leaves)]
    middle = _split(size)
    if old_size <= middle:
        left = _subproof(leaves[:middle], old_size, complete=complete)
        return [*left, root_of(leaves[middle:])]
    right = _subproof(leaves[middle:], old_size - middle, complete=False)
    return [*right, root_of(leaves[:middle])]


def verify_inclusion(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> bool:
    """Tell whether `proof` shows leaf hash `leaf` at `index` in the tree of `size` and `root`."""
    if not 0 <= index < size or any(len(node) != HASH_BYTES for node in (leaf, *proof)):
        return False
    node, last = leaf, size - 1
    for sibling in proof:
        if last == 0:
            return False
        if index & 1 or index == last:
            node = node_hash(sibling, node)
            while index and not index & 1:
                index, last = index >> 1, last >> 1
        else:
            node = node_hash(node, sibling)
        index, last = index >> 1, last >> 1
    return last == 0 and node == root


def verify_consistency(
    old_size: int, new_size: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]
) -> bool:
    """Tell whether `proof` shows that the tree of `old_size` and `old_root` is a prefix of the
    tree of `new_size` and `new_root` (RFC 9162 section 2.1.4.2).

    An empty tree has the one root RFC 6962 gives it, and a proof from an empty tree to a larger
    one says nothing: it is refused.
    """
    if any(len(node) != HASH_BYTES for node in proof):
        return False
    if old_size == new_size:
        known = old_size > 0 or (old_size == 0 and old_root == EMPTY_ROOT)
        return known and not proof and old_root == new_root
    if not 0 < old_size < new_size:
        return False
    path = [old_root, *proof] if old_size & (old_size - 1) == 0 else list(proof)
    if len(path) < 2:
        return False
    index, last = old_size - 1, new_size - 1
    while index & 1:
        index, last = index >> 1, last >> 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if index & 1 or index == last:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while index and not index & 1:
                index, last = index >> 1, last >> 1
        else:
            new = node_hash(new, sibling)
        index, last = index >> 1, last >> 1
    return last == 0 and old == old_root and new == new_root
