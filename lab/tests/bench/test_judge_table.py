"""Verdicts as evidence in the bench: a judge that knows adds, a blind one costs little, AUC as defined."""

from dataclasses import replace

import numpy as np
from madeup import made_up

from sigma_lab.bench.experiments.judge import judge_table, real_judge_table, simulated_judge
from sigma_lab.bench.league import DEFAULT
from sigma_lab.bench.verdicts import auc_within, judge_alone
from sigma_mem import Settings


def test_simulated_judges_have_the_auc_they_are_named_after() -> None:
    rng = np.random.default_rng(0)
    labels = np.where(rng.random((4000, 4)) < 0.5, 1.0, -1.0)
    for auc in (0.5, 0.7, 0.9):
        found = auc_within(simulated_judge(labels, auc, 1), labels)
        assert found is not None
        assert abs(found - auc) < 0.015


def test_a_judge_alone_shares_ties() -> None:
    labels = np.array([[1.0, -1.0, -1.0], [1.0, 1.0, -1.0]])
    scores = np.array([[1.0, 1.0, 0.0], [np.nan, 0.0, 0.0]])
    assert judge_alone(labels, scores).tolist() == [0.5, 0.5]


def test_a_judge_that_knows_adds() -> None:
    stream, phis = made_up(150)
    setup = replace(DEFAULT, settings=Settings(text_features=False))  # texts would tell who is right
    table = judge_table(stream, phis, setup, seeds=(0,), aucs=(0.95,), ratios=(0.0,))
    right = {name: of["0"]["with"] for name, of in table.values["judges"].items()}
    assert right["0.95"] > right["no judge"] + 0.02


def test_a_peer_of_the_stream_can_judge_the_others() -> None:
    stream, phis = made_up(80)
    judge = stream.peers[0]
    table = real_judge_table(stream, phis, judge, DEFAULT, shares=(1.0,), ratios=(0.0,))
    assert judge not in table.values["peers"]
    assert table.values["judge"]["name"] == judge
    assert 0.5 < table.values["judge"]["auc"] < 1.0
    assert set(table.values["columns"][0]["accuracy"]) == {
        "m-route", "decide", "decide with verdicts", "judge alone",
    }  # fmt: skip
