"""Prints every figure that has a bar once more at the end of a run."""

from __future__ import annotations

from bench_table import show_all


def pytest_terminal_summary() -> None:
    """One table behind all others."""
    show_all()
