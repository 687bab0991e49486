"""Which words of a line are somebody's name, given what a language model said of the line.

Pure. A small model is wrong about every third name: it calls streets persons and persons companies.
So its word is weighed with what stands around it: first names, the words by which people are
introduced ("customer", "I am", "… said"), house numbers and street words, company endings. Each
find carries the reason as its rule. Called by `ner`; words and lines come from `prose`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.redaction.lexicon import COMMON, GIVEN
from gateway.redaction.prose import Word, begins_sentence, is_comment, is_in_code, runs
from gateway.redaction.spans import Span


@dataclass(frozen=True, slots=True)
class Entity:
    """What the model found in a line: Presidio's name for it ("PERSON"), and how sure it is."""

    start: int
    end: int
    label: str
    score: float


@dataclass(frozen=True, slots=True)
class Group:
    """Words that follow each other as the parts of one name do."""

    words: tuple[Word, ...]
    start: int
    end: int


PERSON: Final = "PERSON"

#: Scores by reason: measured precision of each alone on the development sets, rounded down.
_SURE: Final = 0.85
_SINGLE: Final = 0.7
_FIRST_NAME: Final = 0.7
_INTRODUCED: Final = 0.6
_ASKED: Final = 0.6
_COMPANION: Final = 0.55

#: A sentence in which the model judges words by themselves: of eight tried on 23 names it had
#: missed and 31 terms, the one with the most names for each wrong term.
PLAIN: Final = "I met {} yesterday."

_INTRODUCES: Final = re.compile(
    r"""(?:\b(?:
    customers?|clients?|patients?|users?|employees?|colleagues?|coworkers?|managers?|engineers?
    |developers?|authors?|owners?|reviewers?|lawyers?|doctors?|nurses?|teachers?|students?|friends?
    |neighbou?rs?|kids?|sons?|daughters?|child|children|husband|wife|brothers?|sisters?|mother
    |father|uncle|aunt|cousins?|boss|producers?|directors?|singers?|songwriters?|presidents?
    |chairman|chairwoman|ceo|cto|cfo|founders?|candidates?|applicants?|tenants?|guests?|members?
    |drivers?|passengers?|contacts?|assignees?|maintainers?|contributors?|committers?|researchers?
    |professors?|officers?|agents?|consultants?|sir|madam|herr|frau|monsieur|madame|signora?|don
    |do[nñ]a|se[nñ]ora?
    |i\ am|i['’]m|my\ name\ is|name\ is|name['’]s|this\ is|calls?\ (?:me|him|her)|named?|called
    |named\ (?:him|her)|hi|hello|hey|dear|thanks|cheers|regards|sincerely|thank\ you
    |(?:written|directed|signed|approved|reviewed|reported|created|owned|sung|made)\ by
    |(?:said|sent)\ to
    |(?:spoke|talk|talked|speak|met|meet|chat|follow\ up|check)\ (?:to|with|up\ with)
    |meet|met|ask|asked
    |tell|told|emailed|cc|attn|attention|assigned\ to|on\ behalf\ of|declined\ for|under|starring
    |invoice\ for|late|said
    )\b[,:]?[ \t]*
    |\b(?:mr|mrs|ms|miss|dr|prof|sig|sr|sra)\b\.?[ \t]*
    |\bname\?[ \t]+
    )(?:(?:and|the|our|my|\d+)[ \t]+)?["'“‘(<]?\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_ACTS: Final = re.compile(
    r"""["'”’)]?,?[ \t]+(?:said|says|asked|asks|told|wrote|lives?|lived|shouted|replied|answered
    |thinks|thought|wants|wanted|joined|works|worked|flew|explained|explains|confirmed|complained
    |mentioned|requested|agreed|left|went|reviewed|approved|signed|began[ ]writing|was[ ]born
    |should[ ]know|is[ ](?:from|away|out|on[ ](?:leave|vacation|call|holiday)|a[ ]very)
    |is[ ]an?[ ]\w+[ ]person
    |had[ ]given|can[ ](?:you|i)|has[ ](?:pushed|left|joined|asked)|did)\b
    |['’]s[ \t]+(?:wife|husband|kid|son|daughter|mother|father|account|phone|e-?mail|birthday
    |killers|laptop|team|manager|boss|friend|house|office)\b
    |:?[ ]?["“](?:i['’]m|who|what|how|hi|hello)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_WHERE: Final = re.compile(
    r"""(?:\b(?:in|at|near|from|on|via|into|towards|return\ to|refers\ to
    |located\ (?:at|in)|flew\ to|moved\ to|trip\ to|city\ of|town\ of)[ \t]+(?:the[ \t]+)?)\Z""",
    re.IGNORECASE | re.VERBOSE,
)
_NUMBER_BEFORE: Final = re.compile(r"\d[\w/-]*,?[ \t]+\Z")
_NUMBER_AFTER: Final = re.compile(r"[ \t]+\d{1,4}[a-zA-Z]?\b(?![.:\-/]\d)")
_STREET_FIRST: Final = frozenset(
    ("rua", "rue", "via", "calle", "avenida", "ul", "ulica", "avenue", "place", "plaza", "piazza")
)
_FIELD_BEGINS: Final = re.compile(r"(?:\A\s*|[\"'`>,;|\t]\s?|\A[\s>#*/-]+|:\s+)\Z")
_FIELD_ENDS: Final = re.compile(r"\s*(?:\Z|[\"'`<,;|\t(])")
_STREET: Final = frozenset(
    [
        "street",
        "st",
        "road",
        "rd",
        "avenue",
        "ave",
        "lane",
        "drive",
        "court",
        "place",
        "plaza",
        "square",
        "boulevard",
        "blvd",
        "way",
        "terrace",
        "alley",
        "crescent",
        "parkway",
        "highway",
        "turnpike",
        "bypass",
        "pass",
        "apt",
        "suite",
        "unit",
        "box",
        "floor",
        "strasse",
        "straße",
        "rue",
        "via",
        "calle",
        "avenida",
        "platz",
        "allee",
        "weg",
        "ulica",
        "ul",
        "plac",
        "square",
        "squares",
        "hill",
        "hills",
        "station",
        "junction",
        "bridge",
        "park",
        "garden",
        "gardens",
        "forks",
        "forges",
        "mews",
        "meadow",
        "meadows",
        "mission",
        "crossing",
        "wells",
        "falls",
        "islands",
        "island",
        "harbor",
        "harbour",
        "port",
        "north",
        "south",
        "east",
        "west",
        "new",
        "lake",
        "mount",
        "saint",
        "isle",
        "fort",
        "view",
        "views",
        "ville",
        "burgh",
        "county",
        "creek",
        "ridge",
        "ridges",
        "valley",
        "knolls",
        "manor",
        "common",
        "camp",
        "dam",
        "flat",
        "flats",
        "green",
        "greens",
        "locks",
        "cliff",
        "cliffs",
        "landing",
        "path",
        "track",
        "trail",
        "expressway",
        "freeway",
        "loop",
        "field",
        "fields",
        "grove",
        "heights",
        "spur",
        "summit",
        "canyon",
        "cove",
        "estate",
        "estates",
        "extension",
        "club",
        "causeway",
        "cape",
        "brook",
        "brooks",
        "branch",
        "divide",
        "ford",
        "glen",
        "haven",
        "hollow",
        "inlet",
        "key",
        "keys",
        "lights",
        "light",
        "mall",
        "mills",
        "mountain",
        "oval",
        "orchard",
        "points",
        "port",
        "ports",
        "prairie",
        "ramp",
        "ranch",
        "rapids",
        "rest",
        "river",
        "row",
        "run",
        "shoal",
        "shoals",
        "shore",
        "shores",
        "skyway",
        "spring",
        "springs",
        "stravenue",
        "stream",
        "throughway",
        "trace",
        "trafficway",
        "union",
        "viaduct",
        "villages",
        "village",
        "vista",
        "walk",
        "walks",
        "well",
        "burg",
    ]
)
_COMPANY: Final = re.compile(
    r"[ \t]*,?[ \t]*(?:Inc|LLC|L\.L\.C|Ltd|Limited|GmbH|AG|SA|S\.A|SARL|BV|NV|Oy|AB|PLC|plc|Corp|"
    r"Corporation|Incorporated|Company|Co|Group|Holdings?|Partners|University|Institute|Foundation|"
    r"Bank|Hospital|School|College|Software|Systems|Labs|Technologies|Solutions|Records|Agency|Services|Industries)\b"
)
#: Joins the names of a list: `Maria, Pedro and Lúcia`.
_LIST: Final = re.compile(r"[ \t]*(?:,|&|,?[ \t]+(?:and|or|und|et|y|e|i|og|och|en))[ \t]*")


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known of one line: `spans` are names; `doubtful` are words that would be one if the
    model took them for a person in a plain sentence (see `PLAIN`); `rest` may still be companions
    of a name."""

    spans: list[Span]
    doubtful: list[Group]
    rest: list[Group]


def read(line: str, found: Sequence[Word], prose: bool, said: Sequence[Entity]) -> Reading:
    """Judge `found`, the name-like words of `line`, by what the model said and what is around."""
    people = [entity for entity in said if entity.label == PERSON]
    reading = Reading([], [], [])
    for run in runs(line, list(found)):
        group = _group(line, run)
        if _is_place(line, group) or _is_company(line, group):
            continue
        span = _judged(line, group, prose, people)
        if span is not None:
            reading.spans.append(span)
        elif _is_whole(line, group, prose):
            reading.doubtful.append(group)
        else:
            reading.rest.append(group)
    return reading


def finish(line: str, prose: bool, reading: Reading, confirmed: Sequence[bool]) -> list[Span]:
    """Return the names in `line`, sorted; `confirmed` says what became of each doubtful one."""
    spans, rest = list(reading.spans), list(reading.rest)
    for group, is_person in zip(reading.doubtful, confirmed, strict=True):
        if is_person:
            spans.append(Span(group.start, group.end, "NAME", _ASKED, "model, asked again"))
        else:
            rest.append(group)
    if spans:
        spans += list(_companions(line, rest, spans, prose))
    return sorted(spans, key=lambda span: span.start)


def _group(line: str, run: list[Word]) -> Group:
    """Ordinary words before a name (`Ask Maria`, `Card`) are no part of it."""
    while len(run) > 1 and run[0].stem in COMMON and run[0].stem not in GIVEN:
        run = run[1:]
    ending = 2 if run[-1].text.endswith(("'s", "’s")) else 0
    return Group(tuple(run), run[0].start, run[-1].end - ending)


def _judged(line: str, group: Group, prose: bool, people: list[Entity]) -> Span | None:
    start, end = group.start, group.end
    score = max((p.score for p in people if p.start < end and start < p.end), default=0.0)
    introduced = _INTRODUCES.search(line[max(0, start - 40) : start]) is not None
    acts = _ACTS.match(line, end) is not None

    def found(score: float, rule: str) -> Span:
        return Span(start, end, "NAME", score, rule)

    known = group.words[0].stem in GIVEN
    if len(group.words) > 1:
        uncommon = sum(word.stem not in COMMON for word in group.words)
        if score and (known or introduced or acts or (uncommon and not is_comment(line))):
            return found(score, "model")
        if known and (uncommon or introduced):
            return found(_FIRST_NAME, "first name")
        if prose and uncommon == len(group.words) and (introduced or acts):
            return found(_INTRODUCED, "introduced")
        return None
    common = group.words[0].stem in COMMON
    if not prose or (common and begins_sentence(line, start)):
        return None
    somewhere = _WHERE.search(line[max(0, start - 16) : start]) is not None
    trusted = known or introduced or acts or not (somewhere or is_in_code(line))
    if score and not common and trusted:
        return found(min(score, _SINGLE), "model")
    if (introduced and (known or not common)) or (acts and not common):
        return found(_INTRODUCED, "introduced")
    return None


def _is_whole(line: str, group: Group, prose: bool) -> bool:
    """Whether the words fill a field of data, or stand in running text as two names do."""
    if len(group.words) < 2 or any(
        word.stem in COMMON and word.stem not in GIVEN for word in group.words
    ):
        return False
    if prose:
        return not is_in_code(line)
    return (
        _FIELD_BEGINS.search(line, 0, group.start) is not None
        and _FIELD_ENDS.match(line, group.end) is not None
    )


def _is_company(line: str, group: Group) -> bool:
    last = group.words[-1].text if len(group.words) > 1 else ""
    return _COMPANY.fullmatch(last) is not None or _COMPANY.match(line, group.end) is not None


def _is_place(line: str, group: Group) -> bool:
    """Whether the words stand where a street does: behind a house number, before `Street`."""
    start, end = group.start, group.end
    if _NUMBER_BEFORE.search(line[max(0, start - 12) : start]):
        return True
    if _NUMBER_AFTER.match(line, end) and (
        group.words[0].stem in _STREET_FIRST or _WHERE.search(line[max(0, start - 20) : start])
    ):
        return True
    inside = re.findall(r"[^\W\d_]+", line[start:end])
    after = re.match(r"[ \t]+([^\W\d_]+)", line[end : end + 24])
    if after and after.group(1)[0].isupper():
        inside.append(after.group(1))
    return len(inside) > 1 and any(part.lower() in _STREET for part in inside[1:])


def _companions(line: str, rest: list[Group], spans: list[Span], prose: bool) -> Iterator[Span]:
    """Names beside a name in a list, and parts of a name that are said again."""
    known = {
        part.lower()
        for span in spans
        for part in re.findall(r"[^\W\d_]{3,}", line[span.start : span.end])
        if part.lower() not in COMMON
    }
    near = [(span.start, span.end) for span in spans]
    for group in rest:
        start, end = group.start, group.end
        again = all(word.stem in known for word in group.words)
        listed = (
            prose
            and all(word.stem not in COMMON for word in group.words)
            and any(
                _LIST.fullmatch(line, a, start) if a <= start else _LIST.fullmatch(line, end, b)
                for b, a in near
            )
        )
        if again or listed:
            near.append((start, end))
            yield Span(start, end, "NAME", _COMPANION, "beside a name")
