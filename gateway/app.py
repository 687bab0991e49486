"""Wiring: what runs when the gateway or the offline provider is started.

Owns the listeners and the order of start and stop; decides nothing about a call.
Called by `gateway.cli`.
"""

from __future__ import annotations

from pathlib import Path

from gateway.listening import run_loop, stop_event, unlistenable
from gateway.offline import start_provider
from gateway.settings import parse_listen_addr


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
