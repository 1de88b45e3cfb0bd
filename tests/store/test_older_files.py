"""A file of an earlier release opens in this one, says the same, and goes on."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from sigma_mem import SigmaMem

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize("name", sorted(file.name[:-6] for file in FIXTURES.glob("*.db.gz")))
def test_a_file_of_an_earlier_release_opens_with_the_same_state(tmp_path: Path, name: str) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(gzip.decompress((FIXTURES / f"{name}.db.gz").read_bytes()))
    then = json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))
    with SigmaMem(path=path) as mem:
        tenant = mem.namespace("tenant é")
        for opened in (mem, tenant):
            said = then[opened._namespace]
            assert len(list(mem.store.records(opened._namespace))) == then["lines"][opened._namespace]
            assert (list(opened.peers), opened.events) == (said["peers"], said["events"])
            assert [d.id for d in opened.decisions(100)] == said["decisions"]
            assert [[s.name, s.lines, s.revoked] for s in opened.sources()] == said["sources"]
            for state in (opened.state, opened.replayed().state):
                for i, phi in enumerate(np.eye(4)):
                    # p̂ has a claim at a fast rate since then, which moves it by up to 2.5e-4 here.
                    np.testing.assert_allclose(state.read(phi).prob, said["prob"][i], atol=3e-4)
                    np.testing.assert_allclose(state.read(phi).score, said["score"][i], rtol=1e-9, atol=1e-15)
                np.testing.assert_allclose(state.G, said["G"], rtol=1e-9, atol=1e-12)
        first = mem.decision(then["first"])
        assert mem.labels(first.id) == then["labels"]
        assert "ann" in str(mem.explain(said_last(then), peer="ann"))
        mem.feedback(mem.vote("?", {"ann": "1", "cat": "2", "dan": "2"}, phi=np.eye(4)[0]).id, {"ann": True})
        assert mem.replayed().state.pack().keys() == mem.state.pack().keys()
        for key, array in mem.replayed().state.pack().items():
            np.testing.assert_array_equal(array, mem.state.pack()[key])


def said_last(then: dict[str, dict[str, list[str]]]) -> str:
    return then["default"]["decisions"][0]
