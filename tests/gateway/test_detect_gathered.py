"""Persons where a format or a habit of writing says that they stand: lists of those who attend,
lines over quotations, patients in HL7 and FHIR, directories, addresses in eastern scripts."""

from __future__ import annotations

import re
import time

import pytest

from gateway.redaction.detectors.base import Source
from gateway.redaction.detectors.eastern import eastern_addresses, eastern_names
from gateway.redaction.detectors.engine import Detector
from gateway.redaction.detectors.people import PeopleRule
from gateway.redaction.detectors.segments import SegmentRule
from gateway.redaction.policy_file import load_policy

FOUND = {
    "NAME": [
        "Attendees: «Priya Nair», «Tom Hughes», «Lena Fischer»\nAgenda: x",
        "Reviewers: «Ewa Nowak», «Jan Kowalski» and «Piotr Zieliński»",
        "Present: «Grace Kim» (chair), «David Osei» (notes)",
        "Teilnehmer: «Anna Krüger», «Markus Baum»",
        "Participants : «Sophie Martin», «Hugo Bernard»",
        "Asistentes: «Carmen Ruiz», «Pablo Vega» y «Inés Soler»",
        "Aanwezig: «Joris Smit», «Marieke Vos»",
        "Παρόντες: «Νίκος Παπαδόπουλος», «Μαρία Γεωργίου»",
        "Partecipanti:\n- «Luca Ferri»\n- «Elena Greco»",
        "Ship to\n«Robert Chen»\n",
        "«Maria Lopez» wrote:\n> red again",
        "On Tue, 3 Mar 2026 at 09:12, «Maria Lopez» wrote:\n> red again",
        "> On Apr 1, 2026 at 3:02 PM «Gina Alvarez» wrote:",
        "Am 01.04.26 um 15:02 schrieb «Dirk Schreiber»:",
        "Le 3 mars 2026 à 10:12, «Marc Petit» a écrit :",
        "Op 3 mrt. 2026 om 10:00 schreef «Daan Visser»:",
        "W dniu 3.03.2026 o 10:00 «Jan Nowak» pisze:",
        "Von: «Uwe Keller» [mailto:uwe.keller@t-online.de]",
        '{"name":[{"family":"«Haddad»","given":["«Samir»","«Omar»"]}]}',
        '{"resourceType":"Patient","name":[{"use":"x","text":"«Ingrid Solberg»"}]}',
        "dn: uid=x\ncn: «Chloé Moreau»\nsn: «Moreau»\n",
        "氏名: «山田太郎»", "姓名：«王小明»，", "성명: «김민수»", "ФИО: «Иванов Иван»",
    ],
    "ADDRESS": [
        "お届け先は«大阪府大阪市北区梅田3丁目1番3号»です。",
        "住所: «〒106-0032 東京都港区六本木6-10-1»",
        "配送先 «神奈川県横浜市西区みなとみらい2-2-1 ランドマークタワー1203号室»",
        "地址：«北京市朝阳区建国路88号»，电话",
        "收货 «广东省深圳市南山区科技路12号3栋502室»",
        "주소: «서울특별시 강남구 테헤란로 152»",
        "ADR;TYPE=HOME:;;«ul. Długa 12/4;Gdańsk;;80-827»;Poland",
    ],
    "PHONE": ["Tel. «0221 / 765 43 98»", "Tel. «030 / 901 820»", "手机 «13800138000»"],
    "BIRTHDATE": ["生年月日: «1985年4月12日»", "생년월일 «1985년 4월 12일»"],
    "NATIONAL_ID": [
        "주민등록번호 «780305-1235562»", "CURP «LOGM920823MDFPRR01»", "RUT «10.217.898-K»",
    ],
    "TAXID": ["CUIT «20-62774914-8»"],
}  # fmt: skip

LEFT = [
    "Attendees: TBD", "Attendees: all hands, engineering", "Participants: 12",
    "Members: Read Only, Full Access", "Team: Platform Engineering, Data Science",
    "Participants: Red Guild, Blue Guild", "Claude wrote:", "Code Review wrote:",
    "The compiler wrote: 42 bytes", "PID|1|running|0.3", "PID|name|cpu\n1|init|0.1",
    "cn: Domain Users", "dn: x\ncn: config\nsn: 12345", '{"font": {"family": "Arial"}}',
    '{"family": "Arial", "given": []}', "Am Mo., 2. Feb. 2026 um 10 Uhr läuft der Build",
    "Am 12. März 2026 wurde deployt", "Zum 1. April 2026 kündigen wir", "Im 2. Quartal 2026",
    "LOCATION:Room 4", "2026年3月1日 12時30分", "第2章 第3節 1-2-3", "市区町村コード 13103",
    "3-2-1 バックアップ", "氏名: 必須", "ratio 030 / 901 / 820", "retry after 200 / 300 / 400 ms",
    "ADR:0x40021000;RCC", "run 20260402-1 passed", "INSERT INTO products (id, name, price) "
    "VALUES (1, 'Blue Widget', 19.99);", "sku,name,qty\n10021,Red Mug,4\n10022,Green Mug,9",
]  # fmt: skip

PID = (
    "MSH|^~\\&|LAB|H|E|H|20260301||ORU^R01|1|P|2.5\r"
    "PID|1||4837261^^^H^MR~99812^^^X||Jensen^Karen^L||19620417|F|||"
    "12 Elm Street^^Springfield^IL^62704||(217)555-0147\r"
    "PV1|1|O|||||0093^Lindgren^Olof"
)


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_policy())


@pytest.mark.parametrize(("kind", "case"), [(kind, c) for kind in FOUND for c in FOUND[kind]])
def test_a_value_is_found_where_the_form_says_one_stands(
    detector: Detector, kind: str, case: str
) -> None:
    parts = re.split("[«»]", case)
    text = "".join(parts)
    assert [text[s.start : s.end] for s in detector.find(text) if s.kind == kind] == parts[1::2]


@pytest.mark.parametrize("text", LEFT)
def test_what_only_looks_alike_is_left_alone(detector: Detector, text: str) -> None:
    assert detector.find(text) == []


def test_an_hl7_message_gives_its_patient(detector: Detector) -> None:
    assert [(s.kind, PID[s.start : s.end]) for s in detector.find(PID)] == [
        ("HEALTH", "4837261"),
        ("HEALTH", "99812"),
        ("NAME", "Jensen^Karen^L"),
        ("BIRTHDATE", "19620417"),
        ("ADDRESS", "12 Elm Street^^Springfield^IL^62704"),
        ("PHONE", "(217)555-0147"),
        ("NAME", "Lindgren^Olof"),
    ]


@pytest.mark.parametrize(
    "unit",
    [
        "Attendees: ", "Attendees: Anna Bell, ", "Anna Bell wrote:", " wrote:", "PID|",
        "PID|1||1~", " PID|1|||A^B|", "NK1|A^B",
        "PID|||||A^B|", "市1-", "東京都港区六本木1-2-3", "市" * 30 + "1-1", "서울시 강남구 ",
        "氏名:",
        '"family" "given":["', '"name":[{"text', "ADR;" * 20, "\nADR:;;;", "[mailto:a@b ",
        "Am 1. ", "Bill to:\n- ", "구 시 가로 1", "\ncn: A", "030 / 1 ",
    ],
)  # fmt: skip
def test_100_kb_of_anything_take_under_100_ms_in_a_rule(unit: str) -> None:
    """The rules read each stretch a bounded number of times."""
    text = (unit * (100_000 // len(unit) + 1))[:100_000]
    policy = load_policy()
    reads = (
        lambda: list(SegmentRule(policy).spans(Source(text))),
        lambda: list(eastern_addresses(text)),
        lambda: list(eastern_names(text)),
        lambda: list(PeopleRule(policy).spans(Source(text[:25_000]))),
    )
    for read in reads:
        started = time.process_time()
        read()
        # Ten times what is asked for: the machine may be busy; a square law takes a minute.
        assert time.process_time() - started < 1
