"""Asking a witness for its cosignature (C2SP tlog-witness, the log's side).

Owns one conversation: the newest checkpoint, the proof from what the witness has seen, the check of
what it answers. Invariant: a cosignature is believed only after its signature was verified over our
own checkpoint, and a witness that holds more than we do, or another tree, is an `Alarm`: one of the
two histories is false, and no retry tells which. Blocking; called off the loop by `head_jobs`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from shared.anchors.cosignature import (
    Cosignature,
    CosignerKey,
    parse_cosigner_vkey,
    verify_cosignatures,
)
from shared.anchors.errors import Alarm, AnchorError
from shared.anchors.files import Head
from shared.anchors.witness import Code, format_request
from shared.ledger.errors import NoteRefused
from shared.ledger.lookup import Archive
from shared.ledger.proofs import consistency_path
from shared.ledger.tiles import TreeReader

if TYPE_CHECKING:
    import httpx

#: Seconds for the whole of one request: a witness only checks a proof and writes 200 bytes.
TIMEOUT: Final = 10.0
#: An answer is a size or a few signature lines.
MAX_ANSWER: Final = 1 << 16
#: Each 409 tells the size to go on from; more than this and it moves faster than we ask.
MAX_ROUNDS: Final = 4

#: Returns the newest head of our own log.
Newest = Callable[[], Head]


@dataclass(frozen=True, slots=True)
class WitnessTarget:
    """One witness: where it is asked and the key its answers are checked with."""

    url: str
    key: CosignerKey

    @property
    def name(self) -> str:
        """The witness's name."""
        return self.key.name


def parse_target(text: str) -> WitnessTarget:
    """Return the witness of a setting `URL VKEY`. Raises NoteRefused."""
    url, _, vkey = text.strip().partition(" ")
    if not url.startswith(("http://", "https://")) or not vkey.strip():
        raise NoteRefused(
            "A witness is written as its URL, a space and its vkey, such as "
            "https://witness.example.org name+8 hex digits+base64."
        )
    return WitnessTarget(url.rstrip("/"), parse_cosigner_vkey(vkey))


@dataclass(frozen=True, slots=True)
class Cosigned:
    """What a witness gave: its cosignature of `head`."""

    head: Head
    cosignature: Cosignature


class WitnessClient:
    """Talks to one witness about the log in one directory; used from one thread at a time."""

    def __init__(self, target: WitnessTarget, directory: Path, *, timeout: float = TIMEOUT) -> None:
        """`timeout` bounds each step of a request, in seconds."""
        self.target = target
        self._directory = directory
        self._timeout = timeout
        self._known = 0
        self._http: httpx.Client | None = None

    def submit(self, newest: Newest) -> Cosigned:
        """Have the newest head cosigned.

        Raises AnchorError when the witness cannot be had or makes no sense now, Alarm when it
        holds another history, LedgerError when our own log cannot be read.
        """
        head, suspect = newest(), False
        for _ in range(MAX_ROUNDS):
            if self._known > head.size:
                head = newest()
            if self._known > head.size:
                raise self._ahead(head.size)
            status, text = self._ask(head, use_tiles=not suspect)
            if status == Code.OK:
                self._known = head.size
                return Cosigned(head, self._check(head, text))
            if status == Code.CONFLICT:
                size = self._size_of(text)
                if size == self._known == head.size:
                    raise self._fork(head.size)
                self._known = size
            elif status == Code.INCONSISTENT and suspect:
                raise self._fork(self._known)
            elif status == Code.INCONSISTENT:
                suspect = True  # a damaged tile gives a wrong proof: ask again with the records'
            else:
                raise AnchorError(f"The witness {self.target.name} {_meaning(status)}.")
        raise AnchorError(f"The witness {self.target.name} named another size each time.")

    def close(self) -> None:
        """End the connection."""
        if self._http is not None:
            self._http.close()
            self._http = None

    def _ask(self, head: Head, *, use_tiles: bool) -> tuple[int, str]:
        proof = consistency(self._directory, self._known, head.size, use_tiles=use_tiles)
        return self._post(format_request(self._known, proof, head.note))

    def _post(self, body: bytes) -> tuple[int, str]:
        import httpx

        if self._http is None:
            self._http = httpx.Client(timeout=self._timeout, follow_redirects=False)
        try:
            url = f"{self.target.url}/add-checkpoint"
            with self._http.stream("POST", url, content=body) as answer:
                return answer.status_code, read_bounded(answer, MAX_ANSWER).decode()
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeDecodeError) as error:
            kind = type(error).__name__
            raise AnchorError(
                f"The witness {self.target.name} cannot be asked ({kind}); check its address."
            ) from None

    def _check(self, head: Head, text: str) -> Cosignature:
        try:
            found = verify_cosignatures(head.note + text, [self.target.key])
        except NoteRefused as wrong:
            raise AnchorError(str(wrong)) from None
        if not found:
            raise AnchorError(
                f"The answer of the witness {self.target.name} is not signed by its key; check "
                "the vkey in the settings."
            )
        return found[-1]

    def _size_of(self, text: str) -> int:
        digits = text.removesuffix("\n")
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
            raise AnchorError(f"The witness {self.target.name} told no size in a conflict.")
        return int(digits)

    def _ahead(self, size: int) -> Alarm:
        return Alarm(
            "rolled_back",
            f"The witness {self.target.name} has seen {self._known} records of this ledger, which "
            f"has only {size}: it was rolled back or there are two of it. Stop, keep a copy, run "
            "`sphragis verify` with the witness's cosignatures.",
        )

    def _fork(self, size: int) -> Alarm:
        return Alarm(
            "fork",
            f"The witness {self.target.name} has seen another history of this ledger's first "
            f"{size} records: it was rewritten or there are two of it. Stop, keep a copy, run "
            "`sphragis verify` with the witness's cosignatures.",
        )


def _meaning(status: int) -> str:
    known = {
        Code.UNTRUSTED: "does not trust this ledger's key; give it the vkey in log.json",
        Code.UNKNOWN_LOG: "does not know this ledger; give it the vkey in log.json",
        Code.MALFORMED: "refuses the request as malformed",
    }
    return known.get(Code(status), "") if status in set(Code) else f"answered with status {status}"


def read_bounded(answer: httpx.Response, limit: int) -> bytes:
    """Return the body of a streamed answer. Raises AnchorError when it is longer than `limit`."""
    body = b""
    for chunk in answer.iter_bytes():
        body += chunk
        if len(body) > limit:
            raise AnchorError(f"The answer of {answer.url.host} is longer than {limit} bytes.")
    return body


def consistency(directory: Path, old: int, new: int, *, use_tiles: bool = True) -> list[bytes]:
    """Return the proof that the log of `new` records grew out of its first `old` ones; from its
    tiles, or from the records alone. Raises LedgerError."""
    if old in (0, new):
        return []
    with Archive(directory) as archive:
        return consistency_path(old, new, TreeReader(archive, use_tiles=use_tiles).node)
