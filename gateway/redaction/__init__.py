"""Finding personal values and secrets, replacing them with tokens, and putting them back.

Owns everything between decoded text and redacted text. Pure but for `vault` (SQLite) and
`workers` (processes). Wire formats call `Redactor.text`; the pipeline calls `ScanPool.run`,
`Vault.put` and the restorers. Nothing in here opens a socket.
"""
