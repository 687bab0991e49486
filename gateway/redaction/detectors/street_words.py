"""Words that have to do with streets, in the languages of the EU, and what each says of one.

Owns the lists and the sort of each word: where a street's name and the number of a house stand
beside it. Invariant: a word is searched for with the blank that must stand beside it, so that most
words that only hold one are left out. Read by `addresses`.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from gateway.redaction.detectors.labels import words


class Sort(Enum):
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
    "village|villages|ville|vista|walks|wall|ways|well|wells|parade|wharf|promenade|arcade|circus|"
    "embankment|vale|croft|yard|broadway"
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
    "woonachtig te|woonachtig aan de|woonachtig|wonende te|wonende aan de|wonende aan|wonende op|"
    "résidant au|résidant|domicilié au|domiciliée au|con domicilio en|zamieszkałym przy|"
    "zamieszkałej przy|"
    "adress|adress:|bor på|bor i|bosatt|osoite|osoite:|asuu|κατοικεί|διεύθυνση|"
    "μένει|lakcím|lakik|adresa|bydliště|bydlí|bytem|restaurant is at|offices are located at|"
    "it's in|street:|user:|pick up at|drop off at|visit us at"
)
#: What is searched for, with the blank that must stand before or behind it: that leaves out most
#: words which only hold one of these.
STREET_WORDS: Final[dict[str, list[Sort]]] = {}
for _sort, _before, _list, _behind in (
    (Sort.LAST, " ", _LAST, ""),
    (Sort.SELDOM_LAST, " ", _SELDOM_LAST, ""),
    (Sort.FIRST, "", [word for word in _FIRST if word[-1] in "./"], ""),
    (Sort.FIRST, "", [word for word in _FIRST if word[-1] not in "./"], " "),
    (Sort.ENDING, "", _ENDING, " "),
    (Sort.ENDING, "", [word for word in _ENDING if len(word) > 3], ", "),
    (Sort.FLAT, " ", _FLAT, ""),
    (Sort.FLAT, "", _FLAT[:5], ""),
    (Sort.BOX, "", _BOX, ""),
    (Sort.PHRASE, "", _PHRASE, ""),
    (Sort.CORNER, "", ["corner of"], ""),
    (Sort.WARD, "", ["-ku", "-shi", "-gun", "-chome", "-chōme", " chome"], ""),
):
    for _word in _list:
        _sorts = STREET_WORDS.setdefault(_before + _word + _behind, [])
        if _sort not in _sorts:
            _sorts.append(_sort)
