"""The OpenTelemetry collector of the real parts receives spans."""

import json
import urllib.request
from pathlib import Path

from tests.harness.otel_collector import OtelCollector

TRACE = "5b8efff798038103d269b633813fc60c"
REQUEST, COMPUTE = "eee19b7ec3c1b174", "eee19b7ec3c1b175"


def test_spans_arrive_with_their_parents_and_attributes(otelcol_part: Path, tmp_path: Path) -> None:
    spans = [
        build_span("request", REQUEST, kind=2),
        build_span(
            "compute", COMPUTE, parentSpanId=REQUEST, attributes=[build_text("model", "add")]
        ),
    ]
    resource = {"attributes": [build_text("service.name", "server")]}
    body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}
    with OtelCollector.start(otelcol_part, tmp_path) as collector:
        assert post_json(f"{collector.http_endpoint}/v1/traces", body) == 200
        request, compute = (collector.wait_for_span(name) for name in ("request", "compute"))
    assert (request.trace_id, request.span_id, request.parent_id) == (TRACE, REQUEST, "")
    assert (compute.trace_id, compute.span_id, compute.parent_id) == (TRACE, COMPUTE, REQUEST)
    assert (request.service, request.kind, request.attributes) == ("server", "Server", {})
    assert (compute.service, compute.attributes) == ("server", {"model": "add"})


def build_span(name: str, id: str, **fields: object) -> dict[str, object]:
    times = {"startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    return {"traceId": TRACE, "spanId": id, "name": name, **times, **fields}


def build_text(key: str, value: str) -> dict[str, object]:
    return {"key": key, "value": {"stringValue": value}}


def post_json(url: str, body: object) -> int:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        return reply.status
