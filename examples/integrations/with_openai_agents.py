"""OpenAI Agents: an agent that learns which of two models to call."""

from agents import Agent, ModelSettings, RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message  # offline; for real OpenAIResponsesModel(…)

from sigma_mem import SigmaMem
from sigma_mem.integrations.openai_agents import SigmaModel

answers = {"careless": "41", "careful": "42"}
with SigmaMem(list(answers), path="memory.db", seed=0) as memory:  # or the URL of a service, for many workers
    models = {name: ScriptedModel([[assistant_message(text)]] * 60) for name, text in answers.items()}
    pool = SigmaModel(memory, models)
    agent, right = Agent("calculator", model=pool), []
    for number in range(60):
        named = ModelSettings(metadata={"sigma_ref": f"task-{number}"})  # or by result.last_response_id
        config = RunConfig(model_settings=named, tracing_disabled=True)
        result = Runner.run_sync(agent, f"Task {number}: what is 6 times 7?", run_config=config)
        right.append(result.final_output == "42")
        pool.feedback(f"task-{number}", right[-1])  # now, or much later, from anywhere
print(f"right: {sum(right)} of 60, {sum(right[-20:])} of the last 20")
