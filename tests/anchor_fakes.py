"""What the tests of anchors share: a log that exists only as leaves and a key, a server for
what answers, and a time-stamping authority."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from shared.ledger.checkpoint import Checkpoint, Signer
from shared.ledger.merkle import consistency_proof, leaf_hash, root_of

ORIGIN = "log.example.org/one"


class PaperLog:
    """A log on paper: leaves in memory, and a key that signs whatever a test wants."""

    def __init__(self, origin: str = ORIGIN, seed: bytes = b"l" * 32, salt: str = "") -> None:
        self.origin = origin
        self.signer = Signer(origin, seed)
        self.salt = salt

    def leaves(self, size: int) -> list[bytes]:
        return [leaf_hash(f"{self.salt if n > 2 else ''}{n}".encode()) for n in range(size)]

    def root(self, size: int) -> bytes:
        return root_of(self.leaves(size))

    def note(self, size: int) -> str:
        return self.signer.sign(Checkpoint(self.origin, size, self.root(size)).text())

    def proof(self, old: int, new: int) -> list[bytes]:
        return consistency_proof(self.leaves(new), old)


def signature_lines(note: str) -> Sequence[str]:
    return note.rpartition("\n\n")[2].splitlines()


@contextmanager
def serve_http(answer: Callable[[bytes], bytes | None]) -> Iterator[str]:
    """A server on this machine that answers each POST with `answer(body)`; None is a 500."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = answer(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(500 if body is None else 200)
            self.send_header("content-length", str(len(body or b"")))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class LocalCalendar:
    """An OpenTimestamps calendar on this machine: promises at once, and gives the rest once its
    transaction is `mined`. Needs the package `opentimestamps`."""

    def __init__(self) -> None:
        self.mined = False
        self.url = ""
        self.asked: list[bytes] = []

    def promise(self, digest: bytes) -> bytes:
        from opentimestamps.core.notary import PendingAttestation
        from opentimestamps.core.timestamp import Timestamp

        stamp = Timestamp(digest)
        stamp.attestations.add(PendingAttestation(self.url))
        return self._bytes(stamp)

    def rest(self, digest: bytes) -> bytes | None:
        from opentimestamps.core.notary import BitcoinBlockHeaderAttestation
        from opentimestamps.core.op import OpAppend
        from opentimestamps.core.timestamp import Timestamp

        self.asked.append(digest)
        if not self.mined:
            return None
        stamp = Timestamp(digest)
        block = stamp.ops.add(OpAppend(b"the other branches"))
        block.attestations.add(BitcoinBlockHeaderAttestation(800_000))
        return self._bytes(stamp)

    @staticmethod
    def _bytes(stamp: Any) -> bytes:
        from opentimestamps.core.serialize import BytesSerializationContext

        context = BytesSerializationContext()
        stamp.serialize(context)
        return bytes(context.getbytes())


@contextmanager
def serve_calendar(calendar: LocalCalendar) -> Iterator[LocalCalendar]:
    """Serve it at `calendar.url`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._say(200, calendar.promise(self.rfile.read(int(self.headers["content-length"]))))

        def do_GET(self) -> None:
            body = calendar.rest(bytes.fromhex(self.path.rpartition("/")[2]))
            self._say(404 if body is None else 200, body or b"pending")

        def _say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    calendar.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield calendar
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


TSA_CONFIG = """
[req]
distinguished_name = name
prompt = no
[name]
CN = a time-stamping authority of the tests
[ca]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = CA:false
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, timeStamping
[tsa]
default_tsa = here
[here]
serial = {place}/serial
crypto_device = builtin
signer_cert = {place}/tsa.pem
certs = {place}/ca.pem
signer_key = {place}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
accuracy = secs:1
ess_cert_id_alg = sha256
"""


class LocalAuthority:
    """A time-stamping authority made with openssl: a root, a signer, and `openssl ts -reply`."""

    def __init__(self, place: Path) -> None:
        place.mkdir(exist_ok=True)
        self.place, self.ca = place, place / "ca.pem"
        self.config = place / "openssl.cnf"
        self.config.write_text(TSA_CONFIG.format(place=place))
        (place / "serial").write_text("01\n")
        ec = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        common = ("-config", self.config, "-days", "9")
        self._openssl(
            *("req", "-x509", *ec, *common, "-extensions", "ca", "-subj", "/CN=root"),
            *("-keyout", place / "ca.key", "-out", self.ca),
        )
        self._openssl(
            *("req", "-x509", *ec, *common, "-extensions", "leaf", "-subj", "/CN=signer"),
            *("-CA", self.ca, "-CAkey", place / "ca.key"),
            *("-keyout", place / "tsa.key", "-out", place / "tsa.pem"),
        )

    def command(self) -> tuple[str, ...]:
        """A program that answers the request on its standard input."""
        script = (
            'q=$(mktemp); cat > "$q"; openssl ts -reply -config "$0" -queryfile "$q"; '
            'code=$?; rm -f "$q"; exit $code'
        )
        return ("sh", "-c", script, str(self.config))

    def answer(self, request: bytes) -> bytes | None:
        done = subprocess.run(
            self.command(), check=False, input=request, capture_output=True, timeout=30
        )
        return done.stdout or None

    def _openssl(self, *arguments: str | Path) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)
