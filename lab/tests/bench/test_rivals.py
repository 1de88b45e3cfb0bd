"""Every rival speaks the protocol, learns an easy split, and takes partial labels."""

import sys

import numpy as np
import pytest

from sigma_lab.bench.rivals import RIVALS
from sigma_mem.errors import MissingExtraError

MODULES = {
    "paretobandit": "pareto_bandit",
    "mabwiser-linucb": "mabwiser.mab",
}


@pytest.mark.parametrize("name", sorted(RIVALS))
@pytest.mark.parametrize("explore", [False, True])
def test_it_learns_who_is_right_where(name: str, explore: bool) -> None:
    pytest.importorskip(MODULES[name], reason=f"the rival {name} is not installed")
    router = RIVALS[name](2, 4, 0, explore=explore)
    rng = np.random.default_rng(0)
    hits = []
    for t in range(400):
        phi = np.array([1.0, 0.0, 0.0, 0.3]) if rng.random() < 0.5 else np.array([0.0, 1.0, 0.0, 0.3])
        phi /= np.linalg.norm(phi)
        right = int(phi[1] > phi[0])  # the second peer is right on the second kind of task
        labels = np.where(np.arange(2) == right, 1.0, -1.0)
        chosen = router.choose(phi, np.full(2, True))
        if explore:  # bandit feedback: the chosen peer's label alone
            labels = np.where(np.arange(2) == chosen, labels, np.nan)
        router.learn(phi, labels, chosen)
        if t >= 200:
            hits.append(chosen == right)
    assert np.mean(hits) > 0.85


@pytest.mark.parametrize("name", sorted(RIVALS))
def test_no_label_is_no_update(name: str) -> None:
    pytest.importorskip(MODULES[name], reason=f"the rival {name} is not installed")
    router = RIVALS[name](3, 4, 0)
    phi = np.array([0.6, 0.8, 0.0, 0.0])
    for _ in range(20):
        router.learn(phi, np.array([-1.0, 1.0, -1.0]), 0)
    before = router.choose(phi, np.full(3, True))
    router.learn(phi, np.full(3, np.nan), 0)
    assert router.choose(phi, np.full(3, True)) == before == 1


@pytest.mark.parametrize("name", sorted(RIVALS))
@pytest.mark.parametrize("explore", [False, True])
def test_an_absent_peer_is_not_chosen(name: str, explore: bool) -> None:
    pytest.importorskip(MODULES[name], reason=f"the rival {name} is not installed")
    router = RIVALS[name](3, 4, 0, explore=explore)
    phi = np.array([0.6, 0.8, 0.0, 0.0])
    for _ in range(30):
        chosen = router.choose(phi, np.array([True, False, True]))
        assert chosen != 1
        router.learn(phi, np.array([-1.0, 1.0, 0.5]), chosen)
    assert router.choose(phi, np.array([True, False, False])) == 0
    if not explore:
        assert router.choose(phi, np.full(3, True)) == 1


@pytest.mark.parametrize("name", sorted(RIVALS))
def test_a_missing_rival_names_the_command(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, MODULES[name], None)
    with pytest.raises(MissingExtraError, match=r"pip install 'sigma-lab\[rivals\]'"):
        RIVALS[name](2, 4, 0)
