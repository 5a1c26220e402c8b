"""Between JSON, values and the messages of Envoy's API."""

from importlib import import_module
from typing import Any

import pytest

from kilonova.serving.controlplane.ads.messages import (
    InvalidResource,
    decode_check,
    decode_request,
    encode_check,
    encode_resource,
    encode_response,
)
from kilonova.serving.controlplane.ads.snapshot import ResourceType
from kilonova.serving.controlplane.ads.stream import DiscoveryRequest, DiscoveryResponse
from kilonova.serving.controlplane.holds.answer import HoldOutcome, build_check_answer

# xds-protos has no types.
listener_pb2: Any = import_module("envoy.config.listener.v3.listener_pb2")
endpoint_pb2: Any = import_module("envoy.config.endpoint.v3.endpoint_pb2")
discovery_pb2: Any = import_module("envoy.service.discovery.v3.discovery_pb2")
external_auth_pb2: Any = import_module("envoy.service.auth.v3.external_auth_pb2")
router_pb2: Any = import_module("envoy.extensions.filters.http.router.v3.router_pb2")
http_connection_manager_pb2: Any = import_module(
    "envoy.extensions.filters.network.http_connection_manager.v3.http_connection_manager_pb2"
)

_PREFIX = "type.googleapis.com/envoy.extensions.filters"
_MANAGER = f"{_PREFIX}.network.http_connection_manager.v3.HttpConnectionManager"
_ROUTER = f"{_PREFIX}.http.router.v3.Router"


def test_resource_with_extensions_inside_of_extensions() -> None:
    router = {"name": "router", "typed_config": {"@type": _ROUTER, "suppress_envoy_headers": True}}
    manager = {"@type": _MANAGER, "stat_prefix": "x", "http_filters": [router]}
    filters = [{"name": "http", "typed_config": manager}]
    body = encode_resource(
        ResourceType.LISTENER, {"name": "l", "filter_chains": [{"filters": filters}]}
    )
    listener = listener_pb2.Listener.FromString(body)
    found = http_connection_manager_pb2.HttpConnectionManager()
    listener.filter_chains[0].filters[0].typed_config.Unpack(found)
    inner = router_pb2.Router()
    assert found.http_filters[0].typed_config.Unpack(inner)
    assert inner.suppress_envoy_headers


def test_endpoints_of_all_localities_are_in_the_message() -> None:
    def endpoint(address: str) -> dict[str, object]:
        socket = {"address": address, "port_value": 8000}
        return {"health_status": "HEALTHY", "endpoint": {"address": {"socket_address": socket}}}

    assignment = {
        "cluster_name": "server/main/http",
        "endpoints": [
            {"priority": 0, "lb_endpoints": [endpoint("10.0.0.1"), endpoint("10.0.0.2")]},
            {"priority": 1, "lb_endpoints": [endpoint("10.0.0.1")]},
        ],
    }
    body = encode_resource(ResourceType.ENDPOINTS, assignment)
    message = endpoint_pb2.ClusterLoadAssignment.FromString(body)
    assert message.cluster_name == "server/main/http"
    found = [
        [each.endpoint.address.socket_address.address for each in locality.lb_endpoints]
        for locality in message.endpoints
    ]
    assert found == [["10.0.0.1", "10.0.0.2"], ["10.0.0.1"]]
    assert [each.priority for each in message.endpoints] == [0, 1]


@pytest.mark.parametrize(
    "resource",
    [
        {"name": "l", "adress": {}},
        {"name": "l", "filter_chains": [{"filters": [{"typed_config": {"@type": _ROUTER + "x"}}]}]},
        {"name": "l", "per_connection_buffer_limit_bytes": "many"},
    ],
)
def test_resource_that_is_no_message_is_refused(resource: dict[str, object]) -> None:
    with pytest.raises(InvalidResource, match=r"^Listener: "):
        encode_resource(ResourceType.LISTENER, resource)


def test_request_of_a_gateway() -> None:
    message = discovery_pb2.DiscoveryRequest(
        version_info="v1", type_url=ResourceType.ROUTES.value, response_nonce="7"
    )
    message.resource_names.extend(["a", "b"])
    message.node.id, message.node.cluster = "web-gateway-0", "default/web"
    message.error_detail.message = "no such cluster"
    assert decode_request(message.SerializeToString()) == DiscoveryRequest(
        ResourceType.ROUTES,
        "v1",
        "7",
        ("a", "b"),
        "no such cluster",
        "web-gateway-0",
        "default/web",
    )


def test_request_for_another_type_is_none() -> None:
    message = discovery_pb2.DiscoveryRequest(type_url="type.googleapis.com/other")
    assert decode_request(message.SerializeToString()) is None


def test_response_to_a_gateway() -> None:
    response = DiscoveryResponse(ResourceType.CLUSTER, "v1", "7", (b"one", b"two"))
    message = discovery_pb2.DiscoveryResponse.FromString(encode_response(response))
    assert (message.version_info, message.nonce) == ("v1", "7")
    assert message.type_url == ResourceType.CLUSTER.value
    assert [each.value for each in message.resources] == [b"one", b"two"]


def test_check_names_what_is_waited_for() -> None:
    message = external_auth_pb2.CheckRequest()
    message.attributes.context_extensions["group"] = "main"
    assert decode_check(message.SerializeToString()) == {"group": "main"}


@pytest.mark.parametrize(
    ("outcome", "grpc_status", "http_status"),
    [
        (HoldOutcome.READY, 0, 0),
        (HoldOutcome.FULL, 8, 429),
        (HoldOutcome.TIMEOUT, 14, 503),
        (HoldOutcome.NO_SERVER, 14, 503),
    ],
)
def test_answer_to_a_check(outcome: HoldOutcome, grpc_status: int, http_status: int) -> None:
    answer = build_check_answer(outcome, "main", retry_after=5)
    message = external_auth_pb2.CheckResponse.FromString(encode_check(answer))
    assert message.status.code == grpc_status
    assert message.denied_response.status.code == http_status
    assert message.HasField("ok_response") == (outcome is HoldOutcome.READY)
    headers = {each.header.key: each.header.value for each in message.denied_response.headers}
    assert headers.get("retry-after") == (None if outcome is HoldOutcome.READY else "5")
