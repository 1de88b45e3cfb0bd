"""Ask every peer every question once: concurrently, at the pace of each, and never the same thing again.

Every reply goes into a SQLite file first, by the key of its request, and is on the disk before it counts as
recorded. The file of answers has one line per question and peer, with all that was asked and what it cost.
"""

import contextlib
import queue
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from sigma_lab.collect.peers import (
    Body,
    Endpoint,
    Pace,
    PeerSettings,
    Reply,
    Stopped,
    ask_with_retries,
    request_key,
    request_writer,
)
from sigma_lab.collect.questions import TaskPrompt, json_lines, write_json_lines
from sigma_mem.errors import InputError, SigmaMemError

_SCHEMA = "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, at TEXT, reply TEXT)"


class AnswerCache:
    """Replies by key. One process at a time may hold the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._db = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise InputError(f"cannot write {path}: {error}; choose another --cache") from error
        try:
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("BEGIN EXCLUSIVE")
            self._db.execute(_SCHEMA)
            self._db.execute("COMMIT")
            rows = self._db.execute("SELECT key, at, reply FROM replies ORDER BY rowid").fetchall()
        except sqlite3.DatabaseError as error:
            self._db.close()
            if "locked" in str(error):
                raise InputError(
                    f"{path} is in use by another run; wait for it, or choose another --cache"
                ) from error
            raise InputError(f"{path}: {error}; restore the file, or choose another --cache") from error
        self.replies = {key: (at, msgspec.json.decode(reply, type=Reply)) for key, at, reply in rows}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.close()

    def add(self, found: Iterable[tuple[str, Reply]]) -> None:
        """Record replies; they are on the disk when this returns."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        new = dict(found)
        rows = [(key, now, msgspec.json.encode(reply).decode()) for key, reply in new.items()]
        try:
            with self._db:
                self._db.execute("BEGIN")
                self._db.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", rows)
        except sqlite3.Error as error:
            raise SigmaMemError(
                f"cannot write the answers to {self._path}: {error}; make room and run the command again: "
                "what is recorded stays"
            ) from error
        self.replies.update((key, (now, reply)) for key, reply in new.items())

    def adopt(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add records of a finished file that the cache does not have: its own file may be gone."""
        for record in records:
            key = record.get("key")
            if isinstance(key, str) and key not in self.replies:
                self.replies[key] = (str(record.get("at")), msgspec.convert(record, Reply))


@dataclass(frozen=True)
class AskedPair:
    """One question for one peer."""

    task: str
    peer: PeerSettings
    request: Body
    key: str


@dataclass(frozen=True)
class PeerTotals:
    """How far a peer is, and what it used, over the whole file; then what this run did."""

    peer: str
    questions: int
    answered: int
    failed: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    seconds: float  # of asking, summed over answers and failures
    asked: int
    given_up: bool


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


def cost_of(peer: PeerSettings, reply: Reply) -> float | None:
    """The price of a reply's tokens; None without prices or counts."""
    if peer.price_in is None and peer.price_out is None:
        return None
    if reply.tokens_in is None or reply.tokens_out is None:
        return None
    price_in, price_out = peer.price_in or 0.0, peer.price_out or 0.0
    return (reply.tokens_in * price_in + reply.tokens_out * price_out) / 1e6


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


Progress = Callable[[str, int, int], None]
Item = tuple[str, Body]
GIVE_UP_AFTER = 10


@dataclass
class PeerRun:
    """All questions of one peer, what it still has to answer, and what this run got from it."""

    peer: PeerSettings
    pairs: list[AskedPair] = field(default_factory=list)
    todo: deque[Item] = field(default_factory=deque)
    asked: int = 0
    failed: int = 0
    cost: float = 0.0
    down: int = 0
    """Failures of the peer itself, one after the other, up to now."""
    last_error: str = ""
    stop: threading.Event = field(default_factory=threading.Event)

    @property
    def given_up(self) -> bool:
        """Whether the peer failed so often in a row that the rest was left unasked."""
        return self.down >= GIVE_UP_AFTER

    def count(self, reply: Reply) -> None:
        """Take one reply in; after too many failures of the peer itself nothing more is asked of it."""
        self.asked += 1
        self.failed += reply.error is not None
        self.cost += cost_of(self.peer, reply) or 0.0
        self.down = self.down + 1 if reply.down else 0
        if reply.error is not None:
            self.last_error = reply.error
        if self.given_up:
            self.stop.set()

    def totals(self, cache: AnswerCache) -> PeerTotals:
        """The sums of the peer, whether asked in this run or before."""
        # A request that several questions share was asked, and paid for, once.
        known = {pair.key: cache.replies[pair.key][1] for pair in self.pairs if pair.key in cache.replies}
        failed = sum(known[pair.key].error is not None for pair in self.pairs if pair.key in known)
        costs = [cost for reply in known.values() if (cost := cost_of(self.peer, reply)) is not None]
        return PeerTotals(
            self.peer.name,
            questions=len(self.pairs),
            answered=sum(pair.key in known for pair in self.pairs) - failed,
            failed=failed,
            tokens_in=sum(reply.tokens_in or 0 for reply in known.values()),
            tokens_out=sum(reply.tokens_out or 0 for reply in known.values()),
            cost=sum(costs) if costs else None,
            seconds=sum(reply.seconds for reply in known.values()),
            asked=self.asked,
            given_up=self.given_up,
        )


Arrivals = queue.SimpleQueue[tuple[PeerRun, str, Reply] | None]


def pair_up(tasks: Sequence[TaskPrompt], peers: Sequence[PeerSettings]) -> list[AskedPair]:
    """Every question with every peer, the request that asks it, and that request's key."""
    writers = [(peer, request_writer(peer)) for peer in peers]
    asked = ((task.id, peer, write(task)) for task in tasks for peer, write in writers)
    return [AskedPair(task, peer, request, request_key(request)) for task, peer, request in asked]


def answer_all(
    pairs: Sequence[AskedPair],
    cache: AnswerCache,
    *,
    retry_failed: bool = False,
    progress: Progress = lambda what, done, total: None,
    save: Callable[[], None] = lambda: None,
) -> list[PeerRun]:
    """Ask what the cache does not hold, record every reply in it, then ``save``.

    A recorded failure is not asked again unless ``retry_failed``. Interrupted by Ctrl-C, or by an error of a
    peer, it ends what is under way, records what has arrived and saves all the same.
    """
    runs = plan(pairs, cache, retry_failed)
    opened = [(run, Endpoint(run.peer)) for run in runs if run.todo]
    try:
        _ask_all(opened, cache, progress)
    finally:
        save()
    return runs


def _ask_all(opened: Sequence[tuple[PeerRun, Endpoint]], cache: AnswerCache, progress: Progress) -> None:
    """Ask every peer its questions, each in threads of its own, until all is done or interrupted."""
    arrived: Arrivals = queue.SimpleQueue()
    runs = [run for run, _ in opened]
    total = sum(len(run.todo) for run in runs)
    with ThreadPoolExecutor(sum(run.peer.concurrency for run in runs) + 1, thread_name_prefix="peer") as pool:
        recorder = pool.submit(_record, arrived, cache, runs, progress, total)
        workers: list[Future[None]] = []
        try:
            for run, peer in opened:
                pace = Pace(run.peer.rate, run.stop)
                workers += [pool.submit(_work, run, peer, pace, arrived) for _ in range(run.peer.concurrency)]
            waiting = {recorder, *workers}
            while waiting - {recorder}:
                finished, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for one in finished:  # raises what ended it
                    one.result()
        finally:
            for run, peer in opened:
                run.stop.set()
                peer.close()
            wait(workers)
            arrived.put(None)
    recorder.result()


def plan(pairs: Iterable[AskedPair], cache: AnswerCache, retry_failed: bool = False) -> list[PeerRun]:
    """What each peer still has to be asked; the same request is sent once for all that need its answer."""
    runs: dict[str, PeerRun] = {}
    taken: set[str] = set()
    for pair in pairs:
        run = runs.setdefault(pair.peer.name, PeerRun(pair.peer))
        run.pairs.append(pair)
        known = cache.replies.get(pair.key)
        settled = known is not None and (known[1].error is None or not retry_failed)
        if not settled and pair.key not in taken:
            taken.add(pair.key)
            run.todo.append((pair.key, pair.request))
    return list(runs.values())


def _work(run: PeerRun, peer: Endpoint, pace: Pace, arrived: Arrivals) -> None:
    while not run.stop.is_set():
        try:
            key, request = run.todo.popleft()
            reply = ask_with_retries(peer, request, pace, run.peer.retries, run.peer.backoff)
        except (IndexError, Stopped):
            return
        # A failure after the end may be the end's own doing: the question counts as not asked.
        if reply.error is None or not run.stop.is_set():
            arrived.put((run, key, reply))


def _record(
    arrived: Arrivals, cache: AnswerCache, runs: Sequence[PeerRun], progress: Progress, total: int
) -> None:
    """Write down what arrives, until None does; what arrives together waits for the disk once."""
    ended = False
    while not ended:
        batch = [arrived.get()]
        with contextlib.suppress(queue.Empty):
            while True:
                batch.append(arrived.get_nowait())
        ended = None in batch
        found = [arrival for arrival in batch if arrival is not None]
        cache.add((key, reply) for _, key, reply in found)
        for run, _, reply in found:
            run.count(reply)
        failed, cost = sum(run.failed for run in runs), sum(run.cost for run in runs)
        so_far = (f", {failed} failed" if failed else "") + (f", cost {cost:.4f}" if cost else "")
        progress(f"asking{so_far}", sum(run.asked for run in runs), total)
