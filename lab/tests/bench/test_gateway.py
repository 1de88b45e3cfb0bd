"""The gateway's timing: real servers for a moment; the numbers themselves are not tested."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sigma_lab.bench.gateway import GatewayTimings, measure_gateway
from sigma_mem.errors import InputError


def test_what_is_added_is_the_difference_of_the_medians() -> None:
    found = GatewayTimings(
        {"upstream": (0.001, 0.001, 0.009), "gateway": (0.003, 0.0035, 0.1)}, (0.001, 0.0012)
    )
    assert found.added("gateway") == pytest.approx(2.5)
    assert found.met
    assert not GatewayTimings({"upstream": (0.001,), "gateway": (0.0041,)}, (0.001,)).met
    assert found.table().remarks[0].endswith("met")
    assert "takes 1.10 ms" in found.table().remarks[1]
    assert found.table().rows[1] == ["gateway", "3.50", "98.07", "2.50"]


def test_a_short_run_calls_the_upstream_and_the_gateway() -> None:
    found = measure_gateway(calls=20)
    assert {who: len(seconds) for who, seconds in found.seconds.items()} == {"upstream": 20, "gateway": 20}
    assert found.added("gateway") > 0
    assert len(found.decisions) == 20
    assert "pip install 'litellm[proxy]'" in found.notes[0]
    json.dumps(found.table().values)


def test_an_environment_without_the_proxy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="make the environment"):
        measure_gateway(calls=20, litellm=tmp_path)
