"""The parts of a session: what exists once its journal is open, and who is given whom.

Owns the wiring and nothing else. Rule: a part knows only those it is made with here, so this list
is the map of who calls whom. `deck.session` makes them once for each run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deck.briefing import Briefing
from deck.budgets import Budgets
from deck.config import Config
from deck.desk import Desk
from deck.entries import GateKind
from deck.gatekeeper import Gatekeeper
from deck.handoffs import Handoffs
from deck.merging import Merging
from deck.metering import Metering
from deck.operating import Operating
from deck.proposals import Proposals
from deck.reloading import Reloading
from deck.review import Review
from deck.screens import Screens
from deck.session_file import SessionFile
from deck.settling import RESULT_GATES
from deck.snapshots import Snapshots
from deck.stamping import Stamping
from deck.work import Work


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one session."""

    desk: Desk
    snapshots: Snapshots
    metering: Metering
    stamping: Stamping
    gatekeeper: Gatekeeper
    merging: Merging
    review: Review
    work: Work
    operating: Operating
    budgets: Budgets
    reloading: Reloading
    proposals: Proposals
    handoffs: Handoffs
    briefing: Briefing
    screens: Screens
    session_file: SessionFile

    @classmethod
    def of(cls, desk: Desk, stop: Callable[[str], None], read: Callable[[], Config]) -> Parts:
        """Make the parts around an open desk: `stop` ends the session for somebody, `read` reads
        the team file again."""
        snapshots, metering, keeper = Snapshots(desk), Metering(desk), Gatekeeper(desk)
        merging = Merging(desk, keeper, snapshots)
        review = Review(desk, keeper, merging)
        work = Work(desk, snapshots, metering, keeper, review, merging)
        keeper.serve(GateKind.ENTRY, work.rules())
        for kind in RESULT_GATES:
            keeper.serve(kind, review.rules())
        keeper.serve(GateKind.MERGE, merging.rules())
        stamping, briefing = Stamping(desk), Briefing(desk)
        operating = Operating(desk, metering, stamping)
        reloading = Reloading(desk, keeper, merging, stamping, briefing, read)
        proposals = Proposals(desk, keeper, reloading)
        keeper.serve(GateKind.ROSTER, proposals.rules())
        return cls(
            desk=desk,
            snapshots=snapshots,
            metering=metering,
            stamping=stamping,
            gatekeeper=keeper,
            merging=merging,
            review=review,
            work=work,
            operating=operating,
            budgets=Budgets(desk, metering, operating),
            reloading=reloading,
            proposals=proposals,
            handoffs=Handoffs(desk, stop),
            briefing=briefing,
            screens=Screens(desk),
            session_file=SessionFile(desk),
        )
