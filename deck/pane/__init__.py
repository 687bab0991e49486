"""One agent's terminal: the process, its screen, its state, and how a line is typed to it.

Owns nothing but its submodules: `process` (PTY and process tree), `terminal` (bytes to cells),
`status` (cells and signals to a state), `typing` (one injected line as a state machine) and `pane`,
which joins them on the loop. Only `pane` and `process` do I/O.
"""

from deck.pane.pane import Pane, PaneSpec
from deck.pane.process import ExitStatus, PaneError, PaneStartError, StopProof
from deck.pane.status import PaneState, Status
from deck.pane.typing import LineKind, Outcome, OutcomeKind, Step

__all__ = [
    "ExitStatus",
    "LineKind",
    "Outcome",
    "OutcomeKind",
    "Pane",
    "PaneError",
    "PaneSpec",
    "PaneStartError",
    "PaneState",
    "Status",
    "Step",
    "StopProof",
]
