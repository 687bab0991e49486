"""The agent programs of the matrix: how each is set up, asked, continued, and what its tools are.

Owns the measured facts (contracts/clients.md sections 2 to 5) that differ from client to client,
so that each test is written once. Adding a client is one `Agent` in AGENTS. Called by
test_e2e_matrix.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from e2e_servers import clean_env

#: CLIENTS=all runs the clients that are not in every run, too.
ALL = os.environ.get("CLIENTS") == "all"

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Tools:
    """How a client's model writes, reads, edits a file and runs a command."""

    write: Callable[[str, str], Call]
    read: Callable[[str], Call]
    edit: Callable[[str, str, str], Call]
    shell: Callable[[str], Call]


@dataclass(frozen=True)
class Agent:
    """One client on one API.

    `settings` writes what a person would have set up for this base URL; `argv` is the command line
    for a prompt; `again` is what is added to go on with the last conversation; `refusals` and
    `failures` are the calls it makes when it is told 403 by the gateway, 400 by the provider;
    `side` are calls it makes beside the main ones (titles, judging the prompt).
    """

    name: str
    client: str
    api: str
    settings: Callable[[Path, str], dict[str, str]]
    argv: Callable[[str], list[str]]
    again: Callable[[str], list[str]]
    tools: Tools
    refusals: int = 1
    failures: int = 1
    side: bool = False
    optional: bool = False
    #: It rewrites what a prompt quotes (qwen takes an @ for a file's name, opencode escapes
    #: quotes), so that such prompts are handed over in a file.
    by_file: bool = False
    #: It tells a conversation it goes on with in other words (a new listing of the folder).
    retells: bool = False
    #: Members its own code changes from turn to turn.
    volatile: frozenset[str] = field(default_factory=frozenset)

    def ask(
        self, program: Path, home: Path, url: str, prompt: str, *, on: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run it headless with a prompt; `on` goes on with the conversation before."""
        if self.by_file and "@" in prompt:
            task = home / "work" / f"task{len(prompt)}.md"
            task.write_text(f"{prompt}\n")
            prompt = f"Read {task}"
        env = clean_env(home, **self.settings(home, url))
        argv = self.again(prompt) if on else self.argv(prompt)
        return subprocess.run(
            [program, *argv],
            cwd=home / "work",
            env=env,
            stdin=subprocess.DEVNULL,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )


def _claude_settings(home: Path, url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "offline-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_MAX_RETRIES": "1",
        "IS_SANDBOX": "1",
    }


def _codex_settings(home: Path, url: str) -> dict[str, str]:
    (home / ".codex").mkdir(exist_ok=True)
    (home / ".codex" / "config.toml").write_text(f"""\
model = "gpt-test"
model_provider = "gw"
check_for_update_on_startup = false

[model_providers.gw]
name = "gw"
base_url = "{url}/v1"
env_key = "GW_KEY"
wire_api = "responses"

[analytics]
enabled = false

[features]
plugins = false
apps = false
""")
    return {"GW_KEY": "offline-key"}


def _gemini_settings(home: Path, url: str) -> dict[str, str]:
    (home / ".gemini").mkdir(exist_ok=True)
    settings = {
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    }
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    (home / "tmp").mkdir(exist_ok=True)
    return {
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "offline-key",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "TMPDIR": str(home / "tmp"),
    }


def _pi_settings(api: str, base: str) -> Callable[[Path, str], dict[str, str]]:
    def settings(home: Path, url: str) -> dict[str, str]:
        model = {"id": "test-model", "contextWindow": 128000, "maxTokens": 4000}
        gateway = {"baseUrl": url + base, "api": api, "apiKey": "offline-key", "models": [model]}
        folder = home / ".pi" / "agent"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "models.json").write_text(json.dumps({"providers": {"gw": gateway}}))
        return {"PI_OFFLINE": "1"}

    return settings


def _opencode_settings(package: str) -> Callable[[Path, str], dict[str, str]]:
    def settings(home: Path, url: str) -> dict[str, str]:
        provider = {
            "npm": package,
            "name": "gw",
            "options": {"baseURL": f"{url}/v1", "apiKey": "offline-key"},
            "models": {"test-model": {"name": "test-model"}},
        }
        config = {
            "provider": {"gw": provider},
            "model": "gw/test-model",
            "small_model": "gw/test-model",
            "autoupdate": False,
            "share": "disabled",
            "permission": {"edit": "allow", "bash": "allow"},
        }
        folder = home / ".config" / "opencode"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "opencode.json").write_text(json.dumps(config))
        quiet = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
        return {f"OPENCODE_DISABLE_{name}": "1" for name in quiet}

    return settings


def _qwen_settings(home: Path, url: str) -> dict[str, str]:
    (home / ".qwen").mkdir(exist_ok=True)
    settings = {
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
        "security": {"auth": {"selectedType": "openai"}},
    }
    (home / ".qwen" / "settings.json").write_text(json.dumps(settings))
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "offline-key",
        "OPENAI_MODEL": "test-model",
    }


def _heredoc(path: str, content: str) -> str:
    end = "" if content.endswith("\n") else "\n"
    return f"cat > {path} <<'END'\n{content}{end}END"


def _sh_edit(path: str, old: str, new: str) -> Call:
    patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch"
    return "exec_command", {"cmd": f"apply_patch <<'END'\n{patch}\nEND"}


CLAUDE = Tools(
    write=lambda path, content: ("Write", {"file_path": path, "content": content}),
    read=lambda path: ("Read", {"file_path": path}),
    edit=lambda path, old, new: (
        "Edit",
        {"file_path": path, "old_string": old, "new_string": new},
    ),
    shell=lambda command: ("Bash", {"command": command, "description": "run"}),
)
#: `--bare` has no tool that writes a whole file.
BARE = replace(CLAUDE, write=lambda path, content: CLAUDE.shell(_heredoc(path, content)))
CODEX = Tools(
    write=lambda path, content: ("exec_command", {"cmd": _heredoc(path, content)}),
    read=lambda path: ("exec_command", {"cmd": f"cat {path}"}),
    edit=_sh_edit,
    shell=lambda command: ("exec_command", {"cmd": command}),
)
GEMINI = Tools(
    write=lambda path, content: ("write_file", {"file_path": path, "content": content}),
    read=lambda path: ("read_file", {"file_path": path}),
    edit=lambda path, old, new: (
        "replace",
        {"file_path": path, "old_string": old, "new_string": new, "instruction": "replace"},
    ),
    shell=lambda command: ("run_shell_command", {"command": command, "description": "run"}),
)
PI = Tools(
    write=lambda path, content: ("write", {"path": path, "content": content}),
    read=lambda path: ("read", {"path": path}),
    edit=lambda path, old, new: (
        "edit",
        {"path": path, "edits": [{"oldText": old, "newText": new}]},
    ),
    shell=lambda command: ("bash", {"command": command}),
)
OPENCODE = Tools(
    write=lambda path, content: ("write", {"filePath": path, "content": content}),
    read=lambda path: ("read", {"filePath": path}),
    edit=lambda path, old, new: (
        "edit",
        {"filePath": path, "oldString": old, "newString": new},
    ),
    shell=lambda command: ("bash", {"command": command, "description": "run"}),
)
QWEN = Tools(
    write=GEMINI.write,
    read=GEMINI.read,
    edit=lambda path, old, new: (
        "edit",
        {"file_path": path, "old_string": old, "new_string": new},
    ),
    shell=lambda command: (
        "run_shell_command",
        {"command": command, "description": "run", "is_background": False},
    ),
)


def _claude(name: str, client: str, *options: str) -> Agent:
    always = ["-p", "--permission-mode", "bypassPermissions", *options]
    return Agent(
        name,
        client,
        "anthropic",
        _claude_settings,
        lambda prompt: [*always, prompt],
        lambda prompt: [*always, "--continue", prompt],
        CLAUDE,
        # It tries again without its newer features (contracts/clients.md section 4).
        failures=6,
        volatile=frozenset({"cache_control"}),
    )


def _pi(name: str, api: str, base: str) -> Agent:
    always = ["-p", "--model", "gw/test-model"]
    return Agent(
        f"pi {name}",
        "pi",
        name,
        _pi_settings(api, base),
        lambda prompt: [*always, prompt],
        lambda prompt: [*always, "--continue", prompt],
        PI,
        volatile=frozenset({"cache_control"}),
    )


def _opencode(name: str, package: str) -> Agent:
    return Agent(
        f"opencode {name}",
        "opencode",
        name,
        _opencode_settings(package),
        lambda prompt: ["run", prompt],
        lambda prompt: ["run", "--continue", prompt],
        OPENCODE,
        side=True,
        by_file=True,
        optional=True,
        volatile=frozenset({"cache_control"}),
    )


_CODEX = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]

AGENTS = {
    agent.name: agent
    for agent in (
        _claude("claude", "claude"),
        replace(_claude("claude bare", "claude", "--bare"), tools=BARE, failures=3),
        Agent(
            "codex",
            "codex",
            "responses",
            _codex_settings,
            lambda prompt: ["exec", *_CODEX, prompt],
            lambda prompt: ["exec", "resume", "--last", *_CODEX, prompt],
            CODEX,
            refusals=6,
        ),
        Agent(
            "gemini",
            "gemini",
            "gemini",
            _gemini_settings,
            lambda prompt: ["--yolo", "--prompt", prompt],
            lambda prompt: ["--yolo", "--resume", "latest", "--prompt", prompt],
            GEMINI,
            side=True,
            retells=True,
        ),
        _pi("chat", "openai-completions", "/v1"),
        _pi("anthropic", "anthropic-messages", ""),
        _pi("responses", "openai-responses", "/v1"),
        replace(_claude("claude 2.1.197", "claude-old"), failures=1, optional=True),
        _opencode("chat", "@ai-sdk/openai-compatible"),
        _opencode("anthropic", "@ai-sdk/anthropic"),
        Agent(
            "qwen",
            "qwen",
            "chat",
            _qwen_settings,
            lambda prompt: ["--yolo", "--prompt", prompt],
            lambda prompt: ["--yolo", "--continue", "--prompt", prompt],
            QWEN,
            side=True,
            by_file=True,
            retells=True,
            optional=True,
        ),
    )
}
