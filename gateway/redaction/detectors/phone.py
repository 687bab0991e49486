"""Phone numbers: international ones by their `+`, national ones by how they are written or what
stands around them.

A run of digit groups is looked at only when it has the shape of a phone number: a country code; an
area code in parentheses; North American or trunk-zero grouping; or words (`phone`, `call … on`,
`fax`) or an e-mail address beside it. `phonenumbers` judges what the shape leaves open. Left alone:
dates, times, versions, identifiers, hexadecimal, epoch times, amounts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import ClassVar, Final

import phonenumbers
from phonenumbers.phonemetadata import PhoneMetadata

from gateway.redaction.detectors.base import HIDDEN, Rule, Source, Triggers
from gateway.redaction.detectors.labels import Reach, Value, words
from gateway.redaction.spans import Span

#: Where one may begin: seven of its characters in a row.
_BEGIN: Final = re.compile(r"[+(\d](?<!\w[+(\d])(?=[+(\d \u00a0.\-/)]{6})", re.ASCII)
#: One number as written: groups of digits with at most two separators between them.
_RUN: Final = re.compile(
    r"(?<!\w)(?P<plus>\+|00(?=[1-9]))?(?P<rest>\(?\d{1,15}\)?"
    r"(?:(?:[ \u00a0.\-/]{1,2}|[ ]/[ ])\(?\d{1,12}\)?"
    r"|\(\d{1,5}\)[ \u00a0.\-/]?\d{1,12}|(?<=\))\d{1,12}){0,7})"
    r"(?P<ext>[ ,;]{0,2}(?:x|ext(?:ension)?[.:=]? ?|#|Dw\.? ?|poste ?)\d{1,6}(?![.\-/]?\d))?",
    re.ASCII,
)
_FEWEST: Final = 7
_MOST: Final = 15

_NANP: Final = re.compile(
    r"(?:(?:001|1)[ .\-]?)?(?:\([2-9]\d\d\)[ .\-]{0,2}|[2-9]\d\d(?P<sep>[.\- ]))\d{3}"
    r"(?(sep)(?P=sep)|[.\- ])\d{4}"
)
#: A trunk zero and groups: `01 76 42 87 03`, `(06712) 635593`, `07150 21107`, `030/1234567`.
_TRUNK: Final = re.compile(
    r"\(0\d{1,5}\)[ ]?\d{2,8}(?:[ \-]\d{2,8}){0,3}"
    r"|0[1-9](?:[ .\-]\d\d){4}"
    r"|0[1-9]\d{1,4}[ ]/[ ]\d{2,8}(?:[ \-]\d{2,6}){0,3}"
    r"|0\d{2,5}[ \-/]\d{3,8}(?:[ \-]\d{2,6}){0,3}"
    r"|0[1-9]\d{0,4}(?:[ \-/\u00a0]\d{2,4}){2,4}|0[1-9][ \-/]\d{6,9}"
)
_ZIP_CODE: Final = re.compile(r"\d{5}-\d{4}")  # `Boston, MA 02110-1301`
_DATE: Final = re.compile(
    r"(?:19|20)\d\d([-/. ])\d{1,2}\1\d{1,2}(?:\D|\Z)"
    r"|\d{1,2}([-/.])\d{1,2}\2(?:(?:19|20)\d\d(?:\D|\Z)|\d\d\Z)"
)

#: Words for a phone and for calling one, in the languages of the regions that write such numbers.
_WORDS: Final = re.compile(
    "|".join(
        (
            r"phone|mobile|\bmobil\b|mobiel|\bmob\b|\bcell|\btel\b|\btel[.:_]|\bt[ée]l[ée]?f",
            r"t[ée]l[ée]phone|\bt[ée]l\b|\bfax|\bcall(?:s|ed|er|ing)?\b|\bdial|\bsms\b|whats ?app",
            r"\bviber\b|\bhandy\b|\bhotline|\bm[óo]vil|\btelem[óo]vel|\bcelular|cellulare|portable",
            r"\breach|\bring(?:a|e)?\b|\bcontact|\bmessages? (?:on|to|at)\b|\bregistered",
            r"\b(?:text|txt)(?: (?:me|him|her|us|them))?\b[^\w\d]{0,4}\Z|\bdesk:",
            r"\b(?:office(?: line)?|home|work|direct|private?)\b\W{0,3}\Z|\bvoicemail|\bfono",
            r"\bn[uú]m[eé]ro\b|rufnummer|\btelnr|msisdn|\bpager|\bnummer:|\bgsm\b|\btlf\b|\btfno?\b",
            r"\b(?:my|your|his|her|their|our|cell|contact|direct) number is\b|\bpuh\b|puhelin|τηλ",
            r"\bsími|\bfarsím|tālr|\bcep\b|電話|电话|手机|手機|携帯|전화|휴대폰|\bnatel\b|\bmob\b[.:]|\bkom\.",
            r"κινητ|\bappele|\bjoindre|\bll[aá]m|\bzadzwo|\bdzwo|\bchiam|\bbel(?:t|len)? |\bruf",
            r"\banruf|\berreich|\bkom[oó]rk|\bszám|\bčísl|\bтел|\bмоб|\bph[ .:#]",
        )
    ),
    re.IGNORECASE,
)
#: Between such a word and the number: what makes it a number of something else.
_OTHER: Final = re.compile(
    r"(?:\b|_)(?:ids?|uuid|order|ticket|invoice|ref|account|case|codes?|count|size|port|timeout|"
    r"ms|version|zip|card|hash|line \d|error|stack|year|date|amount|total|users?|sessions?|"
    r"requests?|items?|views?|rows?|rates?|routing|tracking|parcel|shipment|serial|sku|"
    # What is numbered beside phones: orders, parcels, files, invoices, contracts, accounts.
    r"commande|suivi|colis|dossier|facture|contrat|compte|devis|s[ée]rie|r[ée]f[ée]rence|sinistre|"
    r"police|pedido|seguimiento|expediente|factura|contrato|cuenta|referencia|p[óo]liza|encomenda|"
    r"processo|fatura|conta|refer[êe]ncia|ap[óo]lice|ordine|spedizione|fattura|contratto|conto|"
    r"pratica|riferimento|polizza|protocollo|codice|c[óo]digo|zam[óo]wieni[ae]|przesy[łl]ki|faktury|"
    r"umowy|konta|sprawy|aktenzeichen|sendung|bestelling|zending|factuur|polis|"
    r"(?:bestell?|auftrags?|order|rechnungs?|sendungs?|vorgangs?|kunden|klant|artikel|serien?|"
    r"vertrags?|mitglieds?|konto|factuur|zaak|beleg|policen?|akten)[ \-]?(?:nummer|nr))(?:\b|_)",
    re.IGNORECASE,
)
_GAP: Final = 28
_WORDS_AFTER: Final = re.compile(
    r"(?:[ \t]{0,2}[-(]?[ \t]?(?:fax|mobile|office|cell|phone|home|work|tel|desk|direct)\b)",
    re.IGNORECASE,
)
_REACH: Final = 52
#: The field before in a row of a table: an e-mail address ends right here.
_EMAIL_BEFORE: Final = re.compile(r"@[\w.\-]{3,60}['\"]?[ \t]{0,2}[,;|\t][ \t]{0,2}['\"]?\Z")
_EMAIL_REACH: Final = 72


class PhoneRule(Rule):
    """Finds phone numbers."""

    KINDS: ClassVar = ("PHONE",)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(digits=_FEWEST)

    def spans(self, source: Source) -> Iterator[Span]:
        """Look at every run of digit groups."""
        if not source.may_hold_digits(_FEWEST):
            return
        text = source.text
        done = 0
        words: _Words = {}
        scores: _Scores = {}
        for begin in _BEGIN.finditer(text):
            if begin.start() < done:
                continue
            run = _RUN.match(text, begin.start())
            if run is None:
                continue
            done = run.end()
            written = run.group()
            if written[-1] == ")" and not _CALL.search(
                text, max(0, run.start() - 2), run.start() + 1
            ):
                if written.count(")") > written.count("("):
                    run = _RUN.match(text, run.start(), run.end() - 1) or run
                elif written[0] == "(" and written.count(")") == 1:
                    run = _RUN.match(text, run.start() + 1, run.end() - 1) or run
            start, end = run.span()
            if end - start < _FEWEST:
                continue
            score = _score(text, run, words, scores)
            if score:
                yield Span(start, end, "PHONE", score, "phone")
            elif end - start > _MOST and _LONG_GROUP.search(text, start, end):
                yield from _among_neighbors(text, run, words, scores)


#: `sin(046454286)`
_CALL: Final = re.compile(r"\w\(")
_WIDEST: Final = 24
_LONG_GROUP: Final = re.compile(r"\d{3}|\+")


#: The last word for a phone in a stretch of text and where it ends: lines repeat.
_Words = dict[str, tuple[str, int] | None]
#: How sure we are of a run in a stretch of text: rows repeat. All that is looked at stands in it.
_Scores = dict[tuple[int, int, str], float]
_SEEN_BEFORE: Final = 128
_SEEN_BEHIND: Final = 64
_MOST_SCORES: Final = 4096


def _among_neighbors(
    text: str, run: re.Match[str], words: _Words, scores: _Scores
) -> Iterator[Span]:
    """A number with other numbers beside it, as in a row of columns: try it without them."""
    spaces = [i for i in range(run.start(), run.end()) if text[i] in " \u00a0"]
    start = run.start()
    for end in reversed(spaces):
        if end - start > _WIDEST:
            continue
        part = _RUN.match(text, start, end)
        if part is not None and part.end() == end and _score(text, part, words, scores):
            yield Span(start, end, "PHONE", 0.6, "phone")
            return
    for space in spaces:
        match = _NANP.match(text, space + 1, run.end())
        if match is not None and not text[match.end() : match.end() + 1].isalnum():
            yield Span(match.start(), match.end(), "PHONE", 0.6, "phone")
            return


def _score(text: str, run: re.Match[str], words: _Words, scores: _Scores) -> float:
    """How sure we are that this run is a phone number; 0 for not at all."""
    start, end = run.span()
    floor = max(0, start - _SEEN_BEFORE)
    window = start - floor, end - start, text[floor : end + _SEEN_BEHIND]
    score = scores.get(window)
    if score is None:
        if len(scores) > _MOST_SCORES:
            scores.clear()
        score = scores[window] = _judged(text, run, words)
    return score


def _judged(text: str, run: re.Match[str], words: _Words) -> float:
    written = run["rest"]
    digits = "".join(c for c in written if c.isdigit())
    if not _FEWEST <= len(digits) <= _MOST or len(set(digits)) < 3:
        return 0.0
    plus = run["plus"]
    if _GOES_ON.match(text, run.end()):
        return 0.0
    if plus == "+":
        return 0.8 if _international(digits, written) else 0.0
    if _LINK.search(text, max(0, run.start() - _LINK_REACH), run.start()):
        return 0.8 if _international(digits, written) or len(digits) >= _FEWEST_ABROAD else 0.0
    if _joined(text, run) or (text[run.start() - 1 : run.start()] in _MARKS and not _shaped(run)):
        return 0.0
    if plus and _is_valid(digits):
        return 0.8
    written, digits = (plus or "") + written, (plus or "") + digits
    if _DATE.match(written):
        return 0.0
    if _NANP.fullmatch(written):
        return 0.7
    if _ZIP_CODE.fullmatch(written):
        return 0.0
    if (
        _TRUNK.fullmatch(written)
        and (9 <= len(digits) <= 12 or (_SHORT_TRUNK.fullmatch(written) and _is_of("SE", digits)))
        and _stands_alone(text, run)
    ):
        return 0.65
    if _PAIRS.fullmatch(written) and (sure := _by_context(text, run, written, digits, words)):
        return sure
    if not plus and _is_national(text, run, written, digits):
        return 0.6
    return _by_context(text, run, written, digits, words)


#: Addresses that call or write to a number.
_LINK: Final = re.compile(
    r"(?:\bwa\.me/|whatsapp\.com/send/?\?phone=|\b(?:tel|sms|smsto|callto|facetime|viber|sip):(?://)?"
    r"|viber://\w{1,8}\?number=|\bt\.me/\+|signal\.me/#p/)(?:%2B|\+)?\Z",
    re.IGNORECASE,
)
_LINK_REACH: Final = 32

#: Sweden writes as few as `08-18 73 36`.
_SHORT_TRUNK: Final = re.compile(r"0\d{1,2}[ \-]\d{2,3} \d\d(?: \d\d)?")

#: Nothing but digits behind a trunk zero, and the regions that have such numbers.
_PLAIN: Final = re.compile(r"0[1-9]\d{7,10}")
_TRUNK_REGIONS: Final = (
    "FR", "GB", "IT", "DE", "NL", "BE", "AT", "CH", "SE", "FI", "IE", "RO", "BG", "HR", "SI", "SK",
)  # fmt: skip
_NO_TRUNK_REGIONS: Final = (
    "ES", "PL", "PT", "CZ", "GR", "IT", "DK", "NO", "LU", "EE", "LV", "MT", "CY", "HU", "LT",
)  # fmt: skip
#: Groups as they are written where numbers have no trunk zero; others need the field for their own.
_GROUPED: Final = re.compile(
    r"\d{3}[ \u00a0.\-]\d\d(?:[ \u00a0.\-]\d\d){2}|\d\d[ \u00a0]\d{3}[ \u00a0]\d\d[ \u00a0]\d\d"
    r"|3\d\d[ \u00a0\-/]\d{6,7}|[2][1-8]\d{1,3}[ \u00a0\-]\d{6,8}|69\d[ \u00a0\-]\d{7}"
    r"|[5-9]\d\d[ \u00a0\-]\d{3}[ \u00a0\-]\d{3}"
)
_FIELD_GROUPED: Final = re.compile(
    r"[2-9]\d\d[ \u00a0.\-]\d{3}[ \u00a0.\-]\d{3}|[2-9]\d(?:[ \u00a0.]\d\d){3}"
    r"|[2-9]\d{3}[ \u00a0]\d{4}|[49]\d\d[ ]\d\d[ ]\d{3}"
)
_AMOUNT_AFTER: Final = re.compile(
    r"[ \u00a0]?(?:%|€|\$|£|zł|Kč|Ft|kr|EUR|USD|GBP|PLN|CZK|bytes?|[kKMGT]i?B|ms|s|km|kg|m"
    r"|users?|rows?|"
    r"items?|people|inhabitants|records?|lines?|points?|tokens?|x)\b|[ ]?[-+*/=<>][ ]?\d"
)
_AMOUNT_BEFORE: Final = re.compile(
    r"(?:[€$£]|total|sum|amount|population|count|bytes|size|revenue|price|cost|about|"
    r"approximately|over|than|[+*/=<>][ ]|\d[ ,]|EUR|USD|id|(?<!tf)no|nr|number|code|ref|order|"
    r"invoice|serial|sku|"
    r"isbn|ean|siren|"
    r"siret|account|konto|hash|version|key|pos|seq|seed)[.:#]?[\"']?[ \u00a0:=]{0,3}\Z",
    re.IGNORECASE,
)
_FILE_TYPE: Final = re.compile(r"\.\w")
_FIELD_BEFORE: Final = re.compile(r"(?:\A|[\"'`,;|\t\n>(])[ ]{0,2}\Z")
_FIELD_AFTER: Final = re.compile(r"[ ]{0,2}(?:\Z|[\"'`,;|\t\r\n<)])")
_ALL_DIGITS: Final = "01234567890123456789 98765432109876543210"
_FEWEST_KINDS: Final = 4


def _is_national(text: str, run: re.Match[str], written: str, digits: str) -> bool:
    """A number as people of one country write it, and valid there, with no word beside it."""
    plain = _PLAIN.fullmatch(written) is not None
    grouped = not plain and _GROUPED.fullmatch(written) is not None
    if not plain and not grouped and _FIELD_GROUPED.fullmatch(written) is None:
        return False
    start, end = run.span()
    if len(set(digits)) < _FEWEST_KINDS or digits in _ALL_DIGITS:
        return False
    if not _stands_alone(text, run) or _AMOUNT_AFTER.match(text, end):
        return False
    before = text[max(0, start - _GAP) : start]
    if _AMOUNT_BEFORE.search(before) or _OTHER.search(_LAST_WORDS.split(before)[-1]):
        return False
    if plain:
        if text[start - 1 : start] == "/" or _FILE_TYPE.match(text, end):
            return False
        return any(_is_of(region, digits) for region in _TRUNK_REGIONS)
    whole = _FIELD_BEFORE.search(before) is not None and _FIELD_AFTER.match(text, end) is not None
    return (grouped or whole) and any(_is_of(region, digits) for region in _NO_TRUNK_REGIONS)


def _is_of(region: str, digits: str) -> bool:
    bare = digits if region in ("IT", "SM") else digits.removeprefix("0")
    return _lines_of(region).fullmatch(bare) is not None


@cache
def _lines_of(region: str) -> re.Pattern[str]:
    """The shapes of a region's fixed and mobile lines."""
    known = PhoneMetadata.metadata_for_region(region)
    kinds = (known.fixed_line, known.mobile) if known is not None else ()
    shapes = [kind.national_number_pattern for kind in kinds if kind is not None]
    return re.compile("|".join(f"(?:{shape})" for shape in shapes if shape) or "(?!)")


def _joined(text: str, run: re.Match[str]) -> bool:
    """Part of something longer: an identifier, a decimal, a time, a GUID. A field of a row or a
    line that a search printed (`12:`) may hold what has the shape of a number."""
    start = run.start()
    before = text[max(0, start - 2) : start]
    if len(before) != 2:
        return False
    if before[1] in ",:" and before[0].isdigit():
        return not _shaped(run)
    return (before[1] in ".-/" and before[0].isdigit()) or (
        before[1] in ".-" and before[0].isalpha()  # `CVE-2026-9358`
    )


def _shaped(run: re.Match[str]) -> bool:
    """Written as nothing but a phone number is."""
    written = (run["plus"] or "") + run["rest"]
    return _NANP.fullmatch(written) is not None or _TRUNK.fullmatch(written) is not None


#: Before other digits they are for amounts, issues, decimals and times.
_MARKS: Final = frozenset(".$€£#@\\")
_GOES_ON: Final = re.compile(r"\w|[+%]|[.:/]\d|-(?:\d|[0-9a-fA-F]{4}(?![a-zA-Z]))", re.ASCII)


def _international(digits: str, written: str) -> bool:
    """A number with its country code; a decimal with a sign is none."""
    if written.count(".") == 1 and re.search(r"\.\d(?:\D|\Z)", written):
        return False
    if "(0)" in written:
        digits = "".join(c for c in written.replace("(0)", "", 1) if c.isdigit())
    size = _code_size(digits)
    if not size or len(digits) < _FEWEST_ABROAD:
        return False
    lengths = _numbers_of(digits[:size])[0]
    return len(digits) - size in lengths or (
        digits[size] == "0" and len(digits) - size - 1 in lengths
    )


def _is_valid(digits: str) -> bool:
    size = _code_size(digits)
    return bool(size) and _numbers_of(digits[:size])[1].fullmatch(digits, size) is not None


_FEWEST_ABROAD: Final = 8


def _code_size(digits: str) -> int:
    """How many of the first digits are a country's calling code; 0 when none are."""
    for size in (1, 2, 3):
        if int(digits[:size]) in phonenumbers.COUNTRY_CODE_TO_REGION_CODE:
            return size
    return 0


@cache
def _numbers_of(code: str) -> tuple[frozenset[int], re.Pattern[str]]:
    """The lengths and the shape of the national numbers behind a calling code. `phonenumbers` has
    the figures; asking it number by number would cost 50 microseconds each."""
    lengths: set[int] = set()
    shapes = []
    for region in phonenumbers.COUNTRY_CODE_TO_REGION_CODE[int(code)]:
        known = (
            PhoneMetadata.metadata_for_nongeo_region(int(code))
            if region == "001"
            else PhoneMetadata.metadata_for_region(region)
        )
        if known is not None and known.general_desc is not None:
            lengths.update(known.general_desc.possible_length)
            shapes.append(known.general_desc.national_number_pattern or "(?!)")
    return frozenset(lengths), re.compile("|".join(f"(?:{shape})" for shape in shapes) or "(?!)")


def _stands_alone(text: str, run: re.Match[str]) -> bool:
    """Not one of many numbers in a row (a hex dump, a matrix)."""
    before = text[max(0, run.start() - 6) : run.start()].rstrip(" \t")
    after = text[run.end() : run.end() + 6].lstrip(" \t")
    return not before[-1:].isdigit() and not after[:1].isdigit()


#: `mobile: "6142129"`
_FIELD_OF: Final = re.compile(r"[:=][ \t]{0,2}[\"']?\Z")
#: Numbers of Denmark, Norway and Luxembourg that look like an address of a machine.
_PAIRS: Final = re.compile(r"\d\d(?:\.\d\d){3}")
_SURER_THAN_IP: Final = 0.82


def _by_context(text: str, run: re.Match[str], written: str, digits: str, words: _Words) -> float:
    start, end = run.span()
    spoken = _is_spoken_of(text[max(0, start - _REACH) : start], words) or (
        _WORDS_AFTER.match(text, end) is not None
    )
    sign = -1 if spoken else text.rfind("@", max(0, start - _EMAIL_REACH), start)
    beside = sign >= 0 and _EMAIL_BEFORE.match(text, sign, start) is not None
    if not spoken and not beside:
        return 0.0
    if len(digits) > 13 or (len(digits) in (10, 13) and digits == written and digits[0] == "1"):
        return 0.0  # epoch seconds and milliseconds
    if digits == written and len(digits) < 8 and not _FIELD_OF.search(text, start - 4, start):
        return 0.0
    if spoken and _PAIRS.fullmatch(written):
        return _SURER_THAN_IP
    if beside:
        return 0.55 if 8 <= len(digits) <= 12 else 0.0
    return 0.6


_TAGS: Final = re.compile(r"(?:</?[\w:.\-]{1,24}(?:[ ][^<>\n]{0,60})?>\s{0,3}){1,4}\Z")


def _is_spoken_of(before: str, words: _Words) -> bool:
    """Whether a word for a phone stands close before, with no other number between."""
    if "<" in before and before[-1:] in (">", " ", "\n"):
        tags = _TAGS.search(before)
        if tags is not None:
            if _WORDS.search(before, tags.start()):
                return True  # `<mobile>…`
            before = before[: tags.start()]
    line = before.rstrip(" \t")
    line = line[:-1] if line.endswith("\n") else before
    line = _LAST_WORDS.split(line)[-1]
    if line not in words:
        found = next(reversed(list(_WORDS.finditer(line))), None)
        words[line] = None if found is None else (found.group().lower(), found.end())
    last = words[line]
    if last is None or len(line) - last[1] > _GAP:
        return False
    if line[last[1] :].lstrip().startswith("(") and last[0].startswith("call"):
        return False  # source code
    return _OTHER.search(line, last[1]) is None


_LAST_WORDS: Final = re.compile(rf"[\d\r\n{HIDDEN}]")


def _is_column_value(written: str) -> bool:
    digits = sum(c.isdigit() for c in written)
    return _FEWEST <= digits <= _MOST and not _DATE.match(written)


#: Below the head of a column there is no word beside a number; read by `labeled`.
VALUES: Final = (
    Value(
        "PHONE",
        "phone",
        words(
            "phone|phone number|phone no|mobile|mobile number|mobile phone|cell|cell phone|"
            "telephone|tel|tel no|fax|fax number|home phone|work phone|contact number|msisdn|"
            "handy|telefon|telefonnummer|rufnummer|mobil|mobilnummer|téléphone|telephone|"
            "portable|teléfono|telefono|móvil|movil|cellulare|telefone|telemóvel|telefoon|"
            "telefoonnummer|mobiel|telefon komórkowy|komórka|puhelin|puhelinnumero|tlf|"
            "sími|farsími|símanúmer|gsm|mob|tālrunis|tālr|telefonas|telefoninumber|"
            "cep|cep telefonu|"
            "celular|téléphone portable|tél|tfno|電話|電話番号|携帯|"
            "tlf nr|τηλέφωνο|κινητό|τηλ|telefonszám|whatsapp|sms|telefón|mobilní telefon|"
            "телефон|тел|мобилен|мобилен телефон|puh"
        ),
        re.compile(r"\+?\(?\d[\d \u00a0.\-/()]{5,22}\d(?:[ ]?(?:x|ext\.?)[ ]?\d{1,6})?"),
        _is_column_value,
        Reach.COLUMN,
        (),
        _SURER_THAN_IP,
    ),
)
