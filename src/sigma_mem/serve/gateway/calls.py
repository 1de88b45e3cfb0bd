"""The calls made for one request: how long they may take, whom they asked, and what that cost."""

import asyncio
import math
from typing import Any

from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.gateway.chat_request import ChatRequest
from sigma_mem.serve.gateway.completion import price_of, summed_usage
from sigma_mem.serve.gateway.failure import UpstreamError
from sigma_mem.serve.gateway.pool import Pool
from sigma_mem.serve.gateway.upstream import ChunkStream

Body = dict[str, Any]
_CHAT = "chat/completions"


class Calls:
    """Calls upstreams for one chat request, until its deadline.

    Attributes
    ----------
    attempts : int
        How many were called.
    failures : mapping by peer
        What went wrong with those that gave no answer.
    costs : mapping by peer
        Of the answers of upstreams that have a price.
    """

    def __init__(self, chat: ChatRequest, pool: Pool, deadline: float) -> None:
        self.chat, self.pool = chat, pool
        self.attempts = 0
        self.failures: dict[str, UpstreamError] = {}
        self.costs: dict[str, float] = {}
        self._usages: list[object] = []
        self._ends = asyncio.get_running_loop().time() + deadline

    def seconds_left(self) -> float:
        """Until the deadline."""
        return max(0.0, self._ends - asyncio.get_running_loop().time())

    async def complete(self, name: str) -> Body:
        """A peer's whole answer."""
        body = {key: value for key, value in self.chat.body.items() if key != "stream_options"}
        self.attempts += 1
        try:
            completion = await self.pool[name].post(_CHAT, body, "choices", self.seconds_left())
        except UpstreamError as error:
            self.failures[name] = error
            raise
        self.spent(name, completion.get("usage"))
        return completion

    async def stream(self, name: str) -> ChunkStream:
        """A peer's answer in chunks, once the first one is there."""
        peer = self.pool[name]
        body = self.chat.body | {"stream": True}
        if peer.settings.has_price:  # what it costs is in the last chunk
            options = body.get("stream_options")
            body["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
        self.attempts += 1
        try:
            return await peer.stream(_CHAT, body, self.seconds_left())
        except UpstreamError as error:
            self.failures[name] = error
            raise

    def spent(self, name: str, usage: object) -> None:
        """A peer reported what it used."""
        self._usages.append(usage)
        upstream = self.pool[name].settings
        if upstream.has_price and usage is not None:
            self.costs[name] = price_of(upstream, usage)

    @property
    def cost(self) -> float:
        """Of all answers, at the prices of the configuration."""
        return math.fsum(self.costs.values())

    def usage(self) -> Body | None:
        """What all upstreams used together."""
        return summed_usage(self._usages)

    def nobody(self) -> RefusedError:
        """The response where nobody answered: 502, or what they said where all refused the request itself."""
        errors = list(self.failures.values())
        if errors and all(error.is_refusal for error in errors):
            return refused_by(errors[0])
        said = "; ".join(map(str, errors)) or "there was no time to ask anyone"
        return RefusedError(502, "no_upstream_answered", f"no upstream answered: {said}")


def refused_by(error: UpstreamError) -> RefusedError:
    """The response where the upstream that was asked for gave no answer.

    Its own words where it refused the request, 429 where it limits its rate, else 502.
    """
    if error.pause is not None:
        wait = {"retry-after": str(math.ceil(error.pause))}
        return RefusedError(429, "limited_by_upstream", f"{error.peer} limits its rate; try later", wait)
    if error.is_refusal and error.status is not None:
        message = (error.body or {}).get("message") or error.reason
        return RefusedError(error.status, "refused_by_upstream", f"{error.peer}: {message}")
    return RefusedError(502, "no_upstream_answered", f"no upstream answered: {error}")
