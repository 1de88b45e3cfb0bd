"""More peers, parameters fixed: pools of 3, 4, 5 … under the same attack (tab:scaling_results)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sigma_mem.bench.center import BenchCenter
from sigma_mem.bench.experiments.cf import CounterfactualTable, counterfactual_table
from sigma_mem.bench.league import DEFAULT, Setup
from sigma_mem.bench.table import LeagueTable
from sigma_mem.errors import InputError
from sigma_mem.events import FloatArray
from sigma_mem.streams import Stream


@dataclass(frozen=True)
class PeerTable(LeagueTable):
    """A counterfactual table for every size of the pool."""

    title = "More peers"

    pools: Mapping[int, CounterfactualTable]

    def values(self) -> dict[str, Any]:
        """The object that ``bench peers --json`` prints."""
        return {
            "stream": self.stream.name,
            "events": self.events,
            "pools": {
                str(size): {"peers": list(table.stream.peers), "ratios": table.values()["ratios"]}
                for size, table in self.pools.items()
            },
            **self.center_values,
        }


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
        part = setup.part(f"{size} peers")
        pools[size] = counterfactual_table(pool, of_pool, ratios, part, center)
    columns = {
        f"{size} peers {name}": rows for size, table in pools.items() for name, rows in table.columns.items()
    }
    return PeerTable(stream, phis, columns, next(iter(pools.values())).judged, pools)
