"""Puts this directory on the import path, so that the test packages share `gateway_harness`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How fast a shared machine draws examples says nothing about the code.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# Ledgers of one user record each other's heads: those of tests must not meet the user's own.
_STATE = tempfile.TemporaryDirectory(prefix="tests-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A directory whose path leaves room for a socket's name: pytest's own may be too long."""
    with tempfile.TemporaryDirectory(prefix="chor-", dir="/tmp") as name:
        yield Path(name)
