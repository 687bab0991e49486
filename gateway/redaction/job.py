"""What goes into a scanning worker and what comes out.

Values only; the same classes on both sides of the process border. Invariant: `ScanRefused`
carries a code for machines and a sentence for people, and never a value from the call.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ScanJob:
    """One call to scan. `wire` names the format ("anthropic.messages"), `body` is as received
    under `content_encoding` and declared as `content_type`, `scope` is the role, `extra` holds
    named texts beside the body (header values), `params` those of the request line, which cannot
    be rewritten, `taken` the tokens the vault reported as another value's (see
    `vault.TokenTaken`), `vouched` the digests of signed text this owner was handed out (see
    `vouching`). `scope` decides which token a value gets, `owner` whose it is (see `scopes`), the
    scope itself where it is empty.
    """

    wire: str
    body: bytes = field(repr=False)
    content_encoding: str = ""
    content_type: str = ""
    scope: str = ""
    owner: str = ""
    extra: dict[str, str] = field(default_factory=dict, repr=False)
    params: dict[str, str] = field(default_factory=dict, repr=False)
    taken: dict[str, str] = field(default_factory=dict, repr=False)
    vouched: list[str] = field(default_factory=list, repr=False)

    @property
    def whose(self) -> str:
        """Who introduces the values of this call, and may have them back."""
        return self.owner or self.scope


@dataclass(frozen=True, slots=True)
class ScanResult:
    """`body` is written anew from the scanned structure, to be sent as `content_type`. `counts` is
    finds by kind (body only), `originals` token to value for what may be given back, `extra_hits`
    the names of `extra` in which something was found, `opaque` unreadable parts by media type,
    `scan_us` time spent scanning. `marks` and `kinds` tell the vault about all tokens made (see
    `redactor`), `met` are the tokens that were there already, `foreign` how many of them their
    sender never introduced."""

    body: bytes = field(repr=False)
    content_type: str
    counts: dict[str, int]
    originals: dict[str, str] = field(repr=False)
    model: str
    stream: bool
    extra_hits: set[str] = field(default_factory=set)
    opaque: dict[str, int] = field(default_factory=dict)
    scan_us: int = 0
    marks: dict[str, str] = field(default_factory=dict, repr=False)
    kinds: dict[str, str] = field(default_factory=dict)
    met: dict[str, str] = field(default_factory=dict)
    foreign: int = 0


class ScanRefused(Exception):
    """The call must not be forwarded. `code` is stable, `sentence` says why and what to do."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
