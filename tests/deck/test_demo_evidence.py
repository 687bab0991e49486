from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from deck.demo.evidence import Call, Received, match, overlay, tokens_by_direction
from deck.demo.show import excerpt

MAIL = "[EMAIL_x7k2m9qd]"


def test_a_text_pairs_with_its_tokens_and_gives_the_originals() -> None:
    assert overlay("to a@b.c, a@b.c!", f"to {MAIL}, {MAIL}!") == {MAIL: "a@b.c"}


def test_any_other_difference_does_not_pair() -> None:
    assert overlay("to a@b.c now", f"to {MAIL} then") is None
    assert overlay("a\nb", f"{MAIL}") is None
    assert overlay({"a": "x"}, {"b": "x"}) is None
    assert overlay(["x"], ["x", "y"]) is None
    assert overlay([1], [2]) is None


def test_one_token_for_two_originals_does_not_pair() -> None:
    assert overlay(["a@b.c", "d@e.f"], [MAIL, MAIL]) is None
    assert overlay("a@b.c d@e.f", f"{MAIL} {MAIL}") is None


def test_a_token_that_was_sent_as_one_stands_for_nothing_new() -> None:
    assert overlay(["a@b.c", f"was {MAIL}"], [MAIL, f"was {MAIL}"]) == {MAIL: "a@b.c"}
    assert overlay(f"was {MAIL}", f"was {MAIL}") == {}


def test_json_inside_a_string_may_be_written_anew() -> None:
    assert overlay('{"to": "a@b.c"}', json.dumps({"to": MAIL}, indent=1)) == {MAIL: "a@b.c"}


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)
    )
)
def test_everything_pairs_with_itself(document: object) -> None:
    assert overlay(document, document) is not None


def test_a_call_is_found_among_the_requests() -> None:
    sent = [{"role": "user", "content": "to a@b.c"}]
    call = Call("coder", 1, sent, [], {})
    body = json.dumps({"messages": [{"role": "user", "content": f"to {MAIL}"}]}).encode()
    other = Received("POST", "/v1/messages", {}, b"not json")
    request = Received("POST", "/v1/messages", {}, body)
    assert match(call, [other, request]) == (request, {MAIL: "a@b.c"})
    assert match(call, [other]) is None


def test_usage_adds_up_by_direction() -> None:
    calls = [
        Call("r", 1, [], [], {"input_tokens": 3, "output_tokens": 2}),
        Call("r", 2, [], [], {"input_tokens": 4, "cache_read_input_tokens": 5}),
        Call("r", 3, [], [], {}, error="refused"),
    ]
    assert tokens_by_direction(calls) == {
        "input": 7,
        "output": 2,
        "cache_creation": 0,
        "cache_read": 5,
    }


def test_an_excerpt_shows_the_telling_lines_and_folds_the_rest() -> None:
    text = f"intro\nmore\nmail a@b.c\nfiller\n\nfiller\nmail {MAIL}\nend"
    assert excerpt(text, ["a@b.c"]) == f"mail a@b.c\n…\nmail {MAIL}"
