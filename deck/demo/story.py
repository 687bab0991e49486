"""The demo's story, step by step, and the statements it checks on the way.

Owns the order of events and what must hold after each. Invariant: a statement is printed only after
it was checked against real output (a file, an exit code, a process, a byte the provider received);
the first one that does not hold ends the story. Uses the two programs as a user does: command
lines, files, HTTP. Told by `deck.demo.telling`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from deck.demo import evidence, project
from deck.demo import world as worlds
from deck.demo.canaries import disguises, sightings
from deck.demo.evidence import Call, Received
from deck.demo.ledgers import change_one_byte, read_records
from deck.demo.show import Show, excerpt
from deck.demo.world import NotSo, World

#: How long one task may take from delegation to report; about four seconds on an idle machine.
_TASK_S: Final = 45.0


@dataclass(slots=True)
class Story:
    """The steps, in order. Each leaves behind what later steps look at."""

    world: World
    show: Show
    calls: dict[str, list[Call]] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)

    def tell(self) -> None:
        """Play every step. Raises NotSo at the first statement that does not hold."""
        self.show.originals = tuple(c.value for c in self.world.canaries)
        for step in (
            self.start,
            self.work,
            self.compare,
            self.search,
            self.count,
            self.verify,
            self.tamper,
            self.refuse,
            self.go_on,
            self.undo,
        ):
            step()

    def check(self, text: str, holds: bool, *, came: str = "", detail: str = "") -> None:
        """State something that was checked. Raises NotSo when it does not hold."""
        self.show.statement(text, holds=bool(holds), detail=detail)
        if not holds:
            raise NotSo(text, came or "it is not so", self.world.events)

    # -- the steps --------------------------------------------------------------------------

    def start(self) -> None:
        """A repository, a gateway, a team of three."""
        world = self.world
        self.show.step("A repository, a gateway, a team of three")
        world.start_gateway()
        self.check(f"the gateway is ready at http://{world.addr}", True, detail="sphragis serve")
        ran = world.start_deck()
        self.show.command(ran.line, ran.said, ran.code)
        agents = world.wait(self._agents, "three agents to run", 20.0)
        terminals = {os.readlink(f"/proc/{pid}/fd/0") for pid in agents} if _HAS_PROC else set()
        self.check(
            "three agents run, each a process of its own in a terminal of its own",
            len(agents) == 3 and (not _HAS_PROC or len(terminals) == 3),
            came=f"{len(agents)} processes in {len(terminals)} terminals",
            detail=" ".join(sorted(terminals)),
        )

    def _agents(self) -> list[int] | None:
        found = [
            pid for pid, command in self.world.living().items() if "deck.demo.agent" in command
        ]
        return found if len(found) >= 3 else None

    def work(self) -> None:
        """The team does a ticket: orchestrator to coder, coder back, then the reviewer."""
        world = self.world
        self.show.step("The team works on ticket 4711")
        for task in ("T1", "T2"):
            world.wait(lambda task=task: self._task(task, "reported"), f"{task} reported", _TASK_S)  # type: ignore[misc]
        world.wait(lambda: self._said_done("orchestrator"), "the orchestrator to finish", _TASK_S)
        self._show_board()
        rows = {row["id"]: row for row in self._tasks()}
        self.check(
            "the orchestrator delegated T1 to the coder and, after its report, T2 to the reviewer",
            rows["T1"]["role"] == "coder" and rows["T2"]["role"] == "reviewer",
            came=json.dumps(rows),
        )
        written = (world.repo / project.CUSTOMERS).read_text()
        self.check(
            f"the coder's {project.CUSTOMERS} holds the customer's real e-mail and phone",
            written == project.contacts(world.canaries),
            came=written,
        )
        tests = world.run("python3", "-m", "unittest", "-q")
        self.check("the repository's tests pass now", tests.code == 0, came=tests.said)

    def compare(self) -> None:
        """What an agent sent, what the provider received, what the agent got back."""
        self.show.step("What the agent sent, what the provider received, what the agent got back")
        self.received = evidence.read_received(self.world.record)
        self.calls = {r: evidence.read_calls(self.world.trace, r) for r in project.ROLES}
        every = [call for calls in self.calls.values() for call in calls]
        maps = [(call, self._token_map(call)) for call in every]
        self.check(
            f"all {len(every)} calls arrived as they were sent, but for tokens",
            bool(every) and all(found is not None for _, found in maps),
            came=", ".join(f"{c.role} call {c.number}" for c, found in maps if found is None),
        )
        self._compare_prompts()
        self._compare_tools()
        self._same_value_same_token([(c.role, found) for c, found in maps if found is not None])

    def _token_map(self, call: Call) -> dict[str, str] | None:
        found = evidence.match(call, self.received)
        return found[1] if found else None

    def _compare_prompts(self) -> None:
        """The coder's first call: its boot brief, with all six values, quoted back by the model."""
        call = self.calls["coder"][0]
        request = self._request(call)
        sent = evidence.prompt_text(call.sent)
        arrived = evidence.prompt_text(request.document()["messages"])
        back = evidence.answer_text(call.got)
        words = [c.value for c in self.world.canaries]
        self.show.side_by_side(
            "the coder reads its brief",
            [
                ("the agent sent", excerpt(sent, words)),
                ("the provider received", excerpt(arrived, words)),
                ("the agent got back", excerpt(back, words)),
            ],
        )
        self.check(
            "the prompt held all six values and the provider saw a token for each",
            all(word in sent for word in words) and len(evidence.TOKEN.findall(arrived)) >= 6,
            came=arrived,
        )
        for canary in self.world.canaries:
            returned = canary.value in back
            if canary.secret:
                self.check(f"the {canary.name} does not come back", not returned, came=back)
            else:
                self.check(f"the {canary.name} comes back to the agent", returned, came=back)

    def _compare_tools(self) -> None:
        """The coder's file: the tool call that the model answered, streamed piece by piece."""
        call = next(
            call
            for call in self.calls["coder"]
            for block in call.got
            if block["type"] == "tool_use" and block["input"].get("path") == project.CUSTOMERS
        )
        words = [c.value for c in self.world.canaries]
        arrived = self._request(call).document()["messages"]
        directive = f'"path": "{project.CUSTOMERS}"'
        line = next(t for t in evidence.prompt_text(arrived).splitlines() if directive in t)
        written = (self.world.repo / project.CUSTOMERS).read_text()
        received = json.loads(line.removeprefix("@tool write_file "))["content"]
        self.show.side_by_side(
            f"the coder is told to write {project.CUSTOMERS}",
            [
                ("the provider received", received.strip()),
                ("the tool call the agent got", call.got[-1]["input"]["content"].strip()),
                ("the file on disk", written.strip()),
            ],
        )
        self.check(
            "tool arguments, streamed in pieces, hold the originals again",
            call.got[-1]["input"]["content"] == project.contacts(self.world.canaries),
            came=evidence.answer_text(call.got),
        )
        self.check(
            "in the provider's copy of that line stand tokens only",
            not any(word in line for word in words) and evidence.TOKEN.search(line) is not None,
            came=line,
        )
        note = (self.world.repo / project.HANDOVER).read_text()
        values = {c.name: c.value for c in self.world.canaries}
        self.check(
            f"{project.HANDOVER}, written by the model: the e-mail, and a token for the password",
            values["e-mail"] in note
            and values["database password"] not in note
            and evidence.TOKEN.search(note) is not None,
            came=note,
        )

    def _same_value_same_token(self, maps: list[tuple[str, dict[str, str]]]) -> None:
        tokens: dict[tuple[str, str], set[str]] = {}
        for role, mapping in maps:
            for token, original in mapping.items():
                tokens.setdefault((role, original), set()).add(token)
        several = {key: found for key, found in tokens.items() if len(found) > 1}
        turns = max(len(calls) for calls in self.calls.values())
        self.check(
            f"a role's value has one and the same token on every turn (up to {turns} turns)",
            bool(tokens) and not several,
            came=str(sorted(several.values(), key=str)),
        )

    def _request(self, call: Call) -> Received:
        found = evidence.match(call, self.received)
        if found is None:
            raise NotSo(f"call {call.number} of {call.role} at the provider", "it is not there")
        return found[0]

    def search(self) -> None:
        """Every byte the provider received, searched for every value in every encoding."""
        self.show.step("Every byte the provider received")
        whole = self.world.record.read_bytes()
        bodies = [received.body for received in evidence.read_received(self.world.record)]
        canaries = self.world.canaries
        seen = [s for part in (whole, *bodies) for s in sightings(part, canaries)]
        encodings = len(dict(disguises("x" * 40)))
        self.check(
            f"none of the six values is in the {len(whole):,} bytes of {len(bodies)} requests, "
            f"in any of {encodings} encodings",
            bool(bodies) and not seen,
            came=str(seen[:5]),
        )
        sent = json.dumps([call.sent for calls in self.calls.values() for call in calls])
        self.check(
            "the same search finds all six in what the agents sent",
            {s.name for s in sightings(sent.encode(), canaries)} == {c.name for c in canaries},
        )

    def count(self) -> None:
        """Tokens and cost per role, as the deck tells them and as the SDK was told."""
        world = self.world
        self.show.step("Tokens and cost")
        told = world.wait(self._all_usage, "the deck to know each role's tokens", 35.0)
        ran = world.must("choragos", "report")
        self.show.command(ran.line, ran.said, ran.code)
        for role in project.ROLES:
            calls = self.calls[role]
            tokens, cost = told[role]
            # The deck reads the gateway's counters at every delivery and report and each 30 s: a
            # role's very last call may not be in yet.
            counted = len(calls)
            while counted and evidence.tokens_by_direction(calls[:counted]) != tokens:
                counted -= 1
            self.check(
                f"the {role}'s tokens and cost are those its SDK was told",
                counted >= len(calls) - 1 and abs(cost - _cost(tokens)) < 0.0001,
                came=f"the deck says {told[role]}, the SDK {evidence.tokens_by_direction(calls)}",
                detail=f"{counted} of {len(calls)} calls read so far",
            )

    def verify(self) -> None:
        """Both ledgers, verified by the public verifier."""
        self.show.step("The ledger")
        ran = self.world.run("sphragis", "verify", str(self.ledger))
        self.show.command(ran.line, ran.said, ran.code, lines=2)
        self.check("the gateway's ledger verifies", ran.code == 0, came=ran.said)
        records = list(read_records(self.ledger))
        intents = [r["seq"] for r in records if r["type"] == "request"]
        outcomes = {r.get("ref") for r in records if r["type"] == "outcome"}
        calls = sum(len(found) for found in self.calls.values())
        self.check(
            "every call has its record of intent and of outcome",
            len(intents) >= calls > 0 and outcomes >= set(intents),
            came=f"{calls} calls, {len(intents)} intents, {len(outcomes)} outcomes",
            detail=f"{len(records)} records",
        )
        texts = b"".join(path.read_bytes() for path in self.ledger.rglob("*") if path.is_file())
        self.check(
            "none of the six values stands in the gateway's ledger",
            not sightings(texts, self.world.canaries),
        )
        ran = self.world.run("sphragis", "verify", str(self.deck_ledger))
        self.check(
            "the deck's ledger verifies",
            ran.code == 0,
            came=ran.said,
            detail=ran.out.split("\n")[0],
        )

    def tamper(self) -> None:
        """A copy of the ledger with one byte changed: the verifier names the record."""
        self.show.step("A copy of the ledger with one byte changed")
        copy = self.world.root / "home" / "changed-copy"
        shutil.copytree(self.ledger, copy)
        seq, what = change_one_byte(copy)
        ran = self.world.run("sphragis", "verify", str(copy))
        self.show.command(ran.line, ran.said, ran.code, lines=4)
        named = [int(number) for number in re.findall(r"(?i)\brecord (\d+)\b", ran.said)]
        self.check(
            f"the verifier refuses the copy and names record {seq}",
            ran.code == 1 and named[:1] == [seq],
            came=f"exit {ran.code}, records named {named[:3]}",
            detail=what,
        )
        ran = self.world.run("sphragis", "verify", str(self.ledger))
        self.check("the original still verifies", ran.code == 0, came=ran.said)

    def refuse(self) -> None:
        """The gateway stopped: a delegation is refused, with the reason."""
        world = self.world
        self.show.step("The gateway is stopped")
        before = len(self._tasks())
        world.stop_gateway()
        ran = self._delegate_changes()
        self.show.command(ran.line, ran.said, ran.code)
        self.check(
            "a delegation is refused, with exit 1 and the reason",
            ran.code == 1 and "gateway" in ran.said,
            came=f"exit {ran.code}: {ran.said}",
        )
        delivered = [row for row in self._tasks()[before:] if row["state"] != "refused"]
        self.check("nothing was handed out", not delivered, came=str(delivered))
        denied = [r for r in read_records(self.deck_ledger) if r["type"] == "deny"]
        self.check(
            "the refusal is in the deck's log and in its ledger",
            world.has_event("dispatch refused") and len(denied) == 1,
            came="\n".join(world.event_lines()[-3:]),
        )

    def go_on(self) -> None:
        """The gateway back: the same delegation is taken and done."""
        world = self.world
        self.show.step("The gateway is back and work goes on")
        world.start_gateway()
        ran = world.wait(self._accepted_delegation, "a delegation to be taken", 15.0)
        self.show.command(ran.line, ran.said, ran.code)
        task = self._tasks()[-1]["id"]
        world.wait(lambda: self._task(task, "reported"), f"{task} reported", _TASK_S)
        self._show_board()
        changes = (world.repo / project.CHANGES).read_text()
        self.check(f"{task} was delivered, done and reported", "1.1" in changes, came=changes)
        calls = evidence.read_calls(world.trace, "coder")
        self.check(
            "values met before the stop are the same tokens after it",
            self._stable_across_restart(calls),
        )
        ran = world.run("sphragis", "verify", str(self.ledger))
        self.check("the ledger, continued, verifies", ran.code == 0, came=ran.said)
        seen = sightings(world.record.read_bytes(), world.canaries)
        self.check("and still no value has left", not seen, came=str(seen[:5]))

    def _stable_across_restart(self, calls: list[Call]) -> bool:
        received = evidence.read_received(self.world.record)
        first = evidence.match(calls[0], received)
        last = evidence.match(calls[-1], received)
        if first is None or last is None:
            return False
        return first[1].items() <= last[1].items()

    def undo(self) -> None:
        """Roll back T1: the file is as it was before the coder touched it."""
        world = self.world
        self.show.step("One task undone")
        path = world.repo / project.CUSTOMERS
        after = path.read_text()
        original = project.repository()[project.CUSTOMERS]
        before = _files(world.repo)
        ran = world.run("choragos", "rollback", "T1", "--yes")
        self.show.command(ran.line, ran.said, ran.code)
        now = path.read_text()
        self.show.diff(project.CUSTOMERS, after, now)
        self.check(
            f"`choragos rollback T1` restored {project.CUSTOMERS}",
            ran.code == 0 and now == original and after != original,
            came=f"exit {ran.code}: {ran.said}",
        )
        rest = _files(world.repo)
        touched = {name for name in before | rest if before.get(name) != rest.get(name)}
        self.check(
            "and touched only what T1 had changed; T3's work stands",
            touched <= {project.CUSTOMERS, project.HANDOVER},
            came=", ".join(sorted(touched)),
            detail=", ".join(sorted(touched)),
        )

    # -- what the steps ask -----------------------------------------------------------------

    @property
    def ledger(self) -> Path:
        """The gateway's ledger."""
        return self.world.gateway_home / "ledger"

    @property
    def deck_ledger(self) -> Path:
        """The deck's own ledger: its journal."""
        return self.world.repo / ".choragos" / "ledger"

    def _board(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.world.must("choragos", "board", "--json").out)
        return found

    def _tasks(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._board()["tasks"]
        return found

    def _task(self, task: str, state: str) -> bool:
        return self.world.has_event("msg=work-done", f"id={task} ") and any(
            row["id"] == task and row["state"] == state for row in self._tasks()
        )

    def _said_done(self, role: str) -> bool:
        return self.world.has_event("msg=work-done", f"from={role}", "done=true")

    def _all_usage(self) -> dict[str, tuple[dict[str, int], float]] | None:
        told = self._usage()
        return told if all(told[role][0]["input"] for role in project.ROLES) else None

    def _usage(self) -> dict[str, tuple[dict[str, int], float]]:
        """Return tokens by direction and dollars for each role, as the board has them."""
        return {
            row["role"]: (
                {name: row[key] for name, key in zip(project.PRICES, _BOARD_KEYS, strict=True)},
                row["cost_usd"] or 0.0,
            )
            for row in self._board()["usage"]
        }

    def _show_board(self) -> None:
        rows = [
            [row["id"], row["role"], row["from"], row["state"], row["label"]]
            for row in self._tasks()
        ]
        self.show.table("choragos board", ["id", "role", "from", "state", "task"], rows)

    def _delegate_changes(self) -> worlds.Ran:
        task = "Note the change"
        brief = project.BRIEF_CHANGES
        return self.world.run(
            "choragos", "delegate", "--to", "coder", "--brief", brief, "--task", task
        )

    def _accepted_delegation(self) -> worlds.Ran | None:
        ran = self._delegate_changes()
        return ran if ran.code == 0 else None


_HAS_PROC: Final = Path("/proc/self/fd").exists()
#: The board's names for the directions of `project.PRICES`, in the same order.
_BOARD_KEYS: Final = ("in", "out", "cache_read", "cache_creation")


def _cost(tokens: dict[str, int]) -> float:
    """Price tokens by the team file's own prices, in dollars."""
    return sum(tokens[name] * price for name, price in project.PRICES.items()) / 1_000_000


def _files(repository: Path) -> dict[str, bytes]:
    """Read the files of the workspace, path to bytes; state of git and of the deck left out."""
    return {
        str(path.relative_to(repository)): path.read_bytes()
        for path in repository.rglob("*")
        if path.is_file() and not {".git", ".choragos", "__pycache__"} & set(path.parts)
    }
