"""Real clients and real servers for the end-to-end tests.

Owns the fixtures of the pinned clients and of the servers that tests share. Invariant: a client
gets a clean environment, its own HOME and a loopback base URL.
"""

from __future__ import annotations

import shutil
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_servers import Server
from installs import cache_dir, install_client


@pytest.fixture(scope="session")
def claude() -> Path:
    return install_client("claude")


@pytest.fixture(scope="session")
def codex() -> Path:
    return install_client("codex")


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
