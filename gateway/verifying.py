"""`sphragis verify`: runs the ledger's verifier and prints its verdict for people or programs.

Decides nothing: the verdict and the exit code are `shared.ledger.verify_path`'s. The first line
and the `merkle_root:` line of an intact log are those of existing gateways, which scripts read.
Called by `gateway.cli`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import orjson

from gateway.errors import GatewayError
from shared.ledger import Finding, LedgerError, Status, Verdict, verify_path
from shared.ledger.bundle import is_bundle
from shared.ledger.claims import Outside

#: Findings printed in full; the rest are counted.
SHOWN: Final = 20

Progress = Callable[[int, int], None]


class VerifyUsage(GatewayError):
    """There is nothing to verify at the path, or the key is not a key."""


def verify_and_print(
    path: Path,
    *,
    as_json: bool,
    vkeys: Sequence[str] = (),
    log_id: str = "",
    outside: Outside | None = None,
) -> int:
    """Verify the log or bundle at `path`, print the verdict, return the exit code.

    Raises VerifyUsage when the call itself is wrong.
    """
    if not path.exists():
        raise VerifyUsage(f"There is nothing at {path}; name a ledger directory or file.")
    _refuse_unchecked(path, log_id, outside or Outside())
    try:
        with _progress(quiet=as_json) as progress:
            verdict = verify_path(
                path, vkeys=vkeys, log_id=log_id, outside=outside or Outside(), progress=progress
            )
    except (LedgerError, ValueError) as wrong:
        raise VerifyUsage(str(wrong)) from wrong
    if verdict.status is Status.USAGE:
        raise VerifyUsage(verdict.findings[0].sentence)
    if as_json:
        print(orjson.dumps(verdict.as_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        _print(verdict)
    return verdict.exit_code


def _refuse_unchecked(path: Path, log_id: str, outside: Outside) -> None:
    """Refuse what would be passed over or could not be judged: an OK must not be read as being
    about it, and a call that lacks something is no tampering."""
    if is_bundle(path):
        unused = {
            "--prior": outside.priors,
            "--receipt": [text for text in outside.receipts if text.count(";") == 4],
            "--cosignature": outside.cosignatures,
            "--tsr": outside.stamps,
            "--log-id": log_id,
        }
        for option, value in unused.items():
            if value:
                raise VerifyUsage(
                    f"{option} is about a whole ledger, this is a bundle; leave it out, or verify "
                    "a copy of the ledger with it."
                )
    elif len(outside.cosignatures) != len(outside.witnesses):
        raise VerifyUsage("Give one --witness for each --cosignature, in the same order.")
    elif outside.stamps and outside.authority is None:
        raise VerifyUsage("A stamp is checked against its authority; give --tsa-ca as well.")


def _print(verdict: Verdict) -> None:
    if verdict.exit_code == 0:
        print(f"OK: {verdict.records} records, chain intact")
    else:
        print(f"{verdict.status.upper()}: {verdict.records} records read", file=sys.stderr)
    for finding in verdict.findings[:SHOWN]:
        print(_line(finding), file=sys.stderr)
    hidden = len(verdict.findings[SHOWN:]) + verdict.more
    if hidden:
        print(f"and {hidden} more findings", file=sys.stderr)
    for note in verdict.notes[:SHOWN]:
        print(f"note: {_line(note)}", file=sys.stderr)
    if verdict.exit_code == 0:
        print(f"merkle_root: {verdict.root}")
        print("checkpoint:")
        for line in verdict.checkpoint.strip().split("\n"):
            print(f"  {line}")


def _line(finding: Finding) -> str:
    named = finding.seq is None or str(finding.seq) in finding.sentence
    place = "" if named else f"record {finding.seq}: "
    return f"{place}{finding.sentence} [{finding.code}]"


@contextlib.contextmanager
def _progress(*, quiet: bool) -> Iterator[Progress | None]:
    """Draw a bar on a terminal; `rich` is imported only there."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    with Bar(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("verifying", total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield update
