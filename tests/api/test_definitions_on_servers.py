"""The kinds as people see them on a server: served, listed, explained, scaled."""

from typing import Any

import pytest
import yaml

from kilonova.api.crds import definitions
from tests.api.manifests import collection, least
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

SHOWN: dict[str, tuple[str, Any, str, str]] = {
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
                    "reason": "Kept",
                    "message": "room",
                    "lastTransitionTime": "2026-05-01T00:00:00Z",
                }
            ],
        },
        "NAME PHASE REASON GANG START EXPIRES QUEUE MESSAGE AGE",
        "a Used Kept a-0 2026-05-01T00:00:00Z 2026-05-01T01:00:00Z research room",
    ),
}
"""By short name: the kind, a status, and what `kubectl get -o wide` shows of it."""


SAID: dict[str, dict[str, Any]] = {
    "podcliques": {"spec.minAvailable": 2},
    "reservations": {"spec.start": "2026-05-01T00:00:00Z", "spec.queue": "research"},
}
"""What is in those objects beyond the least."""


def make(api: Api, plural: str, status: Any, **changes: Any) -> str:
    """Create an object with a status; where it is."""
    path = collection(plural, api.namespace)
    code, answer = api.access.ask("POST", path, least(plural, **changes))
    assert code == 201, answer
    answer["status"] = status
    code, written = api.access.ask("PUT", f"{path}/a/status", answer)
    assert code == 200, written
    return f"{path}/a"


def test_kubernetes_has_nothing_to_say_against_the_schemas(defined: Api) -> None:
    for each in definitions():
        _, live = defined.access.ask("GET", f"{DEFINITIONS}/{each['metadata']['name']}")
        told = {
            condition["type"]: condition["status"] for condition in live["status"]["conditions"]
        }
        assert told == {"NamesAccepted": "True", "Established": "True"}


def test_they_are_applied_on_the_clients_side_as_well(defined: Api, kubectl: Kubectl) -> None:
    done = kubectl("apply -f -", stdin=yaml.safe_dump_all(definitions()))
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == len(definitions())


@pytest.mark.parametrize(("short", "shown"), SHOWN.items(), ids=SHOWN)
def test_a_list_shows_how_they_are(
    defined: Api, kubectl: Kubectl, short: str, shown: tuple[str, Any, str, str]
) -> None:
    plural, status, header, row = shown
    make(defined, plural, status, **SAID.get(plural, {}))
    listed = kubectl(f"get {short} -o wide", namespace=defined.namespace)
    first, second = listed.out.splitlines()
    assert first.split() == header.split()
    assert second.split()[:-1] == row.split()


def test_a_topology_shows_its_broadest_domain(defined: Api, kubectl: Kubectl) -> None:
    levels = [{"domain": each, "key": f"example.com/{each}"} for each in ("zone", "rack", "host")]
    name = f"of-{defined.namespace}"
    body = least("clustertopologybindings", **{"metadata.name": name, "spec.levels": levels})
    code, answer = defined.access.ask("POST", collection("clustertopologybindings", ""), body)
    assert code == 201, answer
    header, row = kubectl(f"get ct {name}").out.splitlines()
    assert header.split() == ["NAME", "DOMAINS", "AGE"]
    # Of all that a column's path finds, API servers print the first.
    assert row.split()[:-1] == [name, "zone"]


def test_a_queue_shows_its_gpus(defined: Api, kubectl: Kubectl) -> None:
    gpus = "nvidia.com/gpu"
    name = f"of-{defined.namespace}"
    spec = {"parent": "p", "deserved": {gpus: 4, "cpu": 9}, "limit": {gpus: "8"}, "priority": 3}
    body = least("queues", **{"metadata.name": name, "spec": spec})
    path = collection("queues", "")
    code, answer = defined.access.ask("POST", path, body)
    assert code == 201, answer
    ready = {**CONDITION, "type": "Ready"}
    answer["status"] = {"allocated": {gpus: "6"}, "pendingGangs": 2, "conditions": [ready]}
    code, written = defined.access.ask("PUT", f"{path}/{name}/status", answer)
    assert code == 200, written
    header, row = kubectl(f"get kq {name} -o wide").out.splitlines()
    columns = "NAME PARENT READY PENDING GPUS DESERVED LIMIT WEIGHT PRIORITY AGE"
    assert " ".join(header.split()) == columns
    assert row.split()[:-1] == f"{name} p False 2 6 4 8 1 3".split()


def test_fields_of_pods_are_explained_within_a_set(defined: Api, kubectl: Kubectl) -> None:
    told = kubectl("explain pcs.spec.template.cliques.spec.podSpec.containers")
    assert told.code == 0, told.err
    for field in ("image\t<string>", "resources\t<Object>", "name\t<string> -required-"):
        assert field in told.out
    assert "How long a gang may lack pods" in kubectl("explain pcs.spec.template").out
    strategy = kubectl("explain pcs.spec.updateStrategy.type").out
    assert "ENUM:\n    RollingRecreate\n    OnDelete\n" in strategy


SCALED = {
    "podcliquesets": ("hpaPodSelector", 0),
    "podcliques": ("hpaPodSelector", 2),
    "podcliquescalinggroups": ("selector", 1),
}


@pytest.mark.parametrize(("plural", "facts"), SCALED.items(), ids=SCALED)
def test_the_scale_is_read_and_written(
    defined: Api, kubectl: Kubectl, plural: str, facts: tuple[str, int]
) -> None:
    selector, replicas = facts
    path = make(defined, plural, {"replicas": 5, selector: "app=x"})
    _, scale = defined.access.ask("GET", f"{path}/scale")
    assert scale["spec"] == {"replicas": replicas} or (replicas, scale["spec"]) == (0, {})
    assert scale["status"] == {"replicas": 5, "selector": "app=x"}
    done = kubectl(f"scale {plural} a --replicas 7", namespace=defined.namespace)
    assert done.code == 0, done.err
    _, live = defined.access.ask("GET", path)
    assert live["spec"]["replicas"] == 7


@pytest.mark.parametrize("plural", SCALED)
def test_nothing_is_scaled_beyond_all_measure(defined: Api, kubectl: Kubectl, plural: str) -> None:
    path = make(defined, plural, {})
    _, before = defined.access.ask("GET", path)
    # Only tried: tests that come later run operators, which would make all of them.
    tried = f"scale {plural} a --dry-run=server --replicas"
    most = kubectl(f"{tried} 100000", namespace=defined.namespace)
    assert most.code == 0, most.err
    more = kubectl(f"{tried} 100001", namespace=defined.namespace)
    assert more.code != 0
    assert "spec.replicas in body should be less than or equal to 100000" in more.err
    more = kubectl(f"scale {plural} a --replicas 2000000000", namespace=defined.namespace)
    assert more.code != 0
    _, live = defined.access.ask("GET", path)
    assert live["spec"] == before["spec"]


def test_a_status_is_written_apart_from_the_rest(defined: Api) -> None:
    path = make(defined, "podgangs", {"phase": "Starting"})
    _, live = defined.access.ask("GET", path)
    live["status"]["phase"] = "Failed"
    code, answer = defined.access.ask("PUT", path, live)
    assert (code, answer["status"]["phase"]) == (200, "Starting")
