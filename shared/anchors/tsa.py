"""RFC 3161: a time-stamping authority signs "these bytes existed at this time".

Owns the request over a checkpoint file, the check of the response and the `.tsr` file. Invariant: a
response is stored only when it is granted, is for our bytes, answers our nonce, and, when the
authority's certificates were given, leads to them. Without those only the first three are known,
and the record says so. Blocking; called off the loop by `stamp_jobs` and by `sphragis anchor`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from shared.anchors.client import read_bounded
from shared.anchors.errors import AnchorError
from shared.anchors.files import TIME_STAMP, Head, anchor_path, keep_answer, keep_checkpoint
from shared.anchors.programs import MAX_OUTPUT, run_program

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from rfc3161_client import TimeStampRequest, TimeStampResponse

#: Seconds a time-stamping authority gets.
TIMEOUT: Final = 20.0
QUERY_TYPE: Final = "application/timestamp-query"
REPLY_TYPE: Final = "application/timestamp-reply"

#: Takes the bytes of a request, returns those of the response.
Exchange = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True)
class Authority:
    """A time-stamping authority: how it is asked, and its certificates if they are known."""

    url: str = ""
    command: tuple[str, ...] = ()
    ca_file: Path | None = None

    @property
    def name(self) -> str:
        """What the status calls it: the host, or the program."""
        return Path(self.command[0]).name if self.command else urlsplit(self.url).hostname or ""

    def ask(self, request: bytes) -> bytes:
        """Return the response to a request. Raises AnchorError."""
        if self.command:
            return run_program(self.command, request, timeout=TIMEOUT)
        return _post(self.url, request)


@dataclass(frozen=True, slots=True)
class Stamp:
    """A verified time stamp of `head`: the authority's time (Unix seconds), and whether it leads
    to the authority's certificates."""

    head: Head
    time: int
    chained: bool
    path: Path

    def ext(self) -> dict[str, object]:
        """Return the `ext` of its `anchor` record."""
        digest = hashlib.sha256(self.path.read_bytes()).hexdigest()
        return {
            "kind": "rfc3161",
            **self.head.ext(),
            "time": self.time,
            "chain": "verified" if self.chained else "unknown",
            "sha256": digest,
        }


def stamp_head(directory: Path, head: Head, authority: Authority) -> Stamp:
    """Have a head stamped, and store the response as `anchors/<size>.tsr`.

    Raises AnchorError when there is no good response, OSError when it cannot be stored.
    """
    roots = _certificates(authority.ca_file)
    data = keep_checkpoint(directory, head).read_bytes()
    request = _request(data)
    path = anchor_path(directory, head.size, TIME_STAMP)
    answer = authority.ask(request.as_bytes())
    response = check_response(answer, data, nonce=request.nonce, roots=roots)
    keep_answer(directory, head.size, TIME_STAMP, answer)
    return Stamp(head, int(response.tst_info.gen_time.timestamp()), bool(roots), path)


def _request(data: bytes) -> TimeStampRequest:
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    return TimestampRequestBuilder().data(data).hash_algorithm(HashAlgorithm.SHA256).build()


def check_response(
    answer: bytes, data: bytes, *, nonce: int | None, roots: Sequence[Certificate]
) -> TimeStampResponse:
    """Return the response in `answer` if it stamps `data` (and `nonce`, and leads to `roots`, when
    given). Raises AnchorError with what is wrong otherwise."""
    from rfc3161_client import PKIStatus, decode_timestamp_response

    try:
        response = decode_timestamp_response(in_set_order(answer))
        status = response.status
    except Exception:  # the parser is foreign and its errors are of many kinds
        raise AnchorError("The time-stamping authority's answer is not a time stamp.") from None
    if status != PKIStatus.GRANTED:
        raise AnchorError(f"The time-stamping authority granted no stamp (status {status}).")
    try:
        info = response.tst_info
        imprint, given = info.message_imprint.message, info.nonce
        algorithm = info.message_imprint.hash_algorithm.dotted_string
    except Exception:
        raise AnchorError("The time-stamping authority's answer is not a time stamp.") from None
    if algorithm != _SHA256 or imprint != hashlib.sha256(data).digest():
        raise AnchorError("The time stamp is for other bytes than the checkpoint.")
    if nonce is not None and given != nonce:
        raise AnchorError("The time stamp answers another request than ours.")
    if roots:
        _check_chain(response, data, roots)
    return response


_SHA256: Final = "2.16.840.1.101.3.4.2.1"


def _check_chain(response: TimeStampResponse, data: bytes, roots: Sequence[Certificate]) -> None:
    from rfc3161_client import VerificationError, VerifierBuilder

    # Whoever issued itself is where a chain may end; the others only lead there.
    ends = [cert for cert in roots if cert.issuer == cert.subject] or list(roots)
    between = [cert for cert in roots if cert not in ends]
    builder = VerifierBuilder(roots=ends, intermediates=between)
    try:
        builder.build().verify_message(response, data)
    except (VerificationError, ValueError):
        raise AnchorError(
            "The time stamp does not lead to the certificates in tsa_ca_file; check that they are "
            "those of this authority."
        ) from None


def _certificates(path: Path | None) -> list[Certificate]:
    if path is None:
        return []
    from cryptography.x509 import load_pem_x509_certificates

    try:
        return load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError):
        raise AnchorError(f"{path} (tsa_ca_file) holds no PEM certificates; correct it.") from None


def in_set_order(answer: bytes) -> bytes:
    """Return a response with its certificates in the order that DER wants for a set.

    `openssl ts`, which many authorities run, writes them as they come, and the strict parser we
    check with would refuse the whole response. No signature covers their order. Raises ValueError
    or IndexError when the response has another shape.
    """
    outer = _children(answer, *_content(answer, 0))
    if len(outer) < 2:
        return answer  # refused: there is no token
    token = _children(answer, *outer[1])
    signed = _children(answer, *_children(answer, *token[1])[0])
    begin, end = signed[3]
    if answer[signed[2][1]] != _CERTIFICATES:
        return answer
    certificates, at = [], begin
    while at < end:
        _, stop = _content(answer, at)
        certificates.append(answer[at:stop])
        at = stop
    return answer[:begin] + b"".join(sorted(certificates)) + answer[end:]


#: The tag of `[0] IMPLICIT`, constructed: the certificates of a SignedData (RFC 5652 section 5.1).
_CERTIFICATES: Final = 0xA0


def _content(data: bytes, at: int) -> tuple[int, int]:
    """Return where the content of the DER element at `at` begins and ends."""
    length, begin = data[at + 1], at + 2
    if length & 0x80:
        digits = length & 0x7F
        length = int.from_bytes(data[begin : begin + digits], "big")
        begin += digits
    if begin + length > len(data):
        raise ValueError("a DER element is longer than the data")
    return begin, begin + length


def _children(data: bytes, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the contents of the DER elements between two offsets."""
    found = []
    while begin < end:
        found.append(_content(data, begin))
        begin = found[-1][1]
    return found


def _post(url: str, request: bytes) -> bytes:
    import httpx

    try:
        with (
            httpx.Client(timeout=TIMEOUT, follow_redirects=False) as client,
            client.stream(
                "POST", url, content=request, headers={"content-type": QUERY_TYPE}
            ) as answer,
        ):
            body = read_bounded(answer, MAX_OUTPUT)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise AnchorError(
            f"The time-stamping authority cannot be asked ({type(error).__name__})."
        ) from None
    if answer.status_code != 200:
        raise AnchorError(f"The time-stamping authority answered with status {answer.status_code}.")
    return body
