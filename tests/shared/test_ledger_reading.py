"""Reading a log beside its writer: filters, the last records, following, one record."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reading_logs import EVERY_KIND, NOON, RUN, open_log, outcome, request, sample

from shared.ledger import LedgerCorrupt
from shared.ledger.errors import LedgerError
from shared.ledger.merkle import leaf_hash
from shared.ledger.reading import (
    NotFound,
    Place,
    blocks,
    check_log,
    find,
    follow,
    newest,
    outcome_of,
    read,
    tail,
)
from shared.ledger.segment import list_segments, segment_path
from shared.ledger.selecting import (
    Filter,
    FilterRefused,
    Selector,
    parse_kinds,
    parse_range,
    parse_time,
)
from shared.ledger.stats import collect, files_of


def refusal(work: Callable[[], object]) -> str:
    """The sentence with which some work is refused, or an empty one."""
    try:
        work()
    except LedgerError as wrong:
        return str(wrong)
    return ""


def seqs(directory: Path, wanted: Filter) -> list[int]:
    return [item.seq for item in read(directory, wanted)]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sample(tmp_path_factory.mktemp("reading") / "log")


@pytest.fixture(scope="module")
def long_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 40 segments of requests and their outcomes, by three roles in turn."""
    directory = tmp_path_factory.mktemp("long") / "log"
    with open_log(directory, segment_bytes=20_000) as ledger:
        for number in range(300):
            role = ("coder", "reviewer", "lead")[number % 3]
            seq = ledger.append("request", request(number, role, f"T{number % 7}")).result().seq
            ledger.append("outcome", outcome(seq, ms=number)).result()
    assert len(list_segments(directory)) > 10
    return directory


def test_without_a_filter_every_record_is_read_in_order(log: Path) -> None:
    items = list(read(log, Filter()))
    assert [item.seq for item in items] == list(range(len(EVERY_KIND) + 1))
    assert all(item.leaf == leaf_hash(item.line).hex() for item in items)
    # Each record names the leaf of the one before it: these are the exact bytes.
    assert [item.record["prev"] for item in items[1:]] == [item.leaf for item in items[:-1]]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Filter(kinds=frozenset({"deny"})), [6]),
        (Filter(kinds=frozenset({"deny", "gap"})), [6, 17]),
        (Filter(roles=frozenset({"reviewer"})), [6, 18]),
        (Filter(roles=frozenset({"coder"})), [4, 5, 7]),
        (Filter(roles=frozenset({"coder"}), kinds=frozenset({"outcome"})), [5]),
        (Filter(tasks=frozenset({"T2"})), [7, 8, 9, 10]),
        (Filter(tasks=frozenset({"T1", "T3"})), [4, 5, 18]),
        (Filter(sessions=frozenset({RUN})), [4, 5, 7, 8, 9, 10, 18]),
        (Filter(decisions=frozenset({"approved"})), [9]),
        (Filter(decisions=frozenset({"deny"})), [6]),
        (Filter(codes=frozenset({"unknown_route"})), [6]),
        (Filter(ids=frozenset({"call-4"})), [4, 5]),
        (Filter(ids=frozenset({"G1"})), [8, 9]),
        (Filter(first=3, last=5), [3, 4, 5]),
        (Filter(first=18), [18, 19]),
        (Filter(roles=frozenset({"nobody"})), []),
        (Filter(roles=frozenset({"coder"}), tasks=frozenset({"T2"})), [7]),
    ],
)
def test_a_filter_chooses_the_records_it_names(log: Path, wanted: Filter, found: list[int]) -> None:
    assert seqs(log, wanted) == found
    assert [item.seq for item in tail(log, wanted, 2)[0]] == found[-2:]


def test_a_range_of_time_includes_its_start_and_not_its_end(log: Path) -> None:
    times = {item.seq: item.record["ts"] for item in read(log, Filter())}
    assert seqs(log, Filter(since=times[5], until=times[8])) == [5, 6, 7]


def test_the_last_records_of_many_segments_come_in_order(long_log: Path) -> None:
    every = seqs(long_log, Filter())
    for count in (1, 7, 100, 400, 10_000):
        assert [item.seq for item in tail(long_log, Filter(), count)[0]] == every[-count:]
    last = newest(long_log)
    assert last is not None
    assert last.seq == every[-1]


def test_an_outcome_is_found_with_its_request_across_segments(long_log: Path) -> None:
    items = list(read(long_log, Filter(roles=frozenset({"lead"}))))
    asked = {item.seq for item in items if item.record["type"] == "request"}
    answered = {item.record["ref"] for item in items if item.record["type"] == "outcome"}
    assert len(asked) == 100
    assert answered == asked


def test_sealed_segments_before_the_time_asked_for_are_not_opened(
    long_log: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "log"
    shutil.copytree(long_log, directory)
    late = list(read(directory, Filter()))[-1].record["ts"]
    later = Filter(since=late + 2 * 3600 * 1_000_000)
    for path in list_segments(directory)[:-1]:
        path.chmod(0o600)
        path.write_bytes(b"not a log\n" * 10_000)
    assert seqs(directory, later) == []


def test_a_log_whose_beginning_was_pruned_reads_on(long_log: Path, tmp_path: Path) -> None:
    directory = tmp_path / "log"
    shutil.copytree(long_log, directory)
    every = seqs(directory, Filter())
    kept = list_segments(directory)[3]
    for path in list_segments(directory)[:3]:
        path.unlink()
    assert seqs(directory, Filter()) == [seq for seq in every if seq >= int(kept.stem)]
    assert files_of(directory).pruned_to == int(kept.stem)
    with pytest.raises(NotFound, match=r"^Record 1 was pruned: the log keeps "):
        find(directory, 1)


def test_what_has_no_checkpoint_yet_is_not_shown(log: Path, tmp_path: Path) -> None:
    directory = tmp_path / "log"
    shutil.copytree(log, directory)
    path = segment_path(directory, 0)
    whole = path.read_bytes()
    size = len(EVERY_KIND) + 1
    cut = whole.rstrip(b"\n").rfind(b"\n") + 1  # the last checkpoint line
    path.write_bytes(whole[:cut])
    assert seqs(directory, Filter()) == list(range(size - 1))
    path.write_bytes(whole + b'{"action":{"half":')
    assert seqs(directory, Filter()) == list(range(size))
    assert [item.seq for item in tail(directory, Filter(), 1)[0]] == [size - 1]


def test_a_damaged_line_is_a_sentence(log: Path, tmp_path: Path) -> None:
    directory = tmp_path / "log"
    shutil.copytree(log, directory)
    path = segment_path(directory, 0)
    path.write_bytes(path.read_bytes().replace(b'"type":"gap"', b'"type":"gap'))
    with pytest.raises(LedgerCorrupt, match="run `sphragis verify`"):
        seqs(directory, Filter())


def test_a_directory_without_a_log_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no ledger at"):
        check_log(tmp_path)


@given(st.binary(max_size=300))
def test_no_bytes_in_a_segment_end_in_anything_but_a_sentence(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = segment_path(Path(folder), 0)
        path.parent.mkdir()
        path.write_bytes(data + b'\n{"cp":"x"}\n')
        asked = (Filter(roles=frozenset({"x"})), Filter(since=5), Filter())
        for wanted in asked:
            sentence = refusal(lambda wanted=wanted: list(read(Path(folder), wanted)))
            assert sentence == "" or sentence.endswith(".")


# -- following -------------------------------------------------------------------------------------


def until_idle(items: Iterator[Any]) -> list[int]:
    """The numbers of what a follower finds before it waits."""
    found = []
    for item in items:
        if item is None:
            break
        found.append(item.seq)
    return found


def test_a_follower_sees_each_record_once_across_rotation(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    with open_log(directory, segment_bytes=5_000) as ledger:
        old, place = tail(directory, Filter(), 10)
        seen = [item.seq for item in old]
        follower = follow(directory, Filter(), place, pause=lambda _: None)
        for number in range(60):
            ledger.append("request", request(number)).result()
            if number % 4 == 0:
                seen += until_idle(follower)
        seen += until_idle(follower)
        size = ledger.size
    seen += until_idle(follower)
    assert len(list_segments(directory)) > 5
    assert seen[:size] == list(range(size))
    assert seen == list(range(len(seen)))


def test_a_follower_goes_on_when_the_segment_it_read_is_pruned(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    with open_log(directory, segment_bytes=3_000) as ledger:
        for number in range(10):
            ledger.append("request", request(number)).result()
        first = list_segments(directory)[0]
        follower = follow(directory, Filter(), Place(0, 10), pause=lambda _: None)
        first.unlink()
        assert until_idle(follower)[0] == int(list_segments(directory)[0].stem)


def test_reading_while_a_writer_rotates_gives_a_whole_log(tmp_path: Path) -> None:
    directory, done = tmp_path / "log", threading.Event()
    with open_log(directory, segment_bytes=8_000) as ledger:

        def write() -> None:
            for number in range(300):
                ledger.append("request", request(number)).result()
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        rounds = 0
        while not done.is_set() or rounds == 0:
            found = seqs(directory, Filter())
            assert found == list(range(len(found)))
            last = [item.seq for item in tail(directory, Filter(), 5)[0]]
            assert last == list(range(last[0], last[0] + len(last))) if last else True
            rounds += 1
        writer.join()
        assert seqs(directory, Filter())[-1] == ledger.size - 1


# -- one record ------------------------------------------------------------------------------------


def test_a_record_is_found_with_the_checkpoint_that_covers_it(long_log: Path) -> None:
    for seq in (0, 1, 155, 599):
        found = find(long_log, seq)
        assert found.item.seq == seq
        assert int(found.checkpoint.split("\n")[1]) > seq


def test_a_request_is_joined_with_its_outcome(log: Path) -> None:
    end = outcome_of(log, find(log, 4))
    assert end is not None
    assert end.seq == 5
    assert outcome_of(log, find(log, 18)) is None


def test_a_number_beyond_the_end_is_a_sentence(log: Path) -> None:
    with pytest.raises(NotFound, match="There is no record 99 in"):
        find(log, 99)


def test_a_number_inside_other_fields_is_not_taken_for_the_records_own(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    with open_log(directory) as ledger:
        ledger.append("journal", {"ext": {"seq": 2, "x": 1, "ts": 5}}).result()
        ledger.append("journal", {"ext": {"mine": 1}, "task": '"seq":9,"ts":1,'}).result()
    assert find(directory, 2).item.record["ext"] == {"mine": 1}
    assert seqs(directory, Filter(first=2, last=2)) == [2]
    assert seqs(directory, Filter(since=NOON)) == [item.seq for item in read(directory, Filter())]


# -- filters alone ---------------------------------------------------------------------------------

kind_names = st.sampled_from(["request", "outcome", "deny"])
names = st.sampled_from(["coder", "reviewer", "lead", 'odd"role\\', "T1", "é"])


@given(
    records=st.lists(
        st.tuples(st.sampled_from(["request", "outcome", "deny"]), names, names), max_size=12
    ),
    roles=st.sets(names, max_size=2),
    tasks=st.sets(names, max_size=2),
    kinds=st.sets(kind_names, max_size=2),
    first=st.integers(0, 6),
)
def test_judging_raw_bytes_first_changes_nothing(
    records: list[tuple[str, str, str]],
    roles: set[str],
    tasks: set[str],
    kinds: set[str],
    first: int,
) -> None:
    lines, last_request = [], 0
    for seq, (kind, role, task) in enumerate(records):
        fields: dict[str, Any] = {"type": kind, "seq": seq, "ts": 100 + seq, "v": 1}
        if kind == "outcome":
            fields["ref"] = last_request
        else:
            fields |= {"actor": {"role": role}, "task": task}
        last_request = seq if kind == "request" else last_request
        lines.append(orjson.dumps(fields, option=orjson.OPT_SORT_KEYS))
    wanted = Filter(
        roles=frozenset(roles), tasks=frozenset(tasks), kinds=frozenset(kinds), first=first
    )
    quick, slow = Selector(wanted), Selector(wanted)
    found = [line for line in quick.candidates(lines) if quick.selects(orjson.loads(line))]
    assert found == [line for line in lines if slow.selects(orjson.loads(line))]


NOW = datetime(2026, 11, 29, 15, 30, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("text", "is_end", "moment"),
    [
        ("2h", False, NOW - timedelta(hours=2)),
        ("30m", True, NOW - timedelta(minutes=30)),
        ("3d ago", False, NOW - timedelta(days=3)),
        ("now", False, NOW),
        ("today", False, datetime(2026, 11, 29, tzinfo=NOW.tzinfo)),
        ("today", True, datetime(2026, 11, 30, tzinfo=NOW.tzinfo)),
        ("yesterday", False, datetime(2026, 11, 28, tzinfo=NOW.tzinfo)),
        ("2026-11-01", False, datetime(2026, 11, 1, tzinfo=NOW.tzinfo)),
        ("2026-11-01", True, datetime(2026, 11, 2, tzinfo=NOW.tzinfo)),
        ("2026-11-01T14:00", True, datetime(2026, 11, 1, 14, tzinfo=NOW.tzinfo)),
        ("2026-11-01T14:00:00Z", False, datetime(2026, 11, 1, 14, tzinfo=UTC)),
    ],
)
def test_times_are_read_as_people_write_them(text: str, is_end: bool, moment: datetime) -> None:
    assert parse_time(text, NOW, is_end=is_end) == int(moment.timestamp()) * 1_000_000


@given(st.text(max_size=30))
def test_any_other_time_is_refused_in_one_sentence(text: str) -> None:
    sentence = refusal(lambda: parse_time(text, NOW))
    assert sentence == "" or "is not understood; write" in sentence
    assert sentence.isascii()


def test_kinds_and_ranges_are_checked() -> None:
    assert parse_kinds("deny, outcome") == {"deny", "outcome"}
    with pytest.raises(FilterRefused, match="the nearest is outcome"):
        parse_kinds("outcomes")
    assert [parse_range(text) for text in ("7", "7:9", "7:", ":9")] == [
        (7, 7),
        (7, 9),
        (7, None),
        (0, 9),
    ]
    with pytest.raises(FilterRefused):
        parse_range("seven")


# -- figures ---------------------------------------------------------------------------------------


def test_the_figures_of_a_log_add_up(long_log: Path, log: Path) -> None:
    stats = collect(read(long_log, Filter()), UTC)
    assert {name: tally.calls for name, tally in stats.roles.items()} == {
        "coder": 100,
        "reviewer": 100,
        "lead": 100,
    }
    everything = sum(tally.calls for tally in stats.days.values())
    assert everything == 300
    assert stats.open == {}
    p50, p95 = stats.days["2026-11-29"].percentile(0.5), stats.days["2026-11-29"].percentile(0.95)
    assert p50 is not None
    assert p95 is not None
    assert abs(p50 - 149_000) <= 1_500
    assert abs(p95 - 284_000) <= 2_900
    small = collect(read(log, Filter()), UTC)
    assert small.roles["reviewer"].refusals == {"unknown_route": 1}
    assert small.roles["coder"].redactions == {"EMAIL": 2, "PHONE": 1}
    assert (small.roles["coder"].tokens_in, small.roles["coder"].tokens_out) == (1015, 250)
    assert list(small.open) == [18]
    assert small.anchors == {"rfc3161": 1}


def test_a_long_log_is_read_in_little_memory(long_log: Path) -> None:
    import tracemalloc

    tracemalloc.start()
    count = sum(1 for _ in islice(read(long_log, Filter()), 1000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count > 600
    assert peak < 8 << 20


def test_blocks_end_in_a_checkpoint_and_say_where_they_end(long_log: Path) -> None:
    for block in blocks(long_log):
        assert block.lines[-1].startswith(b'{"cp":"')
        path = segment_path(long_log, block.after.segment)
        with path.open("rb") as file:
            assert file.read(block.after.offset).endswith(block.lines[-1] + b"\n")
