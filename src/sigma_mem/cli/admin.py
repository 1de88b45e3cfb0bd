"""The functions of `sigma_mem.admin` as commands, and ``sigma-mem db``."""

import shutil
import sys
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from json import dumps
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from typer import Argument, Option

from sigma_mem import admin
from sigma_mem.cli.options import (
    Json,
    MemoryFile,
    Namespace,
    Recorded,
    TableColumns,
    check_folder,
    existing,
    grouped_options,
    memory_path,
    opened_to_read,
    reads,
    shows,
)
from sigma_mem.cli.output import Found, print_found, print_table, progress_bar
from sigma_mem.errors import InputError
from sigma_mem.events import shortened
from sigma_mem.files import replace_file
from sigma_mem.session import SigmaMem
from sigma_mem.store.open import open_store, upgrade_store

AnyMemory = Annotated[
    Path, Argument(help="A memory: a file, or postgresql://…", show_default=False, parser=memory_path)
]
db_app = typer.Typer(name="db", no_args_is_help=True, add_completion=False, help="The tables of a memory.")
NewFile = Annotated[Path, Argument(help="The new file.", show_default=False)]


@shows
def backup(target: NewFile, memory: MemoryFile) -> Found:
    """Copy a memory's file, with all its namespaces. Works while another process writes.

    Example:
    sigma-mem backup --memory memory.db backup.db
    """
    with closing(open_store(existing(memory), readonly=True)) as store:
        admin.backup(store, target)
    return {"backup": str(target)}, f"backup: {target}"


def export(
    target: Annotated[
        Path,
        Argument(help="JSON lines to write: .jsonl or .jsonl.gz; - for standard output.", show_default=False),
    ],
    memory: MemoryFile,
    a2a: Annotated[
        str | None, Option(metavar="PEER", help="Only what is known about this peer, for its A2A agent card.")
    ] = None,
    namespace: Namespace = "default",
    json: Json = False,
) -> None:
    """Write all of a memory as JSON lines. Works while another process writes.

    Examples:
    sigma-mem export --memory memory.db memory.jsonl.gz

    sigma-mem export --memory memory.db - | zstd > memory.jsonl.zst

    sigma-mem export --memory memory.db --a2a gemma gemma-trust.json
    """
    to_stdout = str(target) == "-"
    if to_stdout and json:
        raise InputError("got --json and - for standard output; expected one of them")
    with opened_to_read(memory, namespace) as mem, TemporaryDirectory() as folder:
        file = Path(folder, "memory.jsonl") if to_stdout else target  # printed if all of it could be written
        if a2a is None:
            lines = admin.export(mem, file)
        else:
            text = dumps(admin.trust_extension(mem, a2a), indent=2, ensure_ascii=False)
            lines = text.count("\n") + 1
            with replace_file(file) as temporary:
                temporary.write_text(text + "\n", encoding="utf-8")
        if not to_stdout:
            print_found(({"file": str(target), "lines": lines}, f"{target}: {lines} lines"), json)
            return
        with file.open("rb") as content:
            shutil.copyfileobj(content, sys.stdout.buffer)
        sys.stdout.flush()


@shows
def restore(
    file: Annotated[Path, Argument(help="What sigma-mem export wrote.", show_default=False)],
    memory: MemoryFile,
    namespace: Namespace = "default",
) -> Found:
    """Make a memory from a file that export wrote.

    Example:
    sigma-mem restore memory.jsonl.gz --memory new.db
    """
    check_folder("--memory", memory)
    with admin.restore(file, memory, namespace=namespace) as mem:
        return _made(mem, memory)


def _made(mem: SigmaMem, path: Path) -> Found:
    values = {"memory": str(path), "events": mem.events, "peers": list(mem.peers)}
    return values, f"{path}: {mem.events} events of {', '.join(mem.peers)}"


@shows
@grouped_options
def learn(
    file: Recorded,
    memory: MemoryFile,
    columns: TableColumns,
    source: Annotated[str, Option(help="Name of the person or program that labelled it.")] = "default",
    encoder: Annotated[str | None, Option(help="For a new memory.")] = None,
    limit: Annotated[int | None, Option(help="At most this many events.")] = None,
    namespace: Namespace = "default",
) -> Found:
    """Learn from a recorded stream or a table; a second run takes only what is new.

    Examples:
    sigma-mem learn stream.jsonl.gz --memory memory.db

    sigma-mem learn log.csv -m memory.db --question prompt --peer model --answer output --score grade

    sigma-mem learn wide.parquet -m memory.db --score gemma=gemma_ok --score phi=phi_ok
    """
    stream, dropped = columns.load(file)
    if limit is not None:
        stream = stream.select(limit=limit)
    check_folder("--memory", memory)
    peers = None if memory.exists() else stream.peers
    with SigmaMem(peers, memory, namespace=namespace, encoder=encoder) as mem, progress_bar() as progress:
        found = admin.learn(mem, stream, source=source, progress=lambda done, of: progress("learn", done, of))
    known = f", {found.known} known before" if found.known else ""
    added = f", new peers {', '.join(found.added)}" if found.added else ""
    said = f"{memory}: {found.events} events, {found.labels} labels{known}{added}"
    lines = [said, *columns.dropped_lines(dropped)]
    return {**asdict(found), "dropped": dict(dropped)}, "\n".join(lines)


@reads
def refold(
    mem: SigmaMem,
    target: NewFile,
    gamma: Annotated[float | None, Option(help="What is left of evidence after one event.")] = None,
    half_life: Annotated[float | None, Option(help="Decay by time instead: seconds.")] = None,
    encoder: Annotated[str | None, Option(help="Encode the questions again, with this encoder.")] = None,
    no_text: Annotated[
        bool, Option("--no-text", help="Keep numbers only in the new memory, no questions and answers.")
    ] = False,
    namespace: Namespace = "default",
) -> Found:
    """Rebuild a memory with other settings, and report which decisions would have differed.

    Example:
    sigma-mem refold --memory memory.db --gamma 0.99 new.db
    """
    if gamma is not None and half_life is not None:
        raise InputError("got --gamma and --half-life; expected one of them")
    settings, keep = None, False if no_text else None
    if half_life is not None:
        settings = replace(mem.settings, decay="time", half_life=half_life)
    elif gamma is not None:
        decay = "event" if mem.settings.decay == "time" else mem.settings.decay
        settings = replace(mem.settings, gamma=gamma, horizons=(), decay=decay, half_life=None)
    found = admin.refold(mem, target, settings=settings, encoder=encoder, keep_text=keep, namespace=namespace)
    found.memory.close()
    rows = [(d.decision, d.before or "—", d.after or "—") for d in found.differences[:20]]
    remarks = [repr(found)[1:-1], f"memory: {shortened(str(target), 200)}"]
    values = {"memory": str(target), **found.to_dict()}
    return values, partial(print_table, ("decision", "before", "after"), rows, remarks)


@shows
def merge(
    one: AnyMemory,
    two: AnyMemory,
    output: Annotated[Path, Option("--output", "-o", help="The new file.", show_default=False)],
    namespace: Namespace = "default",
) -> Found:
    """Make one memory from two, as if it had seen the events of both in the order of time.

    Example:
    sigma-mem merge berlin.db paris.db --output both.db
    """
    with (
        opened_to_read(one, namespace) as first,
        opened_to_read(two, namespace) as second,
        admin.merge(first, second, output, namespace=namespace) as merged,
    ):
        return _made(merged, output)


@shows
def check(memory: MemoryFile) -> Found:
    """Verify a memory: every line, digest and index. Works while other processes write.

    Example:
    sigma-mem check --memory memory.db
    """
    found = admin.check(existing(memory))
    names = list(found.namespaces)
    notes = {name: [str(each) for each in said] for name, said in found.advice.items() if said}
    values = {"memory": str(memory), "lines": found.lines, "namespaces": names, "advice": notes}
    whole = f"{memory} is whole: {found.lines} lines in {len(names)} namespace{'s' * (len(names) != 1)}"
    return values, "\n".join([whole, *(f"note on {name}: {x}" for name in notes for x in notes[name])])


@db_app.callback()
def _db() -> None:
    """The tables of a memory."""


@db_app.command()
@shows
def upgrade(memory: AnyMemory) -> Found:
    """Bring a memory's tables to this version. A file is upgraded when it is opened, too.

    Examples:
    sigma-mem db upgrade postgresql://sigma@db.example/memory

    sigma-mem db upgrade memory.db
    """
    before, after = upgrade_store(existing(memory))
    said = f"has version {after} already" if before == after else f"went from version {before} to {after}"
    return {"before": before, "after": after}, f"{memory} {said}"
