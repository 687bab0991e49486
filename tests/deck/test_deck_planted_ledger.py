"""A ledger among whose files an agent has put others: the next deck says which, at once."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest
from review_bench import Bench

from deck.config import Role
from deck.desk import Desk
from deck.journal import JournalFailed
from deck.loops import NoVerdict
from deck.sessions import paths_for

TEAM = (Role("lead", start=True), Role("coder", judge="critic"), Role("critic"))


async def left(tmp_path: Path) -> tuple[Bench, list[Path]]:
    """A deck that has ended, and the files of its ledger."""
    bench = await Bench.open(tmp_path, TEAM)
    await bench.given("coder")
    await bench.close()
    ledger = bench.directory / ".choragos" / "ledger"
    return bench, sorted(path for path in ledger.rglob("*") if path.is_file())


async def test_a_pipe_in_the_place_of_any_file_of_the_ledger_is_named(tmp_path: Path) -> None:
    bench, files = await left(tmp_path)
    paths = paths_for(str(bench.directory), bench.environ)
    assert len(files) > 3
    for file in files:
        aside = tmp_path / "aside"
        file.rename(aside)
        os.mkfifo(file)
        opening = asyncio.to_thread(Desk.open, bench.config, paths, bench.environ)
        with pytest.raises(JournalFailed, match="neither a file nor a directory") as told:
            await asyncio.wait_for(opening, 20)
        assert str(file) in str(told.value)
        file.unlink()
        aside.rename(file)
    await asyncio.to_thread(
        (await asyncio.to_thread(Desk.open, bench.config, paths, bench.environ)).close
    )


async def test_a_link_in_the_ledger_is_named(tmp_path: Path) -> None:
    bench, files = await left(tmp_path)
    paths = paths_for(str(bench.directory), bench.environ)
    files[0].rename(tmp_path / "aside")
    files[0].symlink_to(tmp_path / "aside")
    with pytest.raises(JournalFailed, match="neither a file nor a directory"):
        await asyncio.to_thread(Desk.open, bench.config, paths, bench.environ)


async def test_a_verdict_that_becomes_another_file_as_it_is_opened_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = await Bench.open(tmp_path, TEAM)
    try:
        await bench.given("coder")
        await bench.report("coder", "T1")
        secret = tmp_path / "elsewhere"
        secret.mkdir()
        (secret / "notes.md").write_text("VERDICT: 10/10\na key\n")
        (bench.directory / "sub").mkdir()
        (bench.directory / "sub" / "notes.md").write_text("VERDICT: 1/10\n")
        whole = os.path.realpath

        def swapping(path: str, *, strict: bool = False) -> str:
            found = whole(path, strict=strict)
            if found.endswith("sub/notes.md"):
                (bench.directory / "sub").rename(bench.directory / "sub-before")
                (bench.directory / "sub").symlink_to(secret)
            return found

        await bench.hand_out("critic")
        await bench.report("critic", "T2", "judged", "")
        assert bench.the_gate()
        report = next(iter(bench.state.reports.values()))
        monkeypatch.setattr(os.path, "realpath", swapping)
        named = replace(report, path=str(bench.directory / "sub" / "notes.md"))
        with pytest.raises(NoVerdict, match="was replaced as it was opened"):
            bench.review.loops._verdict(bench.directory / "dictated.md", named)
    finally:
        monkeypatch.undo()
        await bench.close()
