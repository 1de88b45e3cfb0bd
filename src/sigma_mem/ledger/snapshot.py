"""Derived state as bytes, so that a start need not replay the whole ledger.

The store keeps a checksum of these bytes. A snapshot of another format, of other text features or of other
sums is left alone: the ledger has everything.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from sigma_mem.answers.features import FEATURES_VERSION
from sigma_mem.events import FloatArray
from sigma_mem.ledger.fold import Fold
from sigma_mem.ledger.pool import PeerChange, PoolChanges
from sigma_mem.ledger.records import as_plain
from sigma_mem.store.base import SNAPSHOT_FORMAT


class PackedArray(msgspec.Struct, array_like=True):
    """An array: its type, its shape, and its numbers as raw little-endian bytes."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @classmethod
    def of(cls, array: FloatArray) -> "PackedArray":
        """The same numbers, bit for bit."""
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        return cls(little.dtype.str, array.shape, little.tobytes())

    def array(self) -> FloatArray:
        """A writable array."""
        dtype = np.dtype(self.dtype)
        return np.frombuffer(self.data, dtype).reshape(self.shape).astype(dtype.newbyteorder("="))


class FoldState(msgspec.Struct):
    """A fold after line ``seq``; arrays by the part that they belong to and their name there."""

    seq: int
    peers: list[str]
    features: int
    revoked: list[str]
    departed: list[str]
    pool: list[PeerChange]
    labelled: dict[str, int]
    last_label: dict[str, float]
    sources: Any
    costs: Any
    arrays: dict[str, dict[str, PackedArray]]
    sums: str  # what is learned, as it is declared
    format: int = SNAPSHOT_FORMAT


class _Format(msgspec.Struct):
    """What every format has."""

    format: int
    features: int
    sums: str = ""


_ENCODER = msgspec.msgpack.Encoder(enc_hook=as_plain)
_DECODER = msgspec.msgpack.Decoder(FoldState)
_FORMAT_DECODER = msgspec.msgpack.Decoder(_Format)


def pack_fold(fold: Fold) -> bytes:
    """The state after line ``fold.seq``, bit for bit."""
    sources, of_sources = fold.sources.pack()
    costs, of_costs = fold.costs.pack()
    parts = {"state": fold.state.pack(), "sources": of_sources, "costs": of_costs}
    packed = FoldState(
        seq=fold.seq,
        peers=list(fold.state.peers),
        features=FEATURES_VERSION,
        revoked=sorted(fold.revoked),
        departed=sorted(fold.departed),
        pool=list(fold.pool),
        labelled=dict(sorted((+fold.labelled).items())),
        last_label=dict(sorted(fold.last_label.items())),
        sources=sources,
        costs=costs,
        arrays={
            part: {name: PackedArray.of(array) for name, array in arrays.items()}
            for part, arrays in parts.items()
        },
        sums=repr(fold.state.sums.declared),
    )
    return _ENCODER.encode(packed)


def unpack_fold(fold: Fold, body: bytes) -> None:
    """Let a new fold continue from a packed state; one of another kind is left alone."""
    found, known = _FORMAT_DECODER.decode(body), repr(fold.state.sums.declared)
    if (found.format, found.features, found.sums) != (SNAPSHOT_FORMAT, FEATURES_VERSION, known):
        return
    packed = _DECODER.decode(body)
    start = fold.state.peers
    fold.state.set_peers(packed.peers)
    fold.state.unpack(_arrays(packed, "state"))
    fold.revoked, fold.departed = set(packed.revoked), set(packed.departed)
    fold.pool = PoolChanges(packed.pool)
    fold.labelled, fold.last_label = Counter(packed.labelled), dict(packed.last_label)
    fold.sources.unpack(packed.sources, _arrays(packed, "sources"))
    fold.costs.set_peers(start, packed.peers)
    fold.costs.unpack(packed.costs, _arrays(packed, "costs"))
    fold.seq = packed.seq


def _arrays(packed: FoldState, part: str) -> Mapping[str, FloatArray]:
    return {name: array.array() for name, array in packed.arrays[part].items()}
