"""Kinds that are served in two versions: conversion loses nothing."""

from copy import deepcopy
from typing import Any

import pytest

from kilonova.local.apiserver.kinds.autoscaling.conversion import convert_v1_to_v2, convert_v2_to_v1
from kilonova.local.apiserver.kinds.core.events import from_core_event, to_core_event
from tests.local.apiserver.kinds.recorded_objects import manifests, served_kinds, storing

EXTERNAL = {"type": "External", "external": {"metric": {"name": "q"}, "target": {"value": "3"}}}
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 40}},
}


def autoscaler(metrics: list[Any], **more: Any) -> Any:
    return {"metadata": {"name": "h"}, "spec": {"metrics": metrics, **more}, "status": {}}


def test_v1_autoscaler_has_the_cpu_metric() -> None:
    old = convert_v2_to_v1(autoscaler([CPU]))
    assert old["spec"] == {"targetCPUUtilizationPercentage": 40}
    assert old["metadata"] == {"name": "h"}


@pytest.mark.parametrize(
    "new",
    [
        autoscaler([CPU]),
        autoscaler([EXTERNAL, CPU]),
        autoscaler([CPU], behavior={"scaleUp": {"selectPolicy": "Max"}}),
        {**autoscaler([CPU]), "status": {"conditions": [{"type": "AbleToScale"}]}},
        {
            **autoscaler([CPU]),
            "status": {
                "currentMetrics": [
                    {"type": "Resource", "resource": {"name": "cpu", "current": {"value": "1"}}}
                ]
            },
        },
    ],
)
def test_autoscaler_round_trips_through_v1(new: Any) -> None:
    assert convert_v1_to_v2(convert_v2_to_v1(deepcopy(new))) == new


def test_event_round_trips_through_events_v1() -> None:
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "Pod"},
        "message": "m",
        "source": {"component": "c"},
        "firstTimestamp": "t1",
        "lastTimestamp": "t2",
        "count": 3,
        "reportingComponent": "r",
        "reportingInstance": "i",
        "series": {"count": 1},
        "reason": "why",
    }
    other = from_core_event(event)
    assert other["regarding"] == {"kind": "Pod"}
    assert other["note"] == "m"
    assert other["deprecatedCount"] == 3
    assert other["reportingController"] == "r"
    assert to_core_event(other) == event


def test_both_event_versions_have_the_same_selectable_values() -> None:
    kinds = served_kinds()
    core, other = kinds["v1", "Event"].strategy, kinds["events.k8s.io/v1", "Event"].strategy
    event = deepcopy(manifests()["Event event-old"])
    values = [value_of(event) for value_of in core.selectable_fields.values()]
    assert values == [value_of(event) for value_of in other.selectable_fields.values()]
    assert dict(zip(core.selectable_fields, values, strict=True)) == {
        "involvedObject.kind": "Pod",
        "involvedObject.namespace": "default",
        "involvedObject.name": "p",
        "involvedObject.uid": "",
        "involvedObject.apiVersion": "",
        "involvedObject.resourceVersion": "",
        "involvedObject.fieldPath": "",
        "reason": "Started",
        "reportingComponent": "",
        "source": "kubelet",
        "type": "Normal",
    }
    assert list(other.selectable_fields)[2] == "regarding.name"


@pytest.mark.parametrize(
    ("api_version", "kind", "stored_as"),
    [
        ("events.k8s.io/v1", "Event", "v1"),
        ("autoscaling/v1", "HorizontalPodAutoscaler", "autoscaling/v2"),
        ("apps/v1", "Deployment", "apps/v1"),
    ],
)
def test_kind_has_one_storage_version(api_version: str, kind: str, stored_as: str) -> None:
    kinds = served_kinds()
    assert storing(kinds, kinds[api_version, kind]).api_version == stored_as
