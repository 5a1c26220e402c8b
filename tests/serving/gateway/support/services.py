"""Builders of specs and states."""

from typing import Any

from kilonova.api.serving import Gateway, InferenceServiceSpec, ServerGroup, ServerPorts
from kilonova.serving.gateway.model import (
    ControlPlaneAddress,
    Endpoint,
    EndpointState,
    GatewayState,
)
from tests.harness.server_process import find_free_port

CONTROL_PLANE = ControlPlaneAddress("127.0.0.1", 1, http_port=1)
"""Nobody listens there: the control plane is away."""
TOKEN = "token-of-the-service"


def build_group(name: str = "main", **fields: Any) -> ServerGroup:
    """A group of servers with v2, over gRPC and HTTP."""
    return ServerGroup(name=name, **fields)


def build_spec(*groups: ServerGroup, gateway: Gateway | None = None, **fields: Any):
    """A service at the usual ports."""
    return InferenceServiceSpec(
        servers=groups or (build_group(),), gateway=gateway or Gateway(), **fields
    )


def build_gateway(**fields: Any) -> Gateway:
    """A gateway at free ports of this machine."""
    return Gateway(http_port=find_free_port(), grpc_port=find_free_port(), **fields)


def build_endpoint(
    pod: str = "main-0",
    *,
    address: str = "10.0.0.1",
    http_port: int = 8000,
    grpc_port: int = 8001,
    **fields: Any,
) -> Endpoint:
    """A server."""
    return Endpoint(pod=pod, address=address, http_port=http_port, grpc_port=grpc_port, **fields)


def build_state(
    endpoints: list[Endpoint] | dict[str, tuple[Endpoint, ...]] | None = None,
    *,
    group: str = "main",
    control_plane: ControlPlaneAddress = CONTROL_PLANE,
    **fields: Any,
) -> GatewayState:
    """The state of a gateway whose groups have some servers."""
    by_group = endpoints if isinstance(endpoints, dict) else {group: tuple(endpoints or ())}
    return GatewayState(endpoints=by_group, control_plane=control_plane, token=TOKEN, **fields)


HTTP_ONLY = ServerPorts(grpc=0)
GRPC_ONLY = ServerPorts(http=0)
DRAINING = EndpointState.DRAINING
