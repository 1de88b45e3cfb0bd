"""The calls made for one request: in which protocol, how long they may take, and what they cost."""

import asyncio
import math
from collections.abc import AsyncIterator

from sigma_mem.serve.config import Upstream
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.gateway.accounting import price_of, summed_usage
from sigma_mem.serve.gateway.chat import Chat
from sigma_mem.serve.gateway.message import Body, LossError, Usage, losing
from sigma_mem.serve.gateway.messages import Messages
from sigma_mem.serve.gateway.protocol import Protocol, Request, bad_request
from sigma_mem.serve.gateway.responses import Responses
from sigma_mem.serve.gateway.upstream import EventStream, Pool, Sent, UpstreamError, UpstreamPeer

CHAT, MESSAGES, RESPONSES = Chat(), Messages(), Responses()
_PROTOCOLS: dict[str, Protocol] = {each.name: each for each in (CHAT, MESSAGES, RESPONSES)}


def sent_to(upstream: Upstream, request: Request) -> Sent:
    """What an upstream is sent: the request as it is if it speaks its protocol, else in one that it speaks.

    LossError if something of the request would be lost, and the upstream's configuration does not allow it.
    """
    protocol, body = request.protocol, request.body
    if protocol.name not in upstream.protocols:
        protocol, lose = _PROTOCOLS[upstream.protocols[0]], losing(upstream.may_lose)
        try:
            body = protocol.request(request.protocol.prompt(body, lose), lose)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise LossError(f"what is no request of {request.protocol.name}") from None
    body = protocol.adjusted(body, upstream.system, upstream.effort)
    forwarded = request.headers if protocol is request.protocol else protocol.headers
    return Sent(protocol, {**body, **upstream.parameters, "model": upstream.model}, forwarded)


class Calls:
    """The calls made for one request; answers come back in the client's protocol.

    Attributes
    ----------
    attempts : int
        How many were made.
    failures : mapping by peer
        What went wrong with those that gave no answer.
    left_out : mapping by peer
        What would have been lost of the request.
    costs : mapping by peer
        Of the answers of upstreams that have a price.
    seen_tokens : mapping by peer
        How many tokens of the conversation each peer that answered has seen, its own answer included.
    """

    def __init__(self, request: Request, pool: Pool, deadline: float) -> None:
        self.request, self.pool = request, pool
        self.attempts = 0
        self.failures: dict[str, UpstreamError] = {}
        self.left_out: dict[str, str] = {}
        self.costs: dict[str, float] = {}
        self.seen_tokens: dict[str, int] = {}
        self._usages: list[object] = []
        self._sent: dict[str, Sent] = {}
        self._clock = asyncio.get_running_loop().time
        self._ends = self._clock() + deadline

    def seconds_left(self) -> float:
        """Until the deadline."""
        return max(0.0, self._ends - self._clock())

    def can_take(self, name: str) -> bool:
        """Whether a peer can be sent the request without a loss; if not, `left_out` says why."""
        try:
            self._sent[name] = sent_to(self.pool.peers[name].settings, self.request)
        except LossError as loss:
            self.left_out[name] = f"would lose {loss}"
        return name in self._sent

    def taken_by_nobody(self) -> RefusedError:
        """The response if the request can be sent to nobody."""
        why = "; ".join(f"{peer} {loss}" for peer, loss in self.left_out.items())
        return bad_request(
            f"no peer can take this request: {why}; expected another, or may_lose in its settings"
        )

    async def complete(self, name: str) -> Body:
        """A peer's whole answer."""
        peer, sent, protocol = self.pool.peers[name], self._sent[name], self.request.protocol
        self.attempts += 1
        try:
            body = {key: sent.body[key] for key in sent.body if key not in ("stream", "stream_options")}
            whole = Sent(sent.protocol, body, sent.headers)
            answer = await peer.post(sent.protocol.path, whole, sent.protocol.check, self.seconds_left())
        except UpstreamError as error:
            self.failures[name] = error
            raise
        self.spent(peer, sent.protocol.usage(answer))
        if sent.protocol is not protocol:
            answer = protocol.response(sent.protocol.reply(answer), self.request.body)
        self._usages.append(answer.get("usage"))
        return answer

    async def stream(self, name: str) -> "AnswerStream":
        """A peer's answer in events, once the first one is there."""
        peer, sent = self.pool.peers[name], self._sent[name]
        translated = sent.protocol is not self.request.protocol
        body = sent.protocol.streaming(sent.body, usage=translated or peer.has_price)
        self.attempts += 1
        try:
            stream = await peer.stream(Sent(sent.protocol, body, sent.headers), self._ends)
        except UpstreamError as error:
            self.failures[name] = error
            raise
        return AnswerStream(self, stream, sent.protocol)

    def spent(self, peer: UpstreamPeer, usage: Usage | None) -> None:
        """A peer reported its usage."""
        if usage is None:
            return
        self.seen_tokens[peer.name] = usage.input + usage.output
        if peer.has_price:
            self.costs[peer.name] = price_of(peer.settings, usage)

    @property
    def cost(self) -> float:
        """Of all answers, at the prices of the configuration."""
        return math.fsum(self.costs.values())

    def usage(self) -> Body | None:
        """What all upstreams used together."""
        return summed_usage(self._usages)

    def nobody(self) -> RefusedError:
        """The response if nobody answered: 502, or the first refusal if all refused the request itself."""
        errors = list(self.failures.values())
        if errors and all(error.is_refusal for error in errors):
            return errors[0].refused()
        said = "; ".join(map(str, errors)) or "there was no time to ask anyone"
        return RefusedError(502, "no_upstream_answered", f"no upstream answered: {said}")


class AnswerStream:
    """The events of a peer's answer, in the client's protocol; the calls know what it used."""

    def __init__(self, calls: Calls, stream: EventStream, spoken: Protocol) -> None:
        self.peer, self.aclose = stream.peer.name, stream.aclose
        self._calls, self._stream, self._spoken = calls, stream, spoken

    async def __aiter__(self) -> AsyncIterator[Body]:
        """Every event; UpstreamError if the stream breaks off."""
        usage, request, protocol = Usage(), self._calls.request, self._calls.request.protocol
        reader, writer = self._spoken.reader(), protocol.writer(request.body)
        async for event in self._stream:
            if (more := self._spoken.usage(event)) is not None:
                usage = usage.or_more(more)
                self._calls.spent(self._stream.peer, usage)
            if self._spoken is protocol:
                yield event
                continue
            try:
                for delta in reader.feed(event):
                    for written in writer.write(delta):
                        yield written
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise UpstreamError(self.peer, "sent a stream that cannot be read") from error
        if self._spoken is not protocol:
            for written in writer.write(reader.end()):
                yield written
