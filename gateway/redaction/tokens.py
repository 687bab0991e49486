"""Tokens: `[EMAIL_x7k2m9qd]`, a keyed function of scope, kind and value, never a counter.

Invariant: the same value in the same scope gives the same token in every process and replica,
without coordination; without the key a token tells nothing; the value is taken exactly as written,
so restoring is exact. A token is plain ASCII that JSON, Markdown and source code leave alone.
Called by `redactor` (to make tokens), `engine` and `restore` (to recognise them).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Final

#: Crockford's base 32 in lower case: no i, l, o, u, so a model that copies it has little to
#: confuse.
ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_BODY: Final = "[0-9a-hjkmnp-tv-z]"

#: Lengths a token's body may have: 40 bits, and longer ones for values whose shorter token is
#: taken.
LENGTHS: Final = (8, 12, 16)

#: Longest kind name; bounds what a stream may hold back.
MAX_KIND: Final = 32

#: Longest token in characters: brackets, kind, underscore, body.
MAX_TOKEN: Final = MAX_KIND + LENGTHS[-1] + 3

KIND: Final = re.compile(r"[A-Z](?:[A-Z_]{0,30}[A-Z])?")
TOKEN: Final = re.compile(
    rf"\[[A-Z](?:[A-Z_]{{0,30}}[A-Z])?_{_BODY}{{8}}(?:{_BODY}{{4}}(?:{_BODY}{{4}})?)?\]"
)

#: What the beginning of a token looks like, to the end of the text (see `restore`).
TOKEN_BEGINNING: Final = re.compile(rf"\[(?:[A-Z][A-Z_]{{0,31}}(?:(?<=_){_BODY}{{1,16}})?)?\Z")

#: Two characters for each ten bits.
_PAIRS: Final = tuple(a + b for a in ALPHABET for b in ALPHABET)

_DOMAIN: Final = b"choragos token v1"


class TokensExhausted(Exception):
    """Two values share even the longest token; with 80 bits this means a broken key."""


class Tokenizer:
    """Makes the tokens of one scope.

    `taken` maps tokens already known to stand for another value (token to value): a value that
    collides with one gets the next longer token, every time, in every process that is told.
    """

    def __init__(self, key: bytes, scope: str, taken: Mapping[str, str] | None = None) -> None:
        self._mac = hmac.new(key, _framed(_DOMAIN) + _framed(scope.encode()), "sha256")
        self._owners: dict[str, str] = dict(taken or {})
        self._known: dict[tuple[str, str], str] = {}

    def token(self, kind: str, value: str) -> str:
        """Return the token of `value`. Raises TokensExhausted when no length is free."""
        known = self._known.get((kind, value))
        if known is not None:
            return known
        mac = self._mac.copy()
        mac.update(_framed(kind.encode()) + _framed(value.encode("utf-8", "surrogatepass")))
        body = _encode(mac.digest())
        for length in LENGTHS:
            token = f"[{kind}_{body[:length]}]"
            if self._owners.setdefault(token, value) == value:
                self._known[(kind, value)] = token
                return token
        raise TokensExhausted(f"No free token is left for a value of kind {kind}.")


def _framed(part: bytes) -> bytes:
    """Length first, so that no two lists of parts give the same bytes."""
    return len(part).to_bytes(8, "big") + part


def _encode(digest: bytes) -> str:
    bits = int.from_bytes(digest[:10], "big")
    return "".join([_PAIRS[(bits >> shift) & 1023] for shift in range(70, -1, -10)])
