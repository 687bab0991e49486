"""What all tests share: this directory on the import path, the profile of examples, a state of
their own, and compiled code that is kept."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Nothing kept means: every worker rewrites all tests, every program that a test starts compiles us.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

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
