"""The model providers: whose address is in which setting, and which header carries their key.

Invariant: of a client's headers exactly one credential is taken, the one the provider of the call
reads; a key of another provider is never sent to it (contracts/gateway.md section 3.6). Pure;
called by the pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gateway.admission import Refused

_BEARER: Final = "authorization"


@dataclass(frozen=True, slots=True)
class Provider:
    """headers: where a client may put its key, the provider's own header first. The first is also
    where a key that the gateway holds is put."""

    name: str
    headers: tuple[str, ...]


PROVIDERS: Final[Mapping[str, Provider]] = MappingProxyType(
    {
        provider.name: provider
        for provider in (
            Provider("anthropic", ("x-api-key", _BEARER)),
            Provider("openai", (_BEARER,)),
            Provider("google", ("x-goog-api-key", _BEARER)),
            Provider("azure", ("api-key", _BEARER)),
            Provider("ollama", (_BEARER,)),
            Provider("bedrock", (_BEARER,)),
            Provider("vertex", (_BEARER, "x-goog-api-key")),
        )
    }
)


@dataclass(frozen=True, slots=True, repr=False)
class Credential:
    """The one credential of a call: the header it goes in and its value."""

    header: str
    value: str


def credential_of(
    provider: str, headers: Mapping[str, str], query_key: str = ""
) -> Credential | None:
    """Return the provider's key among a client's headers, or None.

    Some clients send two (contracts/clients.md section 6.4); the provider's own header wins.
    `query_key` is a key that stood in the query. Raises Refused for a scheme that cannot be passed
    on and for a key that no header can carry.
    """
    known = PROVIDERS[provider]
    for header in known.headers:
        value = headers.get(header, "").strip()
        if value and header == _BEARER:
            _check_scheme(value)
        if value:
            return _plain(header, value)
    return _plain(known.headers[0], query_key) if query_key else None


def held_key(provider: str, key: str) -> Credential:
    """Return the credential made of a key that the gateway itself holds for `provider`."""
    header = PROVIDERS[provider].headers[0]
    return Credential(header, f"Bearer {key}" if header == _BEARER else key)


def _check_scheme(value: str) -> None:
    scheme = value.partition(" ")[0].lower()
    if scheme.startswith("aws4-"):
        raise Refused(
            "signed_request",
            "The request is signed (AWS Signature Version 4), and a body that the gateway changed "
            "would no longer match the signature; use a Bedrock API key as bearer token instead.",
        )
    if scheme != "bearer":
        raise Refused(
            "credential_scheme",
            "The Authorization header must be a bearer token; send the provider's key that way "
            "or in the provider's own header.",
        )


def _plain(header: str, value: str) -> Credential:
    if not (value.isascii() and value.isprintable()):
        raise Refused(
            "credential_bytes",
            f"The {header} header holds characters that no provider key has; check what the "
            "client's key was copied from.",
        )
    return Credential(header, value)
