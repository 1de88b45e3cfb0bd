"""The service of a demo: ``sigma-mem serve`` in a process of its own, on loopback."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from sigma_mem.errors import SigmaMemError

_SERVES = "sigma-mem serves on "
_COMMAND = (sys.executable, "-c", "from sigma_mem.cli import main; main()", "serve")


@contextmanager
def running_service(memory: Path | None = None, port: int = 0) -> Iterator[str]:
    """A service that listens on loopback and keeps texts; gives its address, and ends with the block.

    It reads a configuration of its own: neither a ``sigma-mem.toml`` here nor variables change the demo.

    Parameters
    ----------
    memory : path, optional
        File of its memory; by default one that is deleted at the end.
    port : int
        0 takes a free one.
    """
    with tempfile.TemporaryDirectory(prefix="sigma-mem-demo-") as folder:
        file = Path(folder, "demo.toml")
        path = Path(folder, "demo.db") if memory is None else memory.absolute()
        lines = (
            f"path = {json.dumps(str(path))}",
            f"port = {port}",
            "keep_text = true",
            "access_log = false",
        )
        file.write_text("\n".join(lines), encoding="utf-8")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SIGMA_MEM_")}
        environment["OMP_NUM_THREADS"] = "1"  # its arrays are small
        with (
            Path(folder, "log").open("w", encoding="utf-8") as log,
            subprocess.Popen(
                [*_COMMAND, "--config", str(file), "--log", "text"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for the demo, which then stops the service
            ) as process,
            _stopped_at_the_end(process),
        ):
            yield _address(process, log.name)


def _address(process: subprocess.Popen[str], log: str) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith(_SERVES):
        process.wait(30)
        said = Path(log).read_text(encoding="utf-8").strip().splitlines()
        raise SigmaMemError(f"the demo's service did not start: {said[-1] if said else 'it said nothing'}")
    return line.removeprefix(_SERVES).strip()


@contextmanager
def _stopped_at_the_end(process: subprocess.Popen[str]) -> Iterator[None]:
    """Stop the process however the block ends, also by SIGTERM or when the terminal is closed."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
        for number, handler in before.items():
            signal.signal(number, handler)
