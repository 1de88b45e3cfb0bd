"""Conversations: one stays on its peer unless the gain of a switch, times its value, exceeds the cost.

A conversation is known by the client's name for it (header ``x-sigma-mem-conversation``) or by its turns:
those of an earlier request are the beginning of this one's. Only hashes are kept, in memory, for a while.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from sigma_mem.serve.config import Upstream
from sigma_mem.serve.gateway.protocol import Request
from sigma_mem.serve.gateway.wire import encode_json

_MOST = 20_000  # requests that are remembered; the oldest is forgotten first
_TOKEN = 4  # bytes, about, if an upstream does not report its usage
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")  # which only the peer that had them can read


@dataclass(frozen=True, slots=True)
class Conversation:
    """Where a conversation is: its peer, and how many tokens of it that peer has seen."""

    peer: str
    tokens: int


class Conversations:
    """Which peer each conversation is on.

    Parameters
    ----------
    upstreams : iterable of Upstream
    value : float
        What a right answer is worth, in the unit of the prices; with 0 only a better peer that costs less is
        worth a switch.
    margin : float
        How much better than the present one another peer must be, against going back and forth.
    """

    def __init__(self, upstreams: Iterable[Upstream], value: float, margin: float) -> None:
        self._upstreams = {upstream.name: upstream for upstream in upstreams}
        self._value, self._margin = value, margin
        self._known: OrderedDict[bytes, Conversation] = OrderedDict()

    def find(self, namespace: str, request: Request) -> Conversation | None:
        """The conversation that a request goes on with; None for a new one."""
        named, turns = _keys(namespace, request)
        earlier = [named] if named is not None else turns[-2::-1]  # the longest beginning first
        return next((self._known[key] for key in earlier if key in self._known), None)

    def remember(self, namespace: str, request: Request, peer: str, tokens: int | None) -> None:
        """A peer answered a request, after which it has seen so many tokens."""
        named, turns = _keys(namespace, request)
        key = turns[-1] if named is None else named
        if tokens is None:
            tokens = len(encode_json(request.body)) // _TOKEN
        self._known[key] = Conversation(peer, tokens)
        self._known.move_to_end(key)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)

    def choose(self, now: Conversation, request: Request, probs: Mapping[str, float]) -> tuple[str, str]:
        """The peer that should go on, among those of `probs`, and what held the present one if it is that."""
        if any(kind in _THOUGHTS for kind in _kinds(request.items)):
            return now.peer, "only its peer can read what it thought"
        rivals = [peer for peer in probs if peer != now.peer]
        gains = {peer: probs[peer] - probs[now.peer] for peer in rivals}
        costs = {peer: self._cost(now, peer) for peer in rivals}
        best = max(rivals, key=lambda peer: gains[peer] * self._value - costs[peer], default=None)
        if best is None:
            return now.peer, "no other peer can take it"
        if gains[best] > self._margin and gains[best] * self._value > costs[best]:
            return best, ""
        return now.peer, f"{best} would gain {gains[best]:.3g} and the switch costs {costs[best]:.3g}"

    def _cost(self, now: Conversation, peer: str) -> float:
        """Of the tokens that the present peer has in its cache, read anew by another."""
        present, other = self._upstreams[now.peer], self._upstreams[peer]
        return now.tokens * (other.input_price - present.cached) / 1e6


def _keys(namespace: str, request: Request) -> tuple[bytes | None, list[bytes]]:
    """The hash of the client's name for the conversation, or of the turns up to each of them."""
    running, turns = blake2b(namespace.encode() + b"\0", digest_size=16), list[bytes]()
    if request.conversation:
        running.update(b"named\0" + request.conversation.encode())
        return running.digest(), turns
    for item in request.items:
        running.update(encode_json(_lasting(item)) + b"\0")
        turns.append(running.digest())
    return None, turns


def _lasting(item: Any) -> Any:
    """A turn without the marks that clients move from one turn to the next: where to cache."""
    if isinstance(item, dict):
        return {key: _lasting(value) for key, value in item.items() if key != "cache_control"}
    return [_lasting(each) for each in item] if isinstance(item, list) else item


def _kinds(items: Iterable[Any]) -> Iterator[object]:
    """The types of all turns and of their parts."""
    for item in items:
        if isinstance(item, dict):
            yield item.get("type")
            content = item.get("content")
            yield from _kinds(content if isinstance(content, list) else ())
