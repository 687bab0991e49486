"""Claude Code: routed by ANTHROPIC_BASE_URL without a version path; also calls other hosts unless
told not to. 2.1.332 tells its state by OSC 7501 once the probe is answered, 2.1.197 by its title
alone. Its trust dialog preselects "No, exit", its key dialog "No"."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from deck.agents.adapter import Adapter, Seating
from deck.pane.status import Marks

#: It keeps this much of a key it was allowed to use, and nothing of the key it shows.
_KEY_TAIL = 20


def _first_run(seating: Seating) -> Mapping[str, str]:
    """What its first dialogs would write: theme, trust in the project, leave to use the key."""
    settings: dict[str, object] = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "projects": {str(seating.project): {"hasTrustDialogAccepted": True}},
    }
    if key := seating.environ.get("ANTHROPIC_API_KEY"):
        settings["customApiKeyResponses"] = {"approved": [key[-_KEY_TAIL:]], "rejected": []}
    return {".claude.json": json.dumps(settings, indent=2)}


ADAPTER = Adapter(
    name="claude",
    measured=("2.1.197", "2.1.332"),
    url_env={"ANTHROPIC_BASE_URL": ""},
    quiet={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"},
    home_env={"CLAUDE_CONFIG_DIR": ""},
    first_run=_first_run,
    marks=Marks(
        takes_over=True,
        ready=re.compile(r"shift\+tab to cycle|\? for shortcuts|^\W*[❯>](?!\s*\d+\.)(?:\s|$)"),
        questions=(
            "choose the text style",
            "select login method",
            "do you want to use this api key",
            "is this a project you created or one you trust",
            "quick safety check",
        ),
    ),
)
