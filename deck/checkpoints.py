"""Checkpoints: snapshots of the workspace as commits under `refs/choragos/checkpoints/`.

Owns the refs: their names (`<epoch>-<name>`), their messages and how many are kept. A snapshot is
a parentless commit by choragos <choragos@localhost>; its subject says `<id> -> <role>: <label>`,
its body holds `head: <sha>`, `deck: <id>` (which deck of the repository made it), `top: <id>` (of
which working tree) and `at: <nanoseconds>` (order within one second). Names: `T1` before a
delivery, `T1-done` when the task ended, `T1-merge` before a merge and `T1-merge-done` with what it
brought, `pre-rollback-T1` before an undo. Invariants: a ref is
created, never moved; the newest of a name sorts last; nothing but these refs is ever deleted.
Blocking: the session calls it in a thread, the command line directly.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from deck.gitrepo import GitError, GitMissing, GitRepo, NotARepository
from shared.paths import session_id

if TYPE_CHECKING:
    from deck.rollback import Outcome
    from deck.rollback_plan import Overlap, Plan, Scope

__all__ = [
    "Checkpoint",
    "CheckpointNotFound",
    "Checkpoints",
    "GitError",
    "GitMissing",
    "Kind",
    "NotARepository",
    "delivery_subject",
]

NAMESPACE: Final = "refs/choragos/checkpoints/"
DEFAULT_KEEP: Final = 20

_BASENAME: Final = re.compile(r"(\d{1,12})-(.+)")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}")
_PRE_ROLLBACK: Final = "pre-rollback-"
_DONE: Final = "-done"
_MERGE: Final = "-merge"
_SUBJECT_MAX: Final = 200
#: How the subject of a lost task's end ends.
LOST_SUBJECT: Final = ": lost"
#: An undo this young is not pruned to make room for newer ones: nobody has looked at it yet.
_UNDO_STAYS: Final = 3600 * 1_000_000_000
#: File times come from the kernel's tick, up to this many nanoseconds behind the clock.
_TICK: Final = 10_000_000


class CheckpointNotFound(GitError):
    """No checkpoint goes by the given name."""


class Kind(Enum):
    """What a checkpoint was taken for."""

    DELIVERY = "delivery"
    DONE = "done"
    MERGE = "merge"
    UNDO = "undo"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One snapshot. `epoch` is in seconds, `at` in nanoseconds since 1970, both UTC."""

    ref: str
    name: str
    epoch: int
    at: int
    commit: str
    tree: str
    subject: str
    head: str | None
    deck: str | None
    #: Of the working tree it shows; None in those of older decks.
    top: str | None = None

    @property
    def kind(self) -> Kind:
        """What the name says it was taken for."""
        if self.name.endswith(_DONE):
            return Kind.DONE
        if self.name.startswith(_PRE_ROLLBACK):
            return Kind.UNDO
        return Kind.MERGE if self.name.endswith(_MERGE) else Kind.DELIVERY

    @property
    def task_id(self) -> str:
        """The task the snapshot belongs to: `T1` of `T1-done` and of `pre-rollback-T1`."""
        return _family(self.name)

    @property
    def role(self) -> str:
        """The role the task was delivered to, from the subject; empty when it names none."""
        found = re.match(r"\S+ -> (.*?): ", self.subject + " ")
        return found.group(1) if found else ""


def delivery_subject(task_id: str, role: str, label: str) -> str:
    """Return the subject of a delivery's checkpoint: `<id> -> <role>: <label>`, on one line."""
    return _one_line(f"{task_id} -> {role}: {label}")


class Checkpoints:
    """The checkpoints of a deck, of the working tree around `cwd`."""

    def __init__(
        self,
        cwd: Path,
        keep: int = DEFAULT_KEEP,
        clock: Callable[[], int] = time.time_ns,
        deck: Path | None = None,
    ) -> None:
        """Find the repository; `deck` is the directory of the deck where that is not `cwd`, but
        the checkout of one of its roles. Raises GitMissing or NotARepository."""
        self.repo = GitRepo(cwd)
        self.directory = deck or cwd
        self._is_checkout = deck is not None
        self._top = session_id(str(self.repo.top))
        self.keep = keep
        #: Held over each snapshot and each undo, so that their order is that of their content.
        self.lock = threading.RLock()
        self._deck = session_id(str(self.directory))
        self._clock = clock

    def create(self, name: str, subject: str, lost: Iterable[tuple[str, str]] = ()) -> Checkpoint:
        """Store the workspace as `<now>-<name>` and return the checkpoint.

        `name` is a task id, `<id>-done`, `<id>-merge` or `pre-rollback-<id>`. `lost` are the ids
        and roles of tasks whose workers are gone: what changes from here on is not theirs.
        Raises GitError.
        """
        with self.lock:
            tree = self.repo.write_workspace_tree()
            self._end(lost, tree)
            return self.record(name, subject, tree)

    def end_lost(self) -> int:
        """End the tasks an earlier session of this deck left open; return how many."""
        with self.lock:
            ours = [found for found in self.list() if self.shows(found)]
            last: dict[str, Checkpoint] = {}
            for found in reversed(ours):
                if found.kind is Kind.DELIVERY:
                    last[found.role or found.name] = found
            ended = {found.name: found.at for found in reversed(ours) if found.kind is Kind.DONE}
            lost = [
                (found.name, found.role)
                for found in last.values()
                if ended.get(found.name + _DONE, 0) < found.at
            ]
            if lost:
                self._end(lost, self.repo.write_workspace_tree())
            return len(lost)

    def _end(self, lost: Iterable[tuple[str, str]], tree: str) -> None:
        for task, role in lost:
            self.record(task + _DONE, f"{task} -> {role}{LOST_SUBJECT}", tree)

    def forget(self, checkpoint: Checkpoint) -> None:
        """Delete one checkpoint: of an undo that changed nothing. Raises GitError."""
        self.repo.run("update-ref", "-d", checkpoint.ref, checkpoint.commit)

    def record(self, name: str, subject: str, tree: str) -> Checkpoint:
        """Keep `tree`, already stored, as the checkpoint `<now>-<name>`. Raises GitError."""
        if not _NAME.fullmatch(name):
            raise GitError(f"{name!r} cannot name a checkpoint; use letters, digits, - and _.")
        existing = self._read()
        at = max([self._clock(), *(found.at + 1 for found in existing)])
        # The newest of a name must also be the last by ref, whatever the clock does.
        same = [found.epoch for found in existing if found.name == name]
        epoch = max([at // 1_000_000_000, *(second + 1 for second in same)])
        head = self.repo.head()
        facts = {"head": head or "none", "deck": self._deck, "top": self._top, "at": at}
        body = "".join(f"{name}: {value}\n" for name, value in facts.items())
        message = f"{_one_line(subject)}\n\n{body}"
        stamp = f"{at // 1_000_000_000} +0000"
        commit = self.repo.run(
            "commit-tree", tree, stdin=message.encode("utf-8", "replace"),
            environ={"GIT_AUTHOR_DATE": stamp, "GIT_COMMITTER_DATE": stamp},
        ).decode().strip()  # fmt: skip
        ref = self._claim(name, epoch, commit)
        made = next(found for found in self._read() if found.ref == ref)
        # What is made from now on has a file time of at least `at`, and nothing before it has.
        time.sleep(min(max(_TICK - (self._clock() - at), 0), _TICK) / 1e9)
        return made

    def merged(self, before: Checkpoint, merge: str) -> Checkpoint:
        """Record what a merge commit brought, as the end of the checkpoint before it: so what
        others did meanwhile never counts as brought by it. Raises GitError."""
        with self.lock:
            brought = self.repo.differences(f"{merge}^1", merge)
            after = {found.path: found.after for found in brought}
            tree = self.repo.compose(before.tree, after)
            return self.record(before.name + _DONE, f"{before.name} -> workspace: merged", tree)

    def list(self) -> tuple[Checkpoint, ...]:
        """Return this deck's checkpoints, also those of its roles' checkouts, newest first.

        Those of other decks in the repository are left out; so are refs with foreign names.
        """
        return tuple(found for found in self._read() if self._is_ours(found))

    def find(self, wanted: str) -> Checkpoint:
        """Return the newest checkpoint of a task id or name, or the one of a full name or ref.

        Raises CheckpointNotFound.
        """
        everywhere = self._read()
        for found in everywhere:
            if wanted in (found.ref, found.ref.removeprefix("refs/"), _basename(found.ref)):
                return found
        for found in everywhere:
            if found.name == wanted and self._is_ours(found):
                return found
        elsewhere = next((found for found in everywhere if found.name == wanted), None)
        if elsewhere is not None:
            raise CheckpointNotFound(
                f"checkpoint {wanted} was made by a deck in another directory of this repository; "
                f"name it in full: {_basename(elsewhere.ref)}."
            )
        raise CheckpointNotFound(
            f"there is no checkpoint {wanted}; `choragos checkpoints` lists those there are."
        )

    def prune(self, keep: int | None = None) -> int:
        """Delete all but the newest `keep` deliveries, merges and undos; return how many went.

        Each kind has a budget of its own, so an undo is never pruned by newer deliveries; an undo
        of the last hour stays, however many there are, unless none is to be kept. The end of a
        task goes with its start.
        """
        limit = self.keep if keep is None else max(0, keep)
        ours = self.list()
        doomed: list[Checkpoint] = []
        for kind in (Kind.DELIVERY, Kind.MERGE, Kind.UNDO):
            doomed += [found for found in ours if found.kind is kind][limit:]
        if limit:
            young = max(self._clock(), *(found.at for found in ours), 0) - _UNDO_STAYS
            doomed = [f for f in doomed if f.kind is not Kind.UNDO or f.at < young]
        starts = [found for found in ours if found.kind is not Kind.DONE and found not in doomed]
        doomed += [
            end
            for end in ours
            if end.kind is Kind.DONE and not any(_starts(start, end) for start in starts)
        ]
        if doomed:
            orders = b"".join(f"delete {found.ref}\0{found.commit}\0".encode() for found in doomed)
            self.repo.run("update-ref", "-z", "--stdin", stdin=orders)
        return len(doomed)

    def plan_rollback(
        self,
        target: Checkpoint,
        scope: Scope | None = None,
        overlap: Overlap | None = None,
    ) -> Plan:
        """Return what undoing to `target` would change; see deck.rollback_plan. Changes nothing."""
        from deck.rollback_plan import Overlap, Scope, make_plan

        return make_plan(self, target, scope or Scope.TASK, overlap or Overlap.REFUSE)

    def rollback(self, plan: Plan) -> Outcome:
        """Carry out a plan after a snapshot that can undo it; see deck.rollback."""
        from deck import rollback

        return rollback.apply_plan(self, plan)

    def history(self) -> tuple[Checkpoint, ...]:
        """Return the checkpoints of every deck in this working tree, oldest first."""
        return tuple(found for found in reversed(self._read()) if self.shows(found))

    def shows(self, found: Checkpoint) -> bool:
        """Tell whether a checkpoint is of this working tree."""
        # An older deck did not say; it took none in a role's checkout.
        return not self._is_checkout if found.top is None else found.top == self._top

    def _claim(self, name: str, epoch: int, commit: str) -> str:
        """Create the ref, a second later if another process took the name; return it."""
        for second in range(epoch, epoch + 60):
            ref = f"{NAMESPACE}{second}-{name}"
            try:
                self.repo.run("update-ref", ref, commit, "0" * len(commit))
            except GitError:
                if not self._exists(ref):
                    raise
            else:
                return ref
        raise GitError(f"no free name for checkpoint {name}; wait a minute and try again.")

    def _exists(self, ref: str) -> bool:
        return bool(self.repo.run("for-each-ref", "--format=%(refname)", ref).strip())

    def _is_ours(self, found: Checkpoint) -> bool:
        return found.deck in (None, self._deck)

    def _read(self) -> tuple[Checkpoint, ...]:
        """Return every checkpoint in the repository, newest first."""
        layout = "%(refname)%00%(objectname)%00%(tree)%00%(contents)%00%00"
        raw = self.repo.run("for-each-ref", f"--format={layout}", NAMESPACE.rstrip("/"))
        found = [
            checkpoint
            for record in raw.decode("utf-8", "replace").split("\0\0\n")
            if record and (checkpoint := _parse(record)) is not None
        ]
        return tuple(sorted(found, key=lambda item: (item.at, item.ref), reverse=True))


def _parse(record: str) -> Checkpoint | None:
    ref, commit, tree, contents = record.split("\0", 3)
    named = _BASENAME.fullmatch(_basename(ref))
    if named is None or not tree:
        return None
    epoch = int(named.group(1))
    subject, _, body = contents.partition("\n")
    facts = dict(line.split(": ", 1) for line in body.splitlines() if ": " in line)
    at = facts.get("at", "")
    head = facts.get("head", "none")
    return Checkpoint(
        ref=ref,
        name=named.group(2),
        epoch=epoch,
        at=int(at) if at.isascii() and at.isdigit() else epoch * 1_000_000_000,
        commit=commit,
        tree=tree,
        subject=subject,
        head=None if head == "none" else head,
        deck=facts.get("deck"),
        top=facts.get("top"),
    )


def _starts(start: Checkpoint, end: Checkpoint) -> bool:
    return end.name == start.name + _DONE and start.at < end.at


def _family(name: str) -> str:
    return name.removeprefix(_PRE_ROLLBACK).removesuffix(_DONE).removesuffix(_MERGE)


def _basename(ref: str) -> str:
    return ref.removeprefix(NAMESPACE)


def _one_line(text: str) -> str:
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= _SUBJECT_MAX else flat[: _SUBJECT_MAX - 1] + "…"
