"""``model="sigma-mem/ask"``: only as many peers as needed."""

from serve.gateway.conftest import ASK, ask, memory_of
from serve.gateway.upstreams import breaks_off, fails, says

PANEL = "sigma-mem/ask"


def calls(gateway):
    return sum(len(server.requests) for server in gateway.servers.values())


def test_it_stops_once_the_rest_would_hardly_change_the_answer(start):
    gateway = start({name: says("391") for name in ("ann", "bob", "cat", "dan", "eve")}, explore=False)
    answer = ask(gateway, PANEL)
    assert answer.choices[0].message.content == "391"
    assert answer.sigma_mem["attempts"] == calls(gateway) < 5
    assert answer.usage.total_tokens == 15 * calls(gateway)
    decision = memory_of(gateway).decision(answer.id)
    assert len(decision.canons) == calls(gateway)
    assert memory_of(gateway).events == 1
    assert answer.sigma_mem["decision"] == decision.id


def test_one_trusted_peer_is_enough_and_feedback_labels_all_that_said_it(start):
    gateway = start({"ann": says("391"), "bob": says("381"), "cat": says("391")}, explore=False)
    mem = memory_of(gateway)
    for _ in range(30):
        mem.feedback(mem.route(ASK), {"ann": True, "bob": False, "cat": False})
    answer = ask(gateway, PANEL)
    assert (answer.model, answer.sigma_mem["attempts"]) == ("ann", 1)
    gateway.client.post("/feedback", cast_to=object, body={"id": answer.id, "score": 1.0})
    assert mem.decision(answer.id).labels == {"ann": 1.0}


def test_peers_that_fail_are_passed_over(start):
    gateway = start({"ann": fails(), "bob": says("391"), "cat": breaks_off}, explore=False)
    answer = ask(gateway, PANEL)
    assert answer.model == "bob"
    assert set(answer.sigma_mem["failed"]) <= {"ann", "cat"}
    assert ask(gateway, PANEL, among=["bob"]).sigma_mem["attempts"] == 1


def test_it_streams_like_a_vote(start):
    gateway = start({"ann": says("391"), "bob": says("391")})
    chunks = list(gateway.create(model=PANEL, messages=ASK, stream=True))
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "391"
    (id,) = {c.id for c in chunks}
    assert memory_of(gateway).decision(id).peer == chunks[0].model
