"""What several sources say of one event, and what each of them is worth."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sigma_mem.memory import Settings, SigmaState
from sigma_mem.memory.combination import NO_COMPARISON, Standing, combined, comparisons
from sigma_mem.memory.kernel import pair_products, scores
from sigma_mem.memory.sources import Sources

PEERS = ("ann", "bob", "cat")
PHI = np.array([1.0, 0.0])

some_labels = st.dictionaries(st.sampled_from(PEERS), st.floats(-1, 1), min_size=1)
standings_of_all = st.fixed_dictionaries(
    {},
    optional={
        name: st.builds(Standing, st.floats(0.001, 1.0), st.floats(0.001, 1.0), st.just({}))
        for name in ("x", "y", "z")
    },
)


def memory(trusted):
    return Sources(trusted, rate=0.001, rank=2), SigmaState(PEERS, 2, Settings(gamma=0.999))


def speak(sources, state, said, agreement=None, tick=1.0):
    """Let sources speak of one event, one after the other, as a session does."""
    heard, first, standings = {}, {}, {}
    for source, labels in said.items():
        before = comparisons(heard, first, standings, agreement or {}, source)
        if not sources.is_trusted(source):
            if len(heard) == len(standings):
                first[source] = labels
            standings[source] = sources.standing(source, standings, state, lambda: PHI)
        heard[source] = labels
        sources.write(PHI, before, comparisons(heard, first, standings, agreement or {}, source), tick)
    return heard, standings


# --- one event ---------------------------------------------------------------------------


@given(
    said=st.dictionaries(st.sampled_from(["ci", "judge", "x", "y", "z"]), some_labels, min_size=1),
    standings=standings_of_all,
    seed=st.integers(0, 99),
)
def test_labels_and_weights_are_in_range_and_do_not_depend_on_the_order(said, standings, seed):
    c, weight = combined(said, standings)
    assert set(c) == {peer for labels in said.values() for peer in labels}
    assert all(-1.0 <= value <= 1.0 for value in c.values())
    assert all(0.0 < value <= 1.0 for value in weight.values())
    assert not weight or set(weight) == set(c)
    order = np.random.default_rng(seed).permutation(list(said))
    again, weight_again = combined({str(source): said[source] for source in order}, standings)
    assert again == pytest.approx(c, abs=1e-12)
    assert weight_again == pytest.approx(weight, abs=1e-12)
    for peer in c:
        between = [labels[peer] for labels in said.values() if peer in labels]
        assert min(between) - 1e-12 <= c[peer] <= max(between) + 1e-12


def test_trusted_sources_are_averaged_and_weigh_one():
    c, weight = combined({"ci": {"ann": 1.0}, "judge": {"ann": 0.0, "bob": -1.0}}, {})
    assert (c, weight) == ({"ann": 0.5, "bob": -1.0}, {})


@pytest.mark.parametrize("n", [1, 9, 500])
def test_unknown_names_share_one_allowance(n):
    said = {"ci": {"ann": 1.0}, **{f"s{i}": {"ann": -1.0, "bob": 1.0} for i in range(n)}}
    c, weight = combined(said, {f"s{i}": Standing(0.02) for i in range(n)})
    assert c["ann"] == pytest.approx((1.0 - 0.002) / 1.002)
    assert weight == pytest.approx({"ann": 1.0, "bob": 0.02})


@pytest.mark.parametrize("n", [1, 2, 100])
def test_beside_a_trusted_source_all_others_weigh_a_tenth(n):
    said = {"ci": {"ann": 1.0}, **{f"s{i}": {"ann": -1.0} for i in range(n)}}
    c, _ = combined(said, {f"s{i}": Standing(1.0, 0.5) for i in range(n)})
    assert c["ann"] == pytest.approx(0.9 / 1.1)


def test_a_good_source_keeps_its_weight_beside_sybils():
    said = {"good": {"ann": 1.0}, **{f"s{i}": {"ann": -1.0} for i in range(9)}}
    c, weight = combined(said, {"good": Standing(0.8), **{f"s{i}": Standing(0.02) for i in range(9)}})
    assert weight["ann"] > 0.6
    assert c["ann"] > 0.98


def test_those_that_say_the_same_weigh_as_one():
    names = [f"s{i}" for i in range(9)]
    standings = {name: Standing(1.0, 0.1, dict.fromkeys(names[:i], 1.0)) for i, name in enumerate(names)}
    said = {"honest": {"ann": 1.0}, **{name: {"ann": -1.0} for name in names}}
    c, weight = combined(said, {"honest": Standing(1.0, 0.1), **standings})
    assert c["ann"] == pytest.approx(0.0)
    assert not weight


def test_a_sole_source_weighs_one():
    assert combined({"x": {"ann": 0.5}}, {"x": Standing(1.0, 0.01)}) == ({"ann": 0.5}, {})
    said = {"x": {"ann": 0.5}}
    assert comparisons(said, said, {"x": Standing(1.0, 0.01)}, {"ann": 1.0}, "x") is NO_COMPARISON


# --- what a source is worth --------------------------------------------------------------


def test_who_agrees_with_trusted_sources_is_heard_where_they_are_silent():
    sources, state = memory(("ci",))
    rng = np.random.default_rng(1)
    for _ in range(60):
        truth = dict(zip(PEERS, np.where(rng.random(3) < 0.6, 1.0, -1.0), strict=True))
        lie = {peer: -c for peer, c in truth.items()}
        speak(
            sources,
            state,
            {"good": truth, "bad": lie, "careless": dict.fromkeys(PEERS, 1.0), "ci": truth, "echo": truth},
        )
    assert sources.weight("good", state) > 0.7
    assert sources.weight("bad", state) == sources.weight("careless", state) == sources.weight("new", state)
    assert sources.weight("echo", state) == sources.weight("new", state) <= 0.02
    assert sources.weight("ci", state) == 1.0
    assert sources.agreement("good", state.now)[0] > 0.8
    assert sources.agreement("new", state.now) == (0.0, 0)


def test_names_that_fill_the_memory_with_events_weigh_less_and_less():
    sources, state = memory(("ci",))
    first = speak(sources, state, {"x0": {"ann": 1.0}})[1]["x0"].weight
    for n in range(200):
        last = speak(sources, state, {f"x{n}": {"ann": 1.0}})[1][f"x{n}"].weight
    assert first == 0.02
    assert last < 0.0002


def test_nobody_crowds_out_trusted_evidence_near_a_direction():
    sources, state = memory(("ci",))
    rng = np.random.default_rng(2)
    for _ in range(100):  # a source that earned its weight
        truth = dict(zip(PEERS, np.where(rng.random(3) < 0.5, 1.0, -1.0), strict=True))
        speak(sources, state, {"x": truth, "ci": truth})
        state.write(PHI[::-1], np.ones(3), 1.0)  # elsewhere
    for _ in range(5):
        state.write(PHI, np.ones(3), 1.0)
    given = 0.0
    for _ in range(200):  # and now floods one φ
        weight = speak(sources, state, {"x": {"ann": -1.0}})[1]["x"].weight
        state.write(PHI, -np.ones(3), 1.0, weight=np.full(3, weight))
        given += weight
    assert weight <= 0.02
    assert 0.5 < given < 4.6  # a tenth of five, and then an unknown name's weight


def test_without_names_agreement_of_peers_tells_who_is_right():
    sources, state = memory(())
    rng = np.random.default_rng(3)
    for _ in range(100):
        truth = dict(zip(PEERS, np.where(rng.random(3) < 0.6, 1.0, -1.0), strict=True))
        agreement = {peer: 0.6 * c for peer, c in truth.items()}
        lie = {"ann": -1.0, "bob": -1.0, "cat": 1.0}
        said = {"honest": truth, **{f"s{i}": lie for i in range(9)}}
        heard, standings = speak(sources, state, said, agreement)
    c, _ = combined(heard, standings)
    assert c == pytest.approx(truth, abs=0.05)
    weights = sources.weights(["honest", "s1", "new"], state)
    assert weights["honest"] == 1.0
    assert weights["s1"] < weights["new"] < 0.1


def test_the_default_source_is_trusted_where_it_speaks_and_others_are_heard_elsewhere():
    sources, state = memory(("default",))
    assert speak(sources, state, {"tests": {"ann": 1.0}})[1]["tests"].weight == 1.0
    for _ in range(40):
        speak(sources, state, {"default": {"ann": 1.0, "bob": -1.0}, "liar": {"ann": -1.0, "bob": 1.0}})
    assert sources.weight("liar", state) < 0.25
    assert sources.weight("tests", state) == 1.0


@given(seed=st.integers(0, 1000), trusted=st.sampled_from([(), ("default",), ("ci",)]))
def test_sums_are_those_of_what_stands_in_any_order_and_survive_a_snapshot(seed, trusted):
    rng = np.random.default_rng(seed)
    names = ["ci", "default", "x", "y"]

    def event():
        spoke = [name for name in names if rng.random() < 0.6]
        said = {name: {peer: float(rng.uniform(-1, 1)) for peer in PEERS} for name in spoke}
        reliability = None if trusted == ("ci",) else 0.3
        standings = {name: Standing(0.5, reliability) for name in spoke if name not in trusted}
        first = {name: said[name] for name in standings if rng.random() < 0.5}
        return said, first, standings, {peer: float(rng.uniform(-1, 1)) for peer in PEERS}

    def without(*parts, source):
        return ({name: x for name, x in part.items() if name != source} for part in parts)

    def contribute(to, said, first, standings, agreement, tick):
        heard = {}
        for source in map(str, rng.permutation(list(said))):
            before = comparisons(heard, first, among(standings, heard), agreement, source)
            heard[source] = said[source]
            to.write(PHI, before, comparisons(heard, first, among(standings, heard), agreement, source), tick)

    def among(standings, heard):
        return {name: x for name, x in standings.items() if name in heard}

    events = [(*event(), float(t)) for t in range(12)]
    once, winding = Sources(trusted, 0.01, 2), Sources(trusted, 0.01, 2)
    for *said, agreement, tick in events:
        contribute(once, *without(*said, source="y"), agreement, tick)
    for i in rng.permutation(len(events)):
        contribute(winding, *events[i])
    packed = Sources(trusted, 0.01, 2)
    packed.unpack(*winding.pack())
    for i in rng.permutation(len(events)):  # what y said is taken back
        *said, agreement, tick = events[i]
        if "y" in said[0]:
            for to in (winding, packed):
                before = comparisons(*said, agreement, "y")
                to.write(PHI, before, comparisons(*without(*said, source="y"), agreement, "y"), tick)
    assert winding.pack()[0] == packed.pack()[0]
    for name, array in winding.pack()[1].items():
        assert np.array_equal(array, packed.pack()[1][name]), name
    for key in (*once._rows, *winding._rows):
        np.testing.assert_allclose(winding._value(key, 99.0), once._value(key, 99.0), atol=1e-12)
    if trusted == ("ci",):
        factor = np.exp(-0.01 * 99.0)
        near = [factor * scores(x._sums, "near", PHI, pair_products(PHI)) for x in (once, winding)]
        np.testing.assert_allclose(*near, atol=1e-12)
