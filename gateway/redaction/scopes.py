"""Whose values these are: which tokens a call's values get, and who may have them restored.

Owns the two names every call carries. `Scope.tokens` goes into the key that makes tokens: calls
that share it get the same token for the same value. `Scope.owner` is who introduced a value, and
the only one it comes back to: it is never wider than a role, whatever the policy shares. Owns
also the list of headers in which clients name their session. Pure; called by the pipeline.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gateway.redaction.policy import Policy, ScopeRule

#: Headers that name a session, most telling first (contracts/clients.md section 3, and what
#: official clients send): the first that is there counts.
SESSION_HEADERS: Final = (
    "x-claude-code-session-id",
    "session-id",
    "session_id",
    "thread-id",
    "conversation-id",
    "conversation_id",
    "x-session-id",
    "x-client-session-id",
    "x-session-affinity",
)


@dataclass(frozen=True, slots=True)
class Scope:
    """`tokens` decides which token a value gets, `owner` who gets it back."""

    tokens: str
    owner: str


def scope_of(policy: Policy, role: str, session: str = "") -> Scope:
    """Return the scope of a call by `role` (empty for callers without one) in `session`.

    A session's id is the client's text of any length: only a hash of it is kept. A call that names
    no session belongs to its role.
    """
    owner = f"role/{role}" if role else "bare"
    if policy.scope is ScopeRule.DEPLOYMENT:
        return Scope("deployment", owner)
    if policy.scope is ScopeRule.SESSION and session:
        digest = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()
        owner = f"{owner}/session/{digest[:32]}"
    return Scope(owner, owner)


def session_of(headers: Mapping[str, str]) -> str:
    """Return the session a request names, or an empty string. `headers` looks names up in any
    case."""
    for name in SESSION_HEADERS:
        value = headers.get(name)
        if value:
            return value
    return ""
