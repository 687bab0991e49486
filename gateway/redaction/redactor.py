"""Replaces what the detector finds, one call at a time; what the wire modules hold in their hands.

Owns the decision per kind (the policy's action) and the memory of one call: how many values of each
kind, which token stands for which original, and which tokens were in the text already. Invariants:
`originals` holds only values the policy lets back; a value of a refused kind stops the call and is
named nowhere; what the gateway wrote itself (tokens, hashes, stand-ins) is left as it is, so that
redacting twice is redacting once.
`SpanCache` remembers where the finds of an unchanged text are (positions, never values), and whole
parts in which there are none, because agents send the whole conversation again on every turn.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, Protocol

from gateway.redaction.policy import Action, KindRule, Opaque, Policy
from gateway.redaction.spans import Span
from gateway.redaction.stand_ins import shapes_of
from gateway.redaction.tokens import TOKEN, Tokenizer

#: Kind of a remembered position at which a token stood already; no kind a rule could find.
_MET: Final = "[]"


class Finder(Protocol):
    """Whatever finds values: the engine, or a stand-in in tests."""

    def find(self, text: str) -> list[Span]:
        """Return sorted spans that do not overlap and touch no token."""

    def find_value(self, key: str, value: str) -> list[Span]:
        """The same for `value`, knowing the name it is stored under."""


class PolicyRefused(Exception):
    """The policy refuses calls that hold such a value; the text names the kind, never the value."""


class SpanCache:
    """Positions of finds by content, of the last few thousand texts.

    `limit` bounds entries and `span_limit` the positions they hold together (about 100 bytes each).
    Two generations stand in for an order of use: what is asked for moves to the young one, and
    what the old one still holds when the young one is full is forgotten.
    """

    def __init__(self, limit: int = 65_536, span_limit: int = 200_000) -> None:
        self._limit = max(1, limit // 2)
        self._span_limit = max(1, span_limit // 2)
        self._held = 0
        self._young: dict[bytes, tuple[Span, ...]] = {}
        self._old: dict[bytes, tuple[Span, ...]] = {}

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def get(self, key: bytes) -> tuple[Span, ...] | None:
        """Return the spans stored under `key`, or None."""
        spans = self._young.get(key)
        if spans is None:
            spans = self._old.get(key)
            if spans is not None:
                self.put(key, spans)
        return spans

    def put(self, key: bytes, spans: Sequence[Span]) -> None:
        """Remember `spans`, forgetting what was not asked for lately beyond the limits."""
        if len(spans) > self._span_limit:
            return
        if len(self._young) >= self._limit or self._held + len(spans) > self._span_limit:
            self._old, self._young, self._held = self._young, {}, 0
        self._held += len(spans)
        self._young[key] = tuple(spans)


def _faster() -> Callable[[bytes], Any]:
    """Of two hashes equally good for marks, which live in this process only, the faster one here:
    SHA-256 where the processor knows it (twice as fast), else BLAKE2b."""

    def seconds(make: Callable[[bytes], Any]) -> float:
        times: list[float] = []
        for _ in range(5):
            began = time.perf_counter()
            make(bytes(16_384)).digest()
            times.append(time.perf_counter() - began)
        return min(times)

    made: tuple[Callable[[bytes], Any], ...] = (hashlib.sha256, hashlib.blake2b)
    return min(made, key=seconds)


#: For marks of what was read; keeps nothing of it.
HASH: Final = _faster()


#: Digests of contents are of use to this process only.
_SALTED: Final = HASH(os.urandom(32))


@lru_cache(maxsize=512)
def _way(rules: str, policy: str, scope: str, kind: str, reader: str) -> bytes:
    """Return a digest of one way of reading; two different ways never share one. The words are
    ours and the scope's name, nothing of a call is kept here."""
    parts = [part.encode("utf-8", "surrogatepass") for part in (rules, policy, scope, kind, reader)]
    return bytes(HASH(b"".join(b"%d\0%s" % (len(part), part) for part in parts)).digest()[:16])


class Redactor:
    """One call's redaction. Not shared between calls; `cache` may be.

    `rules` is the version of the rule set: with the policy's digest and the scope it keeps cached
    positions from outliving what found them.
    """

    def __init__(
        self,
        finder: Finder,
        tokenizer: Tokenizer,
        policy: Policy,
        *,
        scope: str,
        rules: str = "",
        cache: SpanCache | None = None,
    ) -> None:
        self._finder = finder
        self._tokenizer = tokenizer
        self._policy = policy
        self._cache = cache
        self._reading = (rules, policy.digest, scope)
        #: The text that was hashed last, and its digest: one text is read in several ways.
        self._hashed: str | None = None
        self._digest = b""
        #: Finds and notes so far, those that change nothing included: while it stays the same,
        #: nothing was found.
        self.touched = 0
        self.counts: Counter[str] = Counter()
        self.originals: dict[str, str] = {}
        #: Keyed marks of the values that tokens and stand-ins of this call stand for, by token.
        self.marks: dict[str, str] = {}
        #: Kinds of the stand-ins among them.
        self.kinds: dict[str, str] = {}
        #: Tokens (to an empty text) and stand-ins (to their kind) that were in the text already.
        self.met: dict[str, str] = {}
        self.opaque_parts: Counter[str] = Counter()

    def text(self, s: str) -> str:
        """Return `s` with every find replaced. Raises PolicyRefused."""
        return self._replace(s, self._spans(s))

    def value(self, key: str, s: str) -> str:
        """Like `text` for a string stored under the name `key` of an object: `{"password": "…"}`
        is a secret although the string alone would not look like one."""
        return self._replace(s, self._spans(s, key))

    def opaque(self, media_type: str) -> None:
        """Note bytes that cannot be read as text. Raises PolicyRefused when the policy says so."""
        self.touched += 1
        if self._policy.opaque is Opaque.REFUSE:
            raise PolicyRefused(
                f"The policy '{self._policy.id}' refuses content that cannot be read as text "
                f"({_media_name(media_type)}); remove it, or have the policy's 'opaque' changed."
            )
        self.opaque_parts[_media_name(media_type)] += 1

    def mark(self, reader: str, part: bytes | str, name: str | None = None) -> bytes:
        """Return the name under which a whole part of a document is remembered: its bytes, who
        reads them (`reader`, in our words, says how; `name` is what the client calls the part),
        and the rules, policy and scope of this call."""
        return self._mark("part", reader, part, name)

    def is_clean(self, mark: bytes) -> bool:
        """Tell whether a part was read before and nothing was found in it."""
        return self._cache is not None and self._cache.get(mark) is not None

    def remember_clean(self, mark: bytes) -> None:
        """Remember that `touched` stayed the same while the part was read."""
        if self._cache is not None:
            self._cache.put(mark, ())

    def _spans(self, s: str, name: str | None = None) -> Sequence[Span]:
        if self._cache is None or not s:
            return self._find(s, name)
        key = self._mark("text" if name is None else "value", "", s, name)
        known = self._cache.get(key)
        if known is None:
            known = tuple(self._find(s, name))
            self._cache.put(key, known)
        return known

    def _mark(self, kind: str, reader: str, content: bytes | str, name: str | None) -> bytes:
        """A digest of how it is read, then one of what is read."""
        how = _way(*self._reading, kind, reader)
        if name is not None:
            whole = HASH(how)
            whole.update(name.encode("utf-8", "surrogatepass"))
            how = bytes(whole.digest()[:16])
        if content is not self._hashed:
            salted = _SALTED.copy()
            if not isinstance(content, str):
                salted.update(content)
                return how + bytes(salted.digest()[:16])
            salted.update(content.encode("utf-8", "surrogatepass"))
            self._hashed, self._digest = content, bytes(salted.digest()[:16])
        return how + self._digest

    def _find(self, s: str, name: str | None) -> list[Span]:
        found = self._finder.find(s) if name is None else self._finder.find_value(name, s)
        if "[" not in s:
            return found
        met = [Span(*token.span(), _MET, 1.0, "") for token in TOKEN.finditer(s)]
        return sorted([*found, *met], key=_start) if met else found

    def _replace(self, s: str, spans: Sequence[Span]) -> str:
        if not spans:
            return s
        parts: list[str] = []
        at = 0
        for span in spans:
            parts += (s[at : span.start], self._instead(span.kind, s[span.start : span.end]))
            at = span.end
        parts.append(s[at:])
        return "".join(parts)

    def _instead(self, kind: str, value: str) -> str:
        self.touched += 1
        if kind == _MET:
            self.met[value] = ""
            return value
        rule = self._policy.rule(kind)
        if rule.action is Action.ALLOW:
            return value
        if rule.action is Action.STAND_IN:
            shapes = shapes_of((kind,))
            if shapes is not None and shapes.is_one(value):
                self.met[value] = kind
                return value
        self.counts[kind] += 1
        if rule.action is Action.REFUSE:
            raise PolicyRefused(
                f"The policy '{self._policy.id}' refuses calls that hold a value of kind {kind}; "
                "remove it from the conversation, or have the policy changed."
            )
        if rule.action is Action.MASK:
            return f"[{kind}]"
        if rule.action is Action.HASH:
            return self._tokenizer.hashed(kind, value)
        return self._token(kind, value, rule)

    def _token(self, kind: str, value: str, rule: KindRule) -> str:
        if rule.action is Action.STAND_IN:
            token = self._tokenizer.stand_in(kind, value)
            self.kinds[token] = kind
        else:
            token = self._tokenizer.token(kind, value)
        self.marks[token] = self._tokenizer.marks[token]
        if rule.restore:
            self.originals[token] = value
        return token


def _start(span: Span) -> int:
    return span.start


#: Media types that may be named in records and sentences. A client chooses the text, so any other
#: is only counted.
_MEDIA: Final = frozenset(
    {
        "image/png",
        "image/jpeg",
        "image/gif",
        "image/webp",
        "image/bmp",
        "image/tiff",
        "image/heic",
        "image/avif",
        "image/svg+xml",
        "audio/mpeg",
        "audio/wav",
        "audio/ogg",
        "audio/mp4",
        "audio/webm",
        "audio/flac",
        "video/mp4",
        "video/webm",
        "video/quicktime",
        "application/pdf",
        "application/octet-stream",
        "application/zip",
        "application/gzip",
        "file",
    }
)


def _media_name(media_type: str) -> str:
    name = media_type.partition(";")[0].strip().lower()
    return name if name in _MEDIA else "other"
