"""httpx without its own command line, which nobody here uses and which loads rich and pygments.

Owns one import. It saves each deck 5 MB and 90 modules; httpx itself allows for the command line
to be missing. Import httpx from here in everything a running deck loads.
"""

from __future__ import annotations

import sys
from typing import Final

_COMMAND_LINE: Final = "httpx._main"

if "httpx" in sys.modules:
    import httpx
else:
    # None makes the import fail as if the command line's own requirements were not installed.
    sys.modules[_COMMAND_LINE] = None  # type: ignore[assignment]
    try:
        import httpx
    finally:
        del sys.modules[_COMMAND_LINE]

__all__ = ["httpx"]
