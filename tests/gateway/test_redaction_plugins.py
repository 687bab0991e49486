"""Operators' own recognizers: from the policy, from installed packages, from Presidio's YAML."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from presidio_analyzer import EntityRecognizer, Pattern, PatternRecognizer, RecognizerResult

from gateway.redaction import plugins
from gateway.redaction.detectors.engine import Detector
from gateway.redaction.plugins import OwnRecognizer, digest, kind_of, load_own
from gateway.redaction.policy import Policy, PolicyError
from gateway.redaction.policy_file import load_policy, parse_policy

BADGE = """
recognizers:
  - name: Badge
    supported_entity: STAFF_BADGE
    patterns:
      - {name: badge, regex: 'BDG-\\d{4}', score: 0.8}
  - name: Locker
    supported_language: de
    supported_entity: LOCKER
    context: [spind, schrank]
    patterns:
      - {name: weak, regex: '\\b\\d{5}\\b', score: 0.01}
  - name: Projects
    supported_languages: [en, fr]
    supported_entity: PROJECT
    deny_list: [Falcon Nine, Zephyr]
"""


class BadgeRecognizer(PatternRecognizer):
    def __init__(self) -> None:
        super().__init__("STAFF_BADGE", patterns=[Pattern("badge", r"BDG-\d{4}", 0.8)])


class NoRecognizer:
    pass


class Fails(EntityRecognizer):
    def __init__(self) -> None:
        raise OSError("a value nobody may see")


def policy(extra: str, directory: Path | None = None) -> Policy:
    base = load_policy().text
    at = base.index("[kinds]")
    return parse_policy(f"{base[:at]}{extra}\n{base[at:]}", source="t", directory=directory)


def with_file(tmp_path: Path, text: str) -> Policy:
    (tmp_path / "own.yaml").write_text(text)
    return policy('recognizers_file = "own.yaml"', tmp_path)


def kinds(detector: Detector, text: str) -> list[tuple[str, str]]:
    return [(span.kind, text[span.start : span.end]) for span in detector.find(text)]


def test_a_class_of_the_policy_is_asked() -> None:
    detector = Detector(policy(f'recognizers = ["{__name__}:BadgeRecognizer"]'))
    assert kinds(detector, "badge BDG-1234, please") == [("STAFF_BADGE", "BDG-1234")]
    (span,) = detector.find("BDG-1234")
    assert (span.rule, span.score) == ("BadgeRecognizer", 0.8)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no.such.module:X", "cannot be loaded (ModuleNotFoundError)"),
        (f"{__name__}:Missing", "cannot be loaded (AttributeError)"),
        (f"{__name__}:Fails", "cannot be loaded (OSError)"),
        (f"{__name__}:NoRecognizer", "is not a Presidio EntityRecognizer"),
    ],
)
def test_a_class_that_cannot_be_used_is_one_sentence(name: str, said: str) -> None:
    with pytest.raises(PolicyError) as wrong:
        load_own(policy(f'recognizers = ["{name}"]'))
    assert said in str(wrong.value)
    assert "nobody may see" not in str(wrong.value)


def test_installed_packages_bring_theirs_by_an_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "acme_badges-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-badges\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[choragos.recognizers]\nbadge = acme_badges:Badge\n")
    (tmp_path / "acme_badges.py").write_text(
        textwrap.dedent(
            """
            from presidio_analyzer import Pattern, PatternRecognizer
            class Badge(PatternRecognizer):
                def __init__(self):
                    super().__init__("BADGE", patterns=[Pattern("b", r"ACME-[0-9]{3}", 0.9)])
            """
        )
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert kinds(Detector(load_policy()), "see ACME-123") == [("BADGE", "ACME-123")]
    (tmp_path / "acme_badges.py").write_text("class Badge: pass\n")
    sys.modules.pop("acme_badges")
    with pytest.raises(PolicyError, match=r"'badge' \(acme_badges:Badge\) is not a Presidio"):
        load_own(load_policy())
    (info / "entry_points.txt").write_text("[choragos.recognizers]\nbadge = acme_gone:Badge\n")
    with pytest.raises(PolicyError, match="cannot be loaded"):
        load_own(load_policy())


def test_a_file_in_the_format_of_presidio_serves_all_its_languages(tmp_path: Path) -> None:
    detector = Detector(with_file(tmp_path, BADGE))
    found = kinds(detector, "BDG-1234 for Zephyr and falcon nine")
    assert found == [("STAFF_BADGE", "BDG-1234"), ("PROJECT", "Zephyr"), ("PROJECT", "falcon nine")]


def test_a_weak_pattern_counts_only_beside_a_word_of_its_context(tmp_path: Path) -> None:
    detector = Detector(with_file(tmp_path, BADGE))
    assert kinds(detector, "row 40215 of it") == []
    assert kinds(detector, "sein Spind ist 40215") == [("LOCKER", "40215")]
    assert kinds(detector, "Spind " + "und dann " * 6 + "40215") == []


def test_the_threshold_of_the_policy_decides_over_an_own_kind_too(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(BADGE)
    text = policy('recognizers_file = "own.yaml"').text.replace(
        "[kinds]", "[kinds]\nSTAFF_BADGE = { action = 'mask', threshold = 0.9 }"
    )
    detector = Detector(parse_policy(text, source="t", directory=tmp_path))
    assert kinds(detector, "BDG-1234") == []


def test_the_recognizers_of_presidio_are_there_by_name(tmp_path: Path) -> None:
    detector = Detector(
        with_file(
            tmp_path,
            "recognizers:\n"
            "  - {name: UkNinoRecognizer, type: predefined}\n"
            "  - {name: InPanRecognizer, type: predefined, enabled: false}\n"
            "  - EmailRecognizer\n",
        )
    )
    assert len(detector._own) == 2
    assert kinds(detector, "mail a.b@corp.example") == [("EMAIL", "a.b@corp.example")]


@pytest.mark.parametrize(
    "name", ["AzureAILanguageRecognizer", "GLiNERRecognizer", "SpacyRecognizer"]
)
def test_what_asks_a_service_or_a_model_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PolicyError, match=r"asks a service or fetches a model|not one of Presidio"):
        load_own(with_file(tmp_path, f"recognizers:\n  - {{name: {name}, type: predefined}}\n"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "needs 'recognizers'"),
        ("recognizers: {}", "needs 'recognizers'"),
        ("recognizers: [", "is not YAML in line"),
        ("recognizers: [7]", "Entry 1 of the recognizers file"),
        ("recognizers: [{name: Nope, type: predefined}]", "is not one of Presidio's"),
        ("recognizers: [{name: N}]", "needs supported_entity and patterns"),
        ("recognizers: [{name: N, supported_entity: X}]", "needs supported_entity and patterns"),
        (
            "recognizers:\n- {name: N, supported_entity: X, patterns: [{regex: '(', score: 1}]}",
            "A pattern of the recognizer 'N'",
        ),
        (
            "recognizers: [{name: N, supported_entity: X, patterns: [{name: p, regex: a}]}]",
            "A pattern of the recognizer 'N'",
        ),
    ],
)
def test_a_broken_file_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(PolicyError) as wrong:
        load_own(with_file(tmp_path, text))
    assert said in str(wrong.value)
    assert str(wrong.value).endswith(".")


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="cannot be read"):
        load_own(policy('recognizers_file = "gone.yaml"', tmp_path))


def test_a_changed_file_makes_old_cache_entries_useless(tmp_path: Path) -> None:
    first = Detector(with_file(tmp_path, BADGE)).version
    assert Detector(with_file(tmp_path, BADGE)).version == first
    assert Detector(with_file(tmp_path, BADGE + "\n# more\n")).version != first
    assert digest(load_policy()) == ""


def test_a_slow_pattern_is_left_to_the_limit_of_the_scan(tmp_path: Path) -> None:
    """Presidio's own limit goes on as if nothing was there."""
    from presidio_analyzer import pattern_recognizer

    load_own(with_file(tmp_path, BADGE))
    assert pattern_recognizer.REGEX_TIMEOUT_SECONDS == plugins._PATTERN_SECONDS


def test_names_of_entities_become_kinds() -> None:
    assert kind_of("EMAIL_ADDRESS") == "EMAIL"
    assert kind_of("Own thing 2") == "OWN_THING"
    assert kind_of("123") == "CUSTOM"
    assert len(kind_of("A" * 90)) == 32


def test_an_answer_of_nothing_is_nothing() -> None:
    class Silent(EntityRecognizer):
        def __init__(self) -> None:
            super().__init__(supported_entities=["X"])

        def load(self) -> None:
            pass

        def analyze(self, text: str, entities: list[str], nlp_artifacts: object) -> None:  # type: ignore[override]
            return None

    assert list(OwnRecognizer(Silent()).spans("text")) == []
    assert RecognizerResult("X", 0, 1, 0.5)


def test_presidios_mail_rule_never_asks_for_the_list_of_domains(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("recognizers:\n  - EmailRecognizer\n")
    (tmp_path / "p.toml").write_text(policy('recognizers_file = "own.yaml"').text)
    program = """
        import sys
        from pathlib import Path
        from gateway.redaction.no_network import forbid_network
        forbid_network()
        from gateway.redaction.policy_file import load_policy
        from gateway.redaction.detectors.engine import Detector
        detector = Detector(load_policy(Path(sys.argv[1])))
        print([s.kind for s in detector.find("write to a.b@corp.com or c@d.co.uk")])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "p.toml")],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", "HOME": str(tmp_path)},
    )
    assert done.stdout.strip() == "['EMAIL', 'EMAIL']", done.stderr
