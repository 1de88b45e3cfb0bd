"""The service under load, beside a bare endpoint of the same framework, in the same run.

This process is the load generator. It starts two servers: the service, on a SQLite file, and an application
with one endpoint that reads a JSON body and answers with a small one. Rates are taken with all connections
busy, in many short rounds of all kinds, and compared within a round, so that what a busy machine adds falls
on all; figures are medians over the rounds, without the first. Latencies are taken at half of that rate, sent
on schedule whether or not earlier answers came; p99 is the median over slices of each slice's own.

    python benchmarks/service.py [--seconds 0.5] [--rounds 20] [--json]
"""

import argparse
import asyncio
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from sigma_mem import Settings, SigmaMem

PEERS = ["gemma", "phi", "coder", "qwen"]
QUESTIONS = [f"What is {n} * {n + 7}, and which of its digits is the largest?" for n in range(200)]
ANSWERS = {"gemma": "391", "phi": "391", "coder": "381", "qwen": "391"}
LABELS = {"gemma": True, "phi": False}
SLICES = 5  # in which latencies are taken, of each kind in turn
SLICE = 4  # times as long as one measurement of a rate
CONNECTIONS = 16
WRITERS = 64  # connections that wait for the disk
SERVICE = "from sigma_mem.cli import main; main()"


class Connection(asyncio.Protocol):
    """One kept connection: sends bytes, and says when the whole response is there."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._done: asyncio.Future[bytes] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Collect until head and body are whole."""
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._buffer[:end]).lower()
        start = head.index(b"content-length:") + 15
        stop = head.find(b"\r\n", start)
        size = end + 4 + int(head[start : stop if stop > 0 else None])
        if len(self._buffer) < size:
            return
        response = bytes(self._buffer[:size])
        del self._buffer[:size]
        if not response.startswith(b"HTTP/1.1 200"):
            raise SystemExit(response.decode())
        if self._done is not None:
            self._done.set_result(response[end + 4 :])

    async def send(self, request: bytes) -> bytes:
        """The body of the response."""
        assert self._transport is not None
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._done

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()


class Server(NamedTuple):
    """Where a server listens, and its process."""

    port: int
    process: int


class Rate(NamedTuple):
    """Requests a second, and the server's processor seconds for one."""

    rate: float
    processor: float


def post(path: str, body: dict[str, Any]) -> bytes:
    """A request as bytes."""
    text = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return head.encode() + f"content-length: {len(text)}\r\n\r\n".encode() + text


async def connect(port: int, count: int) -> list[Connection]:
    """So many connections."""
    loop = asyncio.get_running_loop()
    made = [await loop.create_connection(Connection, "127.0.0.1", port) for _ in range(count)]
    return [protocol for _, protocol in made]


async def saturate(
    server: Server,
    requests: Callable[[], bytes | None],
    seconds: float,
    count: int,
    answered: Callable[[bytes], None] = lambda body: None,
) -> Rate:
    """The rate with every connection busy, until the time is over or there are no more requests."""
    connections = await connect(server.port, count)
    end, done = time.perf_counter() + seconds, 0

    async def work(connection: Connection) -> None:
        nonlocal done
        while time.perf_counter() < end and (request := requests()) is not None:
            answered(await connection.send(request))
            done += 1

    begun, computed = time.perf_counter(), processor_seconds(server.process)
    await asyncio.gather(*map(work, connections))
    took, computed = time.perf_counter() - begun, processor_seconds(server.process) - computed
    for connection in connections:
        connection.close()
    return Rate(done / took, computed / done)


async def at_rate(
    port: int, requests: Callable[[], bytes | None], rate: float, seconds: float
) -> list[float]:
    """Seconds from when each request was due until its response, at a given rate."""
    free = asyncio.Queue[Connection]()
    for connection in await connect(port, WRITERS):
        free.put_nowait(connection)
    latencies: list[float] = []
    tasks = set()

    async def one(due: float) -> None:
        connection = await free.get()
        request = requests()
        assert request is not None
        await connection.send(request)
        latencies.append(time.perf_counter() - due)
        free.put_nowait(connection)

    begun = time.perf_counter()
    for n in range(int(rate * seconds)):
        due = begun + n / rate
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        tasks.add(asyncio.create_task(one(due)))
    await asyncio.gather(*tasks)
    while not free.empty():
        free.get_nowait().close()
    return latencies


def bare() -> None:
    """The other server: one endpoint that reads a body and answers."""
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Task(BaseModel):
        question: str

    app = FastAPI()

    @app.post("/bare")
    async def endpoint(body: Task) -> dict[str, str]:
        return {"question": body.question}

    uvicorn.run(app, port=int(sys.argv[2]), log_level="error", access_log=False)


def processor_seconds(process: int) -> float:
    """What all threads of a process have computed so far; NaN where the system does not say."""
    try:
        files = list(Path(f"/proc/{process}/task").glob("*/schedstat"))
        return sum(int(file.read_text().split()[0]) for file in files) / 1e9 if files else math.nan
    except OSError:  # a thread ended meanwhile
        return processor_seconds(process)


@contextmanager
def server(*command: str) -> Iterator[int]:
    """A server in a process of its own; gives its number."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL, env=environment)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait(30)


def wait_for(port: int) -> None:
    """Return once a port is listened on."""
    import socket

    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit(f"nothing listens on port {port}")


def free_port() -> int:
    """A port that nobody listens on."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


class InProcess:
    """A memory without a service, on a SQLite file, that decides as the service's does and has labels too."""

    def __init__(self, folder: str) -> None:
        settings, self._questions = Settings(trusted=("default",)), cycle(QUESTIONS)
        self.mem = SigmaMem(PEERS, os.path.join(folder, "here.db"), settings=settings, keep_text=False)
        for _ in range(200):
            self.mem.feedback(self.mem.route(next(self._questions)), LABELS, wait=False)

    def route(self, seconds: float) -> Rate:
        """How many routes a second, and processor seconds of one."""
        return self._rate(lambda question: self.mem.route(question), seconds)

    def decide(self, seconds: float) -> Rate:
        """How many decisions a second, and processor seconds of one."""
        return self._rate(lambda question: self.mem.decide(question, ANSWERS), seconds)

    def _rate(self, call: Callable[[str], object], seconds: float) -> Rate:
        done, begun, computed = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - begun < seconds:
            call(next(self._questions))
            done += 1
        return Rate(done / (time.perf_counter() - begun), (time.process_time() - computed) / done)


@dataclass(frozen=True)
class Found:
    """What was measured: rates a second, ratios, milliseconds."""

    bare: float
    route: float
    decide: float
    feedback: float
    route_in_process_ms: float
    decide_in_process_ms: float
    route_of_bare: float
    route_of_bare_without_service: float
    decide_beyond_in_bare_calls: float
    bare_processor_us: float
    route_processor_us: float
    decide_processor_us: float
    route_in_process_processor_us: float
    decide_in_process_processor_us: float
    feedback_processor_us: float
    route_of_bare_by_processor: float
    route_of_bare_without_service_by_processor: float
    decide_beyond_in_bare_calls_by_processor: float
    bare_p50_ms: float
    bare_p99_ms: float
    route_p50_ms: float
    route_p99_ms: float
    decide_p50_ms: float
    decide_p99_ms: float
    feedback_p50_ms: float
    feedback_p99_ms: float


async def measure(service: Server, other: Server, folder: str, seconds: float, rounds: int) -> Found:
    """Rates in turns, then latencies at half of them."""
    questions = cycle(QUESTIONS)
    at = "/v1/memory/bench"
    (first,) = await connect(service.port, 1)
    made = post(at, {"peers": PEERS})
    await first.send(b"PUT" + made[4:])

    def bare_request() -> bytes:
        return post("/bare", {"question": next(questions)})

    def route_request() -> bytes:
        return post(f"{at}/route", {"question": next(questions)})

    def decide_request() -> bytes:
        return post(f"{at}/decide", {"question": next(questions), "answers": ANSWERS})

    unlabelled: deque[str] = deque()

    def keep(body: bytes) -> None:
        unlabelled.append(json.loads(body)["id"])

    def feedback_request() -> bytes | None:
        if not unlabelled:
            return None
        return post(f"{at}/feedback", {"decision": unlabelled.popleft(), "labels": LABELS})

    turns, alone = [], InProcess(folder)
    for _ in range(rounds + 1):
        turn = (
            await saturate(other, bare_request, seconds, CONNECTIONS),
            await saturate(service, route_request, seconds, CONNECTIONS, keep),
            await saturate(service, decide_request, seconds, CONNECTIONS),
            alone.decide(seconds),
            await saturate(service, feedback_request, seconds, WRITERS),
            alone.route(seconds),
        )
        turns.append(turn)
    alone.mem.close()
    del turns[0]
    middle = [statistics.median(each.rate for each in column) for column in zip(*turns, strict=True)]
    computed = [statistics.median(each.processor for each in column) for column in zip(*turns, strict=True)]
    while len(unlabelled) < SLICES * SLICE * seconds * middle[4] / 2 + SLICES:
        await saturate(service, route_request, seconds, CONNECTIONS, keep)
    slices: dict[str, list[tuple[float, float]]] = {}
    for _ in range(SLICES):
        for name, port, requests, rate in (
            ("bare", other, bare_request, middle[0]),
            ("route", service, route_request, middle[1]),
            ("decide", service, decide_request, middle[2]),
            ("feedback", service, feedback_request, middle[4]),
        ):
            found = sorted(await at_rate(port.port, requests, rate / 2, SLICE * seconds))
            kept = 1000 * statistics.median(found), 1000 * found[int(0.99 * len(found))]
            slices.setdefault(name, []).append(kept)
    ms = {
        name: [statistics.median(column) for column in zip(*each, strict=True)]
        for name, each in slices.items()
    }
    first.close()
    return Found(
        bare=middle[0],
        route=middle[1],
        decide=middle[2],
        feedback=middle[4],
        route_in_process_ms=1000 / middle[5],
        decide_in_process_ms=1000 / middle[3],
        route_of_bare=statistics.median(turn[1].rate / turn[0].rate for turn in turns),
        route_of_bare_without_service=statistics.median(1 / (1 + t[0].rate / t[5].rate) for t in turns),
        decide_beyond_in_bare_calls=statistics.median(
            (1 / t[2].rate - 1 / t[3].rate) * t[0].rate for t in turns
        ),
        bare_processor_us=1e6 * computed[0],
        route_processor_us=1e6 * computed[1],
        decide_processor_us=1e6 * computed[2],
        route_in_process_processor_us=1e6 * computed[5],
        decide_in_process_processor_us=1e6 * computed[3],
        feedback_processor_us=1e6 * computed[4],
        route_of_bare_by_processor=statistics.median(t[0].processor / t[1].processor for t in turns),
        route_of_bare_without_service_by_processor=statistics.median(
            t[0].processor / (t[0].processor + t[5].processor) for t in turns
        ),
        decide_beyond_in_bare_calls_by_processor=statistics.median(
            (t[2].processor - t[3].processor) / t[0].processor for t in turns
        ),
        bare_p50_ms=ms["bare"][0],
        bare_p99_ms=ms["bare"][1],
        route_p50_ms=ms["route"][0],
        route_p99_ms=ms["route"][1],
        decide_p50_ms=ms["decide"][0],
        decide_p99_ms=ms["decide"][1],
        feedback_p50_ms=ms["feedback"][0],
        feedback_p99_ms=ms["feedback"][1],
    )


def show(found: Found) -> None:
    """Print what was measured beside what is wanted."""
    print(f"{'':10}{'rate a second':>15}{'p50 at half':>13}{'p99 at half':>13}{'processor, µs':>16}")
    for name in ("bare", "route", "decide", "feedback"):
        values = asdict(found)
        middle, most = values[f"{name}_p50_ms"], values[f"{name}_p99_ms"]
        used = values[f"{name}_processor_us"]
        print(f"{name:10}{values[name]:15.0f}{middle:10.2f} ms{most:10.2f} ms{used:16.0f}")
    for what, value, wanted, good in (
        (
            "route, of the bare rate",
            f"{found.route_of_bare:.0%}",
            f"60 % at least; a bare call and the {found.route_in_process_ms:.2f} ms in process, with nothing "
            f"between them, would be {found.route_of_bare_without_service:.0%}",
            found.route_of_bare >= 0.6,
        ),
        (
            f"decide beyond the {found.decide_in_process_ms:.2f} ms in process, in bare calls",
            f"{found.decide_beyond_in_bare_calls:.2f}",
            "1.3 at most",
            found.decide_beyond_in_bare_calls <= 1.3,
        ),
        (
            "p99 at half of saturation",
            f"{max(found.route_p99_ms, found.decide_p99_ms, found.feedback_p99_ms):.1f} ms",
            "under 20 ms",
            max(found.route_p99_ms, found.decide_p99_ms, found.feedback_p99_ms) < 20.0,
        ),
        ("durable feedback a second", f"{found.feedback:.0f}", "1,000 at least", found.feedback >= 1000),
    ):
        print(f"{what}: {value} (wanted: {wanted}{'' if good else '; MISSED'})")
    print(
        "by the servers' processor time, which other work on the machine changes less than the rates: route "
        f"{found.route_of_bare_by_processor:.0%} of bare where a bare call and the "
        f"{found.route_in_process_processor_us / 1000:.2f} ms in process would be "
        f"{found.route_of_bare_without_service_by_processor:.0%}, decide beyond the "
        f"{found.decide_in_process_processor_us / 1000:.2f} ms in process "
        f"{found.decide_beyond_in_bare_calls_by_processor:.2f} bare calls"
    )


def main() -> None:
    """Start both servers, measure, print."""
    if sys.argv[1:2] == ["bare"]:
        bare()
        return
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=float, default=0.5)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        service, other = free_port(), free_port()
        memory = os.path.join(folder, "memory.db")
        flags = ("--port", str(service), "--path", memory, "--no-access-log")
        with (
            server("-c", SERVICE, "serve", *flags) as first,
            server(__file__, "bare", str(other)) as second,
        ):
            wait_for(service)
            wait_for(other)
            measured = measure(
                Server(service, first), Server(other, second), folder, given.seconds, given.rounds
            )
            found = asyncio.run(measured)
    if given.json:
        print(json.dumps(asdict(found)))
    else:
        show(found)


if __name__ == "__main__":
    main()
