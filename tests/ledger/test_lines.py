"""Lines come back, a renamed peer is one that was written so, and what is forgotten leaves no text."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sigma_mem.answers.features import FEATURES, FEATURES_VERSION
from sigma_mem.errors import InputError, StoreCorruptError, StoreVersionError
from sigma_mem.events import Feedback
from sigma_mem.ledger.costs import Price, price_line
from sigma_mem.ledger.decision import decision_in, feedback_in, feedback_line
from sigma_mem.ledger.lines import (
    Charge,
    DecisionLine,
    ForgetLine,
    ForgottenLine,
    Line,
    OpenLine,
    PacedDecision,
    PanelPlace,
    ServedLine,
    claim_bytes,
    feature_bytes,
    open_line,
    peer_line,
    phi_bytes,
    ref_line,
    rename_line,
    renamed,
    reset_line,
    revoke_line,
    score_bytes,
)
from sigma_mem.ledger.records import encoded, from_json, line_of, record_of, to_json
from sigma_mem.memory import Settings
from sigma_mem.memory.ballots import VOTES
from sigma_mem.memory.combination import Standing
from sigma_mem.store.base import Record

POOL = ("ann", "bob", "cät", "dan")
SECRET = "a secret of this task"
reals = st.floats(allow_nan=False, allow_infinity=False, width=32)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def decisions(draw):
    """How a line is built for any names of its peers, with or without texts."""
    size = draw(st.integers(1, len(POOL)))
    places = st.integers(0, size - 1)
    half = st.floats(width=16, allow_nan=False)
    canons = draw(st.lists(st.sampled_from(["4", SECRET, "é"]), unique=True, max_size=size))
    groups = draw(st.permutations([*range(len(canons)), *[-1] * (size - len(canons))])) if canons else []
    described = [i for i, group in enumerate(groups) if group >= 0]
    claims = np.array([[draw(half), draw(half)] for _ in range(size)])
    panel, feature = draw(st.booleans()), st.integers(0, 90_000)
    values = {
        "now": 3.0,
        "tick": draw(reals),
        "time": draw(reals),
        "read": draw(texts),
        "peer": draw(st.none() | places),
        "phi": phi_bytes(np.array(draw(st.lists(reals, max_size=4)))),
        "scores": score_bytes([draw(reals) for _ in range(3 * size)]),
        "labelled": tuple(draw(st.integers(0, 5)) for _ in range(size)),
        "confidence": draw(reals),
        "propensity": draw(reals),
        "groups": tuple(groups),
        "features_version": FEATURES_VERSION,
        "described": tuple(described),
        "features": feature_bytes([[draw(feature) / 1e4 for _ in FEATURES] for _ in described]),
        "votes": claim_bytes(np.zeros((len(VOTES), len(canons)))) if canons and draw(st.booleans()) else b"",
        "claims": draw(st.just(b"") | st.just(claim_bytes(claims))),
        "agreement": draw(st.just(b"") | st.just(claim_bytes(claims[:, 0]))),
        "certain": draw(places) if canons else -1,
        "certainty": score_bytes([draw(reals), draw(reals)]) if canons else b"",
        "ref": draw(st.none() | texts.filter(bool)),
        "topics": ("law",) if draw(st.booleans()) else (),
        "details": {"abstained": {"because": "x"}} if draw(st.booleans()) else {},
    }
    paid, paced = draw(st.booleans()), draw(st.booleans())
    asks, amount = draw(st.none() | places), draw(reals)
    kept = {"question": draw(st.none() | st.just(SECRET)), "answer": draw(st.none() | st.just(SECRET))}
    kept["canons"] = tuple(canons)

    def build(names=POOL, keep_text=True):
        pool = names[:size]
        added = (pool[0], SECRET, None) if keep_text else None
        place = PanelPlace(None if asks is None else pool[asks], 0.5, added, 2, (pool[0],))
        body = DecisionLine(
            **values,
            **(kept if keep_text else {}),
            peers=tuple(pool),
            costs={pool[0]: (amount, 1.0)} if paid else {},
            pacing=PacedDecision({pool[0]: (0.5, 0.1, 2.0)}, "b", 2) if paced else None,
            panel=place if panel else None,
        )
        return Line("decision", "d1", "d1", body)

    return build


def sample():
    body = DecisionLine(0.0, 1.0, 2.0, "r", POOL, 1, b"", score_bytes([0.5] * 12), (0,), 0.5, 1.0)
    return Line("decision", "d1", "d1", body)


def others():
    """One line of every other kind."""
    opening = OpenLine(POOL, 4, Settings(), {"name": "phi", "version": "1"}, True)
    said = Feedback("f", "d1", {"ann": 1.0, "cät": -0.5}, "ci", 5.0, True)
    charge = Charge(1.0, 1.0, 2.0, 3.0, 1.0, ("b", 2), True)
    return [
        open_line(opening, 7.0),
        feedback_line(said, "f~1", 3.0, Standing(0.5, 0.25, {"x": 0.1})),
        feedback_line(said, "f", 3.0),
        ref_line("trace", "d1"),
        Line("served", "d1/0", "d1", ServedLine("d1", "ann", 4.0, (0.5, 0.25), "bob", 0.75)),
        price_line("ann", Price(per_call=0.5), 0, 6.0),
        peer_line("ann", True, 8.0, 1, returning=True),
        reset_line("ann", 0.5, 2, 9.0),
        rename_line("ann", "eve", 1.0, 3, 9.0),
        revoke_line("ci", "ci", 9.5),
        revoke_line("ci", "ci", 9.6, undo=True),
        Line("forget", "d1+1", "", ForgetLine(("d1", "d2"), 10.0)),
        Line("decision", "d1", "d1", ForgottenLine(1.0, 2.0, 3.0, None, {"ann": charge})),
    ]


@given(decisions(), st.booleans())
def test_a_decision_comes_back(build, keep_text):
    line = build(keep_text=keep_text)
    back = line_of(record_of(line))
    assert back == line
    assert from_json(json.loads(json.dumps(to_json(line)))) == line
    found, body = decision_in(back), line.body
    assert found.peer == body.chosen
    for name in ("answer", "question", "confidence", "tick", "ref", "topics"):
        assert getattr(found, name) == getattr(body, name)
    given_ = {p: g for p, g in zip(body.peers, body.groups, strict=False) if g != -2}
    assert found.canons.keys() == given_.keys()
    assert list(found.features) == [body.peers[i] for i in body.described]
    assert list(found.scores) == list(body.peers)
    assert found.cost == (body.costs[body.peers[0]][0] if body.costs else None)
    assert found.phi.flags.writeable


@pytest.mark.parametrize("line", others(), ids=lambda line: line.kind)
def test_every_other_line_comes_back(line):
    assert line_of(record_of(line)) == line
    assert from_json(json.loads(json.dumps(to_json(line)))) == line


def test_feedback_comes_back():
    amended, plain = map(feedback_in, others()[1:3])
    assert amended == plain == Feedback("f", "d1", {"ann": 1.0, "cät": -0.5}, "ci", 5.0, True)


@given(decisions())
def test_a_renamed_peer_is_one_that_was_written_with_the_new_name(build):
    names = {"ann": "eve", "cät": "ann"}
    assert renamed(build(), names) == build([names.get(peer, peer) for peer in POOL])


@pytest.mark.parametrize(
    ("place", "peer"), [(1, "labels"), (4, "peer"), (5, "peer"), (6, "peer"), (7, "peer"), (12, "charges")]
)
def test_every_line_that_names_a_peer_renames_it(place, peer):
    line = others()[place]
    assert "ann" in repr(getattr(line.body, peer))
    new = renamed(line, {"ann": "zoe"})
    assert "ann" not in repr(getattr(new.body, peer))
    assert renamed(new, {"zoe": "ann"}) == line


@given(decisions())
def test_what_is_left_of_a_forgotten_line_has_no_text(build):
    line = build()
    assert SECRET not in encoded(line.body.left()).decode("latin-1")
    assert (SECRET in set(line.body.texts())) == (SECRET.encode() in encoded(line.body))
    assert SECRET.encode() not in encoded(build(keep_text=False).body)


def test_what_is_left_says_when_and_where_it_was():
    feedback, served = others()[1], others()[4]
    assert feedback.body.left() == ForgottenLine(5.0, 3.0)
    assert served.body.left() == ForgottenLine(4.0)
    assert others()[3].body.left() == ForgottenLine(0.0)
    assert all(line.body.left() is None for line in others()[5:12])


@given(decisions())
def test_blocks_of_another_size_are_refused(build):
    body = build().body
    for name, wrong in (("scores", b"\0"), ("phi", b"\0"), ("claims", b"\0"), ("labelled", ()), ("peer", 99)):
        with pytest.raises(ValueError, match="has another size"):
            replace(body, **{name: wrong}).refuse_other_sizes()
    body.refuse_other_sizes()


def test_bytes_that_are_no_line_are_named():
    with pytest.raises(StoreCorruptError, match="line 7 of the ledger is not a decision"):
        line_of(Record("decision", "d", "d", b"\xc1", None, 7))
    with pytest.raises(StoreVersionError, match="is a 'dream', which this version"):
        line_of(Record("dream", "d", "d", msgspec.msgpack.encode([99, 1]), None, 7))


def test_what_has_no_bytes_is_refused():
    for bad in ("\ud800", {1: 2}.keys(), 2**70):
        line = sample()
        with pytest.raises(InputError, match=r"cannot be written|not valid Unicode"):
            record_of(line._replace(body=replace(line.body, details={"x": bad})))


def test_the_class_of_a_line_is_looked_at_once(monkeypatch):
    line = peer_line("ann", True, 0.0, 1)
    written = to_json(line)
    from_json(written)
    monkeypatch.setattr(msgspec.structs, "_get_class_annotations", None)  # which takes milliseconds
    assert from_json(to_json(line)) == line
