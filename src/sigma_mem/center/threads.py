"""How many threads torch computes with, for as long as a ``with`` lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(n: int) -> Iterator[None]:
    """Compute with ``n`` threads, and with as many as before afterwards.

    A matrix product splits its sums by thread, so the last bits of a result depend on their number, and on
    some machines on the moment. With one thread the same call on a CPU gives the same bits every time:
    torch aligns its memory alike, and nothing else enters.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
