"""Changes that the command line makes without the deck, put on the deck's record all the same.

Owns which changes those are and how they come to the journal: through the deck that runs in the
directory, which knows who asks, else into its closed journal. Invariant: what is about to be done
is durable before it is done; where it cannot be recorded, it is not done. A directory in which no
deck ever ran has no record to keep. Used by `deck.cli.checkpoints` and `deck.session`.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from typing import Final

from deck.desk import open_closed_journal
from deck.entries import Entry, Op
from deck.journal import Journal, JournalFailed
from deck.protocol import Command, Verb, one_line
from deck.roster import ROLE_ENV
from deck.sessions import NoSession, SessionError, control_socket, exchange, paths_for

_OPS: Final[Mapping[str, Op]] = {
    str(op): op for op in (Op.ROLLBACK_BEGUN, Op.ROLLBACK_ENDED, Op.CHECKPOINTS_PRUNED)
}
#: How a deck that knows no notes answers.
_OLDER: Final = "Unknown command"
_REASON_CHARS: Final = 1000


class NotRecorded(Exception):
    """A change cannot be put on record, so it must not be made; the text says why."""


def noted(kind: str, target: str, why: str, at: int, sender: str) -> Entry | None:
    """Return the entry of a change, or None when this is no such change."""
    op = _OPS.get(kind)
    if op is None:
        return None
    task = target.removeprefix("pre-rollback-").removesuffix("-done").removesuffix("-merge")
    is_task = task[:1] == "T" and task[1:].isdigit()
    return Entry(
        op,
        at,
        id=one_line(target, 200),
        sender=sender,
        reason=one_line(why, _REASON_CHARS),
        task=task if is_task else "",
    )


def note(
    directory: str, op: Op, target: str, why: str, environ: Mapping[str, str] = os.environ
) -> None:
    """Put a change on record, durably. Blocks. Raises NotRecorded."""
    try:
        paths = paths_for(directory, environ)
        command = Command(Verb.NOTE, id=target[:200], task=str(op), reason=why[:_REASON_CHARS])
        answer = exchange(control_socket(paths, environ), command)
        told = str(answer.get("reason", ""))
        if answer.get("status") != "ok" and not told.startswith(_OLDER):
            raise NotRecorded(told or "the session did not answer")
        return
    except NoSession:
        pass
    except (SessionError, OSError) as wrong:
        raise NotRecorded(str(wrong)) from wrong
    try:
        journal = open_closed_journal(paths, environ)
    except (JournalFailed, OSError) as wrong:
        raise NotRecorded(str(wrong)) from wrong
    if journal is None:
        return
    sender = environ.get(ROLE_ENV) or "operator"
    entry = noted(str(op), target, why, time.time_ns() // 1000, sender)
    assert entry is not None, "the kinds are those of the table"
    try:
        asyncio.run(_write(journal, entry))
    except JournalFailed as wrong:
        raise NotRecorded(str(wrong)) from wrong
    finally:
        journal.close()


async def _write(journal: Journal, entry: Entry) -> None:
    await journal.record(entry)
