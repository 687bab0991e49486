"""Facts about processes the session needs: ancestry, the seat's mark, and what a crash left behind.

Invariant: a process is named by pid and start time together, so a reused pid is never mistaken
for ours and never signalled. Builds on the table of `deck.pane.process_table`; where there is no
`/proc` the facts are simply absent. Called by `deck.callers` (who speaks), `deck.gateway`, and the
session: when it starts after a crash, and for what its agents left to it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable
from typing import Final

from deck.board import Child
from deck.pane.process_table import process_table, read_process, read_variable

#: In the environment of every process of a role: `<session>:<role>`. Unlike the pane's own mark
#: it stays the same over restarts, so a new deck recognizes what a dead one left.
SEAT_MARK: Final = "CHORAGOS_SEAT"
MAX_ANCESTORS: Final = 256
_PR_SET_CHILD_SUBREAPER: Final = 36


def child(pid: int) -> Child:
    """Return a process as pid and start time (0 when it is gone or cannot be seen)."""
    found = read_process(pid)
    return Child(pid, found.started if found else 0)


def is_alive(one: Child) -> bool:
    """Tell whether that very process still runs (a zombie does not)."""
    found = read_process(one.pid)
    return found is not None and found.started == one.born and not found.is_dead


def ancestors(pid: int) -> list[int]:
    """Return `pid` and its parents up to the first that cannot be read; [] if `pid` is gone."""
    chain: list[int] = []
    while pid > 0 and len(chain) < MAX_ANCESTORS and pid not in chain:
        found = read_process(pid)
        if found is None:
            break
        chain.append(pid)
        pid = found.parent
    return chain


def can_trace() -> bool:
    """Tell whether this system shows the ancestry of processes."""
    return read_process(os.getpid()) is not None


def seat_mark(pid: int) -> str:
    """Return the seat mark in a process's initial environment, "" when absent or unreadable."""
    return read_variable(pid, SEAT_MARK)


def signal_group(one: Child, number: signal.Signals) -> None:
    """Signal the group a process leads, if it is still that process."""
    if not is_alive(one):
        return
    try:
        os.killpg(one.pid, number)
    except (ProcessLookupError, PermissionError):
        _signal(one.pid, number)


def adopt_orphans() -> bool:
    """Make this process the parent of what its descendants leave behind (Linux child subreaper).

    A daemon that forks twice then still descends from the deck. Returns whether the kernel agreed.
    """
    if not sys.platform.startswith("linux"):
        return False
    return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def reap_inherited(known: Iterable[int]) -> None:
    """Collect zombies that were inherited as subreaper. Reads the process table: not for a loop
    that must not wait.

    Children the deck started itself (`known`, and all that share the deck's session, such as a
    running git) are left to whoever waits for them.
    """
    me, own, ours = os.getpid(), os.getsid(0), set(known)
    for ref in process_table().values():
        if ref.parent != me or ref.state != "Z" or ref.session == own or ref.pid in ours:
            continue
        try:
            os.waitpid(ref.pid, os.WNOHANG)
        except ChildProcessError:
            continue


def end_leftovers(session: str, recorded: Iterable[Child], grace: float = 2.0) -> list[int]:
    """End what a dead deck of this session left behind; return the pids that were ended.

    Leftovers are processes that carry the session's mark, those recorded as panes, and all in the
    sessions these lead. Blocks for up to `grace` seconds before SIGKILL: call it in a thread.
    """
    heads = {one.pid for one in recorded if is_alive(one)}
    spared = {os.getpid(), *ancestors(os.getpid())}
    found = _leftovers(session, heads, spared)
    for one in found:
        _signal_if_same(one, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while time.monotonic() < deadline and any(is_alive(one) for one in found):
        time.sleep(0.05)
    # Whatever they started meanwhile carries the mark too.
    for one in {*found, *_leftovers(session, heads, spared)}:
        _signal_if_same(one, signal.SIGKILL)
    return sorted(one.pid for one in found)


def _leftovers(session: str, heads: set[int], spared: set[int]) -> list[Child]:
    return [
        Child(ref.pid, ref.started)
        for ref in process_table().values()
        if ref.pid not in spared
        and not ref.is_dead
        and (
            ref.pid in heads
            or ref.session in heads
            or seat_mark(ref.pid).partition(":")[0] == session
        )
    ]


def _signal_if_same(one: Child, number: signal.Signals) -> None:
    if is_alive(one):
        _signal(one.pid, number)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return
