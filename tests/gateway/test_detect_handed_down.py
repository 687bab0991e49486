"""Secrets that have no name of their own: in lists and maps behind a telling name, in blocks of
other languages, in phrases of words, behind here-strings; and what stays in the same places.

Every key is made when the test runs.
"""

from __future__ import annotations

import json
import random
import string
import time
from typing import Any

import pytest

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy
from gateway.wire.walk import Scanner


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_policy())


def made(seed: str, size: int = 32) -> str:
    rng = random.Random(seed)
    letters = string.ascii_letters + string.digits
    return "q7X" + "".join(rng.choice(letters) for _ in range(size - 5)) + "4b"


def found(detector: Detector, text: str) -> list[str]:
    return [text[span.start : span.end] for span in detector.find(text)]


class Engine:
    def __init__(self, detector: Detector) -> None:
        self._detector = detector

    def text(self, text: str) -> str:
        return self._without(text, self._detector.find(text))

    def value(self, key: str, value: str) -> str:
        return self._without(value, self._detector.find_value(key, value))

    def _without(self, text: str, spans: list[Any]) -> str:
        for span in reversed(spans):
            text = f"{text[: span.start]}[#]{text[span.end :]}"
        return text


#: `@` is the key.
LISTS = [
    'tokens: ["@", "the"]', "secrets = {'a': '@', 'type': 'boolean'}", 'passwords = [{"x": "@"}]',
    "tokens:\n  - @\n  - the\nnext: 1", "secrets:\n  prod:\n    a: @\nother: b", "tokens:\n- @",
    'api_keys = ["@",\n  "b"]', 'api_keys: list[str] = ["@"]', "apiKeys => ['@'],",
    'String[] tokens = new String[] {"@"};', 'val tokens = listOf("@")', "credentials = ('@',)",
    "secret = <<EOF\n@\nEOF", 'secret = <<-"EOT"\n    @\n    EOT', "password: !vault @",
    "password: !encrypted @", "    client-key-data: LS0tLS1CRUdJTi@", "    token: @",
    "password = [[@]]", "local password = [[@]]", "local token = [==[@]==]",
    'read -s PASSWORD <<< "@"', 'passwd --stdin bob <<< "@"', "chpasswd <<< 'bob:@'",
]  # fmt: skip


@pytest.mark.parametrize("form", LISTS)
def test_a_telling_name_speaks_for_what_stands_behind_it(detector: Detector, form: str) -> None:
    key = made(form)
    assert key in "".join(found(detector, form.replace("@", key))), form


@pytest.mark.parametrize(
    "document",
    [
        {"tokens": ["@"]}, {"secrets": {"a": "@", "b": {"c": "@"}}}, {"passwords": [{"x": "@"}]},
        {"apiKeys": {"prod": ["@"]}}, {"config": {"db_credentials": {"x": "@"}}},
        '{"tokens": {"a": "@"}}', {"secrets": [["a", {"b": "@"}]]},
    ],
)  # fmt: skip
def test_members_and_items_of_requests_are_spoken_for(detector: Detector, document: Any) -> None:
    key = made(str(document))
    filled = json.loads(json.dumps(document).replace("@", key))
    assert key not in json.dumps(Scanner(Engine(detector)).free(filled))


@pytest.mark.parametrize(
    "document",
    [
        {"tokens": ["a", "the"]}, {"tokens": [1, 2, 3]}, {"keys": ["name", "id"]},
        {"secret": {"type": "boolean", "description": "One of the Secret2024 things"}},
        {"credentials": {"expires": "2026-01-01T00:00:00Z", "id": "a1b2c3d4e5f6a7b8"}},
        {"password": {"type": "string", "pattern": "^[a-z0-9]{8,}$", "$ref": "#/x/Password2Type"}},
        {"tokens": {"primary-500": "#3B82F6", "fn": "PackedVector2Array", "b": "base64encode"}},
        {"passwords": ["required", "min:8"]}, {"secrets": [{"file": "./db-2024a.txt"}]},
    ],
)  # fmt: skip
def test_words_numbers_and_schemas_stay(detector: Detector, document: dict[str, Any]) -> None:
    assert Scanner(Engine(detector)).free(document) == document


@pytest.mark.parametrize(
    "text",
    [
        'tokens: ["a", "the"]', "tokens: [1,2,3]", 'keys: ["name","id"]', "token: !Ref DbToken2024",
        "secret: !secret db_password", 'tokens = lexer.tokenize("abc12345678901")',
        "passphrase: the key used for signing the file", "passphrase is used when reading keys",
        "mnemonic: the name that assemblers give to what a machine does when it runs them all",
        'cat <<< "some words 2024"', "secrets:\n  - name: db-2024a\n    path: /a/b1\n",
    ],
)  # fmt: skip
def test_lists_of_words_and_sentences_stay(detector: Detector, text: str) -> None:
    assert found(detector, text) == []


SEED = "abandon ability able about above absent absorb abstract absurd abuse access accident"


@pytest.mark.parametrize(
    ("form", "phrase"),
    [
        ("passphrase: @", "correct horse battery staple"),
        ('"passphrase": "@"', "correct-horse-battery-staple"),
        ("The passphrase is @.", "correct horse battery staple"),
        ("mnemonic: @", SEED), ('seed phrase: "@"', SEED), ("Recovery phrase:\n@", SEED),
        ('MNEMONIC="@"', SEED),
    ],
)  # fmt: skip
def test_phrases_of_words_are_secrets(detector: Detector, form: str, phrase: str) -> None:
    assert phrase in found(detector, form.replace("@", phrase))


def test_long_lists_and_words_cost_no_more_than_their_length(detector: Detector) -> None:
    def cost(text: str) -> float:
        began = time.perf_counter()
        detector.find(text)
        return time.perf_counter() - began

    plain = "some words about nothing at all here\n" * 3000
    for text in ("tokens: [" * 12000, "mnemonic: " + "  abcd" * 18000, "seed words: aaa, " * 6000):
        assert any(cost(text) < 60 * cost(plain) for _ in range(3))
