"""Erasing by itself what no retention class or hold keeps any more, where the policy says so.

Owns when that happens: at the start and once a day. Invariants: nothing is erased without the
policy's `erase_expired`; it is the operation that `sphragis erase --expired` asks for, so holds
come first and a record says what went; where the wrapping key is in no file, a person has to give
a new one, so nothing is erased and the log says so. Run by `gateway.app` beside the calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from gateway.erasing import EvidenceRefused, done
from gateway.logs import where
from shared.evidence.stores import Stores
from shared.ledger import Ledger, LedgerError

#: Seconds between two looks: retention counts in days.
EVERY: Final = 24 * 3600.0
BASIS: Final = "its retention class ended"
OPERATOR: Final = "sphragis"


async def run_expiry(ledger: Ledger, stores: Stores, say: Callable[[str], None]) -> None:
    """Erase what expired, now and each day, until cancelled; `say` gets a line when there was
    something to do."""
    while True:
        try:
            told = await asyncio.to_thread(expire, ledger, stores)
        except Exception as error:
            told = f"warning: expired evidence was not erased: internal error, {where(error)}"
        if told:
            say(told)
        await asyncio.sleep(EVERY)


def expire(ledger: Ledger, stores: Stores) -> str:
    """Erase what expired; blocking; return what is to be told, or nothing. Never raises for what
    an operator can mend."""
    request: dict[str, Any] = {
        "expired": True,
        "basis": BASIS,
        "operator": OPERATOR,
        "request": f"expired-{stores.now()}",
    }
    try:
        found = done("erase", ledger, stores, {**request, "dry_run": True})
        if not found["keys"]:
            return ""
        if found["needs_key_file"]:
            return (
                f"warning: {found['keys']} key(s) of kept evidence expired, but their wrapping key "
                "is in no file; run `sphragis erase --expired` with --new-key-file."
            )
        answer = done("erase", ledger, stores, request)
    except (EvidenceRefused, LedgerError) as wrong:
        return f"warning: expired evidence was not erased: {wrong}"
    seqs = ", ".join(map(str, answer["seqs"]))
    return f"erased {answer['keys']} key(s) of expired evidence; record {seqs}"
