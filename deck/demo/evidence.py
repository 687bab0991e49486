"""What the demo compares: an agent's call, what the provider received of it, what came back.

Owns the rule that makes "only tokens differ" a checked statement instead of a picture: two
documents are laid over each other, and they pair when every string is equal but for tokens, each of
which stands for exactly one original. Pure. Called by the story and by the end-to-end tests.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

#: A token as the gateway writes it, e.g. `[EMAIL_x7k2m9qd]`.
TOKEN: Final = re.compile(r"\[[A-Z][A-Z0-9_]*_[a-z0-9]{8,16}\]")


@dataclass(frozen=True, slots=True)
class Call:
    """One call as the agent saw it: the messages it sent, the blocks it got, the usage told."""

    role: str
    number: int
    sent: list[dict[str, Any]]
    got: list[dict[str, Any]]
    usage: dict[str, Any]
    error: str = ""


@dataclass(frozen=True, slots=True)
class Received:
    """One request as the provider saw it."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def document(self) -> dict[str, Any]:
        """Return the body as a JSON object, or an empty one."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def read_calls(directory: Path, role: str) -> list[Call]:
    """Read the calls an agent traced; none when it has not called yet."""
    path = directory / f"{role}.jsonl"
    return [
        Call(
            role=role,
            number=entry["n"],
            sent=entry["sent"],
            got=entry.get("got", []),
            usage=entry.get("usage", {}),
            error=entry.get("error", ""),
        )
        for entry in _json_lines(path)
    ]


def read_received(path: Path) -> list[Received]:
    """Read the offline provider's record file."""
    return [
        Received(
            method=entry["method"],
            path=entry["path"],
            headers=entry["headers"],
            body=base64.b64decode(entry["body_base64"])
            if "body_base64" in entry
            else entry["body"].encode("utf-8", "surrogatepass"),
        )
        for entry in _json_lines(path)
    ]


def overlay(sent: Any, received: Any) -> dict[str, str] | None:
    """Return token -> original when `received` is `sent` with tokens put in; else None.

    Structures must agree key by key; strings must agree outside the tokens; a token must stand for
    the same original wherever one was sent in its place. JSON inside a string may have been written
    anew.
    """
    mapping: dict[str, str] = {}
    return mapping if _overlay(sent, received, mapping) else None


def _overlay(sent: Any, received: Any, mapping: dict[str, str]) -> bool:
    if isinstance(sent, dict) and isinstance(received, dict):
        return sent.keys() == received.keys() and all(
            _overlay(sent[key], received[key], mapping) for key in sent
        )
    if isinstance(sent, list) and isinstance(received, list):
        return len(sent) == len(received) and all(
            _overlay(one, other, mapping) for one, other in zip(sent, received, strict=True)
        )
    if isinstance(sent, str) and isinstance(received, str):
        return _overlay_text(sent, received, mapping) or _overlay_json(sent, received, mapping)
    return bool(sent == received)


def _overlay_text(sent: str, received: str, mapping: dict[str, str]) -> bool:
    """Lay one text over another, line by line: a token never crosses a line of these texts."""
    ours, theirs = sent.split("\n"), received.split("\n")
    if len(ours) != len(theirs):
        return False
    found: dict[str, str] = {}
    for line, other in zip(ours, theirs, strict=True):
        tokens = TOKEN.findall(other)
        if not tokens:
            if line != other:
                return False
            continue
        pattern = "(.+?)".join(re.escape(part) for part in TOKEN.split(other))
        match = re.fullmatch(pattern, line)
        if match is None:
            return False
        for token, original in zip(tokens, match.groups(), strict=True):
            if original == token:
                continue  # it was a token when it was sent: a secret that did not come back
            if {**mapping, **found}.setdefault(token, original) != original:
                return False
            found[token] = original
    mapping.update(found)
    return True


def _overlay_json(sent: str, received: str, mapping: dict[str, str]) -> bool:
    try:
        one, other = json.loads(sent), json.loads(received)
    except ValueError:
        return False
    return not isinstance(one, str) and _overlay(one, other, mapping)


def match(call: Call, received: Iterable[Received]) -> tuple[Received, dict[str, str]] | None:
    """Return the request that carried `call`, with its token map, or None when none did."""
    for request in received:
        mapping = overlay(call.sent, request.document().get("messages"))
        if mapping is not None:
            return request, mapping
    return None


def prompt_text(messages: list[dict[str, Any]]) -> str:
    """Return the text of the last message that is a prompt and not a tool's result."""
    for message in reversed(messages):
        content = message["content"]
        if message["role"] == "user" and isinstance(content, str):
            return content
    return ""


def answer_text(blocks: list[dict[str, Any]]) -> str:
    """Return an answer as text: its text blocks, and tool calls as `name {arguments}`."""
    return "\n".join(
        block["text"]
        if block["type"] == "text"
        else f"{block['name']} {json.dumps(block['input'], ensure_ascii=False)}"
        for block in blocks
        if block["type"] in {"text", "tool_use"}
    )


def tokens_by_direction(calls: Iterable[Call]) -> dict[str, int]:
    """Add up what the SDK was told the calls used, by the names of the usage metric."""
    totals = dict.fromkeys(("input", "output", "cache_creation", "cache_read"), 0)
    for call in calls:
        totals["input"] += call.usage.get("input_tokens", 0)
        totals["output"] += call.usage.get("output_tokens", 0)
        totals["cache_creation"] += call.usage.get("cache_creation_input_tokens", 0)
        totals["cache_read"] += call.usage.get("cache_read_input_tokens", 0)
    return totals


def _json_lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines; a last line still being written is left out."""
    try:
        whole = path.read_bytes()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in whole.split(b"\n")[:-1] if line]
