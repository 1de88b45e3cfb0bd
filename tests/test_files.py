import pytest

from sigma_mem.files import replace_file


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    target = tmp_path / "out.json"
    target.write_text("old")
    with pytest.raises(RuntimeError):
        _write_half(target)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def _write_half(target):
    with replace_file(target) as temporary:
        temporary.write_text("half of the n")
        raise RuntimeError


def test_a_finished_write_replaces_the_old_file(tmp_path):
    target = tmp_path / "out.json"
    target.write_text("old")
    with replace_file(target) as temporary:
        temporary.write_text("new")
        assert temporary.suffix == ".json"
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]
