"""What tokens cost: prices by model prefix, amounts in US dollars, and how both are shown.

Owns the price lookup (the longest prefix of the model's name wins), the sum over the four
directions and the text of amounts and counts. Pure and exact: amounts are decimals, never
floats. A model without a price has no cost, which is not the same as a cost of zero. Usage,
report, the board and the cards call it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from deck.config import Price

_PER: Final = Decimal(1_000_000)
_CENT: Final = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts in the four directions a provider bills."""

    input: int = 0
    output: int = 0
    cache_creation: int = 0
    cache_read: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cache_creation + other.cache_creation,
            self.cache_read + other.cache_read,
        )

    def __sub__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input - other.input,
            self.output - other.output,
            self.cache_creation - other.cache_creation,
            self.cache_read - other.cache_read,
        )

    @property
    def sent(self) -> int:
        """What went up: input with both kinds of cache."""
        return self.input + self.cache_creation + self.cache_read

    @property
    def total(self) -> int:
        """All four directions."""
        return self.sent + self.output


def price_of(pricing: Mapping[str, Price], model: str) -> Price | None:
    """Return the price of the longest prefix of `model`, or None when no prefix fits."""
    fitting = [prefix for prefix in pricing if model.startswith(prefix)]
    return pricing[max(fitting, key=len)] if fitting else None


def cost_usd(pricing: Mapping[str, Price], usage: Mapping[str, Tokens]) -> Decimal | None:
    """Return the cost in US dollars of tokens by model; None when none of the models has a price.

    Models without a price add nothing.
    """
    costs = [
        _cost(price, tokens)
        for model, tokens in usage.items()
        if (price := price_of(pricing, model)) is not None
    ]
    return sum(costs, Decimal(0)) if costs else None


def format_cost(amount: Decimal) -> str:
    """Return dollars with two decimals, under one cent with four: `$1.25`, `$0.0042`."""
    return f"${round_cost(amount)}" if amount < _CENT else f"${_rounded(amount, _CENT)}"


def round_cost(amount: Decimal) -> Decimal:
    """Return an amount with the four decimals the event log carries."""
    return _rounded(amount, Decimal("0.0001"))


def format_tokens(count: int) -> str:
    """Return a count as cards and reports show it: `300`, `1.5k`, `902k`, `1.2M`."""
    if count < 1_000:
        return str(count)
    size, unit = (1_000, "k") if count < 999_500 else (1_000_000, "M")
    tenths = _rounded(Decimal(count) / size, Decimal("0.1"))
    if tenths < 10 and tenths != tenths.to_integral_value():
        return f"{tenths}{unit}"
    return f"{_rounded(Decimal(count) / size, Decimal(1))}{unit}"


def sum_tokens(parts: Iterable[Tokens]) -> Tokens:
    """Return the sum of counts, direction by direction."""
    return sum(parts, Tokens())


def _cost(price: Price, tokens: Tokens) -> Decimal:
    return (
        price.input * tokens.input
        + price.output * tokens.output
        + price.cache_creation * tokens.cache_creation
        + price.cache_read * tokens.cache_read
    ) / _PER


def _rounded(amount: Decimal, step: Decimal) -> Decimal:
    return amount.quantize(step, rounding=ROUND_HALF_UP)
