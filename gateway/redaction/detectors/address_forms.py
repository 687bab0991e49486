"""The pieces addresses are written with: house numbers, words of names, flats, postal places.

Owns the forms that several finders share, and what no address is made of. Invariant: every form is
bounded, and none begins a search of its own. Read by `address_tails` and the finders of streets.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.redaction.detectors.labels import words
from gateway.redaction.detectors.postal import UP

#: The number of a house, with its letter or the flat of it: `12 bis`, `14/3`, `318-hs`.
NUM: Final = (
    r"\d{1,6}(?:[ ]?(?:bis|ter)|[ ]?[A-Za-z](?![\w'’]|\.[ ]?\w))?"
    r"(?:[ ]?[-/+][ ]?\d{1,4}[A-Za-z]?(?!\w)(?:/\d{1,4}(?!\w)){0,2}|"
    r"[-/](?:[A-Za-z]|I{1,3}|I?V|hs|huis)(?!\w))?"
)
#: A word of a name: with a capital, a number (`42nd`), or a small word between others.
NAME_PART: Final = rf"(?:{UP}[\w'’.\-]{{0,24}}|\d{{1,4}}(?:st|nd|rd|th|\.)?)"
#: Between the words of a street or a town.
SMALL_WORD: Final = (
    r"(?:of|de|la|le|les|du|des|del|della|delle|dei|degli|dell'|di|do|da|dos|das|el|los|las|van"
    r"|von|"
    r"der|den|het|ten|op|am|an|im|zu|zum|zur|the|and|y|e|i|et|und|na|nad|pod|z|w|ve|sur|sous|en"
    r"|lez|"
    r"upon|on|in|bei|ob|u|v|van't|'t|l'|d'|av|og|och|του|της|των)"
)
#: The end of a line within an address, and what quotes or lists put before the next one.
BREAK: Final = r"[ ]?,?[ ]{0,2}(?:\r?\n|\\n)[ \t>|#*/\-]{0,10},?[ ]{0,2}"
SEP: Final = rf"(?:,?[ ]{{1,2}}|,|{BREAK})"
#: A town, with what stands in parentheses behind it; a sentence that ends with it goes no further.
PLACE: Final = (
    rf"{UP}[\w'’.\-]{{1,24}}(?:[ ]\([\w ]{{2,24}}\))?"
    rf"(?:(?<![^\W\d_]{{4}}\.)[ ]"
    rf"(?:{UP}[\w'’.\-]{{0,24}}|\({UP}[\w ]{{1,24}}\)"
    rf"|{SMALL_WORD}(?=['’]|[ ](?:{SMALL_WORD}[ ])?{UP}))){{0,5}}"
)
#: A flat, a floor, a stair, a door.
UNIT: Final = (
    r"(?:#[ ]?\d{1,5}[A-Za-z]?|[A-H][ ]\d{1,3}|(?:\d{1,2}|st)\.[ ]?(?:tv|th|mf)\.?"
    r"|(?:\d{1,2}\.[ ]?(?:OG|Obergeschoss|Stock|Etage|Geschoss)|Erdgeschoss|Dachgeschoss|Hinterhaus"
    r"|Vorderhaus|Gartenhaus|EG|DG|HH|VH)\b(?:[ ](?:links|rechts|mitte|li\.|re\.|mi\.))?"
    r"|(?:suite|ste"
    r"|apt|apartment|unit|flat|floor|fl|level|shop|room|rm|appt|appartement|apto|apartamento|andar|sala|"
    r"wohnung|whg|top|stiege|piso|planta|puerta|esc|escalera|dpto|lok|lokal|m|byt|lgh|leil|int"
    r"|interno|"
    r"scala|bus|bte|boîte|bât|bâtiment|étage|etage|og|eg|dcha|izq|esq|box|building|bldg|block|blk|"
    r"door|em|emelet|fsz|ajtó|bloco|sc|ap|et)\b\.?:?[ ]?(?:#|no\.?|nr\.?)?[ ]?[\dA-Za-z]{1,5}"
    r"(?:[-/]\d{1,4})?|\d{1,2}(?:st|nd|rd|th)[ ]floor|\d{1,2}[ºª°](?:[ ]?[A-Za-z]{1,4})?)(?!\w)"
)
#: Before a number that may be of a house.
HEAD_NUM: Final = r"(?<![\w.:/$€£#@\-])"
#: How far before its word a street is looked for.
BEFORE_REACH: Final = 64
#: `12, rue …`, `12,rue …`; not the end of the cell before, `+45 22 55 01 93,Nørregade`.
NUMBER_BEFORE: Final = re.compile(
    rf"{HEAD_NUM}(?:{NUM}(?:[ ]?,[ ]|[ ])|(?<!\d[ \u00a0]){NUM}[ ]?,)\Z"
)
#: How many places of repeating lines are remembered.
MOST_SEEN: Final = 4096
ANY_DIGIT: Final = re.compile(r"\d")
#: Where one writes for a copy of a license: in the head of many files, and no person's.
_LICENSE: Final = re.compile(
    r"51 Franklin St|59 Temple Pl|675 Mass(?:achusetts)? Ave|Fifth Floor, Boston"
    r"|Suite 330,? Boston",
    re.IGNORECASE,
)


def is_no_ones(text: str, first: int) -> bool:
    """Whether the address that begins at `first` is the one in the heads of licenses."""
    return _LICENSE.match(text, first) is not None


def line_floor(text: str, at: int, done: int, reach: int = BEFORE_REACH) -> int:
    """Where the line of `at` begins: at most `reach` characters before it, not before `done`."""
    floor = max(done, at - reach)
    return max(floor, text.rfind("\n", floor, at) + 1)


Found = tuple[int, int] | None


def holds_name(before: str) -> bool:
    """Some word of it is a name with a capital, not only numbers and small words."""
    return any(
        len(word) > 1 and word[0].isalpha() and word.lower() not in _NOT_NAMES
        for word in before.split()
    )


_NOT_NAMES: Final = frozenset(
    words(
        "the|of|a|an|in|on|at|and|or|to|for|with|is|rfc|pep|step|section|chapter|table|figure|"
        "page|note|version|python|copyright|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|"
        "january|february|march|april|june|july|august|september|october|november|december|"
        "monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    )
)
NOT_A_STREET: Final = re.compile(
    r"\b(?:Step|Line|Port|Page|Version|Chapter|Section|Table|Figure|Issue|Python|RFC|PEP|Type|Room|"
    r"Windows|January|February|March|April|May|June|July|August|September|October|November|"
    r"December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec|IPv[46]|UTF|ISO|Level|Phase|Part|No|Int|"
    r"Register|Byte|Bit|Offset|Slot|Block|Model|Number|Error|Bug)\b"
)
