"""What a changed team file changes about gates: who decides, how many, for how long, about whom.

Owns the words. An agent can write to the team file; what it wrote counts from the next start or
reload, by an operator's hand. Invariant: an operator is told of every change to these rules then,
whichever way it goes. Compares two texts of settings as `deck.recorded` writes them, so that the
text kept with the ledger at the last start is enough. Pure. Called by `deck.session` and
`deck.reloading`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from deck.durations import format_duration


def differences(before: bytes, now: bytes) -> list[str]:
    """Return in words what the second settings say otherwise about gates than the first; nothing
    where the first are of a version that had no such rules."""
    old, new = _read(before), _read(now)
    if "approvers" not in old or "approvers" not in new:
        return []
    return [*_approvers(old, new), *_gates(old, new), *_roles(old, new)]


def _approvers(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    was, now = old["approvers"], new["approvers"]
    yield from (f"{name} is a new approver" for name in now if name not in was)
    yield from (f"{name} is no approver any more" for name in was if name not in now)
    yield from (f"{n} has another key" for n in now if n in was and was[n] != now[n])
    if was and not now:
        yield "decisions are not signed any more"


def _gates(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    was, now = _table(old, "gates"), _table(new, "gates")
    if was.get("approvals") != now.get("approvals"):
        yield f"gates need {now.get('approvals')} approval(s) instead of {was.get('approvals')}"
    if was.get("expire") != now.get("expire"):
        yield f"gates expire {_after(now)} instead of {_after(was)}"
    if _table(old, "roster").get("approve") and not _table(new, "roster").get("approve"):
        yield "new roles need no approval any more"


def _roles(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    now = {role["name"]: role for role in reversed(new.get("roles", []))}
    for was in old.get("roles", []):
        role = now.get(was["name"])
        if role is None:
            continue
        if was.get("approve") and not role.get("approve"):
            yield f"tasks for {was['name']} need no approval any more"
        if was.get("approvals", 1) > role.get("approvals", 1):
            yield f"gates of {was['name']} need fewer approvals"


def _after(table: Mapping[str, Any]) -> str:
    seconds = table.get("expire")
    return f"after {format_duration(seconds)}" if isinstance(seconds, int | float) else "never"


def _table(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = settings.get(name)
    return found if isinstance(found, dict) else {}


def _read(text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
