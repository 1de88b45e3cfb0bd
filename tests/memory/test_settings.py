import math

import pytest

from sigma_mem.errors import InputError
from sigma_mem.memory import Settings


def test_eta_defaults_to_one_minus_gamma():
    assert Settings(gamma=0.98).step == pytest.approx(0.02)
    assert Settings(gamma=0.98, eta=0.5).step == 0.5
    assert Settings(gamma=1.0).step == 1.0


def test_rates_are_minus_log_gamma():
    settings = Settings(gamma=0.9, gamma_g=0.8)
    assert math.exp(-settings.rate) == pytest.approx(0.9)
    assert math.exp(-settings.rate_g) == pytest.approx(0.8)


def test_half_life_takes_the_place_of_both_gammas():
    settings = Settings(decay="time", half_life=3600.0)
    assert math.exp(-settings.rate * 3600.0) == pytest.approx(0.5)
    assert settings.rate_g == settings.rate


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"gamma": 0.0}, "gamma is 0.0"),
        ({"gamma": 1.5}, "gamma is 1.5"),
        ({"gamma": math.nan}, "gamma is nan"),
        ({"gamma_g": -1.0}, "gamma_g is -1.0"),
        ({"eta": 0.0}, "eta is 0.0"),
        ({"eta": math.inf}, "eta is inf"),
        ({"eta_g": -0.1}, "eta_g is -0.1"),
        ({"strength": 0.0}, "strength is 0.0"),
        ({"prior": 1.0}, "prior is 1.0"),
        ({"decay": "never"}, "decay is 'never'"),
        ({"decay": "time"}, "half_life is None"),
        ({"half_life": 5.0}, "half_life is 5.0"),
        ({"decay": "time", "half_life": -1.0}, "half_life is -1.0"),
    ],
)
def test_impossible_settings_are_refused_by_name(arguments, named):
    with pytest.raises(InputError, match=named) as error:
        Settings(**arguments)
    assert "expected" in str(error.value)
