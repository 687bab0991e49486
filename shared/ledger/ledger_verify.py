#!/usr/bin/env python3
# ruff: noqa: B905, SIM905 -- short, and for Python 3.9 on, which has no zip(strict=)
"""Check a ledger, or a proof bundle from one, with nothing but Python's standard library.

A record is one line of JSON that names the hash of the line before it; these hashes are the leaves
of one Merkle tree; a checkpoint is a signed note with the number of records and the root of that
tree. So a good checkpoint vouches for every byte before it, and what you hold outside of the log
(key, receipt, checkpoint, cosignature, stamp) vouches that it still is the log it was. Nothing is
believed that is not recomputed here; the first thing that was tampered with ends the check.
Exit code: 0 intact, 1 tampered with, 2 incomplete, 3 wrongly called. FORMAT.md has the bytes and
the findings. Changes nothing.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey as FastKey
except Exception:  # not installed, or broken: then only published signatures are verified
    FastKey = None  # type: ignore[assignment,misc]

TYPES = frozenset(
    "genesis start stop request outcome deny gate_open gate_decision delegate revoke policy_set "
    "config_set key_rotate seal anchor erase hold export recover clock_step heartbeat gap "
    "journal".split()
)
MEMBER = re.compile(
    r"README\.txt|manifest\.json|ledger_verify\.py|logs/[0-9]+/(log\.json|checkpoint|texts/"
    r"[0-9a-f]{64}|records/[0-9]{20}\.(json|tlog-proof)|anchors/[0-9]+\.[a-z]+)"
)
NOTE = re.compile("((?:[^\x00-\x1f]*\n)+)\n((?:\u2014 [^\\s+]+ [A-Za-z0-9+/]{8,}=*\n){1,100})")
VKEY = re.compile(r"\s*([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]{44})\s*")
CP, SECOND, FOREVER = b'{"cp":"', 10**6, 1 << 63  # all times are in microseconds
USAGE, TAMPERED, INCOMPLETE, OK = STATUS = ("usage", "tampered", "incomplete", "ok")
BAD = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
FOUND: dict[tuple[str, Any], str] = {}  # (code, what it is about): what it means
AT: list[Any] = []  # code, place and meaning if what is looked at now is odd in any way
Record = dict[str, Any]
Key = tuple[str, bytes, bytes]  # name, key id, public key
Claim = tuple[str, str, str, int, bytes, int]  # code if it is wrong, note, origin, size, root, time
STEP, LARGE = 1 << 16, 1 << 23  # bytes in a piece of work; and from which on two processors help
sha256 = hashlib.sha256


def need(good: object, code: str = "", place: Any = None, means: str = TAMPERED) -> None:
    """Note what it means if something is not good, and end the check if that is more than a gap."""
    if not good and means in (INCOMPLETE, OK):
        FOUND.setdefault((code, place), means)
    elif not good:
        AT[:] = (code, place, means) if code else AT
        raise ValueError


# -- records: JSON in its one canonical form -------------------------------------------------------
def whole(text: str) -> int:
    need(len(text) < 18 and abs(int(text)) < 2**53)
    return int(text)


QUICK = json.JSONDecoder(parse_float=whole, parse_constant=whole).decode
EXACT = json.JSONDecoder(parse_float=whole, parse_constant=whole, parse_int=whole).decode
ENCODE = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, check_circular=False
).encode
# Digits become 0, what stands before a value becomes :, what needs a closer look becomes a space.
PLAIN = bytes.maketrans(b"123456789,[-\\\t\r", b"000000000:::   ")
LONG = b":" + b"0" * 16
MARK = int.from_bytes(os.urandom(5), "big")  # as nobody foresees it, no line reaches over it


def records_of(lines: list[bytes]) -> list[Record]:
    """The records in some lines, up to the first whose bytes are not how a record is written."""
    half = len(lines) // 2
    try:
        need(half <= 32)  # few enough for the processor's cache
        block = b"[" + (b",%d," % MARK).join(lines) + b"]"
        text, plain = block.decode(), block.translate(PLAIN)
        values = QUICK(text)
        records: list[Record] = values[::2]
        objects = records + [v for r in records for v in r.values() if type(v) is dict]
        times = [record["ts"] for record in records]
        # To write all again takes long. It is not needed without spaces, escapes, numbers below 0,
        # or of 16 digits but the times, if names are in order, and none is twice or deeper inside.
        easy = b" " not in plain and b"::0" not in plain and plain.count(LONG) == len(lines)
        easy = easy and 10**15 <= min(times) <= max(times) < 2**53
        easy = easy and block.count(b'":') == sum(map(len, objects))
        if not easy or not all(list(o) == sorted(o) for o in {tuple(o) for o in objects}):
            records = (values := EXACT(text))[::2]
            need(ENCODE(values) == text and min(times) >= 0)
        told = {(r["v"], *map(type, (r["v"], r["seq"], r["ts"], r["prev"]))) for r in records}
        need(told == {(1, int, int, int, str)} and {r["type"] for r in records} <= TYPES)
        need(set(values[1::2]) <= {MARK})
        return records
    except BAD:
        begin = records_of(lines[:half]) if half else []
    return begin + records_of(lines[half:]) if half and len(begin) == half else begin


def part(record: Record, name: str) -> Record:
    return record[name] if type(record.get(name)) is dict else {}


def study(block: bytes) -> tuple[Any, ...]:
    """What some lines show by themselves: the long part of the work, for all processors at once.

    Number and link of the first record, hashes and times of all, (records before, note) of each
    checkpoint, whether all is good, requests without outcome, and the records that say more than
    that a call began or ended as usual, with the time before and if their request is elsewhere."""
    (*lines, _), kept = block.split(b"\n"), list[Any]()  # what has no line break is no line yet
    bodies = [line for line in lines if not line.startswith(CP)]
    marks = [place for place, line in enumerate(lines) if line.startswith(CP)]
    notes = [(place - n, note_in(lines[place]) or "?") for n, place in enumerate(marks)]
    records, leaves = records_of(bodies), [sha256(b"\x00" + line).digest() for line in bodies]
    first, *links = [(r["seq"], r["prev"]) for r in records] or [(0, "")]
    for n, (leaf, link) in enumerate(zip(leaves, links), 1):
        if link != (first[0] + n, leaf.hex()):
            records = records[:n]  # this one or the one before it was changed
            break
    waiting, judged, before, times = set[int](), None, -SECOND, list[int]()
    for record in records:
        kind, ts, policy, ref = record["type"], record["ts"], record.get("policy"), None
        loose = False
        if kind == "request":
            waiting.add(record["seq"])
        elif kind == "outcome" and type(ref := record.get("ref")) is int and ref in waiting:
            waiting.remove(ref)
        else:
            loose = True
        usual = not loose and "gate" not in record and 0 <= ts - before < SECOND
        if not usual or (policy is not None and policy != judged):
            kept.append((record, before, loose))
            judged = policy if kind in ("request", "outcome") else judged
        times.append(before := ts)
    good = len(records)
    notes = [note for note in notes if note[0] <= good]
    return first, leaves[:good], times, notes, good == len(bodies), waiting, kept


def study_file(task: tuple[Path, int, int]) -> tuple[Any, ...]:
    """What the lines of a file show that begin between two places in it."""
    path, start, end = task
    with path.open("rb") as file:
        file.seek(max(start - 1, 0))
        if start:
            file.readline()  # it began before
        block = file.read(max(end - file.tell(), 0))
        return study(block + (file.readline() if block and block[-1:] != b"\n" else b""))


# -- signed notes ----------------------------------------------------------------------------------
def base64_of(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def unbase64(text: str) -> bytes:
    raw = base64.b64decode(text, validate=True)
    need(base64_of(raw) == text)
    return raw


def vkeys_in(texts: Any, kind: int = 1) -> list[Key]:
    """The good ones of some public keys; `kind` is 1 for those of a log, 4 for a witness."""
    found = [VKEY.fullmatch(str(text)) for text in (texts if type(texts) is list else [])]
    keys = [(m[1], bytes.fromhex(m[2]), base64.b64decode(m[3])) for m in found if m]
    good = [sha256(f"{k[0]}\n".encode(errors="replace") + k[2]).digest()[:4] == k[1] for k in keys]
    return [(k[0], k[1], k[2][1:]) for k, fits in zip(keys, good) if fits and k[2][0] == kind]


def note_in(line: bytes) -> str:
    """The note in a checkpoint line, or nothing."""
    note = line[7:-2].decode(errors="replace").replace("\\n", "\n")
    return note if ENCODE({"cp": note}).encode() == line else ""


def split_note(note: str) -> tuple[str, list[tuple[str, bytes]]]:
    """The text of a note, and its signatures as (name, key id and signature)."""
    match = NOTE.fullmatch(note[: 1 << 16])
    text, rest = match.groups() if match else ("", "no note")
    return text, [(name, unbase64(blob)) for _, name, blob in map(str.split, rest.splitlines())]


def signed_text(note: str, keys: list[Key], every: bool = False) -> str:
    """The text of a note that one (or each) of `keys` signed, or nothing; others do not matter."""
    try:
        text, signatures = split_note(note)
    except ValueError:
        return ""
    signed = [(k, blob) for name, blob in signatures for k in keys if k[:2] == (name, blob[:4])]
    enough = {k for k, _ in signed} == set(keys) if every else signed
    return text if enough and all(verifies(k[2], text.encode(), b[4:]) for k, b in signed) else ""


def checkpoint_text(origin: str, size: int, root: bytes) -> str:
    return f"{origin}\n{size}\n{base64_of(root)}\n"


def checkpoint_in(note: str) -> tuple[str, int, bytes]:
    """Origin, size and root in a checkpoint."""
    origin, size, root, _ = split_note(note)[0].split("\n")
    need(checkpoint_text(origin, int(size), unbase64(root)) == split_note(note)[0])
    return origin, int(size), unbase64(root)


def rotation(told: Record, name: str) -> list[Key]:
    """The old and the new key of a change of keys that both signed, or nothing."""
    pair = vkeys_in([told.get("old"), told.get("new")])
    wanted = f"{name}/key-rotate\n{told.get('seq')}\n{told.get('new')}\n"
    return pair if signed_text(str(told.get("note")), pair, True) == wanted and pair[1:] else []


# -- their signatures: Ed25519 (RFC 8032) ----------------------------------------------------------
P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D, ROOT = -121665 * pow(121666, -1, P) % P, pow(2, (P - 1) // 4, P)
Point = tuple[int, int, int, int]  # (x, y, z, t): the point (x/z, y/z), and t = xy/z


def point_add(p: Point, q: Point) -> Point:
    """The sum of two points of the curve -x^2 + y^2 = 1 + D x^2 y^2."""
    a, b = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0])
    c, d = 2 * D * p[3] * q[3], 2 * p[2] * q[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def point_of(raw: bytes) -> Point:
    sign, y = divmod(int.from_bytes(raw, "little"), 2**255)
    x2 = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(x2, (P + 3) // 8, P)
    x = x if (x * x - x2) % P == 0 else x * ROOT % P
    need(y < P and (x * x - x2) % P == 0 and (x or not sign))
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


def verifies(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether s times the base point, less h times the key, is the point in the signature."""
    try:
        if FastKey is not None:
            return FastKey.from_public_bytes(public).verify(signature, message) is None
        (x, y, _, t), point = point_of(public), (0, 1, 1, 0)
        base = point_of((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
        h = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little")
        s, h = int.from_bytes(signature[32:], "little"), h % ORDER
        for bit in range(255, -1, -1):
            point = point_add(point, point)
            point = point_add(point, base) if s >> bit & 1 else point
            point = point_add(point, (P - x, y, 1, P - t)) if h >> bit & 1 else point
        x, y = (each * pow(point[2], -1, P) % P for each in point[:2])
        found = (y | (x & 1) << 255).to_bytes(32, "little")
        return len(signature) == 64 and s < ORDER and found == signature[:32]
    except Exception:
        return False


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
    need(0 <= index < size and (size > 1) == bool(proof))
    if size == 1:
        return leaf
    half = 1 << (size - 1).bit_length() - 1
    right = index >= half
    below = root_from(leaf, index - half * right, size - half if right else half, proof[:-1])
    return sha256(b"\x01" + (proof[-1] + below if right else below + proof[-1])).digest()


# -- one log from its beginning to its end ---------------------------------------------------------
class Log:
    """A log while it is followed. `keys` must sign now, `chain` has all of its keys, `seen` what is
    here at the `wanted` sizes: root, times before and after. `here`: of a bundle, the numbers of
    its records. `partial`: what only records before could show is not held against the log."""

    def __init__(self, told: Record, keys: list[Key], here: set[int] | None = None) -> None:
        self.origin, self.keys, self.chain, self.here = str(told.get("origin")), keys, keys, here
        self.size, self.peaks, self.tip, self.ts, self.root = 0, list[bytes](), "0" * 64, 0, b""
        self.note, self.signed, self.read, self.log_id, self.previous = "", 0, 0, b"", "0" * 64
        self.open, self.policies, self.texts = set[int](), set[str](), dict[str, int]()
        self.gates, self.lost, self.pruned = dict[str, Any](), list[Any](), list[Any]()
        self.segment_key, self.next_key = vkeys_in([told.get("segment_key")]), list[Key]()
        self.every, self.partial, self.rotations = 0, False, list[Record]()
        self.wanted, self.seen = set[int](), dict[int, tuple[bytes, int, int]]()

    def take(self, piece: tuple[Any, ...]) -> None:
        """Go on over some more lines, of which `study` says what they show by themselves."""
        (first, leaves, times, notes, good, waiting, kept), start = piece, self.size
        need(not leaves or first == (start, self.tip), "record_changed", start)  # or the one before
        for size in [n for n in self.wanted if start <= n < start + len(leaves)]:
            root = root_of(grow(start, self.peaks, leaves[: size - start]))
            self.seen[size] = (root, [self.ts, *times][size - start], times[size - start])
        rotates = [record for record, *_ in kept if record["type"] == "key_rotate"]
        for count, note in [*notes, (len(leaves), "")]:
            end, more = start + count, leaves[self.size - start : count]
            for record in [record for record in rotates if self.size <= record["seq"] < end]:
                pair = rotation({**part(record, "ext"), "seq": record["seq"]}, self.origin)
                need(pair and pair[0] == self.keys[-1], "key_rotation_bad", record["seq"])
                self.keys = [*self.keys, pair[1]]
            self.size, self.peaks = end, grow(self.size, self.peaks, more)
            if note:
                self.note, self.signed, self.root = note, end, root_of(self.peaks)
                text = checkpoint_text(self.origin, end, self.root) + "\n"
                signed = FastKey is None or signed_text(note, self.keys, every=True)
                need(signed, "checkpoint_signature", end - 1)
                need(note.startswith(text), "record_changed", end - 1)
        for record, before, loose in kept:
            self.look(record, self.ts if before < 0 else before, loose)
        self.open |= waiting
        self.log_id = self.log_id if start else b"".join(leaves[:1])
        self.ts, self.tip = [self.ts, *times][-1], leaves[-1].hex() if leaves else self.tip
        self.read += len(leaves)
        need(good, "record_changed", self.size)

    def look(self, record: Record, before: int, loose: bool) -> None:
        """Judge a record by those that came before it, the last of them at the time `before`."""
        kind, seq, ts, bundle = record["type"], record["seq"], record["ts"], self.here is not None
        policy, ext, ref = part(record, "policy"), part(record, "ext"), record.get("ref")
        loose, ref = loose and kind == "outcome", ref if type(ref) is int else -1
        if loose and not self.partial:
            absent = 0 <= ref < seq and ref not in (self.here or {ref})
            need(ref in self.open, "outcome_unpaired", seq, INCOMPLETE if absent else TAMPERED)
        self.open -= {ref} if loose else set()
        if not bundle:
            need(ts >= before or kind == "clock_step", "clock_decreased", seq)
            told = kind in ("start", "recover") or not self.every
            need(told or ts - before <= max(3 * self.every, SECOND), "silence", seq, OK)
            self.gate(record, kind, seq, part(record, "gate"))
        if kind in ("policy_set", "config_set"):
            digest = (ext if kind == "config_set" else policy).get("digest")
            self.policies |= {str(digest)} if kind == "policy_set" else set()
            self.texts |= {digest: seq} if type(digest) is str and digest not in self.texts else {}
        elif policy.get("digest") and (bundle or policy.get("decision")):
            known = self.partial or str(policy["digest"]) in self.policies
            need(known, "policy_unknown", seq, INCOMPLETE if bundle else TAMPERED)
        if kind == "heartbeat":
            self.every = ext["every_us"] if type(ext.get("every_us")) is int else 0
        elif kind == "recover" and type(ext.get("lost_from")) is type(ext.get("committed")) is int:
            need(False, "loss_accepted", seq, OK)
            self.lost.append((ext["lost_from"], ext["committed"]))
            self.segment_key = vkeys_in([ext.get("segment_key")]) or self.segment_key
        elif kind == "erase" and part(record, "action").get("kind") == "prune":
            carried = ext["rotations"] if type(ext.get("rotations")) is list else []
            self.rotations += [each for each in carried if type(each) is dict]
            self.pruned.append((ext.get("size"), ext.get("seal_sha256")))
        elif kind == "key_rotate":
            self.rotations.append({**ext, "seq": seq})
        elif kind == "seal":
            self.next_key = vkeys_in([ext.get("next_key")])

    def gate(self, record: Record, kind: str, seq: int, gate: Record) -> None:
        """A gate is opened, decided once, approved for what was shown, and acted behind then."""
        name, state = str([str(record.get("run")), str(gate.get("id"))]), gate.get("state")
        shown, approves = part(record, "action").get("args_c"), state == "approved"
        opened, decided = self.gates.get(name, (None, None))
        if gate and kind == "gate_open":
            self.gates[name] = (shown, "")
        elif gate and not (self.partial and decided is None):  # else it may be opened before
            acts = approves or (kind == "request" and decided is not None)
            other = approves and shown and shown != opened
            good = decided == "" and not other if kind == "gate_decision" else decided == "approved"
            need(good or not (acts or kind == "gate_decision"), "gate_not_approved", seq)
            self.gates |= {name: (opened, state or "decided")} if kind == "gate_decision" else {}

    def segment(self, path: Path, last: bool, spread: Any) -> None:
        """Follow a file of records and its seal. `spread` is `map`, or one for all processors."""
        seal, size, digest = path.with_suffix(".seal"), path.stat().st_size, sha256()
        sealed = seal.exists()
        tasks = [(path, start, min(start + STEP, size)) for start in range(0, size, STEP)]
        pieces, rest = spread(study_file, tasks), b""
        with path.open("rb") as file:
            file.seek(0 if sealed else max(size - (1 << 17), 0))  # else nobody asks for the hash
            while chunk := file.read(1 << 16):
                digest.update(chunk)
                rest = (rest[-(1 << 17) :] + chunk).rpartition(b"\n")[2]
        for piece in pieces:
            self.take(piece)
        torn = TAMPERED if note_in(rest) or note_in(rest[:-1]) else INCOMPLETE
        need(not rest, "torn_tail", self.size, torn)
        need(self.signed == self.size, "unsigned_tail", self.signed, INCOMPLETE)
        good = not self.note or signed_text(self.note, self.keys, every=True)
        need(good, "checkpoint_signature", self.size - 1)  # the last one, which is published
        if sealed:
            AT[:] = "seal_changed", int(path.stem), TAMPERED
            self.seal(seal, digest.hexdigest())
        elif not last:
            self.previous = ""
            need(False, "seal_missing", int(path.stem), INCOMPLETE)
        if sealed or not last:
            self.keys, self.segment_key = self.keys[-1:], self.next_key

    def seal(self, path: Path, file_hash: str) -> None:
        """Compare a seal with its segment, which has this hash; without one, begin behind it."""
        note = text_of(path)
        told = dict(line.partition(" ")[::2] for line in signed_text(note, self.keys).splitlines())
        if not file_hash:
            self.size, self.tip, self.ts = int(told["size"]), told["tip"], int(told["ts"])
            self.peaks = [unbase64(peak) for peak in told["frontier"].split(",") if peak]
            self.open = {int(n) for n in told["open"].split(",") if n}
            self.signed, self.partial, self.segment_key = self.size, True, []
        peaks, waiting = map(base64_of, self.peaks), map(str, sorted(self.open))
        previous = self.previous if file_hash and self.previous else told["previous"]
        here = {
            **{self.origin + "/segment": "", "first": int(path.stem), "last": self.size - 1},
            **{"size": self.size, "root": base64_of(root_of(self.peaks)), "ts": self.ts},
            **{"sha256": file_hash or told["sha256"], "previous": previous, "tip": self.tip},
            **{"frontier": ",".join(peaks), "open": ",".join(waiting)},
        }
        need(told == {name: str(value) for name, value in here.items()})
        need(not self.segment_key or signed_text(note, self.segment_key))
        self.previous = sha256(note.encode()).hexdigest()

    def reached(self, keys: list[Key]) -> list[Key]:
        """The keys that changes of keys in the records lead to, forward or back."""
        pairs = [rotation(told, self.origin) for told in self.rotations]
        for pair in pairs * len(pairs):
            keys = keys + [key for key in pair if key not in keys and set(pair) & set(keys)]
        return keys

    def conclude(self, claims: list[Claim], texts: Any) -> None:
        """Judge what only the whole shows; `texts` gives the bytes of each kept text."""
        for code, note, origin, size, root, when in claims:
            here, before, after = self.seen.get(size, (None, 0, FOREVER))
            need(origin == self.origin and signed_text(note, self.chain), code)
            lost = here != root and any(kept < size <= end for kept, end in self.lost)
            need(not lost, "records_lost", size, INCOMPLETE)
            need(lost or size <= self.size, "rolled_back", size)
            need(lost or here in (None, root), code, size)
            need(here or lost, "not_comparable", size, OK)
            late = 600 * SECOND  # no two clocks are further apart
            timely = not when or before - late <= when <= after + late
            need(timely, "time_contradicted", size, INCOMPLETE)
        for seq in sorted(self.open)[:500]:
            need(False, "request_unanswered", seq, OK if self.partial else INCOMPLETE)
        for digest, seq in self.texts.items():
            need(digest in texts, "text_missing", seq, INCOMPLETE)
        for name, data in texts.items():
            need(sha256(data).hexdigest() == name, "text_changed", name)


# -- what is known from outside of the log ---------------------------------------------------------
def text_of(path: Any) -> str:
    return Path(path).read_bytes().decode()


def claims_of(folder: Path, args: Any) -> Iterator[Claim]:
    for given in args.prior:
        yield ("prior_mismatch", note := text_of(given), *checkpoint_in(note), 0)
    for given in args.receipt:
        text = given if given.count(";") == 4 else text_of(given)
        for line in [line.strip() for line in text.split("\n") if line.strip()]:
            origin, seq, size, root, blob = line.split(";")
            text = checkpoint_text(origin, int(size), bytes.fromhex(root))
            signed = checkpoint_in(note := f"{text}\n\u2014 {origin} {blob}\n")
            yield ("receipt_mismatch", note if 0 <= int(seq) < int(size) else "", *signed, 0)
    for given, witness in zip(args.cosignature, args.witness):
        [key], (text, signatures) = vkeys_in([witness], 4), split_note(note := text_of(given))
        blob = next(blob for name, blob in signatures if key[:2] == (name, blob[:4]))
        when = int.from_bytes(blob[4:12], "big")
        good = verifies(key[2], f"cosignature/v1\ntime {when}\n{text}".encode(), blob[12:])
        need(good, "cosignature_bad", given)
        yield ("fork", note, *checkpoint_in(note), when * SECOND)
    for given in args.tsr:  # RFC 3161, over the bytes of the checkpoint file of the same name
        near = Path(given).with_suffix(".checkpoint")
        near = near if near.exists() else folder / "anchors" / near.name
        check = ["-verify", "-data", str(near), "-in", given, "-CAfile", args.tsa_ca]
        both = [["openssl", "ts", *each] for each in (check, ["-reply", "-in", given, "-text"])]
        try:
            done = [subprocess.run(each, capture_output=True, check=False) for each in both]
        except OSError:
            need(False, "stamp_unchecked", given, INCOMPLETE)
            continue
        time = re.search(r"Time stamp: (\w+ +\d+ [\d:]+)(?:\.\d+)? (\d+) GMT", str(done[1].stdout))
        need(time and not done[0].returncode, "stamp_bad", given)
        shown = " ".join([*(time.groups() if time else ()), "+0000"])
        when = int(datetime.strptime(shown, "%b %d %H:%M:%S %Y %z").timestamp()) * SECOND
        yield ("prior_mismatch", note := text_of(near), *checkpoint_in(note), when)
    for path in [*folder.glob("HEAD"), *sorted(folder.glob("anchors/*.checkpoint"))]:
        AT[:] = f"{'head' if path.name == 'HEAD' else 'prior'}_mismatch", path.name, TAMPERED
        yield (AT[0], note := text_of(path), *checkpoint_in(note), 0)


# -- a directory, or a bundle: some records of some logs, each with its proof ----------------------
def identity_in(raw: bytes) -> Record:
    told: Record = json.loads(raw)
    need({key[0] for key in vkeys_in(told["vkeys"])} == {told["origin"]})
    need(len(vkeys_in(told["vkeys"])) == len(told["vkeys"]))
    return told


def verify_directory(folder: Path, args: Any, given: list[Key]) -> Iterator[Log]:
    claims = list(claims_of(folder, args))
    need((folder / "HEAD").exists(), "head_missing", None, INCOMPLETE)
    need(FastKey is not None, "signatures_not_checked", None, OK)
    files = sorted(folder.glob(f"segments/{'[0-9]' * 20}.jsonl"))
    AT[:] = "empty", None, INCOMPLETE
    with files[0].open("rb") as file:
        lines = file.read(1 << 20).split(b"\n")
    record, AT[:] = [*records_of(lines[:1]), {}][0], ("log_json_changed", None, TAMPERED)
    identity = genesis = part(record, "ext") if record.get("type") == "genesis" else {}
    need((folder / "log.json").exists(), "log_json_missing", None, INCOMPLETE)
    if (folder / "log.json").exists():
        identity = identity_in((folder / "log.json").read_bytes())
        need(not genesis or {**identity, "vkeys": identity["vkeys"][:1]} == genesis)
    need(identity.get("schema", 2) == 2, "unknown_schema", None, USAGE)
    keys, AT[:] = vkeys_in(identity.get("vkeys")) + given, ("key_missing", None, INCOMPLETE)
    notes = [note_in(line) for line in lines if line.startswith(CP)][:9]
    signers = [key for note in notes for key in keys if signed_text(note, [key])]
    log = Log({**genesis, "origin": keys[0][0]}, (signers + keys)[:1])
    yield log
    log.wanted = {claim[3] for claim in claims}
    AT[:] = "segment_missing", 0, INCOMPLETE
    if int(files[0].stem):  # what was before may have been pruned
        seals = folder.glob("segments/*.seal")
        log.seal(max(path for path in seals if path.stem < files[0].stem), "")
    begun, large = (log.size, log.previous), sum(path.stat().st_size for path in files) > LARGE
    with multiprocessing.Pool(2) if large else contextlib.nullcontext() as pool:
        for path in files:
            AT[:] = "segment_missing", log.size, INCOMPLETE
            need(int(path.stem) == log.size)
            AT[:] = "record_changed", log.size, TAMPERED
            log.segment(path, path == files[-1], partial(pool.imap, chunksize=16) if pool else map)
    log.chain = log.reached(log.chain + log.keys)
    log.seen[log.size] = (root_of(log.peaks), log.ts, FOREVER)
    texts = [path for path in folder.glob("texts/*") if path.name in log.texts]
    log.conclude(claims, {path.name: path.read_bytes() for path in texts})
    if begun[0]:
        need(begun not in log.pruned, "pruned", begun[0], OK)
        need(begun in log.pruned, "segment_missing", 0, INCOMPLETE)
    need(set(given) <= set(log.chain), "key_unknown")
    need(log.log_id or not args.log_id, "log_id_unknown", None, INCOMPLETE)
    need(args.log_id in (b"", log.log_id) or not log.log_id, "log_id_mismatch")


def verify_bundle(path: Path, given: list[Key]) -> Iterator[Log]:
    files = dict[str, bytes]()
    with zipfile.ZipFile(path) as zipped:
        need("manifest.json" in zipped.namelist())
        for member in zipped.infolist():
            AT[:] = "file_changed", (name := member.filename), TAMPERED
            need(MEMBER.fullmatch(name) and name not in files and not member.compress_type)
            files[name] = zipped.read(member)
    raw, AT[:] = files.pop("manifest.json"), ("manifest_changed", None, TAMPERED)
    manifest = json.loads(raw)
    names = {*manifest} - ({"texts"} if manifest.get("texts") == "left_out" else set())
    need(names == {"bundle", "files", "logs", "selection"} and manifest["bundle"] == 1)
    need((ENCODE(manifest) + "\n").encode() == raw and {*files} <= {*manifest["files"]})
    for name, digest in manifest["files"].items():
        need(name in files, "file_missing", name, INCOMPLETE)
        need(name not in files or sha256(files[name]).hexdigest() == digest, "file_changed", name)
    starts = sorted({name[: name.index("/", 5) + 1] for name in files if name[:5] == "logs/"})
    need(starts, "empty", None, INCOMPLETE)
    for start in starts:
        mine = {name[len(start) :]: data for name, data in files.items() if name.startswith(start)}
        yield verify_part(mine, given)


def verify_part(files: dict[str, bytes], given: list[Key]) -> Log:
    """One log of a bundle: its checkpoint, its records with their proofs, and its texts."""
    AT[:] = "checkpoint_changed", None, TAMPERED
    identity, note = identity_in(files["log.json"]), files["checkpoint"].decode()
    here = {int(name[8:28]) for name in files if name[:8] == "records/"}
    log = Log(identity, [], here)
    origin, log.size, log.root = checkpoint_in(note)
    need(origin == log.origin)
    for seq in sorted(here):
        AT[:] = "record_changed", seq, TAMPERED
        line, shown = (files.get(f"records/{seq:020d}.{end}") for end in ("json", "tlog-proof"))
        need(line and shown, "proof_missing", seq, INCOMPLETE)
        if line and shown:
            (number, _), [leaf], *_, good, waiting, [(record, _, loose)] = study(line + b"\n")
            text, _, end = shown.decode().partition("\n\n")
            title, index, *proof = text.split("\n")
            need((number, title, index) == (seq, "c2sp.org/tlog-proof@v1", f"index {seq}"))
            need(root_from(leaf, seq, log.size, [unbase64(each) for each in proof]) == log.root)
            need(good and end == note)
            log.look(record, 0, loose)
            log.open, log.read = log.open | waiting, log.read + 1
        else:
            here.remove(seq)
    own = vkeys_in(identity["vkeys"])
    keys = log.reached([key for key in given if key[0] == origin] or own[: not given])
    need(keys or given, "key_missing", None, INCOMPLETE)
    need(keys and signed_text(note, keys), "key_unknown")
    names = [name for name in files if name[:8] == "anchors/"]
    need(all(name[8:].split(".")[0] == str(log.size) for name in names), "anchor_changed")
    log.conclude([], {name[6:]: data for name, data in files.items() if name[:6] == "texts/"})
    return log


# -- the command -----------------------------------------------------------------------------------
class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        self.exit(3, f"usage: {message}\n")


def main(arguments: list[str] | None = None) -> int:
    parser, logs = Parser(description=__doc__), list[Log]()
    parser.add_argument("path", type=Path, help="the directory of a ledger, or a bundle")
    for name in ("vkey", "prior", "receipt", "cosignature", "witness", "tsr"):
        parser.add_argument("--" + name, action="append", default=[])
    parser.add_argument("--log-id", type=bytes.fromhex, default=b"", help="the hash of record 0")
    parser.add_argument("--tsa-ca", default="", help="certificates of the authority of --tsr")
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    args = parser.parse_args(arguments)
    path, given = args.path, vkeys_in(args.vkey)
    held = [*args.prior, *args.receipt, *args.cosignature, *args.tsr, args.log_id]
    if len(args.cosignature) != len(args.witness) or (args.tsr and not args.tsa_ca):
        parser.error("each --cosignature needs its --witness, and --tsr needs --tsa-ca")
    if any(held) and path.is_file():
        parser.error("a bundle is compared with nothing but --vkey")
    FOUND.clear()
    AT[:] = "wrongly_called", str(path), USAGE
    try:
        need(len(given) + len(vkeys_in(args.witness, 4)) == len(args.vkey + args.witness))
        names = ("log.json", "segments", "HEAD", "LOCK")
        bundle = path.is_file()
        need(bundle or any((path / name).exists() for name in names))
        logs.extend(verify_bundle(path, given) if bundle else verify_directory(path, args, given))
    except Exception as error:  # whatever is odd about it: it is not what was written
        if isinstance(error, OSError) and path.is_dir():
            AT[:] = "wrongly_called", str(error), USAGE
        FOUND[AT[0], AT[1]] = AT[2]
    status = next(each for each in STATUS if each in [*FOUND.values(), OK])
    found = [{"code": code, "seq": place, "means": means} for (code, place), means in FOUND.items()]
    said: Record = {"status": status, "records": sum(log.read for log in logs)}
    said["origin"], said["root"] = (logs[0].origin, logs[0].root.hex()) if logs else ("", "")
    said["findings"] = [each for each in found if each["means"] != OK]
    said["notes"] = [each for each in found if each["means"] == OK]
    lines = [f"{status}: {said['records']} records read, root {said['root'] or 'unknown'}"]
    lines += [f"{each['means']}: {each['code']} at {each['seq']}" for each in found]
    print(json.dumps(said) if args.json else "\n".join(lines))
    return {USAGE: 3, TAMPERED: 1, INCOMPLETE: 2, OK: 0}[status]


if __name__ == "__main__":
    sys.exit(main())
