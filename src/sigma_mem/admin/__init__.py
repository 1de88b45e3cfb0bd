"""What an administrator does to whole memories: move, copy, check, fill and combine them.

``export``, ``restore`` and ``backup`` are in `transfer`, ``merge`` in `union`. `lesson` learns from recorded
streams, `refold` makes a memory again with other settings, `check` verifies a store, `evaluation` estimates
what other ways of choosing would have reached, and `a2a` describes trust for agent cards. The same functions
are commands of ``sigma-mem``.
"""

from sigma_mem.admin.a2a import trust_extension, trust_schema
from sigma_mem.admin.check import StoreCheck, check
from sigma_mem.admin.evaluation import Evaluation, SwitchReport, evaluate, report
from sigma_mem.admin.lesson import Learned, learn
from sigma_mem.admin.refold import Refolded, refold
from sigma_mem.admin.transfer import backup, export, restore
from sigma_mem.admin.union import merge

__all__ = [
    "Evaluation", "Learned", "Refolded", "StoreCheck", "SwitchReport", "backup", "check", "evaluate",
    "export", "learn", "merge", "refold", "report", "restore", "trust_extension", "trust_schema",
]  # fmt: skip
