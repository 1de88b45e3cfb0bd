"""The service under load, compared with a bare endpoint of the same framework, in the same run.

This process is the load generator. It starts two servers: the service, on a SQLite file, and an application
with an endpoint that reads a JSON body and answers with a small one, and one that decides in between. Rates
are taken with all connections busy, in many short rounds of all kinds, and compared within a round, so that
what a busy machine adds falls on all; figures are medians over the rounds, without the first. What the
service adds is what is beyond the call of the memory in the very requests that are served: the service has a
clock around that call. The same calls without a service are timed as well. Latencies are taken at half of
the rate, sent on schedule whether or not earlier answers came; p99 is the median over slices of each slice's
own. Next to them is how long the disk takes for a sync.

    python benchmarks/service.py [--seconds 0.5] [--rounds 20] [--json]
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle
from typing import NamedTuple

from load import (
    WRITERS,
    CallClock,
    Rate,
    Server,
    at_rate,
    connect,
    free_port,
    post,
    saturate,
    server,
    wait_for,
)

from sigma_mem import Settings, SigmaMem

PEERS = ["gemma", "phi", "coder", "qwen"]
QUESTIONS = [f"What is {n} * {n + 7}, and which of its digits is the largest?" for n in range(200)]
ANSWERS = {"gemma": "391", "phi": "391", "coder": "381", "qwen": "391"}
LABELS = {"gemma": True, "phi": False}
SLICES = 5  # in which latencies are taken, of each kind in turn
SLICE = 4  # times as long as one measurement of a rate
CONNECTIONS = 16
SYNCS = 100  # in a slice


def bare() -> None:
    """The other server: an endpoint that reads a body and answers; and one that decides in between.

    What the second takes beyond its call of the memory is what any service of this framework takes that
    decides: behind two milliseconds of other work, the same code runs slower than in a row of bare calls.
    """
    import uvicorn
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Task(BaseModel):
        question: str

    app, memory = FastAPI(), InProcess(sys.argv[3])
    decide_with = CallClock(sys.argv[4]).timed(memory.mem.decide)

    @app.post("/bare")
    async def endpoint(body: Task) -> dict[str, str]:
        return {"question": body.question}

    @app.post("/bare/decide")
    async def deciding(body: Task) -> dict[str, str]:
        decide_with(body.question, ANSWERS)
        return {"question": body.question}

    uvicorn.run(app, port=int(sys.argv[2]), log_level="error", access_log=False)


def timed_service() -> None:
    """The service itself, with a clock around the calls of its memory."""
    clock = CallClock(sys.argv.pop(2))
    for name in ("route", "decide"):
        setattr(SigmaMem, name, clock.timed(getattr(SigmaMem, name)))
    from sigma_mem.cli import main as command

    sys.argv[1] = "serve"
    command()


def sync_times(folder: str) -> list[float]:
    """Seconds that the disk takes to sync a few pages, one after the other."""
    times = []
    with open(os.path.join(folder, "synced"), "ab") as file:
        for _ in range(SYNCS):
            os.write(file.fileno(), bytes(8192))
            begun = time.perf_counter()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - begun)
    return times


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
    route_alone_ms: float
    decide_alone_ms: float
    route_of_bare: float
    route_of_bare_without_service: float
    route_beyond_in_bare_calls: float
    decide_beyond_in_bare_calls: float
    bare_decide_beyond_in_bare_calls: float
    decide_beyond_alone_in_bare_calls: float
    bare_processor_us: float
    route_processor_us: float
    decide_processor_us: float
    feedback_processor_us: float
    route_alone_processor_us: float
    decide_alone_processor_us: float
    route_beyond_in_bare_calls_by_processor: float
    decide_beyond_in_bare_calls_by_processor: float
    bare_p50_ms: float
    bare_p99_ms: float
    route_p50_ms: float
    route_p99_ms: float
    decide_p50_ms: float
    decide_p99_ms: float
    feedback_p50_ms: float
    feedback_p99_ms: float
    sync_p50_ms: float
    sync_p99_ms: float


class Turn(NamedTuple):
    """One round: the bare endpoints, the service, and the memory alone."""

    bare: Rate
    bare_decide: Rate
    route: Rate
    decide: Rate
    decide_alone: Rate
    feedback: Rate
    route_alone: Rate


async def measure(service: Server, other: Server, folder: str, seconds: float, rounds: int) -> Found:
    """Rates in turns, then latencies at half of them."""
    questions = cycle(QUESTIONS)
    at = "/v1/memory/bench"
    (first,) = await connect(service.port, 1)
    made = post(at, {"peers": PEERS})
    await first.send(b"PUT" + made[4:])

    def bare_request() -> bytes:
        return post("/bare", {"question": next(questions)})

    def bare_decide_request() -> bytes:
        return post("/bare/decide", {"question": next(questions)})

    def route_request() -> bytes:
        return post(f"{at}/route", {"question": next(questions)})

    def decide_request() -> bytes:
        return post(f"{at}/decide", {"question": next(questions), "answers": ANSWERS})

    unlabelled: list[str] = []

    def keep(body: bytes) -> None:
        unlabelled.append(json.loads(body)["id"])

    def feedback_request() -> bytes | None:
        if not unlabelled:
            return None
        return post(f"{at}/feedback", {"decision": unlabelled.pop(), "labels": LABELS})

    turns, alone = [], InProcess(folder)
    for _ in range(rounds + 1):
        turn = Turn(
            await saturate(other, bare_request, seconds, CONNECTIONS),
            await saturate(other, bare_decide_request, seconds, CONNECTIONS),
            await saturate(service, route_request, seconds, CONNECTIONS, keep),
            await saturate(service, decide_request, seconds, CONNECTIONS),
            alone.decide(seconds),
            await saturate(service, feedback_request, seconds, WRITERS),
            alone.route(seconds),
        )
        turns.append(turn)
    alone.mem.close()
    del turns[0]
    middle = Turn(*(_middle(column) for column in zip(*turns, strict=True)))
    slices: dict[str, list[tuple[float, float]]] = {}
    for _ in range(SLICES):
        slices.setdefault("sync", []).append(_half_and_most(sync_times(folder)))
        for name, port, requests in (
            ("bare", other, bare_request),
            ("route", service, route_request),
            ("decide", service, decide_request),
            ("feedback", service, feedback_request),
        ):
            rate = getattr(middle, name).rate / 2
            while name == "feedback" and len(unlabelled) < SLICE * seconds * rate + 1:  # as fresh as before
                await saturate(service, route_request, seconds, CONNECTIONS, keep)
            found = await at_rate(port.port, requests, rate, SLICE * seconds)
            slices.setdefault(name, []).append(_half_and_most(found))
    first.close()
    ms = {
        f"{name}_{which}_ms": statistics.median(each[place] for each in column)
        for name, column in slices.items()
        for place, which in enumerate(("p50", "p99"))
    }

    def over_turns(ratio: Callable[[Turn], float]) -> float:
        return statistics.median(map(ratio, turns))

    return Found(
        bare=middle.bare.rate,
        route=middle.route.rate,
        decide=middle.decide.rate,
        feedback=middle.feedback.rate,
        route_in_process_ms=1000 * (1 / middle.route.rate - middle.route.beyond),
        decide_in_process_ms=1000 * (1 / middle.decide.rate - middle.decide.beyond),
        route_alone_ms=1000 / middle.route_alone.rate,
        decide_alone_ms=1000 / middle.decide_alone.rate,
        route_of_bare=over_turns(lambda t: t.route.rate / t.bare.rate),
        route_of_bare_without_service=over_turns(
            lambda t: 1 / (1 + t.bare.rate * (1 / t.route.rate - t.route.beyond))
        ),
        route_beyond_in_bare_calls=over_turns(lambda t: t.route.beyond * t.bare.rate),
        decide_beyond_in_bare_calls=over_turns(lambda t: t.decide.beyond * t.bare.rate),
        bare_decide_beyond_in_bare_calls=over_turns(lambda t: t.bare_decide.beyond * t.bare.rate),
        decide_beyond_alone_in_bare_calls=over_turns(
            lambda t: (1 / t.decide.rate - 1 / t.decide_alone.rate) * t.bare.rate
        ),
        bare_processor_us=1e6 * middle.bare.processor,
        route_processor_us=1e6 * middle.route.processor,
        decide_processor_us=1e6 * middle.decide.processor,
        feedback_processor_us=1e6 * middle.feedback.processor,
        route_alone_processor_us=1e6 * middle.route_alone.processor,
        decide_alone_processor_us=1e6 * middle.decide_alone.processor,
        route_beyond_in_bare_calls_by_processor=over_turns(
            lambda t: t.route.beyond_processor / t.bare.processor
        ),
        decide_beyond_in_bare_calls_by_processor=over_turns(
            lambda t: t.decide.beyond_processor / t.bare.processor
        ),
        **ms,
    )


def _middle(rates: Sequence[Rate]) -> Rate:
    """The medians of what rates hold."""
    return Rate(*(statistics.median(column) for column in zip(*rates, strict=True)))


def _half_and_most(seconds: Sequence[float]) -> tuple[float, float]:
    """p50 and p99, in milliseconds."""
    found = sorted(seconds)
    return 1000 * statistics.median(found), 1000 * found[int(0.99 * len(found))]


def show(found: Found) -> None:
    """Print what was measured and what is wanted."""
    print(f"{'':10}{'rate a second':>15}{'p50 at half':>13}{'p99 at half':>13}{'processor, µs':>16}")
    for name in ("bare", "route", "decide", "feedback"):
        values = asdict(found)
        middle, most = values[f"{name}_p50_ms"], values[f"{name}_p99_ms"]
        used = values[f"{name}_processor_us"]
        print(f"{name:10}{values[name]:15.0f}{middle:10.2f} ms{most:10.2f} ms{used:16.0f}")
    print(f"{'a sync':25}{found.sync_p50_ms:10.2f} ms{found.sync_p99_ms:10.2f} ms")
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
            f"1.3 at most; a bare endpoint that decides takes {found.bare_decide_beyond_in_bare_calls:.2f}",
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
        "by processor time of the thread that serves, which other work on the machine changes less: beyond "
        f"the call in process, route {found.route_beyond_in_bare_calls_by_processor:.2f} and decide "
        f"{found.decide_beyond_in_bare_calls_by_processor:.2f} bare calls"
    )
    print(
        f"the same calls in a process without a service: route {found.route_alone_ms:.2f} ms, decide "
        f"{found.decide_alone_ms:.2f} ms; beyond these, decide takes "
        f"{found.decide_beyond_alone_in_bare_calls:.2f} bare calls"
    )


def main() -> None:
    """Start both servers, measure, print."""
    if sys.argv[1:2] in (["bare"], ["service"]):
        {"bare": bare, "service": timed_service}[sys.argv[1]]()
        return
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=float, default=0.5)
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as bare_folder:
        port, other = free_port(), free_port()
        memory, clock = os.path.join(folder, "memory.db"), os.path.join(folder, "clock")
        bare_clock = os.path.join(bare_folder, "clock")
        flags = ("--port", str(port), "--path", memory, "--no-access-log")
        with (
            server(__file__, "service", clock, *flags) as first,
            server(__file__, "bare", str(other), bare_folder, bare_clock) as second,
        ):
            wait_for(port)
            wait_for(other)
            measured = measure(
                Server(port, first, CallClock(clock)),
                Server(other, second, CallClock(bare_clock)),
                folder,
                given.seconds,
                given.rounds,
            )
            found = asyncio.run(measured)
    if given.json:
        print(json.dumps(asdict(found)))
    else:
        show(found)


if __name__ == "__main__":
    main()
