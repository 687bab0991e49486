"""Every export format: golden files, hostile strings, and what its readers check."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_logs import NOON, open_log, sample

from shared import __version__
from shared.exports import FORMATS, ExportRefused, LogFacts, Selection, facts_of, find_format
from shared.exports.cef import line_of
from shared.exports.nine_field import entry, rfc3339_nano
from shared.exports.ocsf import event_of
from shared.exports.otlp import any_value, log_record, request_of
from shared.ledger import Status, verify_path
from shared.ledger.merkle import leaf_hash
from shared.ledger.reading import Item, read
from shared.ledger.record import TYPE_NAMES
from shared.ledger.selecting import Filter

GOLDEN: Final = Path(__file__).parent / "exports"
LOG: Final = LogFacts("sphragis/0123", "ab" * 32, "sphragis/0123+00000000+AAAA", "sphragis")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample(tmp_path_factory.mktemp("exports") / "log")


def export(name: str, directory: Path, wanted: Filter | None = None) -> bytes:
    selection = Selection(directory, wanted or Filter())
    return b"".join(find_format(name).render(facts_of(directory), selection))


# -- golden files ----------------------------------------------------------------------------------


def scrubbed(text: str) -> str:
    """Number what differs from one run to the next: hashes, keys, signatures, the boot."""
    seen: dict[str, str] = {}

    def number(kind: str) -> Any:
        return lambda match: seen.setdefault(match[0], f"<{kind} {len(seen)}>")

    text = text.replace(f'{__version__}"', '<version>"').replace(f"|{__version__}|", "|<version>|")
    text = re.sub(r"\b[0-9a-f]{64}\b", number("hash"), text)
    text = re.sub(
        r"(?<!\\)[A-Za-z0-9+/]{40,}={0,2}(?=[\"\\]|$)", number("base64"), text, flags=re.M
    )
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "<boot>", text)
    return re.sub(r"\+[0-9a-f]{8}\+\S*?(?=\")", "+<key>", text)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_small_real_log_looks_as_it_always_did(name: str, log: Path) -> None:
    """`REWRITE_GOLDEN=1` writes the files anew; look at the difference before committing it."""
    made = scrubbed(export(name, log, Filter(first=1)).decode())
    golden = GOLDEN / f"{name}.golden"
    if os.environ.get("REWRITE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(made)
    assert made == golden.read_text()


# -- every format ----------------------------------------------------------------------------------


def test_an_unknown_format_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ExportRefused, match="the nearest is ocsf"):
        find_format("ocfs")
    with pytest.raises(
        ExportRefused, match="there are jsonl, nine-field, ocsf, cef, otlp, tlog-tiles"
    ):
        find_format("\x1b[31m")


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_format_says_what_it_is(name: str) -> None:
    module = find_format(name)
    assert module.ABOUT
    assert module.SUFFIX.startswith(".")


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"jsonl"}))
def test_every_exported_record_carries_its_number_and_leaf(name: str, log: Path) -> None:
    text = export(name, log).decode()
    for item in read(log, Filter()):
        if name != "nine-field" or item.record["type"] == "request":
            assert item.leaf in text


# -- jsonl -----------------------------------------------------------------------------------------


def test_the_native_format_is_the_log_byte_for_byte(log: Path) -> None:
    [segment] = (log / "segments").glob("*.jsonl")
    assert export("jsonl", log) == segment.read_bytes()


def test_the_native_format_verifies(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "export.jsonl"
    path.write_bytes(export("jsonl", log))
    verdict = verify_path(path, vkey=facts_of(log).vkey)
    assert {finding.code for finding in verdict.findings} == {"request_unanswered"}
    assert verdict.records == 20
    path.write_bytes(path.read_bytes().replace(b"looks right", b"looks wrong"))
    assert verify_path(path, vkey=facts_of(log).vkey).status is Status.TAMPERED


def test_a_filtered_native_export_keeps_each_record_with_its_checkpoint(log: Path) -> None:
    lines = export("jsonl", log, Filter(kinds=frozenset({"request"}))).splitlines()
    assert [line.startswith(b'{"cp"') for line in lines] == [False, True, False, True]
    leaves = {item.leaf for item in read(log, Filter(kinds=frozenset({"request"})))}
    assert {leaf_hash(line).hex() for line in lines[::2]} == leaves


def test_a_log_of_many_segments_comes_out_whole(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    sample(directory, segment_bytes=2_000)
    segments = sorted((directory / "segments").glob("*.jsonl"))
    assert len(segments) > 3
    assert export("jsonl", directory) == b"".join(path.read_bytes() for path in segments)


# -- the nine-field format -------------------------------------------------------------------------


def old_verify(data: bytes) -> tuple[int, str]:
    """The existing verifier, as its rules are described: number of records and Merkle root, or
    ValueError. Unknown keys are passed over; keys match without regard to case, as in Go."""
    names = (
        "seq",
        "time",
        "method",
        "path",
        "model",
        "pii_redacted",
        "payload_hash",
        "prev_hash",
        "hash",
    )
    previous, leaves = "0" * 64, []
    for number, line in enumerate(data.splitlines(), start=1):
        if len(line) > 4 << 20:
            raise ValueError("line too long")
        fields: dict[str, Any] = {}
        for key, value in json.loads(line).items():
            if key.lower() in names:
                fields[key.lower()] = value
        counts = fields.get("pii_redacted") or {}
        if (
            not all(type(count) is int for count in counts.values())
            or type(fields["seq"]) is not int
        ):
            raise ValueError("types")
        kinds = sorted(counts, key=lambda kind: kind.encode())
        digest = ",".join(f"{kind}={counts[kind]}" for kind in kinds)
        joined = "\n".join(
            [
                str(fields["seq"]),
                *(fields[name] for name in names[1:5]),
                fields["payload_hash"],
                digest,
                fields["prev_hash"],
            ]
        )
        if fields["seq"] != number or fields["prev_hash"] != previous:
            raise ValueError(f"seq {number}: chain")
        if hashlib.sha256(joined.encode()).hexdigest() != fields["hash"]:
            raise ValueError(f"seq {number}: hash")
        previous = fields["hash"]
        leaves.append(bytes.fromhex(fields["payload_hash"]))
    return len(leaves), old_root(leaves)


def old_root(level: list[bytes]) -> str:
    while len(level) > 1:
        level = [*level, level[-1]] if len(level) % 2 else level
        level = [
            hashlib.sha256(a + b).digest() for a, b in zip(level[::2], level[1::2], strict=True)
        ]
    return level[0].hex() if level else ""


def test_the_existing_verifier_accepts_the_nine_field_format(log: Path) -> None:
    count, root = old_verify(export("nine-field", log))
    assert count == 2
    assert root == hashlib.sha256(bytes.fromhex(f"{4:064x}{18:064x}")).hexdigest()


def test_its_fields_stand_in_the_order_of_that_format(log: Path) -> None:
    line = export("nine-field", log).splitlines()[0]
    keys = [key for key, _ in json.loads(line, object_pairs_hook=list)]
    assert keys[:9] == [
        "seq",
        "time",
        "method",
        "path",
        "model",
        "pii_redacted",
        "payload_hash",
        "prev_hash",
        "hash",
    ]
    assert not {key.lower() for key in keys[9:]} & {key.lower() for key in keys[:9]}


@pytest.mark.parametrize(
    "change",
    [
        (b"claude-sonnet-5", b"claude-opus-9"),
        (b'"EMAIL":2', b'"EMAIL":3'),
        (b"/v1/messages", b"/v1/other"),
    ],
)
def test_it_refuses_a_changed_line(log: Path, change: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="seq 1: hash"):
        old_verify(export("nine-field", log).replace(*change, 1))


@given(st.integers(0, 2**53 - 1))
def test_times_are_written_as_go_writes_them(microseconds: int) -> None:
    text = rfc3339_nano(microseconds)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{0,5}[1-9])?Z", text)
    moment = datetime.fromisoformat(text)
    assert round(moment.timestamp() * 1_000_000) - microseconds in (-1, 0, 1)


# -- hostile strings in every format ---------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=40) | st.sampled_from(
    [
        "a|b\\c=d",
        "line\nbreak\r\n",
        "\x00\x1b[31m",
        'quote"}',
        "\u2028\u2029",
        "é漢🙂",
        "x" * 200,
        "=|\\\\",
    ]
)


@st.composite
def items(draw: st.DrawFn) -> Item:
    record = {
        "v": 1,
        "seq": draw(st.integers(0, 2**53 - 1)),
        "ts": draw(st.integers(NOON, NOON + 10**15)),
        "prev": "ab" * 32,
        "type": draw(st.sampled_from(sorted(TYPE_NAMES))),
        "actor": {"role": draw(texts), "key": draw(texts)},
        "action": {"kind": draw(texts), "name": draw(texts), "target": draw(texts)},
        "policy": {"decision": draw(texts), "rules": draw(st.lists(texts, max_size=2))},
        "model": {"provider": draw(texts), "name": draw(texts)},
        "outcome": {"status": draw(texts), "http": 200, "cause": draw(texts), "dur_us": 5},
        "ext": {
            "op": draw(texts),
            "reason": draw(texts),
            "redactions": {"EMAIL": draw(st.integers(0, 9))},
        },
        "task": draw(texts),
        "run": draw(texts),
    }
    return Item(record, orjson.dumps(record, option=orjson.OPT_SORT_KEYS))


def cef_fields(line: str) -> tuple[list[str], dict[str, str]]:
    """Read a CEF line as its readers do."""
    parts = re.split(r"(?<!\\)(?:\\\\)*\|", line, maxsplit=7)
    marks = list(re.finditer(r"(?:^| )([A-Za-z0-9]+)=", parts[7]))
    found = {}
    for index, mark in enumerate(marks):
        end = marks[index + 1].start() if index + 1 < len(marks) else len(parts[7])
        raw = parts[7][mark.end() : end]
        found[mark[1]] = re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r"}.get(m[1], m[1]), raw)
    return parts, found


@given(items())
def test_no_string_breaks_out_of_a_cef_line(item: Item) -> None:
    line = line_of(LOG, item)
    assert line.replace("\u200d", "x").replace("|", "").count("\n") == 0
    assert not re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", line)
    head = re.split(r"(?<!\\)(?:\\\\)*\|", line)
    assert head[:3] == ["CEF:0", "Choragos", "sphragis"]
    assert head[6].isdigit()
    assert f" cs1={item.leaf} " in line
    assert f" externalId={item.seq} " in line
    # An equals sign that begins a field is one that we wrote.
    extension = line.split(f"|{head[6]}|", 1)[1]
    keys = re.findall(r"(?<!\\)(?:\\\\)*=", extension)
    assert len(keys) == len(set(re.findall(r"(?:^| )([A-Za-z0-9]+)(?<!\\)=", extension)))


@given(texts)
def test_a_cef_value_is_read_back_as_it_was(text: str) -> None:
    record = {"type": "request", "seq": 1, "ts": NOON, "actor": {"role": "r"}, "task": text}
    plain = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", "", text)
    _, found = cef_fields(line_of(LOG, Item({**record, "task": plain}, b"{}")))
    if "=" not in plain:  # a reader that splits at spaces cannot be sure about " key=" in a value
        assert found.get("cs2", "") == plain


@given(items())
def test_no_string_breaks_an_otlp_request_and_it_reads_back(item: Item) -> None:
    request = json.loads(orjson.dumps(request_of(LOG, [item])))
    [record] = request["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    stored = next(pair["value"] for pair in record["attributes"] if pair["key"] == "ledger.record")
    assert from_any_value(stored) == item.record
    assert record["timeUnixNano"] == str(item.record["ts"] * 1000)
    check_log_record(record)


def from_any_value(value: Mapping[str, Any]) -> Any:
    if not value:
        return None
    [(kind, inner)] = value.items()
    if kind == "kvlistValue":
        return {pair["key"]: from_any_value(pair["value"]) for pair in inner["values"]}
    if kind == "arrayValue":
        return [from_any_value(one) for one in inner["values"]]
    return int(inner) if kind == "intValue" else inner


def check_log_record(record: Mapping[str, Any]) -> None:
    """The JSON encoding of opentelemetry.proto.logs.v1.LogRecord."""
    kinds = {
        "timeUnixNano": str,
        "observedTimeUnixNano": str,
        "severityNumber": int,
        "severityText": str,
        "body": dict,
        "eventName": str,
        "attributes": list,
    }
    assert set(record) == set(kinds)
    assert all(type(record[name]) is kind for name, kind in kinds.items())
    assert record["timeUnixNano"].isdigit()
    assert 1 <= record["severityNumber"] <= 24
    keys = [pair["key"] for pair in record["attributes"]]
    assert len(keys) == len(set(keys))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    )
)
def test_any_value_of_a_record_has_its_otlp_form(value: Any) -> None:
    assert from_any_value(any_value(value)) == value


@given(items())
def test_no_string_breaks_the_chain_of_the_nine_field_format(item: Item) -> None:
    line = orjson.dumps(entry(item, 1, "0" * 64)) + b"\n"
    assert line.count(b"\n") == 1
    assert old_verify(line)[0] == 1


def test_an_otlp_request_holds_a_bounded_number_of_records(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    with open_log(directory) as ledger:
        for future in [ledger.append("heartbeat", {}) for _ in range(1100)]:
            future.result()
    requests = [json.loads(line) for line in export("otlp", directory).splitlines()]
    sizes = [len(one["resourceLogs"][0]["scopeLogs"][0]["logRecords"]) for one in requests]
    assert sum(sizes) >= 1101
    assert max(sizes) == 512
    assert log_record(next(read(directory, Filter())))["eventName"] == "ledger.genesis"


# -- OCSF ------------------------------------------------------------------------------------------

#: Attributes of OCSF 1.9 that an event of ours may have: type, and whether the schema requires
#: them. Written from the published schema: class api_activity with the base event, the profiles
#: ai_operation and record_integrity, and the objects they use.
OCSF: Final[Mapping[str, Mapping[str, tuple[str, bool]]]] = {
    "api_activity": {
        "activity_id": ("int", True),
        "activity_name": ("str", False),
        "actor": ("actor", True),
        "ai_agent": ("ai_agent", False),
        "ai_model": ("ai_model", False),
        "api": ("api", True),
        "attestation": ("attestation", False),
        "category_name": ("str", False),
        "category_uid": ("int", True),
        "class_name": ("str", False),
        "class_uid": ("int", True),
        "delegation": ("delegation", False),
        "dst_endpoint": ("endpoint", False),
        "duration": ("int", False),
        "message": ("str", False),
        "message_context": ("message_context", False),
        "metadata": ("metadata", True),
        "raw_data": ("str", False),
        "raw_data_hash": ("fingerprint", False),
        "severity": ("str", False),
        "severity_id": ("int", True),
        "src_endpoint": ("endpoint", True),
        "status": ("str", False),
        "status_code": ("str", False),
        "status_detail": ("str", False),
        "status_id": ("int", False),
        "stop_reason": ("str", False),
        "stop_reason_id": ("int", False),
        "time": ("int", True),
        "type_name": ("str", False),
        "type_uid": ("int", True),
        "unmapped": ("dict", False),
    },
    "actor": {"user": ("user", False), "session": ("session", False)},
    "user": {
        "name": ("str", False),
        "type": ("str", False),
        "type_id": ("int", False),
        "uid": ("str", False),
    },
    "session": {"uid": ("str", False)},
    "ai_model": {"ai_provider": ("str", True), "name": ("str", True)},
    "ai_agent": {
        "ai_model": ("ai_model", False),
        "instance_uid": ("str", False),
        "name": ("str", False),
        "uid": ("str", True),
    },
    "api": {
        "operation": ("str", True),
        "request": ("request", False),
        "response": ("response", False),
        "service": ("service", False),
    },
    "request": {"uid": ("str", True)},
    "response": {"code": ("int", False), "error": ("str", False)},
    "service": {"name": ("str", False)},
    "attestation": {
        "authority_uid": ("str", False),
        "chain_uid": ("str", False),
        "fingerprint": ("fingerprint", False),
        "prev_event": ("prev_event", False),
        "uid": ("str", False),
    },
    "fingerprint": {
        "algorithm": ("str", False),
        "algorithm_id": ("int", True),
        "value": ("str", True),
    },
    "prev_event": {"fingerprint": ("fingerprint", False), "uid": ("str", True)},
    "delegation": {"issuer_uid": ("str", False), "uid": ("str", True)},
    "endpoint": {"name": ("str", False), "svc_name": ("str", False)},
    "message_context": {
        "ai_role_id": ("int", False),
        "completion_tokens": ("int", False),
        "prompt_tokens": ("int", False),
        "service": ("service", False),
        "total_tokens": ("int", False),
    },
    "metadata": {
        "correlation_uid": ("str", False),
        "event_code": ("str", False),
        "log_name": ("str", False),
        "log_provider": ("str", False),
        "log_version": ("str", False),
        "original_time": ("str", False),
        "product": ("product", True),
        "profiles": ("list", False),
        "sequence": ("int", False),
        "tenant_uid": ("str", False),
        "uid": ("str", False),
        "version": ("str", True),
    },
    "product": {"name": ("str", False), "vendor_name": ("str", False), "version": ("str", False)},
}
#: At least one of these must be there.
OCSF_ONE_OF: Final = {
    "actor": {"process", "user", "session", "application"},
    "attestation": {"fingerprint", "signatures"},
    "endpoint": {"ip", "uid", "name", "hostname", "svc_name"},
    "message_context": {"application", "service"},
    "user": {"account", "name", "uid"},
}
#: The numbers that the schema gives.
OCSF_ENUMS: Final = {
    "activity_id": {0, 1, 2, 3, 4, 99},
    "severity_id": {0, 1, 2, 3, 4, 5, 6, 99},
    "status_id": {0, 1, 2, 99},
    "algorithm_id": {0, 1, 2, 3, 4, 5, 6, 7, 99},
    "ai_role_id": {0, 1, 2, 3, 4, 5, 6, 99},
    "type_id": {0, 1, 2, 3, 99},
}
PLAIN: Final = {"int": int, "str": str, "dict": dict, "list": list}


def ocsf_problems(
    value: Mapping[str, Any], kind: str = "api_activity", where: str = ""
) -> Iterator[str]:
    known = OCSF[kind]
    for name, (_, needed) in known.items():
        if needed and name not in value:
            yield f"{where}{name} is missing"
    if kind in OCSF_ONE_OF and not OCSF_ONE_OF[kind] & set(value):
        yield f"{where} has none of {sorted(OCSF_ONE_OF[kind])}"
    for name, inner in value.items():
        if name not in known:
            yield f"{where}{name} is not in the schema"
            continue
        type_ = known[name][0]
        if type_ in PLAIN:
            if type(inner) is not PLAIN[type_]:
                yield f"{where}{name} is a {type(inner).__name__}"
            elif name in OCSF_ENUMS and inner not in OCSF_ENUMS[name]:
                yield f"{where}{name} is {inner}"
        else:
            yield from ocsf_problems(inner, type_, f"{where}{name}.")


def test_every_kind_of_record_is_a_valid_ocsf_event(log: Path) -> None:
    for line in export("ocsf", log).splitlines():
        event = json.loads(line)
        assert list(ocsf_problems(event)) == []
        assert event["class_uid"] == 6003
        assert event["type_uid"] == 600300 + event["activity_id"]
        assert event["metadata"]["version"] == "1.9.0"


@given(items())
def test_hostile_strings_leave_an_ocsf_event_valid(item: Item) -> None:
    event = json.loads(orjson.dumps(event_of(LOG, item)))
    assert list(ocsf_problems(event)) == []


def test_the_attestation_points_to_the_record_and_the_one_before_it(log: Path) -> None:
    events = [json.loads(line) for line in export("ocsf", log).splitlines()]
    for before, event in zip([None, *events], events, strict=False):
        attestation = event["attestation"]
        leaf = hashlib.sha256(b"\x00" + event["raw_data"].encode()).hexdigest()
        assert attestation["fingerprint"]["value"] == leaf
        assert (
            event["raw_data_hash"]["value"]
            == hashlib.sha256(event["raw_data"].encode()).hexdigest()
        )
        assert attestation["chain_uid"] == facts_of(log).log_id
        if before is None:
            assert "prev_event" not in attestation
        else:
            assert attestation["prev_event"]["uid"] == before["metadata"]["uid"]
            assert attestation["prev_event"]["fingerprint"] == before["attestation"]["fingerprint"]


def test_a_call_and_its_end_share_a_correlation(log: Path) -> None:
    events = {
        json.loads(line)["metadata"]["sequence"]: json.loads(line)
        for line in export("ocsf", log).splitlines()
    }
    assert events[4]["metadata"]["correlation_uid"] == events[5]["metadata"]["correlation_uid"]
    assert events[5]["status_id"] == 1
    assert events[6]["status_id"] == 2
    assert events[4]["ai_agent"]["ai_model"] == {
        "ai_provider": "anthropic",
        "name": "claude-sonnet-5",
    }
    assert events[5]["message_context"]["total_tokens"] == 1265


def test_the_log_id_is_the_leaf_of_the_first_record(log: Path) -> None:
    first = next(read(log, Filter()))
    assert facts_of(log).log_id == first.leaf
    assert base64.b64decode(facts_of(log).vkey.split("+", 2)[2])[:1] == b"\x01"
