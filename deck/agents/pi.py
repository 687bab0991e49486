"""pi: takes its base URLs from extensions (0.73), so it is given one that sends its built-in
providers to the gateway. It runs tools unasked: there is no question to be blocked at."""

from __future__ import annotations

import json
from collections.abc import Mapping

from deck.agents.adapter import Adapter, Seating
from deck.pane.status import Marks

_EXTENSION = "pi-gateway.js"
#: anthropic-messages wants the bare URL, the others the version path.
_PROVIDERS = {"anthropic": "", "openai": "/v1", "google": "/v1beta"}


def _files(seating: Seating) -> Mapping[str, str]:
    if seating.url is None:
        return {}
    calls = "".join(
        f"  pi.registerProvider({json.dumps(name)}, "
        f"{{ baseUrl: {json.dumps(seating.url + path)} }});\n"
        for name, path in _PROVIDERS.items()
    )
    return {_EXTENSION: f"export default function (pi) {{\n{calls}}}\n"}


def _arguments(seating: Seating) -> tuple[str, ...]:
    return ("--extension", str(seating.home / _EXTENSION))


ADAPTER = Adapter(
    name="pi",
    measured=("0.73.1",),
    quiet={"PI_OFFLINE": "1"},
    arguments=_arguments,
    home_env={"PI_CODING_AGENT_DIR": ".pi/agent"},
    files=_files,
    marks=Marks(takes_over=True, pastes=True),
    past=(
        "providers other than anthropic, openai and google, those of models.json included, keep "
        "the address they have; set their baseUrl",
    ),
)
