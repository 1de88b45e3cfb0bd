"""Files that are either complete or not there at all."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sigma_mem.errors import InputError


@contextmanager
def replace_file(target: str | os.PathLike[str], *, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path in the target's folder; on success it atomically replaces the target.

    The data is on the disk before the name changes. If the block raises, the target is left as it was
    and the temporary file is removed. If the target is a link, the file that it leads to is replaced. A
    device, pipe or folder is refused, since replacing it would remove it. So is a database, such as a memory.
    With ``private`` only its owner may read the file.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with replace_file(folder / "out.txt") as temporary:
    ...     _ = temporary.write_text("all of it")
    >>> [file.name for file in folder.iterdir()]
    ['out.txt']
    """
    path = Path(os.path.realpath(target))
    if path.exists() and not path.is_file():
        raise InputError(f"got {os.fspath(target)!r}, which is a device, a pipe or a folder; expected a file")
    if _is_database(path):
        raise InputError(
            f"got {os.fspath(target)!r}, which is a memory or another database and would be lost; "
            "expected another file"
        )
    # The suffix stays: writers such as matplotlib choose the format by it.
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(4)}{path.suffix}")
    try:
        if private:
            make_private(temporary)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def refuse_taken(path: Path) -> None:
    """InputError unless a new file can be made at the path."""
    if path.exists():
        raise InputError(f"got {path}, which exists; expected the path of a new file")
    if not path.absolute().parent.is_dir():
        raise InputError(f"got {path}, in a folder that does not exist; make the folder first")


def make_private(path: Path) -> None:
    """Make an empty file that only its owner may read and write; FileExistsError if there is one."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _is_database(path: Path) -> bool:
    if not path.exists():
        return False
    with path.open("rb") as file:
        return file.read(16) == b"SQLite format 3\0"
