"""Budgets fire once, on what the session has cost, and again only after the cap was raised."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from deck_harness import DeckRig, FakeGateway, agent_role

from deck.board import State
from deck.budgets import Budgets, uncountable
from deck.config import BudgetAction, Config, Price, Role, SphragisConfig
from deck.doctor import check_config
from deck.entries import Entry, Op
from deck.facts import Facts
from deck.metering import Metering
from deck.replay import apply
from deck.usage import Baseline, Scrape
from shared.telemetry import UsageKey

KEY = UsageKey("coder", "m-1", "input")
OTHER = UsageKey("coder", "unknown-9", "input")
PRICING = {"m": Price(input=Decimal(10))}


class Scene:
    """Budgets over a board in memory; the gateway's counters are set by hand."""

    def __init__(self, **role: Any) -> None:
        self.counters: dict[UsageKey, int] = {}
        self.state = State(run="r")
        self.entries: list[Entry] = []
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.hooks: list[tuple[str, ...]] = []
        self.notices: list[str] = []
        self.paused: list[str] = []
        self.gateway = SimpleNamespace(enforced=True, scrape=self._scrape)
        self.seat = SimpleNamespace(name="coder", role=Role("coder", **role), stopping=False)
        self.seats = {"coder": self.seat}
        ui = SimpleNamespace(on_budget="ring")
        self.config = SimpleNamespace(pricing=PRICING, ui=ui)
        self.events = SimpleNamespace(write=self._write)
        desk: Any = self
        operating: Any = SimpleNamespace(hold=self._pause)
        self.metering = Metering(desk)
        self.budgets = Budgets(desk, self.metering, operating)

    async def _scrape(self) -> Scrape:
        return Scrape(dict(self.counters))

    async def _pause(self, seat: Any, sender: str, reason: str) -> str:
        self.paused.append(seat.name)
        return ""

    def _write(self, level: str, msg: str, **fields: Any) -> None:
        self.lines.append((msg, fields))

    async def record(self, entry: Entry) -> None:
        self.note(entry)
        await asyncio.sleep(0)

    def note(self, entry: Entry) -> None:
        self.state = apply(self.state, entry)
        self.entries.append(entry)

    def now(self) -> int:
        return 1

    def hook(self, *told: str) -> None:
        self.hooks.append(told)

    def notify(self, text: str) -> None:
        self.notices.append(text)

    async def used(self, tokens: int) -> None:
        """The gateway has counted so many tokens; at ten dollars a million."""
        self.counters = {KEY: tokens}
        await asyncio.gather(self.metering.take(), self.metering.take())

    def messages(self, msg: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.lines if name == msg]


async def scene(**role: Any) -> Scene:
    made = Scene(**role)
    await made.metering.start(Baseline.STARTED, "")
    return made


async def test_a_budget_fires_once_when_it_is_reached() -> None:
    deck = await scene(budget=Decimal("1.00"))
    await deck.used(99_999)
    assert deck.entries[-1].op is Op.USAGE_TAKEN
    await deck.used(100_000)
    await deck.used(250_000)
    fired = [entry for entry in deck.entries if entry.op is Op.BUDGET_EXCEEDED]
    assert [(e.role, e.digest, e.reason, e.state) for e in fired] == [
        ("coder", "$1.00", "$1.00 of $1.00", "notify")
    ]
    assert deck.messages("budget exceeded") == [
        {"role": "coder", "budget": "1.00", "cost": Decimal("1.0000"), "action": "notify"}
    ]
    assert deck.hooks == [("on_budget", "ring", "coder", "$1.00 of $1.00")]
    assert deck.notices == ["coder has cost $1.00 of $1.00 of its budget; it goes on."]
    assert deck.paused == []


async def test_counters_that_begin_again_neither_lower_nor_repeat_anything() -> None:
    deck = await scene(budget=Decimal("1.00"))
    await deck.used(90_000)
    await deck.used(5_000)
    assert deck.state.exceeded == {}
    await deck.used(10_000)
    assert deck.state.exceeded == {"coder": "$1.00"}


async def test_a_raised_cap_arms_it_again_and_a_higher_one_that_is_passed_too_fires_too() -> None:
    deck = await scene(budget=Decimal("1.00"))
    await deck.used(120_000)
    deck.seat.role = Role("coder", budget=Decimal("2.00"))
    await deck.used(120_000)
    assert deck.state.exceeded == {}
    await deck.used(210_000)
    assert deck.state.exceeded == {"coder": "$2.00"}
    deck.seat.role = Role("coder", budget=Decimal("2.05"))
    await deck.used(210_000)
    assert deck.state.exceeded == {"coder": "$2.05"}
    assert [e.op for e in deck.entries if "budget" in e.op] == [
        Op.BUDGET_EXCEEDED, Op.BUDGET_REARMED, Op.BUDGET_EXCEEDED, Op.BUDGET_EXCEEDED,
    ]  # fmt: skip


async def test_a_budget_taken_away_is_not_exceeded_any_more() -> None:
    deck = await scene(budget=Decimal("1.00"))
    await deck.used(120_000)
    deck.seat.role = Role("coder")
    await deck.used(130_000)
    assert deck.state.exceeded == {}


async def test_the_action_pause_pauses_and_holds_over_a_restart_of_the_deck() -> None:
    deck = await scene(budget=Decimal("1.00"), budget_action=BudgetAction.PAUSE)
    await deck.used(120_000)
    assert deck.paused == ["coder"]
    assert deck.notices[-1].endswith("it is paused.")
    await deck.budgets.resume()
    assert deck.paused == ["coder", "coder"]
    deck.seat.role = Role("coder", budget=Decimal(9), budget_action=BudgetAction.PAUSE)
    await deck.budgets.resume()
    assert deck.paused == ["coder", "coder"]


async def test_a_model_without_a_price_is_told_of_once() -> None:
    deck = await scene(budget=Decimal("1.00"))
    for count in (5, 6):
        deck.counters = {OTHER: count}
        await deck.metering.take()
    assert deck.messages("budget cannot be counted") == [{"role": "coder", "models": "unknown-9"}]
    assert len(deck.notices) == 1


def test_what_a_budget_cannot_count_is_known_from_the_team_file() -> None:
    pricing = {"claude": Price()}
    roles = (
        Role("a", budget=Decimal(1), model="claude-x"),
        Role("b", budget=Decimal(1), model="gpt-9"),
        Role("c", model="gpt-9"),
    )
    assert uncountable(Config(roles=roles, pricing=pricing)) == (
        'role b: its budget cannot be counted: gpt-9 has no price; add [pricing."gpt-9"]',
    )
    assert len(uncountable(Config(roles=roles))) == 2
    off = Config(roles=roles, pricing=pricing, sphragis=SphragisConfig(enabled=False))
    assert "the gateway, which counts tokens, is off" in uncountable(off)[0]


def test_the_doctor_says_so_too() -> None:
    config = Config(roles=(Role("b", budget=Decimal(1), model="gpt-9"),), pricing=PRICING)
    said = [finding.message for finding in check_config(Facts(config=config))]
    assert any("budget cannot be counted: gpt-9 has no price" in text for text in said)


# -- the whole deck --------------------------------------------------------------------------


def usage(tokens: int) -> str:
    return f'sphragis_tokens_total{{agent="coder",model="m-1",direction="input"}} {tokens}\n'


def test_an_exceeded_budget_is_in_events_report_board_and_hook_and_survives_a_kill(
    rig: DeckRig, gateway: FakeGateway
) -> None:
    tail = (
        f'[sphragis]\nenabled = true\naddr = "{gateway.addr}"\n'
        '[pricing."m"]\ninput = 10.0\n'
        '[ui]\non_budget = "echo $CHORAGOS_ROLE: \\"$CHORAGOS_TASK\\" >> over.txt"\n'
    )
    coder = agent_role("coder", budget="1.00", budget_action="pause")
    rig.team(agent_role("orchestrator"), coder, tail=tail)
    rig.serve("--sphragis")
    rig.wait_idle("coder")
    gateway.metrics = usage(150_000)
    rig.wait(lambda: rig.status()["usage"][1].get("exceeded"))
    rig.wait(lambda: (rig.dir / "over.txt").read_text() == "coder: $1.50 of $1.00\n")
    rig.wait(lambda: rig.role("coder")["state"] == "paused")
    assert 'msg="budget exceeded" role=coder budget=1.00 cost=1.5000 action=pause' in rig.events()
    assert "$1.50 of $1.00" in rig.cli("board", COLUMNS="160").stdout
    assert "budget exceeded: coder ($1.00)" in rig.cli("report").stdout
    told = json.loads(rig.cli("report", "--json").stdout)
    assert next(r for r in told["roles"] if r["role"] == "coder")["budget_usd"] == 1.0
    rig.wait(lambda: any("has cost $1.50 of $1.00" in s for s in rig.seen("orchestrator")))

    pid = rig.pid()
    os.kill(pid, signal.SIGKILL)
    rig.wait(lambda: not Path(f"/proc/{pid}").exists())
    rig.serve("--sphragis")
    rig.wait(lambda: rig.role("coder")["state"] == "paused")
    row = rig.status()["usage"][1]
    assert (row["cost_usd"], row["budget_usd"], row["exceeded"]) == (1.5, 1.0, True)
    assert (rig.dir / "over.txt").read_text().count("\n") == 1
    assert "budget exceeded: coder ($1.00)" in rig.cli("report").stdout
