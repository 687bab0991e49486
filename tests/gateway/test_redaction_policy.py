"""Policy, redactor, body decoding: what decides, and how it refuses."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pytest

from gateway.redaction.encoding import decode_body
from gateway.redaction.job import ScanRefused
from gateway.redaction.policy import (
    Action,
    Opaque,
    Policy,
    PolicyError,
    load_policy,
    parse_policy,
)
from gateway.redaction.redactor import PolicyRefused, Redactor, SpanCache
from gateway.redaction.spans import Span
from gateway.redaction.tokens import Tokenizer

HEAD = 'id = "p"\nversion = "3"\n'


def policy_of(text: str) -> Policy:
    return parse_policy(HEAD + text, source="p.toml", directory=None)


def test_the_base_policy_gives_personal_data_back_and_no_secret() -> None:
    policy = load_policy()
    assert (policy.id, policy.version) == ("base", "1")
    assert len(policy.digest) == 64
    for kind in ("EMAIL", "PHONE", "CARD", "IBAN", "IP", "SSN"):
        assert policy.rule(kind).restore, kind
    for kind in ("SECRET", "APIKEY", "JWT", "PRIVATEKEY", "SOMETHING_NEW"):
        assert policy.rule(kind).action is Action.TOKEN, kind
        assert not policy.rule(kind).restore, kind


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("opague = 'pass'", "opague"),
        ("[kinds.EMAIL]\nrestor = true", "kinds.EMAIL.restor"),
        ("[kinds]\nEMAIL = {action = 'hide'}", "kinds.EMAIL.action"),
        ("[kinds]\nemail = {action = 'token'}", "'email'"),
        ("[allow]\nip = ['home']", "'home'"),
        ("[allow]\nurls = []", "allow.urls"),
        ("[terms]\npath = 'x'", "terms.path"),
        ("[kinds.EMAIL]\nrestore = 'yes'", "kinds.EMAIL.restore"),
        ("opaque = 'maybe'", "maybe"),
        ("kinds = 3", "kinds"),
        ("x = = 1", "not valid TOML"),
        ("answers = 'redact'", "answers"),
        ("[terms]\nfile = '/nonexistent/terms'", "/nonexistent/terms"),
    ],
)
def test_what_a_policy_cannot_mean_is_an_error_naming_it(text: str, named: str) -> None:
    with pytest.raises(PolicyError) as error:
        policy_of(text)
    assert named in str(error.value)
    assert str(error.value).endswith(".")


def test_a_policy_that_says_nothing_about_opaque_bytes_refuses_them() -> None:
    assert policy_of("").opaque is Opaque.REFUSE


def test_the_digest_covers_the_file_and_its_terms(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(HEAD + "[terms]\nfile = 'terms.txt'\n")
    (tmp_path / "terms.txt").write_text("# people\nAcme Corp\n\nΌμηρος\n")
    first = load_policy(path)
    assert first.terms == ("Acme Corp", "Όμηρος")
    (tmp_path / "terms.txt").write_text("Acme\n")
    assert load_policy(path).digest != first.digest
    path.write_text(path.read_text() + "# comment\n")
    assert load_policy(path).digest != load_policy().digest


def test_a_missing_policy_file_is_an_error_not_the_base_policy(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot be read"):
        load_policy(tmp_path / "absent.toml")


class Digits:
    """Finds every digit, and counts how often it was asked."""

    def __init__(self, kind: str = "CARD") -> None:
        self.kind = kind
        self.asked = 0

    def find(self, text: str) -> list[Span]:
        self.asked += 1
        return [Span(i, i + 1, self.kind, 1, "d") for i, c in enumerate(text) if c.isdigit()]

    def find_value(self, key: str, value: str) -> list[Span]:
        self.asked += 1
        return [Span(0, len(value), self.kind, 1, "d")] if key == "secret" else []


def redactor_of(text: str, finder: Digits, cache: SpanCache | None = None) -> Redactor:
    tokenizer = Tokenizer(b"k" * 32, "r")
    return Redactor(finder, tokenizer, policy_of(text), scope="r", cache=cache)


def test_the_actions_of_a_policy() -> None:
    card = "[kinds.CARD]\naction = '{}'\nrestore = {}\n"
    token = Tokenizer(b"k" * 32, "r").token("CARD", "7")
    for action, restore, text, originals in [
        ("token", "true", f"a{token}b{token}", {token: "7"}),
        ("token", "false", f"a{token}b{token}", {}),
        ("mask", "true", "a[CARD]b[CARD]", {}),
        ("allow", "true", "a7b7", {}),
    ]:
        redactor = redactor_of(card.format(action, restore), Digits())
        assert redactor.text("a7b7") == text
        assert redactor.originals == originals
        assert redactor.counts == ({} if action == "allow" else {"CARD": 2})
    with pytest.raises(PolicyRefused) as refused:
        redactor_of(card.format("refuse", "false"), Digits()).text("a7b")
    assert "CARD" in str(refused.value)
    assert "7" not in str(refused.value)


def test_a_name_beside_a_value_is_used() -> None:
    redactor = redactor_of("", Digits())
    assert redactor.value("secret", "abc") != "abc"
    assert redactor.value("color", "abc") == "abc"


def test_opaque_bytes_follow_the_policy() -> None:
    redactor = redactor_of("opaque = 'pass'", Digits())
    redactor.opaque("image/png")
    assert redactor.opaque_parts == {"image/png": 1}
    with pytest.raises(PolicyRefused, match="image/png"):
        redactor_of("opaque = 'refuse'", Digits()).opaque("image/png")


@pytest.mark.parametrize("media", ["536-22-8734", "image/81.2.69.142", "jane/doe", ""])
def test_a_media_type_of_the_clients_own_making_is_counted_and_never_named(media: str) -> None:
    redactor = redactor_of("opaque = 'pass'", Digits())
    redactor.opaque(media)
    redactor.opaque("Image/PNG; name=jane")
    assert redactor.opaque_parts == {"other": 1, "image/png": 1}
    with pytest.raises(PolicyRefused, match=r"\(other\)"):
        redactor_of("opaque = 'refuse'", Digits()).opaque(media)


def test_a_block_seen_before_is_not_scanned_again_for_the_same_policy_and_scope() -> None:
    cache, finder = SpanCache(), Digits()
    text = "call 7 " + "x" * 100
    first = redactor_of("", finder, cache).text(text)
    assert redactor_of("", finder, cache).text(text) == first
    assert finder.asked == 1
    redactor_of("opaque = 'pass'", finder, cache).text(text)
    assert finder.asked == 2
    other = Redactor(finder, Tokenizer(b"k" * 32, "s"), policy_of(""), scope="s", cache=cache).text(
        text
    )
    assert finder.asked == 3
    assert other != first


def test_the_cache_is_bounded_and_holds_no_value() -> None:
    cache = SpanCache(limit=10, span_limit=50)
    for i in range(100):
        cache.put(str(i).encode(), [Span(0, 1, "A", 1, "r")] * 7)
        assert len(cache) <= 7
    assert cache.get(b"99") is not None
    assert cache.get(b"1") is None


@pytest.mark.parametrize(
    ("encoding", "encode"),
    [
        ("", bytes),
        ("identity", bytes),
        ("gzip", gzip.compress),
        ("GZip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda b: zlib.compressobj(wbits=-15).compress(b) + b""),
        ("gzip, deflate", lambda b: zlib.compress(gzip.compress(b))),
        ("gzip", lambda b: gzip.compress(b[:3]) + gzip.compress(b[3:])),
    ],
)
def test_bodies_are_decoded(encoding: str, encode: object) -> None:
    body = b'{"a": "' + b"text " * 400 + b'"}'
    assert callable(encode)
    coded = encode(body)
    if encoding == "deflate" and coded[:1] != b"\x78":
        coder = zlib.compressobj(wbits=-15)
        coded = coder.compress(body) + coder.flush()
    assert decode_body(coded, encoding) == body


@pytest.mark.parametrize(
    ("body", "encoding", "code"),
    [
        (b"x", "br", "unsupported_encoding"),
        (b"x", "zstd", "unsupported_encoding"),
        (b"x", "gzip, gzip, gzip", "unsupported_encoding"),
        (b"x", "gzip", "bad_encoding"),
        (b"", "gzip", "bad_encoding"),
        (gzip.compress(b"x" * 99)[:-9], "gzip", "bad_encoding"),
        (gzip.compress(b"x") + b"tail", "gzip", "bad_encoding"),
        (zlib.compress(b"x") + b"t", "deflate", "bad_encoding"),
        (gzip.compress(bytes(2_000_000)), "gzip", "body_too_large"),
        (bytes(1_000_001), "", "body_too_large"),
        (gzip.compress(gzip.compress(bytes(2_000_000))), "gzip, gzip", "body_too_large"),
    ],
)
def test_bodies_that_cannot_be_decoded_are_refused(body: bytes, encoding: str, code: str) -> None:
    with pytest.raises(ScanRefused) as refused:
        decode_body(body, encoding, limit=1_000_000)
    assert refused.value.code == code
    assert refused.value.sentence.endswith(".")
