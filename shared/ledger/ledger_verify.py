#!/usr/bin/env python3
# ruff: noqa: B905, SIM905 -- zip(strict=) needs Python 3.10; words read better than quoted lists
"""Check a ledger, or a proof bundle from one, with nothing but Python's standard library.

A record is one line of JSON that names the hash of the line before it; these hashes are the leaves
of one Merkle tree; a checkpoint is a signed note with the number of records and the root of that
tree. So a good checkpoint vouches for every byte before it, and what you hold outside of the log
(key, receipt, checkpoint, cosignature, stamp) vouches that it still is the log it was. Nothing is
believed that is not recomputed here. Published signatures are always verified; those after each
batch, too, if `cryptography` is installed, else the first SLOW_CHECKS. Damage is named by the first
record that does not fit; the tree is known again behind the next seal. FORMAT.md has the bytes and
the findings. Exit code: 0 intact, 1 tampered with, 2 incomplete, 3 wrongly called. Changes nothing.
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
from typing import Any

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
    "ok": "not_comparable pruned signatures_not_checked silence unclean_stop",
}
TYPES = frozenset(
    """genesis start stop request outcome deny gate_open gate_decision delegate revoke policy_set
    config_set key_rotate seal anchor erase hold export recover clock_step heartbeat gap
    journal""".split()
)
MEMBER = re.compile(
    r"README\.txt|manifest\.json|ledger_verify\.py|logs/(?:0|[1-9][0-9]{0,3})/(?:log\.json|"
    r"checkpoint|records/[0-9]{20}\.(?:json|tlog-proof)|texts/[0-9a-f]{64}|"
    r"anchors/(?:0|[1-9][0-9]{0,15})\.(?:checkpoint|cosig|tsr|ots))"
)
SEAL = re.compile(
    r"(?P<origin>\S+)/segment\nfirst (?P<first>\d+)\nlast \d+\nsize (?P<size>\d+)"
    r"\nroot (?P<root>\S+)\nsha256 (?P<sha256>\S+)\nprevious (?P<previous>\S+)"
    r"\ntip (?P<tip>\S+)\nts (?P<ts>\d+)\nfrontier (?P<frontier>\S*)\nopen (?P<open>\S*)\n"
)
CLAIMS = {  # code: what it is instead if it is not signed, for more records, or not comparable
    "head_mismatch": ("head_changed", "records_removed", "not_comparable"),
    "log_id_mismatch": ("", "log_id_unknown", "log_id_unknown"),
}
CP = b'{"cp":"'
SETS = ("policy_set", "config_set")
SLOW_CHECKS, MAX_PENDING, CHUNK = 100, 8192, 1 << 20
TOLERANCE = 600 * 10**6  # how far apart two clocks may be, in microseconds
FOUND: dict[tuple[str, Any], str] = {}  # (code, record number or file name): what it means
Record = dict[str, Any]
Key = tuple[str, bytes, bytes]  # name, key id, public key
Claim = tuple[str, str, str, int, bytes, Any]
Point = tuple[int, int, int, int]
sha256 = hashlib.sha256


def say(code: str, place: Any = None, means: str = "") -> None:
    means = means or next((each for each in MEANS if code in MEANS[each].split()), "tampered")
    if len(FOUND) < 500 or means not in FOUND.values():
        FOUND.setdefault((code, place), means)


# -- JSON in its one canonical form ----------------------------------------------------------------
def whole(text: str) -> int:
    if text == "-0" or not re.fullmatch("-?[0-9]{1,16}", text) or abs(int(text)) >= 2**53:
        raise ValueError("a number that no record has")
    return int(text)


QUICK = json.JSONDecoder(parse_float=whole, parse_constant=whole).raw_decode
DECODE = json.JSONDecoder(parse_float=whole, parse_constant=whole, parse_int=whole).raw_decode
ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
DIGITS = bytes(48 if 48 <= n < 58 else 58 if n in b":,[-" else n for n in range(256))


def is_record(value: Any) -> bool:
    v, seq, ts, prev, kind = map(value.get, ("v", "seq", "ts", "prev", "type"))
    numbers = type(v) is type(seq) is type(ts) is int and v == 1 and min(seq, ts) >= 0
    return numbers and type(prev) is type(kind) is str and len(prev) == 64 and kind in TYPES


def records_of(lines: list[bytes]) -> list[Record]:
    """The record in each line, or {} if its bytes are not exactly how one is written. To write each
    again and compare takes long, so questions come first that nearly all lines answer with yes."""
    try:
        block = b"\n".join(lines)
        texts = block.decode().split("\n")
        pairs = [QUICK(text) for text in texts]
        records = [value for value, _ in pairs]
        objects = records + [v for r in records for v in r.values() if type(v) is dict]
        # No space or escape; as many names as in the values, so none twice or deeper; in order;
        # no -0, and no number of 16 digits but the time of each record.
        plain = block.isascii() and b":-0" not in block
        plain = plain and not (b"[" in block and (b"[-0" in block or b",-0" in block))
        plain = plain and len(block.translate(None, b" \t\r\\")) == len(block)
        plain = plain and block.count(b'":') == sum(map(len, objects))
        plain = plain and [end for _, end in pairs] == [len(text) for text in texts]
        plain = plain and all(list(o) == sorted(o) for o in {tuple(o) for o in objects})
        plain = plain and block.translate(DIGITS).count(b":" + b"0" * 16) == len(lines)
        if not plain or not all(10**15 <= record["ts"] < 2**53 for record in records):
            records = [DECODE(text)[0] for text in texts]
            plain = [ENCODE(record) for record in records] == texts
            plain = plain and all(map(is_record, records))
        kinds = {type(record[name]) for record in records for name in ("v", "seq", "ts")}
        known = {record["type"] for record in records} <= TYPES
        if plain and known and kinds == {int} and {record["v"] for record in records} == {1}:
            return records
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
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
        value = DECODE(line.decode())[0]
        return str(value["cp"]) if ENCODE({"cp": value["cp"]}).encode() == line else ""
    except (ValueError, TypeError, KeyError, RecursionError):
        return ""


def split_note(note: str) -> tuple[str, list[tuple[str, bytes]]]:
    """The text of a note, and its signatures as (name, key id and signature)."""
    text, gap, rest = note.rpartition("\n\n")
    lines = [re.fullmatch("\u2014 ([^\\s+]+) (\\S{8,})\n", each) for each in rest.splitlines(True)]
    odd = re.search(r"[\x00-\x09\x0b-\x1f]", note) or len(note) > 65536 or len(lines) > 100
    if odd or not gap or not lines or not all(lines):
        raise ValueError("not a note")
    return text + "\n", [(line[1], unbase64(line[2])) for line in lines if line]


def parse_checkpoint(text: str) -> tuple[str, int, bytes]:
    """Origin, size and root in the text of a checkpoint."""
    match = re.fullmatch("([^\n]+)\n(0|[1-9][0-9]{0,15})\n([^\n]{44})\n", text)
    if not match:
        raise ValueError("not a checkpoint")
    return match[1], int(match[2]), unbase64(match[3])


def verifies(key: Key, message: bytes, signature: bytes) -> bool:
    if FastKey is None:
        return ed25519_verify(key[2], message, signature)
    try:
        FastKey.from_public_bytes(key[2]).verify(signature, message)
    except Exception:
        return False
    return True


def signed_by(note: str, keys: list[Key], every: bool = True, check: Any = verifies) -> str:
    """The text of a note that all (or any) of `keys` signed; others' signatures do not matter."""
    text, signatures = split_note(note)
    done = set()
    for name, blob in signatures:
        for key in [key for key in keys if key[:2] == (name, blob[:4])]:
            if not check(key, text.encode(), blob[4:]):
                raise ValueError("a signature that does not fit")
            done.add(key)
    if not done or (every and done != set(keys)):
        raise ValueError("not signed by the key")
    return text


def is_signed(note: str, keys: list[Key]) -> bool:
    try:
        return bool(signed_by(note, keys, every=False))
    except ValueError:
        return False


def rotation(record: Record, name: str) -> list[Key]:
    """The old and the new key of a key_rotate record that both signed, or nothing."""
    ext = part(record, "ext")
    pair, text = vkeys_in([ext.get("old"), ext.get("new")]), str(ext.get("new"))
    try:
        text = f"{name}/key-rotate\n{record['seq']}\n{text}\n"
        return pair if signed_by(str(ext.get("note")), pair) == text and len(pair) == 2 else []
    except ValueError:
        return []


# -- Ed25519 (RFC 8032), enough to verify ----------------------------------------------------------
P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def point_add(a: Point, b: Point) -> Point:
    """The sum of two points given as (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z."""
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    x, y, z, t = f - e, f + e, h - g, h + g
    return x * z % P, t * y % P, z * t % P, x * y % P


def point_of(raw: bytes) -> Point:
    sign, y = divmod(int.from_bytes(raw, "little"), 2**255)
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x2, (P + 3) // 8, P)
    x = x if (x * x - x2) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - x2) % P or (x == 0 and sign):
        raise ValueError("not a point")
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


BASE = point_of((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def ed25519_verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether s times the base point, less h times the key, is the point in the signature."""
    try:
        (x, y, _, t), r = point_of(public), point_of(signature[:32])
    except ValueError:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % ORDER
    s, minus, point = int.from_bytes(signature[32:], "little"), (P - x, y, 1, P - t), (0, 1, 1, 0)
    for bit in range(255, -1, -1):
        point = point_add(point, point)
        point = point_add(point, BASE) if s >> bit & 1 else point
        point = point_add(point, minus) if h >> bit & 1 else point
    same = [(point[i] - r[i] * point[2]) % P == 0 for i in (0, 1)]
    return len(signature) == 64 and s < ORDER and all(same)


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


class Log:
    """One log while it is followed. `size`, `peaks`, `tip`: the tree at the last good checkpoint
    and the hash of the last record, or None if not known. `cut`: behind it something is wrong.
    `here`: for a bundle, the numbers of the records in it."""

    def __init__(self, keys: list[Key], here: Any = None) -> None:
        self.origin, self.keys, self.chain, self.here = keys[0][0] if keys else "", keys, keys, here
        self.note, self.root, self.read, self.unchecked, self.cut = "", b"", 0, 0, False
        self.partial, self.segment_key, self.next_key = False, list[Key](), list[Key]()
        self.ts, self.kind, self.every, self.running, self.claims = 0, "", 0, False, list[Claim]()
        self.open, self.policies, self.texts = set[int](), {""}, dict[str, int]()
        self.unread = set[int]()  # the numbers of records of a bundle that are not what they were
        self.gates, self.lost, self.pruned = dict[Any, Any](), list[Any](), list[Record]()
        self.resume(0, [], "0" * 64)

    def resume(self, size: int, peaks: list[bytes] | None, tip: str | None) -> None:
        """Go on behind `size` records; without `peaks`, the tree is known at the next seal only."""
        self.size, self.peaks, self.tip, self.cut = size, peaks, tip, False
        self.partial = self.partial or peaks is None

    def check(self, key: Key, message: bytes, signature: bytes) -> bool:
        """Verify a signature that is not published, unless that would take too long."""
        self.unchecked += FastKey is None
        return self.unchecked > SLOW_CHECKS or verifies(key, message, signature)

    def batch(self, lines: list[bytes], note: str) -> tuple[str, int]:
        """Take records and the checkpoint behind them; what is wrong, and where, or nothing."""
        records, leaves = records_of(lines), [sha256(b"\x00" + line).digest() for line in lines]
        links = [leaf.hex() for leaf in leaves]
        told = [(record.get("seq"), record.get("prev")) for record in records]
        first = self.tip or (told[0][1] if told else "")
        end, last = self.size + len(lines), max(self.size + len(lines) - 1, 0)
        due = list(zip(range(self.size, end), [first, *links]))
        if told != due:  # a link that does not fit shows that the record before it was changed
            seq, number = next((a[0], b[0]) for a, b in zip(due, told) if a != b)
            return "record_changed", max(seq - (seq == number), self.size)
        keys, peaks = self.keys, None if self.peaks is None else grow(self.size, self.peaks, leaves)
        for record in [record for record in records if record["type"] == "key_rotate"]:
            pair = rotation(record, self.origin)
            if not pair or pair[0] not in keys[-1:]:
                return "key_rotation_bad", record["seq"]
            keys = [*keys, pair[1]]
        if not note:
            self.accept(records, leaves, peaks)
            return "unsigned_tail", end - len(lines)
        code = "checkpoint_unreadable"
        try:
            origin, size, root = parse_checkpoint(text_of(note))
            code = "checkpoint_signature"
            signed_by(note, keys, check=self.check)
        except ValueError:
            return code, last
        if origin != self.origin or size != end:
            return "checkpoint_out_of_order" if size < end else "record_missing", last
        if peaks is not None and root_of(peaks) != root:
            return "record_changed", last
        self.chain = self.chain + [key for key in keys if key not in self.chain]
        self.keys, self.note, self.root = keys, note, root
        self.accept(records, leaves, peaks)
        return "", 0

    def accept(self, records: list[Record], leaves: list[bytes], peaks: list[bytes] | None) -> None:
        """Go on behind good records."""
        times = [self.ts, *[record["ts"] for record in records]]
        if peaks is not None and not self.are_plain(records, times):
            for record in records:
                self.look(record)
        while self.claims and self.claims[-1][3] < self.size + len(records):
            at, root = self.claims[-1][3] - self.size, None
            if peaks is not None and self.peaks is not None and at >= 0:
                root = root_of(grow(self.size, self.peaks, leaves[:at]))
            self.judge(root, times[max(at, 0)], times[max(at, 0) + 1])
        if records:
            keys = [part(records[-1], "ext").get("next_key")]
            self.next_key = vkeys_in(keys if records[-1]["type"] == "seal" else [])
            self.read += len(records)
            self.resume(self.size + len(records), peaks, leaves[-1].hex())

    def settle(self, size: int) -> None:
        """Judge what is claimed for up to `size` records, when no more than those here follow."""
        while self.claims and self.claims[-1][3] <= size:
            here = self.claims[-1][3] == self.size and self.peaks is not None and not self.cut
            self.judge(root_of(self.peaks or []) if here else None, self.ts, None)

    def judge(self, root: bytes | None, before: int, after: int | None) -> None:
        """Compare the next claim with the root here, and with the times of the records around."""
        code, note, origin, size, claimed, when = self.claims.pop()
        unsigned, beyond, unknown = CLAIMS.get(code, (code, "rolled_back", "not_comparable"))
        if unsigned and not (origin == self.origin and is_signed(note, self.chain)):
            say(unsigned)
        elif (size > self.size and not self.cut) or (root is not None and root != claimed):
            lost = any(kept < size <= committed for kept, committed in self.lost)
            say("records_lost" if lost else beyond if size > self.size else code)
        elif root is None:
            say(unknown)
        elif when and (before > when + TOLERANCE or (after or when) < when - TOLERANCE):
            say("time_contradicted", size)

    def are_plain(self, records: list[Record], times: list[int]) -> bool:
        """Take requests and outcomes that obviously break no rule; most batches are like that."""
        policies = [part(record, "policy").get("digest", "") for record in records]
        plain = {record["type"] for record in records} <= {"request", "outcome"} and not self.every
        plain = plain and times == sorted(times) and {*map(str, policies), ""} <= self.policies
        if not plain or any("gate" in record for record in records):
            return False
        waiting = set(self.open)
        for record in records:
            ref = record.get("ref")
            if record["type"] == "request":
                waiting.add(record["seq"])
            elif type(ref) is int and ref in waiting:
                waiting.remove(ref)
            else:
                return False
        self.open, self.ts, self.kind = waiting, times[-1], "request"
        return True

    def look(self, record: Record) -> None:
        """Judge what a record says by what those before it said, and remember what it says."""
        kind, seq, ts, ref = record["type"], record["seq"], record["ts"], record.get("ref")
        ext, policy, alone = part(record, "ext"), part(record, "policy"), self.here is not None
        gate, ref = part(record, "gate"), ref if type(ref) is int else -1
        name = (str(record.get("run")), str(gate.get("id"))) if gate and not alone else None
        state, shown = gate.get("state"), part(record, "action").get("args_c")
        opened, decision = self.gates.get(name, (None, ""))
        opens, decides, yes = kind == "gate_open", kind == "gate_decision", state == "approved"
        acts, other = not decides and (yes or kind == "request"), shown != opened
        asked = ref in self.open or ref in self.unread
        known, whole = name in self.gates and not opens, not self.partial
        digest = str(policy.get("digest") or "") if alone or policy.get("decision") else ""
        silent = self.every and ts - self.ts > 3 * self.every and self.kind != "stop"
        wrong = {
            "clock_decreased": ts < self.ts and kind != "clock_step" and not alone,
            "silence": silent and kind not in ("start", "recover"),
            "unclean_stop": kind == "start" and self.running,
            "outcome_unpaired": kind == "outcome" and not asked and whole,
            "policy_unknown": digest and kind not in SETS and digest not in self.policies and whole,
            "gate_unopened": name and not (known or opens) and (decides or yes) and whole,
            "gate_decided_twice": known and decides and decision,
            "gate_changed": known and decides and not decision and yes and shown and other,
            "gate_not_approved": known and acts and decision != "approved",
        }
        absent = alone and 0 <= ref < seq and ref not in self.here
        for code in [code for code, broken in wrong.items() if broken]:
            lack = absent if code == "outcome_unpaired" else alone and code == "policy_unknown"
            say(code, seq, "incomplete" if lack else "")
        self.ts, self.kind = ts, kind
        if kind == "request":
            self.open.add(seq)
        elif kind == "outcome":
            self.open.discard(ref)
        elif opens or (decides and known):
            self.gates[name] = (shown, "") if opens else (opened, decision or state or "decided")
        elif kind in ("start", "stop"):
            self.running = kind == "start"
        elif kind == "heartbeat":
            self.every = ext["every_us"] if type(ext.get("every_us")) is int else 0
        elif kind == "recover" and type(ext.get("lost_from")) is type(ext.get("committed")) is int:
            self.lost.append((ext["lost_from"], ext["committed"]))
            self.segment_key = vkeys_in([ext.get("segment_key")]) or self.segment_key
        elif kind == "erase" and part(record, "action").get("kind") == "prune":
            self.pruned.append(ext)
        elif kind in SETS:
            named = (policy if kind == "policy_set" else ext).get("digest")
            self.policies |= {str(named)} if kind == "policy_set" else set()
            if type(named) is str:
                self.texts.setdefault(named, seq)

    def follow(self, path: Path, head: str, head_size: int) -> str:
        """Take the lines of a segment file up to the first that is wrong; return the file's hash.
        `head` may sign the end, too."""
        digest, group, rest, left = sha256(), list[bytes](), b"", path.stat().st_size
        with path.open("rb") as file:
            while left > 0 and (chunk := file.read(min(CHUNK, left))):
                digest.update(chunk)
                left -= len(chunk)
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines if not self.cut else []:
                    if not line.startswith(CP):
                        group.append(line)
                    elif not self.cut:
                        self.stop(*self.batch(group, note_in(line) or "?"))
                        group = []
                self.stop("checkpoint_missing" if len(group) > MAX_PENDING else "", self.size)
                rest = rest[: 1 << 17]
        note = note_in(rest) or note_in(rest[:-1])
        if note and not self.cut:
            self.stop(*self.batch(group, note))
        elif group and not self.cut:
            signed = self.size + len(group) == head_size and is_signed(head, self.keys)
            code, seq = self.batch(group, head if signed else "")
            if code in ("", "unsigned_tail"):
                say(code or "checkpoint_missing", seq)
            else:
                self.stop(code, seq)
        if rest:
            say("line_break_removed" if note else "torn_tail", self.size)
        return digest.hexdigest()

    def stop(self, code: str, seq: int) -> None:
        """Say what is wrong, and that nothing behind it can be judged before the next seal."""
        if code:
            say(code, seq)
            self.settle(self.size)
            self.partial, self.cut, self.next_key = True, True, []

    def parse_seal(self, path: Path) -> Record:
        """What a seal says if it is signed by the log's key and, where that is known, its own."""
        note = path.read_bytes().decode()
        match = SEAL.fullmatch(signed_by(note, self.keys, every=False))
        if self.segment_key:
            signed_by(note, self.segment_key)
        seal: Record = match.groupdict() if match else {"root": "", "frontier": "", "origin": ""}
        seal["peaks"] = [unbase64(peak) for peak in seal["frontier"].split(",") if peak]
        if root_of(seal["peaks"]) != unbase64(seal["root"]) or seal["origin"] != self.origin:
            raise ValueError("not a seal")
        numbers = {name: int(seal[name]) for name in ("first", "size", "ts")}
        waiting = {int(number) for number in seal["open"].split(",") if number}
        if bin(numbers["size"]).count("1") != len(seal["peaks"]):
            raise ValueError("a tree of another size")
        return {**seal, **numbers, "open": waiting, "hash": sha256(note.encode()).hexdigest()}

    def check_seal(self, path: Path, file_hash: str, previous: str, last: bool) -> str:
        """Compare a seal with its segment; return the hash that the next seal must name."""
        first, tree, waiting = int(path.stem), None if self.cut else self.peaks, self.open
        try:
            seal = self.parse_seal(path)
        except (OSError, ValueError):
            seal = {"first": None}
        if seal["first"] != first:
            say("seal_changed", first)
            return ""
        waiting = seal["open"] if self.partial else waiting
        told = [seal[name] for name in ("size", "peaks", "tip", "ts", "open")]
        fits = tree is None or told == [self.size, tree, self.tip, self.ts, waiting]
        if seal["sha256"] != file_hash:
            say("segment_changed", first)
        elif not fits or (previous and previous != seal["previous"]):
            say("seal_mismatch", first)
        if not last or self.cut:
            self.go_on(seal)
        return str(seal["hash"])

    def go_on(self, seal: Record) -> None:
        """Go on behind a seal."""
        self.resume(seal["size"], seal["peaks"], seal["tip"])
        self.ts, self.open = seal["ts"], seal["open"]


def text_of(note: str) -> str:
    return note[: note.find("\n\n") + 1]


# -- what is known from outside of the log ---------------------------------------------------------
def claim(code: str, note: str, when: int | None = None) -> Claim:
    """That the log signed a root: (finding if not, note, origin, size, root, not after)."""
    text = split_note(note)[0]
    name, content = text.split("\n")[:2]
    if name.endswith("/run-receipt"):
        said = json.loads(content)
        return code, note, name[:-12], int(said["size"]), bytes.fromhex(said["root"]), when
    return (code, note, *parse_checkpoint(text), when)


def receipt(line: str) -> Claim:
    origin, seq, size, root, blob = line.strip().split(";")
    text = f"{origin}\n{int(size)}\n{base64.b64encode(bytes.fromhex(root)).decode()}\n"
    made = claim("receipt_mismatch", f"{text}\n\u2014 {origin} {blob}\n")
    return made if 0 <= int(seq) < int(size) else (made[0], "", *made[2:])


def cosigned(note: str, witnesses: list[Key]) -> Claim:
    text, signatures = split_note(note)
    for name, blob in signatures:
        when = int.from_bytes(blob[4:12], "big")
        message = f"cosignature/v1\ntime {when}\n{text}".encode()
        for key in [key for key in witnesses if key[:2] == (name, blob[:4])]:
            if verifies(key, message, blob[12:]):
                return claim("fork", note, when * 10**6)
    return ("cosignature_bad", "", *parse_checkpoint(text), None)


def stamped(stamp: Path, folder: Path, authority: str) -> list[Claim]:
    """An RFC 3161 time stamp over the bytes of the checkpoint file of the same name."""
    near = stamp.with_suffix(".checkpoint")
    near = near if near.exists() else folder / "anchors" / near.name
    verify = ["-verify", "-data", str(near), "-in", str(stamp), "-CAfile", authority]
    show = ["-reply", "-in", str(stamp), "-text"]
    try:
        done = [
            subprocess.run(["openssl", "ts", *a], capture_output=True, check=False)
            for a in (verify, show)
        ]
    except OSError:
        say("stamp_unchecked")
        return []
    match = re.search(rb"Time stamp: (\w+ +\d+ [\d:]+)(?:\.\d+)? (\d+) GMT", done[1].stdout)
    if done[0].returncode or not match:
        say("stamp_bad")
        return []
    moment = b" ".join(match.groups()).decode() + " +0000"
    when = datetime.strptime(moment, "%b %d %H:%M:%S %Y %z").timestamp()
    return [claim("prior_mismatch", near.read_bytes().decode(), int(when) * 10**6)]


def claims_of(folder: Path, args: Any) -> Iterator[Claim]:
    for path in sorted((folder / "anchors").glob("*.checkpoint")):
        try:
            yield claim("prior_mismatch", path.read_bytes().decode())
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            say("prior_mismatch", path.name)
    try:
        for name in args.prior:
            yield claim("prior_mismatch", Path(name).read_bytes().decode())
        for given in args.receipt:
            text = given if given.count(";") == 4 else Path(given).read_bytes().decode()
            lines = [line for line in text.split("\n") if line.strip()]
            yield from [claim("receipt_mismatch", text)] if "\n\n" in text else map(receipt, lines)
        for name, vkey in zip(args.cosignature, args.witness):
            yield cosigned(Path(name).read_bytes().decode(), vkeys_in([vkey], 4))
        for name in args.tsr:
            yield from stamped(Path(name), folder, args.tsa_ca)
        if args.log_id:
            yield "log_id_mismatch", "", "", 1, bytes.fromhex(args.log_id), None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        say("bad_evidence", str(error))


# -- a directory -----------------------------------------------------------------------------------
def identity_of(folder: Path) -> Record:
    """What log.json says."""
    try:
        identity = json.loads((folder / "log.json").read_bytes())
        names = [key[0] for key in vkeys_in(identity["vkeys"])]
        if names and names == [identity["origin"]] * len(identity["vkeys"]):
            return dict(identity)
        say("log_json_changed")
    except FileNotFoundError:
        say("log_json_missing")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        say("log_json_changed")
    return {}


def introduce(identity: Record, first_file: Path, given: list[Key]) -> Log:
    """The log as log.json and record 0 introduce it, with the key of its first checkpoint."""
    with first_file.open("rb") as file:
        lines = file.read(CHUNK).split(b"\n")
    plain = [line for line in lines if b'"type":"genesis"' in line]
    genesis = next((part(record, "ext") for record in records_of(plain)), {}) if plain else {}
    if identity and genesis and {**identity, "vkeys": identity["vkeys"][:1]} != genesis:
        say("log_json_changed", 0)
    elif (identity or genesis or {"schema": 2}).get("schema") != 2:
        say("unknown_schema")
    note = next((note_in(line) for line in lines if line.startswith(CP)), "")
    keys = [*vkeys_in(identity.get("vkeys")), *vkeys_in(genesis.get("vkeys")), *given]
    log = Log(([key for key in keys if is_signed(note, [key])] or keys)[:1])
    log.segment_key = vkeys_in([genesis.get("segment_key")])
    return log


def verify_directory(folder: Path, args: Any) -> Log | None:
    identity, head, size, root = identity_of(folder), "", -1, b""
    try:
        head = (folder / "HEAD").read_bytes().decode()
        origin, size, root = parse_checkpoint(text_of(head))
    except FileNotFoundError:
        say("head_missing")
    except (OSError, ValueError):
        say("head_changed")
    files = sorted((folder / "segments").glob("[0-9]" * 20 + ".jsonl"))
    if not files:
        say("empty")
        return None
    log = introduce(identity, files[0], vkeys_in(args.vkey))
    if not log.keys:
        say("key_missing")
    claims = [*claims_of(folder, args)]
    claims += [("head_mismatch", head, origin, size, root, None)] if size >= 0 else []
    log.claims = sorted(claims, key=lambda each: -each[3])
    previous, gaps = "0" * 64, []
    for path in files:
        seal, last, first = path.with_suffix(".seal"), path == files[-1], int(path.stem)
        if log.cut:
            log.resume(first, None, None)
        elif first != log.size:
            gap, previous, log.segment_key = log.size, find_seal(log, folder, first), []
            gaps.append((gap, first, previous))
        digest = log.follow(path, head, size if last else -1)
        if log.note and not is_signed(log.note, log.keys):  # a published one, so always checked
            say("checkpoint_signature", log.size - 1)
        if seal.exists():
            previous = log.check_seal(seal, digest, previous, last)
        elif not last:
            previous = ""
            say("seal_missing", first)
        if seal.exists() or not last:
            log.keys, log.segment_key = log.keys[-1:], log.next_key
    conclude(log, gaps, folder, vkeys_in(args.vkey))
    return log


def find_seal(log: Log, folder: Path, size: int) -> str:
    """Go on behind records that are missing: with the seal that ends them if it is there."""
    log.segment_key = []
    for path in sorted((folder / "segments").glob("*.seal")):
        try:
            seal = log.parse_seal(path)
        except (OSError, ValueError):
            continue
        if seal["size"] == size:
            log.go_on(seal)
            log.partial = True
            return str(seal["hash"])
    log.resume(size, None, None)
    return ""


def conclude(log: Log, gaps: list[tuple[int, int, str]], folder: Path, given: list[Key]) -> None:
    for start, end, digest in gaps:
        told = (end, digest) in [(each.get("size"), each.get("seal_sha256")) for each in log.pruned]
        say("pruned" if start == 0 and digest and told else "segment_missing", start)
    log.settle(10**16)
    if log.size == 0 and not log.cut:
        say("empty")
    for seq in sorted(log.open):
        say("request_unanswered", seq, "ok" if log.partial else "")
    for digest, seq in log.texts.items():
        check_text(digest, seq, folder / "texts")
    if not set(given) <= set(log.chain):
        say("key_unknown")
    if log.unchecked > SLOW_CHECKS:
        say("signatures_not_checked", log.unchecked - SLOW_CHECKS)


def check_text(digest: str, seq: int | None, folder: Path) -> None:
    path = folder / digest if re.fullmatch("[0-9a-f]{64}", digest) else folder / "none"
    if not path.is_file():
        say("text_missing", seq)
    elif sha256(path.read_bytes()).hexdigest() != digest:
        say("text_changed", seq)


# -- a bundle: some records of some logs, each with its proof --------------------------------------
def members_of(path: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
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


def verify_bundle(path: Path, args: Any) -> Log | None:
    try:
        files = members_of(path)
        raw = files.pop("manifest.json")
    except Exception:  # no zip, or one without a manifest
        FOUND.clear()
        say("not_a_bundle")
        return None
    logs: list[Any] = []
    for number in sorted({int(name.split("/")[1]) for name in files if name.startswith("logs/")}):
        start = f"logs/{number}/"
        mine = {name[len(start) :]: data for name, data in files.items() if name.startswith(start)}
        logs.append((number, *verify_part(mine, vkeys_in(args.vkey))))
    if not logs:
        say("empty")
    try:
        if not check_manifest(raw, files, logs):
            say("manifest_changed")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        say("manifest_changed")
    return logs[0][1] if logs else None


def check_manifest(raw: bytes, files: dict[str, bytes], logs: list[Any]) -> bool:
    """Whether the manifest is about what is here; nothing else rests on it."""
    manifest = json.loads(raw)
    listed, chosen, entries = manifest["files"], manifest["selection"], manifest["logs"]
    for name in {**files, **listed}:
        if name not in files or name not in listed:
            say("file_unlisted" if name in files else "file_missing", name)
        elif sha256(files[name]).hexdigest() != listed[name]:
            say("file_changed", name)
    good = (ENCODE(manifest) + "\n").encode() == raw and manifest["bundle"] == 1
    good = good and manifest.pop("texts", "left_out") == "left_out"
    good = good and set(manifest) == {"bundle", "files", "logs", "selection"}
    good = good and set(chosen) == {"seqs", "sessions", "tasks"}
    good = good and [log[0] for log in logs] == list(range(len(entries)))
    for (_, log, records), entry in zip(logs, entries):
        why, point = entry["records"], [entry["origin"], entry["size"], entry["root"]]
        good = good and set(entry) == {"origin", "records", "root", "size"}
        good = good and set(why.values()) <= {"selected", "pair", "policy", "key", "identity"}
        good = good and (not log.note or point == [log.origin, log.size, log.root.hex()])
        good = good and {str(seq) for seq in log.here} <= set(why)
        for record in records:
            asked = record["seq"] in chosen["seqs"] or record.get("task") in chosen["tasks"]
            asked = asked or record.get("run") in chosen["sessions"]
            good = good and (why.get(str(record["seq"])) == "selected") == asked
    return bool(good)


def introduce_part(files: dict[str, bytes], given: list[Key]) -> Log:
    """A log of a bundle as its log.json and its checkpoint introduce it."""
    own, log = list[Key](), Log([])
    log.size = -1
    try:
        identity = json.loads(files["log.json"])
        own = vkeys_in(identity["vkeys"])
        note = files["checkpoint"].decode()
        origin, size, root = parse_checkpoint(split_note(note)[0])
        if len(own) != len(identity["vkeys"]) or origin != identity["origin"]:
            raise ValueError("odd keys, or another log")
        log.note, log.origin, log.size, log.root = note, origin, size, root
    except (ValueError, KeyError, TypeError, RecursionError):
        say("checkpoint_changed")
    log.keys = [key for key in given if key[0] == log.origin] or own[: not given]
    return log


def verify_part(files: dict[str, bytes], given: list[Key]) -> tuple[Log, list[Record]]:
    """One log of a bundle: its checkpoint, and each record with its inclusion proof."""
    log, parts = introduce_part(files, given), dict[int, dict[str, bytes]]()
    for name in [name for name in files if name.startswith("records/")]:
        parts.setdefault(int(name[8:28]), {})[name[29:]] = files[name]
    log.here = set(parts)
    records: list[Record] = []
    for seq in sorted(parts):
        code, record = check_proof(seq, parts[seq], log)
        if code:
            say(code, seq)
        records += [record] if record else []
    check_signers(log, [rotation(r, log.origin) for r in records if r["type"] == "key_rotate"])
    log.read, log.unread = len(records), set(parts) - {record["seq"] for record in records}
    for record in records:
        log.look(record)
    for seq in sorted(log.open):
        say("request_unanswered", seq)
    texts = {
        name[6:]: sha256(data).hexdigest() for name, data in files.items() if name[:6] == "texts/"
    }
    for digest in log.texts.keys() - texts.keys():
        say("text_missing", log.texts[digest])
    if any(digest != found for digest, found in texts.items()):
        say("text_changed")
    check_anchors(files, log)
    return log, records


def check_signers(log: Log, rotations: list[list[Key]]) -> None:
    """Whether a key signed the checkpoint that rotations lead to, forward or back."""
    for pair in rotations * len(rotations):
        new = [key for key in pair if key not in log.keys]
        log.keys = log.keys + new if len(new) < len(pair) else log.keys
    signers = {(name, blob[:4]) for name, blob in split_note(log.note)[1]} if log.note else set()
    if not log.keys:
        say("key_missing")
    elif log.note and not {key[:2] for key in log.keys} & signers:
        say("key_unknown")
    elif log.note and not is_signed(log.note, log.keys):
        say("checkpoint_changed")


def check_proof(seq: int, parts: dict[str, bytes], log: Log) -> tuple[str, Record]:
    """What is wrong with a record and its proof, and the record if nothing is."""
    if len(parts) != 2:
        return "proof_missing", {}
    head, _, shown = parts["tlog-proof"].decode("utf-8", "replace").partition("\n\n")
    lines, record = head.split("\n"), records_of([parts["json"]])[0]
    if lines[:2] != ["c2sp.org/tlog-proof@v1", f"index {seq}"] or shown != log.note:
        return "proof_changed", {}
    try:
        proof = [unbase64(line) for line in lines[2:]]
        found = root_from(sha256(b"\x00" + parts["json"]).digest(), seq, log.size, proof)
    except ValueError:
        found = b""
    good = found == log.root and record.get("seq") == seq
    return ("", record) if good else ("record_changed", {})


def check_anchors(files: dict[str, bytes], log: Log) -> None:
    """What is kept about the checkpoint must be about this one."""
    stamped = files.get(f"anchors/{log.size}.checkpoint", b"")
    for name in [name for name in files if name.startswith("anchors/") and log.note]:
        at, kind = name[8:].split(".")
        same = (
            stamped.decode("utf-8", "replace").rpartition("\n\n")[0]
            == log.note.rpartition("\n\n")[0]
        )
        lines = files[name].splitlines()
        if at != str(log.size) or (kind == "checkpoint" and not same):
            say("anchor_changed", name)
        elif kind == "cosig" and not (lines and set(lines) <= set(log.note.encode().splitlines())):
            say("cosignature_bad", name)
        elif kind in ("tsr", "ots") and sha256(stamped).digest() not in files[name]:
            say("stamp_bad", name)


# -- the command -----------------------------------------------------------------------------------
class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        self.exit(3, f"usage: {message}\n")


def verify(path: Path, args: Any) -> Log | None:
    if len(vkeys_in(args.vkey)) + len(vkeys_in(args.witness, 4)) < len(args.vkey + args.witness):
        say("bad_vkey")
    elif path.is_dir() and any(
        (path / n).exists() for n in ("log.json", "segments", "HEAD", "LOCK")
    ):
        return verify_directory(path, args)
    elif path.is_file():
        return verify_bundle(path, args)
    else:
        say("not_a_ledger" if path.exists() else "no_such_path", str(path))
    return None


def main(arguments: list[str] | None = None) -> int:
    parser, log = Parser(description="Check a ledger or a proof bundle."), None
    parser.add_argument("path", type=Path)
    for name in ("--vkey", "--prior", "--receipt", "--cosignature", "--witness", "--tsr"):
        parser.add_argument(name, action="append", default=[])
    parser.add_argument("--log-id", default="")
    parser.add_argument("--tsa-ca", default="")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(arguments)
    gc.disable()  # nothing here makes cycles, and collecting takes a tenth of the time
    FOUND.clear()
    try:
        log = verify(args.path, args)
    except OSError as error:
        say("unreadable", str(error))
    codes = {"usage": 3, "tampered": 1, "incomplete": 2, "ok": 0}
    status = next(each for each in codes if each in [*FOUND.values(), "ok"])
    about = (log.read, log.origin, log.root.hex()) if log else (0, "", "")
    said = {"status": status, "records": about[0], "origin": about[1], "root": about[2]}
    found = [{"code": code, "seq": seq, "means": means} for (code, seq), means in FOUND.items()]
    notes = [each for each in found if each["means"] == "ok"]
    found = [each for each in found if each["means"] != "ok"]
    if args.json:
        print(json.dumps({**said, "findings": found, "notes": notes}))
    else:
        lines = [f"{name}: {value}" for name, value in said.items()]
        for each in found + notes:
            place = "" if each["seq"] is None else f" at {each['seq']}"
            lines.append(f"{each['means']}: {each['code'].replace('_', ' ')}{place}")
        print("\n".join(lines).encode("ascii", "backslashreplace").decode())
    return codes[status]


if __name__ == "__main__":
    sys.exit(main())
