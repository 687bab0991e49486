"""A key in place of a role's name is refused before it is recorded; names people give are not."""

from __future__ import annotations

import random
import string
from base64 import urlsafe_b64encode

import pytest

from gateway.role_names import is_role_name
from gateway.routing import Refusal, match
from gateway.stamps import StampRefused, _check_names

#: Letters of keys, put together here so that no key stands in a file.
FILL = "Zt4Qx9Lw2Rb7Vn3Kc8Md5Gp1Hs6Jf0YtXqLwRbVnKcMdGpHsJfYz"


@pytest.mark.parametrize(
    "name",
    [
        "sk-ant-" + FILL[:40],
        "ghp_" + FILL[:36],
        "gsk_" + FILL,
        "npm_" + FILL[:36],
        "pplx-" + FILL[:48],
        "SG." + FILL[:22] + "." + FILL[:30],
        FILL[:20],
        FILL[:40],
        FILL[:18] + "-" + FILL[20:38],
        FILL[:18] + "_" + FILL[20:38],
    ],
)
def test_a_key_is_no_name_of_a_role(name: str) -> None:
    assert not is_role_name(name)
    refusal = match("POST", f"/agent/{name}/v1/messages")
    assert isinstance(refusal, Refusal)
    assert (refusal.status, refusal.code) == (404, "role")
    assert name not in refusal.message + refusal.path + refusal.role
    with pytest.raises(StampRefused):
        _check_names("run", name, "T1")


@pytest.mark.parametrize(
    "name",
    [
        "coder",
        "R2D2",
        "Senior-Backend-Engineer-2",
        "security-reviewer_v2",
        "ClaudeCodeReviewerV2Final",
        "FrontEnd2BackEndMigration2024",
        "my-role-20241130T101112Z",
        "GPT4oMiniReviewer2ndPass",
        "deepSeekV3ReviewerAgent01",
        "qwen2.5-coder-32B-Instruct",
        "Llama-3.1-70B-Instruct-Q4_K_M",
        "Team-A-QA-01-UX-02-Bot",
        "OpsBot-eu-west-1b-Node07",
        "ORCHESTRATOR_PRIMARY_2024",
        "6f1c2a3e-9b4d-4e5f-8a7b-1c2d3e4f5a6b",
        "agent-7f9c2ba4e88f827d616045507605853e",
    ],
)
def test_a_name_that_people_give_is_one(name: str) -> None:
    assert is_role_name(name)
    assert not isinstance(match("POST", f"/agent/{name}/v1/messages"), Refusal)
    _check_names("run", name, "T1")


@pytest.mark.parametrize("name", ["", ".", "...", "a/b", "a b", "x" * 65, "jäger"])
def test_what_cannot_stand_in_a_path_is_no_name(name: str) -> None:
    assert not is_role_name(name)


def test_nearly_all_random_tokens_are_seen() -> None:
    dice, letters = random.Random(7), string.ascii_letters + string.digits
    tokens = ["".join(dice.choices(letters, k=32)) for _ in range(500)]
    tokens += [urlsafe_b64encode(dice.randbytes(24)).decode() for _ in range(500)]
    assert sum(is_role_name(token) for token in tokens) < 120
