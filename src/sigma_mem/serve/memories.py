"""The namespaces of one store, each opened once; what runs on the event loop, and what in a thread."""

import asyncio
import re
import zlib
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice
from threading import Thread
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from sigma_mem.admin.transfer import read_ledger, restore_ledger
from sigma_mem.encode import ENCODERS
from sigma_mem.errors import (
    ConflictError,
    InputError,
    StoreEmptyError,
    StoreError,
    StoreUnavailableError,
    UnrecordedError,
)
from sigma_mem.events import Decision
from sigma_mem.ledger.lines import Body, Line, OpenLine
from sigma_mem.ledger.records import Ledger, encoded
from sigma_mem.memory import Settings
from sigma_mem.serve.config import RequestLimits, ServerConfig, Upstream
from sigma_mem.serve.failures import RefusedError, unknown_namespace
from sigma_mem.serve.keys import LOCAL
from sigma_mem.serve.telemetry import Metrics, log_event, warn_event
from sigma_mem.session import SigmaMem
from sigma_mem.session.task import Decided
from sigma_mem.store.open import file_of, open_store

T = TypeVar("T")
_THREADS = 32  # for calls of all namespaces
_PATIENCE = (
    1.0  # seconds that a call waits for a database that went away, if the gateway can go on without it
)
_LOOK_SECONDS = 0.5  # between looks for a store that is away
_TOGETHER = 64  # decisions that are recorded at once when it is back
_NEWEST = 4096  # decisions whose lines are kept, in case that the store drops them
_NEWEST_BYTES = 16_000_000  # of these lines
_QUICK_PEERS = 12  # of a pool whose decisions take a millisecond or two
_UNPACKED = 16  # times the largest body, for a memory that is restored
_GZIP = b"\x1f\x8b"
_BYTES_OF_ENTRY = 32  # of a rank × rank matrix, for each peer: M and N at two rates, half of each
_SETTINGS = TypeAdapter(Settings)
NAMESPACE = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


@dataclass(slots=True)
class Unrecorded:
    """A decision that waits for the store: its lines, who served, and what calls cost, if that is known."""

    decision: Decision
    lines: tuple[Line[Body], ...]
    peer: str
    costs: Mapping[str, float]
    waits: bool = True


def bill(
    mem: SigmaMem, decision: Decision, peer: str, costs: Mapping[str, float], answer: str | None = None
) -> None:
    """Record what the answers of a vote really cost, then who served, at what cost and with what answer."""
    for other in decision.canons:
        if other in costs and other != peer:
            mem.served(decision, other, cost=costs[other], wait=False)
    mem.served(decision, peer, cost=costs.get(peer), answer=answer, wait=False)


class _ServiceMem(SigmaMem):
    """A memory that looks for advice in a thread, keeps lines that the store may drop, and stays small."""

    def __init__(self, *args: Any, limits: RequestLimits, keeps_newest: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits, self._keeps_newest = limits, keeps_newest
        self._newest: deque[tuple[tuple[Line[Body], ...], int]] = deque()  # with how many bytes they have
        self._bytes = 0
        with self.journal:
            self.journal.new_id()  # the first one asks the store

    def _made(self, decided: Decided) -> Decision:
        if self._keeps_newest:
            size = sum(len(encoded(line.body)) for line in decided.lines)
            self._newest.append((decided.lines, size))
            self._bytes += size
            while len(self._newest) > _NEWEST or self._bytes > _NEWEST_BYTES:
                self._bytes -= self._newest.popleft()[1]
        return super()._made(decided)

    def newest_lines(self, event: str) -> tuple[Line[Body], ...]:
        """The lines of an event's decisions, as far as they are among the newest."""
        return tuple(line for lines, _ in list(self._newest) for line in lines if line.event == event)

    def add_peer(self, *args: Any, **options: Any) -> None:
        """Add a peer, unless the pool would then need more memory than one tenant may have."""
        check_size(len(self.peers) + 1, self.rank, self._limits)
        super().add_peer(*args, **options)

    def record_late(self, items: Sequence[Unrecorded]) -> list[bool]:
        """Append decisions that waited for the store, and return once they are durable: whether each was."""
        done = []
        for item in items:
            done.append(self.journal.append_late(item.lines))
            if done[-1] and (item.costs or item.peer != item.decision.peer):
                with suppress(InputError):  # another line that it needs was dropped
                    bill(self, item.decision, item.peer, item.costs)
        self.store.flush(self.journal.namespace)
        return done

    def hold_state(self) -> None:
        """Go on without the store: with the ledger's state, or the one at hand if it cannot be read."""
        with suppress(StoreError), self.journal:
            pass  # without what the store had to drop
        self.journal.suspended = True

    def _advise(self) -> None:
        Thread(target=self._advise_if_open, name="sigma-mem-advice", daemon=True).start()

    def _advise_if_open(self) -> None:
        with suppress(StoreError):  # it was closed meanwhile
            super()._advise()


class ServedMemory:
    """One namespace. A call of some microseconds runs on the event loop, a long one in a thread.

    While a long call runs, which may hold the memory's lock, quick ones go to threads as well, so that the
    event loop never waits for a lock. If other processes write the same ledger, every call may wait for
    them, so all go to threads.

    While the store is away, calls are refused at once, except those of the gateway (`from_state`), which need
    the state in memory only. Its decisions wait in a queue (`unrecorded`), and are appended in order when the
    store is back.
    """

    def __init__(self, namespace: str, mem: _ServiceMem, memories: "Memories") -> None:
        self.namespace, self.mem = namespace, mem
        self.unrecorded: deque[Unrecorded] = deque()
        self._memories, self._limits = memories, memories.config.limits
        self._turns = asyncio.Semaphore(self._limits.threads)
        self._waiting = 0
        self._long = 1 if mem.store.shared else 0
        self._holding: asyncio.Task[None] | None = None  # while the store is away
        self._returning: asyncio.Task[None] | None = None
        self._recording: asyncio.Task[None] | None = None  # of what waited when the store was back already
        self._appending = asyncio.Lock()

    @property
    def is_away(self) -> bool:
        """Whether the gateway goes on without the store."""
        return self._holding is not None

    async def quick(self, call: Callable[[SigmaMem], T]) -> T:
        """Run what takes microseconds and waits for no disk: decide, or write without waiting."""
        self._refuse_away()
        return await self._now(call)

    async def from_state(self, call: Callable[[SigmaMem], T], slow: bool = False) -> T:
        """Run what needs the state only, also if the store is away; a decision is then an UnrecordedError."""
        if self._holding is None:
            try:
                return await (self.slow(call) if slow else self._now(call))
            except UnrecordedError:
                raise
            except StoreError as error:
                await self.lose(error)
        if self._holding is not None:
            await asyncio.shield(self._holding)
        return await self._in_thread(call)

    async def _now(self, call: Callable[[SigmaMem], T]) -> T:
        """Run a quick call on the event loop; in a thread if it may wait for a lock, or the pool is large."""
        if self._long:
            return await self._in_thread(call)
        if len(self.mem.peers) > _QUICK_PEERS:
            return await self.slow(call)
        return call(self.mem)

    async def peers(self) -> tuple[str, ...]:
        """The memory's peers, also if the store is away."""
        if not self._long and self._holding is None:
            with suppress(StoreError):  # then the state in memory has to do
                return self.mem.peers
        return await self.from_state(lambda mem: mem.peers)

    async def lose(self, error: StoreError) -> None:
        """Go on without the store, which failed; raises the error if the service is told to refuse."""
        if not self._memories.serves_without_store:
            raise error
        if self._holding is None:
            warn_event("store", namespace=self.namespace, away=True, error=str(error))
            self._memories.metrics.store_up.set(0)
            self._memories.alarm(
                "store", self.namespace, "", "the store is away; decisions are served unrecorded"
            )
            self._holding = asyncio.create_task(self._in_thread(lambda mem: self.mem.hold_state()))
            self._returning = asyncio.create_task(self._return())
        await asyncio.shield(self._holding)

    def keep(self, item: Unrecorded) -> str:
        """Take a decision to record later: "queued", or "dropped" if too many wait."""
        is_full = len(self.unrecorded) >= self._limits.unrecorded
        outcome = "dropped" if is_full or not item.lines else "queued"
        item.waits = outcome == "queued"
        if item.waits:
            self.unrecorded.append(item)
            if self._holding is None:  # the store came back while the peer was answering
                self._recording = asyncio.create_task(self._record_rest())
        self._memories.metrics.unrecorded.labels(outcome).inc()
        log_event("unrecorded", namespace=self.namespace, decision=item.decision.id, outcome=outcome)
        return outcome

    async def _return(self) -> None:
        """Wait for the store, and append what waits; then go on as usual. The log has why it stays away."""
        because = ""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            self._long += 1
            try:
                await self._memories.check_store()
                self.mem.journal.suspended = False
                await self._record_waiting()
            except StoreError as error:
                if str(error) != because:
                    because = str(error)
                    warn_event("store", namespace=self.namespace, away=True, error=because)
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._memories.threads, self.mem.hold_state)
                for item in self.unrecorded:
                    item.waits = True
                continue
            finally:
                self._long -= 1
            break
        self._holding = None
        self._memories.metrics.store_up.set(1)
        self._memories.alarm("store", self.namespace, "", "")
        log_event("store", namespace=self.namespace, away=False)

    async def _record_waiting(self) -> None:
        """Append what waits, in order; one caller at a time."""
        loop, metrics = asyncio.get_running_loop(), self._memories.metrics
        async with self._appending:
            while items := list(islice(self.unrecorded, _TOGETHER)):
                for item in items:
                    item.waits = False  # what is known of it from here on is a line of its own
                done = await loop.run_in_executor(self._memories.threads, self.mem.record_late, items)
                for recorded in done:
                    self.unrecorded.popleft()
                    metrics.unrecorded.labels("recorded" if recorded else "dropped").inc()

    async def _record_rest(self) -> None:
        """Append what came too late for `_return`; if the store is away again, that one goes on."""
        try:
            await self._record_waiting()
        except StoreError as error:
            for item in self.unrecorded:
                item.waits = True
            await self.lose(error)

    def stop_looking(self) -> None:
        """Look no longer for a store that is away."""
        if self._returning is not None:
            self._returning.cancel()

    def close(self) -> None:
        """Save derived state; count what the store never got."""
        if self.is_away:
            self._memories.metrics.unrecorded.labels("dropped").inc(len(self.unrecorded))
            log_event("unrecorded", namespace=self.namespace, lost=len(self.unrecorded))
            return
        if self.unrecorded:
            self.mem.record_late(list(self.unrecorded))
        with self.mem.journal:
            self.mem.journal.snapshot()

    def _refuse_away(self) -> None:
        if self._holding is not None:
            raise StoreUnavailableError("the store is away; try again later")

    async def slow(self, call: Callable[[SigmaMem], T]) -> T:
        """Run what reads the ledger or waits for the disk, in a thread.

        A namespace has a few threads at a time, so that its long calls leave some to others.
        """
        self._refuse_away()
        self._long += 1
        running = asyncio.create_task(self._in_thread(call))
        running.add_done_callback(self._long_ended)
        return await asyncio.shield(running)  # the thread goes on if its caller is cancelled

    async def _in_thread(self, call: Callable[[SigmaMem], T]) -> T:
        if self._waiting >= self._limits.waiting:
            raise RefusedError(
                429,
                "busy",
                f"{self._waiting} calls on namespace {self.namespace!r} are waiting already; try again",
                {"retry-after": "1"},
            )
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._memories.threads, call, self.mem)
        finally:
            self._turns.release()

    def _long_ended(self, done: asyncio.Task[Any]) -> None:
        self._long -= 1
        if not done.cancelled():
            done.exception()  # its caller may have gone


class Memories:
    """All namespaces of the configured store.

    `alarm` gets the kind of an alarm, the namespace, whom it is about, and a sentence; an empty one ends it.
    """

    def __init__(self, config: ServerConfig, metrics: Metrics | None = None) -> None:
        self.config, self.metrics = config, metrics or Metrics()
        self.metrics.waiting.set_function(lambda: sum(len(each.unrecorded) for each in self._opened.values()))
        self.alarm: Callable[[str, str, str, str], None] = lambda kind, namespace, about, text: None
        self.trusted = config.made_with(() if config.keys else (LOCAL.name,)).trusted
        self.serves_without_store = bool(config.upstreams) and config.on_store_failure == "serve"
        self.store = open_store(config.path, patience=_PATIENCE if self.serves_without_store else None)
        self._explained: set[str] = set()
        self._opened: dict[str, ServedMemory] = {}
        self._opening: dict[str, asyncio.Task[ServedMemory]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[Any, list[asyncio.Future[None]]] = {}  # by batch that is on its way to the disk
        self.threads = ThreadPoolExecutor(_THREADS, "sigma-mem-call")
        self._looking = ThreadPoolExecutor(1, "sigma-mem-ready")  # so that no tenant's calls delay it
        self._restorer = ThreadPoolExecutor(1, "sigma-mem-restore")
        self._restoring: set[str] = set()
        self._look: asyncio.Task[None] | None = None

    async def names(self) -> list[str]:
        """Namespaces that the store has and the service can serve."""
        names = await asyncio.to_thread(self.store.namespaces)
        return [name for name in names if re.match(NAMESPACE, name)]

    def opened(self) -> list[ServedMemory]:
        """The namespaces that are open."""
        return list(self._opened.values())

    async def restore(self, namespace: str, body: bytes) -> ServedMemory:
        """Make a namespace from what `export` wrote: one after the other, so that none takes all threads."""
        if namespace in self._restoring:
            raise RefusedError(
                409, "conflict", f"a restore of {namespace!r} is running already; wait until it has ended"
            )
        self._restoring.add(namespace)
        loop = asyncio.get_running_loop()
        done = loop.run_in_executor(self._restorer, self._restore, namespace, body)
        done.add_done_callback(lambda _: self._restoring.discard(namespace))
        await asyncio.shield(done)
        return await self.get(namespace)

    def _restore(self, namespace: str, body: bytes) -> None:
        """Put an exported ledger into an empty namespace, once it is known that it can be opened."""
        self._is_new(namespace, self.store.namespaces())
        limit = _UNPACKED * self.config.limits.body_bytes
        data = gunzipped(body, limit) if body.startswith(_GZIP) else body
        restore_ledger(read_ledger(data, "the body", check=self.refuse_unwanted), self.store, namespace)

    def _is_new(self, namespace: str, known: Sequence[str]) -> bool:
        """Whether a namespace is still to be made; RefusedError if the store has as many as it may."""
        if namespace not in known and len(known) >= self.config.limits.namespaces:
            raise RefusedError(
                409, "too_many_namespaces", f"the store has {len(known)} namespaces, the most allowed"
            )
        return namespace not in known

    async def get(self, namespace: str) -> ServedMemory:
        """An existing namespace; RefusedError if there is none."""
        found = self._opened.get(namespace)
        return found if found is not None else await self._once(namespace, lambda: self._open(namespace))

    async def create(
        self, namespace: str, peers: Sequence[str], rank: int | None = None, **wanted: Any
    ) -> ServedMemory:
        """A new namespace; ConflictError if there is one with other peers, rank, encoder or settings.

        `wanted` may have `encoder` and `settings`; the configuration's by default.
        """
        if not re.match(NAMESPACE, namespace):
            raise InputError(f"namespace is {namespace!r}; expected letters, digits and . _ -, 64 at most")
        if self._is_new(namespace, await self.names()):
            check_size(len(peers), rank, self.config.limits)
            usual = {"settings": self.config.made_with(self.trusted), "keep_text": self.config.keep_text}
            usual |= {"encoder": self.config.encoder} if rank is None else {}
            options = usual | {name: value for name, value in wanted.items() if value is not None}
            found = await self._once(namespace, lambda: self._served(namespace, peers, rank=rank, **options))
        else:
            found = await self.get(namespace)
        # Another request may have made it.
        _check_same(found, {"peers": tuple(peers), "rank": rank, **wanted})
        return found

    async def prepare(self, namespace: str, upstreams: Sequence[Upstream]) -> ServedMemory:
        """A namespace that has at least these peers; made if there is none."""
        if namespace not in await self.names():
            return await self.create(namespace, [upstream.name for upstream in upstreams])
        found = await self.get(namespace)
        for upstream in upstreams:
            await found.slow(partial(_add_missing, upstream=upstream))
        for peer in set(await found.peers()) - {upstream.name for upstream in upstreams}:
            why = "no upstream has this name: it is never asked, and keeps its record until it is removed"
            self._explain(f"peer {peer}", said="no upstream", in_force="in the pool", because=why)
        return found

    def _explain(self, name: str, **how: str | bool | float) -> None:
        """Log, once, what is in force instead of what the configuration says."""
        if name not in self._explained:
            self._explained.add(name)
            log_event("setting", name=name, **how)

    def check_settings(self) -> None:
        """Refuse to start if the memory in the service's own namespace was made otherwise than it is told.

        A memory that keeps no texts goes on so, and the log explains it.
        """
        first = next(Ledger(self.store, self.config.namespace).lines(), None)
        if first is None:
            return
        self._refuse_texts(first.body)
        for name, (said, held) in self.config.differs_from(first.body).items():
            if name == "keep_text":
                self._explain(name, said=said, in_force=held, because="the memory was made so")
                continue
            raise InputError(
                f"{name} is {said!r} in the configuration, and the memory {self.config.namespace!r} was made "
                f"with {held!r}; leave it out, take another namespace, or make one from it: sigma-mem refold"
            )

    def flush(self, namespace: str) -> asyncio.Future[Any]:
        """Have everything that a namespace recorded so far written from now on; done once it is on disk.

        Callers that wait for the same batch share one wait.
        """
        self._loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = self._loop.create_future()
        batch = self.store.when_settled(namespace, self._on_settled)
        if batch is None:
            future.set_result(None)
        else:
            self._waiting.setdefault(batch, []).append(future)
        return future

    async def check_store(self) -> None:
        """Return if the store can be written and read; StoreError if not. Callers at once share one look."""
        if self._look is None or self._look.done():
            self._look = asyncio.create_task(self._look_at_store())
        await asyncio.shield(self._look)

    async def _look_at_store(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._looking, self.store.flush)
        await loop.run_in_executor(self._looking, self.store.namespaces)

    async def durable(self, namespace: str, write: Coroutine[Any, Any, T]) -> T:
        """Await a write that does not wait for the disk, and then the disk."""
        epoch = self.store.epoch(namespace)
        done = await write
        await self.flush(namespace)
        if self.store.epoch(namespace) != epoch:
            raise StoreError("the store had to drop what was just written; try again")
        return done

    async def close(self) -> None:
        """Write what is queued, save derived state, release the store."""
        for served in self._opened.values():
            served.stop_looking()
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        try:
            for served in self._opened.values():
                served.close()
        finally:
            self.store.close()
            self.threads.shutdown(wait=False)
            self._looking.shutdown(wait=False)
            self._restorer.shutdown(wait=False, cancel_futures=True)

    def _on_settled(self, batch: Any, error: StoreError | None) -> None:
        """A batch is durable or was dropped, says the thread that writes."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the service has ended, and nobody waits
                self._loop.call_soon_threadsafe(self._settled, batch, error)

    def _settled(self, batch: Any, error: StoreError | None) -> None:
        for future in self._waiting.pop(batch, ()):
            if future.done():  # who waited has gone
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(type(error)(*error.args))

    async def _once(self, namespace: str, make: Callable[[], ServedMemory]) -> ServedMemory:
        """Open a namespace in a thread; who asks meanwhile waits for the same."""
        task = self._opening.get(namespace)
        if task is None:
            task = self._opening[namespace] = asyncio.create_task(asyncio.to_thread(make))
            task.add_done_callback(lambda done: self._keep(namespace, done))
        return await asyncio.shield(task)

    def _keep(self, namespace: str, done: asyncio.Task[ServedMemory]) -> None:
        del self._opening[namespace]
        if not done.cancelled() and done.exception() is None:
            self._opened.setdefault(namespace, done.result())

    def _open(self, namespace: str) -> ServedMemory:
        known = re.match(NAMESPACE, namespace)
        first = next(Ledger(self.store, namespace).lines(), None) if known else None
        if first is None:
            raise unknown_namespace(namespace)
        self._refuse_texts(first.body)
        return self._served(namespace, None, keep_text=first.body.keep_text)

    def refuse_unwanted(self, opening: OpenLine, n_peers: int) -> None:
        """Refuse a memory that this service would not open, or that would take too much of it."""
        self._refuse_texts(opening)
        check_size(n_peers, opening.rank, self.config.limits)

    def _refuse_texts(self, opening: OpenLine) -> None:
        if opening.keep_text and not self.config.keep_text:
            raise RefusedError(
                409,
                "conflict",
                "the memory was made to keep texts, and the service is told to keep none; set "
                "keep_text = true, or make one without texts from it: sigma-mem refold --no-text",
            )

    def _served(self, namespace: str, peers: Sequence[str] | None, **options: Any) -> ServedMemory:
        options |= {"limits": self.config.limits, "keeps_newest": self.serves_without_store}
        mem = _ServiceMem(peers, store=self.store, namespace=namespace, **options)
        if mem.encoder["name"] in ENCODERS:
            mem.decider.encode("")  # loads its data here, and not on the event loop at the first question
        return ServedMemory(namespace, mem, self)


def recorded_opening(config: ServerConfig) -> OpenLine | None:
    """What the memory in the configured namespace was made of; None if there is none."""
    file = None if config.path is None else file_of(config.path)
    if config.path is None or (file is not None and not file.exists()):
        return None
    try:
        with closing(open_store(config.path, readonly=True)) as store:
            first = next(Ledger(store, config.namespace).lines(), None)
    except StoreEmptyError:
        return None
    return None if first is None else first.body


def check_size(n_peers: int, rank: int | None, limits: RequestLimits) -> None:
    """Refuse a memory whose matrices would take more than one tenant may have."""
    needed = n_peers * (rank or 0) ** 2 * _BYTES_OF_ENTRY
    if needed > limits.state_bytes:
        raise RefusedError(
            400,
            "memory_too_large",
            f"{n_peers} peers at rank {rank} need {needed / 1e6:.0f} MB; "
            f"expected at most {limits.state_bytes / 1e6:.0f} MB, limits.state_bytes of this service",
        )


def gunzipped(raw: bytes, limit: int) -> bytes:
    """What a gzip body holds; RefusedError if that is more than the limit."""
    unpacking = zlib.decompressobj(31)
    try:
        found = unpacking.decompress(raw, limit)
    except zlib.error as error:
        raise RefusedError(400, "invalid_request", "the body is not gzip") from error
    if unpacking.unconsumed_tail:
        raise RefusedError(413, "body_too_large", f"the body unpacks to more than {limit} bytes")
    return found


def settings_from(values: Mapping[str, Any], trusted: Sequence[str]) -> Settings:
    """Settings from a request; these sources are trusted unless it names others, unknown names refused."""
    known = sorted(field.name for field in fields(Settings))
    for name in values:
        if name not in known:
            raise InputError(f"settings have {name!r}; expected some of {known}")
    try:
        return _SETTINGS.validate_python({"trusted": trusted, **values})
    except ValidationError as error:
        fault = error.errors()[0]
        raise InputError(f"{'.'.join(('settings', *map(str, fault['loc'])))}: {fault['msg']}") from error


def _add_missing(mem: SigmaMem, upstream: Upstream) -> None:
    if upstream.name not in mem.peers:
        like = upstream.like if upstream.like in mem.peers else None
        try:
            mem.add_peer(upstream.name, like=like, worth=upstream.worth)
        except InputError:
            if upstream.name not in mem.peers:  # no other process was quicker
                raise


def _check_same(found: ServedMemory, wanted: Mapping[str, Any]) -> None:
    """Refuse to make a namespace that is there with something else in it."""
    for what, given in wanted.items():
        held = found.mem.encoder["name"] if what == "encoder" else getattr(found.mem, what)
        if given is not None and given != held:
            raise ConflictError(
                f"{what} of namespace {found.namespace!r} are {held}, and now {given}; take another name"
            )
