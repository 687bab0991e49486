"""The route table: what is forwarded, what is answered here, what is refused and how."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway import wire
from gateway.routing import LocalAnswer, Refusal, Route, calls, match, safe_path
from gateway.wire.errors import Family

MESSAGES = "/v1/messages"


@pytest.mark.parametrize(
    ("path", "query", "role", "name", "target"),
    [
        ("/v1/messages", "", "", "anthropic.messages", "/v1/messages"),
        ("/messages", "", "", "anthropic.messages", "/v1/messages"),
        (
            "/agent/coder/v1/messages",
            "beta=true",
            "coder",
            "anthropic.messages",
            "/v1/messages?beta=true",
        ),
        ("/agent/coder/messages", "", "coder", "anthropic.messages", "/v1/messages"),
        (
            "/agent/a.B_9-/v1/messages/count_tokens",
            "beta=true",
            "a.B_9-",
            "anthropic.count_tokens",
            "/v1/messages/count_tokens?beta=true",
        ),
        ("/messages/count_tokens", "", "", "anthropic.count_tokens", "/v1/messages/count_tokens"),
        ("/agent/agent/v1/messages", "", "agent", "anthropic.messages", "/v1/messages"),
        ("/agent/v1/v1/messages", "", "v1", "anthropic.messages", "/v1/messages"),
        ("/agent/" + "r" * 64 + "/v1/messages", "", "r" * 64, "anthropic.messages", "/v1/messages"),
    ],
)
def test_supported_calls_are_routed(
    path: str, query: str, role: str, name: str, target: str
) -> None:
    route = match("POST", path, query)
    assert isinstance(route, Route)
    assert (route.role, route.wire, route.target) == (role, name, target)
    assert wire.get(route.wire).name == name


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("/", ""),
        ("/api/hello", ""),
        ("/agent/coder", "coder"),
        ("/agent/coder/", "coder"),
        ("/agent/coder/api/hello", "coder"),
    ],
)
def test_connectivity_probes_are_answered_here(method: str, path: str, role: str) -> None:
    assert match(method, path) == LocalAnswer(role, safe_path(path.removeprefix(f"/agent/{role}")))


@pytest.mark.parametrize(
    "path",
    [
        "/agent",
        "/agent/",
        "/agent//v1/messages",
        "/agent/a b/v1/messages",
        "/agent/" + "r" * 65 + "/v1/messages",
        "/agent/é/v1/messages",
        "/agent/a%2Fb/v1/messages",
        "/agent/../v1/messages",
        "/agent/./v1/messages",
        "/agent/.../v1/messages",
        "/agent/jane@example.com/v1/messages",
        "/agent/" + "ghp_" + "jane" * 9 + "/v1/messages",
        "/agent/" + "sk-ant-" + "jane" * 9 + "/v1/messages",
    ],
)
def test_a_bad_role_is_not_found_and_says_what_a_role_is(path: str) -> None:
    refusal = match("POST", path)
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.code) == (404, "role")
    assert "1 to 64" in refusal.message
    assert "jane" not in refusal.message + refusal.path


@pytest.mark.parametrize(
    "path",
    [
        "/v1/mess%61ges",
        "/v1%2Fmessages",
        "/agent/coder/%761/messages",
        "/agent/coder/../x/v1/messages",
        "/v1/./messages",
        "/v1/messages/..",
        "/v1//messages",
        "//v1/messages",
        "/v1/messages//",
        "/v1\\messages",
        "/v1/messages;x=1",
        "/v1/messages\x00",
        "/v1/mess\u0430ges",
        "/v1/messages\n",
        "/v1/..;/messages",
        "http://127.0.0.1/v1/messages",
        "*",
        "",
        "v1/messages",
    ],
)
def test_a_path_that_two_programs_could_read_differently_is_refused(path: str) -> None:
    refusal = match("POST", path)
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.code) == (403, "path_encoding")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/messages/",
        "/v1/Messages",
        "/v1/messages/x/y",
        "/v1/v1/messages",
        "/v2/messages",
        "/metrics",
        "/v1",
        "/agentx/coder/v1/messages",
        "/agent/coder/agent/coder/v1/messages",
        "/v1/threads",
        "/model/claude/x",
        "/v1/projects/p/locations/l/publishers/anthropic/models/m:undelete",
    ],
)
def test_every_unlisted_path_is_refused(path: str) -> None:
    refusal = match("POST", path)
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.code) == (403, "path")
    assert refusal.headers["x-should-retry"] == "false"
    assert "coverage --routes" in refusal.message


@pytest.mark.parametrize(
    "method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "post"]
)
def test_every_method_but_post_is_refused(method: str) -> None:
    refusal = match(method, MESSAGES)
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.code) == (403, "method")
    assert "POST" in refusal.message


@pytest.mark.parametrize(
    "query",
    [
        "x=1",
        "beta=true&key=abc",
        "beta=true&beta=true",
        "beta=jane@example.com",
        "beta=%74rue",
        "beta",
        "beta=",
        "BETA=true",
        "&",
        "beta=true&",
        "beta=true#x",
        "%62eta=true",
        "credential=sk-1",
    ],
)
def test_a_query_beyond_the_allowed_keys_is_refused_without_repeating_it(query: str) -> None:
    refusal = match("POST", MESSAGES, query)
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.code) == (403, "query")
    assert "jane" not in refusal.message
    assert "sk-1" not in refusal.message


@pytest.mark.parametrize("path", ["/v1/responses", "/responses", "/agent/coder/v1/responses"])
def test_a_websocket_attempt_is_told_to_use_http(path: str) -> None:
    refusal = match("GET", path, "", {"upgrade": "websocket"})
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.family) == (426, Family.OPENAI)
    assert json.loads(refusal.body())["error"]["message"] == refusal.message


@pytest.mark.parametrize(
    ("path", "headers", "family"),
    [
        ("/v1/responses", {}, Family.OPENAI),
        ("/agent/r/responses", {}, Family.OPENAI),
        ("/agent/r/chat/completions", {}, Family.OPENAI),
        ("/v1/chat/completions", {}, Family.OPENAI),
        ("/v1/completions", {}, Family.OPENAI),
        ("/v1/embeddings", {}, Family.OPENAI),
        ("/v1/models", {}, Family.OPENAI),
        ("/v1/models", {"anthropic-version": "2023-06-01"}, Family.ANTHROPIC),
        ("/openai/deployments/x/chat/completions", {}, Family.OPENAI),
        ("/v1beta/openai/chat/completions", {}, Family.OPENAI),
        ("/v1beta/models/gemini-3:generateContent", {}, Family.GEMINI),
        ("/v1beta/models", {}, Family.GEMINI),
        ("/agent/r/v1beta/models/g:streamGenerateContent", {}, Family.GEMINI),
        ("/v1/models/gemini-3:countTokens", {}, Family.GEMINI),
        ("/v1/models", {"x-goog-api-key": "k"}, Family.GEMINI),
        ("/v1/messages/batches", {}, Family.ANTHROPIC),
        ("/anything", {}, Family.ANTHROPIC),
        ("/v1/complete", {}, Family.ANTHROPIC),
    ],
)
def test_a_refusal_has_the_shape_of_the_clients_own_family(
    path: str, headers: dict[str, str], family: Family
) -> None:
    refusal = match("PATCH", path, "", headers)
    assert isinstance(refusal, Refusal)
    assert refusal.family is family
    body = json.loads(refusal.body("req1"))
    if family is Family.ANTHROPIC:
        assert body == {
            "type": "error",
            "error": {"type": "permission_error", "message": refusal.message},
            "request_id": "req1",
        }
    elif family is Family.OPENAI:
        assert set(body["error"]) == {"message", "type", "param", "code"}
    else:
        assert body["error"]["code"] == 403
        assert body["error"]["status"] == "PERMISSION_DENIED"


def test_a_base_url_with_v1_twice_is_explained() -> None:
    refusal = match("POST", "/agent/coder/v1/v1/messages")
    assert isinstance(refusal, Refusal)
    assert "remove /v1 from the base URL" in refusal.message


@given(
    st.sampled_from(["POST", "GET"]),
    st.lists(
        st.sampled_from(
            ["v1", "agent", "messages", "coder", "..", "%2e", "", "jane@x.org", "é", "responses"]
        )
        | st.text(max_size=5),
        max_size=6,
    ),
    st.sampled_from(["", "beta=true", "jane=1"]) | st.text(max_size=8),
)
@settings(max_examples=500, deadline=None)
def test_only_table_paths_get_out_and_nothing_foreign_is_repeated(
    method: str, parts: list[str], query: str
) -> None:
    path = "/" + "/".join(parts)
    found = match(method, path, query)
    if isinstance(found, Route):
        assert found.wire in wire.all_formats()
        assert found.shown in {re.sub(r"\{.*?\}", "…", template) for _, template, _, _ in calls()}
        assert found.query in ("", "beta=true", "beta=false", "beta=1", "beta=0")
    else:
        message = found.message if isinstance(found, Refusal) else ""
        assert "jane" not in message + found.path
        assert (message + found.path).replace("…", "").isascii()
        assert len(found.path) < 200


def test_a_printed_path_is_bounded_and_holds_only_api_words() -> None:
    assert safe_path("/v1/jane@example.com/messages") == "/v1/…/messages"
    assert safe_path("/" + "x/" * 1000) == "/" + "/".join("…" * 9)
    assert safe_path("/v1/messages?email=jane") == "/v1/messages"
