"""How a verb fails: `error: <sentence>` on stderr, exit 1 (contracts/deck.md section 1.3)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from pathlib import Path

#: Set it to get the traceback of a fault of ours.
DEBUG_ENV: Final = "CHORAGOS_DEBUG"


def fail(sentence: object) -> NoReturn:
    """Print the sentence and end the program with 1."""
    from shared.streams import failure_line

    print(failure_line(sentence), file=sys.stderr)
    raise SystemExit(1)


def here() -> Path:
    """Return the working directory, or fail with what is wrong with it."""
    from pathlib import Path

    from deck.sessions import SessionError, working_directory

    try:
        return Path(working_directory())
    except SessionError as problem:
        fail(problem)


def unexpected(fault: Exception) -> str:
    """Return the sentence of a fault that no verb has foreseen."""
    if isinstance(fault, OSError) and fault.strerror:
        where = f"{fault.filename}: " if fault.filename else ""
        return f"{where}{fault.strerror}"
    kind = type(fault).__name__
    return f"choragos has failed ({kind}); set {DEBUG_ENV}=1 and run it again to see where"
