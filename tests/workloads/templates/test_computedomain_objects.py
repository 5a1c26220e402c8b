"""Multi-node NVLink."""

import pytest

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.workloads.settings import Settings
from kilonova.workloads.templates.computedomains import compute_domain_objects
from tests.workloads.builders import clique, group, member, pod_clique, pod_clique_set, pod_template

ON = Settings(mnnvl=True)


def nvlink(value: str | None) -> dict[str, str]:
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
def test_the_most_specific_annotation_counts(
    of_set: str | None, of_group: str | None, of_clique: str | None, expected: str | None
) -> None:
    system = pod_clique_set(
        clique("worker", gpus=1, annotations=nvlink(of_clique)),
        groups=[group("sg", "worker", annotations=nvlink(of_group))],
        annotations=nvlink(of_set),
    )

    domains = compute_domain_objects(system, 0, ON)
    found = pod_clique(system, "worker", 0, member(system, "sg", 0), settings=ON)

    assert [each["metadata"]["name"] for each in domains] == (
        [] if expected is None else [f"sys-0-{expected}"]
    )
    claims = found.spec.pod_spec.get("resourceClaims", [])
    assert [each["resourceClaimTemplateName"] for each in claims] == (
        [] if expected is None else [f"sys-0-{expected}"]
    )


def test_a_compute_domain_in_full() -> None:
    system = pod_clique_set(clique("worker", gpus=8), annotations=nvlink("train"))

    (domain,) = compute_domain_objects(system, 3, ON)

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
        clique("c", gpus=1, annotations=nvlink("own")),
        annotations=nvlink("shared"),
    )

    domains = compute_domain_objects(system, 0, ON)

    assert [each["metadata"]["name"] for each in domains] == ["sys-0-own", "sys-0-shared"]


def test_only_gpu_containers_get_the_claim() -> None:
    gpu: JsonObject = {"requests": {"nvidia.com/gpu": 1}}
    none: JsonObject = {"limits": {"nvidia.com/gpu": "0"}}
    spec: JsonObject = {
        "containers": [{"name": "gpu", "resources": gpu}, {"name": "cpu"}],
        "initContainers": [{"name": "warm", "resources": gpu}, {"name": "zero", "resources": none}],
    }
    system = pod_clique_set(clique("worker", pod_spec=spec), annotations=nvlink("g"))

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
    ("gpus", "settings"), [(0, ON), (1, Settings())], ids=["no gpu", "turned off"]
)
def test_nothing_is_made_where_it_is_not_asked_for(gpus: int, settings: Settings) -> None:
    system = pod_clique_set(clique("worker", pod_spec=pod_template(gpus)), annotations=nvlink("g"))

    assert compute_domain_objects(system, 0, settings) == []
    found = pod_clique(system, "worker", settings=settings)
    assert "resourceClaims" not in found.spec.pod_spec
