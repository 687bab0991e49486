"""The usage line: the one metric that decks of any version read from a gateway.

Owns the text of `sphragis_tokens_total`, for writing (gateway) and reading (deck), so that both
ends cannot drift apart. The label order `agent, model, direction`, the absence of any other
label and the number syntax are a wire contract (contracts/gateway.md, sections 2 and 3.9);
prometheus-client sorts labels and would break it, which is why this family is written by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

Direction = Literal["input", "output", "cache_creation", "cache_read"]

DIRECTIONS: Final[tuple[Direction, ...]] = get_args(Direction)
FAMILY: Final = "sphragis_tokens_total"

#: The model label is cut here, as existing gateways do (contracts/gateway.md section 1).
MODEL_LABEL_MAX: Final = 64
#: Readers look at no more of a scrape than this (contracts/gateway.md section 2).
SCRAPE_LIMIT_BYTES: Final = 1 << 20

#: The expression existing decks use, to the letter of the contract.
USAGE_LINE: Final = re.compile(
    r'^sphragis_tokens_total\{agent="([^"]*)",model="([^"]*)",direction="([^"]*)"\} ([0-9.eE+]+)$'
)

_UNSAFE = re.compile(r'["\\]|[^ -~]')


@dataclass(frozen=True, slots=True)
class UsageKey:
    """One series: tokens of one model, used by one role, in one direction."""

    agent: str
    model: str
    direction: Direction


def model_label(model: str) -> str:
    """Return `model` as a safe label value: printable ASCII, no quote, at most 64 characters."""
    return _UNSAFE.sub("_", model)[:MODEL_LABEL_MAX]


def render_usage(totals: Mapping[UsageKey, int]) -> str:
    """Return the usage family as exposition text, zero series left out, ending in a newline.

    Values are cumulative token counts since the gateway started. Models whose label comes out
    the same share a series.
    """
    series: dict[UsageKey, int] = {}
    for key, count in totals.items():
        merged = UsageKey(key.agent, model_label(key.model), key.direction)
        series[merged] = series.get(merged, 0) + count
    lines = [
        f"# HELP {FAMILY} Tokens the provider reported, by role, model and direction.",
        f"# TYPE {FAMILY} counter",
    ]
    for key, count in sorted(series.items(), key=lambda item: _sort_key(item[0])):
        if count > 0:
            lines.append(
                f'{FAMILY}{{agent="{key.agent}",model="{key.model}",'
                f'direction="{key.direction}"}} {count:d}'
            )
    return "\n".join(lines) + "\n"


def parse_usage(exposition: str | Iterable[str]) -> dict[UsageKey, int]:
    """Read the usage family out of a scrape; lines of any other form are passed over.

    Series without an agent, with an unknown direction or with a number that is not finite are
    dropped, as existing decks do.
    """
    lines = exposition.split("\n") if isinstance(exposition, str) else exposition
    totals: dict[UsageKey, int] = {}
    for line in lines:
        found = USAGE_LINE.match(line.rstrip("\r\n"))
        if found is None:
            continue
        agent, model, direction, number = found.groups()
        if not agent or direction not in DIRECTIONS:
            continue
        try:
            count = int(float(number))
        except (ValueError, OverflowError):
            continue
        key = UsageKey(agent, model, direction)
        totals[key] = totals.get(key, 0) + count
    return totals


def _sort_key(key: UsageKey) -> tuple[str, str, int]:
    return key.agent, key.model, DIRECTIONS.index(key.direction)
