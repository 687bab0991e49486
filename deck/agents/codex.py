"""Codex: ignores OPENAI_BASE_URL (measured with 0.171), so routing is a setting on its command
line, with the version path in the URL."""

from deck.agents.adapter import Adapter


def _arguments(base_url: str) -> tuple[str, ...]:
    return (
        "-c",
        f'openai_base_url="{base_url}/v1"',
        "-c",
        "check_for_update_on_startup=false",
        "-c",
        "analytics.enabled=false",
    )


ADAPTER = Adapter(name="codex", arguments=_arguments)
