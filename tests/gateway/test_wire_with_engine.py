"""The walk and the real engine together: found in every position, JSON still JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from gateway import wire
from gateway.redaction.job import ScanJob, ScanRefused, ScanResult
from gateway.redaction.policy_file import load_policy
from gateway.redaction.restore import restore_text
from gateway.redaction.scanner import Scanner
from gateway.wire.strictjson import dumps, loads

MAIL = "jane.doe@example.com"
SECRET = "hT7#kq2 Zp9x"
KEY = "ghp_" + "a1B2c3D4e5F6" * 3
FORMAT = wire.get("anthropic.messages")


@pytest.fixture(scope="module")
def scan() -> Callable[[Any], ScanResult]:
    scanner = Scanner(load_policy(None), b"k" * 32)

    def run(document: Any) -> ScanResult:
        body = json.dumps(document).encode()
        return scanner.run(ScanJob(wire="anthropic.messages", body=body, scope="role/coder"))

    return run


def tool_use(data: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": "toolu_01", "name": "Write", "input": data}
    return {"messages": [{"role": "assistant", "content": [block]}]}


def tool_result(text: str) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "toolu_01", "content": text}
    return {"messages": [{"role": "user", "content": [block]}]}


@pytest.mark.parametrize(
    "data",
    [
        {"DB_PASSWORD": SECRET},
        {"env": [{"name": "DB_PASSWORD", "value": SECRET}]},
        {"content": json.dumps({"db": {"password": SECRET}}, indent=2)},
        {"content": json.dumps({"inner": json.dumps({"api_key": KEY, MAIL: [MAIL]})})},
        {"text": f'quote "{MAIL}"\n{KEY}\\'},
        {MAIL: {KEY: 1}},
        {"lines": f'{{"mail":"{MAIL}"}}\n{{"token":"{KEY}"}}\n'},
    ],
)
def test_nothing_found_stays_and_every_json_stays_json(
    scan: Callable[[Any], ScanResult], data: dict[str, Any]
) -> None:
    for document in (tool_use(data), tool_result(json.dumps(data, indent=2))):
        out = scan(document)
        assert not any(value.encode() in out.body for value in (MAIL, SECRET, KEY))
        assert out.counts
        block = json.loads(out.body)["messages"][0]["content"][0]
        inside = block["input"] if "input" in block else json.loads(block["content"])
        for before, after in zip(data.values(), inside.values(), strict=True):
            if isinstance(before, str) and before.startswith("{") and before.endswith("}"):
                json.loads(after)


def test_personal_data_comes_back_exactly(scan: Callable[[Any], ScanResult]) -> None:
    document = tool_use({"content": json.dumps({MAIL: [f'"{MAIL}"\n']}, indent=2), MAIL: MAIL})
    out = scan(document)
    restored = FORMAT.restore_response(
        loads(out.body), lambda text: restore_text(text, out.originals)
    )
    assert dumps(restored) == dumps(document)


def test_a_refusal_of_the_format_reaches_the_caller_with_its_place(
    scan: Callable[[Any], ScanResult],
) -> None:
    with pytest.raises(ScanRefused) as caught:
        scan({"messages": [{"role": "user", "content": [{"type": "later"}]}]})
    assert caught.value.code == "block_type"
    assert "messages[0].content[0]" in caught.value.sentence


def test_a_later_turn_repeats_the_bytes_of_the_turn_before(
    scan: Callable[[Any], ScanResult],
) -> None:
    messages = [
        {"role": "user", "content": f"turn {turn}: {MAIL} and {turn}@example.com"}
        for turn in range(6)
    ]
    bodies = [scan({"system": MAIL, "messages": messages[:count]}).body for count in (2, 4, 6)]
    for shorter, longer in pairwise(bodies):
        assert longer.startswith(shorter.removesuffix(b"]}"))


@pytest.mark.parametrize("value", ["078-05-1120", "81.2.69.142", "4539148803436467", KEY])
@pytest.mark.parametrize("prefix", ["", "toolu_", "call_", "toolu_bdrk_"])
def test_a_value_that_poses_as_an_id_or_a_model_is_found(
    scan: Callable[[Any], ScanResult], prefix: str, value: str
) -> None:
    block = {"type": "tool_use", "id": prefix + value, "name": "Write", "input": {}}
    document = {
        "model": ("claude-" if prefix else "") + value,
        "container": prefix + value,
        "messages": [{"role": "assistant", "content": [block]}],
    }
    assert value.encode() not in scan(document).body


def test_json_in_an_object_key_is_read_as_json(scan: Callable[[Any], ScanResult]) -> None:
    escaped = "".join(f"\\u{ord(char):04x}" for char in MAIL)
    key = '{"mail": "' + escaped + '"}'
    result = scan(tool_use({key: 1}))
    (found,) = loads(result.body)["messages"][0]["content"][0]["input"]
    assert MAIL not in json.dumps(json.loads(found))
    assert escaped not in found
    back = FORMAT.restore_response(
        {"content": [{"type": "tool_use", "input": {found: 1}}]},
        lambda text: restore_text(text, result.originals),
    )
    assert json.loads(next(iter(back["content"][0]["input"]))) == {"mail": MAIL}
