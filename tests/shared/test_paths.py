"""Private directories are private, and names come out as existing decks compute them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from shared.paths import UnsafeDirectory, is_path_safe_role, private_dir, runtime_dir, session_id


def test_the_runtime_directory_is_created_closed_to_others(tmp_path: Path) -> None:
    path = runtime_dir({"XDG_RUNTIME_DIR": str(tmp_path)})
    assert path == tmp_path / f"choragos-{os.getuid()}"
    assert path.stat().st_mode & 0o777 == 0o700


def test_an_open_directory_of_ours_is_tightened(tmp_path: Path) -> None:
    loose = tmp_path / "loose"
    loose.mkdir(mode=0o777)
    loose.chmod(0o777)
    assert private_dir(loose).stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, 65534, 65534)
    with pytest.raises(UnsafeDirectory, match="belongs to user 65534"):
        private_dir(theirs)


def test_a_link_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(UnsafeDirectory, match="not a directory"):
        private_dir(tmp_path / "link")


def test_the_session_id_is_the_first_four_bytes_of_the_raw_path() -> None:
    assert session_id("/tmp/a b") == hashlib.sha256(b"/tmp/a b").hexdigest()[:8]


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("coder", True),
        ("a.b-c_9", True),
        ("", False),
        ("x" * 65, False),
        ("a/b", False),
        ("ü", False),
    ],
)
def test_only_short_plain_role_names_go_into_urls(name: str, safe: bool) -> None:
    assert is_path_safe_role(name) is safe
