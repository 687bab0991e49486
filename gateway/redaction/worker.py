"""The program a scanning worker process runs: read a job, scan it, answer; until the pipe ends.

Owns the worker's side of `frames`. Invariant: the process never outlives the gateway: it ends at
the end of its pipe, and on Linux the kernel kills it when the gateway dies while it is scanning; it
never uses the network. Nothing from a call is ever printed. Started by `workers`.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import gc
import os
import signal
import socket
import sys
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from gateway.redaction.frames import Frames, FramesEnded
from gateway.redaction.job import ScanJob, ScanRefused, ScanResult
from gateway.redaction.no_network import forbid_network
from gateway.redaction.policy_file import parse_policy
from gateway.redaction.presidio import import_lightly
from gateway.redaction.scanner import Scanner

_PR_SET_PDEATHSIG: Final = 1
#: The gateway itself answers health checks and takes calls while all workers are busy.
_NICE: Final = 2
#: Structures of large bodies are trees, freed without the collector; it need not come often.
_COLLECT_AFTER: Final = (50_000, 20, 20)


def main(descriptor: int, parent: int) -> None:
    """Serve jobs on the socket `descriptor` until its other end, held by `parent`, is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the gateway, which ends the pipe
    _die_with_parent(parent)
    forbid_network()
    os.nice(_NICE)
    with socket.socket(fileno=descriptor) as sock, contextlib.suppress(FramesEnded):
        frames = Frames(sock)
        scanner = _start(frames)
        while scanner is not None:
            head, body = frames.receive()
            frames.send(*_answer(scanner, head, body))


def _start(frames: Frames) -> Scanner | None:
    """Build the scanner from the first message; say whether it worked."""
    head, _ = frames.receive()
    try:
        policy = parse_policy(
            head["policy"],
            source=head["source"],
            directory=Path(head["directory"]) if head["directory"] else None,
            terms=tuple(head["terms"]),
        )
        if not policy.recognizers:
            import_lightly()
        scanner = Scanner(policy, base64.b64decode(head["key"]), wire_package=head["wire_package"])
        scanner.warm()
    except Exception as error:
        # The text of our own errors is made for people; others may quote anything.
        told = str(error) if type(error).__module__.startswith("gateway.") else type(error).__name__
        frames.send({"failed": told})
        return None
    # What is there now stays: the collector need not look at it again, after each large body.
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    frames.send({"ready": True})
    return scanner


def _answer(scanner: Scanner, head: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        result = scanner.run(ScanJob(body=body, **head))
    except ScanRefused as refused:
        return {"code": refused.code, "sentence": refused.sentence}, b""
    told = dict(zip(_RESULT_FIELDS, _told(result), strict=True))
    return told | {"extra_hits": sorted(result.extra_hits)}, result.body


_RESULT_FIELDS: Final = tuple(
    field.name
    for field in fields(ScanResult)
    if field.name not in {"body", "extra_hits", "foreign"}
)
_told: Final = attrgetter(*_RESULT_FIELDS)


_JOB_HEAD: Final = tuple(field.name for field in fields(ScanJob) if field.name != "body")
_job_head: Final = attrgetter(*_JOB_HEAD)


def job_head(job: ScanJob) -> dict[str, Any]:
    """Everything of a job but its body."""
    return dict(zip(_JOB_HEAD, _job_head(job), strict=True))


def _die_with_parent(parent: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the kernel was told
        raise SystemExit(0)
