"""Values of a session as JSON."""

import json
import math

import pytest

from sigma_mem.serve.calls import body_response


@pytest.mark.parametrize("text", ["naïve", "half of a pair: \ud83d"])
def test_what_json_does_not_have_becomes_null_beside_any_text(text):
    body = {"text": text, "values": [0.1, math.nan, math.inf], "none": {"x": -math.inf}}
    response = body_response(body)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert json.loads(response.body) == {"text": text, "values": [0.1, None, None], "none": {"x": None}}
