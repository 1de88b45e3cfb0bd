"""The official client, the gateway, and a real model behind transformers' own OpenAI-compatible server."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from serve.gateway.conftest import starter
from serve.gateway.upstreams import cuts_the_stream, fails, says, says_no_json
from sigma_mem.center.errors import DownloadError
from sigma_mem.center.load import pull_default

CAPITAL = "What is the capital of France?"
ARITHMETIC = "What is 417 * 23?"
STARTS_WITHIN = 180.0  # seconds; five on an idle machine


def computes(body):
    """A peer that can multiply, and nothing else."""
    found = re.search(r"(\d+) \* (\d+)", body["messages"][-1]["content"])
    return str(int(found[1]) * int(found[2])) if found else "I only multiply."


@pytest.fixture(scope="module")
def smollm2_server(tmp_path_factory):
    """``transformers serve`` with SmolLM2-135M-Instruct; gives its address and the model's name there."""
    try:
        model = str(pull_default())
    except DownloadError as error:
        pytest.skip(f"SmolLM2 is not cached and cannot be fetched here: {error}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = tmp_path_factory.mktemp("transformers") / "log"
    command = [str(Path(sys.executable).with_name("transformers")), "serve", model]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu", "--default-seed", "0"]
    with log.open("wb") as out:
        server = subprocess.Popen(
            command, stdout=out, stderr=out, env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        )
    try:
        ends = time.monotonic() + STARTS_WITHIN
        while not _is_up(port):
            assert server.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < ends, log.read_text()[-2000:]
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1", model
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()


def _is_up(port):
    try:
        return httpx2.get(f"http://127.0.0.1:{port}/health").status_code == 200
    except httpx2.HTTPError:
        return False


@pytest.fixture(scope="module")
def gateway(smollm2_server):
    url, model = smollm2_server
    others = {
        "calculator": says(computes),
        "down": fails(),
        "busy": fails("429 Too Many Requests"),
        "cut": cuts_the_stream,
        "confused": says_no_json,
    }
    with starter() as begin:
        yield begin(
            others, upstreams=[{"name": "smollm2", "base_url": url, "model": model, "timeout": 120.0}]
        )


def create(gateway, question, **more):
    options = more.pop("options", {})
    return gateway.create(
        model=more.pop("model", "sigma-mem"),
        messages=[{"role": "user", "content": question}],
        max_tokens=8,
        temperature=0.0,
        extra_body={"sigma_mem": options},
        **more,
    )


def test_feedback_by_completion_id_moves_the_routing(gateway):
    right = {CAPITAL: "Paris", ARITHMETIC: "9591"}
    said = {}
    for question, expected in right.items():
        for peer in ("smollm2", "calculator"):
            answer = create(gateway, question, options={"among": [peer]})
            said[question, peer] = answer.choices[0].message.content
            score = float(expected in said[question, peer])
            gateway.client.post("/feedback", cast_to=object, body={"id": answer.id, "score": score})
    assert "Paris" in said[CAPITAL, "smollm2"]
    assert "Paris" not in said[CAPITAL, "calculator"]
    assert said[ARITHMETIC, "calculator"] == "9591"
    among = ["smollm2", "calculator"]
    served = {q: create(gateway, q, options={"among": among, "explore": False}).model for q in right}
    assert served == {CAPITAL: "smollm2", ARITHMETIC: "calculator"}


def test_a_stream_of_the_real_model_passes_through(gateway):
    chunks = list(create(gateway, CAPITAL, stream=True, options={"among": ["smollm2"]}))
    assert "Paris" in "".join(c.choices[0].delta.content or "" for c in chunks)
    assert len(chunks) > 5
    assert {c.model for c in chunks} == {"smollm2"}
    assert len({c.id for c in chunks}) == 1


def test_everyone_is_asked_and_a_vote_goes_on_with_the_two_that_answer(gateway):
    answer = create(gateway, CAPITAL, model="sigma-mem/vote")
    assert answer.model in ("smollm2", "calculator")
    assert set(answer.sigma_mem["failed"]) == {"down", "busy", "cut", "confused"}
    assert answer.usage.completion_tokens > 5


def test_tools_reach_the_real_model(gateway):
    tool = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}
    answer = create(gateway, CAPITAL, tools=[tool], options={"among": ["smollm2"]})
    assert answer.model == "smollm2"
    assert answer.choices[0].finish_reason in ("stop", "length", "tool_calls")
