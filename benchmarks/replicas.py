"""How many ledger lines a second several writers append: SQLite, PostgreSQL, one process and two.

A writer decides and gives durable feedback, again and again: two lines each time. The same writers run on a
SQLite file, on PostgreSQL in one process, in two processes on one namespace, and in two processes on a
namespace each, in turns; ratios are within a turn.

    python benchmarks/replicas.py [--url postgresql://…] [--seconds 3] [--rounds 3] [--peers 3] [--json]

Without an address it starts a server from the wheel that the tests use, with everything synced to the disk.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path

import numpy as np

from sigma_mem import SigmaMem

RANK = 64
WRITERS = (1, 4, 16)
SQLITE = "SQLite, 1 process"
WAYS = {  # processes, and whether each has a namespace of its own
    SQLITE: (1, False),
    "PostgreSQL, 1 process": (1, False),
    "PostgreSQL, 2 processes": (2, False),
    "PostgreSQL, 2 processes, a namespace each": (2, True),
}


@dataclass
class Measured:
    """One way of writing, with so many writers: medians over rounds."""

    way: str
    writers: int
    lines_a_second: float
    feedback_p50_ms: float
    processor_us_a_line: float  # of all writing processes, without the server
    beside_sqlite: float


def work(path: str, namespace: str, writers: int, seconds: float, peers: int) -> None:
    """One process: write from so many threads, then print how many lines and how long feedback took."""
    mem = SigmaMem([f"peer{n}" for n in range(peers)], path, namespace=namespace, rank=RANK)
    mem.feedback(mem.route(phi=np.eye(RANK)[0]).id, {"peer0": True})
    print("ready", flush=True)
    sys.stdin.readline()
    end, took, lines = time.perf_counter() + seconds, [], [0] * writers

    def write(n: int) -> None:
        rng = np.random.default_rng(n)
        while time.perf_counter() < end:
            phi = rng.normal(size=RANK)
            decision = mem.route(phi=phi / np.linalg.norm(phi))
            start = time.perf_counter()
            mem.feedback(decision.id, {"peer0": True, "peer1": bool(rng.integers(2))})
            took.append(time.perf_counter() - start)
            lines[n] += 2

    threads = [threading.Thread(target=write, args=[n]) for n in range(writers)]
    start, busy = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    rate = sum(lines) / (time.perf_counter() - start)
    print(json.dumps([rate, statistics.median(took), time.process_time() - busy, sum(lines)]), flush=True)
    mem.close()


def run(
    name: str, path: str, processes: int, apart: bool, writers: int, options: argparse.Namespace
) -> tuple[float, float, float]:
    """Lines a second of all processes, the median time of durable feedback, processor time a line."""
    share = max(writers // processes, 1)
    started = []
    for n in range(min(processes, writers)):
        arguments = ["--work", path, f"{name}-{n if apart else 0}", str(share)]
        arguments += ["--seconds", str(options.seconds), "--peers", str(options.peers)]
        command = [sys.executable, __file__, *arguments]
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    found = [json.loads(process.communicate()[0]) for process in started]
    rates, took, busy, lines = zip(*found, strict=True)
    return sum(rates), statistics.median(took), sum(busy) / sum(lines)


@contextmanager
def database(url: str | None) -> Iterator[str]:
    """The address of a database."""
    if url is not None:
        yield url
        return
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    server = import_module("postgres_server").PostgresServer(fsync="on")
    try:
        yield server.url("bench")
    finally:
        server.close()


def measure(options: argparse.Namespace) -> list[Measured]:
    """Every way with every number of writers, in turns."""
    found = []
    with database(options.url) as url, tempfile.TemporaryDirectory() as folder:
        for writers in WRITERS:
            rounds: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
            for n in range(options.rounds):
                for way, (processes, apart) in WAYS.items():
                    if processes <= writers:
                        path = f"{folder}/{writers}-{n}.db" if way == SQLITE else url
                        rounds[way].append(
                            run(f"{writers}-{n}-{way}", path, processes, apart, writers, options)
                        )
            for way, results in rounds.items():
                if results:
                    pairs = zip(results, rounds[SQLITE], strict=True)
                    ratio = statistics.median(mine[0] / sqlite[0] for mine, sqlite in pairs)
                    rate, took, busy = (statistics.median(result[k] for result in results) for k in range(3))
                    found.append(Measured(way, writers, rate, 1e3 * took, 1e6 * busy, ratio))
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        path, namespace, writers = options.work
        work(path, namespace, int(writers), options.seconds, options.peers)
        return
    rows = measure(options)
    if options.json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    print(
        f"{'':42} {'writers':>7} {'lines/s':>8} {'feedback p50':>13} {'processor/line':>14} {'of SQLite':>10}"
    )
    for row in rows:
        took, busy = f"{row.feedback_p50_ms:.1f} ms", f"{row.processor_us_a_line:.0f} µs"
        print(
            f"{row.way:42} {row.writers:7} {row.lines_a_second:8.0f} {took:>13} {busy:>14} "
            f"{row.beside_sqlite:10.2f}"
        )


if __name__ == "__main__":
    main()
