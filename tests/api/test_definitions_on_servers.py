"""Our kinds on a server: served, listed, explained, scaled."""

from typing import Any

import pytest
import yaml

from kilonova.api.crds import load_definitions
from tests.api.manifests import collection, minimal_object
from tests.conftest import Api
from tests.harness.kubectl import Kubectl

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

CONDITION = {
    "type": "MinAvailableBreached",
    "status": "False",
    "reason": "SufficientReadyPods",
    "message": "",
    "lastTransitionTime": "2026-05-01T00:00:00Z",
}

PRINTED_COLUMNS: dict[str, tuple[str, Any, str, str]] = {
    "pcs": (
        "podcliquesets",
        {
            "availableReplicas": 1,
            "updatedReplicas": 2,
            "updateProgress": {
                "updatedPodCliquesCount": 3,
                "totalPodCliquesCount": 4,
                "updatedPodCliqueScalingGroupsCount": 5,
                "totalPodCliqueScalingGroupsCount": 6,
            },
        },
        "NAME REPLICAS AVAILABLE UPDATED PCLQS-UPDATED PCLQS-TOTAL PCSGS-UPDATED PCSGS-TOTAL AGE",
        "a 0 1 2 3 4 5 6",
    ),
    "pclq": (
        "podcliques",
        {
            "readyReplicas": 1,
            "scheduledReplicas": 2,
            "updatedReplicas": 3,
            "scheduleGatedReplicas": 4,
            "conditions": [CONDITION],
        },
        "NAME MINAVAIL REPLICAS READY SCHEDULED UPDATED GATED MINBREACHED AGE",
        "a 2 2 1 2 3 4 False",
    ),
    "pcsg": (
        "podcliquescalinggroups",
        {
            "availableReplicas": 1,
            "scheduledReplicas": 2,
            "updatedReplicas": 3,
            "conditions": [CONDITION],
            "updateProgress": {
                "updateStartedAt": "2026-05-01T00:00:00Z",
                "podCliqueSetGenerationHash": "h",
                "updatedPodCliquesCount": 4,
                "totalPodCliquesCount": 5,
            },
        },
        "NAME MINAVAIL REPLICAS AVAILABLE SCHEDULED UPDATED PCLQS-UPDATED PCLQS-TOTAL "
        "MINBREACHED AGE",
        "a 1 1 1 2 3 4 5 False",
    ),
    "pg": ("podgangs", {"phase": "Running"}, "NAME PHASE AGE", "a Running"),
    "gw": (
        "gpuworkloads",
        {
            "phase": "Running",
            "scheduledNode": "n1,n2",
            "pods": 2,
            "schedulingScore": 97,
            "conditions": [{**CONDITION, "type": "Scheduled", "message": "8 GPUs"}],
        },
        "NAME GPUS STATUS NODE PODS SCORE PRIORITY MESSAGE AGE",
        "a 8 Running n1,n2 2 97 0 8 GPUs",
    ),
    "gb": (
        "gpubudgets",
        {"currentSpend": "12.50", "utilizationPercent": 0.125},
        "NAME LIMIT SPENT UTILIZATION PERIOD AGE",
        "a 10000 12.50 0.125 Monthly",
    ),
    "iei": (
        "inferenceengineinstances",
        {
            "phase": "Degraded",
            "targetAgents": 108,
            "readyAgents": 107,
            "pendingAgents": 1,
            "conductorReady": False,
            "domain": "zone-a/rack-2",
            "repairs": {"recreated": 3},
        },
        "NAME MODEL TARGETAGENTS READYAGENTS PENDINGAGENTS PHASE DOMAIN REPAIRS AGE",
        "a llama32-90b 108 107 1 Degraded zone-a/rack-2 3",
    ),
    "ied": (
        "inferenceenginedeployments",
        {
            "replicas": 4,
            "readyReplicas": 3,
            "updatedReplicas": 2,
            "unallocatable": 1,
            "additionalReplicas": 0,
        },
        "NAME RELEASE DESIRED READY UPDATED UNALLOCATABLE ADDITIONAL AGE",
        "a llama-7 1 3 2 1 0",
    ),
    "gr": (
        "releases",
        {"health": "Failing", "masked": True, "clusters": [{"cluster": "dal1"}]},
        "NAME MODEL BUILD HEALTH MASKED AGE",
        "a llama32-90b b7 Failing true",
    ),
    "gd": (
        "deployments",
        {
            "release": "llama-7",
            "desired": 4,
            "observed": 3,
            "ready": 2,
            "unallocatable": 1,
            "currentWave": "canary",
            "relocated": 5,
            "clusters": [
                {"cluster": "dal1", "desired": 4, "observed": 3, "ready": 2, "reachable": True}
            ],
        },
        "NAME RELEASE DESIRED OBSERVED READY WAVE UNALLOCATABLE RELOCATED AGE",
        "a llama-7 4 3 2 canary 1 5",
    ),
    "isvc": (
        "inferenceservices",
        {
            "phase": "Ready",
            "ready": 2,
            "replicas": 3,
            "gateways": 1,
            "url": "http://10.0.0.7:8000",
            "grpcAddress": "10.0.0.7:8001",
        },
        "NAME PHASE READY REPLICAS URL GRPC GATEWAYS AGE",
        "a Ready 2 3 http://10.0.0.7:8000 10.0.0.7:8001 1",
    ),
    "rsv": (
        "reservations",
        {
            "phase": "Used",
            "usedBy": {"namespace": "default", "name": "a-0"},
            "expiresAt": "2026-05-01T01:00:00Z",
            "conditions": [
                {
                    "type": "Reserved",
                    "status": "True",
                    "reason": "CapacityReserved",
                    "message": "room",
                    "lastTransitionTime": "2026-05-01T00:00:00Z",
                }
            ],
        },
        "NAME PHASE REASON GANG START EXPIRES QUEUE MESSAGE AGE",
        "a Used CapacityReserved a-0 2026-05-01T00:00:00Z 2026-05-01T01:00:00Z research room",
    ),
}
"""By short name: the kind, a status, and what `kubectl get -o wide` shows of it."""


EXPLAINED_FIELDS: dict[str, dict[str, Any]] = {
    "podcliques": {"spec.minAvailable": 2},
    "reservations": {"spec.start": "2026-05-01T00:00:00Z", "spec.queue": "research"},
}
"""What is in those objects beyond the least."""


def create_with_status(api: Api, plural: str, status: Any, **changes: Any) -> str:
    """Create an object with a status; returns its path."""
    path = collection(plural, api.namespace)
    code, response = api.access.request("POST", path, minimal_object(plural, **changes))
    assert code == 201, response
    response["status"] = status
    code, written = api.access.request("PUT", f"{path}/a/status", response)
    assert code == 200, written
    return f"{path}/a"


def test_kubernetes_accepts_the_schemas(api_with_definitions: Api) -> None:
    for each in load_definitions():
        _, live = api_with_definitions.access.request(
            "GET", f"{DEFINITIONS}/{each['metadata']['name']}"
        )
        reported = {
            condition["type"]: condition["status"] for condition in live["status"]["conditions"]
        }
        assert reported == {"NamesAccepted": "True", "Established": "True"}


def test_definitions_are_applied_client_side(api_with_definitions: Api, kubectl: Kubectl) -> None:
    done = kubectl("apply -f -", stdin=yaml.safe_dump_all(load_definitions()))
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == len(load_definitions())


@pytest.mark.parametrize(("short", "printed"), PRINTED_COLUMNS.items(), ids=PRINTED_COLUMNS)
def test_list_shows_printer_columns(
    api_with_definitions: Api, kubectl: Kubectl, short: str, printed: tuple[str, Any, str, str]
) -> None:
    plural, status, header, row = printed
    create_with_status(api_with_definitions, plural, status, **EXPLAINED_FIELDS.get(plural, {}))
    listed = kubectl(f"get {short} -o wide", namespace=api_with_definitions.namespace)
    first, second = listed.out.splitlines()
    assert first.split() == header.split()
    assert second.split()[:-1] == row.split()


def test_topology_list_shows_its_broadest_domain(
    api_with_definitions: Api, kubectl: Kubectl
) -> None:
    levels = [{"domain": each, "key": f"example.com/{each}"} for each in ("zone", "rack", "host")]
    name = f"of-{api_with_definitions.namespace}"
    body = minimal_object(
        "clustertopologybindings", **{"metadata.name": name, "spec.levels": levels}
    )
    code, response = api_with_definitions.access.request(
        "POST", collection("clustertopologybindings", ""), body
    )
    assert code == 201, response
    header, row = kubectl(f"get ct {name}").out.splitlines()
    assert header.split() == ["NAME", "DOMAINS", "AGE"]
    # API servers print only the first match of a column's path.
    assert row.split()[:-1] == [name, "zone"]


def test_queue_list_shows_its_gpus(api_with_definitions: Api, kubectl: Kubectl) -> None:
    gpus = "nvidia.com/gpu"
    name = f"of-{api_with_definitions.namespace}"
    spec = {"parent": "p", "deserved": {gpus: 4, "cpu": 9}, "limit": {gpus: "8"}, "priority": 3}
    body = minimal_object("queues", **{"metadata.name": name, "spec": spec})
    path = collection("queues", "")
    code, response = api_with_definitions.access.request("POST", path, body)
    assert code == 201, response
    ready = {**CONDITION, "type": "Ready"}
    response["status"] = {"allocated": {gpus: "6"}, "pendingGangs": 2, "conditions": [ready]}
    code, written = api_with_definitions.access.request("PUT", f"{path}/{name}/status", response)
    assert code == 200, written
    header, row = kubectl(f"get kq {name} -o wide").out.splitlines()
    columns = "NAME PARENT READY PENDING GPUS DESERVED LIMIT WEIGHT PRIORITY AGE"
    assert " ".join(header.split()) == columns
    assert row.split()[:-1] == f"{name} p False 2 6 4 8 1 3".split()


def test_kubectl_explains_pod_fields_within_a_set(
    api_with_definitions: Api, kubectl: Kubectl
) -> None:
    reported = kubectl("explain pcs.spec.template.cliques.spec.podSpec.containers")
    assert reported.code == 0, reported.err
    for field in ("image\t<string>", "resources\t<Object>", "name\t<string> -required-"):
        assert field in reported.out
    assert "How long a gang may be below its minimum" in kubectl("explain pcs.spec.template").out
    strategy = kubectl("explain pcs.spec.updateStrategy.type").out
    assert "ENUM:\n    RollingRecreate\n    OnDelete\n" in strategy


SCALED = {
    "podcliquesets": ("hpaPodSelector", 0),
    "podcliques": ("hpaPodSelector", 2),
    "podcliquescalinggroups": ("selector", 1),
}


@pytest.mark.parametrize(("plural", "facts"), SCALED.items(), ids=SCALED)
def test_scale_is_read_and_written(
    api_with_definitions: Api, kubectl: Kubectl, plural: str, facts: tuple[str, int]
) -> None:
    selector, replicas = facts
    path = create_with_status(api_with_definitions, plural, {"replicas": 5, selector: "app=x"})
    _, scale = api_with_definitions.access.request("GET", f"{path}/scale")
    assert scale["spec"] == {"replicas": replicas} or (replicas, scale["spec"]) == (0, {})
    assert scale["status"] == {"replicas": 5, "selector": "app=x"}
    done = kubectl(f"scale {plural} a --replicas 7", namespace=api_with_definitions.namespace)
    assert done.code == 0, done.err
    _, live = api_with_definitions.access.request("GET", path)
    assert live["spec"]["replicas"] == 7


@pytest.mark.parametrize("plural", SCALED)
def test_scale_is_limited_to_max_replicas(
    api_with_definitions: Api, kubectl: Kubectl, plural: str
) -> None:
    path = create_with_status(api_with_definitions, plural, {})
    _, before = api_with_definitions.access.request("GET", path)
    # Dry run only: later tests run operators, which would create all of them.
    tried = f"scale {plural} a --dry-run=server --replicas"
    most = kubectl(f"{tried} 100000", namespace=api_with_definitions.namespace)
    assert most.code == 0, most.err
    more = kubectl(f"{tried} 100001", namespace=api_with_definitions.namespace)
    assert more.code != 0
    assert "spec.replicas in body should be less than or equal to 100000" in more.err
    more = kubectl(
        f"scale {plural} a --replicas 2000000000", namespace=api_with_definitions.namespace
    )
    assert more.code != 0
    _, live = api_with_definitions.access.request("GET", path)
    assert live["spec"] == before["spec"]


def test_status_is_written_separately(api_with_definitions: Api) -> None:
    path = create_with_status(api_with_definitions, "podgangs", {"phase": "Starting"})
    _, live = api_with_definitions.access.request("GET", path)
    live["status"]["phase"] = "Failed"
    code, response = api_with_definitions.access.request("PUT", path, live)
    assert (code, response["status"]["phase"]) == (200, "Starting")
