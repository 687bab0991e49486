"""The words of the board: states, kinds and the journal entry that changes them.

Owns their spelling, which is on record in every ledger: words are added, never changed. Pure.
`deck.moves` says what may follow what; everybody uses these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class TaskState(StrEnum):
    """Where a task is between being accepted and being over (contracts/deck.md section 2.5)."""

    GATED = "gated"
    QUEUED = "queued"
    TYPED = "typed"
    SUBMITTED = "submitted"
    PICKED_UP = "picked-up"
    #: Reported by its role, and not yet accepted: a judge, a check or a person looks at it.
    IN_REVIEW = "in-review"
    REPORTED = "reported"
    LOST = "lost"
    TIMED_OUT = "timed-out"
    REFUSED = "refused"


class ReportState(StrEnum):
    """Where a worker's report is on its way to the start role."""

    QUEUED = "queued"
    TYPED = "typed"
    DELIVERED = "delivered"
    KEPT = "kept"
    #: Waits until the work it tells of is accepted.
    HELD = "held"
    #: The work was not accepted; the start role was told that instead.
    WITHHELD = "withheld"


class Decision(StrEnum):
    """What became of a gate."""

    OPEN = "open"
    APPROVED = "approved"
    REJECTED = "rejected"
    VOID = "void"


class GateKind(StrEnum):
    """What a gate is about (contracts/deck.md section 1.9)."""

    #: A task of a role with `approve`, before it is handed out.
    ENTRY = "entry"
    #: A role that the start role proposes.
    ROSTER = "roster"
    #: Work that a judge could not settle.
    JUDGE = "judge"
    #: Work that changed files of another role, or that another check held up.
    OWNERSHIP = "ownership"
    #: A branch that waits to be merged.
    MERGE = "merge"


class LoopState(StrEnum):
    """Where the judging of one task is."""

    JUDGING = "judging"
    REVISING = "revising"
    GATED = "gated"
    ACCEPTED = "accepted"
    REJECTED = "rejected"


class MergeState(StrEnum):
    """Where the merging of one task's branch is."""

    WAITING = "waiting"
    GATED = "gated"
    MERGED = "merged"
    #: There was nothing to merge, or the team file leaves merging to people.
    SKIPPED = "skipped"
    FAILED = "failed"
    REJECTED = "rejected"


class CommitState(StrEnum):
    """What became of the commit of a role's work in its worktree."""

    MADE = "committed"
    #: There was nothing to commit.
    CLEAN = "clean"
    #: A hook or git did not take it; the work is uncommitted.
    FAILED = "failed"


class Op(StrEnum):
    """Every kind of journal entry."""

    SESSION_STARTED = "session-started"
    SESSION_STOPPED = "session-stopped"
    TASK_ADDED = "task-added"
    TASK_MOVED = "task-moved"
    REPORT_ADDED = "report-added"
    REPORT_MOVED = "report-moved"
    GATE_OPENED = "gate-opened"
    GATE_DECIDED = "gate-decided"
    DENIED = "denied"
    ROLE_STARTED = "role-started"
    ROLE_EXITED = "role-exited"
    GATEWAY_STARTED = "gateway-started"
    GATEWAY_STOPPED = "gateway-stopped"
    FINISHED = "finished"
    USAGE_TAKEN = "usage-taken"
    CONFIG_SET = "config-set"
    BRIEF_SET = "brief-set"
    ENFORCEMENT_CHANGED = "enforcement-changed"
    ROLE_STARTING = "role-starting"
    ROLE_STOPPING = "role-stopping"
    ROLE_STOPPED = "role-stopped"
    STAMP_FAILED = "stamp-failed"
    CHECKPOINT_TAKEN = "checkpoint-taken"
    CHECKPOINTS_PRUNED = "checkpoints-pruned"
    ROLLBACK_BEGUN = "rollback-begun"
    ROLLBACK_ENDED = "rollback-ended"
    #: One of several approvals that a gate needs.
    GATE_VOTED = "gate-voted"
    #: What the owned files held when a task was delivered; `ref` names it in the text store.
    OWNED_TAKEN = "owned-taken"
    LOOP_MOVED = "loop-moved"
    WORKTREE_MADE = "worktree-made"
    WORKTREE_COMMITTED = "worktree-committed"
    MERGE_MOVED = "merge-moved"
    ROLE_PAUSED = "role-paused"
    ROLE_RESUMED = "role-resumed"
    ROLE_ADDED = "role-added"
    ROLE_REMOVED = "role-removed"
    ROLE_CHANGED = "role-changed"
    RELOADED = "reloaded"
    BUDGET_EXCEEDED = "budget-exceeded"
    BUDGET_REARMED = "budget-rearmed"
    HANDOFF_BEGUN = "handoff-begun"
    HANDOFF_ENDED = "handoff-ended"
    ANSWERED = "answered"


@dataclass(frozen=True, slots=True)
class Entry:
    """One change. Times are integer microseconds UTC; `ref` is the commitment of a text that
    lives in the text store, never the text itself; `digest` names a text kept with the ledger."""

    op: Op
    at: int
    id: str = ""
    role: str = ""
    sender: str = ""
    state: str = ""
    reason: str = ""
    path: str = ""
    ref: str = ""
    task: str = ""
    done: bool = False
    pid: int = 0
    born: int = 0
    run: str = ""
    digest: str = ""
    #: A text in the store that a person is shown: a diff, a role proposed.
    shown: str = ""
    #: Until when something holds; 0: for ever.
    until: int = 0
    #: A round, or how many approvals are needed.
    count: int = 0
    #: An approver's signature (base64) over the statement of `deck.approvals`, and when they
    #: made it.
    sig: str = ""
    signed_at: int = 0

    def as_ext(self) -> dict[str, Any]:
        """Return the entry as the `ext` object of a ledger record: empty fields left out."""
        ext: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if value not in ("", 0, False) or name in ("op", "at"):
                # A ledger record takes plain strings only, not enumerations of them.
                ext[name] = str(value) if isinstance(value, str) else value
        return ext

    @classmethod
    def from_ext(cls, ext: Mapping[str, Any]) -> Entry:
        """Rebuild an entry; fields of later versions are ignored. Raises ValueError if it is
        not one."""
        known = {name: value for name, value in ext.items() if name in _FIELDS}
        try:
            known["op"] = _OPS[known["op"]]
            return cls(**known)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError("the record holds no journal entry of this version") from error


#: A look into a set and a table, where the walk through all fields and the call of the
#: enumeration take twice as long: a start reads every entry there is.
_FIELDS: Final = frozenset(Entry.__slots__)
_OPS: Final = {op.value: op for op in Op}
