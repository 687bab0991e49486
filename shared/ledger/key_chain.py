"""Which log keys are in force at which size, as the log's own `key_rotate` records say.

Invariant: a key is only ever added by a note that the key before it and the new key both signed
over the number of the record that carries it. From that record on, both sign; from the next
segment on, the new one alone. Once such a record was pruned, the pruning's own repeats its note. A
seal that two keys signed leads nowhere: whoever has a seal can add a signature to it. Pure. Called
by `walk`, `inspection`, `claims` and `bundle_log`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from shared.ledger.checkpoint import VerifierKey, open_note, parse_vkey, split_note
from shared.ledger.errors import NoteRefused

#: What the text of a rotation adds to the origin.
ROTATE_SUFFIX: Final = "/key-rotate"


def rotation(record: Mapping[str, Any], origin: str) -> tuple[VerifierKey, VerifierKey] | None:
    """Return the old and the new key of a `key_rotate` record that both signed, or None."""
    try:
        ext = record["ext"]
        old, new = parse_vkey(ext["old"]), parse_vkey(ext["new"])
        text = f"{origin}{ROTATE_SUFFIX}\n{record['seq']}\n{ext['new']}\n"
        good = open_by_all(ext["note"], [old, new]) == text and new.name == origin
    except (NoteRefused, KeyError, TypeError, AttributeError):
        return None
    return (old, new) if good else None


def rotations_in(prunings: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Return what the `ext` of `erase` records of prunings carry on of rotations, unverified."""
    lists = [ext.get("rotations") for ext in prunings]
    return [one for each in lists if type(each) is list for one in each]


def open_by_all(note: str, keys: Iterable[VerifierKey]) -> str:
    """Return the text of a note that every one of `keys` signed. Raises NoteRefused."""
    known = list(keys)
    text = open_note(note, known)
    signers = {(name, blob[:4]) for name, blob in split_note(note)[1]}
    if not signers.issuperset((key.name, key.key_id) for key in known):
        raise NoteRefused("The note is not signed by every key in force.")
    return text


class KeyChain:
    """The keys of one log by size. Grows as the log is followed."""

    def __init__(self, first: VerifierKey | None) -> None:
        """Begin with the key that signed the first checkpoint that is there, if it is known."""
        self._eras: list[tuple[int, tuple[VerifierKey, ...]]] = [(0, (first,) if first else ())]
        self.origin = first.name if first else ""

    def at(self, size: int) -> tuple[VerifierKey, ...]:
        """Return the keys that sign a checkpoint of `size` records, the oldest first."""
        return next(keys for start, keys in reversed(self._eras) if start <= size)

    def rotate(self, record: Mapping[str, Any]) -> bool:
        """Follow a `key_rotate` record; False if its note does not come from the key in force."""
        start = record["seq"] + 1
        pair, keys = rotation(record, self.origin), self.at(start)
        if pair is None or not keys or pair[0] != keys[-1]:
            return False
        self._eras.append((start, (*keys, pair[1])))
        return True

    def carry(self, carried: Iterable[Any], size: int) -> None:
        """Go back from the first key over rotations before record `size`, which were pruned, as
        `carried` of later records repeat them. Those that the two keys did not sign are passed
        over. Where the overlap of a rotation ended is not known any more, so both keys may sign
        up to the next one."""
        found = [one for one in carried if type(one) is dict and type(one.get("seq")) is int]
        keys, limit = self._eras[0][1], size
        eras = [(size + 1, keys)]
        for one in sorted(found, key=lambda one: -int(one["seq"])):
            seq = one["seq"]
            if not keys or not 0 <= seq < limit or one.get("new") != keys[0].vkey():
                continue
            pair = rotation({"seq": seq, "ext": one}, self.origin)
            if pair is not None:
                eras.insert(0, (seq + 1, pair))
                keys, limit = pair, seq
        if len(eras) > 1:
            self._eras[:1] = [(0, keys[:1]), *eras]

    def end_segment(self, size: int) -> None:
        """A segment ends at `size`: from the next record on, only the newest key signs."""
        keys = self.at(size + 1)
        if len(keys) > 1:
            self._eras.append((size + 1, keys[-1:]))

    def __contains__(self, key: object) -> bool:
        """Tell whether `key` is one of the chain's."""
        return any(key in keys for _, keys in self._eras)
