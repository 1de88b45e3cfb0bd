"""Who really answered: a caller may override a decision, and the ledger says so."""

import math
from collections.abc import Sequence
from dataclasses import replace

from sigma_mem.errors import InputError
from sigma_mem.events import Decision
from sigma_mem.ledger.costs import LARGEST_AMOUNT
from sigma_mem.ledger.decision import decision_in
from sigma_mem.ledger.event import EventState
from sigma_mem.ledger.fold import Fold
from sigma_mem.ledger.journal import Journal
from sigma_mem.ledger.lines import DecisionLine, Line, served_line
from sigma_mem.session.checks import checked_names


def append_served(
    journal: Journal,
    decision: str,
    peer: str | None,
    cost: float | None,
    latency: float | None,
    time: float,
    wait: bool = True,
) -> Decision:
    """Record who answered, and return once it is durable, unless told not to wait; see `SigmaMem.served`."""
    for what, amount in (("cost", cost), ("latency", latency)):
        number = isinstance(amount, int | float) and not isinstance(amount, bool)
        if amount is not None and not (number and 0.0 <= amount <= LARGEST_AMOUNT):
            raise InputError(f"{what} is {amount!r}; expected a number, 0 or more")
    with journal.writing() as fold:
        recorded = fold.line(decision)
        line = fold.pool.translated(recorded)  # what is written now names peers as they are called now
        _, event = fold.event_of(line.id)
        pool = line.body.peers
        name = line.body.chosen if peer is None else fold.aliases().get(peer, peer)
        if name is None or name not in pool:
            got = f"decision {line.id!r} chose nobody" if name is None else f"peer is {peer!r}"
            raise InputError(f"{got}; expected one of the peers of then, {sorted(pool)}")
        ticket = None
        charge = event.charges.get(name)
        is_new = event.served.get(line.id) != name
        if (
            is_new
            or latency is not None
            or not (cost is None or (charge and (charge.amount, charge.real) == (cost, True)))
        ):
            expected = (0.0, 0.0) if charge else _expected(fold, name, line, event)
            said = served_line(line, name, event.served_lines, time, expected, cost, latency)
            ticket = journal.append(said)
        now = as_served(fold, recorded)
    if wait and ticket is None:
        journal.store.flush(journal.namespace)  # the earlier line may still be on its way to the disk
    elif wait and ticket is not None:
        ticket.wait()
    return now


def as_served(fold: Fold, line: Line[DecisionLine]) -> Decision:
    """The decision of a line, with who answered and the labels so far.

    Its propensity is 0 if the caller took another peer. It names peers as they were called when it was made.
    """
    decision = decision_in(line)
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
    return replace(
        decision,
        served=served,
        propensity=decision.propensity if served == decision.peer else 0.0,
        cost=math.fsum(charge.amount for charge in event.charges.values()) if event.charges else None,
    )


def _expected(fold: Fold, peer: str, line: Line[DecisionLine], event: EventState) -> tuple[float, float]:
    """What a call to a peer is expected to cost, and what its price alone says."""
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
