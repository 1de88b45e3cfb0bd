"""Google ADK: an agent whose model learns which of two models to call."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from sigma_mem import SigmaMem
from sigma_mem.integrations.chooser import Chooser


class SigmaLlm(BaseLlm):
    chooser: Chooser
    llms: dict[str, BaseLlm]

    async def generate_content_async(self, request, stream=False):
        asked = [content for content in request.contents if content.role == "user"][-1]
        pick = self.chooser.choose("".join(part.text or "" for part in asked.parts), self.llms)
        calls = self.chooser.astream(
            pick, lambda peer: self.llms[peer].generate_content_async(request, stream)
        )
        async for response, now in calls:
            response.custom_metadata = {"sigma_ref": now.ref}  # the event of the agent has it, too
            yield response


class Offline(BaseLlm):  # for real Gemini(model=…), LiteLlm(model=…)
    async def generate_content_async(self, request, stream=False):
        yield LlmResponse(content=types.ModelContent(self.model))


async def main():
    llms, right = {"careless": Offline(model="41"), "careful": Offline(model="42")}, []
    with SigmaMem(list(llms), path="memory.db", seed=0) as memory:  # or a service's URL
        chooser = Chooser(memory)
        model = SigmaLlm(model="sigma", chooser=chooser, llms=llms)
        runner = InMemoryRunner(agent=LlmAgent(name="calculator", model=model), app_name="example")
        for number in range(60):
            said = types.UserContent(f"Task {number}: what is 6 times 7?")
            session = await runner.session_service.create_session(app_name="example", user_id="me")
            async for event in runner.run_async(user_id="me", session_id=session.id, new_message=said):
                right.append(event.content.parts[0].text == "42")
                chooser.feedback(event.custom_metadata["sigma_ref"], right[-1])  # now, or much later
    print(f"right: {sum(right)} of 60, {sum(right[-20:])} of the last 20")


asyncio.run(main())
