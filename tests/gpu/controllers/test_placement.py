"""What the status says of the devices that the scheduler chose, as a table."""

from typing import Any

import msgspec
import pytest

from kilonova.api.gpu.annotations import DEVICES, TOPOLOGY
from kilonova.api.kgwe import AllocatedMigInstance, ScoreParts
from kilonova.gpu.controllers.gpuworkload.placement import WorkloadPlacement, read_placement
from kilonova.gpu.controllers.node_devices import DevicesOfNode, NodeDevices
from kilonova.scheduler.objects.core_v1 import Node, Pod

INSTANCE = {"uuid": "MIG-1", "profile": "2g.20gb", "start": 4}
SWITCHED: Any = {
    "product": "H100",
    "port": 900,
    "mig": "H100-80GB",
    "gpus": [{"uuid": f"GPU-{index}", "instances": [INSTANCE]} for index in range(4)],
}
LINKED: Any = {
    "product": "A100",
    "gpus": [{"uuid": f"GPU-{index}", "numa": index // 2} for index in range(4)],
    "links": [[0, 1, 200], [2, 3, 100]],
}
UNKNOWN: Any = {"gpus": [{}, {}]}


def read(topology: Any, *devices: str, preference: Any = "NVLinkOptimal") -> WorkloadPlacement:
    annotations = {TOPOLOGY: msgspec.json.encode(topology).decode()}
    known: Any = {"name": "n", "uid": "n", "resourceVersion": "1", "annotations": annotations}
    node = msgspec.convert({"metadata": known}, Node)
    pods = [
        msgspec.convert(
            {
                "metadata": {
                    "name": f"p{index}",
                    "uid": "",
                    "resourceVersion": "1",
                    "annotations": {DEVICES: text},
                },
                "spec": {"nodeName": "n"},
            },
            Pod,
        )
        for index, text in enumerate(devices)
    ]

    def read_devices(name: str) -> DevicesOfNode | None:
        return NodeDevices().read(node) if name == "n" else None

    return read_placement(pods, preference, read_devices)


PLACEMENTS: dict[str, tuple[Any, tuple[str, ...], WorkloadPlacement]] = {
    "behind a switch": (
        SWITCHED,
        ("0,2,3",),
        WorkloadPlacement(("GPU-0", "GPU-2", "GPU-3"), (), 100, 900.0),
    ),
    "one GPU": (SWITCHED, ("1",), WorkloadPlacement(("GPU-1",), (), 100, None)),
    "a link": (LINKED, ("0,1",), WorkloadPlacement(("GPU-0", "GPU-1"), (), 91, 200.0)),
    "the slower of two pods": (
        LINKED,
        ("0,1", "2,3"),
        WorkloadPlacement(("GPU-0", "GPU-1", "GPU-2", "GPU-3"), (), 88, 100.0),
    ),
    "an instance that exists": (
        SWITCHED,
        ("2:2g.20gb@4",),
        WorkloadPlacement(
            ("GPU-2",), (AllocatedMigInstance("GPU-2", "MIG-1", "2g.20gb", "n"),), 100, None
        ),
    ),
    "an instance that is being made": (
        SWITCHED,
        ("2:2g.20gb@0",),
        WorkloadPlacement(
            ("GPU-2",), (AllocatedMigInstance("GPU-2", "", "2g.20gb", "n"),), 100, None
        ),
    ),
    "no UUIDs": (UNKNOWN, ("1",), WorkloadPlacement(("1@n",), (), 100, None)),
    "an invalid annotation": (SWITCHED, ("x",), WorkloadPlacement()),
    "a device that the node lacks": (UNKNOWN, ("7",), WorkloadPlacement(("7@n",), (), None, None)),
    "no annotation": (SWITCHED, ("",), WorkloadPlacement()),
}


@pytest.mark.parametrize(("topology", "devices", "expected"), PLACEMENTS.values(), ids=PLACEMENTS)
def test_placement_is_read(
    topology: Any, devices: tuple[str, ...], expected: WorkloadPlacement
) -> None:
    assert read(topology, *devices) == expected


@pytest.mark.parametrize(
    ("topology", "locality", "expected"),
    [
        (90, 0.5, (70, ScoreParts(90, 50))),
        (90, None, (90, ScoreParts(90, None))),
        (None, 1.0, (100, ScoreParts(None, 100))),
        (None, None, (None, None)),
    ],
)
def test_score_is_the_mean_of_its_parts(topology: Any, locality: Any, expected: Any) -> None:
    assert WorkloadPlacement(topology_score=topology).rate(locality) == expected
