"""Real clients and real servers for the end-to-end tests.

Owns the installation of the pinned npm clients (once per machine, outside the repository) and the
servers that tests share. Invariant: a client gets a clean environment, its own HOME and a loopback
base URL; it is skipped, with the reason, only where the npm registry cannot be reached.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_servers import Server

CLIENTS = {
    "claude": ("@anthropic-ai/claude-code", "2.1.332"),
    "codex": ("@openai/codex", "0.171.0"),
    "gemini": ("@google/gemini-cli", "0.61.0"),
    "pi": ("@mariozechner/pi-coding-agent", "0.73.1"),
}
#: What npm says when it is the network that is missing, not the package.
UNREACHABLE = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH"
    r"|ERR_SOCKET_TIMEOUT|network request.*failed|CERT_|E40[137]|E50[234]"
)


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
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("npm and node are not installed, so the npm registry cannot be asked")
    place = cache_dir() / f"{name}-{version}"
    program = place / "node_modules" / ".bin" / name
    with (cache_dir() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if program.exists():
            return program
        staging = cache_dir() / f"{name}-{uuid.uuid4().hex}"
        try:
            done = subprocess.run(
                [
                    npm,
                    "install",
                    "--no-audit",
                    "--no-fund",
                    "--no-save",
                    "--prefix",
                    str(staging),
                    f"{package}@{version}",
                ],
                check=False,
                capture_output=True,
                text=True,
                timeout=300,
            )
            if done.returncode != 0:
                if UNREACHABLE.search(done.stderr):
                    reason = done.stderr.strip().splitlines()
                    pytest.skip(f"the npm registry cannot be reached: {reason[0][:200]}")
                pytest.fail(f"npm could not install {package}@{version}:\n{done.stderr[-2000:]}")
            shutil.rmtree(place, ignore_errors=True)
            staging.rename(place)
        except subprocess.TimeoutExpired:
            pytest.skip("the npm registry did not answer within 300 s")
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return program


@pytest.fixture(scope="session")
def claude() -> Path:
    return install_client("claude")


@pytest.fixture(scope="session")
def codex() -> Path:
    return install_client("codex")


@pytest.fixture(scope="session")
def pi() -> Path:
    return install_client("pi")


@pytest.fixture(scope="session")
def gemini() -> Path:
    return install_client("gemini")


@pytest.fixture
def client_home() -> Iterator[Path]:
    """A HOME of its own, outside the temp dir."""
    home = cache_dir() / "homes" / uuid.uuid4().hex
    (home / "work").mkdir(parents=True)
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def server(tmp_path_factory) -> Iterator[Server]:
    """One gateway with the offline provider for all tests that only talk to it."""
    running = Server(tmp_path_factory.mktemp("gateway"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def own_server(tmp_path) -> Iterator[Server]:
    """A gateway for one test, which may kill it."""
    running = Server(tmp_path / "gateway")
    running.start()
    yield running
    if running.process is not None:
        running.stop(signal.SIGKILL)
