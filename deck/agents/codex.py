"""Codex: ignores OPENAI_BASE_URL (measured with 0.171), so routing is settings on its command line,
with the version path in the URL. With a login of its own it tries a WebSocket first, which the
gateway answers 426, and then posts; in a home of its own, with a key in its environment, it gets a
provider of its own, which needs no sign-in. Its background server is shared by all that use one
CODEX_HOME and acts with the key and the environment of the session that started it, so each role
runs without it, and in a home of its own where it has one. Its commands would run in login shells,
whose profile forgets the deck's program."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from deck.agents.adapter import Adapter, Seating
from deck.pane.status import Marks

_KEYS = ("CODEX_API_KEY", "OPENAI_API_KEY")


def _arguments(seating: Seating) -> tuple[str, ...]:
    base = f"{seating.url}/v1"
    settings = [
        f'openai_base_url="{base}"',
        "check_for_update_on_startup=false",
        "analytics.enabled=false",
        # Both look up hosts of their own as soon as the program starts.
        "features.plugins=false",
        "features.apps=false",
    ]
    key = next((name for name in _KEYS if seating.environ.get(name)), None)
    if seating.own and key is not None:
        provider = f'name="choragos", base_url="{base}", env_key="{key}", wire_api="responses"'
        settings += [f"model_providers.choragos={{{provider}}}", 'model_provider="choragos"']
    return tuple(argument for setting in settings for argument in ("-c", setting))


def _first_run(seating: Seating) -> Mapping[str, str]:
    # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
    project = json.dumps(str(seating.project)).replace("\x7f", "\\u007f")
    return {
        ".codex/config.toml": (
            "check_for_update_on_startup = false\n\n"
            f'[projects.{project}]\ntrust_level = "trusted"\n\n'
            "[analytics]\nenabled = false\n\n[features]\nplugins = false\napps = false\n"
        )
    }


ADAPTER = Adapter(
    name="codex",
    measured=("0.171.0",),
    options=lambda _: ("--no-daemon", "-c", "allow_login_shell=false"),
    arguments=_arguments,
    key_env=dict.fromkeys(_KEYS, "openai"),
    home_env={"CODEX_HOME": ".codex"},
    first_run=_first_run,
    marks=Marks(
        takes_over=True,
        pastes=True,
        ready=re.compile(r"^\s*›(?!\s*\d+\.)(?:\s|$)|\? for shortcuts"),
        questions=("sign in with chatgpt", "do you trust the contents of this directory"),
    ),
    overrides=("openai_base_url", "model_provider", "chatgpt_base_url"),
)
