"""What one tenant at its worst does to another: latency, compared with an equal, well-behaved load.

A service has two namespaces. One tenant routes and gives feedback at a fixed rate. Meanwhile, from a process
of its own, so many loops of the other tenant do one thing as fast as they can: each attack in turn, and right
before it the same as the first tenant, which is the load to compare with on a machine that others use too.

    python benchmarks/tenants.py [--seconds 5] [--loops 4] [--rate 60] [--rounds 2] [--only NAME,…] [--json]
"""

import argparse
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from load import free_port, server, wait_for

from sigma_mem import Settings, SigmaMem
from sigma_mem.serve.keys import add_key

EQUAL = "well-behaved"
GRANTS = {
    "root": {"*": "admin"},
    "other": {"a": "admin", "c": "admin"},
    "reader": {"a": "read"},
    "tenant": {"b": "write"},
}
_LEAST, _LONGEST = 60, 4.0  # requests, and times the seconds asked for, after which a measurement may end
EVENTS = 3000  # in the other tenant's memory, for searches


class Caller:
    """One kept connection of a key."""

    def __init__(self, port: int, key: str | None) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = {"content-type": "application/json"}
        if key is not None:
            self._headers["authorization"] = f"Bearer {key}"

    def send(self, verb: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Status and body of the response; 0 if the connection was closed."""
        try:
            self._connection.request(verb, path, body, self._headers)
            response = self._connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return 0, b""

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        """The same, with JSON."""
        return self.send("POST", f"/v1/memory/{path}", json.dumps(body).encode())


class Attack(NamedTuple):
    """Whose key it uses, and what is done again and again."""

    key: str | None
    once: Callable[[Caller], int]


def work(namespace: str) -> Callable[[Caller], int]:
    """Route, and give feedback: two requests."""

    def once(caller: Caller) -> int:
        status, body = caller.post(f"{namespace}/route", {"question": "What is 17 * 23?"})
        if status != 200:
            return status
        labels = {"decision": json.loads(body)["id"], "labels": {"p": True, "q": False}}
        return caller.post(f"{namespace}/feedback", labels)[0]

    return once


def posted(path: str, **body: Any) -> Callable[[Caller], int]:
    """One request, made once and sent again and again."""
    raw = json.dumps(body).encode()
    return lambda caller: caller.send("POST", f"/v1/memory/{path}", raw)[0]


def slow(port: int, key: str, stop: Callable[[], bool]) -> None:
    """Connections that never finish their headers or, with a key, their body."""
    head = b"POST /v1/memory/a/route HTTP/1.1\r\nHost: localhost\r\n"
    if key:
        head += b"Authorization: Bearer %b\r\nContent-Length: 100000\r\n\r\n" % key.encode()
    else:
        head += b"X-A: "
    sockets = []
    for _ in range(300):
        with suppress(OSError):
            made = socket.create_connection(("127.0.0.1", port))
            made.sendall(head)
            sockets.append(made)
    while not stop():
        for made in sockets:
            with suppress(OSError):
                made.sendall(b"a")
        time.sleep(0.5)


_POOL = [f"{n:x}" for n in range(400)]
_RANK = json.dumps({"peers": [f"p{n}" for n in range(24)], "rank": 1024}).encode()
_BODY = b'{"answers":{' + b",".join(b'"%x":null' % n for n in range(300_000)) + b"}}"
ATTACKS = {
    EQUAL: Attack("other", work("a")),
    "6000 answers of unknown peers": Attack(
        "other", posted("a/decide", question="x", answers={f"k{n}": chr(97 + n % 26) for n in range(6000)})
    ),
    "searches by a read-only key": Attack(
        "reader", lambda caller: caller.send("GET", "/v1/memory/a/decisions?text=zzz&last=1000")[0]
    ),
    "4 MB without a key": Attack(None, lambda caller: caller.send("POST", "/v1/memory/b/decide", _BODY)[0]),
    "4 MB with a key": Attack("other", lambda caller: caller.send("POST", "/v1/memory/a/decide", _BODY)[0]),
    "requests without a key": Attack(None, lambda caller: caller.send("GET", "/v1/memory")[0]),
    "300 slow connections": Attack(None, lambda caller: 0),  # see `slow`
    "asks with 1 MB of question": Attack("other", posted("a/ask", question="y " * 500_000)),
    "a memory of rank 1024": Attack("other", lambda caller: caller.send("PUT", "/v1/memory/a", _RANK)[0]),
    "decisions over 400 peers": Attack(
        "other",
        lambda caller: caller.post("c/decide", {"question": "x", "answers": dict.fromkeys(_POOL, "x")})[0],
    ),
    "300 bodies that never end": Attack("other", lambda caller: 0),  # see `slow`
    "routes of long questions": Attack("other", posted("a/route", question="word " * 100_000)),
}


def attack(port: int, name: str, key: str, loops: int) -> None:
    """Do one thing in so many loops until a signal; print what came back."""
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    seen: Counter[int] = Counter()

    def loop() -> None:
        caller = Caller(port, key or None)
        while not stopped.is_set():
            seen[ATTACKS[name].once(caller)] += 1

    if name.startswith("300 "):
        threads = [threading.Thread(target=slow, args=(port, key, stopped.is_set))]
    else:
        threads = [threading.Thread(target=loop) for _ in range(loops)]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    for thread in threads:
        thread.join()
    print(json.dumps(seen), flush=True)


@contextmanager
def attacked(port: int, name: str, key: str, loops: int, seen: Counter[str]) -> Iterator[None]:
    """The attack from a process of its own; adds up what it got."""
    command = [sys.executable, __file__, "--attack", name, "--port", str(port), "--loops", str(loops)]
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={**os.environ, "KEY": key}, text=True
    )
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield
    finally:
        process.terminate()
        seen.update(json.loads(process.communicate(timeout=120)[0] or "{}"))


def latencies(port: int, key: str, rate: float, seconds: float) -> list[float]:
    """Seconds that each route with its feedback took."""
    caller, once = Caller(port, key), work("b")
    found: list[float] = []
    begun = time.perf_counter()
    for n in range(int(rate * seconds)):
        due = begun + n / rate
        if len(found) >= _LEAST and time.perf_counter() > begun + _LONGEST * seconds:
            break  # a machine, or a service, that is much too slow
        time.sleep(max(0.0, due - time.perf_counter()))
        begin = time.perf_counter()  # one late answer counts once, not for all that follow
        if once(caller) != 200:
            raise SystemExit("the tenant was refused")
        found.append(time.perf_counter() - begin)
    return found


def p99(found: list[float]) -> float:
    """The 99th percentile in milliseconds."""
    return 1e3 * statistics.quantiles(found, n=100)[98]


def measure(seconds: float, loops: int, rate: float, rounds: int, names: list[str]) -> list[dict[str, Any]]:
    """Latencies of the tenant during every attack, and during the equal load before it."""
    with tempfile.TemporaryDirectory(prefix="sigma-mem-tenants-") as folder:
        keys = {name: add_key(Path(folder) / "keys.json", name, of, 0.0) for name, of in GRANTS.items()}
        port = free_port()
        config = Path(folder) / "sigma-mem.toml"
        config.write_text(
            f'port = {port}\npath = "{folder}/memory.db"\nkeys = "{folder}/keys.json"\naccess_log = false\n'
        )
        with SigmaMem(
            ["p", "q"], f"{folder}/memory.db", namespace="a", keep_text=False, settings=Settings(trusted=())
        ) as mem:
            for _ in range(EVENTS):
                mem.feedback(mem.route("What is 17 * 23?"), {"p": True}, wait=False)
        found: dict[str, list[float]] = {name: [] for name in names}
        equal: dict[str, list[float]] = {name: [] for name in names}
        seen: dict[str, Counter[str]] = {name: Counter() for name in names}
        with server("-m", "sigma_mem", "serve", "--config", str(config)):
            wait_for(port)
            made = json.dumps({"peers": ["p", "q"]}).encode()
            Caller(port, keys["root"]).send("PUT", "/v1/memory/b", made)
            large = json.dumps({"peers": _POOL, "encoder": "hashed"}).encode()
            Caller(port, keys["root"]).send("PUT", "/v1/memory/c", large)
            latencies(port, keys["tenant"], rate, 1.0)
            for name in names * rounds:
                for load, taken in ((EQUAL, equal[name]), (name, found[name])):
                    key, counts = keys.get(ATTACKS[load].key or "", ""), Counter[str]()
                    with attacked(port, load, key, loops, counts):
                        time.sleep(0.3)
                        taken += latencies(port, keys["tenant"], rate, seconds)
                seen[name].update(counts)  # of the attack
                print(
                    f"{name}: {p99(equal[name]):.0f}, {p99(found[name]):.0f} ms", file=sys.stderr, flush=True
                )
        return [
            {
                "load": name,
                "p50_ms": round(1e3 * statistics.median(found[name]), 1),
                "p99_ms": round(p99(found[name]), 1),
                "equal_p99_ms": round(p99(equal[name]), 1),
                "ratio": round(p99(found[name]) / p99(equal[name]), 2),
                "requests": dict(seen[name]),
            }
            for name in names
        ]


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--loops", type=int, default=4)
    parser.add_argument("--rate", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--attack", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.attack:
        attack(given.port, given.attack, os.environ["KEY"], given.loops)
        return
    names = [n for n in ATTACKS if not given.only or n in given.only.split(",")]
    rows = measure(given.seconds, given.loops, given.rate, given.rounds, names)
    if given.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'load':32} {'p50 ms':>8} {'p99 ms':>8} {'equal':>8} {'ratio':>8}  statuses")
    for row in rows:
        numbers = " ".join(f"{row[name]:8}" for name in ("p50_ms", "p99_ms", "equal_p99_ms", "ratio"))
        print(f"{row['load']:32} {numbers}  {row['requests']}")


if __name__ == "__main__":
    main()
