"""One agent's terminal: the process, its screen, its state, and how a line is typed to it.

Owns nothing but its submodules: `process` (the agent on its PTY; `launch` starts it, `tree` ends it
with all it started), `terminal` (bytes to cells), `status` (cells and signals to a state), `typing`
(one injected line as a state machine) and `pane`, which joins them on the loop.
"""

from deck.pane.errors import PaneError, PaneStartError
from deck.pane.pane import Pane, PaneSpec
from deck.pane.process import ExitStatus
from deck.pane.status import PaneState, Status
from deck.pane.tree import StopProof
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
