"""A peer's own name passes through, and so do embeddings."""

import openai
import pytest

from serve.gateway.conftest import ASK, memory_of
from serve.gateway.upstreams import cuts_the_stream, fails, says


def test_a_peers_own_name_passes_through_without_a_decision(start):
    gateway = start({"ann": says("391"), "team/bob": says("381")}, peers={"ann": {"output_price": 2.0}})
    create = gateway.client.chat.completions.with_raw_response.create
    raw = create(model="team/bob", messages=ASK, temperature=0.5)
    answer = raw.parse()
    assert (answer.model, answer.id, answer.choices[0].message.content) == ("team/bob", "upstream-1", "381")
    assert raw.headers["x-sigma-mem-peer"] == "team/bob"
    assert "x-sigma-mem-decision" not in raw.headers
    assert create(model="ann", messages=ASK).headers["x-sigma-mem-cost"] == "1e-05"
    chunks = list(gateway.create(model="ann", messages=ASK, stream=True))
    assert {c.model for c in chunks} == {"ann"}
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "391 "
    assert memory_of(gateway).events == 0


def test_what_a_named_peer_says_of_the_request_is_passed_on(start):
    gateway = start(
        {
            "refuses": fails("422 Unprocessable Entity", {"detail": "no such field"}),
            "fails": fails("503 Service Unavailable"),
            "cuts": cuts_the_stream,
        }
    )
    with pytest.raises(openai.UnprocessableEntityError, match="no such field"):
        gateway.create(model="refuses", messages=ASK)
    with pytest.raises(openai.InternalServerError) as error:
        gateway.create(model="fails", messages=ASK)
    assert error.value.status_code == 502
    with pytest.raises(openai.APIError, match="broke off"):
        list(gateway.create(model="cuts", messages=ASK, stream=True))


def test_a_named_peer_that_limits_its_rate_says_how_long_to_wait(start):
    gateway = start(
        {
            "asks": fails("429 Too Many Requests", headers="retry-after: 7\r\n"),
            "odd": fails("429 Too Many Requests", headers="retry-after: soon\r\n"),
        }
    )
    for call in (
        lambda model: gateway.create(model=model, messages=ASK),
        lambda model: gateway.create(model=model, messages=ASK, stream=True),
        lambda model: gateway.client.embeddings.create(model=model, input="x"),
    ):
        for model, wait in (("asks", "7"), ("odd", "5")):
            with pytest.raises(openai.RateLimitError, match=f"{model} limits its rate") as error:
                call(model)
            assert error.value.response.headers["retry-after"] == wait
    with pytest.raises(openai.InternalServerError) as error:  # nobody answered, whatever the reasons
        gateway.create(model="sigma-mem", messages=ASK)
    assert error.value.status_code == 502


def test_embeddings_pass_through_to_the_peer_they_name(start):
    gateway = start({"ann": says("391")}, peers={"ann": {"model": "embed-3", "input_price": 1.0}})
    raw = gateway.client.embeddings.with_raw_response.create(
        model="ann",
        input="cat",
        encoding_format="float",
        extra_body={"unknown": [1], "sigma_mem": {"namespace": "default"}},
    )
    answer = raw.parse()
    assert (answer.model, answer.data[0].embedding) == ("ann", [1.0])
    assert raw.headers["x-sigma-mem-cost"] == "3e-06"
    (path, _, body) = gateway.servers["ann"].requests[0]
    assert path == "/v1/embeddings"
    assert body == {"model": "embed-3", "input": "cat", "encoding_format": "float", "unknown": [1]}
    with pytest.raises(openai.NotFoundError):
        gateway.client.embeddings.create(model="sigma-mem", input="cat")


def test_a_service_without_upstreams_has_no_models(start):
    gateway = start({})
    assert list(gateway.client.models.list()) == []
    with pytest.raises(openai.NotFoundError):
        gateway.create(model="sigma-mem", messages=ASK)
