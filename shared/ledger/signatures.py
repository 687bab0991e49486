"""Helper processes that check checkpoint signatures beside a verification.

Checking a signature takes as long as reading twenty records, and Python's Ed25519 holds the
interpreter lock, so a large verification gives signatures away to other cores; the first helper
also looks for numbers with a fraction. A helper answers one thing: was all of that good. If not,
or if a helper dies, the verification runs again without helpers and names what is wrong, so
nothing ever rests on this file. Called by `verify`.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from shared.ledger.checkpoint import VerifierKey
from shared.ledger.signature_helper import GOOD

#: One frame: length of the text, signature, text.
_FRAME: Final = struct.Struct(">I64s")
#: POSIX writes up to this many bytes to a pipe whole or not at all (PIPE_BUF on Linux).
_PIPE_BUF: Final = 4096
#: More helpers than this have nothing to do: reading the records becomes the limit.
MAX_HELPERS: Final = 3
#: What a helper runs. Not this package's directory, but the path of the installed libraries counts.
_PROGRAM: Final = str(Path(__file__).with_name("signature_helper.py"))


class _Helper:
    """One child process and the frames that wait for room in its pipe."""

    def __init__(self, key: VerifierKey, files: Sequence[tuple[Path, int]]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        assert self.process.stdin is not None
        self.fd = self.process.stdin.fileno()
        asked = {"files": [(str(path), size) for path, size in files], "key": key.public.hex()}
        self.process.stdin.write(json.dumps(asked).encode() + b"\n")
        os.set_blocking(self.fd, False)
        self.waiting = b""

    def take(self, frame: bytes) -> bool:
        if len(self.waiting) + len(frame) <= _PIPE_BUF:
            self.waiting += frame
            return True
        try:
            os.write(self.fd, self.waiting)
        except BlockingIOError:
            return False
        self.waiting = frame
        return True

    def all_good(self) -> bool:
        os.set_blocking(self.fd, True)
        output, _ = self.process.communicate(self.waiting)
        return self.process.returncode == 0 and output == GOOD


class SignatureHelpers:
    """Helpers for one key; use as a context manager, it leaves no process behind."""

    def __init__(self, key: VerifierKey, files: Sequence[tuple[Path, int]]) -> None:
        """Start a helper for each core but one. `files` are the segments and how much of each is
        to be looked at for fractions. Raises OSError when none can be started."""
        self._helpers: list[_Helper] = []
        self._broken = False
        for number in range(min((os.cpu_count() or 1) - 1, MAX_HELPERS) if sys.executable else 0):
            self._helpers.append(_Helper(key, () if number else files))

    def __enter__(self) -> Self:
        """Return the helpers."""
        return self

    def __len__(self) -> int:
        """How many there are."""
        return len(self._helpers)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every helper that still runs."""
        for helper in self._helpers:
            process = helper.process
            if process.poll() is None:
                process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def offer(self, text: bytes, signature: bytes) -> bool:
        """Give a signature away; False means that all helpers are busy, check it yourself."""
        frame = _FRAME.pack(len(text), signature) + text
        if len(frame) > _PIPE_BUF or self._broken:
            return False
        try:
            return any(helper.take(frame) for helper in self._helpers)
        except OSError:  # a helper died; `all_good` will say no
            self._broken = True
            return False

    def all_good(self) -> bool:
        """Wait for the helpers; tell whether every signature given away was good."""
        try:
            answers = [helper.all_good() for helper in self._helpers]
        except (OSError, ValueError):
            return False
        return all(answers) and not self._broken
