"""Peers that come, leave, return, get another name or are updated under their own; which peer answered."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from msgspec import structs

from sigma_mem.errors import ConflictError, InputError
from sigma_mem.events import Decision
from sigma_mem.ledger.costs import LARGEST_AMOUNT
from sigma_mem.ledger.decision import decision_in
from sigma_mem.ledger.event import EventState
from sigma_mem.ledger.fold import Fold
from sigma_mem.ledger.journal import Journal
from sigma_mem.ledger.lines import (
    DecisionLine,
    Line,
    PeerLine,
    RenameLine,
    ResetLine,
    ServedLine,
    peer_line,
    rename_line,
    reset_line,
)
from sigma_mem.ledger.logs import LOG
from sigma_mem.memory import SigmaState
from sigma_mem.session.checks import check_source, checked_names, checked_number
from sigma_mem.store.base import refuse_unwritable


def append_join(
    journal: Journal, peer: str, returning: bool, like: str | None, worth: float, time: float
) -> None:
    """Take a peer into the pool; see `SigmaMem.add_peer`."""
    if isinstance(worth, bool) or not isinstance(worth, int | float) or not 0.0 < worth < math.inf:
        raise InputError(f"worth is {worth!r}; expected a number of labels, more than 0")
    with journal.writing() as fold:
        line = _join(fold, fold.state.peers, peer, returning, time)
        if like is not None:
            _check_member(fold, like)
            share = min(1.0, worth / max(fold.state.labels_of(like), worth))
            line = line._replace(body=structs.replace(line.body, like=like, share=share))
        ticket = journal.append(line)
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
    if keep is None:
        raise InputError("keep is None; expected a share from 0 (forget all) to 1 (forget nothing)")
    checked_number("keep", keep, 0.0, 1.0, "a share from 0 (forget all) to 1 (forget nothing)")
    name = old if new is None else new
    if name == old and keep == 1.0:
        raise InputError(f"peer {old!r} keeps its name and all its record; expected a new name, or keep=")
    with journal.writing() as fold:
        _check_member(fold, old)
        if name == old:
            line: Line[ResetLine] | Line[RenameLine] = reset_line(old, float(keep), len(fold.pool), time)
        else:
            SigmaState((*fold.state.peers, name), 1)  # checks the new name
            if name in fold.used_names() and fold.aliases().get(name) != old:
                raise InputError(
                    f"peer {name!r} was in this memory before; expected a name not used yet, or one that "
                    f"{old!r} had"
                )
            line = rename_line(old, name, float(keep), len(fold.pool), time)
        ticket = journal.append(line)
    ticket.wait()
    LOG.info("memory %r: peer %r, now %r, keeps %g of its record", journal.namespace, old, name, keep)


def sync_pool(journal: Journal, peers: Sequence[str], time: float) -> None:
    """Make the pool these peers: add missing ones, bring back removed ones, remove those not named."""
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
    """The message if a memory has other peers than the caller names."""
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
    """Names that feedback may use: of the pool, of peers that left, and those before a renaming."""
    aliases = fold.aliases()
    return {*fold.known_peers(), *aliases} if aliases else fold.known_peers()


def append_served(
    journal: Journal,
    decision: str,
    peer: str | None,
    cost: float | None,
    latency: float | None,
    source: str | None,
    time: float,
    wait: bool = True,
    answer: str | None = None,
) -> Decision:
    """Record which peer answered, and return once it is durable if `wait` is true; see `SigmaMem.served`."""
    for what, amount in (("cost", cost), ("latency", latency)):
        checked_number(what, amount, 0.0, LARGEST_AMOUNT, "a number, 0 or more")
    if answer is not None:
        refuse_unwritable(answer)
    with journal.writing() as fold:
        if source is not None:
            check_source(source, (), fold)
        trusted = source is None or fold.sources.is_trusted(source)
        weight = None if trusted or source is None else fold.sources.weight(source, fold.state)
        recorded = fold.line(decision)
        line = fold.pool.translated(recorded)  # what is written now names peers as they are called now
        _, event = fold.event_of(line.id)
        pool = line.body.peers
        name = line.body.chosen if peer is None else fold.aliases().get(peer, peer)
        if name is None or name not in pool:
            got = f"decision {line.id!r} chose nobody" if name is None else f"peer is {peer!r}"
            raise InputError(f"{got}; expected one of the peers at that time, {sorted(pool)}")
        ticket = None
        charge = event.charges.get(name)
        is_new = event.served.get(line.id) != name or (trusted and line.id not in event.vouched)
        if (
            is_new
            or latency is not None
            or answer is not None
            or not (cost is None or (charge and charge.reported(cost, weight) == charge))
        ):
            if not trusted and line.id in event.vouched:
                raise ConflictError(
                    f"a trusted source reported the peer that answered {line.id!r}; expected the same from "
                    f"{source!r}, which is not trusted"
                )
            expected = (0.0, 0.0) if charge else _expected(fold, name, line, event)
            chosen = None if line.body.groups else line.body.chosen
            said = ServedLine(line.id, name, time, expected, chosen, cost, latency, source, weight, answer)
            ticket = journal.append(Line("served", f"{line.event}/{event.served_lines}", line.event, said))
        now = as_served(fold, recorded)
    if wait and ticket is None:
        journal.store.flush(journal.namespace)  # the earlier line may still be on its way to the disk
    elif wait and ticket is not None:
        ticket.wait()
    return now


def as_served(fold: Fold, line: Line[DecisionLine]) -> Decision:
    """The decision of a line, with the peer that answered and the labels so far.

    Its propensity is 0 if the caller took another peer. It names peers as they were called when it was made.
    """
    decision = replace(decision_in(line), answers=line.body.answers_by_peer())
    event = fold.event(line.event)
    if event is None:
        return decision
    labels, then = event.labels().c, fold.pool.name_then
    if labels:
        known = {then(peer, line.seq, decision.scores) or peer: c for peer, c in labels.items()}
        decision = replace(decision, labels=known)
    served = event.served.get(line.id)
    if served is None:
        return decision
    served = then(served, line.seq, decision.scores)
    said = [bill.answer for bill, _ in event.bills if bill.decision == line.id]
    if served is not None and (texts := [text for text in said if text is not None]):
        decision = replace(decision, answers={**decision.answers, served: texts[-1]})
    return replace(
        decision,
        served=served,
        propensity=decision.propensity if served == decision.peer else 0.0,
        cost=math.fsum(charge.counted for charge in event.charges.values()) if event.charges else None,
    )


def peers_that_said_it(decision: Decision) -> list[str]:
    """Whose answer a score is about: the peer that served, and all whose answer was equal in a vote."""
    served = decision.served or decision.peer
    if served is None:
        raise InputError(
            f"decision {decision.id!r} served nobody's answer; expected labels instead of a score"
        )
    canon = decision.canons.get(served)
    if canon is None:
        return [served]
    return [peer for peer, other in decision.canons.items() if other == canon]


def _expected(fold: Fold, peer: str, line: Line[DecisionLine], event: EventState) -> tuple[float, float]:
    """What a call to a peer is expected to cost, and what it would cost by its price alone."""
    peers = fold.state.peers
    if peer not in peers:
        return 0.0, 0.0
    characters = len(line.body.question or event.question or "")
    cost, price = fold.costs.expected(peers, characters, event.phi, fold.state.now)
    row = peers.index(peer)
    return float(cost[row]), float(price[row])


def checked_among(among: Sequence[str], peers: Sequence[str]) -> list[str]:
    """The candidates that a caller allows, in the order of the pool."""
    allowed = set(checked_names("among", among))
    if not allowed:
        raise InputError(f"among is empty; expected at least one of {list(peers)}, or leave it out for all")
    if unknown := sorted(map(str, allowed - set(peers))):
        raise InputError(f"among names {unknown[0]!r}; expected peers of this memory: {list(peers)}")
    return [peer for peer in peers if peer in allowed]
