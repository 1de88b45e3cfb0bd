"""Stand-in for the registry of reads until it is merged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sigma_mem.decide.reads import READS as NAMES
from sigma_mem.decide.reads import ROUTES, View, choose
from sigma_mem.decide.vote import Vote

_ROWS = (
    "majority",
    "m-route",
    "m-vote",
    "calibrated-route",
    "calibrated-vote",
    "posterior",
    "posterior-no-g",
)


@dataclass(frozen=True)
class Read:
    name: str
    needs: str

    def choose(self, view: View) -> Vote:
        return choose(self.name, view)


class Reads:
    def __init__(self) -> None:
        self._reads = {
            n: Read(n, "center" if n == "select" else "question" if n in ROUTES else "answers") for n in NAMES
        }
        self.names = tuple(NAMES)
        self.routes = {n: r for n, r in self._reads.items() if r.needs == "question"}
        self.votes = {n: r for n, r in self._reads.items() if r.needs == "answers"}

    def __iter__(self) -> Iterator[Read]:
        return iter(self._reads.values())

    def __len__(self) -> int:
        return len(self._reads)

    def __getitem__(self, name: str) -> Read:
        return self._reads[name]

    def in_tables(self) -> list[Read]:
        return [self._reads[n] for n in _ROWS]


READS = Reads()
