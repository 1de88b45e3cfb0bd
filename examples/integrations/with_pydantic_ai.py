"""pydantic-ai: an agent that learns which of two models to call."""

from pydantic_ai import Agent
from pydantic_ai.capabilities import SelectModel
from pydantic_ai.models.test import TestModel  # offline; for real {"careful": "anthropic:…", …}

from sigma_mem import SigmaMem
from sigma_mem.integrations.pydantic_ai import SigmaModels

answers = {"careless": "41", "careful": "42"}
with SigmaMem(list(answers), path="memory.db", seed=0) as memory:  # or the URL of a service, for many workers
    models = SigmaModels(memory, {name: TestModel(custom_output_text=text) for name, text in answers.items()})
    agent, right = Agent(capabilities=[SelectModel(models)]), []
    for number in range(60):
        result = agent.run_sync(f"Task {number}: what is 6 times 7?")
        right.append(result.output == "42")
        models.feedback(result.run_id, right[-1])  # now, or much later, from anywhere
print(f"right: {sum(right)} of 60, {sum(right[-20:])} of the last 20")
