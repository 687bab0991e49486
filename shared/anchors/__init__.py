"""Anchors: how what a ledger commits to leaves the machine it is kept on.

Each module is one way out, independent of the others: witnesses that cosign checkpoints, RFC 3161
time stamps, OpenTimestamps, copies of HEAD, and the other ledgers of the same machine. Invariant:
nothing here is in the path of a record; a way out that is slow or gone costs the ledger nothing
and is told in a status. `schedule` runs them beside an open ledger for both programs.
"""
