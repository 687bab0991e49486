"""The request every scanner is tried with before it takes calls."""

from __future__ import annotations

import pytest

from gateway.redaction.policy import Policy
from gateway.redaction.policy_file import load_policy, parse_policy
from gateway.redaction.scanner import Scanner, TrialFailed
from gateway.redaction.spans import Span


def policy(rule: str) -> Policy:
    text = f'id = "p"\nversion = "1"\n[kinds]\nEMAIL = {rule}\n'
    return parse_policy(text, source="p", directory=None)


class Blind:
    """Finds nothing, as rules would whose tables are empty."""

    def find(self, text: str) -> list[Span]:
        return []

    def find_value(self, key: str, value: str) -> list[Span]:
        return []


@pytest.mark.parametrize(
    "rule",
    [
        '{ action = "token", restore = true }',
        '{ action = "stand_in", restore = true }',
        '{ action = "hash" }',
        '{ action = "mask" }',
        '{ action = "refuse" }',
        '{ action = "allow" }',
        '{ action = "token", restore = true, threshold = 0.95 }',
        '{ action = "token", restore = true, allow = ["*.example"] }',
    ],
)
def test_no_policy_keeps_a_sound_scanner_from_starting(rule: str) -> None:
    Scanner(policy(rule), b"k" * 32).warm()


def test_rules_that_find_nothing_are_not_warm() -> None:
    with pytest.raises(TrialFailed, match="with a value in it"):
        Scanner(load_policy(), b"k" * 32, finder=Blind()).warm()


def test_a_term_of_the_operator_in_the_request_is_no_failure() -> None:
    terms = parse_policy(load_policy().text, source="p", directory=None, terms=("Write to",))
    Scanner(terms, b"k" * 32).warm()
