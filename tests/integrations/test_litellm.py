import os

import pytest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # its prices come with it, and need no network
pytest.importorskip("litellm", reason="pip install 'sigma-mem[litellm]'")

import asyncio
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import litellm
import yaml
from litellm import Router
from openai import APIConnectionError, OpenAI

from integrations.contract import ANSWERS, RIGHT, AdapterContract, asked
from sigma_mem import Client, SigmaMem
from sigma_mem.errors import SigmaMemError
from sigma_mem.integrations.litellm import SigmaPlugin

litellm.suppress_debug_info = True


def deployment(peer):
    answer = ANSWERS[peer] or ConnectionError("no route to the model")
    params = {"model": peer, "custom_llm_provider": "openai", "api_key": "none", "mock_response": answer}
    params |= {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}
    return {"model_name": "pool", "litellm_params": params}


class TestLiteLLM(AdapterContract):
    example = "litellm"

    def build(self, memory, peers):
        plugin = SigmaPlugin(memory)
        router = Router([deployment(peer) for peer in peers], plugins=[plugin], num_retries=2, retry_after=0)
        return router, plugin.feedback

    def bare(self):
        return Router([deployment("good")])

    async def ask(self, agent, question, ref):
        messages = [{"role": "user", "content": question}]
        response = await agent.acompletion("pool", messages, metadata={"sigma_ref": ref})
        return response.choices[0].message.content, ref

    async def stream(self, agent, question, ref):
        messages = [{"role": "user", "content": question}]
        stream = await agent.acompletion("pool", messages, stream=True, metadata={"sigma_ref": ref})
        pieces = [chunk.choices[0].delta.content async for chunk in stream]
        return [piece for piece in pieces if piece], ref

    def test_without_a_ref_the_response_names_the_event_and_costs_are_recorded(self):
        with SigmaMem(["good"], seed=1) as mem:
            router, feedback = self.build(mem, ["good"])
            litellm.callbacks = router.routing_plugins

            async def work():
                response = await router.acompletion("pool", [{"role": "user", "content": asked(1)}])
                for _ in range(500):  # LiteLLM logs after it answered
                    await asyncio.sleep(0.02)
                    if len(list(mem.decisions())) == 2:  # the second one gives the event its other name
                        break
                return response.id

            ref = asyncio.run(work())
            feedback(ref, True)
            assert mem.decision(ref).labels == {"good": 1.0}
            assert mem.spent().by_peer["good"] > 0.0


KEY = "sk-none-but-long-enough-for-the-proxy"
MODULE = """
from sigma_mem.integrations.litellm import SigmaPlugin

plugin = SigmaPlugin("{url}")
"""


@contextmanager
def running(folder, *command):
    """A program of this environment, and what it writes."""
    program = [Path(sys.executable).parent / command[0], *command[1:]]
    with open(folder / f"{command[0]}.log", "w+", encoding="utf-8") as log:
        started = subprocess.Popen(program, cwd=folder, stdout=log, stderr=log)
        try:
            yield Path(log.name)
        finally:
            started.terminate()
            started.wait(30)


@contextmanager
def proxy(folder):
    """A service, and LiteLLM's proxy with the plugin in ``router_settings``: a client of each."""
    deployments = [deployment(peer) for peer in ("bad", "good", "broken")]
    deployments[-1]["litellm_params"]["mock_response"] = "litellm.InternalServerError"
    config = {
        "model_list": deployments,
        "router_settings": {"plugins": ["my_module.plugin"], "num_retries": 2, "retry_after": 0},
        "litellm_settings": {"callbacks": ["my_module.plugin"]},
        "general_settings": {"master_key": KEY},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        port, mine = one.getsockname()[1], other.getsockname()[1]
    where = ["--host", "127.0.0.1", "--port"]
    (folder / "my_module.py").write_text(MODULE.format(url=f"http://127.0.0.1:{mine}"), encoding="utf-8")
    with (
        running(folder, "sigma-mem", "serve", *where, str(mine)),
        running(folder, "litellm", "--config", "config.yaml", *where, str(port)),
        OpenAI(base_url=f"http://127.0.0.1:{port}", api_key=KEY, max_retries=0) as client,
        Client(f"http://127.0.0.1:{mine}") as memory,
    ):
        yield client, memory


def when_up(call, *errors):
    """What a call gives, once it works."""
    until = time.monotonic() + 300.0
    while True:
        try:
            return call()
        except errors:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)


def test_the_proxy_learns_by_its_router_settings(tmp_path):
    with proxy(tmp_path) as (client, memory):

        def ask(number, **more):
            messages = [{"role": "user", "content": asked(number)}]
            return client.chat.completions.create(model="pool", messages=messages, **more)

        peers = ["broken", "bad", "good"]
        when_up(lambda: memory.namespace("default", peers), ConnectionError, SigmaMemError)
        named = {"metadata": {"sigma_ref": "run-0"}}
        first = when_up(lambda: ask(0, extra_body=named), APIConnectionError)
        answers = {"run-0": first} | {answer.id: answer for answer in map(ask, range(1, 20))}
        for ref, answer in answers.items():
            decision = when_up(lambda ref=ref: memory.decision(ref), SigmaMemError)  # it logs later
            text = answer.choices[0].message.content
            assert ANSWERS[decision.served or decision.peer] == text
            SigmaPlugin(memory).feedback(ref, text == RIGHT)
        assert memory.events == 20
        assert "broken" in {decision.peer for decision in memory.decisions()}  # it was chosen, and failed
        trust = memory.trust()
        assert trust["good"].labels + trust["bad"].labels == 20
        assert trust["broken"].labels == 0
        pieces = [chunk.choices[0].delta.content or "" for chunk in ask(20, stream=True) if chunk.choices]
        assert "".join(pieces) in ANSWERS.values()
        assert len(pieces) > 1
