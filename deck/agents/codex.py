"""Codex: ignores OPENAI_BASE_URL (measured with 0.171), so routing is settings on its command line,
with the version path in the URL. Its own login is used; it tries a WebSocket first, which the
gateway answers 426, and then posts. Its background server is shared by all that use one CODEX_HOME
and acts with the key and the environment of the session that started it, so each role runs without
it. Its commands would run in login shells, whose profile forgets the deck's program."""

from deck.agents.adapter import Adapter


def _arguments(base_url: str) -> tuple[str, ...]:
    settings = (
        f'openai_base_url="{base_url}/v1"',
        "check_for_update_on_startup=false",
        "analytics.enabled=false",
        # Both look up hosts of their own as soon as the program starts.
        "features.plugins=false",
        "features.apps=false",
    )
    return tuple(argument for setting in settings for argument in ("-c", setting))


ADAPTER = Adapter(
    name="codex",
    arguments=_arguments,
    options=("--no-daemon", "-c", "allow_login_shell=false"),
)
