"""The vault: which original a token stands for, and who may have it back.

Owns the memory of what was read from or written to the vault's file (`vault_store`), by owner, and
the one thread in which that file is used. Guarantees: `put` returns only after the mapping is on
disk; `view` answers from memory, for streams, and gives back only what its owner introduced, what
the policy lets back, and what has not outlived its time; what another program erased is forgotten
at the owner's next call. A vault that the policy switches off knows nothing, writes nothing, and
gives nothing back. Called by the pipeline: `load` and `put` before forwarding, `view` after.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from gateway.redaction.owed import Debt
from gateway.redaction.policy import Policy, VaultMode
from gateway.redaction.tokens import TOKEN, kind_of
from gateway.redaction.vault_database import VaultError
from gateway.redaction.vault_entries import Introduced, NewEntry, TokenTaken
from gateway.redaction.vault_store import Entry, Store
from gateway.redaction.vouching import NEWEST
from shared.keyfile import KEY_VARIABLE, KeySource

__all__ = ["Originals", "TokenTaken", "Vault", "VaultError"]

T = TypeVar("T")

#: Owners whose values are kept in memory; one that calls again is read again (a few milliseconds).
MAX_OWNERS: Final = 1024
#: Seconds between two looks for entries that have outlived their time. They are not given back in
#: between either; this is only about when they leave the disk.
SWEEP_SECONDS: Final = 600.0
#: Calls stored in one transaction at most.
_TOGETHER: Final = 256
#: Tokens of a scope known to be another value's; each saves a second scan of a call.
_MAX_CONTESTED: Final = 4096


class Vault:
    """One vault file. `environ` is where the key may be given instead of a key file; without a
    policy everything is given back and nothing expires; `clock` tells seconds since 1970; `debt`
    is the record that an expiry needs, and `indebted` is called, in the vault's thread, once one is
    owed."""

    def __init__(
        self,
        path: Path,
        keyfile: Path,
        *,
        environ: Mapping[str, str] = os.environ,
        key_command: Iterable[str] = (),
        policy: Policy | None = None,
        clock: Callable[[], float] = time.time,
        debt: Callable[[], Debt | None] = lambda: None,
        indebted: Callable[[], None] = lambda: None,
    ) -> None:
        self._debt = debt
        self._indebted = indebted
        keys = KeySource(keyfile, environ.get(KEY_VARIABLE), tuple(key_command))
        self._policy = policy
        self._off = policy is not None and policy.vault is VaultMode.OFF
        #: Whether anything ever expires.
        self._mortal = policy is not None and (
            policy.ttl is not None or any(rule.ttl is not None for rule in policy.kinds.values())
        )
        self._store = Store(path, keys, clock=clock)
        self._epoch_file = epoch_file(path)
        self._clock = clock
        self._thread: ThreadPoolExecutor | None = None
        self._owners: OrderedDict[str, _Owner] = OrderedDict()
        #: Digests by owner, oldest first.
        self._vouched: dict[str, dict[str, None]] = {}
        self._contested: dict[str, dict[str, str]] = {}
        #: Calls whose tokens are to be stored next.
        self._waiting: deque[tuple[Introduced, asyncio.Future[None]]] = deque()
        self._epoch = (0, 0)
        self._next_sweep = 0.0

    def open(self) -> None:
        """Open or create the vault and its key; blocking. Raises VaultError with one sentence."""
        if not self._off:
            self._store.open()
            self._epoch = _epoch(self._epoch_file)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="vault")

    def close(self) -> None:
        """Finish what was accepted and close; blocking; safe to call twice."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
            self._thread = None
        self._store.close()
        self._owners.clear()
        self._vouched.clear()
        self._contested.clear()

    @property
    def is_open(self) -> bool:
        """Whether values can be stored and read."""
        return self._thread is not None

    @property
    def is_off(self) -> bool:
        """Whether the policy has nothing kept."""
        return self._off

    async def put(
        self,
        owner: str,
        originals: Mapping[str, str],
        marks: Mapping[str, str],
        *,
        scope: str | None = None,
        kinds: Mapping[str, str] | None = None,
    ) -> None:
        """Store what a call introduced, durably: `marks` (token to the mark of its value) of all
        tokens, `originals` (token to value) of those that may be given back, `kinds` of those that
        do not name theirs. `scope` is whose tokens they are, the owner's if None. Raises TokenTaken
        and stores nothing when a token already stands for another value, VaultError when the disk
        refuses."""
        if self._off:
            return
        known = self._memory(owner).entries
        now = self._clock()
        if self._mortal and any((e := known.get(token)) and e.until <= now for token in marks):
            await self._sweep()
            known = self._memory(owner).entries
        new = {
            token: NewEntry(_kind(token, kinds), mark, originals.get(token))
            for token, mark in marks.items()
            if (e := known.get(token)) is None
            or e.mark != mark
            or (e.value is None and token in originals)
        }
        if not new:
            return
        scope = owner if scope is None else scope
        try:
            await self._store_soon(Introduced(owner, scope, new))
        except TokenTaken as taken:
            self._remember_contested(scope, taken.owners)
            raise
        self._memory(owner).entries.update(
            {token: self._known(e.kind, e.value, e.mark, now) for token, e in new.items()}
        )

    async def load(self, owner: str) -> Originals:
        """Read the owner's mapping into memory (once) and return its view."""
        if self._off:
            return Originals(None, self._clock)
        await self._follow()
        memory = self._memory(owner)
        if not memory.loaded:
            known = await self._in_thread(lambda: self._all_known(self._store.read(owner)))
            memory.entries.update(known)
            memory.loaded = True
        return self.view(owner)

    async def owners(self) -> list[str]:
        """Return everybody who introduced something, for programs that look after the vault."""
        return [] if self._off else await self._in_thread(self._store.owners)

    async def lookup(self, owner: str, tokens: Iterable[str]) -> dict[str, str]:
        """Return the originals of those `tokens` that the owner introduced."""
        wanted = set(tokens)
        await self._learn(owner, wanted)
        view = self.view(owner)
        return {token: value for token in wanted if (value := view.get(token)) is not None}

    async def foreign(
        self, owner: str, tokens: Iterable[str], *, scope: str, kinds: Mapping[str, str]
    ) -> set[str]:
        """Return those of `tokens` (met in a request) that the owner never introduced. A text that
        looks like a stand-in (`kinds` says of what) is no probe: people write such values. It
        becomes the owner's own, so that nothing else is hidden behind it later."""
        met = set(tokens)
        if self._off or not met:
            return set()
        await self._learn(owner, met)
        view = self.view(owner)
        unknown = {token for token in met if not view.owns(token)}
        texts = {text: kinds[text] for text in unknown if not text.startswith("[")}
        if not texts:
            return unknown
        stand_ins = await self._in_thread(lambda: self._store.claim(owner, scope, texts))
        now = self._clock()
        self._memory(owner).entries.update(
            {t: self._known(k, None, "", now) for t, k in texts.items() if t not in stand_ins}
        )
        return unknown - texts.keys()

    def contested(self, scope: str) -> dict[str, str]:
        """Return tokens of `scope` known to stand for a value that another one collided with, to
        that value's mark: told to a scan, they save it a second run."""
        return self._contested.get(scope, {})

    async def erase(
        self, *, owner: str | None = None, token: str | None = None, values: Iterable[str] = ()
    ) -> int:
        """Erase what an owner introduced, one token, or values; return how many entries went. A
        value that is sent again later is stored again."""
        if self._off:
            return 0
        wanted = list(values)
        erased = await self._in_thread(
            lambda: self._store.erase(owner=owner, token=token, values=wanted)
        )
        self._forget()
        tell_others(self._epoch_file)
        return erased

    async def vouched(self, owner: str) -> list[str]:
        """Return the newest digests of signed text that `owner` was handed out."""
        known = self._vouched.get(owner)
        if known is None:
            rows: list[str] = []
            if not self._off:
                rows = await self._in_thread(lambda: self._store.read_vouched(owner))
            known = self._vouched.setdefault(owner, {})
            known |= dict.fromkeys([*rows, *known])
            _bound(self._vouched, MAX_OWNERS)
        digests = list(known)
        for forgotten in digests[:-NEWEST]:
            known.pop(forgotten, None)
        return digests[-NEWEST:]

    def vouch(self, owner: str, digest: str) -> None:
        """Remember that the text of `digest` was handed out (see `vouching`); from any thread.

        The next request finds it; the disk follows. A digest that does not get there is no leak:
        after a restart its text is read like any other.
        """
        known = self._vouched.get(owner)
        if known is not None:
            known[digest] = None
        if self._thread is not None and not self._off:
            self._thread.submit(self._store.put_vouched, owner, digest)

    def view(self, owner: str) -> Originals:
        """Return a live, read-only mapping of what is in memory for `owner`; never blocks."""
        return Originals(None if self._off else self._memory(owner).entries, self._clock)

    # -- memory -----------------------------------------------------------------------------------

    def _memory(self, owner: str) -> _Owner:
        memory = self._owners.get(owner)
        if memory is None:
            memory = self._owners[owner] = _Owner()
            _bound(self._owners, MAX_OWNERS)
        else:
            self._owners.move_to_end(owner)
        return memory

    async def _learn(self, owner: str, tokens: set[str]) -> None:
        """Have everything in memory that the disk knows of `tokens`."""
        memory = self._memory(owner)
        missing = set() if memory.loaded or self._off else tokens - memory.entries.keys()
        if missing:
            work = lambda: self._all_known(self._store.read(owner, missing))  # noqa: E731
            memory.entries.update(await self._in_thread(work))

    def _all_known(self, rows: Mapping[str, Entry]) -> dict[str, _Known]:
        return {t: self._known(r.kind, r.value, r.mark, r.created) for t, r in rows.items()}

    def _known(self, kind: str, value: str | None, mark: str, created: float) -> _Known:
        if self._policy is None:
            return _Known(value, mark, float("inf"))
        seconds = self._policy.lifetime(kind)
        until = float("inf") if seconds is None else int(created) + seconds
        return _Known(value if self._policy.restores(kind) else None, mark, until)

    def _remember_contested(self, scope: str, owners: Mapping[str, str]) -> None:
        known = self._contested.setdefault(scope, {})
        known.update(owners)
        _bound(known, _MAX_CONTESTED)
        _bound(self._contested, MAX_OWNERS)

    async def _follow(self) -> None:
        """Forget what another program erased, and what has outlived its time."""
        epoch = _epoch(self._epoch_file)
        if epoch != self._epoch:
            self._epoch = epoch
            self._forget()
        if self._clock() >= self._next_sweep:
            await self._sweep()

    def _forget(self) -> None:
        self._owners.clear()
        self._contested.clear()
        self._vouched.clear()

    async def _sweep(self) -> None:
        self._next_sweep = self._clock() + SWEEP_SECONDS
        policy = self._policy
        if policy is None:
            return
        own = {kind: policy.lifetime(kind) for kind in policy.kinds}
        gone = await self._in_thread(lambda: self._expire(own, policy.ttl))
        for owner, token in gone:
            if memory := self._owners.get(owner):
                memory.entries.pop(token, None)
        if gone:
            self._contested.clear()

    def _expire(
        self, lifetimes: Mapping[str, int | None], default: int | None
    ) -> list[tuple[str, str]]:
        gone = self._store.expire(lifetimes, default, self._debt)
        if gone:
            self._indebted()
        return gone

    async def _store_soon(self, call: Introduced) -> None:
        """Have `call` stored with all others that wait by then. Raises TokenTaken, VaultError."""
        if self._thread is None:
            raise _not_open()
        loop = asyncio.get_running_loop()
        stored: asyncio.Future[None] = loop.create_future()
        self._waiting.append((call, stored))
        self._thread.submit(self._store_waiting, loop)
        await stored

    def _store_waiting(self, loop: asyncio.AbstractEventLoop) -> None:
        """In the vault's thread: one transaction for all calls that wait."""
        waiting: list[tuple[Introduced, asyncio.Future[None]]] = []
        with contextlib.suppress(IndexError):
            while len(waiting) < _TOGETHER:
                waiting.append(self._waiting.popleft())
        if not waiting:
            return  # an earlier one took them along
        outcomes: Sequence[Exception | None]
        try:
            outcomes = self._store.put_all([call for call, _ in waiting])
        except Exception as error:
            outcomes = [error] * len(waiting)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(_settle, [stored for _, stored in waiting], outcomes)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._thread is None:
            raise _not_open()
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


class Originals(Mapping[str, str]):
    """Read-only window on one owner's memory: token to original."""

    def __init__(self, entries: dict[str, _Known] | None, clock: Callable[[], float]) -> None:
        """`entries` None: nothing is kept, so nobody can tell whose a token is."""
        self._entries = {} if entries is None else entries
        self._blind = entries is None
        self._clock = clock

    def __getitem__(self, token: str) -> str:
        known = self._entries[token]
        if known.value is None or known.until <= self._clock():
            raise KeyError(token)
        return known.value

    def __iter__(self) -> Iterator[str]:
        return iter([token for token in tuple(self._entries) if token in self])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<{len(self)} originals>"

    def owns(self, token: str) -> bool:
        """Tell whether the owner introduced what `token` stands for, given back or not."""
        known = self._entries.get(token)
        return self._blind or (known is not None and known.until > self._clock())


@dataclass(slots=True)
class _Known:
    """An original in memory, its mark, and when it ends, in seconds since 1970."""

    value: str | None = field(repr=False)
    mark: str
    until: float


@dataclass(slots=True)
class _Owner:
    """One owner's entries by token; `loaded` when all of the disk's are among them."""

    entries: dict[str, _Known] = field(default_factory=dict)
    loaded: bool = False


def _settle(waiting: Iterable[asyncio.Future[None]], outcomes: Iterable[Exception | None]) -> None:
    for stored, wrong in zip(waiting, outcomes, strict=True):
        if stored.done():
            continue  # its caller has gone
        if wrong is None:
            stored.set_result(None)
        else:
            stored.set_exception(wrong)


def _not_open() -> VaultError:
    return VaultError("The vault is not open; start the gateway again.")


def epoch_file(path: Path) -> Path:
    """Return the file that changes when a program erases something from the vault at `path`."""
    return path.with_name(f"{path.name}.erased")


def tell_others(path: Path) -> None:
    """Change the epoch file, so that running gateways forget what they remember."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.touch(mode=0o600)
    os.replace(temporary, path)


def _epoch(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


def _kind(token: str, kinds: Mapping[str, str] | None) -> str:
    if kinds is not None and (kind := kinds.get(token)) is not None:
        return kind
    return kind_of(token) if TOKEN.fullmatch(token) else ""


def _bound(memory: dict[str, T], limit: int) -> None:
    """Forget what came first; dictionaries keep their order."""
    while len(memory) > limit:
        del memory[next(iter(memory))]
