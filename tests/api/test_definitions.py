"""The definitions as they are in the package: fresh, complete, and small enough for anybody."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kilonova.api.crds import definitions
from tests.api.manifests import OF_THE_CLUSTER
from tools.crds.generate import definition
from tools.crds.kinds import KINDS

CLIENT_SIDE_LIMIT = 256 * 1024
"""`kubectl apply` keeps the whole object in an annotation, and annotations have this limit."""

FROM_KUBERNETES = {"podSpec", "metrics", "templateSpec"}
"""Fields below which the schema is Kubernetes' own."""

COLUMNS = {
    "podcliquesets": "Replicas Available Updated PCLQs-Updated PCLQs-Total PCSGs-Updated "
    "PCSGs-Total Age",
    "podcliques": "MinAvail Replicas Ready Scheduled Updated (Gated) (MinBreached) Age",
    "podcliquescalinggroups": "MinAvail Replicas Available Scheduled Updated PCLQs-Updated "
    "PCLQs-Total (MinBreached) Age",
    "clustertopologybindings": "Domains Age",
    "podgangs": "Phase Age",
    "queues": "Parent Ready Pending GPUs Deserved Limit (Weight) (Priority) Age",
    "reservations": "Phase Reason Gang Start Expires (Queue) (Message) Age",
}
"""Those in parentheses are for `-o wide`."""

SELECTORS = {
    "podcliquesets": ".status.hpaPodSelector",
    "podcliques": ".status.hpaPodSelector",
    "podcliquescalinggroups": ".status.selector",
    "clustertopologybindings": None,
    "podgangs": None,
    "queues": None,
    "reservations": None,
}


def by_plural() -> dict[str, Any]:
    return {each["spec"]["names"]["plural"]: each["spec"] for each in definitions()}


def version_of(plural: str) -> Any:
    (only,) = by_plural()[plural]["versions"]
    return only


def fields(schema: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every field of ours, with its schema."""
    inner = schema.get("items", schema)
    for name, each in inner.get("properties", {}).items():
        yield f"{path}.{name}", each
        if name not in FROM_KUBERNETES:
            yield from fields(each, f"{path}.{name}")


def test_they_are_what_the_generator_makes() -> None:
    made = {each["metadata"]["name"]: each for each in map(definition, KINDS)}
    assert {each["metadata"]["name"]: each for each in definitions()} == made


def test_each_call_gives_new_ones() -> None:
    definitions()[0]["spec"].clear()
    assert definitions()[0]["spec"]


@pytest.mark.parametrize("plural", COLUMNS)
def test_they_can_be_applied_on_the_clients_side_too(plural: str) -> None:
    assert len(json.dumps(by_plural()[plural])) < CLIENT_SIDE_LIMIT


@pytest.mark.parametrize("plural", COLUMNS)
def test_every_field_of_ours_is_explained(plural: str) -> None:
    schema = version_of(plural)["schema"]["openAPIV3Schema"]
    conditions = ".conditions."
    named = [(path, each) for path, each in fields(schema) if conditions not in path]
    assert named
    assert [path for path, each in named if not each.get("description")] == []


@pytest.mark.parametrize(("plural", "columns"), COLUMNS.items(), ids=COLUMNS)
def test_columns_are_those_that_people_know(plural: str, columns: str) -> None:
    listed = version_of(plural)["additionalPrinterColumns"]
    named = [f"({each['name']})" if each.get("priority") else each["name"] for each in listed]
    assert " ".join(named) == columns


@pytest.mark.parametrize(("plural", "selector"), SELECTORS.items(), ids=SELECTORS)
def test_what_is_scaled_says_how(plural: str, selector: str | None) -> None:
    subresources = version_of(plural)["subresources"]
    assert subresources["status"] == {}
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": selector,
    }
    assert subresources.get("scale") == (scale if selector else None)


def test_only_topologies_and_queues_are_the_clusters() -> None:
    scopes = {plural: spec["scope"] for plural, spec in by_plural().items()}
    assert {plural for plural, scope in scopes.items() if scope == "Cluster"} == OF_THE_CLUSTER
