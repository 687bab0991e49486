"""The optional second scanner for secrets: finds in characters, private files, no network."""

from __future__ import annotations

import importlib.util
import os
import random
import stat
import string
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gateway.redaction.detectors.base import Source
from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy import Policy, PolicyError
from gateway.redaction.policy_file import load_policy, parse_policy
from gateway.redaction.tokens import Tokenizer

installed = importlib.util.find_spec("kingfisher_sdk") is not None
needs_package = pytest.mark.skipif(not installed, reason="kingfisher-secret-scanner is not here")
FOLDER = "KF_RULE_CACHE_DIR"


def policy(extra: str = "second_opinion = true\n") -> Policy:
    return parse_policy(extra + load_policy().text, source="t", directory=None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for the module: the rules take seconds to compile."""
    return tmp_path_factory.mktemp("rules")


@pytest.fixture(scope="module")
def detector(folder: Path) -> Detector:
    before = os.environ.get(FOLDER)
    os.environ[FOLDER] = str(folder)
    try:
        return Detector(policy())
    finally:
        if before is None:
            del os.environ[FOLDER]
        else:
            os.environ[FOLDER] = before


def opinion(detector: Detector) -> object:
    from gateway.redaction.detectors.second_opinion import SecondOpinionRule

    return next(rule for rule in detector._rules if isinstance(rule, SecondOpinionRule))


def key(seed: int = 1) -> str:
    rng = random.Random(seed)
    return "sk_live_" + "".join(rng.choice(string.ascii_letters + string.digits) for _ in range(30))


def test_it_is_off_unless_a_policy_asks_for_it() -> None:
    assert load_policy().second_opinion is False
    assert policy().second_opinion is True
    assert policy("second_opinion = false\n").second_opinion is False


def test_a_policy_that_says_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(PolicyError, match="second_opinion must be true or false"):
        policy('second_opinion = "yes"\n')


def test_without_its_package_it_refuses_to_start_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "gateway.redaction.detectors.second_opinion.PACKAGE", "no_such_package_anywhere"
    )
    with pytest.raises(PolicyError, match=r"install the extra \[kingfisher\]"):
        Detector(policy())


@needs_package
@pytest.mark.parametrize("before", ["", "é", "日本語 ", "🙂🙂 ", "\ud800 ", "a\n" * 40 + "ü "])
def test_its_finds_are_counted_in_characters(detector: Detector, before: str) -> None:
    rule = opinion(detector)
    text = f"{before}{key()} and 🙂 {key(2)} end"
    found = sorted({(s.start, s.end) for s in rule.spans(Source(text))})  # type: ignore[attr-defined]
    values = [text[a:b] for a, b in found]
    assert key() in values
    assert key(2) in values


@needs_package
def test_tokens_are_left_alone(detector: Detector) -> None:
    token = Tokenizer(b"k" * 32, "r").token("APIKEY", key())
    assert detector.find(f"password: {token} api_key={token}") == []


@needs_package
def test_its_version_is_part_of_every_cache_key(detector: Detector) -> None:
    assert "second-opinion" in detector.version
    assert "second-opinion" not in Detector(load_policy()).version


@needs_package
def test_its_compiled_rules_are_kept_where_nobody_else_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gateway.redaction.detectors import second_opinion

    monkeypatch.delenv(FOLDER, raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = second_opinion._private_folder()
    assert folder is not None
    assert folder.is_relative_to(tmp_path)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


NETWORK = """
    import sys
    asked = []
    def watch(event, args):
        if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname",
                     "socket.gethostbyaddr", "socket.getnameinfo", "socket.sendto",
                     "socket.sendmsg"):
            asked.append(event)
        if event in ("subprocess.Popen", "os.posix_spawn", "os.exec", "urllib.Request"):
            asked.append(event)
    sys.addaudithook(watch)
    from gateway.redaction.policy_file import load_policy, parse_policy
    from gateway.redaction.detectors.engine import Detector
    text = "second_opinion = true\\n" + load_policy().text
    detector = Detector(parse_policy(text, source="t", directory=None))
    assert detector.find("KEY")
    assert not asked, asked
    print("quiet")
"""


@needs_package
@pytest.mark.usefixtures("detector")
def test_it_never_reaches_for_the_network(folder: Path) -> None:
    """Neither through Python (audited), nor past it: a namespace without a network, where the
    kernel lets us make one."""
    program = textwrap.dedent(NETWORK).replace("KEY", key())
    environ = {**os.environ, FOLDER: str(folder)}
    alone = ["unshare", "--map-root-user", "--net"]
    probe = subprocess.run([*alone, "true"], capture_output=True, check=False)
    prefix = alone if probe.returncode == 0 else []
    ran = subprocess.run(
        [*prefix, sys.executable, "-c", program],
        capture_output=True, text=True, check=False, env=environ,
    )  # fmt: skip
    assert ran.stdout.strip() == "quiet", ran.stderr


@needs_package
def test_only_the_scanner_of_the_package_is_used() -> None:
    from gateway.redaction.detectors import second_opinion

    source = Path(second_opinion.__file__).read_text(encoding="utf-8")
    for name in ("Validator", "Revoker", "validation", "revocation"):
        assert name not in source
