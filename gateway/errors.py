"""The root of the gateway's own errors.

Invariant: `str()` of a GatewayError is one sentence for the person at the keyboard or behind the
client: what was wrong, where, and what to do. It never holds a personal value or a secret.
Raised all over the package; the command line prints it after `error: `.
"""

from __future__ import annotations


class GatewayError(Exception):
    """Something the user can put right; `str()` is the sentence to show."""
