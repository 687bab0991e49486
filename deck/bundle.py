"""What one sends when asking for help: the doctor's findings, settings and logs, without secrets.

Owns the bundle's content (contracts/deck.md section 1.15). Invariants: nothing gets in that has not
been scrubbed; the file is its owner's alone from its first byte and replaces nothing; what the
agents showed is in it only when asked for. A file that cannot be read is named in meta.txt instead
of failing the bundle. `choragos doctor --bundle` writes it.
"""

from __future__ import annotations

import io
import os
import platform
import stat
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from deck.briefs import STATE_DIR
from deck.scrub import scrubber
from deck.team_reader import CONFIG_NAME
from deck.transcripts import CORE_LOGS
from shared import __version__
from shared.paths import session_id

#: Of a long log the end is what tells.
FILE_BYTES: Final = 4 << 20


class BundleError(Exception):
    """The bundle cannot be written; the text says why and what to do."""


def default_name(now: float) -> str:
    """Return the name of a bundle made at `now` (seconds since 1970)."""
    return f"choragos-bundle-{datetime.fromtimestamp(now, UTC):%Y%m%dT%H%M%SZ}.tar.gz"


def write_bundle(
    path: Path,
    directory: Path,
    findings: Sequence[str],
    environ: Mapping[str, str],
    *,
    config: Path | None = None,
    transcripts: bool = False,
) -> list[str]:
    """Write the bundle of a project and return the names of its members.

    `findings` are the doctor's lines, `config` the team file if it is not the default one. Raises
    BundleError.
    """
    scrub = scrubber(environ)
    members: dict[str, str] = {"doctor.txt": "\n".join(findings) + "\n"}
    troubles: list[str] = []
    for name, file in _files(directory, config, transcripts):
        try:
            members[name] = _tail(file)
        except FileNotFoundError:
            continue
        except OSError as failure:
            troubles.append(f"{name}: {failure.strerror or failure}")
    members = {"meta.txt": _meta(directory, environ, troubles), **members}
    try:
        _write(path, {name: scrub(text) for name, text in members.items()})
    except FileExistsError:
        raise BundleError(f"{path} exists already; name another file with --bundle=…") from None
    except OSError as failure:
        raise BundleError(
            f"{path} cannot be written ({failure.strerror}); name another file with --bundle=…"
        ) from None
    return list(members)


def _files(directory: Path, config: Path | None, transcripts: bool) -> Iterator[tuple[str, Path]]:
    state = directory / STATE_DIR
    yield "config.toml", config if config is not None else directory / CONFIG_NAME
    yield "session.json", state / "session.json"
    logs = state / "logs"
    for name in CORE_LOGS:
        yield f"logs/{name}", logs / name
    if transcripts:
        for path in sorted(logs.glob("*.log")):
            if path.name not in CORE_LOGS:
                yield f"transcripts/{path.name}", path


def _tail(path: Path) -> str:
    """Return the end of a regular file as text. Raises OSError; follows no link, waits for no
    pipe."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "not a regular file")
        if found.st_size > FILE_BYTES:
            file.seek(found.st_size - FILE_BYTES)
            file.readline()  # the rest of a line cut in two could hide a secret from the scrubber
        return file.read(FILE_BYTES).decode("utf-8", "replace")


def _meta(directory: Path, environ: Mapping[str, str], troubles: Sequence[str]) -> str:
    lines = [
        f"choragos {__version__}",
        f"python {platform.python_version()} ({sys.implementation.name})",
        f"system {platform.system()} {platform.release()} {platform.machine()}",
        f"written {datetime.now(UTC).isoformat(timespec='seconds')}",
        f"directory {directory}",
        f"session {session_id(str(directory))}",
        f"term {environ.get('TERM', '')}",
        f"lang {environ.get('LC_ALL') or environ.get('LANG', '')}",
        *(f"not readable {trouble}" for trouble in troubles),
        "Secrets were removed by their shape. Look through the files before you send them.",
    ]
    return "\n".join(lines) + "\n"


def _write(path: Path, members: Mapping[str, str]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        with (
            os.fdopen(descriptor, "wb") as file,
            tarfile.open(fileobj=file, mode="w:gz") as archive,
        ):
            for name, text in members.items():
                data = text.encode("utf-8", "replace")
                entry = tarfile.TarInfo(f"choragos-bundle/{name}")
                entry.size, entry.mode, entry.mtime = len(data), 0o600, int(time.time())
                archive.addfile(entry, io.BytesIO(data))
    except BaseException:
        path.unlink(missing_ok=True)
        raise
