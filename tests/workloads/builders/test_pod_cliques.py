"""PodClique objects."""

from typing import Any

import pytest
from msgspec.structs import replace

from kilonova.api.grove import PodClique, names
from kilonova.api.grove.common import AutoScaling, RollingUpdate
from kilonova.api.grove.podcliqueset import IN_ORDER
from kilonova.api.meta import OwnerReference
from kilonova.api.pods.workload_owner import CLIQUE, Owned, find_workload
from kilonova.kube.owner_references import build_owner_reference
from kilonova.workloads.builders.pod_cliques import build_clique
from kilonova.workloads.builders.template_lookup import locate_clique
from kilonova.workloads.resources import SCALING_GROUPS
from kilonova.workloads.settings import OperatorSettings
from tests.workloads.api_objects import (
    SETTINGS,
    build_group_member,
    clique,
    decode_built,
    get_current_revision,
    group,
    metadata,
    pod_clique,
    pod_clique_set,
    pod_template,
)


def test_standalone_clique_has_owner_and_labels() -> None:
    system = pod_clique_set(clique("worker", 3, 2, labels={"app": "x"}, annotations={"note": "y"}))
    revision = get_current_revision(system)

    built = build_clique(system, 1, revision, "worker", None, SETTINGS)

    assert built["metadata"] == {
        "name": "sys-1-worker",
        "namespace": "default",
        "labels": {
            "app": "x",
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": "sys",
            "app.kubernetes.io/name": "sys-1-worker",
            "app.kubernetes.io/component": "pcs-podclique",
            "grove.io/podcliqueset-replica-index": "1",
            "grove.io/podgang": "sys-1",
            "grove.io/podcliqueset-generation-hash": revision.hash,
            "grove.io/pod-template-hash": revision.hashes["worker"],
            "kilonova.dev/workload": "PodCliqueSet_sys",
        },
        "annotations": {"note": "y"},
        "finalizers": ["grove.io/podclique.grove.io"],
        "ownerReferences": [
            {
                "apiVersion": "grove.io/v1alpha1",
                "kind": "PodCliqueSet",
                "name": "sys",
                "uid": "uid-of-sys",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    spec = built["spec"]
    assert (spec["roleName"], spec["replicas"], spec["minAvailable"]) == ("worker", 3, 2)
    assert "autoScalingConfig" not in spec


@pytest.mark.parametrize(
    ("group_index", "gang", "base"),
    [
        (0, "sys-0", None),
        (1, "sys-0", None),
        (2, "sys-0-sg-0", "sys-0"),
        (4, "sys-0-sg-2", "sys-0"),
    ],
)
def test_a_member_is_in_the_base_gang_or_in_a_scaled_one(
    group_index: int, gang: str, base: str | None
) -> None:
    system = pod_clique_set(clique("b"), groups=[group("sg", "b", replicas=5, min_available=2)])

    found = pod_clique(system, "b", 0, build_group_member(system, "sg", group_index))

    assert found.metadata.name == f"sys-0-sg-{group_index}-b"
    assert found.metadata.labels[names.POD_GANG] == gang
    assert found.metadata.labels.get(names.BASE_POD_GANG) == base
    assert found.metadata.labels[names.SCALING_GROUP] == "sys-0-sg"
    assert found.metadata.labels[names.SCALING_GROUP_REPLICA_INDEX] == str(group_index)
    assert found.metadata.labels[names.COMPONENT] == "pcsg-podclique"


def test_a_member_is_owned_by_its_scaling_group() -> None:
    system = pod_clique_set(clique("b"), groups=[group("sg", "b")])
    owner = build_owner_reference(SCALING_GROUPS, metadata("sys-0-sg"))

    built = build_clique(
        system,
        0,
        get_current_revision(system),
        "b",
        build_group_member(system, "sg", 0),
        SETTINGS,
        owner=owner,
    )

    (reference,) = built["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["name"]) == ("PodCliqueScalingGroup", "sys-0-sg")


def test_operator_labels_override_template_labels() -> None:
    system = pod_clique_set(clique("worker", labels={names.PART_OF: "other", names.POD_GANG: "x"}))

    found = pod_clique(system, "worker")

    assert found.metadata.labels[names.PART_OF] == "sys"
    assert found.metadata.labels[names.POD_GANG] == "sys-0"


def test_reserved_template_keys_are_dropped() -> None:
    labels = {names.SCALING_GROUP: "x", names.BASE_POD_GANG: "y", "app": "z"}
    annotations = {
        names.INCARNATION: "5",
        names.STARTUP_RELEASED: "true",
        names.MNNVL_GROUP: "none",
    }
    system = pod_clique_set(clique("worker", labels=labels, annotations=annotations))

    found = pod_clique(system, "worker")

    plain = pod_clique(pod_clique_set(clique("worker")), "worker")
    assert found.metadata.labels.keys() == {*plain.metadata.labels, "app"}
    assert found.metadata.annotations == {names.MNNVL_GROUP: "none"}


def test_pod_template_is_from_the_revision_and_replicas_from_the_set() -> None:
    old = pod_clique_set(clique("worker", 2, pod_spec=pod_template(nodeSelector={"a": "old"})))
    new = pod_clique_set(clique("worker", 5, 2, pod_spec=pod_template(nodeSelector={"a": "new"})))

    built = build_clique(new, 0, get_current_revision(old), "worker", None, SETTINGS)

    assert built["spec"]["podSpec"]["nodeSelector"] == {"a": "old"}
    assert (built["spec"]["replicas"], built["spec"]["minAvailable"]) == (5, 2)
    assert built["metadata"]["labels"][names.GENERATION_HASH] == get_current_revision(old).hash


@pytest.mark.parametrize(
    ("own", "of_set", "expected"),
    [({}, "", None), ({}, "high", "high"), ({"priorityClassName": "low"}, "high", "low")],
)
def test_the_priority_class_reaches_the_pods(
    own: dict[str, Any], of_set: str, expected: str | None
) -> None:
    system = pod_clique_set(
        clique("worker", pod_spec=pod_template(**own)), priority_class_name=of_set
    )

    assert pod_clique(system, "worker").spec.pod_spec.get("priorityClassName") == expected


@pytest.mark.parametrize(
    ("own", "expected"),
    [({}, "first"), ({"schedulerName": ""}, "first"), ({"schedulerName": "mine"}, "mine")],
)
def test_pod_without_scheduler_name_gets_the_first(own: dict[str, Any], expected: str) -> None:
    system = pod_clique_set(clique("worker", pod_spec=pod_template(**own)))
    settings = OperatorSettings(schedulers=("first", "mine"))

    assert (
        pod_clique(system, "worker", settings=settings).spec.pod_spec["schedulerName"] == expected
    )


def test_other_spec_fields_are_copied() -> None:
    system = pod_clique_set(
        clique("first"),
        clique(
            "worker",
            auto_scaling_config=AutoScaling(max_replicas=9, min_replicas=1),
            rolling_update=RollingUpdate(max_surge="50%"),
        ),
        startup=IN_ORDER,
    )

    built = build_clique(system, 0, get_current_revision(system), "worker", None, SETTINGS)

    assert built["spec"]["autoScalingConfig"] == {"maxReplicas": 9, "minReplicas": 1}
    assert built["spec"]["rollingUpdate"] == {"maxSurge": "50%"}
    assert built["spec"]["startsAfter"] == ["sys-0-first"]


def test_input_is_not_modified() -> None:
    written = pod_template(gpus=1)
    system = pod_clique_set(
        clique("worker", pod_spec=written),
        annotations={names.MNNVL_GROUP: "g"},
        priority_class_name="high",
    )

    build_clique(
        system, 0, get_current_revision(system), "worker", None, OperatorSettings(mnnvl=True)
    )

    assert written == pod_template(gpus=1)


def test_a_clique_is_found_in_its_set_by_its_exact_name() -> None:
    system = pod_clique_set(
        clique("worker"),
        clique("leader-worker"),
        clique("0-worker"),
        groups=[group("leader", "0-worker")],
    )
    in_group = build_group_member(system, "leader", 0)

    for name, member in (("worker", None), ("leader-worker", None), ("0-worker", in_group)):
        found = locate_clique(system, pod_clique(system, name, 0, member).metadata)
        assert found is not None
        assert found.clique.name == name
        assert found.member == member


def test_clique_of_another_set_or_none_is_not_located() -> None:
    system, other = pod_clique_set(clique("worker")), pod_clique_set(clique("w"), name="other")

    assert locate_clique(other, pod_clique(system, "worker").metadata) is None
    assert locate_clique(system, metadata("sys-0-worker")) is None
    renamed = decode_built(
        build_clique(system, 0, get_current_revision(system), "worker", None, SETTINGS), PodClique
    )
    assert locate_clique(pod_clique_set(clique("w")), renamed.metadata) is None


def test_a_clique_names_the_workload_that_its_set_names() -> None:
    system = pod_clique_set(labels={"kilonova.dev/workload": "Chat.example.com_c1"})
    built = build_clique(system, 0, get_current_revision(system), "worker", None, SETTINGS)
    assert built["metadata"]["labels"]["kilonova.dev/workload"] == "Chat.example.com_c1"


def test_a_clique_names_the_controller_of_its_set() -> None:
    controller = OwnerReference("example.com/v1", "Chat", "c" * 80, "u", controller=True)
    system = pod_clique_set()
    system = replace(system, metadata=replace(system.metadata, owner_references=(controller,)))
    built = build_clique(system, 0, get_current_revision(system), "worker", None, SETTINGS)
    owned = Owned.from_metadata(CLIQUE, decode_built(built, PodClique).metadata)
    assert find_workload(owned).id == f"Chat.example.com/default/{'c' * 80}"
    assert len(built["metadata"]["labels"]["kilonova.dev/workload"]) == 63
