"""What the records of a deck say, in words: one sentence for each operation of its board.

Owns `OPS`. An operation that has no sentence here is told by its name. Invariant: whatever the
fields hold, nothing raises. Pure. Called by `words`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from shared.ledger.plain import Record, because, given, join, piece
from shared.ledger.selecting import at, text_at


def gate_open(record: Record) -> str:
    """Return the sentence of a gate record."""
    return join(f"gate {piece(record, 'gate', 'id')} opened", given("for", piece(record, "task")))


def gate_decision(record: Record) -> str:
    """Return the sentence of a gate record."""
    return join(
        f"gate {piece(record, 'gate', 'id')} {piece(record, 'gate', 'state')}",
        given("for", piece(record, "task")),
        given(_by(record), piece(record, "gate", "approver")),
        because(piece(record, "ext", "reason")),
    )


def _session_started(record: Record) -> str:
    return join(
        "the session", "went on" if text_at(record, "ext", "state") == "resumed" else "started"
    )


def _session_stopped(record: Record) -> str:
    return join("the session stopped", because(piece(record, "ext", "reason")))


def _task_added(record: Record) -> str:
    waits = ", waits for a gate" if text_at(record, "ext", "state") == "gated" else ""
    return (
        join(
            f"task {piece(record, 'ext', 'id')} for {piece(record, 'ext', 'role') or '?'}",
            given("from", piece(record, "ext", "sender")),
        )
        + waits
    )


def _task_moved(record: Record) -> str:
    return join(
        f"task {piece(record, 'ext', 'id')} is now {piece(record, 'ext', 'state') or '?'}",
        because(piece(record, "ext", "reason")),
    )


def _report_added(record: Record) -> str:
    done = "done" if at(record, "ext", "done") is True else "not done"
    return join(
        f"report {piece(record, 'ext', 'id')} from {piece(record, 'ext', 'role') or '?'}",
        given("on task", piece(record, "ext", "task")),
        f"({done})",
        because(piece(record, "ext", "reason")),
    )


def _report_moved(record: Record) -> str:
    return join(
        f"report {piece(record, 'ext', 'id')} is now {piece(record, 'ext', 'state') or '?'}",
        because(piece(record, "ext", "reason")),
    )


def _role_started(record: Record) -> str:
    return join(
        f"role {piece(record, 'ext', 'role') or '?'} started",
        given("as process", piece(record, "ext", "pid")),
    )


def _role_exited(record: Record) -> str:
    return join(
        f"role {piece(record, 'ext', 'role') or '?'} ended", because(piece(record, "ext", "reason"))
    )


def _gateway_started(record: Record) -> str:
    return join("the deck started its gateway", given("as process", piece(record, "ext", "pid")))


def _gateway_stopped(record: Record) -> str:
    return join("the deck stopped its gateway", because(piece(record, "ext", "reason")))


def _op_denied(record: Record) -> str:
    asked = piece(record, "ext", "sender") or piece(record, "ext", "role")
    what = f"refused what {asked} asked for" if asked else "refused a request"
    return join(what, because(piece(record, "ext", "reason")))


def _finished(record: Record) -> str:
    return join("the work was called finished", given("by", piece(record, "ext", "sender")))


def _usage_taken(record: Record) -> str:
    return "the session's token totals were noted"


def _role_change(words: str) -> Callable[[Record], str]:
    def tell(record: Record) -> str:
        role = piece(record, "ext", "role") or "?"
        return join(f"role {role} {words}", because(piece(record, "ext", "reason")))

    return tell


def _files(words: str) -> Callable[[Record], str]:
    def tell(record: Record) -> str:
        name = piece(record, "ext", "id") or piece(record, "ext", "path")
        state = piece(record, "ext", "state")
        return join(words, name, given("→", state), because(piece(record, "ext", "reason")))

    return tell


def _config_set(record: Record) -> str:
    digest = piece(record, "ext", "digest")[:16]
    return f"the deck's settings in force{given(', digest', digest)}"


def _brief_set(record: Record) -> str:
    digest = piece(record, "ext", "digest")[:16]
    return join("the brief of", piece(record, "ext", "role") or "?", given("is now", digest))


def _enforcement(record: Record) -> str:
    return join(
        "enforcement is now",
        piece(record, "ext", "state") or "changed",
        given("for", piece(record, "ext", "role")),
        because(piece(record, "ext", "reason")),
    )


def _gate_voted(record: Record) -> str:
    return join(
        f"gate {piece(record, 'ext', 'id')} was approved, and needs one more approval",
        given("for", piece(record, "task")),
        given(_by(record), piece(record, "ext", "sender")),
        because(piece(record, "ext", "reason")),
    )


def _by(record: Record) -> str:
    return "with the signature of" if text_at(record, "ext", "sig") else "by"


def _of_task(words: str) -> Callable[[Record], str]:
    def tell(record: Record) -> str:
        task = piece(record, "ext", "id") or "?"
        state = piece(record, "ext", "state")
        return join(words.format(task=task), state, because(piece(record, "ext", "reason")))

    return tell


def _reloaded(record: Record) -> str:
    return join("the team file was read again", because(piece(record, "ext", "reason")))


def _answered(record: Record) -> str:
    return join(
        f"{piece(record, 'ext', 'sender') or '?'} answered a question of",
        piece(record, "ext", "role"),
        given("about", piece(record, "ext", "task")),
    )


def any_op(record: Record) -> str:
    """An operation that has no sentence of its own yet: its name says what it is."""
    name = piece(record, "ext", "op").replace("-", " ")
    return join(
        name,
        piece(record, "ext", "id"),
        given("of", piece(record, "ext", "role")),
        given("by", piece(record, "ext", "sender")),
        given("→", piece(record, "ext", "state")),
        because(piece(record, "ext", "reason")),
    )


OPS: Final[Mapping[str, Callable[[Record], str]]] = {
    "session-started": _session_started,
    "session-stopped": _session_stopped,
    "task-added": _task_added,
    "task-moved": _task_moved,
    "report-added": _report_added,
    "report-moved": _report_moved,
    "gate-opened": gate_open,
    "gate-decided": gate_decision,
    "denied": _op_denied,
    "role-started": _role_started,
    "role-exited": _role_exited,
    "gateway-started": _gateway_started,
    "gateway-stopped": _gateway_stopped,
    "finished": _finished,
    "usage-taken": _usage_taken,
    "config-set": _config_set,
    "brief-set": _brief_set,
    "enforcement-changed": _enforcement,
    "role-starting": _role_change("is being started"),
    "role-stopping": _role_change("is being stopped"),
    "role-stopped": _role_change("was stopped"),
    "stamp-failed": _role_change("works on a task that the gateway could not be told"),
    "checkpoint-taken": _files("the files were kept as checkpoint"),
    "checkpoints-pruned": _files("old checkpoints of the files were removed"),
    "rollback-begun": _files("the files are being put back to checkpoint"),
    "rollback-ended": _files("putting the files back ended, checkpoint"),
    "gate-voted": _gate_voted,
    "owned-taken": _of_task("the files owned by others were noted before {task}"),
    "loop-moved": _of_task("the judging of {task} is now"),
    "worktree-made": _role_change("works in a worktree of its own"),
    "worktree-committed": _of_task("the work on {task} was committed"),
    "merge-moved": _of_task("the merge of {task} is now"),
    "role-paused": _role_change("was paused"),
    "role-resumed": _role_change("goes on"),
    "role-added": _role_change("joined the team"),
    "role-removed": _role_change("left the team"),
    "role-changed": _role_change("was changed"),
    "reloaded": _reloaded,
    "budget-exceeded": _role_change("has used more than its budget"),
    "budget-rearmed": _role_change("is within its budget again"),
    "handoff-begun": _role_change("was asked to hand over"),
    "handoff-ended": _role_change("has handed over"),
    "answered": _answered,
}
