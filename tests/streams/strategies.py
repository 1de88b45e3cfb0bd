"""Streams as hypothesis draws them: any number of peers, missing answers, missing and soft labels."""

from __future__ import annotations

from hypothesis import strategies as st

from sigma_mem.events import Answer, Event
from sigma_mem.streams import Stream

PEERS = ("ada", "bob", "cyd", "dan")
texts = st.text(st.characters(codec="utf-8"), max_size=12)
labels = st.one_of(st.sampled_from([1.0, -1.0]), st.floats(-1, 1))
groups = st.sampled_from(["x", "y", ""])


@st.composite
def events(draw: st.DrawFn, event_id: str, peers: tuple[str, ...]) -> Event:
    answering = [p for p in peers if draw(st.integers(0, 9))] or [peers[0]]
    answers = {p: Answer(draw(texts), draw(st.none() | texts)) for p in answering}
    labelled = {p: draw(labels) for p in answering if draw(st.integers(0, 4))}
    reference = draw(st.none() | texts)
    return Event(event_id, draw(texts), answers, labelled, draw(groups), draw(groups), reference)


@st.composite
def streams(draw: st.DrawFn, min_events: int = 0) -> Stream:
    peers = PEERS[: draw(st.integers(1, len(PEERS)))]
    count = draw(st.integers(min_events, 12))
    return Stream("drawn", peers, tuple(draw(events(f"e{i}", peers)) for i in range(count)))
