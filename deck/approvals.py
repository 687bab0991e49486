"""Approvals: who may decide a gate, what they sign, and when a decision counts.

Owns the statement that an approver signs and the rules of counting. Invariants: with approvers in
the team file nothing is decided without a signature by one of them over exactly this gate, this
digest and this reason; a person counts once; one rejection is enough, an approval needs all that
were asked for; who the approvers are is fixed when a session starts. Pure: no clock, no file.
`deck.gatekeeper` asks, the command line signs, shared/ledger/FORMAT.md tells auditors how to check.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from deck.approvers import BadApprover, public_key
from deck.board import Gate
from deck.config import Config
from deck.durations import format_duration
from deck.entries import Decision, Entry, Op
from shared.ledger.record import encode

#: Sets these signatures apart from all others ever made with the same key.
CONTEXT: Final = "choragos gate decision v1"
#: How far a signature's time may be from the deck's: a person's hand, and two clocks on one
#: machine or on two that are kept in time.
FRESH_SECONDS: Final = 300


class Refused(Exception):
    """A decision that does not count; the text says why and what to do."""


# -- what is signed -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Statement:
    """What an approver says with a signature; `signed_at` is in microseconds UTC."""

    run: str
    gate: str
    kind: str
    digest: str
    decision: str
    reason: str
    signed_at: int

    def as_bytes(self) -> bytes:
        """Return what is signed: one JSON object in the form of RFC 8785."""
        fields = {name: getattr(self, name) for name in self.__slots__}
        # Plain strings only: an enumeration is not what a reader of the record has.
        plain = {key: str(v) if isinstance(v, str) else v for key, v in fields.items()}
        return encode({"context": CONTEXT, **plain})


def sign(key: Ed25519PrivateKey, statement: Statement) -> str:
    """Return the signature of a statement, in base64."""
    return base64.b64encode(key.sign(statement.as_bytes())).decode()


def is_signed(public: str, statement: Statement, sig: str) -> bool:
    """Tell whether `sig` is that key's signature over exactly this statement."""
    try:
        key = Ed25519PublicKey.from_public_bytes(public_key(public))
        key.verify(base64.b64decode(sig, validate=True), statement.as_bytes())
    except (BadApprover, binascii.Error, ValueError, InvalidSignature):
        return False
    return True


# -- who decides --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ballot:
    """One person's decision as it came in; `caller` is who the deck knows the sender to be."""

    decision: Decision
    caller: str
    reason: str = ""
    approver: str = ""
    sig: str = ""
    signed_at: int = 0


@dataclass(frozen=True, slots=True)
class Panel:
    """Who decides the gates of a session, as its team file said when it started."""

    #: Name to public key; empty: any operator decides, unsigned.
    approvers: Mapping[str, str] = field(default_factory=dict)
    approvals: int = 1
    #: What a role asks for beyond that.
    by_role: Mapping[str, int] = field(default_factory=dict)
    #: How long a gate stays open, in microseconds; 0: for ever.
    expire: int = 0

    @classmethod
    def of(cls, config: Config) -> Panel:
        """Return the panel that a team file asks for."""
        return cls(
            approvers=dict(config.approvers),
            approvals=config.gates.approvals,
            by_role={role.name: role.approvals for role in reversed(config.roles)},
            expire=max(1, round(config.gates.expire * 1_000_000)) if config.gates.expire else 0,
        )

    def needed(self, *roles: str, least: int = 1) -> int:
        """Return how many approvals a gate about these roles needs."""
        return max(least, self.approvals, *(self.by_role.get(role, 1) for role in roles))

    def voter(self, run: str, gate: Gate, ballot: Ballot, now: int) -> str:
        """Return the name a ballot counts for. Raises Refused."""
        if not self.approvers:
            if ballot.approver or ballot.sig:
                raise Refused(
                    "This session started without [approvers] in its team file, so it cannot "
                    f"check the signature of {ballot.approver[:64] or 'anybody'}; start it anew, "
                    "or decide without --as."
                )
            return ballot.caller
        names = ", ".join(self.approvers)
        verb = "approve" if ballot.decision is Decision.APPROVED else "reject"
        if not ballot.approver or not ballot.sig:
            raise Refused(
                f"{gate.id} takes the signature of an approver ({names}): "
                f"choragos {verb} {gate.id} --as NAME."
            )
        public = self.approvers.get(ballot.approver)
        if public is None:
            raise Refused(
                f"{ballot.approver} was no approver when this session started; "
                f"{gate.id} is decided by {names}."
            )
        if abs(now - ballot.signed_at) > FRESH_SECONDS * 1_000_000:
            raise Refused(
                f"The signature of {ballot.approver} was not made within "
                f"{FRESH_SECONDS // 60} minutes of now; set the clocks and sign again."
            )
        if not is_signed(public, _statement(run, gate, ballot), ballot.sig):
            raise Refused(
                f"The signature is not that of {ballot.approver} over {gate.id} as it is now; "
                f"look at it with `choragos show {gate.id}` and sign again."
            )
        return ballot.approver

    def ruling(self, gate: Gate, ballot: Ballot, voter: str, about: str, now: int) -> Entry:
        """Return the entry that a counted ballot makes: the decision, or one vote of several.

        `about` is the role of the gate's task. Raises Refused.
        """
        entry = Entry(
            Op.GATE_DECIDED,
            now,
            id=gate.id,
            task=gate.task,
            state=ballot.decision,
            sender=voter,
            reason=ballot.reason,
            # What is decided about: the same as when the gate opened.
            ref=gate.digest,
            sig=ballot.sig,
            signed_at=ballot.signed_at if ballot.sig else 0,
        )
        if ballot.decision is not Decision.APPROVED:
            return entry
        needed = self.needed(gate.role, about, least=gate.needed)
        if needed > max(1, len(self.approvers)):
            raise Refused(
                f"{gate.id} needs {needed} approvals, and this session has "
                f"{len(self.approvers) or 'no'} approvers; start it with enough of them in "
                "[approvers], or reject the gate."
            )
        if any(given.approver == voter for given in gate.approvals):
            raise Refused(f"{voter} has approved {gate.id} already; it needs somebody else too.")
        if len(gate.approvals) + 1 >= needed:
            return entry
        return Entry(
            Op.GATE_VOTED,
            now,
            id=gate.id,
            task=gate.task,
            sender=voter,
            reason=ballot.reason,
            ref=gate.digest,
            count=needed,
            sig=entry.sig,
            signed_at=entry.signed_at,
        )

    def staleness(self, run: str, gate: Gate, now: int) -> str:
        """Return why an open gate cannot stay open, or "": its time is over, or somebody who
        approved it is no approver of this session."""
        if gate.until and now >= gate.until:
            return f"expired after {_short(gate.until - gate.at)}"
        for given in gate.approvals:
            vote = Ballot(
                Decision.APPROVED, "", given.reason, given.approver, given.sig, given.signed_at
            )
            public = self.approvers.get(given.approver, "")
            if not is_signed(public, _statement(run, gate, vote), given.sig):
                return f"{given.approver}, who approved it, is no approver of this session"
        return ""


def progress(gate: Gate) -> str:
    """Return how far a gate is that needs several approvals: `1 of 2 (alice)`; else ""."""
    if gate.needed < 2:
        return ""
    names = ", ".join(given.approver for given in gate.approvals)
    return f"{len(gate.approvals)} of {gate.needed}" + (f" ({names})" if names else "")


def _statement(run: str, gate: Gate, ballot: Ballot) -> Statement:
    return Statement(
        run=run,
        gate=gate.id,
        kind=gate.kind,
        digest=gate.digest,
        decision=ballot.decision,
        reason=ballot.reason,
        signed_at=ballot.signed_at,
    )


def _short(microseconds: int) -> str:
    """A duration as people write it: `8h`, `1h30m`, `0.5s`."""
    seconds = microseconds / 1_000_000
    if seconds < 1:
        return f"{seconds:g}s"
    text = format_duration(seconds)
    for zero in ("m0s", "h0m"):
        text = text.removesuffix(zero[1:]) if text.endswith(zero) else text
    return text
