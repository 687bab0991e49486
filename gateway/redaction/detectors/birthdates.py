"""Dates of birth: dates right behind a word for one, in the languages and forms of the EU and US.

Any date in a text is no one's birthday until the text says so. Read by `labeled`. A time of
midnight belongs to the date before it; years are those of people alive or in living memory.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.redaction.detectors.labels import Reach, Value, words

#: Beginnings of the months' names, in the languages of the EU, Norwegian, Icelandic.
_MONTHS: Final = words(
    "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|"  # en, nl, nordic
    "jän|januar|märz|mai|okt|dez|mrz|"  # de
    "janv|fév|fev|mars|avr|juin|juil|aoû|aou|sept|déc|"  # fr
    "ene|abr|ago|dic|enero|"  # es
    "gen|mag|giu|lug|set|ott|"  # it
    "out|abr|fevereiro|maio|março|marco|dezembro|"  # pt
    "mrt|mei|maart|okt|"  # nl
    "sty|lut|kwi|maj|cze|lip|sie|wrz|paź|paz|lis|gru|"  # pl
    "led|úno|uno|bře|bre|dub|kvě|kve|čer|cer|srp|zář|zar|říj|rij|pro|"  # cs
    "jún|júl|máj|febr|márc|ápr|szept|"  # sk, hu
    "ian|iun|iul|noi|"  # ro
    "tam|hel|maa|huh|tou|kes|hei|elo|syy|lok|mar|jou|"  # fi
    "ιαν|φεβ|μαρ|μάρ|απρ|μαΐ|μαϊ|μαι|ιουν|ιουλ|ιούν|ιούλ|αυγ|αύγ|σεπ|οκτ|νοε|νοέ|δεκ|"  # el
    "яну|фев|апр|май|юни|юли|авг|сеп|окт|ное|дек|янв|июн|июл|"  # bg, ru
    "sij|velj|ožu|tra|svi|lip|srp|kol|ruj|stu|pros|avg|"  # hr, sl
    "vee|mär|juu|okt|det|"  # et
    "sau|vas|kov|bal|geg|bir|lie|rgp|rugp|rugs|spa|lap|gruo|"  # lt
    "jūn|jūl"
)
_MONTH: Final = rf"(?:{'|'.join(sorted(set(_MONTHS), key=len, reverse=True))})[^\W\d_]{{0,8}}\.?"
_YEAR: Final = r"(?:18[89]\d|19\d\d|20[0-3]\d)"
_DAY: Final = r"(?:0?[1-9]|[12]\d|3[01])"
_NUMBER: Final = r"(?:0?[1-9]|1[0-2])"
_MIDNIGHT: Final = r"(?:[T ]00:00(?::00(?:\.0{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?)?"

_DATE: Final = re.compile(
    "(?<![\\w])(?:"
    rf"{_YEAR}(?P<a>[-/. ])[ ]?{_NUMBER}(?P=a)[ ]?{_DAY}\.?{_MIDNIGHT}"
    rf"|(?:{_DAY}(?P<b>[-/. ])[ ]?{_NUMBER}|{_NUMBER}(?P<c>[-/. ])[ ]?{_DAY})(?:(?P=b)|"
    rf"(?P=c))[ ]?(?:{_YEAR}|\d\d){_MIDNIGHT}"
    rf"|{_YEAR}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])|(?:0[1-9]|[12]\d|3[01])(?:0[1-9]"
    rf"|1[0-2]){_YEAR}"
    rf"|(?:[^\W\d_]{{3,12}}, )?{_DAY}(?:st|nd|rd|th|er|º|ª|\.|-(?:go|ого))?(?:[ \-/.]|[ ](?:of"
    rf"|de|del|di|d')[ ]?|,[ ])"
    rf"{{1,2}}{_MONTH}(?:[ \-/,.]|[ ](?:de|del)[ ]){{1,2}}'?(?:{_YEAR}|\d\d)"
    rf"|(?:[^\W\d_]{{3,12}}, )?{_MONTH}[ \-.]{_DAY}(?:st|nd|rd|th)?[ ,.\-]{{1,2}}{_YEAR}"
    rf"|{_YEAR}[ \-.,]{{1,2}}{_MONTH}[ \-]{_DAY}\.?"
    rf"|{_YEAR}, ?{_NUMBER}, ?{_DAY}"
    rf"|{_YEAR}[年년][ ]?{_NUMBER}[月월][ ]?{_DAY}[日일]"
    r")(?![\w]|[/\-]\d)",
    re.IGNORECASE,
)


def is_date(written: str) -> bool:
    """The form says it all, but for what fields hold that nobody filled in."""
    return len(written) >= len("1.2.80") and not _UNSET.match(written)


_UNSET: Final = re.compile(r"1900-01-01|01[./]01[./]1900")


#: `Heike Waldvogel (* 03.11.1996)`, and nothing else between the brackets.
BORN: Final = "(* "
BORN_SIGN: Final = re.compile(
    rf"\(\*[ ](?P<date>{_DATE.pattern})(?=\)|,|;|[ ]in[ ])", re.IGNORECASE
)

VALUES: Final = (
    Value(
        "BIRTHDATE",
        "birthdate",
        words(
            "dob|d.o.b|d.o.b.|date of birth|birth date|birthdate|birthday|bday|b-day|"
            "fecha de nac|fecha de nac.|f. de nac.|fecha de nacim.|data di nasc.|date de naiss.|"
            "date naiss|data nasc|geburtsdat.|födelsedag|"
            "birth day|(b. |, b. |geb.-dat.|geb.-datum|geb dat|born|born on|was born|born in|"
            "birth|birthdate is|birth dt|dateofbirth|"
            "patient dob|dt of birth|geburtsdatum|geburtstag|geboren|geboren am|geb|geb.|"
            "geb. am|geb am|geburts datum|geb.datum|geb datum|né|née|né le|née le|né(e) le|"
            "ne le|nee le|né(e)|date de naissance|naissance|anniversaire|d naissance|"
            "date naissance|fecha de nacimiento|fecha nacimiento|nacimiento|nacido|nacida|"
            "nacido el|nacida el|nació|nació el|nací|nací el|naci el|"
            "f. nacimiento|f. nac.|fecha nac|fec nac|"
            "cumpleaños|fnac|data di nascita|data nascita|nascita|nato|nata|nato il|nata il|"
            "nato/a|nato a|nata a|nato/a il|compleanno|data de nascimento|data nascimento|"
            "nascimento|nascido|nascida|nascido em|nascida em|nascido a|nasceu|nasci|nasci em|"
            "nasci a|dn|"
            "aniversário|geboortedatum|geboorte datum|geboren op|geb.datum|geboortedag|"
            "data urodzenia|urodzony|urodzona|urodzony/a|ur.|urodzenia|urodził się|"
            "urodziła się|urodziłem się|urodziłam się|urodziny|data ur|ημερομηνία γέννησης|"
            "ημ. γέννησης|ημ/νία γέννησης|"
            "γεννήθηκε|γεννηθείς|γέννηση|γέννησης|födelsedatum|född|född den|fødselsdato|"
            "fødselsdag|født|født den|fødd|fodselsdato|syntymäaika|syntynyt|syntymäpäivä|"
            "syntymaaika|fæðingardagur|fæddur|fædd|datum narození|nar.|nar|narozen|narozena|"
            "narozený|"
            "narozená|dátum narodenia|narodený|narodená|születési dátum|született|"
            "születési idő|szül|szül.|születésnap|data nașterii|data nasterii|născut|născută|"
            "nascut la|născut la|născută la|дата на раждане|роден|родена|дата рождения|"
            "родился|родилась|datum rođenja|rođen|rođena|datum rodenja|datum rojstva|rojen|"
            "rojena|sünniaeg|sündinud|sünnikuupäev|dzimšanas datums|dzimis|dzimusi|"
            "生年月日|誕生日|出生日期|出生年月日|생년월일|"
            "gimimo data|gimė|doğum tarihi|dogum tarihi|doğum t.|d. tarihi"
        ),
        _DATE,
        is_date,
        Reach.NEXT,
        (),
        0.85,
    ),
    Value(
        "BIRTHDATE",
        "birthplace",  # the place stands between
        words(
            "place and date of birth|date and place of birth|luogo e data di nascita|"
            "data e luogo di nascita|lieu et date de naissance|date et lieu de naissance|"
            "lugar y fecha de nacimiento|fecha y lugar de nacimiento|geburtsort und -datum|"
            "geburtsdatum und -ort|geburtsort und geburtsdatum|geboorteplaats en -datum|"
            "miejsce i data urodzenia|data i miejsce urodzenia|"
            "née en|né en|née au|né au|nato in|nata in|född på|"
            "nato a|nata a|nato/a a|né à|née à|born in|nacido en|nacida en|geboren in|geboren te|"
            "nascido em|nascida em|urodzony w|urodzona w|natural de|född i|født i"
        ),
        _DATE,
        is_date,
        Reach.NEAR,
        (),
        0.8,
        digits=True,
    ),
)
