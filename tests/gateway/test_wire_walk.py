"""The walker: nothing is missed, nothing else changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import CANARY, FakeRedactor, NamingRedactor, restoring, token_of

from gateway.wire.strictjson import Number, dumps
from gateway.wire.walk import Scanner, restore_free, restore_string

SECRET = "CANARY0001Z"
TOKEN = token_of(SECRET)


def scan(text: str) -> str:
    return Scanner(FakeRedactor()).string(text)


def test_plain_text_is_scanned() -> None:
    assert scan(f"say {SECRET}.") == f"say {TOKEN}."


def test_json_in_a_string_keeps_every_byte_but_the_changed_literals() -> None:
    text = '{\n  "a" : "%s",\t"n":[1.0,1e0, -0 ],\n "b":"\\u00e9\\/" }\n'
    assert scan(text % SECRET) == text % TOKEN


def test_json_in_a_string_without_findings_keeps_its_bytes() -> None:
    text = ' {"a" : "x\\u0041\\/", "a": 1E400, "b":"\\ud800"}'
    assert scan(text) is text


def test_escapes_in_nested_json_hide_nothing() -> None:
    hidden = "".join(f"\\u{ord(char):04x}" for char in SECRET)
    assert scan(f'{{"a":"{hidden}"}}') == f'{{"a":"{TOKEN}"}}'
    assert scan(f'{{"{hidden}":1}}') == f'{{"{TOKEN}":1}}'
    assert scan(f'{{"a":1,"a":"{hidden}"}}') == f'{{"a":1,"a":"{TOKEN}"}}'
    assert scan(f'["\\ud800{hidden}"]') == f'["\ufffd{TOKEN}"]'.replace("\ufffd", "\\ufffd")
    assert scan(f'"{hidden}"') == f'"{TOKEN}"'


def test_an_escape_before_a_value_is_not_taken_for_part_of_it() -> None:
    assert scan(f'["x\\n{SECRET}\\n"]') == f'["x\\n{TOKEN}\\n"]'


def test_lines_of_json_are_read_as_json() -> None:
    hidden = "".join(f"\\u{ord(char):04x}" for char in SECRET)
    text = 'log:\n{"a": 1}\r\n  {"b": "%s"}\nend'
    assert scan(text % hidden) == text % TOKEN


@pytest.mark.parametrize("depth", [1, 2, 3, 6, 9])
def test_json_in_strings_at_any_depth_stays_json(depth: int) -> None:
    value: Any = {"k": SECRET, "list": [1.5, {SECRET: "x"}]}
    for _ in range(depth):
        value = json.dumps({"inner": value if isinstance(value, str) else json.dumps(value)})
    scanned = scan(value)
    assert "CANARY" not in scanned
    for _ in range(depth + 1):
        scanned = json.loads(scanned).get("inner", scanned)
    assert json.loads(scanned) == {"k": TOKEN, "list": [1.5, {TOKEN: "x"}]}


@pytest.mark.parametrize(
    "value",
    [
        {"DB_PASSWORD": "x y"},
        {"password": ["x y"]},
        {"password": {"default": "x y"}},
        {"env": [{"name": "DB_PASSWORD", "value": "x y"}]},
        {"args": ["run", "--password", "x y"]},
        {"password": 123456},
    ],
)
def test_a_name_tells_what_its_value_is_in_objects_and_in_json_text(value: Any) -> None:
    scanner = Scanner(NamingRedactor())
    assert not {"x y", "123456"} & set(leaves(scanner.free(value)))
    inside = scanner.string(json.dumps(value))
    assert not {"x y", "123456"} & set(leaves(json.loads(inside)))


def test_an_engine_without_names_is_shown_the_assignment() -> None:
    redactor = FakeRedactor()
    Scanner(redactor).free({"DB_PASSWORD": "x y"})
    assert "DB_PASSWORD: x y" in redactor.shown


def test_numbers_are_scanned_once_they_are_long_enough_to_be_somebody() -> None:
    class Digits(FakeRedactor):
        def text(self, s: str) -> str:
            return s.replace("4111111111111111", "[CARD_00000000]")

    value = {"card": 4111111111111111, "f": Number("4111111111111111.0"), "n": 12}
    assert Scanner(Digits()).free(value) == {
        "card": "[CARD_00000000]",
        "f": "[CARD_00000000].0",
        "n": 12,
    }


def test_keys_that_redaction_makes_equal_stay_apart() -> None:
    class Mask(FakeRedactor):
        def text(self, s: str) -> str:
            return CANARY.sub("***", s)

    value = {"CANARY0001Z": 1, "CANARY0002Z": 2, "***_2": 3, "***": 4}
    scanned = Scanner(Mask()).free(value)
    assert list(scanned.values()) == [1, 2, 3, 4]
    inside = Scanner(Mask()).string(json.dumps(value))
    assert list(json.loads(inside).values()) == [1, 2, 3, 4]


def test_unchanged_data_is_the_same_object() -> None:
    value = {"a": ["x", {"b": 1}], "c": None}
    assert Scanner(FakeRedactor()).free(value) is value


@pytest.mark.parametrize(
    "url",
    [
        f"https://x.example/{SECRET}?q=1",
        "https://x.example/?mail=%43ANARY0001%5A&b=1",
        "https://x.example/p%2FCANARY0001Z/q",
        "mailto:%43%41NARY0001Z",
        "https://u:CANARY0001Z@x.example/",
    ],
)
def test_urls_are_scanned_with_percent_encoding_undone(url: str) -> None:
    scanned = Scanner(FakeRedactor()).url(url)
    assert "[EMAIL_" in scanned
    assert "CANARY" not in scanned
    assert "%43" not in scanned


def test_a_url_without_findings_keeps_its_bytes() -> None:
    url = "https://x.example/a%20b%2Fc?q=%C3%A9&r=%ff#x"
    assert Scanner(FakeRedactor()).url(url) == url


@pytest.mark.parametrize("text", ["[" * 5000, '{"a":' * 3000, "{" + '"a":1,' * 3 + "}", "[[[", '"'])
def test_text_that_only_looks_like_json_is_plain_text(text: str) -> None:
    assert scan(text) == text
    assert scan(text + SECRET + "]") == text + TOKEN + "]"


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.just(SECRET)
    | st.just("CANARY0002Z"),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text() | st.just(SECRET), inner, max_size=4)
        | inner.map(json.dumps)
    ),
    max_leaves=20,
)


@given(JSON_VALUES, st.booleans())
@settings(max_examples=400, deadline=None)
def test_json_text_is_redacted_like_the_structure_it_stands_for(value: Any, ascii: bool) -> None:
    text = json.dumps([value], ensure_ascii=ascii, indent=1)
    scanned = scan(text)
    assert "CANARY" not in scanned
    document = json.loads(scanned)
    assert shape(document) == shape(json.loads(text))


@given(JSON_VALUES)
@settings(max_examples=300, deadline=None)
def test_restoring_undoes_redacting(value: Any) -> None:
    redactor = FakeRedactor()
    scanner = Scanner(redactor)
    text = json.dumps({"v": value})
    assert restore_string(scanner.string(text), restoring(redactor.originals)) == text
    if clean(value):
        restored = restore_free(scanner.free({"v": value}), restoring(redactor.originals))
        assert dumps(restored) == dumps({"v": value})


@given(st.text(alphabet='"\\\n\t/{}[]:,ué\x00 a', max_size=12), st.integers(1, 4))
@settings(max_examples=300, deadline=None)
def test_any_original_restored_into_nested_json_leaves_it_valid(original: str, depth: int) -> None:
    value: Any = {"k": f"<{TOKEN}>"}
    expected: Any = {"k": f"<{original}>"}
    for _ in range(depth):
        value, expected = {"s": json.dumps(value)}, {"s": json.dumps(expected)}
    restored = restore_free(value, restoring({TOKEN: original}))
    for _ in range(depth):
        restored, expected = json.loads(restored["s"]), json.loads(expected["s"])
    assert restored == expected


def test_a_quoted_phrase_is_prose_and_gets_no_backslashes() -> None:
    assert restore_string(f'"{TOKEN}"', restoring({TOKEN: 'a"b'})) == '"a"b"'


def leaves(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [leaf for member in value.values() for leaf in leaves(member)]
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [str(value)]


def shape(value: Any) -> Any:
    """The structure with every token put back, JSON inside strings opened."""
    if isinstance(value, dict):
        return [(shape(key), shape(member)) for key, member in value.items()]
    if isinstance(value, list):
        return [shape(item) for item in value]
    if isinstance(value, str):
        try:
            inner = json.loads(value)
        except ValueError:
            return CANARY.sub(lambda found: token_of(found.group()), value).replace("\ufffd", "?")
        return ["json", shape(inner)] if isinstance(inner, dict | list | str) else value
    return value


def clean(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return "[EMAIL_" not in json.dumps(value) and not big(value)


def big(value: Any) -> bool:
    if isinstance(value, dict):
        return any(big(member) for member in value.values())
    if isinstance(value, list):
        return any(big(item) for item in value)
    return isinstance(value, int) and abs(value) >= 2**63
