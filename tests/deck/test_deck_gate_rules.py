"""An operator is told what a changed team file changes about gates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck.config import Config, GatesConfig, Role, RosterConfig
from deck.gate_rules import differences
from deck.recorded import config_text

TEAM = Config(
    roles=(Role("lead", start=True), Role("coder", approve=True, approvals=2)),
    approvers={"alice": "ed25519:a", "bob": "ed25519:b"},
    gates=GatesConfig(expire=3600.0, approvals=2),
)


def roles(**keys: Any) -> tuple[Role, ...]:
    return (TEAM.roles[0], replace(TEAM.roles[1], **keys))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, []),
        ({"warnings": ("x",)}, []),
        (
            {"approvers": {"alice": "ed25519:c", "eve": "ed25519:e"}},
            ["eve is a new approver", "bob is no approver any more", "alice has another key"],
        ),
        (
            {"approvers": {}},
            ["alice is no approver any more", "bob is no approver any more",
             "decisions are not signed any more"],
        ),
        (
            {"gates": GatesConfig(None, 1)},
            ["gates need 1 approval(s) instead of 2", "gates expire never instead of after 1h0m0s"],
        ),
        ({"roles": roles(approve=False)}, ["tasks for coder need no approval any more"]),
        ({"roles": roles(approvals=1)}, ["gates of coder need fewer approvals"]),
        ({"roles": TEAM.roles[:1]}, []),
        ({"roster": RosterConfig(approve=False)}, ["new roles need no approval any more"]),
    ],
)  # fmt: skip
def test_each_change_is_a_sentence(change: Mapping[str, Any], says: list[str]) -> None:
    assert differences(config_text(TEAM), config_text(replace(TEAM, **change))) == says


@given(st.binary())
def test_what_cannot_be_read_says_nothing(text: bytes) -> None:
    assert differences(text, config_text(TEAM)) == []
    assert differences(b'{"roles": []}', config_text(TEAM)) == []
