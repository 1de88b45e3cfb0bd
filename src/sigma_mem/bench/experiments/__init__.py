"""One file per experiment of the paper, and per condition its users ask about.

Each takes a stream and φ, and returns a frozen value with ``values()``, the plain object that
``--json`` prints; `sigma_mem.bench.report` turns the same value into Markdown, CSV and figures.
"""
