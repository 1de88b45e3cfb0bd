"""OTLP/HTTP: evaluations that OpenTelemetry reports (``gen_ai.evaluation.result``) are feedback."""

from base64 import b64decode
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from sigma_mem.extras import require
from sigma_mem.scores import Metric, record
from sigma_mem.scores.readers import otlp
from sigma_mem.serve.calls import Context, id_of_caller
from sigma_mem.serve.failures import RefusedError
from sigma_mem.serve.gateway.protocol import bad_request, own_id, read_json
from sigma_mem.serve.guard import namespace_for, needs, principal_of
from sigma_mem.serve.memories import gunzipped
from sigma_mem.serve.routes import PlainRoute

_PROTOBUF = "application/x-protobuf"


def evaluation_routes(context: Context) -> APIRouter:
    """``/v1/logs``, where exporters of OpenTelemetry send logs; what is no evaluation is left alone."""
    routes, config = APIRouter(tags=["gateway"], route_class=PlainRoute), context.config
    metrics = dict(Metric.parse(text) for text in config.metrics)

    @routes.post(
        "/v1/logs", summary="Take evaluations as OpenTelemetry exports them.", response_class=Response
    )
    @needs("write")
    async def take_evaluations(request: Request) -> Response:
        if not metrics:
            raise RefusedError(
                404, "not_found", "no metrics are configured; name those that count in `metrics`"
            )
        who, kind = principal_of(request), request.headers.get("content-type", "").partition(";")[0]
        raw = await request.body()
        if request.headers.get("content-encoding") == "gzip":
            raw = gunzipped(raw, config.limits.body_bytes)
        body = _from_protobuf(raw) if kind == _PROTOBUF else read_json(raw)
        try:
            found = list(otlp(body))
        except (KeyError, TypeError, AttributeError, ValueError):
            raise bad_request("the body is no ExportLogsServiceRequest of OTLP") from None
        scores = [s._replace(ref=own_id(s.ref), id=id_of_caller(who, s.id) or s.id) for s in found]
        namespace = namespace_for(request, request.headers.get("x-sigma-mem-namespace"), config.namespace)
        memory, origin = await context.memories.get(namespace), f"otlp/{who.name}"
        done = await memory.slow(lambda mem: record(mem, scores, metrics, origin))
        context.metrics.feedback.inc(done.taken)
        context.audit.wrote(who, "evaluations", namespace, taken=done.taken)
        return Response(b"" if kind == _PROTOBUF else b"{}", media_type=kind or "application/json")

    return routes


def _from_protobuf(raw: bytes) -> dict[str, Any]:
    """A request of OTLP as its JSON form."""
    purpose = "OTLP as protobuf (send http/json, or install it)"
    logs = require("opentelemetry.proto.collector.logs.v1.logs_service_pb2", extra="otel", purpose=purpose)
    protobuf = require("google.protobuf.json_format", extra="otel", purpose=purpose)
    errors = require("google.protobuf.message", extra="otel", purpose=purpose)
    try:
        body: dict[str, Any] = protobuf.MessageToDict(logs.ExportLogsServiceRequest.FromString(raw))
    except errors.DecodeError:
        raise bad_request("the body is no ExportLogsServiceRequest of OTLP") from None
    for resource in body.get("resourceLogs", ()):
        for scope in resource.get("scopeLogs", ()):
            for line in scope.get("logRecords", ()):
                if "spanId" in line:  # bytes, which protobuf's own JSON writes in base64 and OTLP's in hex
                    line["spanId"] = b64decode(line["spanId"]).hex()
    return body
