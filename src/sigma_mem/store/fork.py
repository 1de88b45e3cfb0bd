"""What a forked child does with memories that its parent had open.

A child has the forking thread only. So a lock that another thread held is replaced there, and what has a
file, a connection or a thread is closed: those are the parent's.
"""

import os
import weakref
from typing import Protocol


class Inherited(Protocol):
    """Something that a forked child finds open."""

    def after_fork(self) -> object:
        """In the child: replace locks or close. What is returned is never released there."""


_known: weakref.WeakSet[Inherited] = weakref.WeakSet()
_kept: list[object] = []


def tell_after_fork(one: Inherited) -> None:
    """Have `after_fork` called in every forked child."""
    _known.add(one)


def _in_child() -> None:
    _kept.extend([one.after_fork() for one in list(_known)])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
