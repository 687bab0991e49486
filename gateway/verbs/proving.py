"""The verbs that prove: `proof`, `receipt`.

Wiring only: what happens is in `shared.ledger`. Nothing here writes to a ledger or takes its
lock, so both run beside the program that writes it. Called by `gateway.cli`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from gateway.settings import Settings
    from shared.ledger.bundle_make import Made, Selection

verbs = typer.Typer(rich_markup_mode=None)

Config = Annotated[Path | None, typer.Option(help="Settings file of the gateway.")]
Ledgers = Annotated[
    list[Path] | None,
    typer.Option(
        "--ledger", help="A ledger directory, such as a deck's; the gateway's own if not given."
    ),
]


@verbs.command()
def proof(
    tasks: Annotated[
        list[str] | None, typer.Option("--task", help="All records of a task.")
    ] = None,
    seqs: Annotated[
        list[int] | None, typer.Option("--seq", min=0, help="The record with this number.")
    ] = None,
    sessions: Annotated[
        list[str] | None, typer.Option("--session", help="All records of a session.")
    ] = None,
    *,
    ledgers: Ledgers = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write; a bundle ends in .zip.")
    ] = None,
    consistency: Annotated[
        Path | None,
        typer.Option(help="A checkpoint you kept: prove that the log only grew since then."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="With --consistency: the newer checkpoint, if not HEAD.")
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild-tiles", help="First make the tree's files anew.")
    ] = False,
    without_texts: Annotated[
        bool,
        typer.Option(
            "--without-texts",
            help="Leave the policy texts out: they hold your own terms, such as client names.",
        ),
    ] = False,
    config: Config = None,
) -> None:
    """Prove to a stranger what is in the log.

    A bundle proves that records are in it; --consistency, that it only grew.
    """
    from gateway.errors import GatewayError
    from shared.ledger import LedgerError
    from shared.ledger.bundle_make import Selection

    selection = Selection(tuple(tasks or ()), tuple(sessions or ()), tuple(seqs or ()))
    asked = bool(tasks or seqs or sessions)
    if asked is (consistency is not None) and not (rebuild and not asked):
        raise GatewayError(
            "Name what to prove: --task, --session or --seq for a bundle, or --consistency."
        )
    if without_texts and not asked:
        raise GatewayError("--without-texts is about a bundle; name its records as well.")
    if to is not None and consistency is None:
        raise GatewayError("--to works only with --consistency; add it.")
    try:
        directories = ledgers or [_settings(config).ledger_dir]
        if rebuild:
            _rebuild(directories)
        if consistency is not None:
            _prove_growth(directories, consistency, to, output)
        elif asked:
            made = output or Path("bundle.zip")
            _prove_records(directories, selection, made, with_texts=not without_texts)
    except LedgerError as wrong:
        raise GatewayError(str(wrong)) from wrong


def _settings(config: Path | None) -> Settings:
    from gateway.settings import load_settings

    return load_settings(config)[0]


def _rebuild(directories: Sequence[Path]) -> None:
    from gateway.errors import GatewayError
    from shared.ledger.tiles import rebuild

    for directory in directories:
        try:
            size = rebuild(directory)
        except OSError as wrong:
            raise GatewayError(
                f"The tiles of {directory} cannot be written ({wrong.strerror}); check its owner."
            ) from wrong
        print(f"Made the tree of {size} records in {directory} anew.")


def _prove_records(
    directories: Sequence[Path], selection: Selection, output: Path, *, with_texts: bool
) -> None:
    from shared.ledger.bundle_make import make_bundle, write_bundle

    made = make_bundle(directories, selection, with_texts=with_texts)
    write_bundle(output, made)
    print(f"{output}: {made.records} records for {selection.words()}, {len(made.data)} bytes")
    for line in _remarks(made):
        print(f"note: {line}", file=sys.stderr)
    if with_texts and any("/texts/" in name for log in made.logs for name in log.files):
        print(
            "note: the policy texts are in it, with your own terms if there are any; "
            "--without-texts leaves them out.",
            file=sys.stderr,
        )


def _remarks(made: Made) -> list[str]:
    remarks = []
    for log in made.logs:
        if not log.anchored:
            remarks.append(
                f"nobody outside has seen this checkpoint of {log.origin} yet; `sphragis anchor` "
                "sends it out."
            )
        if log.texts_missing:
            remarks.append(f"{log.origin} does not have {log.texts_missing} text(s) it names.")
        if log.tiles_wrong:
            remarks.append(
                f"the tree's files of {log.origin} are damaged, the records were used instead; "
                "`sphragis proof --rebuild-tiles` makes them anew."
            )
    return remarks


def _prove_growth(
    directories: Sequence[Path], old: Path, new: Path | None, output: Path | None
) -> None:
    from gateway.errors import GatewayError
    from shared.ledger.bundle_make import write_private
    from shared.ledger.proofs import Prover

    if len(directories) > 1:
        raise GatewayError("A consistency proof is about one ledger; give only one --ledger.")
    with Prover(directories[0]) as prover:
        after = prover.newest() if new is None else _read_note(new)
        found = prover.consistency(_read_note(old), after)
        before, now = prover.check(found.old), prover.check(found.new)
    if output is not None:
        write_private(output, found.text().encode())
    else:
        print(found.text(), end="")
    print(
        f"The proof holds: the first {before.size} of the {now.size} records of {now.origin} are "
        "the ones that the older checkpoint signs.",
        file=sys.stderr,
    )


def _read_note(path: Path) -> str:
    from gateway.errors import GatewayError
    from shared.ledger.checkpoint import MAX_NOTE

    try:
        with path.open("rb") as file:
            return file.read(MAX_NOTE + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as wrong:
        raise GatewayError(f"{path} cannot be read as a checkpoint; name a signed note.") from wrong


@verbs.command()
def receipt(
    session: Annotated[str, typer.Option(help="The session.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write it to this file.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="A ledger directory; the gateway's own if not given.")
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="The directory of the ledger's key, with --ledger.")
    ] = None,
    *,
    config: Config = None,
) -> None:
    """Sign one page about a session.

    It has counts, totals, what is open, the first and the last record.
    """
    import time

    from gateway.errors import GatewayError
    from shared.ledger import LedgerError
    from shared.ledger.bundle_make import write_private
    from shared.ledger.proofs import Prover
    from shared.ledger.run_receipt import make_run_receipt, signer_for

    if (ledger is None) is not (keys is None):
        raise GatewayError("Give --ledger and --keys together, or none of them.")
    try:
        settings = _settings(config) if ledger is None else None
        directory = ledger or (settings.ledger_dir if settings else Path())
        folder = keys or (settings.keys_dir if settings else Path())
        with Prover(directory) as prover:
            signer = signer_for(prover, folder)
            note = make_run_receipt(prover, session, signer, made=time.time_ns() // 1000)
        if output is None:
            print(note, end="")
        else:
            write_private(output, note.encode())
            print(f"{output}: the receipt of session {session}")
    except LedgerError as wrong:
        raise GatewayError(str(wrong)) from wrong
