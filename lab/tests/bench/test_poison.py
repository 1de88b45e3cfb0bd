"""The poison experiment: who says what, and what it costs."""

import numpy as np
from madeup import made_up

from sigma_lab.bench.experiments.poison import (
    ATTACKS,
    CLEAN,
    FAKES,
    HONEST,
    LIAR,
    ROWS,
    SYBILS,
    FloodedPlayer,
    colluders,
    lies,
    poison_table,
)
from sigma_lab.bench.league import DEFAULT
from sigma_lab.bench.play import play
from sigma_lab.bench.updates import strongest
from sigma_lab.reveal import Everything


def test_colluders_lie_beside_the_honest_and_do_not_always_speak_first() -> None:
    stream, _ = made_up(40)
    reveal = colluders("peer1", SYBILS, Everything(HONEST))
    first = set()
    for place, event in enumerate(stream):
        shown = reveal.reveal(place, event, "peer0")
        said = {r.source: r.labels for r in shown}
        assert set(said) == {HONEST, *SYBILS}
        assert said[HONEST] == event.correct
        assert all(said[name] == lies(stream.peers, "peer1") for name in SYBILS)
        first.add(shown[0].source)
    assert first == {HONEST, SYBILS[0]}


def test_invented_events_are_in_the_memory_and_not_in_the_table() -> None:
    stream, phis = made_up(30)
    invented = np.repeat(phis, FAKES, axis=0)
    with DEFAULT.memory(stream.peers, phis.shape[1]) as memory:
        player = FloodedPlayer(memory, DEFAULT, invented, lies(stream.peers, "peer0"))
        choices = play(stream, phis, player, Everything(HONEST))
        assert memory.events == 30 * (1 + FAKES)
        assert len(choices["adaptive"]) == 30
        lines = [x.source for x in memory.store.records("default") if x.kind == "feedback"]
    assert (lines.count(LIAR), lines.count(HONEST)) == (30 * FAKES, 30)


def test_every_attack_is_played_with_the_honest_source_named_and_without() -> None:
    stream, phis = made_up(16)
    found = poison_table(stream, phis).values
    assert found["favoured"] == strongest(stream)[-1]
    assert [list(attacks) for attacks in found["sources"].values()] == [list(ATTACKS)] * 2


def test_sybils_hardly_move_a_named_source() -> None:
    found = poison_table(*made_up(80), ("sybils",)).values["sources"]["named"]
    assert list(found) == [CLEAN, "sybils"]
    assert all(found["sybils"][row]["cost"] > -0.05 for row in ROWS)
