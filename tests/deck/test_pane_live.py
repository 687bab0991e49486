"""Panes with scripted agents on real PTYs: every behavior that has fooled a deck before."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from deck.agents import adapter_for
from deck.pane import (
    LineKind,
    Outcome,
    OutcomeKind,
    Pane,
    PaneError,
    PaneSpec,
    PaneStartError,
    PaneState,
    Step,
)
from deck.pane.process_table import process_table

ENV = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
BRIEF = "Read .choragos/coder-brief.md for your role, then wait without doing anything else."
TASK = "Read .choragos/tasks/T1.md for your task."

# A raw-mode agent with a composer. Its habits are set by the words of its first argument.
AGENT = r"""
import base64, os, sys, time, tty
habits = set(sys.argv[1].split(","))
log = open(sys.argv[2], "a", buffering=1)
def w(s): os.write(1, s.encode())
def signal(s, **kw):
    if "signals" in habits:
        w("\x1b]7501;state=" + s + "".join(f":{k}={v}" for k, v in kw.items()) + "\x07")
if "slow" in habits: time.sleep(2.5)
if "title" in habits:
    w("\x1b]0;\u25c7  Ready (work)\x07"); time.sleep(4.5)
if "late" in habits: w("loading\r\n"); time.sleep(4)
if "trust" in habits:
    tty.setraw(0)
    w("Do you trust the files in this folder?\r\n\r\n\u276f No, exit\r\n  Yes, proceed\r\n")
    while True:
        key = os.read(0, 100)
        log.write("dialog %r\n" % key)
        if key == b"y": break
        if b"\r" in key: w("bye\r\n"); sys.exit(1)
    w("\x1b[2J\x1b[H")
tty.setraw(0)
if "deaf" in habits: w("loading\r\n"); time.sleep(5)
if "drops" in habits:
    w("loading\r\n"); time.sleep(2.5)
    import termios; termios.tcflush(0, termios.TCIFLUSH)
if "title" in habits:
    import termios
    w("type your message\r\n"); time.sleep(0.5); termios.tcflush(0, termios.TCIFLUSH)
if "paste" in habits: w("\x1b[?2004h")
if "probe" in habits:
    w("\x1b]7501;?\x07\x1b[c"); answer = b""
    while not answer.endswith(b"c"): answer += os.read(0, 100)
    log.write("probe %r\n" % answer)
boxed = "boxed" in habits
def draw():
    if boxed:
        room = 36
        body = "> " + text
        parts = [body[i:i+room] for i in range(0, len(body), room)] or [""]
        w("\x1b[5;1H\x1b[J\u256d" + "\u2500"*38 + "\u256e\r\n")
        for p in parts: w("\u2502 " + p.ljust(room) + " \u2502\r\n")
        w("\u2570" + "\u2500"*38 + "\u256f\r\n  ? for shortcuts\r\n")
    else:
        w("\r\x1b[K> " + text)
text = ""
swallow = 1 if "swallow" in habits else 0
w("\x1b[2J\x1b[Hfake agent: type your message\r\n"); signal("idle"); draw()
if "clock" in habits:
    import threading
    def tick():
        n = 0
        while True:
            n += 1; w("\x1b7\x1b[20;1H%d frames\x1b8" % n); time.sleep(0.02)
    threading.Thread(target=tick, daemon=True).start()
while True:
    data = os.read(0, 65536)
    log.write("read %r\n" % data)
    if "opens" in habits:
        habits.discard("opens")
        w("\r\nDo you want to proceed?\r\n\u276f 1. Yes\r\n  2. No\r\n")
        while True:
            key = os.read(0, 100); log.write("dialog %r\n" % key)
            if key in (b"1", b"2"): break
        w("\x1b[2J\x1b[H")
    if data == b"\x05": continue
    if data == b"\x15": text = ""; draw(); continue
    pasted = data.startswith(b"\x1b[200~")
    data = data.replace(b"\x1b[200~", b"").replace(b"\x1b[201~", b"").decode()
    if "\r" in data and len(data) > 1 and "strict" in habits: data = data.replace("\r", "\n")
    for c in data:
        if c == "\n": text += " "; continue
        if c != "\r": text += c; continue
        if swallow: swallow -= 1; continue
        text = text.strip()
        log.write("GOT " + text + "\n")
        if text == "quit": w("\r\nbye\r\n"); sys.exit(3)
        said, text = text, ""
        w("\x1b[3;1H\x1b[J" if boxed else "\r\n"); w("you said: " + said + "\r\n")
        if "asks" in habits:
            question = base64.b64encode(b"approve Bash: touch x").decode()
            signal("blocked", kind="permission", msg=question)
            w("Do you want to proceed?\r\n\u276f 1. Yes\r\n  2. No\r\n")
            while True:
                key = os.read(0, 100); log.write("dialog %r\n" % key)
                if key in (b"1", b"2"): break
            w("\x1b[2J\x1b[H"); signal("idle")
        if "pinned" in habits: signal("working")
        if "returns" in habits:
            signal("working"); w("working, esc to interrupt\r\n")
            while os.read(0, 100) != b"\x1b": pass
            text = said; habits.discard("returns"); signal("idle")
        if "works" in habits:
            signal("working"); w("working\u2026\r\n"); time.sleep(1.5); signal("done")
    draw()
"""


class Agents:
    """Makes panes with scripted agents and remembers what each agent read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.panes: list[Pane] = []
        self.states: list[PaneState] = []
        self.script = directory / "agent.py"
        self.script.write_text(AGENT)
        self.log = directory / "agent.log"

    async def agent(self, *habits: str, **options: object) -> Pane:
        habit = ",".join(habits) or "none"
        line = (sys.executable, "-S", str(self.script), habit, str(self.log))
        return await self.run(*line, **options)

    async def run(self, *argv: str, **options: object) -> Pane:
        spec = PaneSpec("coder", argv, self.directory, ENV, rows=24, cols=80, **options)  # type: ignore[arg-type]
        pane = Pane(spec, on_status=lambda _, status: self.states.append(status.state))
        self.panes.append(pane)
        await pane.start()
        return pane

    def got(self) -> list[str]:
        """Lines the agent took as submitted."""
        return [line[4:] for line in self.read() if line.startswith("GOT ")]

    def read(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
async def agents(tmp_path: Path) -> AsyncIterator[Agents]:
    made = Agents(tmp_path)
    yield made
    await asyncio.gather(*(pane.stop(0.2) for pane in made.panes))


async def until(condition: Callable[[], object], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def result(future: "asyncio.Future[Outcome]", seconds: float = 20) -> Outcome:
    return await asyncio.wait_for(future, seconds)


async def test_a_brief_and_a_task_arrive_whole_and_verified_in_every_kind_of_composer(
    tmp_path: Path,
) -> None:
    kinds = [(), ("paste",), ("boxed", "paste"), ("boxed",), ("strict",)]
    made = []
    for habits in kinds:
        directory = tmp_path / ("_".join(habits) or "plain")
        directory.mkdir()
        made.append(Agents(directory))

    async def scene(agents: Agents, habits: tuple[str, ...]) -> None:
        pane = await agents.agent(*habits)
        steps: list[Step] = []
        boot = pane.inject(BRIEF, kind=LineKind.BOOT)
        task = pane.inject(TASK, on_step=steps.append)
        for outcome in (await result(boot), await result(task)):
            assert outcome == Outcome(OutcomeKind.DELIVERED, "", injections=1, enters=1)
        assert agents.got() == [BRIEF, TASK]
        assert steps == [Step.TYPED, Step.SUBMITTED, Step.PICKED_UP]
        await pane.stop(0.2)

    await asyncio.gather(*(scene(a, habits) for a, habits in zip(made, kinds, strict=True)))


async def test_many_lines_at_once_arrive_in_order_and_none_is_merged(agents: Agents) -> None:
    pane = await agents.agent("signals")
    lines = [f"task number {i} of many" for i in range(8)]
    outcomes = await asyncio.gather(*(result(pane.inject(line), 30) for line in lines))
    assert agents.got() == lines
    assert all(outcome.verified for outcome in outcomes)


async def test_a_swallowed_enter_is_sent_once_more(agents: Agents) -> None:
    pane = await agents.agent("swallow")
    outcome = await result(pane.inject(TASK))
    assert (outcome.kind, outcome.enters) == (OutcomeKind.DELIVERED, 2)
    assert agents.got() == [TASK]


async def test_nothing_is_typed_into_a_trust_dialog_and_the_line_goes_out_after_it(
    agents: Agents,
) -> None:
    pane = await agents.agent("trust")
    boot = pane.inject(BRIEF, kind=LineKind.BOOT)
    await until(lambda: pane.state is PaneState.BLOCKED)
    assert "trust the files" in pane.status.question
    await asyncio.sleep(2.5)
    assert agents.read() == []
    assert "blocked" in pane.held_reason
    pane.type_bytes(b"y")
    assert (await result(boot)).verified
    assert agents.got() == [BRIEF]


async def test_a_permission_question_is_shown_and_the_next_line_waits_for_its_answer(
    agents: Agents,
) -> None:
    pane = await agents.agent("asks", "signals")
    assert (await result(pane.inject("first task"))).verified
    await until(lambda: pane.state is PaneState.BLOCKED)
    assert pane.status.question == "approve Bash: touch x"
    second = pane.inject("second task")
    await asyncio.sleep(1)
    assert not second.done()
    assert not any(line.startswith("dialog") for line in agents.read())
    pane.type_bytes(b"1")
    assert (await result(second)).verified
    assert agents.got() == ["first task", "second task"]
    assert [line for line in agents.read() if line.startswith("dialog")] == ["dialog b'1'"]


async def test_a_busy_agent_gets_its_next_line_when_it_is_done(agents: Agents) -> None:
    pane = await agents.agent("works", "signals")
    await result(pane.inject("first"))
    await until(lambda: pane.state is PaneState.WORKING)
    outcome = await result(pane.inject("second"))
    assert outcome.verified
    reads = [line for line in agents.read() if line.startswith("GOT")]
    assert reads == ["GOT first", "GOT second"]


async def test_a_slow_starter_is_waited_for(agents: Agents) -> None:
    pane = await agents.agent("slow")
    outcome = await result(pane.inject(BRIEF, kind=LineKind.BOOT))
    assert outcome.verified
    assert agents.got() == [BRIEF]


async def test_a_brief_dropped_by_an_agent_that_was_not_ready_is_typed_again(
    agents: Agents,
) -> None:
    pane = await agents.agent("drops")
    outcome = await result(pane.inject(BRIEF, kind=LineKind.BOOT))
    assert outcome.kind is OutcomeKind.DELIVERED
    assert agents.got()[-1] == BRIEF
    assert agents.got().count(BRIEF) == 1


async def test_nothing_is_typed_into_an_agent_whose_title_says_ready_before_it_reads(
    agents: Agents,
) -> None:
    pane = await agents.agent("title", "paste", marks=adapter_for("gemini").marks)
    boot, task = pane.inject(BRIEF, kind=LineKind.BOOT), pane.inject(TASK)
    await until(lambda: pane.title != "")
    await asyncio.sleep(3)
    assert pane.state is PaneState.BOOTING
    for outcome in (await result(boot), await result(task)):
        assert outcome == Outcome(OutcomeKind.DELIVERED, "", injections=1, enters=1)
    assert agents.got() == [BRIEF, TASK]


@pytest.mark.parametrize("habit", ["deaf", "late"])
async def test_a_brief_for_an_agent_that_reads_late_arrives_once_and_whole(
    agents: Agents, habit: str
) -> None:
    # "late" is still in line mode when the brief is typed, "deaf" is in raw mode and not reading.
    pane = await agents.agent(habit, "strict")
    outcome = await result(pane.inject(BRIEF, kind=LineKind.BOOT))
    assert outcome.kind is OutcomeKind.DELIVERED
    assert [line for line in agents.got() if line] == [BRIEF]
    # "late" throws away what came before: there the text is typed again.
    assert outcome.injections == (1 if habit == "deaf" else 2)


async def test_the_status_probe_is_answered_with_its_own_bytes_before_the_attributes(
    agents: Agents,
) -> None:
    await agents.agent("probe")
    await until(lambda: any(line.startswith("probe") for line in agents.read()))
    assert agents.read()[0] == r"probe b'\x1b]7501;?\x07\x1b[?62;22c'"


async def test_a_persons_keys_never_fall_between_a_lines_text_and_its_enter(
    agents: Agents,
) -> None:
    pane = await agents.agent("signals")
    await until(lambda: pane.state is PaneState.IDLE)
    line = pane.inject(TASK)
    await until(lambda: any("tasks/T1" in r for r in agents.read()))
    pane.type_bytes(b"me too\r")
    assert (await result(line)).verified
    await until(lambda: len(agents.got()) == 2)
    assert agents.got() == [TASK, "me too"]


async def test_a_line_waits_until_a_person_has_finished_theirs(agents: Agents) -> None:
    pane = await agents.agent("signals")
    await until(lambda: pane.state is PaneState.IDLE)
    pane.type_bytes(b"half a l")
    line = pane.inject(TASK)
    await asyncio.sleep(1)
    assert "person" in pane.held_reason
    pane.type_bytes(b"ine\r")
    assert (await result(line)).verified
    assert agents.got() == ["half a line", TASK]


async def test_an_agent_that_exits_resolves_every_waiting_line(agents: Agents) -> None:
    pane = await agents.agent("signals")
    await until(lambda: pane.state is PaneState.IDLE)
    first, second = pane.inject("quit"), pane.inject(TASK)
    assert (await result(second)).kind is OutcomeKind.REFUSED
    assert "exit 3" in (await result(second)).reason
    await result(first)
    assert pane.state is PaneState.EXITED
    assert str(pane.exit_status) == "exit 3"
    assert "bye" in pane.tail(1)[0]
    late = await result(pane.inject(TASK))
    assert late.kind is OutcomeKind.REFUSED
    assert "not running" in late.reason


async def test_a_prompt_that_escape_brought_back_is_not_sent_with_the_next_line(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deck.pane.human_line.PERSON_SECONDS", 1.0)
    pane = await agents.agent("signals", "returns")
    assert (await result(pane.inject("first"))).verified
    await until(lambda: pane.state is PaneState.WORKING)
    pane.type_bytes(b"\x1b")
    await until(lambda: pane.state is PaneState.IDLE)
    line = pane.inject(TASK)
    await asyncio.sleep(0.5)
    assert "person" in pane.held_reason
    assert (await result(line)).verified
    assert agents.got() == ["first", TASK]


async def test_a_line_a_person_gave_up_is_cleared_before_the_next_one(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deck.pane.human_line.PERSON_SECONDS", 1.0)
    pane = await agents.agent("signals")
    shell = await agents.run("sh", "-c", "echo ready; while read l; do echo got $l; done")
    await until(lambda: PaneState.IDLE is pane.state is shell.state)
    for one in (pane, shell):
        one.type_bytes(b"half a l")
        assert (await result(one.inject(TASK))).verified
    assert agents.got() == [TASK]
    assert f"got {TASK}" in shell.rows()


async def test_a_person_can_answer_a_dialog_that_opened_under_the_typed_text(
    agents: Agents,
) -> None:
    pane = await agents.agent("signals", "opens")
    line = pane.inject(TASK)
    await until(lambda: pane.state is PaneState.BLOCKED)
    await asyncio.sleep(0.6)
    assert not any(read.startswith("dialog") for read in agents.read())
    pane.type_bytes(b"2")
    assert (await result(line)).verified
    assert agents.got() == [TASK]
    assert [read for read in agents.read() if read.startswith("dialog")] == ["dialog b'2'"]


async def test_an_agent_that_redraws_all_the_time_gets_its_lines_when_it_says_it_rests(
    agents: Agents,
) -> None:
    pane = await agents.agent("signals", "clock")
    for text in (BRIEF, TASK):
        assert (await result(pane.inject(text, kind=LineKind.BOOT))).verified
    assert agents.got() == [BRIEF, TASK]


async def test_an_agent_that_says_for_ever_that_it_works_keeps_the_line_and_says_why(
    agents: Agents,
) -> None:
    pane = await agents.agent("signals", "pinned")
    assert (await result(pane.inject("first"))).verified
    second = pane.inject("second")
    await asyncio.sleep(3)
    assert not second.done()
    assert agents.got() == ["first"]
    assert "working" in pane.held_reason


async def test_a_brief_goes_out_before_lines_that_were_queued_earlier(agents: Agents) -> None:
    pane = await agents.agent("signals")
    task = pane.inject(TASK)
    await asyncio.sleep(0.3)
    boot = pane.inject(BRIEF, kind=LineKind.BOOT)
    await result(task)
    assert (await result(boot)).verified
    assert agents.got() == [BRIEF, TASK]


async def test_a_cancelled_line_is_not_typed(agents: Agents) -> None:
    pane = await agents.agent("slow", "signals")
    boot, gone = pane.inject(BRIEF, kind=LineKind.BOOT), pane.inject("never mind")
    gone.cancel()
    last = pane.inject(TASK)
    await result(boot)
    await result(last)
    assert agents.got() == [BRIEF, TASK]


async def test_plain_line_readers_are_proved_with_one_enter(agents: Agents) -> None:
    async def scene(script: str) -> None:
        pane = await agents.run("sh", "-c", script)
        for line, kind in ((BRIEF, LineKind.BOOT), (TASK, LineKind.TASK)):
            outcome = await result(pane.inject(line, kind=kind))
            assert outcome == Outcome(OutcomeKind.DELIVERED, "", injections=1, enters=1), script

    await asyncio.gather(
        scene("echo ready; exec cat"),
        scene("while read l; do echo got $l; done"),
        scene("printf '$ '; while read l; do sleep 0.1; printf '$ '; done"),
    )


async def test_an_interactive_shell_runs_the_line_once(agents: Agents) -> None:
    pane = await agents.run("bash", "--norc", "-i")
    outcome = await result(pane.inject("echo $((6 * 7))", kind=LineKind.BOOT))
    assert outcome.verified
    await until(lambda: "42" in pane.rows())
    assert pane.rows().count("42") == 1


def test_panes_work_on_the_loop_that_the_programs_use(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop")
    errors: list[object] = []

    async def scene() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        agents = Agents(tmp_path)
        pane = await agents.agent("signals", "paste")
        assert (await result(pane.inject(BRIEF, kind=LineKind.BOOT))).verified
        assert (await result(pane.inject(TASK))).verified
        assert agents.got() == [BRIEF, TASK]
        assert (await pane.stop(1)).survivors == ()

    uvloop.run(scene())
    assert errors == []


async def test_a_line_too_long_for_a_line_reader_is_refused(agents: Agents) -> None:
    pane = await agents.run("sh", "-c", "echo ready; exec cat")
    outcome = await result(pane.inject("x" * 5000))
    assert outcome.kind is OutcomeKind.REFUSED
    assert "4095" in outcome.reason


async def test_stop_proves_the_end_and_restart_starts_clean(agents: Agents) -> None:
    pane = await agents.run("sh", "-c", "echo run; (sleep 600 &); exec cat")
    await until(lambda: "run" in pane.rows())
    first = pane.pane_id
    proof = await pane.restart(1)
    assert len(proof.ended) == 2
    assert pane.pane_id != first
    await until(lambda: "run" in pane.rows())
    with pytest.raises(PaneError, match="already running"):
        await pane.start()
    proof = await pane.stop(1)
    assert proof.survivors == ()
    assert pane.state is PaneState.EXITED


async def test_a_pane_that_cannot_start_says_why_and_leaves_nothing(agents: Agents) -> None:
    with pytest.raises(PaneStartError, match="not on PATH"):
        await agents.run("no-such-agent")
    pane = agents.panes[0]
    assert pane.pid is None
    assert not pane.alive
    assert (await result(pane.inject(TASK))).kind is OutcomeKind.REFUSED


async def test_two_starts_at_once_make_one_agent(agents: Agents) -> None:
    spec = PaneSpec("coder", ("sleep", "600"), agents.directory, ENV)
    pane = Pane(spec)
    agents.panes.append(pane)
    outcomes = await asyncio.gather(pane.start(), pane.start(), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), PaneError]
    assert len((await pane.stop(1)).ended) == 1


async def test_pausing_is_a_state_and_lines_wait_for_its_end(agents: Agents) -> None:
    pane = await agents.agent("signals")
    await until(lambda: pane.state is PaneState.IDLE)
    await pane.pause()
    assert pane.state is PaneState.PAUSED
    line = pane.inject(TASK)
    await asyncio.sleep(0.5)
    assert not line.done()
    await pane.resume()
    assert (await result(line)).verified


async def test_a_flooding_pane_does_not_hold_up_another(agents: Agents) -> None:
    flood = await agents.run("yes", "some words of a flood")
    pane = await agents.agent("signals")
    await until(lambda: pane.state is PaneState.IDLE)
    outcome = await result(pane.inject(TASK))
    assert outcome.verified
    assert flood.state is not PaneState.EXITED
    assert len(flood.screen.history) <= 10_000


async def test_a_callback_that_fails_does_not_harm_the_pane(agents: Agents) -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    pane = await agents.agent("signals")

    def broken(*_: object) -> None:
        raise RuntimeError("listener")

    pane.on_status = broken
    pane.on_output = broken
    assert (await result(pane.inject(TASK))).verified
    assert reported


async def test_fifty_panes_open_and_close_without_zombies(agents: Agents) -> None:
    for _ in range(50):
        await agents.run("sh", "-c", "echo ready; exec sleep 600")
    await until(lambda: all("ready" in pane.rows() for pane in agents.panes))
    proofs = await asyncio.gather(*(pane.stop(2) for pane in agents.panes))
    assert all(proof.survivors == () and len(proof.ended) == 1 for proof in proofs)
    mine = [ref for ref in process_table().values() if ref.parent == os.getpid()]
    assert [ref for ref in mine if ref.state == "Z"] == []
