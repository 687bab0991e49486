"""Public IP addresses, version 4 and 6; what the policy allows (loopback, private, …) stays.

Left alone: version numbers of four parts (`v1.2.3.4`, `Chrome/91.0.4472.124`, `==1.2.3.4`), longer
dotted numbers (object identifiers), times, MAC addresses and `name::name` of source code.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import ClassVar, Final

from gateway.redaction.detectors.base import HIDDEN, Rule, Source, Triggers
from gateway.redaction.detectors.labels import Reach, Value, words
from gateway.redaction.policy import IP_CLASSES, Policy
from gateway.redaction.spans import Span

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_V4: Final = re.compile(
    r"\d(?<!\w\d)(?<!\w\.\d)\d{0,2}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?![\w]|\.\d)", re.ASCII
)
#: Words and signs before four numbers that make them a version.
_VERSION_BEFORE: Final = re.compile(
    r"(?:(?<![A-Za-z])(?:version|release|ver|revision|build|tag|upgrade[sd]? to|python|chrome|"
    r"firefox|safari|edge|sections?|step|rfc|object_?identifier|chapter|clause|figure|table|workflow|oid\w{0,24})[\"']?\s*[:=]?"
    r"\s*[\"'(]{0,2}v?|[A-Za-z_)]/|[=~<>!]=\s*[\"']?|\bv\.?[ ]?|(?<=[\w.)\]])-|§\s?)\Z",
    re.IGNORECASE,
)
_BEFORE: Final = 36
#: Where such a word or sign stands before an address all the same: right behind the host of a URL,
#: behind a word for a machine, behind the first of a range, behind the number of a line.
_NOT_A_VERSION: Final = re.compile(
    r"(?:://[^\s/\"'<>]{1,100}/|(?<![A-Za-z0-9])(?:ips?|ip-?addr(?:ess)?|hosts?|servers?|nodes?|"
    r"clients?|peers?|whois|lookup|geo(?:ip)?|from|addr(?:ess)?)[/-]|(?:\d{1,3}\.){3}\d{1,3}-|"
    r"(?:(?<![^\n])|\.[a-z]{1,5}-)\d{1,6}-)\Z",
    re.IGNORECASE,
)
_URL_REACH: Final = 110
#: Four numbers this small are a section or a version (`5.2.1.1`, `pkg@1.2.3.4`), unless something
#: beside them speaks of a machine.
_SMALL: Final = 32
_MACHINE: Final = re.compile(
    r"(?:\bip|addr|host|server|\bfrom\b|client|peer|\bssh|ping|src|dst|proxy|remote|inet|://|"
    r"allow|deny|block|listen|dns|\bvia\b|connect|gateway|origin|forwarded|node)"
    rf"[^\r\n{HIDDEN}]{{0,14}}\Z",
    re.IGNORECASE,
)

#: Two colons with at most one group between them: the only places an IPv6 address can be.
_V6_HINT: Final = re.compile(r":(?<!::)(?=[0-9A-Fa-f]{0,4}:)")
_V6_LEFT: Final = re.compile(r"[0-9A-Fa-f]{1,4}\Z")
_V6: Final = re.compile(
    r"(?:[0-9A-Fa-f]{0,4}:){2,8}(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]{0,4})(?![A-Za-z0-9_:])"
)
#: `face:2a02:…`: a word before a whole address that only looks like a group of it.
_HEX_LABEL: Final = re.compile(
    r"[A-Fa-f][0-9A-Fa-f]{0,3}:(?=[23][0-9A-Fa-f]{3}:(?:[0-9A-Fa-f]{1,4}:){6}[0-9A-Fa-f]{1,4}(?![\w:]))"
)
_V6_GROUPS: Final = 8
_NOT_A_NAME: Final = 4


#: Below the head of a column nothing tells a small address from a version; read by `labeled`.
VALUES: Final = (
    Value(
        "IP",
        "ipv4",
        words(
            "ip|ip address|ip addr|ipv4|ip adresse|adresse ip|dirección ip|indirizzo ip|client ip|"
            "source ip|src ip|dst ip|remote ip|remote addr|last login ip|host ip|server ip"
        ),
        re.compile(r"(?:\d{1,3}\.){3}\d{1,3}", re.ASCII),
        lambda _: True,
        Reach.COLUMN,
        (),
        0.8,
    ),
)


class IpRule(Rule):
    """Finds IP addresses that point at someone."""

    KINDS: ClassVar = ("IP",)

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._networks = [
            ipaddress.ip_network(name) for name in sorted(policy.allowed.ip - IP_CLASSES)
        ]
        self._ordinary = _ORDINARY - {
            str(first)
            for first in range(256)
            for network in self._networks
            if network.version == 4 and network.overlaps(ipaddress.ip_network(f"{first}.0.0.0/8"))
        }

    def triggers(self) -> Triggers:
        """See `Rule.triggers`."""
        return Triggers(literals=(".", ":"))

    def spans(self, source: Source) -> Iterator[Span]:
        """Look at dotted quads, then at colon groups."""
        text = source.text
        judged: dict[str, bool] = {}
        versions: dict[tuple[str, str], bool] = {}
        for match in source.at_digits(_V4):
            written = match.group()
            if written not in judged:
                judged[written] = self.points_at_someone(written)
            if (
                judged[written]
                and not self._is_reversed(text, match)
                and not _is_version(text, match, versions)
                and not _is_network(text, match.start(), match.end())
            ):
                yield Span(match.start(), match.end(), "IP", 0.8, "ipv4")
        if text.count(":") > 1:
            yield from self._version_6(text, judged)

    def _version_6(self, text: str, judged: dict[str, bool]) -> Iterator[Span]:
        done = 0
        for hint in _V6_HINT.finditer(text):
            if hint.start() < done:
                continue
            left = _V6_LEFT.search(text, max(0, hint.start() - 4), hint.start())
            start = left.start() if left else hint.start()
            if left is None and text[start + 1] != ":":
                continue  # no address begins with a single colon
            if start and _continues(text, start):
                continue
            match = _V6.match(text, start)
            if match is None:
                continue
            done = match.end()
            label = _HEX_LABEL.match(text, start)
            if label is not None:
                match = _V6.match(text, label.end()) or match
                start = match.start()
            end = _v6_end(text, match)
            if end is None:
                continue
            written = text[start:end]
            if written not in judged:
                judged[written] = self.points_at_someone(written)
            if judged[written] and not _is_network(text, start, end):
                yield Span(start, end, "IP", 0.8, "ipv6")

    def points_at_someone(self, written: str) -> bool:
        """Whether it is an address, and none the policy allows."""
        if written.partition(".")[0] in self._ordinary and _QUAD.fullmatch(written):
            return True
        try:
            address = ipaddress.ip_address(written)
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address):
            if address in _TRANSLATED:
                address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
            else:
                address = address.ipv4_mapped or address
        return not self._allowed_networks_hold(address) and classes(address).isdisjoint(
            self.policy.allowed.ip
        )

    def _is_reversed(self, text: str, match: re.Match[str]) -> bool:
        """`1.0.0.127.in-addr.arpa`: the name of an address the policy allows."""
        if not text.startswith(_ARPA, match.end()):
            return False
        return not self.points_at_someone(".".join(reversed(match.group().split("."))))

    def _allowed_networks_hold(self, address: _Address) -> bool:
        return any(
            address.version == network.version and address in network for network in self._networks
        )


#: First numbers of addresses none of which is anything but a machine's; `classes` knows the others.
_ORDINARY: Final = frozenset(
    str(first) for first in range(1, 224) if first not in (10, 100, 127, 169, 172, 192, 198, 203)
)
_PART: Final = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_QUAD: Final = re.compile(rf"(?:{_PART}\.){{3}}{_PART}", re.ASCII)


def classes(address: _Address) -> set[str]:
    """The policy's names for what `address` is."""
    found = set()
    if address.is_loopback:
        found.add("loopback")
    if address.is_unspecified or (address.version == 4 and int(address) >> 24 == 0):
        found.add("unspecified")
    if address in (_LINK_LOCAL_4 if address.version == 4 else _LINK_LOCAL_6):
        found.add("link_local")
    if address.is_multicast:
        found.add("multicast")
    if any(address in network for network in _DOCUMENTATION if network.version == address.version):
        found.add("documentation")
    elif not found and (
        address in _UNIQUE_LOCAL
        if address.version == 6
        else address.is_private or address in _SHARED
    ):
        found.add("private")
    if address.version == 4 and (
        int(address) >> 28 == 15 or int(address) & 0xFF000000 == 0xFF000000
    ):
        found.add("broadcast")
    return found


_ARPA: Final = ".in-addr.arpa"
#: What holds an address of version 4 in its last 32 bits (RFC 6052).
_TRANSLATED: Final = ipaddress.ip_network("64:ff9b::/96")
_LINK_LOCAL_4: Final = ipaddress.ip_network("169.254.0.0/16")
_LINK_LOCAL_6: Final = ipaddress.ip_network("fe80::/64")  # RFC 4291: the other 54 bits are zero
_UNIQUE_LOCAL: Final = ipaddress.ip_network("fc00::/7")
_SHARED: Final = ipaddress.ip_network("100.64.0.0/10")  # inside a provider's network, RFC 6598
_DOCUMENTATION: Final = tuple(
    ipaddress.ip_network(network)
    for network in (
        "192.0.2.0/24",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "2001:db8::/32",
        "3fff::/20",
    )
)


_PREFIX_LENGTH: Final = re.compile(r"/(\d{1,3})(?!\d)")


_SMALL_4: Final = 24
_SMALL_6: Final = 48


def _is_network(text: str, start: int, end: int) -> bool:
    """`8.0.0.0/8` names a network and no machine in it; one as small as `93.184.216.0/24` is
    somebody's, as an address is."""
    length = _PREFIX_LENGTH.match(text, end)
    if length is None:
        return False
    try:
        network = ipaddress.ip_network(text[start:end] + length.group())
    except ValueError:  # host bits are set, or the length is none
        return False
    return network.prefixlen < (_SMALL_4 if network.version == 4 else _SMALL_6)


def _is_version(text: str, match: re.Match[str], judged: dict[tuple[str, str], bool]) -> bool:
    """`judged` remembers within one text, where lists repeat what they hold."""
    before = text[max(0, match.start() - _BEFORE) : match.start()]
    key = (before, match.group())
    if key not in judged:
        small = all(int(part) < _SMALL for part in match.group().split("."))
        judged[key] = _VERSION_BEFORE.search(before) is not None or (
            small and _MACHINE.search(before) is None
        )
    if judged[key] and before[-1:] in ("/", "-"):
        small = all(int(part) < _SMALL for part in match.group().split("."))
        floor = max(0, match.start() - _URL_REACH)
        if not small and _NOT_A_VERSION.search(text, floor, match.start()):
            return False
    if judged[key] and _COMPARED.search(before):
        return False
    return judged[key] and (
        _PORT.match(text, match.end()) is None or _VERSION_BEFORE.search(before) is not None
    )


#: `user.last_ip == "85.207.191.61"`: compared, but no version.
_COMPARED: Final = re.compile(
    r"(?:(?<![A-Za-z])ip|Ip|IP|addr(?:ess)?|host|server|client|remote|peer)\w{0,3}[\"')\]]{0,2}"
    r"[ ]?[=!]==?"
    r"\s{0,2}[\"']?\Z"
)
_PORT: Final = re.compile(r":\d{2,5}\b")


_WORD: Final = re.compile(r"[A-Za-z0-9_]")
#: `contact:2a02:…`, ` :2a02:…`: behind no group of an address, a colon belongs to no address.
_LEFT_WORD: Final = re.compile(r"(?:\A|[^\w:])\Z|\w{1,5}\Z", re.ASCII)
_GROUP: Final = re.compile(r"[0-9A-Fa-f]{1,4}")
_LABEL_REACH: Final = 5


def _continues(text: str, start: int) -> bool:
    """Whether what begins at `start` is the rest of a longer word, number or address."""
    before = text[start - 1]
    if before == ":":
        word = _LEFT_WORD.search(text, max(0, start - 1 - _LABEL_REACH), start - 1)
        return word is None or _GROUP.fullmatch(word.group()) is not None
    if before == ".":
        return start > 1 and _WORD.match(text, start - 2) is not None
    return _WORD.match(before) is not None


def _v6_end(text: str, match: re.Match[str]) -> int | None:
    """Where the address ends, if it is one: a whole word, enough groups, no source code."""
    end = match.end()
    if _WORD.match(text, end):
        return None
    written = match.group().rstrip(":") if not match.group().endswith("::") else match.group()
    groups = [group for group in written.split(":") if group]
    if "::" not in written:
        if len(groups) == _V6_GROUPS + 1 and written.count(":") == _V6_GROUPS:
            written = written.rpartition(":")[0]  # a port behind the address
        elif len(groups) < _V6_GROUPS and "." not in written:
            return None
    elif (
        # Everything routed begins with 2 or 3; `abc::def` is a name in source code.
        "." not in written
        and not re.match(r"[23][0-9A-Fa-f]{3}:", written)
        and (len(groups) < _NOT_A_NAME or not any(c.isdigit() for c in written))
    ):
        return None
    return match.start() + len(written)
