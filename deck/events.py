"""The event log: one line per event, in the text form of Go's slog, appended and read back.

Owns `logs/events.log`: its line format and quoting, so that existing tools and `report` read it;
its modes (directory 0700, file 0600) and its rotation (at start, from 5 MiB, one generation).
Invariant: a line is written with one call to the kernel, so lines of several writers never mix,
and a torn last line is closed before the next is written. The log is a view for people and for
`report`; the journal is the truth. A full disk therefore never stops the deck: what could not be
written is counted and said on the first line that can be. The session writes, `report` reads.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Final, Literal

Level = Literal["DEBUG", "INFO", "WARN", "ERROR"]
Value = str | int | float | bool | Decimal | Path | None

EVENTS_NAME: Final = "events.log"
#: Rotated at start from this size on, keeping one old file (contracts/deck.md section 1.1).
ROTATE_BYTES: Final = 5 << 20

_ESCAPES: Final = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_UNESCAPES: Final = {name[1]: char for char, name in _ESCAPES.items()} | {"'": "'"}
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_ESCAPED: Final = re.compile(
    r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-7]{3})|(.))", re.DOTALL
)


class BadEventLine(ValueError):
    """A line that is not an event in slog's text form."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log; `fields` keeps the order and text of the line."""

    time: datetime
    level: str
    msg: str
    fields: dict[str, str]


class EventLog:
    """The writer of one log file. Any thread may call `write`."""

    def __init__(
        self, path: Path, clock: Callable[[], datetime] = lambda: datetime.now().astimezone()
    ) -> None:
        """Open `path` for appending, rotating it first when it has grown to 5 MiB.

        Raises OSError when the directory or file cannot be made, or is a symbolic link.
        """
        self.path = path
        #: Why the last write failed, or None while the log is whole.
        self.failure: str | None = None
        self._clock = clock
        self._lost = 0  # guarded by _lock, as is _fd
        self._lock = threading.Lock()
        _private_parent(path)
        _rotate(path)
        self._fd = _open_append(path)

    def write(self, level: Level, msg: str, /, **fields: Value) -> None:
        """Append one event, stamped now. Fields whose value is None are left out.

        Never raises for a file that cannot be written; see `failure`.
        """
        with self._lock:
            lines = [format_event(self._clock(), level, msg, fields)]
            if self._lost:
                lines.insert(
                    0, format_event(self._clock(), "WARN", "events lost", {"count": self._lost})
                )
            data = "".join(lines).encode("utf-8", "replace")
            try:
                self._append(data)
            except OSError as failure:
                self._lost += 1
                self.failure = f"{self.path}: {failure.strerror}; free some space."
            else:
                self._lost, self.failure = 0, None

    def close(self) -> None:
        """Close the file; later writes are counted as lost."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _append(self, data: bytes) -> None:
        written = os.write(self._fd, data)
        if written < len(data):
            # A full disk takes part of a line: end it, so that the next line stands alone.
            os.write(self._fd, b"\n")


def append_event(path: Path, level: Level, msg: str, /, **fields: Value) -> None:
    """Append one event from a command to a log that a session may be writing, if there is one.

    Rotates nothing and creates nothing; a log that is missing or cannot be written is passed over.
    """
    line = format_event(datetime.now().astimezone(), level, msg, fields)
    with suppress(OSError):
        how = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(path, how)
        try:
            os.write(fd, line.encode("utf-8", "replace"))
        finally:
            os.close(fd)


def format_event(time: datetime, level: str, msg: str, fields: dict[str, Value]) -> str:
    """Return one event as a line with its newline. `time` must carry a zone."""
    parts = [
        f"time={_stamp(time)}",
        f"level={level}",
        f"msg={quote(msg)}",
        *(f"{quote(key)}={quote(_text(v))}" for key, v in fields.items() if v is not None),
    ]
    return " ".join(parts) + "\n"


def parse_event(line: str) -> Event:
    """Return the event of one line. Raises BadEventLine; the message holds none of the line."""
    pairs = dict(_pairs(line.rstrip("\r\n")))
    try:
        time = datetime.fromisoformat(pairs.pop("time"))
        level, msg = pairs.pop("level"), pairs.pop("msg")
    except (KeyError, ValueError):
        raise BadEventLine("no time, level or msg") from None
    if time.tzinfo is None:
        raise BadEventLine("a time without a zone")
    return Event(time, level, msg, pairs)


def parse_lines(lines: Iterable[str]) -> list[Event]:
    """Return the events of `lines`; lines of any other form (a torn one, say) are passed over."""
    events: list[Event] = []
    for line in lines:
        try:
            events.append(parse_event(line))
        except BadEventLine:
            continue
    return events


def parse_events(path: Path) -> list[Event]:
    """Return the events of a log file, oldest first. Raises OSError when it cannot be read."""
    text = path.read_bytes().decode("utf-8", "replace")
    return parse_lines(text.split("\n"))


def quote(text: str) -> str:
    """Return `text` as slog's text handler prints it: bare, or in Go's quotes when it is empty
    or holds a space, a quote, `=`, a control or any character that does not print."""
    if text and all(_bare(char) for char in text):
        return text
    return '"' + "".join(_escape(char) for char in text) + '"'


def unquote(body: str) -> str:
    """Return the text between Go's quotes with its escapes resolved.

    Raises BadEventLine for an escape that Go does not have.
    """
    if "\\" not in body:
        return body
    out, position = bytearray(), 0
    for found in _ESCAPED.finditer(body):
        out += body[position : found.start()].encode("utf-8", "surrogateescape")
        out += _unescape(found)
        position = found.end()
    out += body[position:].encode("utf-8", "surrogateescape")
    return out.decode("utf-8", "surrogateescape")


def _bare(char: str) -> bool:
    if char < "\x80":
        return char > " " and char not in '"='
    return char.isprintable() and not char.isspace()


def _escape(char: str) -> str:
    named = _ESCAPES.get(char)
    if named is not None:
        return named
    if char.isprintable():
        return char
    code = ord(char)
    if code < 0x80:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:
        # A byte that was not UTF-8, as Python carries it in file names.
        return f"\\x{code - 0xDC00:02x}"
    if 0xD800 <= code <= 0xDFFF:
        return "\\ufffd"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _unescape(found: re.Match[str]) -> bytes:
    byte, short, long, octal, named = found.groups()
    if byte is not None:
        return bytes([int(byte, 16)])
    if octal is not None:
        return bytes([int(octal, 8) & 0xFF])
    if named is not None:
        if named not in _UNESCAPES:
            raise BadEventLine("an unknown escape")
        return _UNESCAPES[named].encode()
    code = int(short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise BadEventLine("an escape that is no character")
    return chr(code).encode()


def _pairs(line: str) -> Iterable[tuple[str, str]]:
    position = 0
    while position < len(line):
        if line[position] == " ":
            position += 1
            continue
        key, position = _word(line, position, ends="= ")
        if position >= len(line) or line[position] != "=":
            raise BadEventLine("a key without a value")
        value, position = _word(line, position + 1, ends=" ")
        yield key, value


def _word(line: str, start: int, *, ends: str) -> tuple[str, int]:
    if line.startswith('"', start):
        found = _QUOTED.match(line, start)
        if found is None:
            raise BadEventLine("a quote that is not closed")
        return unquote(found.group(1)), found.end()
    stop = min((at for at in (line.find(end, start) for end in ends) if at >= 0), default=len(line))
    return line[start:stop], stop


def _stamp(time: datetime) -> str:
    text = time.isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text


def _text(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _private_parent(path: Path) -> None:
    parent = path.parent
    # The project's state directory stays readable for its owner's tools; the logs do not.
    parent.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    parent.mkdir(mode=0o700, exist_ok=True)
    if parent.is_symlink():
        why = "it is a symbolic link; remove it and start again"
        raise OSError(errno.ELOOP, why, str(parent))
    parent.chmod(0o700)


def _rotate(path: Path) -> None:
    try:
        size = path.lstat().st_size
    except FileNotFoundError:
        return
    if size >= ROTATE_BYTES:
        old = path.with_name(path.name + ".1")
        path.replace(old)
        # An earlier deck may have made it readable for everybody.
        if not old.is_symlink():
            old.chmod(0o600)


def _open_append(path: Path) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            # A pipe that nobody reads takes 64 KiB, and then holds up whoever writes to it.
            why = "it is no regular file; move it away and start again"
            raise OSError(errno.EINVAL, why, str(path))
        os.fchmod(fd, 0o600)
        if found.st_size and os.pread(fd, 1, found.st_size - 1) != b"\n":
            os.write(fd, b"\n")
    except BaseException:
        os.close(fd)
        raise
    return fd
