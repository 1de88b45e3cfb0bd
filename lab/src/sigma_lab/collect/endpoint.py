"""An OpenAI-compatible endpoint as a peer."""

import json
from typing import Any

from sigma_lab.collect.peers import PeerSettings
from sigma_lab.collect.requests import Body, Reply
from sigma_lab.collect.task_prompts import clean_text
from sigma_mem.judges import endpoint
from sigma_mem.judges.endpoint import LARGEST_REPLY, RefusalError, message_in


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
