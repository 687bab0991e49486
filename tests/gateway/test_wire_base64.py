"""Base64 in any string is opened when it is a text, read, and closed the way it was written."""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import re
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_fakes import FakeRedactor, NamingRedactor, token_of

from gateway import wire
from gateway.wire.schema import Reading
from gateway.wire.walk import Scanner

C = "CANARY0001Z"
T = token_of(C)
TEXT = f"Dear {C}, please write to {C} soon??>>\n"


def b64(text: str, encoding: str = "utf-8") -> str:
    return base64.b64encode(text.encode(encoding)).decode()


def scan(text: str) -> str:
    return Scanner(FakeRedactor()).string(text)


@pytest.mark.parametrize(
    "around", ["{}", "see {} ok", "data:text/plain;base64,{}", "x={};", "<{}>"]
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_a_text_in_base64_is_read_wherever_it_stands(around: str, encoding: str) -> None:
    out = scan(around.format(b64(TEXT, encoding)))
    assert out == around.format(b64(TEXT.replace(C, T), encoding))
    assert scan(out) == out


@pytest.mark.parametrize("width", [60, 64, 76])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_base64_over_lines_is_read_as_one_and_keeps_its_width(width: int, end: str) -> None:
    word = end.join(textwrap.wrap(b64(TEXT * 6), width))
    out = scan(f"-----\n{word}{end}-----").removeprefix("-----\n").removesuffix(f"{end}-----")
    lines = out.split(end)
    assert {len(line) for line in lines[:-1]} == {width}
    assert base64.b64decode("".join(lines)).decode() == TEXT.replace(C, T) * 6


def test_the_other_alphabet_and_missing_padding_stay() -> None:
    word = base64.urlsafe_b64encode((TEXT + "x").encode()).decode().rstrip("=")
    out = scan(word)
    assert re.fullmatch(r"[A-Za-z0-9_-]+", out)
    assert (
        base64.urlsafe_b64decode(out + "=" * (-len(out) % 4)).decode() == TEXT.replace(C, T) + "x"
    )


def test_base64_in_base64_and_in_json_in_a_string_is_read() -> None:
    document = {"a": b64(json.dumps({"b": b64(TEXT)}))}
    out = json.loads(scan(json.dumps(document)))
    inner = json.loads(base64.b64decode(out["a"]))
    assert base64.b64decode(inner["b"]).decode() == TEXT.replace(C, T)


def test_a_value_known_by_its_key_is_one_value_and_not_taken_apart() -> None:
    redactor = NamingRedactor()
    secret = b64(TEXT)
    out = Scanner(redactor).free({"password": secret})
    assert out == {"password": token_of(secret)}
    assert redactor.originals == {token_of(secret): secret}


@pytest.mark.parametrize(
    "text",
    [
        "getAuthorizationHeaderForRequestAndResponse",
        "src/components/header/navigation/index",
        "0123456789abcdef0123456789abcdef01234567",
        "sha512-" + base64.b64encode(bytes(range(64))).decode(),
        base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(range(256))).decode(),
        base64.b64encode(b"plain words without anything in them").decode(),
        "=" * 50, "A" * 25, "a" * 24 + "_" + "+" * 24,
    ],
)  # fmt: skip
def test_what_is_no_text_or_holds_nothing_keeps_its_bytes(text: str) -> None:
    assert scan(text) == text


@given(st.text(max_size=60), st.text(max_size=20), st.text(max_size=20))
@settings(max_examples=150, deadline=None)
def test_any_text_round_trips_and_none_breaks_the_walk(inside: str, left: str, right: str) -> None:
    word = b64(inside + TEXT)
    text = f"{left} {word} {right}"
    out = scan(text)
    assert C not in out
    assert T in opened(out)
    assert opened(out).replace(T, C) == opened(text)


def opened(text: str) -> str:
    """Every base64 word of a text decoded."""

    def decode(found: re.Match[str]) -> str:
        try:
            return base64.b64decode(found.group(), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return found.group()

    return re.sub(r"[A-Za-z0-9+/]{24,}={0,2}", decode, text)


@pytest.mark.parametrize(
    "media", ["text/plain", "application/json", "image/png", "application/pdf"]
)
def test_a_value_in_the_place_of_base64_is_read_as_it_stands(media: str) -> None:
    value = "CANARY0002abcdefghijklmZ"
    block = {"type": "document",
             "source": {"type": "base64", "media_type": media, "data": value}}  # fmt: skip
    body = json.dumps({"messages": [{"role": "user", "content": [block]}]}).encode()
    out = wire.get("anthropic.messages").redact_body(body, "", Reading(FakeRedactor()), {})
    assert b"CANARY" not in out.body


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
def test_base64_of_a_text_in_wide_characters_is_read(encoding: str) -> None:
    word = base64.b64encode(f"caf\u00e9 {TEXT}".encode(encoding)).decode()
    out = scan(f"see {word} there")
    assert base64.b64decode(out[4:-6]).decode(encoding) == f"caf\u00e9 {TEXT}".replace(C, T)


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "shift_jis", "koi8-r"])
def test_base64_of_a_text_in_an_older_encoding_is_read(encoding: str) -> None:
    odd = {"shift_jis": "日本", "koi8-r": "Привет"}.get(encoding, "d\u00e9j\u00e0")
    text = f"{odd}, the rest is written in plain letters that everybody reads: {TEXT}"
    out = scan(base64.b64encode(text.encode(encoding)).decode())
    assert base64.b64decode(out).decode(encoding) == text.replace(C, T)


@pytest.mark.parametrize("media", ["text/plain", "application/gzip", "application/pdf", ""])
@pytest.mark.parametrize("more", ["", " and more" * 200])
def test_a_packed_text_in_the_place_of_a_file_is_read(media: str, more: str) -> None:
    data = base64.b64encode(gzip.compress((TEXT + more).encode())).decode()
    block = {"type": "document", "source": {"type": "base64", "media_type": media, "data": data}}
    body = json.dumps({"messages": [{"role": "user", "content": [block]}]}).encode()
    out = wire.get("anthropic.messages").redact_body(body, "", Reading(FakeRedactor()), {})
    read = json.loads(out.body)["messages"][0]["content"][0]["source"]["data"]
    assert gzip.decompress(base64.b64decode(read)).decode() == (TEXT + more).replace(C, T)
