"""Qwen Code: routed by OPENAI_BASE_URL with the version path (measured with 0.24)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from deck.agents.adapter import Adapter, Seating
from deck.pane.status import Marks


def _first_run(seating: Seating) -> Mapping[str, str]:
    settings: dict[str, object] = {
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    if seating.environ.get("OPENAI_API_KEY"):
        settings["security"] = {"auth": {"selectedType": "openai"}}
    return {".qwen/settings.json": json.dumps(settings, indent=2)}


ADAPTER = Adapter(
    name="qwen",
    measured=("0.24.4",),
    url_env={"OPENAI_BASE_URL": "/v1"},
    home_env={"QWEN_HOME": ".qwen"},
    first_run=_first_run,
    marks=Marks(takes_over=True, ready=re.compile("type your message", re.IGNORECASE)),
    beside=("it sends usage data to a host of its own, which only the egress wall stops",),
)
