"""lib/files.py: written whole or not at all, and no neighbour touched."""

import re

import pytest

from lib.files import require_writable, write_atomically


def test_a_file_is_replaced_and_no_neighbour_is_touched(tmp_path):
    (tmp_path / "run.draft").write_text("mine")
    for content in ("old", b"new"):
        write_atomically(tmp_path / "run.pt", content)
    assert (tmp_path / "run.pt").read_bytes() == b"new"
    assert (tmp_path / "run.draft").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_place_for_a_file_is_tried_before_there_is_one(tmp_path):
    (tmp_path / "old").write_text("mine")
    for free in (tmp_path / "old", tmp_path / "new", tmp_path / "a" / "b" / "new"):
        require_writable(free)
    for taken in (tmp_path, tmp_path / "old" / "new"):
        with pytest.raises(OSError, match=re.escape(str(tmp_path))):
            require_writable(taken)
    assert (tmp_path / "old").read_text() == "mine"
    assert not [path for path in tmp_path.rglob("*") if path.name.endswith("new")]


def test_what_cannot_be_put_in_place_leaves_nothing_behind(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_atomically(tmp_path / "folder", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
