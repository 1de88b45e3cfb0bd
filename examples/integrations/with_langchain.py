"""LangChain: an agent that learns which of two models to call."""

from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel  # offline; for real init_chat_model("openai:…")

from sigma_mem import SigmaMem
from sigma_mem.integrations.langchain import SigmaMiddleware

answers = {"careless": "41", "careful": "42"}
with SigmaMem(list(answers), path="memory.db", seed=0) as memory:  # or the URL of a service, for many workers
    models = {name: FakeListChatModel(responses=[text]) for name, text in answers.items()}
    middleware = SigmaMiddleware(memory, models)
    agent, right = create_agent(models["careless"], middleware=[middleware]), []
    for number in range(60):
        asked = {"messages": [("user", f"Task {number}: what is 6 times 7?")]}
        answer = agent.invoke(asked)["messages"][-1]
        right.append(answer.text == "42")
        middleware.feedback(answer.response_metadata["sigma_ref"], right[-1])  # now, or much later
print(f"right: {sum(right)} of 60, {sum(right[-20:])} of the last 20")
