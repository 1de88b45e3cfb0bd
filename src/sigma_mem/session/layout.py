"""Where the values of plain lines stand in their shapes: what many such lines say, as arrays.

A plain decision is the first one of an event, without topics, costs or a panel. A plain feedback has labels
of one source that weighs 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sigma_mem.answers.features import FEATURES, FEATURES_VERSION
from sigma_mem.events import FloatArray
from sigma_mem.memory.agreement import agreement_labels
from sigma_mem.store.building import Slot
from sigma_mem.store.columns import ShapeColumns

_OF_DECISION = frozenset(
    {"now", "tick", "time", "read", "peer", "answer", "scores"}
    | {"probs", "effective", "confidence", "propensity", "question", "canons", "features"}
    | {"reads", "details", "claims", "confidence_claims", "agreement", "evidence", "ref"}
)
_ALWAYS = frozenset({"tick", "scores", "probs", "confidence", "canons", "features", "reads", "details"})
_OF_FEEDBACK = frozenset(["labels", "source", "amends", "tick", "time", "weight", "reliability"])
NOT_ASKED = -2  # a group; −1 for an answer that could not be read


@dataclass(slots=True)
class PlainLines:
    """What the plain lines of a page say, by place; rows of other lines say nothing.

    Attributes
    ----------
    plain, tick : whether a line is plain, and its tick, (lines,)
    groups, agreement, probs, labels : (lines, P); NaN where there is none
    features : (lines, P, S), and `described` where an answer has them, (lines, P)
    claims : (lines, P, H + 2); None where no line has them
    claimed, answered, sure : whether a decision has claims, answers, and confidence claims, (lines,)
    confidence : of decisions, (lines,)
    sureness : claims of every temperature and their mixture, (lines, K); None where no line has them
    chosen : the peer of these claims, (lines,)
    adaptive : whether a decision has choices of reads, (lines,)
    choices : the peer that each read chose, (lines, R); −1 for nobody
    order : of a feedback's labels, by line
    """

    plain: NDArray[np.bool_]
    tick: FloatArray
    groups: NDArray[np.intp]
    agreement: FloatArray
    probs: FloatArray
    labels: FloatArray
    features: FloatArray
    described: NDArray[np.bool_]
    claims: NDArray[np.float16] | None
    claimed: NDArray[np.bool_]
    answered: NDArray[np.bool_]
    sure: NDArray[np.bool_]
    confidence: FloatArray
    sureness: FloatArray | None
    chosen: NDArray[np.intp]
    adaptive: NDArray[np.bool_]
    choices: NDArray[np.intp]
    order: dict[int, Sequence[int]]

    @classmethod
    def nothing(cls, n: int, n_peers: int, n_reads: int) -> PlainLines:
        """Of so many lines nothing is known."""
        by_peer = (n, n_peers)
        return cls(
            plain=np.zeros(n, dtype=bool),
            tick=np.zeros(n),
            groups=np.full(by_peer, NOT_ASKED, dtype=np.intp),
            agreement=np.full(by_peer, math.nan),
            probs=np.zeros(by_peer),
            labels=np.full(by_peer, math.nan),
            features=np.zeros((*by_peer, len(FEATURES))),
            described=np.zeros(by_peer, dtype=bool),
            claims=None,
            claimed=np.zeros(n, dtype=bool),
            answered=np.zeros(n, dtype=bool),
            sure=np.zeros(n, dtype=bool),
            confidence=np.zeros(n),
            sureness=None,
            chosen=np.zeros(n, dtype=np.intp),
            adaptive=np.zeros(n, dtype=bool),
            choices=np.full((n, n_reads), -1, dtype=np.intp),
            order={},
        )

    def take_decisions(
        self,
        tree: Any,
        columns: ShapeColumns,
        rows: NDArray[np.intp],
        peers: Sequence[str],
        reads: Sequence[str],
        name_of: Callable[[float], str],
    ) -> None:
        """Take in decisions of one shape, where that is a plain one."""
        if not _is_plain_decision(tree, peers):
            return
        column = columns.numbers
        plain = np.ones(len(rows), dtype=bool)
        self.tick[rows] = column[tree["tick"]]
        self.confidence[rows] = column[tree["confidence"]]
        if "claims" in tree:
            raw = columns.raw.get(int(tree["claims"]))
            if raw is None or raw.shape[1] % (2 * len(peers)):
                return
            claims = raw.view("<f2").reshape(len(rows), len(peers), -1)
            if self.claims is None:
                self.claims = np.zeros((len(self.plain), *claims.shape[1:]), dtype=np.float16)
            if self.claims.shape[1:] != claims.shape[1:]:
                return
            self.claims[rows], self.claimed[rows] = claims, True
        if tree["canons"]:
            self.answered[rows] = True
            for i, place in enumerate(tree["canons"].values()):
                given = None if place is None else column[place]
                self.groups[rows, i] = -1 if given is None else given  # numbered below
                if given is not None:
                    plain &= given != 0.0  # a long one is not read here
            self.groups[rows] = _grouped(self.groups[rows], [x is not None for x in tree["canons"].values()])
            if "agreement" in tree:
                raw = columns.raw.get(int(tree["agreement"]))
                if raw is None or raw.shape[1] != 2 * len(peers):
                    return
                self.agreement[rows] = raw.view("<f2").astype(np.float64)
            else:
                self.agreement[rows] = agreement_labels(self.groups[rows])
            version, features = tree["features"]
            if features:
                plain &= column[version] == FEATURES_VERSION
                for peer, places in features.items():
                    i = peers.index(peer)
                    self.described[rows, i] = True
                    self.features[rows, i] = np.column_stack([column[place] for place in places])
            for i, place in enumerate(tree["probs"].values()):
                self.probs[rows, i] = column[place]
            if tree.get("confidence_claims"):
                chosen, *claims_ = tree["confidence_claims"]
                sureness = np.column_stack([column[place] for place in claims_])
                if self.sureness is None:
                    self.sureness = np.zeros((len(self.plain), sureness.shape[1]))
                self.sureness[rows], self.sure[rows] = sureness, True
                self.chosen[rows] = _places_of(column[chosen], peers, name_of)
                plain &= self.chosen[rows] >= 0
            if tree["reads"]:
                self.adaptive[rows] = True
                for read, place in tree["reads"].items():
                    if read in reads:
                        found = _places_of(column[place], peers, name_of)
                        self.choices[rows, reads.index(read)] = found
                        plain &= found >= 0
        self.plain[rows] = plain

    def take_feedback(
        self, tree: Any, columns: ShapeColumns, rows: NDArray[np.intp], peers: Sequence[str]
    ) -> None:
        """Take in feedback of one shape, where that is a plain one."""
        if not _is_plain_feedback(tree, peers):
            return
        column = columns.numbers
        self.tick[rows] = column[tree["tick"]]
        order = [peers.index(peer) for peer in tree["labels"]]
        for i, place in zip(order, tree["labels"].values(), strict=True):
            self.labels[rows, i] = column[place]
        self.order.update(dict.fromkeys(rows.tolist(), order))
        self.plain[rows] = column[tree["weight"]] == 1.0 if "weight" in tree else True


def _is_plain_decision(tree: Any, peers: Sequence[str]) -> bool:
    if not isinstance(tree, dict) or not _ALWAYS <= tree.keys() <= _OF_DECISION:
        return False  # one of an earlier release, or with more to say
    by_peer = all(
        list(tree[key]) == list(peers) and _are_places(tree[key].values()) for key in ("scores", "probs")
    )
    canons, (version, features) = tree["canons"], tree["features"]
    return (
        by_peer
        and (bool(canons) or not tree["reads"])
        and _are_places(tree["reads"].values())
        and "panel" not in tree["details"]
        and _are_places((tree["tick"], tree["confidence"]))
        and (not canons or list(canons) == list(peers))
        and all(place is None or isinstance(place, Slot) for place in canons.values())
        and isinstance(version, Slot)
        and all(
            peer in canons and len(row) == len(FEATURES) and _are_places(row)
            for peer, row in features.items()
        )
        and list(features) == [peer for peer in peers if peer in features]
        and all(isinstance(tree[key], Slot) for key in ("claims", "agreement") if key in tree)
        and _are_places(tree.get("confidence_claims", ()))
    )


def _is_plain_feedback(tree: Any, peers: Sequence[str]) -> bool:
    return (
        isinstance(tree, dict)
        and {"tick", "labels"} <= tree.keys() <= _OF_FEEDBACK
        and ("weight" in tree) == ("reliability" in tree)
        and isinstance(tree["tick"], Slot)
        and ("weight" not in tree or isinstance(tree["weight"], Slot))
        and bool(tree["labels"])
        and all(peer in peers for peer in tree["labels"])
        and _are_places(tree["labels"].values())
    )


def _are_places(values: Any) -> bool:
    return all(isinstance(value, Slot) for value in values)


def _places_of(
    numbers: FloatArray, peers: Sequence[str], name_of: Callable[[float], str]
) -> NDArray[np.intp]:
    """The peers whose names have these numbers; −1 for another name."""
    distinct, place = np.unique(numbers, return_inverse=True)
    names = [name_of(number) for number in distinct.tolist()]
    return np.array([peers.index(name) if name in peers else -1 for name in names], dtype=np.intp)[place]


def _grouped(numbers: NDArray[np.intp], there: Sequence[bool]) -> NDArray[np.intp]:
    """Answer groups of every row, numbered by who gave each first; −1 where there is no answer."""
    out = np.full(numbers.shape, -1, dtype=np.intp)
    asked = [i for i, given in enumerate(there) if given]
    for i in asked:
        same = numbers[:, asked] == numbers[:, i : i + 1]
        out[:, i] = np.array(asked)[same.argmax(axis=1)]
    return out
