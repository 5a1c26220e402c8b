"""What the kubelet counts, and which of it it should pick."""

from msgspec.structs import replace

from kilonova.api.gpu.annotations import DeviceAssignment, InvalidAnnotation, parse_devices
from kilonova.catalog.resource_names import GPU
from kilonova.gpu.deviceplugin.plugin import list_devices
from kilonova.gpu.deviceplugin.plugin_devices import (
    SHARED_GPU,
    Advertisement,
    build_plugin_devices,
    prefer_devices,
)
from kilonova.gpu.devices.model import HealthState, MigInstance, NodeInventory
from tests.gpu.deviceplugin.node_pods import machine, with_health, with_withheld

NODE = machine("h100:2")
FIRST, SECOND = (each.uuid for each in NODE.devices)
SMALL = "nvidia.com/mig-1g.10gb"


def test_every_profile_has_as_many_slots_as_instances_could_exist() -> None:
    devices = build_plugin_devices(NODE)
    assert {name: len(each) for name, each in devices.items()} == {
        GPU: 2,
        SMALL: 14,
        "nvidia.com/mig-1g.10gb.me": 2,
        "nvidia.com/mig-1g.20gb": 8,
        "nvidia.com/mig-2g.20gb": 6,
        "nvidia.com/mig-3g.40gb": 4,
        "nvidia.com/mig-4g.40gb": 2,
        "nvidia.com/mig-7g.80gb": 2,
    }
    assert [each.id for each in devices[GPU]] == [FIRST, SECOND]


def test_only_what_exists_is_advertised_to_other_schedulers() -> None:
    devices = build_plugin_devices(_sliced(), Advertisement.EXISTING)
    ids = {name: [device.id for device in each] for name, each in devices.items()}
    assert ids == {GPU: [SECOND], SMALL: ["MIG-1"]}


def test_shares_have_slots_where_they_are_configured() -> None:
    devices = build_plugin_devices(NODE, shares_per_gpu=3)
    assert [each.id for each in devices[SHARED_GPU]][:4] == [
        f"{FIRST}::0",
        f"{FIRST}::1",
        f"{FIRST}::2",
        f"{SECOND}::0",
    ]


def test_health_and_numa_node_reach_the_kubelet() -> None:
    node = with_health(with_health(NODE, 0, HealthState.DEGRADED), 1, HealthState.UNHEALTHY)
    first, second = list_devices(build_plugin_devices(node)[GPU])
    assert (first.health, second.health) == ("Healthy", "Unhealthy")
    assert [each.id for each in first.topology.nodes] == [NODE.devices[0].numa]
    unknown = replace(NODE, devices=(replace(NODE.devices[0], numa=-1),))
    assert not list_devices(build_plugin_devices(unknown)[GPU])[0].HasField("topology")


def test_gpu_that_is_to_be_partitioned_counts_by_its_instances_alone() -> None:
    devices = build_plugin_devices(with_withheld(NODE, 1), shares_per_gpu=2)
    unhealthy = {
        name: [device.id for device in each if not device.is_healthy]
        for name, each in devices.items()
    }
    assert {name: ids for name, ids in unhealthy.items() if ids} == {
        GPU: [SECOND],
        SHARED_GPU: [f"{SECOND}::0", f"{SECOND}::1"],
    }


def test_gpu_that_is_to_be_partitioned_counts_while_a_pod_has_it() -> None:
    devices = build_plugin_devices(with_withheld(NODE, 1), shares_per_gpu=2, held={SECOND})
    assert all(device.is_healthy for each in devices.values() for device in each)


def test_ids_of_the_assigned_devices_are_preferred() -> None:
    devices = build_plugin_devices(NODE)
    both = [FIRST, SECOND]
    assert prefer_devices(devices[GPU], both, (), 1, _assigned("1")) == (SECOND,)
    # What the kubelet requires comes first, and what is not available is not chosen.
    assert prefer_devices(devices[GPU], both, [FIRST], 1, _assigned("1")) == (FIRST,)
    assert prefer_devices(devices[GPU], [FIRST], (), 1, _assigned("1")) == (FIRST,)
    every = [each.id for each in devices[SMALL]]
    wanted = _assigned("1:1g.10gb@4,1:1g.10gb@0,0:1g.10gb@6")
    assert prefer_devices(devices[SMALL], every, (), 3, wanted) == (
        f"{SECOND}/1g.10gb/0",
        f"{SECOND}/1g.10gb/1",
        f"{FIRST}/1g.10gb/0",
    )


def test_existing_instance_that_is_assigned_is_preferred() -> None:
    devices = build_plugin_devices(_sliced("MIG-1", "MIG-2"), Advertisement.EXISTING)[SMALL]
    assert prefer_devices(devices, ["MIG-1", "MIG-2"], (), 1, _assigned("0:1g.10gb@1")) == (
        "MIG-2",
    )


def test_without_assignment_slots_of_the_fullest_gpu_are_preferred() -> None:
    devices = build_plugin_devices(NODE)[SMALL]
    available = [each.id for each in devices if each.id != f"{SECOND}/1g.10gb/3"]
    chosen = prefer_devices(devices, available, (), 2, ())
    assert chosen == (f"{SECOND}/1g.10gb/0", f"{SECOND}/1g.10gb/1")


def _sliced(*uuids: str) -> NodeInventory:
    """The first GPU has instances."""
    instances = tuple(
        MigInstance(uuid, "1g.10gb", start) for start, uuid in enumerate(uuids or ("MIG-1",))
    )
    first, second = NODE.devices
    return replace(NODE, devices=(replace(first, mig_enabled=True, instances=instances), second))


def _assigned(text: str) -> tuple[DeviceAssignment, ...]:
    parsed = parse_devices(text)
    assert not isinstance(parsed, InvalidAnnotation)
    return parsed
