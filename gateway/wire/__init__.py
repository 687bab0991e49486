"""The registry of wire formats: one small pure module per provider format, one line here each.

Knows nothing of sockets, files or policy; `get` is called by the scanning workers and the pipeline.
"""

from __future__ import annotations

from typing import Final

from gateway.wire.anthropic import AnthropicMessages
from gateway.wire.base import WireFormat, WireRefused

_FORMATS: Final[dict[str, WireFormat]] = {
    wire.name: wire
    for wire in (
        AnthropicMessages("anthropic.messages"),
        AnthropicMessages("anthropic.count_tokens"),
    )
}

__all__ = ["WireFormat", "WireRefused", "get"]


def get(name: str) -> WireFormat:
    """Return the format registered under `name`. Raises WireRefused for any other name."""
    try:
        return _FORMATS[name]
    except KeyError:
        raise WireRefused(
            "wire_format", "This gateway has no scanner for the format of this request."
        ) from None
