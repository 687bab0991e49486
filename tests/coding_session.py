"""A coding session as an agent's client sends it: the whole conversation again on every turn.

Public text (modules of the standard library) with invented personal values and secrets among it.
Used by benches and by the tests of the caches; the same arguments give the same bytes.
"""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

_MODULES = ("argparse", "inspect", "typing", "tarfile", "ast", "pathlib", "subprocess", "shutil")
_TOOLS = ("Read", "Write", "Edit", "Bash", "Grep", "Glob", "Task", "TodoWrite", "WebFetch")


@cache
def public_text() -> str:
    """Source code, a few hundred kilobytes of it."""
    library = Path(sysconfig.get_path("stdlib"))
    return "".join((library / f"{name}.py").read_text() for name in _MODULES)


def invented(number: int) -> str:
    """Lines with values that must not leave, different for each number."""
    return (
        f"2026-03-01T10:11:12Z INFO login ok user=jane{number}@corp.example ip=81.2.{number % 250}"
        f".142\ntel +44 20 7946 0{100 + number % 900}\nDB_PASSWORD=x{number}kk2zzW\n"
    )


def turns(
    count: int = 60, *, start: int = 29_000, end: int = 570_000, salt: str = "", stream: bool = True
) -> Iterator[dict[str, Any]]:
    """Yield the request documents of a session whose bodies grow from about `start` to `end`
    bytes. `salt` makes every block differ from those of another session."""
    text = public_text()
    messages: list[dict[str, Any]] = []
    system = [
        {"type": "text", "text": f"You are a coding agent {salt}."},
        {"type": "text", "text": text[: start // 2], "cache_control": {"type": "ephemeral"}},
    ]
    step = max(400, (end - start) // count - 700)
    at = start // 2
    for turn in range(count):
        if turn == 0:
            blocks: list[dict[str, Any]] = [
                {"type": "text", "text": f"{salt} Fix the login. Ask maria.lopez@example.com."}
            ]
        else:
            piece = text[at % (len(text) - step) :][:step]
            at += step
            if turn % 3 == 0:
                piece = f"{piece[: step // 2]}\n{invented(turn)}{piece[step // 2 :]}"
            messages.append(_assistant(turn, salt))
            blocks = [
                {
                    "type": "tool_result",
                    "tool_use_id": f"toolu_01{turn:022d}",
                    "content": [{"type": "text", "text": f"{salt}{turn}\n{piece}"}],
                }
            ]
        # The breakpoint of the prompt cache moves to the newest block on every turn.
        newest = [*blocks[:-1], blocks[-1] | {"cache_control": {"type": "ephemeral"}}]
        yield {
            "model": "claude-test-1",
            "max_tokens": 32000,
            "system": system,
            "tools": [_tool(name, salt) for name in _TOOLS],
            "messages": [*messages, {"role": "user", "content": newest}],
            "metadata": {"user_id": "user_0f_session_2c9e"},
            "temperature": 1.0,
            "stream": stream,
        }
        messages.append({"role": "user", "content": blocks})


def bodies(count: int = 60, **shape: Any) -> list[bytes]:
    """The same as bytes, the way a JavaScript client writes them."""
    return [
        json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        for document in turns(count, **shape)
    ]


def _assistant(turn: int, salt: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": [
            {"type": "text", "text": f"{salt} Step {turn}: I read the next part of the module."},
            {
                "type": "tool_use",
                "id": f"toolu_01{turn:022d}",
                "name": _TOOLS[turn % len(_TOOLS)],
                "input": {
                    "file_path": f"/home/dev/project/{salt}src/module_{turn}.py",
                    "offset": turn * 200,
                    "limit": 200,
                    "command": f"grep -n 'def handler_{turn}' -r src | head -{turn}",
                    "description": "Look at the handlers that follow the one just changed",
                },
            },
        ],
    }


def _tool(name: str, salt: str) -> dict[str, Any]:
    about = f"{name} {salt}: works on files of the project, one call at a time. " * 8
    members = {
        f"{name.lower()}_{part}": {"type": "string", "description": f"The {part}. {about[:150]}"}
        for part in ("path", "pattern", "limit", "options", "reason")
    }
    return {
        "name": name,
        "description": about,
        "input_schema": {
            "type": "object",
            "properties": members,
            "required": list(members)[:2],
            "additionalProperties": False,
        },
    }
