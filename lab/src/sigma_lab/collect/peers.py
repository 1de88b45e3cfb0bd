"""Peers to ask: their settings, what is sent, how it is cached, what comes back, and at which pace."""

import hashlib
import json
import random
import re
import threading
import time
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from sigma_lab.collect.questions import TaskPrompt, clean_text, json_lines, unique
from sigma_mem.errors import InputError
from sigma_mem.judges import endpoint
from sigma_mem.judges.endpoint import LARGEST_REPLY, RefusalError, TransientError, message_in

_EXPECTED = "openai:http://HOST:PORT/v1#MODEL"


class PeerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One peer: a model behind an endpoint, how it is prompted and samples, and how fast it is asked."""

    name: Annotated[str, Meta(pattern=r"^\w[\w.+@/-]*$")]
    spec: str
    # --- the prompt ---
    system: str | None = None
    template: Annotated[str, Meta(pattern=r"\{prompt\}")] = "{prompt}"
    examples: str | None = None
    """A file of JSON lines with ``prompt`` and ``answer``: few-shot."""
    # --- sampling ---
    temperature: Annotated[float, Meta(ge=0, le=2)] = 0.0
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    max_tokens: Annotated[int, Meta(ge=1)] = 512
    seed: int = 0
    stop: tuple[str, ...] = ()
    body: Mapping[str, Any] = {}  # msgspec copies it
    """Further fields of an endpoint's request, such as ``reasoning_effort``."""
    omit: tuple[str, ...] = ()
    """Fields of the request that the endpoint does not accept."""
    # --- pace ---
    key_env: Annotated[str, Meta(pattern=r"^[A-Za-z_]\w*$")] | None = None
    """The environment variable that holds the endpoint's key."""
    rate: Annotated[float, Meta(gt=0)] | None = None
    """Requests per minute."""
    concurrency: Annotated[int, Meta(ge=1)] = 4
    timeout: Annotated[float, Meta(gt=0)] = 120.0
    """Seconds for one request, from the first byte to the last."""
    retries: Annotated[int, Meta(ge=0)] = 5
    backoff: Annotated[float, Meta(ge=0)] = 0.5
    """Seconds before the first retry; they double each time, up to a minute."""
    # --- money: per million tokens ---
    price_in: float | None = None
    price_out: float | None = None

    @property
    def endpoint(self) -> tuple[str, str]:
        """Base URL and model of an endpoint."""
        url, _, model = self.spec.removeprefix("openai:").partition("#")
        return url, model


def peer_from(name: str, spec: str, values: Mapping[str, Any]) -> PeerSettings:
    """Settings from names and values as TOML gives them; what is not named keeps its default."""
    try:
        peer = msgspec.convert({**values, "name": name, "spec": spec}, PeerSettings)
    except msgspec.ValidationError as error:
        raise InputError(f"peer {name!r}: {error}") from error
    _check_endpoint(peer, f"peer {peer.name!r}")
    return peer


def read_peers(path: Path) -> dict[str, dict[str, Any]]:
    """The tables ``[peers.NAME]`` of a TOML file, over its table ``[defaults]``.

    The paths of examples are relative to its folder.
    """
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read the peers of {path}: {error}") from error
    peers, shared = found.get("peers"), found.get("defaults", {})
    if not isinstance(peers, dict) or not peers or not all(isinstance(p, dict) for p in peers.values()):
        raise InputError(f"{path}: expected a table [peers.NAME] for every peer")
    if unknown := set(found) - {"peers", "defaults"}:
        raise InputError(f"{path}: got {sorted(unknown)}; expected [defaults] and [peers.NAME]")
    tables = {name: {**shared, **peer} for name, peer in peers.items()}
    for name, table in tables.items():
        if not isinstance(table.get("spec"), str):
            raise InputError(f"{path}: peer {name!r} has no spec; expected spec = '{_EXPECTED}'")
        if "examples" in table:
            table["examples"] = str(path.parent / str(table["examples"]))
    return tables


def _check_endpoint(peer: PeerSettings, where: str) -> None:
    url, model = peer.endpoint
    expected = f"expected {_EXPECTED}"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise InputError(f"{where}: got {peer.spec!r}: {error}; {expected}") from error
    if (
        not peer.spec.startswith("openai:")
        or parts.scheme not in ("http", "https")
        or not parts.hostname
        or not model
    ):
        raise InputError(f"{where}: got {peer.spec!r}; {expected}")
    if parts.username is not None or re.search(r"\bsk-\w{8}", peer.spec):
        raise InputError(
            f"{where}: the specification seems to hold a key, which would be recorded with every answer; "
            "put it into an environment variable and name that with key_env"
        )


Body = dict[str, Any]


class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a peer gave for one question: a text, or the reason why there is none."""

    text: str | None = None
    error: str | None = None
    model: str | None = None
    """As the endpoint names it, which may be more exact than what was requested."""
    finish: str | None = None
    """Why the text ends there: ``stop``, or ``length`` if max_tokens cut it."""
    tokens_in: int | None = None
    tokens_out: int | None = None
    seconds: float = 0.0
    attempts: int = 1
    down: bool = False
    """Whether the failure is the peer's, not the question's: unreachable, refused, unknown model."""


class Example(msgspec.Struct, frozen=True):
    """One solved question of a few-shot prompt; without a dataset it stands before every question."""

    prompt: Annotated[str, Meta(min_length=1)]
    answer: Annotated[str, Meta(min_length=1)]
    dataset: str | None = None


def request_writer(peer: PeerSettings) -> Callable[[TaskPrompt], Body]:
    """From a question to everything that the answer may depend on, as it is sent and recorded."""
    examples = read_examples(Path(peer.examples)) if peer.examples is not None else []
    sampling: Body = {"temperature": peer.temperature, "top_p": peer.top_p, "max_tokens": peer.max_tokens}
    sampling |= {"seed": peer.seed} | ({"stop": list(peer.stop)} if peer.stop else {}) | dict(peer.body)

    def request(task: TaskPrompt) -> Body:
        messages = [] if peer.system is None else [{"role": "system", "content": peer.system}]
        for example in examples:
            if example.dataset in (None, task.dataset):
                messages.append({"role": "user", "content": filled(example.prompt)})
                messages.append({"role": "assistant", "content": example.answer})
        messages.append({"role": "user", "content": filled(task.prompt)})
        body = {"model": peer.endpoint[1], "messages": messages} | sampling
        return {
            "peer": peer.spec,
            "body": {name: value for name, value in body.items() if name not in peer.omit},
        }

    def filled(prompt: str) -> str:
        return peer.template.replace("{prompt}", prompt)

    return request


def request_key(request: Body) -> str:
    """The SHA-256 of a request: the same peer, sampling and prompt have the same key.

    >>> request_key({"a": 1, "b": 2}) == request_key({"b": 2, "a": 1})
    True
    """
    text = json.dumps(request, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_examples(path: Path) -> list[Example]:
    """The solved questions of a few-shot file."""
    found = json_lines(path, Example, "an example with prompt and answer")
    return unique(path, found, lambda example: example)


class Endpoint:
    """Asks ``BASE_URL/chat/completions``."""

    def __init__(self, peer: PeerSettings) -> None:
        self._http = endpoint.JudgeEndpoint(
            peer.endpoint[0], key_env=peer.key_env, timeout=peer.timeout, who=f"peer {peer.name!r}"
        )

    def ask(self, request: Body) -> Reply:
        """The reply to a request; `TransientError` for what broke on the way, for 429 and for 5xx."""
        try:
            return read_completion(self._http.post(request["body"]))
        except RefusalError as error:
            return Reply(error=str(error), down=error.down)

    def close(self) -> None:
        """Cut the connections that are open."""
        self._http.close()


def read_completion(data: bytes) -> Reply:
    """The reply in a chat completion's JSON; whatever is not one is a failure, never an answer."""
    if len(data) > LARGEST_REPLY:
        return Reply(error=f"the reply is longer than {LARGEST_REPLY} bytes")
    try:
        found = json.loads(data)
        choice = found["choices"][0]
        text = choice["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return Reply(error=f"not a chat completion: {message_in(data)}")
    usage = found["usage"] if isinstance(found.get("usage"), dict) else {}
    about: dict[str, Any] = {
        "model": _text(found.get("model")),
        "finish": _text(choice.get("finish_reason")),
        "tokens_in": _count(usage.get("prompt_tokens")),
        "tokens_out": _count(usage.get("completion_tokens")),
    }
    if about["finish"] == "content_filter":
        return Reply(error="the endpoint's filter withheld the answer", **about)
    if not isinstance(text, str) or not text.strip():
        return Reply(error=f"an empty answer (finish reason {about['finish']})", **about)
    return Reply(text=clean_text(text), **about)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _text(value: Any) -> str | None:
    return clean_text(value) if isinstance(value, str) else None


_LONGEST_WAIT = 60.0
_LONGEST_RETRY_AFTER = 900.0


class Stopped(Exception):
    """The run ends; what was waiting is left unasked."""


class Pace:
    """Lets one request through per interval, for all threads of a peer together.

    ``stop`` wakes all that wait.
    """

    def __init__(self, per_minute: float | None, stop: threading.Event) -> None:
        self._interval = 0.0 if per_minute is None else 60.0 / per_minute
        self._stop, self._lock, self._next = stop, threading.Lock(), 0.0

    def wait(self) -> None:
        """Return when it is this request's turn."""
        with self._lock:
            turn = max(time.monotonic(), self._next)
            self._next = turn + self._interval
        self.sleep(turn - time.monotonic())

    def pause(self, seconds: float) -> None:
        """Begin no request for so long, as the endpoint demanded."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)

    def sleep(self, seconds: float) -> None:
        """Wait, but not beyond the end of the run."""
        if self._stop.wait(max(seconds, 0.0)) if seconds > 0 else self._stop.is_set():
            raise Stopped


def ask_with_retries(peer: Endpoint, request: Body, pace: Pace, retries: int, backoff: float) -> Reply:
    """Ask, and ask again after a failure that may pass, up to ``retries`` times.

    The wait is ``backoff`` seconds and doubles each time, with jitter; if the endpoint sends a time
    (Retry-After), it is that, for every thread of the peer.
    """
    attempt = 0
    while True:
        attempt += 1
        pace.wait()
        begun = time.monotonic()
        try:
            reply = peer.ask(request)
        except TransientError as error:
            pace.sleep(0)  # a request that the end of the run cut short has not failed
            too_long = error.retry_after is not None and error.retry_after > _LONGEST_RETRY_AFTER
            if attempt > retries or too_long:
                times = f"after {attempt} attempts" if attempt > 1 else "at the first attempt"
                reply = Reply(error=f"{error} ({times})", down=True)
            elif error.retry_after is not None:
                pace.pause(error.retry_after)
                continue
            else:
                wait = min(backoff * 2 ** (attempt - 1), _LONGEST_WAIT)
                pace.sleep(wait * random.uniform(0.5, 1.0))
                continue
        return replace(reply, seconds=round(time.monotonic() - begun, 3), attempts=attempt)
