"""Tokens: `[EMAIL_x7k2m9qd]`, a keyed function of scope, kind and value, never a counter.

Invariant: the same value in the same scope gives the same token in every process and replica,
without coordination; without the key a token tells nothing. The value is taken exactly as written,
not even spaces or Unicode forms are evened out: a token stands for one spelling, because what comes
back into a file must be the bytes that were taken out of it; `Jane@x.example` and `jane@x.example`
have two tokens. Beside each token goes a mark, more of the same digest, by which the vault tells
two values of one token apart without knowing either. A hash, `[EMAIL#x7k2m9qd3v5p]`, is as stable
and never restored. All are plain ASCII that JSON, Markdown and source code leave alone.
Called by `redactor` (to make them), `engine` and `restore` (to recognize them).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from gateway.redaction import stand_ins

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

#: Length of a hash's body: 60 bits, because nobody checks hashes for collisions.
_HASHED: Final = 12
#: What the gateway wrote itself, tokens and hashes: no detector may read it as a value again.
WRITTEN: Final = re.compile(
    rf"{TOKEN.pattern}|\[[A-Z](?:[A-Z_]{{0,30}}[A-Z])?#{_BODY}{{{_HASHED}}}\]"
)

#: What the beginning of a token looks like, to the end of the text (see `restore`): a kind of up
#: to 32 characters, and `_`.
TOKEN_BEGINNING: Final = re.compile(rf"\[(?:[A-Z][A-Z_]{{0,32}}(?:(?<=_){_BODY}{{1,16}})?)?\Z")

#: Two characters for each ten bits.
_PAIRS: Final = tuple(a + b for a in ALPHABET for b in ALPHABET)

_DOMAIN: Final = b"choragos token v1"


class TokensExhausted(Exception):
    """Two values share even the longest token; with 80 bits this means a broken key."""


class Tokenizer:
    """Makes the tokens of one scope.

    `taken` maps tokens that are already known to stand for a value to that value's mark: another
    value that collides with one gets the next longer token (or the next stand-in), every time, in
    every process that is told.
    """

    def __init__(self, key: bytes, scope: str, taken: Mapping[str, str] | None = None) -> None:
        self._begun, self._ending = _begun(key, scope)
        self._owners: dict[str, str] = dict(taken or {})
        self._known: dict[tuple[str, str], str] = {}
        self._stand_ins: dict[tuple[str, str], str] = {}
        #: Marks of what was made so far, by token.
        self.marks: dict[str, str] = {}

    def token(self, kind: str, value: str) -> str:
        """Return the token of `value`. Raises TokensExhausted when no length is free."""
        known = self._known.get((kind, value))
        if known is not None:
            return known
        digest = self._digest(kind, value)
        body = _encode(digest)
        for length in LENGTHS:
            token = f"[{kind}_{body[:length]}]"
            if self._claim(token, _mark(digest)):
                self._known[(kind, value)] = token
                return token
        raise TokensExhausted(f"No free token is left for a value of kind {kind}.")

    def hashed(self, kind: str, value: str) -> str:
        """Return the hash of `value`: stable in the scope, of no use for restoring."""
        return f"[{kind}#{_encode(self._digest(kind, value, b'hash'))[:_HASHED]}]"

    def stand_in(self, kind: str, value: str) -> str:
        """Return an invented value of the same form, or the token where no free one is found.
        Raises TokensExhausted."""
        known = self._stand_ins.get((kind, value))
        if known is not None:
            return known
        mark = _mark(self._digest(kind, value))
        for attempt in range(stand_ins.ATTEMPTS):
            made = stand_ins.make(kind, value, self._digest(kind, value, b"stand-in %d" % attempt))
            if made is None:
                break
            if made != value and self._claim(made, mark):
                self._stand_ins[(kind, value)] = made
                return made
        return self.token(kind, value)

    def _claim(self, token: str, mark: str) -> bool:
        if self._owners.setdefault(token, mark) != mark:
            return False
        self.marks[token] = mark
        return True

    def _digest(self, kind: str, value: str, purpose: bytes = b"") -> bytes:
        inner, outer = self._begun.copy(), self._ending.copy()
        inner.update(_framed(kind.encode()) + _framed(value.encode("utf-8", "surrogatepass")))
        if purpose:
            inner.update(_framed(purpose))
        outer.update(inner.digest())
        return bytes(outer.digest())


@lru_cache(maxsize=256)
def _begun(key: bytes, scope: str) -> tuple[Any, Any]:
    """Return the two hashes of an HMAC-SHA256 (RFC 2104) behind the key, the first behind the
    scope too: to copy them takes a fifth of the time that a small HMAC does."""
    size = hashlib.sha256().block_size
    block = (hashlib.sha256(key).digest() if len(key) > size else key).ljust(size, b"\0")
    inner, outer = (hashlib.sha256(bytes(byte ^ pad for byte in block)) for pad in (0x36, 0x5C))
    inner.update(_framed(_DOMAIN) + _framed(scope.encode()))
    return inner, outer


def kind_of(token: str) -> str:
    """Return the kind a token names."""
    return token[1:].rpartition("_")[0]


def _mark(digest: bytes) -> str:
    """128 bits that are not in the token."""
    return digest[10:26].hex()


def _framed(part: bytes) -> bytes:
    """Length first, so that no two lists of parts give the same bytes."""
    return len(part).to_bytes(8, "big") + part


def _encode(digest: bytes) -> str:
    bits = int.from_bytes(digest[:10], "big")
    return "".join([_PAIRS[(bits >> shift) & 1023] for shift in range(70, -1, -10)])
