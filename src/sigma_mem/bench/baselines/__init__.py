"""What a reader will ask the memory to be compared with.

`hindsight` holds the rows that look at all labels at once (best fixed peer, per-domain oracle,
any-right ceiling, random); the others are routers with two verbs, `choose` and `learn`, that see
neither a response nor the label of the event they choose for.
"""

from sigma_mem.bench.baselines.base import Router
from sigma_mem.bench.baselines.beta import Beta
from sigma_mem.bench.baselines.cluster import ClusterBeta, cluster
from sigma_mem.bench.baselines.hindsight import any_right, best_fixed, domain_oracle, random_peer
from sigma_mem.bench.baselines.knn import NearestNeighbours

__all__ = [
    "Beta",
    "ClusterBeta",
    "NearestNeighbours",
    "Router",
    "any_right",
    "best_fixed",
    "cluster",
    "domain_oracle",
    "random_peer",
]
