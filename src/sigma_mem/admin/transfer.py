"""Memories that leave and come: a file of JSON lines and back, without loss, copies, and new stores.

The first line of an exported file is a header, every further one is a line of the ledger. The last one has
their number and the SHA-256 of all lines before it, so that a file that was cut or changed is refused.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import IO, Any, TypeVar, cast

from sigma_mem.encode import Encoder
from sigma_mem.encode.custom import Embed
from sigma_mem.errors import InputError, SigmaMemError, StoreVersionError
from sigma_mem.files import refuse_taken, replace_file
from sigma_mem.ledger.decision import decision_in
from sigma_mem.ledger.journal import Journal
from sigma_mem.ledger.lines import Line, OpenLine, PeerLine, is_decision, open_line
from sigma_mem.ledger.records import Ledger, from_json, record_of, to_json
from sigma_mem.ledger.snapshot import pack_fold
from sigma_mem.session import SigmaMem
from sigma_mem.session.checks import checked_path, file_errors
from sigma_mem.session.handle import open_memory
from sigma_mem.store import InMemoryStore
from sigma_mem.store.base import LEDGER_FORMAT, Record, Store
from sigma_mem.store.open import backup_store, file_of, open_store
from sigma_mem.streams.jsonl import read_file

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
        refuse_taken(target)
        with replace_file(target) as temporary:
            store = open_store(temporary)
            try:
                filled = made(store)
            finally:
                store.close()
        return open_store(target), filled


FORMAT = "sigma-mem ledger"


def export(mem: SigmaMem, path: str | os.PathLike[str]) -> int:
    """Write a memory as JSON lines, compressed for ``.gz``; return how many lines. Nothing is lost."""
    checked_path("path", path)
    with mem.journal as fold:
        until = fold.seq
    with file_errors("export"):
        return _write_lines(mem.journal.ledger, Path(path), until)


def restore(
    file: str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    *,
    namespace: str = "default",
    encoder: str | Embed | Encoder | None = None,
) -> SigmaMem:
    """Make a memory from a file that `export` wrote: the same lines, the same state.

    Parameters
    ----------
    file
        What `export` wrote; one that was cut or changed is refused.
    path, namespace, encoder
        As for `SigmaMem`; an existing file gets one more namespace.
    """
    checked_path("file", file)
    checked_path("path", path)
    with file_errors("restore"):
        if not Path(file).exists():
            raise InputError(f"there is no file {file}; expected one that export wrote")
        records = read_ledger(read_file(Path(file)), os.fspath(file), encoder)
        store = open_store(path)
    try:
        restore_ledger(records, store, namespace)
        return owning(store, namespace, encoder)
    except BaseException:
        store.close()
        raise


def backup(mem: SigmaMem | Store, path: str | os.PathLike[str]) -> None:
    """Copy a memory's whole store, with all its namespaces, into a new file; decisions continue meanwhile."""
    checked_path("path", path)
    with file_errors("back up"):
        backup_store(mem.store if isinstance(mem, SigmaMem) else mem, Path(path))


def _write_lines(ledger: Ledger, path: Path, until: int) -> int:
    if not path.absolute().parent.is_dir():
        raise InputError(f"got {path}, in a folder that does not exist; make the folder first")
    digest, lines = sha256(), 0
    with replace_file(path, private=True) as temporary, _open_to_write(temporary) as file:

        def write(value: dict[str, Any]) -> None:
            line = (
                json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
            )
            digest.update(line)
            file.write(line)

        write({"format": FORMAT, "version": LEDGER_FORMAT, "namespace": ledger.namespace})
        for line in ledger.lines(until=until):
            write(to_json(line))
            lines += 1
        write({"lines": lines, "sha256": digest.hexdigest()})
    return lines


def read_ledger(
    data: bytes,
    name: str,
    encoder: str | Embed | Encoder | None = None,
    check: Callable[[OpenLine, int], None] = lambda opening, peers: None,
) -> list[Record]:
    """The lines of an exported file, unpacked; InputError unless all are as written, and make a memory.

    `name` is what errors call the file. `check` gets the first line and how many peers there were at most,
    and raises for a memory that is not wanted, before it is made for a trial.
    """
    lines = _read_lines(data, name)
    if lines and isinstance(lines[0].body, OpenLine):
        joined = sum(isinstance(line.body, PeerLine) and line.body.joins for line in lines)
        check(lines[0].body, len(lines[0].body.peers) + joined)
    records = [record_of(line) for line in lines]
    _refuse_unreadable(name, lines, records, encoder)
    return records


def _refuse_unreadable(
    name: str, lines: list[Line[Any]], records: list[Record], encoder: str | Embed | Encoder | None
) -> None:
    """Raise unless a memory can be opened from the lines; a changed file may have a new count and digest."""
    trial, space = InMemoryStore(), "restored"
    try:
        trial.append(space, records)
        opening, _ = open_memory(trial, space, None, None, encoder, None, None, 0.0)
        fold = Journal(trial, space, opening, 1).replayed()
        pack_fold(fold)
        for line in lines:
            if is_decision(line):
                decision_in(fold.pool.translated(line))
    except SigmaMemError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise _damaged(name, f"its lines make no memory ({type(error).__name__}: {error})") from error


def _read_lines(data: bytes, name: str) -> list[Line[Any]]:
    lines: list[Line[Any]] = []
    digest, end = sha256(), None
    for number, line in enumerate(BytesIO(data)):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _damaged(name, f"line {number + 1} is not JSON") from error
        if not isinstance(value, dict) or end is not None:
            raise _damaged(name, f"line {number + 1} does not belong there")
        if number == 0:
            _check_header(name, value)
        elif "lines" in value:
            end = value
            continue
        else:
            lines.append(_line(name, number + 1, value))
        digest.update(line)
    if end is None or end != {"lines": len(lines), "sha256": digest.hexdigest()}:
        raise _damaged(name, "it was cut or changed")
    return lines


def restore_ledger(records: list[Record], store: Store, namespace: str) -> None:
    """Put exported lines into an empty namespace: all of them or none."""
    if namespace in store.namespaces():
        raise InputError(f"namespace {namespace!r} holds a memory already; restore into another one")
    store.append(namespace, records)[1].wait()


def _line(name: str, number: int, value: dict[str, Any]) -> Line[Any]:
    try:
        return from_json(value)
    except (KeyError, ValueError, TypeError) as error:
        raise _damaged(
            name, f"line {number} is not a line of a ledger ({' '.join(str(error).split())})"
        ) from error


def _check_header(name: str, value: dict[str, Any]) -> None:
    if value.get("format") != FORMAT or not isinstance(value.get("version"), int):
        raise InputError(f"{name} is not an exported memory; expected a file of  sigma-mem export")
    if value["version"] > LEDGER_FORMAT:
        raise StoreVersionError(
            f"{name} has version {value['version']}, this version of sigma-mem reads up to {LEDGER_FORMAT}; "
            "upgrade sigma-mem (pip install -U sigma-mem)"
        )


@contextmanager
def _open_to_write(path: Path) -> Iterator[IO[bytes]]:
    with path.open("wb") as raw:
        if path.suffix != ".gz":
            yield raw
            return
        with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:  # no name, no time: equal bytes
            yield cast(IO[bytes], packed)


def _damaged(name: str, what: str) -> InputError:
    return InputError(f"{name} is damaged: {what}; export the memory again")
