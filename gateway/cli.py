"""The `sphragis` command: verbs, options and exit codes. Wiring only.

Invariants: every failure is one sentence, `error: …`, on standard error; `verify` exits 0 intact,
1 tampered, 2 incomplete, 3 wrongly called; `scan` 0 nothing found, 1 something found, 3 wrongly
called; `evidence` 0 done, 1 changed, 2 missing (both of its check), 3 not done; every other verb
exits 0 or 1. Nothing heavy is imported before the verb that needs it runs, because decks probe this
program often.
`main` is the console script; `run` is the same with arguments and result as values.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
from typer.exceptions import TyperException

from gateway import vault_cli
from gateway.errors import GatewayError
from gateway.verbs import erasing, proving, reading, repairing, witnessing
from shared import __version__, streams

PID_FILE: Final = "sphragis.pid"
#: `verify` called wrongly (contracts/ledger.md section 2.10); `scan` as well, because its 1 says
#: that something was found, and `evidence`, whose check says 1 for changed.
WRONGLY_CALLED: Final = 3
#: Seconds that `stop` waits at most: a day, far below what the system takes.
MAX_PATIENCE: Final = 86_400
#: How writing to standard output fails: a full disk, a used-up quota, a closed one, a lost one.
_UNWRITTEN: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EBADF, errno.EIO})
#: Stands in an argument for a byte that is no UTF-8.
_LONE: Final = re.compile("[\ud800-\udfff]")
_TELLING: Final = frozenset({"verify", "scan", "evidence"})

app = typer.Typer(
    name="sphragis",
    help="A gateway that scans, replaces and records every call your agents make to a model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    streams.make_whole()
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:  # the failure that was told comes first
        streams.drop_output()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command line; return the exit code."""
    failure = WRONGLY_CALLED if _TELLING.intersection(arguments[:1]) else 1
    if not arguments:
        arguments = ["--help"]
    if "--json" in arguments:
        streams.print_as_utf8()
    try:
        code = app(args=list(arguments), prog_name="sphragis", standalone_mode=False)
        sys.stdout.flush()
    except TyperException as wrong:
        told = wrong.format_message().rstrip(".")
        end = "" if told.endswith("?") else "."
        return _fail(f"{told}{end} Run `sphragis --help` for the verbs.", failure)
    except GatewayError as wrong:
        return _fail(str(wrong), failure)
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # The reader of our output has enough.
        streams.drop_output()
        return failure
    except OSError as wrong:
        return _fail(_unusable(wrong), failure)
    except Exception as error:
        from gateway.logs import where

        if any(_LONE.search(argument) for argument in arguments):
            return _fail("Only the name of a file may be other than UTF-8; correct it.", failure)
        return _fail(f"The program itself failed ({where(error)}); please report this.", failure)
    return code if isinstance(code, int) else 0


def _fail(sentence: str, code: int) -> int:
    print(streams.failure_line(sentence), file=sys.stderr)
    return code


def _unusable(wrong: OSError) -> str:
    """Say which file the system refused, or that it was our own output."""
    reason = wrong.strerror or type(wrong).__name__
    if isinstance(wrong.filename, str | bytes):
        # Where the system refuses even to look, as in a folder that is not ours.
        return f"{os.fsdecode(wrong.filename)} cannot be used ({reason}); correct the path."
    if wrong.errno not in _UNWRITTEN:
        from gateway.logs import where

        return f"The program itself failed ({reason}: {where(wrong)}); please report this."
    streams.drop_output()
    return f"The output cannot be written ({reason}); what was done before that stays done."


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"sphragis {__version__}")
        raise typer.Exit


app.add_typer(vault_cli.verbs)
for _group in (repairing, proving, witnessing, erasing, reading):
    app.add_typer(_group.verbs)
app.command()(vault_cli.doctor)


@app.callback()
def _root(
    _: Annotated[
        bool,
        typer.Option(
            "--version", "-v", help="Print the version.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


@app.command()
def version() -> None:
    """Print the version."""
    _show_version(True)


@app.command()
def serve(
    config: Annotated[Path | None, typer.Option(help="Settings file (TOML, or flat YAML).")] = None,
    listen: Annotated[str | None, typer.Option(help="HOST:PORT; `:PORT` means 127.0.0.1.")] = None,
    listen_all: Annotated[
        bool, typer.Option("--listen-all", help="Let `:PORT` mean every interface.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Answer from the built-in offline provider.")
    ] = False,
    offline_record: Annotated[
        Path | None, typer.Option(help="With --offline: record what the provider received.")
    ] = None,
) -> None:
    """Run the gateway in the foreground.

    It ends with SIGINT or SIGTERM.
    """
    from gateway.app import Offline, run_gateway
    from gateway.settings import load_settings

    if offline_record is not None and not offline:
        raise GatewayError("--offline-record works only with --offline; add it.")
    settings, warnings = load_settings(
        config, listen_addr=listen, listen_all=True if listen_all else None
    )
    run_gateway(settings, warnings, Offline(offline_record) if offline else None)


@app.command()
def stop(
    patience: Annotated[float, typer.Option(help="Seconds to wait for the end.")] = 10.0,
) -> None:
    """Stop the running gateway and wait for its end."""
    from gateway import pidfile

    if not 0 <= patience <= MAX_PATIENCE:  # nan is not
        raise GatewayError(f"--patience takes 0 to {MAX_PATIENCE} seconds; correct it.")
    home = _home()
    running = pidfile.read(home / PID_FILE)
    if running is None:
        print(f"No gateway of {home} is running.")
        return
    if not pidfile.terminate(running, patience):
        raise GatewayError(
            f"The gateway (pid {running.pid}) has not ended within {patience:g} seconds; "
            "it may still be finishing calls: look again, or end it with kill."
        )
    print(f"Stopped the gateway (pid {running.pid}).")


@app.command()
def status() -> None:
    """Tell whether the gateway runs and takes calls.

    The exit code is 0 only if it does.
    """
    from gateway import pidfile

    home = _home()
    running = pidfile.read(home / PID_FILE)
    if running is None:
        raise GatewayError(f"No gateway of {home} is running; start one with `sphragis serve`.")
    reasons = _ask_ready(running.address)
    if reasons:
        raise GatewayError(
            f"The gateway (pid {running.pid}, {running.address}) takes no calls: {reasons[0]}"
        )
    print(f"running: pid {running.pid}, http://{running.address}, ready")


@app.command()
def verify(
    path: Annotated[
        Path, typer.Argument(help="A ledger directory, one of its files, or a proof bundle.")
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
    vkey: Annotated[
        list[str] | None, typer.Option(help="The log's public key, from a place you trust.")
    ] = None,
    log_id: Annotated[str, typer.Option(help="The hash of record 0, as you noted it.")] = "",
    prior: Annotated[
        list[Path] | None, typer.Option(help="A checkpoint of the log that you kept.")
    ] = None,
    receipt: Annotated[
        list[str] | None, typer.Option(help="A receipt you kept, or a file with one per line.")
    ] = None,
    cosignature: Annotated[
        list[Path] | None, typer.Option(help="A checkpoint with a witness's signature.")
    ] = None,
    witness: Annotated[
        list[str] | None, typer.Option(help="The vkey of that witness, one for each.")
    ] = None,
    tsr: Annotated[
        list[Path] | None, typer.Option(help="An RFC 3161 stamp; its checkpoint is beside it.")
    ] = None,
    tsa_ca: Annotated[
        Path | None, typer.Option(help="The certificate of the time-stamp authority (PEM).")
    ] = None,
) -> None:
    """Check a ledger or a proof bundle.

    Exit 0 intact, 1 tampered, 2 incomplete, 3 wrongly called.

    Whatever you hold outside of the ledger (a receipt, a checkpoint, a stamp) shows whether it is
    still the ledger it was, even to someone who has its key.
    """
    from gateway.verifying import verify_and_print
    from shared.ledger.claims import Outside

    outside = Outside(
        priors=prior or (),
        receipts=receipt or (),
        cosignatures=cosignature or (),
        witnesses=witness or (),
        stamps=tsr or (),
        authority=tsa_ca,
    )
    code = verify_and_print(path, as_json=as_json, vkeys=vkey or (), log_id=log_id, outside=outside)
    raise typer.Exit(code)


Policies = Annotated[
    Path | None, typer.Option("--policy", help="Policy file; the gateway's own if not given.")
]
Config = Annotated[Path | None, typer.Option("--config", help="Settings file of the gateway.")]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write to this file (it may be the same).")
]
Source = Annotated[str, typer.Argument(help="A file, or - for standard input.")]


@app.command()
def scan(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Files, folders, or - for standard input.")
    ] = None,
    policy: Policies = None,
    config: Config = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one object for each find.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the values themselves.")] = False,
) -> None:
    """Show what would be found in files, where and why.

    Exit 0 nothing, 1 something, 3 wrongly called.
    """
    from gateway.inspecting import scan_and_print

    raise typer.Exit(
        scan_and_print(paths or [], policy=policy, config=config, as_json=as_json, show=show)
    )


@app.command()
def redact(
    source: Source = "-",
    *,
    output: Output = None,
    role: Annotated[str, typer.Option(help="Whose tokens to use; nobody's if not given.")] = "",
    mask: Annotated[
        bool, typer.Option("--mask", help="Replace for good, by [KIND]; no vault is touched.")
    ] = False,
    policy: Policies = None,
    config: Config = None,
) -> None:
    """Copy a text with every value replaced by a token.

    `reveal` restores it.
    """
    from gateway.replacing import redact_file

    redact_file(source, output, role=role, mask=mask, policy=policy, config=config)


@app.command()
def reveal(
    source: Source = "-",
    *,
    output: Output = None,
    role: Annotated[str, typer.Option(help="Whose tokens to restore; nobody's if not given.")] = "",
    all_roles: Annotated[bool, typer.Option("--all-roles", help="Restore everybody's.")] = False,
    policy: Policies = None,
    config: Config = None,
) -> None:
    """Copy a text with its tokens restored.

    This needs the vault and its key.
    """
    from gateway.replacing import reveal_file

    reveal_file(source, output, role=role, all_roles=all_roles, policy=policy, config=config)


@app.command()
def coverage(
    url: Annotated[
        str | None,
        typer.Option(help="A running gateway to test; without it, one is started for the test."),
    ] = None,
    provider_listen: Annotated[
        str, typer.Option(help="Where the recording provider listens (port 0: a free one).")
    ] = "127.0.0.1:0",
    *,
    config: Config = None,
    every: Annotated[bool, typer.Option("--all", help="Print every position.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print every cell as JSON.")] = False,
    routes: Annotated[
        bool, typer.Option("--routes", help="Print the calls that are forwarded, and stop.")
    ] = False,
) -> None:
    """Prove that nothing gets past the gateway.

    Canaries are planted in every field of every format, and looked for at a provider.
    """
    from gateway.coverage.report import print_coverage, print_routes

    if routes:
        print_routes()
        return
    raise typer.Exit(
        print_coverage(url=url, listen=provider_listen, config=config, as_json=as_json, every=every)
    )


@app.command("offline-provider")
def offline_provider(
    listen: Annotated[
        str, typer.Option(help="HOST:PORT on this machine; port 0 takes a free one.")
    ] = "127.0.0.1:0",
    record: Annotated[
        Path | None, typer.Option(help="Append every request received to this JSON lines file.")
    ] = None,
    delay_ms: Annotated[
        int, typer.Option(min=0, max=10_000, help="Pause between two streamed events.")
    ] = 0,
) -> None:
    """Run a model provider that answers by rule.

    No network, key or account is needed.
    """
    from gateway.app import run_offline_provider

    run_offline_provider(listen, record, delay_ms / 1000)


def _home() -> Path:
    """Return the home directory, which only the environment names: a gateway can be stopped even
    when its settings are broken by now."""
    return Path(os.path.expanduser(os.environ.get("SPHRAGIS_HOME") or "~/.sphragis"))


def _ask_ready(address: str) -> list[str]:
    import http.client
    import json

    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=2)
    try:
        connection.request("GET", "/readyz")
        return list(json.loads(connection.getresponse().read())["reasons"])
    except (OSError, ValueError, KeyError, http.client.HTTPException):
        return ["it does not answer."]
    finally:
        connection.close()


if __name__ == "__main__":
    main()
