"""Made-up requests to every operation of the API: no 5xx, and every response fits what is documented."""

from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from serve.gateway.conftest import serving
from serve.gateway.upstreams import says, upstream
from sigma_mem.serve.app import create_app
from sigma_mem.serve.config import ServerConfig, Upstream

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = max(settings().max_examples // 16, 1)


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """Over a socket, with a gateway whose upstream answers, and a memory that has seen an event."""
    with upstream(says("391")) as model:
        path = tmp_path_factory.mktemp("schema") / "memory.db"
        upstreams = (Upstream(name="ann", base_url=model.url), Upstream(name="bob", base_url=model.url))
        app = create_app(ServerConfig(upstreams=upstreams, path=str(path), log="off"))
        with serving(app) as url:
            yield url


@pytest.fixture(scope="module")
def api_schema(service):
    return schemathesis.openapi.from_url(f"{service}/openapi.json", config=SchemathesisConfig())


@pytest.mark.parametrize(
    "mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["fits", "does not fit"]
)
def test_every_operation_does_what_it_says(api_schema, mode):
    operations = [found.ok() for found in api_schema.get_all_operations()]
    assert len(operations) > 25
    for operation in operations:
        try_out(operation, mode)


def try_out(operation, mode):
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
    @given(case=operation.as_strategy(generation_mode=mode), known=st.integers(0, 3))
    def one(case, known):
        if known and "namespace" in case.path_parameters and case.method != "PUT":
            case.path_parameters["namespace"] = "default"  # else few would get beyond the name
        case.call_and_validate(checks=CHECKS, timeout=60)  # seconds: other tests run, too

    with suppress(Unsatisfiable):  # nothing fits badly where anything fits
        one()
