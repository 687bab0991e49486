"""Azure OpenAI: the same documents as OpenAI's, under paths that name a deployment and a version.

Owns the paths: `/openai/deployments/{deployment}/…?api-version=…` of the data plane, `/openai/v1/…`
of its newer surface and `/models/…` of the model inference API. Bodies and answers are read by the
OpenAI modules; the model of a call without one is its deployment. The address is the setting
`azure_base_url`. Source: the published REST reference, 2024-10-21 and v1, Nov 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.wire.body import Call, JsonFormat, RedactedBody
from gateway.wire.formats.openai_chat import OpenAiChat
from gateway.wire.formats.openai_models import OpenAiModels
from gateway.wire.formats.openai_texts import OpenAiTexts
from gateway.wire.schema import Reading

_PROVIDER: Final = "azure"

#: A version is a date, of a preview or not, or a word.
VERSION_QUERY: Final[Mapping[str, str]] = {
    "api-version": r"20[0-9]{2}-[01][0-9]-[0-3][0-9](-preview)?|preview|latest|v1"
}


class _Deployed(JsonFormat):
    """A call whose path names the deployment."""

    def redact_body(
        self, body: bytes, content_type: str, reading: Reading, params: Mapping[str, str]
    ) -> RedactedBody:
        """Redact like OpenAI's call; the deployment is the model when the body names none."""
        named = {**params, "model": params.get("deployment", "")}
        return super().redact_body(body, content_type, reading, named)


class AzureChat(_Deployed, OpenAiChat):
    """Chat Completions of a deployment."""


class AzureTexts(_Deployed, OpenAiTexts):
    """Completions or Embeddings of a deployment."""


def _calls(operation: str, *, inference: bool = False) -> tuple[Call, ...]:
    bases = ("/openai/deployments/{deployment}", "/openai/v1", *(["/models"] if inference else []))
    return tuple(
        Call(template=f"{base}/{operation}", provider=_PROVIDER, query=VERSION_QUERY)
        for base in bases
    )


FORMATS: Final = (
    AzureChat("azure.chat", _calls("chat/completions", inference=True)),
    AzureTexts("azure.completions", _calls("completions")),
    AzureTexts("azure.embeddings", _calls("embeddings", inference=True)),
    OpenAiModels(
        "azure.models",
        tuple(
            Call(method="GET", template=template, provider=_PROVIDER, query=VERSION_QUERY)
            for template in (
                "/openai/models",
                "/openai/models/{model}",
                "/openai/v1/models",
                "/openai/v1/models/{model}",
            )
        ),
    ),
)
