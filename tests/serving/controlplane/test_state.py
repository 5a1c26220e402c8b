"""What gateways are configured from, as a function of objects."""

from typing import Any

import pytest

from kilonova.api.meta import Condition, Metadata
from kilonova.api.serving import (
    Autoscaling,
    InferenceService,
    InferenceServiceSpec,
    ModelPlacement,
    ServerGroup,
    ServerPorts,
    names,
)
from kilonova.serving.controlplane.state import (
    GatewayAccess,
    ObservedService,
    build_gateway_state,
)
from kilonova.serving.gateway.model import (
    ControlPlaneAddress,
    Endpoint,
    EndpointState,
    GatewaySecrets,
    GatewayState,
)
from kilonova.serving.resources import Pod, PodStatus, ServerSet, ServerSetSpec

_ADDRESS = ControlPlaneAddress("127.0.0.1", 18000)
_ON_DEMAND = Autoscaling(max_replicas=4, min_replicas=0)


def build_pod(
    name: str = "web-main-0",
    *,
    role: str = "server",
    entry: bool = True,
    ready: bool = True,
    deleted: bool = False,
    ip: str = "10.0.0.1",
    phase: str = "Running",
    models: str | None = None,
) -> Pod:
    labels = {names.SERVICE: "web", names.ROLE: role}
    if role == "server":
        labels |= {names.SERVER: "main"} | ({names.ENTRY: "true"} if entry else {})
    metadata = Metadata(
        name=name,
        uid=name,
        resource_version="1",
        namespace="default",
        labels=labels,
        annotations={} if models is None else {names.LOADED_MODELS: models},
        deletion_timestamp="2026-11-19T12:00:00Z" if deleted else None,
    )
    condition = Condition("Ready", "True" if ready else "False")
    return Pod(metadata, status=PodStatus(phase=phase, pod_ip=ip, conditions=(condition,)))


def build_set(replicas: int) -> ServerSet:
    labels = {names.SERVICE: "web", names.SERVER: "main"}
    return ServerSet(
        Metadata(name="web-main", uid="1", resource_version="1", labels=labels),
        ServerSetSpec(replicas),
    )


def observe(
    *pods: Pod,
    replicas: int | None = None,
    cluster_ip: str = "",
    on_this_machine: bool = False,
    paused: bool = False,
    **group: Any,
) -> GatewayState:
    spec = InferenceServiceSpec(servers=(ServerGroup(name="main", **group),), paused=paused)
    service = InferenceService(Metadata(name="web", uid="1", resource_version="1"), spec)
    sets = [] if replicas is None else [build_set(replicas)]
    observed = ObservedService(service, pods, sets, cluster_ip)
    access = GatewayAccess(_ADDRESS, "token", on_this_machine)
    return build_gateway_state(observed, access, GatewaySecrets())


def test_ready_entry_pods_are_endpoints_with_the_ports_of_their_group() -> None:
    state = observe(
        build_pod("web-main-1", ip="10.0.0.2"),
        build_pod("web-main-0"),
        ports=ServerPorts(http=0, grpc=9001, metrics=9002),
    )
    assert state.endpoints["main"] == (
        Endpoint("web-main-0", "10.0.0.1", 0, 9001, 9002),
        Endpoint("web-main-1", "10.0.0.2", 0, 9001, 9002),
    )


@pytest.mark.parametrize(
    "pod",
    [
        build_pod(entry=False),
        build_pod(ready=False),
        build_pod(ip=""),
        build_pod(phase="Failed", deleted=True),
        build_pod(role="gateway"),
    ],
    ids=["worker of a server", "not ready", "no address", "ended", "gateway"],
)
def test_other_pods_are_no_endpoints(pod: Pod) -> None:
    assert observe(pod).endpoints == {"main": ()}


@pytest.mark.parametrize("ready", [True, False])
def test_pod_that_is_deleted_drains(ready: bool) -> None:
    (endpoint,) = observe(build_pod(deleted=True, ready=ready)).endpoints["main"]
    assert endpoint.state is EndpointState.DRAINING


@pytest.mark.parametrize(
    ("annotation", "models"),
    [(None, set()), ('["a", "b"]', {"a", "b"}), ("not JSON", set())],
)
def test_models_are_those_of_the_annotation(annotation: str | None, models: set[str]) -> None:
    pod = build_pod(models=annotation)
    (endpoint,) = observe(pod, model_placement=ModelPlacement()).endpoints["main"]
    assert endpoint.models == models


def test_group_without_placement_has_all_models_everywhere() -> None:
    (endpoint,) = observe(build_pod(models='["a"]')).endpoints["main"]
    assert endpoint.models is None


@pytest.mark.parametrize(
    ("starts", "observed"),
    [
        (True, {}),
        (True, {"replicas": 2}),
        (False, {"replicas": 0}),
        (True, {"replicas": 0, "autoscaling": _ON_DEMAND}),
        (False, {"replicas": 0, "autoscaling": _ON_DEMAND, "paused": True}),
        (True, {"replicas": 1, "autoscaling": _ON_DEMAND, "paused": True}),
        (False, {"replicas": 0, "autoscaling": Autoscaling(max_replicas=4)}),
    ],
)
def test_group_without_a_server_starts_if_one_is_to_come(
    starts: bool, observed: dict[str, Any]
) -> None:
    for pods in ([], [build_pod(ready=False)], [build_pod(deleted=True)]):
        assert observe(*pods, **observed).starting == ({"main"} if starts else set())
    assert observe(build_pod(), **observed).starting == set()


def test_ready_gateways_share_the_limits() -> None:
    gateways = [build_pod(f"web-gateway-{each}", role="gateway") for each in range(2)]
    assert observe(*gateways, build_pod("late", role="gateway", ready=False)).gateways == 2
    assert observe().gateways == 1


def test_gateway_of_this_machine_listens_at_the_address_of_its_service() -> None:
    assert observe(cluster_ip="10.96.3.4", on_this_machine=True).listen_addresses == ("127.96.3.4",)
    assert observe(cluster_ip="10.96.3.4").listen_addresses == ()
    assert observe(cluster_ip="None", on_this_machine=True).listen_addresses == ()
