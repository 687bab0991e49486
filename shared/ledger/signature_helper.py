"""The child process of `signatures`: checks signatures of one key until its input ends.

Run as a file, by its path, so that it starts in hundredths of a second: it imports nothing of the
project. Invariant: it says `all good` only when every frame it read was whole and its signature
good. Input: a public key (32 bytes), then frames of length (4 bytes, big endian), signature (64
bytes) and text. Called by `signatures` alone.
"""

from __future__ import annotations

import sys
from typing import BinaryIO, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

#: Length of the text, signature.
HEADER_BYTES: Final = 4 + 64
GOOD: Final = b"all good\n"


def are_good(stream: BinaryIO) -> bool:
    """Read everything; tell whether all signatures in it are good. Raises ValueError for a key
    that is none."""
    key = Ed25519PublicKey.from_public_bytes(stream.read(32))
    good = True
    while header := stream.read(HEADER_BYTES):
        text = stream.read(int.from_bytes(header[:4], "big"))
        try:
            key.verify(header[4:], text)
        except (InvalidSignature, ValueError):
            good = False
    return good


if __name__ == "__main__":
    if are_good(sys.stdin.buffer):
        sys.stdout.buffer.write(GOOD)
