"""Where the stamps of all decks are kept from one gateway to the next.

Invariant: the file is one whole state of the table or another, and a gateway that cannot read it
begins without. What is in it is `stamps.Stamps.dump`'s. Called by `gateway.control`, and by
`gateway.erasing` where no gateway runs.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import orjson

from gateway.logs import say


def read_stamps(path: Path) -> object:
    """Return what was written, or None when there is nothing to read."""
    try:
        return orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def write_stamps(path: Path, data: bytes) -> None:
    """Replace the file."""
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".stamps-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except OSError as wrong:
        say(f"warning: {path} cannot be written ({wrong.strerror}); a restart forgets the stamps")
