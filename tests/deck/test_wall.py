"""The wall's parts: its command line, what it shows and hides, its way out, and its proof."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from deck_harness import FakeGateway
from ports import free_port
from wall_tools import real_bwrap

from deck.callers import Kind, Peer, identify
from deck.config import Config, Role, SphragisConfig
from deck.gateway import Gateway
from deck.sessions import paths_for
from deck.team_reader import parse_config
from deck.wall import inside, places
from deck.wall.places import Places, Unsafe
from deck.wall.plan import Mount, Plan, Show
from deck.wall.proof import Question, problems, prove
from deck.wall.relay import Relay
from deck.wall.wall import Wall, WallError

PLAN = Plan(
    bwrap="/usr/bin/bwrap",
    python="/usr/bin/python3",
    directory=Path("/w/p"),
    mounts=(Mount(Show.EMPTY, Path("/home")), Mount(Show.WRITE, Path("/w/p"))),
    address="127.0.0.1:8787",
    way_out=Path("/run/door/gateway.sock"),
)

# -- the command line -----------------------------------------------------------------------------


def test_the_command_line_takes_away_network_processes_and_capabilities() -> None:
    line = PLAN.command(["agent", "--model", "m"])
    for word in ("--unshare-net", "--unshare-pid", "--unshare-user", "--unshare-ipc"):
        assert line.count(word) == 1
    assert line[line.index("--cap-drop") + 1] == "ALL"
    assert "--die-with-parent" in line
    assert "--new-session" not in line
    assert line[-3:] == ["agent", "--model", "m"]


def test_the_machine_is_read_only_first_and_the_mounts_follow_in_order() -> None:
    line = PLAN.command(["agent"])
    root, home, project = line.index("--ro-bind"), line.index("/home"), line.index("--bind")
    assert line[root : root + 3] == ["--ro-bind", "/", "/"]
    assert root < home < project < line.index("--chdir") < line.index("--listen")
    assert line[line.index("--listen") + 1] == "127.0.0.1:8787"
    assert line[line.index("--via") + 1] == "/run/door/gateway.sock"


def test_nothing_of_the_project_or_the_environment_can_take_the_forwarders_place() -> None:
    line = PLAN.beside("--prove", "{}")
    assert line[1:3] == ["-I", "-S"]
    assert Path(line[3]).is_absolute()


# -- what is shown and what is hidden -------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path) -> Places:
    project = tmp_path / "work" / "project"
    (project / ".choragos" / "ledger").mkdir(parents=True)
    (project / ".choragos.toml").write_text("")
    home = tmp_path / "home" / "me"
    (home / ".sphragis").mkdir(parents=True)
    (home / ".local" / "bin").mkdir(parents=True)
    runtime = tmp_path / "run" / "choragos-0"
    (runtime / "s1.wall").mkdir(parents=True)
    environ = {"HOME": str(home), "XDG_STATE_HOME": str(home / ".local" / "state")}
    return Places(project, "s1", runtime, runtime / "s1.wall", environ, project / ".choragos.toml")


def shown(mounts: tuple[Mount, ...], path: Path) -> str:
    """How a path is seen inside: as its last covering mount says, by name for itself."""
    over = [m for m in mounts if m.path == path or m.path in path.parents]
    return over[-1].show.value if over else "read"


def test_the_project_is_written_and_what_rules_it_is_not(here: Places) -> None:
    subprocess.run(["git", "init", "-q"], cwd=here.project, check=True)
    found = places.mounts(here, "coder", "sh", {"PATH": "/usr/bin:/bin"})
    seen = {
        name: shown(found, here.project / name)
        for name in ("src/x", ".choragos.toml", ".choragos/tasks/T1.md", ".choragos/report.md",
                     ".choragos/ledger/log", ".git/config", ".git/hooks/pre-commit", ".git/objects")
    }  # fmt: skip
    assert seen == {
        "src/x": "write",
        ".choragos.toml": "read",
        ".choragos/tasks/T1.md": "read",
        ".choragos/report.md": "write",
        ".choragos/ledger/log": "empty",
        ".git/config": "read",
        ".git/hooks/pre-commit": "read",
        ".git/objects": "write",
    }
    assert (here.project / ".git" / "hooks").is_dir()
    # A directory that is a mount cannot be moved away and replaced by another.
    assert {here.project / ".git", here.project / ".choragos"} <= {m.path for m in found}


def test_what_git_obeys_in_a_submodule_is_not_the_roles_to_change(here: Places) -> None:
    subprocess.run(["git", "init", "-q"], cwd=here.project, check=True)
    module = here.project / ".git" / "modules" / "lib" / "x"
    module.mkdir(parents=True)
    (module / "config").touch()
    found = places.mounts(here, "coder", "sh", {"PATH": "/usr/bin:/bin"})
    assert shown(found, module / "config") == "read"
    assert shown(found, module / "hooks" / "post-checkout") == "read"
    assert shown(found, module / "index") == "write"
    assert module in {mount.path for mount in found}


def test_homes_keys_and_sockets_are_hidden_but_the_roles_own_home_is_not(here: Places) -> None:
    other = here.home("auditor")
    found = places.mounts(here, "coder", "sh", {"PATH": "/usr/bin:/bin"})
    own = here.home("coder")
    assert shown(found, own / ".claude.json") == "write"
    for path in (
        here.user_home / ".ssh" / "id",
        here.user_home / ".sphragis" / "vault",
        other / ".claude.json",
        here.runtime / "s1.sock",
        Path("/run/docker.sock"),
        Path("/tmp/x"),
    ):
        assert shown(found, path) == "empty", path
    assert shown(found, here.door / "role.sock") == "read"


def test_programs_in_a_hidden_home_are_shown_and_nothing_around_them(here: Places) -> None:
    real = here.user_home / ".nvm" / "v20" / "lib" / "node_modules" / "@x" / "agent" / "cli.js"
    real.parent.mkdir(parents=True)
    real.write_text("#!/bin/sh\n")
    real.chmod(0o755)
    link = here.user_home / ".local" / "bin" / "agent"
    link.symlink_to(os.path.relpath(real, link.parent))
    env = {"PATH": f"{link.parent}:{here.user_home}:/bin"}
    found = places.mounts(here, "coder", "agent", env)
    assert shown(found, link) == "read"
    assert shown(found, real) == "read"
    assert shown(found, here.user_home / ".nvm" / "secret") == "empty"
    assert shown(found, here.user_home / ".aws" / "credentials") == "empty"


def test_what_the_team_file_names_is_shown_read_only(here: Places) -> None:
    (here.user_home / ".gitconfig").write_text("")
    found = places.mounts(here, "coder", "sh", {"PATH": "/bin"}, ["~/.gitconfig"])
    assert shown(found, here.user_home / ".gitconfig") == "read"
    with pytest.raises(Unsafe, match="does not exist"):
        places.mounts(here, "coder", "sh", {"PATH": "/bin"}, ["~/.none"])
    with pytest.raises(Unsafe, match="a whole home"):
        places.mounts(here, "coder", "sh", {"PATH": "/bin"}, ["~/.."])


@pytest.mark.parametrize("project", [".", ".."])
def test_a_team_in_the_users_home_is_refused(here: Places, project: str) -> None:
    wide = replace(here, project=(here.user_home / project).resolve())
    with pytest.raises(Unsafe, match="holds your home"):
        places.mounts(wide, "coder", "sh", {"PATH": "/bin"})


def test_a_socket_that_listens_outside_hidden_places_is_covered(here: Places) -> None:
    path = here.project / "db.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        old = os.getcwd()
        os.chdir(here.project)
        try:
            listener.bind("db.sock")
        finally:
            os.chdir(old)
        listener.listen()
        assert path not in places.listening_sockets()  # bound by a relative name: not told
    path.unlink()
    short = Path("/dev/shm") / f"wall-{os.getpid()}.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(short))
        listener.listen()
        try:
            found = places.mounts(here, "coder", "sh", {"PATH": "/bin"})
            assert shown(found, short) == "nothing"
        finally:
            short.unlink()


def test_the_environment_loses_proxies_and_agents_and_gets_its_own_home() -> None:
    env = {
        "HOME": "/h", "HTTPS_PROXY": "http://p", "no_proxy": "x", "SSH_AUTH_SOCK": "/s",
        "XDG_CONFIG_HOME": "/h/c", "ANTHROPIC_BASE_URL": "u", "TMPDIR": "/h/t",
    }  # fmt: skip
    assert places.environment(env, Path("/own"), Path("/door/role.sock")) == {
        "HOME": "/own",
        "no_proxy": "x",
        "ANTHROPIC_BASE_URL": "u",
        "TMPDIR": "/tmp",
        "CHORAGOS_SOCK": "/door/role.sock",
    }


def test_roles_with_names_alike_have_homes_of_their_own(here: Places) -> None:
    homes = {here.home(name) for name in ("a b", "a-b", "a/b")}
    assert len(homes) == 3
    assert all(home.stat().st_mode & 0o777 == 0o700 for home in homes)


# -- who comes through the door -------------------------------------------------------------------


def test_what_comes_through_the_door_is_a_role_or_nobody() -> None:
    def kind(peer: Peer) -> Kind:
        found = identify(peer, panes={7: "coder"}, deck_pid=1, session="s", token_role=None)
        return found.kind

    assert kind(Peer(9, (9, 8), "")) is Kind.OPERATOR
    assert kind(Peer(9, (9, 8), "", seat_only=True)) is Kind.NOBODY
    assert kind(Peer(9, (9, 7, 1), "", seat_only=True)) is Kind.ROLE


# -- the team file --------------------------------------------------------------------------------


def test_the_wall_is_asked_for_by_a_role_or_for_the_team() -> None:
    text = (
        b'wall = true\nwall_read = ["~/.gitconfig"]\n[[roles]]\nname = "a"\nstart = true\n'
        b'wall = false\n[[roles]]\nname = "b"\nwall_read = ["docs"]\n'
        b"[sphragis]\nrequire_routing = true\n"
    )
    config = parse_config(text, Path("/w/.choragos.toml"))
    assert config.warnings == ()
    assert [role.wall for role in config.roles] == [False, True]
    assert config.roles[1].wall_read == ("~/.gitconfig", "docs")
    assert all(role.require_routing for role in config.roles)


def wall(tmp_path: Path, sphragis: SphragisConfig, **environ: str) -> Wall:
    config = Config(roles=(Role("coder", command="sh", wall=True),), sphragis=sphragis)
    env = {"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path), **environ}
    paths = paths_for(str(tmp_path), env)

    async def never(*_: object) -> bytes:
        raise AssertionError

    return Wall(config, paths, env, Gateway(sphragis, log=tmp_path / "log"), never)


@pytest.mark.parametrize(
    ("sphragis", "path", "says"),
    [
        (SphragisConfig(enabled=True), "/nowhere", "needs bubblewrap"),
        (SphragisConfig(enabled=False), "", "only way out is the gateway"),
        (SphragisConfig(enabled=True, addr="10.0.0.1:8787"), "", "loopback address"),
        (SphragisConfig(enabled=True, addr="nonsense"), "", "loopback address"),
    ],
)
async def test_a_wall_that_cannot_be_is_refused_in_one_sentence(
    tmp_path: Path, sphragis: SphragisConfig, path: str, says: str
) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    found = wall(tmp_path, sphragis, PATH=path or str(tmp_path))
    with pytest.raises(WallError, match=says) as refused:
        await found.start()
    assert str(refused.value).startswith("role coder: wall = true cannot be enforced: ")
    await found.close()


def test_elsewhere_than_on_linux_the_wall_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "Linux only" in wall(tmp_path, SphragisConfig(enabled=True)).objection()


# -- the way out ----------------------------------------------------------------------------------


async def test_the_relay_carries_both_ways_to_the_end_and_survives_a_dead_gateway(
    tmp_path: Path,
) -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read()  # until the client has said all
        writer.write(data.upper())
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    relay = Relay(tmp_path / "g.sock", "127.0.0.1", port)
    await relay.start()
    assert (tmp_path / "g.sock").stat().st_mode & 0o777 == 0o600

    async def ask(data: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(tmp_path / "g.sock")
        writer.write(data)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer

    big = b"x" * 3_000_000
    assert await asyncio.gather(*(ask(big) for _ in range(8))) == [big.upper()] * 8
    (tmp_path / "g.sock").unlink()
    await relay.restore()
    assert await ask(b"again") == b"AGAIN"
    server.close()
    await server.wait_closed()
    with contextlib.suppress(ConnectionError):
        assert await ask(b"gone") == b""
    await relay.close()
    assert not (tmp_path / "g.sock").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="network namespaces are Linux's")
def test_the_forwarder_stands_in_for_the_gateway_in_a_network_of_its_own(tmp_path: Path) -> None:
    attempt = subprocess.run(["unshare", "-rn", "true"], check=False, capture_output=True)
    if attempt.returncode != 0:
        pytest.skip(f"namespaces are not permitted here: {attempt.stderr.decode().strip()}")
    with socket.socket(socket.AF_UNIX) as way_out:
        way_out.bind(str(tmp_path / "g.sock"))
        way_out.listen()
        script = "import urllib.request as u; u.urlopen('http://127.0.0.1:8787/', timeout=5)"
        line = [sys.executable, inside.__file__, "--listen", "127.0.0.1:8787"]
        line += ["--via", str(tmp_path / "g.sock"), "--", sys.executable, "-c", script]
        up = 'ip link set lo up && exec "$@"'
        child = subprocess.Popen(["unshare", "-rn", "sh", "-c", up, "sh", *line])
        connection, _ = way_out.accept()
        with connection:
            assert connection.recv(65536).startswith(b"GET / HTTP/1.1\r\nAccept")
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        assert child.wait(10) == 0
    eventually_gone(str(tmp_path / "g.sock"))


def eventually_gone(mark: str) -> None:
    """Wait until no process has `mark` in its command line: the forwarder ends with its agent."""
    for _ in range(100):
        found = subprocess.run(["pgrep", "-f", "--", mark], check=False, capture_output=True)
        if found.returncode == 1:
            return
        time.sleep(0.1)
    raise AssertionError("the forwarder outlived its agent")


# -- the proof ------------------------------------------------------------------------------------

HOLDS = {
    "reached": [], "seen": [], "interfaces": ["lo"], "gateway": "HTTP/1.1 200 OK",
    "control": True, "unwritable": [], "changeable": [],
}  # fmt: skip
QUESTION = Question((), (), (), Path("/c"), must_answer=True)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ""),
        ({"reached": ["127.0.0.1:1"]}, "another port"),
        ({"reached": ["@00001"]}, "an abstract socket"),
        ({"interfaces": ["lo", "eth0"]}, "interface"),
        ({"seen": ["/k"]}, "/k can be seen"),
        ({"changeable": ["/t"]}, "/t can be changed"),
        ({"unwritable": ["/p"]}, "/p cannot be written"),
        ({"control": False}, "control socket"),
        ({"gateway": ""}, "the gateway cannot be reached"),
        ({"gateway": "-"}, "the gateway cannot be reached"),
    ],
)
def test_each_hole_in_a_wall_is_named(change: dict[str, object], says: str) -> None:
    found = list(problems({**HOLDS, **change}, QUESTION))
    assert len(found) == bool(says)
    assert says in "".join(found)


def test_a_wall_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2; exit 1")
    fake.chmod(0o755)
    plan = replace(PLAN, bwrap=str(fake), directory=tmp_path)
    (said,) = prove(plan, {"PATH": "/bin"}, QUESTION)
    assert "No permissions to create a new namespace" in said
    assert "unprivileged user namespaces" in said


def test_a_wall_with_a_hole_does_not_pass_its_proof(tmp_path: Path) -> None:
    """The attempts are real: run without any wall, they reach what they try."""
    fake = tmp_path / "bwrap"
    # Runs the command behind `--`, as if the wall were not there.
    fake.write_text('#!/bin/sh\nwhile [ "$1" != "--" ]; do shift; done; shift\nexec "$@"')
    fake.chmod(0o755)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "key").touch()
    port = free_port()
    plan = replace(PLAN, bwrap=str(fake), directory=tmp_path, address=f"127.0.0.1:{port}")
    question = Question((secret,), (tmp_path,), (secret / "key",), tmp_path / "c", must_answer=True)
    found = "; ".join(prove(plan, {"PATH": "/usr/bin:/bin"}, question))
    for hole in ("another port", "abstract socket", "secret can be seen", "key can be changed"):
        assert hole in found
    eventually_gone(f"--listen 127.0.0.1:{port}")


async def test_a_real_wall_passes_its_proof_with_the_gateway_answering(
    tmp_path: Path, short_dir: Path, gateway: FakeGateway
) -> None:
    bwrap = real_bwrap()
    project = tmp_path / "project"
    project.mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "bwrap").symlink_to(bwrap)
    config = Config(
        roles=(Role("coder", command="sh", wall=True),),
        sphragis=SphragisConfig(enabled=True, addr=gateway.addr),
    )
    env = {
        "PATH": f"/usr/bin:/bin:{tmp_path / 'bin'}",
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(short_dir),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }

    async def never(*_: object) -> bytes:
        raise AssertionError

    found = Wall(
        config, paths_for(str(project), env), env,
        Gateway(config.sphragis, log=tmp_path / "log"), never,
    )  # fmt: skip
    try:
        await found.open()
        assert await found.prove(config.roles[0], must_answer=True) == []
    finally:
        await found.close()
