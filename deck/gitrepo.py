"""Git, run so that it changes nothing of the user's: trees of the workspace and their differences.

Owns how git is called: without the caller's repository variables, hooks, signing, prompts or
locks on the user's index. Every snapshot is built in a temporary copy of the index, so the
user's own index, HEAD, branches and stash are never written. Paths are relative to the top
level of the repository, read with NUL separators, and carried as Python file names, so any name
git can hold survives. Anything inside a `.choragos` directory, at any depth, is left out. No
program of a repository inside the repository is run, nothing is fetched; the user's own filters
run as git runs them, and end with the time limit. Only a commit in a role's worktree is made with
the user's hooks. Blocking; checkpoints, rollback and worktrees call it.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deck.program_output import Ends, TooMuch, Whole, converse

GITLINK_MODE: Final = "160000"
#: A filter program that hangs must not hold a delivery for ever; 50,000 new files take 10 s.
TIMEOUT_SECONDS: Final = 120

#: A hook may run a test suite; one that hangs must not hold a role's work for ever.
HOOK_SECONDS: Final = 300
#: What one call may return: the names of a million files, or a diff that nobody will read.
MAX_OUTPUT_BYTES: Final = 256 << 20
#: Of what is said to a person, the beginning and the end.
_SAID_BYTES: Final = 1 << 20
_NO_HOOKS: Final = ("-c", "core.hooksPath=/dev/null")
_QUIET: Final = tuple(
    part
    for setting in (
        "core.fsmonitor=false",
        "core.untrackedCache=false",
        "core.splitIndex=false",
        # Odd line ends are stored as git would store them, with no refusal and no lecture.
        "core.safecrlf=false",
        "core.quotePath=false",
        "commit.gpgSign=false",
        "i18n.commitEncoding=UTF-8",
        "advice.addEmbeddedRepo=false",
        "gc.auto=0",
        # Submodules keep their own checkouts, conflicts their own resolution, merges no stash.
        "submodule.recurse=false",
        "rerere.enabled=false",
        "merge.autoStash=false",
    )
    for part in ("-c", setting)
)
#: Variables that say where git is and which settings apply; all other GIT_* ones would point it
#: at another repository or change what a path means.
_KEPT_VARIABLES: Final = re.compile(
    r"GIT_(CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+)|EXEC_PATH|CEILING_DIRECTORIES"
    r"|DISCOVERY_ACROSS_FILESYSTEM)"
)
_IDENTITY: Final = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "choragos"), ("EMAIL", "choragos@localhost"))
}
#: Some ten million files.
_INDEX_BYTES: Final = 1 << 30
#: Pathspecs, from the top level: everything but what lies in a `.choragos`.
USERS_FILES: Final = (
    ".",
    ":(exclude,glob)**/.choragos",
    ":(exclude,glob)**/.choragos/**",
)
_DECK_NAME: Final = b".choragos"
#: How `ls-files -s -v` begins an entry with nothing to adjust: tracked, and a file or a link.
_PLAIN_ENTRIES: Final = (b"H 100", b"H 120")
_GITLINK: Final = GITLINK_MODE.encode()
_EMPTY_NESTED_REPO: Final = re.compile(rb"error: '.*' does not have a commit checked out")


class GitError(Exception):
    """Git cannot do what was asked; the message is the sentence the user reads."""


Enclose = Callable[[Sequence[str], Mapping[str, str]], tuple[list[str], dict[str, str]]]


def _as_it_is(
    command: Sequence[str], environ: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    return list(command), dict(environ)


@dataclass(frozen=True, slots=True)
class Hooks:
    """How the user's hooks run: with which variables, behind which wall, and for how long at most.

    A hook may be a file that an agent can write, so it gets no more than the agent itself has.
    """

    environ: Mapping[str, str]
    enclose: Enclose = _as_it_is
    seconds: float = HOOK_SECONDS


class GitMissing(GitError):
    """There is no git program."""


class NotARepository(GitError):
    """The directory is not inside the working tree of a repository."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a tree holds at a path: git's six-digit mode and the object's name."""

    mode: str
    sha: str

    @property
    def is_gitlink(self) -> bool:
        """Whether this is a submodule or a repository inside the repository."""
        return self.mode == GITLINK_MODE


@dataclass(frozen=True, slots=True)
class Difference:
    """One path that differs between two trees; None where the path is absent."""

    path: str
    before: Entry | None
    after: Entry | None


class GitRepo:
    """The repository around a directory. Calls may come from any thread."""

    def __init__(self, cwd: Path) -> None:
        """Find the repository of `cwd`. Raises GitMissing or NotARepository."""
        self._program = shutil.which("git")
        if self._program is None:
            raise GitMissing("git is not on PATH; install git to have checkpoints and rollback.")
        self.top = cwd
        try:
            found = self.run("rev-parse", "--show-toplevel")
        except GitError as failure:
            if "dubious ownership" in str(failure):
                raise
            raise NotARepository(
                f"{cwd} is not in the working tree of a git repository; run `git init` there to "
                "have checkpoints and rollback."
            ) from None
        self.top = Path(os.fsdecode(found.removesuffix(b"\n")))
        index = self.run("rev-parse", "--git-path", "index").removesuffix(b"\n")
        self._index = self.top / os.fsdecode(index)
        #: A place for the deck's own files in the git directory of this working tree.
        self.private = self.git_path("choragos")
        #: The git directory that all working trees of the repository share.
        common = self.run("rev-parse", "--git-common-dir").removesuffix(b"\n")
        self.common = self.top / os.fsdecode(common)

    def run(
        self,
        *arguments: str,
        index: Path | None = None,
        stdin: bytes = b"",
        environ: Mapping[str, str] | None = None,
        seconds: float = 0,
    ) -> bytes:
        """Run git at the top level and return its output; `seconds` is its time limit, if
        not the usual one. Raises GitError with git's first line."""
        result = self._start(arguments, index=index, stdin=stdin, environ=environ, seconds=seconds)
        if result.returncode != 0:
            raise GitError(_sentence(arguments[0], result.stderr))
        return result.stdout

    def attempt(
        self, *arguments: str, stdin: bytes = b"", hooks: Hooks | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git at the top level and return how it ended, for calls whose failure says something.

        Raises GitError only when git cannot be run to its end.
        """
        if hooks is None:
            return self._start(arguments, stdin=stdin)
        kept = {name: value for name, value in hooks.environ.items() if _is_kept(name)}
        # No editor and no terminal: what would ask, fails instead.
        variables = kept | _IDENTITY | {"GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "false"}
        assert self._program is not None
        plain = [self._program, "-C", str(self.top), *_QUIET, *arguments]
        command, variables = hooks.enclose(plain, variables)
        return self._execute(command, variables, stdin, arguments[0], hooks.seconds, hooked=True)

    def git_path(self, name: str) -> Path:
        """Return where git keeps `name` for this working tree. Raises GitError."""
        found = self.run("rev-parse", "--git-path", name).removesuffix(b"\n")
        return self.top / os.fsdecode(found)

    def head(self) -> str | None:
        """Return the commit HEAD points to, or None in a repository without a commit."""
        result = self._start(("rev-parse", "--verify", "--quiet", "HEAD^{commit}"))
        return result.stdout.decode().strip() or None

    def holds(self, sha: str) -> bool:
        """Return whether an object of that name is stored."""
        return self._start(("cat-file", "-e", sha)).returncode == 0

    def write_workspace_tree(self) -> str:
        """Store the workspace as it is now and return the tree's name.

        Tracked files and untracked ones that are not ignored, in git's own stored form.
        """
        with self.temporary_index() as index:
            self._adjust(index)
            self._add_everything(index)
            return self.run("write-tree", index=index).decode().strip()

    def differences(self, before: str, after: str) -> list[Difference]:
        """Return the paths that differ between two trees, sorted by path; renames are two."""
        if before == after:
            return []
        raw = self.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev",
                       "--ignore-submodules=none", before, after)  # fmt: skip
        return sorted(_parse_raw(raw), key=lambda found: found.path)

    def plain_diff(self, before: str, after: str) -> bytes:
        """Return what changed between two commits, for a person: by the content alone.

        Attributes, settings and replaced objects of a repository can hide a change, and agents
        can write all three; so git is run as in a new repository that has only the objects.
        Raises GitError.
        """
        form = self.run("rev-parse", "--show-object-format").decode().strip()
        with _scratch() as scratch:
            bare = scratch / "bare"
            objects = str(self.common / "objects")
            self.run("init", "-q", "--bare", "--template=", f"--object-format={form}", str(bare))
            return self.run(
                "diff-tree", "-r", "-p", "--stat", "--no-color", "--no-ext-diff", "--no-textconv",
                before, after,
                environ={"GIT_DIR": str(bare), "GIT_OBJECT_DIRECTORY": objects},
            )  # fmt: skip

    def compose(self, tree: str, entries: Mapping[str, Entry | None]) -> str:
        """Store `tree` with `entries` in place of what it has there, and return its name."""
        removed = [path for path, entry in entries.items() if entry is None]
        lines = b"".join(
            f"{entry.mode} {entry.sha} 0\t".encode() + os.fsencode(path) + b"\0"
            for path, entry in entries.items()
            if entry is not None
        )
        with _scratch() as scratch:
            index = scratch / "index"
            self.run("read-tree", tree, index=index)
            if removed:
                self.run("update-index", "--force-remove", "-z", "--stdin", index=index,
                         stdin=_joined(removed))  # fmt: skip
            if lines:
                self.run("update-index", "-z", "--replace", "--index-info", index=index,
                         stdin=lines)  # fmt: skip
            return self.run("write-tree", index=index).decode().strip()

    def extract(self, tree: str, paths: Sequence[str], into: Path) -> None:
        """Write `paths` as `tree` has them below the empty directory `into`, filters applied."""
        if not paths:
            return
        # Attributes decide how files are written. Git reads them from the workspace; where the
        # tree has others, an empty workspace makes it read the tree's.
        rules = any(path.split("/")[-1] == ".gitattributes" for path in paths)
        prefix = () if rules else (f"--prefix={into}/",)
        place = {"GIT_WORK_TREE": str(into), "GIT_DIR": str(self._git_dir())} if rules else {}
        with _scratch() as scratch:
            index = scratch / "index"
            self.run("read-tree", tree, index=index)
            self.run("checkout-index", "-f", "-z", *prefix, "--stdin", index=index,
                     stdin=_joined(paths), environ=place)  # fmt: skip

    def _git_dir(self) -> Path:
        found = self.run("rev-parse", "--absolute-git-dir").removesuffix(b"\n")
        return Path(os.fsdecode(found))

    @contextmanager
    def temporary_index(self) -> Iterator[Path]:
        """Yield a copy of the user's index in a place of its own, gone afterwards.

        The copy keeps the time of the original: git compares it with file times to know which
        entries it may trust.
        """
        with _scratch() as scratch:
            copy = scratch / "index"
            try:
                _copy_with_time(self._index, copy)
            except FileNotFoundError:
                pass  # nothing was ever added
            except OSError as failure:
                raise GitError(f"the index cannot be copied: {failure.strerror}.") from None
            yield copy

    def _adjust(self, index: Path) -> None:
        """Make the copy forget deck files, and look at files the user told git not to look at.

        `assume-unchanged`, and `skip-worktree` on a file that is there, would hide a task's
        change to that file from its undo. For a repository that is tracked in this one, git would
        ask whether its files changed, with the filters its own settings name, which an agent may
        have written; forgotten and added anew, only its commit is read.
        """
        assumed: list[bytes] = []
        skipped: list[bytes] = []
        forgotten: list[bytes] = []
        raw = self.run("ls-files", "-s", "-v", "-z", index=index)
        for line in raw.split(b"\0"):
            if line.startswith(_PLAIN_ENTRIES) and _DECK_NAME not in line:
                continue
            facts, _, path = line.partition(b"\t")
            if _DECK_NAME in path.split(b"/"):
                forgotten.append(path)
                continue
            if facts[2:].startswith(_GITLINK) and self._is_there(path + b"/.git"):
                forgotten.append(path)
                continue
            if facts[:1].islower():
                assumed.append(path)
            if facts[:1] in (b"S", b"s") and self._is_there(path):
                skipped.append(path)
        for option, paths in (
            ("--no-assume-unchanged", assumed),
            ("--no-skip-worktree", skipped),
            ("--force-remove", forgotten),
        ):
            if paths:
                # A path in conflict is listed once for each side.
                lines = b"".join(path + b"\0" for path in dict.fromkeys(paths))
                self.run("update-index", option, "-z", "--stdin", index=index, stdin=lines)

    def _is_there(self, path: bytes) -> bool:
        return os.path.lexists(os.path.join(os.fsencode(self.top), path))

    def _add_everything(self, index: Path) -> None:
        sparse = self._start(("config", "--type=bool", "core.sparseCheckout")).stdout
        beyond = ("--sparse",) if sparse.strip() == b"true" else ()
        result = self._start(
            ("add", "-A", "--ignore-errors", *beyond, "--", *USERS_FILES), index=index
        )
        if result.returncode == 0:
            return
        # A repository inside the repository without any commit has nothing that could be named.
        problems = [
            line
            for line in result.stderr.splitlines()
            if line.startswith((b"error:", b"fatal:")) and not _EMPTY_NESTED_REPO.match(line)
        ]
        if problems or not result.stderr.strip():
            raise GitError(_sentence("add", b"\n".join(problems)))

    def _start(
        self,
        arguments: Sequence[str],
        *,
        index: Path | None = None,
        stdin: bytes = b"",
        environ: Mapping[str, str] | None = None,
        seconds: float = 0,
    ) -> subprocess.CompletedProcess[bytes]:
        variables = _environment() | dict(environ or {})
        if index is not None:
            variables["GIT_INDEX_FILE"] = str(index)
        assert self._program is not None
        command = [self._program, *_NO_HOOKS, *_QUIET, *arguments]
        limit = seconds or TIMEOUT_SECONDS
        return self._execute(command, variables, stdin, arguments[0], limit)

    def _execute(
        self,
        command: Sequence[str],
        variables: Mapping[str, str],
        stdin: bytes,
        verb: str,
        seconds: float,
        *,
        hooked: bool = False,
    ) -> subprocess.CompletedProcess[bytes]:
        try:
            # A group of its own, so that a filter ends with the git that started it.
            process = subprocess.Popen(
                command,
                cwd=self.top,
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as failure:
            raise GitError(f"git cannot run in {self.top}: {failure.strerror}.") from None
        with process:
            try:
                # What hooks say is for people.
                wanted = Ends(_SAID_BYTES) if hooked else Whole(MAX_OUTPUT_BYTES)
                out, err = converse(process, stdin, seconds, wanted, Ends(_SAID_BYTES))
            except TooMuch:
                _end_group(process)
                raise GitError(
                    f"git {verb} told of more than {MAX_OUTPUT_BYTES >> 20} MiB; look for files "
                    "that are too large to be worked with."
                ) from None
            except subprocess.TimeoutExpired:
                _end_group(process)
                raise GitError(
                    f"git {verb} did not finish within {seconds:g} seconds; look for a hook, a "
                    "filter or a file system that hangs."
                ) from None
            except BaseException:
                _end_group(process)
                raise
        return subprocess.CompletedProcess(command, process.returncode, out, err)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def _scratch() -> Iterator[Path]:
    """Yield a directory for temporary indexes, gone afterwards."""
    try:
        place = tempfile.TemporaryDirectory(prefix="choragos-", ignore_cleanup_errors=True)
    except OSError as failure:
        raise GitError(f"no temporary directory can be made: {failure.strerror}.") from None
    with place as name:
        yield Path(name)


def _copy_with_time(source: Path, copy: Path) -> None:
    """Copy one file with its own time, although git may put another in its place meanwhile."""
    # An agent can put anything in its place, a pipe too.
    descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as read, copy.open("wb") as written:
        found = os.fstat(read.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > _INDEX_BYTES:
            raise OSError(errno.EINVAL, f"{source} is no index")
        written.write(read.read(found.st_size))
        written.flush()
        os.utime(written.fileno(), ns=(found.st_atime_ns, found.st_mtime_ns))


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if _is_kept(name)}
    return kept | _IDENTITY | {
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        # Whatever is missing from a partial clone stays missing: no program of a transport runs.
        "GIT_NO_LAZY_FETCH": "1",
        # What a name stands for is what it was made of, not what an agent has put in its place.
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ALLOW_PROTOCOL": "none",
    }  # fmt: skip


def _is_kept(name: str) -> bool:
    return not name.startswith("GIT_") or _KEPT_VARIABLES.fullmatch(name) is not None


def _parse_raw(raw: bytes) -> Iterator[Difference]:
    fields = iter(raw.split(b"\0"))
    for head in fields:
        if not head:
            return
        old_mode, new_mode, old_sha, new_sha, _ = head.decode().removeprefix(":").split(" ")
        path = os.fsdecode(next(fields))
        yield Difference(path, _entry(old_mode, old_sha), _entry(new_mode, new_sha))


def _entry(mode: str, sha: str) -> Entry | None:
    return None if mode == "000000" else Entry(mode, sha)


def _joined(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _sentence(verb: str, stderr: bytes) -> str:
    lines = stderr.decode("utf-8", "replace").strip().splitlines()
    said = lines[0].removeprefix("error: ").removeprefix("fatal: ") if lines else "no reason given"
    return f"git {verb} failed: {said.rstrip('.')}."
