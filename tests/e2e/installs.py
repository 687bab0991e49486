"""The pinned clients: installed once per machine, outside the repository, and shared by all tests.

Invariant: a test is skipped, with the reason, only where the registry cannot be reached; a client
that is there but cannot be installed is a failure. Called by the fixtures of conftest and by
test_e2e_matrix.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
import uuid
import venv
from pathlib import Path

import pytest

CLIENTS = {
    "claude": ("@anthropic-ai/claude-code", "2.1.332"),
    "codex": ("@openai/codex", "0.171.0"),
    "gemini": ("@google/gemini-cli", "0.61.0"),
    "pi": ("@mariozechner/pi-coding-agent", "0.73.1"),
    # Only with CLIENTS=all (`make clients`).
    "claude-old": ("@anthropic-ai/claude-code", "2.1.197"),
    "opencode": ("opencode-ai", "1.18.33"),
    "qwen": ("@qwen-code/qwen-code", "0.24.4"),
}
AIDER = "aider-chat==0.86.2"
#: What npm says when it is the network that is missing, not the package.
UNREACHABLE = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH"
    r"|ERR_SOCKET_TIMEOUT|network request.*failed|CERT_|E40[137]|E50[234]"
)


#: Why the registry was not reached, once one client could not be had; the others need not try.
_out_of_reach: list[str] = []


def _skip(reason: str) -> None:
    _out_of_reach.append(reason)
    pytest.skip(reason)


def cache_dir() -> Path:
    """A place outside the repository and, where possible, outside the temp dir (codex warns)."""
    for base in (os.environ.get("XDG_CACHE_HOME"), Path.home() / ".cache", tempfile.gettempdir()):
        if not base:
            continue
        place = Path(base) / "choragos-test-clients"
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(place, os.W_OK):
            return place
    raise AssertionError("no writable cache directory")


def install_client(name: str) -> Path:
    """Return the client's program, installed once; the lock serves several test workers."""
    package, version = CLIENTS[name]
    name = name.removesuffix("-old")
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("npm and node are not installed, so the npm registry cannot be asked")
    place = cache_dir() / f"{name}-{version}"
    program = place / "node_modules" / ".bin" / name
    with (cache_dir() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists():
            return program
        if _out_of_reach:
            pytest.skip(_out_of_reach[0])
        staging = cache_dir() / f"{name}-{uuid.uuid4().hex}"
        try:
            done = subprocess.run(
                [
                    npm,
                    "install",
                    "--no-audit",
                    "--no-fund",
                    "--no-save",
                    "--fetch-retries=1",
                    "--fetch-timeout=30000",
                    "--prefix",
                    str(staging),
                    f"{package}@{version}",
                ],
                check=False,
                capture_output=True,
                text=True,
                timeout=150,
            )
            if done.returncode != 0:
                if UNREACHABLE.search(done.stderr):
                    reason = done.stderr.strip().splitlines()
                    _skip(f"the npm registry cannot be reached: {reason[0][:200]}")
                pytest.fail(f"npm could not install {package}@{version}:\n{done.stderr[-2000:]}")
            shutil.rmtree(place, ignore_errors=True)
            staging.rename(place)
        except subprocess.TimeoutExpired:
            _skip("the npm registry did not answer within 150 s")
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return program


def install_aider() -> Path:
    """Return aider's program, installed once in an environment of its own (over 600 MB)."""
    place = cache_dir() / AIDER
    with (cache_dir() / "aider.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "complete").exists():
            shutil.rmtree(place, ignore_errors=True)
            venv.create(place, with_pip=True)
            pip = [place / "bin" / "pip", "install", "--quiet", AIDER]
            done = subprocess.run(pip, check=False, capture_output=True, text=True, timeout=900)
            if done.returncode != 0:
                pytest.skip(f"{AIDER} cannot be installed: {done.stderr.strip()[-300:]}")
            (place / "complete").touch()
    return place / "bin" / "aider"
