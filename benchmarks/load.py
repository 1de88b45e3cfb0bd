"""A load generator: requests on kept connections, as many as go or at a given rate, and servers for them."""

import asyncio
import functools
import json
import math
import mmap
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

WRITERS = 64  # connections that wait for the disk
_TIMES = struct.Struct("2d")


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


class CallClock:
    """Seconds and processor seconds that a server spends in calls of its memory; others read them too."""

    def __init__(self, path: str) -> None:
        with open(path, "ab") as file:
            file.truncate(_TIMES.size)
        with open(path, "r+b") as file:
            self._map = mmap.mmap(file.fileno(), _TIMES.size)

    def read(self) -> tuple[float, float]:
        """Both so far."""
        seconds, processor = _TIMES.unpack(self._map)
        return seconds, processor

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, whose time is added."""

        @functools.wraps(call)  # the service makes paths of names
        def run(*args: Any, **options: Any) -> Any:
            begun, computed = time.perf_counter(), time.thread_time()
            try:
                return call(*args, **options)
            finally:
                seconds, processor = self.read()
                seconds += time.perf_counter() - begun
                processor += time.thread_time() - computed
                self._map[:] = _TIMES.pack(seconds, processor)

        return run


class Server(NamedTuple):
    """Where a server listens, its process, and the clock of what it calls, if it has one."""

    port: int
    process: int
    clock: CallClock | None = None


class Rate(NamedTuple):
    """Requests a second; of one, the server's processor seconds, and what is beyond the call of the memory.

    Beyond it are seconds with all connections busy, and processor seconds of the thread that serves. Other
    threads write to the disk, as they do without a service.
    """

    rate: float
    processor: float
    beyond: float = 0.0
    beyond_processor: float = 0.0


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

    before = used(server)
    await asyncio.gather(*map(work, connections))
    took, computed, serving, called, calling = (
        (now - then) / done for now, then in zip(used(server), before, strict=True)
    )
    for connection in connections:
        connection.close()
    return Rate(1.0 / took, computed, took - called, serving - calling)


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


def used(server: Server) -> tuple[float, ...]:
    """The time, what a server's threads and the first of them have computed, what its memory's calls took."""
    called = (0.0, 0.0) if server.clock is None else server.clock.read()
    return time.perf_counter(), *processor_seconds(server.process), *called


def processor_seconds(process: int) -> tuple[float, float]:
    """What all threads of a process and the first one have computed; NaN if the system does not report it."""
    try:
        files = Path(f"/proc/{process}/task").glob("*/schedstat")
        threads = {file.parent.name: int(file.read_text().split()[0]) / 1e9 for file in files}
    except OSError:  # a thread ended meanwhile
        return processor_seconds(process)
    return (sum(threads.values()), threads[str(process)]) if threads else (math.nan, math.nan)


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
