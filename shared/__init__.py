"""What the gateway and the deck both need; knows nothing of either.

`tests/test_imports.py` enforces the rule: nothing here imports `gateway` or `deck`.
"""

__version__ = "0.1.0"
