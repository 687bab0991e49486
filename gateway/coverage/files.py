"""Samples of uploads, batches and stored files."""

from __future__ import annotations

import json
from typing import Final

from gateway.coverage.sample import MARK, Sample

_BOUNDARY: Final = "----sphragis-coverage"


def _form(*parts: tuple[str, str]) -> bytes:
    """Return a form; each part is its headers after the disposition's name, and its text."""
    out = "".join(
        f"--{_BOUNDARY}\r\nContent-Disposition: form-data; {h}\r\n\r\n{t}\r\n" for h, t in parts
    )
    return f"{out}--{_BOUNDARY}--\r\n".encode()


_LINES: Final = "\n".join(
    json.dumps(line, ensure_ascii=False)
    for line in (
        {
            "custom_id": MARK,
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "gpt-5", "messages": [{"role": "user", "content": MARK}]},
        },
        {
            "custom_id": "b",
            "method": "POST",
            "url": "/v1/responses",
            "body": {"model": "gpt-5", "instructions": MARK, "input": [
                {"type": "function_call_output", "call_id": "call_a", "output": MARK}
            ]},
        },
        {
            "custom_id": "c",
            "method": "POST",
            "url": "/v1/embeddings",
            "body": {"model": "text-embedding-3-small", "input": [MARK]},
        },
        {"messages": [{"role": "assistant", "content": MARK}], "note": {MARK: [MARK]}},
    )
)  # fmt: skip


def _upload(wire: str, *parts: tuple[str, str], headers: dict[str, str] | None = None) -> Sample:
    return Sample(
        wire=wire,
        path="/v1/files",
        body=_form(*parts),
        media_type=f"multipart/form-data; boundary={_BOUNDARY}",
        headers=headers or {},
    )


_ANTHROPIC: Final = {"anthropic-version": "2023-06-01"}

SAMPLES: Final = (
    _upload(
        "openai.upload",
        ('name="purpose"', "batch"),
        ('name="file"; filename="batch.jsonl"\r\nContent-Type: application/jsonl', _LINES),
    ),
    _upload(
        "openai.upload",
        ('name="purpose"', "user_data"),
        (f'name="note {MARK}"', MARK),
        (f'name="file"; filename="{MARK}.csv"\r\nContent-Type: text/csv', f"a,b\n1,{MARK}\n"),
    ),
    _upload(
        "openai.upload",
        ('name="purpose"', "assistants"),
        ('name="file"; filename="a.bin"\r\nContent-Type: application/octet-stream', MARK),
    ),
    _upload(
        "anthropic.upload",
        ('name="file"; filename="notes.md"\r\nContent-Type: text/markdown', f"# {MARK}\n{MARK}"),
        headers=_ANTHROPIC,
    ),
    Sample(
        wire="openai.batches",
        path="/v1/batches",
        body={
            "input_file_id": "file-abc",
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"note": MARK, MARK: "x"},
        },
    ),
    Sample(wire="openai.stored", path=f"/v1/files/{MARK}/content", method="GET", body=None),
    Sample(wire="openai.stored", path=f"/v1/files?after={MARK}", method="GET", body=None),
    Sample(
        wire="anthropic.stored",
        path=f"/v1/files/{MARK}",
        method="GET",
        body=None,
        headers=_ANTHROPIC,
    ),
)
