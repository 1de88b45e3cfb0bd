"""A gateway over three upstreams that misbehave, while its store is stopped and started.

One upstream is slow, one answers 15 % of its calls with 429 or 500, and one breaks halfway: from then on it
cuts every answer in the middle. One request in ten is a vote, which asks all three. Clients label one routed
answer in ten. The store is away for a fifth of the time.

    python benchmarks/misbehaving.py --requests 2000

prints what clients saw, and compares it with the ledger and the dashboard's overview. It exits with 1 if a
request failed, if the ledger is not what clients were told, if no alarm names the broken upstream, or if the
overview does not show all of it.
"""

import argparse
import json
import os
import random
import socket
import tempfile
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2 as httpx
import uvicorn

from sigma_mem import SigmaMem
from sigma_mem.serve import ServerConfig, Upstream, create_app
from sigma_mem.serve.config import Webhook

_CLIENTS = 8
_SECRET = "SIGMA_MEM_BENCH_SECRET"


@dataclass
class Report:
    """What clients saw, and how the ledger compares."""

    seconds: float = 0.0
    latencies: dict[str, list[float]] = field(default_factory=dict)  # by mark
    statuses: Counter[int] = field(default_factory=Counter)
    served: Counter[str] = field(default_factory=Counter)
    marks: Counter[str] = field(default_factory=Counter)  # of responses: recorded, queued, dropped
    labels: int = 0
    unlabelled: int = 0  # feedback that was refused to the end
    only_told: int = 0  # decisions that clients have and the ledger has not
    only_kept: int = 0  # the other way round
    other_peer: int = 0
    other_labels: int = 0
    alarms: list[str] = field(default_factory=list)
    unseen: list[str] = field(default_factory=list)  # what the overview does not show

    @property
    def faults(self) -> list[str]:
        """What should not be."""
        found = {
            "requests failed": sum(n for status, n in self.statuses.items() if status != 200),
            "decisions only clients know": self.only_told,
            "decisions only the ledger knows": self.only_kept,
            "decisions with another peer": self.other_peer,
            "labels differ": self.other_labels,
            "feedback refused to the end": self.unlabelled,
            "no alarm names the broken upstream": "circuit breaks" not in self.alarms,
            "not on the overview": self.unseen,
        }
        return [f"{name}: {count}" for name, count in found.items() if count]


def measure(
    path: str, stop: Callable[[], object], start: Callable[[], object], requests: int, seed: int = 0
) -> Report:
    """Send requests; the store is stopped after two fifths of them, and started after three fifths."""
    report, broken, said = Report(), threading.Event(), []
    os.environ[_SECRET] = b64encode(b"only for this run").decode()
    with ExitStack() as stack:
        peers = [
            Upstream(name, stack.enter_context(_serving(behave)) + "/v1", timeout=5.0)
            for name, behave in _behaviours(broken, seed).items()
        ]

        def told_of(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
            said.append(body)
            _send(handler, 204, {})

        hook = stack.enter_context(_serving(told_of))
        config = ServerConfig(
            path=path,
            upstreams=tuple(peers),
            encoder="hashed",
            log="off",
            webhooks=(Webhook(hook, _SECRET),),
        )
        url = stack.enter_context(_service(config))
        http = stack.enter_context(httpx.Client(base_url=url, timeout=60.0))
        began = time.monotonic()
        events = {2 * requests // 5: stop, requests // 2: broken.set, 3 * requests // 5: start}
        told = _play(http, report, requests, events, seed)
        _until(lambda: "sigma_mem_store_up 1.0" in http.get("/metrics").text)
        for id, right in [(id, right) for id, (_, right) in told.items() if right is not None]:
            taken = http.post("/v1/feedback", json={"id": id, "score": float(right)})  # the same again
            report.labels += taken.is_success
            report.unlabelled += not taken.is_success
        report.seconds = time.monotonic() - began
        report.unseen = _unseen(http.get("/v1/memory/default/overview").json(), requests, told)
    report.alarms = [f"{body['data']['kind']} {body['data']['about']}".strip() for body in said]
    _compare(path, report, told)
    return report


def _unseen(page: dict[str, Any], requests: int, told: Mapping[str, tuple[str, bool | None]]) -> list[str]:
    """What of the afternoon the overview does not have."""
    memory, service = page["memory"], page["service"]
    upstreams, served = service["upstreams"], Counter(peer for peer, _ in told.values())
    labels = [right for _, right in told.values() if right is not None]
    alarms = {(alarm["kind"], alarm["about"]) for alarm in service["alarms"]}
    shown = {
        "every request": service["requests"] >= requests,
        "every decision": memory["total"]["events"] == len(told),
        "who served": {name: each["events"] for name, each in memory["peers"].items()} == served,
        "every label": (memory["total"]["right"], memory["total"]["wrong"])
        == (sum(labels), len(labels) - sum(labels)),
        "the slow upstream": upstreams["slow"]["median"] > upstreams["flaky"]["median"],
        "the flaky upstream": upstreams["flaky"]["limited"] + upstreams["flaky"]["failed"] > 0,
        "the broken upstream": upstreams["breaks"]["failed"] > 0 and ("circuit", "breaks") in alarms,
        "the store": ("store", "") in alarms,
    }
    return [name for name, holds in shown.items() if not holds]


def _play(
    http: httpx.Client, report: Report, requests: int, events: dict[int, Callable[[], object]], seed: int
) -> dict[str, tuple[str, bool | None]]:
    """The responses that are or will be in the ledger: id → peer, and the label that was sent."""
    told: dict[str, tuple[str, bool | None]] = {}
    labelled = random.Random(seed)
    with ThreadPoolExecutor(_CLIENTS) as clients:
        running: list[Future[None]] = []
        for number in range(requests):
            if number in events:
                for each in running:
                    each.result()
                running = []
                events[number]()
            model = "sigma-mem/vote" if number % 10 == 0 else "sigma-mem"
            labels = model == "sigma-mem" and labelled.random() < 0.1
            running.append(clients.submit(_ask, http, number, model, labels, report, told))
        for each in running:
            each.result()
    return told


def _ask(
    http: httpx.Client,
    number: int,
    model: str,
    labels: bool,
    report: Report,
    told: dict[str, tuple[str, bool | None]],
) -> None:
    body = {"model": model, "messages": [{"role": "user", "content": f"What is {number} + 1?"}]}
    began = time.monotonic()
    response = http.post("/v1/chat/completions", json=body)
    seconds = time.monotonic() - began
    report.statuses[response.status_code] += 1
    if response.status_code != 200:
        return
    mark, found = response.headers.get("x-sigma-mem-unrecorded", "recorded"), response.json()
    report.marks[mark] += 1
    report.latencies.setdefault(mark, []).append(seconds)
    report.served[found["model"]] += 1
    if mark == "dropped":
        return
    right = found["choices"][0]["message"]["content"] == str(number + 1)
    told[found["id"]] = (found["model"], right if labels else None)
    if labels and mark == "recorded":
        http.post("/v1/feedback", json={"id": found["id"], "score": float(right)})


def _compare(path: str, report: Report, told: dict[str, tuple[str, bool | None]]) -> None:
    with SigmaMem(path=path, readonly=True) as mem:
        kept = {decision.ref: decision for decision in mem.decisions()}
    report.only_told, report.only_kept = len(set(told) - set(kept)), len(set(kept) - set(told))
    for id in set(told) & set(kept):
        peer, right = told[id]
        decision = kept[id]
        report.other_peer += (decision.served or decision.peer) != peer
        report.other_labels += dict(decision.labels) != (
            {} if right is None else {peer: 1.0 if right else -1.0}
        )


# ---- upstreams, webhook and service, on loopback

Behave = Callable[[BaseHTTPRequestHandler, dict[str, Any]], object]


def _behaviours(broken: threading.Event, seed: int) -> dict[str, Behave]:
    rng = random.Random(seed)

    def answer(body: dict[str, Any], right: float) -> dict[str, Any]:
        number = int(body["messages"][-1]["content"].split()[2])
        said = number + 1 if rng.random() < right else number
        message = {"role": "assistant", "content": str(said)}
        return {"id": "x", "object": "chat.completion", "choices": [{"index": 0, "message": message}]}

    def slow(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        time.sleep(rng.uniform(0.05, 0.25))
        _send(handler, 200, answer(body, 0.9))

    def flaky(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        if rng.random() < 0.15:
            _send(handler, rng.choice([429, 500]), {"error": "not now"})
        else:
            _send(handler, 200, answer(body, 0.8))

    def breaks(handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        _send(handler, 200, answer(body, 0.95), cut=broken.is_set())

    return {"slow": slow, "flaky": flaky, "breaks": breaks}


def _send(handler: BaseHTTPRequestHandler, status: int, body: dict[str, Any], cut: bool = False) -> None:
    raw = json.dumps(body).encode() if status != 204 else b""
    handler.send_response(status)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(raw)))
    if status == 429:
        handler.send_header("retry-after", "1")
    handler.end_headers()
    handler.wfile.write(raw[: len(raw) // 2] if cut else raw)
    handler.close_connection = cut


@contextmanager
def _serving(behave: Behave) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            behave(self, json.loads(self.rfile.read(int(self.headers["content-length"]))))

        def log_message(self, *arguments: object) -> None:
            """Nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Nothing: the gateway hung up."""

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@contextmanager
def _service(config: ServerConfig) -> Iterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(create_app(config), log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    _until(lambda: server.started)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(30.0)
    listening.close()


def _until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise SystemExit("the service did not start, or its store did not come back")
        time.sleep(0.05)


def main() -> None:
    """Measure on a file that is moved away and back, and print the report."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--requests", type=int, default=2000)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file, away = Path(folder) / "memory.db", Path(folder) / "away.db"
        report = measure(
            str(file), lambda: file.rename(away), lambda: away.rename(file), given.requests, given.seed
        )
    print(f"{given.requests} requests in {report.seconds:.0f} s")
    for mark, seconds in report.latencies.items():
        p50, p99 = (sorted(seconds)[int(share * (len(seconds) - 1))] for share in (0.5, 0.99))
        print(f"{mark}: p50 {p50:.2f} s, p99 {p99:.2f} s, slowest {max(seconds):.2f} s")
    print(f"statuses {dict(report.statuses)}, served by {dict(report.served)}")
    print(f"responses {dict(report.marks)}; {report.labels} labels in the ledger; alarms {report.alarms}")
    for fault in report.faults:
        print("FAULT", fault)
    raise SystemExit(1 if report.faults else 0)


if __name__ == "__main__":
    main()
