"""What the picture shows of a snapshot."""

from collections import Counter
from dataclasses import replace

import pytest

from kilonova.instances.fit.holders import Holder, find_holder
from kilonova.instances.fit.topology_view import (
    HolderView,
    list_resources,
    select_domains,
    view_topology,
)
from kilonova.scheduler.core.dra.claim_ledger import PublishedAllocation
from kilonova.scheduler.core.dra.claims import AllocatedDevice, ClaimAllocation, Device, DeviceId
from kilonova.scheduler.core.gpu.identity import WHOLE_GPU, GpuId, GpuReference
from kilonova.scheduler.core.gpu.layout import GpuShare
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.library.copies import CopyPod
from kilonova.scheduler.library.snapshots.snapshot import DevicePoolSnapshot
from tests.instances.clusters import NPU, RACK, node, pod, snapshot_of

DRIVER = "gpu.example.com"
INSTANCE = "InferenceEngineInstance"


def states(*nodes: Node, **arguments: object) -> list[str]:
    view = view_topology(snapshot_of(*nodes, **arguments))  # type: ignore[arg-type]
    return [each.state for each in view.nodes[0].accelerators]


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (node("n", gpus=2), ["Free", "Free"]),
        (node("n", gpus=2, unhealthy=[0]), ["Unhealthy", "Free"]),
        (node("n", gpus=2, withheld=[1]), ["Free", "Withheld"]),
        (node("n", gpus=2, states=["Cordoned"]), ["Unavailable", "Unavailable"]),
        (node("n", gpus=2, states=["NotReady"], unhealthy=[1]), ["Unavailable", "Unhealthy"]),
    ],
)
def test_states_of_free_accelerators(machine: Node, expected: list[str]):
    assert states(machine) == expected


def test_held_accelerators_keep_their_holder_whatever_the_node():
    machine = node("n", gpus=3, states=["Cordoned"], unhealthy=[1])
    view = view_topology(snapshot_of(machine, pods=[pod("a", "n", [0, 1], instance="llama")]))
    llama = Holder(INSTANCE, "default/llama")
    assert [(each.state, each.holder) for each in view.nodes[0].accelerators] == [
        ("Used", llama),
        ("Unhealthy", llama),
        ("Unavailable", None),
    ]
    assert view.nodes[0].states == ("Cordoned",)


def test_holder_of_a_shared_device_is_the_one_with_most_of_it():
    pods = [
        pod("small", "n", [GpuShare(0, 200)]),
        pod("large", "n", [GpuShare(0, 700)]),
        pod("slice", "n", [GpuShare(1, 0, "1g.10gb", 0, 1)]),
    ]
    (machine,) = view_topology(snapshot_of(node("n", gpus=2), pods=pods)).nodes
    assert [(each.state, each.holder and each.holder.name) for each in machine.accelerators] == [
        ("Partial", "default/large"),
        ("Partial", "default/slice"),
    ]


def test_amounts_of_pods_fill_the_first_accelerators():
    machine = node("n", gpus=0, resources={NPU: 5})
    pods = [pod("b", "n", resources={NPU: 1}), pod("a", "n", resources={NPU: 2})]
    view = view_topology(snapshot_of(machine, node("gpus"), pods=pods), NPU)
    (shown,) = view.nodes
    assert [each.holder and each.holder.name for each in shown.accelerators] == [
        "default/a",
        "default/a",
        "default/b",
        None,
        None,
    ]
    assert view.other_nodes == 1


def test_mig_instances_are_held_by_the_pods_that_requested_them():
    machine = node("n", gpus=1, resources={"nvidia.com/mig-1g.10gb": 3})
    pods = [
        pod("a", "n", [GpuShare(0, 0, "1g.10gb", 0, 1), GpuShare(0, 0, "1g.10gb", 1, 2)]),
        pod("b", "n", [GpuShare(0, 0, "2g.20gb", 2, 12)]),
    ]
    (shown,) = view_topology(snapshot_of(machine, pods=pods), "nvidia.com/mig-1g.10gb").nodes
    holders = [each.holder and each.holder.name for each in shown.accelerators]
    assert holders == ["default/a", "default/a", None]


def test_next_copy_has_its_devices_or_the_first_free_ones():
    machine = node("n", gpus=4, unhealthy=[0], resources={NPU: 3})
    cluster = snapshot_of(machine, pods=[pod("a", "n", resources={NPU: 1})])
    amounts = {"nvidia.com/gpu": 2, NPU: 1}
    copy = (CopyPod("ns/x", "agents", "n", "", "1,3", amounts),)
    gpus, npus = (view_topology(cluster, name, (), copy) for name in ("nvidia.com/gpu", NPU))
    assert [each.is_next for each in gpus.nodes[0].accelerators] == [False, True, False, True]
    assert [each.is_next for each in npus.nodes[0].accelerators] == [False, True, False]


@pytest.mark.parametrize(
    ("labels", "instance", "gang", "holder"),
    [
        ({}, "llama", "default/iei-llama", Holder(INSTANCE, "default/llama")),
        (
            {"kilonova.dev/workload": "Job_train"},
            "",
            "pod/default/p",
            Holder("Job", "default/train"),
        ),
        (
            {"batch.kubernetes.io/job-name": "train"},
            "",
            "pod/default/p",
            Holder("Job", "default/train"),
        ),
        ({}, "", "default/gang", Holder("PodGang", "default/gang")),
        ({}, "", "rsv/default/hold", Holder("Reservation", "default/hold")),
        ({}, "", "pod/default/p", Holder("Pod", "default/p")),
        ({}, "", "", Holder("Pod", "default/p")),
    ],
)
def test_holder_of_a_pod(labels: dict[str, str], instance: str, gang: str, holder: Holder):
    _, placement = pod("p", "n", [0], instance=instance, labels=labels, gang=gang)
    assert find_holder(placement) == holder


def test_holders_are_summed_up_with_the_smallest_domain_that_has_them():
    nodes = [node("a", "z/b/r1"), node("b", "z/b/r2"), node("c", "z/c/r3")]
    pods = [
        pod("x-0", "a", [0, 1], instance="x"),
        pod("x-1", "b", [0], instance="x"),
        pod("y", "c", [0], instance="y"),
    ]
    assert view_topology(snapshot_of(*nodes, pods=pods)).holders == (
        HolderView(Holder(INSTANCE, "default/x"), 3, 2, "z/b"),
        HolderView(Holder(INSTANCE, "default/y"), 1, 1, "z/c/r3"),
    )


def test_nodes_are_in_the_order_of_their_domains_and_numbers():
    nodes = [node("n10", "z/b/r2"), node("n9", "z/b/r2"), node("n1", "z/b/r10"), node("n2")]
    view = view_topology(snapshot_of(*nodes))
    assert [each.name for each in view.nodes] == ["n2", "n9", "n10", "n1"]


def test_levels_are_those_given_else_those_of_the_scheduler():
    cluster = snapshot_of(node("n", "z/b/r"), levels=(RACK,))
    assert view_topology(cluster).nodes[0].domain == ("r",)
    custom = view_topology(cluster, levels=("kubernetes.io/hostname",))
    assert custom.nodes[0].domain == ("n",)


@pytest.mark.parametrize(
    ("domains", "names"),
    [
        (["r1"], ["a", "c"]),
        (["z1/b1"], ["a", "b"]),
        (["z1/b1/r1", "z2"], ["a", "c"]),
        (["b1/r2"], ["b"]),
        (["r"], []),
    ],
)
def test_selected_domains(domains: list[str], names: list[str]):
    nodes = [node("a", "z1/b1/r1"), node("b", "z1/b1/r2"), node("c", "z2/b2/r1")]
    view = view_topology(snapshot_of(*nodes, pods=[pod("x", "b", [0], instance="x")]))
    selected = select_domains(view, domains)
    assert [each.name for each in selected.nodes] == names
    assert Counter(each.holder.name for each in selected.holders) == Counter(
        {"default/x": 1} if "b" in names else {}
    )


def test_claimed_gpus_have_the_holder_of_the_pod_that_claims_them():
    machine = replace(node("n", gpus=4), gpu_ids=tuple(GpuId(f"GPU-{n}") for n in range(4)))
    devices = tuple(
        Device(DeviceId(DRIVER, "n", name), "n", gpu=GpuReference(uuid, mask=mask))
        for name, uuid, mask in (
            ("whole", "GPU-1", WHOLE_GPU),
            ("part", "GPU-2", 3),
            ("kept", "GPU-3", WHOLE_GPU),
        )
    )
    claims = {
        f"default/{name}": PublishedAllocation(
            ClaimAllocation((AllocatedDevice("gpu", DeviceId(DRIVER, "n", name)),), "n"), consumers
        )
        for name, consumers in (
            ("whole", frozenset({"default/a"})),
            ("part", frozenset({"default/a"})),
            ("kept", frozenset[str]()),
        )
    }
    pools = (DevicePoolSnapshot(DRIVER, "n", devices, (), True, frozenset({"n"})),)
    cluster = snapshot_of(machine, pods=[pod("a", "n", instance="llama")])
    (shown,) = view_topology(replace(cluster, pools=pools, claims=claims)).nodes
    llama = Holder(INSTANCE, "default/llama")
    assert [(each.state, each.holder) for each in shown.accelerators] == [
        ("Free", None),
        ("Used", llama),
        ("Partial", llama),
        ("Used", Holder("ResourceClaim", "default/kept")),
    ]


def test_offered_resources():
    machine = node("n", resources={NPU: 2, "example.com/none": 0, "hugepages-1Gi": 1})
    assert list_resources(snapshot_of(machine)) == (NPU, "nvidia.com/gpu")
