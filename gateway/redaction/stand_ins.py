"""Stand-ins: invented values of the same form, for code that a token would break.

Owns, per kind, the ranges that nobody owns (addresses and domains set aside for documentation,
numbers set aside for fiction, the numbers of test cards), how a value of one is made from a keyed
digest, and how one is recognized in text, whole or in pieces. Invariants: `make` returns only what
the kind's pattern recognizes; what is recognized is bounded by `MAX_STAND_IN` characters. Pure.
Called by `tokens` (to make them), `redactor` (to leave them alone) and `restore` (to find them).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Final

#: Tries to find a stand-in that is free. With half of the few documentation addresses given away,
#: one value in 65,000 gets a token instead.
ATTEMPTS: Final = 16
#: Longest stand-in in characters: an e-mail address is 25, an IPv6 address 24.
MAX_STAND_IN: Final = 32

_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_BODY: Final = "[0-9a-hjkmnp-tv-z]"


class _Digits:
    """Numbers drawn from one digest; each draw divides what is left of it."""

    def __init__(self, digest: bytes) -> None:
        self._left = int.from_bytes(digest, "big")

    def below(self, limit: int) -> int:
        self._left, drawn = divmod(self._left, limit)
        return drawn

    def text(self, count: int) -> str:
        return f"{self.below(10**count):0{count}d}"


def _ip(value: str, draw: _Digits) -> str | None:
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return None
    if address.version == 6:  # RFC 3849; no group has fewer digits when written anew
        return "2001:db8::" + ":".join(f"{0x1000 + draw.below(0xF000):x}" for _ in range(3))
    # RFC 5737; the first numbers are the ones people write themselves.
    network = ("198.51.100", "203.0.113", "192.0.2")[draw.below(3)]
    return f"{network}.{3 + draw.below(252)}"


#: Digits a test card begins with, by the first digit of the card it stands for (Visa, Mastercard
#: both series, Discover, American Express): ranges of the schemes' public test numbers.
_CARDS: Final = {"4": "424242", "5": "555555", "2": "555555", "6": "601111", "3": "378282"}


def _card(value: str, draw: _Digits) -> str | None:
    digits = "".join(c for c in value if c.isdigit())
    if not digits.isascii() or not digits:
        return None
    start = _CARDS.get(digits[0], "424242")
    body = start + draw.text((15 if start == "378282" else 16) - len(start) - 1)
    number = body + _luhn_digit(body)
    separator = next((c for c in value if c in " -"), "")
    return separator.join(_grouped(number)) if separator else number


def _grouped(number: str) -> list[str]:
    if len(number) == 15:
        return [number[:4], number[4:10], number[10:]]
    return [number[i : i + 4] for i in range(0, 16, 4)]


def _luhn_digit(body: str) -> str:
    total = 0
    for position, c in enumerate(reversed(body)):
        number = int(c) * (2 if position % 2 == 0 else 1)
        total += number - 9 if number > 9 else number
    return str(-total % 10)


def _email(value: str, draw: _Digits) -> str | None:
    body = "".join(_ALPHABET[draw.below(32)] for _ in range(8))
    return f"user.{body}@example.{('com', 'org')[draw.below(2)]}"  # RFC 2606


#: UK numbers for drama (Ofcom): area code, then what the fixed part is.
_UK: Final = ("20 7946 0", "113 496 0", "117 496 0", "121 496 0", "131 496 0", "161 496 0")


def _phone(value: str, draw: _Digits) -> str | None:
    digits = "".join(c for c in value if c.isdigit())
    if value.startswith(("+44", "0044")) or (digits.startswith("0") and digits[:2] != "00"):
        country = "+44 " if value.startswith(("+", "00")) else "0"
        return f"{country}{_UK[draw.below(len(_UK))]}{draw.text(3)}"
    # With any North American area code, 555 0100 to 0199 is for fiction (ATIS-0300115).
    area, line = 200 + draw.below(800), f"01{draw.text(2)}"
    return f"+1 {area} 555 {line}" if value.startswith(("+", "00")) else f"{area}-555-{line}"


@dataclass(frozen=True, slots=True)
class _Form:
    """One way a stand-in is written: `parts` are character classes or single characters, in order.
    `before` and `after` are characters that may not stand beside it."""

    parts: tuple[str, ...]
    before: str
    after: str

    @property
    def whole(self) -> str:
        return f"(?<!{self.before}){''.join(self.parts)}(?!{self.after})"

    @property
    def beginning(self) -> str:
        """Every beginning of it, the whole and a full stop behind it included: what comes next may
        take it back."""
        nested = r"\.?"
        for part in reversed(self.parts[1:]):
            nested = f"(?:{part}{nested})?"
        return f"(?<!{self.before}){self.parts[0]}{nested}\\Z"


def _parts(*pieces: str) -> tuple[str, ...]:
    """`=text` is taken character by character, `class*3` three times, a class as it is."""
    parts: list[str] = []
    for piece in pieces:
        if piece.startswith("="):
            parts += [re.escape(c) for c in piece[1:]]
        else:
            one, _, times = piece.partition("*")
            parts += [one] * int(times or 1)
    return tuple(parts)


_NUMBER: Final = r"[\w.\-]"
_HEX: Final = "[0-9a-f]"
_FORMS: Final[dict[str, tuple[_Form, ...]]] = {
    "IP": (
        *(
            _Form((*_parts(f"={network}.", r"\d"), r"\d?", r"\d?"), r"[\w.]", r"\w|\.\d")
            for network in ("198.51.100", "203.0.113", "192.0.2")
        ),
        _Form(
            _parts("=2001:db8::", f"{_HEX}*4", "=:", f"{_HEX}*4", "=:", f"{_HEX}*4"),
            r"[\w:]",
            r"[\w:]",
        ),
    ),
    "CARD": (
        *(
            _Form(_parts(f"={start}", rf"\d*{size - 6}"), _NUMBER, r"\w")
            for start, size in (("424242", 16), ("555555", 16), ("601111", 16), ("378282", 15))
        ),
        *(
            _Form(
                _parts(f"={start}", "[ -]", f"={rest}", r"\d*2", r"[ -]", r"\d*4", "[ -]", r"\d*4"),
                _NUMBER,
                r"\w",
            )
            for start, rest in (("4242", "42"), ("5555", "55"), ("6011", "11"))
        ),
        _Form(_parts("=3782", "[ -]", "=82", r"\d*4", "[ -]", r"\d*5"), _NUMBER, r"\w"),
    ),
    "EMAIL": tuple(
        _Form(_parts("=user.", f"{_BODY}*8", f"=@example.{end}"), r"[\w.%+\-]", r"[\w\-]|\.\w")
        for end in ("com", "org")
    ),
    "PHONE": (
        _Form(_parts("=+1 ", r"\d*3", "= 555 01", r"\d*2"), r"[\w+]", r"\d"),
        _Form(_parts(r"\d*3", "=-555-01", r"\d*2"), r"[\w+\-]", r"[\w\-]"),
        *(_Form(_parts(f"=+44 {area}", r"\d*3"), r"[\w+]", r"\d") for area in _UK),
        *(_Form(_parts(f"=0{area}", r"\d*3"), r"[\w+]", r"\d") for area in _UK),
    ),
}
_MAKERS: Final[dict[str, Callable[[str, _Digits], str | None]]] = {
    "IP": _ip,
    "CARD": _card,
    "EMAIL": _email,
    "PHONE": _phone,
}
#: Kinds that have stand-ins.
KINDS: Final = frozenset(_MAKERS)


def make(kind: str, value: str, digest: bytes) -> str | None:
    """Return the stand-in that `digest` (32 keyed bytes) gives for `value`, or None where the value
    has no form we can imitate, or could not be put back into JSON text just as it is."""
    maker = _MAKERS.get(kind)
    plain = value.isascii() and value.isprintable() and '"' not in value and "\\" not in value
    return None if maker is None or not plain else maker(value, _Digits(digest))


class Shapes:
    """Recognizes stand-ins of some kinds: `whole` anywhere in a text, `beginning` at its end."""

    def __init__(self, kinds: Iterable[str]) -> None:
        forms = [form for kind in sorted(kinds) for form in _FORMS.get(kind, ())]
        self.whole = re.compile("|".join(form.whole for form in forms), re.ASCII)
        self.beginning = re.compile("|".join(form.beginning for form in forms), re.ASCII)

    def is_one(self, text: str) -> bool:
        """Tell whether `text`, all of it, has the form of a stand-in."""
        return self.whole.fullmatch(text) is not None


@cache
def shapes_of(kinds: tuple[str, ...]) -> Shapes | None:
    """Return what recognizes the stand-ins of `kinds`, or None where there are none."""
    known = [kind for kind in kinds if kind in KINDS]
    return Shapes(known) if known else None
