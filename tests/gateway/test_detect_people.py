"""Names of people without a language model: one text a line in `cases/`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy
from gateway.redaction.tokens import Tokenizer

CASES = Path(__file__).with_name("cases")


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_policy())


def cases(name: str) -> list[str]:
    lines = (CASES / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line]


def read(case: str) -> tuple[str, list[str]]:
    parts = re.split("[«»]", case.replace("⏎", "\n"))
    return "".join(parts), parts[1::2]


def names(detector: Detector, text: str) -> list[str]:
    return [text[s.start : s.end] for s in detector.find(text) if s.kind == "NAME"]


@pytest.mark.parametrize("case", cases("people_found.txt"))
def test_a_name_is_found_where_the_text_says_one_stands(detector: Detector, case: str) -> None:
    text, values = read(case)
    assert names(detector, text) == values


@pytest.mark.parametrize("case", cases("people_left.txt"))
def test_what_is_nobodys_name_is_left_alone(detector: Detector, case: str) -> None:
    text, _ = read(case)
    assert names(detector, text) == []


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("first_name", "Jane", True), ("lastName", "Öztürk", True), ("fullName", "Jane Doe", True),
        ("customer", "Grzegorz Nowak", True), ("name", "Jane Doe", True),
        ("author", "Jane Doe", True),
        ("Vorname", "Jürgen", True), ("contact", "Hans Meyer", True),
        ("patient", "Doe, Jane", True),
        ("name", "react-dom", False), ("name", "Run Tests", False), ("name", "Read", False),
        ("first_name", "string", False), ("author", "unknown", False), ("file_name", "Jane", False),
        ("hostname", "Jane", False), ("filename", "Jane Doe.txt", False),
        ("name", "get_weather", False),
    ],
)  # fmt: skip
def test_the_name_of_a_value_in_json_says_whether_it_is_a_person(
    detector: Detector, key: str, value: str, found: bool
) -> None:
    spans = [s for s in detector.find_value(key, value) if s.kind == "NAME"]
    assert [value[s.start : s.end] for s in spans] == ([value] if found else [])


def test_a_name_beside_an_address_that_was_replaced_before_is_still_found(
    detector: Detector,
) -> None:
    token = Tokenizer(b"k" * 32, "r").token("EMAIL", "jane@corp.example")
    assert names(detector, f"Signed-off-by: Jane Doe <{token}>") == ["Jane Doe"]
    replaced = Tokenizer(b"k" * 32, "r").token("NAME", "Jane Doe")
    assert names(detector, f"Signed-off-by: {replaced} <{token}>") == []


def test_a_field_before_a_name_in_small_letters_and_an_address_is_no_name(
    detector: Detector,
) -> None:
    assert names(detector, "name: jane doe: a@b.gr ") == []


def test_source_code_is_left_alone(detector: Detector) -> None:
    code = (
        "class Person(Base):\n    name: str = Field(...)\n    first_name = Column(String)\n"
        "def find(name: Name, customer: Customer) -> Author:\n    return Author(name=Name)\n"
        "import React from 'react';\nconst user = new User({ name: Name, owner: Owner });\n"
        "type Props = { firstName: string; lastName: string };\n"
    )
    assert names(detector, code) == []
