#!/usr/bin/env python3
# ruff: noqa: B905, SIM905 -- zip(strict=) needs Python 3.10; words read better than quoted lists
"""Check a ledger, or a proof bundle from one, with nothing but Python's standard library.

A record is one line of JSON that names the hash of the line before it; these hashes are the leaves
of one Merkle tree; a checkpoint is a signed note with the number of records and the root of that
tree. So a good checkpoint vouches for every byte before it, and what you hold outside of the log
(key, receipt, checkpoint, cosignature, stamp) vouches that it still is the log it was. Nothing is
believed that is not recomputed here. The first line that does not fit is named and ends the check.
Published signatures are always verified, those after each batch only if the package `cryptography`
is there. FORMAT.md has the bytes and the findings. Changes nothing.
"""

from __future__ import annotations

import argparse
import base64
import gc
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey as FastKey
except Exception:  # not installed, or broken: then it is not used
    FastKey = None  # type: ignore[assignment,misc]

MEANS = {  # what a finding means; those not named here mean "tampered"
    "usage": """bad_vkey bad_evidence no_such_path not_a_ledger not_a_bundle unreadable
        unknown_schema""",
    "incomplete": """checkpoint_missing empty file_missing head_missing key_missing log_id_unknown
        log_json_missing proof_missing records_lost request_unanswered seal_missing segment_missing
        stamp_unchecked text_missing time_contradicted torn_tail unsigned_tail""",
    "ok": "loss_accepted not_comparable pruned signatures_not_checked silence unclean_stop",
}
TYPES = frozenset(
    """genesis start stop request outcome deny gate_open gate_decision delegate revoke policy_set
    config_set key_rotate seal anchor erase hold export recover clock_step heartbeat gap
    journal""".split()
)
OPTIONS = {
    "--vkey": "a public key of the log",
    "--prior": "file of an earlier checkpoint",
    "--receipt": "a receipt, or a file of them",
    "--cosignature": "file of a checkpoint that a witness cosigned",
    "--witness": "public key of that witness",
    "--tsr": "file of an RFC 3161 time stamp",
}
MEMBER = re.compile(
    r"README\.txt|manifest\.json|ledger_verify\.py|"
    r"logs/[0-9]+/(log\.json|checkpoint|records/[0-9]{20}\.(json|tlog-proof)|"
    r"texts/[0-9a-f]{64}|anchors/[0-9]+\.[a-z]+)"
)
CP = b'{"cp":"'
TOLERANCE = 600 * 10**6  # how far apart two clocks may be, in microseconds
FOUND: dict[tuple[str, Any], str] = {}  # (code, record number or file name): what it means
BAD = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
Record = dict[str, Any]
Key = tuple[str, bytes, bytes]  # name, key id, public key
Point = tuple[int, int]
sha256 = hashlib.sha256


class Damage(Exception):
    """What is wrong and where; nothing behind it can be judged."""


def say(code: str, place: Any = None, means: str = "") -> None:
    means = means or next((each for each in MEANS if code in MEANS[each].split()), "tampered")
    if len(FOUND) < 500 or means not in FOUND.values():
        FOUND.setdefault((code, place), means)


# -- JSON in its one canonical form ----------------------------------------------------------------
def whole(text: str) -> int:
    if len(text) > 17 or abs(int(text)) >= 2**53:
        raise ValueError("a number that no record has")
    return int(text)


QUICK = json.JSONDecoder(parse_float=whole, parse_constant=whole).raw_decode
DECODE = json.JSONDecoder(parse_float=whole, parse_constant=whole, parse_int=whole).decode
ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
DIGITS = bytes(48 if 48 <= n < 58 else 58 if n in b":,[-" else n for n in range(256))


def records_of(lines: list[bytes]) -> list[Record]:
    """The record in each line, or {} if its bytes are not exactly how a record is written."""
    try:
        block = b"\n".join(lines)
        texts = block.decode().split("\n")
        pairs = [QUICK(text) for text in texts]
        records = [record for record, _ in pairs]
        objects = records + [v for r in records for v in r.values() if type(v) is dict]
        # To write each again and compare takes long, so questions to all at once come first: no
        # space, escape or -0; names in order, and as many as in these objects, so none twice or
        # deeper; no number of 16 digits but the time of each record.
        odd = (b" ", b"\t", b"\r", b"\\", b":-0", b",-0", b"[-0")
        plain = block.isascii() and not any(each in block for each in odd)
        plain = plain and [end for _, end in pairs] == [len(text) for text in texts]
        plain = plain and block.count(b'":') == sum(map(len, objects))
        plain = plain and all(list(o) == sorted(o) for o in {tuple(o) for o in objects})
        plain = plain and block.translate(DIGITS).count(b":" + b"0" * 16) == len(lines)
        if not plain or not all(10**15 <= record["ts"] < 2**53 for record in records):
            records = [DECODE(text) for text in texts]
            plain = [ENCODE(record) for record in records] == texts
            plain = plain and min(record["ts"] for record in records) >= 0
        told = [(r["v"], type(r["v"]), type(r["seq"]), type(r["ts"]), r["type"]) for r in records]
        known = {each[:4] for each in told} <= {(1, int, int, int)}
        if plain and known and {each[4] for each in told} <= TYPES:
            return records
    except BAD:
        pass
    return [{}] if len(lines) == 1 else [records_of([line])[0] for line in lines]


def part(record: Record, name: str) -> Record:
    return record[name] if type(record.get(name)) is dict else {}


# -- signed notes ----------------------------------------------------------------------------------
def unbase64(text: str) -> bytes:
    raw = base64.b64decode(text, validate=True)
    if base64.b64encode(raw).decode() != text:
        raise ValueError("not the one base64 form")
    return raw


def vkeys_in(texts: Any, kind: int = 1) -> list[Key]:
    """The good ones of some public keys; `kind` is 1 for those of a log, 4 for a witness."""
    keys = []
    for text in texts if type(texts) is list else []:
        match = re.fullmatch(r"\s*([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]{44})\s*", str(text))
        name, raw = (match[1], base64.b64decode(match[3])) if match else ("", b"")
        key_id = sha256(name.encode(errors="replace") + b"\n" + raw).digest()[:4]
        if match and raw[0] == kind and key_id.hex() == match[2]:
            keys.append((name, key_id, raw[1:]))
    return keys


def note_in(line: bytes) -> str:
    """The note in a checkpoint line, or nothing."""
    try:
        value = DECODE(line.decode())
        return str(value["cp"]) if ENCODE({"cp": value["cp"]}).encode() == line else ""
    except BAD:
        return ""


def split_note(note: str) -> tuple[str, list[tuple[str, bytes]]]:
    """The text of a note, and its signatures as (name, key id and signature)."""
    text, gap, rest = note.rpartition("\n\n")
    lines = [re.fullmatch("\u2014 ([^\\s+]+) (\\S{8,})\n", each) for each in rest.splitlines(True)]
    odd = re.search(r"[\x00-\x09\x0b-\x1f]", note) or len(note) > 65536 or len(lines) > 100
    if odd or not gap or not lines or not all(lines):
        raise ValueError("not a note")
    return text + "\n", [(line[1], unbase64(line[2])) for line in lines if line]


def checkpoint_in(note: str) -> tuple[str, int, bytes]:
    """Origin, size and root in a checkpoint."""
    match = re.fullmatch("([^\n]+)\n(0|[1-9][0-9]{0,15})\n([^\n]{44})\n", split_note(note)[0])
    if not match:
        raise ValueError("not a checkpoint")
    return match[1], int(match[2]), unbase64(match[3])


def checkpoint_text(origin: str, size: int, root: bytes) -> str:
    return f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n"


def verifies(key: Key, message: bytes, signature: bytes) -> bool:
    if FastKey is None:
        return ed25519_verify(key[2], message, signature)
    try:
        FastKey.from_public_bytes(key[2]).verify(signature, message)
    except Exception:
        return False
    return True


def signed_text(note: str, keys: list[Key], every: bool = False) -> str:
    """The text of a note that one (or each) of `keys` signed, or nothing; others do not matter."""
    try:
        text, signatures = split_note(note)
    except ValueError:
        return ""
    signed = [(k, blob) for name, blob in signatures for k in keys if k[:2] == (name, blob[:4])]
    enough = {k for k, _ in signed} == set(keys) if every else signed
    return text if enough and all(verifies(k, text.encode(), b[4:]) for k, b in signed) else ""


def rotation(told: Record, seq: Any, name: str) -> list[Key]:
    """The old and the new key of a change of keys that both signed, or nothing."""
    pair, text = vkeys_in([told.get("old"), told.get("new")]), f"{seq}\n{told.get('new')}\n"
    good = signed_text(str(told.get("note")), pair, True) == f"{name}/key-rotate\n{text}"
    return pair if good and len(pair) == 2 else []


# -- Ed25519 (RFC 8032), enough to verify ----------------------------------------------------------
P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P


def point_add(a: Point, b: Point) -> Point:
    """The sum of two points of the curve -x^2 + y^2 = 1 + D x^2 y^2."""
    (x1, y1), (x2, y2) = a, b
    k = D * x1 * x2 * y1 * y2
    x, y = (x1 * y2 + x2 * y1) * pow(1 + k, -1, P), (y1 * y2 + x1 * x2) * pow(1 - k, -1, P)
    return x % P, y % P


def point_of(raw: bytes) -> Point:
    sign, y = divmod(int.from_bytes(raw, "little"), 2**255)
    x2 = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(x2, (P + 3) // 8, P)
    x = x if (x * x - x2) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - x2) % P or (x == 0 and sign):
        raise ValueError("not a point")
    return P - x if x & 1 != sign else x, y


BASE = point_of((4 * pow(5, -1, P) % P).to_bytes(32, "little"))


def ed25519_verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether s times the base point, less h times the key, is the point in the signature."""
    try:
        (x, y), r = point_of(public), point_of(signature[:32])
    except ValueError:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % ORDER
    s, point = int.from_bytes(signature[32:], "little"), (0, 1)
    for bit in range(255, -1, -1):
        point = point_add(point, point)
        point = point_add(point, BASE) if s >> bit & 1 else point
        point = point_add(point, (P - x, y)) if h >> bit & 1 else point
    return len(signature) == 64 and s < ORDER and point == r


# -- the Merkle tree (RFC 6962) --------------------------------------------------------------------
def grow(size: int, peaks: list[bytes], leaves: list[bytes]) -> list[bytes]:
    """Add leaves to a tree that is known by its size and the roots of its perfect subtrees."""
    peaks, level, grown = list(peaks), list(leaves), []
    while level or size:
        if size & 1:
            level.insert(0, peaks.pop())
        if len(level) & 1:
            grown.append(level.pop())
        level = [sha256(b"\x01" + a + b).digest() for a, b in zip(level[::2], level[1::2])]
        size >>= 1
    return peaks + grown[::-1]


def root_of(peaks: list[bytes]) -> bytes:
    root = peaks[-1] if peaks else sha256(b"").digest()
    for peak in peaks[-2::-1]:
        root = sha256(b"\x01" + peak + root).digest()
    return root


def root_from(leaf: bytes, index: int, size: int, proof: list[bytes]) -> bytes:
    """The root that an inclusion proof gives for the leaf at `index` of `size`."""
    if not 0 <= index < size or (size == 1) == bool(proof):
        raise ValueError("a proof of the wrong length")
    if size == 1:
        return leaf
    half = 1 << (size - 1).bit_length() - 1
    right = index >= half
    below = root_from(leaf, index - half * right, size - half if right else half, proof[:-1])
    return sha256(b"\x01" + (proof[-1] + below if right else below + proof[-1])).digest()


# -- what records say ------------------------------------------------------------------------------
class Rules:
    """Judges each record by what those before it said. `partial`: some of those are not there.
    `here`: for a bundle, the numbers of the records in it."""

    def __init__(self, here: set[int] | None = None) -> None:
        self.here, self.partial, self.running = here, False, False
        self.ts, self.kind, self.every = 0, "", 0
        self.open, self.policies, self.texts = set[int](), set[str](), dict[str, int]()
        self.gates, self.segment_key = dict[Any, Any](), list[Key]()
        self.lost, self.pruned, self.rotations = list[Any](), list[Any](), list[Record]()

    def look(self, record: Record) -> None:
        kind, seq = record["type"], record["seq"]
        ref: Any = record.get("ref")
        self.clock(record)
        if kind == "request":
            self.open.add(seq)
        elif kind == "outcome" and type(ref) is int and ref in self.open:
            self.open.remove(ref)
        elif kind == "outcome" and not self.partial:
            earlier = type(ref) is int and 0 <= ref < seq
            absent = earlier and self.here is not None and ref not in self.here
            say("outcome_unpaired", seq, "incomplete" if absent else "")
        elif kind not in ("outcome", "journal"):
            self.state(kind, seq, part(record, "ext"), record)
        if "policy" in record and kind not in ("policy_set", "config_set"):
            policy, bundle = part(record, "policy"), self.here is not None
            digest = policy.get("digest") if bundle or policy.get("decision") else ""
            if digest and str(digest) not in self.policies and not self.partial:
                say("policy_unknown", seq, "incomplete" if bundle else "")
        if "gate" in record and part(record, "gate") and self.here is None:
            self.gate(kind, seq, record, part(record, "gate"))

    def clock(self, record: Record) -> None:
        kind, ts = record["type"], record["ts"]
        if ts < self.ts and kind != "clock_step" and self.here is None:
            say("clock_decreased", record["seq"])
        silent = self.every and ts - self.ts > 3 * self.every and self.here is None
        if silent and self.kind != "stop" and kind not in ("start", "recover"):
            say("silence", record["seq"])
        self.ts, self.kind = ts, kind

    def state(self, kind: str, seq: int, ext: Record, record: Record) -> None:
        """Remember what a record says about the log and its programs."""
        if kind in ("start", "stop"):
            if kind == "start" and self.running:
                say("unclean_stop", seq)
            self.running = kind == "start"
        elif kind == "heartbeat":
            self.every = ext["every_us"] if type(ext.get("every_us")) is int else 0
        elif kind == "recover":
            if ext.get("accepted_loss") is True:
                say("loss_accepted", seq)
            if type(ext.get("lost_from")) is type(ext.get("committed")) is int:
                self.lost.append((ext["lost_from"], ext["committed"]))
                self.segment_key = vkeys_in([ext.get("segment_key")]) or self.segment_key
        elif kind == "key_rotate":
            self.rotations.append({**ext, "seq": seq})
        elif kind == "erase" and part(record, "action").get("kind") == "prune":
            told = ext["rotations"] if type(ext.get("rotations")) is list else []
            self.rotations += [each for each in told if type(each) is dict]
            self.pruned.append((ext.get("size"), ext.get("seal_sha256")))
        elif kind in ("policy_set", "config_set"):
            digest = (ext if kind == "config_set" else part(record, "policy")).get("digest")
            self.policies |= {str(digest)} if kind == "policy_set" else set()
            if type(digest) is str:
                self.texts.setdefault(digest, seq)

    def gate(self, kind: str, seq: int, record: Record, gate: Record) -> None:
        name = (str(record.get("run")), str(gate.get("id")))
        shown, approves = part(record, "action").get("args_c"), gate.get("state") == "approved"
        opened, decision = self.gates.get(name, (None, ""))
        if kind == "gate_open":
            self.gates[name] = (shown, "")
        elif name not in self.gates:
            if (kind == "gate_decision" or approves) and not self.partial:
                say("gate_unopened", seq)
        elif kind == "gate_decision":
            if decision:
                say("gate_decided_twice", seq)
            elif approves and shown and shown != opened:
                say("gate_changed", seq)
            self.gates[name] = (opened, decision or str(gate.get("state") or "decided"))
        elif (approves or kind == "request") and decision != "approved":
            say("gate_not_approved", seq)


# -- one log from its beginning to its end ---------------------------------------------------------
class Claim(NamedTuple):
    """That the log signed a root, in `note`, not after `when`; `code` is what it means if not."""

    code: str
    note: str
    origin: str
    size: int
    root: bytes
    when: int | None = None


class Log(Rules):
    """A log while it is followed: `size`, `peaks` and `tip` are the tree and the last hash so far,
    `keys` those that must sign now, and `chain` all of its keys."""

    def __init__(self, keys: list[Key], here: set[int] | None = None) -> None:
        super().__init__(here)
        self.origin, self.keys, self.chain = keys[0][0] if keys else "", keys, keys
        self.note, self.root, self.read, self.log_id = "", b"", 0, b""
        self.size, self.peaks, self.tip, self.previous = 0, list[bytes](), "0" * 64, "0" * 64
        self.next_key, self.claims, self.told = list[Key](), list[Claim](), list[Any]()

    def reached(self, keys: list[Key]) -> list[Key]:
        """The keys that changes of keys in the records lead to, forward or back."""
        pairs = [rotation(told, told.get("seq"), self.origin) for told in self.rotations]
        for pair in pairs * len(pairs):
            keys = keys + [key for key in pair if key not in keys and set(pair) & set(keys)]
        return keys

    def batch(self, lines: list[bytes], note: str) -> None:
        """Take records and the checkpoint behind them."""
        records, leaves = records_of(lines), [sha256(b"\x00" + line).digest() for line in lines]
        tip, keys, end = self.tip, self.keys, self.size + len(lines)
        for seq, record, leaf in zip(range(self.size, end), records, leaves):
            if (record.get("seq"), record.get("prev")) != (seq, tip):  # or the one before it
                raise Damage("record_changed", seq)
            tip = leaf.hex()
            if record["type"] == "key_rotate":
                pair = rotation(part(record, "ext"), seq, self.origin)
                if not pair or pair[0] not in keys[-1:]:
                    raise Damage("key_rotation_bad", seq)
                keys = [*keys, pair[1]]
        peaks = grow(self.size, self.peaks, leaves)
        if note:
            self.checkpoint(note, keys, end, root_of(peaks))
        self.compare_claims(leaves, [self.ts, *[record["ts"] for record in records]])
        for record in records:
            self.look(record)
        if records:
            self.log_id = self.log_id if self.size else leaves[0]
            self.next_key = vkeys_in([part(records[-1], "ext").get("next_key")])
        self.size, self.peaks, self.tip, self.read = end, peaks, tip, self.read + len(records)

    def checkpoint(self, note: str, keys: list[Key], size: int, root: bytes) -> None:
        """Compare a checkpoint with the records before it."""
        if FastKey is None:
            say("signatures_not_checked")
        elif not signed_text(note, keys, every=True):
            raise Damage("checkpoint_signature", max(size - 1, 0))
        if not note.startswith(checkpoint_text(self.origin, size, root) + "\n"):
            raise Damage("record_changed", max(size - 1, 0))
        self.chain = self.chain + [key for key in keys if key not in self.chain]
        self.keys, self.note, self.root = keys, note, root

    def compare_claims(self, leaves: list[bytes], times: list[int]) -> None:
        """Keep with each claim before the last of some more records the root and times here."""
        while self.claims and self.claims[-1].size < self.size + len(leaves):
            at, root = self.claims[-1].size - self.size, None
            if at >= 0:
                root = root_of(grow(self.size, self.peaks, leaves[:at]))
            self.told.append((self.claims.pop(), root, times[max(at, 0)], times[max(at, 0) + 1]))

    def judge(self, claim: Claim, root: bytes | None, before: int, after: int) -> None:
        """Judge a claim by the root here, if there is one, and by the times around it."""
        code, note, origin, size, claimed, when = claim
        beyond = root is None and size > self.size
        if origin != self.origin or not signed_text(note, self.chain):
            say("head_changed" if code == "head_mismatch" else code)
        elif beyond or root not in (None, claimed):
            shorter = "records_removed" if code == "head_mismatch" else "rolled_back"
            lost = any(kept < size <= committed for kept, committed in self.lost)
            say("records_lost" if lost else shorter if beyond else code)
        elif root is None:
            say("not_comparable")
        elif when is not None and (before > when + TOLERANCE or after < when - TOLERANCE):
            say("time_contradicted", size)

    def segment(self, path: Path, head: Claim, last: bool) -> None:
        """Follow a segment file and its seal. `head` may sign the end, too."""
        digest, group, rest, seal = sha256(), list[bytes](), b"", path.with_suffix(".seal")
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    group.append(line)
                    if line.startswith(CP):
                        self.batch(group[:-1], note_in(line) or "?")
                        group = []
                if len(group) > 8192 or len(rest) > 1 << 17:
                    raise Damage("record_changed", self.size)
        self.end_of_lines(group, rest, head)
        if self.note and not signed_text(self.note, self.keys, every=True):  # a published one
            raise Damage("checkpoint_signature", self.size - 1)
        if seal.exists():
            self.check_seal(seal, digest.hexdigest())
        elif not last:
            self.previous = ""
            say("seal_missing", int(path.stem))
        if seal.exists() or not last:
            self.keys, self.segment_key = self.keys[-1:], self.next_key

    def end_of_lines(self, group: list[bytes], rest: bytes, head: Claim) -> None:
        """Take the records behind the last checkpoint line, and a line without its end."""
        note, size = note_in(rest) or note_in(rest[:-1]), self.size + len(group)
        if note:
            self.batch(group, note)
        elif group:
            signed = size == head.size and signed_text(head.note, self.keys)
            say("checkpoint_missing" if signed else "unsigned_tail", self.size)
            self.batch(group, head.note if signed else "")
        if rest:
            say("line_break_removed" if note else "torn_tail", self.size)

    def read_seal(self, path: Path) -> Record:
        """What a seal says if the log's key signed it and, where that is known, its own."""
        note = path.read_bytes().decode()
        text = signed_text(note, self.keys)
        title, *lines = text.splitlines()
        seal: Record = dict(line.split(" ", 1) for line in lines)
        peaks = [unbase64(peak) for peak in seal["frontier"].split(",") if peak]
        size, waiting = int(seal["size"]), {int(n) for n in seal["open"].split(",") if n}
        fits = root_of(peaks) == unbase64(seal["root"]) and bin(size).count("1") == len(peaks)
        fits = fits and title == self.origin + "/segment" and int(seal["first"]) == int(path.stem)
        if not fits or (self.segment_key and not signed_text(note, self.segment_key)):
            raise ValueError("not the seal of this segment")
        state = (size, peaks, seal["tip"], int(seal["ts"]), waiting)
        return {**seal, "state": state, "hash": sha256(note.encode()).hexdigest()}

    def check_seal(self, path: Path, file_hash: str) -> None:
        """Compare a seal with its segment."""
        try:
            seal = self.read_seal(path)
        except BAD:
            say("seal_changed", int(path.stem))
            self.previous = ""
            return
        fits = seal["state"] == (self.size, self.peaks, self.tip, self.ts, self.open)
        if seal["sha256"] != file_hash:
            say("segment_changed", int(path.stem))
        elif not fits or self.previous not in ("", seal["previous"]):
            say("seal_mismatch", int(path.stem))
        self.previous = seal["hash"]

    def begin_behind(self, first: Path) -> None:
        """Begin with the seal of the records that are not there any more."""
        seals = [path for path in first.parent.glob("*.seal") if path.stem < first.stem]
        self.segment_key = []
        try:
            seal = self.read_seal(max(seals))
        except BAD:
            raise Damage("segment_missing", 0) from None
        self.size, self.peaks, self.tip, self.ts, self.open = seal["state"]
        self.previous, self.partial = seal["hash"], True


# -- what is known from outside of the log ---------------------------------------------------------
def claim_in(code: str, note: str, when: int | None = None) -> Claim:
    name, content = split_note(note)[0].split("\n")[:2]
    if name.endswith("/run-receipt"):
        said = json.loads(content)
        return Claim(code, note, name[:-12], int(said["size"]), bytes.fromhex(said["root"]), when)
    return Claim(code, note, *checkpoint_in(note), when)


def receipt(line: str) -> Claim:
    origin, seq, size, root, blob = line.strip().split(";")
    text = checkpoint_text(origin, int(size), bytes.fromhex(root))
    made = claim_in("receipt_mismatch", f"{text}\n\u2014 {origin} {blob}\n")
    return made if 0 <= int(seq) < int(size) else made._replace(note="")


def cosigned(note: str, witnesses: list[Key]) -> Claim:
    text, signatures = split_note(note)
    for name, blob in signatures:
        when = int.from_bytes(blob[4:12], "big")
        message = f"cosignature/v1\ntime {when}\n{text}".encode()
        for key in [key for key in witnesses if key[:2] == (name, blob[:4])]:
            if verifies(key, message, blob[12:]):
                return claim_in("fork", note, when * 10**6)
            return claim_in("cosignature_bad", note)._replace(note="")
    raise ValueError("no line of this witness")


def stamped(stamp: Path, folder: Path, authority: str) -> Iterator[Claim]:
    """An RFC 3161 time stamp over the bytes of the checkpoint file of the same name."""
    near = stamp.with_suffix(".checkpoint")
    near = near if near.exists() else folder / "anchors" / near.name
    check = ["-verify", "-data", str(near), "-in", str(stamp), "-CAfile", authority]
    asked = [["openssl", "ts", *check], ["openssl", "ts", "-reply", "-in", str(stamp), "-text"]]
    try:
        done = [subprocess.run(each, capture_output=True, check=False) for each in asked]
    except OSError:
        return say("stamp_unchecked")
    match = re.search(rb"Time stamp: (\w+ +\d+ [\d:]+)(?:\.\d+)? (\d+) GMT", done[1].stdout)
    if done[0].returncode or not match:
        return say("stamp_bad")
    moment = b" ".join(match.groups()).decode() + " +0000"
    when = datetime.strptime(moment, "%b %d %H:%M:%S %Y %z").timestamp()
    yield claim_in("prior_mismatch", near.read_bytes().decode(), int(when) * 10**6)


def claims_of(folder: Path, args: Any) -> Iterator[Claim]:
    for path in sorted((folder / "anchors").glob("*.checkpoint")):
        try:
            yield claim_in("prior_mismatch", path.read_bytes().decode())
        except BAD:
            say("prior_mismatch", path.name)
    try:
        for name in args.prior:
            yield claim_in("prior_mismatch", Path(name).read_bytes().decode())
        for given in args.receipt:
            text = given if given.count(";") == 4 else Path(given).read_bytes().decode()
            lines = [line for line in text.split("\n") if line.strip()]
            run = "\n\n" in text
            yield from [claim_in("receipt_mismatch", text)] if run else map(receipt, lines)
        for name, vkey in zip(args.cosignature, args.witness):
            yield cosigned(Path(name).read_bytes().decode(), vkeys_in([vkey], 4))
        for name in args.tsr:
            yield from stamped(Path(name), folder, args.tsa_ca)
    except BAD as error:
        say("bad_evidence", str(error))


# -- a directory -----------------------------------------------------------------------------------
def introduce(folder: Path, first_file: Path, given: list[Key]) -> Log:
    """The log as log.json and record 0 introduce it, with the key that signed its beginning."""
    identity: Record = {}
    try:
        told = json.loads((folder / "log.json").read_bytes())
        names = [key[0] for key in vkeys_in(told["vkeys"])]
        identity = dict(told) if names and names == [told["origin"]] * len(told["vkeys"]) else {}
        code = "" if identity else "log_json_changed"
    except BAD as error:
        code = "log_json_missing" if type(error) is FileNotFoundError else "log_json_changed"
    with first_file.open("rb") as file:
        lines = file.read(1 << 20).split(b"\n")
    record = records_of(lines[:1])[0]
    genesis = part(record, "ext") if record.get("type") == "genesis" else {}
    if identity and genesis and {**identity, "vkeys": identity["vkeys"][:1]} != genesis:
        code = "log_json_changed"
    elif (identity or genesis or {"schema": 2}).get("schema") != 2:
        code = "unknown_schema"
    if code:
        say(code)
    notes = [note_in(line) for line in lines if line.startswith(CP)][:9]
    keys = [*vkeys_in(identity.get("vkeys")), *vkeys_in(genesis.get("vkeys")), *given]
    signers = (key for note in notes for key in keys if signed_text(note, [key]))
    log = Log([next(signers, keys[0])] if keys else [])
    log.segment_key = vkeys_in([genesis.get("segment_key")])
    return log


def verify_directory(folder: Path, args: Any) -> list[Log]:
    head, given = Claim("head_mismatch", "", "", -1, b""), vkeys_in(args.vkey)
    try:
        head = claim_in("head_mismatch", (folder / "HEAD").read_bytes().decode())
    except BAD as error:
        say("head_missing" if type(error) is FileNotFoundError else "head_changed")
    files = sorted((folder / "segments").glob("[0-9]" * 20 + ".jsonl"))
    if not files:
        say("empty")
        return []
    log = introduce(folder, files[0], given)
    if not log.keys:
        say("key_missing")
        return [log]
    claims = [*claims_of(folder, args), *([head] if head.size >= 0 else [])]
    log.claims = sorted(claims, key=lambda each: -each.size)
    try:
        if int(files[0].stem):
            log.begin_behind(files[0])
        begun = (log.size, log.previous)
        for path in files:
            if int(path.stem) != log.size:
                raise Damage("segment_missing", log.size)
            log.segment(path, head, path == files[-1])
        log.chain = log.reached(log.chain)
        conclude(log, folder, begun)
    except Damage as damage:
        say(*damage.args)
    if not set(given) <= set(log.reached(log.chain)):
        say("key_unknown")
    if args.log_id and log.log_id != args.log_id:
        say("log_id_mismatch" if log.log_id else "log_id_unknown")
    return [log]


def conclude(log: Log, folder: Path, begun: tuple[int, str]) -> None:
    """Judge what only the whole log shows."""
    for claim in log.claims:
        root = root_of(log.peaks) if claim.size == log.size else None
        log.told.append((claim, root, log.ts, 1 << 63))
    for told in log.told:
        log.judge(*told)
    if log.size == 0:
        say("empty")
    if begun[0]:
        say("pruned" if begun in log.pruned else "segment_missing", 0)
    for seq in sorted(log.open):
        say("request_unanswered", seq, "ok" if log.partial else "")
    for digest, seq in log.texts.items():
        path = folder / "texts" / (digest if re.fullmatch("[0-9a-f]{64}", digest) else "none")
        if not path.is_file():
            say("text_missing", seq)
        elif sha256(path.read_bytes()).hexdigest() != digest:
            say("text_changed", seq)


# -- a bundle: some records of some logs, each with its proof --------------------------------------
def members_of(path: Path) -> dict[str, bytes]:
    files = dict[str, bytes]()
    with zipfile.ZipFile(path) as zipped:
        for info in zipped.infolist():
            name = info.filename
            if not MEMBER.fullmatch(name) or name in files or info.compress_type:
                say("file_unlisted", name)
                continue
            try:
                files[name] = zipped.read(info)
            except Exception:  # whatever is wrong with it, it is not what was packed
                files[name] = b""
                say("file_changed", name)
    return files


def verify_bundle(path: Path, given: list[Key]) -> list[Log]:
    try:
        files = members_of(path)
        raw = files.pop("manifest.json")
    except Exception:  # no zip, or one without a manifest
        FOUND.clear()
        say("not_a_bundle")
        return []
    try:
        check_manifest(raw, files)
    except BAD:
        say("manifest_changed")
    logs = []
    for start in sorted({name[: name.index("/", 5) + 1] for name in files if name[:5] == "logs/"}):
        mine = {name[len(start) :]: data for name, data in files.items() if name.startswith(start)}
        logs.append(verify_part(mine, given))
    if not logs:
        say("empty")
    return logs


def check_manifest(raw: bytes, files: dict[str, bytes]) -> None:
    """Whether the manifest lists what is here; nothing else that it says is believed."""
    manifest = json.loads(raw)
    names = {*manifest} - ({"texts"} if manifest.get("texts") == "left_out" else set())
    good = (ENCODE(manifest) + "\n").encode() == raw and manifest["bundle"] == 1
    if not good or names != {"bundle", "files", "logs", "selection"}:
        raise ValueError("not how a manifest is written")
    for name in {**files, **manifest["files"]}:
        if name not in files or name not in manifest["files"]:
            say("file_unlisted" if name in files else "file_missing", name)
        elif sha256(files[name]).hexdigest() != manifest["files"][name]:
            say("file_changed", name)


def verify_part(files: dict[str, bytes], given: list[Key]) -> Log:
    """One log of a bundle: its checkpoint, its records with their proofs, and its texts."""
    own, log = list[Key](), Log([], {int(name[8:28]) for name in files if name[:8] == "records/"})
    try:
        identity, note = json.loads(files["log.json"]), files["checkpoint"].decode()
        own = vkeys_in(identity["vkeys"])
        log.origin, log.size, log.root = checkpoint_in(note)
        if len(own) != len(identity["vkeys"]) or log.origin != identity["origin"]:
            raise ValueError("odd keys, or another log")
        log.note = note
    except BAD:
        say("checkpoint_changed")
    records = [record for seq in sorted(log.here or ()) if (record := proven(seq, files, log))]
    log.read, log.here = len(records), {record["seq"] for record in records}
    for record in records:
        log.look(record)
    keys = log.reached([key for key in given if key[0] == log.origin] or own[: not given])
    if not keys or (log.note and not signed_text(log.note, keys)):
        say("key_unknown" if keys or given else "key_missing")
    for seq in sorted(log.open):
        say("request_unanswered", seq)
    for digest in [digest for digest in log.texts if "texts/" + digest not in files]:
        say("text_missing", log.texts[digest])
    for name, data in files.items():
        if name.startswith("texts/") and sha256(data).hexdigest() != name[6:]:
            say("text_changed", name)
        elif name.startswith("anchors/") and name[8:].split(".")[0] != str(log.size):
            say("anchor_changed", name)
    return log


def proven(seq: int, files: dict[str, bytes], log: Log) -> Record:
    """A record whose proof leads to the checkpoint, or nothing."""
    line, shown = (files.get(f"records/{seq:020d}.{kind}", b"") for kind in ("json", "tlog-proof"))
    text, _, note = shown.decode("utf-8", "replace").partition("\n\n")
    lines, record, code = text.split("\n"), records_of([line])[0], "record_changed"
    if not line or not shown:
        code = "proof_missing"
    elif lines[:2] != ["c2sp.org/tlog-proof@v1", f"index {seq}"] or note != log.note:
        code = "proof_changed"
    elif record.get("seq") == seq:
        try:
            proof = [unbase64(each) for each in lines[2:]]
            if root_from(sha256(b"\x00" + line).digest(), seq, log.size, proof) == log.root:
                return record
        except ValueError:
            pass
    say(code, seq)
    return {}


# -- the command -----------------------------------------------------------------------------------
class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        self.exit(3, f"usage: {message}\n")


def parse(arguments: list[str] | None) -> Any:
    ends = "Exit code: 0 intact, 1 tampered with, 2 incomplete, 3 wrongly called."
    parser = Parser(description="Check a ledger or a proof bundle.", epilog=ends)
    parser.add_argument("path", type=Path, help="the directory of a ledger, or a bundle")
    for name, text in OPTIONS.items():
        parser.add_argument(name, action="append", default=[], help=text)
    parser.add_argument("--log-id", type=bytes.fromhex, default=b"", help="the hash of record 0")
    parser.add_argument("--tsa-ca", default="", help="certificates of the authority of --tsr")
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    args = parser.parse_args(arguments)
    if len(args.cosignature) != len(args.witness) or (args.tsr and not args.tsa_ca):
        parser.error("each --cosignature needs its --witness, and --tsr needs --tsa-ca")
    held = [*args.prior, *args.receipt, *args.cosignature, *args.tsr, args.log_id]
    if any(held) and args.path.is_file():
        parser.error("a bundle is compared with nothing but --vkey")
    return args


def verify(path: Path, args: Any) -> list[Log]:
    given, names = vkeys_in(args.vkey), ("log.json", "segments", "HEAD", "LOCK")
    if len(given) + len(vkeys_in(args.witness, 4)) < len(args.vkey + args.witness):
        say("bad_vkey")
    elif path.is_dir() and any((path / name).exists() for name in names):
        return verify_directory(path, args)
    elif path.is_file():
        return verify_bundle(path, given)
    else:
        say("not_a_ledger" if path.exists() else "no_such_path", str(path))
    return []


def main(arguments: list[str] | None = None) -> int:
    args, logs = parse(arguments), list[Log]()
    gc.disable()  # nothing here makes cycles, and collecting takes a tenth of the time
    FOUND.clear()
    try:
        logs = verify(args.path, args)
    except BAD as error:
        say("unreadable", str(error))
    codes = {"usage": 3, "tampered": 1, "incomplete": 2, "ok": 0}
    status = next(each for each in codes if each in [*FOUND.values(), "ok"])
    found = [{"code": code, "seq": seq, "means": means} for (code, seq), means in FOUND.items()]
    said: Record = {"status": status, "records": sum(log.read for log in logs)}
    said["origin"], said["root"] = (logs[0].origin, logs[0].root.hex()) if logs else ("", "")
    said["findings"] = [each for each in found if each["means"] != "ok"]
    said["notes"] = [each for each in found if each["means"] == "ok"]
    lines = [f"{status}: {said['records']} records read, root {said['root'] or 'unknown'}"]
    lines += [f"{each['means']}: {each['code']} at {json.dumps(each['seq'])}" for each in found]
    print(json.dumps(said) if args.json else "\n".join(lines).replace(" at null", ""))
    return codes[status]


if __name__ == "__main__":
    sys.exit(main())
