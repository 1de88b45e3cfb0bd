import pytest

pytest.importorskip("strands", reason="pip install 'sigma-mem[strands]'")

from strands import Agent
from strands.models import Model
from strands.models.routing import ModelRouter, RoutingCandidate

from integrations.contract import ANSWERS, AdapterContract
from sigma_mem.integrations.strands import SigmaStrategy


class Offline(Model):
    def __init__(self, peer):
        self.peer = peer

    def update_config(self, **config):
        pass

    def get_config(self):
        return {"model_id": self.peer}

    async def structured_output(self, *args, **kwargs):
        yield {}

    async def stream(self, messages, *args, **kwargs):
        if ANSWERS[self.peer] is None:
            raise ConnectionError("no route to the model")
        yield {"messageStart": {"role": "assistant"}}
        first, rest = ANSWERS[self.peer].split(" ", 1)
        for text in (first, " " + rest):
            yield {"contentBlockDelta": {"delta": {"text": text}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


class TestStrands(AdapterContract):
    """An agent of Strands takes one call at a time and keeps its messages: one for each call."""

    example = "strands"

    def build(self, memory, peers):
        strategy = SigmaStrategy(memory)
        candidates = [RoutingCandidate(Offline(peer), peer) for peer in peers]
        return ModelRouter(candidates, strategy=strategy), strategy.feedback

    def bare(self):
        return Offline("good")

    async def ask(self, agent, question, ref):
        result = await Agent(agent, callback_handler=None).invoke_async(
            question, invocation_state={"sigma_ref": ref}
        )
        return str(result).strip(), ref

    async def stream(self, agent, question, ref):
        state, pieces = {}, []
        async for event in Agent(agent, callback_handler=None).stream_async(question, invocation_state=state):
            pieces += [event["data"]] if "data" in event else []
        return pieces, state["sigma_pick"].ref
