"""Settings: order of sources, and that nothing written is dropped in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.settings import Settings, SettingsError, load_settings, parse_listen_addr


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    import os

    for name in list(os.environ):
        if name.startswith("SPHRAGIS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".sphragis"
    folder.mkdir()
    return folder


def sentence(**overrides: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings(**overrides)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    return text


def test_defaults_listen_on_loopback_and_live_under_the_home(home: Path) -> None:
    settings, warnings = load_settings()
    assert settings.listen == ("127.0.0.1", 8787)
    assert settings.ledger_dir == home / "ledger"
    assert settings.vault_file == home / "vault.db"
    assert settings.upstream_for("anthropic") == "https://api.anthropic.com"
    assert warnings == []


def test_command_line_beats_environment_beats_file_beats_default(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "sphragis.toml").write_text('listen_addr = ":1001"\nscan_workers = 3\n')
    assert load_settings()[0].listen == ("127.0.0.1", 1001)
    monkeypatch.setenv("SPHRAGIS_LISTEN_ADDR", ":1002")
    assert load_settings()[0].listen == ("127.0.0.1", 1002)
    settings, _ = load_settings(listen_addr="127.0.0.1:1003", upstream_base_url=None)
    assert settings.listen == ("127.0.0.1", 1003)
    assert settings.scan_workers == 3


def test_the_existing_flat_yaml_is_read(home: Path) -> None:
    (home / "sphragis.yaml").write_text(
        "# an existing file\n"
        "listen_addr: ':8899'  # a remark\n"
        "anthropic_base_url: http://127.0.0.1:9/x/\n"
        "vault_path: ~/v.db\n"
        "audit_log_path: ~/.sphragis/audit.jsonl\n"
        "ots_calendars:\n  - https://a.example\n"
        "route_autodetect: yes\n"
        "eu_pack: false # off\n"
        "auto_reveal: on\n"
    )
    settings, warnings = load_settings()
    assert settings.listen == ("127.0.0.1", 8899)
    assert settings.anthropic_base_url == "http://127.0.0.1:9/x"
    assert settings.vault_file == home.parent / "v.db"
    assert settings.ledger_dir == home / "audit"
    assert settings.auto_reveal is True
    assert [warning.split()[0] for warning in warnings] == [
        "eu_pack",
        "ots_calendars",
        "route_autodetect",
        "audit_log_path",
    ]


def test_toml_comes_before_yaml(home: Path) -> None:
    (home / "sphragis.toml").write_text('listen_addr = ":1"\n')
    (home / "sphragis.yaml").write_text("listen_addr: ':2'\n")
    assert load_settings()[0].listen == ("127.0.0.1", 1)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sphragis.yaml", "lisen_addr: ':1'\n"),
        ("sphragis.toml", 'lisen_addr = ":1"\n'),
    ],
)
def test_an_unknown_key_names_key_and_file(home: Path, name: str, text: str) -> None:
    (home / name).write_text(text)
    assert "lisen_addr" in sentence()
    assert str(home / name) in sentence()


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("sphragis.toml", "listen_addr = \n", "line 1"),
        ("sphragis.yaml", "a: [\n", "line 2"),
        ("sphragis.yaml", "- a\n", "key: value"),
        ("sphragis.yaml", "listen_addr: ':1'\nlisten_addr: ':2'\n", "twice"),
        ("sphragis.yaml", b"listen_addr: \xff\n", "UTF-8"),
        ("sphragis.yaml", "eu_pack: enabled\n", "eu_pack"),
        ("sphragis.yaml", "scan_workers: none of it\n", "scan_workers"),
        ("sphragis.yaml", "anthropic_base_url: ftp://x\n", "anthropic_base_url"),
        ("sphragis.yaml", "home: /elsewhere\n", "home"),
    ],
)
def test_a_wrong_file_is_one_sentence(
    home: Path, name: str, text: str | bytes, expected: str
) -> None:
    (home / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert expected in sentence()


def test_a_named_file_that_is_not_there_stops_the_start(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPHRAGIS_CONFIG", str(home / "none.toml"))
    assert "none.toml" in sentence()
    assert "SPHRAGIS_CONFIG" in sentence()
    assert "--config" in sentence(config=home / "other.toml")


@pytest.mark.parametrize("word", ["true", "1", "yes", "on", "TRUE", " On "])
def test_every_spelling_of_true_counts(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPHRAGIS_NER_BUILTIN", word)
    assert "[ner]" in sentence()


@pytest.mark.parametrize("word", ["enabled", "y", "tru", "2", "true # x"])
def test_what_is_not_a_flag_is_refused_and_not_read_as_false(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPHRAGIS_EU_PACK", word)
    assert "SPHRAGIS_EU_PACK" in sentence()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SPHRAGIS_NER_URL", "http://127.0.0.1:1"),
        ("SPHRAGIS_NER_BUILTIN", "true"),
    ],
)
def test_a_protection_that_is_not_there_stops_the_start(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert name.removeprefix("SPHRAGIS_").lower() in sentence()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("SPHRAGIS_LISTEN_ADR", "SPHRAGIS_LISTEN_ADDR"),
        ("SPHRAGIS_POLICYFILE", "SPHRAGIS_POLICY_FILE"),
        ("SPHRAGIS_ZZZ", "remove it"),
        ("SPHRAGIS_", "remove it"),
        ("sphragis_listen_adr", "SPHRAGIS_LISTEN_ADDR"),
        ("SPHRAGIS_PORT", ""),
    ],
)
def test_an_unknown_variable_stops_the_start_and_is_named_without_its_value(
    name: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "a-private-value")
    told = sentence()
    assert name in told
    assert hint in told
    assert "a-private-value" not in told


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((f"SPHRAGIS_{name.upper()}", "") for name in Settings.model_fields if name != "home"),
        ("SPHRAGIS_VAULT_KEY", "x"),
        ("SPHRAGIS_NO_COLOR", "1"),
        ("SPHRAGISX", "another program's"),
        ("SPHRAGIS_PORT", "tcp://10.0.0.7:8787"),
        ("SPHRAGIS_SERVICE_HOST", "10.0.0.7"),
        ("SPHRAGIS_SERVICE_PORT_HTTP", "8787"),
        ("SPHRAGIS_PORT_8787_TCP_ADDR", "10.0.0.7"),
    ],
)
def test_every_variable_that_has_a_meaning_is_known(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    load_settings()


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPHRAGIS_UPSTREAM_BASE_URL", "")
    assert load_settings()[0].upstream_base_url is None


def test_secrets_never_show_in_a_sentence_or_a_repr(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPHRAGIS_UPSTREAM_API_KEY", "sk-very-secret")
    settings, _ = load_settings()
    assert "sk-very-secret" not in repr(settings)
    (home / "sphragis.toml").write_text('upstream_api_key = "sk-very-secret\n')
    assert "sk-very-secret" not in sentence()
    (home / "sphragis.toml").write_text('anthropic_base_url = "https://u:sk-very-secret@x"\n')
    assert "sk-very-secret" not in sentence()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":8787", ("127.0.0.1", 8787)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("[::1]:80", ("::1", 80)),
        ("localhost:80", ("localhost", 80)),
    ],
)
def test_a_bare_port_means_this_machine(text: str, expected: tuple[str, int]) -> None:
    assert parse_listen_addr(text) == expected


@pytest.mark.parametrize("text", ["", "8787", "host:", "host:x", "host:70000", ":-1", ":٣"])
def test_a_wrong_address_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        parse_listen_addr(text)


@pytest.mark.parametrize("address", ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "example.com:1"])
def test_a_listener_others_can_reach_is_refused_without_keys(address: str) -> None:
    settings, _ = load_settings(listen_addr=address)
    with pytest.raises(SettingsError, match="other machines"):
        _ = settings.listen


def test_a_bare_port_with_listen_all_is_refused_too() -> None:
    settings, _ = load_settings(listen_addr=":1", listen_all=True)
    with pytest.raises(SettingsError, match="other machines"):
        _ = settings.listen


@pytest.mark.parametrize(
    "url",
    ["api.example.com", "ftp://x", "https://", "https://x:99999", "https://x:y", "https://x:0",
     "https://x y", "https://x/\x7f", "https://exämple.com", "https://x?a=b", "https://u:p@x"],
)  # fmt: skip
def test_an_address_no_call_could_reach_is_refused_at_the_start(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPHRAGIS_UPSTREAM_BASE_URL", url)
    assert "SPHRAGIS_UPSTREAM_BASE_URL" in sentence()


@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "-1", "soon"])
@pytest.mark.parametrize("name", ["SPHRAGIS_READ_TIMEOUT", "SPHRAGIS_CONNECT_TIMEOUT"])
def test_every_wait_ends(name: str, seconds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, seconds)
    assert name in sentence()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.toml", "scan_workers = " + "9" * 6000),
        ("s.toml", "a = " + "[" * 3000),
        ("s.yaml", "scan_workers: " + "9" * 6000),
        ("s.yaml", "listen_addr: 2026-99-99"),
        ("s.yaml", "a: " + "[" * 3000),
    ],
    ids=["toml digits", "toml nesting", "yaml digits", "yaml date", "yaml nesting"],
)
def test_what_no_parser_can_take_is_a_sentence_about_the_file(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SettingsError, match=name):
        load_settings(tmp_path / name)


def test_there_are_not_more_scanners_than_any_machine_has_use_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPHRAGIS_SCAN_WORKERS", "99999999999")
    with pytest.raises(SettingsError, match="SPHRAGIS_SCAN_WORKERS"):
        load_settings()
