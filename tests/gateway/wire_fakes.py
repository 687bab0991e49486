"""A stand-in for the redaction engine: canaries become tokens, tokens become canaries again."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable

from gateway.redaction.restore import StreamRestorer, restore_text

CANARY = re.compile(r"CANARY\d{4}[^Z]*Z")


class FakeRedactor:
    """Replaces every canary, wherever in a text it stands; counts what it was shown."""

    def __init__(self) -> None:
        self.originals: dict[str, str] = {}
        self.shown: list[str] = []

    def text(self, s: str) -> str:
        self.shown.append(s)
        return CANARY.sub(lambda found: self.token(found.group()), s)

    def token(self, value: str) -> str:
        token = token_of(value)
        self.originals[token] = value
        return token


class NamingRedactor(FakeRedactor):
    """Also takes what is stored under a telling name."""

    def value(self, key: str, s: str) -> str:
        telling = "password" in key.lower() and s and not s.startswith("[")
        return self.token(s) if telling else self.text(s)


def token_of(value: str) -> str:
    digest = hashlib.sha256(value.encode("utf-8", "replace")).digest()
    return "[EMAIL_" + "".join("0123456789abcdefghjkmnpqrstvwxyz"[b & 31] for b in digest[:8]) + "]"


def restoring(originals: dict[str, str]) -> Callable[[str], str]:
    return lambda text: restore_text(text, originals)


def restorers(originals: dict[str, str]) -> Callable[[Callable[[str], str]], StreamRestorer]:
    def factory(encode: Callable[[str], str]) -> StreamRestorer:
        def look_up(token: str) -> str | None:
            original = originals.get(token)
            return None if original is None else encode(original)

        return StreamRestorer(look_up)

    return factory
