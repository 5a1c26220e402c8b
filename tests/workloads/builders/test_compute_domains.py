"""Multi-node NVLink."""

import pytest

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.workloads.builders.compute_domains import build_compute_domains
from kilonova.workloads.settings import OperatorSettings
from tests.workloads.api_objects import (
    build_group_member,
    clique,
    group,
    pod_clique,
    pod_clique_set,
    pod_template,
)

ON = OperatorSettings(mnnvl=True)


def build_nvlink_set(value: str | None) -> dict[str, str]:
    return {} if value is None else {names.MNNVL_GROUP: value}


@pytest.mark.parametrize(
    ("of_set", "of_group", "of_clique", "expected"),
    [
        (None, None, None, None),
        ("s", None, None, "s"),
        ("s", "g", None, "g"),
        ("s", "g", "c", "c"),
        ("s", None, "c", "c"),
        (None, "g", None, "g"),
        ("s", "none", None, None),
        ("s", "g", "none", None),
        ("none", None, "c", "c"),
        ("none", None, None, None),
    ],
)
def test_most_specific_annotation_applies(
    of_set: str | None, of_group: str | None, of_clique: str | None, expected: str | None
) -> None:
    system = pod_clique_set(
        clique("worker", gpus=1, annotations=build_nvlink_set(of_clique)),
        groups=[group("sg", "worker", annotations=build_nvlink_set(of_group))],
        annotations=build_nvlink_set(of_set),
    )

    domains = build_compute_domains(system, 0, ON)
    found = pod_clique(system, "worker", 0, build_group_member(system, "sg", 0), settings=ON)

    assert [each["metadata"]["name"] for each in domains] == (
        [] if expected is None else [f"sys-0-{expected}"]
    )
    claims = found.spec.pod_spec.get("resourceClaims", [])
    assert [each["resourceClaimTemplateName"] for each in claims] == (
        [] if expected is None else [f"sys-0-{expected}"]
    )


def test_compute_domain_has_all_fields() -> None:
    system = pod_clique_set(clique("worker", gpus=8), annotations=build_nvlink_set("train"))

    (domain,) = build_compute_domains(system, 3, ON)

    assert domain["spec"] == {
        "numNodes": 0,
        "channel": {"resourceClaimTemplate": {"name": "sys-3-train"}},
    }
    assert domain["metadata"]["finalizers"] == ["grove.io/computedomain-finalizer"]
    assert domain["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "sys",
        "app.kubernetes.io/name": "sys-3-train",
        "app.kubernetes.io/component": "pcs-computedomain",
        "grove.io/podcliqueset-replica-index": "3",
        "grove.io/mnnvl-group": "train",
    }


def test_cliques_of_one_group_share_a_domain_and_others_have_their_own() -> None:
    system = pod_clique_set(
        clique("a", gpus=1),
        clique("b", gpus=1),
        clique("c", gpus=1, annotations=build_nvlink_set("own")),
        annotations=build_nvlink_set("shared"),
    )

    domains = build_compute_domains(system, 0, ON)

    assert [each["metadata"]["name"] for each in domains] == ["sys-0-own", "sys-0-shared"]


def test_only_gpu_containers_get_the_claim() -> None:
    gpu: JsonObject = {"requests": {"nvidia.com/gpu": 1}}
    none: JsonObject = {"limits": {"nvidia.com/gpu": "0"}}
    spec: JsonObject = {
        "containers": [{"name": "gpu", "resources": gpu}, {"name": "cpu"}],
        "initContainers": [{"name": "warm", "resources": gpu}, {"name": "zero", "resources": none}],
    }
    system = pod_clique_set(clique("worker", pod_spec=spec), annotations=build_nvlink_set("g"))

    found = pod_clique(system, "worker", settings=ON).spec.pod_spec

    assert found["resourceClaims"] == [
        {"name": "mnnvl-claim", "resourceClaimTemplateName": "sys-0-g"}
    ]
    with_claim = [
        each["name"]
        for each in (*found["containers"], *found["initContainers"])
        if each.get("resources", {}).get("claims") == [{"name": "mnnvl-claim"}]
    ]
    assert with_claim == ["gpu", "warm"]


@pytest.mark.parametrize(
    ("gpus", "settings"), [(0, ON), (1, OperatorSettings())], ids=["no gpu", "turned off"]
)
def test_no_compute_domain_is_built_unless_requested(gpus: int, settings: OperatorSettings) -> None:
    system = pod_clique_set(
        clique("worker", pod_spec=pod_template(gpus)), annotations=build_nvlink_set("g")
    )

    assert build_compute_domains(system, 0, settings) == []
    found = pod_clique(system, "worker", settings=settings)
    assert "resourceClaims" not in found.spec.pod_spec
