"""What an administrator does to whole memories: move, copy, check, fill and combine them.

``export``, ``restore`` and ``backup`` are in `transfer`, ``merge`` in `union`; `lesson` learns from recorded
streams, `refold` makes a memory again with other settings, `check` verifies a store. The same functions are
commands of ``sigma-mem``.
"""

from sigma_mem.admin.check import StoreCheck, check
from sigma_mem.admin.lesson import Learned, learn
from sigma_mem.admin.refold import Refolded, refold
from sigma_mem.admin.transfer import backup, export, restore
from sigma_mem.admin.union import merge

__all__ = [
    "Learned",
    "Refolded",
    "StoreCheck",
    "backup",
    "check",
    "export",
    "learn",
    "merge",
    "refold",
    "restore",
]
