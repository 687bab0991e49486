"""What of the gateway's setup the ledger keeps: its settings without secrets, its rules' version.

Owns what is left out. Invariant: no key and no part of one is in the kept text, only that it is
set; of a command only its program, of a URL neither user nor query; what has no rule here is told
by its name alone, so a new setting is never told by accident. Pure but for reading our own
files. Called by `gateway.app` at the start.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import orjson

from gateway.credentials import PROVIDERS
from gateway.redaction.policy import Policy
from gateway.settings import Settings
from shared import __version__

#: What stands for a value that is not told.
SET: Final = "(set)"
#: Names of settings that hold a secret, whatever their type; a file's path is none.
_SECRET: Final = re.compile(r"(?:^|_)(?:key|keys|secret|token|password|passphrase|credentials?)$")
_RULES: Final = Path(__file__).parent / "redaction"


def settings_text(settings: Settings) -> bytes:
    """Return every setting that may be told as one JSON text, a line for each."""
    told = {name: _told(name, getattr(settings, name)) for name in type(settings).model_fields}
    return orjson.dumps(told, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2) + b"\n"


def settings_summary(settings: Settings) -> dict[str, Any]:
    """Return what decides where calls go and how, for the record itself."""
    return {
        "listen": settings.listen_addr,
        "upstream": {name: settings.upstream_for(name) for name in PROVIDERS},
        "auto_reveal": settings.auto_reveal,
        "managed_keys": list(settings.managed),
        "require_client_key": settings.require_client_key,
        "body_limit_mib": settings.body_limit_mib,
        "anchors": _ways_out(settings),
    }


def _ways_out(settings: Settings) -> dict[str, Any]:
    """Return how the ledger's head leaves the machine: what an auditor may then ask for."""
    copies = ("head_command", "head_file", "head_note_file", "head_syslog")
    return {
        "witnesses": [_told_text(witness) for witness in settings.witnesses],
        "tsa": _told("tsa_url", settings.tsa_url) or _told("tsa_command", settings.tsa_command),
        "ots": settings.ots,
        "copies": [name for name in copies if getattr(settings, name)],
        "neighbors": settings.neighbors,
    }


def detectors(policy: Policy) -> dict[str, str]:
    """Return the version of the rules that find values: the program's, and the sha256 over the
    files of its detectors and, if there is one, of the operator's recognizers. Blocks."""
    found = {"version": __version__, "sha256": _digest_of_rules()}
    if policy.recognizers_file is not None:
        found["recognizers"] = hashlib.sha256(policy.recognizers_file.read_bytes()).hexdigest()
    return found


def _digest_of_rules() -> str:
    whole = hashlib.sha256()
    for path in sorted(_RULES.rglob("*.py")):
        name = path.relative_to(_RULES).as_posix()
        whole.update(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {name}\n".encode())
    return whole.hexdigest()


def _told(name: str, value: object) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if _SECRET.search(name):
        return SET
    if isinstance(value, float):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, str):
        return _told_text(value)
    if isinstance(value, list | tuple):
        if name.endswith("command"):
            return [_told_text(str(value[0])), *[SET] * (len(value) - 1)] if value else []
        if all(isinstance(item, str | Path | int) for item in value):
            return [_told_text(str(item)) for item in value]
    return SET


def _told_text(value: str) -> str:
    if "://" not in value:
        return value
    try:
        parts = urlsplit(value)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return SET
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
