"""The control socket's language: one JSON object in, one ack out. Pure: bytes in, values out.

Owns the verbs, the limits and the shape of every ack (contracts/deck.md sections 1.2 and 2.1).
Invariant: whatever bytes arrive, the result is a `Command` or a `ProtocolError` whose text is
the sentence the caller reads; nothing else is raised. Fields are read as existing decks read
them: unknown ones are ignored, names match in any case, null means absent, broken Unicode is
replaced. `deck.server` feeds it; the CLI uses the same encoder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NoReturn

#: A command carries a task text; files carry the rest. Existing clients stay far below this.
MAX_COMMAND_BYTES: Final = 1 << 20
#: Known commands nest two levels; more is an attack on the parser.
MAX_DEPTH: Final = 32
#: Far above any team; keeps one command from filling the board.
MAX_TARGETS: Final = 1000
#: Both sides give the whole exchange this long (contracts/deck.md section 1.6).
EXCHANGE_SECONDS: Final = 5.0

#: Fields that name something; only `task` may be long. Paths are bounded as the kernel bounds them.
FIELD_CHARS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "cmd": 64,
        "to": 256,
        "brief": 4096,
        "report": 4096,
        "id": 256,
        "reason": 2000,
        "token": 256,
        "role_name": 256,
        "role_command": 4096,
        "role_args": 4096,
        "role_model": 256,
        "keys": 16,
        "next_config": 4096,
        "approver": 64,
        "sig": 256,
    }
)

#: What means something within a string, and outside of one.
_IN_STRING = re.compile(rb'["\\]')
_OUTSIDE = re.compile(rb'["{}\[\]]')
_SURROGATE = re.compile("[\ud800-\udfff]")


#: The `id` of an `again` that offers every lost task.
EVERY_LOST: Final = "all"


class ProtocolError(Exception):
    """The bytes are not a command; the text says why, for the error ack."""


class Verb(StrEnum):
    """Every `cmd` this deck knows."""

    DELEGATE = "delegate"
    WORK_DONE = "work-done"
    RELOAD = "reload"
    PING = "ping"
    SHUTDOWN = "shutdown"
    ROSTER_ADD = "roster-add"
    HANDOFF = "handoff"
    STATUS = "status"
    GATES = "gates"
    APPROVE = "approve"
    REJECT = "reject"
    AGAIN = "again"
    SHOW = "show"
    PAUSE = "pause"
    RESUME = "resume"
    RESTART = "restart"
    #: Type an answer to the question that a pane shows.
    ANSWER = "answer"
    #: Turn the gateway's enforcement on or off.
    ENFORCE = "enforce"
    #: A change that the command line makes itself is put on record, before and after.
    NOTE = "note"


class TargetState(StrEnum):
    """What became of one target of a `delegate` by the time of the ack."""

    QUEUED = "queued"
    GATED = "gated"
    DELIVERED = "delivered"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Command:
    """One decoded command; fields that its verb does not use keep their empty value."""

    verb: Verb
    to: tuple[str, ...] = ()
    task: str = ""
    brief: str = ""
    report: str = ""
    done: bool = False
    id: str = ""
    reason: str = ""
    token: str = ""
    role_name: str = ""
    role_command: str = ""
    role_args: tuple[str, ...] = ()
    role_model: str = ""
    role_prompt: str = ""
    next_config: str = ""
    #: Single keys that answer a menu.
    keys: tuple[str, ...] = ()
    #: Who decides a gate, and their signature (base64) made at `signed_at` (microseconds UTC).
    approver: str = ""
    sig: str = ""
    signed_at: int = 0
    #: Set by clients that read the ack; others learn of a refusal through the start role's pane.
    reads_ack: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """One line of a delegate ack: `id` is empty unless a task was made."""

    to: str
    id: str
    state: TargetState
    reason: str = ""


class Framer:
    """Finds the end of the first JSON object in a byte stream cut anywhere.

    Clients need not send a newline nor close their side, so the end is found by bracket depth.
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._scanned = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False

    def feed(self, data: bytes) -> bytes | None:
        """Take more bytes; return the object's bytes once it is complete, else None.

        Raises ProtocolError when the stream cannot become one object within the limits. Bytes
        after the object are ignored.
        """
        self._bytes += data
        end = self._scan()
        if end is not None:
            if end > MAX_COMMAND_BYTES:
                _too_long()
            return bytes(self._bytes[:end])
        if self._scanned > MAX_COMMAND_BYTES:
            _too_long()
        return None

    def _scan(self) -> int | None:
        """Go on from where the last scan ended; return where the object ends, if it does."""
        place, length = self._scanned, len(self._bytes)
        while place < length:
            if self._escaped:
                self._escaped = False
                place += 1
                continue
            if self._depth == 0:
                place = self._open(place)
                continue
            # Letter by letter a long text would take a tenth of a second.
            marks = _IN_STRING if self._in_string else _OUTSIDE
            found = marks.search(self._bytes, place)
            if found is None:
                place = length
                break
            place = found.end()
            if self._mark(self._bytes[place - 1]):
                return place
        self._scanned = place
        return None

    def _open(self, place: int) -> int:
        """Pass over blanks to the first bracket; return the place behind what was looked at."""
        byte = self._bytes[place]
        if byte not in b"{ \t\r\n":
            raise ProtocolError("A command is one JSON object, and this does not start with '{'.")
        self._depth = int(byte == 0x7B)
        return place + 1

    def _mark(self, byte: int) -> bool:
        """Take one byte that means something where it stands; True at the object's end."""
        if byte == 0x22:
            self._in_string = not self._in_string
        elif byte == 0x5C:
            self._escaped = True
        elif byte in b"{[":
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise ProtocolError(f"The command nests deeper than {MAX_DEPTH} levels.")
        else:
            self._depth -= 1
            return self._depth == 0
        return False


def parse(raw: bytes) -> Command:
    """Decode one complete command.

    Raises ProtocolError for malformed JSON, a wrong type or an unknown verb.
    """
    try:
        document = json.loads(raw.decode("utf-8", "replace"), parse_constant=_no_constant)
    except ProtocolError:
        raise
    except (ValueError, RecursionError) as error:
        raise ProtocolError("The command is not valid JSON.") from error
    if not isinstance(document, dict):
        raise ProtocolError("A command is one JSON object.")
    fields = {key.lower(): value for key, value in document.items() if value is not None}
    name = _text(fields, "cmd")
    try:
        verb = Verb(name)
    except ValueError:
        known = ", ".join(sorted(Verb))
        raise ProtocolError(f"Unknown command {name[:40]!r}; this deck knows {known}.") from None
    return Command(
        verb=verb,
        to=_names(fields, "to"),
        task=_text(fields, "task"),
        brief=_text(fields, "brief"),
        report=_text(fields, "report"),
        done=_flag(fields, "done"),
        id=_text(fields, "id").strip(),
        reason=_text(fields, "reason"),
        token=_text(fields, "token"),
        role_name=_text(fields, "role_name").strip(),
        role_command=_text(fields, "role_command").strip(),
        role_args=_strings(fields, "role_args", "arguments"),
        role_model=_text(fields, "role_model").strip(),
        role_prompt=_text(fields, "role_prompt"),
        next_config=_text(fields, "next_config"),
        keys=_strings(fields, "keys", "keys"),
        approver=_text(fields, "approver").strip(),
        sig=_text(fields, "sig"),
        signed_at=_number(fields, "signed_at"),
        reads_ack=_flag(fields, "reads_ack"),
    )


def encode_command(command: Command) -> bytes:
    """Return the wire form of a command: empty fields left out, newline at the end."""
    fields: dict[str, Any] = {"cmd": command.verb.value}
    for key, value in asdict(command).items():
        if key != "verb" and value:
            fields[key] = list(value) if isinstance(value, tuple) else value
    return _line(fields)


def ok(**fields: object) -> bytes:
    """Return an ack whose first key is `"status":"ok"`, as every existing client expects."""
    return _line({"status": "ok", **fields})


def ok_rows(name: str, rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return the ack of `ok` with one list in it. Written row by row, for a thread: to write a long
    one in one call would keep all other threads waiting."""
    head = ok(**{name: []}).removesuffix(b"]}\n")
    return head + b",".join(_line(row)[:-1] for row in rows) + b"]}\n"


def delegate_ack(targets: tuple[Target, ...]) -> bytes:
    """Return the ack of a `delegate`: one entry for each target, in the order asked."""
    return ok(targets=[asdict(target) for target in targets])


def error(reason: str) -> bytes:
    """Return the ack of a command that was not carried out."""
    return _line({"status": "error", "reason": reason})


def parse_ack(raw: bytes) -> dict[str, Any]:
    """Decode an ack; an empty or unreadable one is `{}` (existing clients ignore those)."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def one_line(text: str, limit: int = 400) -> str:
    """Return text fit to be typed: one line, no control characters, at most `limit` characters."""
    head = text[: 4 * limit]
    flat = " ".join("".join(c if c.isprintable() else " " for c in head).split())
    if len(flat) <= limit and len(head) == len(text):
        return flat
    return flat[: limit - 1].rstrip() + "…"


def _line(fields: Mapping[str, Any]) -> bytes:
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise ProtocolError(f"The field {key!r} must be a string.")
    limit = FIELD_CHARS.get(key, MAX_COMMAND_BYTES)
    if len(value) > limit:
        raise ProtocolError(f"The field {key!r} is longer than {limit} characters.")
    # A NUL can be in no path and no terminal line; lone surrogates can be in no file.
    return _SURROGATE.sub("\ufffd", value).replace("\0", "\ufffd")


def _flag(fields: Mapping[str, Any], key: str) -> bool:
    value = fields.get(key, False)
    if not isinstance(value, bool):
        raise ProtocolError(f"The field {key!r} must be true or false.")
    return value


def _number(fields: Mapping[str, Any], key: str) -> int:
    value = fields.get(key, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise ProtocolError(f"The field {key!r} must be a whole number, not below zero.")
    return value


def _names(fields: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in _strings(fields, key, "role names"))


def _strings(fields: Mapping[str, Any], key: str, what: str) -> tuple[str, ...]:
    value = fields.get(key, [])
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ProtocolError(f"The field {key!r} must be a list of {what}.")
    if len(value) > MAX_TARGETS:
        raise ProtocolError(f"The field {key!r} may hold at most {MAX_TARGETS} {what}.")
    return tuple(_text({key: name}, key) for name in value)


def _no_constant(name: str) -> NoReturn:
    raise ProtocolError(f"The command is not valid JSON: {name} is not a JSON value.")


def _too_long() -> NoReturn:
    raise ProtocolError(
        f"A command may have at most {MAX_COMMAND_BYTES} bytes; put the text in a brief file."
    )
