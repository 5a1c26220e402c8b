"""Conversion of pods to members: tolerations, shares of GPUs."""

import pytest

from kilonova.scheduler.convert.pods.members import InvalidRequest, convert_pod_shape
from kilonova.scheduler.core.model.requests import GpuRequest
from kilonova.scheduler.core.model.taints import Taint, untolerated_taints
from tests.scheduler.convert.wire_pods import wire_pod


@pytest.mark.parametrize(
    ("operator", "value", "tolerated"),
    [
        ("Exists", "", {"900", "950"}),
        ("Equal", "900", {"900"}),
        (None, "900", {"900"}),
        ("Gt", "900", {"950"}),
        ("Lt", "950", {"900"}),
        ("Lt", "900", set[str]()),
    ],
)
def test_operator_of_a_toleration_is_kept(
    operator: str | None, value: str, tolerated: set[str]
) -> None:
    toleration = {"key": "sla", "value": value, "effect": "NoSchedule"}
    if operator is not None:
        toleration["operator"] = operator
    shape = convert_pod_shape(wire_pod({"tolerations": [toleration]}))
    taints = [Taint("sla", "NoSchedule", each) for each in ("900", "950")]
    found = {each.value for each in taints if not untolerated_taints(shape.tolerations, (each,))}
    assert found == tolerated


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"milli": "500"}, GpuRequest(1, 500)),
        ({"milli": "500", "memory": "9000"}, GpuRequest(1, 500, memory=9000, share_memory=9000)),
        ({"memory": "9000"}, GpuRequest(1, 0, memory=9000, share_memory=9000)),
        (
            {"milli": "500", "memory": "9000", "min-memory": "40000"},
            GpuRequest(1, 500, memory=40000, share_memory=9000),
        ),
        ({"milli": "1000", "memory": "9000"}, GpuRequest(1)),
    ],
)
def test_share_has_a_compute_and_a_memory_part(
    annotations: dict[str, str], expected: GpuRequest
) -> None:
    given = {f"gpu.kilonova.dev/{name}": value for name, value in annotations.items()}
    assert convert_pod_shape(wire_pod({}, annotations=given)).gpu == expected


def test_kai_annotations_are_equivalent() -> None:
    by_fraction = wire_pod({}, annotations={"gpu-fraction": "0.5"})
    assert convert_pod_shape(by_fraction).gpu == GpuRequest(1, 500)
    by_memory = wire_pod({}, annotations={"gpu-memory": "9000"})
    assert convert_pod_shape(by_memory).gpu == GpuRequest(1, 0, memory=9000, share_memory=9000)


def test_invalid_memory_of_a_share_is_named() -> None:
    invalid = wire_pod({}, annotations={"gpu.kilonova.dev/memory": "2Gi"})
    with pytest.raises(InvalidRequest, match=r"gpu.kilonova.dev/memory.*'2Gi' is not a GPU memory"):
        convert_pod_shape(invalid)
