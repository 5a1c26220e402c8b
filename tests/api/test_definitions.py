"""The packaged definitions: up to date, complete, and small enough for client-side apply."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kilonova.api.crds import load_definitions
from tests.api.manifests import CLUSTER_SCOPED
from tools.crds.generate import build_definition
from tools.crds.kinds import find_kinds

CLIENT_SIDE_LIMIT = 256 * 1024
"""`kubectl apply` keeps the whole object in an annotation, and annotations have this limit."""

FROM_KUBERNETES = (
    "podSpec",
    "metrics",
    "templateSpec",
    "agent.spec",
    "conductor.spec",
    "gateway.pods.tolerations",
    "gateway.resources",
    "servers.env",
    "servers.resources",
    "servers.template.spec",
)
"""Ends of the paths below which the schema is Kubernetes' own."""

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
    "gpuworkloads": "GPUs Status Node (Pods) (Score) (Priority) (Message) Age",
    "migstrategies": "Nodes Rebalance (Priority) Ready Age",
    "gpubudgets": "Limit Spent Utilization Period Age",
    "inferenceengineinstances": "Model TargetAgents ReadyAgents PendingAgents (Phase) (Domain) "
    "(Repairs) (Age)",
    "inferenceenginedeployments": "Release Desired Ready Updated Unallocatable (Additional) Age",
    "releases": "Model Build Health Masked Age",
    "deployments": "Release Desired Observed Ready Wave (Unallocatable) (Relocated) Age",
    "clusters": "Region Health Instances Ready Cordoned Last-Seen (Reason) Age",
    "inferenceservices": "Phase Ready Replicas URL (gRPC) (Gateways) Age",
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
    "gpuworkloads": None,
    "migstrategies": None,
    "gpubudgets": None,
    "inferenceengineinstances": None,
    "inferenceenginedeployments": ".status.selector",
    "releases": None,
    "clusters": None,
    "inferenceservices": None,
}


def definitions_by_plural() -> dict[str, Any]:
    return {each["spec"]["names"]["plural"]: each["spec"] for each in load_definitions()}


def served_version(plural: str) -> Any:
    (only,) = definitions_by_plural()[plural]["versions"]
    return only


def schema_fields(schema: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every field of our kinds, with its schema."""
    inner = schema.get("items", schema)
    for name, each in inner.get("properties", {}).items():
        inside = f"{path}.{name}"
        yield inside, each
        if not inside.endswith(FROM_KUBERNETES):
            yield from schema_fields(each, inside)


def test_definitions_match_the_generator() -> None:
    made = {each["metadata"]["name"]: each for each in map(build_definition, find_kinds())}
    assert {each["metadata"]["name"]: each for each in load_definitions()} == made


def test_each_call_loads_new_objects() -> None:
    load_definitions()[0]["spec"].clear()
    assert load_definitions()[0]["spec"]


@pytest.mark.parametrize("plural", COLUMNS)
def test_definitions_fit_client_side_apply(plural: str) -> None:
    assert len(json.dumps(definitions_by_plural()[plural])) < CLIENT_SIDE_LIMIT


@pytest.mark.parametrize("plural", COLUMNS)
def test_every_field_has_a_description(plural: str) -> None:
    schema = served_version(plural)["schema"]["openAPIV3Schema"]
    conditions = ".conditions."
    named = [(path, each) for path, each in schema_fields(schema) if conditions not in path]
    assert named
    assert [path for path, each in named if not each.get("description")] == []


@pytest.mark.parametrize(("plural", "columns"), COLUMNS.items(), ids=COLUMNS)
def test_printer_columns(plural: str, columns: str) -> None:
    listed = served_version(plural)["additionalPrinterColumns"]
    named = [f"({each['name']})" if each.get("priority") else each["name"] for each in listed]
    assert " ".join(named) == columns


@pytest.mark.parametrize(("plural", "selector"), SELECTORS.items(), ids=SELECTORS)
def test_scale_subresource_selectors(plural: str, selector: str | None) -> None:
    subresources = served_version(plural)["subresources"]
    assert subresources["status"] == {}
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": selector,
    }
    assert subresources.get("scale") == (scale if selector else None)


def test_global_deployments_scale_by_what_was_observed() -> None:
    assert served_version("deployments")["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.observed",
    }


def test_only_cluster_wide_kinds_are_cluster_scoped() -> None:
    scopes = {plural: spec["scope"] for plural, spec in definitions_by_plural().items()}
    assert {plural for plural, scope in scopes.items() if scope == "Cluster"} == CLUSTER_SCOPED
