"""Responses requests: no canary survives at any position, and nothing else changes."""

from __future__ import annotations

import base64
import copy
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import FakeRedactor, NamingRedactor, restoring, token_of

from gateway import routing, wire
from gateway.coverage import openai_responses as samples
from gateway.coverage.sample import MARK
from gateway.redaction.job import ScanJob
from gateway.redaction.policy_file import load_policy
from gateway.redaction.scanner import Scanner
from gateway.wire.base import OpaqueAction, Usage, WireRefused, WireReport
from gateway.wire.formats.openai_responses import ITEM_TYPES, PART_TYPES
from gateway.wire.schema import Reading
from gateway.wire.strictjson import dumps

FORMAT = wire.get("openai.responses")
C = "CANARY0001Z"
T = token_of(C)
SEAL = "gAAAAAB" + "x_-9" * 80
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256))).decode()
PDF = base64.b64encode(b"%PDF-1.7\n" + bytes(range(256))).decode()


def b64(text: str, encoding: str = "utf-8") -> str:
    return base64.b64encode(text.encode(encoding)).decode()


def redact(document: Any, **options: Any) -> Any:
    return FORMAT.redact_request(document, FakeRedactor(), **options)


def item(**members: Any) -> dict[str, Any]:
    return {"model": "gpt-6.2-astra", "input": [members]}


def message(*parts: Any) -> dict[str, Any]:
    return item(type="message", role="user", content=list(parts))


def planted(node: Any, text: str) -> Any:
    """A sample with `text` at every mark; base64 samples are encoded anew."""
    if isinstance(node, str):
        head, comma, data = node.rpartition("base64,")
        try:
            inside = base64.b64decode(data, validate=True).decode()
        except ValueError:
            inside = ""
        return head + comma + b64(inside.replace(MARK, text)) if MARK in inside else (
            json.dumps(planted(json.loads(node), text))
            if node[:1] in ("{", "[") and MARK in node
            else node.replace(MARK, text)
        )  # fmt: skip
    if isinstance(node, list):
        return [planted(each, text) for each in node]
    if isinstance(node, dict):
        return {name.replace(MARK, text): planted(each, text) for name, each in node.items()}
    return node


BODIES = [
    *({"model": "gpt-6-sol", "input": [each]} for each in samples._ITEMS),
    *({"model": "gpt-6-sol", "tools": [each]} for each in samples._TOOLS),
    {name: value for name, value in samples._WHOLE.items() if name not in ("input", "tools")},
]


@pytest.mark.parametrize("number", range(len(BODIES)))
def test_no_canary_survives_and_a_clean_request_keeps_its_bytes(number: int) -> None:
    dirty = planted(BODIES[number], C)
    before = copy.deepcopy(dirty)
    out = dumps(redact(dirty))
    assert C.encode() not in out
    assert b64(C).encode() not in out
    assert dirty == before, "the request itself was changed"
    clean = planted(BODIES[number], "word")
    assert redact(clean) is clean or dumps(redact(clean)) == dumps(clean)


def test_the_samples_hold_every_item_type() -> None:
    seen = {each["type"] for each in samples._ITEMS if "type" in each}
    assert seen >= ITEM_TYPES - {"ghost_snapshot", "compaction_summary"}


@pytest.mark.parametrize(
    "document",
    [
        item(type="telepathy_call", text=C),
        item(type=7),
        item(type=None, role="user", content="x"),
        item(content="x"),
        message({"type": "input_smell", "text": C}),
        message({"text": C}),
        item(type="function_call_output", call_id="c", output=[{"type": "input_smell"}]),
        item(type="reasoning", summary=[{"type": "thought", "text": C}]),
    ],
)
def test_an_item_or_part_of_unknown_type_is_refused_without_repeating_it(document: Any) -> None:
    with pytest.raises(WireRefused) as refused:
        redact(document)
    assert refused.value.code == "block_type"
    assert "input[0]" in refused.value.sentence
    assert "telepathy" not in refused.value.sentence


@pytest.mark.parametrize("kind", ["reasoning", "compaction", "context_compaction"])
def test_encrypted_content_passes_byte_for_byte_and_is_counted(kind: str) -> None:
    report = WireReport()
    document = item(
        type=kind,
        id="rs_0a1b",
        encrypted_content=SEAL,
        **({"summary": [{"type": "summary_text", "text": C}]} if kind == "reasoning" else {}),
    )
    (out,) = redact(document, report=report)["input"]
    assert out["encrypted_content"] == SEAL
    assert report.signed_parts == 1
    assert C not in json.dumps(out)
    assert kind != "reasoning" or out["summary"][0]["text"] == T


@pytest.mark.parametrize("seal", [C, f"{C} " * 40, SEAL + C + "!"])
def test_what_is_no_seal_is_read_as_text(seal: str) -> None:
    assert C not in dumps(redact(item(type="compaction", encrypted_content=seal))).decode()


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
        {"type": "input_image", "file_id": "file-abc"},
        {"type": "input_file", "file_data": f"data:application/pdf;base64,{PDF}"},
        {"type": "input_file", "filename": "a.pdf", "file_data": PDF},
        {"type": "input_file", "file_id": "file-abc"},
        {"type": "input_audio", "input_audio": {"format": "mp3", "data": b64("ID3") + PNG}},
    ],
)  # fmt: skip
def test_bytes_nobody_can_read_follow_the_policy(part: dict[str, Any]) -> None:
    report = WireReport()
    assert redact(message(part), report=report) == message(part)
    assert report.opaque_parts == 1
    with pytest.raises(WireRefused, match="policy"):
        redact(message(part), opaque=OpaqueAction.REFUSE)


@pytest.mark.parametrize(
    ("filename", "data"),
    [
        ("a.txt", b64(f"for {C}")),
        ("people.csv", b64(f"é;{C}", "latin-1")),
        ("notes", b64(f"for {C}", "utf-16")),
        (C, f"data:;base64,{b64(C)}"),
        ("a.png", f"data:image/png;base64,{b64(C)}"),
    ],
)
def test_files_of_text_are_read_decoded(filename: str, data: str) -> None:
    part = {"type": "input_file", "filename": filename, "file_data": data}
    out = redact(message(part))["input"][0]["content"][0]
    assert list(out) == list(part)
    raw = base64.b64decode(out["file_data"].rpartition(",")[2])
    assert C.encode() not in raw.replace(b"\0", b"")
    assert T.encode() in raw.replace(b"\0", b"")
    assert C not in out["filename"]


def test_data_that_is_no_base64_is_refused() -> None:
    with pytest.raises(WireRefused, match="base64"):
        redact(message({"type": "input_file", "file_data": "%%%"}))


def test_tokens_of_an_earlier_answer_that_spell_a_value_are_dropped_whole() -> None:
    spelled = [{"token": part, "logprob": -1, "bytes": list(part.encode())} for part in C]
    text = {"type": "output_text", "text": "x", "annotations": [], "logprobs": spelled}
    out = redact(message(text))["input"][0]["content"][0]
    assert out["logprobs"] == []
    only_bytes = [{"token": "?", "bytes": list(part.encode())} for part in C]
    assert (
        redact(message({**text, "logprobs": only_bytes}))["input"][0]["content"][0]["logprobs"]
        == []
    )
    fine = [{"token": "hi", "logprob": -1, "bytes": [104, 105]}]
    assert redact(message({**text, "logprobs": fine})) == message({**text, "logprobs": fine})


def test_names_say_what_values_are_where_the_api_leaves_them_to_the_user() -> None:
    secret = "hunter2 and more"
    document = {
        "tools": [
            {
                "type": "mcp",
                "server_label": "s",
                "headers": {"X-Password": secret},
                "authorization": "fine",
            },
            {"type": "code_interpreter", "container": {"type": "auto", "network_policy": {
                "type": "allowlist", "domain_secrets": [
                    {"domain": "d.example", "name": "DB_PASSWORD", "value": secret}]}}},
        ],
        "metadata": {"password": secret},
        "prompt": {"id": "p", "variables": {"password": secret}},
        "input": [
            {"type": "local_shell_call", "call_id": "c", "action": {
                "type": "exec", "command": ["db", "--password", secret],
                "env": {"DB_PASSWORD": secret}}},
            {"type": "function_call", "call_id": "c", "name": "n",
             "arguments": json.dumps({"password": secret})},
        ],
    }  # fmt: skip
    out = dumps(FORMAT.redact_request(document, NamingRedactor())).decode()
    assert out.count("hunter2") == 1, out  # `value` under a name that says nothing to this fake


def test_the_real_rules_find_secrets_by_the_names_beside_them() -> None:
    secret = "vK9-harbour-lane-77"
    named = {"password": secret, "API_KEY": secret}
    document = {
        "tools": [
            {"type": "mcp", "server_label": "s", "authorization": secret,
             "server_url": f"https://u:{secret}@mcp.example/x?api_key={secret}",
             "headers": {"Authorization": f"Bearer {secret}", "X-Api-Key": secret,
                         "Cookie": f"sid={secret}", "X-Team": "blue"}},
            {"type": "code_interpreter", "container": {"type": "auto", "network_policy": {
                "type": "allowlist", "domain_secrets": [
                    {"domain": "d.example", "name": "ANYTHING", "value": secret}]}}},
        ],
        "metadata": named,
        "client_metadata": named,
        "prompt": {"id": "p", "variables": named},
        "input": [
            {"type": "local_shell_call", "call_id": "c", "action": {
                "type": "exec", "command": ["db", "--password", secret], "env": named}},
            {"type": "function_call", "call_id": "c", "name": "n", "arguments": json.dumps(named)},
            {"type": "function_call_output", "call_id": "c", "output": named},
            {"type": "function_call_output", "call_id": "c", "output": json.dumps(named)},
            {"type": "custom_tool_call", "call_id": "c", "name": "n",
             "input": f"export DB_PASSWORD='{secret}'\n"},
            {"type": "apply_patch_call", "call_id": "c", "operation": {
                "type": "update_file", "path": ".env", "diff": f"+DB_PASSWORD={secret}\n"}},
            {"type": "shell_call_output", "call_id": "c", "output": [
                {"stdout": f"password: {secret}", "stderr": f"curl -u me:{secret} https://x"}]},
            {"type": "file_search_call", "id": "f", "results": [{"attributes": named}]},
        ],
    }  # fmt: skip
    job = ScanJob(wire="openai.responses", body=dumps(document), scope="role/coder")
    out = Scanner(load_policy(None), b"k" * 32).run(job).body
    assert secret.encode() not in out
    assert b'"blue"' in out


@pytest.mark.parametrize(
    "value",
    [
        "resp_68a1f0c2b3d44e5f8a9b0c1d2e3f405162738495a6b7c8d9",
        "call_9Kz0y7aTqcX2bRkLmN4sWvEu",
        "msg_1f0e9d8c-7b6a-4958-8473-625140392817",
    ],
)
def test_an_id_the_provider_made_passes_unread(value: str) -> None:
    redactor = FakeRedactor()
    FORMAT.redact_request(item(type="item_reference", id=value), redactor)
    assert not any(value in shown for shown in redactor.shown)


def test_the_same_items_give_the_same_bytes_on_every_turn() -> None:
    turns = [{"role": "user", "content": f"turn {n} {C}"} for n in range(6)]
    bodies = [dumps(redact({"instructions": C, "input": turns[:n]})) for n in (2, 4, 6)]
    for shorter, longer in pairwise(bodies):
        assert longer.startswith(shorter.removesuffix(b"]}"))


def test_numbers_order_and_unknown_members_survive() -> None:
    body = (
        b'{"zeta":1.50,"model":"o4-mini","input":[{"type":"function_call","call_id":"c",'
        b'"name":"f","arguments":"{\\"n\\": 9007199254740993, \\"u\\": \\"\\\\u00e9\\"}"}],'
        b'"a":{"b":1e2}}'
    )
    out = FORMAT.redact_body(body, "application/json", Reading(FakeRedactor()), {})
    assert out.body == body
    assert out.model == "o4-mini"


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_shape_of_a_request_lets_a_canary_through(data: st.DataObject) -> None:
    names = st.sampled_from(
        ["type", "role", "content", "output", "input", "summary", "text", "logprobs", "variables",
         "source", "data", "input_audio", "file_data", "domain_secrets", "tools", "headers", "id",
         "encrypted_content", "image_url", "action", "command", "later", "result", "error", C]
    )  # fmt: skip
    leaf = st.sampled_from([C, f"x {C}", json.dumps({C: [C]}), 1, None, True, "user", "x"])
    kinds = st.sampled_from(sorted(ITEM_TYPES | PART_TYPES))
    tree = st.recursive(
        leaf,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(names, inner, max_size=4).flatmap(
                lambda made: kinds.map(lambda kind: {**made, "type": kind})
            )
        ),
        max_leaves=12,
    )
    document = data.draw(st.dictionaries(names, tree, max_size=5))
    try:
        out = redact(document)
    except WireRefused:
        return
    assert C.encode() not in dumps(out)


# -- answers -----------------------------------------------------------------------------------


def test_a_whole_answer_is_restored_but_for_thoughts_and_seals() -> None:
    nasty = 'say "hi" \\ \n{x}'
    token = "[EMAIL_bbbbbbbb]"
    answer = {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "gpt-6-sol",
        "instructions": f"for {T}",
        "output": [
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": T}],
             "encrypted_content": SEAL},
            {"type": "message", "role": "assistant", "content": [
                {"type": "output_text", "text": f"Dear {T}", "annotations": [
                    {"type": "url_citation", "title": T, "url": f"https://x/{T}"}],
                 "logprobs": [{"token": T}]},
                {"type": "refusal", "refusal": f"no {T}"}]},
            {"type": "function_call", "name": "f",
             "arguments": json.dumps({T: [token], "s": f"a {token}"})},
            {"type": "custom_tool_call", "name": "f", "input": f"+ {token}"},
            {"type": "local_shell_call", "action": {"type": "exec", "command": ["echo", T]}},
            {"type": "mcp_call", "arguments": json.dumps({"a": T}), "output": f"got {T}"},
        ],
        "usage": {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 60},
                  "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 4},
                  "total_tokens": 109},
    }  # fmt: skip
    restore = restoring({T: C, token: nasty})
    out = FORMAT.restore_body(dumps(answer), "application/json", restore)
    document = json.loads(out.body)
    thought, said, call, custom, shell, mcp = document["output"]
    assert thought == answer["output"][0]  # type: ignore[index]
    assert said["content"][0]["text"] == f"Dear {C}"
    assert said["content"][0]["annotations"][0] == {
        "type": "url_citation",
        "title": C,
        "url": f"https://x/{C}",
    }
    assert said["content"][0]["logprobs"] == [{"token": T}]
    assert said["content"][1]["refusal"] == f"no {C}"
    assert json.loads(call["arguments"]) == {C: [nasty], "s": f"a {nasty}"}
    assert custom["input"] == f"+ {nasty}"
    assert shell["action"]["command"] == ["echo", C]
    assert json.loads(mcp["arguments"]) == {"a": C}
    assert document["instructions"] == f"for {C}"
    assert out.usage == Usage(input=40, output=9, cache_read=60)
    assert (out.stop_reason, out.model) == ("completed", "gpt-6-sol")


@pytest.mark.parametrize("arguments", ['"He is {0}"', "[{0}]", '{{"a": {0}', "{0}"])
def test_arguments_stay_json_whatever_they_open_with(arguments: str) -> None:
    token, value = "[EMAIL_bbbbbbbb]", '"x" \\'
    text = arguments.replace("{{", "{").replace("{0}", token)
    answer = {"output": [{"type": "function_call", "arguments": text}]}
    (out,) = FORMAT.restore_response(answer, restoring({token: value}))["output"]
    if arguments.startswith('"'):
        assert json.loads(out["arguments"]) == f"He is {value}"


def test_reading_a_stored_response_counts_its_tokens_no_second_time() -> None:
    answer = dumps({"id": "resp_1", "status": "incomplete", "usage": {"input_tokens": 5},
                    "incomplete_details": {"reason": "max_output_tokens"}})  # fmt: skip
    stored = wire.get("openai.responses_stored").restore_body(answer, "application/json", str)
    assert stored.usage == Usage()
    assert stored.stop_reason == "max_output_tokens"


# -- routes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "query", "name", "target"),
    [
        ("POST", "/v1/responses", "", "openai.responses", "/v1/responses"),
        ("POST", "/agent/coder/responses", "", "openai.responses", "/v1/responses"),
        ("POST", "/v1/responses/compact", "", "openai.responses_compact", "/v1/responses/compact"),
        ("POST", "/v1/responses/input_tokens", "", "openai.responses_count",
         "/v1/responses/input_tokens"),
        ("GET", "/v1/responses/resp_1", "stream=true&starting_after=12&include[]=a.b_c",
         "openai.responses_stored", None),
        ("GET", "/v1/responses/resp_1/input_items", "after=msg_1&limit=20&order=asc",
         "openai.responses_stored", None),
        ("POST", "/v1/responses/resp_1/cancel", "", "openai.responses_stored",
         "/v1/responses/resp_1/cancel"),
        ("DELETE", "/v1/responses/resp_1", "", "openai.responses_stored", "/v1/responses/resp_1"),
        ("POST", "/openai/responses", "api-version=2025-04-01-preview", "openai.responses", None),
        ("POST", "/openai/v1/responses", "api-version=preview", "openai.responses", None),
        ("GET", "/openai/v1/responses/resp_1", "", "openai.responses_stored", None),
        ("POST", "/v1/conversations", "", "openai.conversations", "/v1/conversations"),
        ("GET", "/v1/conversations/conv_1/items/msg_1", "", "openai.conversations_stored", None),
    ],
)  # fmt: skip
def test_every_call_has_a_route(
    method: str, path: str, query: str, name: str, target: str | None
) -> None:
    route = routing.match(method, path, query, {})
    assert isinstance(route, routing.Route), route
    assert route.wire == name
    assert route.provider == ("azure" if path.startswith("/openai") else "openai")
    assert target is None or route.target == target


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("GET", "/v1/responses", ""),
        ("PUT", "/v1/responses", ""),
        ("GET", "/v1/responses/resp_1", "starting_after=4915901234567"),
        ("GET", "/v1/responses/resp_1/steps", ""),
        ("POST", "/v1/responses", "debug=1"),
        ("POST", "/openai/responses", "api-version=jane"),
    ],
)
def test_anything_else_is_refused(method: str, path: str, query: str) -> None:
    assert isinstance(routing.match(method, path, query, {}), routing.Refusal)


def test_a_websocket_is_answered_with_the_code_that_makes_codex_post() -> None:
    refusal = routing.match("GET", "/v1/responses", "", {"upgrade": "websocket"})
    assert isinstance(refusal, routing.Refusal)
    assert refusal.status == 426


@pytest.mark.parametrize("kind", [[], {}, None, 1, ["input_text"]])
def test_a_type_that_is_no_word_makes_the_object_data_of_its_own(kind: Any) -> None:
    odd = {"type": kind, "a": C}
    document = {
        "input": [{"type": "function_call_output", "call_id": "c", "output": odd}],
        "prompt": {"id": "p", "variables": {"v": odd}},
    }
    reading = Reading(FakeRedactor())
    body = dumps(document)
    assert C.encode() not in wire.get("openai.responses").redact_body(body, "", reading, {}).body
