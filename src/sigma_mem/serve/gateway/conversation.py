"""What came before a request: which peer its conversation is on, and what it says of the answer before it.

A conversation is known by the client's name for it (header ``x-sigma-mem-conversation``) or by its turns:
those of an earlier request are the beginning of this one's. Only hashes are kept, in memory, for a while. It
stays on its peer unless the gain of a switch, times its value, exceeds the cost.

A signal says whether the answer before was right, or nothing. Each is off unless the configuration names it,
and is a source of its own, so that what it is worth is learned from how it agrees with real labels. Also what
speaks for an answer is a label, since a source that only ever says "wrong" agrees with nobody.
"""

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from sigma_mem.errors import InputError, StoreError, UnknownDecisionError
from sigma_mem.serve.config import SIGNALS, Upstream
from sigma_mem.serve.gateway import protocol as p
from sigma_mem.serve.gateway.protocol import Body, Request, bad_request, mapping
from sigma_mem.serve.memories import ServedMemory
from sigma_mem.session import SigmaMem
from sigma_mem.session.peers import peers_that_said_it

_MOST = 40_000  # keys of 20,000 requests that are remembered; the oldest is forgotten first
_MOST_BYTES = 64 * 2**20  # of items
_TOKEN = 4  # bytes, about, if an upstream does not report its usage
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")  # which only the peer that had them can read


@dataclass(frozen=True, slots=True)
class Conversation:
    """Where a conversation is: its peer, how many tokens of it that has seen, and its last response."""

    peer: str
    tokens: int
    response: str = ""


class Trail:
    """How a conversation is known: hashes of its name, if the client has one, or of its turns up to each."""

    def __init__(self, namespace: str, request: Request) -> None:
        self.namespace, self.request = namespace, request
        self.named: bytes | None = None
        self.turns: list[bytes] = []
        running = blake2b(namespace.encode() + b"\0", digest_size=16)
        if request.conversation:
            running.update(b"named\0" + request.conversation.encode())
            self.named = running.digest()
            return
        for item in request.items:
            raw = p.encode_json(item)
            if b"cache_control" in raw:
                raw = p.encode_json(_lasting(item))
            running.update(raw + b"\0")
            self.turns.append(running.digest())


class Conversations:
    """Which peer each conversation is on.

    `value` is what a right answer is worth, in the unit of the prices; with 0 only a better peer that costs
    less is worth a switch. `margin` is how much better it must be, against going back and forth.
    """

    def __init__(self, upstreams: Iterable[Upstream], value: float, margin: float) -> None:
        self._upstreams = {upstream.name: upstream for upstream in upstreams}
        self._value, self._margin = value, margin
        self._known: OrderedDict[bytes | tuple[str, str], Conversation] = OrderedDict()

    def find(self, trail: Trail) -> Conversation | None:
        """The conversation that a request goes on with; None for a new one."""
        for key in [trail.named] if trail.named is not None else trail.turns[-2::-1]:  # the longest first
            if key in self._known:
                return self._known[key]
        return None

    def answered(self, trail: Trail) -> tuple[str | None, bool]:
        """The response that a request comes after, and whether the same request was answered before."""
        same = self._known.get(trail.turns[-1]) if trail.turns else None
        known = same or self.find(trail)
        return (known.response or None) if known else None, same is not None

    def remember(self, trail: Trail, response: str, peer: str, tokens: int | None) -> None:
        """A peer answered a request, after which it has seen so many tokens."""
        if tokens is None:
            tokens = len(p.encode_json(trail.request.body)) // _TOKEN
        for key in (trail.named or trail.turns[-1], (trail.namespace, response)):
            self._known[key] = Conversation(peer, tokens, response)
            self._known.move_to_end(key)
        while len(self._known) > _MOST:
            self._known.popitem(last=False)

    def peer_of(self, namespace: str, response: str) -> str | None:
        """The peer that gave a response, if it was lately and in this process."""
        found = self._known.get((namespace, response))
        return None if found is None else found.peer

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
        gain, cost = f"{best} would gain {gains[best]:.3g}", f"the switch costs {costs[best]:.3g}"
        within = f", at most the margin of {self._margin:g}," if 0.0 < gains[best] <= self._margin else ""
        return now.peer, f"{gain}{within} and {cost}"

    def _cost(self, now: Conversation, peer: str) -> float:
        """Of the tokens that the present peer has in its cache, read anew by another."""
        present, other = self._upstreams[now.peer], self._upstreams[peer]
        return now.tokens * (other.input_price - present.cached) / 1e6


class KeptItems:
    """Items of answers in Responses, which clients may refer to by id instead of sending them again.

    An upstream that speaks Responses keeps its own items, so that only its name is kept here. Items that were
    translated nobody else has. They are kept in the memory of this process, the oldest forgotten first.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], tuple[str, bytes]] = OrderedDict()
        self._size = 0

    def keep(self, namespace: str, peer: str, item: Any, translated: bool) -> None:
        """A peer answered with an item."""
        if not isinstance(item, dict) or not isinstance(id := item.get("id"), str):
            return
        raw = p.encode_json(item) if translated else b""
        self._size += len(raw) - len(self._known.pop((namespace, id), ("", b""))[1])
        self._known[namespace, id] = peer, raw
        while self._size > _MOST_BYTES or len(self._known) > _MOST:
            self._size -= len(self._known.popitem(last=False)[1][1])

    def resolved(self, namespace: str, request: Request) -> tuple[Request, str | None]:
        """The request with whole items for references, and the peer that alone has the others, if any."""
        whole: dict[int, Body] = {}
        holder = None
        for place, item in enumerate(map(mapping, request.items)):
            if item.get("type") == "item_reference":
                found = self._known.get((namespace, str(item.get("id"))))
                if found is None:
                    raise bad_request(
                        f"item_reference {item.get('id')!r:.80} is not known here; expected the whole item, "
                        "as clients send it with store: false (input)"
                    )
                if found[1]:
                    whole[place] = mapping(p.decode_json(found[1]))
                else:
                    holder = found[0]
        if not whole:
            return request, holder
        items, sent = (
            [whole.get(place, item) for place, item in enumerate(given)]
            for given in (request.items, request.body["input"])
        )
        return replace(request, items=items, body=request.body | {"input": sent}), holder


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


# ---- signals: labels without a call


_WEIGHT = 0.25  # a hint is never as much evidence as somebody's label
_ALIKE = 0.5  # of the words of two questions
_LOOP = 3  # equal calls in a row
_AGAIN = re.compile(
    r"\b(try again|wrong|incorrect|not (what i|right|correct)|still (fails|failing|broken|not)|"
    r"does( not|n't) work|same (error|problem|issue))\b",
    re.IGNORECASE,
)
_TESTS = re.compile(
    r"\b(pytest|unittest|tox|nox|jest|vitest|rspec|phpunit|ctest|(npm|yarn|pnpm|go|cargo|mvn|gradle|dotnet)"
    r"( run)? test|make (test|check))\b"
)
_EXIT = re.compile(r"\bexit(?:ed)?[ _-]?(?:with )?(?:code|status)?\W{0,4}(\d+)", re.IGNORECASE)
_TYPES: Mapping[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
}


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as signals see it; `again` if the same one was answered before."""

    messages: tuple[p.Message, ...]
    tools: tuple[p.Tool, ...] = ()
    again: bool = False

    def said(self) -> list[str]:
        """What the user said, one text for each turn."""
        users = (message for message in self.messages if message.role == "user")
        texts = (p.without_context(p.text_of(message.parts)) for message in users)
        return [text for text in texts if text]

    def calls(self) -> list[p.Call]:
        """The calls of tools since the user spoke last."""
        found: list[p.Call] = []
        for message in self.messages:
            if message.role == "user" and any(isinstance(part, p.Text) for part in message.parts):
                found.clear()
            found += (part for part in message.parts if isinstance(part, p.Call))
        return found

    def goes_on(self) -> bool:
        """Whether the user spoke after an answer, and nothing else came last."""
        last = self.messages[-1]
        spoke = last.role == "user" and any(isinstance(part, p.Text) for part in last.parts)
        return spoke and any(message.role == "assistant" for message in self.messages)


def rephrased(seen: Seen) -> bool | None:
    """The user asks nearly the same again after the answer."""
    if not seen.goes_on() or len(said := seen.said()) < 2:
        return None
    before, now = (set(re.findall(r"\w+", text.lower())) for text in said[-2:])
    return len(before & now) < _ALIKE * len(before | now)


def regenerated(seen: Seen) -> bool | None:
    """The same request comes again after it was answered."""
    return False if seen.again else (True if seen.goes_on() else None)


def retried(seen: Seen) -> bool | None:
    """The user says, in English, that the answer does not do, and asks for another."""
    return not _AGAIN.search(seen.said()[-1]) if seen.goes_on() else None


def tool_arguments(seen: Seen) -> bool | None:
    """A call of a tool is no JSON, names no tool, or does not fit the tool's schema."""
    schemas = {tool.name: tool.schema for tool in seen.tools}
    calls = _answered_calls(seen)
    return (
        all(call.name in schemas and _fits_text(call.arguments, schemas[call.name]) for call in calls)
        if calls
        else None
    )


def tool_loop(seen: Seen) -> bool | None:
    """The same tool is called with the same arguments several times in a row."""
    calls = [(call.name, call.arguments) for call in seen.calls()]
    return len(calls) < _LOOP or len(set(calls[-_LOOP:])) > 1 if calls else None


def tests(seen: Seen) -> bool | None:
    """A tool ran tests, and its result has their exit status."""
    ran = {call.id for call in _answered_calls(seen) if _TESTS.search(call.arguments)}
    texts = [p.text_of(part.parts) for part in _results(seen) if part.id in ran]
    codes = [int(code) for text in texts for code in _EXIT.findall(text)]
    return not any(codes) if codes else None


FUNCTIONS: Mapping[str, Callable[[Seen], bool | None]] = {
    each.__name__: each for each in (rephrased, regenerated, retried, tool_arguments, tool_loop, tests)
}


class Signals:
    """The signals that a configuration names.

    Requests may come again and in any order: of what a signal says of one event, the longest conversation
    counts, and among equally long ones "wrong". An answer that was regenerated stays wrong.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._functions = {name: FUNCTIONS[name] for name in SIGNALS if name in names}
        self._said: OrderedDict[tuple[str, str], tuple[bool, int, bool]] = OrderedDict()  # by event and name

    async def learn(self, memory: ServedMemory, request: Request, before: str | None, again: bool) -> None:
        """Record what a request says of an earlier response: that of `before`, or whose tools it called."""
        response = request.in_loop or before
        if not self._functions or response is None:
            return
        try:
            prompt = request.protocol.prompt(request.body, lambda what: None)
            seen = Seen(prompt.messages, prompt.tools, again)
            found = {name: right for name, of in self._functions.items() if (right := of(seen)) is not None}
        except p.UNREADABLE:  # the upstream may understand it
            return
        if False in found.values():  # all that the others' "right" means is that they noticed nothing
            found = {name: right for name, right in found.items() if not right or name == tests.__name__}

        def record(mem: SigmaMem) -> None:
            # An answer that was forgotten, or that was served by nobody, has no label.
            with suppress(UnknownDecisionError, InputError):
                decision = mem.decision(response)
                peers = peers_that_said_it(decision)
                for name, right in found.items():
                    final = name == regenerated.__name__ and not right
                    if self._counts((decision.event, name), (final, len(seen.messages), not right)):
                        given: dict[str, Any] = {"source": f"signal/{name}", "weight": _WEIGHT}
                        mem.feedback(response, dict.fromkeys(peers, right), **given, amend=True, wait=False)

        if found and not memory.is_away:
            try:
                await memory.slow(record)
            except StoreError as error:
                await memory.lose(error)

    def _counts(self, key: tuple[str, str], rank: tuple[bool, int, bool]) -> bool:
        """Whether nothing that counts more was said before."""
        counts = rank >= self._said.get(key, rank)
        if counts:
            self._said[key] = rank
            if len(self._said) > _MOST:
                self._said.popitem(last=False)
        return counts


def _results(seen: Seen) -> list[p.Result]:
    return [part for part in seen.messages[-1].parts if isinstance(part, p.Result)]


def _answered_calls(seen: Seen) -> list[p.Call]:
    """The calls whose results the last turn brings."""
    ids = {result.id for result in _results(seen)}
    return [call for call in seen.calls() if call.id in ids]


def _fits_text(arguments: str, schema: Mapping[str, Any]) -> bool:
    try:
        return _fits(json.loads(arguments or "{}"), schema)
    except ValueError:
        return False


def _fits(value: Any, schema: Any) -> bool:
    """Whether a value has the type, the keys and the choices that a schema asks for; other rules pass."""
    if not isinstance(schema, Mapping):
        return True
    kind = _TYPES.get(str(schema.get("type")))
    if kind is not None and (not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool)):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, list):
        return all(_fits(each, schema.get("items")) for each in value)
    if not isinstance(value, dict):
        return True
    known = schema.get("properties") or {}
    closed = schema.get("additionalProperties") is False and not value.keys() <= known.keys()
    complete = set(schema.get("required") or ()) <= value.keys()
    return complete and not closed and all(_fits(each, known.get(key)) for key, each in value.items())
