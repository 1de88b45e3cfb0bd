"""What it saves to keep a conversation on its peer, on runs of related questions.

A conversation is a run of four to twelve questions of one domain, in the order of the stream; the seed draws
its length. Every turn sends all earlier questions and answers of its conversation again. A peer that answered
the turn before has them in its cache; any other peer reads them again. A token of a question is four
characters, an answer has 300 tokens. A peer's prices follow from its mean cost of a call on the stream: an
output token costs four times an input token, and an input token that the cache held a tenth of one.

The memory sees the label of the served peer only, and never explores within a conversation.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from sigma_lab.bench.league import DEFAULT, Setup
from sigma_lab.bench.table import Table, about
from sigma_mem.errors import InputError
from sigma_mem.events import Event, FloatArray
from sigma_mem.serve.config import Upstream
from sigma_mem.serve.gateway.chat import CHAT
from sigma_mem.serve.gateway.conversation import Conversation, Conversations
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Stream
from sigma_mem.streams.stream import chance

_SHORTEST, _LONGEST = 4, 12  # turns
_ANSWER = 300  # tokens
_OUTPUT, _CACHED = 4.0, 0.1  # prices of output and cached tokens, compared with input
_REQUEST = CHAT.read({"model": "sigma-mem", "messages": [{"role": "user", "content": "?"}]}, {})


class Played(NamedTuple):
    """What a way of keeping conversations reached: share right, mean cost of a turn, switches per turn."""

    right: float
    cost: float
    switches: float


def conversations(stream: Stream, seed: int) -> Iterator[list[Event]]:
    """The events of a stream as conversations, in an order drawn by the seed."""
    runs: list[list[Event]] = []
    for domain in stream.domains:
        left = [event for event in stream if event.domain == domain]
        while left:
            length = _SHORTEST + int(chance(seed, "length", left[0].id) * (_LONGEST - _SHORTEST + 1))
            runs.append(left[:length])
            left = left[length:]
    yield from sorted(runs, key=lambda run: chance(seed, "conversation", run[0].id))


def upstreams_of(stream: Stream) -> tuple[Upstream, ...]:
    """The peers with prices per million tokens that agree with their mean costs, cached tokens included."""
    costs = stream.costs()
    if not np.isfinite(costs).any(axis=0).all():
        raise InputError(f"stream {stream.name!r} has peers without costs; expected costs on its lines")
    tokens = float(np.mean([len(event.question) for event in stream])) / 4.0 + _OUTPUT * _ANSWER
    return tuple(
        Upstream(f"peer-{i}", "http://127.0.0.1/v1", input_price=price, cached_price=_CACHED * price)
        for i, price in enumerate(1e6 * np.nanmean(costs, axis=0) / tokens)
    )


def play_conversations(
    stream: Stream,
    phis: dict[str, FloatArray],
    keep: Conversations | None,
    prices: Sequence[float],
    seed: int,
) -> Played:
    """Play all conversations; without `keep` every turn is routed on its own."""
    right, costs, switches, turns = 0.0, 0.0, 0, 0
    rank = len(next(iter(phis.values())))
    with SigmaMem(stream.peers, rank=rank, seed=seed, keep_text=False) as mem:
        for run in conversations(stream, seed):
            now: int | None = None
            seen = 0
            for event in run:
                topic = event.topics or None
                among = None
                if keep is not None and now is not None:
                    trust = mem.trust(phi=phis[event.id], topic=topic)
                    probs = {f"peer-{i}": trust[peer].prob for i, peer in enumerate(stream.peers)}
                    chosen, _ = keep.choose(Conversation(f"peer-{now}", seen), _REQUEST, probs)
                    among = [stream.peers[int(chosen.removeprefix("peer-"))]]
                made = mem.route(phi=phis[event.id], topic=topic, among=among, explore=now is None)
                peer = stream.peers.index(str(made.peer))
                question = len(event.question) // 4
                read = _CACHED * seen if peer == now else float(seen)
                costs += prices[peer] * (read + question + _OUTPUT * _ANSWER) / 1e6
                switches += now not in (None, peer)
                right += 0.5 + 0.5 * event.correct[stream.peers[peer]]
                mem.feedback(made, {stream.peers[peer]: event.correct[stream.peers[peer]]}, wait=False)
                now, seen, turns = peer, seen + question + _ANSWER, turns + 1
    return Played(right / turns, costs / turns, switches / turns)


def conversations_table(
    stream: Stream,
    phis: FloatArray,
    values: Sequence[float],
    seeds: Sequence[int],
    setup: Setup = DEFAULT,
) -> Table:
    """Every turn on its own, kept unless a switch pays, and never switched."""
    upstreams = upstreams_of(stream)
    prices = [upstream.input_price for upstream in upstreams]
    by_id = {event.id: phi for event, phi in zip(stream, phis, strict=True)}
    ways: dict[str, Conversations | None] = {"every turn on its own": None}
    ways |= {f"kept, an answer worth {value:g}": Conversations(upstreams, value, 0.05) for value in values}
    ways["never switched"] = Conversations(upstreams, 0.0, 1.0)
    found: dict[str, list[Played]] = {}
    for done, (name, keep) in enumerate(ways.items(), start=1):
        found[name] = [play_conversations(stream, by_id, keep, prices, seed) for seed in seeds]
        setup.progress("ways", done, len(ways))
    mean = {name: Played(*np.mean(every, axis=0).tolist()) for name, every in found.items()}
    alone = mean["every turn on its own"]
    return Table(
        title=f"Conversations: {stream.name}",
        values={
            **about(stream),
            "seeds": list(seeds),
            "ways": {name: [one._asdict() for one in every] for name, every in found.items()},
        },
        header=["conversations", "% right", "cost of 1,000 turns", "compared", "switches per turn"],
        rows=[
            [
                name,
                f"{100 * each.right:.2f}",
                f"{1000 * each.cost:.4g}",
                f"{each.cost / alone.cost:.0%}",
                f"{each.switches:.3f}",
            ]
            for name, each in mean.items()
        ],
        remarks=[
            f"Means over seeds {', '.join(map(str, seeds))}; four to twelve questions of one domain each."
        ],
    )
