"""What the wall looks like: one command line for bubblewrap, from a plan of what is seen in there.

Pure. Invariants: the whole machine is read-only; nothing outside is reachable over the network,
by abstract sockets, by shared memory or by process id; no capability is held. Later mounts cover
earlier ones, so the plan goes from wide to narrow and hides secrets after it has shown what lies
around them. The terminal stays the pane's own, so the agent keeps its session and its signals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

#: The file that runs beside the agent.
INSIDE: Final = Path(__file__).with_name("inside.py")

#: The wall's own process ignores what a stop sends to the whole pane: it ends when its agent has
#: ended, and not before, or the agent would be killed without its grace.
_PATIENT: Final = ("/bin/sh", "-c", 'trap "" TERM HUP; exec "$@"', "wall")

_NAMESPACES: Final = (
    "--unshare-user",
    "--unshare-net",
    "--unshare-pid",
    "--unshare-ipc",
    # The agents of a deck that was killed end with it.
    "--die-with-parent",
    "--cap-drop",
    "ALL",
    "--ro-bind",
    "/",
    "/",
    "--dev",
    "/dev",
    "--proc",
    "/proc",
)


class Show(StrEnum):
    """How a place is shown inside."""

    #: As an empty directory in memory.
    EMPTY = "empty"
    #: As an empty file that swallows what is written: sockets.
    NOTHING = "nothing"
    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Mount:
    """One place, under the same path inside as outside."""

    show: Show
    path: Path

    def arguments(self) -> list[str]:
        """Return bubblewrap's arguments for it."""
        path = str(self.path)
        match self.show:
            case Show.EMPTY:
                return ["--perms", "1777", "--tmpfs", path]
            case Show.NOTHING:
                return ["--ro-bind", "/dev/null", path]
            case Show.READ:
                return ["--ro-bind", path, path]
            case Show.WRITE:
                return ["--bind", path, path]


@dataclass(frozen=True, slots=True)
class Plan:
    """One role's wall. `address` is the gateway's, as the agent knows it; `way_out` the socket
    that leads there; `python` runs the forwarder."""

    bwrap: str
    python: str
    directory: Path
    mounts: tuple[Mount, ...]
    address: str
    way_out: Path

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs `argv` behind the wall."""
        line = [*_PATIENT, self.bwrap, *_NAMESPACES]
        for mount in self.mounts:
            line += mount.arguments()
        return [
            *line,
            "--chdir",
            str(self.directory),
            "--",
            *self.beside("--listen", self.address, "--via", str(self.way_out), "--"),
            *argv,
        ]

    def beside(self, *arguments: str) -> list[str]:
        """Return a command line of the program that runs inside."""
        # -I and -S: neither the environment nor the project may put code in its place.
        return [self.python, "-I", "-S", str(INSIDE), *arguments]
