"""Services, autoscalers and scaling groups of a replica."""

import pytest

from kilonova.api.grove.common import AutoScaling, RollingUpdate
from kilonova.api.grove.podcliqueset import HeadlessServiceConfig
from kilonova.workloads.builders.autoscalers import build_autoscalers
from kilonova.workloads.builders.scaling_groups import build_scaling_group
from kilonova.workloads.builders.services import build_service
from tests.workloads.api_objects import clique, get_current_revision, group, pod_clique_set


@pytest.mark.parametrize(
    ("config", "published"),
    [(None, True), (HeadlessServiceConfig(True), True), (HeadlessServiceConfig(False), False)],
)
def test_a_replica_has_a_headless_service(
    config: HeadlessServiceConfig | None, published: bool
) -> None:
    service = build_service(pod_clique_set(headless_service_config=config), 2)

    assert service["metadata"]["name"] == "sys-2"
    assert service["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "sys",
        "app.kubernetes.io/name": "sys-2",
        "app.kubernetes.io/component": "pcs-headless-service",
        "grove.io/podcliqueset-replica-index": "2",
    }
    assert service["spec"] == {
        "clusterIP": "None",
        "publishNotReadyAddresses": published,
        "selector": {
            "app.kubernetes.io/part-of": "sys",
            "grove.io/podcliqueset-replica-index": "2",
        },
    }


def test_autoscalers_scale_cliques_that_are_standalone_and_groups() -> None:
    metric = {"type": "Resource", "resource": {"name": "cpu"}}
    system = pod_clique_set(
        clique("router", 2, auto_scaling_config=AutoScaling(5, metrics=(metric,))),
        clique("worker", auto_scaling_config=AutoScaling(5)),
        clique("fixed"),
        groups=[
            group("sg", "worker", replicas=3, scale_config=AutoScaling(8, min_replicas=1)),
            group("still", "fixed"),
        ],
    )

    router, sg = build_autoscalers(system, 1)

    assert router["metadata"]["labels"]["app.kubernetes.io/component"] == "pcs-hpa"
    assert router["metadata"]["labels"]["grove.io/podcliqueset-replica-index"] == "1"
    assert router["spec"] == {
        "scaleTargetRef": {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodClique",
            "name": "sys-1-router",
        },
        "minReplicas": 2,
        "maxReplicas": 5,
        "metrics": [metric],
    }
    assert (router["metadata"]["name"], sg["metadata"]["name"]) == ("sys-1-router", "sys-1-sg")
    assert sg["spec"] == {
        "scaleTargetRef": {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueScalingGroup",
            "name": "sys-1-sg",
        },
        "minReplicas": 1,
        "maxReplicas": 8,
        "metrics": [
            {
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 80},
                },
            }
        ],
    }


def test_scaling_group_has_all_fields() -> None:
    template = group(
        "sg",
        "a",
        "b",
        replicas=3,
        min_available=2,
        annotations={"note": "x"},
        rolling_update=RollingUpdate(max_unavailable=2, progress_deadline="5m"),
    )
    system = pod_clique_set(clique("a"), clique("b"), groups=[template])
    revision = get_current_revision(system)

    built = build_scaling_group(system, 0, revision, template)

    assert built["spec"] == {
        "cliqueNames": ["a", "b"],
        "replicas": 3,
        "minAvailable": 2,
        "rollingUpdate": {"maxUnavailable": 2, "progressDeadline": "5m"},
    }
    assert built["metadata"]["name"] == "sys-0-sg"
    note = '{"annotations":["note"]}'
    assert built["metadata"]["annotations"] == {"note": "x", "grove.io/copied": note}
    assert built["metadata"]["finalizers"] == ["grove.io/podcliquescalinggroup.grove.io"]
    assert built["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "sys",
        "app.kubernetes.io/name": "sys-0-sg",
        "app.kubernetes.io/component": "pcs-podcliquescalinggroup",
        "grove.io/podcliqueset-replica-index": "0",
        "grove.io/podcliqueset-generation-hash": revision.hash,
    }
