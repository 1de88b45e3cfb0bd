"""Off-policy estimates and the report, on events of which every label is known."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sigma_mem import SigmaMem
from sigma_mem.admin import evaluate, report
from sigma_mem.admin.evaluation import LOGGED, explored, off_policy, stratified
from sigma_mem.cli.app import run
from sigma_mem.errors import InputError
from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream, save_stream

PEERS = ("ann", "bob", "cat")
RATES = {"law": (0.9, 0.4, 0.6), "code": (0.3, 0.8, 0.6)}


def made_up(seed: int, size: int = 200) -> Stream:
    """Peers that are good at one of two topics, and one that is always middling."""
    rng, events = np.random.default_rng(seed), []
    for i in range(size):
        kind = "law" if rng.random() < 0.5 else "code"
        right = rng.random(3) < RATES[kind]
        labels = {peer: 1.0 if yes else -1.0 for peer, yes in zip(PEERS, right.tolist(), strict=True)}
        answers = {peer: Answer("", None) for peer in PEERS}
        costs = dict(zip(PEERS, (0.001, 0.002, 0.003), strict=True))
        events.append(Event(f"e{i}", f"a question of {kind}", answers, labels, domain=kind, costs=costs))
    return Stream("made up", PEERS, tuple(events))


def phis(stream: Stream) -> np.ndarray:
    return np.array([[1.0, 0.0] if event.domain == "law" else [0.0, 1.0] for event in stream])


def test_estimates_hold_the_truth_as_often_as_they_say():
    held: dict[tuple[str, str], list[bool]] = {}
    for seed in range(20):
        stream = made_up(seed)
        mem, truth = explored(stream, seed=seed, phis=phis(stream))
        with mem:
            found = evaluate(mem, truth=truth)
        for row in found.rows():
            inside = row["low"] <= row["truth"] <= row["high"]
            held.setdefault((row["read"], row["estimator"]), []).append(inside)
    assert {read for read, _ in held} == {LOGGED, "calibrated-route", "m-route", *PEERS}
    assert all(sum(inside) >= 17 for inside in held.values()), held
    assert sum(map(sum, held.values())) >= 0.92 * sum(map(len, held.values()))


def test_doubly_robust_is_unbiased_and_narrower_than_ips():
    rng = np.random.default_rng(0)
    away, widths = [], []
    for _ in range(200):
        prob = np.array([0.9, 0.2])
        behaviour = np.array([0.7, 0.3])
        taken = (rng.random(300) < behaviour[1]).astype(int)
        reward = (rng.random(300) < prob[taken]).astype(float)
        weight = (taken == 1) / behaviour[taken]  # always the second
        claimed = np.array([0.85, 0.25])
        found = off_policy(reward, weight, np.full(300, claimed[1]), claimed[taken])
        away.append([found[name].value - prob[1] for name in ("ips", "snips", "dr")])
        widths.append([found[name].interval[1] - found[name].interval[0] for name in ("ips", "snips", "dr")])
    assert np.abs(np.mean(away, axis=0)).max() < 0.01
    ips, snips, dr = np.mean(widths, axis=0)
    assert dr < ips
    assert snips < ips
    assert np.mean(np.abs(away) < np.array(widths) / 2, axis=0).min() > 0.9


def test_peers_that_were_never_drawn_are_unknown():
    found = off_policy(np.ones(5), np.zeros(5), np.full(5, 0.5), np.full(5, 0.5))
    assert all(each.interval == (0.0, 1.0) and each.effective == 0.0 for each in found.values())


def test_a_peer_that_was_hardly_drawn_is_predicted_and_says_so():
    rng, events = np.random.default_rng(0), []
    for i in range(250):
        right = rng.random(3) < (0.95, 0.85, 0.1)
        labels = {peer: 1.0 if yes else -1.0 for peer, yes in zip(PEERS, right.tolist(), strict=True)}
        events.append(Event(f"e{i}", "a question", dict.fromkeys(PEERS, Answer("", None)), labels))
    stream = Stream("made up", PEERS, tuple(events))
    mem, truth = explored(stream, seed=0, phis=np.tile([1.0, 0.0], (250, 1)))
    with mem:
        found = evaluate(mem, truth=truth)
    assert [row["read"] for row in found.rows() if row["is_prediction"]][-3:] == ["cat"] * 3
    assert not any(row["is_prediction"] for row in found.rows() if row["read"] in (LOGGED, "ann"))
    for row in found.rows():
        assert row["low"] <= row["value"] <= row["high"]
        assert row["low"] <= row["truth"] <= row["high"]
    cat = found.estimates["cat"]["dr"]
    assert (cat.supported, cat.effective) < (0.2, 20.0)


def test_votes_with_all_labels_are_counted_as_they_were():
    with SigmaMem(PEERS, rank=2) as mem:
        for i in range(30):
            answers = {"ann": "1", "bob": "1", "cat": str(i % 3)}
            made = mem.decide("How many?", answers, phi=[1.0, 0.0])
            mem.feedback(made, {"ann": True, "bob": True, "cat": i % 3 == 1})
        found = evaluate(mem, ["calibrated", "cat"])
    assert found.decisions == 30
    assert found.estimates["calibrated"]["dr"].value == pytest.approx(1.0)
    assert found.estimates["cat"]["ips"].value == pytest.approx(1 / 3)
    assert found.estimates["cat"]["ips"].effective == 30.0


def test_who_served_instead_says_nothing_of_a_draw():
    with SigmaMem(PEERS, rank=2) as mem:
        for _ in range(5):
            made = mem.route(phi=[1.0, 0.0])
            other = next(peer for peer in PEERS if peer != made.peer)
            mem.served(made, other)
            mem.feedback(made, {other: True})
        with pytest.raises(InputError, match="expected `report` instead"):
            evaluate(mem)


def test_what_others_served_counts_as_logged_and_nowhere_else():
    mem, _, _, served = observed(made_up(3), 3)
    with mem:
        found = evaluate(mem)
    assert found.estimates[LOGGED]["dr"].value == pytest.approx(served)
    assert found.decisions + found.elsewhere == 200
    assert found.elsewhere > found.decisions > 0
    assert found.estimates["calibrated-route"]["ips"].effective == found.decisions


def observed(
    stream: Stream, seed: int, callers: tuple[str, ...] = PEERS
) -> tuple[SigmaMem, float, float, float]:
    """A memory that observed random callers; its choices' truth and cost, and the callers' truth."""
    rng, chosen, served, costs = np.random.default_rng(seed), [], [], []
    mem = SigmaMem(stream.peers, rank=2, seed=seed)
    for peer, price in zip(PEERS, (0.001, 0.002, 0.003), strict=True):
        mem.set_price(peer, per_call=price)
    for event, phi in zip(stream, phis(stream), strict=True):
        made = mem.route(phi=phi, topic=event.domain)
        caller = callers[rng.integers(len(callers))]
        mem.served(made, caller, cost=event.costs[caller])
        mem.feedback(made, {caller: event.correct[caller]})
        chosen.append(event.correct[made.peer] > 0)
        served.append(event.correct[caller] > 0)
        costs.append(event.costs[made.peer])
    return mem, float(np.mean(chosen)), float(np.mean(costs)), float(np.mean(served))


def test_the_report_holds_what_its_choices_would_have_reached():
    held, elsewhere = [], []
    for seed in range(12):
        mem, truth, cost, served = observed(made_up(seed), seed)
        with mem:
            total, *topics = report(mem).compared
        low, high = total.right_after.interval
        held.append(low <= truth <= high)
        elsewhere.append(total.elsewhere / total.requests)
        assert total.right_before.value == pytest.approx(served)
        assert [each.topic for each in topics] == ["code", "law"]
        assert sum(each.requests for each in topics) == total.requests == 200
        assert total.cost_before.value == pytest.approx(0.002, abs=2e-4)
        assert total.cost_after.value == pytest.approx(cost)
        assert total.cost_after.interval[1] - total.cost_after.interval[0] < 2e-4
    assert sum(held) >= 11
    assert 0.6 < np.mean(elsewhere) < 0.73  # callers hit the memory's choice one time in three


def test_a_peer_that_never_served_is_reported_as_untried():
    mem, *_ = observed(made_up(1), 1, callers=("cat",))
    with mem:
        total = report(mem).compared[0]
    assert total.untried == total.elsewhere
    if total.elsewhere:
        assert total.right_after.interval[1] - total.right_after.interval[0] > 0.1


def test_what_a_peer_really_cost_counts_and_not_what_was_expected_at_first():
    cost = {"ann": 1e-5, "bob": 2e-5, "cat": 3e-5}
    with SigmaMem(PEERS, rank=2) as mem:
        for peer in PEERS:
            mem.set_price(peer, per_output_token=cost[peer] / 5)  # of five; hundreds are expected at first
        for i, topic in enumerate(("law", "code", "maths", "law", "maths")):
            made = mem.route(phi=[1.0, 0.0], topic=topic, among=[PEERS[i % 3]])
            mem.served(made, made.peer, cost=cost[made.peer])
            mem.feedback(made, {made.peer: i % 2 == 0})
        same = report(mem).compared
        for each in same:
            assert each.elsewhere == 0
            assert each.right_after.value == pytest.approx(each.right_before.value)
            assert each.cost_after.value == pytest.approx(each.cost_before.value)
        made = mem.route(phi=[1.0, 0.0], topic="art")
        other = next(peer for peer in PEERS if peer != made.peer)
        mem.served(made, other, cost=cost[other])
        art = next(each for each in report(mem).compared if each.topic == "art")
    assert (art.untried, art.cost_before.value) == (1, pytest.approx(cost[other]))
    assert art.cost_after.value == pytest.approx(cost[made.peer])


def test_a_report_without_labels_counts_requests_and_claims_no_accuracy():
    with SigmaMem(PEERS, rank=2) as mem:
        mem.route(phi=[1.0, 0.0], topic="law")
        labelled = mem.route(phi=[0.0, 1.0], topic="code")
        total, *_ = report(mem).compared
        assert (total.requests, total.right_before, total.right_after) == (2, None, None)
        mem.feedback(labelled, {labelled.peer: True})
        total, code, law = report(mem).compared
    assert total.right_before.value == code.right_before.value == 1.0
    assert total.elsewhere == 0
    assert total.right_after == total.right_before
    assert law.right_before is None


def test_a_prediction_is_corrected_in_every_cell():
    cells = np.array([0] * 50 + [1] * 50)
    predicted, observed = np.full(100, 0.5), np.full(100, np.nan)
    observed[:20], observed[50:70] = 1.0, 0.0
    found, tried = stratified(cells, predicted, observed)
    assert found.value == pytest.approx(0.5)
    assert tried.all()
    alone, tried = stratified(cells, predicted, np.where(cells == 0, observed, np.nan))
    assert alone.value == pytest.approx(0.75)
    assert tried.sum() == 50
    assert alone.interval[0] < 0.55


def test_the_commands(tmp_path, capsys):
    stream, path = made_up(2, 60), tmp_path / "memory.db"
    save_stream(stream, tmp_path / "stream.jsonl")
    assert run(["evaluate", str(tmp_path / "stream.jsonl"), "--limit", "50", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["estimates"]
    assert {row["estimator"] for row in rows} == {"ips", "snips", "dr"}
    assert all(row["truth"] is not None for row in rows)
    with SigmaMem(PEERS, path, rank=2) as mem:
        for event, phi in zip(stream, phis(stream), strict=True):
            made = mem.route(phi=phi, topic=event.domain, explore=True)
            mem.feedback(made, {made.peer: event.correct[made.peer]})
    assert run(["evaluate", "-m", str(path), "--reads", "calibrated-route,ann"]) == 0
    assert "calibrated-route" in capsys.readouterr().out
    assert run(["report", "-m", str(path)]) == 0
    assert "all requests  60" in capsys.readouterr().out
    assert run(["report", "-m", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["compared"][0]["elsewhere"] == 0
    for wrong in (["evaluate"], ["evaluate", "-m", str(path), "--reads", "none"]):
        assert run(wrong) == 2
    assert run(["report", "-m", str(path), "--since", "2999-01-01"]) == 2
    assert "another since" in capsys.readouterr().err
