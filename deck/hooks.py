"""The user's shell hooks: `on_gate`, `on_input`, `on_timeout` of the team file.

Owns how they run: `sh -c` in the background with the deck's own environment plus CHORAGOS_ROLE and
CHORAGOS_TASK (contracts/deck.md section 1.15), output discarded, at most one minute, a failure is
one line in the log. Nothing waits for a hook. Called by `deck.session`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from typing import Final

from deck.events import EventLog

HOOK_SECONDS: Final = 60.0


async def run_hook(
    name: str, command: str, *, role: str, task: str, environ: Mapping[str, str], events: EventLog
) -> None:
    """Run one hook to its end. Never raises."""
    try:
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-c",
            command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={**environ, "CHORAGOS_ROLE": role, "CHORAGOS_TASK": task},
            # What it has started ends with it.
            start_new_session=True,
        )
    except OSError as error:
        events.write("WARN", "hook failed", hook=name, err=error.strerror or "cannot start")
        return
    try:
        async with asyncio.timeout(HOOK_SECONDS):
            status = await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        events.write("WARN", "hook failed", hook=name, err=f"longer than {HOOK_SECONDS:g} s")
        return
    if status != 0:
        events.write("WARN", "hook failed", hook=name, err=f"exit {status}")
