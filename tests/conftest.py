"""What all tests share: this directory on the import path, the profile of examples, a state of
their own, and compiled code that is kept."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from deck_harness import DeckRig

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
def rig(tmp_path: Path) -> Iterator[DeckRig]:
    """A project with a deck of its own, ended with everything it started."""
    from deck_harness import DeckRig

    rig = DeckRig(tmp_path)
    yield rig
    rig.close()


@pytest.fixture
def own_git_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Git has the settings of the tests and no others."""
    from git_tools import SETTINGS

    place = tmp_path_factory.mktemp("git") / "config"
    place.write_text(SETTINGS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_CONFIG_GLOBAL", str(place))
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        yield


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A directory whose path leaves room for a socket's name: pytest's own may be too long."""
    with tempfile.TemporaryDirectory(prefix="chor-", dir="/tmp") as name:
        yield Path(name)
