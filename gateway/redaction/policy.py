"""The policy file: what happens to a value of each kind.

Owns the TOML format of `policies/*.toml`. Invariant: a key nobody reads is an error naming it, so a
typo can never switch a protection off; two keys that cannot both be kept are an error naming both;
the digest covers every byte that decides (the file and its terms). Loaded once at start by the
settings, sent to the scanning workers as text.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import ipaddress
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from gateway.redaction import stand_ins
from gateway.redaction.tokens import KIND
from shared.evidence.retention import CLASSES, MAX_DAYS, Retention
from shared.evidence.rules import BYTES_LIMIT, MAX_BYTES, EvidenceRules, Keep, Subject

E = TypeVar("E", bound=StrEnum)


class Action(StrEnum):
    """What to do with a value: replace it by its token, by the name of its kind, by a keyed hash,
    or by an invented value of the same form; refuse the call; let it be."""

    TOKEN = "token"  # noqa: S105 - a policy word
    MASK = "mask"
    HASH = "hash"
    STAND_IN = "stand_in"
    REFUSE = "refuse"
    ALLOW = "allow"


class Opaque(StrEnum):
    """Bytes nobody can read as text (images, PDFs): refuse the call, or pass and record them."""

    PASS = "pass"  # noqa: S105 - a policy word
    REFUSE = "refuse"


class Answers(StrEnum):
    """New values in a provider's answer: left as they are."""

    PASS = "pass"  # noqa: S105 - a policy word


class ScopeRule(StrEnum):
    """Who shares tokens: everybody at this gateway, the callers of one role, or one session of a
    role. Restoring is never wider than the role that introduced a value."""

    DEPLOYMENT = "deployment"
    ROLE = "role"
    SESSION = "session"


class ForeignTokens(StrEnum):
    """A request that holds tokens its sender never introduced: count them, or refuse it too."""

    COUNT = "count"
    REFUSE = "refuse"


class VaultMode(StrEnum):
    """Whether originals are kept: without a vault, tokens stay as they are and nothing comes
    back."""

    ON = "on"
    OFF = "off"


class PolicyError(Exception):
    """The policy cannot be used; the text says which key or file, and what to do."""


@dataclass(frozen=True, slots=True)
class KindRule:
    """`restore`: whether the one who introduced a value gets it back in answers. `threshold`: the
    lowest score (0 to 1) that counts. `ttl`: seconds an original is kept, None for the policy's.
    `allow`: what values of this kind are left alone."""

    action: Action
    restore: bool
    threshold: float = 0.0
    ttl: int | None = None
    allow: re.Pattern[str] | None = None


#: A kind the file does not name (an operator's own recognizer): hidden, and not given back.
UNNAMED_KIND: Final = KindRule(Action.TOKEN, restore=False)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What is left alone although a rule would find it."""

    ip: frozenset[str] = frozenset()
    emails: frozenset[str] = frozenset()
    placeholders: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class NameModel:
    """The language model that finds names: an installed package or a directory (`model`), or an
    operator's Presidio NLP configuration (`nlp_config`); `sha256` pins its files, `kinds` are what
    it may find, below `min_score` (0 to 1) nothing counts."""

    model: str = ""
    nlp_config: Path | None = None
    sha256: str = ""
    kinds: tuple[str, ...] = ("NAME",)
    min_score: float = 0.5


@dataclass(frozen=True, slots=True)
class Policy:
    """One loaded policy; `text` is the file, `digest` the sha256 of `deciding` in hex."""

    id: str
    version: str
    digest: str
    text: str
    kinds: Mapping[str, KindRule]
    opaque: Opaque = Opaque.PASS
    answers: Answers = Answers.PASS
    allowed: Allowed = field(default_factory=Allowed)
    terms: tuple[str, ...] = ()
    recognizers: tuple[str, ...] = ()
    recognizers_file: Path | None = None
    ner: NameModel | None = None
    #: Whether the package kingfisher-secret-scanner looks for secrets too.
    second_opinion: bool = False
    #: Where relative paths of the file begin.
    directory: Path | None = None
    languages: tuple[str, ...] = ("en",)
    scope: ScopeRule = ScopeRule.ROLE
    foreign_tokens: ForeignTokens = ForeignTokens.COUNT
    vault: VaultMode = VaultMode.ON
    ttl: int | None = None
    evidence: EvidenceRules = field(default_factory=EvidenceRules)

    @property
    def deciding(self) -> bytes:
        """Every byte that decides, as one text: the file and, if there are terms, a NUL (which no
        TOML file holds) and one term a line. This is what the ledger keeps under `digest`."""
        return _deciding(self.text, self.terms)

    def rule(self, kind: str) -> KindRule:
        """Return what to do with `kind`; a kind the file does not name is hidden for good."""
        return self.kinds.get(kind, UNNAMED_KIND)

    def restores(self, kind: str) -> bool:
        """Tell whether the one who introduced a value of `kind` gets it back."""
        return self.vault is VaultMode.ON and self.rule(kind).restore

    def lifetime(self, kind: str) -> int | None:
        """Return how many seconds an original of `kind` is kept; None is until it is erased."""
        own = self.rule(kind).ttl
        return self.ttl if own is None else own

    def overlooks(self, kind: str, score: float, value: str) -> bool:
        """Tell whether a find is left alone. Asked before finds that overlap are merged, so that
        what is left alone cannot hide what lies within it."""
        rule = self.rule(kind)
        return (
            rule.action is Action.ALLOW
            or score < rule.threshold
            or (rule.allow is not None and rule.allow.fullmatch(value) is not None)
            or value in self.allowed.values
        )

    def stand_ins(self) -> tuple[str, ...]:
        """Return the kinds that are replaced by stand-ins."""
        return tuple(k for k, rule in self.kinds.items() if rule.action is Action.STAND_IN)


#: Policies that come with the program, by the name that stands for their file.
SHIPPED: Final = frozenset({"base", "strict"})
#: Classes of addresses `allow.ip` may name.
IP_CLASSES: Final = frozenset(
    {"loopback", "unspecified", "private", "link_local", "documentation", "multicast", "broadcast"}
)
_TOP: Final = frozenset(
    {
        "id",
        "version",
        "opaque",
        "answers",
        "kinds",
        "allow",
        "terms",
        "recognizers",
        "recognizers_file",
        "ner",
        "second_opinion",
        "languages",
        "scope",
        "foreign_tokens",
        "vault",
        "ttl",
        "evidence",
    }
)
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
_ALLOW: Final = frozenset({"ip", "emails", "placeholders", "values"})
_TERMS: Final = frozenset({"file", "list"})
_NER: Final = frozenset({"model", "nlp_config", "sha256", "kinds", "min_score"})
#: Kinds a language model may find.
NER_KINDS: Final = frozenset({"NAME", "ADDRESS", "ORGANIZATION"})
_KIND_KEYS: Final = frozenset({"action", "restore", "threshold", "ttl", "allow"})

#: Languages a recognizer may be asked for: ISO 639-1, those of Europe and the largest others.
LANGUAGES: Final = frozenset(
    [
        "ar",
        "bg",
        "bn",
        "ca",
        "cs",
        "cy",
        "da",
        "de",
        "el",
        "en",
        "es",
        "et",
        "eu",
        "fi",
        "fr",
        "ga",
        "gl",
        "he",
        "hi",
        "hr",
        "hu",
        "id",
        "is",
        "it",
        "ja",
        "ko",
        "lb",
        "lt",
        "lv",
        "mk",
        "mt",
        "nb",
        "nl",
        "nn",
        "no",
        "pl",
        "pt",
        "ro",
        "ru",
        "sk",
        "sl",
        "sq",
        "sr",
        "sv",
        "th",
        "tr",
        "uk",
        "vi",
        "zh",
    ]
)
_TTL: Final = re.compile(r"([1-9]\d{0,5})([smhdw])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}

_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")

#: A terms file holds names and project words; more than this is a mistake, not a list.
_MAX_TERMS_BYTES: Final = 4 * 1024 * 1024


def load_policy(path: Path | None = None) -> Policy:
    """Read the policy at `path`, a shipped one by its bare name (`strict`), or the base policy.
    Raises PolicyError with one sentence."""
    if path is None or (str(path) in SHIPPED and not path.exists()):
        name = "base" if path is None else str(path)
        return parse_policy(_shipped(name), source=f"policies/{name}.toml", directory=None)
    try:
        text = path.expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(
            f"The policy file {path} cannot be read ({_reason(error)}); "
            "correct the path or the file."
        ) from None
    return parse_policy(text, source=str(path), directory=path.expanduser().parent)


def parse_policy(
    text: str,
    *,
    source: str,
    directory: Path | None,
    terms: tuple[str, ...] | None = None,
) -> Policy:
    """Read a policy from its text. `directory` anchors `terms.file`; `terms` given by the caller
    (a worker that must see what its parent saw) replaces what the file names."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"The policy {source} is not valid TOML: {error}.") from None
    _known_keys(document, _TOP, source, "")
    if terms is None:
        terms = _terms(document.get("terms", {}), source, directory)
    policy = Policy(
        id=_text(document, "id", source),
        version=_text(document, "version", source),
        digest=hashlib.sha256(_deciding(text, terms)).hexdigest(),
        text=text,
        kinds=MappingProxyType(_kinds(document.get("kinds", {}), source)),
        opaque=_choice(Opaque, document.get("opaque", "refuse"), "opaque", source),
        answers=_choice(Answers, document.get("answers", "pass"), "answers", source),
        allowed=_allowed(document.get("allow", {}), source),
        terms=terms,
        recognizers=_strings(document.get("recognizers", []), "recognizers", source),
        recognizers_file=_path(document, "recognizers_file", "", source, directory),
        ner=_name_model(document.get("ner"), source, directory),
        second_opinion=_second_opinion(document.get("second_opinion", False), source),
        directory=directory,
        languages=_languages(document.get("languages", ["en"]), source),
        scope=_choice(ScopeRule, document.get("scope", "role"), "scope", source),
        foreign_tokens=_choice(
            ForeignTokens, document.get("foreign_tokens", "count"), "foreign_tokens", source
        ),
        vault=_choice(VaultMode, document.get("vault", "on"), "vault", source),
        ttl=_ttl(document.get("ttl"), "ttl", source),
        evidence=_evidence(document.get("evidence", {}), source),
    )
    _check_together(policy, source)
    return policy


def _deciding(text: str, terms: tuple[str, ...]) -> bytes:
    return text.encode() + (b"\0" + "\n".join(terms).encode() if terms else b"")


def _second_opinion(value: Any, source: str) -> bool:
    if not isinstance(value, bool):
        raise PolicyError(f"In the policy {source}, second_opinion must be true or false.")
    return value


def _check_together(policy: Policy, source: str) -> None:
    """Refuse what cannot be kept: a protection that silently is none is worse than no start."""
    if policy.vault is VaultMode.ON:
        return
    if policy.foreign_tokens is ForeignTokens.REFUSE:
        raise PolicyError(
            f"The policy {source} has foreign_tokens = 'refuse' and vault = 'off'; without a vault "
            "nobody knows whose a token is: use 'count', or the vault."
        )
    for kind in policy.stand_ins():
        raise PolicyError(
            f"The policy {source} has kinds.{kind}.action = 'stand_in' and vault = 'off'; without "
            "a vault an invented value would stay in files for good: use 'token', or the vault."
        )


def _shipped(name: str) -> str:
    """The installed package carries the policies; a checkout has them at its top level."""
    packaged = importlib.resources.files("gateway") / "policies" / f"{name}.toml"
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    checkout = Path(__file__).resolve().parents[2] / "policies" / f"{name}.toml"
    try:
        return checkout.read_text(encoding="utf-8")
    except OSError:
        raise PolicyError(
            f"The policy '{name}' is not part of this installation; reinstall the package, "
            "or name a policy file in the settings."
        ) from None


def _kinds(table: Any, source: str) -> dict[str, KindRule]:
    _is_table(table, "kinds", source)
    rules: dict[str, KindRule] = {}
    for kind, entry in table.items():
        where = f"kinds.{kind}"
        if not KIND.fullmatch(kind):
            raise PolicyError(
                f"The policy {source} names the kind '{kind}'; a kind is written in capital "
                "letters and underscores, at most 32 of them."
            )
        _is_table(entry, where, source)
        _known_keys(entry, _KIND_KEYS, source, where + ".")
        action = _choice(Action, entry.get("action", "token"), where + ".action", source)
        if action is Action.STAND_IN and kind not in stand_ins.KINDS:
            raise PolicyError(
                f"In the policy {source}, {where}.action is 'stand_in'; only "
                f"{', '.join(sorted(stand_ins.KINDS))} have stand-ins, use 'token'."
            )
        restore = entry.get("restore", False)
        if not isinstance(restore, bool):
            raise PolicyError(f"In the policy {source}, {where}.restore must be true or false.")
        if action is Action.STAND_IN and not restore:
            raise PolicyError(
                f"In the policy {source}, {where} has action = 'stand_in' without restore = true; "
                "an invented value that nothing replaces again would stay in files for good."
            )
        rules[kind] = KindRule(
            action,
            restore and action in (Action.TOKEN, Action.STAND_IN),
            _threshold(entry.get("threshold", 0), where + ".threshold", source),
            _ttl(entry.get("ttl"), where + ".ttl", source),
            _patterns(entry.get("allow", []), where + ".allow", source),
        )
    return rules


def _threshold(value: Any, where: str, source: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise PolicyError(f"In the policy {source}, {where} must be a number from 0 to 1.")
    return float(value)


def _ttl(value: Any, where: str, source: str) -> int | None:
    if value is None:
        return None
    found = _TTL.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise PolicyError(
            f"In the policy {source}, {where} must be a time such as '12h', '30d' or '8w'."
        )
    return int(found[1]) * _SECONDS[found[2]]


def _patterns(value: Any, where: str, source: str) -> re.Pattern[str] | None:
    """Texts as they are, in any letter case; one `*` in each may stand for any run of characters
    (more would let a pattern take time that grows with their number)."""
    texts = _strings(value, where, source)
    for text in texts:
        if text.count("*") > 1 or not text.strip("* "):
            raise PolicyError(
                f"In the policy {source}, {where} holds '{text}'; write a text with at most one "
                "'*' and something beside it."
            )
    if not texts:
        return None
    alternatives = (".*".join(map(re.escape, text.split("*"))) for text in texts)
    return re.compile("|".join(alternatives), re.IGNORECASE | re.DOTALL)


def _languages(value: Any, source: str) -> tuple[str, ...]:
    languages = tuple(dict.fromkeys(_strings(value, "languages", source)))
    for language in languages:
        if language not in LANGUAGES:
            raise PolicyError(
                f"In the policy {source}, languages holds '{language}'; use two-letter codes such "
                "as 'en' or 'de'."
            )
    if not languages:
        raise PolicyError(f"In the policy {source}, languages must name at least one language.")
    return languages


def _allowed(table: Any, source: str) -> Allowed:
    _is_table(table, "allow", source)
    _known_keys(table, _ALLOW, source, "allow.")
    ip = frozenset(_strings(table.get("ip", []), "allow.ip", source))
    for name in sorted(ip - IP_CLASSES):
        try:
            ipaddress.ip_network(name)
        except ValueError:
            raise PolicyError(
                f"In the policy {source}, allow.ip holds '{name}'; use an address, a network, or "
                f"one of {', '.join(sorted(IP_CLASSES))}."
            ) from None
    return Allowed(
        ip=ip,
        emails=frozenset(
            s.lower() for s in _strings(table.get("emails", []), "allow.emails", source)
        ),
        placeholders=frozenset(
            s.lower() for s in _strings(table.get("placeholders", []), "allow.placeholders", source)
        ),
        values=frozenset(_strings(table.get("values", []), "allow.values", source)),
    )


def _name_model(table: Any, source: str, directory: Path | None) -> NameModel | None:
    if table is None:
        return None
    _is_table(table, "ner", source)
    _known_keys(table, _NER, source, "ner.")
    model = table.get("model", "")
    nlp_config = _path(table, "nlp_config", "ner.", source, directory)
    if not isinstance(model, str) or bool(model) == (nlp_config is not None):
        raise PolicyError(
            f"In the policy {source}, ner needs one of model (an installed package or a "
            "directory) and nlp_config (a Presidio NLP file)."
        )
    if "/" in model or model.startswith(("~", ".")):
        model = str((directory or Path()) / Path(model).expanduser())
    sha256 = table.get("sha256", "")
    if not isinstance(sha256, str) or (sha256 and not _SHA256.fullmatch(sha256)):
        raise PolicyError(f"In the policy {source}, ner.sha256 must be 64 hex digits in quotes.")
    kinds = _strings(table.get("kinds", ["NAME"]), "ner.kinds", source)
    if not kinds or set(kinds) - NER_KINDS:
        raise PolicyError(
            f"In the policy {source}, ner.kinds may hold {', '.join(sorted(NER_KINDS))}."
        )
    score = table.get("min_score", 0.5)
    if isinstance(score, bool) or not isinstance(score, int | float) or not 0 <= score <= 1:
        raise PolicyError(f"In the policy {source}, ner.min_score must be a number from 0 to 1.")
    return NameModel(model, nlp_config, sha256.lower(), kinds, float(score))


def _evidence(table: Any, source: str) -> EvidenceRules:
    _is_table(table, "evidence", source)
    _known_keys(table, _EVIDENCE, source, "evidence.")
    subject, header = _evidence_subject(table.get("subject", "role"), source)
    max_bytes = table.get("max_bytes", MAX_BYTES)
    if type(max_bytes) is not int or not 1 <= max_bytes <= BYTES_LIMIT:
        raise PolicyError(
            f"In the policy {source}, evidence.max_bytes must be a number of bytes from 1 to "
            f"{BYTES_LIMIT}."
        )
    media = _strings(table.get("media", ["*/*"]), "evidence.media", source)
    if not media or not all(_MEDIA.fullmatch(item) for item in media):
        raise PolicyError(
            f"In the policy {source}, evidence.media must list media types in small letters, such "
            "as 'application/json' or 'text/*'."
        )
    required, expired = table.get("required", True), table.get("erase_expired", False)
    for key, value in (("required", required), ("erase_expired", expired)):
        if not isinstance(value, bool):
            raise PolicyError(f"In the policy {source}, evidence.{key} must be true or false.")
    retention = _retention(table.get("retention", {}), source)
    if expired and not retention.name:
        raise PolicyError(
            f"In the policy {source}, evidence.erase_expired needs evidence.retention, which says "
            "when something expires."
        )
    return EvidenceRules(
        keep=_choice(Keep, table.get("keep", "none"), "evidence.keep", source),
        subject=subject,
        header=header,
        retention=retention,
        max_bytes=max_bytes,
        media=media,
        required=required,
        erase_expired=expired,
    )


def _evidence_subject(value: Any, source: str) -> tuple[Subject, str]:
    """Return whose the evidence is, and the header's name where a header says it."""
    if value in (Subject.ROLE, Subject.SESSION):
        return Subject(value), ""
    word, colon, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    name = name.lower()
    if word != Subject.HEADER or not colon or not _HEADER.fullmatch(name) or name in _NO_SUBJECTS:
        raise PolicyError(
            f"In the policy {source}, evidence.subject must be 'role', 'session' or "
            "'header:<name>' with a header that carries no credential."
        )
    return Subject.HEADER, name


def _retention(table: Any, source: str) -> Retention:
    _is_table(table, "evidence.retention", source)
    _known_keys(table, _RETENTION, source, "evidence.retention.")
    if not table:
        return Retention()
    name, days = table.get("class"), table.get("days")
    if not isinstance(name, str) or not _CLASS.fullmatch(name):
        raise PolicyError(
            f"In the policy {source}, evidence.retention.class must be one of "
            f"{', '.join(sorted(CLASSES))}, or a name of your own in small letters."
        )
    if type(days) is not int or not 1 <= days <= MAX_DAYS:
        raise PolicyError(
            f"In the policy {source}, evidence.retention.days must be a number from 1 to "
            f"{MAX_DAYS}."
        )
    if days < CLASSES.get(name, 0):
        raise PolicyError(
            f"In the policy {source}, evidence.retention.days is {days}; the class '{name}' asks "
            f"for at least {CLASSES[name]}."
        )
    return Retention(name, days)


def _path(
    table: Mapping[str, Any], key: str, prefix: str, source: str, directory: Path | None
) -> Path | None:
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise PolicyError(f"In the policy {source}, {prefix}{key} must be a path in quotes.")
    return (directory or Path()) / Path(value).expanduser()


def _terms(table: Any, source: str, directory: Path | None) -> tuple[str, ...]:
    _is_table(table, "terms", source)
    _known_keys(table, _TERMS, source, "terms.")
    found = list(_strings(table.get("list", []), "terms.list", source))
    name = table.get("file")
    if name is not None:
        if not isinstance(name, str) or not name:
            raise PolicyError(f"In the policy {source}, terms.file must be a path.")
        found += read_terms((directory or Path()) / Path(name).expanduser())
    return tuple(dict.fromkeys(t for t in (term.strip() for term in found) if t))


def read_terms(path: Path) -> list[str]:
    """Read a terms file: one term a line, `#` starts a comment line. Raises PolicyError."""
    try:
        if path.stat().st_size > _MAX_TERMS_BYTES:
            raise PolicyError(f"The terms file {path} is larger than 4 MiB; shorten it.")
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(
            f"The terms file {path} cannot be read ({_reason(error)}); "
            "correct the path or the file."
        ) from None
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def _reason(error: Exception) -> str:
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else "not UTF-8"


def _known_keys(table: Mapping[str, Any], known: frozenset[str], source: str, prefix: str) -> None:
    for key in table:
        if key not in known:
            raise PolicyError(
                f"The policy {source} has the unknown key '{prefix}{key}'; known here: "
                f"{', '.join(sorted(known))}."
            )


def _is_table(value: Any, where: str, source: str) -> None:
    if not isinstance(value, dict):
        raise PolicyError(f"In the policy {source}, {where} must be a table.")


def _text(document: Mapping[str, Any], key: str, source: str) -> str:
    value = document.get(key)
    if not isinstance(value, str) or not value.strip():
        raise PolicyError(f"The policy {source} needs '{key}', a text in quotes.")
    return value


def _strings(value: Any, where: str, source: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise PolicyError(f"In the policy {source}, {where} must be a list of texts.")
    return tuple(value)


def _choice(options: type[E], value: Any, where: str, source: str) -> E:
    try:
        return options(value)
    except ValueError:
        known = ", ".join(sorted(options))
        raise PolicyError(
            f"In the policy {source}, {where} is '{value}'; use one of {known}."
        ) from None
