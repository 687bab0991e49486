"""The report: text and JSON of a run, exactly; the last run only unless all are asked for."""

from __future__ import annotations

import json

import pytest

from deck.events import parse_lines
from deck.report import NoEvents, Report, Runs, build_report

FIRST_RUN = """\
time=2026-07-12T09:00:00.000+03:00 level=INFO msg="deck starting" roles=2 sphragis=true dir=/old
time=2026-07-12T09:00:01.000+03:00 level=INFO msg=delegate id=T1 from=lead to=coder task=x brief=""
time=2026-07-12T09:01:01.000+03:00 level=INFO msg=work-done id=T1 to=lead done=true task=x report=""
time=2026-07-12T09:01:02.000+03:00 level=INFO msg=tokens role=coder in=1000 out=50 \
cache_creation=0 cache_read=0 cost=0.2500
"""
LAST_RUN = """\
time=2026-07-13T13:13:35.634+03:00 level=INFO msg="deck starting" roles=3 sphragis=true dir=/w/demo
time=2026-07-13T13:13:37.634+03:00 level=INFO msg=boot role=lead start=true
time=2026-07-13T13:13:39.636+03:00 level=INFO msg=boot role=coder start=false
time=2026-07-13T13:13:40.000+03:00 level=INFO msg=delegate id=T1 from=lead to=coder \
task="fix the \\"thing\\"" brief=""
time=2026-07-13T13:14:40.500+03:00 level=INFO msg=work-done id=T1 to=lead done=true task=k report=""
time=2026-07-13T13:14:41.000+03:00 level=INFO msg="task tokens" id=T1 role=coder in=900 out=40 \
cache_creation=0 cache_read=0 cost=0.0042
time=2026-07-13T13:15:00.000+03:00 level=INFO msg=delegate id=T2 from=lead to=coder task=2 brief=""
time=2026-07-13T13:15:10.000+03:00 level=INFO msg=tokens role=coder in=1500 out=200 \
cache_creation=0 cache_read=500000
time=2026-07-13T13:16:00.000+03:00 level=INFO msg=tokens role=coder in=2000 out=300 \
cache_creation=1000 cache_read=900000 cost=1.2345
time=2026-07-13T13:16:01.000+03:00 level=WARN msg="budget exceeded" role=coder budget=1.00 \
cost=1.2345 action=notify
time=2026-07-13T13:16:02.000+03:00 level=INFO msg=work-done id=T9 to=lead done=false report=""
time=2026-07-13T13:16:05.634+03:00 level=INFO msg="deck stopping"
"""

TEXT = """\
run 2026-07-13 13:13:35 · wall 2m30s · /w/demo

ROLE   TASKS  DONE  BUSY  AVG   FIRST     LAST      TOKENS      COST
lead   0      0     -     -     13:13:37  13:13:37  n/a         -
coder  2      1     1m0s  1m0s  13:13:39  13:16:01  ↑903k ↓300  $1.23

1 task(s) never reported work-done
budget exceeded: coder ($1.00)
"""

JSON = {
    "start": "2026-07-13T13:13:35.634+03:00",
    "end": "2026-07-13T13:16:05.634+03:00",
    "wall_seconds": 150,
    "dir": "/w/demo",
    "open_tasks": 1,
    "roles": [
        {
            "role": "lead",
            "tasks": 0,
            "done": 0,
            "busy_seconds": None,
            "avg_seconds": None,
            "first": "2026-07-13T13:13:37.634+03:00",
            "last": "2026-07-13T13:13:37.634+03:00",
            "tokens": None,
            "cost_usd": None,
            "budget_usd": None,
        },
        {
            "role": "coder",
            "tasks": 2,
            "done": 1,
            "busy_seconds": 60.5,
            "avg_seconds": 60.5,
            "first": "2026-07-13T13:13:39.636+03:00",
            "last": "2026-07-13T13:16:01.000+03:00",
            "tokens": {"in": 2000, "out": 300, "cache_creation": 1000, "cache_read": 900000},
            "cost_usd": 1.2345,
            "budget_usd": 1.0,
        },
    ],
    "tasks": [
        {
            "id": "T1",
            "role": "coder",
            "from": "lead",
            "delegated": "2026-07-13T13:13:40.000+03:00",
            "reported": "2026-07-13T13:14:40.500+03:00",
            "busy_seconds": 60.5,
            "tokens": {"in": 900, "out": 40, "cache_creation": 0, "cache_read": 0},
            "cost_usd": 0.0042,
        },
        {
            "id": "T2",
            "role": "coder",
            "from": "lead",
            "delegated": "2026-07-13T13:15:00.000+03:00",
            "reported": None,
            "busy_seconds": None,
            "tokens": None,
            "cost_usd": None,
        },
    ],
}


def report(text: str, runs: Runs = Runs.LAST) -> Report:
    return build_report(parse_lines(text.split("\n")), runs)


def test_the_text_of_the_last_run() -> None:
    assert report(FIRST_RUN + LAST_RUN).as_text() == TEXT


def test_the_json_of_the_last_run() -> None:
    text = report(FIRST_RUN + LAST_RUN).as_json()
    assert json.loads(text) == JSON
    assert text.startswith('{\n  "start": ')
    assert '"busy_seconds": null' in text


def test_all_runs_add_up() -> None:
    found = report(FIRST_RUN + LAST_RUN, Runs.ALL)
    coder = next(role for role in found.roles if role.name == "coder")
    assert (len(coder.tasks), coder.done, found.open_tasks) == (3, 2, 1)
    assert coder.tokens is not None
    assert (coder.tokens.input, coder.tokens.output) == (3000, 350)
    assert str(coder.cost) == "1.4845"
    assert found.as_text().startswith("run 2026-07-12 09:00:00 · wall 28h16m6s · /w/demo\n")


def test_a_second_round_of_a_task_resolves_its_own_delegation() -> None:
    found = report(
        "time=2026-07-13T10:00:00Z level=INFO msg=delegate id=T1 from=lead to=coder\n"
        "time=2026-07-13T10:00:10Z level=INFO msg=work-done id=T1 to=lead done=false\n"
        "time=2026-07-13T10:01:00Z level=INFO msg=delegate id=T1 from=choragos to=coder round=2\n"
        "time=2026-07-13T10:01:30Z level=INFO msg=work-done id=T1 to=lead done=true\n"
    )
    assert [(role.name, role.done, role.busy) for role in found.roles] == [("coder", 2, 40)]
    assert found.directory is None
    assert found.as_text().startswith("run 2026-07-13 10:00:00 · wall 1m30s\n\n")


def test_a_task_that_a_resumed_run_goes_on_with_is_one_task() -> None:
    told = "".join(
        f"time=2026-07-14T09:00:0{second}.000+03:00 level=INFO {rest}\n"
        for second, rest in enumerate(
            (
                'msg="deck starting" roles=2 sphragis=true dir=/w',
                'msg=delegate id=T1 from=lead to=coder task=x brief=""',
                'msg=delegate id=T2 from=lead to=coder task=y brief=""',
                'msg=work-done id=T2 to=lead done=false task=y report=""',
                'msg="deck starting" roles=2 sphragis=true dir=/w',
                'msg="session resumed" lost=0',
                'msg=delegate id=T1 from=lead to=coder task=x brief=""',
                'msg=work-done id=T1 to=lead done=false task=x report=""',
            )
        )
    )
    for runs, tasks in ((Runs.ALL, 2), (Runs.LAST, 1)):
        report = build_report(list(parse_lines(told.splitlines())), runs)
        coder = next(role for role in report.roles if role.name == "coder")
        assert (len(coder.tasks), coder.done, report.open_tasks) == (tasks, tasks, 0)


def test_an_empty_log_is_an_error() -> None:
    with pytest.raises(NoEvents):
        report("")
    with pytest.raises(NoEvents):
        report("not an event\n")


def test_odd_values_do_not_stop_a_report() -> None:
    found = report(
        "time=2026-07-13T10:00:00Z level=INFO msg=tokens role=a in=-5 out=x cost=NaN\n"
        "time=2026-07-13T10:00:00Z level=INFO msg=delegate id=T1\n"
        'time=2026-07-13T10:00:01Z level=INFO msg="budget exceeded" role=a budget=$0.005\n'
    )
    assert "↑0 ↓0" in found.as_text()
    assert "budget exceeded: a ($0.0050)" in found.as_text()
