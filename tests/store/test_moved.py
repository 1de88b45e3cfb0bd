"""A file that is removed, moved or forked away from is noticed before the next acknowledgement."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.errors import StoreError

PHI = np.array([1.0])


@pytest.mark.parametrize("gone", [("", "-wal", "-shm"), ("",), ("-wal",)])
@pytest.mark.parametrize("moved", [False, True])
def test_nothing_is_acknowledged_into_a_file_that_is_gone(
    tmp_path: Path, gone: tuple[str, ...], moved: bool
) -> None:
    path = tmp_path / "m.db"
    mem = SigmaMem(["a"], path, rank=1)
    mem.feedback(mem.route(phi=PHI).id, {"a": True})
    d = mem.route(phi=PHI)
    mem.store.flush()
    for ending in gone:
        file = Path(f"{path}{ending}")
        file.rename(tmp_path / f"elsewhere{ending}") if moved else file.unlink()
    for _ in range(2):
        with pytest.raises(StoreError, match="removed, moved or replaced"):
            mem.feedback(d.id, {"a": True})
    with pytest.raises(StoreError, match="removed, moved or replaced"):
        mem.close()
    mem.close()


def test_a_reader_notices_that_another_file_took_the_place_of_its_own(tmp_path: Path) -> None:
    path, other = tmp_path / "m.db", tmp_path / "other.db"
    for file in (path, other):
        with SigmaMem(["a"], file, rank=1) as mem:
            mem.route(phi=PHI)
    with SigmaMem(path=path, readonly=True) as reader:
        assert reader.events == 1
        other.replace(path)
        with pytest.raises(StoreError, match="removed, moved or replaced"):
            reader.trust(phi=PHI)


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
    statuses = []
    for _ in range(6):
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            code = 1
            try:
                if kept == "process":  # a copy of its own, whole
                    mem.feedback(mem.route(phi=PHI).id, {"b": True})
                    same = mem.state.M.tobytes() == mem.replayed().state.M.tobytes()
                    code = 0 if same else 2
                else:
                    try:
                        mem.feedback(mem.route(phi=PHI).id, {"b": True})
                    except StoreError:
                        code = 0
                mem.close()
            finally:
                os._exit(code)
        statuses.append(os.waitpid(child, 0)[1])
    stop.set()
    for thread in threads:
        thread.join()
    assert statuses == [0] * 6
    assert mem.state.M.tobytes() == mem.replayed().state.M.tobytes()
    mem.close()
