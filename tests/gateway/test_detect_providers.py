"""Keys of providers: the search for literals loses none, every provider's shape is found in the
places where keys stand, and what only looks like one is left alone."""

from __future__ import annotations

import random
import re
import string
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.redaction.detectors.base import Source
from gateway.redaction.detectors.engine import Detector
from gateway.redaction.detectors.literals import required
from gateway.redaction.detectors.provider_table import HASHES, KEYS
from gateway.redaction.detectors.providers import TABLE, ProviderKeyRule, Row
from gateway.redaction.policy_file import load_policy

WORD = string.ascii_letters + string.digits


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_policy())


def made(pattern: re.Pattern[str], rng: random.Random) -> str:
    """A random text that `pattern` matches whole."""
    tree = list(parser.parse(pattern.pattern, pattern.flags))
    for _ in range(2000):
        text = "".join(_piece(node, rng) for node in tree)
        if pattern.fullmatch(text):
            return text
    raise AssertionError(f"no text made for {pattern.pattern}")


def _piece(node: tuple[Any, Any], rng: random.Random) -> str:
    code, argument = node
    if code is codes.LITERAL:
        return chr(argument)
    if code is codes.NOT_LITERAL:
        return rng.choice(WORD)
    if code is codes.IN:
        return rng.choice(_members(argument))
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least, most, inner = argument
        times = rng.randint(least, min(most, least + 6))
        return "".join(_piece(n, rng) for _ in range(times) for n in inner)
    if code is codes.SUBPATTERN:
        return "".join(_piece(n, rng) for n in argument[3])
    if code is codes.BRANCH:
        return "".join(_piece(n, rng) for n in rng.choice(argument[1]))
    return ""


def _members(items: list[Any]) -> str:
    out = ""
    for code, argument in items:
        if code is codes.NEGATE:
            return WORD + "!#"
        if code is codes.LITERAL:
            out += chr(argument)
        elif code is codes.RANGE:
            out += "".join(map(chr, range(argument[0], argument[1] + 1)))
        elif argument is codes.CATEGORY_DIGIT:
            out += string.digits
        elif argument is codes.CATEGORY_WORD:
            out += WORD + "_"
    return out


#: No shape has more groups than this of what must be made by chance.
ROUNDS = 3


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.name}-{row.literals[0]}")
def test_every_shape_is_found_and_stands_where_its_literals_say(row: Row) -> None:
    rule = ProviderKeyRule(load_policy())
    rng = random.Random(row.pattern.pattern)
    for _ in range(ROUNDS):
        key = made(row.pattern, rng)
        assert any(
            literal in key[row.least : row.most + len(literal)] for literal in row.literals
        ), key
        start, end = row.pattern.fullmatch(key).span(row.part)  # type: ignore[union-attr]
        for around in ("{}", 'token = "{}"\n', "auth failed for {} (403)", "a, {}, b", "<b>{}</b>"):
            text = around.format(key)
            at = text.index(key)
            found = list(rule.spans(Source(text)))
            assert any(s.start <= at + start and s.end >= at + end for s in found), (around, key)


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.text(max_size=12), st.text(max_size=12))
def test_the_search_for_literals_never_loses_what_a_shape_alone_would_find(
    rng: random.Random, before: str, after: str
) -> None:
    row = rng.choice(TABLE)
    text = before + made(row.pattern, rng) + after
    literals = required(row.pattern.pattern)
    for match in row.pattern.finditer(text):
        near = text[match.start() + literals.least : match.start() + literals.most + 40]
        assert any(literal in near for literal in literals.literals)


def test_a_shape_without_a_literal_of_its_own_is_refused() -> None:
    with pytest.raises(ValueError, match="without a literal"):
        required(r"[a-z0-9]{32}")


def test_literals_are_read_through_branches_options_and_classes() -> None:
    assert set(required(r"(?:sk|rk)_(?:live|test)_\w{4}").literals) == {
        "sk_live_", "rk_live_", "sk_test_", "rk_test_",
    }  # fmt: skip
    behind = required(r"[a-z]{32}-us\d\d")
    assert (behind.least, behind.most) == (32, 32)
    optional = required(r"https://(?:\w{1,10}\.)?abcd(?:app)?\.example/x")
    assert set(optional.literals) <= {"abcd.example/x", "abcdapp.example/x", "https://"}


def test_the_table_names_many_providers_and_no_shape_twice() -> None:
    assert len({name for name, _ in KEYS}) >= 150
    shapes = [shape for _, shape in (*KEYS, *HASHES)]
    assert len(shapes) == len(set(shapes))


def rnd(alphabet: str, size: int, seed: int = 7) -> str:
    rng = random.Random(seed)
    return "".join(rng.choice(alphabet) for _ in range(size))


HEX = "0123456789abcdef"
LOOK_ALIKES = [
    "sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "sk-XXXXXXXXXXXXXXXXXXXXXXXX",
    "sk-your-api-key-here",
    "sk-proj-YOUR_API_KEY_GOES_HERE_PLEASE",
    "sk-ant-api03-your-key-here-1234567",
    "sk-ant-...",
    "ghp_YOUR_TOKEN",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "ghp_************************************",
    "github_pat_xxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "glpat-xxxxxxxxxxxxxxxxxxxx",
    "xoxb-your-token-goes-here",
    "AKIAIOSFODNN7EXAMPLE",
    "AKIAXXXXXXXXXXXXXXXX",
    "AIzaXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX",
    "hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "npm_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "SG.xxxxxxxxxxxxxxxxxxxxxx.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "sk_live_xxxxxxxxxxxxxxxxxxxxxxxx",
    "sk_test_...",
    "dop_v1_" + "0" * 64,
    "https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
    "task-" + rnd(HEX, 40),
    "risk-assessment-for-the-second-quarter-2024",
    "desk-4f2a-unit",
    "disk-sk-something",
    "sha256:" + rnd(HEX, 64),
    rnd(HEX, 40),
    rnd(HEX, 64),
    "commit " + rnd(HEX, 40),
    "550e8400-e29b-41d4-a716-446655440000",
    "integrity sha512-" + rnd(WORD + "+/", 86) + "==",
    "sha512: " + rnd(WORD + "+/", 86) + "==",
    '"sha512": "' + rnd(WORD + "+/", 86) + '=="',
    "golang.org/x/net v0.1.0 h1:" + rnd(WORD + "+/", 43) + "=",
    "blob " + rnd(HEX, 40) + " 12",
    "etag: W/" + rnd(HEX, 32),
    "pk_live_is_the_public_prefix",
    "pk_live_51" + rnd(WORD, 97),
    "cs_test_a1" + rnd(WORD, 56),
    "app_test_case_for_the_login_of_2024",
    "build_live_" + rnd("abcdefghij", 30),
    "the prefixes sk_live_, rk_live_ and whsec_ mark them",
    'KEY_PREFIXES = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")',
    r're.compile(r"ghp_[A-Za-z0-9]{36}")',
    "npm_config_registry npm_package_name npm_lifecycle_event npm_execpath",
    "hf_hub_download hf_transfer",
    "pat_matching_rules_are_described_below",
    "re_compile_the_pattern_before_you_use_it",
    "dapi docs", "AC12 battery", "SK8 board", "EAAF",
    "live_and_learn_from_the_things_you_did_last_year",
    "test_the_rule_keeps_all_of_its_own_promises_here",
    "at_the_end_of_the_day_it_is_what_it_is_and_so_be",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "$1 and $2 are the groups, $5 is not",
    "echo $6$HOME",
    "*0123 *ABCDEF",
    "base64:encoded text",
    "Mzk0 MTA NDU",
]  # fmt: skip


@pytest.mark.parametrize("text", LOOK_ALIKES)
def test_what_only_looks_like_a_key_is_left_alone(detector: Detector, text: str) -> None:
    assert [text[s.start : s.end] for s in detector.find(text)] == []


@pytest.mark.parametrize("around", ["{}", "{{}}", "x={}&y=1", '"{}"', "\\n{}\\n"])
def test_both_halves_of_an_aws_pair_are_found_in_either_order(
    detector: Detector, around: str
) -> None:
    key_id = "AKIA" + rnd("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16)
    secret = rnd(WORD + "/+", 40)
    for first, second in ((key_id, secret), (secret, key_id)):
        text = f"{first} , {second}"
        found = [text[s.start : s.end] for s in detector.find(around.replace("{}", text))]
        assert len(found) == 2
