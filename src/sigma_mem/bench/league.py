"""All mechanisms, baselines and rivals on one stream, in one order, on the same φ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sigma_mem.bench.baselines import (
    Beta,
    ClusterBeta,
    NearestNeighbours,
    Router,
    any_right,
    best_fixed,
    cluster,
    domain_oracle,
)
from sigma_mem.bench.progressive import Choices, MemoryPlayer, RouterPlayer, play
from sigma_mem.bench.replayed import can_replay, replayed
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.memory import Settings
from sigma_mem.session import SigmaMem
from sigma_mem.streams import Stream

__all__ = ["MECHANISMS", "ORACLES", "ROUTERS", "Row", "Say", "joined", "league", "memory_choices", "routers"]

MECHANISMS = (
    "random",
    "best-fixed",
    "domain-oracle",
    "any-right",
    "majority",
    "beta-b1",
    "beta-decayed",
    "beta-cluster",
    "knn",
    "m-route",
    "m-vote",
    "calibrated-route",
    "calibrated-vote",
    "posterior",
    "posterior-no-g",
    "adaptive",
)
ORACLES = ("random", "best-fixed", "domain-oracle", "any-right")  # they see labels of the whole stream
ROUTERS = ("beta-b1", "beta-decayed", "beta-cluster", "knn", "m-route", "calibrated-route")
_CLUSTERS = 16

Say = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Row:
    """One mechanism on one stream.

    Attributes
    ----------
    chosen : int array (T,), or None
        The peer chosen at every event; None for a random peer.
    correct : array (T,)
        1 where that peer was right, else 0 (the share of right peers for a random one).
    selections : mapping
        How often each peer was chosen.
    """

    chosen: NDArray[np.intp] | None
    correct: FloatArray
    selections: Mapping[str, int]

    @property
    def accuracy(self) -> float:
        """Share of events on which the chosen peer was right."""
        return float(self.correct.mean()) if len(self.correct) else 0.0

    def at(self, places: Sequence[int]) -> Row:
        """The row on some of the events only."""
        rows = np.asarray(places, dtype=np.intp)
        peers = list(self.selections)
        if self.chosen is None:
            return Row(None, self.correct[rows], _spread(len(rows), peers))
        chosen = self.chosen[rows]
        counts = np.bincount(chosen, minlength=len(peers)).tolist()
        return Row(chosen, self.correct[rows], dict(zip(peers, counts, strict=True)))


def league(
    stream: Stream,
    phis: FloatArray,
    settings: Settings | None = None,
    *,
    rivals: Sequence[str] = (),
    warm: tuple[Stream, FloatArray] | None = None,
    session: bool = False,
    seed: int = 0,
    say: Say | None = None,
) -> dict[str, Row]:
    """Every row of the table, in the order of `MECHANISMS`, then the rivals.

    Parameters
    ----------
    phis : array (T, rank)
    warm : (Stream, φ)
        A stream of the same peers that every mechanism learns from first, as the paper does.
    session : bool
        Play the memory through `SigmaMem` event by event, even where the chunked replay is exact.
    seed : int
        Of the clusters and the rivals.
    """
    settings = settings or Settings()
    whole, directions, skip = joined(stream, phis, warm)
    labels = stream.labels()
    choices = {
        "best-fixed": best_fixed(labels),
        "domain-oracle": domain_oracle(labels, [event.domain for event in stream]),
        "any-right": any_right(labels),
    }
    found = memory_choices(whole, directions, settings, session=session, say=say)
    for name, router in routers(whole, directions, settings, rivals, seed).items():
        found.update(
            play(whole, directions, RouterPlayer(name, router, whole.peers), progress=_part(say, name))
        )
    choices.update({name: peers[skip:] for name, peers in found.items()})
    rows = {"random": _random(labels, stream.peers)}
    rows.update({name: row_of(peers, labels, stream.peers) for name, peers in choices.items()})
    order = (*MECHANISMS, *rivals)
    return {name: rows[name] for name in order}


def joined(
    stream: Stream, phis: FloatArray, warm: tuple[Stream, FloatArray] | None
) -> tuple[Stream, FloatArray, int]:
    """The stream behind what it is warmed up with; how many events that is."""
    if warm is None:
        return stream, phis, 0
    before, directions = warm
    if before.peers != stream.peers:
        raise InputError(
            f"the warm-up stream has peers {list(before.peers)}; expected those of the stream, "
            f"{list(stream.peers)}: choose them with --peers"
        )
    whole = Stream(stream.name, stream.peers, (*before.events, *stream.events))
    return whole, np.concatenate((directions, phis)), len(before)


def memory_choices(
    stream: Stream, phis: FloatArray, settings: Settings, *, session: bool = False, say: Say | None = None
) -> Choices:
    """What the reads of the memory choose: by chunked replay where it is exact, else through a session."""
    if not session and can_replay(stream):
        return replayed(stream, phis, settings, progress=_part(say, "memory"))
    with SigmaMem(stream.peers, rank=phis.shape[1], settings=settings, keep_text=False) as memory:
        return play(stream, phis, MemoryPlayer(memory), progress=_part(say, "memory"))


def routers(
    stream: Stream,
    phis: FloatArray,
    settings: Settings,
    rivals: Sequence[str] = (),
    seed: int = 0,
    *,
    explore: bool = False,
) -> dict[str, Router]:
    """The response-blind routers, fresh."""
    n, rank = len(stream.peers), phis.shape[1]
    found: dict[str, Router] = {
        "beta-b1": Beta(n, 0.9),
        "beta-decayed": Beta(n, settings.gamma),
        "beta-cluster": ClusterBeta(n, cluster(phis, _CLUSTERS, seed), settings.gamma),
        "knn": NearestNeighbours(n),
    }
    if rivals:
        from sigma_mem.bench.rivals import RIVALS

        unknown = [name for name in rivals if name not in RIVALS]
        if unknown:
            raise InputError(f"no rival {unknown[0]!r}; expected among {', '.join(RIVALS)}")
        found.update({name: RIVALS[name](n, rank, seed, explore=explore) for name in rivals})
    return found


def row_of(chosen: NDArray[np.intp], labels: FloatArray, peers: Sequence[str]) -> Row:
    """A row from the choices and the stream's labels."""
    correct = (labels[np.arange(len(labels)), chosen] > 0).astype(np.float64)  # NaN > 0 is False
    counts = np.bincount(chosen, minlength=len(peers)).tolist()
    return Row(chosen, correct, dict(zip(peers, counts, strict=True)))


def _random(labels: FloatArray, peers: Sequence[str]) -> Row:
    """A peer at random, in expectation."""
    return Row(None, (labels > 0).mean(axis=1), _spread(len(labels), peers))


def _spread(n: int, peers: Sequence[str]) -> dict[str, int]:
    """n choices spread evenly over the peers."""
    share, rest = divmod(n, len(peers))
    return {peer: share + (i < rest) for i, peer in enumerate(peers)}


def _part(say: Say | None, what: str) -> Callable[[int, int], None] | None:
    return None if say is None else lambda done, total: say(what, done, total)
