"""The status of a service, as a table: what users read of its pods."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kilonova.api.meta import Condition
from kilonova.api.serving import InferenceServiceStatus, ScalingStatus, names
from kilonova.serving.controllers.service.observed import ObservedService, Problem
from kilonova.serving.controllers.service.status import build_status
from kilonova.serving.gateway.model import ControlPlaneAddress
from kilonova.serving.resources import Pod, ServerSet, Service
from kilonova.serving.settings import ServingSettings
from tests.serving.builders.objects import LOCAL, SETTINGS, service

NOW = datetime(2026, 5, 1, tzinfo=UTC)
PROBLEM = Problem("NameTaken", "Service web belongs to another object")


def pod(
    name: str,
    *,
    ready: bool = True,
    group: str = "model",
    deleted: bool = False,
    entry: bool = True,
    status: Any = None,
) -> Pod:
    """A pod of a server, or without a group of the gateway."""
    labels = {names.ROLE: "server" if group else "gateway"}
    if group:
        labels |= {names.SERVER: group, "grove.io/podcliqueset-replica-index": name}
    if entry:
        labels[names.ENTRY] = "true"
    metadata: Any = {"name": name, "uid": name, "resourceVersion": "1", "labels": labels}
    if deleted:
        metadata["deletionTimestamp"] = "2026-05-01T00:00:00Z"
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    return msgspec.convert(
        {"metadata": metadata, "status": {"conditions": conditions, **(status or {})}}, Pod
    )


def gateway(name: str = "gw", *, ready: bool = True, status: Any = None) -> Pod:
    return pod(name, ready=ready, group="", entry=False, status=status)


def server_set(replicas: int, group: str = "model") -> ServerSet:
    metadata: Any = {"name": f"web-{group}", "uid": "s", "resourceVersion": "1"}
    metadata["labels"] = {names.SERVER: group}
    body = {"metadata": metadata, "spec": {"replicas": replicas}}
    return msgspec.convert(body, ServerSet)


def own_service(**fields: Any) -> Service:
    metadata = {"name": "web", "uid": "x", "resourceVersion": "1"}
    body = {"metadata": metadata, "spec": {"clusterIP": "10.96.1.2"}, **fields}
    return msgspec.convert(body, Service)


def status_of(
    *pods: Pod,
    replicas: int = 1,
    phase: str = "",
    problems: tuple[Problem, ...] = (),
    closed: bool = False,
    settings: ServingSettings = SETTINGS,
    group: Any = None,
    has_service: bool = True,
    found: Service | None = None,
    **spec: Any,
) -> InferenceServiceStatus:
    observed_service = service(group or {"name": "model", "runtime": "Triton"}, **spec)
    observed_service.status = InferenceServiceStatus(phase=phase)
    observed = ObservedService(
        observed_service,
        ControlPlaneAddress("c", 1),
        "t",
        server_sets=[server_set(replicas)],
        pods=pods,
        gateway_service=(found or own_service()) if has_service else None,
        gateway_problems=["auth: Secret keys does not exist"] if closed else [],
        is_gateway_closed=closed,
    )
    return build_status(observed, problems, settings, NOW)


def condition_of(status: InferenceServiceStatus, type_: str) -> Condition:
    return next(each for each in status.conditions if each.type == type_)


ELASTIC = {
    "name": "model",
    "runtime": "Triton",
    "autoscaling": {"minReplicas": 0, "maxReplicas": 3},
}


@pytest.mark.parametrize(
    ("status", "phase", "ready", "reason"),
    [
        (status_of(), "Pending", "False", "GatewayNotReady"),
        (status_of(gateway()), "Pending", "False", "NoReadyServer"),
        (status_of(pod("a")), "Pending", "False", "GatewayNotReady"),
        (status_of(gateway(), pod("a")), "Ready", "True", "ServersReady"),
        (status_of(gateway(), pod("a"), has_service=False), "Pending", "False", "ServiceMissing"),
        (status_of(gateway(), pod("a"), replicas=3), "Ready", "True", "ServersReady"),
        (status_of(gateway(), replicas=0, group=ELASTIC), "Idle", "True", "ScaledToZero"),
        (status_of(gateway(), replicas=0), "Idle", "False", "NoServers"),
        (
            status_of(gateway(), replicas=0, group=ELASTIC, paused=True),
            "Idle",
            "False",
            "NoServers",
        ),
        # A service that was ready and is not any more.
        (status_of(gateway(), phase="Ready"), "Degraded", "False", "NoReadyServer"),
        (status_of(pod("a"), phase="Ready"), "Degraded", "False", "GatewayNotReady"),
        (status_of(gateway(), pod("a", deleted=True)), "Pending", "False", "NoReadyServer"),
        # From zero it starts.
        (status_of(gateway(), phase="Idle"), "Pending", "False", "NoReadyServer"),
        (status_of(problems=(PROBLEM,)), "Failed", "False", "GatewayNotReady"),
        (status_of(gateway(), pod("a"), closed=True), "Pending", "False", "InvalidConfiguration"),
    ],
)
def test_phase_and_readiness(
    status: InferenceServiceStatus, phase: str, ready: str, reason: str
) -> None:
    condition = condition_of(status, "Ready")
    assert (status.phase, condition.status, condition.reason) == (phase, ready, reason)


def test_servers_are_counted_by_their_entry_pods() -> None:
    status = status_of(
        gateway(),
        pod("0"),
        pod("0", entry=False),
        pod("1", ready=False),
        pod("2", deleted=True),
        pod("other", group="elsewhere"),
        replicas=2,
    )
    [group] = status.servers
    assert (group.desired, group.replicas, group.ready, group.draining) == (2, 2, 1, 1)
    assert (status.ready, status.replicas, status.gateways) == (1, 2, 1)


WAITING = {"name": "server", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}
STARTING = {"name": "server", "state": {"waiting": {"reason": "PodInitializing"}}}
EXITED = {"name": "server", "state": {"terminated": {"exitCode": 3}}}
DOWNLOADING = {"name": "download-models", "state": {"running": {}}}
FAILED = {
    "exitCode": 1,
    "reason": "Error",
    "message": "fetching\nkilonova: s3://models: the object store does not answer\n",
}
CRASHED = {
    "name": "download-models",
    "restartCount": 3,
    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
    "lastState": {"terminated": FAILED},
}
CAUSE = (
    "container download-models exited with code 1: "
    "kilonova: s3://models: the object store does not answer"
)
KILLED = {
    "name": "server",
    "restartCount": 1,
    "state": {"running": {}},
    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
}
UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "no node has a GPU",
}


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        ((), "waiting for pods"),
        ((pod("a", ready=False),), "a is starting"),
        (
            (pod("a", ready=False, status={"conditions": [UNSCHEDULABLE]}),),
            "a: Unschedulable: no node has a GPU",
        ),
        (
            (pod("a", ready=False, status={"containerStatuses": [WAITING]}),),
            "a: ImagePullBackOff: no",
        ),
        (
            (pod("a", ready=False, status={"containerStatuses": [EXITED]}),),
            "a: container server exited with code 3",
        ),
        (
            (
                pod(
                    "a",
                    ready=False,
                    status={
                        "initContainerStatuses": [DOWNLOADING],
                        "containerStatuses": [STARTING],
                    },
                ),
            ),
            "a: downloading models",
        ),
        (
            (pod("a", ready=False, status={"initContainerStatuses": [CRASHED]}),),
            f"a: CrashLoopBackOff: {CAUSE}",
        ),
        (
            (
                pod(
                    "a",
                    ready=False,
                    status={"initContainerStatuses": [{**CRASHED, "state": {"running": {}}}]},
                ),
            ),
            f"a: downloading models, after {CAUSE}",
        ),
        (
            (
                pod(
                    "a",
                    ready=False,
                    status={"initContainerStatuses": [{**CRASHED, "state": WAITING["state"]}]},
                ),
            ),
            "a: ImagePullBackOff: no",
        ),
        (
            (pod("a", ready=False, status={"containerStatuses": [KILLED]}),),
            "a: container server exited with code 137: OOMKilled",
        ),
        (
            tuple(
                pod(name, ready=False, status={"containerStatuses": [WAITING]}) for name in "bac"
            ),
            "a: ImagePullBackOff: no (and 2 more)",
        ),
    ],
)
def test_group_says_what_it_waits_for(pods: tuple[Pod, ...], message: str) -> None:
    status = status_of(gateway(), *pods, replicas=3)
    assert status.servers[0].message == message
    assert message in condition_of(status, "ServersReady").message


def test_gateway_says_what_it_waits_for() -> None:
    waiting = gateway(ready=False, status={"containerStatuses": [WAITING]})
    message = condition_of(status_of(waiting), "GatewayReady").message
    assert message == "gw: ImagePullBackOff: no"


def test_gateway_that_restarts_says_why_it_ended() -> None:
    crashed = gateway(ready=False, status={"containerStatuses": [{**CRASHED, "name": "envoy"}]})
    message = condition_of(status_of(crashed), "GatewayReady").message
    assert message == f"gw: CrashLoopBackOff: {CAUSE.replace('download-models', 'envoy')}"


def test_message_of_a_container_that_ended_is_shortened() -> None:
    ended = {"name": "server", "state": {"terminated": {"exitCode": 1, "message": "x" * 4096}}}
    crashed = pod("a", ready=False, status={"containerStatuses": [ended]})
    message = status_of(gateway(), crashed).servers[0].message
    assert message == f"a: container server exited with code 1: {'x' * 299}…"


def test_closed_gateway_says_which_secret_is_missing() -> None:
    condition = condition_of(status_of(gateway(), pod("a"), closed=True), "GatewayReady")
    assert condition.message == "requests are refused: auth: Secret keys does not exist"


@pytest.mark.parametrize(
    ("settings", "gateway_", "found", "url", "grpc"),
    [
        (
            SETTINGS,
            {},
            {},
            "http://web.team.svc.cluster.local:8000",
            "web.team.svc.cluster.local:8001",
        ),
        (LOCAL, {}, {}, "http://127.96.1.2:8000", "127.96.1.2:8001"),
        (LOCAL, {"httpPort": 0, "tls": {"secret": "s"}}, {}, "", "127.96.1.2:8001"),
        (
            SETTINGS,
            {"service": {"type": "LoadBalancer"}},
            {"spec": {"type": "LoadBalancer"}},
            "",
            "",
        ),
        (
            SETTINGS,
            {"service": {"type": "LoadBalancer"}, "tls": {"secret": "s"}},
            {
                "spec": {"type": "LoadBalancer"},
                "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}},
            },
            "https://192.0.2.7:8000",
            "192.0.2.7:8001",
        ),
        (
            SETTINGS,
            {"ingress": {"host": "web.example.com"}},
            {},
            "https://web.example.com",
            "web.example.com:443",
        ),
    ],
)
def test_addresses_are_those_that_clients_use(
    settings: ServingSettings, gateway_: Any, found: Any, url: str, grpc: str
) -> None:
    status = status_of(settings=settings, gateway=gateway_, found=own_service(**found))
    assert (status.url, status.grpc_address) == (url, grpc)
    assert status.service_address == "web.team.svc.cluster.local"


def test_what_the_autoscaler_wrote_is_kept() -> None:
    observed_service = service()
    scaling = (ScalingStatus("model", 3, "Demand", "because"),)
    observed_service.status = InferenceServiceStatus(scaling=scaling)
    observed = ObservedService(observed_service, ControlPlaneAddress("c", 1), "t")
    assert build_status(observed, (), SETTINGS, NOW).scaling == scaling


def test_time_of_a_condition_is_when_its_status_changed() -> None:
    first = status_of(gateway(), pod("a"))
    observed_service = service()
    observed_service.status = first
    observed = ObservedService(
        observed_service,
        ControlPlaneAddress("c", 1),
        "t",
        server_sets=[server_set(2)],
        pods=[gateway(), pod("a")],
        gateway_service=own_service(),
    )
    later = build_status(observed, (), SETTINGS, datetime(2026, 5, 2, tzinfo=UTC))
    assert condition_of(later, "Ready").message == "model: 1 of 2"
    assert condition_of(later, "Ready").last_transition_time == "2026-05-01T00:00:00Z"
