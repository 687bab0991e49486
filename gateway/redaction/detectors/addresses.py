"""Street addresses, with the flat before them and the postal place behind them as one value.

A street is known by the word that makes it one (`… Street`, `rue …`, `…straße`, `ul. …`) and the
number of a house beside it; a word for a flat, a box at the post, or a phrase such as `lives at`
does the same for streets without such a word. Left alone: streets without a number, numbers of
things (`12 Points`), source code. Invariant: one pass for all words, bounded work at each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import ClassVar, Final

from gateway.redaction.detectors.base import Rule, Source, Triggers, part_of, set_of
from gateway.redaction.detectors.eastern import eastern_addresses
from gateway.redaction.detectors.labels import words
from gateway.redaction.detectors.postal import CODE, UK_CODE, UP
from gateway.redaction.policy import Policy
from gateway.redaction.spans import Span


class _Sort(Enum):
    """What a word says of a street, and where the rest of it stands."""

    LAST = 1  # `12 Baker Street`
    SELDOM_LAST = 2  # `12 Rachel Ridges`: also a common word, so more must be told
    FIRST = 3  # `rue de la Paix 12`, `12 rue de la Paix`
    ENDING = 4  # `Hauptstraße 12`
    FLAT = 5  # `450 Edeby 55, Apt. 12`
    BOX = 6  # `P.O. Box 12`
    PHRASE = 7  # `lives at Sludevej 13`
    CORNER = 8  # `the corner of Dunajska 5 and Mill Road`
    WARD = 9  # `6-42-6 Dogenzaka, Shibuya-ku, Tokyo 150-0039`


_LAST: Final = words(
    "street|st|avenue|ave|road|rd|boulevard|blvd|drive|dr|lane|ln|court|ct|terrace|ter|place|"
    "pl|square|sq|crescent|cres|highway|hwy|parkway|pkwy|close|grove|gardens|mews|circle|cir|"
    "turnpike|alley|expressway|causeway|freeway|quay|esplanade|st.|ave.|rd.|blvd.|dr.|ln.|"
    "ct.|hwy.|pl.|sq.|utca|út|tér|körút|krt.|útja|u.|rkp.|sétány|köz|tere|gade|vej|tee|tänav|"
    "mnt|pst|põik|maantee|puiestee|sokak|sokağı|sok.|sk.|caddesi|cad.|bulvarı|blv.|prospekt|"
    "prospekts|iela|gatve|gatvė|g.|pr.|prospektas|alėja|ulica|cesta|ulice|náměstí|nábřeží|nám.|třída"
)
_SELDOM_LAST: Final = words(
    "way|walk|row|rise|hill|view|park|green|heath|common|path|pass|passage|bypass|bridge|"
    "brook|burg|burgs|camp|canyon|cape|center|centre|cliff|cliffs|club|corner|corners|course|"
    "cove|creek|crest|crossing|crossroad|curve|dale|dam|divide|estate|estates|extension|fall|"
    "falls|ferry|field|fields|flat|flats|ford|fords|forest|forge|forges|fork|forks|fort|"
    "garden|gateway|glen|glens|greens|groves|harbor|harbors|haven|heights|hills|hollow|inlet|"
    "island|islands|isle|junction|junctions|key|keys|knoll|knolls|lake|lakes|land|landing|"
    "light|lights|loaf|lock|locks|lodge|loop|mall|manor|manors|meadow|meadows|mill|mills|"
    "mission|motorway|mount|mountain|mountains|neck|orchard|oval|parks|parkways|pike|pine|"
    "pines|plain|plains|plaza|point|points|port|ports|prairie|radial|ramp|ranch|rapid|rapids|"
    "rest|ridge|ridges|river|roads|route|rue|run|shoal|shoals|shore|shores|skyway|spring|"
    "springs|spur|spurs|squares|station|stravenue|stream|streets|summit|throughway|trace|"
    "track|trafficway|trail|tunnel|underpass|union|unions|valley|valleys|via|viaduct|views|"
    "village|villages|ville|vista|walks|wall|ways|well|wells"
)
_FIRST: Final = words(
    "triq|ulice|rue|avenue|av.|av|bd|bd.|boulevard|blvd|allée|allee|impasse|chemin|quai|cours|passage|"
    "square|route de|place de|place du|place|faubourg|via|viale|v.le|piazza|p.zza|piazzale|"
    "corso|c.so|vicolo|largo|strada|lungotevere|contrada|borgo|calle|c/|c.|avenida|avda.|"
    "avda|av.da|paseo|pº|plaza|pza.|pza|carrer|ronda|camino|carretera|ctra.|travesía|"
    "glorieta|callejón|rúa|rua|r.|travessa|praça|praceta|largo|alameda|estrada|rodovia|ul.|"
    "ul|ulica|al.|aleja|aleje|pl.|plac|os.|osiedle|rondo|οδός|οδος|λεωφόρος|λεωφ.|λεωφ|λ.|"
    "πλατεία|πλ.|str.|strada|stradă|bulevardul|bd-ul|b-dul|șoseaua|sos.|calea|aleea|trg|"
    "ulica|bulevar|бул.|ул.|булевард|улица|пл.|náměstí|nábřeží|třída|nám.|auf der|am|an der|"
    "im|in der|zum|zur|unter den|alte|alter|altes|obere|untere|lange|große"
)
_ENDING: Final = words(
    "straße|strasse|str.|gasse|gässchen|platz|allee|damm|ufer|weg|steig|stieg|ring|chaussee|"
    "promenade|hof|markt|zeile|pfad|graben|straat|laan|plein|gracht|kade|dijk|singel|steeg|"
    "weide|hof|dreef|wal|vej|gade|vænget|stræde|allé|torv|parken|gatan|gata|vägen|väg|gränd|"
    "torg|gränden|stigen|plan|backen|katu|tie|kuja|polku|kaari|aukio|ranta|raitti|penger|"
    "veien|vegen|vei|veg|gaten|gate|allé|plass|bakken|stien|terrasse|vegur|vegar|gata|stræti|"
    "braut|götu|lundur|stígur|gerði|holt|tún"
)
_FLAT: Final = words(
    "suite|apt|apt.|apartment|appt.|ste|ste.|unit|flat|appartement|appt|wohnung|top|stiege|"
    "piso|lok.|lokal|byt|lgh|leil.|interno|scala|floor|room"
)
_BOX: Final = words(
    "po box|p.o. box|p. o. box|post office box|postfach|boîte postale|bp|b.p.|apartado|"
    "apartado de correos|apdo.|casella postale|caixa postal|postbus|skrytka pocztowa|"
    "postboks|postbox|pl box|psc|uss|usns|usnv|uscgc"
)
_PHRASE: Final = words(
    "lives at|lives on|lives in|live at|live on|live in|living at|lived at|lived in|lived on|"
    "resides at|residing at|resident at|located at|located on|address is|address:|address|"
    "addresses|moved to|meet you at|station is on|taxi to|mail to|ship to|shipped to|"
    "deliver to|delivered to|delivery to|send to|sent to|return to|card to|arrived at|same:|"
    "wohnhaft in|wohnt in|wohne in|wohnt am|wohnhaft|anschrift|anschrift:|adresse|adresse:|"
    "adresse est|wohnadresse|habite au|habite|demeurant|domicilié|domiciliée|réside au|"
    "vive en|vivo en|reside en|domicilio en|domicilio|dirección|dirección:|abita in|abita a|"
    "residente in|indirizzo|indirizzo:|mora na|mora em|morada|morada:|residente na|endereço|"
    "mieszka przy|zamieszkały|zamieszkała|adres|adres:|woont op|woont in|woont aan|"
    "woonachtig|adress|adress:|bor på|bor i|bosatt|osoite|osoite:|asuu|κατοικεί|διεύθυνση|"
    "μένει|lakcím|lakik|adresa|bydliště|bydlí|bytem|restaurant is at|offices are located at|"
    "it's in|street:|user:|pick up at|drop off at|visit us at"
)

#: What is searched for, with the blank that must stand before or behind it: that leaves out most
#: words which only hold one of these.
_WORDS: Final[dict[str, list[_Sort]]] = {}
for _sort, _before, _list, _behind in (
    (_Sort.LAST, " ", _LAST, ""),
    (_Sort.SELDOM_LAST, " ", _SELDOM_LAST, ""),
    (_Sort.FIRST, "", [word for word in _FIRST if word[-1] in "./"], ""),
    (_Sort.FIRST, "", [word for word in _FIRST if word[-1] not in "./"], " "),
    (_Sort.ENDING, "", _ENDING, " "),
    (_Sort.ENDING, "", [word for word in _ENDING if len(word) > 3], ", "),
    (_Sort.FLAT, " ", _FLAT, ""),
    (_Sort.FLAT, "", _FLAT[:5], ""),
    (_Sort.BOX, "", _BOX, ""),
    (_Sort.PHRASE, "", _PHRASE, ""),
    (_Sort.CORNER, "", ["corner of"], ""),
    (_Sort.WARD, "", ["-ku", "-shi", "-gun", "-chome", "-chōme", " chome"], ""),
):
    for _word in _list:
        _sorts = _WORDS.setdefault(_before + _word + _behind, [])
        if _sort not in _sorts:
            _sorts.append(_sort)

# ---- pieces ------------------------------------------------------------------------------------
_NUM: Final = (
    r"\d{1,6}(?:[ ]?(?:bis|ter)|[ ]?[A-Za-z](?![\w'’]|\.[ ]?\w))?"
    r"(?:[ ]?[-/+][ ]?\d{1,4}[A-Za-z]?(?!\w)(?:/\d{1,4}(?!\w)){0,2}|"
    r"[-/](?:[A-Za-z]|I{1,3}|I?V|hs|huis)(?!\w))?"
)
#: A word of a name: with a capital, a number (`42nd`), or a small word between others.
_NAME: Final = rf"(?:{UP}[\w'’.\-]{{0,24}}|\d{{1,4}}(?:st|nd|rd|th|\.)?)"
_SMALL: Final = (
    r"(?:of|de|la|le|les|du|des|del|della|delle|dei|degli|dell'|di|do|da|dos|das|el|los|las|van"
    r"|von|"
    r"der|den|het|ten|op|am|an|im|zu|zum|zur|the|and|y|e|i|et|und|na|nad|pod|z|w|ve|sur|sous|en"
    r"|lez|"
    r"upon|on|in|bei|ob|u|v|van't|'t|l'|d'|av|og|och|του|της|των)"
)
_BREAK: Final = r"[ ]?,?[ ]{0,2}(?:\r?\n|\\n)[ \t>|#*/\-]{0,10},?[ ]{0,2}"
_SEP: Final = rf"(?:,?[ ]{{1,2}}|,|{_BREAK})"
_PLACE: Final = (
    rf"{UP}[\w'’.\-]{{1,24}}(?:[ ]\([\w ]{{2,24}}\))?"
    rf"(?:[ ](?:{UP}[\w'’.\-]{{0,24}}|\({UP}[\w ]{{1,24}}\)|{_SMALL}(?=[ '’]))){{0,5}}"
)
_UNIT: Final = (
    r"(?:#[ ]?\d{1,5}[A-Za-z]?|[A-H][ ]\d{1,3}|(?:\d{1,2}|st)\.[ ]?(?:tv|th|mf)\.?|(?:suite|ste"
    r"|apt|apartment|unit|flat|floor|fl|room|rm|appt|appartement|"
    r"wohnung|whg|top|stiege|piso|planta|puerta|esc|escalera|dpto|lok|lokal|m|byt|lgh|leil|int"
    r"|interno|"
    r"scala|bus|bte|boîte|bât|bâtiment|étage|etage|og|eg|dcha|izq|esq|box|building|bldg|block|blk|"
    r"door|em|emelet|fsz|ajtó|bloco|sc|ap|et)\b\.?:?[ ]?(?:#|no\.?|nr\.?)?[ ]?[\dA-Za-z]{1,5}"
    r"(?:[-/]\d{1,4})?|\d{1,2}(?:st|nd|rd|th)[ ]floor|\d{1,2}[ºª°](?:[ ]?[A-Za-z]{1,4})?)(?!\w)"
)
_UNITS: Final = re.compile(rf"(?:{_SEP}{_UNIT}){{1,3}}", re.IGNORECASE)
_UNIT_AT: Final = re.compile(_UNIT, re.IGNORECASE)
_COUNTRY: Final = (
    r"(?i:Austria|Belgium|Bulgaria|Croatia|Cyprus(?: \(Greek\))?|Czech Republic|Czechia|Denmark"
    r"|Estonia|Finland|"
    r"France|Germany|Greece|Hungary|Ireland|Italy|Latvia|Lithuania|Luxembourg|Malta|Netherlands|"
    r"The Netherlands|Poland|Portugal|Romania|Slovakia|Slovenia|Spain|Sweden|United Kingdom|UK"
    r"|U\.K\.|"
    r"Great Britain|England|Scotland|Wales|Northern Ireland|Norway|Switzerland|Iceland|"
    r"Liechtenstein|USA|U\.S\.A\.|US|United States(?: of America)?|Canada|Australia|New Zealand|"
    r"South Africa|Brazil|Brasil|Mexico|Argentina|Uruguay|Tunisia|Greenland(?:er)?|Deutschland|"
    r"Österreich|Schweiz|Suisse|Svizzera|Italia|España|Polska|Nederland|België|Belgique|Danmark|"
    r"Sverige|Norge|Suomi|Ελλάδα|Κύπρος|Magyarország|România|Česko|Slovensko|Hrvatska|Slovenija|"
    r"Éire|Japan|China|India|Turkey|Türkiye)(?!\w)"
)
#: What may follow a street, tried again and again: a code and its place (Iceland's are short), a
#: place and its code.
_CODE_PLACE: Final = re.compile(
    rf"{_SEP}(?:{CODE})(?:[ ]{{1,2}}|,[ ]?){_PLACE}(?:[ ]\d{{1,2}}(?!\w))?"
    rf"|{_SEP}\d{{3}}[ ]{UP}(?=[\w.]{{0,20}}[ðþæöáéíóúýÐÞÆÖÁÉÍÓÚÝ])\w{{2,24}}"
)
_PLACE_CODE: Final = re.compile(
    rf"{_SEP}{_PLACE}(?:[ ]\d{{1,2}}(?!\w))?(?:(?:{_SEP}|[ ]?[-–/][ ]?)"
    rf"(?:[A-Z]{{2,3}}|nan|{_PLACE})){{0,2}}{_SEP}{CODE}(?!\w)"
)
_PLACE_COUNTRY: Final = re.compile(
    rf"{_SEP}{_PLACE}?(?:{_SEP}(?:[A-Z]{{2,3}}|nan|\d\d))?{_SEP}{_COUNTRY}(?:[ ]{CODE})?(?!\w)"
)
_COUNTRY_ONLY: Final = re.compile(rf"{_SEP}{_COUNTRY}(?:[ ]{CODE})?(?!\w)")
_CODE_ONLY: Final = re.compile(
    rf"{_SEP}(?:{UK_CODE}|[A-Z]\d[A-Z][ ]\d[A-Z]\d|[A-Z]\d[\dW][ ]?[A-Z0-9]{{4}})(?!\w)"
)
_PLACE_ONLY: Final = re.compile(rf",[ ]{{1,2}}{_PLACE}(?=[,.;:!?)\n\r\"'<|]|\s*\Z)")
_LOWER_PLACE_CODE: Final = re.compile(
    rf"{_SEP}[^\W\d_]{{3,20}}(?:[ ][^\W\d_]{{2,20}}){{0,3}}(?:{_SEP}(?:[a-z]{{2}}"
    rf"|{_COUNTRY}))?(?:[ ]\d{{4,6}}|,?[ ](?i:{UK_CODE}))(?!\w)"
    rf"|{_SEP}[^\W\d_]{{3,20}}(?:[ ][^\W\d_]{{2,20}}){{0,3}}{_SEP}{_COUNTRY}"
)
_ORPHAN: Final = re.compile(  # `Suite 039 CHARLEROI Victoria`, `Apt. 909 Paola KA`
    rf"[ ]{_PLACE}(?=[?!.,;\"]|\s*\Z|\n)"
)

_HEAD_NUM: Final = r"(?<![\w.:/$€£#@\-])"
_NAMES: Final = rf"(?:{_NAME}(?:[ ]{_SMALL})?[ ]|{_SMALL}[ ]){{1,6}}"
_BEFORE_LAST: Final = re.compile(
    rf"{_HEAD_NUM}(?:{_NUM}(?:,[ ]|[ ]|[ ]?,)){{1,2}}(?>{_NAME}[ ]|{_SMALL}[ ]){{1,5}}\Z"
)
_NAMES_BEFORE_LAST: Final = re.compile(
    rf"(?<![\w.\-])(?:{_NUM},?[ ])?(?>{_NAME}[ ]|{_SMALL}[ ]){{1,4}}\Z"
)
_LOWER_BEFORE_LAST: Final = re.compile(
    rf"{_HEAD_NUM}(?:{_NUM}[ ]){{1,2}}(?:[a-zß-öø-ÿ'’.\-]{{2,20}}[ ]){{1,3}}\Z"
)
_BEFORE_REACH: Final = 64
_NUMBER_BEHIND: Final = re.compile(  # and the stair and flat of `15 B 3`
    rf"\.?,?[ ](?:[Nn][OoRr][.:]?[ ]?)?{_NUM}(?:(?<=[A-Ha-h])[ ]\d{{1,3}}(?=,|\s*\Z|\n))?\.?"
    rf"(?![\w%]|[.:,]\d|[ ]?(?:%|km|kg|MB|GB|ms|px|years|times|items))"
)
_DIRECTION: Final = re.compile(
    r"[ ](?:North|South|East|West|Upper|Lower|N|S|E|W|NE|NW|SE|SW)\b\.?(?!\w)"
)
_NUMBER_BEFORE: Final = re.compile(rf"{_HEAD_NUM}{_NUM}(?:[ ]?,[ ]?|[ ])\Z")
_FLAT_BEFORE: Final = re.compile(rf"(?<!\w){_UNIT}(?:,[ ]|[ ]|\n[ ]*)\Z", re.IGNORECASE)
_FLAT_WORD: Final = re.compile(
    r"(?<!\w)(?:flat|unit|apt\.?|apartment|suite|room|studio)[ ]\Z", re.IGNORECASE
)
_FIRST_REST: Final = re.compile(
    rf"[ ]?(?:(?:{UP}[\w'’.\-/]{{0,24}}|{_SMALL}(?=[ '’])|\d{{1,2}}(?=[ ](?:de|di)[ ])"
    rf"|[^\W\d_A-Z][^\W\d_]{{2,14}}(?=[ ]{UP}[^\W\d_]{{2}})|\d{{1,2}}\.[ ]?[^\W\d_]{{3,12}}"
    rf"|[dl]['’]\w{{2,24}}|[a-z]{{1,3}}-{UP}[\w'’\-]{{2,24}}|{UP}\.)[ ]?){{1,6}}"
)
_FIRST_LOWER: Final = re.compile(r"[ ](?:[^\W\d_][\w'’.\-]{0,24}[ ]?){1,6}")
_FIRST_NUMBER: Final = re.compile(
    rf"(?:,[ ]?|[ ]?)(?:n[º°r]?\.?[ ]?|nº[ ]?|no\.?[ ])?{_NUM}\.?(?![\w%]|[.:]\d)", re.IGNORECASE
)
_ENDING_WORD: Final = re.compile(
    rf"(?<![\w])(?:{UP}[\w'’.\-]{{0,24}}[ \-]){{0,3}}{UP}?[\w'’.\-]{{0,30}}\Z"
)
_CORNER_REST: Final = re.compile(
    rf"[ ](?:{_NUM}[ ])?[\w'’.\- ]{{2,48}}?[ ](?:and|&)[ ](?:{UP}[\w'’.\-]*|[a-zß-ÿ]+)"
    rf"(?:[ ]{UP}[\w'’.\-]*|[ ][a-zß-ÿ]+){{0,2}}(?=[?!.,;\"\n]|\s*\Z)"
)
_THE_BEFORE: Final = re.compile(r"the[ ]\Z", re.IGNORECASE)
_BOX_REST: Final = re.compile(
    r"\.?(?:[ ](?:no\.?|nr\.?)?[ ]?|[ ]?:?[ ]?)\d{1,6}(?:[ ]\d\d){0,3}(?![\w.]\d)"
    r"(?:,?[ ]Box[ ]\d{1,6})?",
    re.IGNORECASE,
)
_MILITARY: Final = re.compile(
    rf"{_SEP}(?:[A-Z]?PO|DPO|APO|FPO)[ ]A[AEP][ ]\d{{5}}(?:-\d{{4}})?", re.IGNORECASE
)
_SHIP_REST: Final = re.compile(r"[ ]\w[\w'’.\-]*(?=\n[ ]*(?:FPO|APO|DPO)[ ])", re.IGNORECASE)
_GENERIC: Final = re.compile(
    rf"[:,]?[ \t\n>\"'*`]{{0,4}}(?:(?:in|at|to|on|au|en|na|is|user:)[ ])?(?P<street>"
    rf"(?:{_NUM},?[ ]){{0,2}}{_NAME}(?:[ ](?:{_NAME}|{_SMALL}(?=[ ])))"
    rf"{{0,4}}[ ]{_NUM}\.?)(?![\w%]|[.:,]\d|[ ]?(?:%|years?|times|items|days|minutes|hours"
    rf"|[ap]m\b))"
)
_GENERIC_NUMBERED: Final = re.compile(
    rf"[:,]?[ \t\n>\"'*`]{{0,4}}(?:(?:in|at|to|on|au|is|user:)[ ])?(?P<street>{_NUM},?[ ]"
    rf"(?>{_NAME}[ ]|{_SMALL}[ ]){{0,4}}{UP}[\w'’.\-]{{2,24}})(?={_SEP})"
)


_WORD_LIST: Final = tuple(_WORDS)
_WORD_SET: Final = set_of(_WORD_LIST)


class AddressRule(Rule):
    """Finds street addresses."""

    KINDS: ClassVar = ("ADDRESS",)

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._words = _WORD_LIST

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(digits=1)

    def spans(self, source: Source) -> Iterator[Span]:
        """Look around every word that has to do with streets."""
        text, folded = source.text, source.folded
        if not _ANY_DIGIT.search(text):
            return
        done = barren = 0
        tails: dict[str, int] = {}
        no_flats: set[tuple[int, str]] = set()
        for index, at, to in source.found(_WORD_SET):
            if to < done:
                continue
            word = self._words[index]
            start = at + (word[0] == " ")
            end = to - (2 if word[-2:] == ", " else word[-1] == " ")
            if folded[end : end + 1].isalpha() and text[end - 1] not in "./":
                continue
            for sort in _WORDS[word]:
                if start < barren and sort is _Sort.WARD:
                    continue
                found = _found_once(sort, text, (start, end, done), no_flats)
                if found is None:
                    continue
                first, last = found
                if first == last:
                    barren = last
                    continue
                last = _with_tail_once(text, last, tails)
                first = _with_place_before(text, first, done)
                done = last
                if _is_no_ones(text, first):
                    break
                yield Span(first, last, "ADDRESS", 0.8, f"street-{sort.name.lower()}")
                break
        yield from _by_place(source)
        yield from eastern_addresses(text)
        if source.may_hold_words(_CARD):
            yield from _of_cards(text)


#: The address of a card (RFC 6350 section 6.3.1): box, extended, street, place, region, code.
_CARD: Final = part_of(("adr;", "adr:"))
_CARD_LINE: Final = re.compile(
    r"^(?:item\d{1,2}\.)?ADR(?:;[^:\r\n]{1,80})?:(?P<parts>[^;\r\n]{0,80}(?:;[^;\r\n]{0,80}){4,6})",
    re.IGNORECASE | re.MULTILINE,
)


def _of_cards(text: str) -> Iterator[Span]:
    for card in _CARD_LINE.finditer(text):
        parts = card["parts"].split(";")[:6]
        written = ";".join(parts)
        if _ANY_DIGIT.search(written) and any(part.strip() for part in parts[2:4]):
            start = card.start("parts") + len(written) - len(written.lstrip("; "))
            end = card.start("parts") + len(written.rstrip("; "))
            yield Span(start, end, "ADDRESS", 0.85, "card")


def _by_place(source: Source) -> Iterator[Span]:
    """Addresses told by the code of their place."""
    text = source.text
    known: dict[tuple[int, str], tuple[int, int, str] | None] = {}
    for hint in source.at_digits(_PLACE_HINT) if source.may_hold(b"00 ") else ():
        at = hint.end()
        window = text[max(0, at - _SEEN_BEFORE) : at + _SEEN_BEHIND]  # lines repeat
        key = min(at, _SEEN_BEFORE), window
        if key not in known or window[-1] in " \t":  # blanks may go on for any length
            if len(known) > _MOST_SEEN:
                known.clear()
            span = next(_at_code(text, hint), None)
            known[key] = None if span is None else (span.start - at, span.end - at, span.rule)
        found = known[key]
        if found is not None:
            score = 0.7 if found[2] == _SMALL_PLACE else 0.75
            yield Span(at + found[0], at + found[1], "ADDRESS", score, found[2])
    for match in _US_TAIL.finditer(text) if source.may_hold(b" 00000") else ():
        head = _before_us_tail(text, match)
        if head is not None and not _is_no_ones(text, head):
            yield Span(head, match.end(), "ADDRESS", 0.85, "street-zip")
    done = 0
    for match in _PLACE_BEHIND.finditer(text) if source.may_hold(b", 0") else ():
        if match.start() < done:
            continue
        street = _street_of_place(text, match.start())
        if street is not None:
            done = _with_tail(text, match.start())
            yield Span(street, done, "ADDRESS", 0.75, "place")
    for match in _UK_SECOND.finditer(text) if source.may_hold(b" 0xx") else ():
        code = _UK_ALONE.search(text, max(0, match.start() - 4), match.end())
        if code is not None:
            yield Span(code.start(), code.end(), "ADDRESS", 0.7, "uk-postcode")


#: What is looked at around the end of a code: a street before it, a place behind it.
_SEEN_BEFORE: Final = 100
_SEEN_BEHIND: Final = 200
_MOST_SEEN: Final = 4096
_SMALL_PLACE: Final = "street-small"


def _at_code(text: str, hint: re.Match[str]) -> Iterator[Span]:
    """The street and the place around a code that ends with `hint`, if there are any."""
    code = _CODE_AHEAD.search(text, max(0, hint.start() - _CODE_REACH), hint.end())
    if code is None:
        return
    if _HOUSE_AHEAD.search(text, max(0, code.start() - _HOUSE_REACH), code.start()) is None:
        return
    if text[hint.end() + 1].islower():
        yield from _in_small(text, code)
        return
    place = _PLACE_AHEAD.match(text, hint.end())
    street = None if place is None else _street_before_place(text, code, place.end())
    if place is not None and street is not None:
        yield Span(street, place.end(), "ADDRESS", 0.75, "street-place")


#: A code and its place behind a number tell of a street without any word for one:
#: `Ermou 25, 105 63 Athina`.
_PLACE_BEHIND: Final = re.compile(rf",[ ](?=\d)(?<=\w,[ ])(?!(?:19|20)\d\d[ ]){CODE}[ ]{_PLACE}")
_STREET_OF_PLACE: Final = re.compile(
    rf"(?<![\w.\-]){UP}[\w'’.\-]{{1,24}}[ ](?:{UP}[\w'’.\-]{{1,24}}[ ]|{_SMALL}[ ]){{0,3}}{_NUM}\Z"
)


def _street_of_place(text: str, at: int) -> int | None:
    street = _STREET_OF_PLACE.search(text, max(0, at - _BEFORE_REACH), at)
    if street is None or _NOT_A_STREET.search(street.group()) or not _has_name(street.group()):
        return None
    return street.start()


_ANY_DIGIT: Final = re.compile(r"\d")
#: From the second half of a code, which is rarer than the capitals of the first.
_UK_SECOND: Final = re.compile(
    r" (?=\d[ABD-HJLNP-UW-Z]{2}(?![\w]|[.\-/]\w))(?<=[A-Z\d] )\d[A-Z]{2}"
)
_UK_ALONE: Final = re.compile(rf"(?<![\w.\-/]){UK_CODE}\Z")
_STATES: Final = (
    "A[KLRSZAEP]|C[AOT]|D[CE]|F[LM]|G[AU]|HI|I[ADLN]|K[SY]|LA|M[ADEHINOPST]|N[CDEHJMVY]|O[HKR]"
    "|P[ARW]|RI|S[CD]|"
    "T[NX]|UT|V[AIT]|W[AIVY]"
)
_US_TAIL: Final = re.compile(rf",[ ](?:{_STATES})[ ]\d{{5}}(?:-\d{{4}})?(?![\w-]|\.\d)")
#: What an address before its `, ST 12345` does not hold.
_US_STOP: Final = re.compile(r"[^\w'’.#\-/ ,\n>]")
_US_NUMBER: Final = re.compile(rf"{_HEAD_NUM}\d{{1,6}}[A-Za-z]?[ ](?=[\w.]{{0,12}}[ ]?[\w'’.\-]*)")
_US_REACH: Final = 120
_US_WORDS: Final = 14
_SENTENCE_END: Final = re.compile(r"[a-z]{3}\.[ ]")
_CITY: Final = re.compile(rf"(?<!\w){_PLACE}\Z")


def _before_us_tail(text: str, match: re.Match[str]) -> int | None:
    """Where the address ends in `, ST 12345` begins: at its first number, or at the town."""
    floor = max(0, match.start() - _US_REACH)
    line = text.rfind("\n", floor, match.start())
    if line >= 0:  # one line's end may be within it
        floor = max(floor, text.rfind("\n", floor, line) + 1)
    for stop in _US_STOP.finditer(text, floor, match.start()):
        floor = stop.end()
    for number in _US_NUMBER.finditer(text, floor, match.start()):
        between = text[number.end() : match.start()]
        if len(between.split()) <= _US_WORDS and _SENTENCE_END.search(between) is None:
            return number.start()
    city = _CITY.search(text, max(0, match.start() - 60), match.start())
    if city is None:
        return None
    start = city.start()
    return start if _PLACE_CONTEXT.search(text, max(0, start - 12), start) else None


#: The end of a code with its place behind it; searched for from the digits.
_PLACE_HINT: Final = re.compile(
    r"\d\d(?=[ ](?:[A-Za-z]{2}[ ])?[^\W\d_]{3})(?:[ ][A-Za-z]{2}(?=[ ]))?"
)
_CODE_REACH: Final = 24
_HOUSE_AHEAD: Final = re.compile(r"\d[A-Za-z]?\.?,?[ ]?\r?\Z")
_HOUSE_REACH: Final = 6
#: On the line of a street or the next one.
_CODE_AHEAD: Final = re.compile(
    r"(?:,[ ]{1,2}|(?P<line>\n)[ \t>|#*]{0,8})(?P<code>(?:[A-Za-z]{1,2}-)?(?:\d{5}|\d{3}[ ]\d\d"
    r"|\d\d-\d{3}|\d{4}-\d{3}|\d{4}[ ][A-Za-z]{2}|\d{4}|\d{6}))\Z"
)
_PLACE_AHEAD: Final = re.compile(
    rf"[ ]{UP}[^\W\d_]{{2,24}}(?:[ \-](?:{UP}[\w'’.\-]{{0,24}}|{_SMALL}(?=[ '’]))){{0,4}}"
    r"(?:[ ]\d{1,2}(?!\w))?(?=[ \t]*(?:[,.;:!?)\r\n\"'`<|/]|\Z|\\|[ ][^\W\d_A-Z]))"
)
_STREET_AHEAD: Final = re.compile(
    rf"(?P<before>\A|[\n\"'`:;,=>|(\t.]|[ ])[ \t>|#*]{{0,8}}(?P<street>{UP}[^\W\d_]{{2,24}}[.]?"
    rf"(?:[ \-](?:{UP}[\w'’.\-]{{0,24}}|{_SMALL}(?=[ '’])|\d{{1,2}}\.)){{0,4}},?[ ]{_NUM}\.?)"
    r",?[ ]?\r?\Z"
)
_STREET_REACH: Final = 56


_ENDS_LINE: Final = re.compile(r"[ \t]*(?:[\r\n\"'`<|,]|\\|\Z)")


def _street_before_place(text: str, match: re.Match[str], place_end: int) -> int | None:
    """Where `Dlouhá 12` before `, 110 00 Praha` begins, a street without a word for one. A number
    of four digits is more often a year, so that the street must have a line of its own."""
    line = match["line"] is not None
    year = len(match["code"]) == _YEAR_SIZE and match["code"] < "2100"
    if year and not line:
        return None
    floor = max(0, match.start() - _STREET_REACH)
    if line:
        floor = max(floor, text.rfind("\n", floor, match.start()))
    street = _STREET_AHEAD.search(text, floor, match.start())
    if street is None or _NOT_A_STREET.search(street["street"]):
        return None
    alone = street["before"] in ("", "\n")
    if year and not alone:
        return None
    if line and not alone:
        return None
    if line and len(match["code"]) == _YEAR_SIZE and not _ENDS_LINE.match(text, place_end):
        return None  # `Release 7⏎1204 Commits since`
    return street.start("street")


#: The same all in small letters, as people chat: there a word for a street is needed.
_LOWER_PLACE: Final = re.compile(
    r"[ ][a-zß-öø-ÿ][^\W\d_]{2,24}(?:[ \-][a-zß-öø-ÿ][\w'’.\-]{1,24}){0,2}"
    r"(?:[ ]\([a-z]{2}\)|[ ]\d{1,2}(?!\w))?(?=[ \t]*(?:[,.;:!?)\r\n\"'`<|]|\Z|[ ]))"
)


_SMALL_LEAD: Final = re.compile(
    r"(?:[a-z]{2,10}[ ]){0,3}(?:to|at|in|from|is|my|by|on|nach|au|en|i|på|na|em|op)[ ]"
)


def _in_small(text: str, code: re.Match[str]) -> Iterator[Span]:
    place = _LOWER_PLACE.match(text, code.end())
    street = _LOWER_STREET.search(text, max(0, code.start() - _STREET_REACH), code.start())
    if place is not None and street is not None and _LOWER_WORD.search(street.group()):
        lead = _SMALL_LEAD.match(text, street.start())
        start = street.start() if lead is None else lead.end()
        yield Span(start, place.end(), "ADDRESS", 0.7, _SMALL_PLACE)


_LOWER_STREET: Final = re.compile(
    rf"(?<![\w.:/\-])(?:{_NUM},?[ ](?:[^\W\d_][\w'’.\-]{{1,24}}[ ]){{0,4}}[^\W\d_][\w'’.\-]{{2,24}}"
    rf"|[^\W\d_][\w'’./\-]{{1,30}}(?:[ ][\w'’.\-]{{1,24}}){{0,4}},?[ ]{_NUM}\.?),?[ ]?\r?\Z"
)
_LOWER_WORD: Final = re.compile(
    r"\b(?:(?:rue|avenue|boulevard|bd|impasse|place|chemin|quai|via|viale|corso|piazza|calle|"
    r"avenida|paseo|plaza|rua|travessa|praça|ulica|ulice|triq|am|an der)\b|"
    r"(?:c/|avd?a?\.|ul\.|al\.|os\.))|(?:"
    r"straße|strasse|str\.|gasse|platz|allee|weg|damm|ring|ufer|straat|laan|plein|gracht|kade|vej|gade|"
    r"vænget|gatan|gata|vägen|veien|vegen|gaten|gate|katu|tie|kuja|vegur|utca|út|tér|iela|mnt|maantee|"
    r"tänav| pr\.| g\.|náměstí|třída|cesta|caddesi|street|road|lane)(?!\w)"
)
_YEAR_SIZE: Final = 4
_PLACE_CONTEXT: Final = re.compile(
    r"\b(?:in|to|from|at|near|of|city|town|address|location)\b[\"']?[:=]?\s{0,2}[\"']?\Z",
    re.IGNORECASE,
)
#: Where one writes for a copy of a license: in the head of many files, and no person's.
_LICENSE: Final = re.compile(
    r"51 Franklin St|59 Temple Pl|675 Mass(?:achusetts)? Ave|Fifth Floor, Boston"
    r"|Suite 330,? Boston",
    re.IGNORECASE,
)


def _is_no_ones(text: str, first: int) -> bool:
    return _LICENSE.match(text, first) is not None


#: All that is looked at behind a street whose tail is no longer than `_SHORT_TAIL` (five pieces
#: are tried, the longest is three places and a code, 700 characters), and before it.
_TAIL_SEEN: Final = 1000
_SHORT_TAIL: Final = 100
_TAIL_BEFORE: Final = 4


def _with_tail_once(text: str, end: int, known: dict[str, int]) -> int:
    """`_with_tail`, which knows what it found where the text went on alike: lines repeat."""
    window = text[max(0, end - _TAIL_BEFORE) : end + _TAIL_SEEN]
    size = known.get(window)
    if size is None:
        size = _with_tail(text, end) - end
        whole = len(window) == _TAIL_BEFORE + _TAIL_SEEN and not window[-1].isspace()
        if whole and size <= _SHORT_TAIL and len(known) < _MOST_SEEN:
            known[window] = size
    return end + size


def _with_tail(text: str, end: int) -> int:
    """Take the flat and the postal place behind a street with it."""
    placed = False
    unit = False
    for _ in range(5):
        match = _UNITS.match(text, end)
        if match is not None:
            end = match.end()
            unit = True
            continue
        if placed:
            match = _COUNTRY_ONLY.match(text, end) or _CODE_ONLY.match(text, end)
            match = match or _CODE_PLACE.match(text, end)
        else:
            match = (
                _MILITARY.match(text, end)
                or _CODE_PLACE.match(text, end)
                or _PLACE_COUNTRY.match(text, end)
                or _PLACE_CODE.match(text, end)
                or _CODE_ONLY.match(text, end)
                or _COUNTRY_ONLY.match(text, end)
                or _PLACE_ONLY.match(text, end)
                or _LOWER_PLACE_CODE.match(text, end)
                or (_ORPHAN.match(text, end) if unit else None)
            )
        if match is None:
            break
        placed = True
        end = match.end()
    return end


#: `1055 Budapest, Kossuth Lajos utca 12`: there the place stands first.
_PLACE_BEFORE: Final = re.compile(
    rf"(?<![\w.:/\-])(?:[A-Z]{{1,2}}-)?(?:\d{{4,6}}|\d{{3}}[ ]\d\d)[ ]{UP}[\w'’.\-]{{2,24}}"
    rf"(?:[ ]{UP}[\w'’.\-]{{1,24}}){{0,2}}(?:,[ ]{{1,2}}|{_BREAK})\Z"
)


def _with_place_before(text: str, first: int, done: int) -> int:
    place = _PLACE_BEFORE.search(text, max(done, first - 70), first)
    return place.start() if place is not None else first


def _line_floor(text: str, at: int, done: int, reach: int = _BEFORE_REACH) -> int:
    floor = max(done, at - reach)
    return max(floor, text.rfind("\n", floor, at) + 1)


def _with_flat_before(text: str, first: int, done: int) -> int:
    floor = max(done, first - 24)
    flat = _FLAT_BEFORE.search(text, floor, first) or _FLAT_WORD.search(text, floor, first)
    return flat.start() if flat is not None else first


Found = tuple[int, int] | None


def _last(text: str, start: int, end: int, done: int) -> Found:
    """`12 Baker Street`, `Diakou Street 74`."""
    if start < 2 or text[start - 1] != " ":
        return None
    if text[end : end + 1] == "." and text[end - 1] != ".":
        end += 1
    floor = _line_floor(text, start, done)
    named = _CAPITAL.search(text, floor, start) is not None
    if not named and text[start:end] not in _LOWER_STRONG:
        return None
    strong = text[start].isupper() or end - start > _SHORT
    before = _BEFORE_LAST.search(text, floor, start) if strong and named else None
    if before is None and text[start].islower() and text[start:end] in _LOWER_STRONG:
        before = _LOWER_BEFORE_LAST.search(text, floor, start)
        if before is not None and _LOWER_PLACE_CODE.match(text, end) is None:
            before = None
    if before is not None and _has_name(before.group()):
        if (direction := _DIRECTION.match(text, end)) is not None:
            end = direction.end()
        if (number := _NUMBER_BEHIND.match(text, end)) is not None:
            end = number.end()
        return _with_flat_before(text, before.start(), done), end
    if not named or text[start:end].lower().rstrip(".") in _ABBREVIATED:
        return None
    number = _NUMBER_BEHIND.match(text, end)
    if number is None:
        return None
    names = _NAMES_BEFORE_LAST.search(text, floor, start)
    if names is None or not _has_name(names.group()):
        return None
    return names.start(), number.end()


_SHORT: Final = 3
_CAPITAL: Final = re.compile(UP)
_LOWER_STRONG: Final = frozenset(
    {
        "street",
        "avenue",
        "road",
        "boulevard",
        "lane",
        "drive",
        "court",
        "ave",
        "rd",
        "blvd",
        "dr",
        "ln",
        "st",
        "crescent",
        "terrace",
        "close",
        "square",
        "quay",
        "grove",
        "gardens",
    }
)
_ABBREVIATED: Final = frozenset(
    {"st", "ave", "rd", "dr", "ln", "ct", "ter", "pl", "sq", "cir", "place", "square", "close",
     "drive", "court", "circle", "lane", "u", "alley", "terrace", "hwy", "highway"}
)  # fmt: skip


def _has_name(before: str) -> bool:
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


def _seldom_last(text: str, start: int, end: int, done: int) -> Found:
    """`289 Rachel Ridges Suite 4`, `12 Mill Row, Leeds LS1 4AB`: a flat or a place must follow."""
    if start < 2 or text[start - 1] != " " or not text[start].isupper():
        return None
    before = _BEFORE_LAST.search(text, _line_floor(text, start, done), start)
    if before is None or not _has_name(before.group()):
        return None
    if (direction := _DIRECTION.match(text, end)) is not None:
        end = direction.end()
    placed = (
        _UNITS.match(text, end)
        or _CODE_PLACE.match(text, end)
        or _PLACE_CODE.match(text, end)
        or _CODE_ONLY.match(text, end)
        or _PLACE_COUNTRY.match(text, end)
        or _PLACE_ONLY.match(text, end)
    )
    if placed is None:
        return None
    return _with_flat_before(text, before.start(), done), end


def _first(text: str, start: int, end: int, done: int) -> Found:
    """`12, rue de la Paix`, `Via Roma 131`, `ul. Cicha 86`."""
    if start and (text[start - 1].isalnum() or text[start - 1] in "_-"):
        return None
    word = text[start:end].lower()
    if text[start].islower() and (word in _ARTICLES or text[max(0, start - 3) : start] == "et "):
        return None
    if word in _ARTICLES and _GERMAN_DATE.match(text, end):
        return None  # `Am Mo., 2. Feb. 2026`, `Zum 1. April 2026`
    if word[-1] == "." and text[end : end + 1] not in (" ", "\u00a0"):
        return None  # `os.O_RDONLY, 0`
    number = _NUMBER_BEFORE.search(text, max(done, start - 20), start)
    names = _FIRST_REST.match(text, end)
    if names is None:
        return None
    rest = names.group()
    if not any(len(w) > 2 and w[0].isupper() for w in re.split(r"[ '’\-]", rest)) and not (
        _HOLIDAY.match(rest)
    ):
        return None
    behind = None
    if number is None or _CODE_PLACE.match(text, len(rest.rstrip(" ,")) + end) is None:
        behind = _FIRST_NUMBER.match(text, len(rest.rstrip()) + end)
    plain = word in _PLAIN_FIRST
    if behind is not None:
        first = number.start() if number is not None else start
        if number is None and text[start].islower() and word in _LOWER_REFUSED:
            return None
        return _with_flat_before(text, first, done), behind.end()
    if number is None or word in _PHRASES_FIRST or (plain and word in _ENGLISH_TOO):
        return None
    last = len(rest.rstrip(" .,'’")) + end
    return _with_flat_before(text, number.start(), done), last


#: `ulice 28. října`: streets named for a day.
_HOLIDAY: Final = re.compile(r"[ ]?\d{1,2}\.[ ]?[^\W\d_]{3}")

#: Also words of English or of code: only with a capital and a number, or behind a number.
_PLAIN_FIRST: Final = frozenset(
    {"via", "place", "passage", "square", "avenue", "boulevard", "am", "im", "r.", "c.", "av", "ul",
     "al.", "pl.", "os.", "λ.", "πλ.", "str.", "plaza", "cours", "route de", "alte", "alter", "c/",
     "ronda", "strada", "quai", "corso", "largo", "lange", "zum", "zur", "blvd", "altes", "rue"}
)  # fmt: skip
_PHRASES_FIRST: Final = frozenset(
    {"am", "an der", "im", "in der", "zum", "zur", "auf der", "unter den", "alte", "alter", "altes",
     "obere", "untere", "lange", "große", "place", "r.", "c.", "passage", "square"}
)  # fmt: skip
_ARTICLES: Final = frozenset({"am", "an der", "im", "in der", "zum", "zur", "auf der", "unter den"})
#: What stands behind `Am` where it is a day.
_GERMAN_DATE: Final = re.compile(
    r"[ ](?:[^\W\d_]{2,10}\.?,?[ ])?(?:den[ ])?\d{1,2}\.[ ]?(?:\d|(?:Quartal|Halbj|"
    r"Semester|Jahr|Jan|Jän|Feb|Mär|Mrz|Apr|Mai|Jun|Jul|Aug|"
    r"Sep|Okt|Nov|Dez)[^\W\d_]{0,7}\.?(?:[ ](?:19|20)\d\d|[ ,]))"
)
_LOWER_REFUSED: Final = frozenset(
    {"via", "place", "passage", "square", "avenue", "boulevard", "r.", "c.", "str.", "plaza", "av",
     "alte", "alter", "altes", "obere", "untere", "lange", "große", "blvd", "strada", "cours"}
)  # fmt: skip
_ENGLISH_TOO: Final = frozenset(
    {"via", "place", "passage", "square", "plaza", "r.", "c.", "al.", "os."}
)


def _ending(text: str, start: int, end: int, done: int) -> Found:
    """`Hauptstraße 12`, `Vana Lõuna tee 87`, `Lange Gasse 4`."""
    number = _NUMBER_BEHIND.match(text, end)
    if number is None:
        return None
    word = _ENDING_WORD.search(text, _line_floor(text, start, done, 80), start)
    if word is None:
        return None
    first = word.start()
    while first < start and text[first] in "'’.-":  # an opening quote is no part of it
        first += 1
    name = text[first:start]
    if not name.strip() or not (name[0].isupper() or name[:1].isdigit()):
        return None
    if sum(c.isalpha() for c in name) < _FEWEST_LETTERS or _MEMBER.search(name):
        return None
    if name[-1:] not in (" ", "-") and len(name.split()[-1]) < _FEWEST_LETTERS:
        return None
    if end - start <= _SHORT and name[-1:] == " ":
        return None  # `The Tie 5`
    before = _NUMBER_BEFORE.search(text, max(done, first - 10), first)
    if before is not None:
        first = before.start()
    return _with_flat_before(text, first, done), number.end()


_FEWEST_LETTERS: Final = 3
_MEMBER: Final = re.compile(r"\.[^\W\d_]|_")  # `Season.SPRING`


def _flat(text: str, start: int, end: int, done: int) -> Found:
    """`450 Edeby 55`, and on this line or the next `Apt. 12`."""
    if start < 4 or text[start - 1] not in " \n>\t,":
        return None
    unit = _UNIT_AT.match(text, start)
    if unit is None or not any(c.isdigit() for c in unit.group()):
        return None
    if (box := _UNIT_BOX.match(text, start)) is not None and _MILITARY.match(text, box.end()):
        return start, box.end()
    first = _street_before(text, start, done)
    if first is None:
        return _before_number(text, start, unit.end())
    return first, unit.end()


_WORDS_BACK: Final = 7
_SENTENCE_WORDS: Final = frozenset(
    {
        "and",
        "as",
        "is",
        "at",
        "in",
        "to",
        "address",
        "my",
        "for",
        "with",
        "on",
        "from",
        "or",
        "into",
    }
)
_ANY_WORD: Final = re.compile(r"[^\s>]+")
_NAME_WORD: Final = re.compile(r"[^\W_][\w'’.\-/()]{0,24},?\Z")


def _street_before(text: str, at: int, done: int) -> int | None:
    """Where the street before a flat begins, on the same line or the one before: at the first
    number among the words that may be of a name."""
    floor = _line_floor(text, at, done)
    if not text[floor:at].strip(" \t>,"):
        floor = _line_floor(text, max(done, floor - 1), done)
    first: int | None = None
    named = False
    words = list(_ANY_WORD.finditer(text, floor, at))
    for word in reversed(words[-_WORDS_BACK:]):
        written = word.group()
        if _NAME_WORD.match(written) is None or written in _SENTENCE_WORDS:
            break
        if written[0].isdigit():
            first = word.start()
        elif len(written) > 2:
            named = True
    if first is None or not named:
        return None
    before = [word for word in words if word.end() <= first]
    name_first = first
    for word in reversed(before[-3:]):  # `Rua Igreja 25`: a name with capitals before its number
        if not word.group()[0].isupper() or _NAME_WORD.match(word.group()) is None:
            break
        name_first = word.start()
    rest = text[first:at]
    return first if any(len(w) > 2 and w[0].isalpha() for w in rest.split()) else name_first


_UNIT_BOX: Final = re.compile(r"unit[ ]\d{1,5}[ ]box[ ]\d{1,6}", re.IGNORECASE)
_FLAT_THEN_STREET: Final = re.compile(
    rf"[ ,]{{1,2}}{_NUM}[ ]{UP}[\w'’.\- ]{{2,40}}?[ ]{_NUM}(?!\w)"
)


def _before_number(text: str, start: int, end: int) -> Found:
    """`Apt. 675 62314 Mellemvej 32`."""
    street = _FLAT_THEN_STREET.match(text, end)
    return (start, street.end()) if street is not None else None


def _box(text: str, start: int, end: int, done: int) -> Found:
    """`P.O. Box 12`, `PSC 3117, Box 0609`, `USS Mahler, FPO AA 70489`."""
    if start and (text[start - 1].isalnum() or text[start - 1] in "_-."):
        return None
    word = text[start:end].lower()
    if word in ("uss", "usns", "usnv", "uscgc"):
        ship = _SHIP_REST.match(text, end)
        return (start, ship.end()) if ship is not None else None
    rest = _BOX_REST.match(text, end)
    if rest is None:
        return None
    if (
        word in ("psc", "bp", "b.p.", "postbox")
        and "box" not in rest.group().lower()
        and not (_CODE_PLACE.match(text, rest.end()) and text[start].isupper())
    ):
        return None
    before = _NUMBER_BEFORE.search(text, max(done, start - 10), start)
    return (before.start() if before is not None else start), rest.end()


def _phrase(text: str, start: int, end: int, done: int) -> Found:
    """`lives at Sludevej 13`: behind such words a name and a number are a street."""
    if start and (text[start - 1].isalnum() or text[start - 1] in "_-"):
        return None
    match = _GENERIC.match(text, end)
    if match is None:
        match = _GENERIC_NUMBERED.match(text, end)
        if match is None or _with_tail(text, match.end("street")) == (match.end("street")):
            return None
    street = match["street"]
    if not _has_name(street) or _NOT_A_STREET.search(street):
        return None
    return match.span("street")


_NOT_A_STREET: Final = re.compile(
    r"\b(?:Step|Line|Port|Page|Version|Chapter|Section|Table|Figure|Issue|Python|RFC|PEP|Type|Room|"
    r"Windows|January|February|March|April|May|June|July|August|September|October|November|"
    r"December|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sep|Oct|Nov|Dec|IPv[46]|UTF|ISO|Level|Phase|Part|No|Int|"
    r"Register|Byte|Bit|Offset|Slot|Block|Model|Number|Error|Bug)\b"
)


#: More than is looked at before and behind the word for a flat.
_FLAT_SEEN: Final = 200


def _found_once(
    sort: _Sort, text: str, where: tuple[int, int, int], no_flats: set[tuple[int, str]]
) -> Found:
    """What the finder of `sort` finds; `where` is its word and what was read. Flats that belong to
    no street are looked at once, for lines repeat."""
    start, end, done = where
    if sort is not _Sort.FLAT:
        return _FINDERS[sort](text, start, end, done)
    key = min(start - done, _FLAT_SEEN), text[max(0, start - _FLAT_SEEN) : end + _FLAT_SEEN]
    if key in no_flats:
        return None
    found = _flat(text, start, end, done)
    if found is None and len(no_flats) < _MOST_SEEN:
        no_flats.add(key)
    return found


def _corner(text: str, start: int, end: int, done: int) -> Found:
    """`the corner of Dunajska 5 and Mill Road`: a place too."""
    rest = _CORNER_REST.match(text, end)
    if rest is None or not any(c.isdigit() for c in rest.group()):
        return None
    the = _THE_BEFORE.search(text, max(0, start - 4), start)
    return (the.start() if the is not None else start), rest.end()


#: A part of a Japanese address as it is written in Latin letters, from its block to its country.
_JAPANESE: Final = (
    r"(?:〒?\d{1,4}(?:-\d{1,4}){0,3}(?:-(?:chome|chōme|banchi|ban|go|gō))?(?:[ ]chome)?(?!\w)"
    rf"|{UP}[^\W\d_]{{1,20}}(?:-[^\W\d_]{{2,6}})?(?!\w)|\#\d{{1,5}})"
)
_PART_OF_JAPANESE: Final = re.compile(_JAPANESE)
_BEHIND_WARD: Final = re.compile(rf"(?:(?:,[ ]?|[ ]){_JAPANESE}){{0,8}}")
_BLOCK: Final = re.compile(
    r"(?:(?<!\w)(?:Room|Rm|Apt|Unit|Suite)\.?[ ])?\d{1,4}(?:-\d{1,4}|-?[ ]?ch[oō]me|[ ]?F,)"
    rf"|{UP}[^\W\d_]{{1,20}}[ ]\d{{1,3}}(?:-\d{{1,3}}|-?[ ]?ch[oō]me)"
    r"|(?<!\w)(?:Room|Rm|Apt|Unit|Suite)\.?[ ]\d{1,4}"
)
_WARD_REACH: Final = 90


def _ward(text: str, start: int, end: int, done: int) -> Found:
    """From the first block, or the room, to the last part."""
    if text.find(",", max(done, start - _WARD_REACH), end + _WARD_REACH) < 0:
        return None
    floor = _line_floor(text, start, done, _WARD_REACH)
    first = _japanese_before(text, floor, start)
    if text[start] == "-":  # the ward's name before it
        word = _word_start(text, first, start)
        if word == start or not text[word].isupper():
            return None
    behind = _BEHIND_WARD.match(text, end, end + _WARD_REACH)
    last = end if behind is None else behind.end()
    if "," not in text[first:last]:
        return None
    block = _BLOCK.search(text, first, last)
    if block is None:
        return last, last  # the other wards of this stretch need not be looked at
    return block.start() if block.start() < start else first, last


def _word_start(text: str, floor: int, end: int) -> int:
    return max(floor, text.rfind(" ", floor, end) + 1)


def _japanese_before(text: str, floor: int, end: int) -> int:
    """Where the parts before `end` begin, all of them such as a Japanese address has."""
    first = end
    at = end
    for _ in range(_PARTS_MOST):
        start = _word_start(text, floor, at)
        if _PART_OF_JAPANESE.fullmatch(text, start, at - (text[at - 1 : at] == ",")) is None:
            break
        first = start
        at = start - 1
        if at <= floor:
            break
    return first


_PARTS_MOST: Final = 8


_FINDERS: Final = {
    _Sort.LAST: _last,
    _Sort.SELDOM_LAST: _seldom_last,
    _Sort.FIRST: _first,
    _Sort.ENDING: _ending,
    _Sort.FLAT: _flat,
    _Sort.BOX: _box,
    _Sort.PHRASE: _phrase,
    _Sort.CORNER: _corner,
    _Sort.WARD: _ward,
}
