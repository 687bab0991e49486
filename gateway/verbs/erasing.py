"""The verbs for kept evidence: `evidence`, `erase`, `hold`, `prune`.

Wiring only: what happens is in `shared.evidence`. Each works on a running gateway through its
control socket and on a closed ledger by itself. Called by `gateway.cli`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from shared.paths import expanded

verbs = typer.Typer(rich_markup_mode=None)
evidence = typer.Typer(
    name="evidence", help="Look at kept payloads.", no_args_is_help=True, rich_markup_mode=None
)
hold = typer.Typer(
    name="hold",
    help="Keep evidence from being erased while somebody needs it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
verbs.add_typer(evidence)
verbs.add_typer(hold)

Config = Annotated[Path | None, typer.Option(help="Settings file (TOML, or flat YAML).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Operator = Annotated[str, typer.Option(help="Who asks; your login name if not given.")]
Basis = Annotated[str, typer.Option(help="On what ground, for the record.")]
Subject = Annotated[str | None, typer.Option(help="Whose, as the policy's `subject` names it.")]
Session = Annotated[str | None, typer.Option(help="The session, as the client names it.")]
Before = Annotated[str | None, typer.Option(help="What was kept before this date, YYYY-MM-DD.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")]


@verbs.command()
def erase(
    basis: Basis,
    request: Annotated[str, typer.Option(help="An id of your own for this request.")],
    *,
    subject: Subject = None,
    session: Session = None,
    before: Before = None,
    expired: Annotated[
        bool, typer.Option("--expired", help="What no retention class or hold keeps any more.")
    ] = False,
    operator: Operator = "",
    new_key_file: Annotated[
        Path | None,
        typer.Option(help="Where the key comes from a variable or a command: the new key's file."),
    ] = None,
    dry_run: DryRun = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Erase kept payloads for good and record it.

    Their keys go, the rest is wrapped anew. The
    vault forgets the same role or session. Asked again, an erasure that was cut short goes on."""
    answer = _ask(
        config,
        "erase",
        subject=subject,
        session=session,
        before=before,
        expired=expired,
        basis=basis,
        operator=_operator(operator),
        request=request,
        new_key_file=str(expanded(new_key_file).resolve()) if new_key_file else None,
        dry_run=dry_run,
    )
    if as_json:
        print(json.dumps(answer))
    elif dry_run:
        print(
            f"Would erase {answer['keys']} key(s) of {len(answer['records'])} record(s), and "
            f"{answer['other']} vault owner(s)."
        )
        if answer["blocked"]:
            print(answer["blocked"])
    else:
        _print_erased(answer)


def _print_erased(answer: dict[str, Any]) -> None:
    seqs = ", ".join(map(str, answer["seqs"]))
    done = "had already erased" if answer["already"] else "erased"
    print(
        f"Request {answer['request']} {done} {answer['keys']} key(s) of {answer['records']} "
        f"record(s), {answer['files']} file(s), {answer['other']} vault entr(y/ies); record {seqs}."
    )
    if answer["new_key_file"]:
        print(
            f"Give the gateway the key in {answer['new_key_file']} from now on, destroy the old "
            "one where it is kept, and start the gateway again."
        )


@verbs.command()
def prune(
    basis: Basis,
    *,
    before: Annotated[
        str | None, typer.Option(help="Segments that ended before this date, YYYY-MM-DD.")
    ] = None,
    keep_days: Annotated[
        int | None, typer.Option(min=1, help="Segments that ended longer ago than this.")
    ] = None,
    operator: Operator = "",
    dry_run: DryRun = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Remove old sealed segments of the ledger.

    What stays proves as before. Seals are kept.
    """
    answer = _ask(
        config,
        "prune",
        before=before,
        keep_days=keep_days,
        basis=basis,
        operator=_operator(operator),
        dry_run=dry_run,
    )
    if as_json:
        print(json.dumps(answer))
        return
    would = "Would prune" if dry_run else "Pruned"
    recorded = "" if answer["seq"] is None else f"; record {answer['seq']}"
    print(f"{would} {answer['segments']} segment(s), {answer['records']} record(s){recorded}.")
    if answer["key_changes"]:
        print(
            f"{answer['key_changes']} change(s) of the log's key are among them; the record of the "
            "pruning carries them on (at most the newest 60), so an older key still verifies."
        )
    if dry_run and answer["blocked"]:
        print(answer["blocked"])


# -- holds -----------------------------------------------------------------------------------------


@hold.command("place")
def place(
    id: Annotated[str, typer.Argument(help="A name for the hold.")],
    reason: Annotated[str, typer.Option(help="Why, for the record.")],
    *,
    subject: Subject = None,
    session: Session = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Everything, and no pruning either.")
    ] = False,
    until: Annotated[
        str | None, typer.Option(help="Ends by itself on this date; else when released.")
    ] = None,
    operator: Operator = "",
    config: Config = None,
) -> None:
    """Forbid erasing and pruning until the hold ends or is released."""
    answer = _ask(
        config,
        "hold",
        do="place",
        id=id,
        reason=reason,
        subject=subject,
        session=session,
        all=everything,
        until=until,
        operator=_operator(operator),
    )
    print(f"The hold {answer['id']} is placed; record {answer['seq']}.")


@hold.command("release")
def release(
    id: Annotated[str, typer.Argument(help="The hold.")],
    reason: Annotated[str, typer.Option(help="Why, for the record.")],
    *,
    operator: Operator = "",
    config: Config = None,
) -> None:
    """End a hold."""
    answer = _ask(config, "hold", do="release", id=id, reason=reason, operator=_operator(operator))
    print(f"The hold {answer['id']} is released; record {answer['seq']}.")


@hold.command("list")
def list_holds(config: Config = None, as_json: AsJson = False) -> None:
    """Show the holds; people and sessions appear as keyed hashes."""
    import time

    from shared.evidence.holds import shown
    from shared.evidence.records import HOLD, records

    with _sentences():
        found = shown(records(_ledger(config), HOLD), time.time_ns() // 1000)
    if as_json:
        print(json.dumps(found))
        return
    for item in found:
        scope = ", ".join(f"{key} {str(value)[:16]}" for key, value in item["scope"].items())
        until = _date(item["until"]) if item["until"] else "released"
        print(f"{item['id']}  {item['state']}  {scope}  until {until}  record {item['seq']}")
        print(f"    {item['reason']}")
    if not found:
        print("There are no holds.")


# -- evidence --------------------------------------------------------------------------------------


@evidence.command("show")
def show(
    seq: Annotated[int | None, typer.Option(min=0, help="The record.")] = None,
    task: Annotated[str | None, typer.Option(help="All records of a task.")] = None,
    *,
    operator: Operator = "",
    config: Config = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object for each payload, in base64.")
    ] = False,
) -> None:
    """Print what was kept for a record or a task. That it was read is itself recorded."""
    import base64

    answer = _ask(config, "evidence-show", seq=seq, task=task, operator=_operator(operator))
    for item in answer["items"]:
        if as_json:
            print(json.dumps(item))
            continue
        head = f"record {item['seq']} ({item['type']}): {item['media']}, {item['bytes']} bytes"
        print(f"{head}, {item['state']}", file=sys.stderr)
        if "data" in item:
            sys.stdout.flush()
            sys.stdout.buffer.write(base64.b64decode(item["data"]))
            sys.stdout.buffer.write(b"\n")
            sys.stdout.buffer.flush()
    if not as_json:
        print(f"recorded as record {answer['recorded']}", file=sys.stderr)


@evidence.command("stats")
def stats(config: Config = None, as_json: AsJson = False) -> None:
    """Count what is kept; no key is needed."""
    from gateway.settings import load_settings
    from shared.evidence.showing import stats as count
    from shared.evidence.stores import KEYS_NAME

    settings, _ = load_settings(config)
    with _sentences():
        told = count(_ledger(config), settings.keys_dir / KEYS_NAME)
    if as_json:
        print(json.dumps(told))
        return
    for kind, number in sorted(told["payloads"].items()):
        print(f"{kind:<10} {number:>8} payload(s) {told['bytes'][kind]:>12} bytes")
    print(f"{'files':<10} {told['files']:>8} {' ' * 10} {told['file_bytes']:>12} bytes")
    for name, number in sorted(told["keys"].items()):
        print(f"{'keys':<10} {number:>8} of retention class {name}")
    print(f"{'subjects':<10} {told['subjects']:>8}, erased keys {told['erased_keys']}")


@evidence.command("check")
def check(config: Config = None, as_json: AsJson = False) -> None:
    """Compare the files with what the records name: exit 0 all there or erased by a record, 1
    something was changed, 2 something is missing."""
    from shared.evidence.showing import as_json as printed
    from shared.evidence.showing import check as compare

    with _sentences():
        found = compare(_ledger(config))
    if as_json:
        print(printed(found))
    else:
        for finding in found.findings[:20]:
            print(finding, file=sys.stderr)
        if len(found.findings) > 20:
            print(f"and {len(found.findings) - 20} more", file=sys.stderr)
        told = ", ".join(f"{count} {state}" for state, count in sorted(found.states.items()))
        print(f"{told or 'nothing is kept'}; {found.orphans} file(s) that no record names")
    raise typer.Exit(found.exit_code)


# -- parts of the above ----------------------------------------------------------------------------


def _ask(config: Path | None, name: str, **request: Any) -> dict[str, Any]:
    from gateway.erasing import ask_or_do

    given = {key: value for key, value in request.items() if value is not None}
    return ask_or_do(config, name, given)


def _operator(name: str) -> str:
    return name or login_name()


def login_name() -> str:
    """Return the login name of whoever runs this command."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def _ledger(config: Path | None) -> Path:
    from gateway.errors import GatewayError
    from gateway.settings import load_settings

    settings, _ = load_settings(config)
    if not (settings.ledger_dir / "log.json").exists():
        raise GatewayError(
            f"There is no ledger at {settings.ledger_dir}; check SPHRAGIS_HOME and audit_log_path."
        )
    return settings.ledger_dir


@contextlib.contextmanager
def _sentences() -> Iterator[None]:
    from gateway.errors import GatewayError
    from shared.evidence.errors import EvidenceError

    try:
        yield
    except EvidenceError as wrong:
        raise GatewayError(str(wrong)) from wrong


def _date(us: int) -> str:
    from shared.evidence.retention import date_of

    return date_of(us)
