import pytest

pytest.importorskip("agents", reason="pip install 'sigma-mem[openai-agents]'")

import asyncio
import itertools
import json

import httpx2
from agents import (
    Agent,
    ModelSettings,
    MultiProvider,
    OpenAIChatCompletionsModel,
    RunConfig,
    Runner,
    function_tool,
)
from agents.models.multi_provider import MultiProviderMap
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
from openai import AsyncOpenAI

from integrations.contract import ANSWERS, RIGHT, AdapterContract, asked
from sigma_mem import SigmaMem
from sigma_mem.integrations.openai_agents import SigmaModel, SigmaProvider


def message(text):
    """An answer in two pieces."""
    said, first = assistant_message(""), text.split(" ", 1)[0]
    parts = [said.content[0].model_copy(update={"text": part}) for part in (first, text[len(first) :])]
    return said.model_copy(update={"content": parts})


def completions():
    """A client whose server answers chat completions, offline."""
    said = {"id": "chatcmpl-1", "created": 1, "model": "good"}
    whole = {"index": 0, "message": {"role": "assistant", "content": RIGHT}, "finish_reason": "stop"}
    piece = {"index": 0, "delta": {"role": "assistant", "content": RIGHT}, "finish_reason": "stop"}

    def answer(request):
        if b'"stream":true' not in request.content:
            return httpx2.Response(200, json={**said, "object": "chat.completion", "choices": [whole]})
        chunk = json.dumps({**said, "object": "chat.completion.chunk", "choices": [piece]})
        headers = {"content-type": "text/event-stream"}
        return httpx2.Response(200, text=f"data: {chunk}\n\ndata: [DONE]\n\n", headers=headers)

    http = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    return AsyncOpenAI(base_url="http://127.0.0.1:1/v1", api_key="none", http_client=http)


QUIET = {"tracing_disabled": True}
IDS = itertools.count()


def model(peer, first=()):
    """First these outputs, then answers for ever."""

    def respond(call):
        scripted.enqueue(ModelStep.respond(respond))
        if ANSWERS[peer] is None:
            return ConnectionError("no route to the model")
        called = first and not any(item.get("type") == "function_call_output" for item in call.input)
        output = list(first) if called else [message(ANSWERS[peer])]
        return ModelStep(output=output, response_id=f"resp-{next(IDS)}")

    scripted = ScriptedModel([ModelStep.respond(respond)])
    return scripted


class TestOpenAIAgents(AdapterContract):
    example = "openai_agents"

    def build(self, memory, peers):
        pool = SigmaModel(memory, {peer: model(peer) for peer in peers})
        return Agent("assistant", model=pool), pool.feedback

    def bare(self):
        return Agent("assistant", model=model("good"))

    async def ask(self, agent, question, ref):
        settings = ModelSettings(metadata={"sigma_ref": ref})
        result = await Runner.run(agent, question, run_config=RunConfig(model_settings=settings, **QUIET))
        return result.final_output, ref

    async def stream(self, agent, question, ref):
        run, pieces = Runner.run_streamed(agent, question, run_config=RunConfig(**QUIET)), []
        async for event in run.stream_events():
            data = getattr(event, "data", None)
            pieces += [data.delta] if getattr(data, "type", "") == "response.output_text.delta" else []
        return pieces, run.last_response_id

    def test_a_name_with_the_prefix_sigma_is_a_pool(self):
        with SigmaMem(["good"], seed=1) as mem:
            pools = SigmaProvider({"default": SigmaModel(mem, {"good": model("good")})})
            prefixes = MultiProviderMap()
            prefixes.add_provider("sigma", pools)
            config = RunConfig(model_provider=MultiProvider(provider_map=prefixes), **QUIET)
            agent = Agent("assistant", model="sigma/default")
            result = asyncio.run(Runner.run(agent, asked(1), run_config=config))
            assert result.final_output == RIGHT
            pools.pools["default"].feedback(result.last_response_id, True)
            assert mem.decision(result.last_response_id).labels == {"good": 1.0}

    def test_a_model_without_ids_of_its_own_gets_those_of_the_memory(self):
        """Chat completions have none: None without a stream, the same one always in a stream."""
        without = [OpenAIChatCompletionsModel("good", completions()) for _ in range(2)]
        with SigmaMem(["good", "bad"], seed=1) as mem:
            pool = SigmaModel(mem, dict(zip(mem.peers, without, strict=True)))
            agent, config = Agent("assistant", model=pool), RunConfig(**QUIET)

            async def work():
                names = []
                for number in range(2):
                    names.append((await Runner.run(agent, asked(number), run_config=config)).last_response_id)
                    run = Runner.run_streamed(agent, asked(number), run_config=config)
                    assert [event async for event in run.stream_events()]
                    names.append(run.last_response_id)
                return names

            names = asyncio.run(work())
            assert [mem.decision(name).event for name in names] == names
            assert mem.events == len(set(names)) == 4

    def test_calls_of_tools_stay_on_their_model(self):
        @function_tool
        def add(a: int, b: int) -> int:
            """Add."""
            return a + b

        with SigmaMem(["good", "bad"], seed=1) as mem:
            for number in range(6):
                call = function_call("add", {"a": 1, "b": 1}, call_id=f"call-{number}")
                pool = SigmaModel(mem, {peer: model(peer, [call]) for peer in ("good", "bad")})
                agent = Agent("assistant", model=pool, tools=[add])
                result = asyncio.run(Runner.run(agent, asked(number), run_config=RunConfig(**QUIET)))
                assert len(result.raw_responses) == 2
            assert mem.events == 6
