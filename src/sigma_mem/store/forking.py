"""Locks that a fork leaves free: no other thread is inside when the process is copied.

A child has the forking thread only. A lock that another thread held would stay locked in it for ever, and
what that thread was changing would stay half done.
"""

import os
import threading
import weakref
from enum import IntEnum
from typing import Any, Protocol, TypeVar


class Level(IntEnum):
    """Order in which locks are taken, outermost first."""

    REGISTRY = 0
    JOURNAL = 1
    STORE = 2


class _Lock(Protocol):
    def acquire(self) -> bool: ...

    def release(self) -> None: ...


L = TypeVar("L", bound=_Lock)

_locks: weakref.WeakKeyDictionary[_Lock, Level] = weakref.WeakKeyDictionary()
_registering = threading.Lock()
_taken: list[_Lock] = []


def fork_safe(lock: L, level: Level) -> L:
    """Have a lock taken before every fork, and released after it in parent and child."""
    with _registering:
        _locks[lock] = level
    return lock


class Opened(Protocol):
    """A store whose connections and threads belong to the process that opened it."""

    def leave_to_parent(self) -> Any:
        """Close in a forked child without touching what is the parent's; return what must stay as it is."""


_opened: weakref.WeakSet[Opened] = weakref.WeakSet()
_inherited: list[Any] = []  # what a child must not release


def left_to_parent(store: Opened) -> None:
    """Have a store closed in every forked child."""
    _opened.add(store)


def _in_child() -> None:
    for store in list(_opened):
        _inherited.append(store.leave_to_parent())


def _before_fork() -> None:
    _registering.acquire()
    for lock in sorted(_locks, key=lambda lock: _locks[lock]):
        lock.acquire()
        _taken.append(lock)


def _after_fork() -> None:
    while _taken:
        _taken.pop().release()
    _registering.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
    os.register_at_fork(after_in_child=_in_child)
