"""Takes secrets out of text that is about to leave the machine.

Owns the shapes. Rule: rather too much than too little; what is removed is replaced by a word that
says what it was. Removed are the values of secret-looking variables of the environment, values
given to secret-looking names, tokens of known shapes and long random words, key blocks, credentials
and secret parameters in URLs, e-mail addresses; the home directory becomes `~`. Digests in small
hex, which the logs are read by, stay. Pure. The doctor's bundle uses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final

#: A value this short would tear holes into ordinary words.
_SHORTEST: Final = 6

#: Bounded on both sides, so that a megabyte without a blank costs no more than one with.
_TELLING: Final = (
    r"[A-Za-z0-9_.-]{0,64}?(?:api[_.-]?key|access[_.-]?key|private[_.-]?key|session[_.-]?key"
    r"|secret|token(?!s)|password|passwd|passphrase|credential|authorization|cookie|bearer)"
    r"[A-Za-z0-9_.-]{0,64}"
)
_VARIABLE: Final = re.compile(
    r"KEY|TOKEN|SECRET|PASS|PWD\b|CREDENTIAL|AUTH|COOKIE|DSN|_URL$|_URI$|SALT|SIGNING",
    re.IGNORECASE,
)
#: Variables whose values are places, not secrets, whatever their names hold.
_PLACES: Final = re.compile(r"_SOCK$|_FILE$|_PATH$|_DIR$|_HOME$|^PWD$|^OLDPWD$|BASE_URL$|^XAUTH")

#: `name = value`, `name: value`, `"name": "value"`, `--name value`, `"--name", "value"`.
_GIVEN: Final = re.compile(
    rf"""(?P<name>(?<![A-Za-z0-9]){_TELLING})
         (?P<between>["']?\s*(?:[:=]|,|(?<=[A-Za-z])\s)\s*(?:(?:bearer|basic|token)\s+)?["'\[]?\s*["']?)
         (?P<value>[^\s"'\],;}}]+)""",
    re.IGNORECASE | re.VERBOSE,
)
_FLAG: Final = re.compile(r"(?<!\w)--?[A-Za-z]")

_SHAPES: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    (
        "private key",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
            r"[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
        ),
    ),
    ("authorization", re.compile(r"(?i)\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")),
    ("token", re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?")),
    (
        "token",
        re.compile(
            r"(?<![A-Za-z0-9])(?:sk|pk|rk|ak)[-_][A-Za-z0-9_-]{10,}"
            r"|(?<![A-Za-z0-9])(?:gh[a-z]_|github_pat_|glpat-|gldt-|xox[a-z]-|xapp-|npm_|pypi-|hf_"
            r"|dop_v1_|shpat_|ATATT|AGE-SECRET-KEY-|SG\.|whsec_|ya29\.|GOCSPX-|AIza)"
            r"[A-Za-z0-9._=-]{6,}"
            r"|\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b"
        ),
    ),
    (
        "e-mail",
        re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"),
    ),
)
_URL_LOGIN: Final = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]{0,20}://)[^\s/@\"'<>]{1,512}@")
_URL_PARAMETER: Final = re.compile(
    rf"(?P<lead>[?&;](?:{_TELLING}|key|sig|signature|auth|code)=)[^&\s\"'<>#]+", re.IGNORECASE
)
#: A long word with small and capital letters and digits: nobody writes such a word by hand.
_RANDOM: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{32,}={0,2}")


def scrubber(environ: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that takes secrets out of a text, those of `environ` among them."""
    values = {
        value: name
        for name, value in environ.items()
        if _VARIABLE.search(name) and not _PLACES.search(name) and len(value) >= _SHORTEST
    }
    # The longest first: one secret may be the beginning of another.
    ordered = sorted(values, key=len, reverse=True)
    home = environ.get("HOME", "").rstrip("/")

    def scrub(text: str) -> str:
        for value in ordered:
            text = text.replace(value, _removed(values[value]))
        text = _URL_LOGIN.sub(lambda m: f"{m['scheme']}{_removed('login')}@", text)
        text = _URL_PARAMETER.sub(lambda m: f"{m['lead']}{_removed('value')}", text)
        for what, shape in _SHAPES:
            text = shape.sub(_removed(what), text)
        text = _GIVEN.sub(_without_value, text)
        text = _RANDOM.sub(_unless_plain, text)
        if len(home) > 1:
            text = re.sub(rf"{re.escape(home)}(?![A-Za-z0-9_.-])", "~", text)
        return text

    return scrub


def _removed(what: str) -> str:
    return f"[removed: {what}]"


def _without_value(found: re.Match[str]) -> str:
    value, between = found["value"], found["between"]
    if value.startswith("[removed"):
        return found[0]
    # In running text a name is followed by words; only a flag is followed by its value like that.
    assigned = any(sign in between for sign in ":=")
    flag = _FLAG.match(found["name"]) is not None
    if not assigned and not flag:
        return found[0]
    if value.isdigit() and len(value) < _SHORTEST:
        return found[0]
    return f"{found['name']}{between}{_removed('value')}"


def _unless_plain(found: re.Match[str]) -> str:
    word = found[0]
    kinds = "".join(
        "a" if c.islower() else "A" if c.isupper() else "1" if c.isdigit() else "" for c in word
    )
    changes = sum(one != other for one, other in pairwise(kinds))
    # Random letters and digits change kind at every second place; names and paths rarely do.
    return _removed("token") if len(set(kinds)) == 3 and changes > 0.3 * len(word) else word
