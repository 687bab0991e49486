"""Prints every figure that has a bar once more at the end of a run; what is measured is a program
that was started for real."""

from __future__ import annotations

from collections.abc import Iterator

import preloaded
import pytest
from bench_table import show_all


@pytest.fixture(autouse=True, scope="package")
def _started_for_real() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preloaded, "POSSIBLE", False)
        yield


def pytest_terminal_summary() -> None:
    """One table behind all others."""
    show_all()
