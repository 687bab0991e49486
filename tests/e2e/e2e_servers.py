"""What the end-to-end tests talk to: `sphragis serve --offline` in a process of its own, and the
clean environment that clients get."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from ports import free_port

from deck.demo.canaries import sightings
from deck.demo.evidence import Received, read_received
from shared.telemetry import parse_usage

BIN = Path(sys.executable).parent


def clean_env(home: Path, **more: str) -> dict[str, str]:
    """As `env -i`: nothing of this process but PATH and the language."""
    passed = {k: os.environ[k] for k in ("LANG", "LC_ALL") if k in os.environ}
    coverage = {k: v for k, v in os.environ.items() if k.startswith(("COVERAGE_", "COV_CORE_"))}
    return {
        **passed,
        **coverage,
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": str(home),
        "TERM": "xterm-256color",
        # A name that resolves to nothing: whatever leaves the base URL aside goes nowhere.
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "NO_PROXY": "127.0.0.1,localhost",
        **more,
    }


@dataclass
class Server:
    """`sphragis serve --offline` in a process of its own."""

    home: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def record(self) -> Path:
        return self.home / "provider.jsonl"

    @property
    def log(self) -> Path:
        return self.home / "server.log"

    @property
    def ledger(self) -> Path:
        return self.home / "ledger"

    def url(self, role: str) -> str:
        return f"http://127.0.0.1:{self.port}/agent/{role}"

    def env(self) -> dict[str, str]:
        return clean_env(
            self.home,
            SPHRAGIS_HOME=str(self.home),
            SPHRAGIS_LISTEN_ADDR=f"127.0.0.1:{self.port}",
            **self.settings,
        )

    def start(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [BIN / "sphragis", "serve", "--offline", "--offline-record", self.record],
                env=self.env(),
                cwd=self.home,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 60
        while not self.ready():
            ended = self.process.poll()
            if ended is not None or time.monotonic() > deadline:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"exit {ended}: {self.log.read_text()[-3000:]}")
            time.sleep(0.1)

    def ready(self) -> bool:
        try:
            return self.get("/readyz").status_code == 200
        except httpx.HTTPError:
            return False

    def get(self, path: str) -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", trust_env=False, timeout=5)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        code = self.process.wait(20)
        self.process = None
        return code

    def received(self) -> list[Received]:
        return read_received(self.record)

    def received_bytes(self) -> bytes:
        """The record file and every body by itself: the file escapes what a body writes plain."""
        whole = self.record.read_bytes() if self.record.exists() else b""
        return b"\n".join([whole, *(entry.body for entry in self.received())])

    def assert_no_leak(self, canaries) -> None:
        seen = sightings(self.received_bytes(), tuple(canaries))
        assert seen == [], f"the provider received {seen}"

    def verify(self) -> dict[str, Any]:
        done = subprocess.run(
            [BIN / "sphragis", "verify", self.ledger, "--json"],
            env=self.env(),
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def records(self) -> list[dict[str, Any]]:
        """The ledger's records; checkpoint lines are not records."""
        lines = [
            json.loads(line)
            for segment in sorted((self.ledger / "segments").glob("*.jsonl"))
            for line in segment.read_bytes().splitlines()
        ]
        return [line for line in lines if "seq" in line]

    def usage(self, role: str) -> dict[str, int]:
        totals: dict[str, int] = {}
        for key, count in parse_usage(self.get("/metrics").text).items():
            if key.agent == role:
                totals[key.direction] = totals.get(key.direction, 0) + count
        return totals
