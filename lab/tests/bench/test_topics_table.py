"""Streams played with their domains as topics, and the table of what that gains."""

import numpy as np
import pytest
from madeup import made_up

from sigma_lab.attack import counterfactual
from sigma_lab.bench.experiments.topics import drawn_pools, ordered, topics_table
from sigma_lab.bench.league import Setup
from sigma_lab.bench.play import RoutePlayer, play
from sigma_lab.streams import with_topics
from sigma_mem.errors import InputError
from sigma_mem.streams import Stream


def blind(n: int = 400) -> tuple[Stream, np.ndarray]:
    """Peers differ by domain, and φ does not tell the domains apart."""
    stream, _ = made_up(n)
    return stream, np.tile([0.6, 0.8], (n, 1))


def test_topics_are_the_domains_or_those_of_others() -> None:
    stream, _ = blind()
    true = [event.topics for event in with_topics(stream, "domain")]
    assert true == [(event.domain,) for event in stream]
    false = [event.topics for event in with_topics(stream, "shuffled", seed=1)]
    assert sorted(false) == sorted(true)
    assert 0.2 < np.mean([a == b for a, b in zip(true, false, strict=True)]) < 0.5
    assert false != [event.topics for event in with_topics(stream, "shuffled", seed=2)]
    attacked = counterfactual(with_topics(stream, "domain"), 0.9)
    assert [event.topics for event in attacked] == true
    with pytest.raises(InputError, match="got topics 'kind'; expected one of domain, shuffled"):
        with_topics(stream, "kind")  # type: ignore[arg-type]


def test_the_table_tells_what_topics_gain() -> None:
    stream, phis = blind()
    table = topics_table(stream, phis, ordered(stream, (0, 1)), (0.0,), adaptive=True)
    mean = table.values["mean"]["0"]
    route = {kind: mean[kind]["calibrated-route"] for kind in ("plain", "topics", "shuffled")}
    assert route["topics"] > route["plain"] + 0.1
    assert abs(route["shuffled"] - route["plain"]) < 0.04
    assert table.values["captured"]["0"]["topics"] > 0.6
    alone = topics_table(stream, phis, ordered(stream, (0, 1)), (0.0,)).values["mean"]["0"]
    assert alone["topics"]["calibrated-route"] == route["topics"]
    header, lines = table.header, table.rows
    assert [line[0] for line in lines] == ["CF@0 order 0", "CF@0 order 1", "CF@0 mean"]
    assert len(header) == len(lines[0]) == 9
    assert "below the per-domain oracle" in table.remarks[0]


def test_pools_are_drawn_as_the_option_draws_them() -> None:
    stream, phis = blind(60)
    parts = drawn_pools(stream, (2, 3), 2)
    assert list(parts) == [f"{k} peers, draw {s}" for k in (2, 3) for s in (0, 1)]
    table = topics_table(stream, phis, parts)
    assert len(table.values["parts"]) == 4
    assert len(table.header) == 6  # the route alone: no topics, topics, shuffled
    with pytest.raises(InputError, match="got a pool of 9; expected at most 4"):
        drawn_pools(stream, (9,), 1)


def test_an_exploring_route_has_topics() -> None:
    stream, phis = blind(300)
    right = {}
    for kind in ("domain", "shuffled"):
        with Setup().memory(stream.peers, 2) as memory:
            player = RoutePlayer(memory)
            chosen = next(iter(play(with_topics(stream, kind), phis, player).values()))
        right[kind] = (stream.labels()[np.arange(150, 300), chosen[150:]] > 0).mean()
    assert right["domain"] > right["shuffled"] + 0.1
