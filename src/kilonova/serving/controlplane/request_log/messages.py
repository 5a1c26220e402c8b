"""Envoy's messages of logged requests as values. It knows protobuf: it is not imported
before there is a service."""

from collections.abc import Iterator
from datetime import UTC
from typing import Any

from envoy.config.core.v3 import base_pb2
from envoy.service.accesslog.v3 import als_pb2

from kilonova.api.serving import TracedRequest
from kilonova.api.times import format_micro_time
from kilonova.serving.controlplane.request_log.requests import (
    describe_request,
    describe_status,
    find_model,
)
from kilonova.serving.gateway.config.request_headers import MODEL_HEADER
from kilonova.serving.gateway.control_plane_calls import TRACE_ID_TAG
from kilonova.serving.gateway.stat_names import parse_upstream_cluster

_messages: Any = als_pb2  # xds-protos has no types
_base: Any = base_pb2
_GRPC_STATUS = "grpc-status"
_DIGITS = 4


def decode_log(body: bytes) -> tuple[TracedRequest, ...]:
    """The requests in a message of a gateway."""
    message = _messages.StreamAccessLogsMessage.FromString(body)
    return tuple(_list_requests(message.http_logs.log_entry))


def encode_nothing(_: None) -> bytes:
    """The answer to a stream, which a gateway never waits for."""
    return b""


def _list_requests(entries: Any) -> Iterator[TracedRequest]:
    for entry in entries:
        common, request, response = entry.common_properties, entry.request, entry.response
        trace = common.custom_tags.get(TRACE_ID_TAG, "")
        if not trace:
            continue
        grpc_status = response.response_trailers.get(
            _GRPC_STATUS, response.response_headers.get(_GRPC_STATUS, "")
        )
        yield TracedRequest(
            trace_id=trace,
            time=format_micro_time(
                common.start_time.ToDatetime(UTC) + common.duration.ToTimedelta()
            ),
            group=parse_upstream_cluster(common.upstream_cluster),
            model=find_model(request.path, request.request_headers.get(MODEL_HEADER, "")),
            request=describe_request(
                _base.RequestMethod.Name(request.request_method), request.path, grpc_status
            ),
            status=describe_status(response.response_code.value, grpc_status),
            duration=_to_milliseconds(common.duration),
            first_byte=_measure(common, "time_to_first_downstream_tx_byte"),
            server_time=_measure(
                common, "time_to_last_upstream_rx_byte", "time_to_first_upstream_tx_byte"
            ),
        )


def _measure(common: Any, field: str, since: str = "") -> float | None:
    """A time of a request, in milliseconds; None if it did not come to that."""
    if not common.HasField(field) or (since and not common.HasField(since)):
        return None
    start = getattr(common, since).ToNanoseconds() if since else 0
    return _round((getattr(common, field).ToNanoseconds() - start) / 1e6)


def _to_milliseconds(duration: Any) -> float:
    return _round(duration.ToNanoseconds() / 1e6)


def _round(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
