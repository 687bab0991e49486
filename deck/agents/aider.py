"""aider: one base URL for each API, with the version path for OpenAI's (measured with 0.86). Its
questions end in a list of answers, the default one in brackets."""

import re

from deck.agents.adapter import Adapter
from deck.pane.status import Marks

ADAPTER = Adapter(
    name="aider",
    measured=("0.86.2",),
    url_env={"OPENAI_API_BASE": "/v1", "ANTHROPIC_API_BASE": ""},
    quiet={
        "AIDER_CHECK_UPDATE": "false",
        "AIDER_ANALYTICS_DISABLE": "true",
        # Asks at its first start whether to show them.
        "AIDER_SHOW_RELEASE_NOTES": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    },
    marks=Marks(
        takes_over=True,
        pastes=True,
        ready=re.compile(r"^\w*>$"),
        questions=("(y)es/(n)o",),
    ),
    beside=("it looks up its price list at raw.githubusercontent.com",),
)
