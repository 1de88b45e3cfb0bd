"""Chance by name: a number that depends on a seed and a key, and on nothing else.

Shuffles, swaps and revealed labels are drawn this way rather than from a generator
that is advanced event by event. So the draw for an event does not move when another
event, peer or ratio is added, and it is the same on every platform and numpy version.
"""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["chance"]


def chance(seed: int, *key: str) -> float:
    """Return a uniform number in [0, 1) for ``seed`` and ``key``.

    Examples
    --------
    >>> chance(0, "order", "mmlu-pro-70") == chance(0, "order", "mmlu-pro-70")
    True
    >>> 0.0 <= chance(1, "order", "mmlu-pro-70") < 1.0
    True
    """
    text = "\x1f".join((str(seed), *key))
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "little") >> 11) * 2.0**-53  # the 53 bits a double holds
