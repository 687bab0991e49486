"""A role's own checkout: `.choragos/worktrees/<role>` on branch `choragos/<role>`, by git alone.

Owns making, keeping and committing it (contracts/deck.md section 1.10). Invariants: a checkout that
is there is never removed, reset or switched; one that is not as the deck left it is explained in a
sentence and left alone; its branch moves forward only when all of it is in the main tree and
nothing uncommitted lies in it; one deck at a time holds it, by a lock that ends with its process;
what is committed is on the role's own branch or not committed at all. Names come with NUL
separators or as files, never split. Blocking; `deck.merging` calls it in threads, the doctor and
`choragos worktrees` only look.
"""

from __future__ import annotations

import fcntl
import os
import time
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from deck.branches import HEADS, branch_of, is_ancestor, last_lines, named, unmerged
from deck.briefs import STATE_DIR, safe_name
from deck.gitrepo import USERS_FILES, GitError, GitMissing, GitRepo, Hooks, NotARepository
from deck.plain_files import read_plain

WORKTREES_DIR: Final = "worktrees"

#: An agent's own git may hold the index for a moment.
_LOCK_TRIES: Final = 4
_LOCK_SECONDS: Final = 0.5
#: Filters of a large repository may fetch content while it is checked out.
_CHECKOUT_SECONDS: Final = 600
#: What git says of an entry while it makes the checkout.
_BEING_MADE: Final = "initializing"
#: What git keeps of a checkout: a path, a reason.
_NOTE_BYTES: Final = 1 << 20


class WorktreeError(GitError):
    """A worktree cannot be used as it is; the message says what to do, and nothing was changed."""


class CommitRefused(GitError):
    """A hook, or git itself, did not take the commit; the work stays where it is, uncommitted."""


class Origin(StrEnum):
    """How a checkout came to be there."""

    MADE = "made"
    REMADE = "remade"
    REUSED = "reused"


@dataclass(frozen=True, slots=True)
class Worktree:
    """One role's checkout: `top` holds its `.git`, `cwd` is where the role works, which is the
    same place below `top` as the deck's directory below the repository's."""

    role: str
    branch: str
    top: Path
    cwd: Path
    origin: Origin
    head: str
    #: What was not done, and why.
    note: str = ""


@dataclass(frozen=True, slots=True)
class Committed:
    """The head of a branch after a commit; `is_new` is false when there was nothing to commit."""

    head: str
    is_new: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """What a person wants to know of a worktree: commits it is ahead and behind, and paths that
    are not committed."""

    ahead: int
    behind: int
    uncommitted: int


@dataclass(frozen=True, slots=True)
class _Branch:
    head: str
    checked_out: str


class Worktrees:
    """The worktrees of the deck in `directory`. Calls may come from any thread, one at a time for
    each role."""

    def __init__(self, directory: Path) -> None:
        """Find the repository. Raises WorktreeError where no worktree can be made."""
        try:
            self.main = GitRepo(directory)
        except GitMissing:
            raise WorktreeError(
                "worktree = true needs git, which is not on PATH; install it, or take worktree "
                "out of the team file."
            ) from None
        except NotARepository:
            raise WorktreeError(
                f"worktree = true needs a git repository, and {directory} is in none; run `git "
                "init` there and commit, or take worktree out of the team file."
            ) from None
        if self.main.head() is None:
            raise WorktreeError(
                f"worktree = true needs a commit to start from, and {self.main.top} has none; "
                "commit what the roles shall see, then start again."
            )
        self.directory = directory
        self._inside = Path(os.path.relpath(os.path.realpath(directory), self.main.top))
        self._locks: dict[str, int] = {}

    def place(self, role: str) -> Path:
        """Return where the role's checkout is, or would be."""
        return self.directory / STATE_DIR / WORKTREES_DIR / safe_name(role)

    def cwd(self, role: str) -> Path:
        """Return where the role works, below its checkout's top as the deck is below its own."""
        return self.place(role) / self._inside

    def look(self, role: str) -> Origin:
        """Return what `make` would do. Changes nothing. Raises WorktreeError where it would."""
        place, branch = self.place(role), branch_of(role)
        if _is_live(place) and not self._is_half_made(place):
            self._check(place, role)
            return Origin.REUSED
        found = self._branch(branch)
        if found is None:
            return Origin.MADE
        if found.checked_out and not _same(found.checked_out, place):
            raise WorktreeError(
                f"role {role}: its branch {branch} is checked out at {found.checked_out}, by "
                "another deck or by hand; switch that checkout to another branch first."
            )
        return Origin.REMADE

    def make(self, role: str) -> Worktree:
        """Make the role's checkout, or take the one that is there, and hold it from now on.

        Raises WorktreeError or GitError.
        """
        place, branch = self.place(role), branch_of(role)
        origin, note = self.look(role), ""
        if origin is Origin.REUSED:
            self._hold(role)
            note = self.freshen(role)
        else:
            note = self._add(role, place, branch, origin)
            self._hold(role)
        repo = self._check(place, role)
        cwd = self.cwd(role)
        cwd.mkdir(parents=True, exist_ok=True)
        return Worktree(role, branch, place, cwd, origin, repo.head() or "", note)

    def freshen(self, role: str) -> str:
        """Bring a clean checkout with nothing unmerged up to the main tree; return why that was
        not possible although it should have been, else "". Raises WorktreeError."""
        repo = self._check(self.place(role), role)
        head, main = repo.head() or "", self.main.head() or ""
        if head == main or not is_ancestor(self.main, head, main) or _changes(repo):
            return ""
        # Not even an ignored file is overwritten; no hook runs.
        done = repo.attempt("merge", "--ff-only", "--no-overwrite-ignore", "-q", main)
        return "" if done.returncode == 0 else last_lines(done.stderr)

    def commit(self, role: str, subject: str, hooks: Hooks) -> Committed:
        """Commit everything in the role's checkout to its branch, with the user's hooks.

        Raises CommitRefused, with the last lines of what was said, or WorktreeError; the work
        then is uncommitted, as it was.
        """
        for left in reversed(range(_LOCK_TRIES)):
            try:
                return self._commit(self._check(self.place(role), role), role, subject, hooks)
            except GitError as failure:
                if not left or "index.lock" not in str(failure):
                    raise
                time.sleep(_LOCK_SECONDS)
        raise AssertionError("the last try returns or raises")

    def standing(self, role: str) -> Standing:
        """Return how the role's branch stands to the main tree. Raises GitError."""
        place = self.place(role)
        repo = self._check(place, role)
        counted = repo.run("rev-list", "--left-right", "--count", f"HEAD...{self.main.head()}")
        ahead, behind = counted.decode().split()
        return Standing(int(ahead), int(behind), len(_changes(repo)))

    def holds(self, role: str, commit: str) -> bool:
        """Tell whether a commit is on the role's branch, as it is now."""
        found = self._branch(branch_of(role))
        return found is not None and is_ancestor(self.main, commit, found.head)

    def kept(self) -> list[str]:
        """Return the names of all checkouts there are, also of roles the team has no more."""
        place = self.directory / STATE_DIR / WORKTREES_DIR
        try:
            return sorted(
                child.name
                for child in place.iterdir()
                if (child / ".git").exists() and safe_name(child.name) == child.name
            )
        except OSError:
            return []

    def close(self) -> None:
        """Let go of what `make` holds; the checkouts stay."""
        while self._locks:
            os.close(self._locks.popitem()[1])

    # -- making ---------------------------------------------------------------------------------

    def _add(self, role: str, place: Path, branch: str, origin: Origin) -> str:
        note = self._set_aside(place) if self._is_half_made(place) else ""
        self._forget_deleted(role, place)
        place.parent.mkdir(parents=True, exist_ok=True)
        head = self.main.head() or ""
        if origin is Origin.MADE:
            self.main.run(
                "worktree", "add", "-q", "--no-track", "-b", branch, "--", str(place), head,
                seconds=_CHECKOUT_SECONDS,
            )  # fmt: skip
            return note
        found = self._branch(branch)
        if found and found.head != head and is_ancestor(self.main, found.head, head):
            self.main.run("update-ref", f"{HEADS}{branch}", head, found.head)
        self.main.run("worktree", "add", "-q", "--", str(place), branch, seconds=_CHECKOUT_SECONDS)
        return note

    def _is_half_made(self, place: Path) -> bool:
        """Whether git was cut off while it made this checkout: to it every file then looks
        deleted, and nobody has worked there yet."""
        return any(
            _same(_registered(entry), place / ".git") and _lock_reason(entry) == _BEING_MADE
            for entry in _entries(self.main)
        )

    def _set_aside(self, place: Path) -> str:
        if not os.path.lexists(place):
            return ""
        aside = place.with_name(f"{place.name}.cut-off-{time.time_ns() // 1_000_000}")
        place.rename(aside)
        return f"it was cut off while it was made; what there was of it is in {aside}"

    def _forget_deleted(self, role: str, place: Path) -> None:
        """Prune the entry of this one checkout, which somebody deleted; others are not ours."""
        if place.is_dir():
            place.rmdir()  # `_is_live` has found it empty
        for entry in _entries(self.main):
            if not _same(_registered(entry), place / ".git"):
                continue
            reason = _lock_reason(entry)
            if reason not in (None, _BEING_MADE):
                raise WorktreeError(
                    f"role {role}: its checkout {place} is gone but locked in git; run `git "
                    f"worktree unlock {place}` if it shall be made again."
                )
            # Nothing but the entry is there to be removed.
            anyway = ("-f", "-f") if reason else ()
            self.main.run("worktree", "remove", *anyway, "--", str(place))

    def _branch(self, branch: str) -> _Branch | None:
        layout = "%(refname)%00%(objectname)%00%(worktreepath)%00"
        raw = self.main.run("for-each-ref", f"--format={layout}", f"{HEADS}{branch}")
        fields = os.fsdecode(raw).split("\0")
        if fields[0] != f"{HEADS}{branch}":
            return None
        return _Branch(fields[1], fields[2])

    def _check(self, place: Path, role: str) -> GitRepo:
        """Return the role's checkout as a repository of its own, or say what is wrong with it."""
        if not _is_live(place):
            raise WorktreeError(f"role {role}: its checkout {place} is gone.")
        try:
            repo = GitRepo(place)
        except NotARepository:
            raise WorktreeError(
                f"role {role}: {place} has lost its repository, as after a move of the project; "
                f"run `git worktree repair {place}`."
            ) from None
        if not _same(repo.top, place) or not _same(repo.common, self.main.common):
            raise WorktreeError(
                f"role {role}: {place} belongs to another repository ({repo.common}); move it "
                f"away, or, if the project was copied, run `git worktree repair {place}`."
            )
        at = repo.attempt("symbolic-ref", "-q", "HEAD").stdout.decode("utf-8", "replace").strip()
        if at != f"{HEADS}{branch_of(role)}":
            on = f"on {at.removeprefix(HEADS)}" if at else "on no branch"
            raise WorktreeError(
                f"role {role}: its checkout {place} is {on}, not on {branch_of(role)}; finish what "
                f"is under way there, then run `git -C {place} switch {branch_of(role)}`."
            )
        return repo

    def _hold(self, role: str) -> None:
        if role in self._locks:
            return
        place = self.place(role)
        private = GitRepo(place).private
        private.mkdir(exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(private / "deck", flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 1024, 0).decode("utf-8", "replace").strip()
            os.close(descriptor)
            raise WorktreeError(
                f"role {role}: its checkout {place} is in use by another deck ({holder}); stop "
                "that one first."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"pid {os.getpid()} in {self.directory}".encode(), 0)
        self._locks[role] = descriptor

    # -- committing -----------------------------------------------------------------------------

    def _commit(self, repo: GitRepo, role: str, subject: str, hooks: Hooks) -> Committed:
        if conflicts := unmerged(repo):
            raise WorktreeError(
                f"role {role}: its checkout is in the middle of a merge with conflicts in "
                f"{named(conflicts)}; resolve them there."
            )
        if not repo.git_path("index").exists():
            raise WorktreeError(
                f"role {role}: its checkout {repo.top} has lost its index, so every file would "
                f"count as deleted; run `git -C {repo.top} reset` there."
            )
        before = repo.head() or ""
        # By way of a temporary index, which runs no program of a repository in the checkout.
        tree = repo.write_workspace_tree()
        merging = repo.git_path("MERGE_HEAD").exists()
        if tree == repo.run("rev-parse", "HEAD^{tree}").decode().strip() and not merging:
            return Committed(before, is_new=False)
        repo.run("read-tree", "-i", "-m", tree)
        done = repo.attempt(
            "commit", "-q", "--no-gpg-sign", "--cleanup=whitespace", "-F", "-",
            stdin=subject.encode("utf-8", "replace"), hooks=hooks,
        )  # fmt: skip
        if done.returncode != 0:
            silent = f"git commit, or a hook of it, said nothing and ended with {done.returncode}"
            said = last_lines(done.stdout + b"\n" + done.stderr) or silent
            raise CommitRefused(f"the commit was refused, the work is uncommitted: {said}")
        return Committed(self._check(repo.top, role).head() or "", is_new=True)


def _is_live(place: Path) -> bool:
    """Whether a checkout is there. Raises WorktreeError when something else is."""
    if not os.path.lexists(place):
        return False
    if place.is_symlink() or not place.is_dir():
        raise WorktreeError(f"{place} is in the way of a worktree; move it away.")
    if os.path.lexists(place / ".git"):
        return True
    if any(place.iterdir()):
        raise WorktreeError(
            f"{place} holds files and is no checkout of git; move it away, nothing in it is "
            "touched."
        )
    return False


def _entries(repo: GitRepo) -> list[Path]:
    """Return what git keeps of each linked worktree of a repository."""
    try:
        return [entry for entry in (repo.common / "worktrees").iterdir() if entry.is_dir()]
    except OSError:
        return []


def _lock_reason(entry: Path) -> str | None:
    """Return why git locks an entry, None when it does not."""
    try:
        return read_plain(entry / "locked", _NOTE_BYTES).decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return None


def _registered(entry: Path) -> Path:
    """Return which checkout an entry is about: the path of its `.git` file."""
    try:
        said = read_plain(entry / "gitdir", _NOTE_BYTES).removesuffix(b"\n")
    except OSError:
        return entry / "gitdir"
    return entry / os.fsdecode(said)


def _same(one: Path | str, other: Path | str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _changes(repo: GitRepo) -> list[bytes]:
    """Return what is not committed in a checkout, one item for each path. Raises GitError."""
    raw = repo.run(
        "status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=dirty", "--",
        *USERS_FILES,
    )  # fmt: skip
    return [row for row in raw.split(b"\0") if row]
