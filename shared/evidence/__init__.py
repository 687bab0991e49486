"""Evidence: payloads kept beside the ledger, sealed, and what takes them away again.

Owns `<log>/evidence` and `<keys>/dek.db`. Invariant: a record holds only commitments; what they
commit to is readable while its key exists, and who erases the key leaves a record that says so.
Off unless the policy asks for it; nothing here knows of either program. Imports nothing by itself,
because scanning workers read `rules` and should not wait for the rest.
"""
