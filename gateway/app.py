"""Wiring: what runs when the gateway or the offline provider is started, and in which order.

Owns the listener and the start and stop sequences; decides nothing about a call. Invariants: the
port answers before anything slow begins (decks wait for it, and see "not ready" until it is);
whatever is opened is closed in the opposite order on every way out, so that the ledger's last
words are written and its lock released. Called by `gateway.cli`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
from aiohttp import HttpVersion11, web

from gateway import console, exporting, health, pidfile
from gateway.admission import Admission, Refused
from gateway.anchoring import AnchorMetrics, anchor_config
from gateway.audit import Audit, AuditUnavailable, Setup, problem_of
from gateway.client_keys import read_keys
from gateway.control import Control, Operation
from gateway.erasing import CONTROL_OPERATIONS, finish_interrupted, stores_of
from gateway.evidence import Evidence
from gateway.expiring import run_expiry
from gateway.health import Readiness
from gateway.listening import StartError, run_loop, stop_event, unlistenable
from gateway.logs import quiet_libraries, say
from gateway.malformed import Direct, Runner
from gateway.metrics import Metrics
from gateway.offline import start_provider
from gateway.pipeline import Parts, Pipeline
from gateway.recorded import detectors, settings_summary, settings_text
from gateway.redaction.models import check_present, identify
from gateway.redaction.owed import Debt
from gateway.redaction.policy import Policy, PolicyError
from gateway.redaction.policy_file import load_policy, parse_policy, read_terms
from gateway.redaction.vault import Vault, VaultError
from gateway.redaction.workers import ScanPool
from gateway.settings import Settings, parse_listen_addr
from gateway.stamps import Stamps
from gateway.upstream import Upstream
from gateway.usage import UsageMeter
from gateway.vault_changes import PROGRAM, run_settling
from gateway.wire.errors import ErrorKind, Family, error_body
from shared import __version__
from shared.anchors.schedule import (
    AnchorStatus,
    look_once_more,
    run_anchors,
    send_last_heads,
)
from shared.evidence.errors import EvidenceError
from shared.evidence.stores import Stores
from shared.keyfile import KeyFileError, read_or_make_key
from shared.ledger import Ledger, LedgerError, load_commitment_key
from shared.ledger.tiles import TileWriter
from shared.paths import UnsafeDirectory, private_dir

#: Seconds that calls in work get after SIGTERM (contracts/gateway.md section 1).
GRACE: Final = 5.0
#: Seconds between heartbeat records of an idle ledger (contracts/ledger.md section 2.5).
HEARTBEAT: Final = 60.0
#: Calls on their way hold thousands of objects that go without the collector.
_COLLECT_AFTER: Final = (20_000, 20, 20)
#: Paths that are those of calls and of nothing else.
_CALLS: Final = ("/agent/", "/v1/")
#: Seconds an idle client connection is kept. Longer than clients keep theirs, so that they close.
CLIENT_KEEP_ALIVE: Final = 75.0


@dataclasses.dataclass(frozen=True, slots=True)
class Offline:
    """Run the offline provider beside the gateway; `record` is its record file."""

    record: Path | None = None


def run_gateway(settings: Settings, warnings: list[str], offline: Offline | None) -> None:
    """Serve until SIGINT or SIGTERM. Raises GatewayError with the sentence of what went wrong."""
    quiet_libraries()
    for warning in warnings:
        say(f"warning: {warning}")
    host, port = settings.listen
    try:
        private_dir(settings.home)
        private_dir(settings.keys_dir)
        policy = load_gateway_policy(settings)
        run_loop(_serve(settings, policy, host, port, offline))
    except (PolicyError, LedgerError, VaultError, KeyFileError, UnsafeDirectory) as wrong:
        raise StartError(str(wrong)) from wrong
    except (AuditUnavailable, EvidenceError) as wrong:
        raise StartError(str(wrong)) from wrong
    except OSError as wrong:
        place = f" ({wrong.filename})" if wrong.filename else ""
        raise StartError(
            f"The gateway's files cannot be written: {wrong.strerror}{place}; check "
            f"{settings.home} and set SPHRAGIS_HOME to choose another place."
        ) from wrong


def run_offline_provider(listen: str, record: Path | None, delay: float) -> None:
    """Serve the offline provider until SIGINT or SIGTERM; print its base URL when it listens.

    Raises GatewayError when the address or the record file cannot be had.
    """
    host, port = parse_listen_addr(listen)

    async def serve() -> None:
        stop = stop_event()
        try:
            runner, url = await start_provider(host, port, record=record, delay=delay)
        except OSError as wrong:
            raise unlistenable(host, port, wrong) from wrong
        try:
            print(f"sphragis offline-provider listening on {url}", flush=True)
            await stop.wait()
        finally:
            await runner.cleanup()

    run_loop(serve())


def load_gateway_policy(settings: Settings) -> Policy:
    """Return the policy in force, with the terms of `custom_terms_file`. Raises PolicyError."""
    policy = load_policy(settings.policy_file)
    check_present(policy)
    if settings.custom_terms_file is None:
        return policy
    terms = dict.fromkeys([*policy.terms, *map(str.strip, read_terms(settings.custom_terms_file))])
    return parse_policy(
        policy.text,
        source=f"'{policy.id}'",
        directory=policy.directory,
        terms=tuple(filter(None, terms)),
    )


class Gateway:
    """What the listener serves: the gateway's own paths, and the pipeline once there is one."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.usage = UsageMeter()
        self.metrics = Metrics(self.usage)
        self.admission = Admission(
            max_calls=settings.max_calls, body_limit=settings.body_limit_mib << 20
        )
        self.metrics.watch_calls(lambda: self.admission.calls)
        self.stopping = asyncio.Event()
        self.stamps = Stamps()
        self.policy: Policy | None = None
        self.audit: Audit | None = None
        self.ledger: Ledger | None = None
        self.stores: Stores | None = None
        self.vault: Vault | None = None
        self.pool: ScanPool | None = None
        self.pipeline: Pipeline | None = None
        self.direct: Direct | None = None
        #: Set when the vault has noted a change that the ledger does not have yet.
        self.vault_changed = asyncio.Event()
        self.anchors = AnchorStatus()
        self.metrics.watch(AnchorMetrics(self.anchors))
        self.readiness = Readiness(
            passing={
                "stopping": lambda: "The gateway is stopping." if self.stopping.is_set() else None,
                "scanner": self._check_scanner,
            },
            lasting={
                "ledger": self._check_ledger,
                "vault": self._check_vault,
                "anchors": self.anchors.alarm,
            },
        )

    def application(self) -> web.Application:
        """Return the aiohttp application."""
        # Bodies are bounded by admission, which answers in the client's own error shape.
        app = web.Application(client_max_size=0, middlewares=[self._route_all])
        health.add_routes(app, self.readiness, self.metrics)
        console.add_routes(app, self.console_state)
        route = app.router.add_route("*", "/{path:.*}", self._handle, expect_handler=_continue)
        self.direct = Direct(_CALLS, route, self._handle)
        app.on_response_prepare.append(_sign)
        return app

    def console_state(self) -> dict[str, Any]:
        """Return what the console shows."""
        reasons = self.readiness.reasons()
        ledger = self.ledger
        note = ledger.checkpoint.split("\n") if ledger is not None else []
        return {
            "ready": not reasons,
            "reasons": reasons,
            "version": __version__,
            "calls": self.metrics.calls,
            "in_flight": self.admission.calls,
            "refused": self.metrics.refused,
            "redactions": dict(self.metrics.redacted),
            "tokens": self.usage.by_role(),
            "ledger": {
                "origin": ledger.origin if ledger is not None else "",
                "size": ledger.size if ledger is not None else 0,
                "root": note[2] if len(note) > 2 else "",
                "checkpoint": "\n".join(note),
                "vkey": ledger.vkey if ledger is not None else "",
                "verify": f"sphragis verify {self.settings.ledger_dir}",
                "anchors": self.anchors.snapshot(),
            },
        }

    @web.middleware
    async def _route_all(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        """Give targets that are no paths (`*`, `host:port`) to the pipeline, which refuses them."""
        try:
            return await handler(request)
        except web.HTTPNotFound:
            return await self._handle(request)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self.pipeline is not None:
            return await self.pipeline.handle(request)
        return _starting()

    async def refuse_malformed(
        self, request: web.BaseRequest, refused: Refused
    ) -> web.StreamResponse:
        """Answer what is not an HTTP request."""
        if self.pipeline is not None:
            return await self.pipeline.refuse_malformed(request, refused)
        return _starting()

    def _check_ledger(self) -> str | None:
        if self.ledger is None:
            return "The ledger is being opened."
        return problem_of(self.ledger)

    def _check_vault(self) -> str | None:
        return None if self.vault is not None and self.vault.is_open else "The vault is not open."

    def _check_scanner(self) -> str | None:
        if self.pool is None:
            return "The scanner is being started."
        return None if self.pool.ready else self.pool.failure or "The detectors are being loaded."


async def _serve(
    settings: Settings, policy: Policy, host: str, port: int, offline: Offline | None
) -> None:
    stop = stop_event()
    began = time.monotonic()
    async with contextlib.AsyncExitStack() as stack:
        if offline is not None:
            settings = await _offline_settings(stack, settings, offline)
        gateway = Gateway(settings)
        runner, address = await _listen(stack, gateway, host, port)
        await _open(stack, gateway, policy, address)
        # What is there now stays: the collector need not hold the loop to look at it again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_COLLECT_AFTER)
        # Closed again here, on top of the stack: calls in work end before what they work with.
        stack.push_async_callback(runner.cleanup)
        say(
            f"sphragis {__version__} listening on http://{address}, provider "
            f"{settings.upstream_for('anthropic')}, policy {policy.id} {policy.version}, "
            f"ledger {settings.ledger_dir}"
        )
        stack.enter_context(_background(_announce(gateway, began)))
        stack.enter_context(_background(_anchor(gateway)))
        if policy.evidence.erase_expired and gateway.ledger and gateway.stores:
            stack.enter_context(
                _background(run_expiry(gateway.ledger, gateway.stores, say)),
            )
        if gateway.ledger and gateway.stores:
            work = partial(gateway.stores.other.settle, gateway.ledger)
            stack.enter_context(_background(run_settling(work, gateway.vault_changed, say)))
        await stop.wait()
        gateway.stopping.set()
    say("stopped")


async def _offline_settings(
    stack: contextlib.AsyncExitStack, settings: Settings, offline: Offline
) -> Settings:
    runner, url = await start_provider("127.0.0.1", 0, record=offline.record)
    stack.push_async_callback(runner.cleanup)
    say(f"offline provider on {url}: no call leaves this machine")
    return settings.model_copy(update={"upstream_base_url": url})


async def _listen(
    stack: contextlib.AsyncExitStack, gateway: Gateway, host: str, port: int
) -> tuple[web.AppRunner, str]:
    """Open the port; return its runner and `host:port`."""
    runner = Runner(
        gateway.application(),
        gateway.refuse_malformed,
        gateway.direct,
        auto_decompress=False,
        access_log=None,
        handle_signals=False,
        handler_cancellation=True,
        keepalive_timeout=CLIENT_KEEP_ALIVE,
        # aiohttp waits twice this long before it ends a handler.
        shutdown_timeout=GRACE / 2,
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as wrong:
        raise unlistenable(host, port, wrong) from wrong
    bound = runner.addresses[0]
    shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
    return runner, f"{shown}:{bound[1]}"


async def _open(
    stack: contextlib.AsyncExitStack, gateway: Gateway, policy: Policy, address: str
) -> None:
    """Open what calls need, in the order in which it depends on each other."""
    settings = gateway.settings
    ledger = await asyncio.to_thread(
        Ledger.open,
        settings.ledger_dir,
        keys=settings.keys_dir,
        origin=_origin(settings),
        close_open_requests=True,
        heartbeat_seconds=HEARTBEAT,
        reserve_bytes=settings.audit_reserve_mib << 20,
        low_water_bytes=settings.disk_low_water_mib << 20,
    )
    # Behind the close: the last head is the one over the `stop` record.
    stack.push_async_callback(send_last_heads, gateway.anchors, say)
    stack.callback(ledger.close)
    ledger.on_leaves(TileWriter(settings.ledger_dir).add)
    pidfile.write(settings.pid_file, address)
    stack.callback(pidfile.remove, settings.pid_file)
    key = await asyncio.to_thread(load_commitment_key, settings.keys_dir)
    audit = Audit(ledger, policy, key, gateway.metrics)
    await audit.started(await asyncio.to_thread(_setup, settings, policy))
    stack.push_async_callback(_record_stop, gateway, audit)
    stores = stores_of(settings, policy, key)
    stack.callback(stores.close)
    keeps = policy.evidence.is_on
    for told in await asyncio.to_thread(finish_interrupted, ledger, stores, keeps=keeps):
        say(told)
    evidence = Evidence(policy.evidence, stores, gateway.metrics.evidence_failure)
    await asyncio.to_thread(evidence.open)
    stack.push_async_callback(evidence.close)
    vault = Vault(
        settings.vault_file,
        settings.vault_key_file,
        key_command=settings.vault_key_command,
        policy=policy,
        debt=lambda: Debt(ledger.origin, ledger.size, "expire", "lifetime", PROGRAM),
        indebted=_from_any_thread(gateway.vault_changed.set),
    )
    await asyncio.to_thread(vault.open)
    stack.callback(vault.close)
    token_key = await asyncio.to_thread(read_or_make_key, settings.token_key_file)
    client_keys = await asyncio.to_thread(read_keys, settings.client_keys_file)
    pool = ScanPool(policy, token_key, settings.scan_workers)
    await pool.start()
    stack.push_async_callback(pool.stop)
    upstream = await stack.enter_async_context(
        Upstream(
            connect_timeout=settings.connect_timeout,
            read_timeout=settings.read_timeout,
        )
    )
    # Before the gateway can be ready: a deck stamps as soon as it is.
    control = Control(gateway, audit, address, _operations())
    stack.push_async_callback(control.stop)
    await control.start()
    gateway.ledger, gateway.vault, gateway.pool = ledger, vault, pool
    gateway.policy, gateway.audit, gateway.stores = policy, audit, stores
    gateway.pipeline = Pipeline(
        Parts(
            settings=settings,
            policy=policy,
            admission=gateway.admission,
            readiness=gateway.readiness,
            pool=pool,
            vault=vault,
            audit=audit,
            upstream=upstream,
            metrics=gateway.metrics,
            usage=gateway.usage,
            stopping=gateway.stopping,
            stamps=gateway.stamps,
            evidence=evidence,
            token_key=token_key,
            client_keys=client_keys,
        )
    )


async def _announce(gateway: Gateway, began: float) -> None:
    """Say once when calls are taken, or what keeps them from being taken."""
    told = ""
    while gateway.readiness.reasons():
        lasting = gateway.pool is not None and gateway.pool.failure
        if lasting and lasting != told:
            say(f"not ready: {lasting}")
            told = lasting
        await asyncio.sleep(0.05)
    say(f"ready after {time.monotonic() - began:.1f} s")


async def _anchor(gateway: Gateway) -> None:
    """Let the ledger's head leave the machine until cancelled."""
    assert gateway.ledger is not None
    config = await asyncio.to_thread(anchor_config, gateway.settings)
    await run_anchors(gateway.ledger, config, gateway.anchors, say)


async def _record_stop(gateway: Gateway, audit: Audit) -> None:
    await look_once_more(gateway.anchors, say)
    with contextlib.suppress(AuditUnavailable):
        await audit.stopped("signal" if gateway.stopping.is_set() else "start failed")


def _starting() -> web.Response:
    sentence = "The gateway is still starting; try again in a moment."
    return web.Response(
        status=503,
        body=error_body(Family.ANTHROPIC, 503, ErrorKind.UNAVAILABLE, sentence),
        content_type="application/json",
        headers={"retry-after": "1"},
    )


async def _continue(request: web.Request) -> None:
    """Tell a client that waits for it to send its body; the pipeline judges other expectations."""
    if request.version >= HttpVersion11 and (
        request.headers.get("expect", "").strip().lower() == "100-continue"
    ):
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # What the library counts as sent is the answer itself.
        request.writer.output_size = 0


async def _sign(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "sphragis"


def _from_any_thread(call: Callable[[], None]) -> Callable[[], None]:
    """Return what has the running loop call `call`; nothing once that loop has ended."""
    loop = asyncio.get_running_loop()

    def later() -> None:
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(call)

    return later


@contextlib.contextmanager
def _background(work: Coroutine[Any, Any, None]) -> Iterator[None]:
    """Run a coroutine until the block ends."""
    task = asyncio.ensure_future(work)
    try:
        yield
    finally:
        task.cancel()


def _origin(settings: Settings) -> str:
    """Name a new ledger. An existing one keeps the name in its log.json. The name says nothing of
    the owner, because checkpoints are made to be shown around."""
    try:
        known = orjson.loads((settings.ledger_dir / "log.json").read_bytes())["origin"]
    except (OSError, ValueError, KeyError, TypeError):
        return f"sphragis/{secrets.token_hex(8)}"
    return str(known)


def _setup(settings: Settings, policy: Policy) -> Setup:
    """Gather what a start is recorded with. Blocks. Raises PolicyError."""
    return Setup(
        settings_text(settings), settings_summary(settings), detectors(policy), identify(policy)
    )


def _operations() -> dict[str, Operation]:
    """Return what operators can ask for beyond the ledger's own."""
    return {**CONTROL_OPERATIONS, **exporting.CONTROL_OPERATIONS}
