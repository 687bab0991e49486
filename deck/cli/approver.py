"""`choragos approver add | list | remove`: the people whose signatures decide gates.

Owns these verbs' options, questions and output. They are refused inside the team. A key that is
made counts from the next start of a session: who decides in a running one is fixed. The keys are
`deck.approver_keys`', the team file is changed by `deck.team_file`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from deck.cli.failure import fail, here
from deck.cli.passphrase import ask_passphrase

Name = Annotated[str, typer.Argument(help="The approver's name, as records will have it.")]
KeyDir = Annotated[
    Path | None,
    typer.Option("--key-dir", help="Where keys are, instead of the user's configuration."),
]
TeamFile = Annotated[
    Path | None, typer.Option("--config", help="The team file, if not .choragos.toml.")
]
_NEXT: Final = "Decisions are signed from the next start of a session on."

_group = typer.Typer(help="Manage who decides gates with a signature.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.add_typer(_group, name="approver")


@_group.command("add")
def add(name: Name, key_dir: KeyDir = None, config: TeamFile = None) -> None:
    """Make a key with a passphrase of yours, and name it in the team file."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from deck.approver_keys import KeyProblem, check_passphrase, key_directory, store_key
    from deck.approvers import BadApprover, check_name, public_text
    from deck.team_file import TABLE, approver_line

    _refuse_inside()
    try:
        check_name(name)
    except BadApprover as bad:
        fail(f"{name} {bad}")
    team, directory = _team_file(config), key_directory(key_dir)
    key = Ed25519PrivateKey.generate()
    public = public_text(key.public_key().public_bytes_raw())
    try:
        before, after, why_not = _with(team, name, public)
        if (directory / f"{name}.pem").exists():
            raise KeyProblem(
                f"{directory / name}.pem exists already and is not overwritten; "
                f"`choragos approver list` shows its line for the team file"
            )
        passphrase = ask_passphrase(f"new passphrase of {name}", twice=True)
        check_passphrase(passphrase)
        path = store_key(directory, name, key, passphrase)
    except KeyProblem as problem:
        fail(problem)
    typer.echo(f"the key of {name} is in {path}; without the passphrase it is lost")
    if after is None:
        typer.echo(f"{why_not}; add these lines to the team file yourself:\n")
        typer.echo(f"[{TABLE}]\n{approver_line(name, public)}\n")
    else:
        _write(team, before, after)
        typer.echo(f"{team.name} now names {name} as an approver")
        _warn_if_unusable(team, after)
    typer.echo(f"{_NEXT} Then: choragos approve G1 --as {name}")


@_group.command("list")
def list_them(key_dir: KeyDir = None, config: TeamFile = None) -> None:
    """List the approvers of the team file, and the keys on this machine."""
    from deck.approver_keys import key_directory, key_names, public_line
    from deck.config import ConfigError
    from deck.team_reader import load_config

    directory = key_directory(key_dir)
    try:
        named = load_config(config, here()).approvers
    except ConfigError as problem:
        typer.echo(f"warning: {problem}", err=True)
        named = _named(_team_file(config))
    keys = key_names(directory)
    for name, public in named.items():
        typer.echo(f"{name:<16} {public}{'  key here' if name in keys else ''}")
    for name in keys:
        if name not in named:
            line = public_line(directory, name) or "its file has no line for the team file"
            typer.echo(f"{name:<16} not in the team file: {line}")
    if not named and not keys:
        typer.echo("no approvers; decisions are not signed")


@_group.command("remove")
def remove(name: Name, config: TeamFile = None) -> None:
    """Take an approver out of the team file; the key stays where it is."""
    from deck.config import ConfigError
    from deck.team_file import CannotEdit, without_approver
    from deck.team_reader import parse_config

    _refuse_inside()
    team = _team_file(config)
    try:
        before = _bytes_of(team)
        after = without_approver(before, name)
        parse_config(after, team)
    except OSError as failure:
        fail(f"{team} cannot be read: {failure.strerror}")
    except CannotEdit as problem:
        fail(f"{team.name}: {problem}; nothing was changed")
    except ConfigError as problem:
        fail(f"without {name} the team could not be run, so nothing was changed: {problem}")
    _write(team, before, after)
    typer.echo(f"{team.name} no longer names {name}. {_NEXT.replace('signed', 'counted so')}")


def _refuse_inside() -> None:
    """An agent makes no approver, whichever way it was started."""
    from deck.callers import peer_of
    from deck.processes import SEAT_MARK
    from deck.sessions import SessionError, live_sessions

    peer = peer_of(os.getpid())
    try:
        decks = {session.pid for session in live_sessions()}
    except SessionError:
        decks = set()
    if peer.mark or SEAT_MARK in os.environ or decks & set(peer.ancestors):
        fail("approvers are made by people outside the team; this runs inside one")


def _team_file(config: Path | None) -> Path:
    from deck.team_reader import CONFIG_NAME

    return here() / (config if config is not None else CONFIG_NAME)


def _with(team: Path, name: str, public: str) -> tuple[bytes, bytes | None, str]:
    """Return the team file's text before and after, or why a person has to change it."""
    from deck.team_file import CannotEdit, with_approver

    try:
        before = _bytes_of(team)
    except FileNotFoundError:
        return b"", None, f"there is no {team.name} here"
    except OSError as failure:
        fail(f"{team} cannot be read: {failure.strerror}")
    if name in _named(team):
        fail(f"{team.name} names {name} already")
    if name in _roles(team):
        fail(f"{name} is the name of a role; an approver is a person: take another name")
    try:
        return before, with_approver(before, name, public), ""
    except CannotEdit as problem:
        return before, None, f"{team.name}: {problem}"


def _bytes_of(team: Path) -> bytes:
    """Return what the team file holds. Raises OSError, for a pipe or a device as well."""
    from deck.plain_files import read_plain
    from deck.team_reader import MAX_BYTES

    return read_plain(team, MAX_BYTES)


def _document(team: Path) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(_bytes_of(team).decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return {}


def _named(team: Path) -> dict[str, str]:
    found = _document(team).get("approvers")
    return {k: str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def _roles(team: Path) -> set[str]:
    found = _document(team).get("roles")
    roles = found if isinstance(found, list) else []
    return {str(role.get("name")) for role in roles if isinstance(role, dict)}


def _write(team: Path, before: bytes, after: bytes) -> None:
    from deck.team_file import replace_file

    try:
        if _bytes_of(team) != before:
            fail(f"{team.name} was changed meanwhile; nothing was written to it: do it again")
        replace_file(team, after)
    except OSError as failure:
        fail(f"{team} cannot be written: {failure.strerror}; see `choragos approver list`")


def _warn_if_unusable(team: Path, after: bytes) -> None:
    """What the file says beyond this line is not judged; that it cannot be run yet is said."""
    from deck.config import ConfigError
    from deck.team_reader import parse_config

    try:
        parse_config(after, team)
    except ConfigError as problem:
        typer.echo(f"warning: {problem}", err=True)
