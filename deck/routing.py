"""Whether a role's model calls can miss the gateway, and the refusal of a team that must not.

Owns the known ways past the gateway: provider keys and detours in a role's environment, programs
that do not read the variable they are routed by. Pure, given names of variables; values are never
looked at. `require_routing = true` turns a way past the gateway from a warning of the doctor into
a refusal to start (contracts/deck.md section 2.11). Called by `deck.doctor` and `deck.session`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from deck.agents import adapter_for
from deck.config import Config, Role
from deck.roster import filtered
from shared.paths import is_path_safe_role

#: Variables that let an agent reach a provider past the gateway.
PROVIDER_KEYS: Final = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "OPENAI_API_KEY",
    "CODEX_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "MISTRAL_API_KEY",
    "DEEPSEEK_API_KEY",
    "GROQ_API_KEY",
    "XAI_API_KEY",
    "OPENROUTER_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
)
#: Variables that send Claude Code to another provider, whatever its base URL says.
_DETOURS: Final = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")


class NotRouted(Exception):
    """A role that must be routed could miss the gateway; the text says how and what to do."""


def refuse_unrouted(config: Config, environ: Mapping[str, str], *, enforced: bool) -> None:
    """Raise NotRouted if a role with `require_routing` has a known way past the gateway.

    `enforced` tells whether the gateway is on for this run at all.
    """
    for role in config.roles:
        if not role.require_routing:
            continue
        found = [] if enforced else ["the gateway is off; set enabled = true in [sphragis]"]
        if not role.wall:
            found += bypasses(role, frozenset(filtered(environ, role)))
        if found:
            raise NotRouted(
                f"role {role.name}: require_routing = true, but {found[0]}. `choragos doctor` "
                "names every way past the gateway."
            )


def bypasses(role: Role, variables: frozenset[str]) -> list[str]:
    """Return a sentence for each way a role's model calls could miss the gateway.

    `variables` are the names of the variables the role sees.
    """
    found = []
    program = os.path.basename(role.command)
    keys = [name for name in PROVIDER_KEYS if name in variables]
    if keys:
        found.append(
            f"it sees {', '.join(keys)} and so could call the provider past the gateway; keep the "
            "key in the gateway, or list it in env_deny"
        )
    detours = [name for name in _DETOURS if name in variables and program == "claude"]
    if detours:
        found.append(f"{', '.join(detours)} sends it past the gateway; list it in env_deny")
    adapter = adapter_for(role.command)
    found += adapter.past
    own = [name for name in adapter.overrides if _sets(role.args, name)]
    if own:
        found.append(
            f"its args set {', '.join(own)}, which decides where {program} sends its calls (it "
            "ignores base URL variables); leave routing to the deck"
        )
    if not is_path_safe_role(role.name):
        found.append(
            "its name cannot be part of a URL, so its calls are not counted as its own; use "
            "letters, digits, '.', '_' and '-'"
        )
    return found


def _sets(args: tuple[str, ...], name: str) -> bool:
    """Whether a setting is given on the command line, as `-c name=…` or in a table's key."""
    return any(arg.partition("=")[0].strip().removeprefix("--config=") == name for arg in args)
