"""A copy of a whole store as one file, also while it is written."""

from contextlib import closing
from pathlib import Path

from sigma_mem.errors import InputError
from sigma_mem.files import replace_file
from sigma_mem.store.base import Store
from sigma_mem.store.database import copy_pages
from sigma_mem.store.sqlite import SqliteStore


def backup_store(store: Store, path: Path) -> None:
    """Copy all namespaces into a new file, which is complete or not there at all.

    A file of SQLite is copied page by page beside its writer; what is queued is in the copy. Any other
    store is copied line by line, one namespace after the other.
    """
    if path.exists():
        raise InputError(f"got {path}, which exists; expected a new file for the backup")
    if not path.absolute().parent.is_dir():
        raise InputError(f"got {path}, in a folder that does not exist; make the folder first")
    with replace_file(path) as temporary:
        if isinstance(store, SqliteStore):
            if not store.readonly:
                store.flush()
            copy_pages(store.path, temporary)
        else:
            _copy_lines(store, temporary)


def _copy_lines(store: Store, target: Path) -> None:
    with closing(SqliteStore(target)) as copy:
        for namespace in store.namespaces():
            records = [record._replace(seq=0) for record in store.records(namespace)]
            copy.append(namespace, records)[1].wait()
