"""What the gateway adds to a call of an upstream, compared with LiteLLM's proxy in an environment of its own.

All servers are processes of their own on loopback: an upstream that answers at once, the gateway over two
such peers with a memory on disk, and LiteLLM's proxy over the same two. One client calls them in turns, block
by block, so that what a busy machine adds falls on all. In the same blocks this process makes the decision
itself, on a file of its own, and waits for the disk: this part of what is added is not the service's.

    python benchmarks/gateway.py [--calls 400] [--litellm ENV] [--json]
"""

import argparse
import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import perf_counter

import numpy as np

from sigma_lab.bench.table import Table
from sigma_mem.cli.output import print_json, print_table
from sigma_mem.errors import InputError, SigmaMemError
from sigma_mem.session import SigmaMem

TARGET_MS = 3.0
_BLOCK = 20
_STARTS_WITHIN = 180.0  # seconds
_HOW = "python3 -m venv ENV && ENV/bin/pip install 'litellm[proxy]'; then give --litellm ENV"
_PROGRAM = Path("bin", "litellm")
_PEERS = ("a", "b")
_DECISION = "decision"
_QUESTION = {"role": "user", "content": "What is 17 * 23?"}


@dataclass(frozen=True, slots=True)
class GatewayTimings:
    """Seconds of every call, by what was called: "upstream" itself, or through a proxy.

    Also the seconds of decisions that were made and written without a service.
    """

    seconds: Mapping[str, tuple[float, ...]]
    decisions: tuple[float, ...]
    notes: tuple[str, ...] = ()

    def milliseconds(self, who: str, percentile: float) -> float:
        """A percentile of the calls."""
        return 1e3 * float(np.percentile(self.seconds[who], percentile))

    @property
    def decision_ms(self) -> float:
        """What a decision takes without a service until it is on disk, at p50."""
        return 1e3 * float(np.median(self.decisions))

    def added(self, who: str) -> float:
        """What a proxy adds at p50, in milliseconds."""
        return self.milliseconds(who, 50.0) - self.milliseconds("upstream", 50.0)

    @property
    def met(self) -> bool:
        """Whether the gateway adds at most 3 ms."""
        return self.added("gateway") <= TARGET_MS

    def table(self) -> Table:
        """A line for everything that was called."""
        rows = {
            who: [self.milliseconds(who, 50.0), self.milliseconds(who, 99.0), self.added(who)]
            for who in self.seconds
        }
        return Table(
            title="Gateway",
            values={
                "calls": {
                    who: dict(zip(("p50_ms", "p99_ms", "added_ms"), found, strict=True))
                    for who, found in rows.items()
                },
                "decision_ms": self.decision_ms,
                "target_ms": TARGET_MS,
                "met": self.met,
                "notes": list(self.notes),
            },
            header=["called", "p50 ms", "p99 ms", "added at p50 ms"],
            rows=[[who, *(f"{value:.2f}" for value in found)] for who, found in rows.items()],
            remarks=[
                f"target: at most {TARGET_MS:g} ms are added at p50: {'met' if self.met else 'missed'}",
                f"without a service the decision takes {self.decision_ms:.2f} ms at p50 until it is on disk",
                *self.notes,
            ],
        )


def measure_gateway(calls: int = 400, litellm: str | os.PathLike[str] | None = None) -> GatewayTimings:
    """Time calls of an upstream itself, through the gateway, and through LiteLLM's proxy.

    Parameters
    ----------
    calls : int
        To each of them.
    litellm : path, optional
        A virtual environment with ``litellm[proxy]``; without it the proxy is left out.
    """
    notes = () if litellm is not None else (f"LiteLLM's proxy is not timed; {_HOW}",)
    if litellm is not None and not (Path(litellm) / _PROGRAM).is_file():
        raise InputError(f"{litellm} has no {_PROGRAM}; make the environment: {_HOW}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sigma-mem-bench-")))
        upstream = stack.enter_context(_instant_upstream())
        key = f"sk-{secrets.token_hex(16)}"  # LiteLLM's proxy does not start without one
        ports = {"upstream": ("instant", upstream)}
        ports["gateway"] = ("sigma-mem", stack.enter_context(_gateway(folder, upstream)))
        if litellm is not None:
            ports["litellm"] = ("pool", stack.enter_context(_litellm(folder, Path(litellm), upstream, key)))
        callers = {
            who: stack.enter_context(_caller(model, port, key)) for who, (model, port) in ports.items()
        }
        timed = callers | {_DECISION: stack.enter_context(_decider(folder))}
        for call in timed.values():  # connections, caches, first imports
            for _ in range(2 * _BLOCK):
                call()
        found: dict[str, list[float]] = {who: [] for who in timed}
        for start in range(0, calls, _BLOCK):
            for who, call in timed.items():
                found[who] += [call() for _ in range(min(_BLOCK, calls - start))]
    decisions = tuple(found.pop(_DECISION))
    return GatewayTimings({who: tuple(seconds) for who, seconds in found.items()}, decisions, notes)


@contextmanager
def _decider(folder: Path) -> Iterator[Callable[[], float]]:
    """The gateway's decision without a gateway; each call returns its seconds until it is on disk."""
    refs = count()
    with SigmaMem(list(_PEERS), folder / "alone.db", keep_text=False) as mem:

        def call() -> float:
            start = perf_counter()
            mem.route(_QUESTION["content"], among=_PEERS, explore=True, ref=f"call-{next(refs)}")
            mem.store.flush()
            return perf_counter() - start

        yield call


@contextmanager
def _caller(model: str, port: int, key: str) -> Iterator[Callable[[], float]]:
    """A client with one open connection; each call returns its seconds."""
    body = json.dumps({"model": model, "messages": [_QUESTION]})
    headers = {"content-type": "application/json", "authorization": f"Bearer {key}"}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60.0)

    def call() -> float:
        start = perf_counter()
        connection.request("POST", "/v1/chat/completions", body, headers)
        response = connection.getresponse()
        raw = response.read()
        seconds = perf_counter() - start
        if response.status != 200:
            raise SigmaMemError(f"{model} answered {response.status}: {raw[:300].decode(errors='replace')}")
        return seconds

    try:
        yield call
    finally:
        connection.close()


@contextmanager
def _instant_upstream() -> Iterator[int]:
    command = [sys.executable, str(Path(__file__).with_name("instant_upstream.py"))]
    with _process(command, stdout=subprocess.PIPE) as process:
        line = process.stdout.readline() if process.stdout else b""
        yield int(line)


@contextmanager
def _gateway(folder: Path, upstream: int) -> Iterator[int]:
    """Two peers behind ``sigma-mem serve``, with the memory in a file."""
    peers = "".join(
        f'[[upstreams]]\nname = "{name}"\nbase_url = "http://127.0.0.1:{upstream}/v1"\n' for name in _PEERS
    )
    config, port = folder / "sigma-mem.toml", _free_port()
    config.write_text(
        f'path = "{folder / "memory.db"}"\nport = {port}\nlog = "off"\n{peers}', encoding="utf-8"
    )
    main = "from sigma_mem.cli import main; main()"
    with _process([sys.executable, "-c", main, "serve", "--config", str(config)]) as process:
        _wait_for(process, port, "/readyz")
        yield port


@contextmanager
def _litellm(folder: Path, environment: Path, upstream: int, key: str) -> Iterator[int]:
    """The same two peers behind LiteLLM's proxy, as two deployments of one model."""
    target = {"model": "openai/instant", "api_base": f"http://127.0.0.1:{upstream}/v1", "api_key": "none"}
    config, port = folder / "litellm.yaml", _free_port()
    models = [{"model_name": "pool", "litellm_params": target | {"user": name}} for name in _PEERS]
    config.write_text(json.dumps({"model_list": models}), encoding="utf-8")  # JSON is YAML
    variables = os.environ | {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # no request to other hosts
        "LITELLM_MASTER_KEY": key,
        "PYTHONPATH": "",
    }
    command = [
        str(environment / _PROGRAM),
        "--config",
        str(config),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    with _process([*command, "--telemetry", "False"], env=variables) as process:
        _wait_for(process, port, "/health/liveliness")
        yield port


@contextmanager
def _process(
    command: list[str], stdout: int = subprocess.DEVNULL, env: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL, env=env)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


def _wait_for(process: subprocess.Popen[bytes], port: int, path: str) -> None:
    """Return once the server answers."""
    ends = time.monotonic() + _STARTS_WITHIN
    while time.monotonic() < ends:
        if process.poll() is not None:
            break
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5.0)
        try:
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except (OSError, http.client.HTTPException):
            time.sleep(0.1)
        finally:
            connection.close()
    raise SigmaMemError(f"{process.args!r:.200} did not start; run it yourself to see why")


def main() -> None:
    """Measure, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--calls", type=int, default=400, help="to each server")
    parser.add_argument("--litellm", help="a virtual environment with LiteLLM's proxy, to time it as well")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    table = measure_gateway(given.calls, given.litellm).table()
    if given.json:
        print_json(table.values)
    else:
        print_table(table.header, table.rows, list(table.remarks))


if __name__ == "__main__":
    main()
