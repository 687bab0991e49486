"""Street addresses, and names in their fields, in the scripts of Japan, China and Korea.

`東京都港区六本木1-2-3`, `北京市朝阳区建国路88号`, `서울특별시 강남구 테헤란로 152`.
An address is told by its block or house number and the names of an administrative area before it.
Invariant: the search begins at the number, and looks back a bounded stretch. Called by `addresses`
and `people`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.spans import Span

_HAN: Final = r"\u3005\u3006\u4e00-\u9fff"
_CHARACTER: Final = rf"[{_HAN}\u3041-\u30ff]"
_DIGITS: Final = r"[0-9\uff10-\uff19]"
_DASH: Final = r"[\-\u2010-\u2015\u2212\uff0d\u30fc]"
#: A block and a house: `1-2-3`, `4丁目5番6号`, `88号`.
_NUMBER: Final = re.compile(
    rf"(?<={_CHARACTER})[ ]?(?:{_DIGITS}{{1,4}}|[一二三四五六七八九十]{{1,3}}(?=丁目))"
    rf"(?:丁目(?:{_DIGITS}{{1,4}}(?:番地?|{_DASH}{_DIGITS}{{1,4}})?)?(?:{_DASH}?{_DIGITS}{{1,4}}号?)?"
    rf"|番地?(?:の?{_DIGITS}{{1,4}}号?)?|(?:{_DASH}{_DIGITS}{{1,4}}){{1,3}}|[号號弄])"
    rf"(?!(?<![号號弄]){_DIGITS}|{_DASH}{_DIGITS}|[月日年]|[线線])"
)
#: The building and the flat behind it.
_FLAT: Final = re.compile(
    rf"[ \u3000]?(?:[\u30a1-\u30ff{_HAN}A-Za-z]{{2,20}}[ \u3000]?{_DIGITS}{{1,4}}"
    rf"(?:号室|号|號|階|室|F)?|{_DIGITS}{{1,4}}(?:号楼|栋|单元|室|楼|樓)"
    rf"(?:{_DIGITS}{{1,4}}(?:单元|室|号))*)(?!\w)"
)
_REACH: Final = 32
_RUN: Final = re.compile(rf"{_CHARACTER}{{2,{_REACH}}}\Z")
_PREFECTURE: Final = re.compile(
    rf"北海道|東京都|京都府|大阪府|[{_HAN}]{{2,3}}[県省]|[{_HAN}]{{2,3}}?(?:自治区|市)(?=[{_HAN}])"
)
_MUNICIPALITY: Final = re.compile(rf"[{_HAN}ヶケ]{{1,5}}?[市区區郡町村县](?={_CHARACTER})")
_POSTCODE: Final = re.compile(
    rf"〒?[ ]?(?<!\d)\d{{3}}{_DASH}\d{{4}}[ \u3000\n]{{0,2}}\Z|(?<!\d)\d{{6}}[ ]?\Z"
)
_KOREAN: Final = re.compile(
    r"(?<![가-힣])[가-힣]{1,6}(?:시|도)[ ](?:[가-힣]{1,5}(?:시|군|구)[ ]){1,2}"
    r"(?:[가-힣]{1,5}(?:읍|면)[ ])?"
    r"[가-힣0-9]{1,10}(?:로|길|동)[ ]?\d{1,4}(?:-\d{1,4})?(?:번길[ ]?\d{1,4})?(?:번지|호)?"
    r"(?:,?[ ](?:[가-힣A-Za-z0-9]{1,12}[ ])?\d{1,4}(?:동|호|층)(?:[ ]\d{1,4}호)?)?"
)
#: Fields of a person's name.
EASTERN_FIELDS: Final = (
    "氏名",
    "姓名",
    "お名前",
    "收件人",
    "收货人",
    "宛名",
    "患者名",
    "성명",
    "이름",
)
_NAMED: Final = re.compile(
    rf"(?:{'|'.join(EASTERN_FIELDS)})[\"'`]?[ ]?[:：=\uff1a][ \u3000]?[\"'`]?"
    rf"(?P<name>[{_HAN}]{{1,4}}[ \u3000][{_HAN}]{{1,4}}|[{_HAN}]{{2,5}}?(?=様|殿|先生|女士|さん)"
    rf"|[{_HAN}]{{2,5}}|[가-힣]{{2,5}}|[\u30a1-\u30ff]{{2,8}}[ \u3000・][\u30a1-\u30ff]{{2,8}})"
    rf"(?![{_HAN}가-힣]{{3}})"
)
#: What forms show before anybody filled them in.
_UNFILLED: Final = frozenset(
    ("必須", "必填", "任意", "未設定", "未入力", "不能为空", "필수", "없음", "空")
)


def eastern_names(text: str) -> Iterator[Span]:
    """Yield names behind the fields for them."""
    if text.isascii():
        return
    if not any(field in text for field in EASTERN_FIELDS):
        return
    for found in _NAMED.finditer(text):
        if found["name"] not in _UNFILLED:
            yield Span(*found.span("name"), "NAME", 0.8, "field")


_STREETS: Final = frozenset("路街道巷弄里")


def eastern_addresses(text: str) -> Iterator[Span]:
    """Yield addresses written in Japanese, Chinese and Korean."""
    if text.isascii():
        return
    if any(sign in text for sign in "市区區郡町村县"):
        for number in _NUMBER.finditer(text):
            start = _start(text, number)
            if start is not None:
                flat = _FLAT.match(text, number.end())
                end = number.end() if flat is None else flat.end()
                yield Span(start, end, "ADDRESS", 0.8, "street-eastern")
    if "구 " in text or "시 " in text or "군 " in text:
        for found in _KOREAN.finditer(text):
            yield Span(*found.span(), "ADDRESS", 0.8, "street-eastern")


def _start(text: str, number: re.Match[str]) -> int | None:
    """Where the address with this number begins."""
    floor = max(0, number.start() - _REACH)
    run = _RUN.search(text, floor, number.start())
    if run is None:
        return None
    written = number.group()
    chinese = written[-1] in "号號" and "番" not in written and "丁" not in written
    if chinese and not _STREETS.intersection(text[run.start() : number.start()]):
        return None
    area = _PREFECTURE.search(text, run.start(), number.start()) or _MUNICIPALITY.search(
        text, run.start(), number.start()
    )
    if area is None:
        return None
    code = _POSTCODE.search(text, max(0, area.start() - 14), area.start())
    return area.start() if code is None else code.start()
