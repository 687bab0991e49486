"""Keeping the payloads of calls as the policy asks: what, whose, and what happens when it fails.

Owns the threads in which payloads are sealed and written, so that no call waits for another's
disk on the loop, and the memory that answers take until they are kept. Invariants: `request`
returns only once the ciphertext is durable, before the intent record names it; only redacted forms
come here; with `required`, what cannot be kept is not forwarded. Without the policy's word nothing
is opened, made or kept. Called by `gateway.pipeline` and `gateway.bookkeeping`; made by
`gateway.app`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.redaction.scopes import session_of
from shared.evidence.errors import EvidenceError
from shared.evidence.keys import Group
from shared.evidence.retention import DAY_US
from shared.evidence.rules import EvidenceRules, Keep, Subject
from shared.evidence.sealing import Label
from shared.evidence.stores import Stores

#: Payloads sealed and written at the same time; each takes its own size in memory once more.
THREADS: Final = 4
#: Bytes of answers that wait to be kept. Above it, new calls are told to come back, and a growing
#: answer is left out: 64 whole answers of the usual largest size (1 MiB).
MAX_WAITING: Final = 64 << 20
_MEDIA: Final = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}/[a-z0-9][a-z0-9.+-]{0,63}")
OTHER_MEDIA: Final = "application/octet-stream"


class EvidenceUnavailable(Exception):
    """A payload cannot be kept, and the policy demands it; the sentence says what to do."""

    def __init__(self, sentence: str, *, passing: bool = False) -> None:
        """`passing`: the same call may work a moment later."""
        super().__init__(sentence)
        self.passing = passing


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose payloads these are: keyed hashes, no names."""

    subject_c: str = ""
    session_c: str = ""


@dataclass(frozen=True, slots=True)
class KeptNow:
    """What a record says about one payload: its entries, or why there are none; and until when it
    must stay."""

    entries: tuple[dict[str, Any], ...] = ()
    left_out: str = ""
    retention: Mapping[str, Any] = field(default_factory=dict)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the record, but for `ext`."""
        found: dict[str, Any] = {"evidence": list(self.entries)} if self.entries else {}
        if self.retention:
            found["retention"] = dict(self.retention)
        return found

    def ext(self) -> dict[str, Any]:
        """Return what belongs into the record's `ext`."""
        return {"evidence_left_out": self.left_out} if self.left_out else {}


NOTHING: Final = KeptNow()


class Collector:
    """The answer of one call while it comes in, as received; bounded."""

    def __init__(self, evidence: Evidence, limit: int) -> None:
        self._evidence = evidence
        self._limit = limit
        self._parts: list[bytes] = []
        self.size = 0
        #: Why the answer is not kept, if it is not.
        self.left_out = ""

    def add(self, data: bytes) -> None:
        """Take in the next piece."""
        if self.left_out or not data:
            return
        if self.size + len(data) > self._limit:
            self._drop("size")
        elif self._evidence.waiting + len(data) > MAX_WAITING:
            self._drop("memory")
        else:
            self._parts.append(data)
            self.size += len(data)
            self._evidence.waiting += len(data)

    def take(self) -> bytes:
        """Return the answer and forget it."""
        data = b"".join(self._parts)
        self._parts.clear()
        return data

    def release(self) -> None:
        """Give the memory back; safe to call twice."""
        self._evidence.waiting -= self.size
        self._parts.clear()
        self.size = 0

    def _drop(self, why: str) -> None:
        self.release()
        self.left_out = why


class Evidence:
    """The evidence of one gateway."""

    def __init__(
        self, rules: EvidenceRules, stores: Stores, failed: Callable[[], None] = lambda: None
    ) -> None:
        """`failed` is called for each payload that is lost to the disk, the keys or a lack of
        memory; what the policy leaves out by size or kind is no failure."""
        self._failed = failed
        self._rules = rules
        self._stores = stores
        self._threads: ThreadPoolExecutor | None = None
        #: Answers that are being kept after their call has ended.
        self._later: set[asyncio.Task[None]] = set()
        #: Bytes of answers in memory. Owned by the loop.
        self.waiting = 0
        #: Why the last payload could not be kept, if it could not.
        self._trouble = ""

    @property
    def is_on(self) -> bool:
        """Whether the policy has anything kept."""
        return self._rules.is_on

    def open(self) -> None:
        """Open the keys if anything is kept; blocking. Raises EvidenceError."""
        if self.is_on:
            self._stores.keys.open()
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="evidence")

    async def close(self) -> None:
        """Finish what was accepted."""
        while self._later:
            await asyncio.wait(set(self._later))
        if self._threads is not None:
            self._threads.shutdown(wait=True)
            self._threads = None

    def owner_of(self, role: str, run: str, headers: Mapping[str, str]) -> Owner:
        """Return whose a call's payloads are; a call that names nobody belongs to its role, one
        that names no session to the `run` of its deck. `headers` looks names up in any case."""
        if not self.is_on:
            return Owner()
        session = session_of(headers) or run
        name = role
        if self._rules.subject is Subject.SESSION:
            name = session or role
        elif self._rules.subject is Subject.HEADER:
            name = headers.get(self._rules.header, "").strip() or role
        return Owner(self._stores.subject_c(name or "-"), self._stores.session_c(session))

    async def request(
        self, call_id: str, owner: Owner, data: bytes, media: str, redactions: int
    ) -> KeptNow:
        """Keep what is about to be forwarded. Raises EvidenceUnavailable."""
        if not self.is_on:
            return NOTHING
        if self._rules.required and self._rules.keep is Keep.BOTH and self.waiting > MAX_WAITING:
            raise EvidenceUnavailable(
                "Too many answers wait to be kept as evidence; try again in a moment.",
                passing=True,
            )
        kept = await self._keep(Label(call_id, "request", _plain(media)), owner, data, redactions)
        if kept.left_out == "failed" and self._rules.required:
            raise EvidenceUnavailable(self._trouble)
        return kept

    def collector(self) -> Collector | None:
        """Return what takes in the answer of a call, if answers are kept."""
        return Collector(self, self._rules.max_bytes) if self._rules.keep is Keep.BOTH else None

    def answer(
        self,
        call_id: str,
        owner: Owner,
        collector: Collector | None,
        media: str,
        then: Callable[[KeptNow], None],
    ) -> None:
        """Keep an answer and call `then` with what its record says; at once if none is kept.
        Returns at once; never raises: the client has the answer by then. The record says what was
        lost, and a lasting trouble stops the next request, which is kept before it is forwarded."""
        if collector is None or not (collector.size or collector.left_out):
            then(NOTHING)
            return
        task = asyncio.ensure_future(self._answer(call_id, owner, collector, media, then))
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def _answer(
        self,
        call_id: str,
        owner: Owner,
        collector: Collector,
        media: str,
        then: Callable[[KeptNow], None],
    ) -> None:
        kept = KeptNow(left_out=collector.left_out)
        if collector.left_out == "memory":
            self._failed()
        try:
            if not kept.left_out and collector.size:
                label = Label(call_id, "outcome", _plain(media))
                kept = await self._keep(label, owner, collector.take(), 0)
        finally:
            collector.release()
            then(kept)

    async def _keep(self, label: Label, owner: Owner, data: bytes, redactions: int) -> KeptNow:
        if not self._rules.takes(label.media):
            return KeptNow(left_out="media")
        if len(data) > self._rules.max_bytes:
            return KeptNow(left_out="size")
        if not data:
            return NOTHING
        day = self._stores.now() // DAY_US
        group = Group(owner.subject_c, owner.session_c, day, self._rules.retention)
        loop = asyncio.get_running_loop()
        work = self._stores.store.keep
        try:
            entry = await loop.run_in_executor(self._threads, work, data, group, label, redactions)
        except (EvidenceError, RuntimeError) as wrong:
            told = isinstance(wrong, EvidenceError)
            self._trouble = str(wrong) if told else "The gateway is stopping."
            self._failed()
            return KeptNow(left_out="failed")
        return KeptNow((entry,), retention=self._retention(group))

    def _retention(self, group: Group) -> dict[str, Any]:
        if not self._rules.retention.name:
            return {}
        return {"class": self._rules.retention.name, "until": group.until}


def _plain(media: str) -> str:
    """Return a media type without parameters; what is none is bytes of an unknown kind, because
    a peer's own words do not belong in a record."""
    found = media.partition(";")[0].strip().lower()
    return found if _MEDIA.fullmatch(found) else OTHER_MEDIA
