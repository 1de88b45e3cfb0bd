import numpy as np
import pytest

from sigma_lab.train.data import EpisodeSettings, draw_episode
from sigma_mem.errors import InputError

LABELS = np.where(np.random.default_rng(0).random((60, 5)) < 0.5, 1.0, -1.0)
DOMAINS = np.arange(60) % 3
STILL = EpisodeSettings(length=40, changes=0, resets=0.0, flips=0.0)


def drawn(settings: EpisodeSettings, seed: int = 0):  # type: ignore[no-untyped-def]
    return draw_episode(LABELS, DOMAINS, settings, np.random.default_rng(seed))


def test_labels_follow_what_is_dealt() -> None:
    episode = drawn(EpisodeSettings(length=40))
    assert len(set(episode.events.tolist())) == 40
    np.testing.assert_array_equal(episode.labels, LABELS[episode.events[:, None], episode.dealt])


def test_the_deal_holds_within_a_domain_and_differs_between_domains() -> None:
    deals = set()
    for seed in range(8):
        episode = drawn(STILL, seed)
        for domain in range(3):
            rows = {tuple(row) for row in episode.dealt[DOMAINS[episode.events] == domain].tolist()}
            assert len(rows) == 1
            deals |= rows
    assert len(deals) > 8


def test_a_change_point_deals_anew() -> None:
    changed = 0
    for seed in range(20):
        episode = drawn(EpisodeSettings(length=60, changes=1, min_peers=5), seed)
        first = {tuple(row) for row in episode.dealt[DOMAINS[episode.events] == 0].tolist()}
        changed += len(first) == 2
    assert 3 < changed < 20  # about half of the episodes have a change-point


def test_seats_stay_within_bounds() -> None:
    seats = {
        drawn(EpisodeSettings(length=10, min_peers=2, max_peers=4), s).labels.shape[1] for s in range(30)
    }
    assert seats == {2, 3, 4}
    assert drawn(EpisodeSettings(length=10, min_peers=5, max_peers=9)).labels.shape[1] == 5


def test_flips_touch_only_what_is_written() -> None:
    shares = [
        (e.written != e.labels).mean()
        for e in (drawn(EpisodeSettings(length=60, flips=0.3), s) for s in range(9))
    ]
    assert 0.2 < np.mean(shares) < 0.4
    episode = drawn(STILL)
    np.testing.assert_array_equal(episode.written, episode.labels)


def test_missing_labels_write_nothing_and_are_not_contested() -> None:
    holes = LABELS.copy()
    holes[:, 0] = np.nan
    episode = draw_episode(holes, DOMAINS, EpisodeSettings(length=60, min_peers=5), np.random.default_rng(0))
    assert (episode.written[np.isnan(episode.labels)] == 0).all()
    assert len(episode.contested(0)) == 0


def test_resets_come_in_the_asked_share() -> None:
    resets = [drawn(EpisodeSettings(length=20, resets=0.5), seed).reset for seed in range(60)]
    some = [r for r in resets if r.any()]
    assert 15 < len(some) < 45
    assert any((r > 0).sum() == 1 and len(r) > 1 for r in some)
    assert any((r > 0).all() for r in some)


def test_contested_events_have_both() -> None:
    episode = drawn(STILL)
    for place in episode.contested(10):
        assert place >= 10
        assert {-1.0, 1.0} <= set(episode.labels[place].tolist())


@pytest.mark.parametrize(
    ("wrong", "says"),
    [({"min_peers": 1}, "expected 2"), ({"length": 1}, "length is 1"), ({"flips": 1.5}, "flips is 1.5")],
)
def test_bad_settings_are_refused(wrong: dict[str, float], says: str) -> None:
    with pytest.raises(InputError, match=says):
        EpisodeSettings(**wrong)  # type: ignore[arg-type]


def test_too_few_peers_are_refused() -> None:
    with pytest.raises(InputError, match="1 peers"):
        draw_episode(LABELS[:, :1], DOMAINS, STILL, np.random.default_rng(0))
