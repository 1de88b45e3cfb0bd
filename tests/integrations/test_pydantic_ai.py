import pytest

pytest.importorskip("pydantic_ai", reason="pip install 'sigma-mem[pydantic-ai]'")
pytest.importorskip("pydantic_evals")

import asyncio
from dataclasses import dataclass

from pydantic_ai import Agent
from pydantic_ai.capabilities import SelectModel
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pydantic_evals.evaluators import Evaluator, EvaluatorContext
from pydantic_evals.online import OnlineEvalConfig, wait_for_evaluations
from pydantic_evals.online_capability import OnlineEvaluation

from integrations.contract import ANSWERS, RIGHT, AdapterContract, asked
from sigma_mem import SigmaMem
from sigma_mem.integrations.pydantic_ai import SigmaModels, SigmaSink
from sigma_mem.scores import Metric


def model(peer):
    def answer(messages, info):
        if ANSWERS[peer] is None:
            raise ConnectionError("no route to the model")
        return ModelResponse(parts=[TextPart(ANSWERS[peer])])

    async def pieces(messages, info):
        for word in answer(messages, info).parts[0].content.split(" ", 1):
            yield word if word == RIGHT.split(" ", 1)[0] else " " + word

    return FunctionModel(answer, stream_function=pieces)


class TestPydanticAI(AdapterContract):
    example = "pydantic_ai"

    def build(self, memory, peers):
        models = SigmaModels(memory, {peer: model(peer) for peer in peers})
        return Agent(capabilities=[SelectModel(models)]), models.feedback

    def bare(self):
        return Agent(model("good"))

    async def ask(self, agent, question, ref):
        result = await agent.run(question)
        return result.output, result.run_id

    async def stream(self, agent, question, ref):
        async with agent.run_stream(question) as run:
            return [piece async for piece in run.stream_text(delta=True, debounce_by=None)], run.run_id


@dataclass
class IsRight(Evaluator):
    def evaluate(self, ctx: EvaluatorContext) -> bool:
        return ctx.output == RIGHT


def test_online_evaluations_become_feedback_on_their_run():
    with SigmaMem(["bad", "good"], seed=1) as mem:
        sink = SigmaSink(mem, {"IsRight": Metric()})
        config = OnlineEvalConfig(default_sink=sink, emit_otel_events=False)
        models = SigmaModels(mem, {peer: model(peer) for peer in ("bad", "good")})
        evaluation = OnlineEvaluation(evaluators=[IsRight()], config=config)
        agent = Agent(capabilities=[SelectModel(models), evaluation])

        async def work():
            refs = {}
            for number in range(12):
                result = await agent.run(asked(number))
                refs[result.run_id] = result.output == RIGHT
            await wait_for_evaluations()
            return refs

        for ref, right in asyncio.run(work()).items():
            assert mem.decision(ref).labels == ({"good": 1.0} if right else {"bad": -1.0})
