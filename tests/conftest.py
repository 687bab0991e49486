"""Puts this directory on the import path, so that the test packages share `gateway_harness`."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# How fast a shared machine draws examples says nothing about the code.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")
