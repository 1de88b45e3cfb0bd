"""An endpoint on loopback that misbehaves on demand."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LoopbackEndpoint:
    """Answers chat completions with "you said PROMPT", but does what ``script`` says for a prompt, in turn.

    It counts every request that it read, by prompt, and keeps their headers and bodies.
    """

    def __init__(self) -> None:
        self.reply: Callable[[dict[str, Any]], str] = lambda body: f"you said {prompt_of(body)}"
        self.script: dict[str, list[str]] = {}
        self.asked: Counter[str] = Counter()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.busy = self.busiest = 0
        self.delay = 0.0
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def spec(self) -> str:
        return f"openai:{self.url}#echo"

    def close(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def next_action(self, body: dict[str, Any], headers: dict[str, str]) -> str:
        prompt = prompt_of(body)
        with self._lock:
            self.asked[prompt] += 1
            self.bodies.append(body)
            self.headers.append(headers)
            self.times.append(time.monotonic())
            self.busy += 1
            self.busiest = max(self.busy, self.busiest)
            actions = self.script.get(prompt) or self.script.get("*") or ["ok"]
            return actions.pop(0) if len(actions) > 1 else actions[0]

    def done(self) -> None:
        with self._lock:
            self.busy -= 1

    def _handler(endpoint) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                action = endpoint.next_action(body, dict(self.headers))
                time.sleep(endpoint.delay)
                if action == "stall":
                    endpoint.released.wait(30)
                    action = "ok"
                endpoint.done()  # before its last byte, after which the next request may come
                with suppress(BrokenPipeError, ConnectionResetError):
                    self._act(action, completion(endpoint.reply(body)))

            def _act(self, action: str, reply: bytes) -> None:
                name, _, value = action.partition(" ")
                if name == "ok":
                    self._send(200, reply)
                elif name == "status":
                    status, _, headers = value.partition(" ")
                    self._send(int(status), b'{"error": {"message": "no, Bearer s3cret"}}', headers)
                elif name == "body":
                    self._send(200, value.encode())
                elif name == "cut":
                    self._send(200, reply[: len(reply) // 2], f"Content-Length: {len(reply)}")
                elif name == "drop":
                    self.connection.close()
                elif name == "drip":
                    self._send(200, b"", f"Content-Length: {len(reply)}")
                    for byte in reply:
                        self.wfile.write(bytes([byte]))
                        self.wfile.flush()
                        if endpoint.released.wait(0.05):
                            break

            def _send(self, status: int, body: bytes, headers: str = "") -> None:
                lines = [line for line in headers.split("|") if line]
                if not any(line.startswith("Content-Length") for line in lines):
                    lines.append(f"Content-Length: {len(body)}")
                self.send_response(status)
                for line in lines:
                    self.send_header(*line.split(": ", 1))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


def prompt_of(body: dict[str, Any]) -> str:
    prompt: str = body["messages"][-1]["content"]
    return prompt


def completion(text: str | None, **more: Any) -> bytes:
    """A chat completion as endpoints write them."""
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return json.dumps({"model": "echo-1", "choices": [choice], "usage": usage, **more}).encode()
