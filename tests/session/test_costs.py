"""Prices, limits, budgets and what was spent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem import Settings, SigmaMem
from sigma_mem.errors import ConflictError, InputError
from sigma_mem.ledger.costs import Budget, Price
from sigma_mem.ledger.snapshot import pack_fold

PEERS = ["small", "large"]
X, Y = [1.0, 0.0], [0.0, 1.0]
DAY = 86_400.0


def memory(path=None, *, peers=PEERS, clock=None, **prices):
    mem = SigmaMem(peers, path, rank=2, seed=0, clock=clock or (lambda: 10.0))
    for peer, price in prices.items():
        mem.set_price(peer, per_call=price)
    return mem


def teach(mem, right, times=30):
    """`right` is how often in ten each peer is right at X."""
    for i in range(times):
        mem.feedback(mem.route(phi=X), {peer: i % 10 < n for peer, n in right.items()})


def live(mem):
    with mem.journal as fold:
        return pack_fold(fold)


def test_prices_are_kept_and_can_change(tmp_path):
    with memory(tmp_path / "m.db") as mem:
        assert mem.spent().prices == {}
        mem.set_price("small", per_call=0.5, latency=2.0)
        mem.set_price("small", per_call=0.25)
        mem.set_price("large", per_input_token=1e-3, per_output_token=2e-3, output_tokens=100)
        lines = mem.journal.replayed().seq
        mem.set_price("small", per_call=0.25)
        assert mem.journal.replayed().seq == lines  # the same again is no line
        assert mem.route("x" * 400, phi=X, among=["large"]).cost == pytest.approx(100 * 1e-3 + 0.2)
    with SigmaMem(path=tmp_path / "m.db") as mem:
        assert mem.spent().prices["small"] == Price(per_call=0.25)
        assert list(mem.spent().prices) == PEERS


def test_a_wrong_price_is_refused():
    mem = memory()
    for wrong in (-1.0, float("nan"), float("inf"), True, "1"):
        with pytest.raises(InputError, match="per_call is"):
            mem.set_price("small", per_call=wrong)
    with pytest.raises(InputError, match="peer is 'nobody'"):
        mem.set_price("nobody", per_call=1.0)


def test_max_cost_and_max_latency_leave_peers_out():
    mem = memory(small=1.0, large=10.0)
    mem.set_price("large", per_call=10.0, latency=3.0)
    teach(mem, {"small": 5, "large": 10})
    assert mem.route(phi=X).peer == "large"
    assert mem.route(phi=X, max_cost=2.0).peer == mem.route(phi=X, max_latency=1.0).peer == "small"
    assert mem.route(phi=X, max_cost=2.0).details["among"] == ["small"]
    with pytest.raises(InputError, match=r"max_cost is 0\.5; a call to the cheapest candidate, 'small'"):
        mem.route(phi=X, max_cost=0.5)
    with pytest.raises(InputError, match="max_latency is 1; the fastest candidate, 'large', takes 3"):
        mem.route(phi=X, max_latency=1.0, among=["large"])


def test_value_trades_quality_against_cost():
    mem = memory(small=1.0, large=10.0)
    teach(mem, {"small": 5, "large": 10})
    probs = mem.route(phi=X).probs
    worth = 9.0 / (probs["large"] - probs["small"])  # a right answer must be worth that for the dearer peer
    assert mem.route(phi=X, value=0.9 * worth).peer == "small"
    assert mem.route(phi=X, value=1.1 * worth).peer == "large"


def test_min_prob_takes_the_cheapest_that_is_good_enough():
    mem = memory(peers=["small", "middle", "large"], small=1.0, middle=2.0, large=10.0)
    teach(mem, {"small": 3, "middle": 8, "large": 10})
    assert mem.route(phi=X, min_prob=0.2).peer == "small"
    d = mem.route(phi=X, min_prob=0.7)
    assert d.peer == "middle"
    assert "fell_back" not in d.details["limits"]
    d = mem.route(phi=X, min_prob=0.999)
    assert d.peer == "large"
    assert d.details["limits"]["fell_back"] == "no candidate has p ≥ 0.999: the best one"


@pytest.mark.parametrize(
    "wrong",
    [
        {"value": 0.0},
        {"min_prob": 1.5},
        {"max_cost": -1.0},
        {"max_latency": -1.0},
        {"budget": 7},
        {"value": "1"},
    ],
)
def test_wrong_limits_are_refused(wrong):
    mem = memory()
    with pytest.raises(InputError, match=f"{next(iter(wrong))} is"):
        mem.route(phi=X, **wrong)
    assert mem.events == 0


@pytest.mark.parametrize("wrong", [{}, {"events": 0}, {"events": 5, "seconds": 5.0}, {"seconds": -1.0}])
def test_a_budget_has_one_horizon(wrong):
    with pytest.raises(InputError, match="expected one of them, positive"):
        Budget(1.0, **wrong)
    with pytest.raises(InputError, match="amount is"):
        Budget(0.0, events=5)


def test_the_read_must_be_one_of_probabilities():
    with pytest.raises(InputError, match="expected 'calibrated-route' if costs are weighed"):
        memory().route(phi=X, read="m-route", value=1.0)


def test_spending_is_charged_to_who_was_called():
    now = [0.0]
    mem = memory(clock=lambda: now[0], small=1.0, large=10.0)
    first = mem.route(phi=X)
    assert first.cost == 1.0
    now[0] = DAY
    mem.vote(None, {"small": "4", "large": "5"}, phi=X)  # both were called
    assert mem.spent().by_day == {"1970-01-01": {"small": 1.0}, "1970-01-02": {"small": 1.0, "large": 10.0}}
    assert mem.served(first, "large").cost == 10.0  # small was not called after all
    assert mem.spent().by_peer == {"small": 1.0, "large": 20.0}
    assert mem.served(first, "large", cost=8.5).cost == 8.5
    assert mem.spent().total == 19.5
    assert mem.spent(since=DAY).total == 11.0
    assert mem.spent(until=DAY - 1).by_peer == {"small": 0.0, "large": 8.5}
    for wrong in (-1.0, float("nan"), "1"):
        with pytest.raises(InputError, match="cost is"):
            mem.served(first, cost=wrong)


def test_a_vote_after_a_route_charges_nobody_twice():
    mem = memory(small=1.0, large=10.0)
    d = mem.route(phi=X)
    mem.vote(None, {"small": "4", "large": "5"}, after=d)
    assert mem.spent().total == 11.0


def test_every_answer_of_a_vote_has_its_real_cost():
    mem = memory(small=1.0, large=10.0)
    d = mem.vote(None, {"small": "4", "large": "5"}, phi=X)
    mem.served(d, "large", cost=7.0)
    assert mem.served(d, "small", cost=2.0).cost == 9.0
    assert mem.spent().by_peer == {"small": 2.0, "large": 7.0}


def test_costs_without_prices_are_charged_as_reported():
    mem = memory()
    d = mem.route(phi=X)
    assert d.cost is None
    mem.served(d, cost=0.25)
    assert mem.spent().by_peer == {"small": 0.25}


def test_expected_costs_follow_real_ones():
    mem = memory(small=1.0, large=10.0)
    for i in range(60):
        d = mem.route(phi=X if i % 2 else Y, among=["small"])
        mem.served(d, cost=3.0 if i % 2 else 1.0)
    here, there = mem.route(phi=X), mem.route(phi=Y)
    assert here.cost == pytest.approx(3.0, abs=0.4)
    assert there.cost == pytest.approx(1.0, abs=0.3)
    large = mem.route(phi=X, among=["large"]).cost
    assert large > 1.3 * mem.route(phi=Y, among=["large"]).cost  # what is long for one is long for all


def test_a_corrected_cost_is_as_if_it_had_been_the_first():
    told, corrected = memory(small=1.0), memory(small=1.0)
    for mem, costs in ((told, [2.0]), (corrected, [5.0, 2.0])):
        d = mem.route(phi=X)
        for cost in costs:
            mem.served(d, cost=cost)
    assert told.spent() == corrected.spent()
    assert corrected.route(phi=X).cost == pytest.approx(told.route(phi=X).cost)


def play(mem, events, budget, right, rng, explore=True):
    spent = []
    for _ in range(events):
        d = mem.route(phi=X, explore=explore, budget=budget)
        mem.served(d, cost=mem.spent().prices[d.peer].per_call)
        mem.feedback(d, {d.peer: bool(rng.random() < right[d.peer])})
        spent.append(d.cost)
    return spent


@pytest.mark.parametrize("explore", [True, False])
def test_a_budget_is_spent_and_not_exceeded(explore):
    mem = memory(small=1.0, large=10.0)
    teach(mem, {"small": 5, "large": 9})
    before = mem.spent().total
    spent = play(
        mem, 200, Budget(800.0, events=200), {"small": 0.5, "large": 0.9}, np.random.default_rng(0), explore
    )
    assert 700.0 < mem.spent().total - before <= 810.0
    assert 200.0 < sum(spent[:100]) < 700.0  # paced, not spent at once
    d = mem.route(phi=X, budget=Budget(800.0, events=200))  # the next period
    assert d.details["limits"]["left"] == 800.0


def test_a_budget_by_time_paces_too():
    now = [0.0]
    mem = memory(clock=lambda: now[0], small=1.0, large=10.0)
    teach(mem, {"small": 5, "large": 9})
    before = mem.spent().total
    rng = np.random.default_rng(0)
    for step in range(200):
        now[0] = 5.0 * step
        play(mem, 1, Budget(800.0, seconds=1000.0), {"small": 0.5, "large": 0.9}, rng)
    assert 600.0 < mem.spent().total - before <= 810.0
    now[0] = 1000.0
    assert mem.route(phi=X, budget=Budget(800.0, seconds=1000.0)).details["limits"]["left"] == 800.0


def test_an_empty_budget_takes_the_cheapest():
    mem = memory(small=1.0, large=10.0)
    teach(mem, {"small": 0, "large": 10})
    d = [mem.route(phi=X, budget=Budget(1.5, events=100)).peer for _ in range(5)]
    assert d == ["small"] * 5


calls = st.lists(
    st.tuples(
        st.sampled_from(["price", "route", "budget", "vote", "served", "feedback", "join"]),
        st.integers(0, 2),
        st.sampled_from([0.25, 1.0, 3.0]),
    ),
    max_size=25,
)


@given(calls)
def test_replay_and_restart_equal_live_while_prices_change(made):
    mem = memory(small=1.0, large=10.0)
    decided = [mem.route(phi=X)]
    for call, who, amount in made:
        peer = mem.peers[who % len(mem.peers)]
        if call == "price":
            mem.set_price(peer, per_call=amount)
        elif call == "route":
            decided.append(mem.route(phi=Y, explore=True, value=5.0 * amount))
        elif call == "budget":
            decided.append(mem.route(phi=X, explore=True, budget=Budget(20.0 * amount, events=6)))
        elif call == "vote":
            decided.append(mem.vote(None, {"small": "1", "large": "2"}, after=decided[who % len(decided)]))
        elif call == "served":
            mem.served(decided[who % len(decided)], PEERS[who % 2], cost=amount)
        elif call == "feedback":
            mem.feedback(decided[who % len(decided)], {PEERS[who % 2]: amount > 0.5}, amend=True)
        elif "late" not in mem.peers:
            mem.add_peer("late")
    assert live(mem) == pack_fold(mem.journal.replayed())
    spent = mem.spent()
    mem.journal.snapshot()
    again = SigmaMem(store=mem.store)
    assert again.spent() == spent
    assert again.spent().prices == mem.spent().prices
    assert spent.total == pytest.approx(sum(spent.by_peer.values()))


@given(st.lists(st.floats(0.01, 10.0), min_size=2, max_size=2), st.floats(0.01, 12.0), st.booleans())
def test_no_call_is_expected_to_cost_more_than_max_cost(prices, most, explore):
    mem = memory(small=prices[0], large=prices[1])
    if most < min(prices):
        with pytest.raises(InputError, match="max_cost"):
            mem.route(phi=X, max_cost=most, explore=explore)
    else:
        for limits in ({}, {"value": 3.0}, {"min_prob": 0.9}, {"budget": Budget(100.0, events=10)}):
            assert mem.route(phi=X, max_cost=most, explore=explore, **limits).cost <= most


# --- costs that others report ------------------------------------------------------------


def reported(trusted: tuple[str, ...] = ("default",)) -> tuple[SigmaMem, list[str]]:
    """A good and a bad peer at one price, and what 60 calls to each really cost."""
    mem = SigmaMem(["good", "bad"], rank=1, seed=0, settings=Settings(trusted=trusted))
    for peer in mem.peers:
        mem.set_price(peer, per_call=0.01)
    ids = []
    for i in range(120):
        d = mem.route(phi=[1.0])
        ids.append(d.id)
        mem.served(d, "good" if i % 2 else "bad", cost=0.01)
        mem.feedback(d, {"good": True, "bad": False}, source=trusted[0])
    return mem, ids


@pytest.mark.parametrize("lie", [1e9, 1e100, 0.0])
@pytest.mark.parametrize("source", [None, "mallory"])
def test_one_reported_cost_moves_the_expected_one_a_little(source: str | None, lie: float) -> None:
    mem, _ = reported()
    before = mem.route(phi=[1.0], value=1.0).cost
    mem.served(mem.route(phi=[1.0]), "good", cost=lie, source=source)
    after = mem.route(phi=[1.0], value=1.0, max_cost=0.02)
    assert after.peer == "good"
    assert after.cost == pytest.approx(before, rel=0.2)


@pytest.mark.parametrize("trusted", [("default",), ("ci",)])
def test_costs_of_a_revoked_source_are_as_if_it_had_never_spoken(trusted: tuple[str, ...]) -> None:
    mem, _ = reported(trusted)
    others = [mem.route(phi=[1.0]).id for _ in range(50)]
    spent = mem.spent()
    for id in others:
        said = mem.served(id, "bad", cost=5.0, source="mallory")
        assert said.served == "bad"
        assert (
            said.cost <= 0.1 if trusted == ("default",) else said.cost < 0.02
        )  # an unknown name weighs 0.02
    assert mem.revoke("mallory") == 50
    assert mem.spent() == spent
    assert {mem.decision(id).served for id in others} == {None}
    assert mem.route(phi=[1.0], value=1.0).peer == "good"
    with pytest.raises(InputError, match="'mallory' was revoked"):
        mem.served(others[0], "bad", source="mallory")
    assert mem.revoke("mallory", undo=True) == 50
    assert mem.decision(others[0]).served == "bad"
    mem.revoke("mallory")
    with mem.journal as fold:
        again = mem.journal.replayed()
        assert again.costs.pack()[0] == fold.costs.pack()[0]
        for name, array in fold.costs.pack()[1].items():
            np.testing.assert_allclose(array, again.costs.pack()[1][name], atol=1e-12, err_msg=name)


def test_a_source_that_is_not_trusted_cannot_replace_what_a_trusted_one_said() -> None:
    mem, ids = reported()
    spent = mem.spent()
    for peer, cost in (("good", 5.0), ("bad", None)):
        with pytest.raises(ConflictError, match="a trusted source reported the peer that answered"):
            mem.served(ids[1], peer, cost=cost, source="mallory")
    assert mem.served(ids[1], "good", cost=0.01, source="mallory").served == "good"  # the same again
    assert mem.spent() == spent
    d = mem.route(phi=[1.0])
    mem.served(d, "bad", cost=0.05, source="mallory")
    assert mem.served(d, "good", cost=0.01).cost == 0.01
