"""What the deck's tests share beside the rig: the stand-in for a gateway."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from deck_harness import FakeGateway


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    """What answers at a gateway's address as a test wants it to."""
    from deck_harness import FakeGateway

    gateway = FakeGateway()
    yield gateway
    gateway.close()
