"""GPUs of containers: whole ones, shares and MIG instances, none given twice."""

from collections import defaultdict

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kilonova.api.gpu.annotations import (
    DEVICES,
    DeviceAssignment,
    Gpu,
    InvalidAnnotation,
    MigInstance,
    format_devices,
    parse_devices,
)
from kilonova.local.processnode.kubelet.machine.devices import (
    ContainerAllocateRequest,
    DeviceManager,
    InsufficientGpus,
    build_request,
    pod_devices,
)
from tests.local.processnode.kubelet.kubelet_pods import pod, sidecar


def devices(*texts: str) -> DeviceManager:
    """Four GPUs, some of them held by other pods."""
    made = DeviceManager([Gpu()] * 4)
    for number, text in enumerate(texts):
        made.restore(f"other-{number}", "a", assignments(text))
    return made


def assignments(text: str) -> tuple[DeviceAssignment, ...]:
    found = parse_devices(text)
    assert not isinstance(found, InvalidAnnotation)
    return found


def allocate(
    manager: DeviceManager,
    text: str = "",
    container: str = "a",
    uid: str = "u",
    gpu: int = 0,
    mig: str = "",
) -> str:
    """The devices of a container that requests GPUs, or a MIG instance."""
    amounts = {"nvidia.com/gpu": gpu} if gpu else {}
    amounts |= {f"nvidia.com/mig-{mig}": 1} if mig else {}
    request = ContainerAllocateRequest(amounts, assignments(text))
    return format_devices(manager.allocate(uid, container, request))


def test_gpus_are_never_assigned_twice() -> None:
    manager = DeviceManager([Gpu()] * 3)
    assert allocate(manager, gpu=2) == "0,1"
    assert allocate(manager, gpu=2) == "0,1"
    assert allocate(manager, uid="v", gpu=1) == "2"
    with pytest.raises(
        InsufficientGpus, match=r"nvidia.com/gpu, requested: 1, used: 3, capacity: 3"
    ):
        allocate(manager, uid="w", gpu=1)
    manager.release("u")
    manager.restore("x", "a", (DeviceAssignment(1),))
    assert allocate(manager, uid="w", gpu=1) == "0"


def test_gpus_are_those_that_the_scheduler_assigned() -> None:
    manager = devices()
    assert allocate(manager, "3,2", "a", gpu=1) == "3"
    assert allocate(manager, "3,2", "b", gpu=1) == "2"
    assert allocate(manager, "", "a", gpu=1) == "3"


@pytest.mark.parametrize("assigned", ["", "2", "1,2", "3,3", "7,8", "2:500,3:500"])
def test_first_free_gpus_replace_an_unusable_assignment(assigned: str) -> None:
    assert allocate(devices("1"), assigned, gpu=2) == "0,2"


def test_all_containers_of_a_pod_use_its_share() -> None:
    manager = devices("1:500", "1:250")
    assert allocate(manager, "1:250", "a") == "1:250"
    assert allocate(manager, "1:250", "b") == "1:250"
    assert manager.build_environment(assignments("1:250"))["CUDA_VISIBLE_DEVICES"] == "1"
    with pytest.raises(InsufficientGpus, match="requested: 100, used: 1000, capacity: 1000"):
        allocate(manager, "1:100", uid="v")
    with pytest.raises(InsufficientGpus, match="used: 1, capacity"):
        allocate(manager, uid="v", gpu=4)


@pytest.mark.parametrize(("held", "assigned"), [("1", "1:500"), ("", "9:500")])
def test_a_share_of_a_gpu_that_is_taken_or_absent_is_refused(held: str, assigned: str) -> None:
    with pytest.raises(InsufficientGpus, match="in thousandths"):
        allocate(devices(held), assigned)


MIG_GPU = Gpu(
    mig_enabled=True,
    instances=(
        MigInstance("MIG-a", "1g.18gb", 0),
        MigInstance("MIG-b", "1g.18gb", 2),
        MigInstance("MIG-c", "1g.18gb+me", 3),
    ),
)


def test_mig_instances_are_selected_by_their_uuid() -> None:
    manager = DeviceManager([Gpu(), MIG_GPU])
    assert manager.capacity == {
        "nvidia.com/gpu": 1,
        "nvidia.com/mig-1g.18gb": 2,
        "nvidia.com/mig-1g.18gb.me": 1,
    }
    assert allocate(manager, "1:1g.18gb@2", mig="1g.18gb") == "1:1g.18gb@2"
    chosen = assignments("1:1g.18gb@2")
    assert manager.build_environment(chosen)["CUDA_VISIBLE_DEVICES"] == "MIG-b"
    assert allocate(manager, uid="v", mig="1g.18gb") == "1:1g.18gb@0"
    with pytest.raises(InsufficientGpus, match=r"mig-1g.18gb, requested: 1, used: 2, capacity: 2"):
        allocate(manager, uid="w", mig="1g.18gb")
    assert allocate(manager, uid="w", mig="1g.18gb.me") == "1:1g.18gb+me@3"


def test_gpus_in_mig_mode_and_broken_ones_are_not_given_as_whole_ones() -> None:
    manager = DeviceManager([MIG_GPU, Gpu(healthy=False), Gpu()])
    assert allocate(manager, "0", gpu=1) == "2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3,1", "3,1"), ("", ""), ("GPU-1", ""), ("3:500", "3:500"), ("0,2:1g.10gb@4",) * 2],
)
def test_assigned_devices_are_those_of_the_annotation(text: str, expected: str) -> None:
    asked = pod({"name": "main"}, metadata={"annotations": {DEVICES: text}})
    request = build_request(asked, asked.spec.containers[0])
    assert (format_devices(request.assigned), request.amounts) == (expected, {})


def test_gpus_of_sidecars_are_added() -> None:
    one, three = ({"resources": {"limits": {"nvidia.com/gpu": each}}} for each in (1, 3))
    first, second = sidecar("s", **one), sidecar("t", **one)
    gpus = "nvidia.com/gpu"
    assert pod_devices(pod({"name": "main", **one}, init=(first, second))) == {gpus: 3}
    last = {"name": "i", **three}
    assert pod_devices(pod({"name": "main", **one}, init=(first, last))) == {gpus: 4}
    assert pod_devices(pod("main")) == {}


def test_containers_without_gpus_see_none() -> None:
    assert DeviceManager([]).build_environment(()) == {}
    assert DeviceManager([Gpu()]).build_environment(())["CUDA_VISIBLE_DEVICES"] == ""
    assert devices().build_environment(assignments("1,0"))["NVIDIA_VISIBLE_DEVICES"] == "1,0"


REQUESTS = st.sampled_from(
    [
        ContainerAllocateRequest({"nvidia.com/gpu": 1}),
        ContainerAllocateRequest({"nvidia.com/gpu": 2}, (DeviceAssignment(2), DeviceAssignment(0))),
        ContainerAllocateRequest({}, (DeviceAssignment(0, 500),)),
        ContainerAllocateRequest({}, (DeviceAssignment(2, 300),)),
        ContainerAllocateRequest({"nvidia.com/mig-1g.18gb": 1}),
        ContainerAllocateRequest(
            {"nvidia.com/mig-1g.18gb": 1}, (DeviceAssignment(1, 0, "1g.18gb", 2),)
        ),
    ]
)
"""As the scheduler may assign them, or a pod with `nodeName` may request them without it."""
STEPS = st.lists(st.tuples(st.integers(0, 5), st.sampled_from("ab"), st.none() | REQUESTS))


@given(STEPS)
@example(
    [
        (0, "a", ContainerAllocateRequest({"nvidia.com/gpu": 1})),
        (0, "b", ContainerAllocateRequest({}, (DeviceAssignment(0, 500),))),
    ]
)
def test_no_gpu_is_given_twice_whatever_pods_request(
    steps: list[tuple[int, str, ContainerAllocateRequest | None]],
) -> None:
    manager = DeviceManager([Gpu(), MIG_GPU, Gpu()])
    for number, container, request in steps:
        if request is None:
            manager.release(str(number), container)
            continue
        try:
            manager.allocate(str(number), container, request)
        except InsufficientGpus:
            continue
        by_gpu: defaultdict[int, list[tuple[str, DeviceAssignment]]] = defaultdict(list)
        for uid in map(str, range(6)):
            for devices_of_container in manager.allocations_of(uid).values():
                for each in devices_of_container:
                    by_gpu[each.index].append((uid, each))
        for held in by_gpu.values():
            whole = [each for each in held if each[1].is_whole]
            assert not whole or len(held) == 1
            instances = [each.start for _, each in held if each.profile]
            assert len(instances) == len(set(instances))
            shares = {each for each in held if not each[1].profile}
            assert sum(each.milli for _, each in shares) <= 1000
