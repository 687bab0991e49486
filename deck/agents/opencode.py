"""opencode: reads its base URLs from its settings, of which a part can come in a variable (1.18).
Providers that a person has added under other names keep their own address."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from deck.agents.adapter import Adapter, Seating
from deck.pane.status import Marks

_CONTENT = "OPENCODE_CONFIG_CONTENT"
#: The providers it comes with that the gateway speaks for, and what follows the URL there.
_PROVIDERS = {"anthropic": "/v1", "openai": "/v1", "google": "/v1beta"}


def _routing(seating: Seating) -> Mapping[str, str]:
    """Its settings with the base URLs in them; what a person has put there stays."""
    try:
        settings = json.loads(seating.environ.get(_CONTENT) or "{}")
    except ValueError:
        settings = {}
    if not isinstance(settings, dict):
        settings = {}
    providers = _table(settings, "provider")
    for name, path in _PROVIDERS.items():
        _table(_table(providers, name), "options")["baseURL"] = f"{seating.url}{path}"
    return {_CONTENT: json.dumps({"autoupdate": False, "share": "disabled", **settings})}


def _table(values: dict[str, object], key: str) -> dict[str, object]:
    found = values.get(key)
    table = found if isinstance(found, dict) else {}
    values[key] = table
    return table


ADAPTER = Adapter(
    name="opencode",
    measured=("1.18.33",),
    quiet={
        f"OPENCODE_DISABLE_{what}": "1" for what in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
    },
    routing=_routing,
    # Measured: it drops what is typed before its first screen, 5 to 7 s after its start.
    marks=Marks(takes_over=True, ready=re.compile(r"ask anything|ctrl\+p commands", re.IGNORECASE)),
    past=(
        "providers which opencode.json adds under other names than anthropic, openai and google "
        "keep the address they have there; set their options.baseURL",
    ),
    beside=("its first start looks up the npm registry",),
)
