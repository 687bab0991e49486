"""The lists of models of the OpenAI APIs: no body, nothing to scan but the path.

Invariant: whatever a client sends as a body is refused. Agents ask at their start; codex names its
version in the query. Called by the scanning workers and the pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.wire.body import BodilessFormat, Call
from gateway.wire.errors import Family

_QUERY: Final[Mapping[str, str]] = {
    "client_version": r"[0-9]{1,4}(\.[0-9]{1,4}){1,2}(-[a-z]{1,8}(\.[0-9]{1,3})?)?",
    "limit": r"[0-9]{1,4}",
}


class OpenAiModels(BodilessFormat):
    """`GET /v1/models` and `GET /v1/models/{model}`."""

    family = Family.OPENAI


def _calls(base: str, provider: str, *, bare: bool = False) -> tuple[Call, ...]:
    return (
        Call(method="GET", template=f"{base}/models", provider=provider, query=_QUERY, bare=bare),
        Call(method="GET", template=f"{base}/models/{{model}}", provider=provider, bare=bare),
    )


FORMATS: Final = (
    OpenAiModels(
        "openai.models",
        _calls("/v1", "openai", bare=True) + _calls("/v1beta/openai", "google"),
    ),
)
