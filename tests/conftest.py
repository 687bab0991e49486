"""Puts this directory on the import path, so that the test packages share `gateway_harness`."""

from __future__ import annotations

import os
import tempfile

from hypothesis import HealthCheck, settings

# How fast a shared machine draws examples says nothing about the code.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# Ledgers of one user record each other's heads: those of tests must not meet the user's own.
_STATE = tempfile.TemporaryDirectory(prefix="tests-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name
