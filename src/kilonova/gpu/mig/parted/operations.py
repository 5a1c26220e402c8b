"""mig-parted's verbs on the devices of a node: assert, export and apply.

Unlike mig-parted, `apply` is incremental: instances that the config has and that exist stay, and
those in use count. A config that lacks an instance in use fails for its device, which is left as it
is, and for no other.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kilonova.gpu.devices.model import Device, NodeInventory
from kilonova.gpu.mig.engine import MigEngine
from kilonova.gpu.mig.execution.step_runner import DeviceResult
from kilonova.gpu.mig.parted.config_file import ConfigFile, ConfigRule
from kilonova.gpu.mig.parted.default_configs import PCI_IDS
from kilonova.gpu.mig.plan.occupancy import profile_name
from kilonova.gpu.mig.plan.planner import Target
from kilonova.gpu.mig.states import InstanceStatus, MigState


class ConfigOutcome(msgspec.Struct, frozen=True):
    """What became of a config."""

    problems: tuple[str, ...] = ()
    """Why it is not in force; empty if it is."""
    results: tuple[DeviceResult, ...] = ()

    @property
    def is_applied(self) -> bool:
        return not self.problems


def select_rules(
    rules: Sequence[ConfigRule], inventory: NodeInventory
) -> tuple[Mapping[str, ConfigRule], tuple[str, ...]]:
    """The rule for each device, by UUID, and what is wrong; of several, the last one counts.

    A rule for all devices leaves out those without MIG; one that names such a device is wrong.
    """
    selected: dict[str, ConfigRule] = {}
    problems: list[str] = []
    known = {device.index for device in inventory.devices}
    for rule in rules:
        problems += [
            f"devices: there is no device {index}"
            for index in rule.devices or ()
            if index not in known
        ]
        for device in inventory.devices:
            if not _is_meant(rule, device):
                continue
            if device.geometry is not None:
                selected[device.uuid] = rule
            elif rule.devices is not None and rule.mig_enabled:
                problems.append(f"device {device.index}: {device.product} does not support MIG")
    return selected, tuple(problems)


def check_config(rules: Sequence[ConfigRule], inventory: NodeInventory) -> tuple[str, ...]:
    """How the devices differ from a config; nothing if it is in force."""
    selected, problems = select_rules(rules, inventory)
    differences = list(problems)
    for device in inventory.devices:
        rule = selected.get(device.uuid)
        if rule is None:
            continue
        if rule.mig_enabled != device.mig_enabled:
            state = "enabled" if device.mig_enabled else "disabled"
            differences.append(f"device {device.index}: MIG mode is {state}")
        wanted = _canonical(device, rule.counts)
        there = _canonical(device, Counter(_profiles(device)))
        if wanted != there:
            differences.append(
                f"device {device.index}: has {_describe(there)} instead of {_describe(wanted)}"
            )
    return tuple(differences)


def export_config(inventory: NodeInventory, name: str = "current") -> ConfigFile:
    """The config that is in force, such as `mig-parted export` writes it."""
    groups: dict[tuple[bool, tuple[tuple[str, int], ...]], list[int]] = {}
    for device in inventory.devices:
        if device.geometry is None:
            continue
        counts = Counter(_profiles(device))
        key = (device.mig_enabled, tuple(sorted(counts.items())))
        groups.setdefault(key, []).append(device.index)
    return {
        name: tuple(
            ConfigRule(enabled, counts, devices=tuple(indices))
            for (enabled, counts), indices in groups.items()
        )
    }


def plan_config(
    rules: Sequence[ConfigRule], inventory: NodeInventory, instances: Iterable[InstanceStatus]
) -> tuple[Mapping[str, Target], tuple[str, ...]]:
    """The targets of devices for a config, and why others cannot have it."""
    selected, problems = select_rules(rules, inventory)
    held: dict[str, list[InstanceStatus]] = {}
    for each in instances:
        if each.holder or each.state is MigState.IN_USE:
            held.setdefault(each.device, []).append(each)
    targets: dict[str, Target] = {}
    found = list(problems)
    for device in inventory.devices:
        rule = selected.get(device.uuid)
        if rule is None:
            continue
        wanted = _canonical(device, rule.counts)
        used = Counter(each.slot.profile for each in held.get(device.uuid, ()))
        surplus = used - wanted
        if surplus:
            who = ", ".join(
                f"{each.slot} of {each.holder or 'a process'}"
                for each in held[device.uuid]
                if surplus[each.slot.profile]
            )
            found.append(f"device {device.index}: in use, and not in the config: {who}")
            continue
        stock = tuple((wanted - used).elements())
        targets[device.uuid] = Target(stock=stock, is_exact=True, mig_enabled=rule.mig_enabled)
    return targets, tuple(found)


async def apply_config(
    engine: MigEngine, rules: Sequence[ConfigRule], *, is_dry_run: bool = False
) -> ConfigOutcome:
    """Bring the devices of a node to a config."""
    inventory = engine.inventory
    targets, problems = plan_config(rules, inventory, engine.instances)
    results = await engine.apply(targets, is_dry_run=is_dry_run, is_whole=True)
    index = {device.uuid: device.index for device in inventory.devices}
    failed = [
        f"device {index[each.device]}: {problem}"
        for each in results
        for problem in (*each.refusals, *([each.failure] if each.failure else []))
    ]
    return ConfigOutcome((*problems, *failed), results)


def _is_meant(rule: ConfigRule, device: Device) -> bool:
    if rule.devices is not None and device.index not in rule.devices:
        return False
    if not rule.device_filter:
        return True
    if device.pci_id:
        return device.pci_id in rule.device_filter
    # A backend that cannot read the id may know the geometry.
    known = PCI_IDS.get(device.geometry.name, ()) if device.geometry is not None else ()
    return bool(set(known) & set(rule.device_filter))


def _profiles(device: Device) -> list[str]:
    return [each.profile for each in device.instances if not each.is_partial]


def _canonical(device: Device, counts: Mapping[str, int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, count in counts.items():
        found[name if device.geometry is None else profile_name(device.geometry, name)] += count
    return found


def _describe(counts: Mapping[str, int]) -> str:
    parts = [f"{count}×{name}" for name, count in sorted(counts.items()) if count]
    return ", ".join(parts) or "no instance"
