"""A call that meets the caches comes out byte for byte like one that does not."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import pytest
from coding_session import turns
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway import wire
from gateway.redaction.detectors.engine import Detector
from gateway.redaction.job import ScanJob, ScanRefused, ScanResult
from gateway.redaction.policy import Policy
from gateway.redaction.policy_file import load_policy, parse_policy
from gateway.redaction.redactor import Redactor, SpanCache
from gateway.redaction.scanner import Scanner
from gateway.redaction.spans import Span
from gateway.redaction.tokens import Tokenizer
from gateway.redaction.vouching import digest, may_hold_signed

KEY = b"k" * 32
POLICY = load_policy()
RULES = Detector(POLICY)
SEAL = base64.b64encode(bytes(range(256))).decode()

#: Pieces that are found in some places and not in others, so that context and order matter.
PIECES = st.sampled_from(
    (
        "x",
        "maria.lopez@example.com",
        "hunter2Kestrel",
        "DB_PASSWORD=Kestrel9321x",
        '{"password": "Kestrel9321x"}',
        '{"a": ["jane@corp.example", 4242424242424242]}',
        "4242424242424242",
        "tel +44 20 7946 0958",
        "password\0Kestrel9321x",
        "plain text of no interest\nand a second line",
        "é\u2028[EMAIL_x7k2m9qd]",
    )
)
KEYS = st.sampled_from(
    ("path", "password", "api_key", "note", "jane@corp.example", "value", "name")
)
VALUES = st.recursive(
    PIECES | st.integers(0, 10**19) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
TEXT = st.lists(PIECES, min_size=1, max_size=3).map(" ".join)
BLOCKS = st.one_of(
    TEXT.map(lambda text: {"type": "text", "text": text}),
    st.builds(
        lambda name, data: {"type": "tool_use", "id": "toolu_1", "name": name, "input": data},
        st.sampled_from(("Read", "Bash")),
        st.dictionaries(KEYS, VALUES, max_size=3),
    ),
    TEXT.map(
        lambda text: {
            "type": "tool_result",
            "tool_use_id": "toolu_1",
            "content": [{"type": "text", "text": text}],
        }
    ),
    TEXT.map(lambda text: {"type": "thinking", "thinking": text, "signature": SEAL}),
    st.just(
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
        }
    ),
)
MESSAGES = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(("user", "assistant")),
    TEXT | st.lists(BLOCKS, max_size=3),
)
#: A call: messages, the role, and whether this gateway handed out the thinking in it.
CALLS = st.tuples(
    st.lists(MESSAGES, max_size=3), st.sampled_from(("role/a", "role/b")), st.booleans()
)

Told = tuple[Any, ...]


def told(scanner: Scanner, call: tuple[list[Any], str, bool]) -> Told:
    """Everything a scan says that does not depend on the clock."""
    messages, scope, vouched = call
    document = {"model": "claude-test-1", "max_tokens": 9, "messages": messages}
    seals = [
        digest(KEY, scope, block["thinking"], block["signature"])
        for message in messages
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "thinking"
    ]
    body = json.dumps(document, ensure_ascii=False).encode()
    job = ScanJob(
        "anthropic.messages",
        body,
        scope=scope,
        extra={"user-agent": "cli/1", "x-app": "jane@corp.example"},
        vouched=seals if vouched else [],
    )
    try:
        result = scanner.run(job)
    except ScanRefused as refused:
        return refused.code, refused.sentence
    return facts(result)


def facts(result: ScanResult) -> Told:
    return (
        result.body,
        result.counts,
        result.originals,
        result.extra_hits,
        result.opaque,
        result.model,
        result.stream,
    )


def fresh(policy: Policy = POLICY) -> Scanner:
    return Scanner(policy, KEY, finder=RULES)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(CALLS, min_size=2, max_size=6))
def test_a_scanner_that_saw_other_calls_answers_like_one_that_saw_none(
    calls: list[tuple[list[Any], str, bool]],
) -> None:
    warm = fresh()
    for call in [*calls, *calls]:
        assert told(warm, call) == told(fresh(), call)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(KEYS | st.none(), TEXT), min_size=1, max_size=12))
def test_rules_policies_and_scopes_never_answer_for_each_other(
    asked: Sequence[tuple[str | None, str]],
) -> None:
    shared = SpanCache()
    policies = [POLICY, policy("mask"), policy("allow")]
    for _ in range(2):
        for key, text in asked:
            for rules in ("1", "2"):
                for scope in ("a", "b"):
                    for chosen in policies:
                        pair = [
                            redactor(chosen, scope, rules, cache) for cache in (shared, SpanCache())
                        ]
                        said = [
                            one.text(text) if key is None else one.value(key, text) for one in pair
                        ]
                        assert said[0] == said[1]
                        assert pair[0].counts == pair[1].counts
                        assert pair[0].originals == pair[1].originals


def policy(action: str) -> Policy:
    text = f"id = 'p'\nversion = '1'\n[kinds.EMAIL]\naction = '{action}'\nrestore = false\n"
    return parse_policy(text, source="p", directory=None)


def redactor(chosen: Policy, scope: str, rules: str, cache: SpanCache) -> Redactor:
    tokenizer = Tokenizer(KEY, scope)
    return Redactor(RULES, tokenizer, chosen, scope=scope, rules=rules, cache=cache)


class Watched:
    """A finder that finds each `7` and writes down what it was shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def find(self, text: str) -> list[Span]:
        self.shown.append(text)
        return [Span(i, i + 1, "CARD", 1, "d") for i, c in enumerate(text) if c == "7"]

    def find_value(self, key: str, value: str) -> list[Span]:
        return self.find(value)


def test_a_value_found_in_a_part_seen_before_is_still_among_the_originals() -> None:
    watched = Watched()
    scanner = Scanner(POLICY, KEY, finder=watched)
    call = ([{"role": "user", "content": [{"type": "text", "text": "card 7"}]}], "role/a", False)
    first = told(scanner, call)
    assert first[1] == {"CARD": 1}
    assert list(first[2].values()) == ["7"]
    shown = len(watched.shown)
    assert told(scanner, call) == first
    assert len(watched.shown) == shown


def test_thinking_is_read_again_when_it_is_no_longer_vouched_for() -> None:
    scanner = Scanner(POLICY, KEY, finder=Watched())
    content = [{"type": "thinking", "thinking": "card 7", "signature": SEAL}]
    messages = [{"role": "assistant", "content": content}]
    assert b"card 7" in told(scanner, (messages, "role/a", True))[0]
    assert b"card 7" not in told(scanner, (messages, "role/a", False))[0]
    assert b"card 7" in told(scanner, (messages, "role/a", True))[0]


@pytest.mark.parametrize("name", ["signature", "encrypted_content"])
def test_a_body_that_may_hold_a_seal_is_recognized_however_its_name_is_written(name: str) -> None:
    for written in (name, f"\\u{ord(name[0]):04x}{name[1:]}", f"{name[:-1]}\\u{ord(name[-1]):04X}"):
        body = f'{{"{written}": "{SEAL}"}}'.encode()
        assert list(json.loads(body)) == [name]
        assert may_hold_signed(body, "")
    assert not may_hold_signed(b'{"messages": [{"content": "\\n"}]}', "")
    assert may_hold_signed(b"\x1f\x8b", "gzip")


def test_an_unchanged_turn_shows_the_rules_nothing_twice() -> None:
    watched = Watched()
    scanner = Scanner(POLICY, KEY, finder=watched)
    for document in turns(4, end=60_000):
        body = json.dumps(document).encode()
        watched.shown.clear()
        first = facts(scanner.run(ScanJob("anthropic.messages", body, scope="role/a")))
        assert watched.shown
        watched.shown.clear()
        assert facts(scanner.run(ScanJob("anthropic.messages", body, scope="role/a"))) == first
        assert watched.shown == []


def test_a_redactor_without_memory_still_does() -> None:
    class Upper:
        def text(self, s: str) -> str:
            return s.upper()

    document = {"messages": [{"role": "user", "content": [{"type": "text", "text": "ab"}]}]}
    redacted = wire.get("anthropic.messages").redact_request(document, Upper())
    assert redacted["messages"][0]["content"][0]["text"] == "AB"


def test_the_memory_stays_within_its_bounds() -> None:
    cache = SpanCache(limit=100, span_limit=1000)
    for number in range(1000):
        cache.put(str(number).encode(), [])
        assert cache.get(b"0") == ()
        assert len(cache) <= 100


@pytest.mark.parametrize("reader", ["a", "a b"])
def test_marks_differ_with_the_reader_and_the_bytes(reader: str) -> None:
    one = redactor(POLICY, "a", "1", SpanCache())
    marks = {one.mark(reader, b"b c"), one.mark("a", b"b c "), one.mark("a b", b"c")}
    assert len(marks) == 3
