"""Real children on real PTYs: start, input, size, exit status, and the end of all they started."""

import asyncio
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from deck.pane.errors import InputOverflow, PaneStartError
from deck.pane.process import ExitStatus, PaneProcess
from deck.pane.process_table import ProcessRef, process_table, read_process
from deck.pane.tree import Census, EndedBy, ProcessTree, members_of
from deck.processes import reap_inherited

ENV = {"PATH": os.environ["PATH"], "TERM": "xterm-256color"}
linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


class Run:
    """One child with what it wrote and how it ended."""

    def __init__(self) -> None:
        self.output = bytearray()
        self.ends: list[ExitStatus] = []
        self.process = PaneProcess(on_output=self.output.extend, on_exit=self.ends.append)

    async def spawn(self, *argv: str, mark: str = "") -> "Run":
        env = {**ENV, "CHORAGOS_PANE": mark} if mark else ENV
        await self.process.spawn(argv, Path("/"), env, 24, 80)
        return self

    async def until(self, condition: Callable[[], object], seconds: float = 10) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, bytes(self.output[-300:])
            await asyncio.sleep(0.01)

    @property
    def tree(self) -> ProcessTree:
        assert self.process.tree is not None
        return self.process.tree

    def states(self) -> set[str]:
        """The kernel's word for every process in the child's session."""
        table = process_table().values()
        return {ref.state for ref in table if ref.session == self.process.pid}

    async def ended(self) -> ExitStatus:
        await self.until(lambda: self.ends)
        return self.ends[0]


@pytest.fixture
async def runs() -> AsyncIterator[Callable[[], Run]]:
    made: list[Run] = []

    def make() -> Run:
        made.append(Run())
        return made[-1]

    yield make
    for run in made:
        await run.process.stop(0)


def alive(pid: int) -> bool:
    ref = read_process(pid)
    return ref is not None and ref.state not in ("Z", "X")


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", code)


async def test_the_child_has_the_terminal_its_size_and_its_own_session(
    runs: Callable[[], Run],
) -> None:
    run = await runs().spawn(
        "sh", "-c", "stty size; ps -o tpgid= -p $$ >/dev/null; echo tty:$(tty)"
    )
    assert await run.ended() == ExitStatus(0)
    assert b"24 80" in run.output
    assert b"tty:/dev/pts/" in run.output


@pytest.mark.parametrize(
    ("script", "status"),
    [("exit 0", ExitStatus(0)), ("exit 7", ExitStatus(7)), ("kill -9 $$", ExitStatus(None, 9))],
)
async def test_the_exit_status_is_known_once(
    runs: Callable[[], Run], script: str, status: ExitStatus
) -> None:
    run = await runs().spawn("sh", "-c", f"printf last; {script}")
    assert await run.ended() == status
    assert bytes(run.output) == b"last"
    await run.process.stop(0)
    assert run.ends == [status]


@pytest.mark.parametrize(
    ("argv", "cwd", "words"),
    [
        (["no-such-agent-cli"], "/", "no-such-agent-cli is not on PATH"),
        (["/etc/passwd"], "/", "may not be executed"),
        (["sh"], "/no/such/dir", "the directory /no/such/dir does not exist"),
        ([], "/", "no command"),
    ],
)
async def test_a_child_that_cannot_start_says_why(
    runs: Callable[[], Run], argv: list[str], cwd: str, words: str
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(PaneStartError, match=words):
        await runs().process.spawn(argv, Path(cwd), ENV, 24, 80)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_large_paste_into_a_busy_raw_reader_loses_nothing(
    runs: Callable[[], Run],
) -> None:
    run = await runs().spawn(
        *python(
            "import os,sys,time,tty,hashlib\n"
            "tty.setraw(0);print('ready',flush=True);time.sleep(.5)\n"
            "n=0;h=hashlib.sha256()\n"
            "while n<70001:\n d=os.read(0,3000);n+=len(d);h.update(d)\n"
            "print(n,h.hexdigest(),flush=True)"
        )
    )
    await run.until(lambda: b"ready" in run.output)
    data = bytes(i * 7 % 251 for i in range(70_001))
    run.process.write(data)
    assert run.process.queued > 0  # it came back while the child was still asleep
    await run.ended()
    assert f"70001 {hashlib.sha256(data).hexdigest()}".encode() in run.output


async def test_input_for_a_child_that_never_reads_is_bounded(runs: Callable[[], Run]) -> None:
    run = await runs().spawn("sh", "-c", "stty raw; echo ready; sleep 60")
    await run.until(lambda: b"ready" in run.output)
    for _ in range(8):
        run.process.write(b"x" * 1_000_000)
    with pytest.raises(InputOverflow, match="does not read its input"):
        run.process.write(b"x" * 1_000_000)


async def test_the_line_limit_is_told_while_the_terminal_edits_lines(
    runs: Callable[[], Run],
) -> None:
    cooked = await runs().spawn("sh", "-c", "echo ready; sleep 60")
    raw = await runs().spawn("sh", "-c", "stty raw; echo ready; sleep 60")
    await cooked.until(lambda: b"ready" in cooked.output)
    await raw.until(lambda: b"ready" in raw.output)
    assert cooked.process.line_limit() == 4095
    assert raw.process.line_limit() is None


async def test_only_a_real_change_of_size_is_signalled(runs: Callable[[], Run]) -> None:
    run = await runs().spawn(
        *python(
            "import os,signal\n"
            "size=lambda *_:os.write(1,b'W%d '%os.get_terminal_size(0).lines)\n"
            "signal.signal(signal.SIGWINCH,size)\n"
            "print('ready',flush=True)\n"
            "while True: signal.pause()"
        )
    )
    await run.until(lambda: b"ready" in run.output)
    run.process.resize(24, 80)
    run.process.resize(30, 100)
    await run.until(lambda: b"W30" in run.output)
    run.process.resize(30, 100)
    await asyncio.sleep(0.1)
    assert run.output.count(b"W") == 1


@linux_only
async def test_stop_ends_children_jobs_and_daemons_that_ignore_sigterm(
    runs: Callable[[], Run], tmp_path: Path
) -> None:
    daemon = (
        "import os,signal,sys,time\n"
        "signal.signal(signal.SIGTERM,signal.SIG_IGN)\n"
        "signal.signal(signal.SIGHUP,signal.SIG_IGN)\n"
        "if os.fork(): os._exit(0)\n"
        "os.setsid()\n"
        "if os.fork(): os._exit(0)\n"
        f"open({str(tmp_path / 'daemon')!r},'w').write(str(os.getpid()))\n"
        "time.sleep(600)"
    )
    script = tmp_path / "daemon.py"
    script.write_text(daemon)
    run = await runs().spawn(
        "bash", "--norc", "-c",
        f"set -m; {sys.executable} -S {script}; sleep 600 & echo $! >{tmp_path}/job;"
        f"(trap '' TERM HUP; sleep 600) & echo started; wait", mark=f"stop {tmp_path}",
    )  # fmt: skip
    await run.until(lambda: b"started" in run.output and (tmp_path / "daemon").exists())
    await run.until((tmp_path / "daemon").read_text)
    pids = [int((tmp_path / name).read_text()) for name in ("daemon", "job")]
    assert all(alive(pid) for pid in pids)
    proof = await run.process.stop(0.3)
    assert not any(alive(pid) for pid in pids)
    assert proof.survivors == ()
    how = {ended.pid: ended.by for ended in proof.ended}
    assert how[pids[0]] is EndedBy.KILL
    assert how[pids[1]] is EndedBy.TERM
    assert run.process.pid in how
    assert str(pids[0]) in str(proof)
    left = [r for r in process_table().values() if r.session == run.process.pid]
    assert [r for r in left if r.state != "Z" or r.parent == os.getpid()] == []


@linux_only
async def test_stop_after_the_leader_died_still_ends_what_it_left(
    runs: Callable[[], Run], tmp_path: Path
) -> None:
    run = await runs().spawn(
        "bash", "-c",
        'setsid sleep 600 & until [ "$(cat /proc/$!/comm)" = sleep ]; do sleep 0.01; done; exit 3',
        mark=f"left {tmp_path}",
    )  # fmt: skip
    assert await run.ended() == ExitStatus(3)
    left = list((await run.tree.members()).values())
    assert [ref.name for ref in left] == ["sleep"]
    proof = await run.process.stop(2)
    assert [ended.pid for ended in proof.ended] == [left[0].pid]
    assert not alive(left[0].pid)


def test_a_stranger_with_the_leaders_old_pid_is_never_a_member() -> None:
    def ref(pid: int, started: int, session: int, parent: int = 1) -> ProcessRef:
        return ProcessRef(pid, started, "x", session, parent, "S")

    leader = ref(100, 5, 100)
    ours = {100: leader, 101: ref(101, 6, 100), 102: ref(102, 7, 102, parent=101)}
    marked, stranger = ref(200, 8, 200), ref(300, 9, 300)
    table = {**ours, 200: marked, 300: stranger}
    census = Census(table, {200: "pane", 300: "other"})
    assert set(members_of(leader, "pane", census)) == {100, 101, 102, 200}
    reused = Census({100: ref(100, 50, 100), 101: ref(101, 51, 100), 200: marked}, {200: "pane"})
    assert set(members_of(leader, "pane", reused)) == {200}
    orphans = Census({101: ours[101], 102: ours[102]}, {})
    assert set(members_of(leader, "", orphans)) == {101, 102}
    assert set(members_of(leader, "", Census({102: ours[102]}, {}), [ours[102]])) == {102}
    assert members_of(leader, "", Census({102: ref(102, 70, 1)}, {}), [ours[102]]) == {}


async def test_a_start_that_is_cancelled_leaves_no_child(runs: Callable[[], Run]) -> None:
    run = runs()
    seconds = str(10**9 + os.getpid())  # of this test only
    start = asyncio.create_task(run.spawn("sleep", seconds))
    await asyncio.sleep(0)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start
    await asyncio.sleep(0.3)
    for pid in process_table():
        try:
            assert seconds.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue


async def test_a_stopped_child_is_woken_to_be_ended(runs: Callable[[], Run]) -> None:
    run = await runs().spawn("sh", "-c", "echo ready; exec sleep 600")
    await run.until(lambda: b"ready" in run.output)
    await run.process.suspend()
    await run.until(lambda: run.states() == {"T"})
    proof = await run.process.stop(2)
    assert [ended.by for ended in proof.ended] == [EndedBy.TERM]


@linux_only
async def test_pausing_stops_the_foreground_job_of_a_shell_too(runs: Callable[[], Run]) -> None:
    run = await runs().spawn("bash", "--norc", "-c", "set -m; echo ready; sleep 600; true")
    await run.until(lambda: b"ready" in run.output)
    await asyncio.sleep(0.1)
    await run.process.suspend()
    assert len(await run.tree.members()) == 2
    await run.until(lambda: run.states() == {"T"})
    await run.process.resume()
    await run.until(lambda: run.states() == {"S"})


async def test_a_flood_leaves_the_loop_responsive(runs: Callable[[], Run]) -> None:
    floods = [await runs().spawn("yes") for _ in range(3)]
    shares = []
    for _ in range(100):
        before = sum(len(flood.output) for flood in floods)
        await asyncio.sleep(0.002)
        shares.append(sum(len(flood.output) for flood in floods) - before)
    assert all(len(f.output) > 50_000 for f in floods)
    # Between two turns of another task, each flood may take its drain budget a few times only.
    assert sorted(shares)[94] < sum(shares) / 4
    for flood in floods:
        assert (await flood.process.stop(1)).survivors == ()


@linux_only
async def test_fifty_children_come_and_go_without_zombies_or_open_files(
    runs: Callable[[], Run],
) -> None:
    files = len(os.listdir("/proc/self/fd"))
    many = []
    for _ in range(50):
        many.append(await runs().spawn("sleep", "600"))
        await asyncio.sleep(0)
    await asyncio.gather(*(run.process.stop(2) for run in many))
    assert all(run.ends == [ExitStatus(None, 15)] for run in many)
    mine = [r for r in process_table().values() if r.parent == os.getpid()]
    assert not [r for r in mine if r.state == "Z"]
    assert len(os.listdir("/proc/self/fd")) == files


@linux_only
async def test_children_of_others_are_never_waited_for(runs: Callable[[], Run]) -> None:
    other = await asyncio.create_subprocess_exec("sh", "-c", "exit 5")
    run = await runs().spawn("sh", "-c", "exit 4")
    assert await run.ended() == ExitStatus(4)
    reap_inherited(())
    assert await other.wait() == 5


@linux_only
def test_an_adopted_daemon_is_collected_when_it_dies(tmp_path: Path) -> None:
    code = (
        "import asyncio,os,signal\n"
        "from pathlib import Path\n"
        "from deck.pane.process import PaneProcess\n"
        "from deck.pane.process_table import process_table\n"
        "from deck.processes import adopt_orphans,reap_inherited\n"
        "async def main():\n"
        " assert adopt_orphans()\n"
        " ends=[]\n"
        " p=PaneProcess(on_output=lambda b:None,on_exit=ends.append)\n"
        # Until it has left the session, the end of the session is its own.
        " sh=['bash','-c','(setsid sh -c \"echo > ready; exec sleep 60\" &) ; '\n"
        "  'until [ -e ready ]; do sleep 0.01; done']\n"
        f" await p.spawn(sh,Path({str(tmp_path)!r}),dict(os.environ),24,80)\n"
        " adopted=[]\n"
        " for _ in range(500):\n"
        "  await asyncio.sleep(0.02)\n"
        "  rows=process_table().items()\n"
        "  ours=[pid for pid,row in rows if (row.name,row.parent)==('sleep',os.getpid())]\n"
        "  if adopted and not ours: print('collected'); break\n"
        "  if not adopted and ours: os.kill(ours[0],signal.SIGKILL)\n"
        "  adopted=adopted or ours\n"
        "  reap_inherited([p.pid])\n"
        " print(ends)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True
    )
    assert "collected" in done.stdout
    assert "ExitStatus(code=0, signal=None)" in done.stdout
