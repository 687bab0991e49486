"""What of a team's setup its ledger keeps: the settings in force, without what may be a secret.

Owns what is left out. Invariant: the text holds only what the deck itself understood of the team
file, so a table nobody knows is never in it; of hooks only the program; an argument that follows
the name of a secret, and whatever has the form of a key, is told as set; prompts are on record as
briefs, by commitment. Pure. Called by `deck.session` at the start of a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from deck.config import Config

SET: Final = "(set)"
#: Options and variables whose value is a secret.
_SECRET_NAME: Final = re.compile(
    r"(?:key|token|secret|passw(?:or)?d|passphrase|credential|authorization|bearer)s?$", re.I
)
#: Words that are keys by their look: the prefixes of the large providers, or 32 characters and
#: more of nothing but letters and digits, both of them.
_SECRET_LOOK: Final = re.compile(
    r"(?:sk-|sk_|pk_|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|AKIA|AIza|ya29\.|eyJ)\S{8,}"
    r"|(?=\S*[0-9])(?=\S*[A-Za-z])[A-Za-z0-9+/_=-]{32,}"
    r"|(?<=://)[^/@\s]+(?=@)"
)
#: A header in one argument, as programs that speak HTTP take it.
_HEADER: Final = re.compile(
    r"^([\w-]*(?:key|token|secret|authorization|cookie)[\w-]*)\s*:.*", re.I | re.S
)
_HOOKS: Final = ("on_gate", "on_input", "on_timeout", "on_budget")


def config_text(config: Config) -> bytes:
    """Return the settings in force as one JSON text, a line for each."""
    told = asdict(config)
    for role in told["roles"]:
        role["args"] = told_arguments(role["args"])
        role["prompt_template"] = SET if role["prompt_template"] else ""
    for hook in _HOOKS:
        words = told["ui"][hook].split()
        told["ui"][hook] = f"{told_arguments(words[:1])[0]} {SET}" if words else ""
    del told["warnings"], told["source"]
    return json.dumps(told, indent=2, sort_keys=True, default=_plain).encode() + b"\n"


def told_arguments(arguments: Sequence[str]) -> list[str]:
    """Return a command's arguments with secrets told as set."""
    told: list[str] = []
    hide = False
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if hide and not argument.startswith("-"):
            told.append(SET)
            hide = False
            continue
        is_secret = _SECRET_NAME.search(name.rstrip(":")) is not None
        hide = is_secret and not equals
        shown = f"{name}={SET}" if is_secret and value else _HEADER.sub(rf"\1: {SET}", argument)
        told.append(_SECRET_LOOK.sub(SET, shown))
    return told


def _plain(value: Any) -> str:
    return str(value)
