"""More peers, parameters fixed: pools of 3, 4, 5 … under the same attack (tab:scaling_results)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sigma_lab.bench.center import BenchCenter
from sigma_lab.bench.experiments.cf import CounterfactualTable, counterfactual_table
from sigma_lab.bench.league import DEFAULT, Setup
from sigma_lab.bench.table import LeagueTable
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream


@dataclass(frozen=True, kw_only=True)
class PeerTable(LeagueTable):
    """A counterfactual table for every size of the pool."""

    title = "More peers"

    pools: Mapping[int, CounterfactualTable]

    def results(self) -> dict[str, Any]:
        """Peers and rows of every pool."""
        pools = {str(n): {"peers": list(t.stream.peers), **t.results()} for n, t in self.pools.items()}
        return {"pools": pools}

    def values(self) -> dict[str, Any]:
        """Every pool has its own peers."""
        return {key: value for key, value in super().values().items() if key != "peers"}


def peer_table(
    stream: Stream,
    phis: FloatArray,
    sizes: Sequence[int] | None = None,
    ratios: Sequence[float] = (0.0, 0.5, 0.7, 0.9),
    setup: Setup = DEFAULT,
    center: BenchCenter | None = None,
) -> PeerTable:
    """Play pools of the first 3, 4, … peers: a larger pool adds peers to the smaller one.

    Nothing is fitted to a pool: φ, γ and the prior are the same for all. The attack is made anew in
    every pool, since the strong peer of a domain may be one that was added.
    """
    n = len(stream.peers)
    chosen = list(sizes) if sizes is not None else list(range(min(3, n), n + 1))
    wrong = [size for size in chosen if not 2 <= size <= n]
    if wrong or not chosen:
        raise InputError(f"pool sizes are {chosen}; expected numbers from 2 to {n}, the peers of the stream")
    pools = {}
    for size in chosen:
        pool = stream.select(peers=stream.peers[:size])
        kept = {event.id for event in pool}  # an event that none of these peers answered is not in the pool
        of_pool = phis[[event.id in kept for event in stream]]
        warm = None if setup.warm is None else (setup.warm[0].select(peers=pool.peers), setup.warm[1])
        if warm is not None and len(warm[0]) < len(warm[1]):
            raise InputError(
                f"some events of the warm-up have no answer of the first {size} peers; leave it out"
            )
        of_size = replace(setup.part(f"{size} peers"), warm=warm)
        pools[size] = counterfactual_table(pool, of_pool, ratios, of_size, center)
    columns = {f"{size} peers {name}": rows for size, t in pools.items() for name, rows in t.columns.items()}
    judged = next(iter(pools.values())).judged
    return PeerTable(stream=stream, judged=judged, phis=phis, columns=columns, pools=pools)
