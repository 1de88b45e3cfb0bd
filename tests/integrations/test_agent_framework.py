import pytest

pytest.importorskip("agent_framework", reason="pip install 'sigma-mem[agent-framework]'")

import asyncio
from types import SimpleNamespace

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    Message,
    ResponseStream,
)
from agent_framework.orchestrations import GroupChatBuilder

from integrations.contract import ANSWERS, RIGHT, AdapterContract, asked
from sigma_mem import SigmaMem
from sigma_mem.integrations.agent_framework import SigmaChatMiddleware, SigmaSpeaker


class Offline(ChatMiddlewareLayer, BaseChatClient):
    def __init__(self, peer):
        super().__init__()
        self.peer = peer

    def _inner_get_response(self, *, messages, stream, options, **kwargs):
        async def pieces():
            first, rest = (await whole()).text.split(" ", 1)
            for text in (first, " " + rest):
                yield ChatResponseUpdate(role="assistant", contents=[Content.from_text(text)])

        async def whole():
            if ANSWERS[self.peer] is None:
                raise ConnectionError("no route to the model")
            return ChatResponse(messages=[Message(role="assistant", contents=[ANSWERS[self.peer]])])

        return ResponseStream(pieces(), finalizer=ChatResponse.from_updates) if stream else whole()


class TestAgentFramework(AdapterContract):
    example = "agent_framework"

    def build(self, memory, peers):
        middleware = SigmaChatMiddleware(memory, {peer: Offline(peer) for peer in peers})
        return Agent(client=Offline("bad"), middleware=[middleware]), middleware.feedback

    def bare(self):
        return Agent(client=Offline("good"))

    async def ask(self, agent, question, ref):
        result = await agent.run(question, options={"metadata": {"sigma_ref": ref}})
        return result.text, result.additional_properties.get("sigma_ref")

    async def stream(self, agent, question, ref):
        pieces, refs = [], set()
        async for update in agent.run(question, stream=True):
            pieces += [update.text] if update.text else []
            refs.add(update.additional_properties["sigma_ref"])
        return pieces, refs.pop()

    def test_a_group_chat_comes_to_the_right_participant(self):
        with SigmaMem(["bad", "good"], seed=1) as mem:
            speaker, served = SigmaSpeaker(mem), []

            async def work():
                for number in range(60):
                    agents = [Agent(client=Offline(peer), name=peer) for peer in ("bad", "good")]
                    chat = GroupChatBuilder(participants=agents, selection_func=speaker, max_rounds=1).build()
                    await chat.run(asked(number))
                    served.append(speaker.choice.peer)
                    speaker.feedback(speaker.choice.ref, ANSWERS[served[-1]] == RIGHT)

            asyncio.run(work())
            assert served[-20:].count("good") >= 16

    def test_the_callers_name_of_a_round(self):
        with SigmaMem(["good"], seed=1) as mem:
            speaker = SigmaSpeaker(mem, ref=lambda state: f"round-{state.current_round}")
            said = [Message(role="user", contents=[asked(1)])]
            state = SimpleNamespace(current_round=3, participants={"good": ""}, conversation=said)
            assert asyncio.run(speaker(state)) == "good"
            assert mem.decision("round-3").peer == "good"
