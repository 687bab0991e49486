"""A witness: remembers the newest checkpoint of each log and cosigns only what grows out of it.

Owns the state machine of C2SP tlog-witness `add-checkpoint`: bytes of a request in, an answer out.
Invariants: (1) of one origin it never cosigns two trees of which neither is a prefix of the other;
(2) what it cosigns is durable in the store before the answer exists; (3) check and store are one
step under one lock, so no answer is given from a state that another request has replaced;
(4) only signatures it verified are stored. No sockets here: `serving` gives it requests.
"""

from __future__ import annotations

import base64
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from shared.anchors.cosignature import Cosigner, decode_base64
from shared.ledger.checkpoint import (
    Checkpoint,
    VerifierKey,
    open_note,
    parse_checkpoint,
    split_note,
)
from shared.ledger.errors import NoteRefused
from shared.ledger.merkle import EMPTY_ROOT, HASH_BYTES, verify_consistency

#: The C2SP text's limit: no proof between two 63-bit sizes is longer.
MAX_PROOF: Final = 63
#: 64 lines of 45 bytes and a checkpoint; one with many ML-DSA signatures of 3.3 kB fits too.
MAX_REQUEST: Final = 1 << 17

SIZE_TYPE: Final = "text/x.tlog.size"
TEXT_TYPE: Final = "text/plain; charset=utf-8"
_OLD: Final = re.compile(r"old (0|[1-9][0-9]{0,18})")


class Code(IntEnum):
    """The HTTP status codes the protocol gives a meaning."""

    OK = 200
    MALFORMED = 400
    UNTRUSTED = 403
    UNKNOWN_LOG = 404
    CONFLICT = 409
    INCONSISTENT = 422


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back: `body` ends in a newline."""

    code: Code
    body: str
    content_type: str = TEXT_TYPE


@dataclass(frozen=True, slots=True)
class Request:
    """One add-checkpoint request: the size it grows from, the proof, the checkpoint."""

    old_size: int
    proof: tuple[bytes, ...]
    note: str
    checkpoint: Checkpoint


class Store(Protocol):
    """Where the newest checkpoint of each origin is kept.

    Guarantee: when `put` returns, the note survives a power cut; when it raises, the old note or
    the new one is there, whole.
    """

    def get(self, origin: str) -> Checkpoint | None:
        """Return the newest checkpoint that was put, or None."""

    def put(self, checkpoint: Checkpoint, note: str) -> None:
        """Keep `note`, whose checkpoint is `checkpoint`. Raises OSError."""


class _Refused(Exception):
    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.body)
        self.answer = answer


def parse_request(body: bytes) -> Request:
    """Return the request in `body`. Raises NoteRefused, with the sentence for the client, unless
    every byte is as the protocol wants it."""
    if len(body) > MAX_REQUEST:
        raise NoteRefused(f"The request is longer than {MAX_REQUEST} bytes.")
    try:
        head, blank, note = body.decode().partition("\n\n")
    except UnicodeDecodeError:
        raise NoteRefused("The request is not UTF-8.") from None
    first, *hashes = head.split("\n")
    old = _OLD.fullmatch(first)
    if old is None or not blank:
        raise NoteRefused("The request must be `old N`, the proof, an empty line, the checkpoint.")
    if len(hashes) > MAX_PROOF:
        raise NoteRefused(f"The proof has more than {MAX_PROOF} hashes.")
    return Request(int(old[1]), tuple(map(_hash, hashes)), note, _checkpoint_of(note))


def _hash(line: str) -> bytes:
    raw = decode_base64(line)
    if raw is None or len(raw) != HASH_BYTES:
        raise NoteRefused("A line of the proof is not one hash of 32 bytes in base64.")
    return raw


def _checkpoint_of(note: str) -> Checkpoint:
    lines = split_note(note)[0].removesuffix("\n").split("\n")
    if len(lines) > 3:
        raise NoteRefused(
            "The checkpoint has extension lines, which this witness cannot vouch for."
        )
    return parse_checkpoint("\n".join([*lines, ""]))


def format_request(old_size: int, proof: Sequence[bytes], note: str) -> bytes:
    """Return the body of a request; the other side of `parse_request`."""
    lines = [f"old {old_size}", *(base64.b64encode(node).decode() for node in proof), "", note]
    return "\n".join(lines).encode()


def judge(request: Request, keys: Iterable[VerifierKey], latest: Checkpoint | None) -> None:
    """Decide whether the checkpoint of `request` may be cosigned when `latest` was the last.

    Returns when it may; raises `_Refused` with the answer otherwise. The order of the checks is
    that of the C2SP text.
    """
    new = request.checkpoint
    try:
        open_note(request.note, keys)
    except NoteRefused as wrong:
        raise _refused(Code.UNTRUSTED, str(wrong)) from None
    if request.old_size > new.size:
        raise _refused(Code.MALFORMED, "The old size is larger than the checkpoint's.")
    known = latest.size if latest is not None else 0
    if request.old_size != known:
        raise _Refused(Answer(Code.CONFLICT, f"{known}\n", SIZE_TYPE))
    if new.size == 0 and new.root != EMPTY_ROOT:
        raise _refused(Code.INCONSISTENT, "The root of an empty tree is another.")
    if new.size == known and latest is not None and new.root != latest.root:
        raise _Refused(Answer(Code.CONFLICT, f"{known}\n", SIZE_TYPE))
    if known == 0 or latest is None:
        if request.proof:
            raise _refused(Code.INCONSISTENT, "The proof from an empty tree must be empty.")
        return
    if not verify_consistency(known, new.size, latest.root, new.root, request.proof):
        raise _refused(Code.INCONSISTENT, "The consistency proof does not hold.")


def _refused(code: Code, sentence: str) -> _Refused:
    return _Refused(Answer(code, sentence + "\n"))


class Witness:
    """One witness; `add_checkpoint` is safe from any thread."""

    def __init__(
        self,
        cosigner: Cosigner,
        logs: Mapping[str, Sequence[VerifierKey]],
        store: Store,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`logs` gives the keys trusted for each origin."""
        self._cosigner = cosigner
        self._logs = {origin: tuple(keys) for origin, keys in logs.items()}
        self._clock = clock
        # Whoever holds `_gate` may read and replace the state of any origin:
        self._gate = threading.Lock()
        self._store = store

    @property
    def vkey(self) -> str:
        """The witness's public key."""
        return self._cosigner.key.vkey()

    def add_checkpoint(self, body: bytes) -> Answer:
        """Return the answer to a request. Blocks on the disk. Raises OSError when the state cannot
        be made durable: then nothing was cosigned."""
        try:
            request = parse_request(body)
        except NoteRefused as wrong:
            return Answer(Code.MALFORMED, f"{wrong}\n")
        new = request.checkpoint
        keys = self._logs.get(new.origin)
        if keys is None:
            return Answer(Code.UNKNOWN_LOG, "This witness does not know the log.\n")
        with self._gate:
            latest = self._store.get(new.origin)
            try:
                judge(request, keys, latest)
            except _Refused as refused:
                return refused.answer
            if latest != new:
                self._store.put(new, verified_note(request.note, keys))
            line = self._cosigner.cosign(new.text(), int(self._clock()))
        return Answer(Code.OK, line + "\n")


def verified_note(note: str, keys: Iterable[VerifierKey]) -> str:
    """Return `note` with only those signature lines that `keys` made: a line that nobody verified
    must not come back later as if somebody had. Raises NoteRefused when none is left."""
    trusted = tuple(keys)
    text = open_note(note, trusted)
    names = {(key.name, key.key_id) for key in trusted}
    lines = [
        f"\u2014 {name} {base64.b64encode(blob).decode()}\n"
        for name, blob in split_note(note)[1]
        if (name, blob[:4]) in names
    ]
    return f"{text}\n{''.join(lines)}"
