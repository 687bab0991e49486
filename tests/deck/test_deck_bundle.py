"""The bundle: what is in it, and that no secret is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck.bundle import BundleError, default_name, write_bundle
from deck.cli.verbs import with_plain_flags
from deck.scrub import scrubber

SCRUB = scrubber({"HOME": "/home/ada", "MY_DEPLOY_KEY": "plain-words-as-key", "PATH": "/bin"})

#: Each canary in the line it would stand in.
CANARIES = {
    "sk-ant-api03-Qx7vT2mK9pLw4RzN": "calling with sk-ant-api03-Qx7vT2mK9pLw4RzN now",
    "sk-proj-abc123DEF456ghi789": '{"k": "sk-proj-abc123DEF456ghi789"}',
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a": "git: ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "github_pat_11AAAAAAA0abcdefghij": "x=github_pat_11AAAAAAA0abcdefghij",
    "AKIAIOSFODNN7EXAMPLE": "id AKIAIOSFODNN7EXAMPLE.",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY": "aws wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY": "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
    "xoxb-123456789012-abcdefghijkl": "slack xoxb-123456789012-abcdefghijkl",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln": "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
    "hunter22": "DB_PASSWORD=hunter22",
    "hunter23": 'args = ["--api-key", "hunter23"]',
    "hunter24": "run tool --auth-token hunter24 --fast",
    "hunter25": '"client_secret": "hunter25"',
    "hunter26": "on_gate = 'curl -H \"Authorization: Basic aHVudGVyMjY=hunter26\" x'",
    "hunter27": "postgres://app:hunter27@db.internal:5432/x",
    "hunter28": "GET https://api.test/v1?api_key=hunter28&page=2",
    "hunter29": "Cookie: session=hunter29",
    "MIIEow": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc\n-----END RSA PRIVATE KEY-----",
    "MIIEox": "-----BEGIN PRIVATE KEY-----\nMIIEox\ncut off here",
    "plain-words-as-key": "deploying with plain-words-as-key to prod",
    "ada@example.org": "author ada@example.org committed",
    "/home/ada": "no such file: /home/ada/x",
}


@pytest.mark.parametrize("canary", CANARIES)
def test_a_secret_of_a_known_kind_is_removed(canary: str) -> None:
    line = CANARIES[canary]
    assert canary in line
    assert canary not in SCRUB(line)


@pytest.mark.parametrize(
    "line",
    [
        "time=2026-07-13T13:13:35.120+02:00 level=INFO msg=delegate id=T1 from=lead to=coder",
        "msg=tokens role=coder in=1200 out=340 cache_creation=0 cache_read=9000 cost=0.0123",
        'role coder: env_deny = ["AWS_*", "GITHUB_TOKEN"]',
        "digest=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "The tokens were counted; the secret of good code is small functions.",
        "/home/project/deck/cli/checkpoints_and_rollback_of_whole_trees.py line 12",
        'addr = "127.0.0.1:8787"',
        "src/components/UserProfileCardV2/UserProfileCardHeader.tsx",
    ],
)
def test_what_the_logs_are_read_for_stays(line: str) -> None:
    assert SCRUB(line) == line


def test_a_path_in_the_home_keeps_its_end_and_a_namesake_is_left_alone() -> None:
    assert SCRUB("/home/ada/p/x /home/adam/y") == "~/p/x /home/adam/y"


@given(st.text(max_size=300))
def test_any_text_can_be_scrubbed_and_nothing_new_turns_up(text: str) -> None:
    assert "plain-words-as-key" not in SCRUB(text + "plain-words-as-key" + text)


def test_text_without_a_blank_is_no_trap() -> None:
    def cost(text: str) -> float:
        before = time.process_time()
        SCRUB(text)
        return time.process_time() - before

    for piece in ("a.", "token", "x", "a@", "sk-", "a://"):
        small, large = piece * (20_000 // len(piece)), piece * (160_000 // len(piece))
        # Eight times the text may cost eight times as much, not sixty-four times.
        assert cost(large) < 24 * cost(small) + 0.2, piece


@pytest.fixture
def project(tmp_path: Path) -> Path:
    logs = tmp_path / ".choragos" / "logs"
    logs.mkdir(parents=True)
    for name in ("events.log", "server.log", "crash.log", "coder.log"):
        (logs / name).write_text(f"{name}\n" + "\n".join(CANARIES.values()) + "\n")
    (tmp_path / ".choragos" / "session.json").write_text(json.dumps({"api_key": "hunter25"}))
    (tmp_path / ".choragos.toml").write_text(
        '[[roles]]\nname = "a"\nargs = ["--api-key", "hunter23"]\n'
    )
    return tmp_path


ENVIRON = {"HOME": "/home/ada", "MY_DEPLOY_KEY": "plain-words-as-key"}


def members(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        found = {}
        for entry in archive:
            assert entry.mode == 0o600
            file = archive.extractfile(entry)
            assert file is not None
            found[entry.name.removeprefix("choragos-bundle/")] = file.read().decode()
        return found


def test_the_bundle_holds_findings_settings_and_logs_for_its_owner_alone(project: Path) -> None:
    old = os.umask(0)
    try:
        write_bundle(project / "b.tar.gz", project, ["OK    config  fine"], ENVIRON)
    finally:
        os.umask(old)
    assert (project / "b.tar.gz").stat().st_mode & 0o777 == 0o600
    found = members(project / "b.tar.gz")
    assert list(found) == [
        "meta.txt", "doctor.txt", "config.toml", "session.json",
        "logs/events.log", "logs/server.log", "logs/crash.log",
    ]  # fmt: skip
    assert found["doctor.txt"] == "OK    config  fine\n"
    assert found["meta.txt"].startswith("choragos ")


def test_no_canary_is_in_the_bundle_with_transcripts_or_without(project: Path) -> None:
    write_bundle(project / "b.tar.gz", project, list(CANARIES.values()), ENVIRON, transcripts=True)
    found = members(project / "b.tar.gz")
    assert "transcripts/coder.log" in found
    for name, text in found.items():
        for canary in CANARIES:
            assert canary not in text, (name, canary)


def test_nothing_is_replaced_followed_or_waited_for(project: Path) -> None:
    secret = project / "elsewhere"
    secret.write_text("not of the deck")
    logs = project / ".choragos" / "logs"
    (logs / "crash.log").unlink()
    (logs / "crash.log").symlink_to(secret)
    (logs / "server.log").unlink()
    os.mkfifo(logs / "server.log")
    write_bundle(project / "b.tar.gz", project, [], ENVIRON)
    found = members(project / "b.tar.gz")
    assert "not of the deck" not in "".join(found.values())
    assert "not readable logs/crash.log" in found["meta.txt"]
    assert "not readable logs/server.log" in found["meta.txt"]
    with pytest.raises(BundleError, match="exists already"):
        write_bundle(project / "b.tar.gz", project, [], ENVIRON)
    with pytest.raises(BundleError, match="cannot be written"):
        write_bundle(project / "no" / "b.tar.gz", project, [], ENVIRON)


def test_of_a_long_log_the_end_is_kept_from_a_whole_line_on(project: Path) -> None:
    log = project / ".choragos" / "logs" / "events.log"
    log.write_text("early\n" + "x = sk-proj-abc123DEF456ghi789\n" * 200_000 + "late\n")
    write_bundle(project / "b.tar.gz", project, [], ENVIRON)
    text = members(project / "b.tar.gz")["logs/events.log"]
    assert text.endswith("late\n")
    assert "early" not in text
    assert text.startswith("x = [removed")


def test_the_value_of_the_option_is_optional() -> None:
    assert with_plain_flags(["doctor", "--bundle"]) == ["doctor", "--bundle="]
    assert with_plain_flags(["doctor", "--bundle=x"]) == ["doctor", "--bundle=x"]
    assert default_name(0) == "choragos-bundle-19700101T000000Z.tar.gz"


def test_the_verb_writes_the_bundle_and_still_fails_for_what_fails(project: Path) -> None:
    (project / ".choragos.toml").write_text(
        '[[roles]]\nname = "a"\ncommand = "no-such-program"\n[sphragis]\nenabled = false\n'
    )
    environ = {**ENVIRON, "PATH": "/usr/bin:/bin", "TERM": "xterm", "HOME": str(project)}
    environ["XDG_RUNTIME_DIR"] = str(project)

    def doctor(*options: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "deck.cli", "doctor", *options]
        return subprocess.run(
            line, cwd=project, env=environ, capture_output=True, text=True, check=False
        )

    done = doctor("--bundle=out.tar.gz", "--transcripts")
    assert done.returncode == 1
    assert done.stderr == "error: 1 check(s) failed\n"
    assert "wrote out.tar.gz (meta.txt, doctor.txt, config.toml" in done.stdout
    found = members(project / "out.tar.gz")
    assert "FAIL  role a         no-such-program is not on PATH" in found["doctor.txt"]
    assert "transcripts/coder.log" in found
    assert "plain-words-as-key" not in "".join(found.values())
    assert doctor("--bundle").stdout.splitlines()[-1].startswith("wrote choragos-bundle-")
    assert "add --bundle" in doctor("--transcripts").stderr
