"""Claude Code: routed by ANTHROPIC_BASE_URL without a version path; also calls other hosts
unless told not to (measured with 2.1.332)."""

from deck.agents.adapter import Adapter

ADAPTER = Adapter(
    name="claude",
    url_env=("ANTHROPIC_BASE_URL",),
    quiet={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"},
)
