"""Strands: agents whose router learns which of two models to call."""

from strands import Agent
from strands.models import Model
from strands.models.routing import ModelRouter, RoutingCandidate

from sigma_mem import SigmaMem
from sigma_mem.integrations.strands import SigmaStrategy


class Offline(Model):  # for real BedrockModel(…), OpenAIModel(…)
    update_config = get_config = structured_output = lambda self, *args, **kwargs: None

    async def stream(self, *args, **kwargs):
        yield {"contentBlockDelta": {"delta": {"text": self.says}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


with SigmaMem(["careless", "careful"], path="memory.db", seed=0) as memory:  # or the URL of a service
    strategy, models, right = SigmaStrategy(memory), {name: Offline() for name in memory.peers}, []
    models["careless"].says, models["careful"].says = "41", "42"
    router = ModelRouter([RoutingCandidate(models[name], name) for name in models], strategy=strategy)
    for ref in (f"task-{number}" for number in range(60)):
        agent = Agent(router, callback_handler=None)
        right.append(str(agent(f"{ref}: 6 times 7?", invocation_state={"sigma_ref": ref})).strip() == "42")
        strategy.feedback(ref, right[-1])  # now, or much later, from anywhere
print(f"right: {sum(right)} of 60, {sum(right[-20:])} of the last 20")
