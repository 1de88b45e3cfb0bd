"""What is sent to a peer, the key it is cached under, and what comes back."""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sigma_lab.collect.peers import PeerSettings
from sigma_lab.collect.task_prompts import TaskPrompt, json_lines, unique

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


class RequestWriter:
    """Writes the request of one peer for every question."""

    def __init__(self, peer: PeerSettings) -> None:
        self._peer = peer
        self._examples = read_examples(Path(peer.examples)) if peer.examples is not None else []

    def request(self, task: TaskPrompt) -> Body:
        """Everything that the answer may depend on, as it is sent and recorded."""
        return {"peer": self._peer.spec, "body": self._body(task)}

    def _body(self, task: TaskPrompt) -> Body:
        peer = self._peer
        body: Body = {"model": peer.endpoint[1], "messages": self._messages(task)}
        body |= {"temperature": peer.temperature, "top_p": peer.top_p, "max_tokens": peer.max_tokens}
        body |= {"seed": peer.seed} | ({"stop": list(peer.stop)} if peer.stop else {})
        return {name: value for name, value in (body | dict(peer.body)).items() if name not in peer.omit}

    def _messages(self, task: TaskPrompt) -> list[dict[str, str]]:
        peer = self._peer
        messages = [] if peer.system is None else [{"role": "system", "content": peer.system}]
        for example in self._examples:
            if example.dataset in (None, task.dataset):
                messages.append({"role": "user", "content": _fill(peer.template, example.prompt)})
                messages.append({"role": "assistant", "content": example.answer})
        return [*messages, {"role": "user", "content": _fill(peer.template, task.prompt)}]


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


def _fill(template: str, prompt: str) -> str:
    return template.replace("{prompt}", prompt)
