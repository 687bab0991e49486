"""The wire formats: one module for each provider API, and nothing else to edit for a new one.

A module here offers `FORMATS`, a tuple of `WireFormat`; each says by its `calls` which calls of the
provider it reads. Found by `gateway.wire`. Every module is pure.
"""
