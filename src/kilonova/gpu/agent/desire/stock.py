"""What the devices of a node should have in stock: by its MIGStrategy, or by the label
`nvidia.com/mig.config`, which takes precedence. Pure.

Devices that are to be partitioned are **withheld**: no pod gets all of one, or a share, from the
moment that config or strategy is known. Otherwise a pod could start on the whole device before it
is partitioned, and keep it from that for as long as it runs.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kilonova.api.gpu.annotations import InvalidAnnotation
from kilonova.api.gpu.mig_strategy import NodeMigStrategy, parse_mig_strategy
from kilonova.catalog.mig import Slot
from kilonova.gpu.agent.desire.conditions import MigProblem
from kilonova.gpu.agent.desire.mig import Stock
from kilonova.gpu.agent.holders import Holder
from kilonova.gpu.agent.resources import Node
from kilonova.gpu.devices.model import Device, HealthState, NodeInventory
from kilonova.gpu.mig.parted.config_file import ConfigFile
from kilonova.gpu.mig.parted.labels import CONFIG_LABEL, STATE_LABEL
from kilonova.gpu.mig.parted.node_label import (
    decide_config,
    state_labels,
)
from kilonova.gpu.mig.parted.operations import plan_config, select_rules
from kilonova.gpu.mig.plan.stock import StockDevice, count_by_distribution, plan_stock
from kilonova.gpu.mig.states import InstanceStatus


class StockDecision(msgspec.Struct, frozen=True):
    """What should be in stock, by the UUID of the device, and what to report of it."""

    stock: Mapping[str, Stock] = {}
    problems: tuple[MigProblem, ...] = ()
    labels: Mapping[str, str | None] = {}
    """Labels of the Node; None removes one."""
    replaces: bool = False
    """Whether instances that exist are given up for others."""
    withheld: Mapping[str, str] = {}
    """Why devices are given to pods as MIG instances only, by UUID."""


def decide_stock(
    node: Node,
    inventory: NodeInventory,
    holders: Sequence[Holder],
    instances: Sequence[InstanceStatus],
    configs: ConfigFile,
    *,
    failure: str = "",
    may_replace: bool = True,
) -> StockDecision:
    """The stock of a node. `failure` is why the last change has failed; `may_replace` indicates
    that the interval of its strategy has passed."""
    if node.metadata.labels.get(CONFIG_LABEL):
        return _decide_config(node, inventory, instances, configs, failure)
    stale: dict[str, str | None] = (
        {STATE_LABEL: None} if STATE_LABEL in node.metadata.labels else {}
    )
    text = node.metadata.annotations.strategy
    if not text:
        return StockDecision(labels=stale)
    strategy = parse_mig_strategy(text)
    if isinstance(strategy, InvalidAnnotation):
        return StockDecision(problems=(MigProblem("InvalidStrategy", str(strategy)),), labels=stale)
    decision = _decide_strategy(strategy, inventory, holders, instances, may_replace)
    return replace(decision, labels=stale)


def _decide_config(
    node: Node,
    inventory: NodeInventory,
    instances: Sequence[InstanceStatus],
    configs: ConfigFile,
    failure: str,
) -> StockDecision:
    decision = decide_config(node.metadata.labels, configs, inventory, failure)
    wanted = state_labels(decision)
    present = node.metadata.labels
    labels = {name: value for name, value in wanted.items() if present.get(name) != value}
    rules = configs.get(node.metadata.labels[CONFIG_LABEL])
    if rules is None:
        return StockDecision(
            problems=(MigProblem("UnknownConfig", decision.message),), labels=labels
        )
    targets, problems = plan_config(rules, inventory, instances)
    selected, _ = select_rules(rules, inventory)
    reason = f"label {CONFIG_LABEL}: {node.metadata.labels[CONFIG_LABEL]}"
    return StockDecision(
        {
            uuid: Stock(each.stock, each.is_exact, each.mig_enabled)
            for uuid, each in targets.items()
        },
        tuple(MigProblem("ConfigNotApplied", each) for each in problems),
        labels,
        withheld={uuid: reason for uuid, rule in selected.items() if rule.mig_enabled},
    )


def _decide_strategy(
    strategy: NodeMigStrategy,
    inventory: NodeInventory,
    holders: Sequence[Holder],
    instances: Sequence[InstanceStatus],
    may_replace: bool,
) -> StockDecision:
    whole = {each.index for holder in holders for each in holder.devices if not each.profile}
    included = [
        device
        for device in inventory.devices
        if device.geometry is not None
        and strategy.includes(device.index)
        and device.health.state is not HealthState.UNHEALTHY
    ]
    able = [device for device in included if device.index not in whole]
    used = {each.uuid for each in instances if each.holder}
    existing = [each for device in able for each in device.instances]
    in_use = sum(each.uuid in used for each in existing)
    is_low = not existing or in_use / len(existing) < strategy.min_utilization
    replaces = strategy.dynamic and is_low and may_replace
    devices = [_stock_device(each, holders, used, replaces) for each in able]
    wanted = count_by_distribution(devices, strategy.profiles)
    plan = plan_stock(devices, wanted)
    # What has no place on empty devices either is what fractions leave over on whole slices.
    left_over: Mapping[str, int] = {}
    if plan.missing:
        left_over = plan_stock(_list_empty(able), wanted).missing
    problems = tuple(
        MigProblem(
            "StockNotPlaced",
            f"strategy {strategy.name}: {count} of {plan.wanted[name]} instances of {name} have "
            "no place",
            is_pending=True,
        )
        for name, count in sorted(plan.missing.items())
        if count > left_over.get(name, 0)
    )
    given_up = any(
        len(device.unused) > sum(name in plan.stock[device.uuid] for name in _names(device))
        for device in devices
    )
    later = _plan_later(strategy, included) if len(able) < len(included) else frozenset[str]()
    reason = f"MIGStrategy {strategy.name}"
    return StockDecision(
        {uuid: Stock(profiles, replaces) for uuid, profiles in plan.stock.items()},
        problems if replaces or not existing else (),
        replaces=replaces and given_up,
        withheld={
            each.uuid: reason
            for each in included
            if each.instances or plan.stock.get(each.uuid) or each.uuid in later
        },
    )


def _plan_later(strategy: NodeMigStrategy, devices: Sequence[Device]) -> frozenset[str]:
    """The devices that would have stock if no pod had any of them: such a device is not offered
    again when the pod that has all of it ends."""
    empty = _list_empty(devices)
    plan = plan_stock(empty, count_by_distribution(empty, strategy.profiles))
    return frozenset(uuid for uuid, profiles in plan.stock.items() if profiles)


def _list_empty(devices: Sequence[Device]) -> Sequence[StockDevice]:
    """The devices, as if nothing were on them."""
    return [StockDevice(x.uuid, x.geometry) for x in devices if x.geometry is not None]


def _names(device: StockDevice) -> list[str]:
    return [each.profile for each in device.unused]


def _stock_device(
    device: Device, holders: Sequence[Holder], used: set[str], replaces: bool
) -> StockDevice:
    assert device.geometry is not None
    pinned = {
        Slot(each.profile, each.start)
        for holder in holders
        for each in holder.devices
        if each.index == device.index and each.profile
    }
    free = {
        Slot(each.profile, each.start)
        for each in device.instances
        if each.uuid not in used and not each.is_partial
    } - pinned
    present = {Slot(each.profile, each.start) for each in device.instances}
    held = pinned | (present - free if replaces else present)
    return StockDevice(
        device.uuid,
        device.geometry,
        tuple(sorted(held)),
        tuple(sorted(free)) if replaces else (),
        device.mig_enabled,
    )
