"""The verbs that take checkpoints off the machine: `witness`, `anchor`.

Wiring only: what happens is in `shared.anchors`. Called by `gateway.cli`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

verbs = typer.Typer(rich_markup_mode=None)
witness = typer.Typer(
    help="Cosign heads of other machines' ledgers, or ask for it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
verbs.add_typer(witness, name="witness")

Memory = Annotated[
    Path, typer.Option("--dir", help="The witness's own directory: its key and what it has seen.")
]
Name = Annotated[
    str | None,
    typer.Option(help="The witness's name, such as witness.example.org; needed once."),
]
LedgerDir = Annotated[
    Path | None, typer.Argument(help="A ledger directory; the gateway's own if not given.")
]


@witness.command("serve")
def serve_witness(
    logs: Annotated[
        list[str], typer.Option("--log", help="vkey of a log to witness; may be repeated.")
    ],
    directory: Memory,
    listen: Annotated[
        str, typer.Option(help="HOST:PORT; a witness is meant to be reached from elsewhere.")
    ] = "127.0.0.1:8790",
    name: Name = None,
) -> None:
    """Run a witness in the foreground until SIGINT or SIGTERM; print its vkey."""
    from gateway.witnessing import run_witness

    run_witness(directory, name, logs, listen)


@witness.command("key")
def witness_key(directory: Memory, name: Name = None) -> None:
    """Print the witness's vkey, which the logs' owners need; make its key if there is none."""
    from gateway.witnessing import print_key

    print_key(directory, name)


@witness.command("client")
def witness_client(
    url: Annotated[str, typer.Option("--witness", help="The witness's URL.")],
    vkey: Annotated[str, typer.Option("--witness-key", help="The witness's vkey.")],
    ledger: LedgerDir = None,
) -> None:
    """Have the newest head of a ledger cosigned once; running gateways do so by themselves."""
    from gateway.witnessing import submit_once

    submit_once(url, vkey, ledger)


@verbs.command()
def anchor(
    ledger: LedgerDir = None,
    *,
    tsa: Annotated[
        str | None, typer.Option("--tsa", help="URL of an RFC 3161 time-stamping authority.")
    ] = None,
    tsa_command: Annotated[
        str | None, typer.Option(help="A program that reads a request and prints the response.")
    ] = None,
    tsa_ca: Annotated[
        Path | None, typer.Option(help="PEM certificates that the stamp must lead to.")
    ] = None,
    ots: Annotated[bool, typer.Option("--ots", help="Stamp with the program ots as well.")] = False,
) -> None:
    """Have the newest head of a ledger stamped now.

    Without options, as the settings say.
    """
    from gateway.witnessing import stamp_once

    stamp_once(ledger, url=tsa, command=tsa_command, ca_file=tsa_ca, ots=ots)


@verbs.command("neighbors")
def neighbors_recorded(
    origin: Annotated[str, typer.Argument(help="The origin of the ledger that is in doubt.")],
    ledger: LedgerDir = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A directory for one file a head.")
    ] = None,
) -> None:
    """Print the heads of another ledger that this one has.

    They are priors for `sphragis verify`.
    """
    from gateway.witnessing import print_recorded

    print_recorded(origin, ledger, output)
