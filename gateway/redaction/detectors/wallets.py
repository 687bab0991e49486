"""Addresses of crypto wallets: Bitcoin and its kin, Ethereum, Tron, Monero, Cardano; Solana and
Ripple.

Base58 ones by their version byte and checksum, Bech32 ones by theirs (arithmetic: python-stdnum's).
Ethereum's by form alone: its checksum is optional. Solana's have none, so a word for it must stand
by. Left alone: the zero address and others of a few digits only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import ClassVar, Final

from stdnum import bitcoin

from gateway.redaction.detectors.base import Rule, Source, Triggers, occurrences
from gateway.redaction.detectors.labels import Reach, Value
from gateway.redaction.spans import Span

_B58: Final = "1-9A-HJ-NP-Za-km-z"
#: Version bytes: BTC 0 5, testnet 111 196, LTC 48 50, DOGE 30 22, DASH 76 16, TRX 65; ZEC has two.
_VERSIONS: Final = frozenset({0, 5, 48, 50, 30, 22, 76, 16, 65})
_BASE58: Final = re.compile(
    rf"[13LMDXTA](?<![A-Za-z0-9_+][13LMDXTA])[{_B58}]{{25,33}}(?![A-Za-z0-9_+=])"
)
_RIPPLE: Final = re.compile(rf"r(?<![A-Za-z0-9_+]r)[{_B58}]{{24,34}}(?![A-Za-z0-9_+=])")
_RIPPLE_DIGITS: Final = "rpshnaf39wBUDNEGHJKLM4PQRST7VWXYZ2bcdeCg65jkm8oFqi1tuvAxyz"
_BITCOIN_DIGITS: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_FROM_RIPPLE: Final = str.maketrans(_RIPPLE_DIGITS, _BITCOIN_DIGITS)

#: Human-readable parts: Bitcoin, its testnet, Litecoin, Cardano, Cosmos.
_BECH32_HEADS: Final = ("bc1", "tb1", "ltc1", "addr1", "stake1", "cosmos1")
_BECH32: Final = re.compile(r"[ac-hj-np-z02-9AC-HJ-NP-Z]{30,110}(?!\w)")
_BECH32_DIGITS: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_CONSTANTS: Final = (1, 0x2BC830A3)  # BIP 173, BIP 350
_ETHEREUM: Final = re.compile(r"0x(?<!\w0x)[0-9a-fA-F]{40}(?![0-9A-Za-z_])")
_CASH: Final = re.compile(r"bitcoincash:[qp][ac-hj-np-z02-9]{41}(?!\w)")
#: One pattern for each first digit: `re` skips to a literal many times faster than to a set.
_MONERO: Final = tuple(
    re.compile(rf"{first}(?<!\w{first})[0-9AB][{_B58}]{{93}}(?:[{_B58}]{{11}})?(?!\w)")
    for first in "48"
)
_EXTENDED_HEADS: Final = ("xpub", "ypub", "zpub")
_EXTENDED: Final = re.compile(rf"[{_B58}]{{100,112}}(?!\w)")
_FEWEST_KINDS: Final = 6
#: Of all of these, without what stands before.
_SHORTEST: Final = 25

VALUES: Final = (
    Value(
        "WALLET",
        "wallet",
        (
            "solana", "sol address", "sol wallet", "phantom", "wallet", "wallet address", "spl",
            "c"
            "r"
            "y"
            "p"
            "t"
            "o address", "xrp", "btc", "bitcoin", "bitcoin address", "btc address", "solana wallet",
            "solana address", "wallet id", "payout address", "deposit address", "public key base58",
        ),
        re.compile(rf"(?<![\w/+])[{_B58}]{{32,44}}(?![\w/+=])"),
        lambda written: (
            any(c.isdigit() for c in written)
            and any(c.isupper() for c in written)
            and any(c.islower() for c in written)
            and len(set(written)) > 12
        ),
        Reach.NEXT,
        (),
        0.7,
    ),
)  # fmt: skip


class WalletRule(Rule):
    """Finds addresses of crypto wallets."""

    KINDS: ClassVar = ("WALLET",)

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(literals=(*_EXTENDED_HEADS, "bitcoincash:"), digits=1)

    def spans(self, source: Source) -> Iterator[Span]:
        """Look at everything with the first letters of one."""
        if not source.may_hold_run(_SHORTEST):
            return
        text = source.text
        folded = source.folded
        ripple = any(word in folded for word in ("xrp", "ripple", "wallet", "crypto"))
        for pattern in (_BASE58, _RIPPLE) if ripple else (_BASE58,):
            for match in pattern.finditer(text):
                written = match.group()
                if _is_mixed(written) and _is_base58check(written, pattern is _RIPPLE):
                    yield Span(match.start(), match.end(), "WALLET", 0.95, "base58")
        yield from _by_form(text)
        for at, head in occurrences(folded, _BECH32_HEADS):
            body = _BECH32.match(text, at + len(head))
            if body is None or text[max(0, at - 1) : at].isalnum():
                continue
            if _is_bech32(text[at : body.end()]):
                yield Span(at, body.end(), "WALLET", 0.95, "bech32")


def _by_form(text: str) -> Iterator[Span]:
    """Addresses known by their length and letters alone."""
    if "0x" in text:
        for match in _ETHEREUM.finditer(text):
            if len(set(match.group()[2:].lower())) > _FEWEST_KINDS:
                yield Span(match.start(), match.end(), "WALLET", 0.85, "ethereum")
    for at, head in occurrences(text, _EXTENDED_HEADS):
        body = _EXTENDED.match(text, at + len(head))
        if body is not None and not text[max(0, at - 1) : at].isalnum():
            yield Span(at, body.end(), "WALLET", 0.85, "extended")
    if "bitcoincash:" in text:
        for match in _CASH.finditer(text):
            yield Span(match.start(), match.end(), "WALLET", 0.9, "cash")
    for pattern in _MONERO:
        for match in pattern.finditer(text):
            if _is_mixed(match.group()):
                yield Span(match.start(), match.end(), "WALLET", 0.9, "monero")


def _is_mixed(written: str) -> bool:
    words = written.isalpha() and (written.islower() or written.isupper())
    return not written.isdigit() and not words and len(set(written)) > _FEWEST_KINDS


def _is_base58check(written: str, ripple: bool) -> bool:
    plain = written.translate(_FROM_RIPPLE) if ripple else written
    try:
        raw = bitcoin.b58decode(plain)
    except ValueError:
        return False
    versions = {0} if ripple else _VERSIONS
    if len(raw) not in (25, 26) or (len(raw) == 25 and raw[0] not in versions):
        return False
    return hashlib.sha256(hashlib.sha256(raw[:-4]).digest()).digest()[:4] == raw[-4:]


def _is_bech32(written: str) -> bool:
    if written.lower() != written and written.upper() != written:
        return False
    head, _, body = written.lower().rpartition("1")
    values = [_BECH32_DIGITS.find(c) for c in body]
    if not head or -1 in values:
        return False
    expanded = [ord(c) >> 5 for c in head] + [0] + [ord(c) & 31 for c in head]
    return bitcoin.bech32_checksum(expanded + values) in _CONSTANTS
