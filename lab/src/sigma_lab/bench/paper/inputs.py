"""The streams of the paper's tables, how events group into benchmarks, and the figures that it printed.

The figures are transcribed from its LaTeX source into ``published.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from sigma_lab.bench.verdicts import Verdicts, own_answer_verdicts
from sigma_lab.streams import join_streams
from sigma_mem.errors import InputError
from sigma_mem.events import Event
from sigma_mem.streams import Stream, load_stream

RATIOS = (0.0, 0.5, 0.7, 0.9)
SHARES = (0.05, 0.1, 0.25, 0.5, 1.0)  # of Figure 3; the paper says "from 5 % to 100 %"

# Names of datasets and subsets as streams have them, and as the paper prints them, in the paper's order.
DATASETS = {
    "gsm8k": "GSM8K", "squad": "SQuAD", "apps": "APPS",
    "piqa": "PIQA", "mmlu": "MMLU", "openbookqa": "OpenBookQA", "sciq": "SciQ", "bbh": "BBH",
    "superglue": "SuperGLUE",
}  # fmt: skip
SUBSETS = {"wic": "WiC", "rte": "RTE", "cb": "CB", "copa": "COPA", "wsc": "WSC", "multirc": "MultiRC"}


PEERS = (
    "Gemma-3-4B-it", "Phi-4-mini-instruct", "Qwen2.5-Coder-7B-Instruct", "Llama-3.2-3B-Instruct",
    "BitCPM-CANN-3B",
)  # fmt: skip


@cache
def published() -> dict[str, Any]:
    """All figures, in percent: ``cf``, ``peers``, ``readouts``, ``mechanisms`` and ``peer_accuracy``."""
    found: dict[str, Any] = json.loads(files(__package__).joinpath("published.json").read_text("utf-8"))
    return found


def figure(*path: str) -> Any:
    """One of the paper's figures, None if the paper has none.

    >>> figure("cf", "Qwen3-0.6B", "base", "90", "accuracy")
    46.22
    """
    found: Any = published()
    for name in path:
        if not isinstance(found, Mapping) or name not in found:
            return None
        found = found[name]
    return found


def paper_center(name: str) -> str | None:
    """The paper's name of a center, None if it has none of it.

    >>> paper_center("Qwen/Qwen3.5-4B"), paper_center("smollm2")
    ('Qwen3.5-4B', None)
    """
    short = name.rstrip("/").rpartition("/")[2]
    return short if short in published()["cf"] else None


@dataclass(frozen=True)
class PaperStreams:
    """What is learned from, what is attacked, and what lies outside; the first peers are those trained with.

    Any of the three may be absent: its tables are then left out, and the report notes it.
    """

    peers: tuple[str, ...]  # in the paper's order; the first ``trained`` of them are its three
    train: Stream | None = None
    cf: Stream | None = None
    ood: Stream | None = None
    trained: int = 3
    limit: int | None = None  # at most this many events of the streams that are played
    judge: str | None = None  # a model that is kept out of the pools, and whose verdicts are evidence
    verdicts: Verdicts = field(default_factory=dict)

    def pool(self, size: int) -> Stream:
        """The attacked benchmark with the first ``size`` peers."""
        if self.cf is None:
            raise InputError("there is no stream to attack; give --cf")
        return self.cf.select(peers=self.peers[:size])

    @property
    def larger(self) -> tuple[int, ...]:
        """Sizes of the pools with peers that were not trained with."""
        if self.cf is None:
            return ()
        return tuple(
            n for n in range(self.trained + 1, len(self.peers) + 1) if self.peers[n - 1] in self.cf.peers
        )

    @property
    def questions(self) -> list[str]:
        """Of all three streams."""
        streams = (s for s in (self.train, self.cf, self.ood) if s is not None)
        return [event.question for stream in streams for event in stream]


def open_streams(
    train: Sequence[Path],
    cf: Sequence[Path],
    ood: Sequence[Path],
    *,
    peers: Sequence[str] | None = None,
    trained: int = 3,
    limit: int | None = None,
    judge: str | None = None,
) -> PaperStreams:
    """Load the streams, several files as one.

    The training and the outside stream keep the peers that were trained with, the attacked one all of them.
    ``judge`` is a model of the streams that is kept out of the pools, and judges by its own answers.
    """
    if not (cf or ood):
        raise InputError("got no stream to play; give --cf, --ood or both")
    given = {"train": train, "cf": cf, "ood": ood}
    whole = {
        n: join_streams([load_stream(f) for f in files]) if files else None for n, files in given.items()
    }
    there = [stream for stream in whole.values() if stream is not None]
    order = [peer for peer in peers or _order([stream.peers for stream in there]) if peer != judge]
    verdicts: dict[str, dict[str, float]] = {}
    for one in there if judge is not None else ():
        if judge not in one.peers:
            raise InputError(f"got --verdicts {judge}; expected a peer of every stream, such as {order[-1]}")
        verdicts |= own_answer_verdicts(one, judge, order)
    if not 2 <= trained <= len(order):
        raise InputError(f"got --trained {trained}; expected 2 to {len(order)}, the number of peers")
    found = {}
    for name, stream in whole.items():
        wanted = order if name == "cf" else order[:trained]
        if stream is not None:
            here = [peer for peer in wanted if peer in stream.peers]
            if missing := [peer for peer in order[:trained] if peer not in here]:
                raise InputError(
                    f"the {name} stream has no peer {missing[0]!r}; it has {', '.join(stream.peers)}"
                )
            stream = stream.select(peers=here)
        found[name] = stream
    return PaperStreams(tuple(order), **found, trained=trained, limit=limit, judge=judge, verdicts=verdicts)


def dataset_name(event: Event) -> str:
    """The benchmark of an event as the paper prints it; its domain if it has none."""
    return DATASETS.get(event.dataset, event.dataset or event.domain)


def subset_name(event: Event) -> str | None:
    """The SuperGLUE subset of an event as the paper prints it, None for other events."""
    if event.dataset != "superglue":
        return None
    kind = event.id.split("/")[1] if event.id.count("/") > 1 else ""
    return SUBSETS.get(kind, kind) or None


def in_order(names: Sequence[str]) -> list[str]:
    """Every name once, those of the paper first and in its order.

    >>> in_order(["own", "BBH", "PIQA", "own"])
    ['PIQA', 'BBH', 'own']
    """
    known = [*DATASETS.values(), *SUBSETS.values()]
    found = dict.fromkeys(names)
    return [n for n in known if n in found] + [n for n in found if n not in known]


def _order(pools: Sequence[Sequence[str]]) -> list[str]:
    """Peers that all streams have first, then the others."""
    named = list(dict.fromkeys(peer for pool in pools for peer in pool))
    return sorted(named, key=lambda peer: not all(peer in pool for pool in pools))
