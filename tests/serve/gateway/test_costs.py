"""Prices of the configuration: what was spent is in the ledger, and `max_cost` holds; and topics."""

import openai
import pytest

from serve.gateway.conftest import ASK, ask, memory_of
from serve.gateway.upstreams import breaks_off, fails, says

CHEAP, DEAR = {"output_price": 1.0}, {"output_price": 1000.0}
CALL = 5 / 1e6  # what a cheap call really costs: five tokens
MODELS = ("sigma-mem", "sigma-mem/vote", "sigma-mem/ask")


@pytest.mark.parametrize("model", MODELS)
def test_what_a_call_cost_is_in_the_ledger(start, model):
    gateway = start({"ann": says("391")}, peers={"ann": CHEAP})
    answer = ask(gateway, model)
    assert answer.sigma_mem["cost"] == pytest.approx(CALL)
    assert memory_of(gateway).spent().total == pytest.approx(CALL)
    assert memory_of(gateway).decision(answer.id).served == "ann"


def test_a_stream_is_charged_at_its_end(start):
    gateway = start({"ann": says("391")}, peers={"ann": CHEAP})
    chunks = list(gateway.create(model="sigma-mem", messages=ASK, stream=True))
    assert memory_of(gateway).spent().total == pytest.approx(CALL)
    assert memory_of(gateway).decision(chunks[0].id).cost == pytest.approx(CALL)


def test_a_peer_that_failed_is_not_charged(start):
    gateway = start({"ann": breaks_off, "bob": says("391")}, peers={"ann": DEAR, "bob": CHEAP}, explore=False)
    assert ask(gateway).model == "bob"
    assert memory_of(gateway).spent().total == pytest.approx(CALL)


@pytest.mark.parametrize("model", MODELS)
def test_max_cost_holds(start, model):
    """Expected are 300 tokens of an answer: 0.3 of a dear peer, 0.0003 of a cheap one."""
    gateway = start({"dear": says("391"), "cheap": says("381")}, peers={"dear": DEAR, "cheap": CHEAP})
    for _ in range(3):
        assert ask(gateway, model, max_cost=0.01).model == "cheap"
    assert gateway.servers["dear"].requests == []
    with pytest.raises(openai.BadRequestError, match="max_cost"):
        ask(gateway, model, max_cost=0.0001)


def test_no_peer_beyond_max_cost_steps_in(start):
    gateway = start({"dear": says("391"), "cheap": fails()}, peers={"dear": DEAR, "cheap": CHEAP})
    for model in MODELS:
        with pytest.raises(openai.InternalServerError):
            ask(gateway, model, max_cost=0.01)
    assert gateway.servers["dear"].requests == []


def test_a_vote_asks_the_most_trusted_that_it_can_pay_for(start):
    names = ("ann", "bob", "cat")
    gateway = start({name: says("391") for name in names}, peers=dict.fromkeys(names, CHEAP))
    mem = memory_of(gateway)
    for _ in range(5):
        mem.feedback(mem.route(ASK), {"ann": False, "bob": True, "cat": True})
    answer = ask(gateway, "sigma-mem/vote", max_cost=0.0007)
    assert set(mem.decision(answer.id).canons) == {"bob", "cat"}
