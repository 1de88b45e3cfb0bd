"""Whether a memory is whole, and whether it is used well."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass

from sigma_mem.session import SigmaMem
from sigma_mem.session.advice import Advice, advice_for
from sigma_mem.store.open import open_store


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """A store that is whole: its lines, its namespaces, and what to do better in each of them."""

    lines: int
    namespaces: tuple[str, ...]
    advice: dict[str, tuple[Advice, ...]]


def check(path: str | os.PathLike[str]) -> StoreCheck:
    """Verify every line and digest of a store, and a file's indexes; other processes may write meanwhile.

    Raises StoreCorruptError for the first damage. Advice is what the log warns of once, with its remedy.
    """
    with closing(open_store(path, readonly=True)) as store:
        lines, names = store.verify(), tuple(store.namespaces())
        memories = {name: SigmaMem(store=store, namespace=name) for name in names}
        return StoreCheck(lines, names, {name: tuple(advice(mem)) for name, mem in memories.items()})


def advice(mem: SigmaMem) -> list[Advice]:
    """How a memory could be used better, from its last 512 decisions."""
    return advice_for(mem.journal, mem.encoder["name"])
