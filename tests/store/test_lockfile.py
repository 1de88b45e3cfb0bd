"""One writer: here, in other processes, after a kill and after a fork."""

import fcntl
import os
import signal
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from invariants.keeping import Interrupted, interrupt_after
from sigma_mem.errors import StoreBusyError, StoreError
from sigma_mem.store import SqliteStore
from sigma_mem.store.file import LockFile

HOLD = """
import sys
from sigma_mem.store import SqliteStore, Record
store = SqliteStore(sys.argv[1])
store.append("ns", [Record("decision", "theirs", "theirs", b"")])[1].wait()
print("ready", flush=True)
sys.stdin.read()
"""
TRY = """
import sys
from sigma_mem.errors import StoreError
from sigma_mem.store import SqliteStore
try:
    SqliteStore(sys.argv[1]).close()
    print("opened")
except StoreError as error:
    print(type(error).__name__, error)
"""
FORK = """
import os, signal, sys
from sigma_mem.store import SqliteStore
store = SqliteStore(sys.argv[1])
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.read()
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_second_open_is_refused_and_says_who_writes_and_what_to_do(path, store, python):
    expected = r"by this process.*one writer at a time\. Share that SigmaMem.*mem\.namespace"
    with pytest.raises(StoreBusyError, match=expected):
        SqliteStore(path)
    said = python(TRY, path)
    for words in ("StoreBusyError", f"process {os.getpid()}", "Close it there first", "readonly=True"):
        assert words in said
    store.close()
    assert python(TRY, path) == "opened"


@pytest.mark.parametrize("readonly", [False, True])
def test_a_hard_link_does_not_get_past_the_lock(path, tmp_path, record, readonly):
    """Lock and log stand beside a name: through another name neither would be seen."""
    link = tmp_path / "elsewhere.db"
    store = SqliteStore(path)
    store.append("ns", [record("1")])[1].wait()
    link.hardlink_to(path)
    with pytest.raises(StoreError, match=r"2 names \(hard links\).*copy the file"):
        SqliteStore(link, readonly=readonly)
    store.append("ns", [record("2")])[1].wait()  # the writer that was there first goes on
    store.close()
    with pytest.raises(StoreError, match="hard links"):
        SqliteStore(path, readonly=readonly)
    assert sorted(os.listdir(tmp_path)) == ["elsewhere.db", "memory.db"]
    link.unlink()
    with closing(SqliteStore(path, readonly=readonly)) as again:
        assert [r.id for r in again.records("ns")] == ["1", "2"]


def test_a_killed_writer_leaves_no_lock(path, python, record):
    child = python(HOLD, path, wait=False)
    assert child.stdout.readline() == "ready\n"
    with pytest.raises(StoreBusyError, match=f"process {child.pid}"):
        SqliteStore(path)
    child.send_signal(signal.SIGKILL)
    child.wait()
    store = SqliteStore(path)
    assert store.find("ns", "decision", "theirs").seq == 1
    assert store.append("ns", [record("mine")])[0] == 2
    store.close()


def test_threads_that_open_and_close_are_never_two_at_once(path):
    """The lock file is removed on release: a waiter must not hold a file that nobody else can see."""
    holders, most, end = [], [], time.monotonic() + 60.0

    def work():
        won = 0
        while won < 75 and time.monotonic() < end:  # a busy machine may stop a holder for a while
            try:
                lock = LockFile(path)
            except StoreBusyError:
                continue
            holders.append(1)
            most.append(len(holders))
            won += 1
            holders.pop()
            lock.release()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
    assert len(most) == 4 * 75


def test_a_lock_on_a_file_that_was_removed_meanwhile_does_not_count(path, monkeypatch):
    """The holder lets go, and removes the file, between our opening and our locking it."""
    holder, flock = LockFile(path), fcntl.flock

    def late(fd, how):
        monkeypatch.undo()
        holder.release()
        flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", late)
    lock = LockFile(path)
    with pytest.raises(StoreBusyError):
        LockFile(path)
    lock.release()


def test_a_missing_folder_is_one_clear_error(tmp_path):
    with pytest.raises(StoreError, match="expected an existing, writable folder"):
        SqliteStore(tmp_path / "nowhere" / "memory.db")


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_cannot_use_the_store_and_does_not_keep_its_lock(path, record):
    store = SqliteStore(path)
    store.append("ns", [record("1")])[1].wait()
    told, tell = os.pipe()
    hold, release = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            store.append("ns", [record("2")])
            os.write(tell, b"appended")
        except StoreError as error:
            os.write(tell, str(error).encode())
        store.close()
        os.read(hold, 1)
        os._exit(0)
    try:
        assert b"closed in this process; open it again" in os.read(told, 1000)
        store.append("ns", [record("3")])[1].wait()
        store.close()
        again = SqliteStore(path)  # the child still lives, and holds nothing
        assert [r.id for r in again.records("ns")] == ["1", "3"]
        again.close()
    finally:
        os.write(release, b"x")
        os.waitpid(child, 0)
        for fd in (told, tell, hold, release):
            os.close(fd)


def test_a_forked_child_does_not_hold_the_lock_of_a_parent_that_was_killed(path, python):
    parent = python(FORK, path, wait=False)
    assert parent.stdout.readline() == "forked\n"
    assert parent.wait(60) == -signal.SIGKILL  # its child lives on until the pipe is closed
    assert path.with_name("memory.db.lock").exists()
    SqliteStore(path).close()


def interrupted_opening(path: Path, lines: int) -> bool:
    """Open a file to write, interrupted after so many lines of code; whether it was."""
    try:
        with interrupt_after(lines):
            store = SqliteStore(path)
    except Interrupted:
        return True
    store.close()
    return False


def test_an_interrupt_at_any_line_of_an_opening_leaves_no_lock(tmp_path: Path) -> None:
    path, lines = tmp_path / "m.db", 0
    SqliteStore(path).close()
    while interrupted_opening(path, lines):
        LockFile(path).release()
        lines += 2
    assert lines > 50


def test_a_system_without_flock_is_refused_with_what_works_there(path, monkeypatch):
    monkeypatch.setattr("sigma_mem.store.file.fcntl", None)  # as on Windows
    with pytest.raises(StoreError, match=r"no flock; .* Use path=None for a memory without a file"):
        SqliteStore(path)
    assert not path.exists()
