"""The manual page and the completions: made from the commands, read by man and by real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from deck.cli.manual import manual
from deck.cli.verbs import _app

PROGRAM = Path(sys.executable).parent / "choragos"
VERBS = [name for name, verb in typer.main.get_command(_app).commands.items() if not verb.hidden]

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="choragos is not installed here")


def run(*line: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        line,
        env={"PATH": path, "HOME": "/dev/null", "LC_ALL": "C.UTF-8", "TERM": "dumb", **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_verb_and_option_is_in_the_page_and_hidden_ones_are_not() -> None:
    page = manual(typer.main.get_command(_app))
    for name in VERBS:
        assert f"\n.SS {name.replace('-', chr(92) + '-')}" in page
    for option in ("bundle", "transcripts", "template", "detach", "force"):
        assert rf"\fB\-\-{option}\fR" in page
    assert "headless" not in page
    assert r"gen\-man" not in page
    assert "No description" not in page
    assert "checkpoints prune" in page


def test_no_line_of_text_is_taken_for_a_request() -> None:
    page = manual(typer.main.get_command(_app))
    requests = {line.split()[0] for line in page.splitlines() if line.startswith(".")}
    assert requests <= {".TH", ".SH", ".SS", ".PP", ".TP", ".B", ".BR"}
    assert r"\&.choragos.toml" in page or ".choragos.toml" in page


def test_man_reads_the_page_without_a_warning(tmp_path: Path) -> None:
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("man and groff are not installed")
    done = run(str(PROGRAM), "gen-man", str(tmp_path))
    assert done.stdout == f"wrote {tmp_path}/choragos.1\n"
    read = run("man", "--warnings=all", "-l", str(tmp_path / "choragos.1"), MANWIDTH="80")
    assert read.returncode == 0
    assert read.stderr == ""
    for word in ("NAME", "choragos - A team", "EXIT STATUS", "work-done", "--bundle"):
        assert word in read.stdout
    assert run(str(PROGRAM), "gen-man", f"{tmp_path}/no").stderr.startswith(
        f"error: {tmp_path}/no/"
    )


def test_bash_completes_verbs_and_templates() -> None:
    script = (
        'source <(choragos completion bash); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        '_choragos_completion choragos; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    verbs = run("bash", "-c", script, "bash", "choragos", "do")
    assert verbs.stdout.split() == ["doctor"], verbs.stderr
    names = run("bash", "-c", script, "bash", "choragos", "init", "--template", "re")
    assert names.stdout.split() == ["review", "regulated"]


def test_zsh_takes_the_script_and_completes(tmp_path: Path) -> None:
    script = run(str(PROGRAM), "completion", "zsh").stdout
    assert "#compdef choragos" in script
    answer = run(
        str(PROGRAM), _CHORAGOS_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="choragos do"
    )
    assert '"doctor"' in answer.stdout
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed; its script was only read")
    (tmp_path / "_choragos").write_text(script)
    line = "autoload -Uz compinit; compinit -u -D; source ./_choragos; print ${_comps[choragos]}"
    done = subprocess.run(
        ["zsh", "-f", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "_choragos_completion\n", done.stderr


def test_fish_takes_the_script_and_completes() -> None:
    script = run(str(PROGRAM), "completion", "fish").stdout
    assert script.startswith("complete --command choragos")
    answer = run(
        str(PROGRAM),
        _CHORAGOS_COMPLETE="complete_fish",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
        _TYPER_COMPLETE_ARGS="choragos do",
    )
    assert answer.stdout.startswith("doctor\t")
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed; its script was only read")
    line = 'choragos completion fish | source; complete -C "choragos do"'
    done = run("fish", "--no-config", "-c", line)
    assert done.stdout.startswith("doctor\t"), done.stderr


def test_a_shell_that_is_not_known_is_refused_with_the_list() -> None:
    done = run(str(PROGRAM), "completion", "tcsh")
    assert done.returncode == 1
    assert "bash" in done.stderr
    assert done.stderr.startswith("error: ")
