"""The MIG instances that devices should have."""

from kilonova.api.gpu.health import HealthRecord
from kilonova.catalog.mig import Slot
from kilonova.gpu.agent.desire.mig import Stock, desire_mig, is_idle, list_pending
from kilonova.gpu.mig.plan.planner import PinnedInstance, Target
from tests.gpu.agent.builders import holder, machine, with_device, with_instances


def test_assigned_instances_are_pinned_and_protected() -> None:
    inventory = with_instances(machine(), 0, "1g.10gb@0", "1g.10gb@1")
    first = inventory.devices[0]
    pods = [holder("a", "0:1g.10gb@0"), holder("b", "0:3g.40gb@4")]
    desired = desire_mig(inventory, pods, {}, {})
    assert desired.targets == {
        first.uuid: Target(
            (
                PinnedInstance(Slot("1g.10gb", 0), "default/a"),
                PinnedInstance(Slot("3g.40gb", 4), "default/b"),
            )
        )
    }
    assert desired.protected == {first.instances[0].uuid}
    pending = list_pending(inventory, desired)
    assert [each.message for each in pending] == ["creating 3g.40gb@4 on GPU 0 for default/b"]
    assert pending[0].is_pending


def test_device_that_is_assigned_as_a_whole_leaves_mig_mode() -> None:
    inventory = with_instances(machine(), 0, "1g.10gb@0")
    desired = desire_mig(inventory, [holder("a", "0,1")], {}, {})
    assert desired.targets == {inventory.devices[0].uuid: Target(mig_enabled=False)}
    assert [each.reason for each in list_pending(inventory, desired)] == ["DisablingMIGMode"]


def test_share_of_a_device_counts_as_the_whole_for_its_mode() -> None:
    inventory = with_device(machine(), 0, mig_enabled=True)
    desired = desire_mig(inventory, [holder("a", "0:500")], {}, {})
    assert desired.targets == {inventory.devices[0].uuid: Target(mig_enabled=False)}


def test_device_that_nobody_has_stays_as_it_is() -> None:
    inventory = with_instances(machine(), 0, "1g.10gb@0")
    assert desire_mig(inventory, [], {}, {}).targets == {}


def test_device_that_was_idle_for_long_leaves_mig_mode() -> None:
    inventory = with_instances(machine(), 0, "1g.10gb@0")
    uuid = inventory.devices[0].uuid
    first = desire_mig(inventory, [], {}, {})
    assert [is_idle(each, first, {}) for each in inventory.devices] == [True, False]
    expired = desire_mig(inventory, [], {}, {}, frozenset({uuid}))
    assert expired.targets == {uuid: Target(mig_enabled=False)}


def test_stock_keeps_a_device_in_mig_mode() -> None:
    inventory = with_instances(machine(), 0, "1g.10gb@0")
    uuid = inventory.devices[0].uuid
    stock = {uuid: Stock(("1g.10gb", "3g.40gb"))}
    desired = desire_mig(inventory, [], {}, stock)
    assert desired.targets == {uuid: Target((), ("1g.10gb", "3g.40gb"))}
    assert not is_idle(inventory.devices[0], desired, stock)


def test_stock_comes_after_what_pods_have() -> None:
    inventory = machine()
    uuid = inventory.devices[0].uuid
    stock = {uuid: Stock(("1g.10gb",))}
    pinned = desire_mig(inventory, [holder("a", "0:3g.40gb@0")], {}, stock)
    assert pinned.targets[uuid].stock == ("1g.10gb",)
    assert pinned.targets[uuid].pinned
    whole = desire_mig(inventory, [holder("a", "0")], {}, stock)
    assert whole.targets == {}


def test_unhealthy_device_is_left_alone_and_its_instances_protected() -> None:
    inventory = with_instances(machine(), 0, "1g.10gb@0")
    device = inventory.devices[0]
    record = HealthRecord("Unhealthy", "XID 48", "2026-05-01T12:00:00Z")
    desired = desire_mig(
        inventory, [holder("a", "0:1g.10gb@0")], {device.uuid: record}, {device.uuid: Stock()}
    )
    assert desired.targets == {}
    assert desired.protected == {device.instances[0].uuid}
