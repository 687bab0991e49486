"""What the verbs `witness`, `anchor` and `neighbors` do: a witness's life, and single anchors.

Invariants: the one-shot verbs need no lock, so they work beside a running gateway and only add
files under the ledger's `anchors`; whoever holds another history than ours makes a verb fail with
that sentence, never with a retry. Called by `gateway.verbs.witnessing`.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from gateway.errors import GatewayError
from gateway.listening import run_loop, stop_event, unlistenable
from gateway.logs import quiet_libraries, say
from gateway.settings import load_settings, parse_listen_addr
from shared.anchors.errors import AnchorError
from shared.anchors.files import keep_checkpoint, keep_cosignatures, published_head
from shared.ledger import LedgerError, parse_vkey
from shared.ledger.checkpoint import VerifierKey
from shared.ledger.storage import reason
from shared.paths import UnsafeDirectory, private_dir


class AnchoringFailed(GatewayError):
    """An anchor or a witness that could not be had; the sentence says why."""


@contextmanager
def _told() -> Iterator[None]:
    """Turn what goes wrong below into the sentence for the user."""
    try:
        yield
    except (AnchorError, LedgerError, UnsafeDirectory) as wrong:
        raise AnchoringFailed(str(wrong)) from wrong
    except OSError as wrong:
        place = f"{wrong.filename}: " if wrong.filename else ""
        raise AnchoringFailed(f"A file cannot be used ({place}{reason(wrong)}).") from wrong


def print_key(directory: Path, name: str | None) -> None:
    """Print the vkey of the witness in `directory`, made when a name is given."""
    from shared.anchors.cosignature import load_cosigner

    with _told():
        print(load_cosigner(private_dir(directory), name).key.vkey())


def run_witness(directory: Path, name: str | None, logs: Sequence[str], listen: str) -> None:
    """Serve as a witness of `logs` (vkeys) until SIGINT or SIGTERM."""
    from shared.anchors.cosignature import load_cosigner
    from shared.anchors.serving import start_witness
    from shared.anchors.witness import Witness
    from shared.anchors.witness_store import WitnessStore

    quiet_libraries()
    host, port = parse_listen_addr(listen, listen_all=True)
    with _told():
        known = _by_origin(logs)
        store = WitnessStore(directory, known)
        cosigner = load_cosigner(directory, name)

    async def serve() -> None:
        stop = stop_event()
        try:
            runner, url = await start_witness(Witness(cosigner, known, store), host, port, say)
        except OSError as wrong:
            raise unlistenable(host, port, wrong) from wrong
        try:
            print(cosigner.key.vkey(), flush=True)
            say(f"sphragis witness of {len(known)} logs listening on {url}")
            await stop.wait()
        finally:
            await runner.cleanup()

    try:
        run_loop(serve())
    finally:
        store.close()


def _by_origin(vkeys: Sequence[str]) -> dict[str, list[VerifierKey]]:
    known: dict[str, list[VerifierKey]] = {}
    for vkey in vkeys:
        key = parse_vkey(vkey)
        known.setdefault(key.name, []).append(key)
    return known


def submit_once(url: str, vkey: str, ledger: Path | None) -> None:
    """Have the newest head of a ledger cosigned; print the cosigned note."""
    from shared.anchors.client import WitnessClient, parse_target

    directory = ledger or load_settings()[0].ledger_dir
    with _told():
        client = WitnessClient(parse_target(f"{url} {vkey}"), directory)
        cosigned = client.submit(partial(published_head, directory))
        client.close()
        keep_checkpoint(directory, cosigned.head)
        line = cosigned.cosignature.line
        keep_cosignatures(directory, cosigned.head.size, [line])
    print(f"{cosigned.head.note}{line}")


def stamp_once(
    ledger: Path | None,
    *,
    url: str | None,
    command: str | None,
    ca_file: Path | None,
    ots: bool,
) -> None:
    """Have the newest head of a ledger stamped by everybody that is named."""
    from gateway.anchoring import authority_of
    from shared.anchors.tsa import Authority, stamp_head

    settings, _ = load_settings()
    directory = ledger or settings.ledger_dir
    authority = authority_of(settings)
    if url or command:
        authority = Authority(url or "", _words(command or ""), ca_file)
    ots = ots or (settings.ots and not (url or command))
    if authority is None and not ots:
        raise AnchoringFailed("No authority is named; give --tsa URL or --ots, or set tsa_url.")
    with _told():
        head = published_head(directory)
        if authority is not None:
            stamp = stamp_head(directory, head, authority)
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(stamp.time))
            chain = "" if stamp.chained else " (its certificates were not checked)"
            print(f"stamped {head.size} records at {when}{chain}: {stamp.path}")
        if ots:
            print(
                f"stamped {head.size} records: {_stamp_openly(directory, settings.ots_calendars)}"
            )


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError:
        raise AnchoringFailed(
            "--tsa-command ends inside a quotation; close it, or write it as a shell would read it."
        ) from None


def _stamp_openly(directory: Path, calendars: Sequence[str]) -> Path:
    from shared.anchors.files import OPEN_TIME_STAMP, anchor_path
    from shared.anchors.ots import find_program, stamp_head

    program = find_program()
    if program is None:
        raise AnchorError("The program ots is not installed; install opentimestamps-client.")
    head = published_head(directory)
    stamp_head(directory, head, program, calendars)
    return anchor_path(directory, head.size, OPEN_TIME_STAMP)


def print_recorded(origin: str, ledger: Path | None, output: Path | None) -> None:
    """Print, or write one file each, the heads of `origin` that a ledger recorded."""
    from shared.anchors.neighbors import anchor_records, heads_recorded

    directory = ledger or load_settings()[0].ledger_dir
    with _told():
        notes = heads_recorded(anchor_records(directory), origin)
        if not notes:
            raise AnchoringFailed(f"{directory} has recorded no head of {origin}.")
        if output is None:
            print("\n".join(notes), end="")
            return
        output.mkdir(parents=True, exist_ok=True)
        for number, note in enumerate(notes, 1):
            (output / f"{number:04d}-{note.split(chr(10))[1]}.checkpoint").write_text(note, "utf-8")
        print(f"{len(notes)} heads in {output}")
