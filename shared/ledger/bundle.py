"""Proof bundles: the records of one task, provable to a stranger who sees nothing else.

Owns the zip that `sphragis proof` writes and its verification. Invariants: a bundle holds no byte
of a record that was not asked for or needed to judge one that was; every proof in it was verified
before it was written; the same log and question give the same bytes. Reading takes no lock and
changes nothing. Called by the programs' `proof` and `verify` commands; `ledger_verify.py` reads
the same layout with the standard library alone.

Layout (format 1; every member stored without compression, all names ASCII, no directories):

    README.txt                        what this proves, what it cannot, how to check it
    manifest.json                     below; canonical JSON and a newline
    ledger_verify.py                  the verifier, when the maker had one
    logs/<i>/log.json                 the log's log.json, byte for byte; i = 0, 1, ... without gaps
    logs/<i>/checkpoint               signed note: log signatures, then cosignature lines. All
                                      proofs of this log are for exactly this size and root
    logs/<i>/records/<n>.json         a record: the exact line, without newline (the leaf is its
                                      SHA-256 behind a zero byte); n = its number, 20 digits
    logs/<i>/records/<n>.tlog-proof   C2SP tlog-proof v1 of it; no extra line; the note in it is
                                      byte for byte the file `checkpoint`
    logs/<i>/anchors/<size>.checkpoint|.cosig|.tsr|.ots
                                      what the log keeps about this very checkpoint, byte for byte;
                                      size = the checkpoint's. The stamps are over `.checkpoint`,
                                      whose text is that of `checkpoint`
    logs/<i>/texts/<sha256>           a policy or settings text that a record names by its digest

manifest.json is
    {"bundle": 1,
     "files": {<every other member>: <sha256 hex>},
     "logs": [{"origin", "records": {<seq decimal>: why}, "root": hex, "size"}],
     "selection": {"seqs": [..], "sessions": [..], "tasks": [..]}}
why is one of: selected (asked for: by number, or its `task` or `run` is in the selection), pair
(the request of an outcome or the other way round, the opening of a gate or its decision), policy
(the policy_set or config_set that put a text in force), key (key_rotate), identity (record 0).
The manifest is not signed: it helps to name what is wrong, nothing rests on it.

Rules of verification, by code: not a zip file or without a manifest: `not_a_bundle` (usage). A member
whose bytes cannot be read or differ from `files`: `file_changed`; listed and absent:
`file_missing` (incomplete); there and not listed, twice there, compressed or of no known name:
`file_unlisted`; manifest not as above or not of these logs and records: `manifest_changed`. Note
malformed or not signed by the log: `checkpoint_changed`; signed by a key that no given key leads
to through the `key_rotate` records here: `key_unknown`; logs whose key was not given while others
were: `key_missing` (incomplete). A proof without a record or the other way round: `proof_missing`
(incomplete); malformed or for another checkpoint or number: `proof_changed`; a record whose bytes
and proof do not give the root: `record_changed`. Then, between the records here:
`outcome_unpaired`, `request_unanswered` (incomplete), `policy_unknown`, `text_missing`
(incomplete), `text_changed`. Every other finding is tampering.
"""

from __future__ import annotations
