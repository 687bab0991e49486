"""A unix socket whose path may be long: the kernel takes 107 bytes, directories have more.

Owns the way around it: the directory is opened and the socket reached through its descriptor
(`/proc/self/fd/N/name`), where there is a `/proc`. Called by `gateway.control` and
`gateway.control_client`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

#: The control socket in a gateway's home.
CONTROL_SOCKET: Final = "control.sock"
#: sun_path has 108 bytes with the final NUL on Linux (unix(7)), 104 on macOS.
MAX_PATH: Final = 103


@contextmanager
def reachable(path: Path) -> Iterator[str]:
    """Yield a path of at most `MAX_PATH` bytes for a socket; it is good within the block.

    Raises OSError when the directory cannot be opened.
    """
    if len(os.fsencode(path)) <= MAX_PATH or not Path("/proc/self/fd").exists():
        yield os.fspath(path)
        return
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)
