"""Secrets in every syntax people write them, and what stands in such places and is none: one text
a line in `cases/`."""

from __future__ import annotations

import random
import re
import string
from pathlib import Path

import pytest

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy
from gateway.redaction.tokens import Tokenizer

CASES = Path(__file__).with_name("cases")
SECRETS = {"SECRET", "APIKEY", "JWT", "PRIVATEKEY"}


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_policy())


def cases(name: str) -> list[str]:
    lines = (CASES / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("# ")]


def read(case: str) -> tuple[str, list[tuple[int, int]]]:
    """The text of a case, and where its values stand."""
    text, spans = "", []
    for number, part in enumerate(re.split("[«»]", case.replace("⏎", "\n"))):
        if number % 2:
            spans.append((len(text), len(text) + len(part)))
        text += part
    return text, spans


def found(detector: Detector, text: str) -> list[tuple[int, int]]:
    return [(s.start, s.end) for s in detector.find(text) if s.kind in SECRETS]


@pytest.mark.parametrize("case", cases("secrets_found.txt"))
def test_a_secret_is_found_in_the_syntax_it_stands_in(detector: Detector, case: str) -> None:
    text, spans = read(case)
    assert found(detector, text) == spans, [text[a:b] for a, b in found(detector, text)]


@pytest.mark.parametrize("case", cases("secrets_left.txt"))
def test_code_placeholders_and_sentences_are_left_alone(detector: Detector, case: str) -> None:
    text, _ = read(case)
    assert [text[a:b] for a, b in found(detector, text)] == []


#: Where a key that a generator made may stand; the name says what it is.
SYNTAXES = [
    "API_KEY={}", 'api_key = "{}"', "apiKey: '{}',", '{{"apiKey": "{}"}}', "api-key: {}",
    'export API_KEY="{}"', "ENV API_KEY={}", "ARG API_KEY={}", "  - API_KEY={}", "api.key={}",
    '<apiKey>{}</apiKey>', '<add key="ApiKey" value="{}"/>', "--api-key {}", "--api-key={}",
    "?api_key={}&x=1", 'X-Api-Key: {}', "Authorization: Bearer {}", "'api_key' => '{}',",
    'String apiKey = "{}";', 'const API_KEY: &str = "{}";', 'apiKey := "{}"', "api_key <- '{}'",
    'os.environ["API_KEY"] = "{}"', "process.env.API_KEY = '{}'", 'define("API_KEY", "{}");',
    "[service]\napi_key = {}\n", "- name: API_KEY\n  value: {}\n", "the API key is {}",
    "API key: `{}`", "| name | api_key |\n|---|---|\n| a | {} |\n", "name,api_key\na,{}\n",
    'variable "api_key" {{\n  default = "{}"\n}}', "api_key: |\n  {}\n", "api_key: >-\n  {}\n",
    'apiKey: "{}" # rotate', "set API_KEY={}", "$env:API_KEY = '{}'", "API_KEY:={}",
    "kind: Secret\nstringData:\n  x: {}\n", "key=1 api_key={} host=a", '\\"api_key\\":\\"{}\\"',
]  # fmt: skip


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_a_generated_key_is_found_in_every_syntax(detector: Detector, syntax: str) -> None:
    rng = random.Random(syntax)
    for alphabet, size in (
        (string.ascii_letters + string.digits, 32), ("0123456789abcdef", 40),
        (string.ascii_lowercase + string.digits, 24), (string.ascii_letters + string.digits, 16),
    ):  # fmt: skip
        key = "a1" + "".join(rng.choice(alphabet) for _ in range(size - 2))
        text = syntax.format(key)
        at = text.index(key)
        assert (at, at + len(key)) in found(detector, text), text


def test_a_value_that_was_replaced_before_is_left_as_it_is(detector: Detector) -> None:
    token = Tokenizer(b"k" * 32, "r").token("SECRET", "kestrel")
    for case in cases("secrets_found.txt"):
        text, spans = read(case)
        if len(spans) != 1:
            continue
        (start, end) = spans[0]
        assert found(detector, text[:start] + token + text[end:]) == [], case


def test_a_percent_sign_that_was_itself_encoded_hides_nothing(detector: Detector) -> None:
    for sign in ("%3D", "%253D", "%25253D"):
        text = f"next=/a?api_key{sign}h2Kd93jJxq81mZ&x=1"
        at = text.index("h2Kd")
        assert (at, at + 14) in found(detector, text)


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_every_value_of_a_kubernetes_secret_is_one_and_its_user_name_is_not(
    detector: Detector, form: str
) -> None:
    text = {
        "yaml": (
            "apiVersion: v1\nkind: ConfigMap\ndata:\n  color: kestrelblue\n---\n"
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: a\ndata:\n  username: YWRtaW4=\n"
            "  one: a2VzdHJlbA==\nstringData:\n  two: |\n    line of kestrel\n    and wing\n"
            '  three: "kestrel"\n---\nkind: ConfigMap\ndata:\n  shape: kestrelround\n'
        ),
        "json": (
            '{"kind": "Secret", "data": {"username": "YWRtaW4=", "one": "a2VzdHJlbA=="}, '
            '"stringData": {"two": "kestrel wing", "three": "kestrel"}}'
        ),
    }[form]
    values = [text[a:b] for a, b in found(detector, text)]
    assert len(values) == 3
    assert values[0] == "a2VzdHJlbA=="
    assert "kestrel" in values[1]
    assert values[2] == "kestrel"
