"""How far one call goes: our own frames, files and changes of file, by ``sys.setprofile``.

``python benchmarks/walk.py``: three peers, 300 earlier events, the default encoder, in memory and on SQLite.
A chat completion of the gateway over three peers comes last, against an upstream on loopback that answers at
once. Of what waits for others, each time that it goes on is a call.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType

import httpx2 as httpx

import sigma_mem
from sigma_mem import SigmaMem
from sigma_mem.serve.app import create_app
from sigma_mem.serve.config import ServerConfig, Upstream

OURS = str(Path(sigma_mem.__file__).parent)
PEERS = ["ann", "bob", "cat"]
ANSWERS = {"ann": "17 * 23 = 391", "bob": "391", "cat": "I think it is 381"}
LABELS = {"ann": True, "bob": True, "cat": False}


@contextmanager
def walked() -> Iterator[list[str]]:
    """The file of every call of our own functions in this thread, in order."""
    files: list[str] = []

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            files.append(frame.f_code.co_filename)

    sys.setprofile(profile)
    try:
        yield files
    finally:
        sys.setprofile(None)


def walk(call: Callable[[], object]) -> list[str]:
    """The files that a call goes through."""
    with walked() as files:
        call()
    return files


def walks(path: str | None) -> dict[str, list[str]]:
    """Of every verb, after 300 events."""
    with SigmaMem(PEERS, path) as mem:
        for i in range(300):
            mem.feedback(mem.decide(f"What is 17 * {i}?", ANSWERS).id, LABELS)
        question, made = "What is 17 * 23?", mem.decide("What is 17 * 24?", ANSWERS)
        return {
            "route": walk(lambda: mem.route(question)),
            "vote": walk(lambda: mem.vote(question, ANSWERS)),
            "decide": walk(lambda: mem.decide(question, ANSWERS)),
            "feedback": walk(lambda: mem.feedback(made.id, LABELS)),
        }


async def completion(path: str | None, port: int) -> list[str]:
    """Of a routed chat completion, after 300 others; the question is new each time."""
    peers = tuple(Upstream(name=name, base_url=f"http://127.0.0.1:{port}/v1") for name in PEERS)
    app = create_app(ServerConfig(upstreams=peers, path=path, log="off"))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http,
    ):
        for i in range(301):
            body = {"model": "sigma-mem", "messages": [{"role": "user", "content": f"What is 17 * {i}?"}]}
            with walked() as files:
                response = await http.post("/v1/chat/completions", json=body)
            response.raise_for_status()
    return files


def shown(verb: str, where: str, files: list[str]) -> str:
    """A line of the table: calls, files, and changes from one file to another."""
    changes = sum(a != b for a, b in pairwise(files))
    return f"{verb:10} {where:10} {len(files):4} calls {len(set(files)):3} files {changes:4} changes of file"


if __name__ == "__main__":
    upstream = [sys.executable, str(Path(__file__).with_name("instant_upstream.py"))]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(upstream, stdout=subprocess.PIPE, text=True) as answering,
    ):
        try:
            port = int(answering.stdout.readline()) if answering.stdout else 0
            for where, path in (("in memory", None), ("SQLite", f"{folder}/memory.db")):
                for verb, found in walks(path).items():
                    print(shown(verb, where, found))
            for where, path in (("in memory", None), ("SQLite", f"{folder}/gateway.db")):
                print(shown("completion", where, asyncio.run(completion(path, port))))
        finally:
            answering.terminate()
