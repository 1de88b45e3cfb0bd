import pytest

pytest.importorskip("agents", reason="pip install 'sigma-mem[openai-agents]'")

import asyncio
import itertools

from agents import Agent, ModelSettings, MultiProvider, RunConfig, Runner, function_tool
from agents.models.multi_provider import MultiProviderMap
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from integrations.contract import ANSWERS, RIGHT, AdapterContract, asked
from sigma_mem import SigmaMem
from sigma_mem.integrations.openai_agents import SigmaModel, SigmaProvider


def message(text):
    """An answer in two pieces."""
    said, first = assistant_message(""), text.split(" ", 1)[0]
    parts = [said.content[0].model_copy(update={"text": part}) for part in (first, text[len(first) :])]
    return said.model_copy(update={"content": parts})


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
