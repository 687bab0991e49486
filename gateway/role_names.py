"""Whether the name of a role is one: a key pasted in its place would be in every record and metric.

Owns the judgement beyond the letters that `shared.paths` allows. Invariants: pure and cheap, for
it is made on the event loop, once per new name; a readable name is never refused for its length.
A key is known by how it begins, by the shape its provider gives it, or, from 20 characters on, by
capitals, small letters and digits that make no words. What a generator made of fewer kinds of
characters (a UUID, a digest) may be a name. Called by `routing` and `stamps`.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from shared.paths import is_path_safe_role

#: How keys begin that somebody may paste into a base URL.
_PREFIX: Final = re.compile(
    r"(?:sk-|gh[opsur]_|github_pat_|glpat-|hf_|AKIA|ASIA|AIza|xox[abp]-)[A-Za-z0-9_-]{16,}"
)
#: No generator makes keys shorter than this.
_LEAST: Final = 20
#: A name of many short parts, such as `Team-A-QA-01`, has none as long as this.
_LONG_PART: Final = re.compile(r"[A-Za-z0-9]{12,}")
#: What can be read: a word, an abbreviation, a date or number.
_READABLE: Final = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{4,}|[0-9]{4,}")


def is_role_name(name: str) -> bool:
    """Tell whether `name` may stand for a role in paths, records and metrics."""
    # A role of dots alone would be a dot segment to every other program on the way.
    return is_path_safe_role(name) and name.strip(".") != "" and not looks_like_key(name)


def looks_like_key(name: str) -> bool:
    """Tell whether `name` is more likely a key than the name of a role."""
    if _PREFIX.match(name):
        return True
    if len(name) < _LEAST:
        return False
    return _is_unreadable(name) or any(shape.fullmatch(name) for shape in _shapes())


def _is_unreadable(name: str) -> bool:
    mixed = (
        any(c.isupper() for c in name)
        and any(c.islower() for c in name)
        and any(c.isdigit() for c in name)
    )
    if not mixed or _LONG_PART.search(name) is None:
        return False
    read = sum(map(len, _READABLE.findall(name)))
    return read * 2 < sum(c.isalnum() for c in name)


@functools.cache
def _shapes() -> tuple[re.Pattern[str], ...]:
    from gateway.redaction.detectors.provider_table import KEYS

    return tuple(re.compile(shape, re.ASCII) for _, shape in KEYS)
