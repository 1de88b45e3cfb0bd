"""The calls made for a request, over HTTP: whole answers and streams, in time, bounded, a circuit for each.

What an upstream says of a failure stays here. What it says of a request that it refuses is passed on, unless
it quotes keys, addresses or headers.

Addresses come from the configuration only. Redirects are not followed, and nothing that a request names (an
image, a base URL) is fetched here. Of a client's headers only those of its protocol and its trace go on.

The client is aiohttp: a call costs it a fifth of the processor time that httpx2 takes, and a gateway makes
one or more for every request.
"""

import asyncio
import errno
import math
import re
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from opentelemetry.propagate import inject

from sigma_mem.errors import SigmaMemError
from sigma_mem.events import Answer
from sigma_mem.serve.config import Upstream, is_no_servers
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.gateway import protocol as p
from sigma_mem.serve.gateway.chat import CHAT
from sigma_mem.serve.gateway.messages import MESSAGES
from sigma_mem.serve.gateway.protocol import Body, Protocol, Request, bad_request, mapping
from sigma_mem.serve.gateway.responses import RESPONSES
from sigma_mem.serve.telemetry import model_span, note_usage

_LARGEST_EVENT = 4 * 2**20  # bytes
_FAILURES = 3  # in a row, until the circuit opens
_PAUSE = 5.0  # seconds; doubled with every further failure
_LONGEST = 300.0

_LARGEST = 32 * 2**20  # bytes of one answer
_LONGEST_WORDS = 500  # characters of what an upstream says of a refusal
_QUOTES = re.compile(
    r"authorization|bearer|api[-_ ]?key|cookie|://", re.IGNORECASE
)  # of our headers, or a URL
_SECRET = 4  # characters at least: a shorter one occurs in any text
_CONNECTS_WITHIN = 10.0  # seconds
_LIMIT_PAUSE = 5.0  # seconds after a 429 that does not say how long
_REFUSALS = (400, 413, 415, 422)  # about the request; every other status is about the upstream or its key


class UpstreamError(SigmaMemError):
    """An upstream gave no answer. This says nothing about whether its answers are right.

    `reason` is a short text without addresses or keys, which a client may see; `said` its own words, if it
    refused the request and they hold nothing of ours.
    """

    def __init__(self, peer: str, reason: str, status: int | None = None, said: str = "") -> None:
        super().__init__(f"{peer} {reason}")
        self.peer, self.reason, self.status, self.said = peer, reason, status, said
        self.pause: float | None = None  # seconds that it asked to be left alone, if it limits its rate

    @property
    def is_refusal(self) -> bool:
        """Whether the upstream works and did not accept the request: too long, an image, an unknown field."""
        return self.status in _REFUSALS

    def refused(self) -> RefusedError:
        """The response if the upstream that a request names gave no answer.

        Its own words if it refused the request, 429 if it limits its rate, else 502.
        """
        if self.pause is not None:
            wait = {"retry-after": str(math.ceil(self.pause))}
            return RefusedError(429, "limited_by_upstream", f"{self.peer} limits its rate; try later", wait)
        if self.is_refusal and self.status is not None:
            return RefusedError(
                self.status, "refused_by_upstream", f"{self.peer}: {self.said or self.reason}"
            )
        return RefusedError(502, "no_upstream_answered", f"no upstream answered: {self}")


def words_in(raw: bytes, secrets: Iterable[str]) -> str:
    """The message of an error's body, in one short line; empty if it may quote what we sent along.

    >>> words_in(b'{"error": {"message": "too long"}}', ["sk-1"])
    'too long'
    >>> words_in(b'{"detail": "got x-api-key: 1"}', []) + words_in(b'{"error": "bad sk-1"}', ["sk-1"])
    ''
    """
    try:
        found = p.decode_json(raw)
    except ValueError:
        return ""
    error = found.get("error") if isinstance(found, dict) else None
    said = error.get("message") if isinstance(error, dict) else error or mapping(found).get("detail")
    if not isinstance(said, str) or _QUOTES.search(said) or any(secret in said for secret in secrets):
        return ""
    return p.clean_unicode(" ".join(said.split())[:_LONGEST_WORDS])


class UpstreamPeer:
    """Calls one upstream and remembers whether it works; its key is read from the environment here, once.

    `count` gets the name, and how each call ended: "answered", "refused" (the request), "limited" (by its
    rate or by the deadline) or "failed".
    """

    def __init__(
        self,
        upstream: Upstream,
        session: Callable[[], aiohttp.ClientSession],
        count: Callable[[str, str, float], None],
    ) -> None:
        self.settings, self.name, self.has_price = upstream, upstream.name, upstream.has_price
        self.circuit = Circuit()
        self.count = count
        self._session = session
        self._base = upstream.base_url.rstrip("/")
        self._proxy = _proxy_of(upstream.base_url)
        self._key = upstream.key()
        own = (self._key, urlsplit(upstream.base_url).netloc, *upstream.headers.values())
        self._secrets = [secret for secret in own if secret and len(secret) >= _SECRET]
        seconds = upstream.timeout
        self._timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=min(seconds, _CONNECTS_WITHIN), sock_read=seconds
        )

    async def post(self, path: str, sent: "Sent", check: Callable[[Body], None], ends: float) -> Body:
        """The JSON object that it answers with; UpstreamError if it does not, or not in time.

        `check` raises ValueError for an object that is no answer. The whole request's time is over when the
        event loop's clock says `ends`; the upstream's own timeout may be shorter.
        """
        seconds = ends - asyncio.get_running_loop().time()
        with model_span(self.settings, path) as span, self.watched(seconds):
            async with asyncio.timeout(min(seconds, self.settings.timeout)):
                response = await self._send(path, sent)
                try:
                    raw = await _read(response, self.name)
                finally:
                    response.release()
            if response.status != 200:
                raise self._failure(response, raw)
            answer = _object(raw, check, self.name)
            if span.is_recording():
                note_usage(span, answer)
            return answer

    async def stream(self, sent: "Sent", ends: float) -> "EventStream":
        """Its answer in events, until the event loop's clock says `ends`; returns once the first is there."""
        path, began = sent.protocol.path, asyncio.get_running_loop().time()
        seconds = ends - began
        with model_span(self.settings, path), self.watched(seconds, is_whole=False):
            async with asyncio.timeout(min(seconds, self.settings.timeout)):
                response = await self._send(path, sent)
                try:
                    if response.status != 200:
                        raise self._failure(response, await _read(response, self.name))
                    if response.content_type != "text/event-stream":
                        raise UpstreamError(self.name, "sent no stream")
                    events = EventStream(self, response, sent.protocol, ends)
                    await events.read_first(began)
                except BaseException:
                    response.close()
                    raise
        return events

    @contextmanager
    def watched(self, seconds: float, is_whole: bool = True, waited: float | None = None) -> Iterator[None]:
        """Report to the circuit how a call ended, and turn what went wrong into UpstreamError.

        A call that had less than half of the upstream's own timeout, because others before it took the rest,
        is not held against it. The beginning of a stream is no success yet (`is_whole`): it may break off.
        The rest of a stream counts with what was `waited` for its first event.
        """
        self.circuit.begin()
        outcome, began = "", time.monotonic()
        try:
            yield
            outcome = "answered" if is_whole else ""
        except GeneratorExit:  # the client may leave before the end of a stream
            outcome = "answered"
            raise
        except UpstreamError as error:
            outcome = "refused" if error.is_refusal else "limited" if error.status == 429 else "failed"
            raise
        except TimeoutError as error:  # aiohttp's are among them
            outcome = "failed" if seconds >= 0.5 * self.settings.timeout else "limited"
            raise UpstreamError(self.name, "took too long") from error
        except (aiohttp.ClientError, OSError) as error:
            outcome = "failed"
            raise UpstreamError(self.name, "could not be reached, or broke off") from error
        finally:
            if outcome == "failed":
                self.circuit.failed()
            elif outcome in ("answered", "refused"):
                self.circuit.succeeded()
            if outcome:
                self.count(self.name, outcome, time.monotonic() - began if waited is None else waited)

    async def _send(self, path: str, sent: "Sent") -> aiohttp.ClientResponse:
        headers = {"content-type": "application/json"}
        for header, value in sent.headers.items():
            if value:
                headers[header] = value
        inject(headers)  # the span of this call, if calls are traced
        headers |= self.settings.headers
        if self._key is not None:
            name = self.settings.key_header or sent.protocol.key_header
            headers[name] = f"Bearer {self._key}" if name == "authorization" else self._key
        return await self._session().post(
            f"{self._base}/{path}",
            data=p.encode_json(sent.body),
            headers=headers,
            timeout=self._timeout,
            allow_redirects=False,
            proxy=self._proxy,
        )

    def _failure(self, response: aiohttp.ClientResponse, raw: bytes) -> UpstreamError:
        status = response.status
        said = words_in(raw, self._secrets) if status in _REFUSALS else ""
        error = UpstreamError(self.name, f"answered {status}", status, said)
        if status == 429:
            try:
                pause = float(response.headers.get("retry-after", _LIMIT_PAUSE))
            except ValueError:  # a date
                pause = _LIMIT_PAUSE
            error.pause = self.circuit.limited(pause)
        return error


@dataclass(frozen=True, slots=True)
class Sent:
    """What one upstream is sent, in the protocol that it speaks."""

    protocol: Protocol
    body: Body
    headers: Mapping[str, str]


async def _read(response: aiohttp.ClientResponse, name: str) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > _LARGEST:
            response.close()
            raise UpstreamError(name, f"sent an answer of more than {_LARGEST} bytes")
        parts.append(part)
    return b"".join(parts)


def _object(raw: bytes | str, check: Callable[[Body], object], name: str) -> Body:
    """A JSON object that passes a check, as every answer and event is."""
    try:
        found = p.decode_json(raw)
    except ValueError:
        raise UpstreamError(name, "sent what is no JSON") from None
    try:
        check(body := found if isinstance(found, dict) else {})
    except ValueError as error:
        raise UpstreamError(name, f"sent {error}") from None
    return body


def _proxy_of(url: str) -> str | None:
    """The proxy that the environment names for an address; aiohttp would look it up for each call."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


class EventStream:
    """The events of a streamed answer; the first one is read before anything is promised to the client."""

    def __init__(
        self, peer: UpstreamPeer, response: aiohttp.ClientResponse, protocol: Protocol, ends: float
    ) -> None:
        self.peer, self.protocol = peer, protocol
        self._response, self._ends = response, ends
        self._events = self._read()
        self._first: Body | None = None
        self._waited: float | None = None

    async def read_first(self, began: float) -> None:
        """Wait for the first event of a call that began then; UpstreamError if there is none."""
        self._first = await anext(self._events, None)
        self._waited = asyncio.get_running_loop().time() - began
        if self._first is None:
            raise UpstreamError(self.peer.name, "sent an empty stream")

    async def __aiter__(self) -> AsyncIterator[Body]:
        """Every event; UpstreamError if the stream is cut, stalls, or goes on after its time."""
        with self.peer.watched(math.inf, waited=self._waited):
            event = self._first
            while event is not None:
                yield event
                async with asyncio.timeout_at(self._ends):
                    event = await anext(self._events, None)

    async def aclose(self) -> None:
        """Release the connection, for another call if everything was read; idempotent."""
        self._response.release()

    async def _read(self) -> AsyncIterator[Body]:
        parser, name, finished = EventParser(), self.peer.name, False

        def check(event: Body) -> None:
            nonlocal finished
            finished |= self.protocol.is_last(event)

        async for part in self._response.content.iter_any():
            try:
                events = parser.feed(part)
            except ValueError as error:
                raise UpstreamError(name, f"sent {error}") from None
            for data in events:
                if data.startswith("[DONE]"):
                    return
                yield _object(data, check, name)
        if not finished:
            raise UpstreamError(name, "cut the stream before the end")


class Pool:
    """Every configured upstream, by name, and the connections that they share.

    `count` gets an upstream's name and how a call ended, and `paid` what it cost.
    """

    def __init__(
        self,
        upstreams: Iterable[Upstream],
        count: Callable[[str, str, float], None],
        paid: Callable[[str, float], None],
    ) -> None:
        self.paid = paid
        self._opened: aiohttp.ClientSession | None = None
        self.peers = {each.name: UpstreamPeer(each, self._session, count) for each in upstreams}

    def usable(self, names: list[str]) -> list[str]:
        """Those whose circuit is closed; all, if no circuit is: a last try is better than none."""
        now, closed = time.monotonic(), []
        for name in names:
            if self.peers[name].circuit.open_until <= now:
                closed.append(name)
        return closed or names

    async def close(self) -> None:
        """Close all connections."""
        if self._opened is not None:
            await self._opened.close()

    def _session(self) -> aiohttp.ClientSession:
        """Opened with the first call, since it belongs to the event loop that runs then."""
        if self._opened is None:
            connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30.0, socket_factory=_socket)
            # No cookies are kept: they would carry one client's session to another.
            self._opened = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
        return self._opened


def _socket(info: aiohttp.AddrInfoType) -> socket.socket:
    """A socket for an address that a name led to; OSError for an address that no server has."""
    family, kind, protocol, _, address = info
    if is_no_servers(str(address[0])):
        raise OSError(errno.EACCES, f"{address[0]} is a link-local, multicast or empty address")
    return socket.socket(family, kind, protocol)


class EventParser:
    r"""Cuts bytes into the data of server-sent events; comments and other fields are left out.

    Examples
    --------
    >>> parser = EventParser()
    >>> parser.feed(b": hello\ndata: 1\n\ndata: 2\r\n")
    ['1']
    >>> parser.feed(b"data:3\r\n\r\n")
    ['2\n3']
    """

    def __init__(self) -> None:
        self._rest = b""  # a line that has not ended
        self._data: list[str] = []
        self._size = 0

    def feed(self, part: bytes) -> list[str]:
        """The data of events that end in this part; ValueError for an event that has grown too large."""
        *lines, self._rest = (self._rest + part).split(b"\n")
        found = []
        for raw in lines:
            line = raw.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._size += len(line)
                self._data.append(line[5:].removeprefix(b" ").decode("utf-8", "replace"))
            elif not line and self._data:
                found.append("\n".join(self._data))
                self._data, self._size = [], 0
        if self._size + len(self._rest) > _LARGEST_EVENT:
            raise ValueError(f"an event of more than {_LARGEST_EVENT} bytes")
        return found


class Circuit:
    """Whether one upstream should be called.

    Closed while it answers. After three failures in a row it opens, for a pause that doubles with every
    further failure; the first call after a pause is a trial, and the others wait for how that ends. A rate
    limit opens it for as long as the upstream asks. None of this is evidence about the peer's answers.

    Examples
    --------
    >>> circuit = Circuit(clock=lambda: 7.0)
    >>> for _ in range(3):
    ...     circuit.failed()
    >>> circuit.open_until
    12.0
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self.open_until = 0.0

    @property
    def is_broken(self) -> bool:
        """Whether the upstream failed too often, and has not answered since."""
        return self._failures >= _FAILURES

    def begin(self) -> None:
        """A call starts; if the circuit was open before, it is the only trial until it ends."""
        if self._failures >= _FAILURES:
            further = min(self._failures - _FAILURES, 10)
            self.open_until = self._clock() + min(_PAUSE * 2.0**further, _LONGEST)

    def succeeded(self) -> None:
        """The upstream answered, whatever it said."""
        self._failures, self.open_until = 0, 0.0

    def failed(self) -> None:
        """It could not be reached, took too long, or sent what is no answer."""
        self._failures += 1
        self.begin()

    def limited(self, seconds: float) -> float:
        """It asked to be left alone for some time; returns for how long it will be."""
        wait = min(seconds, _LONGEST) if seconds > 1.0 else 1.0  # 1 for NaN too
        self.open_until = self._clock() + wait
        return wait


def price_of(upstream: Upstream, usage: p.Usage) -> float:
    """What a call cost at the upstream's prices, which are those of a million tokens."""
    fresh = max(0, usage.input - usage.cached) * upstream.input_price
    return (fresh + usage.cached * upstream.cached + usage.output * upstream.output_price) / 1e6


# ---- all calls for one request


_ITEM = "response.output_item.done"  # the event that holds a whole item
Keep = Callable[[str, object, bool], None]  # of a peer, an item, and whether it was translated
_PROTOCOLS: dict[str, Protocol] = {each.name: each for each in (CHAT, MESSAGES, RESPONSES)}


def sent_to(upstream: Upstream, request: Request) -> tuple[Sent, list[str]]:
    """What an upstream is sent: the request as it is if it speaks its protocol, else in one that it speaks.

    With it, what of the request would be lost although the upstream's configuration does not allow it.
    """
    protocol, body, lost = request.protocol, request.body, list[str]()
    if protocol.name not in upstream.protocols:
        protocol = _PROTOCOLS[upstream.protocols[0]]
        try:
            prompt = request.protocol.prompt(body, lost.append)
            dropped: dict[str, Any] = dict.fromkeys(p.PLAIN.intersection(upstream.may_lose))
            body = protocol.request(replace(prompt, **dropped), lost.append)
            allowed = lost if "*" in upstream.may_lose else upstream.may_lose
            lost = [what for what in dict.fromkeys(lost) if what not in allowed]
        except p.UNREADABLE:
            lost = [f"what is no request of {request.protocol.name}"]
    if upstream.system:
        body = protocol.with_system(body, upstream.system)
    if upstream.effort:
        body = protocol.with_field(body, "effort", upstream.effort)
    forwarded = request.headers if protocol is request.protocol else protocol.headers
    headers = {**forwarded, **request.trace}
    return Sent(protocol, {**body, **upstream.parameters, "model": upstream.model}, headers), lost


class Calls:
    """The calls made for one request; answers come back in the client's protocol. Mappings are by peer."""

    def __init__(self, request: Request, pool: Pool, deadline: float, keep: Keep) -> None:
        self.request, self.pool = request, pool
        keeps = request.protocol is RESPONSES and request.body.get("store") is not False
        self._keep = keep if keeps else None
        self.attempts = 0
        self.failures: dict[str, UpstreamError] = {}
        self.left_out: dict[str, str] = {}  # what would have been lost of the request
        self.costs: dict[str, float] = {}  # of answers of upstreams that have a price
        self.cost = 0.0  # of all of them
        self.wants_text, self.texts = False, dict[str, str]()
        self.usages: dict[str, p.Usage] = {}  # as the answers report them
        self._sent: dict[str, Sent] = {}
        self._clock = asyncio.get_running_loop().time
        self._ends = self._clock() + deadline

    def seconds_left(self) -> float:
        """Until the deadline."""
        return max(0.0, self._ends - self._clock())

    async def able(self, names: Iterable[str]) -> list[str]:
        """The peers that can be sent the request without a loss; RefusedError if none can.

        Of the others `left_out` says why. Other requests have their turn between two translations.
        """
        found = []
        for name in names:
            settings, lost = self.pool.peers[name].settings, list[str]()
            if self.request.protocol.name not in settings.protocols:
                self._sent[name], lost = sent_to(settings, self.request)
                await asyncio.sleep(0)
            if lost:
                self.left_out[name] = f"would lose {', '.join(lost)}"
            else:
                found.append(name)
        if not found:
            why = "; ".join(f"{peer} {loss}" for peer, loss in self.left_out.items())
            raise bad_request(
                f"no peer can take this request: {why}; expected another, or may_lose in its settings"
            )
        return found

    def _call(self, name: str) -> tuple[UpstreamPeer, Sent]:
        """A peer to call now, and what it is sent."""
        self.attempts += 1
        peer = self.pool.peers[name]
        return peer, self._sent.get(name) or sent_to(peer.settings, self.request)[0]

    async def complete(self, name: str) -> Body:
        """A peer's whole answer."""
        (peer, sent), protocol = self._call(name), self.request.protocol
        try:
            whole = dict(sent.body)
            for field in ("stream", "stream_options"):
                whole.pop(field, None)
            asked = replace(sent, body=whole)
            answer = await peer.post(sent.protocol.path, asked, sent.protocol.check, self._ends)
        except UpstreamError as error:
            self.failures[name] = error
            raise
        self.spent(peer, sent.protocol.usage(answer))
        if sent.protocol is not protocol:
            answer = protocol.response(sent.protocol.reply(answer), self.request.body)
        if self.wants_text and (said := protocol.answer(answer)) is not None:
            self.texts[name] = said.text if isinstance(said, Answer) else said
        for item in answer["output"] if self._keep is not None else ():
            self._kept(name, {"type": _ITEM, "item": item}, sent.protocol)
        return answer

    async def stream(self, name: str) -> EventStream:
        """A peer's answer in events, once the first one is there."""
        peer, sent = self._call(name)
        translated = sent.protocol is not self.request.protocol
        body = sent.protocol.streaming(sent.body, usage=translated or peer.has_price)
        try:
            return await peer.stream(replace(sent, body=body), self._ends)
        except UpstreamError as error:
            self.failures[name] = error
            raise

    async def events(self, stream: EventStream) -> AsyncIterator[Body]:
        """A stream's events in the client's protocol; UpstreamError if it breaks off."""
        usage, spoken, protocol, name = p.Usage(), stream.protocol, self.request.protocol, stream.peer.name
        reader, writer = spoken.reader(spoken), protocol.writer(self.request.body)
        async for event in stream:
            if (more := spoken.usage(event)) is not None:
                usage = usage.or_more(more)
                self.spent(stream.peer, usage)
            if spoken is protocol:
                if self.wants_text:
                    with suppress(*p.UNREADABLE):
                        self._keep_texts(name, reader.feed(event))
                yield self._kept(name, event, spoken)
                continue
            try:
                deltas = list(reader.feed(event))
                self._keep_texts(name, deltas)
                for written in [each for delta in deltas for each in writer.write(delta)]:
                    yield self._kept(name, written, spoken)
            except p.UNREADABLE as error:
                raise UpstreamError(name, "sent a stream that cannot be read") from error
        if spoken is not protocol:
            for written in writer.write(reader.end()):
                yield self._kept(name, written, spoken)

    def _keep_texts(self, name: str, deltas: Iterable[p.Delta]) -> None:
        for delta in deltas:
            if self.wants_text and isinstance(delta, p.Text):
                self.texts[name] = self.texts.get(name, "") + p.clean_unicode(delta.text)

    def _kept(self, peer: str, event: Body, spoken: Protocol) -> Body:
        """An event; the item that it holds is kept, if the client may refer to it."""
        if self._keep is not None and event.get("type") == _ITEM:
            self._keep(peer, event.get("item"), spoken is not self.request.protocol)
        return event

    def spent(self, peer: UpstreamPeer, usage: p.Usage | None) -> None:
        """A peer reported its usage."""
        if usage is None:
            return
        self.usages[peer.name] = usage
        if peer.has_price:
            cost = price_of(peer.settings, usage)
            self.pool.paid(peer.name, cost - self.costs.get(peer.name, 0.0))
            self.costs[peer.name] = cost
            self.cost = math.fsum(self.costs.values())

    def nobody(self) -> RefusedError:
        """The response if nobody answered: 502, or the first refusal if all refused the request itself."""
        errors = list(self.failures.values())
        if errors and all(error.is_refusal for error in errors):
            return errors[0].refused()
        said = "; ".join(map(str, errors)) or "there was no time to ask anyone"
        return RefusedError(502, "no_upstream_answered", f"no upstream answered: {said}")
