"""Lines come back, a renamed peer is one that was written so, and what is forgotten leaves no text."""

import json

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sigma_mem.answers.features import FEATURES
from sigma_mem.errors import InputError, StoreCorruptError, StoreVersionError
from sigma_mem.events import Decision, Feedback
from sigma_mem.ledger.costs import Price, price_line
from sigma_mem.ledger.decision import decision_in, decision_line, feedback_in, feedback_line
from sigma_mem.ledger.lines import (
    Charge,
    ForgottenLine,
    Line,
    OpenLine,
    forget_line,
    open_line,
    peer_line,
    ref_line,
    rename_line,
    renamed,
    reset_line,
    revoke_line,
    served_line,
    single_precision,
)
from sigma_mem.ledger.records import encoded, from_json, line_of, record_of, to_json
from sigma_mem.memory import Settings
from sigma_mem.memory.combination import Standing
from sigma_mem.store.base import Record

POOL = ("ann", "bob", "cät", "dan")
SECRET = "a secret of this task"
reals = st.floats(allow_nan=False, allow_infinity=False, width=32)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def decisions(draw, names=POOL):
    """A decision and what its line keeps beside it; the same draws give the same line for any names."""
    pool = names[: draw(st.integers(1, len(names)))]
    places = st.integers(0, len(pool) - 1)
    asked = draw(st.lists(places, unique=True).map(sorted))
    canons = {pool[i]: draw(st.none() | st.sampled_from(["4", SECRET, "é"])) for i in asked}
    readable = [peer for peer, canon in canons.items() if canon is not None]
    rows = {peer: [draw(st.integers(0, 90_000)) / 1e4 for _ in FEATURES] for peer in readable[1:]}
    chosen = draw(st.none() | places)
    details = {"abstained": {"because": "x"}} if draw(st.booleans()) else {}
    if draw(st.booleans()):
        panel = {"next": draw(st.none() | places.map(pool.__getitem__)), "change": draw(reals)}
        panel |= {"added": [pool[0], SECRET, None], "planned": 2, "fair": list(pool[:1])}
        details["panel"] = panel
    by_peer = [dict(zip(pool, [draw(reals) for _ in pool], strict=True)) for _ in range(3)]
    decision = Decision(
        id="d1",
        event="d1",
        read=draw(texts),
        phi=single_precision(np.array(draw(st.lists(reals, max_size=4)))),
        peer=None if chosen is None else pool[chosen],
        answer=draw(st.none() | st.just(SECRET)),
        scores=by_peer[0],
        probs=by_peer[1],
        effective=by_peer[2],
        confidence=draw(reals),
        propensity=draw(reals),
        tick=draw(reals),
        time=draw(reals),
        question=draw(st.none() | st.just(SECRET)),
        canons=canons,
        features=rows,
        reads={"m-vote": pool[draw(places)]} if asked and draw(st.booleans()) else {},
        details=details,
        ref=draw(st.none() | texts.filter(bool)),
        topics=("law",) if draw(st.booleans()) else (),
    )
    half = st.floats(width=16, allow_nan=False)
    claims = np.array([[draw(half), draw(half)] for _ in pool], dtype=np.float16)
    kept = {
        "claims": draw(st.none() | st.just(claims)),
        "confidence_claims": [pool[draw(places)], draw(reals), draw(reals)] if asked else (),
        "agreement": draw(st.none() | st.just(claims[:, 0])),
        "costs": {pool[0]: (draw(reals), draw(reals))} if draw(st.booleans()) else {},
        "pacing": {"budget": "b", "period": 2, "at": {pool[0]: [0.5, 0.1, 2.0]}}
        if draw(st.booleans())
        else None,
    }
    labelled = [draw(st.integers(0, 5)) for _ in pool]
    return decision, kept, labelled, pool


def made(parts, keep_text=True):
    decision, kept, labelled, _ = parts
    return decision_line(decision, 3.0, labelled, keep_text, **kept)


def others():
    """One line of every other kind."""
    opening = OpenLine(POOL, 4, Settings(), {"name": "phi", "version": "1"}, True)
    said = Feedback("f", "d1", {"ann": 1.0, "cät": -0.5}, "ci", 5.0, True)
    phi = np.zeros(2)
    one = dict.fromkeys(POOL, 0.5)
    route = decision_line(
        Decision("d1", "d1", "r", phi, "bob", None, one, one, one, 0.5, 1.0, 1.0, 2.0), 0.0, [0] * 4
    )
    return [
        open_line(opening, 7.0),
        feedback_line(said, "f~1", 3.0, Standing(0.5, 0.25, {"x": 0.1})),
        feedback_line(said, "f", 3.0),
        ref_line("trace", "d1"),
        served_line(route, "ann", 0, 4.0, (0.5, 0.25), 0.75, None),
        price_line("ann", Price(per_call=0.5), 0, 6.0),
        peer_line("ann", True, 8.0, 1, returning=True),
        reset_line("ann", 0.5, 2, 9.0),
        rename_line("ann", "eve", 1.0, 3, 9.0),
        revoke_line("ci", "ci", 9.5),
        revoke_line("ci", "ci", 9.6, undo=True),
        forget_line(["d1", "d2"], 10.0),
        Line(
            "decision",
            "d1",
            "d1",
            ForgottenLine(1.0, 2.0, 3.0, None, {"ann": Charge(1.0, 1.0, 2.0, 3.0, 1.0, ("b", 2), True)}),
        ),
    ]


@given(decisions(), st.booleans())
def test_a_decision_comes_back(parts, keep_text):
    line = made(parts, keep_text)
    back = line_of(record_of(line))
    assert back == line
    assert from_json(json.loads(json.dumps(to_json(line)))) == line
    decision, found = parts[0], decision_in(back)
    if keep_text:
        cost = sum(amount for amount, _ in parts[1]["costs"].values()) if parts[1]["costs"] else None
        assert found.to_dict() | {"cost": cost} == decision.to_dict() | {"cost": cost}
        assert found.cost == pytest.approx(cost)
    assert found.phi.flags.writeable


@pytest.mark.parametrize("line", others(), ids=lambda line: line.kind)
def test_every_other_line_comes_back(line):
    assert line_of(record_of(line)) == line
    assert from_json(json.loads(json.dumps(to_json(line)))) == line


def test_feedback_comes_back():
    amended, plain = others()[1:3]
    assert (
        feedback_in(amended)
        == feedback_in(plain)
        == Feedback("f", "d1", {"ann": 1.0, "cät": -0.5}, "ci", 5.0, True)
    )


@settings(max_examples=60)
@given(st.data())
def test_a_renamed_peer_is_one_that_was_written_with_the_new_name(data):
    names = {"ann": "eve", "cät": "ann"}
    parts = data.draw(decisions())
    decision, kept, labelled, _ = parts

    def new(value):
        if isinstance(value, dict):
            return {names.get(key, key): new(inner) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(new(inner) for inner in value)
        return names.get(value, value) if isinstance(value, str) else value

    plain = {
        name: getattr(decision, name)
        for name in ("peer", "scores", "probs", "effective", "canons", "features", "reads")
    }
    again = Decision(
        **{
            **{f: getattr(decision, f) for f in decision.__slots__},
            **{k: new(v) for k, v in plain.items()},
            "details": new(decision.details),
        }
    )
    expected = decision_line(
        again,
        3.0,
        labelled,
        **{k: new(v) if isinstance(v, dict | list | tuple) else v for k, v in kept.items()},
    )
    assert renamed(made(parts), names) == expected


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
def test_what_is_left_of_a_forgotten_line_has_no_text(parts):
    line = made(parts)
    assert SECRET not in encoded(line.body.left()).decode("latin-1")
    assert (SECRET in set(line.body.texts())) == (SECRET.encode() in encoded(line.body))
    assert SECRET.encode() not in encoded(made(parts, keep_text=False).body)


def test_what_is_left_says_when_and_where_it_was():
    feedback, served = others()[1], others()[4]
    assert feedback.body.left() == ForgottenLine(5.0, 3.0)
    assert served.body.left() == ForgottenLine(4.0)
    assert others()[3].body.left() == ForgottenLine(0.0)
    assert all(line.body.left() is None for line in others()[5:12])


@given(decisions())
def test_blocks_of_another_size_are_refused(parts):
    body = made(parts).body
    for name, wrong in (("scores", b"\0"), ("phi", b"\0"), ("claims", b"\0"), ("labelled", ()), ("peer", 99)):
        with pytest.raises(ValueError, match="has another size"):
            replace(body, **{name: wrong}).refuse_other_sizes()
    body.refuse_other_sizes()


def test_bytes_that_are_no_line_are_named():
    with pytest.raises(StoreCorruptError, match="line 7 of the ledger is no decision"):
        line_of(Record("decision", "d", "d", b"\xc1", None, 7))
    with pytest.raises(StoreVersionError, match="is a 'dream', which this version"):
        line_of(Record("dream", "d", "d", msgspec.msgpack.encode([99, 1]), None, 7))


def test_what_has_no_bytes_is_refused():
    for bad in ("\ud800", {1: 2}.keys(), 2**70):
        line = made((*sample(), POOL))
        with pytest.raises(InputError, match=r"cannot be written|not valid Unicode"):
            record_of(line._replace(body=replace(line.body, details={"x": bad})))


def sample():
    one = dict.fromkeys(POOL, 0.5)
    return Decision("d1", "d1", "r", np.zeros(2), "bob", None, one, one, one, 0.5, 1.0, 1.0, 2.0), {}, [0] * 4
