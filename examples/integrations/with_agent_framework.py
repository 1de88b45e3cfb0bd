"""Microsoft Agent Framework: an agent that learns which of two models to call."""

import asyncio

from agent_framework import Agent, BaseChatClient, ChatMiddlewareLayer, ChatResponse, Message

from sigma_mem import SigmaMem
from sigma_mem.integrations.agent_framework import SigmaChatMiddleware


class Offline(ChatMiddlewareLayer, BaseChatClient):  # for real OpenAIChatClient(…), AnthropicClient(…)
    async def _inner_get_response(self, **request):
        return ChatResponse(messages=[Message("assistant", [self.additional_properties["says"]])])


async def main():
    answers, right = {"careless": "41", "careful": "42"}, []
    with SigmaMem(list(answers), path="memory.db", seed=0) as memory:  # or a service's URL
        clients = {name: Offline(additional_properties={"says": text}) for name, text in answers.items()}
        middleware = SigmaChatMiddleware(memory, clients)
        agent = Agent(client=clients["careless"], middleware=[middleware])
        for number in range(60):
            result = await agent.run(f"Task {number}: what is 6 times 7?")
            right.append(result.text == "42")
            middleware.feedback(result.additional_properties["sigma_ref"], right[-1])  # now, or later
    print(f"right: {sum(right)} of 60, {sum(right[-20:])} of the last 20")


asyncio.run(main())
