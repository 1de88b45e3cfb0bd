"""Advice on how a memory is used: warnings that name the remedy, each once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from sigma_mem.encode.glossary import reads_language
from sigma_mem.ledger.fold import Fold
from sigma_mem.ledger.journal import Journal
from sigma_mem.ledger.lines import DecisionLine, Line
from sigma_mem.session.history import decision_lines
from sigma_mem.store.base import Store

FIRST_CHECK = 256  # events; then at twice as many, and so on
_RECENT = 512  # decisions that are examined
_LABELS = 30  # feedback lines after which a single source is worth a warning
_FEW = 0.01  # share of labelled events
_CHOICES = 200  # decisions after which a peer should have been chosen
_LARGE_RANK = 256
_FOREIGN = 0.2  # share of questions in a language that the encoder does not know


@dataclass(frozen=True, slots=True)
class Advice:
    """Something worth a warning: its short name, and a sentence with the remedy."""

    about: str
    text: str

    def __str__(self) -> str:
        return self.text


def advice_for(journal: Journal, encoder: str) -> list[Advice]:
    """Advice on a memory as it stands, from its last 512 decisions.

    Takes the lock for moments only: others decide meanwhile.
    """
    store, namespace = journal.store, journal.namespace
    with journal as fold:
        seq = fold.seq
    recent = list(islice(decision_lines(journal.ledger, seq), _RECENT))
    found = [_one_source(store, namespace), _labels(journal, recent), _language(encoder, recent)]
    with journal as fold:
        found += [rank_advice(fold.state.rank), *_never_chosen(fold, recent)]
    return [advice for advice in found if advice is not None]


def rank_advice(rank: int) -> Advice | None:
    """Advice on a large rank."""
    if rank <= _LARGE_RANK:
        return None
    return Advice(
        "rank",
        f"rank is {rank}: a memory keeps rank² numbers a peer, and learns slower; project embeddings to 64 "
        "or 128 dimensions first (by a random projection, for example)",
    )


def _one_source(store: Store, namespace: str) -> Advice | None:
    lines = store.sources(namespace)
    if len(lines) != 1 or sum(lines.values()) < _LABELS:
        return None
    (name,) = lines
    return Advice(
        "one source",
        f"all feedback comes from one source, {name!r}: nothing can tell whether it is right; give source= "
        "for each of your graders, and name those you trust in Settings(trusted=...)",
    )


def _labels(journal: Journal, recent: list[Line[DecisionLine]]) -> Advice | None:
    if len(recent) < FIRST_CHECK:
        return None
    events = dict.fromkeys(line.event for line in recent)
    labelled = sum(_has_label(journal, id) for id in events)
    if labelled > _FEW * len(events):
        return None
    return Advice(
        "few labels",
        f"{labelled} of the last {len(events)} events have a label: p̂ rests on agreement; send feedback for "
        "more of them, or use Settings(decay='labelled') so that rare labels are not forgotten",
    )


def _has_label(journal: Journal, event: str) -> bool:
    with journal as fold:
        found = fold.event(event)
        return found is not None and bool(found.said)


def _never_chosen(fold: Fold, recent: list[Line[DecisionLine]]) -> Iterator[Advice]:
    chosen = Counter(fold.pool.translated(line).body.chosen for line in recent)
    offered = Counter(peer for line in recent for peer in line.body.peers)
    for peer in fold.state.peers:
        if offered[peer] >= _CHOICES and not chosen[peer]:
            yield Advice(
                f"never chosen: {peer}",
                f"peer {peer!r} was chosen in none of the last {offered[peer]} decisions: "
                f"remove_peer({peer!r}) saves its cost, or route(explore=True) tries it sometimes",
            )


def _language(encoder: str, recent: list[Line[DecisionLine]]) -> Advice | None:
    questions = [line.body.question for line in recent if line.body.question]
    foreign = [text for text in questions if not reads_language(text)]
    if encoder != "static" or len(questions) < _LABELS or len(foreign) < _FOREIGN * len(questions):
        return None
    return Advice(
        "language",
        f"{len(foreign)} of the last {len(questions)} questions are in a language that the encoder 'static' "
        "does not know: use encoder='sentence' with a multilingual model, one of your own, or topic=...",
    )
