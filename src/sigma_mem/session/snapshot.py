"""Derived state as bytes, so that a start need not replay the whole ledger."""

from collections import Counter
from collections.abc import Mapping

import numpy as np

from sigma_mem.answers.features import FEATURES_VERSION
from sigma_mem.events import FloatArray
from sigma_mem.memory import SigmaState
from sigma_mem.session.fold import Fold
from sigma_mem.session.pool import PoolChanges
from sigma_mem.store.codec import pack_arrays, unpack_arrays

# Names of a state's parts in version 0.1.
_RENAMED = {"distractors": "wrong_answers", "answering": "readability", "signs": "features"}


def pack_fold(fold: Fold) -> bytes:
    """The state after line ``fold.seq``, bit for bit."""
    sources, of_sources = fold.sources.pack()
    costs, of_costs = fold.costs.pack()
    meta = {
        "seq": fold.seq,
        "peers": list(fold.state.peers),
        "reads": list(fold.registry.names),
        "features": FEATURES_VERSION,
        "revoked": sorted(fold.revoked),
        "departed": sorted(fold.departed),
        "pool": [list(change) for change in fold.pool],
        "labelled": None if fold.labelled is None else dict(sorted((+fold.labelled).items())),
        "sources": sources,
        "costs": costs,
    }
    arrays = {f"state.{key}": value for key, value in fold.state.pack().items()}
    arrays.update({f"reads.{key}": value for key, value in fold.reads.pack().items()})
    arrays.update({f"sources.{key}": value for key, value in of_sources.items()})
    arrays.update({f"costs.{key}": value for key, value in of_costs.items()})
    return pack_arrays(meta, arrays)


def unpack_fold(fold: Fold, body: bytes) -> None:
    """Let a new fold continue from a packed state.

    Reads that are new since then get a column of their own. A state with other text features, one that lacks
    something that is learned now, or one whose adaptive read started from another one, is left alone: the
    ledger has everything.
    """
    meta, arrays = unpack_arrays(body)
    names = fold.registry.names
    if meta.get("features", meta.get("signs")) != FEATURES_VERSION or meta["reads"][0] != names[0]:
        return
    learned = {f"state.{name}" for name in fold.state.pack()}
    if fold.state.settings.revision > 1 and not (learned <= arrays.keys() and "labelled" in meta):
        return
    start = fold.state.peers
    fold.state.set_peers(meta["peers"])
    _unpack(fold.state, arrays, "state.")
    fold.reads.set_peers(meta["reads"])
    _unpack(fold.reads, arrays, "reads.")
    fold.reads.set_peers(names)
    fold.revoked, fold.departed = set(meta["revoked"]), set(meta["departed"])
    fold.pool = PoolChanges(meta.get("pool", ()))
    fold.labelled = None if meta.get("labelled") is None else Counter(meta["labelled"])
    if "sources" in meta:  # not in version 0.1
        fold.sources.unpack(meta["sources"], _under("sources.", arrays))
    if "costs" in meta:  # not before version 0.2
        fold.costs.set_peers(start, meta["peers"])
        fold.costs.unpack(meta["costs"], _under("costs.", arrays))
    fold.seq = meta["seq"]


def _under(prefix: str, arrays: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}


def _unpack(state: SigmaState, arrays: Mapping[str, FloatArray], prefix: str) -> None:
    """Fill a state from its arrays, under whichever names a version gave them."""
    packed = {}
    for key, value in arrays.items():
        if key.startswith(prefix):
            part, dot, name = key[len(prefix) :].partition(".")
            packed[_RENAMED.get(part, part) + dot + name] = value
    if not packed["features.sum"].size:  # version 0.1, before the first event with features
        packed["features.sum"] = np.zeros_like(state.features.decayed.arrays["sum"])
    if "horizon0.labels" not in packed:  # version 0.1: one horizon, whose rates are the traces of M and N
        empty = {name: np.zeros_like(array) for name, array in state.pack().items()}
        empty["horizon0.labels"] = packed["competence.traces"].reshape(2, -1)
        anchors = {name: packed["competence.anchor"] for name in empty if name.endswith(".anchor")}
        packed = {**empty, **anchors, **packed}
    state.unpack(packed)
