"""Error bodies: the official SDK raises its own typed error and shows our sentence."""

from __future__ import annotations

import json

import anthropic
import httpx2
import pytest

from gateway.wire.errors import NO_RETRY, ErrorKind, Family, error_body


@pytest.mark.parametrize(
    ("status", "kind", "type_", "raised"),
    [
        (403, ErrorKind.REFUSED, "permission_error", anthropic.PermissionDeniedError),
        (404, ErrorKind.NOT_FOUND, "not_found_error", anthropic.NotFoundError),
        (413, ErrorKind.TOO_LARGE, "request_too_large", anthropic.APIStatusError),
        (503, ErrorKind.UNAVAILABLE, "overloaded_error", anthropic.InternalServerError),
        (502, ErrorKind.UPSTREAM, "api_error", anthropic.InternalServerError),
        (500, "something else", "api_error", anthropic.InternalServerError),
    ],
)
def test_the_sdk_raises_its_own_error_once_with_our_sentence(
    status: int, kind: str, type_: str, raised: type[Exception]
) -> None:
    calls = 0

    def answer(_: httpx2.Request) -> httpx2.Response:
        nonlocal calls
        calls += 1
        body = error_body(Family.ANTHROPIC, status, kind, "Remove the key.", "r1")
        headers = {"content-type": "application/json", **NO_RETRY}
        return httpx2.Response(status, headers=headers, content=body)

    transport = httpx2.MockTransport(answer)
    with (
        anthropic.Anthropic(
            api_key="k",
            base_url="http://test",
            http_client=anthropic.DefaultHttpxClient(transport=transport),
        ) as client,
        pytest.raises(raised) as caught,
    ):
        client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "x"}])
    assert "Remove the key." in str(caught.value)
    assert type_ in str(caught.value)
    assert calls == 1


def test_openai_and_gemini_shapes() -> None:
    openai = json.loads(error_body(Family.OPENAI, 403, ErrorKind.REFUSED, "No.", "r1"))
    assert openai == {
        "error": {
            "message": "No.",
            "type": "permission_error",
            "param": None,
            "code": "gateway_refused",
        }
    }
    gemini = json.loads(error_body(Family.GEMINI, 404, ErrorKind.NOT_FOUND, "No.", "r1"))
    assert gemini == {"error": {"code": 404, "message": "No.", "status": "NOT_FOUND"}}


def test_an_anthropic_body_without_a_request_id_has_no_such_member() -> None:
    assert "request_id" not in json.loads(error_body(Family.ANTHROPIC, 403, "refused", "No."))
