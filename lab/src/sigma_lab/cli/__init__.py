"""The laboratory's commands, which the entry points of ``lab/pyproject.toml`` add to ``sigma-mem``."""
