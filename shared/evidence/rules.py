"""What the policy says about evidence: what is kept, whose it is, how long it stays.

Owns the values of the policy's table `[evidence]`; reading the table is the policy's. Pure, and
light to import, because scanning workers read policies too. Called by the policy and the gateway's
keeper.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from shared.evidence.retention import Retention

#: 4 MiB: the largest request of a coding agent seen in tests has 1.2 MB.
MAX_BYTES: Final = 4 << 20
#: What a table may allow at most; a payload is sealed in one piece, in memory.
BYTES_LIMIT: Final = 64 << 20


class Keep(StrEnum):
    """Which payloads are kept, always in their redacted form: none, what was forwarded, or that
    and what the provider answered."""

    NONE = "none"
    REQUEST = "request"
    BOTH = "both"


class Subject(StrEnum):
    """Who shares a key, and is erased together: a role, a client's session, or whoever a header
    names."""

    ROLE = "role"
    SESSION = "session"
    HEADER = "header"


@dataclass(frozen=True, slots=True)
class EvidenceRules:
    """`header` is the name for Subject.HEADER, in small letters; `media` are patterns of media
    types; with `required`, a call whose payload cannot be kept is refused; with `erase_expired`,
    the gateway erases by itself what its class no longer holds."""

    keep: Keep = Keep.NONE
    subject: Subject = Subject.ROLE
    header: str = ""
    retention: Retention = field(default_factory=Retention)
    max_bytes: int = MAX_BYTES
    media: tuple[str, ...] = ("*/*",)
    required: bool = True
    erase_expired: bool = False

    @property
    def is_on(self) -> bool:
        """Whether anything is kept."""
        return self.keep is not Keep.NONE

    def takes(self, media: str) -> bool:
        """Tell whether payloads of this media type are kept."""
        return any(fnmatch.fnmatchcase(media, pattern) for pattern in self.media)
