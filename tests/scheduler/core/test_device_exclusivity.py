"""No GPU, share or slice is given twice, however claims, whole GPUs, shares and MIG instances are
mixed; seen through plans, and through a cluster rebuilt from a snapshot file."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kilonova.catalog.mig import known_geometries
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.convert.devices.cel_selectors import DeviceSelectorCache
from kilonova.scheduler.core.dra.claim_ledger import PublishedAllocation
from kilonova.scheduler.core.dra.claims import (
    AllocatedDevice,
    ClaimAllocation,
    ClaimRequest,
    Device,
    DeviceAttribute,
    DeviceId,
    DeviceRequestOption,
    SharedCounter,
)
from kilonova.scheduler.core.dra.inventory import DevicePool
from kilonova.scheduler.core.gpu.identity import WHOLE_GPU, GpuId, GpuReference
from kilonova.scheduler.core.gpu.layout import MILLI_PER_GPU, Gpu, GpuLayout
from kilonova.scheduler.core.model.cluster import Cluster
from kilonova.scheduler.core.model.gangs import Gang, Group, Member
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.planner import Planner
from kilonova.scheduler.core.scheduling_cycle import PlannerPolicy
from kilonova.scheduler.core.scoring.plugins import default_scoring
from kilonova.scheduler.library.snapshots.file import decode_snapshot, encode_snapshot
from kilonova.scheduler.library.snapshots.snapshot import take_snapshot
from tests.harness.campaigns import limit_examples

DRIVER = "gpu.nvidia.com"
H200 = next(each for each in known_geometries() if each.name == "H200-141GB")
WHOLE = 'device.attributes["gpu.nvidia.com"].type == "gpu"'
PART = 'device.attributes["gpu.nvidia.com"].type == "mig"'
PARTS = ("1g.18gb", "3g.71gb", "2g.35gb")
NAMES = ("a", "b")


def node(name: str, gpus: int, *, ids: bool) -> Node:
    return Node(
        name,
        {"pods": 110, GPU: gpus},
        layout=GpuLayout(tuple(Gpu(index, 143_771, mig=H200) for index in range(gpus))),
        gpu_ids=tuple(GpuId(f"GPU-{name}-{n}") for n in range(gpus)) if ids else (),
    )


def published_devices(name: str, gpus: int, *, counters: bool) -> DevicePool:
    """Each GPU, and each MIG instance that it could have, as NVIDIA's driver publishes them."""
    devices: list[Device] = []
    slices: dict[SharedCounter, int] = {}
    for index in range(gpus):
        own = [SharedCounter(DRIVER, name, f"gpu-{index}", f"slice-{bit}") for bit in range(8)]
        slices.update(dict.fromkeys(own, 1) if counters else {})
        masks = [("gpu", f"gpu-{index}", WHOLE_GPU)]
        for profile_name in PARTS:
            profile = H200.profile(profile_name)
            assert profile is not None
            short = profile_name.replace(".", "")
            masks += [
                ("mig", f"gpu-{index}-mig-{short}-{start}", profile.mask_at(start))
                for start in profile.starts
            ]
        devices += [
            Device(
                DeviceId(DRIVER, name, title),
                name,
                attributes={"type": DeviceAttribute("string", kind)},
                consumes=tuple(
                    (counter, 1) for bit, counter in enumerate(own) if counters and mask >> bit & 1
                ),
                gpu=GpuReference(f"GPU-{name}-{index}", index=index, mask=mask),
            )
            for kind, title, mask in masks
        ]
    return DevicePool(tuple(devices), slices, nodes=frozenset({name}))


def claim(selector: str, count: int = 1) -> ClaimRequest:
    return ClaimRequest(((DeviceRequestOption("gpu", (selector,), count),),))


POD = ("pods", 1)
SHAPES = (
    Shape((POD,), claims=(claim(WHOLE),)),
    Shape((POD,), claims=(claim(WHOLE, 2),)),
    Shape((POD,), claims=(claim(PART),)),
    Shape((POD,), claims=(claim(PART), claim(PART))),
    Shape(((GPU, 1), POD), GpuRequest(1)),
    Shape(((GPU, 2), POD), GpuRequest(2)),
    Shape(((GPU, 1), POD), GpuRequest(1), claims=(claim(WHOLE),)),
    Shape((POD,), GpuRequest(1, 300), claims=(claim(PART),)),
    Shape((POD,), GpuRequest(1, 400)),
    Shape((POD,), GpuRequest(1, 100, share_memory=90_000)),
    Shape((POD,), GpuRequest(1, 700, share_memory=20_000)),
    Shape((POD,), GpuRequest(1, profile="3g.71gb")),
    Shape((POD,), GpuRequest(2, profile="1g.18gb")),
    Shape((POD,), GpuRequest(1, profile="1g.18gb+me")),
)


class DeviceStateMachine(RuleBasedStateMachine):
    """Gangs arrive and end, other schedulers allocate claims, drivers restart."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.made = 0.0, 0
        self.cluster = Cluster()
        self.pools: dict[str, DevicePool] = {}
        self.foreign: dict[str, PublishedAllocation] = {}

    @initialize(
        gpus=st.tuples(st.integers(1, 3), st.integers(0, 2)),
        ids=st.booleans(),
        counters=st.booleans(),
    )
    def begin(self, gpus: tuple[int, int], ids: bool, counters: bool) -> None:
        self.cluster.snapshot.claims.set_selector_matcher(DeviceSelectorCache())
        for name, count in zip(NAMES, gpus, strict=True):
            self.cluster.snapshot.put_node(node(name, count, ids=ids))
            self.pools[name] = published_devices(name, count, counters=counters)
            self.cluster.snapshot.put_pool((DRIVER, name), self.pools[name])

    @rule(
        shapes=st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3),
        copies=st.integers(1, 2),
        priority=st.integers(0, 1),
    )
    def schedule(self, shapes: list[Shape], copies: int, priority: int) -> None:
        self.made += 1
        name = f"gang-{self.made}"
        groups = [
            Group(f"g{number}", members, len(members))
            for number, shape in enumerate(shapes)
            if (members := tuple(_member(f"{name}-{number}-{n}", shape) for n in range(copies)))
        ]
        gang = Gang(name, tuple(groups), priority=priority)
        planner = Planner(self.cluster, default_scoring(), PlannerPolicy(reserve_after=1e9))
        known = set(self.cluster.snapshot.placements)
        planned = planner.plan([gang], self.now)
        decided = planner.schedule([gang], self.now)
        assert planned == decided
        self.check_withheld(known)
        self.now += 1

    @precondition(lambda self: self.cluster.running_gangs)
    @rule(data=st.data())
    def end_gang(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.cluster.running_gangs)))
        pods = list(self.cluster.running_gangs[name].pods)
        self.cluster.snapshot.remove_pods(pods)
        self.cluster.record_removed(name, pods)

    @rule(data=st.data())
    def allocate_elsewhere(self, data: st.DataObject) -> None:
        """Another scheduler publishes an allocation of a device that is free."""
        node_name = data.draw(st.sampled_from(NAMES))
        free = [each for each in self.pools[node_name].devices if self.is_free(node_name, each)]
        if free:
            device = data.draw(st.sampled_from(free))
            self.made += 1
            allocated = AllocatedDevice("gpu", device.id)
            name = f"ns/foreign-{self.made}"
            self.foreign[name] = PublishedAllocation(
                ClaimAllocation((allocated,), node_name), frozenset({f"{name}-pod"})
            )
            self.cluster.snapshot.put_claim(name, self.foreign[name])

    @precondition(lambda self: self.foreign)
    @rule(data=st.data())
    def deallocate_elsewhere(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.foreign)))
        del self.foreign[name]
        self.cluster.snapshot.put_claim(name, None)

    @rule(name=st.sampled_from(NAMES))
    def restart_driver(self, name: str) -> None:
        snapshot = self.cluster.snapshot
        snapshot.put_pool((DRIVER, name), None)
        self.schedule([SHAPES[4]], 1, 0)
        snapshot.put_pool((DRIVER, name), self.pools[name])

    @rule(name=st.sampled_from(NAMES))
    def update_node(self, name: str) -> None:
        known = self.cluster.snapshot.node(self.cluster.snapshot.row(name))
        self.cluster.snapshot.put_node(replace(known, labels={"round": str(self.made)}))

    @precondition(lambda self: self.cluster.snapshot.nodes())
    @rule(name=st.sampled_from(NAMES), index=st.integers(0, 2), withheld=st.booleans())
    def withhold_gpu(self, name: str, index: int, withheld: bool) -> None:
        """A node's GPU is to be partitioned, or no longer."""
        snapshot = self.cluster.snapshot
        known = snapshot.node(snapshot.row(name))
        assert known.layout is not None
        gpus = tuple(
            replace(gpu, withheld=withheld) if gpu.index == index else gpu
            for gpu in known.layout.gpus
        )
        offered = sum(gpu.is_offered for gpu in gpus)
        allocatable = {**known.allocatable, GPU: offered}
        snapshot.put_node(replace(known, layout=GpuLayout(gpus), allocatable=allocatable))

    @rule()
    def restart_scheduler(self) -> None:
        self.cluster = self.rebuild(self.cluster)

    def check_withheld(self, known: set[str]) -> None:
        """No pod that is not known got all of a GPU that is withheld, or a share of it."""
        snapshot = self.cluster.snapshot
        devices = {each.id: each for pool in self.pools.values() for each in pool.devices}
        for pod in snapshot.placements.keys() - known:
            placement = snapshot.placements[pod]
            gpus = snapshot.layout(placement.row).gpus
            taken = [(share.index, share.mask or WHOLE_GPU) for share in placement.devices]
            for allocation in placement.claims:
                assert allocation is not None
                for allocated in allocation.devices:
                    reference = devices[allocated.device].gpu
                    assert reference is not None
                    taken.append((reference.index, reference.mask))
            assert not any(mask == WHOLE_GPU and gpus[index].withheld for index, mask in taken)

    def rebuild(self, cluster: Cluster) -> Cluster:
        taken = take_snapshot(
            cluster,
            (),
            (),
            PlannerPolicy(),
            self.now,
            pools={(DRIVER, name): pool for name, pool in self.pools.items()},
            claims=self.foreign,
        )
        rebuilt = decode_snapshot(encode_snapshot(taken), Path("snapshot")).to_cluster()
        old, new = cluster.snapshot, rebuilt.snapshot
        for each in old.nodes():
            before, after = old.row(each.name), new.row(each.name)
            width = len(old.layout(before).gpus)
            assert old.gpu_mask[before, :width].tolist() == new.gpu_mask[after, :width].tolist(), (
                each.name
            )
        return rebuilt

    def is_free(self, name: str, device: Device) -> bool:
        assert device.gpu is not None
        used = self.usage()
        key, mask = (name, device.gpu.index), device.gpu.mask
        return not used.milli[key] and not any(
            used.slices[(*key, bit)] for bit in range(9) if mask >> bit & 1
        )

    def usage(self) -> "Usage":
        placements = self.cluster.snapshot.placements.values()
        allocations = [each.allocation for each in self.foreign.values()]
        named: dict[str, ClaimAllocation] = {}
        for placement in placements:
            for claim_name, allocation in zip(
                placement.member.claims, placement.claims, strict=True
            ):
                assert allocation is not None
                named[claim_name] = allocation
        devices = {each.id: each for pool in self.pools.values() for each in pool.devices}
        return Usage(self.cluster, placements, [*allocations, *named.values()], devices)

    @invariant()
    def nothing_is_given_twice(self) -> None:
        used = self.usage()
        for key, milli in used.milli.items():
            assert milli <= MILLI_PER_GPU, f"compute of GPU {key}"
            assert used.memory[key] <= MILLI_PER_GPU, f"memory of GPU {key}"
            sliced = any(used.slices[(*key, bit)] for bit in range(9))
            assert not (milli and sliced), f"GPU {key} is shared and sliced"
        for key, count in used.slices.items():
            assert count <= 1, f"slice {key}"


class Usage:
    """What is given of each GPU, recounted from placements and allocations alone."""

    def __init__(
        self,
        cluster: Cluster,
        placements: Iterable[PodPlacement],
        allocations: Iterable[ClaimAllocation],
        devices: dict[DeviceId, Device],
    ) -> None:
        self.milli: Counter[tuple[str, int]] = Counter()
        self.memory: Counter[tuple[str, int]] = Counter()
        self.slices: Counter[tuple[str, int, int]] = Counter()
        for placement in placements:
            name = cluster.snapshot.names[placement.row]
            for share in placement.devices:
                self.milli[name, share.index] += share.milli
                self.memory[name, share.index] += 0 if share.mask else share.memory_milli
                self._take(name, share.index, share.mask)
        for allocation in allocations:
            for allocated in allocation.devices:
                device = devices[allocated.device]
                assert device.gpu is not None
                self._take(device.node, device.gpu.index, device.gpu.mask)

    def _take(self, name: str, index: int, mask: int) -> None:
        self.slices.update((name, index, bit) for bit in range(9) if mask >> bit & 1)


def _member(name: str, shape: Shape) -> Member:
    claims = tuple(f"ns/{name}-{number}" for number in range(len(shape.claims)))
    return Member(f"ns/{name}", shape, claims=claims)


DeviceStateMachine.TestCase.settings = settings(
    max_examples=limit_examples(60), stateful_step_count=20, deadline=None
)
TestDeviceExclusivity = DeviceStateMachine.TestCase
