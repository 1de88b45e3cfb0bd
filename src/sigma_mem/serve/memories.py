"""The namespaces of one store, each opened once; what runs on the event loop, and what in a thread."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import fields
from threading import Thread
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from sigma_mem.encode import ENCODERS
from sigma_mem.errors import ConflictError, InputError, StoreError
from sigma_mem.ledger.lines import OpenLine
from sigma_mem.ledger.records import Ledger
from sigma_mem.memory import Settings
from sigma_mem.serve.config import RequestLimits, ServerConfig
from sigma_mem.serve.failures import RefusedError, UnknownNamespaceError
from sigma_mem.serve.keys import LOCAL
from sigma_mem.session import SigmaMem
from sigma_mem.store.open import open_store

T = TypeVar("T")
_THREADS = 32  # for calls of all namespaces
_BYTES_OF_ENTRY = 32  # of a rank × rank matrix, for each peer: M and N at two rates, half of each
_SETTINGS = TypeAdapter(Settings)
NAMESPACE = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"


class _NeverWaiting(SigmaMem):
    """A memory that looks for advice in a thread, so that no decision waits for it."""

    def _advise(self) -> None:
        Thread(target=self._advise_if_open, name="sigma-mem-advice", daemon=True).start()

    def _advise_if_open(self) -> None:
        with suppress(StoreError):  # it was closed meanwhile
            super()._advise()


class ServedMemory:
    """One namespace. A call of some microseconds runs on the event loop, a long one in a thread.

    While a long call runs, which may hold the memory's lock, quick ones go to threads as well, so that the
    event loop never waits for a lock. Where other processes write the same ledger, every call may wait for
    them, so all go to threads.
    """

    def __init__(self, namespace: str, mem: SigmaMem, threads: Executor, limits: RequestLimits) -> None:
        self.namespace, self.mem = namespace, mem
        self._threads, self._limits = threads, limits
        self._turns = asyncio.Semaphore(limits.threads)
        self._waiting = 0
        self._long = 1 if mem.store.shared else 0

    async def quick(self, call: Callable[[SigmaMem], T]) -> T:
        """Run what takes microseconds and waits for no disk: decide, or write without waiting."""
        if self._long:
            return await self._in_thread(call)
        return call(self.mem)

    async def slow(self, call: Callable[[SigmaMem], T]) -> T:
        """Run what reads the ledger or waits for the disk, in a thread.

        A namespace has a few threads at a time, so that its long calls leave some to others.
        """
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
            return await asyncio.get_running_loop().run_in_executor(self._threads, call, self.mem)
        finally:
            self._turns.release()

    def _long_ended(self, done: asyncio.Task[Any]) -> None:
        self._long -= 1
        if not done.cancelled():
            done.exception()  # its caller may have gone


class Memories:
    """All namespaces of the configured store."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self.trusted = config.trusted or (() if config.keys else (LOCAL.name,))
        self.store = open_store(config.path)
        self._opened: dict[str, ServedMemory] = {}
        self._opening: dict[str, asyncio.Task[ServedMemory]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: dict[Any, list[asyncio.Future[None]]] = {}  # by batch that is on its way to the disk
        self._threads = ThreadPoolExecutor(_THREADS, "sigma-mem-call")
        self._looking = ThreadPoolExecutor(1, "sigma-mem-ready")  # so that no tenant's calls delay it
        self._look: asyncio.Task[None] | None = None

    async def names(self) -> list[str]:
        """Namespaces that the store has and the service can serve."""
        names = await asyncio.to_thread(self.store.namespaces)
        return [name for name in names if re.match(NAMESPACE, name)]

    async def get(self, namespace: str) -> ServedMemory:
        """An existing namespace; UnknownNamespaceError where there is none."""
        found = self._opened.get(namespace)
        return found if found is not None else await self._once(namespace, lambda: self._open(namespace))

    async def create(
        self,
        namespace: str,
        peers: Sequence[str],
        *,
        rank: int | None = None,
        encoder: str | None = None,
        settings: Settings | None = None,
    ) -> ServedMemory:
        """A new namespace; ConflictError where there is one with other peers, rank, encoder or settings."""
        if not re.match(NAMESPACE, namespace):
            raise InputError(f"namespace is {namespace!r}; expected letters, digits and . _ -, 64 at most")
        known = await self.names()
        if namespace not in known and len(known) >= self._config.limits.namespaces:
            raise RefusedError(
                409, "too_many_namespaces", f"the store has {len(known)} namespaces, the most allowed"
            )

        if namespace not in known:
            check_size(len(peers), rank, self._config.limits)
            made_with = Settings(trusted=self.trusted) if settings is None else settings
            found = await self._once(
                namespace, lambda: self._served(namespace, peers, rank, encoder, made_with, None)
            )
        else:
            found = await self.get(namespace)
        _check_same(found.mem, namespace, peers, rank, encoder, settings)  # another request may have made it
        return found

    async def prepare(self, namespace: str, peers: Sequence[str]) -> ServedMemory:
        """A namespace that knows at least these peers; made where there is none."""
        if namespace not in await self.names():
            return await self.create(namespace, peers)
        found = await self.get(namespace)
        for peer in peers:
            await found.slow(lambda mem, peer=peer: _add_missing(mem, peer))  # type: ignore[misc]
        return found

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
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        try:
            for served in self._opened.values():
                with served.mem.journal:
                    served.mem.journal.snapshot()
        finally:
            self.store.close()
            self._threads.shutdown(wait=False)
            self._looking.shutdown(wait=False)

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
            raise UnknownNamespaceError(namespace)
        self._refuse_texts(first.body)
        return self._served(namespace, None, None, None, None, first.body.keep_text)

    def refuse_unwanted(self, opening: OpenLine, n_peers: int) -> None:
        """Refuse a memory that this service would not open, or that would take too much of it."""
        self._refuse_texts(opening)
        check_size(n_peers, opening.rank, self._config.limits)

    def _refuse_texts(self, opening: OpenLine) -> None:
        if opening.keep_text and not self._config.keep_text:
            raise RefusedError(
                409,
                "conflict",
                "the memory was made to keep texts, and the service is told to keep none; set "
                "keep_text = true, or make one without texts from it: sigma-mem refold --no-text",
            )

    def _served(
        self,
        namespace: str,
        peers: Sequence[str] | None,
        rank: int | None,
        encoder: str | None,
        settings: Settings | None,
        keep_text: bool | None,
    ) -> ServedMemory:
        mem = _NeverWaiting(
            peers,
            store=self.store,
            namespace=namespace,
            rank=rank,
            encoder=encoder,
            settings=settings,
            keep_text=self._config.keep_text if keep_text is None else keep_text,
        )
        if mem.encoder["name"] in ENCODERS:
            mem.decider.encode("")  # loads its data here, and not on the event loop at the first question
        return ServedMemory(namespace, mem, self._threads, self._config.limits)


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


def _add_missing(mem: SigmaMem, peer: str) -> None:
    if peer not in mem.peers:
        try:
            mem.add_peer(peer)
        except InputError:
            if peer not in mem.peers:  # no other process was quicker
                raise


def _check_same(
    mem: SigmaMem,
    namespace: str,
    peers: Sequence[str],
    rank: int | None,
    encoder: str | None,
    settings: Settings | None,
) -> None:
    """Refuse to make a namespace that is there with something else in it."""
    for what, given, held in (
        ("peers", list(peers), list(mem.peers)),
        ("rank", rank, mem.rank),
        ("encoder", encoder, mem.encoder["name"]),
        ("settings", settings, mem.settings),
    ):
        if given is not None and given != held:
            raise ConflictError(
                f"{what} of namespace {namespace!r} are {held}, and now {given}; take another name"
            )
