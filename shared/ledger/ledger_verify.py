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
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any

try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey as FastKey
except Exception:  # not installed, or broken: then only published signatures are verified
    FastKey = None  # type: ignore[assignment,misc]

TYPES = set(
    "genesis start stop request outcome deny gate_open gate_decision delegate revoke policy_set "
    "config_set key_rotate seal anchor erase hold export recover clock_step heartbeat gap "
    "journal".split()
)
MEMBER = re.compile(
    r"README\.txt|manifest\.json|ledger_verify\.py|logs/[0-9]+/(log\.json|checkpoint|texts/"
    r"[0-9a-f]{64}|records/[0-9]{20}\.(json|tlog-proof)|anchors/[0-9]+\.[a-z]+)"
)
CP = re.compile(rb'\{"cp":"([^"\\\x00-\x1f]*(?:\\n[^"\\\x00-\x1f]*)*)"\}')
B = "[A-Za-z0-9+/]"
SIGNATURE = f"\u2014 [^\\s+]+ (?=.{{8}})(?:{B}{{4}})+(?:{B}{{2}}[AEIMQUYcgkosw048]=|{B}[AQgw]==)?\n"
NOTE = re.compile(f"((?:[^\x00-\x1f]*\n)+)\n((?:{SIGNATURE}){{1,100}})")
VKEY = re.compile(r"\s*([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]{44})\s*")
LATE, FOREVER = 600 * 10**6, 1 << 63  # all times are in microseconds
STEP, LARGE = 1 << 18, 1 << 23  # bytes in a piece of work; and from which on two processors help
USAGE, TAMPERED, INCOMPLETE, OK = STATUS = ("usage", "tampered", "incomplete", "ok")
FOUND: list[dict[str, Any]] = []  # code, what it is about ("seq"), and what it means
AT: list[Any] = []  # code, place and meaning if what is looked at now is odd in any way
Record = dict[str, Any]
Key = tuple[str, bytes, bytes]  # name, key id, public key
sha256, unbase64 = hashlib.sha256, base64.b64decode


def need(good: object, code: str = "", place: Any = None, means: str = TAMPERED) -> None:
    """Note what it means if something is not good, and end the check if that is more than a gap."""
    if not good and means in (INCOMPLETE, OK):
        FOUND.append({"code": code, "seq": place, "means": means})
    elif not good:
        AT[:] = (code, place, means) if code else AT
        raise ValueError


# -- records: strict JSON, without fractions -------------------------------------------------------
def unique(members: list[tuple[str, Any]]) -> Record:
    if len(found := dict(members)) != len(members):
        raise ValueError
    return found


JSON = json.JSONDecoder(object_pairs_hook=unique, parse_float=int, parse_constant=int)


def record_in(line: bytes) -> Record:
    """The record in a line, or nothing."""
    try:
        record, end = JSON.raw_decode(text := line.decode())
        whole = type(record["v"]) is type(record["seq"]) is type(record["ts"]) is int
        good = whole and record["v"] == 1 and record["type"] in TYPES and end == len(text)
        return record if good and type(record["prev"]) is str and record["ts"] >= 0 else {}
    except Exception:
        return {}


def part(record: Record, name: str) -> Record:
    return record[name] if type(record.get(name)) is dict else {}


def entries(task: tuple[Path, int, int]) -> list[tuple[Any, Any]]:
    """The lines of a file that begin between two places in it: of a record its hash and what there
    is to judge, of a checkpoint its note, of a line without end whether it is a checkpoint."""
    (path, start, end), found = task, list[tuple[Any, Any]]()
    tip, policy, record = "", None, Record()
    with path.open("rb") as file:
        file.seek(max(start - 1, 0))
        at = start and start - 1 + len(file.readline())  # of a line that began before
        while at < end and (line := file.readline()):
            at, body = at + len(line), line[:-1]
            if line[-1:] != b"\n":
                found.append(("torn", note_in(line) or note_in(body)))
            elif body.startswith(b'{"cp":'):
                found.append(("checkpoint", note_in(body)))
            else:
                link = (record["seq"] + 1, tip) if record else None  # None: nobody knows here
                said, leaf = (record := record_in(body)), sha256(b"\x00" + body).digest()
                tip = leaf.hex()
                usual = record.get("type") in ("request", "outcome") and "gate" not in record
                usual = usual and (record["seq"], record["prev"]) == link
                if usual and policy == (policy := record.get("policy", policy)):
                    said = {"type": record["type"], "ts": record["ts"], "ref": record.get("ref")}
                found.append((leaf, said))
    return found


# -- signed notes ----------------------------------------------------------------------------------
def base64_of(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def vkeys_in(texts: Any, kind: int = 1) -> list[Key]:
    """The good ones of some public keys; `kind` is 1 for those of a log, 4 for a witness."""
    found = [VKEY.fullmatch(str(text)) for text in (texts if type(texts) is list else [])]
    keys = [(m[1], bytes.fromhex(m[2]), base64.b64decode(m[3])) for m in found if m]
    good = [sha256(f"{k[0]}\n".encode(errors="replace") + k[2]).digest()[:4] == k[1] for k in keys]
    return [(k[0], k[1], k[2][1:]) for k, fits in zip(keys, good) if fits and k[2][0] == kind]


def note_in(line: bytes) -> str:
    """The note in a checkpoint line, or nothing."""
    match = CP.fullmatch(line)
    return match[1].decode(errors="replace").replace("\\n", "\n") if match else ""


def split_note(note: str) -> tuple[str, list[tuple[str, bytes]]]:
    """The text of a note, and its signatures as (name, key id and signature)."""
    match = NOTE.fullmatch(note[: 1 << 16])
    text, rest = match.groups() if match else ("", "")
    return text, [(name, unbase64(blob)) for _, name, blob in map(str.split, rest.splitlines())]


def signed_text(note: str, keys: list[Key], every: bool = False) -> str:
    """The text of a note that one (or each) of `keys` signed, or nothing; others do not matter."""
    text, signatures = split_note(note)
    signed = [(k, blob) for name, blob in signatures for k in keys if k[:2] == (name, blob[:4])]
    enough = signed and (not every or {key for key, _ in signed} == set(keys))
    return text if enough and all(verifies(k[2], text.encode(), b[4:]) for k, b in signed) else ""


def checkpoint_in(note: str) -> tuple[str, int, bytes]:
    """Origin, size and root in a checkpoint."""
    origin, size, root, _ = split_note(note)[0].split("\n")
    need(split_note(note)[0] == f"{origin}\n{int(size)}\n{base64_of(unbase64(root))}\n")
    return origin, int(size), unbase64(root)


def rotation(told: Record, name: str) -> list[Key]:
    """The old and the new key of a change of keys that both signed, or nothing."""
    pair = [key for key in vkeys_in([told.get("old"), told.get("new")]) if key[0] == name]
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
    peaks = list(peaks)
    for leaf in leaves:
        node, full, size = leaf, size, size + 1
        while full & 1:
            node, full = sha256(b"\x01" + peaks.pop() + node).digest(), full >> 1
        peaks.append(node)
    return peaks


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
    """A log while it is followed. `keys` must sign now, `eras` says behind which size which ones
    do, `chain` has all of them; `signers` are those of the last checkpoint, which is `note`.
    `peaks` is the tree without its last leaves, `fresh`. `seen` is what is here at the `wanted`
    sizes: root, times before and after. `gates`: what each was opened for, and the decision.
    `here`: of a bundle, the numbers of its records. `partial`: what only records before could
    show is not held against the log."""

    def __init__(self, told: Record, keys: list[Key], here: set[int] | None = None) -> None:
        self.origin, self.keys, self.chain, self.here = str(told.get("origin")), keys, keys, here
        self.size, self.peaks, self.fresh, self.tip = 0, list[bytes](), list[bytes](), "0" * 64
        self.ts, self.note, self.signed, self.signers, self.previous = 0, "", 0, keys, "0" * 64
        self.head, self.unjudged, self.texts = b"", list[tuple[Record, int]](), dict[str, int]()
        self.open, self.policies, self.gates = set[int](), {""}, dict[tuple[str, str], Any]()
        self.lost, self.pruned, self.eras = list[Any](), list[Any](), list[tuple[int, list[Key]]]()
        self.segment_key, self.next_key = vkeys_in([told.get("segment_key")]), list[Key]()
        self.rotations, self.every, self.stopped, self.partial = list[list[Key]](), 0, False, False
        self.wanted, self.seen, self.read = set[int](), dict[int, tuple[bytes, int, int]](), 0

    def root(self) -> bytes:
        self.peaks, self.fresh = grow(self.size - len(self.fresh), self.peaks, self.fresh), []
        return root_of(self.peaks)

    def record(self, leaf: bytes, record: Record) -> None:
        """Go on by one record. If its link is broken, it or the one before it was changed."""
        link = record.setdefault("seq", self.size), record.get("prev", self.tip)
        need("type" in record and link == (self.size, self.tip), "record_changed", self.size)
        if self.size in self.wanted:
            self.seen[self.size] = (self.root(), self.ts, record["ts"])
        if record["type"] == "key_rotate":  # from here on both sign
            pair = rotation({**part(record, "ext"), "seq": self.size}, self.origin)
            need(pair and pair[0] == self.keys[-1], "key_rotation_bad", self.size)
            self.keys = [*self.keys, pair[1]]
            self.eras.append((self.size, self.keys))
        self.fresh.append(leaf)
        self.unjudged.append((record, record["ts"] - self.ts))
        self.size, self.tip, self.ts = self.size + 1, leaf.hex(), record["ts"]

    def checkpoint(self, note: str) -> None:
        """Compare a checkpoint with the records before it."""
        self.note, self.signed, self.signers, self.head = note, self.size, self.keys, self.root()
        good = FastKey is None or signed_text(note, self.keys, every=True)
        need(good, "checkpoint_signature", self.size - 1)
        text = f"{self.origin}\n{self.size}\n{base64_of(self.head)}\n\n"
        need(note.startswith(text), "record_changed", self.size - 1)
        self.judge()

    def judge(self) -> None:
        for record, pause in self.unjudged:
            self.look(record, pause)
        self.unjudged = []

    def look(self, record: Record, pause: int) -> None:
        """Judge a record, `pause` after the one before it, by those that came before."""
        self.read, kind, seq = self.read + 1, record["type"], record["seq"]
        policy = part(record, "policy")
        if self.here is None:
            need((kind == "genesis") == (seq == 0), "log_json_changed", seq)
            need(pause >= 0 or kind == "clock_step", "clock_decreased", seq)
            if self.every and pause > 3 * self.every and not self.stopped:
                need(kind in ("start", "recover"), "silence", seq, OK)
            self.stopped = kind == "stop"
            if "gate" in record:
                self.gate(record, kind, part(record, "gate"))
        if kind == "policy_set":
            self.policies.add(str(policy.get("digest")))
        elif policy.get("decision") and not self.partial:
            lacks = TAMPERED if self.here is None else INCOMPLETE
            need(str(policy.get("digest") or "") in self.policies, "policy_unknown", seq, lacks)
        named = (part(record, "ext") if kind == "config_set" else policy).get("digest")
        if kind in ("policy_set", "config_set") and type(named) is str:
            self.texts.setdefault(named, seq)
        if kind == "request":
            self.open.add(seq)
        elif kind == "outcome":
            ref = record["ref"] if type(record.get("ref")) is int else -1
            gone = self.here is not None and 0 <= ref < seq and ref not in self.here
            need(ref in self.open, "outcome_unpaired", seq, INCOMPLETE if gone else TAMPERED)
            self.open.discard(ref)
        else:
            self.remember(kind, seq, part(record, "ext"), part(record, "action"))

    def remember(self, kind: str, seq: int, ext: Record, action: Record) -> None:
        """Keep what later records, seals and claims are judged by."""
        if kind == "heartbeat":
            self.every = ext["every_us"] if type(ext.get("every_us")) is int else 0
        elif kind == "recover":
            need(ext.get("accepted_loss") is not True, "loss_accepted", seq, OK)
            if type(ext.get("lost_from")) is type(ext.get("committed")) is int:
                self.lost.append((ext["lost_from"], ext["committed"]))
                self.segment_key = vkeys_in([ext.get("segment_key")]) or self.segment_key
        elif kind == "erase" and action.get("kind") == "prune":
            carried = ext["rotations"] if type(ext.get("rotations")) is list else []
            self.rotations += [rotation(old, self.origin) for old in carried if type(old) is dict]
            self.pruned.append((ext.get("size"), ext.get("seal_sha256")))
        elif kind == "key_rotate":
            self.rotations.append(rotation({**ext, "seq": seq}, self.origin))
        elif kind == "seal":
            self.next_key = vkeys_in([ext.get("next_key")])

    def gate(self, record: Record, kind: str, gate: Record) -> None:
        """A gate is opened, decided once, approved for what was shown, and acted behind then."""
        name, state = (str(record.get("run")), str(gate.get("id"))), gate.get("state")
        shown, approves = part(record, "action").get("args_c"), state == "approved"
        opened, decided = self.gates.get(name, (None, None))  # None: it was never opened
        if kind == "gate_open":
            self.gates[name], good = (shown, ""), True
        elif decided is None:
            good = self.partial or not (approves or kind == "gate_decision")
        elif kind == "gate_decision":
            good = not decided and (not approves or not shown or shown == opened)
            self.gates[name] = (opened, decided or str(state or "decided"))
        else:
            good = decided == "approved" or not (approves or kind == "request")
        need(good, "gate_not_approved", record["seq"])

    def segment(self, path: Path, last: bool, spread: Any) -> None:
        """Follow a file of records and its seal. `spread` is `map`, or one for all processors."""
        sealed = (seal := path.with_suffix(".seal")).exists()  # before its size: then it is final
        size, digest = path.stat().st_size, sha256()
        work = [(path, start, min(start + STEP, size)) for start in range(0, size, STEP)]
        pieces = spread(entries, work)
        with path.open("rb") as file:  # while the others are at work
            while sealed and (chunk := file.read(STEP)):
                digest.update(chunk)
        for what, said in chain.from_iterable(pieces):
            if what == "checkpoint":
                self.checkpoint(said)
            elif what == "torn":
                need(False, "torn_tail", self.size, TAMPERED if said else INCOMPLETE)
            else:
                self.record(what, said)
        self.judge()
        need(not last or self.signed == self.size, "unsigned_tail", self.signed, INCOMPLETE)
        good = not self.note or signed_text(self.note, self.signers, every=True)
        need(good, "checkpoint_signature", self.signed - 1)  # the last one, which is published
        if sealed:
            AT[:] = "seal_changed", int(path.stem), TAMPERED
            self.seal(seal, digest.hexdigest())
        elif not last:
            self.previous = ""
            need(False, "seal_missing", int(path.stem), INCOMPLETE)
        self.keys, self.segment_key = self.keys[-1:], self.next_key
        self.eras.append((self.size, self.keys))

    def seal(self, path: Path, file_hash: str) -> None:
        """Compare a seal with its segment, which has this hash; without one, begin behind it."""
        note = text_of(path)
        text = signed_text(note, self.keys + self.segment_key * bool(file_hash), every=True)
        told = dict(line.partition(" ")[::2] for line in text.splitlines())
        if not file_hash:
            self.size, self.tip, self.ts = int(told["size"]), told["tip"], int(told["ts"])
            self.peaks = [unbase64(peak) for peak in told["frontier"].split(",") if peak]
            self.open = {int(n) for n in told["open"].split(",") if n}
            self.signed, self.partial = self.size, True
        root, peaks, waiting = self.root(), map(base64_of, self.peaks), map(str, sorted(self.open))
        previous = self.previous if file_hash and self.previous else told["previous"]
        here = (
            f"{self.origin}/segment\nfirst {int(path.stem)}\nlast {self.size - 1}\n"
            f"size {self.size}\nroot {base64_of(root)}\nsha256 {file_hash or told['sha256']}\n"
            f"previous {previous}\ntip {self.tip}\nts {self.ts}\nfrontier {','.join(peaks)}\n"
        )
        need(text == here + f"open {','.join(waiting)}\n")
        self.previous = sha256(note.encode()).hexdigest()

    def reached(self, keys: list[Key]) -> list[Key]:
        """The keys that changes of keys in the records lead to, forward or back."""
        for pair in self.rotations * len(self.rotations):
            keys = keys + [key for key in pair if key not in keys and set(pair) & set(keys)]
        return keys

    def conclude(self, claims: list[Any], texts: dict[str, bytes]) -> None:
        """Judge what only the whole shows; `texts` gives the bytes of each kept text."""
        for (code, note, when), (origin, size, root) in claims:
            here, before, after = self.seen.get(size, (None, 0, FOREVER))
            signers = [keys for start, keys in self.eras if start < size][-1:] or [self.chain]
            need(origin == self.origin and signed_text(note, signers[0]), code)
            gone = size <= self.size and here is None  # pruned
            lost = not gone and here != root and any(a < size <= b for a, b in self.lost)
            need(not lost, "records_lost", size, INCOMPLETE)
            need(lost or size <= self.size, "rolled_back", size)
            need(gone or lost or here == root, code, size)
            need(not gone, "not_comparable", size, OK)
            timely = not when or before - LATE <= when <= after + LATE
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


def claims_of(folder: Path, args: Any) -> Iterator[tuple[str, str, int]]:
    """What is held: the code if it is wrong, a note, and when it was seen (0: nobody knows)."""
    for given in args.prior:
        yield "prior_mismatch", text_of(given), 0
    for given in args.receipt:
        for line in (given if given.count(";") == 4 else text_of(given)).split():
            origin, seq, size, root, blob = line.split(";")
            text = f"{origin}\n{int(size)}\n{base64_of(bytes.fromhex(root))}\n"
            need(0 <= int(seq) < int(size), "receipt_mismatch")
            yield "receipt_mismatch", f"{text}\n\u2014 {origin} {blob}\n", 0
    for given, witness in zip(args.cosignature, args.witness):
        [key], (text, signatures) = vkeys_in([witness], 4), split_note(note := text_of(given))
        blobs = [blob[4:] for name, blob in signatures if key[:2] == (name, blob[:4])]
        for when, blob in (timed := [(int.from_bytes(blob[:8], "big"), blob) for blob in blobs]):
            good = verifies(key[2], f"cosignature/v1\ntime {when}\n{text}".encode(), blob[8:])
            need(good, "cosignature_bad", given)
        yield "fork", note, min(timed)[0] * 10**6
    for given in args.tsr:  # RFC 3161, over the bytes of the checkpoint file of the same name
        near = Path(given).with_suffix(".checkpoint")
        near = near if near.exists() else folder / "anchors" / near.name
        check = ["-verify", "-data", str(near), "-in", given, "-CAfile", args.tsa_ca]
        both = [["openssl", "ts", *each] for each in (check, ["-reply", "-in", given, "-text"])]
        if not shutil.which("openssl"):
            need(False, "stamp_unchecked", given, INCOMPLETE)
            continue
        done = [subprocess.run(each, capture_output=True, check=False) for each in both]
        told = re.findall(r"Time stamp: (\w+ +\d+ [\d:]+)(?:\.\d+)? (\d+) GMT", str(done[1].stdout))
        need(told and not done[0].returncode, "stamp_bad", given)
        time = datetime.strptime(" ".join(*told) + " +0000", "%b %d %H:%M:%S %Y %z")
        yield "prior_mismatch", text_of(near), int(time.timestamp()) * 10**6
    for path in [*folder.glob("HEAD"), *sorted(folder.glob("anchors/*.checkpoint"))]:
        AT[:] = f"{'head' if path.name == 'HEAD' else 'prior'}_mismatch", path.name, TAMPERED
        yield AT[0], text_of(path), 0


# -- a directory, or a bundle: some records of some logs, each with its proof ----------------------
def identity_in(raw: bytes) -> Record:
    told: Record = json.loads(raw)
    names = [key[0] for key in vkeys_in(told["vkeys"])]
    need(names and names == [told["origin"]] * len(told["vkeys"]))
    return told


def verify_directory(folder: Path, args: Any, given: list[Key]) -> Iterator[Log]:
    claims = [(claim, checkpoint_in(claim[1])) for claim in claims_of(folder, args)]
    about = folder / "log.json"
    need((folder / "HEAD").exists(), "head_missing", None, INCOMPLETE)
    need(about.exists(), "log_json_missing", None, INCOMPLETE)
    need(FastKey is not None, "signatures_not_checked", None, OK)
    files = sorted(folder.glob(f"segments/{'[0-9]' * 20}.jsonl"))
    AT[:] = "empty", None, INCOMPLETE
    with files[0].open("rb") as file:
        lines = file.read(1 << 20).split(b"\n")
    record, AT[:] = record_in(lines[0]), ("log_json_changed", None, TAMPERED)
    genesis = part(record, "ext") if record.get("type") == "genesis" else {}
    identity = identity_in(about.read_bytes()) if about.exists() else genesis
    need(record.get("type") != "genesis" or {**identity, "vkeys": identity["vkeys"][:1]} == genesis)
    need(identity.get("schema", 2) == 2, "unknown_schema", None, USAGE)
    keys, AT[:] = vkeys_in(identity.get("vkeys")) + given, ("key_missing", None, INCOMPLETE)
    note = next(filter(None, map(note_in, lines)), "")
    signers = [key for key in keys if signed_text(note, [key])]
    # Record 0 names the key that signed it; a later one shows by what it signed.
    log = Log({**genesis, "origin": keys[0][0]}, (keys if genesis else signers + keys)[:1])
    yield log
    log.wanted = {size for _, (_, size, _) in claims}
    AT[:] = "segment_missing", 0, INCOMPLETE
    if int(files[0].stem):  # what was before may have been pruned
        seals = folder.glob("segments/*.seal")
        log.seal(max(path for path in seals if path.stem < files[0].stem), "")
    begun, log.eras = (log.size, log.previous), [(log.size, log.keys)]
    large = sum(path.stat().st_size for path in files) > LARGE
    with multiprocessing.Pool(2) if large else contextlib.nullcontext() as pool:
        for path in files:
            AT[:] = "segment_missing", log.size, INCOMPLETE
            need(int(path.stem) == log.size)
            AT[:] = "record_changed", log.size, TAMPERED
            log.segment(path, path == files[-1], pool.imap if pool else map)
    log.chain = log.reached(log.chain + log.keys)
    log.seen[log.size] = (log.root(), log.ts, FOREVER)
    texts = [path for path in folder.glob("texts/*") if path.name in log.texts and path.is_file()]
    log.conclude(claims, {path.name: path.read_bytes() for path in texts})
    pruned = ("pruned", begun[0], OK) if begun in log.pruned else ("segment_missing", 0, INCOMPLETE)
    need(not begun[0], *pruned)
    need(set(given) <= set(log.chain), "key_unknown")
    if args.log_id:
        need(genesis, "log_id_unknown", None, INCOMPLETE)
        need(not genesis or sha256(b"\x00" + lines[0]).digest() == args.log_id, "log_id_mismatch")


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
    said = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    need(said.encode() + b"\n" == raw and {*files} <= {*manifest["files"]})
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
    identity, note, here = identity_in(files["log.json"]), files["checkpoint"].decode(), set[int]()
    log = Log(identity, [], here)
    origin, size, log.head = checkpoint_in(note)
    need(origin == log.origin)
    for seq in sorted({int(name[8:28]) for name in files if name[:8] == "records/"}):
        AT[:] = "record_changed", seq, TAMPERED
        line, shown = (files.get(f"records/{seq:020d}.{end}") for end in ("json", "tlog-proof"))
        need(line and shown, "proof_missing", seq, INCOMPLETE)
        if line and shown:
            record, (text, _, end) = record_in(line), shown.decode().partition("\n\n")
            leaf, proof = sha256(b"\x00" + line).digest(), [*map(unbase64, text.split("\n")[2:])]
            wanted = ["c2sp.org/tlog-proof@v1", f"index {seq}", *map(base64_of, proof)]
            need((text.split("\n"), end) == (wanted, note))
            need(record["seq"] == seq and root_from(leaf, seq, size, proof) == log.head)
            log.look(record, 0)
            here.add(seq)
    known = [key for key in given or vkeys_in(identity["vkeys"])[:1] if key[0] == origin]
    keys = log.reached(known)
    need(keys, "key_missing", None, INCOMPLETE)
    need(not keys or signed_text(note, keys), "key_unknown")
    names = [name for name in files if name[:8] == "anchors/"]
    need(all(name[8:].split(".")[0] == str(size) for name in names), "anchor_changed")
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
    path, given, bundle = args.path, vkeys_in(args.vkey), args.path.is_file()
    held = [*args.prior, *args.receipt, *args.cosignature, *args.tsr, args.log_id]
    if len(args.cosignature) != len(args.witness) or (args.tsr and not args.tsa_ca):
        parser.error("each --cosignature needs its --witness, and --tsr needs --tsa-ca")
    if bundle and any(held):
        parser.error("a bundle is compared with nothing but --vkey")
    AT[:], FOUND[:] = ("wrongly_called", str(path), USAGE), []
    try:
        need(len(given) + len(vkeys_in(args.witness, 4)) == len(args.vkey + args.witness))
        named = [path / name for name in ("log.json", "segments", "HEAD", "LOCK")]
        need(bundle or any(each.exists() for each in named))
        logs.extend(verify_bundle(path, given) if bundle else verify_directory(path, args, given))
    except Exception as error:  # whatever is odd about it: it is not what was written
        if type(error) in (OSError, PermissionError, FileNotFoundError) and path.is_dir():
            AT[:] = "wrongly_called", str(error), USAGE
        FOUND.append(dict(zip(("code", "seq", "means"), AT)))
    status = next(each for each in STATUS if each in [OK, *(found["means"] for found in FOUND)])
    said: Record = {"status": status, "records": sum(log.read for log in logs)}
    said["origin"], said["root"] = (logs[0].origin, logs[0].head.hex()) if logs else ("", "")
    said["findings"] = [found for found in FOUND if found["means"] != OK]
    said["notes"] = [found for found in FOUND if found["means"] == OK]
    lines = [f"{status}: {said['records']} records read, root {said['root'] or 'unknown'}"]
    lines += [f"{found['means']}: {found['code']} at {found['seq']!a}" for found in FOUND]
    print(json.dumps(said) if args.json else "\n".join(lines))
    return {USAGE: 3, TAMPERED: 1, INCOMPLETE: 2, OK: 0}[status]


if __name__ == "__main__":
    sys.exit(main())
