"""One file per experiment of the paper, and per condition its users ask about.

Each takes a stream and φ, and returns a `Table`: a frozen value that owns its rows, remarks and figures.
"""
