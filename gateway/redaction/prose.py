"""Where in a text names of people may stand: the lines worth a language model's time.

Pure. Owns what a name looks like (`words`) and which lines may hold one (`worth_reading`): running
text with a word that is written like a name, or two such words side by side anywhere. A line is
judged by itself alone, so that the same line is treated alike in every text and on every turn.
Called by `ner`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from gateway.redaction.lexicon import COMMON, GIVEN, TRADE

#: A word with a capital that is no part of an identifier, path, call, tag or address.
_CAPITAL: Final = re.compile(
    r"(?<![\w.@/\\$%#&+-])[^\W\d_a-z][^\W\d_]*+(?:['’\-][^\W\d_]++)*+(?![\w(@/\\=\[]|\.\w|::)"
)
#: A word of running text.
_PLAIN: Final = re.compile(r"(?<![\w.@/\\$%<>=-])[a-zà-ÿ]{2,}+(?=[\s,;:!?.)'’\"]|\Z)")
_CODE: Final = re.compile(r"[{}\[\]()=<>;|&\\$_]")
_STATEMENT: Final = re.compile(
    r"\s*(?:(?:import|class|def|const|let|var|function|raise|assert|return|public|private|static)\s"
    r"|from\s+[\w.]+\s+import\b|(?:if|elif|for|while|with|except|case)\b.*:\s*\Z)"
)
#: Indentation of code, or the sign of a comment.
_IN_CODE: Final = re.compile(r"\s{4,}|\t")
_COMMENT: Final = re.compile(
    r"\s*(?:#|//|/\*|--\s|;;|<!--|\"\"\"|'''|dnl\s|REM\s)|(?:    |\t)* \*\s|\s*__\w+__\s*="
)
#: A comment set in as lists of names are; a heading of Markdown has one blank.
_SET_IN: Final = re.compile(r"\s*(?:#|//|\*)[#/*]*\s{2,}")
#: Whose work a program is. Licenses ask for these lines to stay as they are, and they are public.
_ATTRIBUTION: Final = re.compile(
    r"(?i:\b(?:copyright|author(?:s|ed)?|contribut\w+|credits?|maintain\w*|licen[cs]e\w*|based on"
    r"|adapted|inspired|derived|originally|courtesy|thanks to|patch(?:es)?|see:|rfc|pep|doi)\b"
    r"|\(c\)|©|__(?:author|credits|maintainer|contact)__)|\(from [A-Z]|\bwho (?:also )?wrote\b"
    r"|(?<!reviewed )(?<!approved )(?<!reported )(?<!requested )(?<!assigned )(?<!signed )"
    r"\b[Bb]y [A-ZÀ-Þ]"
)
#: The same in the texts of programs, which stand there without a sign of their own.
_WRITTEN: Final = re.compile(
    r"\s*(?:Written|Contributed|Cloned|Copyright|Adapted|:copyright:|Based on|Taken from) "
    r"|.*\b(?:RFC \d{3,4}\b|(?:ported|contributed|cloned|assembled|hacked)\b.* by [A-Z])"
)
_TITLE: Final = re.compile(r"\b(?:mr|mrs|ms|dr|prof|st|sr|sra|mme|hr|fr)\.\Z", re.IGNORECASE)
#: Capitals inside a name: McDowell, MacLeod, DeVito, FitzGerald.
_PREFIXES: Final = ("Mc", "Mac", "De", "Di", "Du", "La", "Le", "Van", "Fitz")
_LONGEST: Final = 24
_ENDING: Final = re.compile(r"['’](?:s|t|m|d|re|ve|ll)\Z")
#: What may stand between two parts of a name.
PARTICLES: Final = frozenset(
    [
        "af",
        "al",
        "ap",
        "av",
        "bin",
        "da",
        "dal",
        "de",
        "del",
        "della",
        "den",
        "der",
        "di",
        "dos",
        "du",
        "el",
        "ibn",
        "la",
        "las",
        "le",
        "los",
        "ten",
        "ter",
        "van",
        "vom",
        "von",
        "zu",
        "zum",
        "zur",
    ]
)
#: Between the parts: blanks, a particle or two, an initial.
_BETWEEN: Final = re.compile(rf"[ \t]+(?:[A-Z]\.?[ \t]+|(?:{'|'.join(sorted(PARTICLES))})[ \t]+)*")


@dataclass(frozen=True, slots=True)
class Word:
    """A word that may be part of a name, with its offsets in the line."""

    start: int
    end: int
    text: str

    @property
    def stem(self) -> str:
        """Lower case without accents and endings."""
        return stem(self.text)


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """Lower case without accents and endings: Étienne's, etienne."""
    plain = _ENDING.sub("", word.lower())
    if plain.isascii():
        return plain
    return "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))


@lru_cache(maxsize=8192)
def is_name_shaped(word: str) -> bool:
    """Whether `word` is written like a name: Maria, McDowell, O'Brien, Jean-Luc."""
    if len(word) > _LONGEST or len(word) < 2:
        return False
    return all(_is_part(part) for part in re.split(r"['’\-]", word) if part)


def _is_part(part: str) -> bool:
    for prefix in _PREFIXES:
        rest = part.removeprefix(prefix)
        if rest != part and rest[:1].isupper() and rest[1:].islower():
            return True
    if not part[0].isupper():
        return part in {"s", "al", "el"} or part in PARTICLES
    return len(part) == 1 or part[1:].islower()


def words(line: str) -> list[Word]:
    """Return the words of a line that may be parts of names, terms of the trade left out."""
    return [
        Word(found.start(), found.end(), found.group())
        for found in _CAPITAL.finditer(line)
        if is_name_shaped(found.group()) and stem(found.group()) not in TRADE
    ]


def runs(line: str, found: list[Word]) -> Iterator[list[Word]]:
    """Yield `found` in groups of words that follow each other as the parts of one name do."""
    run: list[Word] = []
    for word in found:
        if run and not _BETWEEN.fullmatch(line, run[-1].end, word.start):
            yield run
            run = []
        run.append(word)
    if run:
        yield run


def is_prose(line: str) -> bool:
    """Whether a line is running text rather than code or data."""
    plain = len(_PLAIN.findall(line))
    if _STATEMENT.match(line):
        return False
    code = len(_CODE.findall(line))
    if plain >= 2:
        return code <= plain // 2 + 1
    return not code and (plain == 1 or line.rstrip().endswith((".", "!", "?")))


def begins_sentence(line: str, at: int) -> bool:
    """Whether the word at `at` has its capital only because a sentence begins there."""
    before = line[:at].rstrip(" \t\"'`“‘(*#/>-")
    return not before or (before[-1] in ".:!?;|" and not _TITLE.search(before[-6:]))


def is_in_code(line: str) -> bool:
    """Whether running text is most likely a comment or a string of a program."""
    return _IN_CODE.match(line) is not None or is_comment(line)


def is_comment(line: str) -> bool:
    """Whether a line begins as comments of programs do."""
    return _COMMENT.match(line) is not None


def is_attribution(line: str) -> bool:
    """Whether a line of a program says who wrote it, or lists such names."""
    if not is_comment(line):
        return bool(_WRITTEN.match(line))
    if _ATTRIBUTION.search(line):
        return True
    if _SET_IN.match(line) is None:
        return False
    plain: list[str] = _PLAIN.findall(line)
    return sum(word not in PARTICLES and word != "and" for word in plain) < 2


def worth_reading(line: str, found: list[Word], prose: bool) -> bool:
    """Whether the model should read a line."""
    if is_attribution(line):
        return False
    if prose:
        return any(
            word.stem not in COMMON or not begins_sentence(line, word.start) for word in found
        )
    return any(
        len(run) > 1 and any(word.stem not in COMMON or word.stem in GIVEN for word in run)
        for run in runs(line, found)
    )
