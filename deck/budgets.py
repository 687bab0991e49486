"""Budgets: a role that has cost more than its team file allows is noticed, or paused.

Owns when a budget fires (contracts/deck.md section 1.10): on each count of tokens, once for each
amount, and again only after the role was within it. What counts is what this session has cost,
not what the gateway has counted. Invariants: that a budget was exceeded is durable before anything
follows from it, and a role that its budget has paused does not come back with a restart of the
deck. `deck.metering` asks after each count; `uncountable` is pure, for whoever warns.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from deck.config import BudgetAction, Config, GatewayMode, Role
from deck.desk import Desk
from deck.entries import Entry, Op
from deck.journal import JournalFailed
from deck.metering import Metering
from deck.operating import Operating
from deck.pricing import format_cost, price_of, round_cost


@dataclass(slots=True)
class Budgets:
    """The budgets of one session."""

    desk: Desk
    metering: Metering
    operating: Operating
    #: Roles of which it was said that their budget does not count everything, with the models.
    _warned: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.metering.counted = self.check

    async def check(self) -> None:
        """Compare what each role has cost with what it may; a ledger that fails is told of.

        Looking and recording are one step of the loop, so a budget cannot fire twice.
        """
        for seat in list(self.desk.seats.values()):
            role = seat.role
            if seat.stopping:
                continue
            if role.budget is None:
                if role.name in self.desk.state.exceeded:
                    self._rearm(role.name, "it has no budget any more")
                continue
            self._warn(role)
            cost = self.metering.cost(role.name)
            if cost is None or cost < role.budget:
                if role.name in self.desk.state.exceeded:
                    self._rearm(role.name, f"{_spent(cost, role.budget)} is within it")
            elif self.desk.state.exceeded.get(role.name) != f"${role.budget}":
                await self._exceed(role, cost, role.budget)

    async def _exceed(self, role: Role, cost: Decimal, budget: Decimal) -> None:
        """Put it on record and pause the role, before anything else is handed to it."""
        desk, spent = self.desk, _spent(cost, budget)
        entry = Entry(
            Op.BUDGET_EXCEEDED,
            desk.now(),
            role=role.name,
            digest=f"${budget}",
            reason=spent,
            state=role.budget_action,
        )
        done = "it goes on"
        try:
            await desk.record(entry)
            if role.budget_action is BudgetAction.PAUSE:
                problem = await self._pause(role.name, spent)
                done = f"it cannot be paused: {problem}" if problem else "it is paused"
        except JournalFailed as failure:
            # What could not be recorded fires when it can be; nothing is handed out until then.
            desk.events.write("ERROR", "journal failed", err=str(failure))
            return
        self._log(role, cost, budget)
        desk.hook("on_budget", desk.config.ui.on_budget, role.name, spent)
        desk.notify(f"{role.name} has cost {spent} of its budget; {done}.")

    async def _pause(self, role: str, spent: str) -> str:
        """Pause a role that may be paused already; return why that cannot be, or ""."""
        if role in self.desk.state.paused:
            return ""
        return await self.operating.hold(self.desk.seats[role], "", f"it has cost {spent}")

    def _log(self, role: Role, cost: Decimal, budget: Decimal) -> None:
        self.desk.events.write(
            "WARN",
            "budget exceeded",
            role=role.name,
            budget=str(budget),
            cost=round_cost(cost),
            action=role.budget_action,
        )

    def _rearm(self, role: str, why: str) -> None:
        self.desk.note(Entry(Op.BUDGET_REARMED, self.desk.now(), role=role, reason=why))
        self.desk.events.write("INFO", "budget re-armed", role=role, reason=why)

    def _warn(self, role: Role) -> None:
        """Say once that models without a price are used, whose cost no budget can hold."""
        models = self.metering.unpriced(role.name)
        if not models or set(models) <= set(self._warned.get(role.name, ())):
            return
        self._warned[role.name] = models
        self.desk.events.write(
            "WARN", "budget cannot be counted", role=role.name, models=",".join(models)
        )
        self.desk.notify(
            f"the budget of {role.name} does not count {', '.join(models)}, which has no price."
        )

    async def resume(self) -> None:
        """After a start that goes on with a board: keep to what was exceeded before."""
        for seat in list(self.desk.seats.values()):
            role, cost = seat.role, self.metering.cost(seat.name)
            if seat.name not in self.desk.state.exceeded or role.budget is None or cost is None:
                continue
            if cost < role.budget:
                continue
            # A report covers one run of the deck: it is exceeded in this one, too.
            self._log(role, cost, role.budget)
            if role.budget_action is BudgetAction.PAUSE:
                await self._pause(seat.name, _spent(cost, role.budget))


def _spent(cost: Decimal | None, budget: Decimal) -> str:
    return f"{format_cost(round_cost(cost or Decimal(0)))} of {format_cost(budget)}"


def uncountable(config: Config) -> tuple[str, ...]:
    """Return a sentence for each role whose budget cannot be counted as the team file stands."""
    said = []
    for role in config.roles:
        if role.budget is None:
            continue
        if config.sphragis.mode is GatewayMode.OFF:
            why = "the gateway, which counts tokens, is off; set enabled = true in [sphragis]"
        elif not config.pricing:
            why = 'no model has a price; add a [pricing."<model>"] table'
        elif role.model and price_of(config.pricing, role.model) is None:
            why = f'{role.model} has no price; add [pricing."{role.model}"]'
        else:
            continue
        said.append(f"role {role.name}: its budget cannot be counted: {why}")
    return tuple(said)
