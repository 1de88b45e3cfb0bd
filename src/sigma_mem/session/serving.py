"""Who really answered: a caller may override a decision, and the ledger says so."""

from collections.abc import Sequence
from dataclasses import replace

from sigma_mem.errors import InputError
from sigma_mem.events import Decision
from sigma_mem.session.fold import Fold
from sigma_mem.session.journal import Journal
from sigma_mem.session.lines import decision_from, served_record
from sigma_mem.store.base import Record


def append_served(journal: Journal, decision: str, peer: str | None, time: float) -> Decision:
    """Record who answered, and return once it is durable; see `SigmaMem.served`."""
    with journal as fold:
        line = fold.line(decision)
        _, event = fold.event_of(line.id)
        pool = line.body["scores"]
        name = line.body["peer"] if peer is None else peer
        if name not in pool:
            got = f"decision {line.id!r} chose nobody" if name is None else f"peer is {name!r}"
            raise InputError(f"{got}; expected one of the peers of then, {sorted(pool)}")
        ticket = None
        if event.served.get(line.id) != name:
            ticket = journal.append(served_record(line, name, event.served_lines, time))
        said = as_served(fold, line)
    if ticket is None:
        journal.store.flush()  # the earlier line may still be on its way to the disk
    else:
        ticket.wait()
    return said


def as_served(fold: Fold, line: Record) -> Decision:
    """The decision of a line, with who answered; its propensity is 0 where the caller took another peer."""
    decision = decision_from(line)
    event = fold.event(line.event)
    served = None if event is None else event.served.get(line.id)
    if served is None:
        return decision
    return replace(
        decision, served=served, propensity=decision.propensity if served == decision.peer else 0.0
    )


def checked_among(among: Sequence[str], peers: Sequence[str]) -> list[str]:
    """The candidates that a caller allows, in the order of the pool."""
    if isinstance(among, str):
        raise InputError(f"among is {among!r}; expected a list of peers, such as [{among!r}]")
    allowed = set(among)
    if not allowed:
        raise InputError(f"among is empty; expected at least one of {list(peers)}, or leave it out for all")
    if unknown := sorted(map(str, allowed - set(peers))):
        raise InputError(f"among names {unknown[0]!r}; expected peers of this memory: {list(peers)}")
    return [peer for peer in peers if peer in allowed]
