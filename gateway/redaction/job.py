"""What goes into a scanning worker and what comes out.

Values only; the same classes on both sides of the process border. Invariant: `ScanRefused`
carries a code for machines and a sentence for people, and never a value from the call.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ScanJob:
    """One call to scan. `wire` names the format ("anthropic.messages"), `body` is as received
    under `content_encoding`, `scope` is the role, `extra` holds named texts beside the body
    (header values, query), `taken` the tokens the vault reported as another value's (see
    `vault.TokenTaken`), `vouched` the digests of signed text this scope was handed out (see
    `vouching`).
    """

    wire: str
    body: bytes = field(repr=False)
    content_encoding: str = ""
    scope: str = ""
    extra: dict[str, str] = field(default_factory=dict, repr=False)
    taken: dict[str, str] = field(default_factory=dict, repr=False)
    vouched: list[str] = field(default_factory=list, repr=False)


@dataclass(frozen=True, slots=True)
class ScanResult:
    """`body` is written anew from the scanned structure. `counts` is finds by kind (body only),
    `originals` token to value for what may be given back, `extra_hits` the names of `extra` in
    which something was found, `opaque` unreadable parts by media type, `scan_us` time spent
    scanning."""

    body: bytes = field(repr=False)
    counts: dict[str, int]
    originals: dict[str, str] = field(repr=False)
    model: str
    stream: bool
    extra_hits: set[str] = field(default_factory=set)
    opaque: dict[str, int] = field(default_factory=dict)
    scan_us: int = 0


class ScanRefused(Exception):
    """The call must not be forwarded. `code` is stable, `sentence` says why and what to do."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
