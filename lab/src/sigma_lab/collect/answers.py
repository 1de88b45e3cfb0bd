"""Ask every peer every question once: concurrently, at each peer's pace, and never the same thing again."""

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from sigma_lab.collect.answer_file import AskedPair, cost_of
from sigma_lab.collect.cache import AnswerCache
from sigma_lab.collect.endpoint import Endpoint
from sigma_lab.collect.pace import Pace, Stopped, ask_with_retries
from sigma_lab.collect.peers import PeerSettings
from sigma_lab.collect.requests import Body, Reply, RequestWriter, request_key
from sigma_lab.collect.task_prompts import TaskPrompt

Progress = Callable[[str, int, int], None]
Item = tuple[str, Body]
GIVE_UP_AFTER = 10


@dataclass
class PeerRun:
    """What one peer still has to answer, and what this run got from it."""

    peer: PeerSettings
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


Arrivals = queue.SimpleQueue[tuple[PeerRun, str, Reply] | None]


def pair_up(tasks: Sequence[TaskPrompt], peers: Sequence[PeerSettings]) -> list[AskedPair]:
    """Every question with every peer, the request that asks it, and that request's key."""
    writers = [(peer, RequestWriter(peer)) for peer in peers]
    pairs: list[AskedPair] = []
    for task in tasks:
        for peer, writer in writers:
            request = writer.request(task)
            pairs.append(AskedPair(task.id, peer, request, request_key(request)))
    return pairs


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
