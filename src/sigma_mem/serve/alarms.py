"""Alarms: what an operator should know at once goes to the log, to a metric and to webhooks.

An alarm rings once, and again only after what it is about was in order. Webhooks are signed and retried as
standardwebhooks.com describes, so that receivers need no code of ours.
"""

import asyncio
import hmac
import json
import secrets
import time
from base64 import b64encode
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from typing import NamedTuple

import httpx2 as httpx

from sigma_mem.errors import StoreError
from sigma_mem.ledger.costs import Spending
from sigma_mem.serve.config import Webhook
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.memories import Memories
from sigma_mem.serve.telemetry import log_event, warn_event
from sigma_mem.session import SigmaMem, TrustByPeer
from sigma_mem.session.drift import Drift
from sigma_mem.session.trust import Source

_TRIES, _PAUSE = 6, 1.0  # of one message, and seconds before the second; doubled with each
_SECONDS = 10.0  # that a receiver has to answer
_MOST = 200  # messages under way
_KEPT = 200  # alarms that ended
_COMPARED = 10.0  # labels of a source that were compared with others', before it can turn
_TURNED = 0.5  # of the agreement that it had at its best, or of half


@dataclass(slots=True)
class Alarm:
    """An alarm: since when, and until when if it has ended."""

    kind: str
    namespace: str
    about: str
    text: str
    time: float
    ended: float | None = None


class Survey(NamedTuple):
    """What alarms look at in one memory."""

    trust: TrustByPeer
    drift: list[Drift]
    sources: list[Source]
    spending: Spending


class Alarms:
    """Watches the memories that are open, and tells of what changed for the worse."""

    def __init__(self, memories: Memories) -> None:
        self._memories, self._config, self._metrics = memories, memories.config, memories.metrics
        self._secrets = {hook: hook.secret() for hook in self._config.webhooks}
        self._ringing: dict[tuple[str, str, str], Alarm] = {}
        self.past: deque[Alarm] = deque(maxlen=_KEPT)  # those that have ended, oldest first
        self._best: dict[tuple[str, str], float] = {}  # agreement, by namespace and source
        self._seen: dict[str, tuple[int, str]] = {}  # how far each ledger was looked at, and on which day
        self._sending: set[asyncio.Task[None]] = set()
        memories.alarm = self.say

    def say(self, kind: str, namespace: str, about: str, text: str) -> None:
        """Raise an alarm, or end it if there is no text."""
        key = (kind, namespace, about)
        if not text and key in self._ringing:
            self.past.append(replace(self._ringing.pop(key), ended=time.time()))
            log_event("alarm over", kind=kind, namespace=namespace, about=about)
        if not text or key in self._ringing:
            return
        self._ringing[key] = Alarm(kind, namespace, about, text, time.time())
        self._metrics.alarms.labels(kind).inc()
        warn_event("alarm", kind=kind, namespace=namespace, about=about, text=text)
        data = {"kind": kind, "namespace": namespace, "about": about, "text": text}
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        body = json.dumps({"type": f"sigma_mem.{kind}", "timestamp": at, "data": data}).encode()
        for hook, secret in self._secrets.items():
            if kind in hook.kinds and len(self._sending) < _MOST:
                task = asyncio.get_running_loop().create_task(self._send(hook, secret, body))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)
            elif kind in hook.kinds:
                self._metrics.webhooks.labels("failed").inc()

    @property
    def ringing(self) -> list[Alarm]:
        """Alarms that have not ended."""
        return list(self._ringing.values())

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look now and then while it is entered."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            if self._sending:
                await asyncio.wait(self._sending, timeout=_PAUSE)
            for task in list(self._sending):
                task.cancel()

    async def look(self) -> None:
        """Look at every memory that is open and has changed."""
        for memory in self._memories.opened():
            try:
                seen, found = await memory.slow(partial(self._survey, memory.namespace))
            except (StoreError, RefusedError):  # it is away, or busy
                continue
            if found is not None:
                self._judge(memory.namespace, found)
                self._seen[memory.namespace] = seen

    def _survey(self, namespace: str, mem: SigmaMem) -> tuple[tuple[int, str], Survey | None]:
        now = mem.clock()
        with mem.journal as fold:
            seen = fold.seq, time.strftime("%Y-%m-%d", time.gmtime(now))
        if seen == self._seen.get(namespace):
            return seen, None
        return seen, Survey(mem.trust(), mem.drift(), mem.sources(), mem.spent(since=now, until=now))

    def _judge(self, namespace: str, found: Survey) -> None:
        changed = {drift.peer: drift for drift in found.drift}
        for peer in found.trust:
            self.say("drift", namespace, peer, str(changed[peer]) if peer in changed else "")
        if namespace == self._config.namespace:
            for upstream in self._config.upstreams:
                if upstream.name in found.trust:
                    sure = changed[upstream.name].confidence if upstream.name in changed else 0.0
                    self._metrics.trust.labels(upstream.name).set(found.trust[upstream.name].prob)
                    self._metrics.drift.labels(upstream.name).set(sure)
        for source in found.sources:
            self.say("source", namespace, source.name, self._turned(namespace, source))
        budget, spent = self._config.alarms.daily_budget, found.spending.total
        unit = f" {self._config.currency}".rstrip()
        over = f"{spent:.4g}{unit} was spent today, and the budget is {budget:g}{unit}"
        self.say("budget", namespace, "", over if 0.0 < budget < spent else "")

    def _turned(self, namespace: str, source: Source) -> str:
        if source.trusted or source.revoked or source.agreement is None or source.compared < _COMPARED:
            return ""
        best = max(self._best.get((namespace, source.name), 0.5), source.agreement)
        self._best[namespace, source.name] = best
        if source.agreement >= _TURNED * best:
            return ""
        return (
            f"{source.name} agrees with other sources with {source.agreement:.2f} on {source.compared:.0f} "
            f"labels; it was {best:.2f} at its best"
        )

    async def _watch(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._config.alarms.every)

    async def _send(self, hook: Webhook, secret: bytes, body: bytes) -> None:
        id = f"msg_{secrets.token_hex(12)}"
        async with httpx.AsyncClient(timeout=_SECONDS, follow_redirects=False) as http:
            for attempt in range(_TRIES):
                if attempt:
                    await asyncio.sleep(_PAUSE * 2.0 ** (attempt - 1))
                headers = signature(secret, id, int(time.time()), body) | {"content-type": "application/json"}
                try:
                    response = await http.post(hook.url, content=body, headers=headers)
                except httpx.HTTPError:
                    continue
                if response.is_success:
                    self._metrics.webhooks.labels("delivered").inc()
                    return
        self._metrics.webhooks.labels("failed").inc()
        warn_event("webhook", failed=id, tries=_TRIES)


def signature(secret: bytes, id: str, at: int, body: bytes) -> dict[str, str]:
    """The headers that sign a message.

    >>> signature(b"key", "msg_1", 0, b"{}")["webhook-signature"]
    'v1,ynCzuW7puhiLAuQT0y6SIAFEK9PNdEmy/mdQ3BFYkIY='
    """
    mac = hmac.digest(secret, f"{id}.{at}.".encode() + body, sha256)
    signed = f"v1,{b64encode(mac).decode()}"
    return {"webhook-id": id, "webhook-timestamp": str(at), "webhook-signature": signed}
