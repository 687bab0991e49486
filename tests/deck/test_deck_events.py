"""The event log: slog's quoting both ways, modes, rotation, torn lines and a full disk."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deck import events
from deck.events import EventLog, format_event, parse_event, parse_events, quote, unquote

WHEN = datetime(2026, 3, 4, 5, 6, 7, 89_000, tzinfo=UTC)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ("plain", "plain"),
        ("a\\b", "a\\b"),
        ("", '""'),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ('say "hi"', '"say \\"hi\\""'),
        ("line\nbreak\ttab", '"line\\nbreak\\ttab"'),
        ("\x1b[2J", '"\\x1b[2J"'),
        ("é", "é"),
        ("a\u00a0b", '"a\\u00a0b"'),
        ("\u200b", '"\\u200b"'),
        ("\U000e0001", '"\\U000e0001"'),
        ("\udcff", '"\\xff"'),
        ("c:\\a b", '"c:\\\\a b"'),
    ],
)
def test_values_are_quoted_as_slog_does(value: str, printed: str) -> None:
    assert quote(value) == printed


@given(text)
def test_every_text_survives_quoting(value: str) -> None:
    printed = quote(value)
    assert "\n" not in printed
    if printed.startswith('"'):
        assert unquote(printed[1:-1]) == value
    else:
        assert printed == value


@given(msg=text, fields=st.dictionaries(text.filter(bool), text, max_size=4))
def test_an_event_survives_its_line(msg: str, fields: dict[str, str]) -> None:
    fields = {k: v for k, v in fields.items() if k not in {"time", "level", "msg"}}
    event = parse_event(format_event(WHEN, "WARN", msg, dict(fields)))
    assert (event.time, event.level, event.msg, event.fields) == (WHEN, "WARN", msg, fields)


@given(st.text(max_size=80))
def test_reading_a_line_of_anything_raises_only_its_own_error(line: str) -> None:
    assert isinstance(events.parse_lines([line]), list)


def test_the_line_is_the_one_existing_tools_read() -> None:
    zone = timezone(timedelta(hours=2))
    line = format_event(
        WHEN.astimezone(zone), "INFO", "work-done", {"id": "T1", "task": "fix it", "done": True}
    )
    assert line == (
        "time=2026-03-04T07:06:07.089+02:00 level=INFO msg=work-done "
        'id=T1 task="fix it" done=true\n'
    )
    assert format_event(WHEN, "INFO", "boot", {"role": None}).startswith(
        "time=2026-03-04T05:06:07.089Z level=INFO msg=boot\n"
    )


def test_the_log_is_private_and_appended_to(tmp_path: Path) -> None:
    path = tmp_path / ".choragos" / "logs" / "events.log"
    for name in ("one", "two"):
        log = EventLog(path)
        log.write("INFO", name, role="coder")
        log.close()
    assert [event.msg for event in parse_events(path)] == ["one", "two"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o755


def test_a_log_of_five_mebibytes_is_moved_aside_once(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "events.log"
    path.parent.mkdir()
    path.write_bytes(b"x" * (events.ROTATE_BYTES - 1))
    EventLog(path).close()
    assert not path.with_name("events.log.1").exists()
    path.write_bytes(b"y" * events.ROTATE_BYTES)
    path.chmod(0o644)  # as an earlier deck left it
    EventLog(path).close()
    old = path.with_name("events.log.1").stat()
    assert (old.st_size, stat.S_IMODE(old.st_mode)) == (events.ROTATE_BYTES, 0o600)
    assert path.stat().st_size == 0


def test_a_torn_last_line_does_not_swallow_the_next_event(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "events.log"
    path.parent.mkdir()
    path.write_text(format_event(WHEN, "INFO", "first", {}) + "time=2026-03-04T05:0")
    log = EventLog(path)
    log.write("INFO", "second")
    log.close()
    assert [event.msg for event in parse_events(path)] == ["first", "second"]


def test_a_log_that_is_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "victim").touch()
    (tmp_path / "logs" / "events.log").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic link"):
        EventLog(tmp_path / "logs" / "events.log")


def test_lines_that_cannot_be_written_are_counted_and_said_later(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "events.log"
    log = EventLog(path)
    good, log._fd = log._fd, os.open("/dev/full", os.O_WRONLY)
    log.write("INFO", "lost one")
    log.write("INFO", "lost two")
    assert log.failure is not None
    os.close(log._fd)
    log._fd = good
    log.write("INFO", "kept")
    log.close()
    assert [(e.msg, e.fields.get("count")) for e in parse_events(path)] == [
        ("events lost", "2"),
        ("kept", None),
    ]
    assert log.failure is None
