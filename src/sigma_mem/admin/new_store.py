"""A new memory that is filled by a program: complete, or not there at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from sigma_mem.encode import Encoder
from sigma_mem.encode.custom import Embed
from sigma_mem.errors import InputError
from sigma_mem.files import replace_file
from sigma_mem.ledger.lines import OpenLine, open_line
from sigma_mem.ledger.records import record_of
from sigma_mem.session import SigmaMem
from sigma_mem.session.checks import checked_path, file_errors
from sigma_mem.store.base import Store
from sigma_mem.store.open import file_of, open_store

T = TypeVar("T")


def owning(store: Store, namespace: str, encoder: str | Embed | Encoder | None) -> SigmaMem:
    """The memory in a namespace, which closes its store."""
    mem = SigmaMem(store=store, namespace=namespace, encoder=encoder)
    mem.owns_store = True
    return mem


def build_store(
    path: str | os.PathLike[str] | None,
    namespace: str,
    opening: OpenLine,
    time: float,
    fill: Callable[[Store], T],
) -> tuple[Store, T]:
    """Make a store with one new memory, let `fill` write the rest of it, and open the result.

    A file gets its name when it is complete, so that a kill in between leaves none.
    """
    checked_path("path", path)

    def made(store: Store) -> T:
        store.append(namespace, [record_of(open_line(opening, time))])[1].wait()
        filled = fill(store)
        store.flush()
        return filled

    if path is None:
        store = open_store(None)
        return store, made(store)
    target = file_of(path)
    if target is None:
        raise InputError(
            "got the address of a PostgreSQL database; expected a new file. Make the file, then export it "
            "and restore it into the database"
        )
    with file_errors("make the memory"):
        if target.exists():
            raise InputError(f"got {target}, which exists; expected a new file")
        if not target.absolute().parent.is_dir():
            raise InputError(f"got {target}, in a folder that does not exist; make the folder first")
        with replace_file(target) as temporary:
            store = open_store(temporary)
            try:
                filled = made(store)
            finally:
                store.close()
        return open_store(target), filled
