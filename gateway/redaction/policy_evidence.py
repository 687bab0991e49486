"""What a policy says of kept evidence: which payloads, whose they are, and for how long.

Owns the table `evidence` of a policy file. Invariants: nothing is kept unless the file says so; a
header that carries a credential is never a name for people; what is to be erased when it expires
says when that is, and a class that the law names is kept at least as long. Pure. Called by
`policy_file`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from gateway.redaction.policy_table import PolicyTable
from shared.evidence.retention import CLASSES, MAX_DAYS, Retention
from shared.evidence.rules import BYTES_LIMIT, MAX_BYTES, EvidenceRules, Keep, Subject

_EVIDENCE: Final = frozenset(
    {"keep", "subject", "retention", "max_bytes", "media", "required", "erase_expired"}
)
_RETENTION: Final = frozenset({"class", "days"})
#: Names a retention class of one's own may have.
_CLASS: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
_HEADER: Final = re.compile(r"[a-z0-9-]{1,64}")
#: Headers that carry credentials are no names for people.
_NO_SUBJECTS: Final = frozenset(
    {"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-goog-api-key"}
)
_MEDIA: Final = re.compile(r"[a-z0-9.+*-]+/[a-z0-9.+*-]+")


def evidence_rules(table: PolicyTable) -> EvidenceRules:
    """Read the table `evidence`. Raises PolicyError."""
    table.only(_EVIDENCE)
    subject, header = _subject(table)
    max_bytes = table.get("max_bytes", MAX_BYTES)
    if type(max_bytes) is not int or not 1 <= max_bytes <= BYTES_LIMIT:
        raise table.wrong("max_bytes", f"must be a number of bytes from 1 to {BYTES_LIMIT}.")
    media = table.texts("media", ("*/*",))
    if not media or not all(_MEDIA.fullmatch(item) for item in media):
        raise table.wrong(
            "media",
            "must list media types in small letters, such as 'application/json' or 'text/*'.",
        )
    required = table.flag("required", default=True)
    erase_expired = table.flag("erase_expired", default=False)
    retention = _retention(table.table("retention"))
    if erase_expired and not retention.name:
        raise table.wrong(
            "erase_expired", "needs evidence.retention, which says when something expires."
        )
    return EvidenceRules(
        keep=table.choice("keep", Keep.NONE),
        subject=subject,
        header=header,
        retention=retention,
        max_bytes=max_bytes,
        media=media,
        required=required,
        erase_expired=erase_expired,
    )


def _subject(table: PolicyTable) -> tuple[Subject, str]:
    """Return whose the evidence is, and the header's name where a header says it."""
    value: Any = table.get("subject", "role")
    if value in (Subject.ROLE, Subject.SESSION):
        return Subject(value), ""
    word, colon, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    name = name.lower()
    if word != Subject.HEADER or not colon or not _HEADER.fullmatch(name) or name in _NO_SUBJECTS:
        raise table.wrong(
            "subject",
            "must be 'role', 'session' or 'header:<name>' with a header that carries no "
            "credential.",
        )
    return Subject.HEADER, name


def _retention(table: PolicyTable) -> Retention:
    table.only(_RETENTION)
    if not table.values:
        return Retention()
    name, days = table.get("class"), table.get("days")
    if not isinstance(name, str) or not _CLASS.fullmatch(name):
        raise table.wrong(
            "class",
            f"must be one of {', '.join(sorted(CLASSES))}, or a name of your own in small letters.",
        )
    if type(days) is not int or not 1 <= days <= MAX_DAYS:
        raise table.wrong("days", f"must be a number from 1 to {MAX_DAYS}.")
    if days < CLASSES.get(name, 0):
        raise table.wrong(
            "days", f"is {days}; the class '{name}' asks for at least {CLASSES[name]}."
        )
    return Retention(name, days)
