"""The proof that a wall holds: from inside, everything that must fail is tried, and what must work.

Owns the attempt and what its findings mean. A listener outside, on loopback and as an abstract
socket, must not be reached; homes, keys, ledgers and the operator's socket must not be seen; the
gateway's address and the role's control socket must answer. Blocks for some tenths of a second:
called in a thread by `deck.wall.wall` when a session starts, and by the doctor.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from deck.wall.plan import Plan

#: A machine that is busy with other agents takes its time to start two programs.
PROOF_SECONDS: Final = 20.0
_SAID_CHARS: Final = 200


@dataclass(frozen=True, slots=True)
class Question:
    """What is tried: places that must show nothing, that must be writable and that must not;
    the role's control socket; whether the gateway must answer, not only be connected to."""

    hidden: Sequence[Path]
    writable: Sequence[Path]
    fixed: Sequence[Path]
    control: Path
    must_answer: bool


def prove(plan: Plan, env: Mapping[str, str], question: Question) -> list[str]:
    """Return what is wrong with the wall, a clause each; [] when it holds. Blocks."""
    with _outside() as others:
        asked = {
            "others": others,
            "hidden": [str(path) for path in question.hidden],
            "writable": [str(path) for path in question.writable],
            "fixed": [str(path) for path in question.fixed],
            "control": str(question.control),
            "gateway": plan.address,
        }
        try:
            done = subprocess.run(
                plan.command(plan.beside("--prove", json.dumps(asked))),
                cwd=plan.directory,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=PROOF_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return [f"the attempt from inside did not end within {PROOF_SECONDS:g} s"]
        except OSError as failure:
            return [f"bubblewrap cannot be run: {failure.strerror}"]
    found = _document(done.stdout)
    if found is None:
        return [_cannot(done.stderr.decode("utf-8", "replace"))]
    return list(problems(found, question))


def problems(found: Mapping[str, Any], question: Question) -> Iterator[str]:
    """Yield a clause for each finding that must not be. Pure."""
    for name in found["reached"]:
        what = "an abstract socket" if str(name).startswith("@") else "another port"
        yield f"{what} of this machine can be reached from inside"
    if set(found["interfaces"]) - {"lo"}:
        yield "a network interface besides loopback is there inside"
    for path in found["seen"]:
        yield f"{path} can be seen from inside"
    for path in found["changeable"]:
        yield f"{path} can be changed from inside"
    for path in found["unwritable"]:
        yield f"{path} cannot be written from inside"
    if not found["control"]:
        yield "the role's control socket cannot be reached from inside"
    if not found["gateway"] or (question.must_answer and found["gateway"] == "-"):
        yield "the gateway cannot be reached from inside"


@contextmanager
def _outside() -> Iterator[list[str]]:
    """Listen where nobody inside may come, and yield the names of these places."""
    with socket.create_server(("127.0.0.1", 0)) as port, socket.socket(socket.AF_UNIX) as abstract:
        names = [f"127.0.0.1:{port.getsockname()[1]}"]
        abstract.bind("")  # the kernel picks an abstract name
        abstract.listen()
        bound = abstract.getsockname()
        if isinstance(bound, bytes):
            names.append("@" + bound[1:].decode("ascii"))
        yield names


def _document(output: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(output)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _cannot(said: str) -> str:
    """Return why there is no wall, from what bubblewrap or the kernel said."""
    first = next((line for line in said.splitlines() if line.strip()), "it says nothing")
    text = "".join(c for c in first if c.isprintable())[:_SAID_CHARS].rstrip(".")
    advice = ""
    if any(word in said.lower() for word in ("namespace", "permission", "not permitted")):
        advice = (
            " (the kernel must allow unprivileged user namespaces: sysctl "
            "kernel.unprivileged_userns_clone=1 or an AppArmor profile for bwrap; in a container, "
            "the container must allow them)"
        )
    return f"bubblewrap cannot make it here: {text}{advice}"
