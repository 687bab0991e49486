"""`sphragis export`: which log, in which format, where to, and into which ledger it is recorded.

Owns the way to the record. An export is recorded in the log it is from: through the running
gateway's control socket, or by opening a log that nobody holds. A log that another program holds
or whose key is not here gets its record in this gateway's own ledger, under its origin. Invariant:
an export that cannot be recorded is not delivered. Called by `gateway.verbs.reading` and, for
`CONTROL_OPERATIONS`, by `gateway.app`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from gateway.control_client import NoGateway, ask
from gateway.errors import GatewayError
from shared.exports import ExportRefused, LogFacts, facts_of, find_format
from shared.exports.registry import TILES
from shared.exports.writing import (
    Source,
    Written,
    copy_to,
    record_fields,
    to_directory,
    to_file,
    to_stream,
)
from shared.ledger import Ledger, LedgerError, LedgerLocked
from shared.ledger.selecting import Filter
from shared.paths import expanded

if TYPE_CHECKING:
    from gateway.app import Gateway
    from gateway.settings import Settings

#: What a deck's log is called, before its session's id; its key is in the user's state directory.
DECK_ORIGIN: Final = "choragos.local/deck/"
STDOUT: Final = "-"


@dataclass(frozen=True, slots=True)
class Order:
    """One export as it was asked for."""

    directory: Path
    format: str
    wanted: Filter
    output: str = STDOUT
    endpoint: str = ""


def export(order: Order, settings: Settings) -> str:
    """Carry out an export; return the sentence that says what was done.

    Raises GatewayError or LedgerError with the sentence that says what was not.
    """
    if order.format != TILES:
        find_format(order.format)
    log = facts_of(order.directory)
    source = Source(order.format, log, order.directory, order.wanted)
    recorded: list[str] = []

    def record(written: Written) -> int:
        ext = written.as_record(source, _destination(order))
        number, where = record_export(order.directory, log, ext, settings)
        recorded.append(where)
        return number

    written, number = _deliver(order, source, record)
    span = "" if written.first is None else f", {written.first} to {written.last}"
    return (
        f"Exported {written.count} record(s){span}, as {written.format} to {_destination(order)}; "
        f"recorded as {number} in {recorded[0]}; sha256 {written.sha256}"
    )


def _deliver(order: Order, source: Source, record: Callable[[Written], int]) -> tuple[Written, int]:
    if order.endpoint:
        return _to_endpoint(order, source, record)
    if order.format == TILES:
        return _tiles(order, record)
    if order.output == STDOUT:
        return to_stream(source, copy_to(sys.stdout.buffer), record)
    return to_file(source, expanded(order.output), record)


def _to_endpoint(
    order: Order, source: Source, record: Callable[[Written], int]
) -> tuple[Written, int]:
    from shared.exports.delivery import check_endpoint, send, shown

    if order.format != "otlp":
        raise ExportRefused("Only --format otlp can be sent to an endpoint; write a file instead.")
    if order.output != STDOUT:
        raise ExportRefused("Name a file or an endpoint, not both.")
    check_endpoint(order.endpoint)

    def deliver(file: IO[bytes]) -> None:
        rejected = send(file, order.endpoint)
        if rejected:
            raise ExportRefused(
                f"{shown(order.endpoint)} rejected {rejected} record(s) of the export; it took "
                "the others."
            )

    return to_stream(source, deliver, record)


def _tiles(order: Order, record: Callable[[Written], int]) -> tuple[Written, int]:
    from shared.ledger.tiles import export_tlog

    if order.wanted != Filter():
        raise ExportRefused("Tiles are of the whole log; leave the filters out.")
    if order.output == STDOUT:
        raise ExportRefused("Tiles are a directory; name it with -o.")

    def make(target: Path) -> int:
        return export_tlog(order.directory, target).size

    return to_directory(order.format, expanded(order.output), make, record)


def _destination(order: Order) -> str:
    """Say where an export goes, without what a path or URL may give away."""
    if order.endpoint:
        from shared.exports.delivery import shown

        return shown(order.endpoint)
    return "standard output" if order.output == STDOUT else Path(order.output).name


# -- the record ------------------------------------------------------------------------------------


def record_export(
    directory: Path, log: LogFacts, ext: Mapping[str, Any], settings: Settings
) -> tuple[int, str]:
    """Record an export durably; return its number and the origin of the ledger that has it.

    Raises ExportRefused when no ledger takes it.
    """
    own = settings.ledger_dir
    try:
        if directory.resolve() != own.resolve():
            keys = _keys_of(log)
            if keys is not None:
                try:
                    return _open_and_record(directory, keys, log.origin, ext)
                except LedgerLocked:
                    pass  # its program is running: this gateway's own ledger takes it
        return _record_in_own(own, ext, settings)
    except (GatewayError, LedgerError) as wrong:
        raise ExportRefused(
            f"The export was not made, because it cannot be recorded: {wrong}"
        ) from wrong


def _record_in_own(own: Path, ext: Mapping[str, Any], settings: Settings) -> tuple[int, str]:
    try:
        answer = ask(settings.home, "/v1/export-record", {"export": dict(ext)})
        return int(answer["seq"]), str(answer["origin"])
    except NoGateway:
        pass
    if not (own / "log.json").exists():
        raise ExportRefused(
            f"there is no ledger of this gateway at {own}; export where the log is written, or "
            "set SPHRAGIS_HOME."
        )
    return _open_and_record(own, settings.keys_dir, facts_of(own).origin, ext)


def _open_and_record(
    directory: Path, keys: Path, origin: str, ext: Mapping[str, Any]
) -> tuple[int, str]:
    with Ledger.open(directory, keys=keys, origin=origin) as ledger:
        receipt = ledger.append("export", record_fields(ext, _me())).result()
    return receipt.seq, origin


def _me() -> dict[str, Any]:
    """Return who runs this program."""
    import pwd

    uid = os.getuid()
    try:
        return {"uid": uid, "user": pwd.getpwuid(uid).pw_name}
    except KeyError:
        return {"uid": uid}


def _keys_of(log: LogFacts) -> Path | None:
    """Return the directory of a deck's signing key, if it is on this machine and ours."""
    if not log.origin.startswith(DECK_ORIGIN):
        return None
    name = log.origin.removeprefix(DECK_ORIGIN)
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    keys = Path(base) / "choragos" / "keys" / name
    return keys if name.isalnum() and (keys / "ledger.key").is_file() else None


async def _export_record(gateway: Gateway, body: dict[str, Any]) -> dict[str, Any]:
    """Record an export for a program that asks through the control socket."""
    said, by = body.get("export"), body.get("by")
    if gateway.ledger is None:
        raise ExportRefused("the ledger is being opened; try again.")
    who = by if isinstance(by, dict) else {}
    fields = record_fields(said if isinstance(said, dict) else {}, {"by": who, **_user_of(who)})
    receipt = await gateway.ledger.append_async("export", fields)
    return {"seq": receipt.seq, "origin": gateway.ledger.origin, "receipt": receipt.header()}


def _user_of(by: Mapping[str, Any]) -> dict[str, Any]:
    import pwd

    uid = by.get("uid")
    try:
        return {"uid": uid, "user": pwd.getpwuid(uid).pw_name} if type(uid) is int else {}
    except KeyError:
        return {"uid": uid}


#: For the gateway's control socket: name → operation.
CONTROL_OPERATIONS: Final[Mapping[str, Callable[[Gateway, dict[str, Any]], Any]]] = {
    "export-record": _export_record
}
