"""Peers that come, leave, return, get another name or are updated under their own."""

from collections.abc import Collection, Sequence

from sigma_mem.errors import InputError
from sigma_mem.ledger.fold import Fold
from sigma_mem.ledger.journal import Journal
from sigma_mem.ledger.lines import Line, PeerLine, peer_line, rename_line, reset_line
from sigma_mem.ledger.logs import LOG
from sigma_mem.memory import SigmaState
from sigma_mem.session.checks import checked_names


def append_join(journal: Journal, peer: str, returning: bool, time: float) -> None:
    """Take a peer into the pool; see `SigmaMem.add_peer`."""
    with journal.writing() as fold:
        ticket = journal.append(_join(fold, fold.state.peers, peer, returning, time))
    ticket.wait()


def append_departure(journal: Journal, peer: str, time: float) -> None:
    """Remove a peer from the pool; see `SigmaMem.remove_peer`."""
    with journal.writing() as fold:
        _check_member(fold, peer)
        SigmaState(fold.state.peers, 1).remove_peer(peer)  # refuses the last one before anything is written
        ticket = journal.append(peer_line(peer, False, time, len(fold.pool)))
    ticket.wait()


def append_rename(journal: Journal, old: str, new: str | None, keep: float, time: float) -> None:
    """Give a peer's place, and a share of its record, to a name; see `SigmaMem.rename_peer`."""
    share = _checked_keep(keep)
    if new in (None, old):
        if share == 1.0:
            raise InputError(f"peer {old!r} keeps its name and all its record; expected a new name, or keep=")
        _append_reset(journal, old, share, time)
        return
    with journal.writing() as fold:
        _check_member(fold, old)
        SigmaState((*fold.state.peers, new), 1)  # checks the new name
        if new in fold.used_names() and fold.aliases().get(new) != old:
            raise InputError(
                f"peer {new!r} was in this memory before; expected a name not used yet, or one that "
                f"{old!r} had"
            )
        ticket = journal.append(rename_line(old, new, share, len(fold.pool), time))
    ticket.wait()
    LOG.info("memory %r: peer %r is now %r and keeps %g of its record", journal.namespace, old, new, share)


def _append_reset(journal: Journal, peer: str, keep: float, time: float) -> None:
    with journal.writing() as fold:
        _check_member(fold, peer)
        ticket = journal.append(reset_line(peer, keep, len(fold.pool), time))
    ticket.wait()
    LOG.info("memory %r: peer %r keeps %g of its record", journal.namespace, peer, keep)


def sync_pool(journal: Journal, peers: Sequence[str], time: float) -> None:
    """Make the pool these peers: add who is missing, bring back who was removed, remove who is not named."""
    with journal.writing() as fold:
        pool = list(fold.state.peers)
        SigmaState(peers, 1)  # checks the names
        lines: list[Line[PeerLine]] = []
        for peer in peers:
            if peer not in pool:
                lines.append(_join(fold, pool, peer, peer in fold.departed, time, len(lines)))
                pool.append(peer)
        for peer in [name for name in pool if name not in peers]:
            lines.append(peer_line(peer, False, time, len(fold.pool) + len(lines)))
        ticket = journal.append(*lines) if lines else None
    if ticket is not None:
        ticket.wait()


def _join(
    fold: Fold, pool: Sequence[str], peer: str, returning: bool, time: float, queued: int = 0
) -> Line[PeerLine]:
    SigmaState((*pool, peer), 1)  # checks the name before anything is written
    if peer in fold.aliases():
        raise InputError(f"peer {peer!r} is now {fold.aliases()[peer]!r}; expected a name not used yet")
    if peer in fold.departed and not returning:
        raise InputError(
            f"peer {peer!r} was removed before; expected a name not used yet, or returning=True "
            "(--returning) to let it start again with nothing known of it"
        )
    if returning and peer not in fold.departed:
        raise InputError(f"peer {peer!r} was never removed; leave out returning=True")
    return peer_line(peer, True, time, len(fold.pool) + queued, returning)


def checked_pool(given: Sequence[str], pool: Sequence[str]) -> bool:
    """Whether these are the peers of the pool, in any order; InputError for names that cannot be peers."""
    return set(SigmaState(checked_names("peers", given), 1).peers) == set(pool)


def other_pool_error(given: Sequence[str], pool: Sequence[str], namespace: str) -> InputError:
    """What to say where a memory has other peers than the caller names."""
    new = [peer for peer in given if peer not in pool]
    gone = [peer for peer in pool if peer not in given]
    return InputError(
        f"peers are {list(given)}; the memory in {namespace!r} has {list(pool)}: open it without peers, use "
        f"add_peer and remove_peer, or pass sync=True to add {new} and remove {gone}"
    )


def _check_member(fold: Fold, peer: str) -> None:
    if peer not in fold.state.peers:
        now = fold.aliases().get(peer)
        remedy = f"it is called {now!r} now" if now else f"expected one of {list(fold.state.peers)}"
        raise InputError(f"peer {peer!r} is not in the pool; {remedy}")


def _checked_keep(keep: float) -> float:
    if isinstance(keep, bool) or not isinstance(keep, int | float) or not 0.0 <= keep <= 1.0:
        raise InputError(f"keep is {keep!r}; expected a share from 0 (forget all) to 1 (forget nothing)")
    return float(keep)


def current_names(labels: dict[str, float], fold: Fold) -> dict[str, float]:
    """Labels by the names that peers have now; a label may come late, under a name from before."""
    aliases = fold.aliases()
    if not aliases or not any(peer in aliases for peer in labels):
        return labels
    out: dict[str, float] = {}
    for peer, c in labels.items():
        now = aliases.get(peer, peer)
        if now in out:
            raise InputError(f"peer {now!r} is labelled under two of its names; expected one label")
        out[now] = c
    return out


def known_peers(fold: Fold, names: Sequence[str]) -> list[str]:
    """Peers that are or were in the pool, by the names that they have now."""
    known = known_names(fold)
    for name in names:
        if name not in known:
            raise InputError(f"peer {name!r} is not in this memory; expected one of {sorted(known)}")
    return [fold.aliases().get(name, name) for name in names]


def known_names(fold: Fold) -> Collection[str]:
    """Names that feedback may use: of the pool, of those who left, and those from before a renaming."""
    aliases = fold.aliases()
    return {*fold.known_peers(), *aliases} if aliases else fold.known_peers()
