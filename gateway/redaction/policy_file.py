"""The policy file: from the TOML of `policies/*.toml` to a policy.

Owns the format. Invariants: a key nobody reads is an error naming it; two keys that cannot both be
kept are an error naming both, for a protection that silently is none is worse than no start; what a
worker reads from the text is what its parent read. Called once at start by the settings, by the
scanning workers, and by verbs that look at a policy.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import ipaddress
import re
import tomllib
from pathlib import Path
from types import MappingProxyType
from typing import Final

from gateway.redaction import stand_ins
from gateway.redaction.policy import (
    IP_CLASSES,
    Action,
    Allowed,
    Answers,
    ForeignTokens,
    KindRule,
    NameModel,
    Opaque,
    Policy,
    PolicyError,
    ScopeRule,
    VaultMode,
    deciding,
)
from gateway.redaction.policy_evidence import evidence_rules
from gateway.redaction.policy_table import PolicyTable
from gateway.redaction.tokens import KIND
from shared.paths import expanded

#: Policies that come with the program, by the name that stands for their file.
SHIPPED: Final = frozenset({"base", "strict"})
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
_ALLOW: Final = frozenset({"ip", "emails", "placeholders", "values"})
_TERMS: Final = frozenset({"file", "list"})
_NER: Final = frozenset({"model", "nlp_config", "sha256", "kinds", "min_score"})
#: Kinds a language model may find.
NER_KINDS: Final = frozenset({"NAME", "ADDRESS", "ORGANIZATION"})
_KIND_KEYS: Final = frozenset({"action", "restore", "threshold", "ttl", "allow"})

#: Languages a recognizer may be asked for: ISO 639-1, those of Europe and the largest others.
_LANGUAGES: Final = """
    ar bg bn ca cs cy da de el en es et eu fi fr ga gl he hi hr hu id is it ja ko lb lt lv mk mt nb
    nl nn no pl pt ro ru sk sl sq sr sv th tr uk vi zh
"""
LANGUAGES: Final = frozenset(_LANGUAGES.split())
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
        text = expanded(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PolicyError(
            f"The policy file {path} cannot be read ({_reason(error)}); "
            "correct the path or the file."
        ) from None
    return parse_policy(text, source=str(path), directory=expanded(path).parent)


def parse_policy(
    text: str,
    *,
    source: str,
    directory: Path | None,
    terms: tuple[str, ...] | None = None,
) -> Policy:
    """Read a policy from its text. `directory` anchors relative paths; `terms` given by the caller
    (a worker that must see what its parent saw) replaces what the file names."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"The policy {source} is not valid TOML: {error}.") from None
    except (RecursionError, ValueError):
        raise PolicyError(
            f"The policy {source} holds a number or a nesting that cannot be; correct it."
        ) from None
    table = PolicyTable(document, source).only(_TOP)
    if terms is None:
        terms = _terms(table.table("terms"), directory)
    policy = Policy(
        id=table.needed_text("id"),
        version=table.needed_text("version"),
        digest=hashlib.sha256(deciding(text, terms)).hexdigest(),
        text=text,
        kinds=MappingProxyType(_kinds(table.table("kinds"))),
        opaque=table.choice("opaque", Opaque.REFUSE),
        answers=table.choice("answers", Answers.PASS),
        allowed=_allowed(table.table("allow")),
        terms=terms,
        recognizers=table.texts("recognizers"),
        recognizers_file=table.file("recognizers_file", directory),
        ner=_name_model(table.table("ner"), directory) if "ner" in document else None,
        second_opinion=table.flag("second_opinion", default=False),
        directory=directory,
        languages=_languages(table),
        scope=table.choice("scope", ScopeRule.ROLE),
        foreign_tokens=table.choice("foreign_tokens", ForeignTokens.COUNT),
        vault=table.choice("vault", VaultMode.ON),
        ttl=table.seconds("ttl"),
        evidence=evidence_rules(table.table("evidence")),
    )
    _check_together(policy, source)
    return policy


def _check_together(policy: Policy, source: str) -> None:
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


def _kinds(table: PolicyTable) -> dict[str, KindRule]:
    for kind in table.values:
        if not KIND.fullmatch(kind):
            raise PolicyError(
                f"The policy {table.source} names the kind '{kind}'; a kind is written in capital "
                "letters and underscores, at most 32 of them."
            )
    return {kind: _kind(kind, table.table(kind).only(_KIND_KEYS)) for kind in table.values}


def _kind(kind: str, table: PolicyTable) -> KindRule:
    action = table.choice("action", Action.TOKEN)
    if action is Action.STAND_IN and kind not in stand_ins.KINDS:
        raise table.wrong(
            "action",
            f"is 'stand_in'; only {', '.join(sorted(stand_ins.KINDS))} have stand-ins, use "
            "'token'.",
        )
    restore = table.flag("restore", default=False)
    if action is Action.STAND_IN and not restore:
        raise PolicyError(
            f"In the policy {table.source}, {table.path} has action = 'stand_in' without restore "
            "= true; an invented value that nothing replaces again would stay in files for good."
        )
    return KindRule(
        action,
        restore and action in (Action.TOKEN, Action.STAND_IN),
        table.fraction("threshold", 0),
        table.seconds("ttl"),
        table.patterns("allow"),
    )


def _languages(table: PolicyTable) -> tuple[str, ...]:
    languages = tuple(dict.fromkeys(table.texts("languages", ("en",))))
    for language in languages:
        if language not in LANGUAGES:
            raise table.wrong(
                "languages", f"holds '{language}'; use two-letter codes such as 'en' or 'de'."
            )
    if not languages:
        raise table.wrong("languages", "must name at least one language.")
    return languages


def _allowed(table: PolicyTable) -> Allowed:
    table.only(_ALLOW)
    ip = frozenset(table.texts("ip"))
    for name in sorted(ip - IP_CLASSES):
        try:
            ipaddress.ip_network(name)
        except ValueError:
            raise table.wrong(
                "ip",
                f"holds '{name}'; use an address, a network, or one of "
                f"{', '.join(sorted(IP_CLASSES))}.",
            ) from None
    return Allowed(
        ip=ip,
        emails=frozenset(map(str.lower, table.texts("emails"))),
        placeholders=frozenset(map(str.lower, table.texts("placeholders"))),
        values=frozenset(table.texts("values")),
    )


def _name_model(table: PolicyTable, directory: Path | None) -> NameModel:
    table.only(_NER)
    model = table.get("model", "")
    nlp_config = table.file("nlp_config", directory)
    if not isinstance(model, str) or bool(model) == (nlp_config is not None):
        raise PolicyError(
            f"In the policy {table.source}, ner needs one of model (an installed package or a "
            "directory) and nlp_config (a Presidio NLP file)."
        )
    if "/" in model or model.startswith(("~", ".")):
        model = str((directory or Path()) / expanded(model))
    sha256 = table.get("sha256", "")
    if not isinstance(sha256, str) or (sha256 and not _SHA256.fullmatch(sha256)):
        raise table.wrong("sha256", "must be 64 hex digits in quotes.")
    kinds = table.texts("kinds", ("NAME",))
    if not kinds or set(kinds) - NER_KINDS:
        raise table.wrong("kinds", f"may hold {', '.join(sorted(NER_KINDS))}.")
    return NameModel(model, nlp_config, sha256.lower(), kinds, table.fraction("min_score", 0.5))


def _terms(table: PolicyTable, directory: Path | None) -> tuple[str, ...]:
    table.only(_TERMS)
    found = list(table.texts("list"))
    file = table.file("file", directory)
    if file is not None:
        found += read_terms(file)
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
