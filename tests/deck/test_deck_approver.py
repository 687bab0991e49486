"""Approvers: the team file that names them, their keys, and `choragos approver`."""

from __future__ import annotations

import errno
import os
import pty
import re
import stat
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from hypothesis import given
from hypothesis import strategies as st

from deck.approver_keys import (
    PASSPHRASE_ENV,
    KeyProblem,
    key_directory,
    key_names,
    open_key,
    passphrase_file,
    public_line,
    store_key,
)
from deck.approvers import public_text
from deck.cli.show import visible
from deck.cli.verbs import run
from deck.config import ConfigError, GatesConfig
from deck.recorded import config_text
from deck.team_file import CannotEdit, approver_line, replace_file, with_approver, without_approver
from deck.team_reader import parse_config

PASSPHRASE = "four words of mine"
ROLES = '[[roles]]\nname = "o"\ncommand = "sh"\n\n[[roles]]\nname = "coder"\ncommand = "sh"\n'
ALICE, BOB = public_text(bytes(32)), public_text(bytes([1] * 32))


def config(text: str, roles: str = ROLES) -> object:
    return parse_config((roles + text).encode(), Path("/p/.choragos.toml"))


# -- the team file ------------------------------------------------------------------------------


def test_gates_and_approvers_are_read() -> None:
    text = (
        'approvals = 2\n[gates]\nexpire = "8h"\napprovals = 1\n'
        f'[approvers]\nalice = "{ALICE}"\n"b.c" = "{BOB}"\n'
    )
    found = parse_config((ROLES + text).encode(), Path("/p/.choragos.toml"))
    assert found.gates == GatesConfig(expire=8 * 3600.0, approvals=1)
    assert found.approvers == {"alice": ALICE, "b.c": BOB}
    assert [role.approvals for role in found.roles] == [1, 2]
    assert found.warnings == ()
    recorded = config_text(found).decode()
    assert ALICE in recorded
    assert BOB in recorded


def test_without_them_gates_wait_for_ever_and_for_one_unsigned_approval() -> None:
    found = parse_config(ROLES.encode(), Path("/p/.choragos.toml"))
    assert (found.gates, found.approvers) == (GatesConfig(None, 1), {})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[gates]\nexpire = "soon"\n', "gates.expire 'soon' is not a duration"),
        ('[gates]\nexpire = "-1h"\n', "gates.expire must be more than zero"),
        ("[gates]\nexpire = 8\n", "gates.expire must be a string"),
        ("[gates]\napprovals = 0\n", "gates.approvals must be at least 1"),
        ("approvals = 0\n", 'roles."coder".approvals must be at least 1'),
        ("[gates]\napprovals = 2\n", "2 approvals are asked for, and [approvers] names none"),
        (
            f'approvals = 2\n[approvers]\nalice = "{ALICE}"\n',
            "2 approvals are asked for, and [approvers] names only 1",
        ),
        ("[approvers]\n", "approvers names nobody"),
        ('[approvers]\nalice = "secret words"\n', 'approvers."alice" must be "ed25519:"'),
        ("[approvers]\nalice = 1\n", "approvers.alice must be a string"),
        (f'[approvers]\noperator = "{ALICE}"\n', "a name that records use for others"),
        (f'[approvers]\ncoder = "{ALICE}"\n', "approvers.coder is the name of a role too"),
        (
            f'[approvers]\nalice = "{ALICE}"\nbob = "{ALICE}"\n',
            "alice and bob have the same key",
        ),
    ],
)
def test_what_a_team_file_promises_about_gates_and_cannot_keep_is_an_error(
    text: str, says: str
) -> None:
    with pytest.raises(ConfigError) as wrong:
        config(text)
    assert says in str(wrong.value)
    assert "secret words" not in str(wrong.value)


# -- changing it --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "before",
    [
        ROLES,
        ROLES.rstrip("\n"),
        ROLES.replace("\n", "\r\n"),
        f'[approvers]\nbob = "{BOB}"\n{ROLES}',
        f'{ROLES}[approvers] # who\nbob = "{BOB}"',
        f"{ROLES}[ approvers ]",
        f"\ufeff{ROLES}",
        f'{ROLES}prompt_template = """\n[approvers]\n"""\n',
        f'{ROLES}prompt_template = """\n[approvers]\n"""\n[approvers]\nbob = "{BOB}"\n',
        "",
    ],
)
def test_a_line_is_added_and_taken_out_and_every_other_byte_kept(before: str) -> None:
    data = before.encode()
    after = with_approver(data, "alice.k", ALICE)
    assert tomllib.loads(after.decode("utf-8-sig"))["approvers"]["alice.k"] == ALICE
    line = approver_line("alice.k", ALICE).encode()
    ending = b"\r\n" if b"\r\n" in data else b"\n"
    had_table = re.search(r"^\[ ?approvers ?\].*$(?!\n\"\"\")", before, re.M)
    kept = after.replace(line + ending, b"").removesuffix(b"[approvers]" + ending)
    assert kept.rstrip(b"\r\n") == data.rstrip(b"\r\n")
    assert after.count(b"[approvers]") == data.count(b"[approvers]") + (not had_table)
    if b'bob = "' in data:
        assert without_approver(after, "alice.k").rstrip() == data.rstrip()


@pytest.mark.parametrize(
    "before",
    [f'approvers.bob = "{BOB}"\n{ROLES}', f'approvers = {{bob = "{BOB}"}}\n{ROLES}', "x = [",
     f'{ROLES}[approvers]\nalice = "{ALICE}"\n'],
)  # fmt: skip
def test_a_file_written_otherwise_is_left_to_the_person(before: str) -> None:
    with pytest.raises(CannotEdit):
        with_approver(before.encode(), "alice", ALICE)


@given(st.text(st.sampled_from("[]approvers\"'=#\n\r x{}."), max_size=60))
def test_whatever_the_file_holds_only_that_line_is_added(text: str) -> None:
    data = text.encode()
    try:
        after = with_approver(data, "alice", ALICE)
    except CannotEdit:
        return
    before, now = tomllib.loads(text), tomllib.loads(after.decode())
    assert now.pop("approvers") == {**before.pop("approvers", {}), "alice": ALICE}
    assert now == before


def test_a_file_is_replaced_with_its_mode_and_through_its_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "link.toml"
    real.write_text("a")
    real.chmod(0o640)
    link.symlink_to(real)
    replace_file(link, b"b")
    assert link.is_symlink()
    assert real.read_bytes() == b"b"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.toml", "real.toml"]


# -- keys ---------------------------------------------------------------------------------------


def test_the_librarys_own_writer_still_stretches_a_passphrase_too_little() -> None:
    """Once this fails, `encrypted` can be the library's."""
    with pytest.raises(ValueError, match="only supported with"):
        PrivateFormat.PKCS8.encryption_builder()
    weak = BestAvailableEncryption(PASSPHRASE.encode())
    der = Ed25519PrivateKey.generate().private_bytes(Encoding.DER, PrivateFormat.PKCS8, weak)
    pbkdf2, rounds = (
        bytes.fromhex("06092a864886f70d01050c"),
        b"\x02\x02" + (2048).to_bytes(2, "big"),
    )
    assert pbkdf2 in der
    assert rounds in der


def test_a_key_is_encrypted_private_and_never_overwritten(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    directory = tmp_path / "keys"
    path = store_key(directory, "alice", key, PASSPHRASE)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert key.private_bytes_raw() not in path.read_bytes()
    assert open_key(directory, "alice", PASSPHRASE).public_key() == key.public_key()
    # Readable without us.
    assert load_pem_private_key(path.read_bytes(), PASSPHRASE.encode())
    assert key_names(directory) == ["alice"]
    public = public_text(key.public_key().public_bytes_raw())
    assert public_line(directory, "alice") == approver_line("alice", public)
    with pytest.raises(KeyProblem, match="exists already"):
        store_key(directory, "alice", Ed25519PrivateKey.generate(), PASSPHRASE)
    with pytest.raises(KeyProblem, match="does not open"):
        open_key(directory, "alice", PASSPHRASE + "x")
    with pytest.raises(KeyProblem, match="no key of bob"):
        open_key(directory, "bob", PASSPHRASE)
    with pytest.raises(KeyProblem, match="shorter than 12"):
        store_key(directory, "carol", key, "short")
    (directory / "dave.pem").write_bytes(b"not a key")
    with pytest.raises(KeyProblem, match="not an encrypted key"):
        open_key(directory, "dave", PASSPHRASE)


def test_a_passphrase_file_is_the_users_alone(tmp_path: Path) -> None:
    file = tmp_path / "p"
    environ = {PASSPHRASE_ENV: str(file)}
    assert passphrase_file({}) is None
    with pytest.raises(KeyProblem, match="cannot be read"):
        passphrase_file(environ)
    file.write_text(PASSPHRASE + "\n")
    file.chmod(0o644)
    with pytest.raises(KeyProblem, match="0600"):
        passphrase_file(environ)
    file.chmod(0o600)
    assert passphrase_file(environ) == PASSPHRASE


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such switch")
def test_a_process_that_knows_a_passphrase_cannot_be_read_by_its_neighbors(tmp_path: Path) -> None:
    secret = tmp_path / "p"
    secret.write_text(PASSPHRASE)
    secret.chmod(0o600)
    code = (
        "import ctypes; from deck.cli.passphrase import ask_passphrase; ask_passphrase('x');"
        "raise SystemExit(10 + ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"
    )
    environ = {"PATH": os.environ["PATH"], PASSPHRASE_ENV: str(secret)}
    assert subprocess.run([sys.executable, "-c", code], env=environ, check=False).returncode == 10


def test_half_a_key_is_not_left_on_a_disk_that_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KeyProblem, match="No space left"):
        store_key(tmp_path / "keys", "alice", Ed25519PrivateKey.generate(), PASSPHRASE)
    monkeypatch.undo()
    assert store_key(tmp_path / "keys", "alice", Ed25519PrivateKey.generate(), PASSPHRASE).exists()


def test_keys_are_in_the_users_configuration() -> None:
    assert key_directory(None, {"HOME": "/h"}) == Path("/h/.config/choragos/approvers")
    assert key_directory(None, {"XDG_CONFIG_HOME": "/c"}) == Path("/c/choragos/approvers")
    assert key_directory(Path("/k"), {}) == Path("/k")


@given(st.text())
def test_what_is_shown_moves_no_cursor_and_hides_nothing(text: str) -> None:
    shown = visible(text)
    assert all(c.isprintable() or c in "\n\t" for c in shown)
    assert "\n" not in visible(text, lines=False)


def test_unseen_characters_are_shown_by_their_number() -> None:
    assert visible("a\x1b[2J\u202eb\u200bc\rd\r\n") == "a\\x1b[2J\\u202eb\\u200bc\\rd\n"
    assert visible("[bold]naïve 中[/]") == "[bold]naïve 中[/]"


# -- the verbs ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


class Person:
    """Somebody with a shell, a passphrase and a project; runs verbs in this process."""

    def __init__(
        self, base: Path, patch: pytest.MonkeyPatch, output: pytest.CaptureFixture[str]
    ) -> None:
        self.dir = base / "project"
        self.dir.mkdir()
        self.team = self.dir / ".choragos.toml"
        secret = base / "passphrase"
        secret.write_text(PASSPHRASE)
        secret.chmod(0o600)
        self.keys = base / "config" / "choragos" / "approvers"
        (base / "run").mkdir()
        self.env = {
            "HOME": str(base),
            "XDG_CONFIG_HOME": str(base / "config"),
            "XDG_RUNTIME_DIR": str(base / "run"),
            PASSPHRASE_ENV: str(secret),
        }
        patch.chdir(self.dir)
        self._patch, self._output = patch, output

    def run(self, *args: str, **env: str) -> Done:
        with self._patch.context() as patch:
            for name, value in {**self.env, **env}.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                run(["approver", *args])
        said = self._output.readouterr()
        return Done(int(ended.value.code or 0), said.out, said.err)


@pytest.fixture
def person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Person:
    return Person(tmp_path, monkeypatch, capsys)


def test_an_approver_is_added_listed_and_removed(person: Person) -> None:
    person.team.write_text(ROLES)
    added = person.run("add", "alice")
    assert added.returncode == 0, added.stderr
    assert "now names alice" in added.stdout
    assert PASSPHRASE not in added.stdout + added.stderr
    assert person.team.read_text().startswith(ROLES)
    found = parse_config(person.team.read_bytes(), person.team).approvers
    key = open_key(person.keys, "alice", PASSPHRASE)
    assert found == {"alice": public_text(key.public_key().public_bytes_raw())}
    assert person.run("add", "bob").returncode == 0
    listed = person.run("list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["bob", "alice"]
    assert all(line.endswith("key here") for line in listed)
    again = person.run("add", "alice")
    assert (again.returncode, "names alice already" in again.stderr) == (1, True)
    assert person.run("remove", "bob").returncode == 0
    assert "bob              not in the team file: bob = " in person.run("list").stdout
    again = person.run("add", "bob")
    assert (again.returncode, "not overwritten" in again.stderr) == (1, True)
    last = person.run("remove", "alice")
    assert (last.returncode, "nothing was changed" in last.stderr) == (1, True)
    assert "alice" in person.team.read_text()


def test_without_a_team_file_the_lines_are_printed(person: Person) -> None:
    added = person.run("add", "alice", "--key-dir", str(person.dir / "k"))
    assert added.returncode == 0
    assert "there is no .choragos.toml here; add these lines" in added.stdout
    assert '[approvers]\nalice = "ed25519:' in added.stdout
    assert not person.team.exists()
    assert key_names(person.dir / "k") == ["alice"]


def test_the_first_of_two_is_added_with_the_warning_that_one_is_missing(person: Person) -> None:
    person.team.write_text(ROLES + "[gates]\napprovals = 2\n")
    added = person.run("add", "alice")
    assert added.returncode == 0
    assert "2 approvals are asked for, and [approvers] names only 1" in added.stderr
    assert person.run("add", "bob").stderr == ""


def test_what_cannot_be_is_refused_before_anything_is_made(person: Person) -> None:
    person.team.write_text(ROLES)
    for name, says in (("coder", "name of a role"), ("../x", "cannot be a name")):
        done = person.run("add", name)
        assert (done.returncode, says in done.stderr) == (1, True)
    short = person.dir / "short"
    short.write_text("short")
    short.chmod(0o600)
    assert "shorter than" in person.run("add", "alice", **{PASSPHRASE_ENV: str(short)}).stderr
    alone = subprocess.run(
        [sys.executable, "-m", "deck.cli", "approver", "add", "alice"],
        env={"PATH": os.environ["PATH"], **person.env, PASSPHRASE_ENV: ""},
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert (alone.returncode, "no terminal" in alone.stderr) == (1, True)
    assert person.team.read_text() == ROLES
    assert not person.keys.exists()


def test_an_agent_makes_no_approver(person: Person) -> None:
    person.team.write_text(ROLES)
    for verb in ("add", "remove"):
        done = person.run(verb, "alice", CHORAGOS_SEAT="abcd:coder")
        assert (done.returncode, "outside the team" in done.stderr) == (1, True)
    assert person.team.read_text() == ROLES


@pytest.mark.parametrize("second", [PASSPHRASE, "another one, typed wrong"])
def test_the_passphrase_is_asked_for_twice_and_not_echoed(person: Person, second: str) -> None:
    person.team.write_text(ROLES)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(person.dir)
        env = {"PATH": os.environ["PATH"], **person.env, PASSPHRASE_ENV: ""}
        os.execve(sys.executable, [sys.executable, "-m", "deck.cli", "approver", "add", "al"], env)
    said = b""
    for prompt, answer in ((b"of al: ", PASSPHRASE), (b"again: ", second)):
        while not said.endswith(prompt):
            said += os.read(terminal, 4096)
        os.write(terminal, answer.encode() + b"\n")
    try:
        while chunk := os.read(terminal, 4096):
            said += chunk
    except OSError:
        pass
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    good = second == PASSPHRASE
    assert (os.waitstatus_to_exitcode(status) == 0) == good
    assert PASSPHRASE.encode() not in said
    assert (person.keys / "al.pem").exists() == good
    assert ("al" in tomllib.loads(person.team.read_text()).get("approvers", {})) == good
