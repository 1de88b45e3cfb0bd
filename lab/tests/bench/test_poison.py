"""The poison experiment: who says what, and what is left of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from madeup import made_up
from partial import without_answers

from sigma_lab.bench.experiments.poison import (
    ATTACKS,
    CLEAN,
    FAKES,
    HONEST,
    LIAR,
    ROWS,
    SYBILS,
    Colluders,
    FloodedPlayer,
    lies,
    poison_table,
)
from sigma_lab.bench.league import DEFAULT
from sigma_lab.bench.play import play
from sigma_lab.bench.table import write_report
from sigma_lab.bench.updates import strongest
from sigma_lab.reveal import Everything
from sigma_mem.errors import InputError


def test_colluders_lie_beside_the_honest_and_do_not_always_speak_first() -> None:
    stream, _ = made_up(40)
    reveal = Colluders("peer1", SYBILS, Everything(HONEST))
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


def test_revoking_the_liars_leaves_nothing_of_their_lies() -> None:
    stream, phis = made_up(16)
    table = poison_table(stream, phis, revoke=True)
    assert table.worst == strongest(stream)[-1]
    assert [list(attacks) for attacks in table.correct.values()] == [list(ATTACKS)] * 2
    for way, found in table.differences.items():
        assert ("lies-20" in found) is (way == "named")  # elsewhere the liar is the only source
        assert max(found.values()) < 1e-12
        # Beside an honest source, liars that are silent change nothing.
        assert set(table.silent_costs(way, "sybils").values()) == {0.0}


def test_sybils_hardly_move_a_named_source() -> None:
    table = poison_table(*made_up(80), ("sybils",))
    for row in ROWS:
        named = table.costs("named", row)
        assert list(named) == [CLEAN, "sybils"]
        assert named["sybils"].difference > -0.05


@pytest.mark.parametrize("bare", [False, True])
def test_it_is_json_and_has_a_figure_also_without_answers(tmp_path: Path, bare: bool) -> None:
    stream, phis = made_up(12)
    table = poison_table(without_answers(stream) if bare else stream, phis, ("colluder",))
    assert ("calibrated-vote" in table.grid()[0]) is not bare
    json.dumps(table.values(), allow_nan=False)
    assert (tmp_path / "poison.png") in write_report(table, tmp_path)
    with pytest.raises(InputError, match="no attack 'bribe'"):
        poison_table(*made_up(12), ("bribe",))
