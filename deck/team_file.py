"""Changes to a person's team file: a line put in or taken out, every other byte kept.

Owns how the file is changed. Invariants: the result is read again before it is written, and says
exactly what was there plus or minus that one approver, or nothing is written; the file is replaced
in one step with its mode. Where the text is written in a way that a line cannot be added to,
that is said and the person does it. Called by `deck.cli.approver`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from deck.plain_files import replace_own

TABLE: Final = "approvers"
_HEADER: Final = re.compile(rb"^[ \t]*\[[ \t]*approvers[ \t]*\][ \t]*(?:#[^\n]*)?\r?$", re.M)
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


class CannotEdit(Exception):
    """The file is written in a way that this cannot change; the text says so."""


def approver_line(name: str, public: str) -> str:
    """Return the line of the team file that makes somebody an approver."""
    return f"{_key(name)} = {json.dumps(public)}"


def with_approver(data: bytes, name: str, public: str) -> bytes:
    """Return the text of a team file with one more approver. Raises CannotEdit."""
    before = _read(data)
    if name in before.get(TABLE, {}):
        raise CannotEdit(f"[{TABLE}] names {name} already")
    wanted = {**before, TABLE: {**before.get(TABLE, {}), name: public}}
    ending = b"\r\n" if b"\r\n" in data else b"\n"
    line = approver_line(name, public).encode() + ending
    for candidate in _added(data, line, ending):
        if _reads_as(candidate, wanted):
            return candidate
    raise CannotEdit(f"its [{TABLE}] is not written as a table of lines")


def _added(data: bytes, line: bytes, ending: bytes) -> Iterator[bytes]:
    for header in _HEADER.finditer(data):
        # A header that is text of a longer string is found out by reading the result.
        start = data.find(b"\n", header.start()) + 1
        if start:
            yield data[:start] + line + data[start:]
        else:
            yield data + ending + line
    gap = b"" if not data else ending if data.endswith(b"\n") else ending * 2
    yield data + gap + f"[{TABLE}]".encode() + ending + line


def without_approver(data: bytes, name: str) -> bytes:
    """Return the text of a team file with one approver less. Raises CannotEdit."""
    before = _read(data)
    approvers = before.get(TABLE, {})
    if name not in approvers:
        raise CannotEdit(f"[{TABLE}] does not name {name}")
    left = {key: value for key, value in approvers.items() if key != name}
    lines = data.splitlines(keepends=True)
    for index, line in enumerate(lines):
        if line.lstrip().startswith((_key(name).encode(), json.dumps(name).encode())):
            candidate = b"".join(lines[:index] + lines[index + 1 :])
            if _reads_as(candidate, {**before, TABLE: left}):
                return candidate
    raise CannotEdit(f"its [{TABLE}] is not written as a table of lines")


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file's content in one step, durably; a link stays one. Raises OSError."""
    target = path.resolve()
    mode = target.stat().st_mode & 0o7777
    replace_own(target, data, mode=mode, is_durable=True)
    # The mask of this process is not for a file that was there.
    target.chmod(mode)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name)


def _read(data: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as failure:
        raise CannotEdit(f"byte {failure.start} is not UTF-8; save the file as UTF-8") from None
    except (tomllib.TOMLDecodeError, RecursionError) as failure:
        raise CannotEdit(f"it cannot be read: {failure}") from None


def _reads_as(data: bytes, wanted: dict[str, Any]) -> bool:
    try:
        return _read(data) == wanted
    except CannotEdit:
        return False
