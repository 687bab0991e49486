"""Private keys whose lines stand between other text, and lines alone out of the middle of one;
certificates, pictures and checksums in the same places stay.

Every key is made when the test runs.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

import pytest

from gateway.redaction.detectors.engine import Detector
from gateway.redaction.policy_file import load_policy


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector(load_policy())


def wrapped(raw: bytes, width: int = 64) -> list[str]:
    text = base64.b64encode(raw).decode()
    return [text[at : at + width] for at in range(0, len(text), width)]


def drawn(seed: str, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


def key(seed: str, size: int = 1192, width: int = 64, kind: str = "RSA ") -> list[str]:
    lines = wrapped(drawn(seed, size), width)
    return [f"-----BEGIN {kind}PRIVATE KEY-----", *lines, f"-----END {kind}PRIVATE KEY-----"]


def redacted(detector: Detector, text: str) -> str:
    parts, at = [], 0
    for span in detector.find(text):
        parts += (text[at : span.start], "[#]")
        at = span.end
    return "".join((*parts, text[at:]))


Form = Callable[[int, str], str]
#: What tools put before and behind a line; those within which lines alone are not told from data.
TOOLS: dict[str, Form] = {
    "plain": lambda _, line: line,
    "indented": lambda _, line: "    " + line,
    "grep -n": lambda n, line: f"{n}:{line}",
    "grep over files": lambda n, line: f"id_rsa:{n}:{line}",
    "grep -r": lambda _, line: f"/home/jane/.ssh/id_rsa:{line}",
    "cat -A": lambda _, line: f"{line}$",
    "cat -n": lambda n, line: f"{n:6}\t{line}",
    "a viewer": lambda n, line: f"{n:5}→{line}",
    "compose": lambda _, line: f"app-1  | {line}",
    "a log": lambda _, line: f"2026-01-01 10:00:00,123 INFO app.keys {line}",
    "syslog": lambda _, line: f"Jan  1 10:00:00 host app[12]: {line}",
    "a table": lambda _, line: f"| {line} |",
    "a table with numbers": lambda n, line: f"| {n} | {line} |",
    "blame": lambda n, line: f"a1b2c3d4 (Jo 2026-01-01 10:00:00 +0000 {n:2}) {line}",
    "a patch": lambda _, line: f"+{line}",
}
CODE: dict[str, Form] = {
    "strings": lambda _, line: f'    "{line}" +',
    "strings with ends": lambda _, line: f'    "{line}\\n" +',
    "a page": lambda _, line: f"<li>{line}</li>",
    "echo": lambda _, line: f'echo "{line}" >> k.pem',
    "json lines": lambda n, line: f'{{"n":{n},"line":"{line}"}}',
    "porcelain": lambda n, line: f"da39a3ee5e6b4b0d3255bfef95601890afd80709 {n} {n} 1\n\t{line}",
}


def left(text: str, lines: list[str]) -> list[str]:
    return [line for line in lines if line in text or (line[8:28] in text and len(line) > 30)]


@pytest.mark.parametrize("name", [*TOOLS, *CODE])
@pytest.mark.parametrize("ended", ["whole", "without its end"])
def test_no_line_of_a_key_is_left_whatever_stands_around_it(
    detector: Detector, name: str, ended: str
) -> None:
    form = (TOOLS | CODE)[name]
    for width, size in ((64, 1192), (70, 1800), (64, 118)):
        lines = key(f"{name}{width}{size}", size, width)
        shown = lines if ended == "whole" else lines[:-1]
        text = "see:\n" + "\n".join(form(n, line) for n, line in enumerate(shown, 1)) + "\nbye now"
        result = redacted(detector, text)
        assert not left(result, lines[1:-1]), result
        assert result.startswith("see:\n")
        assert result.endswith("bye now")


@pytest.mark.parametrize("name", TOOLS)
def test_lines_without_any_armor_are_found(detector: Detector, name: str) -> None:
    for width in (64, 70, 76):
        lines = key(f"{name}{width}", 1200, width)[4:-3]
        text = "\n".join(TOOLS[name](n, line) for n, line in enumerate(lines, 5))
        assert not left(redacted(detector, f"see:\n{text}\nbye"), lines)


@pytest.mark.parametrize("name", TOOLS)
def test_a_key_without_its_beginning_is_found(detector: Detector, name: str) -> None:
    for size in (118, 1192):
        lines = key(f"{name}{size}", size)[1:]
        text = "\n".join(TOOLS[name](n, line) for n, line in enumerate(lines, 2))
        assert not left(redacted(detector, f"{text}\nbye"), lines[:-1])


def test_a_row_of_bare_keys_does_not_run_into_the_next_name(detector: Detector) -> None:
    raw = bytes.fromhex("308204a40201000282010100") + drawn("bare", 1180)
    text = "\n".join(f"id_rsa:{n}:{line}" for n, line in enumerate(wrapped(raw), 2))
    assert redacted(detector, text).startswith("id_rsa:2:[#]\nid_rsa:3:[#]\n")


def certificate(kind: str) -> str:
    return "\n".join(
        (f"-----BEGIN {kind}-----", *wrapped(drawn(kind, 700)), f"-----END {kind}-----")
    )


@pytest.mark.parametrize(
    "text",
    [
        certificate("CERTIFICATE"), certificate("PUBLIC KEY"), certificate("RSA PUBLIC KEY"),
        "\n".join(wrapped(b"\x89PNG\r\n\x1a\n" + drawn("png", 900), 76)),
        'ICON = b"""\n' + "\n".join(f'  "{line}"' for line in wrapped(drawn("icon", 900))) + '"""',
        "\n".join(drawn(str(n), 32).hex() + "  file" for n in range(9)),
        "\n".join("sha512-" + base64.b64encode(drawn(str(n), 64)).decode() for n in range(9)),
        "\n".join(wrapped(b"All of this is a text that somebody wrapped. " * 30, 76)),
        "\n".join(wrapped("Όλα αυτά είναι κείμενο που κάποιος τύλιξε. ".encode() * 20, 76)),
        "Content-Transfer-Encoding: base64\n\n" + "\n".join(wrapped(drawn("mail", 900), 76)),
        'if "-----BEGIN PRIVATE KEY-----" in text:\n    raise ValueError("a key")',
    ],
)  # fmt: skip
def test_certificates_pictures_and_sums_stay(detector: Detector, text: str) -> None:
    assert not [span for span in detector.find(text) if span.kind == "PRIVATEKEY"]
