"""Pods of cliques."""

from typing import Any

import pytest

from kilonova.api.grove import PodClique, names
from kilonova.api.grove.podcliqueset import IN_ORDER, PodCliqueSet
from kilonova.api.json import JsonObject
from kilonova.workloads.builders.pods import build_pod, choose_pod_name
from tests.workloads.api_objects import (
    SETTINGS,
    build_group_member,
    clique,
    decode_built,
    group,
    pod_clique,
    pod_clique_set,
    pod_template,
)


def build_test_pod(
    clique_: PodClique,
    set_: PodCliqueSet | None,
    index: int = 0,
    *,
    gated: bool = False,
    released: bool = False,
) -> JsonObject:
    name = choose_pod_name(clique_.metadata.name, index, ())
    return build_pod(clique_, set_, index, name, gated=gated, released=released, settings=SETTINGS)


def get_environment(container: JsonObject) -> dict[str, str]:
    """Values, or the labels they are taken from."""
    return {
        each["name"]: each.get("value") or each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in container["env"]
    }


def test_a_pod_has_the_labels_and_annotations_of_its_clique() -> None:
    system = pod_clique_set(clique("worker", labels={"app": "x"}, annotations={"note": "y"}))
    owner = pod_clique(system, "worker")

    pod = build_test_pod(owner, system, 2)

    assert pod["metadata"]["labels"] == {
        **owner.metadata.labels,
        "grove.io/podclique": "sys-0-worker",
        "grove.io/podclique-pod-index": "2",
    }
    assert pod["metadata"]["labels"]["app"] == "x"
    assert pod["metadata"]["annotations"] == {"note": "y"}
    assert pod["metadata"]["generateName"] == "sys-0-worker-"
    (reference,) = pod["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["name"]) == ("PodClique", "sys-0-worker")


def test_pod_has_host_name_and_subdomain_of_its_index() -> None:
    system = pod_clique_set(clique("worker", 3))

    pod = build_test_pod(pod_clique(system, "worker", 1), system, 2)

    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("sys-1-worker-2", "sys-1")


def test_every_container_has_the_discovery_variables() -> None:
    spec: JsonObject = {
        "containers": [{"name": "a"}, {"name": "b", "env": [{"name": "OWN", "value": "1"}]}],
        "initContainers": [{"name": "i", "env": [{"name": "GROVE_PCS_NAME", "value": "mine"}]}],
    }
    system = pod_clique_set(clique("worker", pod_spec=spec), namespace="ns")

    pod = build_test_pod(pod_clique(system, "worker"), system)["spec"]

    expected = {
        "GROVE_PCS_NAME": "sys",
        "GROVE_PCS_INDEX": "0",
        "GROVE_PCLQ_NAME": "sys-0-worker",
        "GROVE_HEADLESS_SERVICE": "sys-0.ns.svc.cluster.local",
        "GROVE_PCLQ_POD_INDEX": "metadata.labels['grove.io/podclique-pod-index']",
    }
    first, second = pod["containers"]
    assert get_environment(first) == expected
    assert get_environment(second) == {**expected, "OWN": "1"}
    assert [each["name"] for each in second["env"]][-1] == "OWN"
    (init,) = pod["initContainers"]
    assert get_environment(init) == expected
    assert len(init["env"]) == len(expected)


def test_group_member_also_has_variables_of_its_scaling_group() -> None:
    system = pod_clique_set(
        clique("router"),
        clique("decode", 3),
        clique("prefill", 2),
        groups=[group("sg", "prefill", "decode", replicas=2)],
    )
    owner = pod_clique(system, "decode", 0, build_group_member(system, "sg", 1))

    pod = build_test_pod(owner, system, 1)

    found = get_environment(pod["spec"]["containers"][0])
    label = "metadata.labels['grove.io/podcliquescalinggroup{}']".format
    assert found["GROVE_PCSG_NAME"] == label("")
    assert found["GROVE_PCSG_INDEX"] == label("-replica-index")
    assert found["GROVE_PCSG_POD_INDEX"] == label("-pod-index")
    assert found["GROVE_PCSG_TEMPLATE_NUM_PODS"] == "5"
    labels = pod["metadata"]["labels"]
    assert labels["grove.io/podcliquescalinggroup"] == "sys-0-sg"
    assert labels["grove.io/podcliquescalinggroup-replica-index"] == "1"
    assert labels["grove.io/podcliquescalinggroup-pod-index"] == "3"


def test_pods_of_a_group_replica_are_numbered_consecutively() -> None:
    system = pod_clique_set(
        clique("a", 2), clique("b", 3), clique("c"), groups=[group("sg", "c", "a", "b")]
    )
    member = build_group_member(system, "sg", 0)

    found = [
        build_test_pod(pod_clique(system, name, 0, member), system, index)["metadata"]["labels"][
            names.SCALING_GROUP_POD_INDEX
        ]
        for name, replicas in (("c", 1), ("a", 2), ("b", 3))
        for index in range(replicas)
    ]

    assert found == [str(each) for each in range(6)]


@pytest.mark.parametrize(
    ("own", "gated", "expected"),
    [
        ([], False, []),
        ([], True, [names.POD_GANG_GATE]),
        (["mine"], False, ["mine"]),
        (["mine"], True, ["mine", names.POD_GANG_GATE]),
        ([names.POD_GANG_GATE], False, []),
    ],
)
def test_scheduling_gates_of_users_are_kept(
    own: list[str], gated: bool, expected: list[str]
) -> None:
    gates: dict[str, Any] = {"schedulingGates": [{"name": each} for each in own]} if own else {}
    system = pod_clique_set(clique("worker", pod_spec=pod_template(**gates)))

    spec = build_test_pod(pod_clique(system, "worker"), system, gated=gated)["spec"]

    assert [each["name"] for each in spec.get("schedulingGates", [])] == expected


@pytest.mark.parametrize("released", [False, True])
def test_a_pod_that_starts_after_others_waits_last_of_its_init_containers(released: bool) -> None:
    spec = pod_template(initContainers=[{"name": "own"}], volumes=[{"name": "data"}])
    system = pod_clique_set(clique("a"), clique("b", pod_spec=spec), startup=IN_ORDER)

    pod = build_test_pod(pod_clique(system, "b"), system, released=released)

    own, wait = pod["spec"]["initContainers"]
    assert own["name"] == "own"
    assert wait["name"] == "grove-initc"
    assert wait["image"] == SETTINGS.startup_image
    assert "env" not in wait
    assert wait["command"][2] == ("until [ -s /var/grove/pod-info/released ]; do sleep 0.2; done")
    (mount,) = wait["volumeMounts"]
    assert (mount["name"], mount["mountPath"]) == ("pod-info-vol", "/var/grove/pod-info")
    data, info = pod["spec"]["volumes"]
    assert data == {"name": "data"}
    (item,) = info["downwardAPI"]["items"]
    assert item["path"] == "released"
    assert item["fieldRef"]["fieldPath"] == "metadata.annotations['grove.io/startup-released']"
    released_from_birth = pod["metadata"].get("annotations", {}).get("grove.io/startup-released")
    assert released_from_birth == ("true" if released else None)


def test_pod_without_dependencies_gets_no_init_container() -> None:
    system = pod_clique_set(clique("a"), clique("b"), startup=IN_ORDER)

    pod = build_test_pod(pod_clique(system, "a"), system, released=True)

    assert "initContainers" not in pod["spec"]
    assert "volumes" not in pod["spec"]
    assert "annotations" not in pod["metadata"]


def test_startup_container_changes_neither_requests_nor_qos_class() -> None:
    resources = {
        "limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"},
        "requests": {"cpu": "2", "memory": "1Gi"},
    }
    container = {
        "name": "main",
        "resources": resources,
        "securityContext": {"runAsUser": 7, "privileged": True},
    }
    system = pod_clique_set(
        clique("a"), clique("b", pod_spec={"containers": [container]}), startup=IN_ORDER
    )

    (wait,) = build_test_pod(pod_clique(system, "b"), system)["spec"]["initContainers"]

    enough = {"cpu": "2", "memory": "1Gi"}
    assert wait["resources"] == {"limits": enough, "requests": enough}
    assert wait["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsUser": 7,
    }


def test_next_name_is_used_while_the_previous_pod_terminates() -> None:
    first = choose_pod_name("sys-0-worker", 1, ())
    second = choose_pod_name("sys-0-worker", 1, {first})

    assert first == names.pod("sys-0-worker", 1, 0)
    assert second == names.pod("sys-0-worker", 1, 1)
    assert choose_pod_name("sys-0-worker", 1, {second}) == first


def test_a_clique_without_a_set_has_pods_too() -> None:
    owner = decode_built(
        {
            "metadata": {"name": "alone", "namespace": "ns"},
            "spec": {"roleName": "x", "podSpec": pod_template(), "replicas": 1},
        },
        PodClique,
    )

    pod = build_test_pod(owner, None)

    assert pod["metadata"]["labels"] == {
        names.MANAGED_BY: names.OPERATOR,
        names.POD_CLIQUE: "alone",
        names.POD_INDEX: "0",
    }
    assert pod["spec"]["hostname"] == "alone-0"
    assert "subdomain" not in pod["spec"]
    assert set(get_environment(pod["spec"]["containers"][0])) == {
        "GROVE_PCLQ_NAME",
        "GROVE_PCLQ_POD_INDEX",
    }


def test_building_pods_does_not_modify_the_clique() -> None:
    system = pod_clique_set(clique("a"), clique("b"), startup=IN_ORDER)
    owner, same = pod_clique(system, "b"), pod_clique(system, "b")

    build_test_pod(owner, system, gated=True)

    assert owner == same
