"""The child process of `signatures`: checks signatures of one key until its input ends, and, beside
that, that no record in some files holds a number with a fraction.

Run as a file, by its path, so that it starts in hundredths of a second: it imports nothing of the
project. Invariant: it says `all good` only when every frame it read was whole and its signature
good, and no line that is JSON has such a number. Input: a line of JSON, `{key, files: [[path,
bytes], ...]}`, then frames of length (4 bytes, big endian), signature (64 bytes) and text. Called
by `signatures`; `walk` looks at fractions by itself where there is no helper.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Any, BinaryIO, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

#: Length of the text, signature.
HEADER_BYTES: Final = 4 + 64
GOOD: Final = b"all good\n"
_CHUNK: Final = 1 << 18
#: No line of a ledger is this long.
_MAX_RUN: Final = 1 << 20
#: Once all but these are taken away, a number is nothing, and a fraction a dot or an e behind what
#: begins a value; u and s tell it from true and false.
_OTHERS: Final = bytes(set(range(256)) - set(b':,[".eEus'))
#: What begins a value becomes a colon, what makes a fraction a dot: one pair to look for.
_AS_ONE: Final = bytes.maketrans(b",[eE", b"::..")


def may_hold_fraction(text: bytes) -> bool:
    """Tell whether a number in some lines may have a fraction or an exponent; seldom wrongly so."""
    return b":." in text.translate(_AS_ONE, _OTHERS)


def _refuse(number: str) -> Any:
    raise ValueError(f"{len(number)} characters are not a whole number")


def _holds_fraction(line: bytes) -> bool:
    try:
        json.loads(line, parse_float=_refuse, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return True
    return False


def are_whole(files: list[tuple[str, int]]) -> bool:
    """Tell whether all lines of the first bytes of some files hold whole numbers only. What stands
    behind the last line break is nobody's record yet. Raises OSError."""
    for path, size in files:
        left, rest = size, b""
        with open(path, "rb") as file:
            while left > 0 and (chunk := file.read(min(_CHUNK, left))):
                left -= len(chunk)
                lines, _, rest = (rest + chunk).rpartition(b"\n")
                doubtful = lines.split(b"\n") if may_hold_fraction(lines) else []
                if any(map(_holds_fraction, filter(may_hold_fraction, doubtful))):
                    return False
                if len(rest) > _MAX_RUN:
                    return False
    return True


def are_good(key: Ed25519PublicKey, stream: BinaryIO) -> bool:
    """Read every frame; tell whether all signatures are good."""
    good = True
    while header := stream.read(HEADER_BYTES):
        text = stream.read(int.from_bytes(header[:4], "big"))
        try:
            key.verify(header[4:], text)
        except (InvalidSignature, ValueError):
            good = False
    return good


def main() -> None:
    """Read what there is to check from standard input; answer on standard output."""
    asked = json.loads(sys.stdin.buffer.readline())
    answers: list[bool] = []
    scan = threading.Thread(target=lambda: answers.append(are_whole(asked["files"])))
    scan.start()
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(asked["key"]))
    signed = are_good(key, sys.stdin.buffer)
    scan.join()
    if signed and answers == [True]:
        sys.stdout.buffer.write(GOOD)


if __name__ == "__main__":
    main()
