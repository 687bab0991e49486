"""A policy: what happens to a value of each kind.

Owns the values that a policy file says, and the questions that scanning and restoring ask of them.
Invariants: a kind that the file does not name is hidden and not given back; what is left alone is
decided before finds are merged, so it hides nothing; the digest covers every byte that decides (the
file and its terms). Pure. Made by `policy_file`; read by whatever finds, replaces and restores.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from shared.evidence.rules import EvidenceRules


class Action(StrEnum):
    """What to do with a value: replace it by its token, by the name of its kind, by a keyed hash,
    or by an invented value of the same form; refuse the call; let it be."""

    TOKEN = "token"  # noqa: S105 - a policy word
    MASK = "mask"
    HASH = "hash"
    STAND_IN = "stand_in"
    REFUSE = "refuse"
    ALLOW = "allow"


class Opaque(StrEnum):
    """Bytes nobody can read as text (images, PDFs): refuse the call, or pass and record them."""

    PASS = "pass"  # noqa: S105 - a policy word
    REFUSE = "refuse"


class Answers(StrEnum):
    """New values in a provider's answer: left as they are."""

    PASS = "pass"  # noqa: S105 - a policy word


class ScopeRule(StrEnum):
    """Who shares tokens: everybody at this gateway, the callers of one role, or one session of a
    role. Restoring is never wider than the role that introduced a value."""

    DEPLOYMENT = "deployment"
    ROLE = "role"
    SESSION = "session"


class ForeignTokens(StrEnum):
    """A request that holds tokens its sender never introduced: count them, or refuse it too."""

    COUNT = "count"
    REFUSE = "refuse"


class VaultMode(StrEnum):
    """Whether originals are kept: without a vault, tokens stay as they are and nothing comes
    back."""

    ON = "on"
    OFF = "off"


class PolicyError(Exception):
    """The policy cannot be used; the text says which key or file, and what to do."""


@dataclass(frozen=True, slots=True)
class KindRule:
    """`restore`: whether the one who introduced a value gets it back in answers. `threshold`: the
    lowest score (0 to 1) that counts. `ttl`: seconds an original is kept, None for the policy's.
    `allow`: what values of this kind are left alone."""

    action: Action
    restore: bool
    threshold: float = 0.0
    ttl: int | None = None
    allow: re.Pattern[str] | None = None


#: Classes of addresses `allow.ip` may name.
IP_CLASSES: Final = frozenset(
    {"loopback", "unspecified", "private", "link_local", "documentation", "multicast", "broadcast"}
)
#: A kind the file does not name (an operator's own recognizer): hidden, and not given back.
UNNAMED_KIND: Final = KindRule(Action.TOKEN, restore=False)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What is left alone although a rule would find it."""

    ip: frozenset[str] = frozenset()
    emails: frozenset[str] = frozenset()
    placeholders: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NameModel:
    """The language model that finds names: an installed package or a directory (`model`), or an
    operator's Presidio NLP configuration (`nlp_config`); `sha256` pins its files, `kinds` are what
    it may find, below `min_score` (0 to 1) nothing counts."""

    model: str = ""
    nlp_config: Path | None = None
    sha256: str = ""
    kinds: tuple[str, ...] = ("NAME",)
    min_score: float = 0.5


@dataclass(frozen=True, slots=True)
class Policy:
    """One loaded policy; `text` is the file, `digest` the sha256 of `deciding` in hex."""

    id: str
    version: str
    digest: str
    text: str
    kinds: Mapping[str, KindRule]
    opaque: Opaque = Opaque.PASS
    answers: Answers = Answers.PASS
    allowed: Allowed = field(default_factory=Allowed)
    terms: tuple[str, ...] = ()
    recognizers: tuple[str, ...] = ()
    recognizers_file: Path | None = None
    ner: NameModel | None = None
    #: Whether the package kingfisher-secret-scanner looks for secrets too.
    second_opinion: bool = False
    #: Where relative paths of the file begin.
    directory: Path | None = None
    languages: tuple[str, ...] = ("en",)
    scope: ScopeRule = ScopeRule.ROLE
    foreign_tokens: ForeignTokens = ForeignTokens.COUNT
    vault: VaultMode = VaultMode.ON
    ttl: int | None = None
    evidence: EvidenceRules = field(default_factory=EvidenceRules)

    @property
    def deciding(self) -> bytes:
        """Every byte that decides, as one text: the file and, if there are terms, a NUL (which no
        TOML file holds) and one term a line. This is what the ledger keeps under `digest`."""
        return deciding(self.text, self.terms)

    def rule(self, kind: str) -> KindRule:
        """Return what to do with `kind`; a kind the file does not name is hidden for good."""
        return self.kinds.get(kind, UNNAMED_KIND)

    def restores(self, kind: str) -> bool:
        """Tell whether the one who introduced a value of `kind` gets it back."""
        return self.vault is VaultMode.ON and self.rule(kind).restore

    def lifetime(self, kind: str) -> int | None:
        """Return how many seconds an original of `kind` is kept; None is until it is erased."""
        own = self.rule(kind).ttl
        return self.ttl if own is None else own

    def overlooks(self, kind: str, score: float, value: str) -> bool:
        """Tell whether a find is left alone. Asked before finds that overlap are merged, so that
        what is left alone cannot hide what lies within it."""
        rule = self.rule(kind)
        return (
            rule.action is Action.ALLOW
            or score < rule.threshold
            or (rule.allow is not None and rule.allow.fullmatch(value) is not None)
            or value in self.allowed.values
        )

    def stand_ins(self) -> tuple[str, ...]:
        """Return the kinds that are replaced by stand-ins."""
        return tuple(k for k, rule in self.kinds.items() if rule.action is Action.STAND_IN)


def deciding(text: str, terms: tuple[str, ...]) -> bytes:
    """Return every byte that decides, of a policy file and its terms; see `Policy.deciding`."""
    return text.encode() + (b"\0" + "\n".join(terms).encode() if terms else b"")
