"""Hypothesis settings for every test: the machine may be busy, so no example has a deadline."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "sigma-mem",
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("sigma-mem")
