"""Recorded responses of kube-apiserver to a series of requests, step by step.

Fields that admission or allocation set after ownership is recorded are removed from the recording:
a pod's priority and tolerations, a service's addresses.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilonova.local.apimachinery.errors import ApiError
from kilonova.local.apimachinery.patch import (
    deep_copy,
    json_patch,
    merge_patch,
    strategic_merge_patch,
)
from kilonova.local.apiserver.field_manager import apply, exclude_fields, record_update
from kilonova.local.apiserver.schema.builtin import builtin_schema, custom_schema
from kilonova.local.apiserver.schema.node import Schema

RECORDING = json.loads((Path(__file__).parent / "transcripts.json").read_text())

RESETS = {
    ("Deployment", "status"): ("spec", "metadata.labels"),
    ("Pod", "status"): ("spec", "metadata.deletionTimestamp", "metadata.ownerReferences"),
    ("Thing", "status"): ("spec", "metadata"),
}
"""The fields that a strategy resets; for most main endpoints, the status."""


def steps() -> Iterator[Any]:
    """Each step with the object that it found, which the last successful one left."""
    for scenario in RECORDING["scenarios"]:
        live = None
        for number, step in enumerate(scenario["steps"]):
            name = f"{scenario['name']}-{number}-{step['verb']}-by-{step['manager']}"
            about = {"kind": scenario["kind"], "api_version": scenario["api_version"]}
            yield pytest.param({**step, **about, "live": live}, id=name)
            if step["code"] < 300:
                live = step["answer"]


STEPS = list(steps())


def schema_of(step: dict[str, Any]) -> Schema:
    if step["kind"] == "Thing":
        return custom_schema(RECORDING["thing_schema"])
    group, _, version = step["api_version"].rpartition("/")
    return builtin_schema(group, version, step["kind"])


def settings(step: dict[str, Any]) -> dict[str, Any]:
    resets = RESETS.get((step["kind"], step["subresource"]), ("status",))
    return {
        "manager": step["manager"],
        "subresource": step["subresource"],
        "api_version": step["api_version"],
        "time": new_time(step),
        "ignored": exclude_fields(*resets),
    }


def entries(obj: dict[str, Any] | None) -> list[dict[str, Any]]:
    return (obj or {}).get("metadata", {}).get("managedFields", [])


def new_time(step: dict[str, Any]) -> str:
    """The time at which the server processed the request, if the response contains it."""
    before = {entry.get("time") for entry in entries(step["live"])}
    after = [entry["time"] for entry in entries(step["answer"]) if "time" in entry]
    return max((time for time in after if time not in before), default="2099-01-01T00:00:00Z")


def patched(step: dict[str, Any]) -> dict[str, Any]:
    match step["verb"]:
        case "merge":
            return merge_patch(step["live"], step["sent"])
        case "smp":
            return strategic_merge_patch(deep_copy(step["live"]), step["sent"], schema_of(step))
        case "json":
            return json_patch(step["live"], step["sent"])
        case _:
            return step["sent"]


def having(**wanted: Any) -> list[Any]:
    """The steps with such a result or verb."""
    return [
        each
        for each in STEPS
        if all(each.values[0][key] in values for key, values in wanted.items())
    ]


@pytest.mark.parametrize("step", having(code=(409,)))
def test_conflicts_are_those_of_kube_apiserver(step: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as raised:
        apply(step["live"], step["sent"], schema_of(step), **settings(step))
    assert raised.value.status() == step["answer"]


@pytest.mark.parametrize("step", having(verb=("apply",), code=(200, 201)))
def test_appliers_own_what_kube_apiserver_recorded(step: dict[str, Any]) -> None:
    live = deep_copy(step["live"])
    after = apply(live, step["sent"], schema_of(step), force=step["force"], **settings(step))
    assert entries(after) == entries(step["answer"])
    assert live == step["live"]


@pytest.mark.parametrize(
    "step", having(verb=("create", "put", "merge", "smp", "json"), code=(200, 201))
)
def test_updaters_own_what_kube_apiserver_recorded(step: dict[str, Any]) -> None:
    live = deep_copy(step["live"])
    after = deep_copy(step["answer"])
    after["metadata"].pop("managedFields", None)
    sent = patched(step).get("metadata", {})
    if "managedFields" in sent:
        after["metadata"]["managedFields"] = sent["managedFields"]
    record_update(live, after, schema_of(step), **settings(step))
    assert entries(after) == entries(step["answer"])
    assert live == step["live"]


@pytest.mark.parametrize(
    "step", having(verb=("merge", "smp", "json"), subresource=("",), code=(200,))
)
def test_patched_values_are_those_of_kube_apiserver(step: dict[str, Any]) -> None:
    result = patched(step)
    for part in ("spec", "data"):
        assert result.get(part) == step["answer"].get(part)


@pytest.mark.parametrize(
    "step",
    [
        each
        for each in having(verb=("apply",), code=(200,))
        if each.values[0]["kind"] in ("ConfigMap", "Thing")
    ],
)
def test_applied_values_are_those_of_kube_apiserver(step: dict[str, Any]) -> None:
    result = apply(
        step["live"], step["sent"], schema_of(step), force=step["force"], **settings(step)
    )
    part = "status" if step["subresource"] else "spec" if step["kind"] == "Thing" else "data"
    assert with_default_protocol(result.get(part)) == step["answer"].get(part)


def with_default_protocol(part: Any) -> Any:
    for port in (part or {}).get("ports", ()):
        port.setdefault("protocol", "TCP")
    return part
