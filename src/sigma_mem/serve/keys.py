"""API keys: made once, kept as hashes, with a role for each namespace."""

import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, cast

from filelock import FileLock
from pydantic import Field, TypeAdapter, ValidationError

from sigma_mem.errors import InputError
from sigma_mem.files import replace_file

Role = Literal["read", "write", "admin"]
ROLES: tuple[Role, ...] = ("read", "write", "admin")  # each may do what those before it may
EVERYWHERE = "*"  # instead of a namespace: all of them
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_RESERVED = ("agreement", "default")  # sources with a meaning of their own
_LOOK_EVERY = 1.0  # seconds between looks at the file


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller that makes a request: the key's name, and what it may do where."""

    name: str
    grants: Annotated[Mapping[str, Role], Field(min_length=1)]  # namespace or "*" → role

    def may(self, role: Role, namespace: str) -> bool:
        """Whether it has this role, or a stronger one, in a namespace ("*": in all of them)."""
        enough = ROLES[ROLES.index(role) :]
        return self.grants.get(EVERYWHERE) in enough or self.grants.get(namespace) in enough

    def may_somewhere(self, role: Role) -> bool:
        """Whether it has this role, or a stronger one, in some namespace."""
        return not set(self.grants.values()).isdisjoint(ROLES[ROLES.index(role) :])


LOCAL = Principal("default", {EVERYWHERE: "admin"})  # who calls a service on loopback that has no keys


@dataclass(frozen=True, slots=True)
class ApiKey(Principal):
    """A key as it is kept: never the key itself, only the hash of all of it."""

    digest: str  # SHA-256, hexadecimal; a key is 256 random bits, so that a slow hash would add nothing
    created: float


_FILE = TypeAdapter(dict[Literal["keys"], tuple[ApiKey, ...]])


class KeyRing:
    """The keys of a file, if there is one, read again when it changes, so within a second."""

    def __init__(
        self, path: str | os.PathLike[str] | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = None if path is None else Path(path)
        self._clock = clock
        self._lock = threading.Lock()
        self._stamp: tuple[int, int, int] | None = None
        self._looked = -_LOOK_EVERY
        self._by_digest: dict[str, ApiKey] = {}
        self._refresh()

    @property
    def keys(self) -> tuple[ApiKey, ...]:
        """All keys, in the order in which they were made."""
        self._refresh()
        return tuple(self._by_digest.values())

    def find(self, key: str) -> Principal | None:
        """The holder of this key; InputError while the file cannot be read: then nobody is.

        How long it takes depends on the hash of the key, from which no key can be guessed.
        """
        self._refresh()
        return self._by_digest.get(hashlib.sha256(key.encode()).hexdigest())

    def _refresh(self) -> None:
        now = self._clock()
        if self._path is None or now - self._looked < _LOOK_EVERY:
            return
        with self._lock:
            try:
                stat = self._path.stat()
            except FileNotFoundError:
                stamp = None
            except OSError:
                stamp = 0, 0, 0  # reading it says why
            else:
                stamp = stat.st_mtime_ns, stat.st_size, stat.st_ino
            if stamp != self._stamp:
                self._by_digest, self._stamp = {}, None  # unless it can be read
                self._by_digest = {} if stamp is None else {key.digest: key for key in read_keys(self._path)}
                self._stamp = stamp
            self._looked = now


def read_keys(path: str | os.PathLike[str]) -> tuple[ApiKey, ...]:
    """The keys of a file; none if there is no file."""
    try:
        return _FILE.validate_json(Path(path).read_bytes())["keys"]
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise InputError(f"{path}, the file of keys, cannot be read: {error.strerror}") from error
    except (ValidationError, KeyError) as error:
        fault = error.errors()[0]["msg"] if isinstance(error, ValidationError) else "it has no keys"
        raise InputError(
            f"{path} is not a file of keys: {fault}; make one with: sigma-mem keys add"
        ) from error


def add_key(path: str | os.PathLike[str], name: str, grants: Mapping[str, str], now: float) -> str:
    """Make a key and keep its hash; return the key, which nobody can read again."""
    if not _NAME.fullmatch(name) or name in _RESERVED:
        raise InputError(
            f"a key's name is {name!r}; expected letters, digits and . _ @ -, and none of {list(_RESERVED)}"
        )
    key = f"sm-{secrets.token_urlsafe(32)}"
    added = ApiKey(name, _checked_grants(grants), hashlib.sha256(key.encode()).hexdigest(), now)
    with _one_change(path):
        keys = read_keys(path)
        if any(known.name == name for known in keys):
            raise InputError(
                f"a key named {name!r} is in {path} already; remove it first, or take another name"
            )
        _write(path, (*keys, added))
    return key


def remove_key(path: str | os.PathLike[str], name: str) -> None:
    """Forget a key: a running service refuses it within a second."""
    with _one_change(path):
        keys = read_keys(path)
        left = tuple(key for key in keys if key.name != name)
        if len(left) == len(keys):
            names = [key.name for key in keys]
            raise InputError(f"no key in {path} is named {name!r}; expected one of {names}")
        _write(path, left)


@contextmanager
def _one_change(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the file's lock, so that two commands at once do not undo each other."""
    try:
        with FileLock(f"{os.fspath(path)}.lock", mode=0o600):
            yield
    except OSError as error:
        raise InputError(f"{path}, the file of keys, cannot be written: {error.strerror}") from error


def _checked_grants(grants: Mapping[str, str]) -> dict[str, Role]:
    for namespace, role in grants.items():
        if role not in ROLES:
            raise InputError(f"the role in {namespace!r} is {role!r}; expected one of {list(ROLES)}")
    if not grants:
        raise InputError("a key has no role in any namespace; expected at least one")
    return {namespace: cast(Role, role) for namespace, role in grants.items()}


def _write(path: str | os.PathLike[str], keys: tuple[ApiKey, ...]) -> None:
    with replace_file(path) as temporary:
        temporary.touch(mode=0o600)
        if hasattr(os, "geteuid") and os.geteuid() == 0:  # the service, which reads it, may be another user
            owner = (Path(path) if Path(path).exists() else Path(path).parent).stat()
            os.chown(temporary, owner.st_uid, owner.st_gid)
        temporary.write_bytes(_FILE.dump_json({"keys": keys}, indent=1))
