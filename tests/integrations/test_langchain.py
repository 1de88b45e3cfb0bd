import pytest

pytest.importorskip("langchain", reason="pip install 'sigma-mem[langchain]'")

import asyncio

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.graph import START, MessagesState, StateGraph

from integrations.contract import ANSWERS, RIGHT, AdapterContract, asked
from sigma_mem import SigmaMem
from sigma_mem.integrations.chooser import Chooser
from sigma_mem.integrations.langchain import SigmaMiddleware, sigma_node


class Offline(BaseChatModel):
    peer: str
    tool_calls: tuple = ()

    _llm_type = "offline"

    def bind_tools(self, tools, **kwargs):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        if ANSWERS[self.peer] is None:
            raise ConnectionError("no route to the model")
        calls = () if messages[-1].type == "tool" else self.tool_calls
        message = AIMessage("" if calls else ANSWERS[self.peer], tool_calls=list(calls))
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        text = self._generate(messages).generations[0].message.text
        first, rest = text.split(" ", 1)
        for piece in (first, " " + rest):
            yield ChatGenerationChunk(message=AIMessageChunk(piece))


def said(question, ref):
    return {"messages": [{"role": "user", "content": question}]}, {"configurable": {"sigma_ref": ref}}


class TestLangChain(AdapterContract):
    example = "langchain"

    def build(self, memory, peers):
        middleware = SigmaMiddleware(memory, {peer: Offline(peer=peer) for peer in peers})
        return create_agent(Offline(peer="bad"), middleware=[middleware]), middleware.feedback

    def bare(self):
        return create_agent(Offline(peer="good"))

    async def ask(self, agent, question, ref):
        last = (await agent.ainvoke(*said(question, ref)))["messages"][-1]
        return last.text, last.response_metadata.get("sigma_ref")

    async def stream(self, agent, question, ref):
        pieces = []
        async for message, _ in agent.astream(*said(question, ref), stream_mode="messages"):
            pieces += [message.text] if isinstance(message, AIMessageChunk) and message.text else []
        return pieces, ref

    def test_without_a_ref_the_answer_names_the_event(self):
        with SigmaMem(["good"], seed=1) as mem:
            agent, feedback = self.build(mem, ["good"])
            last = agent.invoke({"messages": [{"role": "user", "content": asked(1)}]})["messages"][-1]
            feedback(last.response_metadata["sigma_ref"], True)
            assert next(iter(mem.decisions())).labels == {"good": 1.0}

    def test_calls_of_tools_stay_on_their_model(self):
        def add(a: int, b: int) -> int:
            """Add."""
            return a + b

        call = {"name": "add", "args": {"a": 1, "b": 1}, "id": "call-1"}
        with SigmaMem(["good", "bad"], seed=1) as mem:
            models = {peer: Offline(peer=peer, tool_calls=(call,)) for peer in ("good", "bad")}
            agent = create_agent(models["bad"], tools=[add], middleware=[SigmaMiddleware(mem, models)])
            for number in range(6):
                messages = agent.invoke({"messages": [("user", asked(number))]})["messages"]
                assert [message.type for message in messages] == ["human", "ai", "tool", "ai"]
                assert len({m.response_metadata["sigma_ref"] for m in messages if m.type == "ai"}) == 1
            assert mem.events == 6 == len(list(mem.decisions()))

    def test_a_node_sends_a_graph_to_the_right_agent(self):
        class State(MessagesState):
            sigma_ref: str

        with SigmaMem(["bad", "good"], seed=1) as mem:
            graph = StateGraph(State)
            graph.add_node("choose", sigma_node(mem, ["bad", "good"]), destinations=("bad", "good"))
            for peer in ("bad", "good"):
                graph.add_node(peer, lambda state, peer=peer: {"messages": [("ai", ANSWERS[peer])]})
            graph.add_edge(START, "choose")
            agent, served = graph.compile(), []

            async def work():
                for number in range(60):
                    state = await agent.ainvoke({"messages": [("user", asked(number))]})
                    served.append(state["messages"][-1].text)
                    Chooser(mem).feedback(state["sigma_ref"], served[-1] == RIGHT)

            asyncio.run(work())
            assert served[-20:].count(RIGHT) >= 16
