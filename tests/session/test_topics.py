"""Topics through the session: alone or beside a question, exact after restarts and late labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learned import learned
from sigma_mem import SigmaMem
from sigma_mem.errors import InputError

PEERS = ["ann", "bob"]
X = [0.6, 0.8]


def bits(state) -> dict[str, object]:
    return learned(state)


def taught(path: Path | None = None, **settings) -> SigmaMem:
    """Ann knows law, bob the rest; the texts say nothing."""
    mem = SigmaMem(PEERS, path, rank=2, **settings)
    for i in range(40):
        topic = ["law", "german"] if i % 4 == 1 else "law" if i % 2 else "sport"
        d = mem.vote(None, {"ann": "1", "bob": "2"}, phi=X, topic=topic)
        mem.feedback(d, {"ann": i % 2 == 1, "bob": i % 2 == 0})
    return mem


def test_topics_decide_alone_and_beside_a_question():
    mem = taught()
    assert mem.route(phi=X, topic="law").peer == "ann"
    assert mem.route(phi=X, topic="sport").peer == "bob"
    alone = mem.route(topic="law")
    assert (alone.peer, alone.topics, alone.phi.tolist()) == ("ann", ("law",), [0.0, 0.0])
    assert mem.route(topic=["german", "law"]).peer == "ann"
    assert mem.route(phi=X).topics == ()
    answers = {"ann": "1", "bob": "2"}
    for decide in (mem.vote, mem.decide):
        assert decide(None, answers, topic="law").peer == "ann"
        assert decide(None, answers, phi=X, topic="sport").peer == "bob"
    assert mem.trust(topic="law")["ann"].prob > 0.7 > 0.4 > mem.trust(topic="sport")["ann"].prob
    assert set(mem.trust().topics) == {"sport", "law", "german"}
    assert mem.trust().topics["law"]["ann"] == mem.trust(topic="law")["ann"]


def test_a_panel_has_topics():
    mem = taught()
    panel = mem.ask(phi=X, topic="sport", calls=1)
    assert panel.next == "bob"
    panel.add("bob", "7")
    assert panel.decision.topics == ("sport",)


def test_the_reads_memory_of_a_topic_alone_is_that_of_no_question():
    mem = SigmaMem(PEERS, rank=2)
    for _ in range(8):
        d = mem.decide(None, {"ann": "4", "bob": "5"}, topic="law")
        mem.feedback(d, {"ann": False, "bob": True})
    assert mem.route(topic="law").peer == "bob"
    assert mem.drift() == []


def test_an_event_has_one_set_of_topics():
    mem = SigmaMem(PEERS, rank=2)
    first = mem.route(phi=X, topic=["law", "german"])
    again = mem.vote(None, {"ann": "1"}, after=first, topic=["german", "law"])
    assert again.topics == mem.vote(None, {"ann": "1"}, after=first).topics == ("german", "law")
    with pytest.raises(
        InputError, match=r"topic is \['sport'\], and the event .* has the topics \['german', 'law'\]"
    ):
        mem.vote(None, {"ann": "1"}, after=first, topic="sport")
    plain = mem.route(phi=X, ref="trace")
    with pytest.raises(InputError, match="has no topic"):
        mem.route(ref="trace", topic="law")
    assert mem.vote(None, {"ann": "1"}, after=plain).topics == ()


def test_what_is_no_topic_is_refused_and_nothing_is_written():
    mem = SigmaMem(PEERS, rank=2)
    for wrong in ("", 7, ["law", None], [str(i) for i in range(9)]):
        with pytest.raises(InputError, match="topic"):
            mem.route(phi=X, topic=wrong)
    with pytest.raises(InputError, match="neither question, phi nor topic"):
        mem.route(topic=[])
    assert mem.events == 0


@pytest.mark.parametrize("keep_text", [True, False])
def test_a_restart_continues_bit_for_bit(tmp_path, keep_text):
    with taught(tmp_path / "m.db", keep_text=keep_text) as mem:
        before, decided = bits(mem.state), mem.route(phi=X, topic="law")
        assert bits(mem.journal.replayed().state) == bits(mem.state)
    with SigmaMem(path=tmp_path / "m.db") as mem:
        assert before.keys() == bits(mem.state).keys()
        assert mem.decision(decided.id).topics == ("law",)
        assert mem.decision(decided.id).probs == decided.probs
        late = mem.feedback(decided.id, {"ann": False})
        assert bits(mem.journal.replayed().state) == bits(mem.state)
        assert late.labels == {"ann": -1.0}


@given(
    st.lists(
        st.tuples(st.sampled_from([(), ("law",), ("law", "german")]), st.booleans(), st.integers(0, 6)),
        min_size=3,
        max_size=20,
    )
)
def test_late_amended_and_revoked_labels_leave_what_the_ledger_says(steps):
    mem, plain = SigmaMem(PEERS, rank=2), SigmaMem(PEERS, rank=2)
    made = []
    for topics, right, what in steps:
        d = mem.route(phi=X, topic=topics)
        plain.route(phi=X, topic=topics)
        made.append(d)
        about = made[(what * 7) % len(made)]
        mem.feedback(about, {"ann": right}, source="tests", amend=True)
        if what == 3:
            mem.feedback(about, {"bob": not right}, source="liar", amend=True)
        if what == 5:
            mem.add_peer(f"new{len(made)}")
    if any(what == 3 for *_, what in steps):
        mem.revoke("liar")
    assert bits(mem.journal.replayed().state) == bits(mem.state)
    for d in made:
        if mem.decision(d).labels:
            mem.feedback(d, {"ann": 0.0}, source="tests", amend=True)
    for name in ("topics.vectors", "topics.pairs"):  # all labels are 0 now, so M is, whatever came between
        np.testing.assert_allclose(mem.state.sums[name][:, 0], 0.0, atol=1e-12)


def test_an_explanation_is_exact_and_names_topics():
    mem = taught()
    for topic in ("law", ["law", "german"], "sport", "new", None):
        d = mem.route(phi=X, topic=topic)
        for peer in PEERS:
            found = mem.explain(d, peer=peer, top=3)
            assert found.score == pytest.approx(sum(c.share for c in found.contributions) + found.rest)
            assert found.topics == d.topics
    assert {"law"} <= {t for c in mem.explain(mem.route(phi=X, topic="law")).contributions for t in c.topics}
    assert "topics law: a share of" in str(mem.explain(mem.route(topic="law")))
    assert sum(d.details.get("topic_shares", {"0": 1.0}).values()) == pytest.approx(1.0)


def test_a_memory_without_topics_writes_the_lines_it_always_wrote():
    mem = SigmaMem(PEERS, rank=2)
    d = mem.vote(None, {"ann": "1", "bob": "2"}, phi=X)
    mem.feedback(d, {"ann": True})
    body = mem.journal.ledger.find("decision", d.id).body
    assert (body.topics, body.topic_claims) == ((), b"")
    assert mem.state.topics.names == ()
    assert not mem.state.sums["topics.vectors"].size
