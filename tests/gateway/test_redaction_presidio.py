"""Workers get Presidio's interface without its language models, and the rest when asked for."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest


def run(program: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, check=True
    )
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def test_the_rules_run_without_spacy() -> None:
    answer = run(
        """
        import json, sys
        from gateway.redaction.presidio import import_lightly
        import_lightly()
        from gateway.redaction.detectors.engine import Detector
        from gateway.redaction.policy_file import load_policy
        found = Detector(load_policy()).find("write to bob@corp.example")
        print(json.dumps({"spacy": "spacy" in sys.modules, "kinds": [s.kind for s in found]}))
        """
    )
    assert answer == {"spacy": False, "kinds": ["EMAIL"]}


@pytest.mark.parametrize("order", ["before", "after"])
def test_what_is_asked_for_later_belongs_to_the_same_package(order: str) -> None:
    answer = run(
        f"""
        import json
        from gateway.redaction.presidio import import_lightly
        if {order!r} == "after":
            import presidio_analyzer
        import_lightly()
        from presidio_analyzer import EntityRecognizer, RecognizerResult
        from presidio_analyzer import Pattern, PatternRecognizer
        import presidio_analyzer
        pattern = Pattern("seven", "7+", 0.5)
        own = PatternRecognizer(supported_entity="SEVEN", patterns=[pattern])
        (found,) = own.analyze("a 77", ["SEVEN"])
        print(json.dumps([
            isinstance(own, EntityRecognizer),
            isinstance(found, RecognizerResult),
            presidio_analyzer.EntityRecognizer is EntityRecognizer,
            hasattr(presidio_analyzer, "AnalyzerEngine"),
            hasattr(presidio_analyzer, "NoSuchThing"),
        ]).join(('{{"said": ', "}}")))
        """
    )
    assert answer == {"said": [True, True, True, True, False]}
