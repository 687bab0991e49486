"""What a walled role sees of this machine: which places are shown, and which are not.

Owns the list. Rules: homes, temporary and runtime directories are empty; in them only programs are
shown, read-only, and what the team file names in `wall_read`; the project and the role's own home
can be written, but not the team file nor git's settings and hooks, which would be obeyed outside;
keys, ledgers and transcripts are hidden wherever they lie, and so is every socket that listens.
Reads the file system and `/proc`; changes nothing but that it makes the role's home.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import shared
from deck import briefs
from deck.homes import role_home
from deck.team_reader import CONFIG_NAME
from deck.wall.plan import Mount, Show
from shared.paths import private_dir, state_dir

#: Directories of all users in which homes, sockets and other people's files lie.
_COMMON: Final = ("/tmp", "/var/tmp", "/run", "/home", "/root", "/mnt", "/media")  # noqa: S108
#: Of a repository: settings and hooks that git obeys, also when the deck or a person runs it.
_OBEYED_BY_GIT: Final = ("config", "config.worktree", "hooks", "info/attributes")
#: Of what git keeps of a linked working tree: where everything else is.
_OBEYED_IN_A_CHECKOUT: Final = ("commondir", "gitdir", "config.worktree")
_CONTENT: Final = frozenset({"objects", "refs", "logs", "hooks", "info", "worktrees"})
#: Of the deck's own directory: what no role has a use for.
_DECKS_OWN: Final = ("ledger", "logs", "checkpoints")
TASKS_DIR: Final = "tasks"
WORKTREES_DIR: Final = "worktrees"
_GIT_SECONDS: Final = 10.0
#: The kernel's limit on mounts is far away; a command line's is not.
MAX_SUBMODULES: Final = 200

#: Variables that point at what is not there, or that would lead the agent to a proxy which is not.
_DROPPED: Final = frozenset(
    {
        "SSH_AUTH_SOCK",
        "SSH_AGENT_PID",
        "GPG_AGENT_INFO",
        "DBUS_SESSION_BUS_ADDRESS",
        "DOCKER_HOST",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "XAUTHORITY",
        "SPHRAGIS_HOME",
        *(f"XDG_{kind}_HOME" for kind in ("CONFIG", "CACHE", "DATA", "STATE")),
        *(
            name
            for proxy in ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy")
            for name in (proxy, proxy.upper())
        ),
    }
)


class Unsafe(Exception):
    """The wall would not hold with these places; the text says which and what to do."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where things are, for one session. `runtime` is the directory of its sockets, `door` the
    one of them that walled roles see."""

    project: Path
    session: str
    runtime: Path
    door: Path
    environ: Mapping[str, str]
    team_file: Path | None = None

    @property
    def user_home(self) -> Path:
        """The user's own home."""
        return Path(self.environ.get("HOME") or Path.home())

    @property
    def homes(self) -> Path:
        """Where the homes of this session's roles are."""
        return role_home(self.environ, self.session, "role").parent

    def home(self, role: str) -> Path:
        """Return the role's own home, made if needed (0700)."""
        state_dir("choragos", self.environ)
        private_dir(private_dir(self.homes.parent) / self.session)
        return private_dir(role_home(self.environ, self.session, role))

    @property
    def secrets(self) -> tuple[Path, ...]:
        """Directories whose content no role may see."""
        sphragis = self.environ.get("SPHRAGIS_HOME") or str(self.user_home / ".sphragis")
        own = self.project / briefs.STATE_DIR
        return (
            Path(sphragis.replace("~", str(self.user_home), 1)),
            state_dir("choragos", self.environ),
            self.runtime,
            *(own / name for name in _DECKS_OWN),
        )


def environment(env: Mapping[str, str], home: Path, control: Path) -> dict[str, str]:
    """Return a role's environment as it is inside: its own home, its own control socket."""
    kept = {name: value for name, value in env.items() if name not in _DROPPED}
    kept["HOME"] = str(home)
    kept["CHORAGOS_SOCK"] = str(control)
    if "TMPDIR" in kept:
        kept["TMPDIR"] = "/tmp"  # noqa: S108 - a private one, in memory
    return kept


def mounts(
    places: Places,
    role: str,
    program: str,
    env: Mapping[str, str],
    read: Sequence[str] = (),
    *,
    checkout: Path | None = None,
) -> tuple[Mount, ...]:
    """Return what a role sees, in the order in which it is mounted. Raises Unsafe.

    `env` is the role's environment before `environment`; `read` its `wall_read`; `checkout` where
    it works, if not in the project itself.
    """
    _refuse_unsafe(places)
    project, hidden = places.project, _hidden(places)
    repository, git = _git_places(project)
    shown = [*_programs(program, env.get("PATH", "")), *_ours()]
    shown += [_wanted(entry, places) for entry in read]
    shown += [repository] if repository is not None else []
    visible = _visible(shown, hidden, places)
    repositories = _git_directories(git)
    _make_what_is_kept(places, repositories)
    # Each is a mount of its own, so that none can be moved away and replaced.
    written = [project, project / briefs.STATE_DIR, *repositories]
    written = [path for path in written if path.is_dir()]
    uncovered = [*visible, *written]
    secrets = [
        path
        for path in _existing(places.secrets)
        if not _below(path, hidden) or _below(path, uncovered)
    ]
    plan = [Mount(Show.EMPTY, path) for path in hidden]
    plan += [Mount(Show.READ, path) for path in visible]
    plan += [Mount(Show.WRITE, path) for path in written]
    plan += _checkouts(places, git, checkout)
    plan += [Mount(Show.READ, path) for path in fixed(places, repositories)]
    plan += [Mount(Show.EMPTY, path) for path in secrets]
    plan += [Mount(Show.WRITE, path) for path in (places.home(role), *_given_homes(env, places))]
    plan += [Mount(Show.READ, places.door)]
    plan += [
        Mount(Show.NOTHING, path)
        for path in listening_sockets()
        if not _below(path, [places.door, *secrets])
        and (not _below(path, hidden) or _below(path, uncovered))
    ]
    return tuple(plan)


def fixed(places: Places, repositories: Sequence[Path]) -> list[Path]:
    """Return what there is that the role may read but not change, though it lies in what it may
    write: the team file, everybody's tasks, and what git would obey."""
    found = [places.project / CONFIG_NAME, places.project / briefs.STATE_DIR / TASKS_DIR]
    if places.team_file is not None and places.project in places.team_file.parents:
        found.append(places.team_file)
    found += [git / name for git in repositories for name in _OBEYED_BY_GIT]
    if (places.project / ".git").is_file():
        found.append(places.project / ".git")
    return [path for path in dict.fromkeys(found) if path.exists()]


def _git_directories(git: Path | None) -> list[Path]:
    """Return a repository's git directory and those of the submodules it holds."""
    if git is None:
        return []
    modules = []
    for directory, folders, files in os.walk(git / "modules"):
        # Only `modules` and the parts of names lead to further repositories, never their content.
        folders[:] = sorted(name for name in folders if name not in _CONTENT)
        if "config" in files:
            modules.append(Path(directory))
    return [git, *modules[:MAX_SUBMODULES]]


def _checkouts(places: Places, git: Path | None, checkout: Path | None) -> Iterator[Mount]:
    """Of the roles' checkouts and of what git keeps of each: only its own can be written, and of
    that nothing that would lead git, when the deck runs it there, to other settings."""
    shared = [places.project / briefs.STATE_DIR / WORKTREES_DIR]
    shared += [git / "worktrees"] if git is not None else []
    yield from (Mount(Show.READ, path) for path in shared if path.is_dir())
    for place in (places.project, checkout):
        top, own = _working_tree(place) if place is not None else (None, None)
        if top is None or own is None or own == git:
            continue
        if place == checkout:
            yield Mount(Show.WRITE, top)
            # Only its being there keeps the role from making it.
            (own / "config.worktree").touch()
        yield Mount(Show.WRITE, own)
        kept = [top / ".git", *(own / name for name in _OBEYED_IN_A_CHECKOUT)]
        yield from (Mount(Show.READ, path) for path in kept if path.exists())


def _make_what_is_kept(places: Places, repositories: Sequence[Path]) -> None:
    """Make the directories that only their being there keeps the role from making."""
    for path in (
        places.project / briefs.STATE_DIR / TASKS_DIR,
        *(git / "hooks" for git in repositories),
    ):
        if path.parent.is_dir():
            path.mkdir(mode=0o755, exist_ok=True)


def listening_sockets() -> list[Path]:
    """Return the sockets of the file system that a process on this machine listens on."""
    try:
        lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]
    except OSError:
        return []
    # Num RefCount Protocol Flags Type St Inode Path; 00010000 is "accepts connections".
    rows = (line.split(maxsplit=7) for line in lines)
    names = {row[7] for row in rows if len(row) == 8 and row[3] == "00010000"}
    return sorted(Path(name) for name in names if name.startswith("/") and _is_socket(name))


def _is_socket(name: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(name).st_mode)
    except OSError:
        return False


def _refuse_unsafe(places: Places) -> None:
    home = places.user_home.resolve()
    project = places.project.resolve()
    if project == home or project in home.parents:
        raise Unsafe(
            f"the project directory {places.project} holds your home, which the role could then "
            "read and change; start the team in a directory of its own"
        )
    if project == places.homes or project in places.homes.parents:
        raise Unsafe(
            f"the project directory {places.project} holds the deck's own state; set "
            "XDG_STATE_HOME to a place outside it"
        )


def _hidden(places: Places) -> list[Path]:
    """Directories that are empty inside, outermost only, by their real paths."""
    wanted = [
        *_COMMON,
        str(places.user_home),
        str(places.runtime.parent),
        *(str(path) for path in places.secrets if places.project not in path.parents),
    ]
    wanted += [places.environ.get(name) or "/" for name in ("XDG_RUNTIME_DIR", "TMPDIR")]
    real = {Path(os.path.realpath(name)) for name in wanted}
    return _outermost(path for path in real if path.is_dir() and path != Path("/"))


def _outermost(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in sorted(set(paths), key=lambda one: len(one.parts)):
        if not _below(path, found):
            found.append(path)
    return found


def _below(path: Path, tops: Iterable[Path]) -> bool:
    return any(top == path or top in path.parents for top in tops)


def _visible(shown: Iterable[Path], hidden: Sequence[Path], places: Places) -> list[Path]:
    """Return which of the wanted places have to be shown, in what is hidden, to be there."""
    found = []
    for path in shown:
        real = Path(os.path.realpath(path))
        by_name = Path(os.path.realpath(path.parent)) / path.name
        found += [one for one in (real, by_name) if _below(one, hidden) and one not in hidden]
    return _outermost(path for path in found if path.exists() and not _contains(path, places))


def _contains(path: Path, places: Places) -> bool:
    """Whether showing `path` would show a whole home, or more."""
    home = Path(os.path.realpath(places.user_home))
    return path == home or path in home.parents


def _existing(paths: Iterable[Path]) -> list[Path]:
    return _outermost(Path(os.path.realpath(path)) for path in paths if path.is_dir())


def _programs(program: str, search: str) -> Iterator[Path]:
    """The directories of PATH, and what the role's program is made of."""
    for name in search.split(os.pathsep):
        if name.startswith("/") and os.path.isdir(name):
            yield Path(name)
    found = shutil.which(program, path=search)
    seen: set[Path] = set()
    hop = Path(os.path.abspath(found)) if found else None
    while hop is not None and hop not in seen:
        seen.add(hop)
        yield _installed(hop)
        hop = Path(os.path.normpath(hop.parent / hop.readlink())) if hop.is_symlink() else None
    if found:
        yield _installed(Path(os.path.realpath(found)))


def _installed(file: Path) -> Path:
    """Return the directory that a program's file needs around it."""
    parts = file.parts
    if "node_modules" in parts:
        return Path(*parts[: parts.index("node_modules") + 1])
    return file.parent


def _ours() -> Iterator[Path]:
    """What `choragos` and the forwarder need: the interpreter and this program's own files."""
    yield Path(sys.prefix)
    yield Path(sys.base_prefix)
    yield Path(os.path.realpath(sys.executable)).parent
    yield Path(__file__).parent.parent
    yield Path(shared.__file__).parent
    for name in sys.path:
        if name.endswith(("site-packages", "dist-packages")):
            yield Path(name)


def _wanted(entry: str, places: Places) -> Path:
    own = entry.startswith("~/")
    path = places.user_home / entry[2:] if own else places.project / entry
    path = Path(os.path.normpath(path))
    if not path.exists():
        raise Unsafe(f"wall_read names {entry}, which does not exist; correct it or take it out")
    if _contains(Path(os.path.realpath(path)), places):
        raise Unsafe(f"wall_read names {entry}, which holds a whole home; name what is needed")
    return path


def _git_places(project: Path) -> tuple[Path | None, Path | None]:
    """Return the top of the project's repository and its shared git directory, where it has one."""
    return _ask_git(project, "--git-common-dir")


def _working_tree(place: Path) -> tuple[Path | None, Path | None]:
    """Return the top of a working tree and what git keeps of it alone."""
    return _ask_git(place, "--git-dir")


def _ask_git(place: Path, what: str) -> tuple[Path | None, Path | None]:
    git = shutil.which("git")
    if git is None:
        return None, None
    try:
        done = subprocess.run(
            [git, "rev-parse", "--path-format=absolute", "--show-toplevel", what],
            cwd=place,
            capture_output=True,
            check=False,
            timeout=_GIT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None, None
    lines = os.fsdecode(done.stdout).splitlines()
    if done.returncode != 0 or len(lines) != 2:
        return None, None
    return Path(lines[0]), Path(lines[1])


def _given_homes(env: Mapping[str, str], places: Places) -> list[Path]:
    """Homes the deck has given the role for one program, such as CODEX_HOME."""
    return _outermost(
        Path(value)
        for name, value in env.items()
        if name.endswith(("_HOME", "_DIR"))
        and value.startswith("/")
        and places.homes in Path(value).parents
        and os.path.isdir(value)
    )
