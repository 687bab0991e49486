"""One call while it is served: what is known of it, from its first line to its last byte.

Owns the name of a call and what the steps of the pipeline tell each other about it. Invariants: its
name is random and never used twice; what it says of itself (`path`, `target`) is safe to record and
to label with. Made by `gateway.pipeline`; read by the modules of its steps.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import Final

from gateway import routing
from gateway.credentials import Credential
from gateway.evidence import Owner
from gateway.redaction.scopes import Scope
from gateway.stamps import NO_STAMP, Stamp
from gateway.wire.errors import Family
from shared.ledger import Receipt

_NOBODY: Final = Scope("", "")
_OWNERLESS: Final = Owner()


class _Ids:
    """Random names of calls, made of random bytes that are fetched for many calls at once: asking
    the system for each would let another thread in between."""

    def __init__(self) -> None:
        self._fetched: list[str] = []

    def next(self) -> str:
        """Return 24 hex digits."""
        if not self._fetched:
            digits = secrets.token_hex(_ID_BYTES * 64)
            size = 2 * _ID_BYTES
            self._fetched = [digits[at : at + size] for at in range(0, len(digits), size)]
        return self._fetched.pop()


_ID_BYTES: Final = 12
_ids: Final = _Ids()


@dataclass(slots=True)
class Call:
    """One request on its way, forwarded or refused; see `gateway.audit.Caller`."""

    found: routing.Route | routing.Refusal
    method: str
    id: str = field(default_factory=lambda: f"call_{_ids.next()}")
    began: float = field(default_factory=time.monotonic)
    #: Which tokens its values get, and whose they are.
    scope: Scope = _NOBODY
    #: Whose its payloads are, where they are kept.
    owner: Owner = _OWNERLESS
    credential: Credential | None = None
    #: Which session and task the role was on when the call came.
    stamp: Stamp = NO_STAMP
    receipt: Receipt | None = None
    #: Whether the client asked for a stream, and of which model.
    streams: bool = False
    model: str = ""
    #: Whether the client already has the beginning of an answer.
    answering: bool = False

    @property
    def role(self) -> str:
        """The role of the path, or an empty string."""
        return self.found.role

    @property
    def family(self) -> Family:
        """Whose error shape and provider this is."""
        return self.found.family

    @property
    def provider(self) -> str:
        """The provider's name; for a refused path, that of the family it looks like."""
        if isinstance(self.found, routing.Route):
            return self.found.provider
        return str(self.found.family)

    @property
    def wire(self) -> str:
        """Name of the wire format, or an empty string."""
        return self.found.wire if isinstance(self.found, routing.Route) else ""

    @property
    def path(self) -> str:
        """Path at the provider, without query and values; safe to record and label."""
        return self.found.shown if isinstance(self.found, routing.Route) else self.found.path

    @property
    def target(self) -> str:
        """Method and path."""
        return f"{self.method} {self.path}"

    @property
    def dur_us(self) -> int:
        """Microseconds since the call came."""
        return int((time.monotonic() - self.began) * 1_000_000)
