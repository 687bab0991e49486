"""Claude Code: routed by ANTHROPIC_BASE_URL without a version path; also calls other hosts unless
told not to. 2.1.332 tells its state by OSC 7501 once the probe is answered, 2.1.197 by its title
and its hooks, which the deck adds to the user's own by a settings file of the role. Its trust
dialog preselects "No, exit", its key dialog "No"."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping

from deck.agents.adapter import Adapter, Seating
from deck.pane.status import Marks, Signal

#: It keeps this much of a key it was allowed to use, and nothing of the key it shows.
_KEY_TAIL = 20


def _first_run(seating: Seating) -> Mapping[str, str]:
    """What its first dialogs would write: theme, trust in the project, leave to use the key."""
    settings: dict[str, object] = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "projects": {str(seating.project): {"hasTrustDialogAccepted": True}},
    }
    if key := seating.environ.get("ANTHROPIC_API_KEY"):
        settings["customApiKeyResponses"] = {"approved": [key[-_KEY_TAIL:]], "rejected": []}
    return {".claude.json": json.dumps(settings, indent=2)}


_SETTINGS, _SAID = "claude-hooks.json", "claude-said"
#: With these a person has settings of their own there, or runs no session that could be watched.
_LEAVE_ALONE = ("--settings", "-p", "--print", "--bare", "--safe-mode")
#: Of a notification, as much as holds its message.
_ONE_LINE = "head -c 4000 | tr -d '\\r\\n'"
_MESSAGE = re.compile(r'"message"\s*:\s*("(?:[^"\\]|\\.)*")')


def _options(seating: Seating) -> tuple[str, ...]:
    if any(arg.partition("=")[0] in _LEAVE_ALONE for arg in seating.args):
        return ()
    return ("--settings", str(seating.home / _SETTINGS))


def _files(seating: Seating) -> Mapping[str, str]:
    """Hooks that say in a file what happens, and nothing on standard output, which Claude reads."""
    file = shlex.quote(str(seating.home / _SAID))
    commands = {
        "UserPromptSubmit": f"cat > /dev/null; echo prompt >> {file}",
        "Stop": f"cat > /dev/null; echo stop >> {file}",
        "Notification": f"{{ printf 'note '; {_ONE_LINE}; echo; }} >> {file}",
    }
    hooks = {
        event: [{"hooks": [{"type": "command", "command": command, "timeout": 5}]}]
        for event, command in commands.items()
    }
    return {_SETTINGS: json.dumps({"hooks": hooks}, indent=2), _SAID: ""}


def _hook(line: str) -> Signal | None:
    word, _, rest = line.partition(" ")
    if word == "prompt":
        return Signal("working")
    if word == "stop":
        return Signal("idle")
    found = _MESSAGE.search(rest) if word == "note" else None
    if found is None:
        return None
    try:
        message = str(json.loads(found[1]))
    except ValueError:
        return None
    return Signal("blocked", message=message) if "permission" in message.lower() else None


ADAPTER = Adapter(
    name="claude",
    measured=("2.1.197", "2.1.332"),
    url_env={"ANTHROPIC_BASE_URL": ""},
    # A key in ANTHROPIC_API_KEY would be asked about in a dialog.
    key_env={"ANTHROPIC_AUTH_TOKEN": "anthropic"},
    quiet={"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"},
    home_env={"CLAUDE_CONFIG_DIR": ""},
    first_run=_first_run,
    options=_options,
    files=_files,
    hook_file=_SAID,
    hook=_hook,
    marks=Marks(
        takes_over=True,
        ready=re.compile(r"shift\+tab to cycle|\? for shortcuts|^\W*[❯>](?!\s*\d+\.)(?:\s|$)"),
        questions=(
            "choose the text style",
            "select login method",
            "do you want to use this api key",
            "is this a project you created or one you trust",
            "quick safety check",
        ),
    ),
)
