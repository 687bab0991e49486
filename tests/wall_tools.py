"""Where the tests find bubblewrap: on PATH, or the build that the pinned Codex client brings."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest


def real_bwrap() -> Path:
    """Return a bubblewrap that works on this machine, or skip with the reason that none does."""
    found = shutil.which("bwrap") or _of_codex() or _of_codex_installed_now()
    if found is None:
        pytest.skip("bubblewrap is not installed, and no Codex client that brings one")
    attempt = [found, "--unshare-user", "--unshare-net", "--unshare-pid", "--ro-bind", "/", "/"]
    done = subprocess.run(
        [*attempt, "--proc", "/proc", "true"], check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"namespaces are not permitted here: {done.stderr.strip()[:200]}")
    return Path(found)


def _of_codex() -> str | None:
    for base in (os.environ.get("XDG_CACHE_HOME"), Path.home() / ".cache", tempfile.gettempdir()):
        if base:
            places = Path(base).glob("choragos-test-clients/codex-*/node_modules/**/bwrap")
            found = next((one for one in places if os.access(one, os.X_OK)), None)
            if found is not None:
                return str(found)
    return None


def _of_codex_installed_now() -> str | None:
    sys.path.append(str(Path(__file__).parent / "e2e"))
    from installs import install_client

    install_client("codex")
    return _of_codex()
