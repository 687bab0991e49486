"""Asking a running gateway through its control socket: what the verbs of `sphragis` share.

Owns the client's half. Invariant: "no gateway runs" is an answer of its own, so that a verb can
then work on the closed ledger itself; every other failure is a sentence. Blocks. Called by
`gateway.verbs` and `gateway.vault_cli`.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gateway.errors import GatewayError
from gateway.unix_path import CONTROL_SOCKET, reachable

#: Seconds; an erasure rewraps every key that is left.
PATIENCE: Final = 120.0
MAX_ANSWER: Final = 64 << 20


class NoGateway(GatewayError):
    """No gateway runs in this home."""


class ControlRefused(GatewayError):
    """The gateway answered and did not do it; `code` is for programs."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: Path, patience: float) -> None:
        super().__init__("localhost", timeout=patience)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        with reachable(self._path) as path:
            self.sock.connect(path)


def ask(
    home: Path,
    path: str,
    body: Mapping[str, Any] | None = None,
    *,
    patience: float = PATIENCE,
) -> dict[str, Any]:
    """POST `body` to an operation of the gateway of `home`, such as `/v1/seal`; return its answer.

    Raises NoGateway when none runs, ControlRefused with the gateway's sentence, and GatewayError
    when it does not answer within `patience` seconds.
    """
    connection = _Connection(home / CONTROL_SOCKET, patience)
    try:
        connection.request(
            "POST", path, json.dumps(body or {}), {"content-type": "application/json"}
        )
        response = connection.getresponse()
        answer = json.loads(response.read(MAX_ANSWER))
    except (FileNotFoundError, ConnectionRefusedError, NotADirectoryError) as gone:
        raise NoGateway(
            f"No gateway of {home} is running; start one with `sphragis serve`."
        ) from gone
    except (OSError, ValueError, http.client.HTTPException) as wrong:
        raise GatewayError(
            f"The gateway of {home} does not answer on its control socket "
            f"({type(wrong).__name__}); see its log."
        ) from wrong
    finally:
        connection.close()
    if response.status == 200 and isinstance(answer, dict):
        return answer
    told = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(told, dict):
        raise GatewayError(f"The gateway of {home} answers {response.status}; see its log.")
    raise ControlRefused(str(told.get("code", "")), str(told.get("message", "")))
