"""Which devices a container gets: of its pod's annotation, or free ones."""

import pytest

from kilonova.api.gpu.annotations import InvalidAnnotation, format_devices, parse_devices
from kilonova.catalog.resource_names import GPU
from kilonova.gpu.deviceplugin.assignment import select_assigned, select_devices
from kilonova.gpu.deviceplugin.matching import Candidate, KubeletRequest
from kilonova.gpu.deviceplugin.plugin_devices import SHARED_GPU
from kilonova.gpu.deviceplugin.pods import NodePod
from kilonova.gpu.devices.model import HealthState, NodeInventory
from kilonova.gpu.kubelet.holdings import HeldDevice, HolderKind, Holding
from kilonova.gpu.kubelet.interfaces import AllocationRefused
from tests.gpu.deviceplugin.node_pods import ended, machine, make_pod, with_health, with_withheld

SMALL = "nvidia.com/mig-1g.10gb"
LARGE = "nvidia.com/mig-3g.40gb"
NODE = machine()


@pytest.mark.parametrize(
    ("pod", "container", "expected"),
    [
        (make_pod("a", "2"), "c0", "2"),
        (make_pod("a", "3,1", 2), "c0", "3,1"),
        (make_pod("a", "0,1,2", 1, 2), "c0", "0"),
        (make_pod("a", "0,1,2", 1, 2), "c1", "1,2"),
        # An init container uses the devices of those that come after it.
        (make_pod("a", "0,1", 1, 1, init=2), "init", "0,1"),
        (make_pod("a", "0,1", 1, 1, init=2), "c1", "1"),
        # A sidecar runs beside the others.
        (make_pod("a", "0,1", sidecar=1), "sidecar", "0"),
        (make_pod("a", "0,1", sidecar=1), "c0", "1"),
    ],
)
def test_containers_take_the_devices_of_their_pod_in_order(
    pod: NodePod, container: str, expected: str
) -> None:
    assert format_devices(select_assigned(_candidate(pod, container), GPU)) == expected


def test_instances_are_those_of_the_profile() -> None:
    pod = make_pod("a", "1:1g.10gb@4", resource=SMALL)
    assert _select(NODE, pod, SMALL) == "1:1g.10gb@4"


def test_every_container_of_a_pod_uses_its_shares() -> None:
    pod = make_pod("a", "1:500", 1, 1, resource=SHARED_GPU)
    assert format_devices(select_assigned(_candidate(pod, "c1"), SHARED_GPU)) == "1:500"


@pytest.mark.parametrize(
    ("pod", "resource", "problem"),
    [
        (make_pod("a", "0"), LARGE, "is assigned 0 devices of nvidia.com/mig-3g.40gb"),
        (make_pod("a", "0,1", 3), GPU, "is assigned 2 devices of nvidia.com/gpu"),
        (make_pod("a", "7"), GPU, "is assigned GPU 7, and the node has 4"),
        (make_pod("a", "zero"), GPU, "annotation gpu.kilonova.dev/devices: 'zero'"),
        (make_pod("a", "0"), SHARED_GPU, "is assigned no share of a GPU"),
        (make_pod("a", "1:1g.10gb@7", resource=SMALL), SMALL, "no such MIG instance"),
    ],
)
def test_annotation_that_does_not_fit_is_refused(pod: NodePod, resource: str, problem: str) -> None:
    with pytest.raises(AllocationRefused, match=problem):
        _select(NODE, _requesting(pod, resource), resource)


def test_unhealthy_device_is_refused_with_its_reason() -> None:
    node = with_health(NODE, 2, HealthState.UNHEALTHY)
    with pytest.raises(AllocationRefused, match="which is unhealthy: XID 79: lost"):
        _select(node, make_pod("a", "2"))


@pytest.mark.parametrize(("devices", "resource"), [("2", GPU), ("2:500", SHARED_GPU)])
def test_gpu_that_is_to_be_partitioned_is_refused_with_its_reason(
    devices: str, resource: str
) -> None:
    with pytest.raises(AllocationRefused, match="as MIG instances only: MIGStrategy s"):
        _select(with_withheld(NODE, 2), make_pod("a", devices, resource=resource), resource)


def test_gpu_that_is_to_be_partitioned_gives_instances() -> None:
    pod = make_pod("a", "2:1g.10gb@4", resource=SMALL)
    assert _select(with_withheld(NODE, 2), pod, SMALL) == "2:1g.10gb@4"


def test_pod_without_annotation_gets_no_gpu_that_is_to_be_partitioned() -> None:
    node = with_withheld(NODE, 0)
    assert _select(node, make_pod("a", None, 2)) == "1,2"
    with pytest.raises(AllocationRefused, match=r"has 3 free devices of nvidia.com/gpu, not 4"):
        _select(node, make_pod("b", None, 4))


@pytest.mark.parametrize(
    ("theirs", "ours", "resource"),
    [
        ("2", "2", GPU),
        ("2:1g.10gb@0", "2", GPU),
        ("2", "2:1g.10gb@0", SMALL),
        ("2:3g.40gb@4", "2:1g.10gb@5", SMALL),
        ("2:500", "2", GPU),
        ("2:500", "2:600", SHARED_GPU),
        ("2:500/900", "2:200/200", SHARED_GPU),
    ],
)
def test_device_of_another_holder_is_refused(theirs: str, ours: str, resource: str) -> None:
    holdings = [_holding("other", theirs)]
    with pytest.raises(AllocationRefused, match="Pod ns/other container c0 has GPU 2"):
        _select(NODE, make_pod("a", ours, resource=resource), resource, holdings)


@pytest.mark.parametrize(
    ("theirs", "ours", "resource"),
    [
        ("2:3g.40gb@4", "2:1g.10gb@3", SMALL),
        ("2:500", "2:500", SHARED_GPU),
        ("1", "2", GPU),
    ],
)
def test_parts_of_a_device_have_different_holders(theirs: str, ours: str, resource: str) -> None:
    pod = make_pod("a", ours, resource=resource)
    assert _select(NODE, pod, resource, [_holding("other", theirs)]) == ours


def test_own_devices_are_no_conflict() -> None:
    assert _select(NODE, make_pod("a", "2"), holdings=[_holding("a", "2")]) == "2"


def test_claim_with_admin_access_excludes_nobody() -> None:
    watcher = _holding("monitor", "2", is_admin=True)
    assert _select(NODE, make_pod("a", "2"), holdings=[watcher]) == "2"


def test_pod_without_annotation_gets_the_first_free_devices() -> None:
    pods = [make_pod("soon", "1"), ended(make_pod("gone", "2"))]
    holdings = [_holding("other", "0:1g.10gb@3")]
    assert _select(NODE, make_pod("a", None, 2), GPU, holdings, pods) == "2,3"


def test_pod_without_annotation_gets_what_the_kubelet_counts_if_it_is_free() -> None:
    ids = frozenset({NODE.devices[2].uuid})
    assert _select(NODE, make_pod("a", None), ids=ids) == "2"


def test_pod_without_annotation_gets_an_instance_beside_others() -> None:
    node = with_health(NODE, 0, HealthState.UNHEALTHY)
    holdings = [_holding("other", "1:3g.40gb@0")]
    pods = [make_pod("soon", "1:1g.10gb@4", resource=SMALL)]
    pod = make_pod("a", None, 2, resource=SMALL)
    assert _select(node, pod, SMALL, holdings, pods) == "1:1g.10gb@5,1:1g.10gb@6"


def test_too_few_free_devices() -> None:
    with pytest.raises(AllocationRefused, match=r"has 3 free devices of nvidia.com/gpu, not 4"):
        _select(NODE, make_pod("a", None, 4), GPU, [_holding("other", "0")])


def _requesting(pod: NodePod, resource: str) -> NodePod:
    """The pod, whose containers request the resource."""
    count = next(iter(pod.containers[0].amounts.values()))
    return make_pod(pod.name, pod.devices, count, resource=resource)


def _candidate(pod: NodePod, container: str) -> Candidate:
    return Candidate(pod, next(each for each in pod.containers if each.name == container))


def _holding(name: str, devices: str, *, is_admin: bool = False) -> Holding:
    parsed = parse_devices(devices)
    assert not isinstance(parsed, InvalidAnnotation)
    held = tuple(
        HeldDevice(NODE.devices[each.index].uuid, each, is_admin=is_admin) for each in parsed
    )
    return Holding(HolderKind.POD, f"uid-{name}", "ns", name, held, "c0", GPU)


def _select(
    node: NodeInventory,
    pod: NodePod,
    resource: str = GPU,
    holdings: list[Holding] | None = None,
    pods: list[NodePod] | None = None,
    ids: frozenset[str] = frozenset(),
) -> str:
    count = pod.containers[0].amounts.get(resource, 1)
    request = KubeletRequest(resource, count, ids)
    found = select_devices(
        node, Candidate(pod, pod.containers[0]), request, holdings or [], [pod, *(pods or [])]
    )
    return format_devices(found)
