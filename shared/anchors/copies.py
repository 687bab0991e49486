"""Copies of each published head to wherever the owner wants it: a program, a file, syslog.

Owns the three ways and the one line that is written: origin, size, root in base64, Unix seconds.
Invariant: a copy is complete or an error; nothing is half written by us into a file that another
program reads. What such a copy proves depends on who can change the place it went to. Blocking;
called off the loop by `head_jobs`.
"""

from __future__ import annotations

import base64
import os
import socket
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from shared.anchors.errors import AnchorError
from shared.anchors.files import Head
from shared.anchors.programs import TIMEOUT as PROGRAM_TIMEOUT
from shared.anchors.programs import run_program
from shared.ledger.storage import Disk, reason

#: Seconds a copy gets on the way to syslog.
TIMEOUT: Final = 5.0
#: RFC 5424: facility 13 (log audit), severity 5 (notice).
PRIORITY: Final = 13 * 8 + 5
UNIX: Final = "unix:"
UDP: Final = "udp:"


class Copy(Protocol):
    """One place that heads are copied to."""

    @property
    def name(self) -> str:
        """What the status calls it."""

    def send(self, head: Head, seconds: float = ...) -> None:
        """Copy a head there, in at most `seconds` where others are waited for. Raises AnchorError
        with the reason."""


def line_of(head: Head, when: int) -> str:
    """Return the line of a head: origin, size, root, time, with a space between."""
    checkpoint = head.checkpoint
    root = base64.b64encode(checkpoint.root).decode()
    return f"{checkpoint.origin} {checkpoint.size} {root} {when}"


@dataclass(frozen=True, slots=True)
class CommandCopy:
    """A program that gets the note on its standard input."""

    command: tuple[str, ...]

    @property
    def name(self) -> str:
        """The program's name; its arguments may be secret."""
        return f"command {Path(self.command[0]).name}"

    def send(self, head: Head, seconds: float = PROGRAM_TIMEOUT) -> None:
        """Run the program. Raises AnchorError."""
        run_program(self.command, head.note.encode(), timeout=seconds)


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file that gets one line more for each head."""

    path: Path

    @property
    def name(self) -> str:
        """The path."""
        return f"file {self.path}"

    def send(self, head: Head, seconds: float = 0.0) -> None:
        """Append the line and make it durable. Raises AnchorError."""
        del seconds
        data = f"{line_of(head, int(time.time()))}\n".encode()
        try:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            fd = os.open(self.path, flags, 0o640)
            try:
                if os.write(fd, data) != len(data):
                    raise AnchorError(f"The head was written to {self.path} only in part.")
                os.fsync(fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise _unwritable(self.path, error) from None


@dataclass(frozen=True, slots=True)
class NoteCopy:
    """A file that is always the newest note, replaced whole."""

    path: Path

    @property
    def name(self) -> str:
        """The path."""
        return f"file {self.path}"

    def send(self, head: Head, seconds: float = 0.0) -> None:
        """Replace the file. Raises AnchorError."""
        del seconds
        try:
            Disk().replace(self.path, head.note.encode(), mode=0o640)
        except OSError as error:
            raise _unwritable(self.path, error) from None


def _unwritable(path: Path, error: OSError) -> AnchorError:
    return AnchorError(f"The head cannot be copied to {path} ({reason(error)}).")


@dataclass(frozen=True, slots=True)
class SyslogCopy:
    """A syslog that gets one RFC 5424 message for each head: `unix:/dev/log` or `udp:HOST:PORT`.

    UDP tells nobody whether the message arrived.
    """

    address: str
    app: str = "sphragis"

    @property
    def name(self) -> str:
        """The address."""
        return f"syslog {self.address}"

    def send(self, head: Head, seconds: float = TIMEOUT) -> None:
        """Send one message. Raises AnchorError."""
        message = syslog_message(head, self.app, time.time())
        try:
            _send(self.address, message, seconds)
        except (OSError, ValueError) as error:
            raise AnchorError(
                f"The head cannot be sent to {self.name} ({reason(error)})."
            ) from None


def parse_syslog(address: str) -> SyslogCopy:
    """Return the copy of a setting. Raises ValueError with what to write instead."""
    if address.startswith(UNIX) and address.removeprefix(UNIX).startswith("/"):
        return SyslogCopy(address)
    host, colon, port = address.removeprefix(UDP).rpartition(":")
    if address.startswith(UDP) and host and colon and port.isascii() and port.isdecimal():
        return SyslogCopy(address)
    raise ValueError("write unix:/dev/log or udp:HOST:PORT")


def syslog_message(head: Head, app: str, now: float) -> bytes:
    """Return the RFC 5424 message of a head; `now` in Unix seconds."""
    stamp = datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds")
    host = socket.gethostname().encode("ascii", "replace").decode()[:255] or "-"
    when = stamp.replace("+00:00", "Z")
    header = f"<{PRIORITY}>1 {when} {host} {app} {os.getpid()} ledger-head -"
    return f"{header} {line_of(head, int(now))}".encode()


def _send(address: str, message: bytes, seconds: float) -> None:
    if address.startswith(UNIX):
        family, place = socket.AF_UNIX, address.removeprefix(UNIX)
        with socket.socket(family, socket.SOCK_DGRAM) as channel:
            channel.settimeout(seconds)
            channel.connect(place)
            channel.send(message)
        return
    host, _, port = address.removeprefix(UDP).rpartition(":")
    family, kind, protocol, _, target = socket.getaddrinfo(
        host.strip("[]"), int(port), type=socket.SOCK_DGRAM
    )[0]
    with socket.socket(family, kind, protocol) as channel:
        channel.settimeout(seconds)
        channel.sendto(message, target)
