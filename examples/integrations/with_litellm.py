"""LiteLLM: a router that learns which deployment of a group to call."""

import asyncio

from litellm import Router

from sigma_mem import SigmaMem
from sigma_mem.integrations.litellm import SigmaPlugin

answers = {"openai/careless": "41", "openai/careful": "42"}  # offline; for real without mock_response
group = [{"model": name, "api_key": "none", "mock_response": text} for name, text in answers.items()]


async def main():
    with SigmaMem(list(answers), path="memory.db", seed=0) as memory:  # or a service's URL
        plugin, right = SigmaPlugin(memory), []
        router = Router([{"model_name": "pool", "litellm_params": one} for one in group], plugins=[plugin])
        for ref in (f"task-{number}" for number in range(60)):
            asked = [{"role": "user", "content": f"{ref}: what is 6 times 7?"}]
            response = await router.acompletion("pool", asked, metadata={"sigma_ref": ref})
            right.append(response.choices[0].message.content == "42")
            plugin.feedback(ref, right[-1])  # now, or much later, from anywhere
    print(f"right: {sum(right)} of 60, {sum(right[-20:])} of the last 20")


asyncio.run(main())
