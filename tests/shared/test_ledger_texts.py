"""Texts by digest on a real disk, and what a changed or lost one is called."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import pytest

from shared.ledger.errors import LedgerError
from shared.ledger.storage import Disk
from shared.ledger.texts import MAX_TEXT, TextChanged, TextMissing, keep_text, list_texts, read_text


class Broken(Disk):
    def sync(self, fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


class Counting(Disk):
    writes = 0

    def write(self, fd: int, data: bytes) -> None:
        self.writes += 1
        super().write(fd, data)


def test_a_kept_text_is_read_only_and_named_by_its_bytes(tmp_path: Path) -> None:
    digest = keep_text(tmp_path, b"scope = 'role'\n")
    assert digest == hashlib.sha256(b"scope = 'role'\n").hexdigest()
    assert (tmp_path / "texts" / digest).stat().st_mode & 0o777 == 0o440
    assert (tmp_path / "texts").stat().st_mode & 0o777 == 0o700
    assert read_text(tmp_path, digest) == b"scope = 'role'\n"
    assert list_texts(tmp_path) == [digest]


def test_keeping_the_same_text_again_writes_nothing(tmp_path: Path) -> None:
    disk = Counting()
    assert keep_text(tmp_path, b"x", disk=disk) == keep_text(tmp_path, b"x", disk=disk)
    assert disk.writes == 1


def test_a_changed_text_is_told_and_put_right_by_keeping_it_again(tmp_path: Path) -> None:
    digest = keep_text(tmp_path, b"x")
    path = tmp_path / "texts" / digest
    path.chmod(0o600)
    path.write_bytes(b"y")
    with pytest.raises(TextChanged):
        read_text(tmp_path, digest)
    keep_text(tmp_path, b"x")
    assert read_text(tmp_path, digest) == b"x"


@pytest.mark.parametrize("name", ["0" * 64, "../log.json", "", "A" * 64])
def test_what_is_not_there_or_no_digest_is_missing(tmp_path: Path, name: str) -> None:
    (tmp_path / "log.json").write_text("{}")
    with pytest.raises(TextMissing):
        read_text(tmp_path, name)


def test_a_disk_that_cannot_keep_a_text_is_an_error_and_leaves_none(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="No space left"):
        keep_text(tmp_path, b"x", disk=Broken())
    assert list_texts(tmp_path) == []
    with pytest.raises(LedgerError, match="too large"):
        keep_text(tmp_path, bytes(MAX_TEXT + 1))


def test_a_log_without_texts_lists_none(tmp_path: Path) -> None:
    assert list_texts(tmp_path) == []
