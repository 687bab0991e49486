"""The hands of an undo: files put in place together or not at all, and one undo at a time.

Owns the turn (a lock that ends with its process, in the git directory), the note of an undo under
way, which outlives the process, and the placing. Invariants: what is to be written is complete on
the same file system before the first file is touched, so a full disk changes nothing; each file is
exchanged by renaming, never written in place; on a failure everything moved is moved back; no
directory on the way to a path is a symbolic link, so nothing outside the workspace is reached.
`deck.rollback_plan` decides what is to be done, `deck.rollback` calls this.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from deck.gitrepo import Entry, GitError, GitRepo

_EXECUTABLE: Final = "100755"
_REGULAR: Final = ("100644", _EXECUTABLE)
_STAGE: Final = "undo-"
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class RollbackBusy(GitError):
    """Another undo is under way in this working tree."""


class HalfWay(Exception):
    """Some files were exchanged, others not; the text says why."""


class RollbackFailed(GitError):
    """The undo could not be done; every file is as it was."""


@dataclass(frozen=True, slots=True)
class Change:
    """One path to put back: what it should be and what it is; None means absent."""

    path: str
    wanted: Entry | None
    now: Entry | None


@dataclass(frozen=True, slots=True)
class UnderWay:
    """An undo that began: to which checkpoint, kept under which name, from and to which tree."""

    target: str
    name: str
    now_tree: str
    goal_tree: str
    at: int


class Turn:
    """The right to undo, held until the block ends. At most one holder per working tree."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def begin(self, what: UnderWay) -> None:
        """Note, durably, what is about to be done."""
        fields = {name: getattr(what, name) for name in UnderWay.__slots__}
        os.pwrite(self._descriptor, json.dumps(fields).encode() + b"\n", 0)
        os.fsync(self._descriptor)

    def end(self) -> None:
        """Forget the note: the undo is done, or undone."""
        os.ftruncate(self._descriptor, 0)
        os.fsync(self._descriptor)

    def under_way(self) -> UnderWay | None:
        """Return the undo whose process ended before it did, if there is one."""
        raw = os.pread(self._descriptor, 4096, 0)
        try:
            return UnderWay(**json.loads(raw))
        except (ValueError, TypeError):
            return None


@contextmanager
def turn(repo: GitRepo) -> Iterator[Turn]:
    """Hold the right to undo in this working tree. Raises RollbackBusy or GitError."""
    place = repo.private / "rollback"
    try:
        place.parent.mkdir(exist_ok=True)
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as failure:
        raise GitError(f"{place} cannot be opened: {failure.strerror}.") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield Turn(descriptor)
    except BlockingIOError:
        raise RollbackBusy(
            "another rollback is under way in this working tree; try again when it has ended."
        ) from None
    finally:
        os.close(descriptor)


class Staged:
    """All content of an undo, ready to be put in place."""

    def __init__(self, top: Path, stage: Path, changes: Sequence[Change]) -> None:
        self._top = top
        self._stage = stage
        self._changes = changes

    def put_in_place(self) -> None:
        """Exchange the files. Raises RollbackFailed, or HalfWay where not even that was undone."""
        moves = _Moves(self._top, self._stage)
        try:
            for change in self._changes:
                if change.wanted is None:
                    moves.take_away(change.path)
            for change in self._changes:
                if change.wanted is not None:
                    moves.exchange(change.path)
        except BaseException as failure:
            try:
                moves.back()
            except OSError as second:
                raise HalfWay(f"{_said(failure)}; then {_said(second)}") from failure
            if isinstance(failure, OSError):
                raise RollbackFailed(_nothing_done(failure)) from failure
            raise


@contextmanager
def staged(repo: GitRepo, goal_tree: str, changes: Sequence[Change]) -> Iterator[Staged]:
    """Get the content of `changes` ready. Raises RollbackFailed with no file touched."""
    writes = [change for change in changes if change.wanted is not None]
    with ExitStack() as stack:
        try:
            stage = stack.enter_context(_stage(repo))
            repo.extract(goal_tree, [change.path for change in writes], stage / "new")
            for change in writes:
                _give_permissions(stage / "new" / change.path, change, repo.top / change.path)
        except (GitError, OSError) as failure:
            raise RollbackFailed(_nothing_done(failure)) from failure
        yield Staged(repo.top, stage, changes)


def _nothing_done(failure: Exception) -> str:
    return f"{_said(failure)}; nothing was rolled back, every file is as it was."


def _said(failure: BaseException) -> str:
    if isinstance(failure, OSError):
        where = failure.filename
        name = os.fsdecode(where) if isinstance(where, str | bytes) else ""
        return f"{name}: {failure.strerror}" if name else str(failure.strerror)
    return str(failure).rstrip(".")


@contextmanager
def _stage(repo: GitRepo) -> Iterator[Path]:
    """Yield a directory on the file system of the workspace, where git does not look."""
    parent, made = repo.private, False
    if parent.stat().st_dev != repo.top.stat().st_dev:
        parent = repo.top / ".choragos"
        made = not parent.exists()
        parent.mkdir(exist_ok=True)
    for left in parent.glob(f"{_STAGE}*"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    stage = Path(tempfile.mkdtemp(prefix=_STAGE, dir=parent))
    try:
        (stage / "new").mkdir()
        (stage / "old").mkdir()
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        if made:
            with suppress(OSError):
                parent.rmdir()


class _Moves:
    """Files moved between the workspace and the stage, each with the step that takes it back."""

    def __init__(self, top: Path, stage: Path) -> None:
        self._top = top
        self._stage = stage
        self._kept = 0
        self._steps_back: list[Callable[[], None]] = []

    def take_away(self, path: str) -> None:
        """Move what is at `path` to the stage; what is absent already is fine."""
        kept = self._place_to_keep()
        with suppress(FileNotFoundError), self._parent(path) as parent:
            found = os.stat(_last(path), dir_fd=parent, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, "a directory took its place", path)
            os.rename(_last(path), kept, src_dir_fd=parent)
            self._steps_back.append(partial(self._return, path, kept))

    def exchange(self, path: str) -> None:
        """Put the staged file at `path` and what was there on the stage."""
        self._make_parents(path)
        with self._parent(path) as parent:
            name, kept = _last(path), self._place_to_keep()
            self._clear(path, parent)
            step = partial(self._return, path, kept)
            try:
                # Two names for a moment, so that no reader finds the path empty.
                os.link(name, kept, src_dir_fd=parent, follow_symlinks=False)
            except FileNotFoundError:
                step = partial(self._unlink, path)
            except OSError:
                os.rename(name, kept, src_dir_fd=parent)
                self._steps_back.append(step)
            os.rename(self._stage / "new" / path, name, dst_dir_fd=parent)
            self._steps_back.append(step)

    def back(self) -> None:
        """Undo the moves, last first. Raises OSError where that fails."""
        while self._steps_back:
            self._steps_back.pop()()

    def _place_to_keep(self) -> str:
        self._kept += 1
        return str(self._stage / "old" / str(self._kept))

    def _return(self, path: str, kept: str) -> None:
        with self._parent(path) as parent, suppress(FileNotFoundError):
            os.rename(kept, _last(path), dst_dir_fd=parent)

    def _unlink(self, path: str) -> None:
        with self._parent(path) as parent:
            os.unlink(_last(path), dir_fd=parent)

    def _unmake(self, directory: str) -> None:
        with suppress(OSError), self._parent(directory) as parent:
            os.rmdir(_last(directory), dir_fd=parent)

    def _remake(self, directory: str, mode: int) -> None:
        with self._parent(directory) as parent:
            os.mkdir(_last(directory), mode, dir_fd=parent)

    @contextmanager
    def _parent(self, path: str) -> Iterator[int]:
        """Yield the directory of `path`, opened without following a link. Raises OSError."""
        descriptor = os.open(self._top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in path.split("/")[:-1]:
                below = os.open(part, _DIRECTORY, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
            yield descriptor
        finally:
            os.close(descriptor)

    def _make_parents(self, path: str) -> None:
        for directory in parents_of(path):
            with self._parent(directory) as parent:
                try:
                    os.mkdir(_last(directory), dir_fd=parent)
                except FileExistsError:
                    continue
                self._steps_back.append(partial(self._unmake, directory))

    def _clear(self, path: str, parent: int) -> None:
        """Remove a directory in the way, which by now holds nothing but directories."""
        try:
            if not stat.S_ISDIR(os.stat(_last(path), dir_fd=parent, follow_symlinks=False).st_mode):
                return
        except FileNotFoundError:
            return
        for folder, _, _, inside in os.fwalk(
            _last(path), topdown=False, dir_fd=parent, follow_symlinks=False
        ):
            relative = os.path.join(os.path.dirname(path), folder)
            mode = stat.S_IMODE(os.fstat(inside).st_mode)
            os.rmdir(folder, dir_fd=parent)
            self._steps_back.append(partial(self._remake, relative, mode))


def parents_of(path: str) -> list[str]:
    """Return the directories on the way to a path, outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def _last(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _give_permissions(staged: Path, change: Change, place: Path) -> None:
    """Give a file the permissions of the one it replaces, but for the execute bits git keeps."""
    try:
        found = place.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if change.wanted is None or change.wanted.mode not in _REGULAR or not stat.S_ISREG(found):
        return
    plain = stat.S_IMODE(found) & ~0o111
    is_program = change.wanted.mode == _EXECUTABLE
    staged.chmod(plain | (plain & 0o444) >> 2 if is_program else plain)


def sweep(repo: GitRepo, deleted: Iterable[str], since: float) -> None:
    """Remove the directories of `deleted` paths that are left without any file.

    Only those born after `since`, in seconds since 1970: others were there before the task.
    """
    parents = {parent for path in deleted for parent in parents_of(path)}
    for parent in sorted(parents, key=lambda path: path.count("/"), reverse=True):
        place = repo.top / parent
        if place.is_symlink() or not place.is_dir() or not _is_new(place, since):
            continue
        for folder, _, _ in os.walk(place, topdown=False):
            with suppress(OSError):  # a file may appear in it at any moment; then it stays
                if not os.listdir(folder) and _is_new(Path(folder), since):
                    Path(folder).rmdir()


def _is_new(place: Path, since: float) -> bool:
    born = _birth_time(place)
    return born is None or born >= since


def _birth_time(place: Path) -> float | None:
    """Return when a directory was made, or None where the system does not say."""
    try:
        born = getattr(place.stat(), "st_birthtime", None)
        if born is not None:
            return float(born)
        said = subprocess.run(
            ["stat", "-c", "%.9W", "--", str(place)],
            capture_output=True,
            check=True,
            timeout=10,
        ).stdout
        return float(said) or None
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
