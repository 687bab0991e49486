"""What the deck knows about agent programs: one small adapter for each known CLI.

Owns the registry. An adapter states measured facts (contracts/clients.md sections 2 and 5): how
the program is pointed at the gateway and what keeps it quiet. An unknown command is a plain
program: it gets the role's environment and nothing else. Adding a CLI is one module and one line.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from deck.agents import aider, claude, codex, gemini, opencode, pi, plain, qwen, shell
from deck.agents.adapter import Adapter, Seating

__all__ = ["Adapter", "Seating", "adapter_for"]

_KNOWN: Final[Mapping[str, Adapter]] = MappingProxyType(
    {
        "claude": claude.ADAPTER,
        "codex": codex.ADAPTER,
        "gemini": gemini.ADAPTER,
        # Speaks the same API; its screen has not been measured.
        "agy": gemini.DERIVATIVE,
        "opencode": opencode.ADAPTER,
        "pi": pi.ADAPTER,
        "qwen": qwen.ADAPTER,
        "aider": aider.ADAPTER,
        **dict.fromkeys(shell.NAMES, shell.ADAPTER),
    }
)


def adapter_for(command: str) -> Adapter:
    """Return the adapter of a role's command, by the name of its program file."""
    return _KNOWN.get(os.path.basename(command), plain.ADAPTER)
