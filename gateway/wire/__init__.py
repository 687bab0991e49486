"""The registry of wire formats: every module in `gateway.wire.formats` that offers `FORMATS`.

Knows nothing of sockets, files or policy. `get` is called by the scanning workers and the pipeline,
`all_formats` by the route table.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from gateway.wire import formats
from gateway.wire.base import WireRefused
from gateway.wire.body import WireFormat

__all__ = ["WireFormat", "WireRefused", "all_formats", "get"]


@cache
def all_formats() -> dict[str, WireFormat]:
    """Return every format by its name."""
    found: dict[str, WireFormat] = {}
    for module in sorted(pkgutil.iter_modules(formats.__path__), key=lambda info: info.name):
        offered = importlib.import_module(f"{formats.__name__}.{module.name}")
        for wire in getattr(offered, "FORMATS", ()):
            assert wire.name not in found, f"two formats are called {wire.name}"
            found[wire.name] = wire
    return found


def get(name: str) -> WireFormat:
    """Return the format registered under `name`. Raises WireRefused for any other name."""
    try:
        return all_formats()[name]
    except KeyError:
        raise WireRefused(
            "wire_format", "This gateway has no scanner for the format of this request."
        ) from None
