"""A judge behind an OpenAI-compatible endpoint: vLLM, llama.cpp or a hosted API."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from sigma_mem.errors import InputError
from sigma_mem.events import Verdict
from sigma_mem.judges.endpoint import LARGEST_REPLY, JudgeEndpoint, RefusalError, TransientError
from sigma_mem.judges.words import INSTRUCTION, REQUEST, record_in_words, said_in, yes_minus_no

TEMPLATE = f"Question:\n{{question}}\n\nProposed answer:\n{{answer}}\n\n{REQUEST}"
_FEWER = {20: 5, 5: 0}  # alternatives of a token to ask for if an endpoint refuses to list so many
_DAY = 86_400.0
_REST = 30.0  # seconds for which an endpoint that failed is left alone, unless it sends a time


class _Reply(NamedTuple):
    """What came of asking about one answer."""

    score: float | None
    cost: float
    failure: str | None


class EndpointJudge:
    """Asks a model whether an answer should be trusted: Yes-minus-No log-odds, or a number that it writes.

    A judge that fails, is too slow or answers nonsense gives no score, and so costs a decision only
    time. The log-probabilities of the first token are read if the endpoint sends them, else its text. An
    endpoint that refuses to list 20 alternatives is asked for 5, and then for none.

    Parameters
    ----------
    name : str
        Under which a memory learns what its score is worth.
    url, model : str
        Such as http://127.0.0.1:8080/v1, and the model's name there.
    key_env : str, optional
        The environment variable that holds the endpoint's key.
    instruction, template : str
        The system message, and the user's with {question} and {answer} in it; the paper's by default. If it
        also has {record}, the memory's record of the peer stands there in words (`record_in_words`).
    reads : {"yes-no", "number"}
        What the template asks for.
    timeout : float
        Seconds for all answers to one question together.
    per_minute : float, optional
        Requests a minute; what would have to wait longer than the timeout is not asked.
    budget : float, optional
        What may be spent in 24 hours. Prices are per million tokens.
    value : float, optional
        What a right answer is worth: the judge is asked only if what that gains is more than its price.
    max_tokens, concurrency, kept : int
        Tokens of a reply (a model that thinks aloud needs hundreds), requests at a time, and scores kept in
        memory by what was asked.

    Examples
    --------
    >>> judge = EndpointJudge("gpt", "http://127.0.0.1:9/v1", "any", timeout=0.2)
    >>> judge.judge("What is 2 + 2?", {"ann": "4"}).scores
    {}
    """

    def __init__(
        self,
        name: str,
        url: str,
        model: str,
        *,
        key_env: str | None = None,
        instruction: str = INSTRUCTION,
        template: str = TEMPLATE,
        reads: Literal["yes-no", "number"] = "yes-no",
        max_tokens: int = 4,
        timeout: float = 10.0,
        per_minute: float | None = None,
        budget: float | None = None,
        price_in: float = 0.0,
        price_out: float = 0.0,
        value: float | None = None,
        concurrency: int = 4,
        kept: int = 10_000,
    ) -> None:
        if not name:
            raise InputError("the judge's name is empty; expected text")
        if "{question}" not in template or "{answer}" not in template:
            raise InputError(f"judge {name!r}: template lacks {{question}} or {{answer}}; expected both")
        if reads not in ("yes-no", "number"):
            raise InputError(f"judge {name!r}: got reads {reads!r}; expected 'yes-no' or 'number'")
        if not timeout > 0.0 or (per_minute is not None and not per_minute > 0.0):
            raise InputError(f"judge {name!r}: timeout and per_minute must be positive numbers")
        if min(max_tokens, concurrency, kept) < 1:
            raise InputError(f"judge {name!r}: max_tokens, concurrency and kept must be at least 1")
        if not all(amount >= 0.0 for amount in (budget or 0.0, price_in, price_out, value or 0.0)):
            raise InputError(f"judge {name!r}: budget, prices and value must not be negative")
        self.name, self._model, self._number = name, model, reads == "number"
        self._instruction, self._template = instruction, template
        self._max_tokens = max(max_tokens, 8) if self._number else max_tokens
        self._listed = 0 if self._number else 20
        self._endpoint = JudgeEndpoint(url, key_env=key_env, timeout=timeout, who=f"judge {name!r}")
        self._interval = 0.0 if per_minute is None else 60.0 / per_minute
        self._budget, self._prices = budget, (price_in / 1e6, price_out / 1e6)
        self._threads = ThreadPoolExecutor(concurrency, thread_name_prefix=f"judge-{name}")
        self._lock = threading.Lock()
        self._next, self._rests_until = 0.0, 0.0
        self._spent: list[tuple[float, float]] = []  # when, and how much, in the last 24 hours
        self._scores: OrderedDict[str, float] = OrderedDict()
        self._kept, self._asked, self._paid, self._value = kept, 0, 0.0, value

    @property
    def price(self) -> float:
        """Mean cost of an answer so far; before the first one, of 400 tokens."""
        with self._lock:
            return self._paid / self._asked if self._asked else 400.0 * self._prices[0] + self._prices[1]

    def is_worth(self, gain: float, answers: int) -> bool:
        """Whether what asking gains is worth its price; without a `value`, whether it gains anything."""
        return gain > 0.0 if self._value is None else gain * self._value > self.price * answers

    def judge(
        self,
        question: str,
        answers: Mapping[str, str],
        records: Mapping[str, tuple[float, float]] = MappingProxyType({}),
    ) -> Verdict:
        """Score the answers, peer → text; equal prompts are asked once.

        ``records`` are p̂ and its labels by peer, for a template with {record}.
        """
        begun = time.monotonic()
        deadline = begun + self._endpoint.timeout
        bodies = {
            peer: self._body(question, text, records.get(peer, (0.5, 0.0)))
            for peer, text in answers.items()
            if text
        }
        keys = {peer: _key(body) for peer, body in bodies.items()}
        jobs: dict[str, Future[_Reply]] = {}
        known: dict[str, float] = {}
        failures: list[str] = []
        for key, body in {keys[peer]: body for peer, body in bodies.items()}.items():
            with self._lock:
                if key in self._scores:
                    self._scores.move_to_end(key)
                    known[key] = self._scores[key]
                    continue
            refused = self._turn(deadline)
            if refused is not None:
                failures.append(refused)
                break
            jobs[key] = self._threads.submit(self._ask, key, body, deadline)
        wait(jobs.values(), timeout=max(deadline - time.monotonic(), 0.0))
        cost = 0.0
        for key, job in jobs.items():
            late = not job.done()
            job.cancel()
            reply = _Reply(None, 0.0, self._late) if late else job.result()
            cost += reply.cost
            if reply.score is not None:
                known[key] = reply.score
            if reply.failure is not None:
                failures.append(reply.failure)
        scores = {peer: known[key] for peer, key in keys.items() if key in known}
        return Verdict(scores, cost, time.monotonic() - begun, tuple(dict.fromkeys(failures)))

    def close(self) -> None:
        """End what is under way."""
        self._endpoint.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _body(self, question: str, answer: str, record: tuple[float, float]) -> dict[str, Any]:
        asked = self._template.replace("{record}", record_in_words(*record), 1)
        asked = asked.replace("{question}", question, 1).replace("{answer}", answer, 1)
        messages = [{"role": "system", "content": self._instruction}, {"role": "user", "content": asked}]
        body: dict[str, Any] = {"model": self._model, "messages": messages, "temperature": 0.0}
        return body | {"max_tokens": self._max_tokens}

    @property
    def _late(self) -> str:
        return f"no reply within {self._endpoint.timeout:g} s"

    def _turn(self, deadline: float) -> str | None:
        """Wait for this request's turn; why it may not be sent, if it may not."""
        with self._lock:
            now = time.monotonic()
            self._spent = [(when, paid) for when, paid in self._spent if when > now - _DAY]
            spent = sum(paid for _, paid in self._spent)
            if self._budget is not None and spent >= self._budget:
                return f"the budget of {self._budget:g} for 24 hours is spent"
            turn = max(now, self._next)
            if self._rests_until > now:
                return "the endpoint rests"
            if now >= deadline:
                return self._late
            if turn > deadline:
                return "too many requests for its rate"
            self._next = turn + self._interval
        time.sleep(max(turn - time.monotonic(), 0.0))
        return None

    def _ask(self, key: str, body: Mapping[str, Any], deadline: float) -> _Reply:
        """Ask about one answer; what is paid counts, whether the reply can be read or not."""
        if time.monotonic() >= deadline:
            return _Reply(None, 0.0, self._late)
        try:
            data = self._posted(body)
        except TransientError as error:
            self._rest(error.retry_after)
            return _Reply(None, 0.0, str(error))
        except RefusalError as error:
            if error.down:
                self._rest(None)
            return _Reply(None, 0.0, str(error))
        score, tokens = _read(data, self._number)
        paid = sum(count * price for count, price in zip(tokens, self._prices, strict=True))
        with self._lock:
            self._asked += 1
            self._paid += paid
            self._spent.append((time.monotonic(), paid))
            if score is not None:
                self._scores[key] = score
                while len(self._scores) > self._kept:
                    self._scores.popitem(last=False)
        expected = "a number" if self._number else "Yes or No"
        failure = f"the reply holds no verdict; expected {expected}" if score is None else None
        return _Reply(score, paid, failure)

    def _posted(self, body: Mapping[str, Any]) -> bytes:
        """The reply, with as many log-probabilities as the endpoint is ready to list."""
        while True:
            listed = self._listed
            asked = {"logprobs": True, "top_logprobs": listed} if listed else {}
            try:
                return self._endpoint.post({**body, **asked})
            except RefusalError as error:
                if not listed or "logprob" not in str(error):
                    raise
                self._listed = min(self._listed, _FEWER[listed])

    def _rest(self, seconds: float | None) -> None:
        with self._lock:
            self._rests_until = time.monotonic() + (_REST if seconds is None else min(seconds, 900.0))


def _key(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _read(data: bytes, number: bool) -> tuple[float | None, tuple[int, int]]:
    """The score in a chat completion, None if it has none; and tokens in and out."""
    try:
        found = json.loads(data) if len(data) <= LARGEST_REPLY else {}
        choice = found["choices"][0]
        text = choice["message"].get("content") or ""
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return None, (0, 0)
    usage = found.get("usage")
    counts = [
        usage.get(f"{which}_tokens") if isinstance(usage, dict) else 0 for which in ("prompt", "completion")
    ]
    tokens = tuple(count if isinstance(count, int) and count > 0 else 0 for count in counts)
    score = None
    if not number:
        try:
            score = yes_minus_no(choice["logprobs"]["content"][0]["top_logprobs"])
        except (KeyError, IndexError, TypeError, AttributeError):
            score = None  # this endpoint sends none
    if score is None and isinstance(text, str):
        score = said_in(text, number)
    return score, (tokens[0], tokens[1])
