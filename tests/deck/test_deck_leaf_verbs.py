"""init, doctor, report, checkpoints and rollback as a user types them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from deck import detect as detection
from deck.checkpoints import Checkpoints, delivery_subject
from deck.cli import checkpoints, doctor, init, report
from deck.cli.init import TEMPLATES
from deck.config import GatewayMode
from deck.desk import open_closed_journal
from deck.detect import LANGUAGES, detect
from deck.events import EventLog, parse_events
from deck.restore import UnderWay, turn
from deck.sessions import paths_for
from deck.team_reader import load_config

OK = b'{"status":"ok"}\n'


def run(*arguments: str, answer: str = "") -> Result:
    app = typer.Typer()
    for group in (init, doctor, report, checkpoints):
        group.register(app)
    return CliRunner().invoke(app, list(arguments), input=answer)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Run in an empty directory with a runtime directory and git settings of its own."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.delenv("CHORAGOS_SOCK", raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("TERM", "xterm")
    # Socket paths are short; pytest's directories are not.
    with tempfile.TemporaryDirectory(prefix="chor-", dir="/tmp") as short:
        monkeypatch.setenv("XDG_RUNTIME_DIR", short)
        monkeypatch.setenv("XDG_STATE_HOME", f"{short}/state")
        yield work


@pytest.fixture
def store(place: Path) -> Checkpoints:
    subprocess.run(["git", "init", "-q"], cwd=place, check=True)
    (place / "kept.txt").write_text("kept\n")
    return Checkpoints(place)


def task(store: Checkpoints, name: str, path: Path, text: str, role: str = "coder") -> None:
    store.create(name, delivery_subject(name, role, "do it"))
    path.write_text(text)
    store.create(f"{name}-done", f"{name} done")


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_template_loads_without_a_warning(name: str, place: Path) -> None:
    result = run("init", "--template", name)
    assert result.output == f"wrote .choragos.toml (template: {name})\n"
    config = load_config(None, place)
    assert config.warnings == ()
    assert sum(role.start for role in config.roles) == 1


def test_the_regulated_template_insists_on_the_gateway_and_on_approval(place: Path) -> None:
    run("init", "--template", "regulated")
    config = load_config(None, place)
    assert config.sphragis.mode is GatewayMode.REQUIRED
    assert config.sphragis.fail_closed
    assert any(role.approve for role in config.roles)


def test_an_existing_file_is_kept_unless_forced(place: Path) -> None:
    (place / ".choragos.toml").write_text("mine")
    result = run("init")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: .choragos.toml exists already")
    assert (place / ".choragos.toml").read_text() == "mine"
    assert run("init", "--force").output == "wrote .choragos.toml (template: starter)\n"
    assert load_config(None, place).roles


def test_auto_and_template_exclude_each_other_and_unknown_templates_are_named() -> None:
    assert "exclude each other" in run("init", "--auto", "--template", "review").stderr
    assert "starter, claude-team" in run("init", "--template", "x").stderr
    assert not Path(".choragos.toml").exists()


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.key)
def test_auto_knows_the_language_by_its_manifest(language: detection.Language, place: Path) -> None:
    for manifest in language.manifests:
        (place / manifest).write_text("")
        assert [found.key for found in detect(place)] == [language.key]
        (place / manifest).unlink()
    (place / language.manifests[0]).write_text("")
    assert run("init", "--auto").output == f"wrote .choragos.toml (template: {language.key})\n"
    assert load_config(None, place).warnings == ()
    assert language.name in (place / ".choragos.toml").read_text().splitlines()[0]


def test_auto_takes_the_language_with_most_files_and_names_the_others(place: Path) -> None:
    (place / "pyproject.toml").write_text("")
    (place / "package.json").write_text("")
    (place / "web").mkdir()
    for number in range(3):
        (place / f"m{number}.py").write_text("")
    for folder in ("node_modules", ".cache", "dist"):
        (place / folder).mkdir()
        for number in range(9):
            (place / folder / f"{number}.js").write_text("")
    (place / "web" / "a.ts").write_text("")
    (place / "lonely.go").write_text("")
    run("init", "--auto")
    text = (place / ".choragos.toml").read_text()
    assert text.startswith("# A team for a Python project")
    assert "# Also found here: Node;" in text


def test_auto_without_a_manifest_writes_the_starter(place: Path) -> None:
    (place / "main.go").write_text("")
    assert run("init", "--auto").output == "wrote .choragos.toml (template: starter)\n"


def test_detection_stops_at_the_cap(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "FILE_CAP", 5)
    for number in range(5):
        (place / f"a{number}").write_text("")
    (place / "go.mod").write_text("")
    assert detect(place) == ()


def test_doctor_prints_a_line_a_check_and_fails_only_on_failures(place: Path) -> None:
    (place / ".choragos.toml").write_text(
        '[[roles]]\nname = "a"\ncommand = "sh"\nstart = true\n[sphragis]\nenabled = false\n'
    )
    result = run("doctor")
    assert result.exit_code == 0, result.output
    assert re.search(r"^OK    role a         /.*/sh$", result.output, re.MULTILINE)
    assert re.search(r"^WARN  gateway        disabled", result.output, re.MULTILINE)
    result = run("doctor", "--config", "missing.toml")
    assert result.exit_code == 1
    assert "FAIL  config         " in result.stdout
    assert result.stderr == "error: 1 check(s) failed\n"


def test_report_reads_the_log_of_this_directory(place: Path) -> None:
    result = run("report")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: .choragos/logs/events.log does not exist;")
    log = EventLog(place / ".choragos" / "logs" / "events.log")
    assert "no events" in run("report").stderr
    log.write("INFO", "deck starting", roles=1, sphragis=False, dir=str(place))
    log.write("INFO", "delegate", id="T1", **{"from": "lead"}, to="coder", task="x", brief="")
    log.close()
    assert "1 task(s) never reported work-done" in run("report").output
    assert json.loads(run("report", "--json").output)["dir"] == str(place)
    assert json.loads(run("report", "--json", "--all").output)["open_tasks"] == 1
    assert run("report", str(log.path)).exit_code == 0


def test_checkpoints_are_listed_newest_first(store: Checkpoints) -> None:
    assert run("checkpoints").output == "no checkpoints\n"
    task(store, "T1", Path("a"), "x")
    task(store, "T2", Path("b"), "x", role="reviewer")
    for verb in (["checkpoints"], ["checkpoints", "list"]):
        assert re.fullmatch(
            r"T2                 \ds        T2 -> reviewer: do it\n"
            r"T1                 \ds        T1 -> coder: do it\n",
            run(*verb).output,
        )


def test_prune_says_how_many_went_and_stayed(store: Checkpoints, place: Path) -> None:
    for number in range(4):
        task(store, f"T{number}", Path("a"), str(number))
    assert run("checkpoints", "prune", "--keep", "3").output == ("pruned 1 checkpoint(s), kept 3\n")
    (place / ".choragos.toml").write_text('[[roles]]\nname = "a"\n[checkpoints]\nkeep = 1\n')
    assert run("checkpoints", "prune").output == "pruned 2 checkpoint(s), kept 1\n"
    assert run("checkpoints", "prune", "--keep", "-1").exit_code != 0


def test_outside_a_repository_every_verb_says_what_to_do() -> None:
    for verb in (["checkpoints"], ["checkpoints", "prune"], ["rollback", "T1"]):
        result = run(*verb)
        assert result.exit_code == 1
        assert result.stderr.startswith("error: ")
        assert "git init" in result.stderr


def test_rollback_lists_asks_and_does_nothing_on_no(store: Checkpoints, place: Path) -> None:
    task(store, "T1", Path("kept.txt"), "by T1")
    for answer in ("", "\n", "n\n", "maybe\n"):
        result = run("rollback", "T1", answer=answer)
        assert result.exit_code == 0
        assert "T1 -> coder: do it" in result.output
        assert "  restore  kept.txt" in result.output
        assert "proceed? [y/N] " in result.output
        assert result.output.endswith("aborted\n")
    assert (place / "kept.txt").read_text() == "by T1"


def test_rollback_puts_back_says_how_to_undo_and_logs(store: Checkpoints, place: Path) -> None:
    log = EventLog(place / ".choragos" / "logs" / "events.log")
    task(store, "T1", Path("kept.txt"), "by T1")
    result = run("rollback", "T1", answer="y\n")
    assert result.exit_code == 0
    assert "rolled back T1: 1 file(s) restored, 0 deleted" in result.output
    assert "`choragos rollback pre-rollback-T1`" in result.output
    assert (place / "kept.txt").read_text() == "kept\n"
    event = parse_events(log.path)[-1]
    assert (event.msg, event.fields["task"], event.fields["restored"]) == ("rollback", "T1", "1")
    assert run("rollback", "T1", "--yes").output.endswith(
        "nothing to do: the files are as they were before T1\n"
    )
    assert run("rollback", "pre-rollback-T1", "--yes").exit_code == 0
    assert (place / "kept.txt").read_text() == "by T1"


def test_rollback_refuses_conflicts_before_asking_and_force_overwrites(
    store: Checkpoints, place: Path
) -> None:
    task(store, "T1", Path("kept.txt"), "by T1")
    task(store, "T2", Path("kept.txt"), "by T2")
    result = run("rollback", "T1")
    assert result.exit_code == 1
    assert "conflict: kept.txt (changed later by T2)" in result.stdout
    assert "proceed?" not in result.stdout
    assert "use --force" in result.stderr
    assert (place / "kept.txt").read_text() == "by T2"
    assert run("rollback", "T1", "--force", "--yes").exit_code == 0
    assert (place / "kept.txt").read_text() == "kept\n"


def test_rollback_whole_puts_every_file_back(store: Checkpoints, place: Path) -> None:
    task(store, "T1", Path("a.txt"), "x")
    (place / "users.txt").write_text("mine")
    assert "0 file(s) restored, 1 deleted" in run("rollback", "T1", "--yes").output
    assert (place / "users.txt").exists()
    kept = run("rollback", "T1", "--yes", "--whole")
    assert "left alone: users.txt (it appeared while no task was open" in kept.stdout
    assert (kept.exit_code, (place / "users.txt").exists()) == (1, True)
    assert "1 deleted" in run("rollback", "T1", "--yes", "--whole", "--force").output
    assert not (place / "users.txt").exists()


def test_rollback_that_can_touch_nothing_is_a_failure_that_says_why(store: Checkpoints) -> None:
    store.create("T1", delivery_subject("T1", "coder", "x"))
    store.create("T2", delivery_subject("T2", "writer", "x"))
    Path("shared.txt").write_text("by one of them")
    store.create("T2-done", "T2 done")
    store.create("T1-done", "T1 done")
    result = run("rollback", "T1", "--yes")
    assert result.exit_code == 1
    assert "left alone: shared.txt (T1, T2 were at work together when it changed)" in result.stdout
    assert Path("shared.txt").exists()


def test_an_unknown_task_is_an_error(store: Checkpoints) -> None:
    result = run("rollback", "T7", "--yes")
    assert (result.exit_code, result.stderr) == (
        1,
        "error: there is no checkpoint T7; `choragos checkpoints` lists those there are.\n",
    )


def test_a_file_name_cannot_forge_the_list(store: Checkpoints) -> None:
    task(store, "T1", Path("a\n  restore  b\x1b[2J"), "x")
    assert '  delete   "a\\n  restore  b\\x1b[2J"\n' in run("rollback", "T1", "--yes").output


@contextmanager
def session_that_answers(place: Path, *acks: bytes) -> Iterator[list[dict[str, object]]]:
    """A deck's socket that gives one ack to each connection; yields what it was told."""
    told: list[dict[str, object]] = []
    path = paths_for(str(place)).socket
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def answer() -> None:
            for ack in acks:
                connection, _ = listener.accept()
                with connection:
                    told.append(json.loads(connection.recv(4096)))
                    connection.sendall(ack)

        thread = threading.Thread(target=answer)
        thread.start()
        yield told
        thread.join()


@pytest.mark.parametrize("ack", [OK, b'{"status":"error","reason":"Unknown command \'note\'"}\n'])
def test_rollback_beside_a_live_session_warns_is_recorded_and_works(
    store: Checkpoints, place: Path, ack: bytes
) -> None:
    task(store, "T1", Path("kept.txt"), "by T1")
    with session_that_answers(place, OK, ack, ack) as told:
        result = run("rollback", "T1", "--yes")
    assert "warning: a session runs here" in result.stderr
    assert result.exit_code == 0
    assert (place / "kept.txt").read_text() == "kept\n"
    assert [(one["cmd"], one.get("task"), one.get("id")) for one in told] == [
        ("ping", None, None),
        ("note", "rollback-begun", "T1"),
        ("note", "rollback-ended", "T1"),
    ]


def test_what_the_session_cannot_record_is_not_rolled_back(store: Checkpoints, place: Path) -> None:
    task(store, "T1", Path("kept.txt"), "by T1")
    refused = b'{"status":"error","reason":"The ledger cannot be written."}\n'
    with session_that_answers(place, OK, refused):
        result = run("rollback", "T1", "--yes")
    assert result.exit_code == 1
    assert "nothing was changed" in result.stderr
    assert (place / "kept.txt").read_text() == "by T1"


def test_without_a_session_the_closed_journal_gets_the_record(
    store: Checkpoints, place: Path
) -> None:
    paths = paths_for(str(place))
    opened = open_closed_journal(paths, os.environ)
    assert opened is None
    (place / ".choragos" / "ledger").mkdir(parents=True)
    task(store, "T1", Path("kept.txt"), "by T1")
    assert run("rollback", "T1", "--yes").exit_code == 0
    journal = open_closed_journal(paths, os.environ)
    assert journal is not None
    found = [r["ext"] for r in journal._ledger.records() if "op" in r.get("ext", {})]
    journal.close()
    assert [(ext["op"], ext["task"], ext["sender"]) for ext in found] == [
        ("rollback-begun", "T1", "operator"),
        ("rollback-ended", "T1", "operator"),
    ]


def test_an_interrupted_rollback_is_told_in_one_sentence_and_finished_by_one_command(
    store: Checkpoints, place: Path
) -> None:
    task(store, "T1", Path("a.txt"), "x")
    task(store, "T2", Path("b.txt"), "x")
    plan = store.plan_rollback(store.find("T1"))
    goal = store.repo.compose(plan.now_tree, {"a.txt": None})
    with turn(store.repo) as held:
        held.begin(UnderWay(plan.target.ref, "pre-rollback-T1", plan.now_tree, goal, 0))
    store.record("pre-rollback-T1", "as a killed rollback leaves it", plan.now_tree)
    refused = run("rollback", "T2", "--yes")
    assert (refused.exit_code, refused.stderr) == (
        1,
        "error: a rollback to T1 was interrupted; finish it with `choragos rollback T1`, or take "
        "it back with `choragos rollback pre-rollback-T1`.\n",
    )
    finished = run("rollback", "T1", "--yes")
    assert "note: this finishes the rollback that was interrupted." in finished.stdout
    assert finished.stdout.endswith("undo this with `choragos rollback pre-rollback-T1`\n")
    assert (finished.exit_code, (place / "a.txt").exists()) == (0, False)
    assert run("rollback", "T2", "--yes").exit_code == 0


def test_a_rollback_beside_another_is_refused_in_one_sentence(store: Checkpoints) -> None:
    task(store, "T1", Path("a.txt"), "x")
    with turn(store.repo):
        result = run("rollback", "T1", "--yes")
    assert (result.exit_code, result.stderr) == (
        1,
        "error: another rollback is under way in this working tree; try again when it has ended.\n",
    )
