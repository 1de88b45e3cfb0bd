"""Where a PostgreSQL memory is, with credentials that are never shown."""

import os
import re
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from sigma_mem.errors import InputError

SCHEMA = "sigma_mem"  # of PostgreSQL, where an address names none
_SCHEMA_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def is_postgres(path: str | os.PathLike[str]) -> bool:
    """Whether a path is the address of a PostgreSQL database."""
    return os.fspath(path).startswith(("postgresql://", "postgres://"))


def shown_path(path: str | os.PathLike[str]) -> str:
    """A path as it may be shown: that of a PostgreSQL database without user and password."""
    return PostgresAddress.parse(path).shown if is_postgres(path) else os.fspath(path)


@dataclass(frozen=True, slots=True)
class PostgresAddress:
    """The address of a memory: ``postgresql://user:password@host/database?schema=name``.

    Everything that libpq takes may stand in it; ``schema`` is where the tables are, for several memories in
    one database.

    >>> print(PostgresAddress.parse("postgresql://ann:secret@db.example:5432/work?sslmode=require"))
    postgresql://db.example:5432/work
    """

    conninfo: str = field(repr=False)
    shown: str
    schema: str = SCHEMA

    @classmethod
    def parse(cls, url: str | os.PathLike[str]) -> "PostgresAddress":
        """Read an address; InputError, without any of its text, where it is none."""
        try:
            parts = urlsplit(os.fspath(url))
            options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:
            raise InputError(
                "got an address of PostgreSQL that cannot be read; expected "
                "postgresql://user:password@host:port/database, with special characters as %XX"
            ) from None
        schema = dict(options).get("schema", SCHEMA)
        if not _SCHEMA_NAME.fullmatch(schema):
            raise InputError(f"got schema={schema!r:.80}; expected small letters, digits and _")
        kept = [(key, value) for key, value in options if key != "schema"]
        conninfo = urlunsplit(parts._replace(query=urlencode(kept)))
        host = parts.netloc.rpartition("@")[2] or dict(options).get("host", "")
        shown = f"postgresql://{host}{parts.path}" + (f"?schema={schema}" if schema != SCHEMA else "")
        return cls(conninfo, shown, schema)

    def __str__(self) -> str:
        return self.shown
