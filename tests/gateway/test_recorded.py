"""What the ledger keeps of the settings: enough for an auditor, and no secret."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.recorded import settings_summary, settings_text
from gateway.settings import Settings, load_settings

SECRET = "canary-5e1f"
VKEY = "witness.example/w1+f3d2c1b0+BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"


def told(monkeypatch: pytest.MonkeyPatch, home: Path, **values: str) -> Settings:
    for name, value in {"home": str(home), **values}.items():
        monkeypatch.setenv(f"SPHRAGIS_{name.upper()}", value)
    return load_settings()[0]


def test_the_ways_out_are_told_without_what_their_programs_and_urls_carry(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = told(
        monkeypatch,
        tmp_path,
        tsa_command=f"/usr/bin/stamp --password {SECRET}",
        head_command=f"/usr/bin/send --token {SECRET}",
        head_syslog="udp:127.0.0.1:514",
        anthropic_api_key=f"sk-ant-{SECRET}",
        vault_key_command=f"/usr/bin/key {SECRET}",
    )
    told_now: dict[str, Any] = settings_summary(settings)["anchors"]
    assert told_now == {
        "witnesses": [],
        "tsa": ["/usr/bin/stamp", "(set)", "(set)"],
        "ots": False,
        "copies": ["head_command", "head_syslog"],
        "neighbors": True,
    }
    text = settings_text(settings)
    assert json.loads(text)["head_command"] == ["/usr/bin/send", "(set)", "(set)"]
    assert SECRET.encode() not in text + json.dumps(settings_summary(settings)).encode()


def test_a_witness_is_told_with_its_key_which_is_no_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = told(monkeypatch, tmp_path).model_copy(
        update={"witnesses": [f"https://w.example/add {VKEY}"], "tsa_url": "https://tsa.example/q"}
    )
    ways: dict[str, Any] = settings_summary(settings)["anchors"]
    assert ways["witnesses"] == [f"https://w.example/add {VKEY}"]
    assert ways["tsa"] == "https://tsa.example/q"
    assert json.loads(settings_text(settings))["witnesses"] == ways["witnesses"]
