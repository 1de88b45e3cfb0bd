"""A file that is replaced, removed or forked away from is noticed before the next acknowledgement."""

import os
import shutil
import signal
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.admin import backup
from sigma_mem.errors import StoreError

PHI = np.array([1.0])


def test_nothing_is_acknowledged_into_a_file_that_another_one_was_copied_over(tmp_path: Path) -> None:
    """By ``cp``, say: the file's name and inode stay the same."""
    path, copy = tmp_path / "m.db", tmp_path / "backup.db"
    mem = SigmaMem(["a"], path, rank=1, snapshot_every=10**6)
    for _ in range(60):
        mem.feedback(mem.route("q" * 2000, phi=PHI).id, {"a": True})
    backup(mem, copy)
    for _ in range(60):
        mem.feedback(mem.route("q" * 2000, phi=PHI).id, {"a": True})
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA wal_checkpoint(PASSIVE)")
    shutil.copyfile(copy, path)
    for _ in range(2):
        with pytest.raises(StoreError, match="changed, replaced or removed"):
            mem.feedback(mem.route(phi=PHI).id, {"a": True})
    with suppress(StoreError):
        mem.close()


@pytest.mark.parametrize("how", ["removed", "renamed over", "moved away"])
def test_nothing_is_acknowledged_into_a_file_that_is_gone(tmp_path: Path, how: str) -> None:
    path = tmp_path / "m.db"
    mem = SigmaMem(["a"], path, rank=1)
    mem.feedback(mem.route(phi=PHI).id, {"a": True})
    backup(mem, tmp_path / "backup.db")
    if how == "removed":
        path.unlink()
    elif how == "renamed over":
        (tmp_path / "backup.db").replace(path)
    else:
        path.rename(tmp_path / "elsewhere.db")
    for _ in range(2):
        with pytest.raises(StoreError, match="changed, replaced or removed"):
            mem.feedback(mem.route(phi=PHI).id, {"a": True})
    with suppress(StoreError):
        mem.close()


def test_a_reader_starts_again_from_a_file_that_was_restored(tmp_path: Path) -> None:
    """The same numbers of lines, and other lines: only the chain tells them apart."""
    for name, right in (("one.db", True), ("two.db", False)):
        with SigmaMem(["a"], tmp_path / name, rank=1) as mem:
            for _ in range(3):
                mem.feedback(mem.route(phi=PHI).id, {"a": right})
    shutil.copyfile(tmp_path / "one.db", tmp_path / "m.db")
    with SigmaMem(path=tmp_path / "m.db", readonly=True) as reader:
        before = reader.state.M.tolist()
        assert before == reader.journal.replayed().state.M.tolist()
        shutil.copyfile(tmp_path / "two.db", tmp_path / "m.db")
        reader.store._tables._reader.execute("PRAGMA shrink_memory")
        assert reader.events == 3
        assert reader.state.M.tolist() == reader.journal.replayed().state.M.tolist() != before


@pytest.mark.parametrize("kept", ["file", "process"])
def test_a_fork_while_other_threads_are_inside_neither_hangs_nor_corrupts(tmp_path: Path, kept: str) -> None:
    mem = SigmaMem(["a", "b"], tmp_path / "m.db" if kept == "file" else None, rank=1)
    stop = threading.Event()

    def hammer() -> None:
        while not stop.is_set():
            mem.feedback(mem.route(phi=PHI).id, {"a": True})
            time.sleep(1e-3)

    threads = [threading.Thread(target=hammer) for _ in range(3)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(6):
        time.sleep(5e-3)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(120)
            code = 1
            try:
                if kept == "process":  # a copy of its own, whole
                    mem.feedback(mem.route(phi=PHI).id, {"b": True})
                    same = np.allclose(mem.state.M, mem.journal.replayed().state.M, atol=1e-9)
                    code = 0 if same else 2
                else:
                    try:
                        mem.feedback(mem.route(phi=PHI).id, {"b": True})
                    except StoreError:
                        code = 0
                mem.close()
            finally:
                os._exit(code)
        children.append(child)
    stop.set()  # else the children's replays would become longer and longer
    for thread in threads:
        thread.join()
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 6
    assert np.allclose(mem.state.M, mem.journal.replayed().state.M, atol=1e-9)
    mem.close()
