"""Look without touching: trust, table, history, decisions; a reader that follows a writer."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from learned import assert_alike
from sigma_mem import SigmaMem
from sigma_mem.errors import InputError, MissingExtraError, StoreError
from sigma_mem.session.history import seconds_of
from sigma_mem.session.trust import TrustByPeer

PEERS = ("ann", "bob")


def taught(path=None, events: int = 12, **options: object) -> SigmaMem:
    times = iter(range(1000, 100_000))
    mem = SigmaMem(PEERS, path, encoder="hashed", clock=lambda: float(next(times)), **options)
    for i in range(events):
        d = mem.vote(f"What is {i} + {i}?", {"ann": str(2 * i), "bob": str(2 * i + 1)})
        mem.feedback(d.id, {"ann": True, "bob": i % 4 == 0}, amend=True)
    return mem


def test_trust_is_what_a_route_reads_and_leaves_no_trace() -> None:
    mem = taught()
    lines, now = mem.journal.replayed().seq, mem.state.now
    trust = mem.trust("What is 3 + 3?")
    assert (mem.journal.replayed().seq, mem.state.now, mem.events) == (lines, now, 12)
    d = mem.route("What is 3 + 3?")
    assert {peer: found.prob for peer, found in trust.items()} == d.probs
    assert {peer: found.effective for peer, found in trust.items()} == d.effective
    for found in trust.values():
        low, high = found.interval
        assert low < found.prob < high
    assert list(trust) == list(PEERS)


def test_trust_is_refused_at_a_phi_of_another_shape() -> None:
    with pytest.raises(InputError, match="shape"):
        taught(events=0).trust(phi=[1.0])


def test_trust_without_a_task_says_what_is_known_whatever_the_task() -> None:
    mem = taught()
    table = mem.trust()
    prob, labels = mem.state.overall()
    assert [table[peer].prob for peer in PEERS] == prob.tolist()
    assert [table[peer].effective for peer in PEERS] == labels.tolist()
    assert table.events == 12
    assert [row["peer"] for row in table.rows()] == list(PEERS)
    assert "ann 0." in repr(table)
    assert "\n" not in repr(table)


def test_history_is_the_ledgers_as_it_stands_now() -> None:
    mem = taught()
    first = mem.decisions()[-1]
    mem.feedback(first.id, {"bob": -0.5}, amend=True)
    mem.feedback(first.id, {"ann": False}, source="liar")
    mem.revoke("liar")
    bob = mem.history("bob")
    assert [entry.label for entry in bob][:5] == [-0.5, -1.0, -1.0, -1.0, 1.0]
    assert [entry.event for entry in bob] == [d.event for d in mem.decisions()][::-1]
    assert mem.history("ann")[0].label == 1.0
    assert bob[3].prob == mem.decision(bob[3].event).probs["bob"]
    assert bob.trend(3) == pytest.approx([0.25 / 4, 0.25, 0.25])
    times, share = bob.rolling(4)
    assert len(times) == 12
    assert share[-1] == pytest.approx(0.25)
    with pytest.raises(InputError, match="'zoe' is not in this memory"):
        mem.history("zoe")


def test_history_of_a_peer_that_left_is_still_there() -> None:
    mem = taught(events=4)
    mem.remove_peer("bob")
    assert len(mem.history("bob")) == 4


def test_decisions_are_filtered_by_label_topic_and_confidence() -> None:
    mem = SigmaMem(["ann", "bob"], encoder="hashed")
    made = [mem.route(f"What is {i}?", topic="law" if i % 2 else None) for i in range(9)]
    for i, decision in enumerate(made[:6]):
        assert decision.peer is not None
        mem.feedback(decision, {decision.peer: i % 3 == 0})
    for label, wanted in {"right": [3, 0], "wrong": [5, 4, 2, 1], "none": [8, 7, 6]}.items():
        assert [d.id for d in mem.decisions(label=label)] == [made[i].id for i in wanted]
    assert [d.id for d in mem.decisions(1, label="wrong", topic="law")] == [made[5].id]
    assert [d.id for d in mem.decisions(topic="law")] == [made[i].id for i in (7, 5, 3, 1)]
    least = min(d.confidence for d in made)
    assert list(mem.decisions(below=least)) == []
    assert len(mem.decisions(below=least + 1e-9)) >= 1
    for wrong in ({"label": "maybe"}, {"below": 1.5}, {"topic": 3}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            list(mem.decisions(**wrong))


def test_decisions_are_filtered_and_paged() -> None:
    mem = taught(events=30)
    everything = list(mem.decisions())
    assert len(everything) == len(mem.decisions()) == 30
    assert [d.question for d in mem.decisions(2)] == ["What is 29 + 29?", "What is 28 + 28?"]
    pages, before = [], None
    while page := list(mem.decisions(7, before=before)):
        pages += page
        before = page[-1].id
    assert pages == everything
    middle = everything[15]
    assert [d.id for d in mem.decisions(since=middle.time, until=middle.time + 1)] == [middle.id]
    when = datetime.fromtimestamp(middle.time, UTC)
    assert list(mem.decisions(since=when)) == everything[:16]
    assert list(mem.decisions(until=when.isoformat())) == everything[16:]
    assert [d.question for d in mem.decisions(text="WHAT IS 7 ")] == ["What is 7 + 7?"]
    assert {d.peer for d in mem.decisions(peer="ann")} == {"ann"}
    assert list(mem.decisions(read="m-vote")) == []
    assert mem.decisions()[3] == everything[3]
    assert mem.decisions()[-1] == everything[-1]
    assert mem.decisions()[:2] == everything[:2]
    with pytest.raises(InputError, match="2026-01-31"):
        list(mem.decisions(since="yesterday"))


def test_a_decision_prints_in_one_line_compares_and_pickles() -> None:
    mem = taught(events=2)
    d = mem.vote("1?", {"ann": "first\nline " + 99 * "x", "bob": "2"})
    assert "\n" not in repr(d)
    assert len(repr(d)) < 160
    again = pickle.loads(pickle.dumps(d))
    assert again == d == mem.decision(d.id)
    assert hash(again) == hash(d)
    assert d != replace(d, phi=-d.phi)
    assert d != d.id
    assert d.to_dict()["phi"] == d.phi.tolist()


@pytest.mark.parametrize(
    "look", ["trust", "overall", "history", "decisions", "explain", "drift", "sources", "spent"]
)
def test_everything_becomes_plain_values_a_frame_and_escaped_html(look: str) -> None:
    mem = SigmaMem(["<b>ann", "bob"], encoder="hashed")
    mem.set_price("<b>ann", per_call=0.5)
    for number in range(150 if look == "drift" else 1):
        d = mem.vote("<script>1?", {"<b>ann": "<i>4</i>", "bob": "5"})
        mem.feedback(d.id, {"<b>ann": number < 100, "bob": True}, source="<i>judge")
    d = mem.vote("<script>1?", {"<b>ann": "<i>4</i>", "bob": "5"})
    found = {
        "trust": lambda: mem.trust("1?"),
        "overall": mem.trust,
        "history": lambda: mem.history("<b>ann"),
        "decisions": mem.decisions,
        "explain": lambda: mem.explain(d, peer="<b>ann"),
        "drift": mem.drift,
        "sources": mem.sources,
        "spent": mem.spent,
    }[look]()
    json.dumps(found.to_dict(), allow_nan=False)
    frame = found.to_pandas()
    assert len(frame) == len(found.rows()) > 0
    html = found._repr_html_()
    assert "<table>" in html
    assert not any(tag in html for tag in ("<script>", "<i>", "<b>"))
    if look in ("history", "decisions", "drift"):
        assert str(frame["time"].dtype) == "datetime64[ns, UTC]"
        assert f"<td>{frame['time'][0]:%Y-%m-%d %H:%M}" in html
    if look in ("trust", "overall", "history", "decisions"):
        assert len(repr(found)) < 200


def test_a_frame_without_pandas_names_the_pip_command(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"sigma-mem\[pandas\]"):
        TrustByPeer({}, 0).to_pandas()


def test_a_reader_follows_the_writer(tmp_path) -> None:
    path = tmp_path / "memory.db"
    with taught(path, events=3) as writer, SigmaMem(path=path, readonly=True) as reader:
        assert reader.events == 3
        for _ in range(3):
            d = writer.vote("2 + 2?", {"ann": "4", "bob": "5"})
            writer.feedback(d.id, {"ann": True, "bob": False})
            told, known = ([x.prob for x in mem.trust("2 + 2?").values()] for mem in (reader, writer))
            assert told == pytest.approx(known, rel=1e-9)
            assert reader.decisions(1)[0] == writer.decision(d.id)
            assert reader.decision(d.id).labels == {"ann": 1.0, "bob": -1.0}
            assert_alike(reader, writer)
        writer.add_peer("cat")
        assert reader.peers == ("ann", "bob", "cat")
        with pytest.raises(StoreError, match="readonly=True"):
            reader.route("2 + 2?")
        told, known = ([x.prob for x in mem.trust("2 + 2?").values()] for mem in (reader, writer))
        assert told == pytest.approx(known, rel=1e-9)
    with SigmaMem(path=path, readonly=True) as reader:  # and nobody writes
        assert reader.events == 6


def test_readonly_needs_a_file() -> None:
    with pytest.raises(InputError, match="readonly=True without a path"):
        SigmaMem(PEERS, readonly=True)


@pytest.mark.parametrize("when", ["yesterday", float("nan"), float("inf"), True, None, [], 10**400])
def test_a_moment_that_is_none_is_refused(when: object) -> None:
    with pytest.raises(InputError, match="expected seconds since 1970"):
        seconds_of(when)  # type: ignore[arg-type]


def test_evidence_on_a_topic_is_its_labels():
    mem = SigmaMem(PEERS)
    for i in range(6):
        mem.feedback(mem.route(f"Is clause {i} void?", topic="law"), {PEERS[0]: True})
    mem.feedback(mem.route("What is 2 + 2?", topic="sums"), {PEERS[0]: True})
    found = mem.trust().topics
    assert [round(found[name][PEERS[0]].effective) for name in ("law", "sums")] == [6, 1]


def test_a_decision_is_a_view_of_its_line_until_it_is_looked_at():
    mem = SigmaMem(["ann", "bob"], encoder="hashed")
    made = mem.decide("What is 3 + 4?", {"ann": "7", "bob": "8"})
    assert not {"phi", "scores", "probs", "canons", "features", "details"} & vars(made).keys()
    copies = pickle.loads(pickle.dumps(made)), copy.deepcopy(made)
    assert copies == (made, made)
    assert made == mem.decision(made.id)
    made.scores["ann"] = 9.0
    made.details["votes"].clear()
    assert copies[0].scores == mem.decision(made.id).scores != made.scores
    assert mem.decision(made.id).details == copies[0].details != made.details
    with pytest.raises(AttributeError, match="no 'score'"):
        _ = made.score


def test_a_decision_has_its_texts_although_the_ledger_keeps_none():
    mem = SigmaMem(["ann", "bob"], encoder="hashed", keep_text=False)
    made = mem.decide("What is 3 + 4?", {"ann": "7", "bob": "the answer is 8"})
    kept = mem.decision(made.id)
    assert (made.question, made.canons) == ("What is 3 + 4?", {"ann": "7", "bob": "8"})
    assert (kept.question, kept.answer, kept.canons) == (None, None, {"ann": "0", "bob": "1"})
    assert kept.scores == made.scores
