"""``python -m sigma_mem`` is ``sigma-mem``."""

from sigma_mem.cli import main

main()
