"""Timings in one run on one machine: the memory compared with ParetoBandit.

Ours and theirs are timed in turns, block by block, and the best block counts: what a busy machine
adds falls on both. Ratios, not microseconds, are compared with the targets.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from sigma_lab.bench.league import Progress, silent
from sigma_lab.bench.table import Table
from sigma_mem.encode.base import unit
from sigma_mem.errors import MissingExtraError
from sigma_mem.events import FloatArray
from sigma_mem.extras import require
from sigma_mem.memory import SigmaState
from sigma_mem.session import SigmaMem

RANK, PEERS, THEIR_SIZE = 64, ("a", "b", "c", "d", "e"), 26
_QUESTION = (
    "A reversible heat engine works between two reservoirs at 600 K and 300 K and takes in 1200 J of heat "
    "per cycle from the hot one. How much work does it deliver per cycle, and how much heat does it reject?"
)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of ours and of what it is compared with; ``target`` bounds ours/theirs."""

    what: str
    beside: str
    ours: float
    theirs: float
    target: float

    @property
    def ratio(self) -> float:
        """The number that the target bounds."""
        return self.ours / self.theirs

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return self.ratio <= self.target


def measure_speed(rounds: int = 5, longest: int = 1_000_000, progress: Progress = silent) -> Table:
    """Run all timings."""
    rng = np.random.default_rng(0)
    phis = unit(rng.normal(size=(4096, RANK)))
    labels = rng.choice([-1.0, 1.0], size=(4096, len(PEERS)))
    timed: list[Timing] = []
    notes: list[str] = []
    progress("memory", 0, 3)
    try:
        timed, floor = _beside_pareto(phis, labels, rounds)
        notes.append(floor)
        progress("from text", 1, 3)
        timed += _from_text(rounds)
    except MissingExtraError as error:
        notes.append(str(error))
    progress("cost per event", 2, 3)
    return speed_table(timed, _per_event(phis, labels, longest, progress), notes)


def speed_table(timed: Sequence[Timing], per_event: Mapping[int, float], notes: Sequence[str] = ()) -> Table:
    """All timings, and the seconds of one event after so many events."""
    seconds = list(per_event.values())
    flat = seconds[-1] / seconds[0]
    costs = ", ".join(f"{n:,}: {1e6 * cost:.1f} µs" for n, cost in per_event.items())
    return Table(
        title="Speed",
        values={
            "timings": [
                {"what": t.what, "beside": t.beside, "ours_us": 1e6 * t.ours, "theirs_us": 1e6 * t.theirs}
                | {"ratio": t.ratio, "target": t.target, "met": t.met}
                for t in timed
            ],
            "per_event_us": {str(n): 1e6 * cost for n, cost in per_event.items()},
            "flat": flat,
            "notes": list(notes),
        },
        header=["what", "µs", "compared with", "µs", "ratio", "target", ""],
        rows=[
            [t.what, f"{1e6 * t.ours:.1f}", t.beside, f"{1e6 * t.theirs:.1f}", f"{t.ratio:.2f}",
             f"≤ {t.target:g}", "met" if t.met else "NOT met"]
            for t in timed
        ],
        remarks=[
            f"read and write of one event after so many events: {costs} (last/first {flat:.2f})", *notes
        ],
    )  # fmt: skip


def _best(calls: dict[str, Callable[[int], object]], rounds: int, block: int) -> dict[str, float]:
    """Seconds per call of each, in turns; the best block counts."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(2 * rounds):
        for name, call in calls.items():
            start = perf_counter()
            for i in range(block):
                call(i)
            best[name] = min(best[name], (perf_counter() - start) / block)
    return best


def _compared(found: dict[str, float], *targets: tuple[str, str, float]) -> list[Timing]:
    """What is compared with what, and the target of the ratio."""
    return [Timing(what, beside, found[what], found[beside], target) for what, beside, target in targets]


def _beside_pareto(phis: FloatArray, labels: FloatArray, rounds: int) -> tuple[list[Timing], str]:
    """The timings, and a remark on what a route of ours takes at least."""
    module = require("pareto_bandit", extra="rivals", distribution="sigma-lab", purpose="this timing")
    router = _pareto(module, module.FeatureService.for_precomputed(dimension=THEIR_SIZE))
    contexts = np.random.default_rng(1).normal(size=(400, THEIR_SIZE))
    state = SigmaState(PEERS, RANK)
    memory = SigmaMem(PEERS, rank=RANK, keep_text=False)
    says = [dict(zip(PEERS, row.tolist(), strict=True)) for row in labels[:400]]
    ids: list[str] = []
    requests: list[str] = []
    read, write = "state read, rank 64, 5 peers", "state write, 5 labels"
    route, feedback = "SigmaMem.route(phi=…)", "SigmaMem.feedback, 5 labels"
    moved = "state read at the next event"
    their_route, their_update = "ParetoBandit route, d = 26", "ParetoBandit update, 1 label"
    by_request = "ParetoBandit process_feedback, 1 label"  # like ours, it looks the decision up by its id
    calls: dict[str, Callable[[int], object]] = {
        read: lambda i: state.read(phis[i]),
        moved: lambda i: state.read(phis[i], state.begin_event()),
        their_route: lambda i: requests.append(router.route(contexts[i])[1].request_id),
        by_request: lambda i: router.process_feedback(requests.pop(), 1.0),
        write: lambda i: state.write(phis[i], labels[i], state.begin_event()),
        their_update: lambda i: router.update(str(i % 5), contexts[i], 1.0, advance_time=False),
        route: lambda i: ids.append(memory.route(phi=phis[i]).id),
        feedback: lambda i: memory.feedback(ids.pop(), says[i]),
    }
    found = _best(calls, rounds, block=400)
    timed = _compared(
        found,
        (read, their_route, 0.6),
        (write, their_update, 0.6),
        (route, their_route, 1.1),
        (feedback, by_request, 1.1),
    )
    floor = (
        f"a route reads the memory at the next event, when nothing of the last read holds: that alone takes "
        f"{1e6 * found[moved]:.1f} µs, {found[moved] / found[their_route]:.2f} of {their_route}"
    )
    return timed, floor


def _pareto(module: Any, features: Any) -> Any:
    price = {"input_cost_per_m": 1.0, "output_cost_per_m": 1.0}
    registry = {str(i): dict(price) for i in range(len(PEERS))}
    return module.BanditRouter.create(
        model_registry=registry, priors="none", feature_service=features, bandit_seed=0
    )


def _from_text(rounds: int) -> list[Timing]:
    """From a question, and from five answers of a hundred words, to a decision.

    Their encoder, all-MiniLM-L6-v2, is rebuilt with random weights: its time does not depend on them, and no
    model hub is needed. The tokenizer's time is left out on their side, in their favour.
    """
    module = require("pareto_bandit", extra="rivals", distribution="sigma-lab", purpose="this timing")
    torch = require("torch", extra="center", purpose="this timing")
    transformers = require("transformers", extra="center", purpose="this timing")
    config = transformers.BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    model = transformers.BertModel(config).eval()
    memory = SigmaMem(PEERS, keep_text=False)
    tokens = torch.randint(1000, 20000, (1, 48))  # about as many word pieces as the question has

    def encode(text: object) -> FloatArray:
        with torch.inference_mode():
            return np.asarray(model(input_ids=tokens).last_hidden_state.mean(dim=1)[0], dtype=np.float64)

    router = _pareto(module, module.FeatureService(custom_encoder=encode, embedding_dim=384))
    rng = np.random.default_rng(2)
    words = _QUESTION.split()
    answers = {peer: " ".join(rng.choice(words, 99)) + f" {peer}" for peer in PEERS}
    memory.feedback(memory.vote(_QUESTION, answers).id, dict.fromkeys(PEERS, True))
    route, vote = "from text to decision", "vote on 5 answers of 100 words, from text"
    theirs = "ParetoBandit from text (MiniLM-L6)"
    calls: dict[str, Callable[[int], object]] = {
        route: lambda i: memory.route(_QUESTION),
        vote: lambda i: memory.vote(_QUESTION, answers),
        theirs: lambda i: router.route(_QUESTION),
    }
    return _compared(_best(calls, rounds, block=20), (route, theirs, 0.1), (vote, theirs, 0.1))


def _per_event(phis: FloatArray, labels: FloatArray, longest: int, progress: Progress) -> dict[int, float]:
    """Seconds of a read and a write after 10³, 10⁴, … events: the best of the ten blocks of 100 before."""
    state, n = SigmaState(PEERS, RANK), 0
    marks = [10**k for k in range(3, 10) if 10**k <= longest]
    found: dict[int, float] = {}

    def block() -> float:
        nonlocal n
        start = perf_counter()
        for _ in range(100):
            n += 1
            i = n % len(phis)
            state.read(phis[i])
            state.write(phis[i], labels[i], state.begin_event())
        return (perf_counter() - start) / 100

    for mark in marks:
        while n < mark:
            found[mark] = min(block() for _ in range(10))
            progress("cost per event", n, marks[-1])
    return found
