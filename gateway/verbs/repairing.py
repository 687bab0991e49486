"""The verbs that put a ledger right: `repair`, `key rotate`, `key show`.

Invariants: nothing is given up without --accept-loss and a reason; no private key is ever
printed. A ledger in use is not repaired; its key is changed by the program that uses it, through
the gateway's control socket. Wiring only: what happens is in `shared.ledger`. Called by
`gateway.cli`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.errors import GatewayError

if TYPE_CHECKING:
    from gateway.settings import Settings
    from shared.ledger.repair import Damage

verbs = typer.Typer(rich_markup_mode=None)
key = typer.Typer(
    name="key", help="The keys that sign the ledger.", no_args_is_help=True, rich_markup_mode=None
)
verbs.add_typer(key)

Config = Annotated[Path | None, typer.Option(help="Settings file (TOML, or flat YAML).")]
Keys = Annotated[
    Path | None, typer.Option(help="Where its keys are, if not beside it or in the settings.")
]
Ledgers = Annotated[
    Path | None, typer.Argument(metavar="[DIR]", help="The ledger; the gateway's if not given.")
]
#: How many of the files that would move are named.
SHOWN = 10


@verbs.command()
def repair(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The ledger's directory.")],
    *,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Go on without what is lost.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why; it becomes part of the ledger.")] = "",
    operator: Annotated[str, typer.Option(help="Who decides; your user name if not given.")] = "",
    keys: Keys = None,
    config: Config = None,
) -> None:
    """Show what a ledger that does not open has lost.

    With --accept-loss it goes on without it.

    A backup is better: restore it if there is one. What is damaged is moved to quarantine/, and a
    record says how many records were lost, why, and by whose decision.
    """
    from shared.ledger.errors import LedgerError
    from shared.ledger.repair import opened

    if accept_loss and not reason.strip():
        raise GatewayError("Say with --reason why the loss is accepted; the ledger records it.")
    try:
        with opened(directory, _keys_of(directory, keys, config)) as work:
            damage = work.look()
            if not damage.problem:
                print(f"{directory} needs no repair.")
                return
            _print(damage)
            if not accept_loss and not damage.begun:
                print("Nothing was changed. Restore a backup, or accept the loss:")
                print(f'  sphragis repair {directory} --accept-loss --reason "…"')
                raise typer.Exit(1)
            number = work.accept_loss(reason.strip(), operator or _user())
    except LedgerError as wrong:
        raise GatewayError(str(wrong)) from wrong
    print(f"Repaired. Record {number} says what was lost; the damaged files are in quarantine/.")


def _print(damage: Damage) -> None:
    print(damage.problem)
    print(f"kept: {damage.kept} records")
    if damage.lost > 0:
        last = damage.committed - 1
        print(f"lost: {damage.lost} records that were committed ({damage.kept} to {last})")
        if damage.known_by:
            print(f"      known by {', '.join(damage.known_by[:SHOWN])}")
    else:
        print("lost: no record that anything in the directory speaks of")
    if damage.cut:
        print(f"cut:  {damage.cut} damaged bytes, kept in quarantine/")
    for name in damage.moved[:SHOWN]:
        print(f"move: {name} to quarantine/")
    if len(damage.moved) > SHOWN:
        print(f"      and {len(damage.moved) - SHOWN} more files")


@key.command("rotate")
def rotate(directory: Ledgers = None, *, keys: Keys = None, config: Config = None) -> None:
    """Change the key that signs the ledger; beside a running gateway, it does it itself.

    Both keys sign until the segment ends, so whoever knows the old one can follow; then the old
    private key is destroyed.
    """
    from shared.ledger.errors import LedgerError, LedgerLocked

    settings = _settings(config)
    where = directory or settings.ledger_dir
    try:
        vkey = _rotate_closed(where, _keys_of(where, keys, config))
    except LedgerLocked as locked:
        if where.resolve() != settings.ledger_dir.resolve():
            raise GatewayError(str(locked)) from locked
        _rotate_running(settings)
        vkey = _identity(where)["vkeys"][-1]
    except LedgerError as wrong:
        raise GatewayError(str(wrong)) from wrong
    print("The ledger has a new key; auditors who know an earlier one need not do anything.")
    print(f"vkey: {vkey}")


def _rotate_closed(directory: Path, keys: Path) -> str:
    from shared.ledger import Ledger

    with Ledger.open(directory, keys=keys, origin=_identity(directory)["origin"]) as ledger:
        return ledger.rotate_key()


def _rotate_running(settings: Settings) -> None:
    from gateway.control_client import ask

    ask(settings.home, "/v1/rotate-key")


@key.command("show")
def show(
    directory: Ledgers = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    config: Config = None,
) -> None:
    """Print the public keys of a ledger and its log id: what an auditor is given."""
    import json

    from shared.ledger.directory import log_id

    where = directory or _settings(config).ledger_dir
    identity = _identity(where)
    first = log_id(where)
    if as_json:
        print(json.dumps({"origin": identity["origin"], "log_id": first, **_vkeys(identity)}))
        return
    print(f"origin: {identity['origin']}")
    print(f"log id: {first or '(record 0 was pruned or not written yet)'}")
    for vkey in identity["vkeys"]:
        print(f"vkey:   {vkey}")
    print()
    print("Give an auditor the log id and one vkey on a way that does not pass this")
    print("machine: on paper, by telephone, in a contract. Any of the vkeys is enough. With")
    print("them and a copy of the ledger they run: sphragis verify COPY --vkey VKEY")


def _vkeys(identity: dict[str, Any]) -> dict[str, Any]:
    return {"vkeys": identity["vkeys"], "vkey": identity["vkeys"][-1]}


def _identity(directory: Path) -> dict[str, Any]:
    from shared.ledger.directory import read_log_json
    from shared.ledger.errors import LedgerError

    if not (directory / "log.json").exists():
        raise GatewayError(f"There is no ledger in {directory}; name its directory.")
    try:
        return read_log_json(directory)
    except LedgerError as wrong:
        raise GatewayError(str(wrong)) from wrong


def _keys_of(directory: Path, keys: Path | None, config: Path | None) -> Path:
    """Return where the keys of a ledger are: as said, as set, or beside it."""
    if keys is not None:
        return keys
    settings = _settings(config)
    if directory.resolve() == settings.ledger_dir.resolve():
        return settings.keys_dir
    return directory.parent / "keys"


def _settings(config: Path | None) -> Settings:
    from gateway.settings import load_settings

    return load_settings(config)[0]


def _user() -> str:
    import getpass
    import os

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
