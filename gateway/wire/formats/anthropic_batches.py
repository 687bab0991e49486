"""Anthropic message batches: many Messages requests in one, and their results as JSON lines.

Invariant: each request of a batch is read, and each result restored, exactly as the same message
would be on `/v1/messages`. The address of the results that the provider names is made a path, so
that the client fetches them through this gateway and not past it.
Sources: the published API reference and the official SDK (2.14), Nov 2026.
Called by the scanning workers (requests) and the pipeline (answers) through the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.wire.base import WireRefused, ignore_signed
from gateway.wire.body import FREE, JSON, BodilessFormat, Call, JsonFormat, WholeAnswer
from gateway.wire.errors import Family
from gateway.wire.formats.anthropic import AnthropicMessages, AnthropicWalk, restore_node
from gateway.wire.strictjson import read_answer, write_answer

_BATCHES: Final = "/v1/messages/batches"
_BATCH: Final = f"{_BATCHES}/{{batch}}"
_BETA: Final = {"beta": "true|false|1|0"}
_PAGE: Final = {**_BETA, "limit": r"\d{1,4}", "before_id": FREE, "after_id": FREE}

#: Where a batch object says its results are.
_RESULTS_URL: Final = "results_url"

#: What the results were seen to be declared as, and other names of the same.
_JSON_LINES: Final = frozenset(
    (
        "application/x-jsonl",
        "application/jsonl",
        "application/x-ndjson",
        "application/binary",
        "application/octet-stream",
        "binary/octet-stream",
        "text/plain",
    )
)


class BatchWalk(AnthropicWalk):
    """A batch: a list of requests, each with the id its result will carry."""

    SCHEMA = replace(
        AnthropicWalk.SCHEMA,
        name="anthropic.batches",
        fields=AnthropicWalk.SCHEMA.fields | {"requests", "custom_id", "params"},
        parts=AnthropicWalk.SCHEMA.parts | {"requests"},
    )


def _restore_batch(document: Any, restore: Callable[[str], str]) -> Any:
    """Return a batch object, or a list of them, restored and with the results at this gateway."""
    restored = restore_node(document, restore)
    data = restored.get("data") if isinstance(restored, dict) else None
    if isinstance(data, list):
        return {**restored, "data": [_here(item) for item in data]}
    return _here(restored)


def _here(batch: Any) -> Any:
    """Clients ask for the address as it stands; a path is taken at their own base URL."""
    url = batch.get(_RESULTS_URL) if isinstance(batch, dict) else None
    if not isinstance(url, str) or not url.startswith(("https://", "http://")):
        return batch
    path = urlsplit(url).path
    start = path.find("/v1/")
    return {**batch, _RESULTS_URL: path[start:] if start >= 0 else None}


class CreateBatch(JsonFormat):
    """`POST /v1/messages/batches`."""

    family = Family.ANTHROPIC
    walk = BatchWalk
    rewrites = True

    def model_of(self, document: Any) -> str:
        """Return the model of the first request: a batch as a whole names none."""
        requests = document.get("requests") if isinstance(document, dict) else None
        first = requests[0] if isinstance(requests, list) and requests else None
        params = first.get("params") if isinstance(first, dict) else None
        model = params.get("model") if isinstance(params, dict) else None
        return model if isinstance(model, str) else ""

    def restore_response(self, document: Any, restore: Callable[[str], str]) -> Any:
        """Return the batch object."""
        return _restore_batch(document, restore)


class LookAtBatch(BodilessFormat):
    """The calls that list, look at, cancel and delete batches."""

    family = Family.ANTHROPIC
    rewrites = True

    def restore_response(self, document: Any, restore: Callable[[str], str]) -> Any:
        """Return the batch object or the list."""
        return _restore_batch(document, restore)


class BatchResults(BodilessFormat):
    """`GET /v1/messages/batches/{id}/results`: one result a line, each a whole message.

    The tokens used are not counted here: results may be fetched any number of times.
    """

    family = Family.ANTHROPIC
    answer_types = _JSON_LINES | {JSON}

    def restore_body(
        self,
        data: bytes,
        media_type: str,
        restore: Callable[[str], str],
        signed: Callable[[str, str], None] = ignore_signed,
    ) -> WholeAnswer:
        """Restore line by line; a line that needs nothing keeps its bytes. Raises WireRefused."""
        if media_type == JSON:
            whole = self._error_or_nothing(data, restore)
            if whole is not None:
                return whole
        lines = [self._line(line, restore, signed) for line in data.split(b"\n")]
        return WholeAnswer(b"\n".join(lines))

    def _error_or_nothing(self, data: bytes, restore: Callable[[str], str]) -> WholeAnswer | None:
        """Return an error document, which may be written over many lines, restored."""
        try:
            document = read_answer(data)
        except WireRefused:
            return None
        if isinstance(document, dict) and "custom_id" in document:
            return None
        return WholeAnswer(write_answer(restore_node(document, restore)))

    def _line(
        self, line: bytes, restore: Callable[[str], str], signed: Callable[[str, str], None]
    ) -> bytes:
        if not line.strip():
            return line
        document = read_answer(line)
        for text, signature in _signed_texts(document):
            signed(text, signature)
        restored = restore_node(document, restore)
        if restored == document:
            return line
        return write_answer(restored) + (b"\r" if line.endswith(b"\r") else b"")


def _signed_texts(line: Any) -> Iterator[tuple[str, str]]:
    result = line.get("result") if isinstance(line, dict) else None
    message = result.get("message") if isinstance(result, dict) else None
    yield from AnthropicMessages("", ()).signed_texts(message)


FORMATS: Final = (
    CreateBatch("anthropic.batches", (Call(template=_BATCHES, provider="anthropic", query=_BETA),)),
    LookAtBatch(
        "anthropic.batch",
        (
            Call(method="GET", template=_BATCHES, provider="anthropic", query=_PAGE),
            Call(method="GET", template=_BATCH, provider="anthropic", query=_BETA),
            Call(method="DELETE", template=_BATCH, provider="anthropic", query=_BETA),
            Call(template=f"{_BATCH}/cancel", provider="anthropic", query=_BETA),
        ),
    ),
    BatchResults(
        "anthropic.batch_results",
        (Call(method="GET", template=f"{_BATCH}/results", provider="anthropic", query=_BETA),),
    ),
)
