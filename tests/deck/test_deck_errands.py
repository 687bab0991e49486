"""The short way of `delegate` and `work-done` says and does what the long way does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
import typer
from deck_harness import DeckRig, agent_role
from hypothesis import given
from hypothesis import strategies as st

from deck.cli.errands import _OPTIONS, errand, plain
from deck.cli.verbs import _app, with_plain_flags

WORDS = st.one_of(
    st.sampled_from(
        ["--to", "--task", "--brief", "--json", "--report", "--done", "--id", "coder", "a,b", "x y"]
    ),
    st.sampled_from(
        ["--to=coder", "--task=", "--task=a=b", "--json=true", "--done=false", "-h", "--", "-x"]
    ),
    st.text(max_size=4),
)


def by_the_long_way(verb: str, words: list[str]) -> dict[str, object] | None:
    """What the verbs' own machinery makes of the words; None where it refuses them."""
    group = typer.main.get_command(_app)
    command = group.commands[verb]  # type: ignore[attr-defined]
    try:
        context = command.make_context(verb, with_plain_flags([verb, *words])[1:])
    except (click.ClickException, click.exceptions.Exit, Exception):
        return None
    params: dict[str, object] = context.params
    return params


@given(st.sampled_from(sorted(_OPTIONS)), st.lists(WORDS, max_size=6))
def test_what_the_short_way_takes_the_long_way_takes_alike(verb: str, words: list[str]) -> None:
    short = plain(words, _OPTIONS[verb])
    if short is None:
        return
    long = by_the_long_way(verb, words)
    assert long is not None
    assert short == {name: value for name, value in long.items() if value or name in short}


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["--help"],
        ["gates"],
        ["delegate", "--help"],
        ["delegate", "--to"],
        ["delegate", "--to", "--task"],
        ["delegate", "coder"],
        ["delegate", "--task", "a", "--task", "b"],
        ["work-done", "--done=true", "--task", "x"],
        ["work-done", "--task", "-x"],
    ],
)
def test_what_is_not_plain_goes_the_long_way(line: list[str]) -> None:
    assert errand(line) is None


def test_an_errand_loads_neither_the_verbs_nor_the_team_file_reader() -> None:
    code = (
        "import sys; sys.argv = ['choragos', 'work-done', '--task', 'x']\n"
        "from deck.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code)\n"
        "print(sorted(m for m in ('typer', 'click', 'deck.config', 'asyncio', 'deck.cli.verbs')"
        " if m in sys.modules))\n"
    )
    env = {"XDG_RUNTIME_DIR": "/nonexistent-runtime", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    )
    assert done.stdout == "1\n[]\n", done.stdout + done.stderr
    assert done.stderr.startswith("error: ")


def test_a_reader_that_has_gone_takes_nothing_back_and_a_full_disk_says_what_was_done(
    tmp_path: Path,
) -> None:
    rig = DeckRig(tmp_path)
    try:
        rig.team(agent_role("orchestrator"), agent_role("coder"))
        rig.serve()
        ends = [
            subprocess.run(
                ["bash", "-c", f"set -o pipefail; choragos delegate --to coder --task x {where}"],
                cwd=rig.dir,
                env=rig.env,
                capture_output=True,
                text=True,
                check=False,
            )
            for where in ("| true", ">&-", "> /dev/full")
        ]
        tasks = rig.status()["tasks"]
    finally:
        rig.close()
    assert [end.returncode for end in ends] == [0, 0, 1]
    assert [end.stderr[:46] for end in ends] == [
        "",
        "",
        "error: the command was carried out, but its an",
    ]
    assert len(tasks) == 3
