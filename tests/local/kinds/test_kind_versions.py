"""Kinds that are served in two shapes: nothing is lost on the way there and back."""

from copy import deepcopy
from typing import Any

import pytest

from kilonova.local.kinds.events import from_core, to_core
from kilonova.local.kinds.hpaversions import from_v2, to_v2
from tests.local.kinds.recorded import manifests, served_kinds, storing

EXTERNAL = {"type": "External", "external": {"metric": {"name": "q"}, "target": {"value": "3"}}}
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 40}},
}


def autoscaler(metrics: list[Any], **more: Any) -> Any:
    return {"metadata": {"name": "h"}, "spec": {"metrics": metrics, **more}, "status": {}}


def test_an_old_autoscaler_names_the_cpu_metric() -> None:
    old = from_v2(autoscaler([CPU]))
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
def test_an_autoscaler_comes_back_from_its_old_shape(new: Any) -> None:
    assert to_v2(from_v2(deepcopy(new))) == new


def test_an_event_comes_back_from_its_other_shape() -> None:
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
    other = from_core(event)
    assert other["regarding"] == {"kind": "Pod"}
    assert other["note"] == "m"
    assert other["deprecatedCount"] == 3
    assert other["reportingController"] == "r"
    assert to_core(other) == event


def test_both_shapes_of_an_event_select_by_the_same_values() -> None:
    kinds = served_kinds()
    core, other = kinds["v1", "Event"].behavior, kinds["events.k8s.io/v1", "Event"].behavior
    event = deepcopy(manifests()["Event event-old"])
    values = [value_of(event) for value_of in core.selectable.values()]
    assert values == [value_of(event) for value_of in other.selectable.values()]
    assert dict(zip(core.selectable, values, strict=True)) == {
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
    assert list(other.selectable)[2] == "regarding.name"


@pytest.mark.parametrize(
    ("api_version", "kind", "stored_as"),
    [
        ("events.k8s.io/v1", "Event", "v1"),
        ("autoscaling/v1", "HorizontalPodAutoscaler", "autoscaling/v2"),
        ("apps/v1", "Deployment", "apps/v1"),
    ],
)
def test_each_kind_is_stored_in_one_version(api_version: str, kind: str, stored_as: str) -> None:
    kinds = served_kinds()
    assert storing(kinds, kinds[api_version, kind]).api_version == stored_as
