"""`sphragis redact` and `sphragis reveal`: replaces values in files and pipes, and puts them back.

Owns the order of things: a token is in the vault before it is written anywhere. Invariants: what is
not replaced is copied byte for byte; memory stays bounded (`chunks`); a file that is written
appears whole or not at all. Tokens are those the gateway gives the same role, so that what one
wrote the other can read. Called by `gateway.cli`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final

from gateway.chunks import Chunk, chunks
from gateway.inspecting import (
    READ,
    STDIN,
    InspectError,
    finder_for,
    is_binary,
    policy_for,
    text_of,
)
from gateway.redaction.policy import Action, KindRule, Policy, VaultMode
from gateway.redaction.redactor import PolicyRefused, Redactor
from gateway.redaction.restore import StreamRestorer
from gateway.redaction.scopes import Scope, scope_of
from gateway.redaction.spans import Span
from gateway.redaction.stand_ins import shapes_of
from gateway.redaction.tokens import Tokenizer, TokensExhausted
from gateway.redaction.vault import TokenTaken, Vault, VaultError
from gateway.settings import Settings, load_settings
from shared.keyfile import KeyFileError, read_or_make_key
from shared.paths import UnsafeDirectory, is_path_safe_role, private_dir
from shared.whole_file import whole_file

#: Runs of one chunk whose tokens turn out to be another value's; each one knows more of them.
_TRIES: Final = 6
_NOBODY: Final = Scope("", "")


def redact_file(
    source: str,
    output: Path | None,
    *,
    role: str,
    mask: bool,
    policy: Path | None,
    config: Path | None,
) -> None:
    """Copy a file (or standard input) with every find replaced. Raises GatewayError."""
    found = _all(policy_for(policy, config), Action.MASK if mask else Action.TOKEN)
    finder = finder_for(found)
    settings, _ = load_settings(config)
    with _opened(source) as (stream, head), _written(output) as sink:
        parts = chunks(text_of(stream, head), finder)
        if mask:
            counts = asyncio.run(_redact(parts, found, sink, _Keeping()))
        else:
            key, vault = _key_and_vault(settings, found)
            try:
                scope = scope_of(found, _checked(role))
                keeping = _Keeping(key, scope, vault)
                counts = asyncio.run(_redact(parts, found, sink, keeping))
            finally:
                vault.close()
    _tell(counts, found, mask)


def reveal_file(
    source: str,
    output: Path | None,
    *,
    role: str,
    all_roles: bool,
    policy: Path | None,
    config: Path | None,
) -> None:
    """Copy a file (or standard input) with the tokens of a role replaced by what they stand for.
    Raises GatewayError."""
    if all_roles and role:
        raise InspectError("--role and --all-roles exclude each other; leave one out.")
    found = _all(policy_for(policy, config), Action.TOKEN)
    if found.vault is VaultMode.OFF:
        raise InspectError(f"The policy '{found.id}' has vault = 'off': nothing can be restored.")
    settings, _ = load_settings(config)
    if not settings.vault_file.exists():
        raise InspectError(
            f"There is no vault at {settings.vault_file}; nothing was ever replaced there, or "
            "SPHRAGIS_HOME names another place."
        )
    with _opened(source) as (stream, head), _written(output) as sink:
        _, vault = _key_and_vault(settings, found)
        try:
            known = asyncio.run(_originals(vault, None if all_roles else _checked(role), found))
        finally:
            vault.close()
        restorer = StreamRestorer(known, shapes_of(found.stand_ins()))
        for text in text_of(stream, head):
            _write(sink, restorer.feed(text))
        _write(sink, restorer.flush())


@dataclass(frozen=True, slots=True)
class _Keeping:
    """Whose tokens are made, with which key, and where originals go; by default nowhere."""

    key: bytes = bytes(32)
    scope: Scope = _NOBODY
    vault: Vault | None = None


async def _redact(
    parts: Iterator[Chunk], policy: Policy, sink: BinaryIO, keeping: _Keeping
) -> Counter[str]:
    scope, vault = keeping.scope, keeping.vault
    counts: Counter[str] = Counter()
    tokenizer = Tokenizer(keeping.key, scope.tokens)
    taken: dict[str, str] = {}
    for part in parts:
        for _ in range(_TRIES):
            redactor = Redactor(_Given(part.spans), tokenizer, policy, scope=scope.owner)
            try:
                text = redactor.text(part.text)
                if vault is not None:
                    await vault.put(
                        scope.owner,
                        redactor.originals,
                        redactor.marks,
                        scope=scope.tokens,
                        kinds=redactor.kinds,
                    )
            except TokenTaken as other:
                taken |= other.owners
                tokenizer = Tokenizer(keeping.key, scope.tokens, taken)
                continue
            except (PolicyRefused, VaultError, TokensExhausted) as wrong:
                raise InspectError(str(wrong)) from wrong
            except UnicodeEncodeError:
                raise InspectError(
                    "A value that was found holds bytes that are not UTF-8, which cannot be "
                    "restored; use --mask, or convert the text."
                ) from None
            counts += redactor.counts
            _write(sink, text)
            break
        else:
            raise InspectError("No free token is left for a value of this text.")
    return counts


class _Given:
    """Finds that are known already."""

    def __init__(self, spans: list[Span]) -> None:
        self._spans = spans

    def find(self, _text: str) -> list[Span]:
        return self._spans

    def find_value(self, _key: str, _value: str) -> list[Span]:
        return self._spans


async def _originals(vault: Vault, role: str | None, policy: Policy) -> Mapping[str, str]:
    """Everything a role introduced, in all its sessions; None is every role."""
    known: dict[str, str] = {}
    owner = scope_of(policy, role).owner if role is not None else None
    try:
        for name in await vault.owners():
            if owner is None or name == owner or name.startswith(f"{owner}/session/"):
                known |= dict(await vault.load(name))
    except VaultError as wrong:
        raise InspectError(str(wrong)) from wrong
    return known


def _all(policy: Policy, action: Action) -> Policy:
    """The same policy with one way of replacing for all kinds, also those it does not name.

    With TOKEN everything can be brought back, as somebody who redacts a text by hand means it. The
    vault then holds what the gateway's policy would not have kept, and still the gateway gives
    agents back only what its policy says.
    """
    kinds = _Kinds({kind: _as(rule, action) for kind, rule in policy.kinds.items()})
    kinds.rest = KindRule(action, restore=action is Action.TOKEN)
    return replace(policy, kinds=MappingProxyType(kinds))


def _as(rule: KindRule, action: Action) -> KindRule:
    if rule.action in (Action.ALLOW, Action.REFUSE):
        return rule
    if action is Action.MASK:
        return replace(rule, action=action, restore=False)
    return replace(rule, restore=rule.action in (Action.TOKEN, Action.STAND_IN))


class _Kinds(dict[str, KindRule]):
    """Kinds by name; `rest` is for those that are not named."""

    rest: KindRule

    def get(self, kind: str, default: Any = None) -> Any:
        return super().get(kind, self.rest)


def _key_and_vault(settings: Settings, policy: Policy) -> tuple[bytes, Vault]:
    vault = Vault(
        settings.vault_file,
        settings.vault_key_file,
        key_command=settings.vault_key_command,
        policy=policy,
    )
    try:
        private_dir(settings.home)
        private_dir(settings.keys_dir)
        key = read_or_make_key(settings.token_key_file)
        vault.open()
    except (KeyFileError, VaultError, UnsafeDirectory) as wrong:
        raise InspectError(str(wrong)) from wrong
    except OSError as wrong:
        raise InspectError(
            f"The files of {settings.home} cannot be used ({wrong.strerror}); set SPHRAGIS_HOME to "
            "choose another place."
        ) from wrong
    return key, vault


def _checked(role: str) -> str:
    if role and not (is_path_safe_role(role) and role.strip(".")):
        raise InspectError(
            f"{role[:64]!r} is no name of a role; use letters, digits, dots and dashes."
        )
    return role


def _tell(counts: Counter[str], policy: Policy, mask: bool) -> None:
    """Say what was done, where somebody may see it and no program reads it."""
    total = sum(counts.values())
    if not total:
        print("Nothing found; the text is as it was.", file=sys.stderr)
        return
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.most_common())
    kept = sorted(kind for kind in counts if not policy.restores(kind))
    note = ""
    if kept and not mask:
        note = f"; `reveal` brings back none of {', '.join(kept)}, by the policy"
    print(f"{total} replaced: {kinds}{note}.", file=sys.stderr)


# -- files ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def _opened(source: str) -> Iterator[tuple[BinaryIO, bytes]]:
    """Open a text; yield it and its beginning."""
    with contextlib.ExitStack() as stack:
        stream: BinaryIO = sys.stdin.buffer
        try:
            if source != STDIN:
                stream = stack.enter_context(Path(source).open("rb"))
            head = stream.read(READ)
        except OSError as wrong:
            raise InspectError(f"{source} cannot be read ({wrong.strerror}).") from wrong
        if is_binary(head) or head.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise InspectError(f"{source} is not UTF-8 text; convert it first.")
        yield stream, head


@contextlib.contextmanager
def _written(output: Path | None) -> Iterator[BinaryIO]:
    """Standard output, or a file that appears (readable by its owner alone) when it is whole."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with whole_file(output) as sink:
            yield sink
    except OSError as wrong:
        raise InspectError(f"{output} cannot be written ({wrong.strerror}).") from wrong


def _write(sink: BinaryIO, text: str) -> None:
    sink.write(text.encode("utf-8", "surrogateescape"))
