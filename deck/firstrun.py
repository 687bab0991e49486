"""Which dialog a client would open at its first start here, before it takes any work.

Owns what each client must have on file for no dialog to wait (contracts/clients.md section 5,
measured with the versions named there). A file that cannot be read or has another shape than
expected counts as a first run. Reads the client's own settings and never writes; values are
looked at only to see that they are there. `deck.facts` calls it.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

#: Settings files are small; more is not one.
_LIMIT_BYTES: Final = 4 << 20


def dialogs(command: str, home: Path, directory: str, env: Mapping[str, str]) -> list[str]:
    """Return a clause for each dialog that would wait; [] for a program nothing is known about.

    `env` is the role's environment, `directory` the project.
    """
    known = _KNOWN.get(os.path.basename(command))
    return known(home, directory, env) if known is not None else []


def missing_login(command: str, home: Path, env: Mapping[str, str]) -> str:
    """Return what a client in a home of its own lacks to sign in, "" when it lacks nothing.

    The deck writes its first-run files there, but has no login to give.
    """
    known = _LOGINS.get(os.path.basename(command))
    if known is None or any(env.get(name) for name in known[0]):
        return ""
    if any((home / name).is_file() for name in known[1]):
        return ""
    return f"has no login in its own home; give it {' or '.join(known[0][:2])}"


def _claude(home: Path, directory: str, env: Mapping[str, str]) -> list[str]:
    place = Path(env["CLAUDE_CONFIG_DIR"]) if env.get("CLAUDE_CONFIG_DIR") else home
    settings = _json(place / ".claude.json")
    found = []
    if settings.get("hasCompletedOnboarding") is not True:
        found.append("asks for theme and login")
    if _table(_table(settings, "projects"), directory).get("hasTrustDialogAccepted") is not True:
        found.append("asks whether it may trust this directory")
    approved = _table(settings, "customApiKeyResponses").get("approved")
    if env.get("ANTHROPIC_API_KEY") and not approved:
        found.append("asks whether to use ANTHROPIC_API_KEY")
    return found


def _codex(home: Path, directory: str, env: Mapping[str, str]) -> list[str]:
    place = Path(env["CODEX_HOME"]) if env.get("CODEX_HOME") else home / ".codex"
    settings = _toml(place / "config.toml")
    if settings.get("model_provider"):
        return []
    found = []
    if not (place / "auth.json").is_file() and not env.get("CODEX_API_KEY"):
        found.append("asks to sign in")
    if not _table(_table(settings, "projects"), directory).get("trust_level"):
        found.append("asks whether it may trust this directory")
    return found


def _gemini(home: Path, directory: str, env: Mapping[str, str]) -> list[str]:
    settings = _json(home / ".gemini" / "settings.json")
    found = []
    if not _table(_table(settings, "security"), "auth").get("selectedType"):
        found.append("asks how to sign in")
    trusted = _json(home / ".gemini" / "trustedFolders.json")
    if env.get("GEMINI_CLI_TRUST_WORKSPACE") != "true" and directory not in trusted:
        found.append("asks whether it may trust this directory")
    return found


_KNOWN: Final[Mapping[str, Callable[[Path, str, Mapping[str, str]], list[str]]]] = {
    "claude": _claude,
    "codex": _codex,
    "gemini": _gemini,
}


#: Variables that sign a client in, and the files in which it keeps a login.
_LOGINS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "claude": (
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
        (".credentials.json", ".claude/.credentials.json"),
    ),
    "codex": (("CODEX_API_KEY", "OPENAI_API_KEY"), (".codex/auth.json",)),
    "gemini": (("GEMINI_API_KEY", "GOOGLE_API_KEY"), (".gemini/oauth_creds.json",)),
}


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LIMIT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(_text(path))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(path))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _table(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key)
    return found if isinstance(found, dict) else {}
