#!/usr/bin/env python3
# fmt: off
# ruff: noqa
# mypy: ignore-errors
"""Check a ledger, or a proof bundle from one, with nothing but Python's standard library.

A record is one line of JSON that names the hash of the line before it; these hashes are the leaves
of one Merkle tree; a checkpoint is a signed note with the number of records and the root of that
tree. So a good checkpoint vouches for every byte before it, and what you hold outside of the log
(key, receipt, checkpoint, cosignature, time stamp) vouches that it still is the log it was. Nothing
is believed that is not recomputed here. Published signatures (HEAD, seals, anchors, the last of a
segment, those you give) are always verified; those after each batch too if `cryptography` is
installed, else the first SLOW_CHECKS: one takes 3 ms. FORMAT.md has the bytes and what each finding
means. Exit code: 0 intact, 1 tampered with, 2 incomplete, 3 wrongly called. Changes nothing.
"""
import argparse, base64, calendar, collections, gc, hashlib, json, os, pathlib  # noqa: E401
import re, subprocess, sys, time, zipfile  # noqa: E401
from itertools import takewhile
try:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey as FastKey
except Exception:  # not installed, or broken: then it is not used
    FastKey = None

EXIT = {"ok": 0, "tampered": 1, "incomplete": 2, "usage": 3}
WRONG_CALL = set("""bad_vkey bad_evidence no_such_path not_a_ledger not_a_bundle unreadable
 unknown_schema""".split())
MISSING = set("""checkpoint_missing empty file_missing head_missing key_missing log_id_unknown
 log_json_missing proof_missing records_lost request_unanswered seal_missing segment_missing
 stamp_unchecked text_missing time_contradicted torn_tail unsigned_tail""".split())
TYPES = set("""genesis start stop request outcome deny gate_open gate_decision delegate revoke
 policy_set config_set key_rotate seal anchor erase hold export recover clock_step heartbeat gap
 journal""".split())
SEAL = "first last size root sha256 previous tip ts frontier open".split()
SEAL_STATE = "size tip ts open peaks".split()
SLOW_CHECKS, MAX_PENDING, SMALL = 300, 8192, 1 << 20
TOLERANCE = 600 * 10**6  # how far apart two clocks may be, in microseconds
Key = collections.namedtuple("Key", "name id public")
sha256, CP = hashlib.sha256, b'{"cp":"'
LIKE_CHECKPOINT = re.compile(rb'^.?\{?"?cp"|^\{"..":"|\xe2\x80\x94 [^ ]+ [A-Za-z0-9+/]{80}', re.S)

class Bad(ValueError):
    """Something that is not what it should be; always caught in this file."""

class Report:
    """What was found, as {(code, record number): more}, and notes, which change nothing."""
    def __init__(self):
        self.found, self.notes, self.worst = {}, {}, set()
    def say(self, code, seq=None, more="", missing=False):
        missing = missing or code in MISSING
        self.worst.add("usage" if code in WRONG_CALL else "incomplete" if missing else "tampered")
        if len(self.found) < 200:
            self.found.setdefault((code, seq), str(more))
    def note(self, code, seq=None, more=""):
        if len(self.notes) < 200:
            self.notes.setdefault((code, seq), str(more))
    def status(self):
        return [s for s in ("usage", "tampered", "incomplete", "ok") if s in self.worst | {"ok"}][0]

# -- JSON in its one canonical form ----------------------------------------------------------------
def refuse(text):
    raise Bad("a number that is not whole")

DECODE = json.JSONDecoder(parse_float=refuse, parse_constant=refuse).raw_decode
ENCODE = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
DIGITS = bytes(48 if 48 <= n < 58 else 58 if chr(n) in ":,[-" else n for n in range(256))

def too_big(value):
    inner = value.values() if type(value) is dict else value if type(value) is list else ()
    return abs(value) >= 2**53 if type(value) is int else any(map(too_big, inner))

def exact(line):
    """The value of a line of canonical JSON: it is read, written again, and compared."""
    try:
        value, end = DECODE(line.decode())
        if ENCODE(value).encode() == line and not too_big(value):
            return value
    except (ValueError, RecursionError):
        pass
    raise Bad("not canonical JSON")

def exact_record(line):
    record = exact(line)
    if type(record) is dict and {type(record.get(n)) for n in ("v", "seq", "ts")} == {int}:
        prev, good = record.get("prev"), record["v"] == 1 and min(record["seq"], record["ts"]) >= 0
        if good and type(prev) is str and len(prev) == 64 and record.get("type") in list(TYPES):
            return record
    raise Bad("not a record")

def records_of(lines):
    """The records of a batch. Writing each again to compare would take half of the time, so four
    cheap questions come first that a canonical batch nearly always answers with yes."""
    records = []
    for line in lines:
        record, end = DECODE(line.decode())
        if end != len(line) and line.isascii():
            raise Bad("more than one value")
        records.append(record)
    objects = records + [v for r in records for v in r.values() if type(v) is dict]
    block = b"\n".join(lines)
    plain = block.isascii() and not any(c in block for c in (b" ", b"\\", b"\t", b"\r"))
    # As many names in the bytes as in the values: no name twice, no object deeper inside.
    once = block.count(b'":') == sum(map(len, objects))
    ordered = all(list(names) == sorted(names) for names in {tuple(o) for o in objects})
    # The only whole number with 16 digits or more is the time of each record.
    small = block.translate(DIGITS).count(b":" + b"0" * 16) == len(lines)
    small = small and all(10**15 <= r["ts"] < 2**53 for r in records)
    return records if plain and once and ordered and small else list(map(exact_record, lines))

# -- signed notes ----------------------------------------------------------------------------------
def unbase64(text):
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raise Bad("not base64") from None
    if base64.b64encode(raw).decode() != text:
        raise Bad("not the one base64 form")
    return raw

def parse_vkey(text, kind=1):
    """A public key with its name; `kind` is 1 for a log, 4 for a witness."""
    name, key_id, blob = (text.strip().split("+", 2) + ["", ""])[:3] if type(text) is str else "   "
    raw = unbase64(blob)
    good_id = sha256(name.encode() + b"\n" + raw).digest()[:4]
    fits = len(raw) == 33 and raw[0] == kind and key_id == good_id.hex()
    if not name or re.search(r"\s", name) or not fits:
        raise Bad("not a vkey")
    return Key(name, good_id, raw[1:])

def split_note(note):
    """The text of a note, and its signatures as (name, key id and signature)."""
    text, gap, rest = note.rpartition("\n\n")
    lines = [re.fullmatch("\u2014 ([^\\s+]+) ([^ ]+)", line) for line in rest[:-1].split("\n")]
    if not gap or rest[-1:] != "\n" or len(note) > 65536 or not all(lines) or len(lines) > 100 \
            or re.search(r"[\x00-\x09\x0b-\x1f]", note):
        raise Bad("not a note")
    return text + "\n", [(line[1], unbase64(line[2])) for line in lines]

def parse_checkpoint(note):
    """Origin, size and root of a checkpoint, signed or not yet verified."""
    match = re.match("([^\n]+)\n(0|[1-9][0-9]{0,15})\n([^\n]+)\n(\n|$)", note)
    root = unbase64(match[3]) if match else b""
    if len(root) != 32 or (match[4] and split_note(note)[0] != match[0][:-1]):
        raise Bad("not a checkpoint")
    return match[1], int(match[2]), root

def checkpoint_text(origin, size, root):
    return "%s\n%d\n%s\n" % (origin, size, base64.b64encode(root).decode())

def note_in(line):
    value = exact(line)
    if type(value) is not dict or list(value) != ["cp"] or type(value["cp"]) is not str:
        raise Bad("not a checkpoint line")
    return value["cp"]

# -- Ed25519 (RFC 8032), enough to verify ----------------------------------------------------------
P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P

def point_add(a, b):
    """The sum of two points given as (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z."""
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    x, y, z, t = f - e, f + e, h - g, h + g
    return x * z % P, t * y % P, z * t % P, x * y % P

def point_times(n, point):
    result = (0, 1, 1, 0)
    while n:
        result = point_add(result, point) if n & 1 else result
        point, n = point_add(point, point), n >> 1
    return result

def point_of(raw):
    sign, y = divmod(int.from_bytes(raw, "little"), 2**255)
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x2, (P + 3) // 8, P)
    x = x if (x * x - x2) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - x2) % P or (x == 0 and sign):
        raise Bad("not a point")
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P

BASE = point_of((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))

def ed25519_verify(public, message, signature):
    try:
        a, r = point_of(public), point_of(signature[:32])
    except Bad:
        return False
    s = int.from_bytes(signature[32:], "little")
    h = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % ORDER
    left, right = point_times(s, BASE), point_add(r, point_times(h, a))
    same = [(left[i] * right[2] - right[i] * left[2]) % P == 0 for i in (0, 1)]
    return len(signature) == 64 and s < ORDER and all(same)

def verifies(key, message, signature):
    if FastKey is None:
        return ed25519_verify(key.public, message, signature)
    try:
        return FastKey.from_public_bytes(key.public).verify(signature, message) is None
    except Exception:
        return False

def signed_by(note, keys, every=True, check=verifies):
    """The text of a note that all (or any) of `keys` signed; others' signatures do not matter."""
    text, signatures = split_note(note)
    done = set()
    for name, blob in signatures:
        for key in [k for k in keys if (k.name, k.id) == (name, blob[:4])]:
            if not check(key, text.encode(), blob[4:]):
                raise Bad("a signature that does not fit")
            done.add(key)
    if not done or (every and done != set(keys)):
        raise Bad("not signed by the key")
    return text

def rotation(record, name):
    """The old and the new key of a key_rotate record that both signed, or None."""
    try:
        ext = record["ext"]
        old, new = parse_vkey(ext["old"]), parse_vkey(ext["new"])
        text = "%s/key-rotate\n%d\n%s\n" % (name, record["seq"], ext["new"])
        good = signed_by(ext["note"], [old, new]) == text and new.name == name
        return (old, new) if good else None
    except (Bad, KeyError, TypeError, AttributeError):
        return None

# -- the Merkle tree (RFC 6962) --------------------------------------------------------------------
def leaf_hash(line):
    return sha256(b"\x00" + line).digest()

def node_hash(left, right):
    return sha256(b"\x01" + left + right).digest()

def grow(size, peaks, leaves):
    """Add leaves to a tree that is known by its size and the roots of its perfect subtrees."""
    peaks, level, bits, grown = list(peaks), list(leaves), size, []
    while level or bits:
        if bits & 1:
            level.insert(0, peaks.pop())
        if len(level) & 1:
            grown.append(level.pop())
        level = [sha256(b"\x01" + a + b).digest() for a, b in zip(level[::2], level[1::2])]
        bits >>= 1
    return peaks + grown[::-1]

def root_of(peaks):
    root = peaks[-1] if peaks else sha256(b"").digest()
    for peak in peaks[-2::-1]:
        root = node_hash(peak, root)
    return root

def root_from(leaf, index, size, proof):
    """The root that an inclusion proof gives for the leaf at `index` of `size`."""
    if not 0 <= index < size or (size == 1) == bool(proof):
        raise Bad("a proof of the wrong length")
    if size == 1:
        return leaf
    half = 1 << (size - 1).bit_length() - 1
    if index < half:
        return node_hash(root_from(leaf, index, half, proof[:-1]), proof[-1])
    return node_hash(proof[-1], root_from(leaf, index - half, size - half, proof[:-1]))

# -- what records say ------------------------------------------------------------------------------
class Rules:
    """Judges records in order: two phases, gates, policies, times."""
    def __init__(self, report):
        self.say, self.note, self.partial, self.running = report.say, report.note, False, False
        self.open, self.gates, self.policies, self.texts = set(), {}, set(), {}
        self.ts, self.kind, self.every, self.lost, self.pruned = 0, "", 0, [], []

    def batch(self, records):
        """What `look` does, quickly when there are only requests, outcomes and known policies."""
        policies = [r["policy"] for r in records if "policy" in r]
        plain = not self.every and {r["type"] for r in records} <= {"request", "outcome"}
        times = [self.ts] + [r["ts"] for r in records]
        plain = plain and times == sorted(times) and all(type(p) is dict for p in policies)
        plain = plain and {str(p.get("digest")) for p in policies} <= self.policies
        look = self.pair if plain and not any("gate" in r for r in records) else self.look
        for record in records:
            look(record)
            self.ts, self.kind = record["ts"], record["type"]

    def pair(self, record):
        seq, kind, ref = record["seq"], record["type"], record.get("ref")
        if kind == "request":
            self.open.add(seq)
        elif kind == "outcome" and type(ref) is int and ref in self.open:
            self.open.discard(ref)
        elif kind == "outcome" and not self.partial:
            self.say("outcome_unpaired", seq)

    def look(self, record):
        kind, seq, ts = record["type"], record["seq"], record["ts"]
        ext, policy, gate, action = (value if type(value) is dict else {} for value in
                                     map(record.get, ("ext", "policy", "gate", "action")))
        if ts < self.ts and kind != "clock_step":
            self.say("clock_decreased", seq)
        if self.every and ts - self.ts > 3 * self.every and self.kind != "stop" \
                and kind not in ("start", "recover"):
            self.note("silence", seq, "%d s" % ((ts - self.ts) // 10**6))
        if kind == "start" and self.running:
            self.note("unclean_stop", seq)
        self.running = kind == "start" or (self.running and kind != "stop")
        self.pair(record)
        if kind == "heartbeat":
            self.every = ext["every_us"] if type(ext.get("every_us")) is int else 0
        elif kind == "recover" and type(ext.get("lost_from")) is type(ext.get("committed")) is int:
            self.lost.append((ext["lost_from"], ext["committed"]))
        elif kind == "erase" and action.get("kind") == "prune":
            self.pruned.append(ext)
        digest = ext.get("digest") if kind == "config_set" else policy.get("digest")
        if kind == "policy_set":
            self.policies.add(str(digest))
        elif policy.get("decision") and digest and str(digest) not in self.policies:
            self.say("policy_unknown", seq) if not self.partial else None
        if kind in ("policy_set", "config_set") and type(digest) is str:
            self.texts.setdefault(digest, seq)
        if gate:
            name = str(record.get("run")), str(gate.get("id"))
            self.gate(kind, seq, name, gate.get("state"), action.get("args_c"))

    def gate(self, kind, seq, name, state, shown):
        opened, decided = self.gates.get(name, (None, None))
        if kind == "gate_open":
            self.gates[name] = (shown, None)
        elif name not in self.gates:
            if (kind == "gate_decision" or state == "approved") and not self.partial:
                self.say("gate_unopened", seq)
        elif kind == "gate_decision":
            if decided:
                self.say("gate_decided_twice", seq)
            elif state == "approved" and shown and shown != opened:
                self.say("gate_changed", seq)
            self.gates[name] = (opened, decided or state or "decided")
        elif (kind == "request" or state == "approved") and decided != "approved":
            self.say("gate_not_approved", seq)

# -- following one log -----------------------------------------------------------------------------
class Log:
    """Takes the lines of a log in order. `size`, `tip`: how many records, hash of the last one;
    `base`, `peaks`: the tree at the last good checkpoint, `leaves`, `pending`: what came since."""
    def __init__(self, report, keys):
        self.report, self.say, self.rules = report, report.say, Rules(report)
        self.eras, self.origin, self.root = [(0, keys)], keys[0].name if keys else "", b""
        self.records, self.unchecked, self.signed, self.note = 0, 0, 0, ""
        self.watch, self.seen, self.seal_key, self.next_seal_key = [], {}, None, None
        self.start(0, [], "0" * 64)

    def start(self, size, peaks, tip):
        self.size, self.base, self.peaks, self.tip = size, size, peaks, tip
        self.leaves, self.pending, self.suspect, self.unread = [], [], False, 0

    def lose(self, size, tip=None):
        """Go on with links and signatures alone; the tree is known again at the next seal."""
        self.size, self.tip, self.peaks, self.rules.partial = size, tip, None, True

    def keys_at(self, size):
        return [keys for start, keys in self.eras if start <= size][-1]

    def check(self, key, message, signature):
        """Verify a signature that is not published, unless that would take too long."""
        self.unchecked += FastKey is None
        if self.unchecked > SLOW_CHECKS:
            return len(signature) == 64
        return verifies(key, message, signature)

    def rotate(self, record):
        seq, pair = record["seq"], rotation(record, self.origin)
        keys = self.keys_at(seq + 1)
        if not pair or pair[0] != keys[-1]:
            return self.say("key_rotation_bad", seq)
        self.eras.append((seq + 1, keys + [pair[1]]))

    def batch(self, lines, mark):
        """Take a batch and its checkpoint line; line by line unless all is as it should be."""
        if self.pending or self.suspect or not lines or not self.fast(lines, mark):
            for line in lines:
                self.line(line)
            self.checkpoint(mark)

    def fast(self, lines, mark):
        try:
            records = records_of(lines)
            leaves = [sha256(b"\x00" + line).digest() for line in lines]
            times, kinds = [r["ts"] for r in records], {r["type"] for r in records}
            numbers = list(range(self.size, self.size + len(lines)))
            good = [r["prev"] for r in records] == [self.tip] + [leaf.hex() for leaf in leaves[:-1]]
            good = good and [r["seq"] for r in records] == numbers
            good = good and {r["v"] for r in records} == {1}
            good = good and {type(r[n]) for r in records for n in ("v", "seq", "ts")} == {int}
            good = good and kinds <= TYPES - {"key_rotate"} and self.peaks is not None
            if not good or times[0] < self.rules.ts or times != sorted(times):
                return False
            peaks, note = grow(self.size, self.peaks, leaves), note_in(mark)
            text = checkpoint_text(self.origin, self.size + len(lines), root_of(peaks))
            if signed_by(note, self.keys_at(self.size + len(lines)), check=self.check) != text:
                return False
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return False
        self.pending, self.leaves = records, leaves
        self.accept(peaks, note)
        self.records += len(lines)
        return True

    def accept(self, peaks, note):
        """Take the pending records, which a good checkpoint covers."""
        records, size = self.pending, self.base + len(self.leaves)
        self.rules.batch(records)
        while self.watch and self.watch[-1] < self.base:
            self.watch.pop()
        for at in [n - self.base for n in takewhile(lambda n: n <= size, reversed(self.watch))]:
            root = root_of(grow(self.base, self.peaks, self.leaves[:at]))
            old = self.seen.get(self.base + at)
            times = [old and old[1]] + [r["ts"] for r in records] + [old and old[2]]
            self.seen[self.base + at] = (root, times[at], times[at + 1])
        if records:
            ext, seal = records[-1].get("ext"), records[-1]["type"] == "seal"
            self.next_seal_key = ext.get("next_key") if seal and type(ext) is dict else None
        self.start(size, peaks, self.leaves[-1].hex() if records else self.tip)
        self.note, self.signed, self.root = note, size, root_of(peaks)

    def line(self, line):
        try:
            record = exact_record(line)
        except Bad:
            mark = LIKE_CHECKPOINT.search(line)
            self.say("checkpoint_unreadable" if mark else "record_changed", self.size)
            self.unread += not mark
            return self.lose(self.size)
        seq, linked, known = record["seq"], record["prev"] == self.tip, self.tip is not None
        if self.suspect or (seq == self.size and known and not linked):
            code = "tree_mismatch" if self.suspect and linked else "record_changed"
            self.say(code, max(self.size - 1, 0))
        self.suspect = False
        if seq != self.size and not (known and linked):
            if seq < self.size:
                self.report.found.pop(("record_missing", seq), None)
                return self.say("record_out_of_order", seq)
            self.say("record_missing", self.size) if seq > self.size + self.unread else None
        elif seq != self.size:
            self.say("record_changed", self.size)
            seq = self.size
        if seq != record["seq"] or seq != self.size or not linked:
            self.lose(seq, self.tip)
        self.unread = 0
        if record["type"] == "key_rotate":
            self.rotate(record)
        self.leaves.append(leaf_hash(line))
        self.pending.append(record)
        self.size, self.tip, self.records = self.size + 1, self.leaves[-1].hex(), self.records + 1
        if len(self.pending) > MAX_PENDING:
            self.lose(self.size, self.tip)
            self.leaves, self.pending = [], []

    def checkpoint(self, line):
        last = max(self.size - 1, 0)
        try:
            note = note_in(line)
            origin, size, root = parse_checkpoint(note[: note.find("\n\n") + 1])
        except Bad:
            return self.say("checkpoint_unreadable", last)
        try:
            signed_by(note, self.keys_at(size), check=self.check)
        except Bad:
            return self.say("checkpoint_signature", last)
        if origin != self.origin or size < self.size:
            kind = "of_another_log" if origin != self.origin else "out_of_order"
            return self.say("checkpoint_" + kind, last)
        if size > self.size:
            self.say("record_missing", self.size) if size > self.size + self.unread else None
            self.lose(size)
        self.unread = 0
        peaks = self.peaks is not None and grow(self.base, self.peaks, self.leaves)
        if self.peaks is not None and root_of(peaks) == root:
            return self.accept(peaks, note)
        self.suspect = self.peaks is not None
        self.lose(size, self.tip)
        self.leaves, self.pending, self.note, self.signed, self.root = [], [], note, size, root
        if size in self.watch:
            self.seen.setdefault(size, (root, None, None))

def head_of(log, note):
    """The checkpoint in HEAD if the log signed it."""
    try:
        head = parse_checkpoint(note)
        return head if signed_by(note, log.keys_at(head[1]), every=False) else None
    except Bad:
        return None

def walk(log, path, end, head_note):
    """Follow one segment file up to `end`; return its hash. HEAD may sign the end as well."""
    digest, group, rest = sha256(), [], b""
    with open(path, "rb") as file:
        while end > 0:
            chunk = file.read(min(SMALL, end))
            end = end - len(chunk) if chunk else 0
            digest.update(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                group.append(line)
                if line.startswith(CP) or len(group) > MAX_PENDING:
                    log.batch(group[:-1], group[-1])
                    group = []
            rest = rest[: 1 << 17]
    for line in group:
        log.line(line)
    if rest:
        torn = not rest.startswith(CP) or log.checkpoint(rest) or log.pending
        log.say("torn_tail" if torn else "line_break_removed", log.size)
    if log.unread:
        log.lose(log.size + 1)
    last, head = max(log.size - 1, 0), head_of(log, head_note)
    if log.suspect:
        log.say("record_changed", last)
    elif log.pending and head and head[1] == log.size and log.peaks is not None:
        peaks = grow(log.base, log.peaks, log.leaves)
        log.say("checkpoint_missing" if root_of(peaks) == head[2] else "record_changed", last)
        log.accept(peaks, "") if root_of(peaks) == head[2] else None
    elif log.pending:
        log.rules.batch(log.pending)
    return digest.hexdigest()

# -- seals -----------------------------------------------------------------------------------------
def parse_seal(note, keys, segment_key=None):
    """What a seal signed by one of the log's keys, and by its segment's key if known, says."""
    lines = signed_by(note, keys, every=False).split("\n")
    seal = dict(line.partition(" ")[::2] for line in lines[1:-1])
    if segment_key:
        signed_by(note, [segment_key])
    if list(seal) != SEAL or lines[0] != keys[0].name + "/segment" or len(lines) != len(SEAL) + 2:
        raise Bad("not a seal")
    seal["peaks"] = [unbase64(peak) for peak in seal["frontier"].split(",") if peak]
    seal.update({name: int(seal[name]) for name in ("first", "size", "ts")})
    seal["open"] = {int(number) for number in seal["open"].split(",") if number}
    if root_of(seal["peaks"]) != unbase64(seal["root"]):
        raise Bad("not a seal")
    return seal

def check_seal(log, first, note, file_hash, previous):
    """Compare a seal with its segment; return the hash that the next seal must name."""
    try:
        seal = parse_seal(note, log.keys_at(log.size), log.seal_key)
    except ValueError:
        seal = {"first": None}
    if seal["first"] != first:
        return log.say("seal_changed", None, first)
    here = (log.size, log.tip, log.rules.ts, log.rules.open, log.peaks)
    if seal["sha256"] != file_hash:
        log.say("segment_changed", None, first)
    elif log.peaks is not None and here != tuple(map(seal.get, SEAL_STATE)):
        log.say("seal_mismatch", None, first)
    if previous not in (None, seal["previous"]):
        log.say("seal_mismatch", None, first)
    resume(log, seal) if log.peaks is None else None
    return sha256(note.encode()).hexdigest()

def resume(log, seal):
    log.start(seal["size"], seal["peaks"], seal["tip"])
    log.rules.ts, log.rules.open, log.signed = seal["ts"], seal["open"], seal["size"]

# -- what is known from outside of the log ---------------------------------------------------------
def read(path):
    with open(path, "rb") as file:
        return file.read(SMALL).decode()

def note_claim(code, note, cosigner=None):
    """A claim is (code, size, root, test(keys), time): that the log once signed this root."""
    (origin, size, root), (text, signatures), when = parse_checkpoint(note), split_note(note), None
    for name, blob in signatures:
        if cosigner and (name, blob[:4]) == (cosigner.name, cosigner.id) and len(blob) == 76:
            seconds = int.from_bytes(blob[4:12], "big")
            message = "cosignature/v1\ntime %d\n%s" % (seconds, text)
            when = seconds * 10**6 if verifies(cosigner, message.encode(), blob[12:]) else None
    if cosigner and when is None:
        return "cosignature_bad", size, root, lambda keys: False, None
    def test(keys):
        return signed_by(note, keys, False) and origin == keys[0].name
    return code, size, root, test, when

def run_receipt_claim(note):
    name, content = split_note(note)[0].split("\n")[:2]
    said = json.loads(content)
    def test(keys):
        return signed_by(note, keys, False) and name == keys[0].name + "/run-receipt"
    return "receipt_mismatch", int(said["size"]), bytes.fromhex(said["root"]), test, None

def receipt_claim(text):
    origin, seq, size, root, blob = text.strip().split(";")
    text, blob = checkpoint_text(origin, int(size), bytes.fromhex(root)), unbase64(blob)
    def test(keys):
        return any(blob[:4] == key.id and verifies(key, text.encode(), blob[4:]) for key in keys) \
            and origin == keys[0].name and 0 <= int(seq) < int(size)
    return "receipt_mismatch", int(size), bytes.fromhex(root), test, None

def stamp_claim(report, stamp, folder, authority):
    """An RFC 3161 time stamp over the bytes of the checkpoint file of the same name."""
    near = pathlib.Path(stamp).with_suffix(".checkpoint")
    near = near if near.exists() else folder / "anchors" / near.name
    command = ["openssl", "ts", "-verify", "-data", near, "-in", stamp, "-CAfile", authority]
    try:
        good = subprocess.run(command, capture_output=True).returncode == 0
        show = ["openssl", "ts", "-reply", "-in", stamp, "-text"]
        shown = subprocess.run(show, capture_output=True)
    except OSError:
        return report.say("stamp_unchecked")
    match = re.search(rb"Time stamp: (\w+ +\d+ [\d:]+)(?:\.\d+)? (\d+) GMT", shown.stdout)
    if not good or not match:
        return report.say("stamp_bad")
    when = time.strptime(b" ".join(match.groups()).decode(), "%b %d %H:%M:%S %Y")
    return note_claim("prior_mismatch", read(near))[:4] + (calendar.timegm(when) * 10**6,)

def claims_of(folder, args, report):
    for path in sorted((folder / "anchors").glob("*.checkpoint")):
        try:
            yield note_claim("prior_mismatch", read(path))
        except (OSError, ValueError):
            report.say("prior_mismatch", None, path.name)
    try:
        for path in args.prior:
            yield note_claim("prior_mismatch", read(path))
        for text in args.receipt:
            text = text if text.count(";") == 4 else read(text)
            if "\n\n" in text:
                yield run_receipt_claim(text)
            else:
                yield from map(receipt_claim, filter(str.strip, text.split("\n")))
        for path, vkey in zip(args.cosignature, args.witness):
            yield note_claim("fork", read(path), parse_vkey(vkey, 4))
        for path in args.tsr:
            claim = stamp_claim(report, path, folder, args.tsa_ca)
            yield from [claim] if claim else []
    except (OSError, ValueError, IndexError) as error:
        report.say("bad_evidence", None, error)

def judge(log, claim):
    code, size, root, test, when = claim
    lost = any(start < size <= end for start, end in log.rules.lost)
    try:
        good = test(log.keys_at(size))
    except ValueError:
        good = False
    seen = log.seen.get(size, (root, None, None))
    if not good or size > log.size or seen[0] != root:
        if good:
            code = "records_lost" if lost else "rolled_back" if size > log.size else code
        log.say(code, None, "at %d records" % size)
    elif size not in log.seen:
        log.report.note("not_comparable", None, "at %d records" % size)
    before, after = seen[1] or 0, seen[2] or when
    if good and when and (before > when + TOLERANCE or after < when - TOLERANCE):
        log.say("time_contradicted", size)

# -- a directory -----------------------------------------------------------------------------------
def identity_of(folder, report):
    """What log.json says about the log, or None."""
    try:
        identity = json.loads(read(folder / "log.json"))
        if {parse_vkey(vkey).name for vkey in identity["vkeys"]} == {identity["origin"]}:
            return identity
    except FileNotFoundError:
        return report.say("log_json_missing")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return report.say("log_json_changed")

def begin(first_file, identity, args, report):
    """The log as log.json and record 0 introduce it, and which key signed its first checkpoint."""
    genesis, note, keys = None, "", []
    with open(first_file, "rb") as file:
        for line in file.read(SMALL).split(b"\n"):
            try:
                note = note or (note_in(line) if line.startswith(CP) else "")
                record = {} if line.startswith(CP) else exact_record(line)
                if record.get("type") == "genesis" and type(record.get("ext")) is dict:
                    genesis = genesis or record["ext"]
            except Bad:
                pass
    said = [about.get("vkeys") for about in (identity, genesis) if about]
    for vkey in [vkey for vkeys in said if type(vkeys) is list for vkey in vkeys] + args.vkey:
        try:
            keys.append(parse_vkey(vkey))
            signed_by(note, keys[-1:])
            keys = keys[-1:]
            break
        except Bad:
            pass
    if identity and genesis and {**identity, "vkeys": identity["vkeys"][:1]} != genesis:
        report.say("log_json_changed", 0)
    elif (identity or genesis or {"schema": 2}).get("schema") != 2:
        report.say("unknown_schema")
    log = Log(report, keys[:1])
    log.seal_key = key_or_none((genesis or {}).get("segment_key"))
    return log

def key_or_none(text):
    try:
        return parse_vkey(text)
    except Bad:
        return None

def seal_ending_at(log, folder, seals, size):
    """Go on behind records that are missing, from the seal that ends them if it is there."""
    log.lose(size)
    for name in seals:
        try:
            note = read(folder / "segments" / name)
            seal = parse_seal(note, log.keys_at(size))
        except (OSError, ValueError):
            continue
        if seal["size"] == size:
            resume(log, seal)
            return sha256(note.encode()).hexdigest()
    return None

def verify_directory(folder, args, report):
    say, head, head_note = report.say, None, ""
    identity = identity_of(folder, report)
    try:
        head_note = read(folder / "HEAD")
        head = parse_checkpoint(head_note[: head_note.find("\n\n") + 1])
    except FileNotFoundError:
        say("head_missing")
    except (OSError, ValueError):
        say("head_changed")
    names = sorted(os.listdir(folder / "segments")) if (folder / "segments").is_dir() else []
    seals = [name for name in names if re.fullmatch(r"[0-9]{20}\.seal", name)]
    names = [name for name in names if re.fullmatch(r"[0-9]{20}\.jsonl", name)]
    if not names:
        return say("empty")
    log = begin(folder / "segments" / names[0], identity, args, report)
    say("key_missing") if not log.origin else None
    claims, previous, gaps = list(claims_of(folder, args, report)), "0" * 64, []
    watch = {claim[1] for claim in claims} | {head[1] if head else 1, 1}
    log.watch = sorted(watch, reverse=True)
    for name in names:
        first, last, path = int(name[:20]), name == names[-1], folder / "segments" / name
        if first != log.size:
            missing_from = log.size
            previous = seal_ending_at(log, folder, seals, first)
            gaps.append((missing_from, first, previous))
            log.seal_key = None
        sealed = name[:20] + ".seal" in seals
        file_hash = walk(log, path, path.stat().st_size, head_note if last else "")
        try:  # the last checkpoint of a segment is a published one
            signed_by(log.note, log.keys_at(log.signed)) if log.note else None
        except Bad:
            say("checkpoint_signature", log.signed - 1)
        if sealed:
            note = path.with_suffix(".seal").read_bytes().decode("utf-8", "replace")
            previous = check_seal(log, first, note, file_hash, previous)
        elif not last:
            previous = say("seal_missing", None, first)
        if sealed or not last:
            log.eras.append((log.size + 1, log.keys_at(log.size + 1)[-1:]))
            log.seal_key = key_or_none(log.next_seal_key)
    conclude(log, head, head_note, gaps, folder, args)
    for claim in claims:
        judge(log, claim)
    return log

def conclude(log, head, head_note, gaps, folder, args):
    say, note, rules = log.say, log.report.note, log.rules
    for start, end, digest in gaps:
        pruned = (end, digest) in [(p.get("size"), p.get("seal_sha256")) for p in rules.pruned]
        note("pruned", end) if start == 0 and digest and pruned else say("segment_missing", start)
    root = log.seen.get(head[1], (None,))[0] if head else None
    if head and not head_of(log, head_note):
        say("head_changed")
    elif head and head[1] > log.size:
        say("records_removed", log.size)
    elif head and (root and root != head[2] or not root and not log.report.found):
        say("head_mismatch", head[1] - 1)
    if log.size > log.signed:
        say("unsigned_tail", log.signed)
    if log.size == 0:
        say("empty")
    for seq in sorted(rules.open):
        note("request_unanswered", seq) if rules.partial else say("request_unanswered", seq)
    for digest, seq in rules.texts.items():
        check_text(log.report, digest, seq, (folder / "texts" / digest).read_bytes
                   if re.fullmatch("[0-9a-f]{64}", digest) else None)
    known = {key for _, keys in log.eras for key in keys}
    for vkey in args.vkey:
        say("key_unknown") if parse_vkey(vkey) not in known else None
    if args.log_id:
        first = log.seen.get(1, (None,))[0]
        say("log_id_unknown" if first is None else "log_id_mismatch") \
            if first is None or first.hex() != args.log_id.lower() else None
    if FastKey is None and log.unchecked > SLOW_CHECKS:
        note("signatures_not_checked", None, log.unchecked - SLOW_CHECKS)

def check_text(report, digest, seq, load):
    try:
        data = load() if load else b""
        report.say("text_changed", seq) if sha256(data).hexdigest() != digest else None
    except (OSError, KeyError):
        report.say("text_missing", seq)

# -- a bundle: some records of some logs, each with its proof --------------------------------------
def verify_bundle(path, args, report):
    try:
        with zipfile.ZipFile(path) as zipped:
            names = zipped.namelist()
            plain = all(i.compress_type == 0 and i.file_size < 1 << 28 for i in zipped.infolist())
            files = {name: zipped.read(name) for name in names} if plain else {}
        manifest = json.loads(files["manifest.json"])
        listed, logs = dict(manifest["files"]), list(manifest["logs"])
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, RecursionError):
        return report.say("not_a_bundle")
    for name, digest in listed.items():
        if name not in files:
            report.say("file_missing", None, name)
        elif sha256(files[name]).hexdigest() != digest:
            report.say("file_changed", None, name)
    if len(names) != len(files) or set(files) - set(listed) != {"manifest.json"}:
        report.say("file_unlisted")
    for number in range(len(logs)):
        verify_part({n[len("logs/%d/" % number) :]: data for n, data in files.items()
                     if n.startswith("logs/%d/" % number)}, args, report)

def verify_part(files, args, report):
    """One log of a bundle: its checkpoint, and each record with its inclusion proof."""
    say, lines, records = report.say, {}, {}
    for name in files:
        if name.startswith("records/"):
            lines.setdefault(int(name[8:28]), {})[name[29:]] = files[name]
    try:
        identity, note = json.loads(files["log.json"]), files["checkpoint"].decode()
        origin, size, root = parse_checkpoint(note)
        own = [parse_vkey(vkey) for vkey in identity["vkeys"]]
        if identity["origin"] != origin:
            raise Bad("another log")
    except (ValueError, KeyError, TypeError, RecursionError):
        return say("checkpoint_changed")
    for seq, parts in sorted(lines.items()):
        if set(parts) != {"json", "tlog-proof"}:
            say("proof_missing", seq)
            continue
        head, _, shown = parts["tlog-proof"].decode("utf-8", "replace").partition("\n\n")
        head = head.split("\n")
        if head[:2] != ["c2sp.org/tlog-proof@v1", "index %d" % seq] or shown != note:
            say("proof_changed", seq)
            continue
        try:
            proof = [unbase64(line) for line in head[2:]]
            record = exact_record(parts["json"])
            found = root_from(leaf_hash(parts["json"]), seq, size, proof)
            if found != root or record["seq"] != seq:
                raise Bad("another root")
            records[seq] = record
        except Bad:
            say("record_changed", seq)
    keys = [key for key in map(parse_vkey, args.vkey) if key.name == origin] or own[: not args.vkey]
    for _ in records:  # each round follows at least one rotation, forward or back
        for seq in [seq for seq in records if records[seq]["type"] == "key_rotate"]:
            pair = rotation(records[seq], origin) or ()
            keys += [key for key in pair if key not in keys] if set(pair) & set(keys) else []
    try:
        signers = {(name, blob[:4]) for name, blob in split_note(note)[1]}
        if not keys:
            say("key_missing")
        elif not signers & {(key.name, key.id) for key in keys}:
            say("key_unknown")
        else:
            signed_by(note, keys, every=False)
    except Bad:
        say("checkpoint_changed")
    answered, policies = set(), set()
    for seq, record in sorted(records.items()):
        kind, ref, policy = record["type"], record.get("ref"), record.get("policy")
        ext = record.get("ext") if kind == "config_set" else policy
        digest = ext.get("digest") if type(ext) is dict else None
        if kind == "outcome":
            known = type(ref) is int and ref < seq and ref not in answered
            asked = records.get(ref, {"type": "request"})["type"] == "request" if known else False
            if not asked or ref not in lines:
                say("outcome_unpaired", seq, "", known and ref not in lines)
            answered.add(ref if type(ref) is int else None)
        if kind == "policy_set":
            policies.add(digest)
        elif type(digest) is str and digest and kind != "config_set" and digest not in policies:
            say("policy_unknown", seq, "", True)
        if kind in ("policy_set", "config_set") and type(digest) is str and digest:
            check_text(report, digest, seq, lambda: files["texts/" + digest])
    for seq in records:
        if records[seq]["type"] == "request" and seq not in answered:
            say("request_unanswered", seq)

# -- the command -----------------------------------------------------------------------------------
class Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(EXIT["usage"], "usage: %s\n" % message)

def main(arguments=None):
    parser = Parser(description="Check a ledger or a proof bundle.")
    parser.add_argument("path")
    for name in ("vkey", "prior", "receipt", "cosignature", "witness", "tsr"):
        parser.add_argument("--" + name, action="append", default=[])
    for name in ("log-id", "tsa-ca"):
        parser.add_argument("--" + name, default="")
    parser.add_argument("--json", action="store_true")
    args, report, log = parser.parse_args(arguments), Report(), None
    gc.disable()  # nothing here makes cycles, and collecting takes a tenth of the time
    path = pathlib.Path(args.path)
    try:
        [parse_vkey(vkey) for vkey in args.vkey] + [parse_vkey(vkey, 4) for vkey in args.witness]
        if path.is_dir() and any((path / n).exists() for n in ("log.json", "segments", "HEAD")):
            log = verify_directory(path, args, report)
        elif path.is_file():
            verify_bundle(path, args, report)
        else:
            report.say("not_a_ledger" if path.exists() else "no_such_path", None, path)
    except Bad as error:
        report.say("bad_vkey", None, error)
    except OSError as error:
        report.say("unreadable", None, error)
    status = report.status()
    found = sorted(report.found.items(), key=lambda item: -1 if item[0][1] is None else item[0][1])
    if args.json:
        listed = [[{"code": c, "seq": s, "more": m} for (c, s), m in items]
                  for items in (found, report.notes.items())]
        about = (log.records, log.origin, log.root.hex()) if log else (0, "", "")
        print(json.dumps({"status": status, "records": about[0], "origin": about[1],
                          "root": about[2], "findings": listed[0], "notes": listed[1]}))
    else:
        print("%s: %d records read" % (status.upper(), log.records if log else 0))
        for word, items in (("", found), ("note: ", report.notes.items())):
            for (code, seq), more in items:
                place = "" if seq is None else " at record %d" % seq
                print("%s%s%s%s" % (word, code.replace("_", " "), place, more and " (%s)" % more))
        if log and status == "ok":
            print("root: %s\n%s" % (log.root.hex(), log.note.strip()))
    return EXIT[status]

if __name__ == "__main__":
    sys.exit(main())
