"""What a memory does, run for a memory in this process and for one in a service, sync and async."""

import asyncio
import inspect
import threading
from concurrent.futures import Future

import httpx2
import numpy as np
import pytest
from starlette.testclient import TestClient

from sigma_mem import Answer, AsyncClient, Client, Settings, SigmaMem
from sigma_mem.admin import export, restore
from sigma_mem.client import AsyncServedPanel
from sigma_mem.errors import ConflictError, InputError, UnknownDecisionError
from sigma_mem.ledger.costs import Budget
from sigma_mem.serve.app import create_app
from sigma_mem.serve.config import ServerConfig
from sigma_mem.store import PostgresStore

PEERS = ["ann", "bob", "cyd"]
QUESTION = "What is 17 * 23?"
ANSWERS = {"ann": "391", "bob": "391", "cyd": "381"}
RIGHT = {"ann": True, "bob": True, "cyd": False}


class Awaiting:
    """An async client, used from a test that does not await: its loop runs in another thread."""

    def __init__(self, client, loop):
        self._client, self._loop = client, loop

    def __getattr__(self, name):
        method = getattr(self._client, name)
        if not callable(method):
            return method
        if name in ("peers", "rank", "settings", "encoder", "events", "keep_text"):
            return self._run(method())

        def call(*args, **kwargs):
            result = self._run(method(*args, **kwargs))
            wrapped = isinstance(result, AsyncClient | AsyncServedPanel)
            return Awaiting(result, self._loop) if wrapped else result

        return call

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)


@pytest.fixture(scope="module")
def sync_service():
    app = create_app(ServerConfig(keep_text=True, log="off"))
    with TestClient(app, base_url="http://localhost") as http:
        yield Client("http://localhost", http=http)


@pytest.fixture(scope="module")
def async_service():
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    app = create_app(ServerConfig(keep_text=True, log="off"))
    started: Future[httpx2.AsyncClient] = Future()
    stopping = asyncio.Event()

    async def serve():  # one task enters and leaves: a task group of the service asks for that
        transport = httpx2.ASGITransport(app=app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http,
        ):
            started.set_result(http)
            await stopping.wait()

    served = asyncio.run_coroutine_threadsafe(serve(), loop)
    yield Awaiting(AsyncClient("http://localhost", http=started.result(60)), loop)
    loop.call_soon_threadsafe(stopping.set)
    served.result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture(scope="module")
def postgres_service(postgres_server):
    app = create_app(ServerConfig(path=postgres_server.url("contract"), keep_text=True, log="off"))
    with TestClient(app, base_url="http://localhost") as http:
        yield Client("http://localhost", http=http)


@pytest.fixture(scope="module")
def postgres_store(postgres_server):
    store = PostgresStore(postgres_server.url("contract_here"))
    yield store
    store.close()


_SERVICES = {
    "client": "sync_service",
    "async client": "async_service",
    "client, postgres": "postgres_service",
}


@pytest.fixture(params=["here", "here, postgres", *_SERVICES])
def make(request):
    """Make a memory: `make(peers, **options)`; each is empty."""
    count = iter(range(1000))
    if request.param == "here":
        yield lambda peers=PEERS, **options: SigmaMem(peers, **{"encoder": "hashed", **options})
    elif request.param == "here, postgres":
        store = request.getfixturevalue("postgres_store")
        yield lambda peers=PEERS, **options: SigmaMem(
            peers,
            store=store,
            namespace=f"{request.node.name}-{next(count)}",
            **{"encoder": "hashed", **options},
        )
    else:
        root = request.getfixturevalue(_SERVICES[request.param])
        test = "".join(c if c.isalnum() else "-" for c in request.node.name)[-50:].strip("-")
        yield lambda peers=PEERS, **options: root.namespace(
            f"{test}-{next(count)}", peers, **{"encoder": "hashed", **options}
        )


@pytest.fixture
def memory(make):
    return make()


def test_it_is_what_it_was_made_as(make):
    settings = Settings(gamma=0.9, trusted=("default",))
    memory = make(rank=5, encoder=None, settings=settings)
    assert (memory.peers, memory.rank, memory.events) == (tuple(PEERS), 5, 0)
    assert memory.settings == settings
    assert memory.encoder == {"name": "phi", "version": "1"}


def test_it_learns_whom_to_trust(memory):
    for _ in range(8):
        decision = memory.vote(QUESTION, {"ann": "381", "bob": "381", "cyd": "391"})
        assert memory.feedback(decision.id, {"ann": False, "bob": False, "cyd": True}).labels["cyd"] == 1.0
    assert memory.route(QUESTION).peer == "cyd"
    decision = memory.decide(QUESTION, {"ann": "1", "bob": "1", "cyd": "2"})
    assert (decision.peer, decision.answer) == ("cyd", "2")
    assert memory.events == 10


def test_a_decision_has_everything(memory):
    decision = memory.decide(QUESTION, ANSWERS, ref="trace-7")
    assert decision.event == decision.id
    assert decision.question == QUESTION
    assert decision.canons == {"ann": "391", "bob": "391", "cyd": "381"}
    assert decision.ref == "trace-7"
    assert set(decision.scores) == set(decision.probs) == set(decision.effective) == set(PEERS)
    kept = memory.decision(decision.id)
    for name in (
        "id",
        "event",
        "read",
        "peer",
        "answer",
        "probs",
        "confidence",
        "propensity",
        "time",
    ):
        assert getattr(kept, name) == getattr(decision, name), name
    assert np.array_equal(kept.phi, decision.phi)


def test_decisions_come_newest_first(memory):
    made = [memory.route(f"question {n}").id for n in range(5)]
    assert [decision.id for decision in memory.decisions(3)] == made[:1:-1]


def test_decisions_can_be_filtered_and_paged(memory):
    made = [memory.route(f"question {n}").id for n in range(4)]
    memory.vote("something else", ANSWERS)
    assert [d.id for d in memory.decisions(read="calibrated-route", last=2)] == made[:1:-1]
    assert [d.id for d in memory.decisions(before=made[2])] == made[1::-1]
    assert [d.answer for d in memory.decisions(text="ELSE")] == ["391"]
    assert [d.id for d in memory.decisions(until=1.0)] == []
    assert len(memory.decisions(since="2020-01-01")) == 5
    with pytest.raises(InputError):
        list(memory.decisions(since="last week"))


def test_looking_leaves_no_trace(memory):
    for n in range(6):
        memory.feedback(memory.route(QUESTION).id, scores={"ann": 1.0, "bob": n / 5})
    trust, overall = memory.trust(QUESTION), memory.trust()
    assert list(trust) == PEERS
    assert trust["ann"].prob > trust["bob"].prob
    assert trust["ann"].interval[0] < trust["ann"].prob < trust["ann"].interval[1]
    assert (overall.events, overall["ann"].prob > 0.5) == (6, True)
    history = memory.history("bob")
    assert [entry.label for entry in history] == pytest.approx([-1.0, -0.6, -0.2, 0.2, 0.6, 1.0])
    assert set(memory.history()) == set(PEERS)
    assert memory.events == 6
    with pytest.raises(InputError):
        memory.history("zoe")


def test_one_event_can_have_two_decisions(memory):
    first = memory.route(QUESTION)
    second = memory.vote(None, ANSWERS, after=first.id)
    assert second.event == first.id
    assert memory.events == 1
    memory.feedback(second.id, RIGHT)
    assert memory.decision(first.id).labels == {"ann": 1.0, "bob": 1.0, "cyd": -1.0}


def test_answers_can_be_none_or_have_a_canon(memory):
    same = {"ann": Answer("one", "1"), "bob": Answer("uno", "1"), "cyd": None}
    decision = memory.vote(QUESTION, same)
    assert decision.canons == {"ann": "1", "bob": "1", "cyd": None}
    assert decision.peer == "ann"
    by_length = memory.vote(
        QUESTION, {"ann": "aa", "bob": "bb", "cyd": "c"}, canon=lambda text: str(len(text))
    )
    assert by_length.canons == {"ann": "2", "bob": "2", "cyd": "1"}
    assert memory.vote(QUESTION, {"ann": None}).peer is None
    assert memory.vote(QUESTION, ANSWERS, min_confidence=1.0).peer is None


def test_a_choice_can_be_among_some(memory):
    assert memory.route(QUESTION, among=["bob", "cyd"]).peer in ("bob", "cyd")
    assert memory.decide(QUESTION, ANSWERS, among=["cyd"]).answer == "381"


def test_who_really_answered_can_be_said(memory):
    decision = memory.route(QUESTION)
    other = next(peer for peer in PEERS if peer != decision.peer)
    said = memory.served(decision, other)
    assert (said.served, said.propensity) == (other, 0.0)
    assert memory.decision(decision.id).served == other


def test_a_panel_asks_until_it_is_enough(memory):
    for _ in range(6):
        memory.feedback(memory.vote(QUESTION, ANSWERS).id, RIGHT)
    panel = memory.ask(QUESTION, ref="trace-9")
    assert (panel.next, panel.answers, panel.change) == (panel.decision.peer, {}, 1.0)
    asked = []
    while panel.next is not None:
        asked.append(panel.next)
        enough = panel.add(panel.next, ANSWERS[panel.next])
    assert enough
    assert list(panel.answers) == asked
    assert panel.decision.answer == "391"
    assert memory.decision("trace-9").id == panel.decision.id
    with pytest.raises(InputError, match="another answer"):
        panel.add(asked[0], "400")
    with pytest.raises(InputError):
        memory.ask(QUESTION, change=2.0)
    assert memory.ask(QUESTION, calls=1).add("ann", None) is True


def test_costs_are_limited_and_counted(memory):
    memory.set_price("ann", per_call=5.0)
    assert memory.set_price("bob", per_call=1.0, latency=2.0) == memory.spent().prices["bob"]
    memory.set_price("cyd", per_call=0.5, latency=9.0)
    for _ in range(8):
        memory.feedback(memory.route(QUESTION).id, {"ann": True, "bob": True, "cyd": False})
    assert memory.route(QUESTION, among=["bob", "cyd"], max_cost=0.6).peer == "cyd"
    assert memory.route(QUESTION, max_latency=3.0, max_cost=2.0).peer == "bob"
    decision = memory.route(QUESTION, budget=Budget(1000.0, events=100), value=10.0)
    said = memory.served(decision, "bob", cost=1.25, latency=0.5)
    assert (said.served, said.cost) == ("bob", 1.25)
    assert memory.spent().by_peer["bob"] >= 1.25
    with pytest.raises(InputError):
        memory.set_price("zoe", per_call=1.0)


def test_topics_are_told_apart(memory):
    for n in range(12):
        right = {"ann": n % 2 == 0, "bob": n % 2 == 1}
        memory.feedback(memory.route(f"case {n}", topic="law" if n % 2 == 0 else "cooking").id, right)
    assert memory.route("case", topic="law").peer == "ann"
    assert memory.trust("case", topic=["cooking"])["bob"].prob > 0.5
    assert set(memory.trust().topics) == {"law", "cooking"}
    assert memory.trust().topics["law"] == memory.trust(topic="law")


def test_votes_are_counted(memory):
    before = memory.trust().votes
    for n in range(9):
        right = {"ann": n % 3 > 0, "bob": n % 2 > 0, "cyd": n % 5 > 0}
        memory.feedback(memory.vote(QUESTION, ANSWERS).id, right)
    assert 1.0 <= before < memory.trust().votes <= 3.0


def test_phi_is_taken_in_place_of_a_question(make):
    memory = make(rank=3, encoder=None)
    phi = np.array([0.6, 0.8, 0.0])
    kept = memory.route(phi=phi).phi
    assert np.array_equal(kept, phi.astype(np.float32))
    assert np.array_equal(memory.route(phi=kept).phi, kept)
    with pytest.raises(InputError, match="unit vector"):
        memory.route(phi=[1.0, 1.0, 0.0])
    with pytest.raises(InputError):
        memory.route(phi=[1.0, 0.0])
    with pytest.raises(InputError, match="without an encoder"):
        memory.route("text")


def test_exploring_reports_its_propensity(memory):
    seen = [memory.route(QUESTION, explore=True) for _ in range(30)]
    assert len({decision.peer for decision in seen}) > 1
    assert all(0.0 < decision.propensity <= 1.0 for decision in seen)


def test_feedback_is_idempotent_and_amends_when_told(memory):
    decision = memory.route(QUESTION)
    first = memory.feedback(decision, {"ann": True}, id="retry-1")
    again = memory.feedback(decision, {"ann": True}, id="retry-1")
    assert (again.id, again.event, again.labels) == (first.id, first.event, first.labels)
    assert memory.decision(decision).labels == {"ann": 1.0}
    with pytest.raises(ConflictError, match="amend"):
        memory.feedback(decision, {"ann": False}, id="retry-1")
    with pytest.raises(ConflictError):
        memory.feedback(decision, {"ann": -0.5})
    memory.feedback(decision, {"ann": -0.5}, amend=True)
    memory.feedback(decision, {"bob": np.True_, "cyd": np.float64(0.25)})
    assert memory.decision(decision).labels == {"ann": -0.5, "bob": 1.0, "cyd": 0.25}


@pytest.mark.parametrize("labels", [{}, {"ann": 2.0}, {"ann": "yes"}, {"zoe": True}, {"ann": None}])
def test_bad_labels_change_nothing(memory, labels):
    decision = memory.route(QUESTION)
    with pytest.raises(InputError):
        memory.feedback(decision.id, labels)
    assert memory.decision(decision.id).labels == {}


def test_bad_arguments_are_input_errors(memory):
    for call in (
        lambda: memory.route(),
        lambda: memory.route(QUESTION, read="nonsense"),
        lambda: memory.route(QUESTION, among=["zoe"]),
        lambda: memory.vote(QUESTION, {"zoe": "1"}),
        lambda: memory.vote(QUESTION, ANSWERS, read="calibrated-route"),
        lambda: memory.decide(QUESTION, ANSWERS, min_confidence=2.0),
        lambda: memory.add_peer("ann"),
        lambda: memory.remove_peer("zoe"),
        lambda: memory.explain(memory.route(QUESTION).id, peer="zoe"),
    ):
        with pytest.raises(InputError):
            call()
    assert memory.events == 1  # the one that was explained


def test_unknown_decisions(memory):
    for call in (
        memory.decision,
        memory.explain,
        lambda id: memory.feedback(id, {"ann": True}),
    ):
        with pytest.raises(UnknownDecisionError):
            call("nope")


def test_a_source_can_be_revoked_and_heard_again(memory):
    decision = memory.route(QUESTION)
    memory.feedback(decision.id, RIGHT)
    (source,) = memory.sources()
    assert (source.name, source.lines, source.revoked) == ("default", 1, False)
    assert memory.revoke("default") == 1
    assert memory.decision(decision.id).labels == {}
    with pytest.raises(InputError, match="revoked"):
        memory.feedback(decision.id, {"ann": True})
    assert memory.revoke("default", undo=True) == 1
    assert memory.decision(decision.id).labels == {"ann": 1.0, "bob": 1.0, "cyd": -1.0}


def test_peers_come_and_go(memory):
    memory.add_peer("dan")
    memory.remove_peer("bob")
    assert memory.peers == ("ann", "cyd", "dan")
    with pytest.raises(InputError):
        memory.add_peer("bob")
    memory.add_peer("bob", returning=True)
    memory.rename_peer("cyd", "cy")
    memory.rename_peer("dan", "dana", keep=0.5)
    memory.rename_peer("ann", keep=0.2)
    assert memory.peers == ("ann", "cy", "dana", "bob")


def test_an_explanation_adds_up(memory):
    for n in range(7):
        memory.feedback(memory.route(f"What is {n} * 23?").id, {"ann": n % 3 > 0})
    decision = memory.route(QUESTION)
    why = memory.explain(decision.id, peer="ann", top=3)
    assert (why.decision, why.peer, why.others) == (decision.id, "ann", 4)
    assert why.score == pytest.approx(sum(term.share for term in why.contributions) + why.rest)
    assert "effective events" in str(why)
    assert why.basis.labels == 7
    assert 0.0 < why.basis.wrong < why.basis.right < 7.0
    assert 0.0 < why.basis.prior < 1.0


def test_a_peer_that_changes_is_named(memory):
    for n in range(100):
        memory.feedback(memory.route(f"question {n % 7}").id, {"ann": n < 50, "bob": True, "cyd": True})
    (drift,) = memory.drift()
    assert drift.peer == "ann"
    assert drift.was > 0.8 > 0.2 > drift.now
    assert memory.decision(drift.since).id == drift.since


def test_events_can_be_forgotten(memory):
    kept, gone = memory.route("keep this"), memory.route("a secret")
    memory.feedback(gone, {"ann": True})
    assert memory.keep_text
    assert memory.forget(text="SECRET") == 1
    assert memory.forget(before=1.0) == 0
    assert [decision.id for decision in memory.decisions()] == [kept.id]
    assert memory.events == 2
    with pytest.raises(InputError):
        memory.forget()
    assert memory.forget([kept]) == 1


def moved(memory, path):
    return export(memory, path) if isinstance(memory, SigmaMem) else memory.export(path)


def made_from(memory, file, namespace):
    if isinstance(memory, SigmaMem):
        return restore(file, namespace=namespace)
    return memory.restore(file, namespace=namespace)


def test_a_memory_can_be_moved(memory, tmp_path):
    decision = memory.route(QUESTION)
    memory.feedback(decision, RIGHT)
    for name in ("moved.jsonl.gz", "moved.jsonl"):
        assert moved(memory, tmp_path / name) == 3
    for n, name in enumerate(("moved.jsonl.gz", "moved.jsonl")):
        other = made_from(memory, tmp_path / name, f"moved-{n}-{decision.id}")
        assert other.decision(decision.id).labels == memory.decision(decision.id).labels
        assert other.trust(QUESTION).to_dict() == memory.trust(QUESTION).to_dict()
    whole = (tmp_path / "moved.jsonl").read_text()
    (tmp_path / "cut.jsonl").write_text(whole[: whole.rindex("\n", 0, -1) + 1])
    with pytest.raises(InputError):
        made_from(memory, tmp_path / "cut.jsonl", "cut")


def test_namespaces_do_not_see_each_other(make):
    one, other = make(), make(["ann"])
    decision = one.route(QUESTION)
    with pytest.raises(UnknownDecisionError):
        other.feedback(decision.id, {"ann": True})
    assert (one.events, other.events) == (1, 0)


def test_the_service_computes_what_a_memory_here_computes(make):
    """Bit for bit: the same calls give the same numbers."""
    memory, here = make(), SigmaMem(PEERS, encoder="hashed")
    for n in range(30):
        answers = {"ann": str(n % 4), "bob": str(n % 3), "cyd": "1"}
        made = [m.decide(f"{n % 5} apples", answers) for m in (memory, here)]
        for name in (
            "read",
            "peer",
            "answer",
            "scores",
            "probs",
            "effective",
            "confidence",
            "canons",
            "tick",
        ):
            assert getattr(made[0], name) == getattr(made[1], name), name
        for m, decision in zip((memory, here), made, strict=True):
            m.feedback(decision.id, {"ann": n % 2 == 0, "cyd": (n % 7) / 7.0})


def test_peers_change_and_events_are_forgotten(memory):
    made = [memory.vote(QUESTION, {"ann": "381", "bob": "381", "cyd": "391"}) for _ in range(4)]
    for decision in made:
        memory.feedback(decision.id, {"ann": False, "cyd": True})
    before = memory.trust(QUESTION)
    memory.rename_peer("cyd", keep=0.5)
    assert memory.trust(QUESTION)["cyd"].effective == pytest.approx(0.5 * before["cyd"].effective)
    memory.rename_peer("ann", "anna")
    memory.rename_peer("bob", "rob", keep=0.0)
    memory.remove_peer("rob")
    with pytest.raises(InputError, match="returning=True"):
        memory.add_peer("rob")
    memory.add_peer("rob", returning=True)
    assert memory.peers == ("anna", "cyd", "rob")
    assert memory.forget(made[0]) == 1
    assert memory.forget([made[0].id, made[1].id]) == 1
    assert memory.forget(before=made[0].time) == 0
    assert memory.forget(text="17") == 2
    assert (memory.events, len(memory.decisions(10))) == (4, 0)
    with pytest.raises(UnknownDecisionError, match="forgotten"):
        memory.feedback(made[0].id, {"anna": True})
    assert memory.keep_text is True
    assert list(memory.history(lines=5)) == ["anna", "cyd", "rob"]


# What needs the process that holds the memory.
NOT_OVER_HTTP = {"state", "reads", "encode"}


def parameters(method):
    found = inspect.signature(method).parameters.values()
    return {each.name: (each.kind, each.default) for each in found}


def test_a_service_names_the_source_itself(sync_service):
    memory = sync_service.namespace("sources", PEERS, encoder="hashed")
    decision = memory.route(QUESTION)
    with pytest.raises(InputError, match="got source=; a service sets it itself"):
        memory.feedback(decision, RIGHT, source="ci")
    assert memory.feedback(decision, RIGHT, wait=True).source == "default"


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_clients_have_the_methods_of_a_memory(kind):
    public = {name for name in dir(SigmaMem) if not name.startswith("_")}
    assert public - NOT_OVER_HTTP <= set(dir(kind))
    for name in public - NOT_OVER_HTTP:
        theirs = getattr(SigmaMem, name)
        if callable(theirs) and name not in ("namespace", "close", "restore"):
            mine, expected = parameters(getattr(kind, name)), parameters(theirs)
            assert mine == expected, name
