"""Manifests whose values are secrets by what the manifest is: a Kubernetes `kind: Secret`, in YAML
and JSON, with `data:` in base64 and `stringData:` in clear.

Invariant: pure and linear; every manifest is read once. Called by `SecretRule`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from gateway.redaction.detectors.base import HIDDEN, Source
from gateway.redaction.detectors.values import Judge
from gateway.redaction.spans import Span

#: What every text holds in which anything is found here.
TRIGGERS: Final = ("Secret",)
_KIND: Final = re.compile(
    r"[\"']?kind[\"']?[ \t]{0,3}:[ \t]{0,3}[\"']?Secret[\"']?[ \t]{0,3}(?=[,}\r\n]|\Z)"
)
#: A manifest's document, at most so far before and behind the line that says its kind.
_REACH: Final = 20_000
_BREAK: Final = re.compile(r"^---", re.MULTILINE)
_BLOCK: Final = re.compile(r"^(?P<indent>[ \t]*)(?:stringData|data):[ \t]*\r?\n", re.MULTILINE)
_ENTRY: Final = re.compile(
    r"(?P<indent>[ \t]*)[\"']?(?P<key>[\w.\-/]{1,253})[\"']?:[ \t]*"
    r"(?:[|>][+-]?\d?[ \t]*\r?\n(?P<block>(?:[ \t]+[^\r\n]*(?:\r?\n|\Z)|[ \t]*\r?\n){1,400}+)|"
    rf"[\"']?(?P<value>[^\r\n\"'#{HIDDEN}]{{0,8000}})[\"']?[^\r\n]*(?:\r?\n|\Z))"
)
_EMPTY: Final = re.compile(r"[ \t]*(?:#[^\r\n]*)?\r?\n")
_JSON: Final = re.compile(r"\"(?:stringData|data)\"[ \t]{0,3}:\s{0,40}\{(?P<body>[^{}]{0,20000})\}")
_MEMBER: Final = re.compile(
    r"\"(?P<key>[\w.\-/]{1,253})\"\s{0,8}:\s{0,8}\"(?P<value>(?:[^\"\\]|\\.){1,8000})\""
)
_FLOW: Final = re.compile(
    r"^[ \t]*(?:stringData|data):[ \t]*\{(?P<body>[^{}\n]{1,4000})\}", re.MULTILINE
)
_FLOW_MEMBER: Final = re.compile(
    r"(?P<key>[\w.\-]{1,253})[\"']?:[ ]{0,3}[\"']?(?P<value>[^\s,\"'{}]{1,4000})"
)
#: Entries of a secret that are none.
_OPEN: Final = re.compile(
    r"user(?:name)?|host(?:name)?|port|database|dbname|db|namespace|endpoint|region|type|url_?scheme|ca\.crt|tls\.crt|"
    r"email|engine|driver",
    re.IGNORECASE,
)


def manifest_secrets(source: Source, judge: Judge) -> Iterator[Span]:
    """Yield the values of every Kubernetes secret in the text."""
    text = source.text
    if "Secret" not in text or "kind" not in text:
        return
    done = 0
    for kind in _KIND.finditer(text):
        if kind.start() < done:
            continue
        first = max(done, kind.start() - _REACH)
        for found in _BREAK.finditer(text, first, kind.start()):
            first = found.end()
        end = _BREAK.search(text, kind.end(), kind.end() + _REACH)
        last = end.start() if end else min(len(text), kind.end() + _REACH)
        done = last
        for start, stop in (*_yaml(text, first, last), *_json(text, first, last)):
            value = text[start:stop]
            if len(value) > 2 and not judge.is_placeholder("", value):
                yield Span(start, stop, "SECRET", 0.9, "manifest")


def _yaml(text: str, first: int, last: int) -> Iterator[tuple[int, int]]:
    for block in _BLOCK.finditer(text, first, last):
        at = block.end()
        outer = len(block["indent"])
        while at < last:
            empty = _EMPTY.match(text, at, last)
            if empty is not None:
                at = empty.end()
                continue
            entry = _ENTRY.match(text, at, last)
            if entry is None or len(entry["indent"]) <= outer:
                break
            at = entry.end()
            if _OPEN.fullmatch(entry["key"]):
                continue
            part = "block" if entry["block"] is not None else "value"
            span = _stripped(text, *entry.span(part))
            if part == "block":
                at = entry.start("block") + _belonging(entry["block"], len(entry["indent"]))
                span = _stripped(text, entry.start("block"), at)
            yield span


def _belonging(block: str, indent: int) -> int:
    """How much of the lines below a key is deeper than the key."""
    size = 0
    for line in block.splitlines(keepends=True):
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        size += len(line)
    return size


def _json(text: str, first: int, last: int) -> Iterator[tuple[int, int]]:
    for bodies, member in ((_JSON, _MEMBER), (_FLOW, _FLOW_MEMBER)):
        for body in bodies.finditer(text, first, last):
            for found in member.finditer(text, body.start("body"), body.end("body")):
                if not _OPEN.fullmatch(found["key"]):
                    yield found.span("value")


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
