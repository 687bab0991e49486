"""Values that are written in a way of their own inside a string are read, and the rest stays."""

from __future__ import annotations

import base64
import gzip
import json
import quopri
import textwrap
import unicodedata
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from wire_fakes import FakeRedactor, NamingRedactor, token_of

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy
from gateway.redaction.redactor import Redactor, SpanCache
from gateway.redaction.tokens import Tokenizer
from gateway.wire import sse, walk
from gateway.wire.strictjson import Number
from gateway.wire.walk import Scanner

C = "CANARY0001Z"
T = token_of(C)
POLICY = load_policy()
DETECTOR = Detector(POLICY)
HIDDEN = (
    "anna.kovacs@kestrel-mail.com",
    "4539578763621486",
    "ghp_0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0Kpr2A",
    "DE89370400440532013000",
)


def scan(value: object) -> object:
    return Scanner(NamingRedactor()).free(value)


def engine() -> Redactor:
    return Redactor(
        DETECTOR, Tokenizer(b"k" * 32, "hidden"), POLICY, scope="hidden", cache=SpanCache()
    )


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def test_a_short_value_in_base64_is_opened() -> None:
    assert scan(f"X={b64(C.encode())};") == f"X={b64(T.encode())};"


@pytest.mark.parametrize("before", ["a/", "ab/", "abc/", "v1/files/", "name_", "b64-", "../x/"])
def test_base64_behind_a_name_in_the_same_word_is_opened(before: str) -> None:
    out = scan(f"open {before}{b64(f'mail to {C} now'.encode())} ok")
    assert isinstance(out, str)
    assert C.encode() not in base64.b64decode(out.split()[1].removeprefix(before) + "==")


def test_what_follows_base64_inside_a_word_keeps_its_place() -> None:
    word = b64(f"mail to {C} now!".encode())
    assert len(word) % 4 == 0
    out = scan(f"x/{word.rstrip('=')}\u00e9")
    assert isinstance(out, str)
    assert out.endswith("\u00e9")


def test_packed_base64_is_unpacked_and_packed_again() -> None:
    out = scan(f"H: {b64(gzip.compress(f'a text with {C} in it'.encode()))}")
    assert isinstance(out, str)
    assert gzip.decompress(base64.b64decode(out[3:])).decode() == f"a text with {T} in it"


@pytest.mark.parametrize("mark", ["", "0x"])
def test_hexadecimal_of_a_text_is_read(mark: str) -> None:
    out = scan(f"say {mark}{f'mail {C}'.encode().hex()} twice")
    assert out == f"say {mark}{f'mail {T}'.encode().hex()} twice"


@pytest.mark.parametrize(
    ("form", "wanted"),
    [
        ("a=1&note=call+CANARY0001+Z&b=2", f"a=1&note=call+{token_of('CANARY0001 Z')}&b=2"),
        ("https://x.example/?q=CANARY0001%20Z", f"https://x.example/?q={token_of('CANARY0001 Z')}"),
        ("password=a%21b+c&user=x", f"password={token_of('a!b c')}&user=x"),
        ("password=a%21b+c", f"password={token_of('a!b c')}"),
    ],
)
def test_a_form_is_read_decoded_and_its_names_count(form: str, wanted: str) -> None:
    assert scan(form) == wanted


def test_json_and_base64_in_a_form_are_read() -> None:
    for hidden in (json.dumps({"to": C}), b64(f"mail to {C} now, please".encode())):
        out = scan(f"https://x.example/cb?state={quote(hidden, safe='')}&n=1")
        assert isinstance(out, str)
        assert out.endswith("&n=1")
        state = unquote(out.partition("state=")[2].removesuffix("&n=1"))
        assert C not in state + base64.b64decode(f"{state}===").decode("latin-1")


def test_base64_over_indented_lines_is_read_as_one() -> None:
    word = "\n    ".join(textwrap.wrap(b64(f"write to {C}; ".encode() * 20), 64))
    out = scan(f"data: |\n    {word}\n")
    assert isinstance(out, str)
    lines = out.removeprefix("data: |\n").splitlines()
    assert all(line.startswith("    ") for line in lines)
    text = base64.b64decode("".join(line.strip() for line in lines)).decode()
    assert text == f"write to {T}; " * 20


def test_an_address_as_the_user_of_a_url_is_one() -> None:
    for sign in ("@", "%40"):
        user = HIDDEN[0].replace("@", sign)
        for rest in ("@host.example.com/x", ":s3cr3tPw9@host.example.com:587/x"):
            assert "kovacs" not in Scanner(engine()).string(f"smtp://{user}{rest}")
    for url in ("https://user@host.example.com/a", "ssh://git@github.com/a/b.git"):
        assert Scanner(engine()).string(url) == url


def test_sums_are_no_forms() -> None:
    code = "total=a+b; x = password=c%20d\nfor i in range(0, n, k=i+1): pass"
    assert scan(code) == code


def test_a_text_spelled_in_a_list_is_read() -> None:
    assert scan(list(f"hi {C}")) == [f"hi {T}"]
    assert scan({"type": "Buffer", "data": list(f"hi {C}".encode())}) == {
        "type": "Buffer",
        "data": list(f"hi {T}".encode()),
    }
    inside = json.dumps({"data": list(C.encode()), "n": 1})
    out = scan(inside)
    assert isinstance(out, str)
    assert json.loads(out)["data"][0] == T


def test_a_number_in_groups_of_a_list_is_read() -> None:
    groups = [HIDDEN[1][at : at + 4] for at in range(0, 16, 4)]
    (whole,) = Scanner(engine()).free(groups)
    assert whole.startswith("[CARD_")
    assert Scanner(engine()).free(["2026", "11", "29"]) == ["2026", "11", "29"]


def test_a_row_of_a_name_and_a_value_is_read_as_such() -> None:
    row = ["x-api-key", "kX9vQ2mZ7wL4pR8tY3"]
    for rows in ([row], {"headers": [row, ["accept", "text/html"]]}):
        assert row[1] not in json.dumps(Scanner(engine()).free(rows))
        assert row[1] not in Scanner(engine()).string(json.dumps(rows))
    for names in (["username", "password"], ["password", "reset"], ["token", "api_token"]):
        assert Scanner(engine()).free(names) == names


def test_other_lists_stay() -> None:
    for value in (list(range(300)), [1, 2, 3], list("abc"), list("abcdefghij"), [True] * 9, []):
        assert scan(value) == value


@pytest.mark.parametrize(
    "written", ["4.539578763621486e15", "4539578763621486.0", "4.539578763621486E+15"]
)
def test_a_number_with_a_point_or_an_exponent_is_read_written_out(written: str) -> None:
    scanned = Scanner(engine()).free({"n": Number(written)})
    assert str(scanned["n"]).startswith("[CARD_")


@pytest.mark.parametrize("written", ["1e99999", "1.50", "12345678.25", "-0.0", "1e5", "123456e-9"])
def test_other_numbers_stay(written: str) -> None:
    value = {"n": Number(written)}
    assert Scanner(engine()).free(value) is value


@pytest.mark.parametrize(
    "key",
    [
        "card_4539578763621486",
        "unknown_4539-5787-6362-1486",
        "gpt-5_4539578763621486",
        "call_1_4539578763621486",
        "computer_20250124_4539578763621486",
    ],
)
def test_a_number_behind_the_letters_of_a_key_is_read(key: str) -> None:
    assert "4539" not in next(iter(Scanner(engine()).free({key: 1})))
    assert "4539" not in Scanner(engine()).string(key)
    inside = f"x = {key.replace('-', '')}[0]"
    assert Scanner(engine()).string(inside) == inside


@pytest.mark.parametrize("value", HIDDEN)
@pytest.mark.parametrize("between", ["\u200b", "\u00ad", "\u2060", "\ufeff", "\u034f", "\ufe0f"])
def test_what_has_no_width_hides_nothing(value: str, between: str) -> None:
    for hidden in (between.join(value), value[:7] + between + value[7:]):
        out = Scanner(engine()).string(f"see {hidden} there")
        assert value not in out.replace(between, "")


@pytest.mark.parametrize("mark", ["\u0332", "\u0336"])
def test_underlined_and_struck_values_are_read(mark: str) -> None:
    for value in HIDDEN:
        out = Scanner(engine()).string(f"see {''.join(c + mark for c in value)} there")
        assert value not in out.replace(mark, "")


def test_a_mail_is_read_without_its_signs() -> None:
    head = "Content-Transfer-Encoding: quoted-printable\n\n"
    body = quopri.encodestring(f"call=20+49=20151=2023456789 or {HIDDEN[0]}".encode()).decode()
    body = body.replace("=3D20", "=20").replace("@", "=40")
    out = Scanner(engine()).string(head + body)
    assert "23456789" not in out
    assert "kovacs" not in out
    assert "[CARD_" in Scanner(engine()).string(f"{head} n={HIDDEN[1]}")


@pytest.mark.parametrize("value", ["DB_PASSWORD=kX9!vQ2#mZ7w", f"key {HIDDEN[2]}"])
def test_secrets_in_wide_or_interrupted_letters_are_read(value: str) -> None:
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in value)
    for hidden in (wide, "\u200b".join(value)):
        plain = unicodedata.normalize("NFKC", Scanner(engine()).string(hidden))
        assert value[-8:] not in plain.replace("\u200b", "")


@pytest.mark.parametrize(
    "zero", ["\u0660", "\u0966", "\u09e6", "\uff10", "\U0001d7ce", "\U0001d7f6"]
)
def test_digits_of_every_script_are_digits(zero: str) -> None:
    card = "".join(chr(ord(zero) + int(digit)) for digit in HIDDEN[1])
    assert "[CARD_" in Scanner(engine()).string(f"number {card} here")


@pytest.mark.parametrize("value", [*HIDDEN, "DB_PASSWORD=kX9!vQ2#mZ7w"])
@pytest.mark.parametrize("between", ["\u200b", "\u00ad", "\ufeff"])
def test_characters_of_no_width_written_as_escapes_hide_nothing(value: str, between: str) -> None:
    broken = json.dumps({"a": f"see {between.join(value)} "})[:-1]
    out = Scanner(engine()).string(broken)
    assert value[-8:] not in out.replace(json.dumps(between)[1:-1], "")


def test_wide_characters_written_as_escapes_are_read() -> None:
    wide = "".join(chr(ord(c) + 0xFEE0) for c in HIDDEN[1])
    assert "[CARD_" in Scanner(engine()).string(json.dumps({"a": f"see {wide} "})[:-1])
    at = json.dumps({"a": HIDDEN[0].replace("@", "\ufe6b")})[:-1]
    assert "[EMAIL_" in Scanner(engine()).string(at)


@pytest.mark.parametrize("sign", ["\uff20", "\ufe6b"])
def test_signs_that_look_like_the_at_sign_are_one(sign: str) -> None:
    assert "[EMAIL_" in Scanner(engine()).string(HIDDEN[0].replace("@", sign))


def test_real_code_keeps_every_byte() -> None:
    source = Path(walk.__file__).read_text() + Path(sse.__file__).read_text()
    assert Scanner(FakeRedactor()).string(source) == source
    assert Scanner(engine()).string(source) == source
