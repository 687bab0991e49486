"""`choragos demo` as a user runs it: it tells the truth, ends in time and leaves nothing."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e_servers import BIN

from deck.demo import world as worlds

#: The promise is 60 s on two cores; other tests run beside this one.
LIMIT_S = 120


def user_environment(home: Path) -> dict[str, str]:
    """A user who works with a real provider: none of this may reach the demo."""
    return {
        **{k: v for k, v in os.environ.items() if k.startswith(("COVERAGE_", "COV_CORE_", "LC_"))},
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "TERM": "xterm-256color",
        "ANTHROPIC_API_KEY": "the-users-own-key",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/not-here",
        "ANTHROPIC_AUTH_TOKEN": "the-users-own-token",
        "ANTHROPIC_CUSTOM_HEADERS": "X-Users-Own: yes",
        "SPHRAGIS_LISTEN_ADDR": "127.0.0.1:1",
        "SPHRAGIS_NO_SUCH_SETTING": "would be refused",
        "CHORAGOS_SOCK": str(home / "no.sock"),
        "HTTP_PROXY": "http://127.0.0.1:9",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "ALL_PROXY": "http://127.0.0.1:9",
        "GIT_DIR": str(home / "not-a-repository"),
    }


@dataclass(frozen=True)
class Place:
    """Where the demo of one test makes its directory: its processes are known by this path."""

    temp: Path
    home: Path

    def demo(self, *options: str) -> dict:
        return {
            "args": [BIN / "choragos", "demo", *options],
            "cwd": self.home,
            "env": {**user_environment(self.home), "TMPDIR": str(self.temp)},
            "stdin": subprocess.DEVNULL,
            "text": True,
        }

    def processes(self) -> dict[int, str]:
        mark = os.fsencode(self.temp / "choragos-demo-")
        return {pid: line for pid, environ, line in worlds._processes() if mark in environ}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    # A short path: the demo's sockets live below it.
    temp = Path(tempfile.mkdtemp(prefix="cd-", dir="/tmp"))
    made = Place(temp, tmp_path)
    yield made
    deadline = time.monotonic() + 5
    while made.processes() and time.monotonic() < deadline:
        time.sleep(0.1)
    try:
        assert made.processes() == {}
        assert list(temp.iterdir()) == []
    finally:
        shutil.rmtree(temp)


def test_the_demo_holds_every_statement_and_leaves_nothing(place: Place) -> None:
    done = subprocess.run(**place.demo(), check=False, capture_output=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = re.search(r"(\d+) of (\d+) statements held, [\d.]+ s", done.stdout)
    assert verdict is not None, done.stdout
    assert verdict[1] == verdict[2]
    assert int(verdict[1]) >= 25
    assert "✗" not in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    for told in ("the agent sent", "the provider received", "the agent got back", "choragos board"):
        assert told in done.stdout
    # HOME of the user: the demo wrote nothing there.
    assert list(place.home.iterdir()) == []


def test_an_interrupted_demo_cleans_up(place: Place) -> None:
    running = subprocess.Popen(**place.demo(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 60
    while len(place.processes()) < 4 and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 130, out
    assert "Interrupted" in out
    assert "Traceback" not in out


def test_a_step_that_fails_says_what_was_expected_what_came_and_the_end_of_the_log(
    place: Place,
) -> None:
    # The one thing that reaches the demo's programs from outside: Python's own path.
    broken = place.home / "site"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(
        "import sys\n"
        "if sys.argv and sys.argv[0].endswith('sphragis'):\n"
        "    print('a log line of the broken gateway', file=sys.stderr, flush=True)\n"
        "    import os\n"
        "    os._exit(7)\n"
    )
    started = place.demo()
    started["env"]["PYTHONPATH"] = str(broken)
    done = subprocess.run(**started, check=False, capture_output=True, timeout=LIMIT_S)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "expected  the gateway to be ready" in done.stdout
    assert "came      it ended with exit 7" in done.stdout
    assert "a log line of the broken gateway" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert re.search(r"2 of 3 statements held", done.stdout), done.stdout


def test_a_demo_that_is_kept_can_be_looked_at_and_ended_as_it_says(place: Place) -> None:
    done = subprocess.run(**place.demo("--keep"), check=False, capture_output=True, timeout=LIMIT_S)
    end = re.search(r"^  (sh /\S+/end\.sh)$", done.stdout, re.MULTILINE)
    look = re.search(r"^  (sh /\S+/look\.sh)$", done.stdout, re.MULTILINE)
    assert end is not None, done.stdout + done.stderr
    assert look is not None
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        commands = (
            "choragos board && choragos report && choragos checkpoints"
            " && cat .choragos/logs/events.log $DEMO/provider.jsonl"
            " && sphragis verify $SPHRAGIS_HOME/ledger"
        )
        seen = shell(f"{look[1]} -c '{commands}'", place.home)
        assert seen.returncode == 0, seen.stdout + seen.stderr
        assert "reported" in seen.stdout
    finally:
        ended = shell(end[1], place.home)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def shell(line: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", line],
        env=user_environment(home),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
