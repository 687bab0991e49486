"""A small agent for a terminal, as the demo's three roles run it: `python -m deck.demo.agent`.

It behaves as agent CLIs do. It shows a prompt, accepts bracketed paste, tells its state by OSC 7501
and its window title, reads the file a typed line names, calls its model through the official
`anthropic` SDK at ANTHROPIC_BASE_URL, and runs the tools the model asks for until the model stops.
Only the model is not real: the offline provider reads its lines from the last message, so this
agent repeats in that message what a model would remember (`When a report mentions …`).
Every call is written to $CHORAGOS_DEMO_TRACE/<role>.jsonl, for the report to show beside what the
provider received. A failed call is one line on the screen, never a traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from deck.demo.prompt_line import EndOfInput, LineEditor

_PROMPT: Final = "\x1b[36m›\x1b[0m "
#: Turns of one conversation; a scripted model that never stops must not run for ever.
_MAX_TURNS: Final = 12
_TOOL_TIMEOUT_S: Final = 60.0
_TOOL_OUTPUT_CHARS: Final = 4000
_SHOWN_LINES: Final = 8

_NAMED_FILE = re.compile(r"(?:[^\s`'\"<>()]*/)?[\w.-]+\.md\b")
_TASK_ID = re.compile(r"^Task id: *(T\d+)", re.MULTILINE)
_REMEMBER = re.compile(r"^When a report mentions (\S+): (@tool .+)$", re.MULTILINE)

_TOOLS: Final[list[dict[str, Any]]] = [
    {
        "name": "bash",
        "description": "Run a shell command in the working directory.",
        "input_schema": {
            "type": "object",
            "properties": {"command": {"type": "string"}},
            "required": ["command"],
        },
    },
    {
        "name": "write_file",
        "description": "Write a text file below the working directory.",
        "input_schema": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    },
]


def role_of(base_url: str) -> str:
    """Return the role a gateway URL names (`…/agent/<role>`), or "agent"."""
    found = re.search(r"/agent/([A-Za-z0-9._-]{1,64})/?$", base_url)
    return found.group(1) if found else "agent"


def compose(line: str, cwd: Path, memory: dict[str, str]) -> str:
    """Return the message a typed line turns into: the line, the files it leads to, and what the
    role's instructions said to do about it. Instructions met in the files are added to `memory`.
    """
    parts = [line]
    queue = _NAMED_FILE.findall(line)
    seen: set[Path] = set()
    while queue:
        path = (cwd / queue.pop(0)).resolve()
        if path in seen or not path.is_file() or len(seen) > 4:
            continue
        seen.add(path)
        text = path.read_text(encoding="utf-8", errors="replace")
        parts.append(text)
        memory.update(_REMEMBER.findall(text))
        if len(seen) == 1:
            queue.extend(_pointers(text))
    if "reports:" in line:
        parts.extend(
            what for word, what in memory.items() if re.search(rf"\b{re.escape(word)}\b", line)
        )
    return "\n\n".join(parts)


def _pointers(task_file: str) -> list[str]:
    """Return the brief a task file points at. Only its `## Task` section is believed."""
    section = re.search(r"^## Task$(.*?)(?=^## |\Z)", task_file, re.MULTILINE | re.DOTALL)
    return _NAMED_FILE.findall(section.group(1)) if section else []


@dataclass(slots=True)
class Screen:
    """What the terminal sees: text, the OSC 7501 state and the title."""

    role: str

    def write(self, text: str) -> None:
        """Print at once; a terminal that has gone away is not an error worth a traceback."""
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            raise EndOfInput from None

    def state(self, state: str) -> None:
        """Signal `idle`, `working`, `done` or `error`, and show it in the window title."""
        mark = "◐" if state == "working" else "✳"
        self.write(f"\x1b]7501;state={state}:app=choragos-demo\x1b\\\x1b]0;{mark} {self.role}\x07")

    def note(self, bullet: str, text: str) -> None:
        """Print a short, indented extract of `text`."""
        lines = text.strip().splitlines() or [""]
        shown = lines[:_SHOWN_LINES]
        if len(lines) > len(shown):
            shown.append(f"… {len(lines) - len(shown)} more lines")
        self.write(f"{bullet} " + "\n  ".join(shown) + "\n")


@dataclass(slots=True)
class Trace:
    """The record of what this agent sent and got back, one JSON object per call."""

    path: Path | None
    count: int = 0

    def add(self, **fields: Any) -> None:
        """Append one call. Without a directory to write to, nothing is kept."""
        self.count += 1
        if self.path is None:
            return
        line = json.dumps({"n": self.count, **fields}, ensure_ascii=False) + "\n"
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)


@dataclass(slots=True)
class Agent:
    """One role at work: its conversation so far, its tools and its screen."""

    screen: Screen
    client: Any
    model: str
    trace: Trace
    cwd: Path
    messages: list[dict[str, Any]] = field(default_factory=list)
    memory: dict[str, str] = field(default_factory=dict)
    task: str = ""

    def take(self, line: str) -> None:
        """Handle one entered line: compose the message, talk to the model, run its tools."""
        self.screen.state("working")
        try:
            message = compose(line, self.cwd, self.memory)
            found = _TASK_ID.search(message)
            self.task = found.group(1) if found else ""
            start = len(self.messages)
            self.messages.append({"role": "user", "content": message})
            if not self._converse():
                del self.messages[start:]
        except KeyboardInterrupt:
            self.screen.write("\n(interrupted)\n")
        self.screen.state("idle")

    def _converse(self) -> bool:
        for _ in range(_MAX_TURNS):
            content = self._call()
            if content is None:
                return False
            self.messages.append({"role": "assistant", "content": content})
            results = [self._run(block) for block in content if block["type"] == "tool_use"]
            if not results:
                return True
            self.messages.append({"role": "user", "content": results})
        self.screen.note("✗", f"stopped after {_MAX_TURNS} turns")
        return True

    def _call(self) -> list[dict[str, Any]] | None:
        """Make one streamed call; return the answer's blocks, or None after saying why not."""
        import anthropic

        sent = json.loads(json.dumps(self.messages))
        try:
            with self.client.messages.stream(
                model=self.model,
                max_tokens=4096,
                system=f"You are the {self.screen.role} of a small team.",
                messages=self.messages,
                tools=_TOOLS,
            ) as stream:
                answer = stream.get_final_message()
        except anthropic.APIConnectionError as error:
            reason = f"no gateway at {self.client.base_url} ({error})"
        except anthropic.APIStatusError as error:
            reason = f"{error.status_code} {error.message}"
        except anthropic.AnthropicError as error:
            reason = f"the call failed: {error}"
        else:
            content = [_plain(block) for block in answer.content]
            usage = answer.usage.model_dump(exclude_none=True)
            self.trace.add(sent=sent, got=content, stop=answer.stop_reason, usage=usage)
            for block in content:
                if block["type"] == "text":
                    self.screen.note("●", block["text"])
            return content
        self.trace.add(sent=sent, error=reason)
        self.screen.note("✗", " ".join(reason.split()))
        return None

    def _run(self, call: dict[str, Any]) -> dict[str, Any]:
        """Run one tool call and return its `tool_result` block."""
        name, given = call["name"], call["input"]
        self.screen.note("●", f"{name} {given.get('command') or given.get('path') or ''}")
        try:
            output, failed = self._tool(name, given)
        except (OSError, ValueError, KeyError, TypeError) as error:
            output, failed = f"{name}: {error}", True
        self.screen.note("  ⎿", output or "(no output)")
        return {
            "type": "tool_result",
            "tool_use_id": call["id"],
            "content": output[:_TOOL_OUTPUT_CHARS],
            "is_error": failed,
        }

    def _tool(self, name: str, given: dict[str, Any]) -> tuple[str, bool]:
        if name == "bash":
            return self._bash(str(given["command"]))
        if name == "write_file":
            path = (self.cwd / str(given["path"])).resolve()
            if not path.is_relative_to(self.cwd.resolve()):
                return f"{path} is outside the working directory", True
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(given["content"]), encoding="utf-8")
            return f"wrote {given['path']}", False
        return f"there is no tool named {name}", True

    def _bash(self, command: str) -> tuple[str, bool]:
        try:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                cwd=self.cwd,
                env={**os.environ, "TASK_ID": self.task},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TOOL_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"no end after {_TOOL_TIMEOUT_S:.0f} s; stopped", True
        output = (done.stdout + done.stderr).decode("utf-8", "replace")
        if done.returncode:
            output += f"\n(exit {done.returncode})"
        return output.strip(), done.returncode != 0


def _plain(block: Any) -> dict[str, Any]:
    """Return an answer block as the dictionary that goes back to the model on the next turn."""
    if block.type == "tool_use":
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
    if block.type == "text":
        return {"type": "text", "text": block.text}
    plain: dict[str, Any] = block.model_dump(exclude_none=True)
    return plain


@contextmanager
def _keys_one_by_one() -> Iterator[None]:
    """Read keys as they come, without the terminal's own echo; put it back afterwards."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(0)
    tty.setcbreak(0, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def _serve_lines(agent: Agent) -> None:
    """Read, echo and handle lines until the terminal closes."""
    editor = LineEditor()
    screen = agent.screen
    screen.write(f"\x1b[?2004h{screen.role} is ready, model {agent.model}\n{_PROMPT}")
    screen.state("idle")
    while True:
        try:
            data = os.read(0, 4096)
            if not data:
                return
            echo, lines = editor.feed(data)
            screen.write(echo)
            for line in lines:
                agent.take(line)
            if lines:
                screen.write(_PROMPT)
        except KeyboardInterrupt:
            screen.write(editor.feed(b"\x15")[0])


def _start(role: str, model: str) -> Agent:
    """Load the SDK, which takes a second, and make the agent. Raises ImportError without it."""
    import anthropic

    directory = os.environ.get("CHORAGOS_DEMO_TRACE")
    return Agent(
        screen=Screen(role),
        client=anthropic.Anthropic(max_retries=1, timeout=60.0),
        model=model,
        trace=Trace(Path(directory) / f"{role}.jsonl" if directory else None),
        cwd=Path.cwd(),
    )


def main() -> int:
    """Run the agent in this terminal; return the exit code."""
    parser = argparse.ArgumentParser(prog="deck.demo.agent", description=__doc__)
    parser.add_argument("--model", default="claude-offline-large")
    model = parser.parse_args().model
    base_url = os.environ.get("ANTHROPIC_BASE_URL", "")
    if not base_url:
        print("ANTHROPIC_BASE_URL is not set; the deck sets it for its roles.", file=sys.stderr)
        return 1
    try:
        with _keys_one_by_one():
            # Said before the slow part: nothing should be typed at an agent that is only starting.
            Screen(role_of(base_url)).state("working")
            _serve_lines(_start(role_of(base_url), model))
    except ImportError:
        print("This agent needs the anthropic SDK: pip install 'anthropic>=0.80'", file=sys.stderr)
        return 1
    except (EndOfInput, OSError, termios.error):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
