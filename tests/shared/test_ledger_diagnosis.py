"""What is said of records and lines that do not fit, from the bytes alone."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_log import SyntheticLog

from shared.ledger.checkpoint import Checkpoint, is_checkpoint_line
from shared.ledger.diagnosis import MAX_DOUBTS, Item, contradicted, explain
from shared.ledger.mending import is_readable, looks_like_checkpoint, mend, named_leaf
from shared.ledger.merkle import Frontier
from shared.ledger.watch import Watch

# -- which records were changed --------------------------------------------------------------------


def leaf(text: object) -> bytes:
    return sha256(repr(text).encode()).digest()


def chain(count: int) -> list[bytes]:
    return [leaf(number) for number in range(count)]


def items_of(leaves: list[bytes], changed: set[int], lost: set[int]) -> list[Item]:
    """The items that a reader has: `changed` records have other bytes, `lost` ones none."""
    items = []
    for seq, true in enumerate(leaves):
        prev = leaves[seq - 1].hex() if seq and seq not in lost else None
        stored = None if seq in lost else leaf(("other", seq)) if seq in changed else true
        items.append(Item(seq, stored, prev))
    return items


def root_over(base: Frontier, leaves: list[bytes]) -> bytes:
    frontier = base.copy()
    frontier.extend(leaves)
    return frontier.root()


@given(st.integers(1, 12), st.sets(st.integers(0, 11), max_size=MAX_DOUBTS), st.integers(0, 5))
def test_the_leaves_that_were_signed_are_found_behind_changed_records(
    count: int, changed: set[int], before: int
) -> None:
    leaves, base = chain(count), Frontier()
    base.extend([leaf(("before", number)) for number in range(before)])
    items = items_of(leaves, changed, set())
    found = explain(items, leaves[-1].hex(), base, root_over(base, leaves))
    assert found == leaves
    assert set(contradicted(items, leaves[-1].hex())) == {seq for seq in changed if seq < count}


def test_a_record_without_bytes_is_known_by_its_successor_s_link() -> None:
    leaves = chain(5)
    items = items_of(leaves, set(), {2})
    items[2].prev = leaves[1].hex()
    root = root_over(Frontier(), leaves)
    assert explain(items, leaves[-1].hex(), Frontier(), root) == leaves
    assert list(contradicted(items, leaves[-1].hex())) == []


def test_what_nobody_names_or_too_many_doubt_is_not_explained() -> None:
    leaves, base = chain(MAX_DOUBTS + 2), Frontier()
    root = root_over(base, leaves)
    assert explain(items_of(leaves, set(), {len(leaves) - 1}), None, base, root) is None
    assert explain(items_of(leaves, {len(leaves) - 1}, set()), None, base, root) is None
    many = items_of(leaves, set(range(MAX_DOUBTS + 1)), set())
    assert explain(many, None, base, root) is None
    assert explain([], None, base, leaf("another")) is None


# -- lines that cannot be read ---------------------------------------------------------------------


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """The lines of a log of six records, a checkpoint after each two."""
    place: Path = tmp_path_factory.mktemp("log") / "log"
    SyntheticLog(place).fill(6, batch=2)
    [segment] = [path for path in (place / "segments").iterdir() if path.suffix != ".seal"]
    return segment.read_bytes().split(b"\n")[:-1]


def records(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if not is_checkpoint_line(line)]


def test_a_line_break_that_was_added_is_taken_out_wherever_it_was(lines: list[bytes]) -> None:
    third = records(lines)[2]
    for at in range(1, len(third), 7):
        mended = mend([third[:at], third[at:]], 2)
        assert mended is not None
        assert (mended.code, mended.seq, mended.lines) == ("line_break_added", 2, (third,))
    point = next(line for line in lines if is_checkpoint_line(line))
    mended = mend([point[:9], point[9:]], 2)
    assert mended is not None
    assert (mended.code, mended.seq, mended.lines) == ("line_break_added", 1, (point,))


@pytest.mark.parametrize("between", [b"", b"x", b"\r"])
def test_a_line_break_that_was_removed_or_changed_is_put_back(
    lines: list[bytes], between: bytes
) -> None:
    for seq in range(5):
        line = records(lines)[seq]
        after = lines[lines.index(line) + 1]
        mended = mend([line + between + after], seq)
        assert mended is not None
        assert (mended.code, mended.seq, mended.lines) == ("line_break_removed", seq, (line, after))


def test_other_bytes_are_not_mended(lines: list[bytes]) -> None:
    third, fourth = records(lines)[2:4]
    assert mend([third[:20], third[21:]], 2) is None
    assert mend([third + fourth], 3) is None, "another record than the one that comes next"
    assert mend([b"\x00" * 300], 2) is None
    empty = mend([b""], 2)
    assert empty is not None
    assert empty.lines == ()


def test_a_spoiled_line_is_told_by_what_is_left_of_it(lines: list[bytes]) -> None:
    for line in lines:
        spoiled = line[:1] + b"?" + line[2:]
        assert not is_readable(spoiled)
        assert looks_like_checkpoint(spoiled) is is_checkpoint_line(line)
    second = records(lines)[1]
    assert named_leaf(second[:-1]) == sha256(b"\x00" + records(lines)[0]).hexdigest()
    assert named_leaf(b"{}") is None


# -- sizes that someone asks about -----------------------------------------------------------------


def test_roots_and_times_are_seen_at_the_sizes_asked_about_and_nowhere_else() -> None:
    leaves, watch, base = chain(6), Watch(), Frontier()
    watch.ask({1, 4, 9})
    times = [{"ts": 10 * number} for number in range(6)]
    assert watch.wants(base, 3)
    watch.see(base, list(leaves[:3]), times[:3])
    assert set(watch.seen) == {1}
    assert watch.seen[1].root == root_over(base, leaves[:1])
    assert (watch.seen[1].before, watch.seen[1].after) == (0, 10)
    base.extend(leaves[:3])
    assert watch.wants(base, 6)
    watch.see(base, list(leaves[3:]), times[3:])
    assert watch.seen[4].root == root_over(Frontier(), leaves[:4])
    assert (watch.seen[4].before, watch.seen[4].after) == (30, 40)
    base.extend(leaves[3:])
    assert not watch.wants(base, 8)
    assert 9 not in watch.seen


def test_a_signed_root_counts_where_the_records_do_not_give_it() -> None:
    watch = Watch()
    watch.ask([4])
    watch.see(Frontier(), [leaf(0), None, leaf(2), leaf(3)], [None] * 4)
    assert watch.seen == {}
    watch.see_signed(Checkpoint("log", 4, leaf("root")))
    watch.see_signed(Checkpoint("log", 5, leaf("root")))
    assert watch.seen[4].root == leaf("root")
    assert 5 not in watch.seen
