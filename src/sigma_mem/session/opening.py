"""Opening a memory: make a new one, or check that an existing one is what the caller expects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sigma_mem.encode import ENCODERS, Encoder, open_encoder
from sigma_mem.errors import EncoderMismatchError, InputError
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.session.records import open_record
from sigma_mem.store.base import Store

__all__ = ["Opening", "open_memory"]

_HANDED_IN = {"name": "phi", "version": "1"}  # no encoder: every φ is handed in


@dataclass(slots=True)
class Opening:
    """The first line of a memory, and how to get its encoder."""

    body: Mapping[str, Any]
    encoder: Callable[[], Encoder]


def open_memory(
    store: Store,
    namespace: str,
    peers: Sequence[str] | None,
    rank: int | None,
    encoder: str | Encoder | None,
    settings: Settings | None,
    time: float,
) -> Opening:
    """Make the namespace's memory, or open it and check peers, rank, encoder and settings against it."""
    first = next(iter(store.records(namespace)), None)
    if first is not None:
        return _existing(first.body, namespace, peers, rank, encoder, settings)
    if peers is None:
        raise InputError(f"namespace {namespace!r} holds no memory yet; expected peers=[...] to make one")
    found = _chosen(encoder, rank)
    named = _HANDED_IN if found is None else {"name": found.name, "version": found.version}
    size = found.rank if found is not None else rank
    if size is None or (rank is not None and rank != size):
        raise InputError(
            f"rank is {rank} and the encoder {named['name']!r} has rank {size}; expected them equal"
        )
    state = SigmaState(peers, size, settings)  # checks peers
    record = open_record(state.peers, size, state.settings, named, time)
    store.append(namespace, [record])[1].wait()
    return Opening(record.body, _getter(found))


def _existing(
    body: Mapping[str, Any],
    namespace: str,
    peers: Sequence[str] | None,
    rank: int | None,
    encoder: str | Encoder | None,
    settings: Settings | None,
) -> Opening:
    if rank is not None and rank != body["rank"]:
        raise InputError(f"rank is {rank}; the memory in {namespace!r} has rank {body['rank']}")
    if settings is not None and settings != Settings(**body["settings"]):
        raise InputError(
            f"settings are {settings}; the memory in {namespace!r} was made with "
            f"{Settings(**body['settings'])}: leave them out, or take another namespace"
        )
    named = body["encoder"]
    if encoder is None and named["name"] not in ENCODERS:
        return Opening(
            body, _getter(None, named["name"])
        )  # its own encoder was an object: φ may be handed in
    found = _chosen(named["name"] if encoder is None else encoder, None)
    now = _HANDED_IN if found is None else {"name": found.name, "version": found.version}
    if now != named:
        raise EncoderMismatchError(
            f"encoder is {now['name']} {now['version']}; the memory in {namespace!r} was written with "
            f"{named['name']} {named['version']}: φ of two encoders do not mix; open it with that one, "
            "or start another namespace"
        )
    return Opening(body, _getter(found))


def _chosen(encoder: str | Encoder | None, rank: int | None) -> Encoder | None:
    if encoder is None:
        return None if rank is not None else open_encoder("static")
    return open_encoder(encoder) if isinstance(encoder, str) else encoder


def _getter(encoder: Encoder | None, written_with: str = "phi") -> Callable[[], Encoder]:
    def get() -> Encoder:
        if encoder is None:
            remedy = (
                "hand in phi=..." if written_with == "phi" else f"pass the encoder {written_with!r} it needs"
            )
            raise InputError(f"this memory was opened without an encoder: {remedy}")
        return encoder

    return get
