"""Invented values to plant, and the search for them in what a provider received.

Owns the forms in which a value could leave without standing there as it is: escaped, quoted, in
hexadecimal, in base64 at each alignment, in other capitals. Pure but for the random source.
Called by `matrix`, and by tests.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
import string
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass

_LETTERS = string.ascii_letters + string.digits


@dataclass(frozen=True, slots=True)
class Canary:
    """One planted text and the values in it that must not leave. All of them are invented."""

    text: str
    values: tuple[str, ...]


def fresh() -> Canary:
    """Return a text with an e-mail address, a provider key and a card number."""
    email, key, card = _email(), _key(), _card()
    return Canary(f"mail {email}, key {key}, card {card}", (email, key, card))


def fresh_word() -> Canary:
    """Return an e-mail address alone, for places where one word stands: keys, names, addresses."""
    email = _email()
    return Canary(email, (email,))


def _email() -> str:
    return f"{_some(4)}.{_some(7)}@kestrel-{_some(5)}.com".lower()


def _key() -> str:
    """A GitHub token: its last six characters are the CRC-32 of the rest in base 62."""
    body = _some(30)
    rest = binascii.crc32(body.encode())
    digits = string.digits + string.ascii_uppercase + string.ascii_lowercase
    check = ""
    for _ in range(6):
        rest, digit = divmod(rest, 62)
        check = digits[digit] + check
    return f"ghp_{body}{check}"


def _card() -> str:
    digits = [4, 5, 3, 9, *(secrets.randbelow(10) for _ in range(11))]
    doubled = [d * 2 - 9 * (d > 4) if n % 2 == 0 else d for n, d in enumerate(digits)]
    return "".join(map(str, [*digits, -sum(doubled) % 10]))


def _some(length: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(length))


def forms(value: str) -> Iterator[bytes]:
    """Yield every form a value could leave in."""
    raw = value.encode()
    yield raw
    yield json.dumps(value)[1:-1].encode()
    yield json.dumps(json.dumps(value))[3:-3].encode()
    yield "".join(f"\\u{ord(character):04x}" for character in value).encode()
    yield urllib.parse.quote(value, safe="").encode()
    yield urllib.parse.quote_plus(value).encode()
    yield raw.hex().encode()
    for shift in range(3):
        # Cut off the characters that depend on what stands before and after.
        start, end = (0, 2, 3)[shift], (len(raw) + shift) // 3 * 4
        yield base64.b64encode(b"\0" * shift + raw)[start:end]
        yield base64.urlsafe_b64encode(b"\0" * shift + raw)[start:end]


def leaked(values: tuple[str, ...], received: bytes) -> bool:
    """Tell whether any form of any of the values is in what was received."""
    lowered = received.lower()
    return any(
        value.lower().encode() in lowered or any(form in received for form in forms(value))
        for value in values
    )
