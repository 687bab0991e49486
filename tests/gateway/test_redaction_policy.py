"""Policy, redactor, body decoding: what decides, and how it refuses."""

from __future__ import annotations

import gzip
import ipaddress
import json
import re
import zlib
from pathlib import Path

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from stdnum import luhn

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.encoding import decode_body
from gateway.redaction.job import ScanRefused
from gateway.redaction.policy import Action, ForeignTokens, Opaque, Policy, PolicyError
from gateway.redaction.policy_file import SHIPPED, load_policy, parse_policy
from gateway.redaction.redactor import PolicyRefused, Redactor, SpanCache
from gateway.redaction.restore import restore_text
from gateway.redaction.scopes import Scope, scope_of, session_of
from gateway.redaction.spans import Span
from gateway.redaction.stand_ins import shapes_of
from gateway.redaction.tokens import KIND, TOKEN, Tokenizer

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
        ("scope = 'team'", "'team'"),
        ("vault = true", "vault"),
        ("vault = 'off'\nforeign_tokens = 'refuse'", "foreign_tokens"),
        ("vault = 'off'\n[kinds]\nIP = {action = 'stand_in', restore = true}", "kinds.IP.action"),
        ("[kinds]\nIP = {action = 'stand_in'}", "restore"),
        ("[kinds]\nIBAN = {action = 'stand_in', restore = true}", "kinds.IBAN.action"),
        ("[kinds]\nIP = {threshold = 2}", "kinds.IP.threshold"),
        ("[kinds]\nIP = {threshold = true}", "kinds.IP.threshold"),
        ("[kinds]\nIP = {ttl = '3 days'}", "kinds.IP.ttl"),
        ("[kinds]\nIP = {allow = ['*']}", "kinds.IP.allow"),
        ("[kinds]\nIP = {allow = ['a*b*c']}", "kinds.IP.allow"),
        ("[kinds]\nIP = {allow = 'a'}", "kinds.IP.allow"),
        ("ttl = 30", "ttl"),
        ("languages = ['english']", "'english'"),
        ("languages = []", "languages"),
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
        ("br", brotli.compress),
        ("zstd", zstandard.compress),
        ("zstd", lambda b: zstandard.compress(b[:3]) + zstandard.compress(b[3:])),
        ("gzip, zstd", lambda b: zstandard.compress(gzip.compress(b))),
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


def _gzip(data: bytes) -> bytes:
    """The same bytes whenever it is called: they are part of a test's name."""
    return gzip.compress(data, mtime=0)


@pytest.mark.parametrize(
    ("body", "encoding", "code"),
    [
        (b"x", "compress", "unsupported_encoding"),
        (b"x", "br", "bad_encoding"),
        (b"", "br", "bad_encoding"),
        (brotli.compress(b"x" * 99)[:-3], "br", "bad_encoding"),
        (brotli.compress(b"x" * 99) + b"tail", "br", "bad_encoding"),
        (brotli.compress(bytes(2_000_000)), "br", "body_too_large"),
        (b"x", "zstd", "bad_encoding"),
        (b"", "zstd", "bad_encoding"),
        (zstandard.compress(b"x" * 99)[:-3], "zstd", "bad_encoding"),
        (zstandard.compress(b"x" * 99) + b"tail", "zstd", "bad_encoding"),
        (zstandard.compress(bytes(2_000_000)), "zstd", "body_too_large"),
        (b"x", "gzip, gzip, gzip", "unsupported_encoding"),
        (b"x", "gzip", "bad_encoding"),
        (b"", "gzip", "bad_encoding"),
        (_gzip(b"x" * 99)[:-9], "gzip", "bad_encoding"),
        (_gzip(b"x") + b"tail", "gzip", "bad_encoding"),
        (zlib.compress(b"x") + b"t", "deflate", "bad_encoding"),
        (_gzip(bytes(2_000_000)), "gzip", "body_too_large"),
        (bytes(1_000_001), "", "body_too_large"),
        (_gzip(_gzip(bytes(2_000_000))), "gzip, gzip", "body_too_large"),
    ],
)
def test_bodies_that_cannot_be_decoded_are_refused(body: bytes, encoding: str, code: str) -> None:
    with pytest.raises(ScanRefused) as refused:
        decode_body(body, encoding, limit=1_000_000)
    assert refused.value.code == code
    assert refused.value.sentence.endswith(".")


# -- actions ---------------------------------------------------------------------------------------


class Alone(Digits):
    """Finds digits that stand alone, as no digit of a token does."""

    def find(self, text: str) -> list[Span]:
        found = re.finditer(r"(?<!\S)\d(?!\S)", text)
        return [Span(*match.span(), self.kind, 1, "d") for match in found]


def test_every_action_does_what_it_says() -> None:
    text = "a 1 b 2"
    for action, becomes in [
        ("token", r"a \[CARD_\w{8}\] b \[CARD_\w{8}\]"),
        ("mask", r"a \[CARD\] b \[CARD\]"),
        ("hash", r"a \[CARD#\w{12}\] b \[CARD#\w{12}\]"),
        ("allow", "a 1 b 2"),
    ]:
        redactor = redactor_of(f"[kinds]\nCARD = {{action = '{action}', restore = true}}", Alone())
        assert re.fullmatch(becomes, redactor.text(text)), action
        assert bool(redactor.originals) == (action == "token")
        assert len(redactor.marks) == (2 if action == "token" else 0)
        assert redactor.counts["CARD"] == (0 if action == "allow" else 2)


def test_tokens_and_hashes_in_a_text_stay_and_only_tokens_are_noted() -> None:
    redactor = redactor_of("", Alone())
    tokenizer = Tokenizer(b"k" * 32, "else")
    token, hashed = tokenizer.token("EMAIL", "x"), tokenizer.hashed("EMAIL", "x")
    text = f"{token} and {hashed} and [EMAIL]"
    before = redactor.touched
    assert redactor.text(text) == text
    assert set(redactor.met) == {token}
    assert redactor.touched > before
    assert redactor.marks == {}


def test_a_token_in_a_text_met_before_is_noted_again() -> None:
    cache = SpanCache()
    token = Tokenizer(b"k" * 32, "else").token("EMAIL", "x")
    for _ in range(2):
        redactor = redactor_of("", Alone(), cache)
        redactor.text(f"see {token}")
        assert set(redactor.met) == {token}


def test_a_policy_decides_what_counts_as_a_find() -> None:
    policy = policy_of(
        "[allow]\nvalues = ['8.8.8.8']\n[kinds]\nPHONE = {action = 'allow'}\n"
        "EMAIL = {threshold = 0.7, allow = ['*@corp.example', 'Jane@x.org']}"
    )
    assert policy.overlooks("EMAIL", 0.69, "a@b.org")
    assert not policy.overlooks("EMAIL", 0.7, "a@b.org")
    assert policy.overlooks("EMAIL", 1, "anyone@CORP.example")
    assert policy.overlooks("EMAIL", 1, "jane@x.org")
    assert not policy.overlooks("EMAIL", 1, "anyone@corp.example.org")
    assert policy.overlooks("PHONE", 1, "1")
    assert policy.overlooks("IP", 1, "8.8.8.8")
    assert not policy.overlooks("IP", 1, "8.8.4.4")


def test_what_is_left_alone_hides_nothing_within_it() -> None:
    policy = policy_of("[kinds]\nEMAIL = {allow = ['*@corp.example']}\nCARD = {}")
    found = Detector(policy).find("4242424242424242@corp.example, jane@other.example")
    assert [span.kind for span in found] == ["CARD", "EMAIL"]


def test_times_to_live_and_scopes_are_read() -> None:
    policy = policy_of(
        "ttl = '30d'\nscope = 'session'\nlanguages = ['de', 'en', 'de']\n"
        "[kinds]\nIP = {ttl = '90s', restore = true}\nCARD = {restore = true}"
    )
    assert policy.lifetime("IP") == 90
    assert policy.lifetime("CARD") == policy.lifetime("NEW") == 30 * 86_400
    assert policy.languages == ("de", "en")
    assert policy.restores("IP")
    off = policy_of("vault = 'off'\n[kinds]\nIP = {restore = true}")
    assert not off.restores("IP")
    assert load_policy().lifetime("IP") is None


KEYS = st.sampled_from(["action", "restore", "threshold", "ttl", "allow", "actoin", "x"])
GOOD = {
    "action": st.sampled_from(["token", "mask", "hash", "refuse", "allow"]),
    "restore": st.booleans(),
    "threshold": st.floats(0, 1),
    "ttl": st.from_regex(r"[1-9][0-9]{0,3}[smhdw]", fullmatch=True),
    "allow": st.lists(st.sampled_from(["a", "a*", "*b", "c d"]), max_size=3),
}
JUNK = st.one_of(st.integers(-5, 5), st.text("ab*", max_size=3), st.booleans(), st.just([1]))


@settings(max_examples=200)
@given(
    st.dictionaries(
        st.from_regex(KIND, fullmatch=True),
        st.dictionaries(KEYS, st.none(), max_size=4),
        max_size=3,
    ),
    st.data(),
)
def test_a_policy_is_read_whole_or_refused_in_one_sentence(
    kinds: dict[str, dict[str, None]], data: st.DataObject
) -> None:
    written: dict[str, dict[str, object]] = {}
    junk = False
    for kind, keys in kinds.items():
        written[kind] = {}
        for key in keys:
            good = key in GOOD and data.draw(st.booleans())
            junk |= not good
            written[kind][key] = data.draw(GOOD[key] if good else JUNK)
    lines = [
        f"{kind} = {{" + ", ".join(f"{k} = {toml(v)}" for k, v in keys.items()) + "}"
        for kind, keys in written.items()
    ]
    text = "\n".join(["[kinds]", *lines])
    try:
        policy = policy_of(text)
    except PolicyError:
        with pytest.raises(PolicyError, match=r"^[^\n]*\.$"):
            policy_of(text)
        assert junk
        return
    assert set(policy.kinds) == set(written)
    for kind, entry in written.items():
        assert entry.keys() <= GOOD.keys()
        assert policy.rule(kind).action == entry.get("action", "token")


def toml(value: object) -> str:
    return json.dumps(value) if not isinstance(value, float) else repr(value)


# -- shipped policies ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_a_shipped_policy_goes_by_its_name(name: str) -> None:
    policy = load_policy(Path(name))
    assert policy.id == name
    assert {"EMAIL", "CARD", "SECRET", "PRIVATEKEY", "NATIONAL_ID", "HEALTH"} <= policy.kinds.keys()


def test_the_strict_policy_names_every_kind_of_the_base_one_and_gives_back_no_secret() -> None:
    base, strict = load_policy(), load_policy(Path("strict"))
    assert base.kinds.keys() <= strict.kinds.keys()
    for kind in base.kinds:
        assert base.restores(kind) or not strict.restores(kind), kind
    assert strict.rule("SECRET").action is Action.REFUSE
    assert strict.opaque is Opaque.REFUSE
    assert strict.foreign_tokens is ForeignTokens.REFUSE
    assert strict.ttl is not None


# -- scopes ----------------------------------------------------------------------------------------


def test_the_policy_decides_who_shares_tokens_and_never_shares_values() -> None:
    by = {name: policy_of(f"scope = '{name}'") for name in ("deployment", "role", "session")}
    assert scope_of(by["role"], "a", "s1") == Scope("role/a", "role/a")
    assert scope_of(by["role"], "") == Scope("bare", "bare")
    assert scope_of(by["deployment"], "a", "s1") == Scope("deployment", "role/a")
    assert scope_of(by["deployment"], "") == Scope("deployment", "bare")
    first, second = (scope_of(by["session"], "a", s) for s in ("s1", "s2"))
    assert first != second
    assert first == scope_of(by["session"], "a", "s1")
    assert scope_of(by["session"], "b", "s1") != first
    assert first.tokens == first.owner
    assert first.owner.startswith("role/a/session/")
    assert "s1" not in first.owner
    assert scope_of(by["session"], "a") == Scope("role/a", "role/a")
    assert len(scope_of(by["session"], "r" * 64, "x" * 10_000 + "\ud800").owner) <= 128


def test_a_session_is_named_by_the_first_header_that_does() -> None:
    assert session_of({}) == ""
    assert session_of({"session-id": "c", "thread-id": "t"}) == "c"
    assert session_of({"x-claude-code-session-id": "a", "x-session-id": "b"}) == "a"


# -- stand-ins -------------------------------------------------------------------------------------

STAND_INS = "[kinds]\n" + "".join(
    f"{kind} = {{action = 'stand_in', restore = true}}\n"
    for kind in ("EMAIL", "PHONE", "CARD", "IP")
)
TEXT = (
    "jane@corp.example called +44 161 715 1234 or +49 30 901820 from 81.2.69.142 "
    "(2a02:8109:9a40::17), paid with 4111 1111 1111 1111 and 5105105105105100; "
    "then jane@corp.example again."
)


def test_stand_ins_keep_their_form_come_back_and_stay_when_met_again() -> None:
    policy = policy_of(STAND_INS)
    finder = Detector(policy)

    def redactor() -> Redactor:
        return Redactor(finder, Tokenizer(b"k" * 32, "r"), policy, scope="r")

    first = redactor()
    hidden = first.text(TEXT)
    assert "[" not in hidden
    for value in first.originals.values():
        assert value not in hidden
    assert set(first.kinds.values()) == {"EMAIL", "PHONE", "CARD", "IP"}
    assert hidden.count(next(k for k, v in first.originals.items() if "@" in v)) == 2
    assert redactor().text(TEXT) == hidden
    again = redactor()
    assert again.text(hidden) == hidden
    assert again.originals == {}
    assert again.met.keys() <= first.originals.keys()
    shapes = shapes_of(policy.stand_ins())
    assert restore_text(hidden, first.originals, shapes) == TEXT
    for stand_in, kind in first.kinds.items():
        if kind == "CARD":
            assert luhn.is_valid(stand_in.replace(" ", ""))
        if kind == "IP":
            address = ipaddress.ip_address(stand_in)
            assert any(
                address in ipaddress.ip_network(net)
                for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")
                if ipaddress.ip_network(net).version == address.version
            )


def test_stand_ins_never_stand_for_two_values_and_run_out_into_tokens() -> None:
    tokenizer = Tokenizer(b"k" * 32, "r")
    made = [tokenizer.stand_in("IP", f"81.2.{i // 250}.{i % 250}") for i in range(1500)]
    assert len(set(made)) == 1500
    documentation = [m for m in made if not m.startswith("[")]
    assert 700 < len(documentation) <= 756
    assert all(TOKEN.fullmatch(m) for m in made if m.startswith("["))
    again = Tokenizer(b"k" * 32, "r", tokenizer.marks)
    assert again.stand_in("IP", "81.2.0.7") == made[7]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("IP", "81.2.69.142/24"),
        ("EMAIL", '"a b"@x.org'),
        ("EMAIL", "j\u00fcrgen@x.org"),
        ("SSN", "1"),
    ],
)
def test_a_value_without_a_form_to_imitate_gets_a_token(kind: str, value: str) -> None:
    assert TOKEN.fullmatch(Tokenizer(b"k" * 32, "r").stand_in(kind, value))
