"""The verbs that read a ledger: `log`, `log show`, `log stats`, `export`.

Wiring only: filters and files are `shared.ledger.reading`'s, words `shared.ledger.words`', rows
`gateway.log_view`'s, exports `shared.exports`'. Called by `gateway.cli`.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from gateway.errors import GatewayError
from shared.paths import expanded

if TYPE_CHECKING:
    from gateway.settings import Settings
    from shared.ledger.selecting import Filter

#: Rows shown when nobody says how many.
_ROWS: Final = 50

verbs = typer.Typer(rich_markup_mode=None)
log = typer.Typer(
    name="log",
    help="Read a ledger: what happened, who did it, why.",
    invoke_without_command=True,
    rich_markup_mode=None,
)
verbs.add_typer(log)

LedgerPath = Annotated[
    Path | None,
    typer.Option("--ledger", help="A ledger directory, if not the gateway's own."),
]
DeckPath = Annotated[
    Path | None, typer.Option("--deck", help="A project; its deck's ledger is read.")
]
Config = Annotated[Path | None, typer.Option("--config", help="Settings file of the gateway.")]
Role = Annotated[list[str] | None, typer.Option("--role", help="Only this role (repeatable).")]
Task = Annotated[list[str] | None, typer.Option("--task", help="Only this task (repeatable).")]
Session = Annotated[
    list[str] | None, typer.Option("--session", "--run", help="Only this session (repeatable).")
]
Kind = Annotated[
    list[str] | None, typer.Option("--kind", help="Only these kinds of records: deny,outcome,…")
]
Decision = Annotated[
    list[str] | None, typer.Option("--decision", help="Only what was decided so: allow, deny, …")
]
Code = Annotated[
    list[str] | None, typer.Option("--code", help="Only this refusal code or cause (repeatable).")
]
CallId = Annotated[list[str] | None, typer.Option("--id", help="Only this call, task or gate id.")]
Seq = Annotated[str | None, typer.Option("--seq", help="Only these record numbers: 17, 17:40, 17:")]
Since = Annotated[
    str | None,
    typer.Option("--since", help="From then on: 2h, today, 2026-11-29T14:00."),
]
Until = Annotated[str | None, typer.Option("--until", help="Up to then; a day counts to its end.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines: leaf and exact record.")]


@log.callback()
def show_log(
    context: typer.Context,
    *,
    ledger: LedgerPath = None,
    deck: DeckPath = None,
    config: Config = None,
    role: Role = None,
    task: Task = None,
    session: Session = None,
    kind: Kind = None,
    decision: Decision = None,
    code: Code = None,
    call: CallId = None,
    seq: Seq = None,
    since: Since = None,
    until: Until = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with new records until Ctrl-C.")
    ] = False,
    number: Annotated[
        int | None,
        typer.Option(
            "-n", min=0, help=f"The last N records; 0 is all ({_ROWS}; with --json, all)."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the records of a ledger."""
    if context.invoked_subcommand is not None:
        return
    with _sentences():
        directory = _directory(ledger, deck, config)
        wanted = _filter(
            role=role,
            task=task,
            session=session,
            kind=kind,
            decision=decision,
            code=code,
            ids=call,
            seq=seq,
            since=since,
            until=until,
        )
        count = (0 if as_json else _ROWS) if number is None else number
        if follow:
            _follow(directory, wanted, count if number is not None else _ROWS, as_json=as_json)
        else:
            _print(directory, wanted, count, as_json=as_json)


def _print(directory: Path, wanted: Filter, count: int, *, as_json: bool) -> None:
    from gateway.log_view import print_json, print_rows
    from shared.ledger.reading import read, tail

    items = iter(tail(directory, wanted, count)[0]) if count else read(directory, wanted)
    if as_json:
        print_json(items)
    elif (first := next(items, None)) is not None:
        print_rows(itertools.chain([first], items))
    else:
        print("No record matches.", file=sys.stderr)


def _follow(directory: Path, wanted: Filter, count: int, *, as_json: bool) -> None:
    """Show the last records and then each new one, until Ctrl-C or a closed pipe."""
    from gateway.log_view import draw_rows, json_line, plain_row
    from shared.ledger.reading import follow, tail

    old, place = tail(directory, wanted, count or _ROWS)
    console = None
    if sys.stdout.isatty() and not as_json:
        from gateway import screen

        console = screen.console()
    owed = draw_rows(console, old, header=True) if console else True
    text = json_line if as_json else plain_row
    if not console:
        sys.stdout.writelines(map(text, old))
    with contextlib.suppress(KeyboardInterrupt):
        for item in follow(directory, wanted, place):
            if item is None:
                sys.stdout.flush()
            elif console:
                owed = draw_rows(console, [item], header=owed)
            else:
                sys.stdout.write(text(item))


@log.command("show")
def show_record(
    number: Annotated[int, typer.Argument(min=0, help="The record's number.")],
    *,
    ledger: LedgerPath = None,
    deck: DeckPath = None,
    config: Config = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print leaf and exact record.")] = False,
) -> None:
    """Explain one record in words, how it ended, and what proves it."""
    from gateway.log_view import explain, json_line, print_explained
    from shared.ledger.errors import LedgerError
    from shared.ledger.reading import find, outcome_of

    with _sentences():
        directory = _directory(ledger, deck, config)
        found = find(directory, number)
        if as_json:
            sys.stdout.write(json_line(found.item))
            return
        kind, ref = found.item.record.get("type"), found.item.record.get("ref")
        partner = outcome_of(directory, found) if kind == "request" else None
        if kind == "outcome" and type(ref) is int:
            with contextlib.suppress(LedgerError):  # pruned, or not in this log
                partner = find(directory, ref).item
        print_explained(explain(found, partner, str(directory)))


@log.command("stats")
def show_stats(
    *,
    ledger: LedgerPath = None,
    deck: DeckPath = None,
    config: Config = None,
    role: Role = None,
    task: Task = None,
    session: Session = None,
    since: Since = None,
    until: Until = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Count calls, refusals, redactions, tokens and latency, by role and by day."""
    from gateway.log_view import as_json as to_json
    from gateway.log_view import print_stats
    from shared.ledger.reading import read
    from shared.ledger.stats import collect, files_of

    with _sentences():
        directory = _directory(ledger, deck, config)
        wanted = _filter(role=role, task=task, session=session, since=since, until=until)
        stats, files = collect(read(directory, wanted)), files_of(directory)
        if as_json:
            print(to_json({"ledger": str(directory), "files": files.as_json(), **stats.as_json()}))
        else:
            print_stats(stats, files, str(directory))


@verbs.command()
def export(
    format: Annotated[
        str, typer.Option("--format", "-F", help="jsonl, nine-field, ocsf, cef, otlp, tlog-tiles")
    ],
    *,
    output: Annotated[
        str, typer.Option("-o", "--output", help="A file, or - for standard output.")
    ] = "-",
    endpoint: Annotated[
        str, typer.Option(help="With otlp: post to this OTLP/HTTP endpoint instead.")
    ] = "",
    ledger: LedgerPath = None,
    deck: DeckPath = None,
    config: Config = None,
    role: Role = None,
    task: Task = None,
    session: Session = None,
    kind: Kind = None,
    decision: Decision = None,
    code: Code = None,
    call: CallId = None,
    seq: Seq = None,
    since: Since = None,
    until: Until = None,
) -> None:
    """Copy records out in another format.

    The copy is recorded before it is handed over.
    """
    from gateway.exporting import Order
    from gateway.exporting import export as carry_out

    with _sentences():
        wanted = _filter(
            role=role,
            task=task,
            session=session,
            kind=kind,
            decision=decision,
            code=code,
            ids=call,
            seq=seq,
            since=since,
            until=until,
        )
        order = Order(_directory(ledger, deck, config), format, wanted, output, endpoint)
        print(carry_out(order, _settings(config)), file=sys.stderr)


def _settings(config: Path | None) -> Settings:
    from gateway.settings import load_settings

    return load_settings(config)[0]


def _directory(ledger: Path | None, deck: Path | None, config: Path | None) -> Path:
    """Return the log to read: the one named, a deck's, or the gateway's own."""
    from shared.ledger.reading import check_log

    if ledger is not None and deck is not None:
        raise GatewayError("Name a ledger or a deck, not both.")
    if ledger is not None:
        return check_log(expanded(ledger))
    if deck is None:
        return check_log(_settings(config).ledger_dir)
    project = expanded(deck)
    for place in (project / ".choragos" / "ledger", project / "ledger", project):
        if (place / "log.json").is_file():
            return place
    raise GatewayError(
        f"No deck has worked in {project}: there is no .choragos/ledger; name the project's "
        "directory."
    )


def _filter(
    *,
    role: list[str] | None = None,
    task: list[str] | None = None,
    session: list[str] | None = None,
    kind: list[str] | None = None,
    decision: list[str] | None = None,
    code: list[str] | None = None,
    ids: list[str] | None = None,
    seq: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> Filter:
    """Return the filter of these options. Raises FilterRefused."""
    from datetime import datetime

    from shared.ledger.selecting import Filter, parse_kinds, parse_range, parse_time

    now = datetime.now().astimezone()
    first, last = parse_range(seq) if seq is not None else (0, None)
    return Filter(
        roles=frozenset(role or ()),
        tasks=frozenset(task or ()),
        sessions=frozenset(session or ()),
        kinds=parse_kinds(",".join(kind or ())),
        decisions=frozenset(decision or ()),
        codes=frozenset(code or ()),
        ids=frozenset(ids or ()),
        since=parse_time(since, now) if since else 0,
        until=parse_time(until, now, is_end=True) if until else None,
        first=first,
        last=last,
    )


@contextlib.contextmanager
def _sentences() -> Iterator[None]:
    """Let what the ledger refuses reach the person as the sentence that it is."""
    from shared.ledger.errors import LedgerError

    try:
        yield
    except LedgerError as wrong:
        raise GatewayError(str(wrong)) from wrong
