"""Gemini CLI and its derivatives: routed by GOOGLE_GEMINI_BASE_URL. Its title says "Ready" before
its prompt takes input (measured with 0.61: 0.5 s, more on a busy machine), and what was typed
earlier is thrown away: it reads once it has asked for bracketed paste."""

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
    if seating.environ.get("GEMINI_API_KEY"):
        settings["security"] = {"auth": {"selectedType": "gemini-api-key"}}
    return {".gemini/settings.json": json.dumps(settings, indent=2)}


ADAPTER = Adapter(
    name="gemini",
    measured=("0.61.0",),
    url_env={"GOOGLE_GEMINI_BASE_URL": ""},
    home_env={"GEMINI_CLI_HOME": ""},
    own_env={"GEMINI_CLI_TRUST_WORKSPACE": "true"},
    first_run=_first_run,
    marks=Marks(
        takes_over=True,
        pastes=True,
        ready=re.compile("type your message", re.IGNORECASE),
        questions=("do you trust this folder", "how would you like to authenticate"),
    ),
)
DERIVATIVE = Adapter(name="agy", url_env=ADAPTER.url_env)
