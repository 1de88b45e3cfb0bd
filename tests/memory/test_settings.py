import json
import math
from dataclasses import asdict

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


def test_an_explicit_gamma_is_one_horizon():
    assert Settings().horizons == (0.95, 0.99, 0.998, 0.9995)
    assert Settings().gamma == 0.9995
    assert Settings(gamma=0.99).horizons == (0.99,)
    assert Settings(horizons=(0.9, 0.99)).gamma == 0.99


def test_horizons_relate_to_a_half_life_as_their_gammas_do():
    rates = Settings(decay="time", half_life=3600.0).horizon_rates
    assert math.exp(-rates[-1] * 3600.0) == pytest.approx(0.5)
    assert rates[0] / rates[-1] == pytest.approx(math.log(0.95) / math.log(0.9995))


@pytest.mark.parametrize(
    ("settings", "claims"),
    [
        (Settings(), 7),
        (Settings(regression=False), 5),
        (Settings(gamma=0.9), 2),
        (Settings(gamma=0.9, regression=False), 0),
    ],
)
def test_claims_are_of_two_estimators_and_of_every_horizon_and_the_local_one(settings, claims):
    assert settings.n_claims == claims


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"gamma": 0.0}, "gamma is 0.0"),
        ({"gamma": 1.5}, "gamma is 1.5"),
        ({"gamma": math.nan}, "gamma is nan"),
        ({"gamma": "0.9"}, "gamma is '0.9'"),
        ({"horizons": (0.9, "x")}, "gamma is 'x'"),
        ({"horizons": 0.9}, "horizons are 0.9"),
        ({"prior": None}, "prior is None"),
        ({"decay": "time", "half_life": "1 h"}, "half_life is '1 h'"),
        ({"horizons": (0.9, 0.5)}, "horizons are"),
        ({"horizons": (0.9, 1.5)}, "gamma is 1.5"),
        ({"gamma": 0.8, "horizons": (0.9,)}, "gamma 0.8"),
        ({"agreement": "no"}, "agreement is 'no'"),
        ({"agreement": None}, "agreement is None"),
        ({"regression": "no"}, "regression is 'no'"),
        ({"text_features": "no"}, "text_features is 'no'"),
        ({"trusted": 5}, "trusted is 5"),
        ({"trusted": None}, "trusted is None"),
        ({"gamma_g": -1.0}, "gamma_g is -1.0"),
        ({"eta": 0.0}, "eta is 0.0"),
        ({"eta": math.inf}, "eta is inf"),
        ({"eta_g": -0.1}, "eta_g is -0.1"),
        ({"strength": 0.0}, "strength is 0.0"),
        ({"strength": None}, "strength is None"),
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


@pytest.mark.parametrize("settings", [Settings(), Settings(gamma=0.9), Settings(trusted=())])
def test_settings_come_back_from_json(settings):
    assert Settings(**json.loads(json.dumps(asdict(settings)))) == settings


def test_trusted_sources_are_named_once():
    assert Settings().trusted == ("default",)
    for wrong in ("ci", ("ci", "ci"), ("",), (1,)):
        with pytest.raises(InputError, match="expected a tuple of distinct names of sources"):
            Settings(trusted=wrong)
