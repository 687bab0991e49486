"""Bodies whose beginning was read before: the same bytes come out as of a scanner that knows
nothing, however a conversation grows, branches, or is written."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from coding_session import turns
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.redaction.job import ScanJob, ScanRefused, ScanResult
from gateway.redaction.policy_file import load_policy
from gateway.redaction.scanner import Scanner
from gateway.redaction.spans import Span
from gateway.wire import prefixes
from gateway.wire.prefixes import Prefixes, Step

KEY = b"k" * 32


class Finder:
    """Finds the word `secret`, and counts the characters it was shown."""

    def __init__(self) -> None:
        self.shown = 0

    def find(self, text: str) -> list[Span]:
        self.shown += len(text)
        found = []
        at = text.find("secret")
        while at >= 0:
            found.append(Span(at, at + 6, "SECRET", 0.9, "word"))
            at = text.find("secret", at + 6)
        return found

    def find_value(self, key: str, value: str) -> list[Span]:
        return self.find(value)


@pytest.fixture(autouse=True)
def short_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.wire.body.SHORTEST", 0)


def scanner() -> Scanner:
    return Scanner(load_policy(), KEY, finder=Finder())


def job(body: bytes, scope: str = "role/a", wire: str = "anthropic.messages") -> ScanJob:
    return ScanJob(wire, body, content_type="application/json", scope=scope)


def facts(result: ScanResult) -> tuple[Any, ...]:
    return (
        result.body, result.counts, result.originals, result.model, result.stream, result.opaque,
        result.marks, result.kinds, result.met,
    )  # fmt: skip


def written(document: Any, **how: Any) -> bytes:
    how = how or {"separators": (",", ":"), "ensure_ascii": False}
    return json.dumps(document, **how).encode()


def message(text: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def conversation(texts: list[str], **more: Any) -> dict[str, Any]:
    return {"model": "claude-test-1", "max_tokens": 9, "messages": [*map(message, texts)], **more}


texts = st.sampled_from(
    ("plain", "my secret", "é ü", 'a "quoted" \\ one', "\u2028", "0", "[SECRET_x7k2m9qd]", "")
)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(texts, min_size=1, max_size=6), min_size=1, max_size=6),
    st.randoms(use_true_random=False),
)
def test_every_order_of_conversations_gives_the_bytes_of_a_fresh_scanner(
    conversations: list[list[str]], chance: random.Random
) -> None:
    warm = scanner()
    for spoken in conversations:
        for count in range(1, len(spoken) + 1):
            more = chance.choice(({}, {"system": [{"type": "text", "text": spoken[0]}]}))
            how = chance.choice(({}, {"indent": 1}, {"separators": (",", ":")}))
            body = written(conversation(spoken[:count], **more), **how)
            assert facts(warm.run(job(body))) == facts(scanner().run(job(body)))


@pytest.mark.parametrize(
    ("wire", "name", "said"),
    [
        ("openai.chat", "messages", lambda text: {"role": "user", "content": text}),
        (
            "openai.responses",
            "input",
            lambda text: {"role": "user", "content": [{"type": "input_text", "text": text}]},
        ),
    ],
)
def test_conversations_of_other_formats_give_the_bytes_of_a_fresh_scanner(
    wire: str, name: str, said: Any
) -> None:
    warm = scanner()
    tools = [{"type": "function", "name": "f", "description": "a secret one", "parameters": {}}]
    spoken = [said(text) for text in ("plain", "my secret", "more", "é", "another secret", "end")]
    for count in range(1, len(spoken) + 1):
        body = written({"model": "gpt-5", "tools": tools, name: spoken[:count], "stream": True})
        for _ in range(2):
            assert facts(warm.run(job(body, wire=wire))) == facts(
                scanner().run(job(body, wire=wire))
            )


def test_the_turns_of_a_session_give_the_bytes_of_a_fresh_scanner() -> None:
    warm = Scanner(load_policy(), KEY)
    for number, document in enumerate(turns(8, start=40_000, end=90_000)):
        body = written(document)
        if number % 3 == 1:
            assert facts(warm.run(job(body))) == facts(Scanner(load_policy(), KEY).run(job(body)))
        else:
            warm.run(job(body))


def test_what_is_known_is_not_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    real = prefixes.Known.reduced

    def reduced(known: prefixes.Known) -> bytes:
        read.append(len(real(known)))
        return real(known)

    monkeypatch.setattr(prefixes.Known, "reduced", reduced)
    warm = scanner()
    body = written(conversation(["x" * 5000, "y" * 5000, "z"]))
    warm.run(job(body))
    warm.run(job(body))
    warm.run(job(body, scope="role/b"))
    assert read[0] == read[2] == len(body)
    assert read[1] < 100


@pytest.mark.parametrize(
    "broken",
    [
        lambda body: body[:-1],
        lambda body: body + b"x",
        lambda body: body.replace(b'"last"', b"NaN"),
        lambda body: body.replace(b'"last"', b'"\\ud800"'),
        lambda body: body[:-1] + b',"model":"again"}',
        lambda body: body.replace(b'"last"', b"[" * 200 + b"]" * 200),
        lambda body: body.replace(b"last", b"\xff"),
    ],
)
def test_a_body_that_goes_on_wrongly_is_refused_as_by_a_fresh_scanner(broken: Any) -> None:
    warm = scanner()
    body = written(conversation(["one", "two", "last"]))
    warm.run(job(body))
    told = []
    for one in (warm, scanner()):
        with pytest.raises(ScanRefused) as refused:
            one.run(job(broken(body)))
        told.append((refused.value.code, refused.value.sentence))
    assert told[0] == told[1]


def test_what_the_client_itself_writes_for_a_message_is_read_as_such() -> None:
    warm = scanner()
    document = conversation(["one", "two"])
    document["messages"].insert(1, 0)
    for _ in range(2):
        body = written(document)
        assert facts(warm.run(job(body))) == facts(scanner().run(job(body)))


def test_a_bounded_number_of_beginnings_is_remembered() -> None:
    known = Prefixes(lambda first: None, limit=8)
    for number in range(100):
        after = number.to_bytes(2, "big")
        known.learn(b"start", Step(number, 1, "messages", 0, clean=True, after=after))
        known.learn(after, Step(number, 1, "messages", 1, clean=True, after=b"end"))
    assert len(known) <= 8
    assert [step.size for step in known.steps(b"start")] == [99, 98, 97, 96]
