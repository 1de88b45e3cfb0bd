"""Trust as users meet it: labels pause, come for one peer only, or from one kind of task."""

import random

import pytest

from sigma_mem import Settings, SigmaMem

COUNTRIES = ["Peru", "Chile", "France", "Kenya", "Norway", "Japan", "Spain", "Italy"]
ASKED = "What is 2 + 3?"


@pytest.fixture
def draw():
    return random.Random(0)


def a_sum(draw):
    return f"What is {draw.randint(2, 99)} + {draw.randint(2, 99)}?"


def capital(draw):
    return f"What is the capital of {draw.choice(COUNTRIES)}?"


def label(mem, question, labels, **kwargs):
    mem.feedback(mem.route(question, **kwargs), labels)


def after_a_bad_week(draw):
    """Bob is always right, cat half the time, and ann was wrong for 150 events in between."""
    mem = SigmaMem(peers=["ann", "bob", "cat"], seed=0)
    for i in range(400):
        d = mem.vote(a_sum(draw), {"ann": f"{i}", "bob": f"{-i - 1}", "cat": f"{i}.5"})
        mem.feedback(d, {"ann": not 150 <= i < 300, "bob": True, "cat": draw.random() < 0.5})
    return mem


def test_a_pause_changes_intervals_only(draw):
    mem = after_a_bad_week(draw)
    before = mem.trust(ASKED)
    for _ in range(1000):
        mem.route(a_sum(draw))
    after = mem.trust(ASKED)
    for peer in before:
        assert after[peer].prob == pytest.approx(before[peer].prob, abs=1e-6)
        low, high = after[peer].interval
        assert high - low > before[peer].interval[1] - before[peer].interval[0]
    assert mem.vote(ASKED, dict.fromkeys(mem.peers, "5")).confidence > 0.9


def test_a_pause_by_the_clock_changes_intervals_only(draw):
    now = [0.0]
    mem = SigmaMem(
        peers=["ann", "bob"], settings=Settings(decay="time", half_life=3600.0), clock=lambda: now[0], seed=0
    )
    for i in range(200):
        now[0] += 60.0
        label(mem, a_sum(draw), {"ann": i < 150, "bob": True})
    before = mem.trust(ASKED)
    now[0] += 3 * 24 * 3600.0
    after = mem.trust(ASKED)
    for peer in before:
        assert after[peer].prob == pytest.approx(before[peer].prob, abs=1e-6)
        assert after[peer].interval[0] < before[peer].interval[0]


def test_a_peer_that_was_never_wrong_is_trusted_whatever_others_do(draw):
    mem = after_a_bad_week(draw)
    bob = mem.trust(ASKED)["bob"]
    assert bob.prob > 0.95
    assert bob.interval[1] > 0.99


def test_a_broken_peer_is_not_forgiven_because_others_are_asked(draw):
    mem = SigmaMem(peers=["math", "general"], seed=0)
    for _ in range(120):
        label(mem, a_sum(draw), {"math": True})
    for _ in range(55):
        label(mem, a_sum(draw), {"math": False})
    broken = mem.trust(ASKED)["math"]
    assert broken.prob < 0.3
    for _ in range(800):
        label(mem, a_sum(draw), {"general": draw.random() < 0.55})
    later = mem.trust(ASKED)["math"]
    assert later.prob == pytest.approx(broken.prob, abs=0.03)
    assert later.interval[1] - later.interval[0] > broken.interval[1] - broken.interval[0]
    assert mem.route(ASKED).peer == "general"
    assert [found.peer for found in mem.drift()] == ["math"]


def test_another_peers_change_leaves_the_horizons_of_a_steady_one(draw):
    mem = SigmaMem(peers=["math", "general"], seed=0)
    for i in range(400):
        label(mem, a_sum(draw), {"math": i < 200, "general": i % 2 == 0})
    assert mem.trust(ASKED)["general"].prob == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("topics", [False, True], ids=["text", "topics"])
def test_a_specialist_is_not_trusted_where_it_failed(draw, topics):
    mem = SigmaMem(peers=["facts", "general"], seed=0)
    events = ["capital"] * 300 + ["failed"] * 30 + ["other"] * 400
    draw.shuffle(events)
    for kind in events:
        at_home = kind == "capital"
        given = {"topic": "geography" if at_home else "arithmetic"} if topics else {}
        labels = {"general": draw.random() < 0.55} if kind == "other" else {"facts": at_home}
        label(mem, capital(draw) if at_home else a_sum(draw), labels, **given)
    given = {"topic": "arithmetic"} if topics else {}
    assert mem.trust(ASKED, **given)["facts"].prob < 0.15
    if topics:
        assert mem.trust(topic="arithmetic")["facts"].prob < 0.15
        assert mem.trust(topic="geography")["facts"].prob > 0.9


def test_where_it_failed_on_a_topic_it_stays_distrusted_after_half_lives_of_success_elsewhere(draw):
    now = [0.0]
    mem = SigmaMem(
        peers=["facts", "general"], settings=Settings(decay="time", half_life=3600.0), clock=lambda: now[0]
    )
    for i in range(330):
        now[0] += 60.0
        home = i >= 30
        question, topic = (capital(draw), "geography") if home else (a_sum(draw), "arithmetic")
        label(mem, question, {"facts": home}, topic=topic)
    assert mem.trust(topic="arithmetic")["facts"].prob < 0.15
    assert mem.trust(topic="geography")["facts"].prob > 0.9


def test_labels_of_others_do_not_say_which_estimator_to_believe(draw):
    """Facts was wrong here and right elsewhere for half-lives since; general's labels are no news of it."""
    now = [0.0]
    mem = SigmaMem(
        peers=["facts", "general"], settings=Settings(decay="time", half_life=3600.0), clock=lambda: now[0]
    )

    def labelled(kind, labels):
        now[0] += 60.0
        label(mem, capital(draw) if kind == "capital" else a_sum(draw), labels)

    for i in range(330):
        labelled("capital" if i >= 30 else "sum", {"facts": i >= 30})
    before = mem.trust(ASKED)["facts"].prob
    for _ in range(200):
        labelled("sum", {"general": draw.random() < 0.55})
    assert mem.trust(ASKED)["facts"].prob == pytest.approx(before, abs=0.03)


@pytest.mark.parametrize("answers", [("5", "5"), ("5", "6")], ids=["agree", "disagree"])
def test_one_vote_without_a_label_moves_nobody(answers):
    mem = SigmaMem(peers=["ann", "bob", "cat"], seed=0)
    mem.vote(ASKED, dict(zip(("ann", "bob"), answers, strict=True)))
    for trust in mem.trust(ASKED).values():
        assert trust.prob == pytest.approx(0.5, abs=1e-9)


KINDS = {
    "sum": ("What is {} + {}?", "Compute {} + {}.", "Please calculate {} + {} for the invoice."),
    "date": ("Write day {} of month {} as an ISO date.", "Convert day {} of month {} to ISO 8601."),
    "unit": ("Convert {}.{} kilometers to miles.", "How many pounds are {}.{} kilograms?"),
    "word": ("Spell word number {} of page {} backwards.", "Reverse word {} on page {}."),
}


def test_narrow_traffic_is_told_apart(draw):
    """Four kinds of short prompts, a specialist for each, 200 labelled prompts, then 100 new ones."""

    def task():
        kind = draw.choice(list(KINDS))
        return kind, draw.choice(KINDS[kind]).format(draw.randint(2, 28), draw.randint(1, 12))

    mem = SigmaMem(peers=[*KINDS, "generalist"], seed=0)
    for _ in range(200):
        kind, question = task()
        right = {peer: peer == kind for peer in KINDS}
        label(mem, question, {**right, "generalist": draw.random() < 0.55})
    new = [task() for _ in range(100)]
    assert sum(mem.route(question).peer == kind for kind, question in new) >= 85
