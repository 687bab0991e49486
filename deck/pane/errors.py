"""What a pane cannot do, as errors whose text is the sentence the user reads.

Owns the family that callers of a pane have to expect; the sentence says why, and what to do.
Raised by the other modules of the package and by what prepares a start; shown by the session.
"""


class PaneError(Exception):
    """A pane cannot do what was asked; the text says why and what to do."""


class PaneStartError(PaneError):
    """The agent could not be started."""


class InputOverflow(PaneError):
    """The agent has stopped reading its input."""
