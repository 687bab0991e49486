"""The verbs of `sphragis` that work on a ledger: one module for each group of them.

Invariant: a module here imports nothing heavy before one of its verbs runs, because decks probe
this program often. Each has one `verbs`, which `gateway.cli` adds to the command.
"""
