"""The file of answers: one line per question and peer, with all that was asked and what it cost."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sigma_lab.collect.cache import AnswerCache
from sigma_lab.collect.peers import PeerSettings
from sigma_lab.collect.requests import Body, Reply
from sigma_lab.collect.task_prompts import json_lines, write_json_lines
from sigma_mem.errors import InputError


@dataclass(frozen=True)
class AskedPair:
    """One question for one peer."""

    task: str
    peer: PeerSettings
    request: Body
    key: str


@dataclass(frozen=True)
class PeerTotals:
    """How far a peer is, and what it used, over the whole file."""

    peer: str
    questions: int = 0
    answered: int = 0
    failed: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    seconds: float = 0.0
    """Of asking, summed over answers and failures."""


def read_answers(path: Path) -> list[dict[str, Any]]:
    """The records of a file of answers; none if there is no file yet."""
    found = json_lines(path, dict[str, Any], "an answer") if path.exists() else []
    for number, record in found:
        if not isinstance(record.get("id"), str) or not isinstance(record.get("peer"), str):
            raise InputError(f"{path}, line {number}: expected an answer, with id and peer")
    return [record for _, record in found]


def write_answers(
    path: Path, pairs: Sequence[AskedPair], cache: AnswerCache, before: Iterable[Mapping[str, Any]] = ()
) -> int:
    """Write what is answered so far, in the order of the questions, and return the number of lines.

    Records of ``before``, the file's former content, stay if they are about other questions or peers.
    """
    here = {(pair.task, pair.peer.name) for pair in pairs}
    kept = (record for record in before if (record.get("id"), record.get("peer")) not in here)
    place = {pair.task: i for i, pair in enumerate(pairs)}
    records = sorted([*kept, *_records(pairs, cache)], key=lambda record: place.get(record["id"], -1))
    write_json_lines(path, records)
    return len(records)


def check_target(path: Path) -> None:
    """Refuse a name that this cannot write."""
    if path.suffix not in (".gz", ".jsonl"):
        raise InputError(f"got --out {path}; expected a name that ends in .jsonl or .jsonl.gz")


def totals(pairs: Iterable[AskedPair], cache: AnswerCache) -> list[PeerTotals]:
    """The sums of every peer, whether asked in this run or before."""
    found: dict[str, list[AskedPair]] = {}
    for pair in pairs:
        found.setdefault(pair.peer.name, []).append(pair)
    return [_totals(name, of_peer, cache) for name, of_peer in found.items()]


def cost_of(peer: PeerSettings, reply: Reply) -> float | None:
    """The price of a reply's tokens; None without prices or counts."""
    if peer.price_in is None and peer.price_out is None:
        return None
    if reply.tokens_in is None or reply.tokens_out is None:
        return None
    price_in, price_out = peer.price_in or 0.0, peer.price_out or 0.0
    return (reply.tokens_in * price_in + reply.tokens_out * price_out) / 1e6


def _totals(name: str, pairs: Sequence[AskedPair], cache: AnswerCache) -> PeerTotals:
    # A request that several questions share was asked, and paid for, once.
    known = {pair.key: cache.replies[pair.key][1] for pair in pairs if pair.key in cache.replies}
    failed = sum(known[pair.key].error is not None for pair in pairs if pair.key in known)
    costs = [cost for reply in known.values() if (cost := cost_of(pairs[0].peer, reply)) is not None]
    return PeerTotals(
        name,
        questions=len(pairs),
        answered=sum(pair.key in known for pair in pairs) - failed,
        failed=failed,
        tokens_in=sum(reply.tokens_in or 0 for reply in known.values()),
        tokens_out=sum(reply.tokens_out or 0 for reply in known.values()),
        cost=sum(costs) if costs else None,
        seconds=sum(reply.seconds for reply in known.values()),
    )


def _records(pairs: Iterable[AskedPair], cache: AnswerCache) -> Iterator[dict[str, Any]]:
    for pair in pairs:
        if pair.key not in cache.replies:
            continue
        at, reply = cache.replies[pair.key]
        record: dict[str, Any] = {"id": pair.task, "peer": pair.peer.name, "text": reply.text}
        if reply.error is not None:
            record |= {"error": reply.error, "down": reply.down}
        record |= {"model": reply.model, "finish": reply.finish}
        record |= {"tokens_in": reply.tokens_in, "tokens_out": reply.tokens_out}
        record |= {"cost": cost_of(pair.peer, reply), "seconds": reply.seconds, "attempts": reply.attempts}
        yield record | {"at": at, "key": pair.key, "request": pair.request}
