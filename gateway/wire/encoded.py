"""Texts written another way within a text: words of base64 (packed by gzip or not) and of
hexadecimal digits, values of a form or a query, texts spelled out in a list.

Owns how such a word is recognized, opened, and closed again after what it holds was read: its
alphabet, padding, line ends and length in the word around it stay. Invariants: a word in which
nothing was found keeps its characters; the search is linear, and a text without such words costs
one look at its runs of letters. Pure: what is opened is read by the `read` that is handed in.
Called by `walk`.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import re
import string
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote_plus, unquote_plus

#: Returns the text that a word held as it is to be written: redacted, or the very same.
Read = Callable[[str], str]
#: The same for a value that has a name.
ReadValue = Callable[[str, str], str]

#: Shortest base64 word that is opened, with its padding: eight bytes.
SHORTEST_BASE64: Final = 12
#: Eighteen bytes and more are hardly ever UTF-8 by chance; of fewer, all must be readable.
_SURE_BASE64: Final = 24
#: A base64 word by itself, over several lines when the first ones are as long as tools write them.
_BASE64_WORD: Final = re.compile(
    r"(?<![A-Za-z0-9+/_-])"
    r"(?:(?:(?:[A-Za-z0-9+/]{60,80}\r?\n[ \t]*)+[A-Za-z0-9+/]+"
    r"|[A-Za-z0-9+/]{14,}+|[A-Za-z0-9_-]{14,}+)={0,2}+|[A-Za-z0-9+/_-]{10,13}+={1,2}+)(?![A-Za-z0-9+/_=-])"
)
#: Base64 of twelve and more ASCII characters, at whatever place of a longer word (a path, a name
#: in front) it begins: the upper bit of every byte is zero.
_BASE64_INSIDE: Final = re.compile(
    r"(?:[A-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]){4,}"
    r"(?:[A-Za-f][A-HQ-Xg-nw-z0-3](?:[ABEFIJMNQRUVYZcdghklopstwx014589]=?|={0,2}))?"
)
_SHORTEST_INSIDE: Final = 16
#: The letters that stand for two characters of ASCII, and those for a packed text.
_ASCII_HEAD: Final = re.compile(r"[A-Za-f][A-HQ-Xg-nw-z0-3][ABEFIJMNQRUVYZcdghklopstwx014589]")
_GZIP_HEAD: Final = "H4s"
#: Longest word that is searched for base64 inside; a longer one is a file.
_LONGEST_SEARCHED: Final = 4096
#: Most bytes that are unpacked of a compressed base64 word.
_MOST_UNPACKED: Final = 1 << 20
#: Every byte of a text: `x` for what such words and those of hexadecimal digits consist of.
_RUNS: Final = bytes(
    ord("x")
    if chr(code).isascii() and (chr(code).isalnum() or chr(code) in "+/_-")
    else ord("=")
    if chr(code) == "="
    else ord(" ")
    for code in range(256)
)
#: A run that may be such a word, and a shorter one that its padding makes one.
_RUN: Final = b"x" * 14
_PADDED: Final = b"x" * 10 + b"="
_LETTER: Final = ord("x")
_LETTERS: Final = re.compile(rb"x+")
_SHORTEST_HEX: Final = 20
#: Ten and more printable characters in hexadecimal.
_HEX_WORD: Final = re.compile(
    r"[2-7][0-9a-fA-F](?<![0-9A-Za-z]..)"
    r"(?:[2-7][0-9a-fA-F]|0[9aAdD]){9,}+(?![0-9A-Za-z])"
    r"|0x(?<![0-9A-Za-z]..)(?:[2-7][0-9a-fA-F]|0[9aAdD]){10,}+(?![0-9A-Za-z])"
)
#: The value of a pair of a form or a query, when it is written with escapes; and what its name
#: consists of.
_FORM_VALUE: Final = re.compile(
    r"=([^\s&%+=\"'`<>#;(){}|\\]*+(?:%[0-9a-fA-F]{2}|\+)[^\s&\"'`<>#;(){}|\\]*+)"
)
_FORM_NAME: Final = string.ascii_letters + string.digits + "_.-[]"
_LONGEST_FORM_NAME: Final = 66
_FORM_PLAIN: Final = "[]!*'(),/:@?"
#: Characters or bytes of a text in a list of their own.
_SHORTEST_SPELLED: Final = 8
#: Groups of a number in a list.
_FEWEST_GROUPS: Final = 3
_GROUP: Final = re.compile(r"[+(]{0,2}\d{1,8}\)?", re.ASCII)
_LINE_END: Final = re.compile(r"\r?\n[ \t]*")
_URL_SAFE: Final = {0x2D: "+", 0x5F: "/"}
#: The first bytes of what gzip packed.
GZIP_MAGIC: Final = b"\x1f\x8b"
#: Which bytes of four are mostly zero in text of Western letters and digits.
_ZEROS: Final[Mapping[tuple[bool, bool, bool, bool], str]] = {
    (False, True, False, True): "utf-16-le",
    (True, False, True, False): "utf-16-be",
    (False, True, True, True): "utf-32-le",
    (True, True, True, False): "utf-32-be",
}
#: The first byte of a mark, or a later one.
_MARKS: Final = 0xFE
#: What a text of an older encoding has at least: bytes, and the share that is ASCII to read.
_SHORTEST_OLD: Final = 32
_OLD_SHARE: Final = 0.9
_PRINTABLE: Final = bytes((9, 10, 13, *range(32, 127)))


def forms_read(text: str, read: ReadValue) -> str:
    """Return `text` with the values of a form or a query read, each under its name."""
    if "=" not in text or ("%" not in text and "+" not in text):
        return text
    return _FORM_VALUE.sub(lambda found: _form_value(found, read), text)


def words_read(text: str, read: Read) -> str:
    """Return `text` with every word of base64 and hexadecimal digits read."""
    parts: list[str] = []
    copied = done = 0
    digits = False
    for start, end in _runs(text):
        digits = digits or (
            end - start >= _SHORTEST_HEX and _HEX_WORD.search(text, start, end) is not None
        )
        found = None if start < done else _BASE64_WORD.match(text, start)
        if found is None:
            continue
        word, done = found.group(), found.end()
        opened = _base64(word, read)
        if opened != word:
            parts += (text[copied:start], opened)
            copied = done
    if parts:
        text = "".join((*parts, text[copied:]))
    if not parts and not digits:
        return text
    return _HEX_WORD.sub(lambda found: _hexadecimal(found.group(), read), text)


def spelled_in(items: list[Any]) -> str | None:
    """Return the text that a list spells: one character, one byte or one group of a number an
    item; or None."""
    if len(items) < _SHORTEST_SPELLED:
        grouped = len(items) >= _FEWEST_GROUPS and all(
            isinstance(item, str) and _GROUP.fullmatch(item) for item in items
        )
        return " ".join(items) if grouped else None
    if isinstance(items[0], str):
        spells = all(isinstance(item, str) and len(item) <= 2 for item in items)
        return "".join(items) if spells else None
    if not all(type(item) is int and 9 <= item < 256 for item in items):
        return None
    try:
        text = bytes(items).decode()
    except UnicodeDecodeError:
        return None
    return text if _is_readable(text) else None


def _runs(text: str) -> Iterator[tuple[int, int]]:
    """Yield the places of the runs of letters that may be such words, in order. Every run is found
    in the bytes many times faster than its like is matched in the text."""
    runs = text.encode("latin-1", "replace").translate(_RUNS)
    long, padded = runs.find(_RUN), runs.find(_PADDED)
    while long >= 0 or padded >= 0:
        start = long if padded < 0 <= long or 0 <= long <= padded else padded
        while start and runs[start - 1] == _LETTER:  # of a short one its end was found
            start -= 1
        run = _LETTERS.match(runs, start)
        end = run.end() if run is not None else len(runs)
        yield start, end
        if 0 <= long < end:
            long = runs.find(_RUN, end)
        if 0 <= padded < end:
            padded = runs.find(_PADDED, end)


def _form_value(found: re.Match[str], read: ReadValue) -> str:
    """Read the value of a form's pair; a single `a=b` in the middle of a text is code."""
    text, start, end = found.string, found.start(), found.end()
    near = text[max(0, start - _LONGEST_FORM_NAME) : start]
    before = near.rstrip(_FORM_NAME)
    is_pair = before.endswith(("?", "&")) or text[end : end + 1] == "&" or end == len(text)
    if not is_pair or len(before) == len(near):
        return found.group()
    decoded = unquote_plus(found[1], errors="replace")
    scanned = read(decoded, near[len(before) :])
    return found.group() if scanned == decoded else f"={quote_plus(scanned, safe=_FORM_PLAIN)}"


def _hexadecimal(word: str, read: Read) -> str:
    mark = "0x" if word[:2] == "0x" else ""
    decoded = bytes.fromhex(word.removeprefix(mark)).decode("ascii", "replace")
    scanned = read(decoded)
    return word if scanned == decoded else mark + scanned.encode().hex()


def _base64(word: str, read: Read) -> str:
    """Read a base64 word that is a text, and encode again what changed of it."""
    opened = _opened(word)
    if opened is None:
        if not _SHORTEST_INSIDE <= len(word) <= _LONGEST_SEARCHED:
            return word
        return _BASE64_INSIDE.sub(lambda found: _inside(found.group(), read), word)
    decoded, encoding = opened
    scanned = read(decoded)
    return word if scanned == decoded else _closed(_bytes(scanned, encoding), word)


def _inside(piece: str, read: Read) -> str:
    """Read base64 within a longer word; what follows it must keep its place."""
    opened = _opened(piece)
    if opened is None:
        return piece
    scanned = read(opened[0])
    if scanned == opened[0]:
        return piece
    raw = _bytes(scanned, opened[1])
    if not piece.endswith("=") and len(piece) % 4 == 0:
        raw += b" " * (-len(raw) % 3)
    return _closed(raw, piece)


def _opened(word: str) -> tuple[str, str] | None:
    """Return the text that a base64 word holds and its encoding, or None when it holds none."""
    compact = ("".join(word.split()) if "\n" in word else word).rstrip("=")
    if len(compact) % 4 == 1:
        return None
    # Most are names in source code, whose first letters tell it.
    if (
        len(compact) < _SURE_BASE64
        and _ASCII_HEAD.match(compact) is None
        and not compact.startswith(_GZIP_HEAD)
    ):
        return None
    if "-" in compact or "_" in compact:
        compact = compact.translate(_URL_SAFE)
    raw = binascii.a2b_base64(compact + "=" * (-len(compact) % 4))
    if raw[:2] == GZIP_MAGIC:
        text = _unpacked(raw)
        return None if text is None else (text, "gzip")
    if len(compact) < _SURE_BASE64 and not raw.isascii():
        return None
    decoded = _decoded(raw)
    if decoded is None:
        return None
    text = decoded[0]
    sure = len(compact) >= _SURE_BASE64 or (text.isascii() and _is_readable(text))
    return decoded if sure else None


def _decoded(raw: bytes) -> tuple[str, str] | None:
    """Return bytes as text with its encoding, or None when they are none."""
    # Most are none: one look tells that there is no zero in them, nor a mark of wide characters.
    wide = wide_encoding(raw) if b"\0" in raw or raw[0] >= _MARKS else None
    for encoding in (wide, "utf-8") if wide is not None else ("utf-8",):
        with contextlib.suppress(UnicodeDecodeError):
            return raw.decode(encoding), encoding
    is_old = len(raw) >= _SHORTEST_OLD and (
        len(raw.translate(None, _PRINTABLE)) <= len(raw) * (1 - _OLD_SHARE)
    )
    return (raw.decode("latin-1"), "latin-1") if is_old else None


def _is_readable(text: str) -> bool:
    return all(c.isprintable() or c in "\t\r\n" for c in text)


def wide_encoding(raw: bytes) -> str | None:
    """Return the encoding of text in units of two or four bytes, told by its mark or its zeros."""
    if raw.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32"
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    zeros = [raw[at::4].count(0) * 8 > len(raw) for at in range(4)]
    return _ZEROS.get((zeros[0], zeros[1], zeros[2], zeros[3]))


def _unpacked(raw: bytes) -> str | None:
    """Return the text in bytes that gzip packed, or None when it is none, or too long a one."""
    inflater = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        plain = inflater.decompress(raw, _MOST_UNPACKED)
        return plain.decode() if inflater.eof else None
    except (zlib.error, UnicodeDecodeError):
        return None


def _bytes(text: str, encoding: str) -> bytes:
    if encoding != "gzip":
        return text.encode(encoding, "replace")
    deflater = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    return deflater.compress(text.encode("utf-8", "replace")) + deflater.flush()


def _closed(raw: bytes, like: str) -> str:
    """Return bytes in base64 written like another word: its alphabet, padding and line ends."""
    encode = base64.urlsafe_b64encode if "-" in like or "_" in like else base64.b64encode
    word = encode(raw).decode()
    bare = like.rstrip()
    if not bare.endswith("=") and len("".join(bare.split())) % 4:
        word = word.rstrip("=")
    line_end = _LINE_END.search(bare)
    if line_end is None:
        return word + like[len(bare) :]
    end, width = line_end.group(), line_end.start()
    lines = (word[at : at + width] for at in range(0, len(word), width))
    return end.join(lines) + like[len(bare) :]
