"""Which task each role works on, as decks say it: the stamps that calls are recorded with.

Owns the table. Invariants: a session's stamps come from one process, the first that stamped it,
or from a successor once that process is gone; `of` is one look-up, because every call asks; a
role that two living decks claim has no task rather than a guessed one, and a deck that died
without a successor leaves its stamps marked `orphaned` for an hour. Pure but for the question
whether a process lives, which is given. Called by `gateway.control` (writes) and
`gateway.pipeline` (reads).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import Any, Final

from gateway.errors import GatewayError
from gateway.peers import Process
from gateway.role_names import is_role_name

#: A session or a task is named in records: short, and nothing that could be text of a call.
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_NONE: Final[Mapping[object, object]] = MappingProxyType({})
#: Decks at one gateway; each is a process with agents, so a machine has few.
MAX_SESSIONS: Final = 64
MAX_ROLES: Final = 1000
#: Seconds that the stamps of a deck that died are still worth something.
ORPHAN_SECONDS: Final = 3600.0


class StampRefused(GatewayError):
    """A stamp that does not count; the sentence says why."""


class Change(Enum):
    """What a stamp changed: a role got another task, lost its task, was named first, got another
    key, or nothing."""

    TASK = auto()
    CLEARED = auto()
    NAMED = auto()
    KEY = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a call is recorded with; `doubt` is `orphaned`, `ambiguous` or empty."""

    run: str = ""
    task: str = ""
    doubt: str = ""


NO_STAMP: Final = Stamp()


@dataclass(slots=True)
class _Session:
    owner: Process
    roles: dict[str, str] = field(default_factory=dict)
    #: The digest of the key that the deck made for a role.
    keys: dict[str, str] = field(default_factory=dict)
    #: When its deck was found dead, on the monotonic clock; None while it lives.
    dead_since: float | None = None


class Stamps:
    """The stamps of all decks at this gateway. Used from one event loop."""

    def __init__(
        self,
        is_alive: Callable[[Process], bool] = lambda one: one.alive,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_alive = is_alive
        self._clock = clock
        self._sessions: dict[str, _Session] = {}
        self._resolved: dict[str, Stamp] = {}
        self._keys: dict[str, frozenset[str]] = {}

    def of(self, role: str) -> Stamp:
        """Return what a call of a role is recorded with now."""
        return self._resolved.get(role, NO_STAMP)

    def keys_of(self, role: str) -> frozenset[str]:
        """Return the digests of the keys that living decks made for a role."""
        return self._keys.get(role, frozenset())

    def put(self, owner: Process, session: str, role: str, task: str, key: str = "") -> Change:
        """Let a role of a session work on a task, or on none; `key` is the digest of the role's
        key, "" to leave it as it is. Raises StampRefused."""
        _check_names(session, role, task)
        if key and not _DIGEST.fullmatch(key):
            raise StampRefused("A key is told by its SHA-256 in 64 hex digits.")
        found = self._claim(owner, session)
        if role not in found.roles and len(found.roles) >= MAX_ROLES:
            raise StampRefused(f"The session {session} has {MAX_ROLES} roles already.")
        before = found.roles.get(role)
        found.roles[role] = task
        has_new_key = bool(key) and found.keys.get(role) != key
        if key:
            found.keys[role] = key
        self._resolve(role)
        if before == task:
            return Change.KEY if has_new_key else Change.NOTHING
        if task:
            return Change.TASK
        return Change.CLEARED if before else Change.NAMED

    def leave(self, owner: Process, session: str, role: str) -> Change:
        """Take a role out of a session; a session without roles is forgotten."""
        _check_names(session, role, "")
        if session not in self._sessions:
            return Change.NOTHING
        found = self._claim(owner, session)
        before = found.roles.pop(role, None)
        found.keys.pop(role, None)
        if not found.roles:
            del self._sessions[session]
        self._resolve(role)
        return Change.CLEARED if before else Change.NOTHING

    def task_of(self, session: str, role: str) -> str | None:
        """Return the task of a role of a session, "" for none, None when it is not stamped."""
        found = self._sessions.get(session)
        return None if found is None else found.roles.get(role)

    def is_deck(self, one: Process) -> bool:
        """Tell whether a process stamps here."""
        return any(session.owner == one for session in self._sessions.values())

    def delegated(self) -> frozenset[tuple[str, str]]:
        """Return the (session, role) that have a task, also those of a deck that died lately."""
        return self._with_task(self._sessions.items())

    def delegated_by_living(self) -> frozenset[tuple[str, str]]:
        """Return the (session, role) to which a living deck gave a task."""
        return self._with_task((n, s) for n, s in self._sessions.items() if s.dead_since is None)

    def _with_task(self, sessions: Iterable[tuple[str, _Session]]) -> frozenset[tuple[str, str]]:
        return frozenset(
            (name, role) for name, one in sessions for role, task in one.roles.items() if task
        )

    def sweep(self) -> None:
        """Look which decks live, and forget those that died long ago."""
        now = self._clock()
        for name, session in list(self._sessions.items()):
            if self._is_alive(session.owner):
                continue
            if session.dead_since is None:
                session.dead_since = now
            elif now - session.dead_since > ORPHAN_SECONDS:
                del self._sessions[name]
            self._resolve(*session.roles)

    def shown(self) -> list[dict[str, Any]]:
        """Return the sessions as plain values, for the status."""
        return [
            {
                "session": name,
                "pid": session.owner.pid,
                "alive": session.dead_since is None,
                "roles": dict(session.roles),
            }
            for name, session in self._sessions.items()
        ]

    def dump(self) -> list[dict[str, Any]]:
        """Return everything that `load` needs."""
        return [
            {
                "session": name,
                "pid": session.owner.pid,
                "started": session.owner.started,
                "roles": dict(session.roles),
                "keys": dict(session.keys),
            }
            for name, session in self._sessions.items()
        ]

    def load(self, dumped: object) -> None:
        """Take back what an earlier gateway had; what is no dump of one is passed over."""
        for entry in dumped if isinstance(dumped, list) else []:
            try:
                owner = Process(int(entry["pid"]), str(entry["started"]))
                roles: Mapping[object, object] = entry["roles"]
                keys: Mapping[object, object] = entry.get("keys", _NONE)
                for role, task in roles.items():
                    key = str(keys.get(role, ""))
                    self.put(owner, str(entry["session"]), str(role), str(task), key)
            except (KeyError, TypeError, ValueError, AttributeError, StampRefused):
                continue
        self.sweep()

    def _claim(self, owner: Process, session: str) -> _Session:
        """Return the session if it is this process's, or nobody's any more."""
        found = self._sessions.get(session)
        if found is None:
            if len(self._sessions) >= MAX_SESSIONS:
                self._forget_one_dead()
            found = self._sessions[session] = _Session(owner)
        elif found.owner != owner:
            if self._is_alive(found.owner):
                raise StampRefused(
                    f"The session {session} is stamped by process {found.owner.pid}, which still "
                    "runs; only that process may stamp it."
                )
            found.owner = owner
        found.dead_since = None
        return found

    def _forget_one_dead(self) -> None:
        self.sweep()
        for name, session in self._sessions.items():
            if session.dead_since is not None:
                del self._sessions[name]
                self._resolve(*session.roles)
                return
        raise StampRefused(f"{MAX_SESSIONS} decks stamp this gateway already.")

    def _resolve(self, *roles: str) -> None:
        for role in roles:
            claims = [(n, s) for n, s in self._sessions.items() if role in s.roles]
            living = [(n, s) for n, s in claims if s.dead_since is None]
            self._keys[role] = frozenset(s.keys[role] for _, s in living if role in s.keys)
            if not claims:
                self._resolved.pop(role, None)
                self._keys.pop(role, None)
            elif len(living) == 1:
                name, session = living[0]
                self._resolved[role] = Stamp(name, session.roles[role])
            elif len(claims) == 1:
                name, session = claims[0]
                self._resolved[role] = Stamp(name, session.roles[role], "orphaned")
            else:
                self._resolved[role] = Stamp(doubt="ambiguous")


def _check_names(session: str, role: str, task: str) -> None:
    if not _NAME.fullmatch(session):
        raise StampRefused("A session is named by 1 to 64 letters, digits, dots, _ and -.")
    if not is_role_name(role):
        raise StampRefused(
            "A role that is stamped has a name that can stand in a URL and looks like no key."
        )
    if task and not _NAME.fullmatch(task):
        raise StampRefused("A task is named by 1 to 64 letters, digits, dots, _ and -.")
