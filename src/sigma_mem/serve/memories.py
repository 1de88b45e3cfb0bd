"""The namespaces of one store, each opened once; what runs on the event loop, and what in a thread."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

from sigma_mem.encode import ENCODERS
from sigma_mem.errors import ConflictError, InputError, StoreError
from sigma_mem.ledger.records import Ledger
from sigma_mem.memory import Settings
from sigma_mem.serve.config import ServerConfig
from sigma_mem.serve.failures import RefusedError, UnknownNamespaceError
from sigma_mem.serve.keys import LOCAL
from sigma_mem.session import SigmaMem
from sigma_mem.store.open import open_store

T = TypeVar("T")
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

    def __init__(self, namespace: str, mem: SigmaMem) -> None:
        self.namespace, self.mem = namespace, mem
        self._long = 0 if mem.store.turns is None else 1

    async def quick(self, call: Callable[[SigmaMem], T]) -> T:
        """Run what takes microseconds and waits for no disk: decide, or write without waiting."""
        if self._long:
            return await asyncio.to_thread(call, self.mem)
        return call(self.mem)

    async def slow(self, call: Callable[[SigmaMem], T]) -> T:
        """Run what reads the ledger or waits for the disk, in a thread."""
        self._long += 1
        running = asyncio.create_task(asyncio.to_thread(call, self.mem))
        running.add_done_callback(self._long_ended)
        return await asyncio.shield(running)  # a thread goes on where who waits for it is cancelled

    def _long_ended(self, _: object) -> None:
        self._long -= 1


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

        if namespace in known:
            found = await self.get(namespace)
            _check_same(found.mem, namespace, peers, rank, encoder, settings)
            return found
        made_with = Settings(trusted=self.trusted) if settings is None else settings
        return await self._once(
            namespace,
            lambda: ServedMemory(namespace, self._session(namespace, peers, rank, encoder, made_with, None)),
        )

    async def prepare(self, namespace: str, peers: Sequence[str]) -> ServedMemory:
        """A namespace that knows at least these peers; made where there is none."""
        if namespace not in await self.names():
            return await self.create(namespace, peers)
        found = await self.get(namespace)
        for peer in peers:
            await found.slow(lambda mem, peer=peer: _add_missing(mem, peer))  # type: ignore[misc]
        return found

    def flush(self) -> asyncio.Future[Any]:
        """Have everything recorded so far written from now on; done once it is on disk.

        Who waits for the same batch shares one wait.
        """
        self._loop = asyncio.get_running_loop()
        futures = []
        for batch in self.store.when_settled(self._on_settled):
            futures.append(self._loop.create_future())
            self._waiting.setdefault(batch, []).append(futures[-1])
        return futures[0] if len(futures) == 1 else asyncio.gather(*futures)

    async def check_store(self) -> None:
        """Return if the store can be written; StoreError where not."""
        await asyncio.to_thread(self.store.flush)

    async def durable(self, write: Coroutine[Any, Any, T]) -> T:
        """Await a write that does not wait for the disk, and then the disk."""
        epoch = self.store.epoch
        done = await write
        await self.flush()
        if self.store.epoch != epoch:
            raise StoreError("the store had to drop what was just written; try again")
        return done

    async def close(self) -> None:
        """Write what is queued, save derived state, release the store."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        try:
            for served in self._opened.values():
                served.mem.snapshot()
        finally:
            self.store.close()

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
        keep_text: bool = first.body.keep_text
        if keep_text and not self._config.keep_text:
            raise RefusedError(
                409,
                "conflict",
                f"namespace {namespace!r} was made to keep texts, and the service is told to keep none; set "
                "keep_text = true, or make one without texts from it: sigma-mem refold --no-text",
            )
        return ServedMemory(namespace, self._session(namespace, None, None, None, None, keep_text))

    def _session(
        self,
        namespace: str,
        peers: Sequence[str] | None,
        rank: int | None,
        encoder: str | None,
        settings: Settings | None,
        keep_text: bool | None,
    ) -> SigmaMem:
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
            mem.encode("")  # loads its data here, and not on the event loop at the first question
        return mem


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
