import os
from contextlib import suppress

import pytest

from sigma_mem import SigmaMem
from sigma_mem.admin import export
from sigma_mem.cli.app import run
from sigma_mem.errors import InputError
from sigma_mem.files import replace_file


@pytest.mark.parametrize("fails", [True, False])
def test_a_finished_write_replaces_the_old_file_and_a_failed_one_leaves_it(tmp_path, fails):
    target = tmp_path / "out.json"
    target.write_text("old")
    with suppress(RuntimeError), replace_file(target) as temporary:
        temporary.write_text("new")
        assert (temporary.suffix, target.read_text()) == (".json", "old")
        if fails:
            raise RuntimeError
    assert target.read_text() == ("old" if fails else "new")
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a pipe"])
def test_what_is_no_file_is_left_as_it_is(tmp_path, kind):
    target = tmp_path / "out"
    pipe = tmp_path / "pipe" if kind.startswith("link") else target
    target.mkdir() if kind == "folder" else os.mkfifo(pipe)
    if kind.startswith("link"):
        target.symlink_to(pipe)
    with pytest.raises(InputError, match="expected a file"), replace_file(target) as temporary:
        temporary.write_text("new")
    assert target.is_dir() if kind == "folder" else target.is_fifo()


def test_a_memory_is_not_overwritten(tmp_path):
    path = tmp_path / "memory.db"
    with SigmaMem(["ann"], path, rank=1) as mem:
        mem.route("?", phi=[1.0])
        with pytest.raises(InputError, match="a memory or another database"):
            export(mem, path)
        mem.feedback(mem.route("?", phi=[1.0]), {"ann": True})
    assert run(["export", "--memory", str(path), str(path)]) == 2
    with SigmaMem(path=path) as mem:
        assert mem.events == 2


def test_a_link_leads_to_the_file_that_is_replaced(tmp_path):
    file, link = tmp_path / "folder" / "out.json", tmp_path / "link.json"
    file.parent.mkdir()
    file.write_text("old")
    link.symlink_to(file)
    with replace_file(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert file.read_text() == "new"
