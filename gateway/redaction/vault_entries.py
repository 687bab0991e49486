"""What calls introduce into the vault: tokens, and stand-ins that somebody wrote.

Owns the rules by which a token comes to stand for a value. Invariant: one token of a scope never
stands for two values, and a text that a caller wrote itself never becomes a stand-in of another
value. Each function works within the transaction of its caller, which writes. Called by
`vault_store`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import bindparam, insert, select, update
from sqlalchemy.engine import Connection

from gateway.redaction.vault_database import ENTRIES, VaultError
from gateway.redaction.vault_seal import Sealer

# New values run these; to build a statement takes as long as to run it.
_ROWS_OF: Final = select(
    ENTRIES.c.owner,
    ENTRIES.c.token,
    ENTRIES.c.mark,
    ENTRIES.c.sealed.is_not(None).label("has_value"),
).where(
    ENTRIES.c.scope == bindparam("scope"),
    ENTRIES.c.token.in_(bindparam("tokens", expanding=True)),
)
_INSERT: Final = insert(ENTRIES)
#: Tokens asked for in one statement; SQLite allows 999 variables in its oldest builds.
_BATCH: Final = 500
#: What the row of a stand-in's own text holds instead of a mark: the text stands for itself.
ITSELF: Final = b"itself"


class TokenTaken(VaultError):
    """A token is already another value's. `owners` maps it to that value's mark, `alike` all other
    stand-ins of its kind to theirs: scan again with both in `ScanJob.taken`, and the new value gets
    another token."""

    def __init__(self, owners: dict[str, str], alike: dict[str, str]) -> None:
        super().__init__("A token is already in use for another value; scan the call again.")
        self.owners = owners
        self.alike = alike


@dataclass(frozen=True, slots=True)
class NewEntry:
    """One token to store: its kind, the mark of its value (32 hex digits), and the value where it
    may be given back."""

    kind: str
    mark: str
    value: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Introduced:
    """The tokens of `scope` that one call of `owner` introduced."""

    owner: str
    scope: str
    new: Mapping[str, NewEntry]


class _Found:
    """What the vault holds of some tokens of one scope: the marks of their values, and who has
    them (and whether with a value)."""

    def __init__(self, rows: Iterable[Any]) -> None:
        self.marks: dict[str, bytes] = {}
        self.owned: dict[tuple[str, str], bool] = {}
        for owner, token, mark, has_value in rows:
            self.owned[(owner, token)] = has_value
            if mark is not None:
                self.marks[token] = mark

    def taken(self, new: Mapping[str, NewEntry]) -> dict[str, str]:
        """Return the tokens that stand for another value, to its mark."""
        return {
            token: mark.hex()
            for token, entry in new.items()
            if (mark := self.marks.get(token)) is not None and mark.hex() != entry.mark
        }


def introduce(
    connection: Connection, sealer: Sealer, calls: Sequence[Introduced], now: int
) -> list[TokenTaken | None]:
    """Store what several calls introduced at `now` (seconds since 1970); return, for each, what
    kept all of its tokens out."""
    found = {
        scope: _Found(_rows_of(connection, scope, tokens))
        for scope, tokens in _by_scope(calls).items()
    }
    outcomes: list[TokenTaken | None] = []
    rows: list[dict[str, Any]] = []
    for call in calls:
        there = found[call.scope]
        taken = there.taken(call.new)
        if taken:
            alike = _others_alike(connection, call.scope, taken, call.new)
            outcomes.append(TokenTaken(taken, alike))
            continue
        outcomes.append(None)
        rows += _missing(connection, sealer, call, there, now)
    if rows:
        connection.execute(_INSERT, rows)
    return outcomes


def _missing(
    connection: Connection, sealer: Sealer, call: Introduced, there: _Found, now: int
) -> Iterator[dict[str, Any]]:
    """Yield the rows `call` needs, and note that they are there."""
    for token, entry in call.new.items():
        has_value = there.owned.get((call.owner, token))
        sealed = None
        if has_value is None or (entry.value is not None and not has_value):
            if entry.value is not None:
                sealed = sealer.seal(call.owner, token, entry.value)
            there.owned[(call.owner, token)] = sealed is not None
        if has_value is None:
            mark = there.marks[token] = bytes.fromhex(entry.mark)
            yield {
                "owner": call.owner,
                "token": token,
                "scope": call.scope,
                "kind": entry.kind,
                "mark": mark,
                "sealed": sealed,
                "created": now,
            }
        elif sealed is not None:  # known as not to be given back until now
            row = (ENTRIES.c.owner == call.owner) & (ENTRIES.c.token == token)
            connection.execute(update(ENTRIES).where(row).values(sealed=sealed))


def claim(
    connection: Connection, owner: str, scope: str, texts: Mapping[str, str], now: int
) -> set[str]:
    """Note texts (to their kinds) that look like stand-ins and that `owner` wrote itself at `now`,
    so that none of them becomes a stand-in of another value later; return those that already are
    one, for whomever."""
    rows = _rows_of(connection, scope, texts)
    foreign = {row.token for row in rows if row.mark != ITSELF}
    own = {row.token for row in rows if row.owner == owner}
    missing = [text for text in texts if text not in foreign and text not in own]
    if missing:
        whole = {"owner": owner, "scope": scope, "mark": ITSELF, "sealed": None, "created": now}
        new = [whole | {"token": text, "kind": texts[text]} for text in missing]
        connection.execute(_INSERT, new)
    return foreign - own


def _rows_of(connection: Connection, scope: str, tokens: Iterable[str]) -> list[Any]:
    rows: list[Any] = []
    for part in batches(tokens):
        rows += connection.execute(_ROWS_OF, {"scope": scope, "tokens": part})
    return rows


def _others_alike(
    connection: Connection,
    scope: str,
    taken: Mapping[str, str],
    new: Mapping[str, NewEntry],
) -> dict[str, str]:
    """Stand-ins are few: with one that is taken, tell all of its kind, or the next try may
    well be taken too."""
    kinds = {new[token].kind for token in taken if not token.startswith("[")}
    if not kinds:
        return {}
    query = select(ENTRIES.c.token, ENTRIES.c.mark).where(
        ENTRIES.c.scope == scope, ENTRIES.c.kind.in_(kinds), ENTRIES.c.mark.is_not(None)
    )
    return {
        row.token: row.mark.hex()
        for row in connection.execute(query)
        if not row.token.startswith("[")
    }


def _by_scope(calls: Iterable[Introduced]) -> dict[str, set[str]]:
    tokens: dict[str, set[str]] = {}
    for call in calls:
        tokens.setdefault(call.scope, set()).update(call.new)
    return tokens


def batches(tokens: Iterable[str]) -> Iterator[list[str]]:
    """Yield tokens in an order, as many as one statement may name."""
    ordered = sorted(tokens)
    for start in range(0, len(ordered), _BATCH):
        yield ordered[start : start + _BATCH]
