"""Which signed text of a provider came to this role through this gateway.

A provider signs a model's thinking, and refuses the next turn when a byte of it is missing; so it
goes back unread. That is safe for thinking that this gateway handed out, since it never puts
originals into it. Anything else under a signature is text somebody wrote and is scanned as such.
Owns the keyed digest by which the two are told apart; the vault keeps the digests of what was
handed out. Invariant: a digest says nothing about the text without the key. Pure.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Collection
from typing import Final

_LABEL: Final = b"sphragis vouched text v1"

#: What a JSON text with a seal in it holds: see `gateway.wire.formats.anthropic_stream`.
_SEAL_NAMES: Final = (b"signature", b"encrypted_content", b"\\u00")

#: Digests of one role that travel with a scan: more thinking than any conversation holds.
NEWEST: Final = 2048


def digest(key: bytes, scope: str, text: str, signature: str) -> str:
    """Return 32 hex digits for a text, its signature and the scope that received it."""
    mac = hmac.new(key, _LABEL, hashlib.sha256)
    for part in (scope, text, signature):
        raw = part.encode("utf-8", "surrogatepass")
        mac.update(len(raw).to_bytes(8, "big") + raw)
    return mac.hexdigest()[:32]


def may_hold_signed(body: bytes, content_encoding: str) -> bool:
    """Tell whether a body may hold signed text at all; when unsure, yes. The names of seals can
    only be written out, or with escapes."""
    return bool(content_encoding) or any(name in body for name in _SEAL_NAMES)


def vouched_by(key: bytes, scope: str, digests: Collection[str]) -> Callable[[str, str], bool]:
    """Return the question `was this text, so signed, handed out to this scope?`."""
    known = frozenset(digests)
    return lambda text, signature: digest(key, scope, text, signature) in known
