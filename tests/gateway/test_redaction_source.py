"""The short cuts of a text under examination find what a search of all of it finds."""

from __future__ import annotations

import re

import pytest
from ahocorasick_rs import AhoCorasick, MatchKind
from hypothesis import given
from hypothesis import strategies as st

from gateway.redaction.detectors import (
    cued_names,
    escapes,
    iban,
    ip,
    labels,
    person_fields,
    streets_by_place,
)
from gateway.redaction.detectors.base import Source, leftmost_longest

#: What the shapes, the forms with digits and the escapes consist of, and some of what they do not.
PIECES = (
    "7", "42", "0049", "٣", "x", "name", "É", " ", "  ", "\n", "\r\n", "\t", "_", "__", "-", "+",
    "(", ")", "[", ">", "\\", "\\n", "\\u0041", "%41", "%20", "&", "&amp;", "&#64;", "\x1b[1m", ".",
    ",", ", ", "GB82 WEST", "DE44", "8.8.8.8", "12345 Athens", "SW1A 1AA", "=", '"', "'", ":", "/",
    "in (", "VALUES", "values (", "OUTPUT", "((", "[(", "argvalues=[", "]", "value=", ' id="',
    "...", "(=", ")=(", "\u00a0",
)  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=80)
sparse = st.lists(texts, max_size=4).map(("words and words, " * 4).join)
SHAPES = (b"xx00", b"xx 00", b"00 ", b" 00000", b", 0", b" 0xx", b"x0000x", b"x00x00", b"_(", b"%")


@given(texts | sparse)
def test_a_shape_is_there_when_it_is_in_the_text(text: str) -> None:
    source = Source(text)
    shape = source.shape
    for piece in SHAPES:
        assert source.may_hold(piece) is (not shape or piece in shape)
    assert shape or not text.isascii() or not text


@given(texts | sparse)
def test_digits_with_signs_between_are_counted_as_in_the_whole_text(text: str) -> None:
    for least in (1, 2, 5, 9):
        source = Source(text)
        joined = re.sub(rb"[^x0]", b"", source.shape)
        assert source.may_hold_digits(least) is (not source.shape or b"0" * least in joined)


@given(texts | sparse)
@pytest.mark.parametrize("pattern", [streets_by_place._PLACE_HINT, ip._V4, iban._START])
def test_forms_that_begin_with_a_digit_are_found_from_digit_to_digit(
    pattern: re.Pattern[str], text: str
) -> None:
    found = [match.span() for match in Source(text).at_digits(pattern)]
    assert found == [match.span() for match in pattern.finditer(text)]


@given(texts | sparse)
def test_escapes_are_found_where_one_may_begin(text: str) -> None:
    signs = escapes._signs(Source(text))
    if signs is not None and text.isascii():
        found = [match.span() for match in escapes._escapes(text, signs)]
        assert found == [match.span() for match in escapes._ESCAPE.finditer(text)]


@given(texts)
def test_brackets_that_open_twice_are_not_overlooked(text: str) -> None:
    assert labels._may_hold_parameters(Source(text)) or labels._PARAMETERS.search(text) is None
    assert labels._may_hold_values(Source(text)) or labels._VALUES.search(text) is None


@given(st.sampled_from(sorted(person_fields._AFTER_FIELD)), texts)
def test_a_name_without_glue_is_told_by_its_first_characters(sign: str, text: str) -> None:
    if person_fields._is_no_glue(f"name{sign}{text}", 4):
        assert person_fields._GLUE.match(f"name{sign}{text}", 4) is None


@given(texts)
def test_the_end_of_a_columns_head_is_told_by_its_first_character(text: str) -> None:
    told = person_fields._ends_head(f"name{text}", 4)
    assert told is (person_fields._HEAD_END.match(f"name{text}", 4) is not None)


words = (
    st.sampled_from(cued_names.CUE_NAMES)
    | st.sampled_from(person_fields.PERSON_FIELDS.names)
    | texts
)


@given(st.lists(words, max_size=8).map("".join))
@pytest.mark.parametrize(
    ("names", "number"),
    [
        (cued_names.CUE_NAMES, cued_names._CUE_SET),
        (person_fields.PERSON_FIELDS.names, person_fields.PERSON_FIELDS._set),
    ],
)
def test_one_search_for_all_words_finds_what_one_for_some_does(
    names: tuple[str, ...], number: int, text: str
) -> None:
    source = Source(text)
    every = AhoCorasick(names).find_matches_as_indexes(source.folded, overlapping=True)
    longest = AhoCorasick(names, matchkind=MatchKind.LeftmostLongest)
    assert source.found(number) == every
    assert leftmost_longest(source.found(number)) == longest.find_matches_as_indexes(source.folded)
