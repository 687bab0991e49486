"""The values that must never reach a provider, and the search for them in any disguise.

Owns the demo's invented personal data and secrets, and the list of encodings in which a value
could leave: as it is, with its punctuation dropped, escaped for JSON or HTML or a URL, in base64 at
each of the three alignments, in base64url, in base32 and in hex. Every value is well-formed (check
digits included) and belongs to nobody; each is put together here from pieces, so that a secret
scanner reading this source finds nothing. Pure. Called by the story and by the end-to-end tests.
"""

from __future__ import annotations

import base64
import html
import json
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Canary:
    """One value to look for. `secret` ones are not given back to the agent either."""

    name: str
    value: str
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Sighting:
    """A canary found where it must not be: which one, in which encoding, at which byte."""

    name: str
    encoding: str
    offset: int


def luhn_complete(body: str) -> str:
    """Return `body` (digits) with the Luhn check digit that makes it a valid card number."""
    doubled = [int(c) * (2 if i % 2 == 0 else 1) for i, c in enumerate(reversed(body))]
    total = sum(d - 9 if d > 9 else d for d in doubled)
    return body + str(-total % 10)


def iban(country: str, account: str) -> str:
    """Return an IBAN for `account` with its two check digits (ISO 13616, mod 97)."""
    digits = "".join(str(int(c, 36)) for c in account + country + "00")
    return f"{country}{98 - int(digits) % 97:02d}{account}"


def demo_canaries() -> tuple[Canary, ...]:
    """Return the six values of the demo's customer, the two secrets last."""
    card = luhn_complete("4539" + "5787" + "6362" + "148")
    grouped = " ".join(card[i : i + 4] for i in range(0, 16, 4))
    return (
        Canary("e-mail", "e.papadaki" + "@" + "harbour.example.com"),
        # The block the British regulator keeps for drama: valid, and nobody's.
        Canary("phone", "+44 " + "20 7946 " + "0958"),
        Canary("card", grouped),
        Canary("IBAN", iban("DE", "50010517" + "5407324931")),
        Canary("database password", "tide" + "-Lantern" + "-8842" + "-quay", secret=True),
        Canary("API key", "sk-" + "proj-" + "Qm7vT2xR9p" + "Lw4ZcN8bKd", secret=True),
    )


#: A value shorter than this would be "found" by chance in a megabyte of base64.
_MIN_FRAGMENT: Final = 6


def disguises(value: str) -> Iterator[tuple[str, bytes]]:
    """Yield (encoding name, bytes) for every way in which `value` could be written.

    Base64 depends on what stands before the value, so the part of each of the three alignments that
    its neighbors cannot change is given.
    """
    raw = value.encode()
    yield "raw", raw
    squeezed = "".join(c for c in value if c.isalnum())
    if squeezed.isdigit() and squeezed != value:
        yield "digits only", squeezed.encode()
    yield "JSON", json.dumps(value)[1:-1].encode()
    yield "JSON, all escaped", "".join(f"\\u{ord(c):04x}" for c in value).encode()
    yield "HTML", html.escape(value).encode()
    yield "URL", urllib.parse.quote(value, safe="").encode()
    yield "URL, plus", urllib.parse.quote_plus(value).encode()
    yield "UTF-16", value.encode("utf-16-le")
    yield "hex", raw.hex().encode()
    yield "HEX", raw.hex().upper().encode()
    yield "base32", base64.b32encode(raw).rstrip(b"=")[: len(raw) * 8 // 5]
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw)
        first = (shift * 8 + 5) // 6
        last = (shift + len(raw)) * 8 // 6
        fragment = encoded[first:last]
        if len(fragment) >= _MIN_FRAGMENT:
            yield f"base64 +{shift}", fragment
            yield f"base64url +{shift}", fragment.replace(b"+", b"-").replace(b"/", b"_")


def sightings(haystack: bytes, canaries: tuple[Canary, ...]) -> list[Sighting]:
    """Return every canary found in `haystack`, in any of its disguises.

    Letters are compared without regard to case where the value itself stands.
    """
    lowered = haystack.lower()
    found: list[Sighting] = []
    for canary in canaries:
        for encoding, needle in dict.fromkeys(disguises(canary.value)):
            offset = haystack.find(needle)
            if offset < 0 and encoding == "raw":
                offset = lowered.find(needle.lower())
            if offset >= 0:
                found.append(Sighting(canary.name, encoding, offset))
    return found
