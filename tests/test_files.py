"""lib/files.py: written whole or not at all, and no neighbour touched."""

import pytest

from lib.files import write_atomically


def test_a_file_is_replaced_and_no_neighbour_is_touched(tmp_path):
    (tmp_path / "run.draft").write_text("mine")
    for content in ("old", b"new"):
        write_atomically(tmp_path / "run.pt", content)
    assert (tmp_path / "run.pt").read_bytes() == b"new"
    assert (tmp_path / "run.draft").read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 2


def test_what_cannot_be_put_in_place_leaves_nothing_behind(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_atomically(tmp_path / "folder", "new")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
