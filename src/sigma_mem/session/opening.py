"""Opening a memory: make a new one, or check that an existing one is what the caller expects."""

from collections.abc import Sequence

from sigma_mem.encode import ENCODERS, CustomEncoder, Encoder, open_encoder
from sigma_mem.encode.custom import Embed
from sigma_mem.errors import ConflictError, EncoderMismatchError, InputError
from sigma_mem.ledger.lines import OpenLine, open_line
from sigma_mem.ledger.records import Ledger, record_of
from sigma_mem.memory import Settings, SigmaState
from sigma_mem.session.checks import checked_flag, checked_names
from sigma_mem.store.base import Store

_LARGEST_RANK = 16384
_NO_ENCODER = {"name": "phi", "version": "1"}  # every φ is handed in


def open_memory(
    store: Store,
    namespace: str,
    peers: Sequence[str] | None,
    rank: int | None,
    encoder: str | Embed | Encoder | None,
    settings: Settings | None,
    keep_text: bool | None,
    time: float,
) -> tuple[OpenLine, Encoder | None]:
    """Make the namespace's memory, or open it and check what the caller says against it.

    Returns what the memory is made of and its encoder; None where φ is handed in.
    """
    checked_flag("keep_text", keep_text)
    first = next(Ledger(store, namespace).lines(), None)
    if first is not None:
        opening: OpenLine = first.body
        return opening, _checked(opening, namespace, rank, encoder, settings, keep_text)
    if peers is None:
        raise InputError(f"namespace {namespace!r} holds no memory yet; expected peers=[...] to make one")
    found = choose_encoder(encoder, rank)
    size = found.rank if found is not None else rank
    if size is None or (rank is not None and rank != size):
        raise InputError(
            f"rank is {rank} and the encoder {_name(found)['name']!r} has rank {size}; expected them equal"
        )
    if size > _LARGEST_RANK:
        raise InputError(
            f"rank is {size}; expected at most {_LARGEST_RANK}: every peer has matrices of rank²"
        )
    state = SigmaState(checked_names("peers", peers), size, settings)  # checks peers
    opening = OpenLine(state.peers, size, state.settings, _name(found), keep_text is not False, time)
    try:
        store.append(namespace, [record_of(open_line(opening, time))])[1].wait()
    except ConflictError:  # another thread was first
        return open_memory(store, namespace, peers, rank, encoder, settings, keep_text, time)
    return opening, found


def _checked(
    opening: OpenLine,
    namespace: str,
    rank: int | None,
    encoder: str | Embed | Encoder | None,
    settings: Settings | None,
    keep_text: bool | None,
) -> Encoder | None:
    if rank is not None and rank != opening.rank:
        raise InputError(f"rank is {rank}; the memory in {namespace!r} has rank {opening.rank}")
    if settings is not None and settings != opening.settings:
        raise InputError(
            f"settings are {settings}; the memory in {namespace!r} was made with {opening.settings}: "
            "leave them out, or take another namespace"
        )
    if keep_text is not None and opening.keep_text is not keep_text:
        raise InputError(
            f"keep_text is {keep_text}; the memory in {namespace!r} was made with {opening.keep_text}: "
            f"leave it out, or make another memory with refold(keep_text={keep_text})"
        )
    written_with = opening.encoder
    if encoder is None and written_with["name"] not in ENCODERS:
        return None  # it was an encoder object: φ may be handed in
    found = choose_encoder(written_with["name"] if encoder is None else encoder, opening.rank)
    if _name(found) != written_with:
        raise EncoderMismatchError(
            f"encoder is {_name(found)['name']} {_name(found)['version']}; the memory in {namespace!r} was "
            f"written with {written_with['name']} {written_with['version']}: φ of two encoders do not mix; "
            "open it with that one, or start another namespace"
        )
    return found


def choose_encoder(encoder: str | Embed | Encoder | None, rank: int | None) -> Encoder | None:
    """The encoder that a caller means; None where every φ is handed in."""
    if encoder is None:
        return None if rank is not None else open_encoder("static")
    return open_encoder(encoder) if isinstance(encoder, str) else CustomEncoder(encoder, rank=rank)


def _name(encoder: Encoder | None) -> dict[str, str]:
    return dict(_NO_ENCODER) if encoder is None else {"name": encoder.name, "version": encoder.version}
