"""What the gateway says on standard error: short lines for people, never a value of a call.

Invariant: messages of libraries are reduced to the library's name and the kind of error, because
their texts and tracebacks quote what they choked on (a request line, a body). Set up once by
`gateway.app`; `say` is for our own sentences.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback


def say(line: str) -> None:
    """Write one line to standard error; a closed terminal is no reason to stop."""
    with contextlib.suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)


def where(error: BaseException) -> str:
    """Return the kind of an error and the place in the code that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return type(error).__name__
    last = frames[-1]
    return f"{type(error).__name__} in {last.name}, line {last.lineno} of {last.filename}"


def quiet_libraries() -> None:
    """Send what libraries log through `_Reduced`; below a warning it is dropped."""
    root = logging.getLogger()
    root.handlers[:] = [_Reduced(logging.WARNING)]
    # Says one line per malformed HTTP message, which any port scan causes by the thousand.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)


class _Reduced(logging.Handler):
    """Prints origin and kind, never the message."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        cause = where(error) if error is not None else f"{record.funcName}, line {record.lineno}"
        say(f"{record.levelname.lower()} from {record.name}: {cause}")
