"""CrewAI: an agent whose model learns which of two models to call."""

from crewai import Agent, BaseLLM, Crew, Task

from sigma_mem import SigmaMem
from sigma_mem.integrations.chooser import Chooser, Pick


class SigmaLLM(BaseLLM):
    chooser: Chooser
    llms: dict[str, BaseLLM]
    pick: Pick | None = None

    def call(self, messages, *args, **kwargs):
        asked = messages if isinstance(messages, str) else messages[-1]["content"]
        pick = self.chooser.choose(asked, self.llms)
        answer, self.pick = self.chooser.call(
            pick, lambda peer: self.llms[peer].call(messages, *args, **kwargs)
        )
        return answer


class Offline(BaseLLM):  # for real LLM(model="openai/…")
    def call(self, messages, *args, **kwargs):
        return self.model


llms = {"careless": Offline(model="41"), "careful": Offline(model="42")}
with SigmaMem(list(llms), path="memory.db", seed=0) as memory:  # or the URL of a service
    model, right = SigmaLLM(model="sigma", chooser=Chooser(memory), llms=llms), []
    agent = Agent(role="calculator", goal="Calculate.", backstory="You calculate.", llm=model)
    for number in range(40):
        task = Task(description=f"Task {number}: what is 6 times 7?", expected_output="a number", agent=agent)
        right.append(Crew(agents=[agent], tasks=[task]).kickoff().raw == "42")
        model.chooser.feedback(model.pick.ref, right[-1])  # now, or much later, from anywhere
print(f"right: {sum(right)} of 40, {sum(right[-20:])} of the last 20")
