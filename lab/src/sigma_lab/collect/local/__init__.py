"""Small peers that need no model: they run on any machine and are good at different things.

`lexical` compares words, `embedding` compares token vectors, `computing` calculates where a question can be
calculated. ``local:NAME`` names one of them to ``sigma-mem data answer``; ``python -m sigma_lab.collect.local
NAME`` is the same as a command that reads a JSON line and prints an answer.
"""

from sigma_lab.collect.local.solvers import SOLVERS, LocalSolver, solve

__all__ = ["SOLVERS", "LocalSolver", "solve"]
