"""A value is found whatever it touches: marks, letters of other scripts, the prefixes of tools,
escapes; and what was found stays found and unchanged when the text comes again."""

from __future__ import annotations

import random
import re
import time
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy
from gateway.redaction.tokens import Tokenizer

DETECTOR = Detector(load_policy())
TOKENIZER = Tokenizer(b"k" * 32, "r")
NUMBERS = {
    "PHONE": "+49 151 " + "23456789",
    "CARD": "4539 1488 " + "0343 6467",
    "IBAN": "GB33BUKB" + "20201555555555",
    "SSN": "536-22-" + "8741",
    "IP": "81.2." + "69.142",
    "IP6": "2a02:8071:b783:20a0:" + "9c1f:7a2b:33ef:91aa",
}
PASSWORD = "Vj7kq2Lm9" + "xTzR4"
MATERIAL = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n"
PEM = f"-----BEGIN PRIVATE KEY-----\n{MATERIAL * 3}-----END PRIVATE KEY-----"


def found(text: str) -> list[tuple[str, str]]:
    return [(span.kind, text[span.start : span.end]) for span in DETECTOR.find(text)]


def redacted(text: str) -> str:
    for span in reversed(DETECTOR.find(text)):
        token = TOKENIZER.token(span.kind, text[span.start : span.end])
        text = text[: span.start] + token + text[span.end :]
    return text


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(
    ("before", "after"),
    [(f"see {mark}", " end") for mark in ".,:;!?#$@=(/~*&<>[{|\"'`^-_"]
    + [
        ("see --", " end"),
        ("<!--", "-->"),
        ("a - ", " - b"),
        ("请付", "谢谢"),
        ("κάρτα", "ναι"),
        ("карта", "да"),
        ("は、", "です"),
        ("（", "）。"),
        ("全角：", "，"),
    ],
)
def test_a_number_is_found_beside_marks_and_letters_of_other_scripts(
    name: str, before: str, after: str
) -> None:
    assert found(before + NUMBERS[name] + after) == [(name.rstrip("6"), NUMBERS[name])]


CASES = [
    # rows of tables and what a search prints before a line
    ("PHONE", "id,x\n1,«+49 151 23456789»,y"),
    ("PHONE", "12:«+49 151 23456789»"),
    ("PHONE", "12-«+49 151 23456789»"),
    ("PHONE", "src/people.csv:12:«+49 151 23456789»"),
    ("PHONE", "notes.txt:12:«(555) 123-4567»"),
    ("PHONE", "7:«0161 496 0974»"),
    ("PHONE", "1,«415-555-2671»,y"),
    ("PHONE", "id,phone\n7,«0161 496 0974»\n8,x"),
    ("PHONE", "#«415-555-2671»"),
    ("CARD", "12:«4539148803436467»"),
    ("CARD", "100%«4539 1488 0343 6467»"),
    ("CARD", "%«4539148803436467»"),
    ("CARD", "%«4012888888881881»"),
    ("SSN", "%«536-22-8741»"),
    # addresses
    ("IP", "contact:«2a02:8071:b783:20a0:9c1f:7a2b:33ef:91aa»."),
    ("IP", "id:«2a02:8071:b783:20a0:9c1f:7a2b:33ef:91aa»"),
    ("IP", "https://x.example/«81.2.69.142»"),
    ("IP", "https://x.example/«81.2.69.142»/json"),
    ("IP", "https://x.example/v1/lookup/«81.2.69.142»"),
    ("IP", "face:«2a02:8071:b783:20a0:9c1f:7a2b:33ef:91aa»"),
    ("IP", "ip-«81.2.69.142»"),
    ("IP", "a.txt-11-x\n12-«81.2.69.142»"),
    ("IP", "hosts.txt-12-«81.2.69.142»"),
    ("IP", "12:«81.2.69.142»"),
    ("APIKEY", "密钥«ghp_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5»谢谢"),
    ("CARD", "12-«4539 1488 0343 6467»"),
    ("IP", "81.2.69.140-«81.2.69.142»"),
    # an address before a file's ending
    ("EMAIL", "https://img.example/«marta.kowalczyk@nordwind-logistik.eu».png"),
    ("EMAIL", "avatars/«jane@corp.co.uk».jpg"),
    ("EMAIL", "«jane@corp.com».json"),
    ("EMAIL", "«jane@corp.com».tar.gz"),
    # unquoted values and what goes on behind them
    ("SECRET", "DB_PASSWORD=«hunter2» and then restart it"),
    ("SECRET", f"DB_PASSWORD=«{PASSWORD}» npm start"),
    ("SECRET", "DB_PASSWORD=«hunter» please change it to the new one"),
    ("SECRET", "SMTP_PASSWORD=«correct horse battery staple»"),
    ("SECRET", "SMTP_PASSWORD=«ab3d ef9h ijkl mnop»"),
    ("SECRET", 'DB_PASSWORD="«hunter2 and then some»"'),
]


@pytest.mark.parametrize(("kind", "line"), CASES, ids=[line for _, line in CASES])
def test_a_value_is_found_without_what_stands_around_it(kind: str, line: str) -> None:
    value = re.split("[«»]", line)[1]
    assert (kind, value) in found(line.replace("«", "").replace("»", ""))


@pytest.mark.parametrize(
    "line",
    [
        "id 40cba8ff-11a0-478c-90cd-501884102085",
        "call 40cba8ff-11a0-478c-90cd-501884102085",
        "card 12345678-4539-1488-0343-646700000000",
        "https://x.example/releases/91.0.4472.124/x.zip",
        "Chrome/91.0.4472.124",
        "lib-91.0.4472.124.jar",
        "https://x.example/1.2.3.4",
        "icon@retina.min.css",
        "chunk@app.en.js",
        "a/foo@1.2.3.tgz",
        "std::a::b::c",
        "at 10:11:12:13",
        "x = 3.4539148803436467",
        "$555-12-34",
    ],
)
def test_what_only_looks_like_a_number_stays(line: str) -> None:
    assert found(line) == []


@pytest.mark.parametrize("digits", range(40))
def test_no_digits_of_a_uuid_are_a_number(digits: int) -> None:
    chance = random.Random(digits)
    for _ in range(50):
        half = "".join(chance.choice("0123456789") for _ in range(32))
        uuid = f"{half[:8]}-{half[8:12]}-{half[12:16]}-{half[16:20]}-{half[20:]}"
        assert found(f"phone of {uuid}, card") == []


def _unicode(text: str) -> str:
    return "".join(f"\\u{ord(c):04x}" for c in text)


WAYS: dict[str, Callable[[str], str]] = {
    "URL": lambda v: "https://x.example/p?q=" + urllib.parse.quote(v, safe=""),
    "form": lambda v: "a=1&q=" + urllib.parse.quote_plus(v, safe="") + "&b=2",
    "URL, all": lambda v: "see " + "".join(f"%{ord(c):02X}" for c in v) + " end",
    "HTML": lambda v: "<p>" + "".join(c if c.isalnum() else f"&#{ord(c)};" for c in v) + "</p>",
    "HTML, hex": lambda v: (
        "<p>" + "".join(c if c.isalnum() else f"&#x{ord(c):x};" for c in v) + "</p>"
    ),
    "unicode": lambda v: f"see {_unicode(v)} end",
    "bytes": lambda v: "see " + "".join(f"\\x{ord(c):02x}" for c in v) + " end",
    "colors": lambda v: "\x1b[31m" + v.replace("\n", "\x1b[0m\n\x1b[31m") + "\x1b[0m",
    "colors in a string": lambda v: "\\u001b[31m" + v.replace("\n", "\\n") + "\\u001b[0m",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        ("SECRET", f"DB_PASSWORD={PASSWORD}", PASSWORD),
        ("SECRET", f"client_secret={PASSWORD}aa", PASSWORD + "aa"),
        ("SECRET", "postgres://svc:Qw8rTy3uPz@db.intern.example:5432/app", "Qw8rTy3uPz"),
        ("PRIVATEKEY", PEM, PEM),
    ],
)
def test_a_secret_written_in_escapes_is_found(
    way: str, kind: str, written: str, value: str
) -> None:
    text = WAYS[way](written)
    ((is_kind, is_value),) = found(text)
    assert is_kind == kind
    coded = WAYS[way](value)
    for lead in ("https://x.example/p?q=", "a=1&q=", "<p>", "see ", "\x1b[31m", "\\u001b[31m"):
        coded = coded.removeprefix(lead)
    for tail in ("&b=2", "</p>", " end", "\x1b[0m", "\\u001b[0m"):
        coded = coded.removesuffix(tail)
    assert is_value == coded


@pytest.mark.parametrize("end", ["_", "__", "9_", "-_4", "_4_"])
def test_a_key_keeps_the_underscores_it_has(end: str) -> None:
    key = "glpat-" + ("aB3dE5fG7hI9jK1lM3nO" + end)[-20:]
    assert found(f"use {key} now") == [("APIKEY", key)]


@pytest.mark.parametrize(
    "text",
    [
        "KEY={} more words",
        "DB_PASSWORD={} and then more words",
        "DB_PASSWORD={} more words",
        "password: {} is new",
        'password = "{} or else"',
        "AUTH_TOKEN={}, and API_KEY={} too",
        "call {} or 123-45-67890",
        "{},next, x = 4005415423578",
    ],
)
@pytest.mark.parametrize("kind", ["SECRET", "CARD", "PHONE", "IP", "EMAIL"])
def test_words_beside_a_token_are_no_value(text: str, kind: str) -> None:
    assert found(text.replace("{}", TOKENIZER.token(kind, "x"))) == []


@given(
    st.sampled_from(["DB_PASSWORD", "token", "--password", "Cookie", "key", "the password is"]),
    st.sampled_from(["=", ": ", " = ", " ", '="', "%3D", ":\t"]),
    st.text(alphabet=" \t\u00a0\n\u2003ab9A_.-=:;,&%#'\"`\\\\[]{}()<>$@/|\ufdd0\x1b€", max_size=40),
)
def test_whatever_stands_behind_a_name_is_read_without_an_error(
    name: str, sign: str, value: str
) -> None:
    text = f"{name}{sign}{value}"
    assert all(0 <= s.start < s.end <= len(text) for s in DETECTOR.find(text))


@pytest.mark.parametrize("key", ["password", "phone", "card", "note"])
@pytest.mark.parametrize("value", ["{}", "{} is new", "{} or else", "{}, {}"])
def test_a_token_stored_under_a_name_stays_alone(key: str, value: str) -> None:
    token = TOKENIZER.token("PHONE", "x")
    text = value.replace("{}", token)
    assert DETECTOR.find_value(key, text) == []


LINES = [line.replace("«", "").replace("»", "") for _, line in CASES] + [
    "the admin password is Orchid1579!",
    "mail jane@corp.example or ring 415-555-2671",
    'DB_PASSWORD="two words, and; more"',
    "AWS_SECRET_ACCESS_KEY: wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzz12345 // 5.2.1.1. Append",
    "postgres://app:o7p5fun0fczb@db.internal:5432/app",
    "Cookie: theme=dark; PHPSESSID=9k1h3dgyzj8pnk4vcf5yp7zpqw; lang=en",
    "{'mail':'anna@corp.example','phone':'0161 496 0974'}",
    "peer ::ffff:81.2.69.142 closed, client=2001:0db8:85a3:0000:0000:8a2e:0370:7334",
    PEM,
    "KEY=",
    "TOKEN: ",
    "password ",
    "please and then 12 x9kk2zz",
]


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from("\n ,;")), max_size=6))
@example([("KEY=", " "), ("hunter2 more words", "\n")])
def test_redacting_a_text_again_changes_nothing(parts: list[tuple[str, str]]) -> None:
    once = redacted("".join(line + end for line, end in parts))
    assert redacted(once) == once


@pytest.mark.parametrize(
    "seed",
    ["%41", "_4", "_4_", "&#65;", "\x1b[", "\\u0041", "ip-8.8.8.8 ", "ab:2a02:", ":a:", "%2D",
     "1,415-555-2671,", "8.8.8.8 1 ", "4539 1488 0343 6467 1 ", "password%3D", "a@a.png",
     "40cba8ff-11a0-478c-90cd-501884102085-", "DB_PASSWORD=hunter2 and ", "-----BEGIN+",
     TOKENIZER.token("EMAIL", "x"), "\ufdd0", "[A"],
)  # fmt: skip
def test_hostile_texts_cost_in_proportion_to_their_length(seed: str) -> None:
    """A square law would take sixteen times longer for four times the text."""

    def seconds(size: int) -> float:
        text = (seed * (size // len(seed) + 1))[:size]
        best = 10.0
        for _ in range(2):
            started = time.process_time()
            DETECTOR.find(text)
            best = min(best, time.process_time() - started)
        return best

    seconds(1_000)
    # Measured again with patience before it is called a square law.
    assert any(seconds(40_000) < 10 * max(seconds(10_000), 0.002) for _ in range(4))
