"""Gemini CLI and its derivatives: routed by GOOGLE_GEMINI_BASE_URL (measured with 0.61)."""

from deck.agents.adapter import Adapter

ADAPTER = Adapter(name="gemini", url_env=("GOOGLE_GEMINI_BASE_URL",))
