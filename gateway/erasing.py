"""What operators ask of kept evidence and of the vault: the same operations, asked of a running
gateway through its control socket or done by the command itself on a closed ledger.

Owns the table of operations, the stores of a gateway's settings, and what the vault forgets of a
subject. Invariant: an operation is one plain function of ledger, stores and request, so both ways
do the same and leave the same record. Called by `gateway.app` and `gateway.verbs.erasing`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gateway.errors import GatewayError
from gateway.vault_changes import PROGRAM, due, settle
from shared.evidence.erase import erase, resume
from shared.evidence.errors import EvidenceError
from shared.evidence.holds import hold
from shared.evidence.prune import finish, prune
from shared.evidence.rules import Subject
from shared.evidence.showing import show
from shared.evidence.stores import OtherMemory, Stores, stores_in
from shared.ledger import Ledger, LedgerError, load_commitment_key
from shared.ledger.directory import read_log_json

if TYPE_CHECKING:
    from gateway.app import Gateway
    from gateway.redaction.policy import Policy
    from gateway.redaction.vault_store import Store
    from gateway.settings import Settings

Work = Callable[[Ledger, Stores, Mapping[str, Any]], dict[str, Any]]


class EvidenceRefused(GatewayError):
    """An operation on evidence was not done; the sentence says why."""


def vault_changed(ledger: Ledger, stores: Stores, _: Mapping[str, Any]) -> dict[str, Any]:
    """Record what verbs did to the vault and left a note of in it."""
    return {"seqs": stores.other.settle(ledger)}


#: By the name under which the control socket offers them.
OPERATIONS: Final[Mapping[str, Work]] = {
    "erase": erase,
    "hold": hold,
    "prune": prune,
    "evidence-show": show,
    "vault-changed": vault_changed,
}


def done(name: str, ledger: Ledger, stores: Stores, request: Mapping[str, Any]) -> dict[str, Any]:
    """Do one operation; blocking. Raises EvidenceRefused or LedgerError with the sentence."""
    try:
        return OPERATIONS[name](ledger, stores, request)
    except EvidenceError as wrong:
        raise EvidenceRefused(str(wrong)) from wrong


def _mounted(name: str) -> Callable[[Gateway, dict[str, Any]], Awaitable[dict[str, Any]]]:
    async def operation(gateway: Gateway, body: dict[str, Any]) -> dict[str, Any]:
        ledger, stores = gateway.ledger, gateway.stores
        if ledger is None or stores is None:
            raise EvidenceRefused("The ledger is being opened; ask again in a moment.")
        # The stamps are the loop's own.
        now = replace(stores, delegated=gateway.stamps.delegated())
        return await asyncio.to_thread(done, name, ledger, now, body)

    return operation


#: For `gateway.control`: each is POST /v1/<name>.
CONTROL_OPERATIONS: Final = {name: _mounted(name) for name in OPERATIONS}


def stores_of(settings: Settings, policy: Policy, tenant_key: bytes) -> Stores:
    """Return the stores of a gateway; nothing is opened or made yet."""
    return stores_in(
        settings.ledger_dir,
        settings.keys_dir,
        tenant_key,
        key_file=settings.evidence_keyfile,
        key_command=tuple(settings.evidence_key_command),
        other=OtherMemory(
            lambda subject, session: _owners(settings, policy, subject, session),
            lambda owners: _forget(settings, owners),
            lambda ledger: settle(ledger, settings.vault_file),
        ),
    )


def finish_interrupted(ledger: Ledger, stores: Stores, *, keeps: bool) -> list[str]:
    """End erasures and prunings that a kill cut short, and record what it left unrecorded of the
    vault; blocking; return the sentences to log.

    Raises EvidenceError where the gateway `keeps` evidence; else old evidence that cannot be
    opened is no reason not to start.
    """
    told = []
    try:
        if seqs := stores.other.settle(ledger):
            told.append(f"changes of the vault are recorded now ({len(seqs)})")
    except (EvidenceError, LedgerError) as wrong:
        told.append(f"warning: changes of the vault are not recorded yet: {wrong}")
    try:
        told += [
            f"an erasure that was cut short is done ({name})" for name in resume(ledger, stores)
        ]
        if files := finish(stores.ledger_dir):
            told.append(f"a pruning that was cut short is done ({files} files)")
    except EvidenceError as wrong:
        if keeps:
            raise
        told.append(f"warning: {wrong}")
    return told


@contextlib.contextmanager
def closed_ledger(settings: Settings, policy: Policy) -> Iterator[tuple[Ledger, Stores]]:
    """The ledger of a gateway that does not run, and its stores. Raises EvidenceRefused or
    LedgerError."""
    if not (settings.ledger_dir / "log.json").exists():
        raise EvidenceRefused(
            f"There is no ledger at {settings.ledger_dir}; check SPHRAGIS_HOME and audit_log_path."
        )
    key = load_commitment_key(settings.keys_dir)
    stores = stores_of(settings, policy, key)
    stores.delegated = _delegated(settings)
    with Ledger.open(
        settings.ledger_dir,
        keys=settings.keys_dir,
        origin=read_log_json(settings.ledger_dir)["origin"],
        close_open_requests=True,
    ) as ledger:
        try:
            yield ledger, stores
        finally:
            stores.close()


def _delegated(settings: Settings) -> frozenset[tuple[str, str]]:
    """Return which roles living decks gave a task, as the last gateway noted it."""
    from gateway.stamps import Stamps
    from gateway.stamps_file import read_stamps

    stamps = Stamps()
    stamps.load(read_stamps(settings.stamps_file))
    return stamps.delegated_by_living()


# -- the vault -------------------------------------------------------------------------------------


def _owners(settings: Settings, policy: Policy, subject: str, session: str) -> list[str]:
    """Return whose entries the vault drops for a subject and a session; its owners are roles and
    sessions of roles, so a person that a header names is nobody to it."""
    from gateway.redaction.vault_database import VaultError

    rule = policy.evidence.subject
    if subject and rule is Subject.SESSION:
        subject, session = "", session or subject
    if subject and rule is Subject.HEADER:
        return []
    if not (subject or session) or not settings.vault_file.exists():
        return []
    try:
        with _vault(settings) as store:
            owners = store.owners()
    except VaultError as wrong:
        raise EvidenceError(str(wrong)) from wrong
    wanted = "bare" if subject == "-" else f"role/{subject}"
    ending = ""
    if session:
        digest = hashlib.sha256(session.encode("utf-8", "surrogatepass")).hexdigest()
        ending = f"/session/{digest[:32]}"
    return [
        owner
        for owner in owners
        if (not subject or owner == wanted or owner.startswith(f"{wanted}/session/"))
        and owner.endswith(ending)
    ]


def _forget(settings: Settings, owners: list[str]) -> int:
    """Erase what these owners introduced, and have a running gateway forget it."""
    from gateway.redaction.vault import epoch_file, tell_others
    from gateway.redaction.vault_database import VaultError

    try:
        with _vault(settings) as store:
            count = sum(_erase_of(store, settings, owner) for owner in owners)
        tell_others(epoch_file(settings.vault_file))
    except (VaultError, LedgerError) as wrong:
        raise EvidenceError(str(wrong)) from wrong
    return count


def _erase_of(store: Store, settings: Settings, owner: str) -> int:
    return store.erase(owner=owner, debt=due(settings, "erase", "erasure", PROGRAM))


@contextlib.contextmanager
def _vault(settings: Settings) -> Iterator[Store]:
    from gateway.redaction.vault_store import Store
    from shared.keyfile import KEY_VARIABLE, KeySource

    keys = KeySource(
        settings.vault_key_file,
        os.environ.get(KEY_VARIABLE),
        tuple(settings.vault_key_command),
    )
    store = Store(settings.vault_file, keys)
    store.open()
    try:
        yield store
    finally:
        store.close()


# -- asking, wherever the ledger is ----------------------------------------------------------------


def ask_or_do(config: Path | None, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Have the running gateway do an operation, or do it on the closed ledger.

    Raises GatewayError with the sentence.
    """
    from gateway.app import load_gateway_policy
    from gateway.control_client import NoGateway, ask
    from gateway.redaction.policy import PolicyError
    from gateway.settings import load_settings

    settings, _ = load_settings(config)
    with contextlib.suppress(NoGateway):
        return ask(settings.home, f"/v1/{name}", request)
    try:
        policy = load_gateway_policy(settings)
        with closed_ledger(settings, policy) as (ledger, stores):
            return done(name, ledger, stores, request)
    except (LedgerError, PolicyError) as wrong:
        raise EvidenceRefused(str(wrong)) from wrong
